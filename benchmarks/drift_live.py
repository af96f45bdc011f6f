"""``topiarist drift --live`` over many clusters, by this process and by Spark's executors, whole processes each.

The clusters are chroots of one real ZooKeeper on this machine, which has a part in every figure. Both engines must find
the same. Seconds are printed and decide nothing.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from kazoo.client import KazooClient  # noqa: E402

from benchmarks.common import RUNS, compile_package, machine, medians, memory_folder, process, topiarist  # noqa: E402
from benchmarks.fleet import BROKERS, config, name, topic  # noqa: E402
from support.runs import document  # noqa: E402
from topiarist.adapters.embedded import EmbeddedZooKeeper  # noqa: E402
from topiarist.adapters.playground.seed import add_topics, seed  # noqa: E402

ENGINES = ("python", "spark")

_USUAL = {"CLUSTERS": 200, "TOPICS": 500, "RUNS": 3}


def make(server: EmbeddedZooKeeper, clusters: int, topics: int) -> dict[str, str]:
    """Clusters of so many topics each, as others made them; the connect string of each, by name."""
    found = {f"cluster-{number:04d}": f"{server.connect}/cluster-{number:04d}" for number in range(clusters)}
    for each, connect in found.items():
        outside = KazooClient(server.connect)
        outside.start()
        outside.create(f"/{each}", b"")
        client = KazooClient(connect, timeout=60.0)
        client.start()
        seed(client, BROKERS, (3, 9))
        client.set("/cluster/id", json.dumps({"version": "1", "id": each}).encode())
        add_topics(client, map(topic, range(topics)), (3, 9))
        for one in (client, outside):
            one.stop()
            one.close()
    return found


def manifests(folder: Path, connects: dict[str, str], topics: int) -> Path:
    """Documents of the clusters, and topics for all of them; one in a hundred is not as it is there."""
    chosen = {"clusters": list(connects), "partitions": 12, "replicationFactor": 3}
    documents = [document("Cluster", each, zookeeper={"connect": at}) for each, at in connects.items()]
    for number in range(topics):
        wanted = {**config(number), **({"retention.ms": "1"} if number % 100 == 0 else {})}
        documents.append(document("Topic", name(number), **chosen, config=wanted))
    (folder / "all.yaml").write_text("\n---\n".join(documents))
    return folder


def measure(clusters: int, topics: int, runs: int = RUNS) -> dict[str, Any]:
    """Both engines in turns, after a run each that does not count. Raises if they differ."""
    with memory_folder() as place, EmbeddedZooKeeper(java=("-Xmx2g",)) as server:
        folder = Path(place)
        (folder / "manifests").mkdir()
        given = manifests(folder / "manifests", make(server, clusters, topics), topics)
        taken: dict[str, list[Any]] = {engine: [] for engine in ENGINES}
        for turn in range(runs + 1):
            for engine in ENGINES:
                words = [str(given), "--live", "--engine", engine, "--out", str(folder / engine), "-q"]
                run = process(topiarist("drift", *words))
                if turn:
                    taken[engine].append(run)
        found = [findings(folder / engine) for engine in ENGINES]
    if found[0] != found[1] or not found[0]:
        raise RuntimeError("the two engines did not find the same")
    return {
        "clusters": clusters,
        "topics": clusters * topics,
        "findings": len(found[0]),
        **{engine: medians(taken[engine]) for engine in ENGINES},
    }


def findings(out: Path) -> list[dict[str, Any]]:
    """The findings of a report, without the times."""
    rows = map(json.loads, (out / "findings.jsonl").read_text().splitlines())
    return [{**row, "takenAt": "", "firstSeen": ""} for row in rows]


def main() -> int:
    """Print the figures: CLUSTERS=200 TOPICS=500 RUNS=3, if the environment says so."""
    compile_package()
    sizes = {each: int(os.environ.get(each) or usual) for each, usual in _USUAL.items()}
    figures = measure(sizes["CLUSTERS"], sizes["TOPICS"], sizes["RUNS"])
    print(json.dumps({"command": "make bench-drift-live", "machine": machine(), **figures}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
