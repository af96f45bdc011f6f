"""G15: one ``topiarist plan`` over 50 clusters of 1,000 topics, each topic in a file of its own, nothing to do.

Beside it, in the same run, the same topics on one cluster: what many clusters cost beyond that is sessions. The figures
that hold on any machine: no write, at most 30 requests a cluster, and at most one and a half times the time of the one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from benchmarks import fleet
from benchmarks.common import FULL_JIT, RUNS, medians, memory_folder, process, topiarist
from benchmarks.planning import adopted
from benchmarks.planning import command as plan_one
from support.proxy import Proxy
from topiarist.adapters.embedded import EmbeddedZooKeeper

CLUSTERS, TOPICS = 50, 1_000

_CLUSTER = """\
apiVersion: topiarist.dev/v1
kind: Cluster
metadata: {{name: {name}}}
spec: {{zookeeper: {{connect: "{connect}"}}, clusterId: {name}, kafkaVersion: "3.9"}}
"""


@contextmanager
def clusters(server: EmbeddedZooKeeper, number: int, topics: int) -> Iterator[dict[str, str]]:
    """So many clusters of so many topics, each with an id of its own; gives their connect strings by name."""
    with ExitStack() as stack:
        found = {}
        for one in range(number):
            name = f"cluster-{one:03d}"
            found[name] = stack.enter_context(fleet.cluster(server, name, topics))
            client = KazooClient(found[name])
            client.start()
            client.set("/cluster/id", json.dumps({"version": "1", "id": name}).encode())
            client.stop()
            client.close()
        yield found


def write_documents(folder: Path, connects: dict[str, str]) -> Path:
    """One ``Cluster`` document for each connect string, in one file below ``folder``."""
    path = folder / "clusters.yaml"
    path.write_text("---\n".join(_CLUSTER.format(name=name, connect=at) for name, at in connects.items()))
    return path


def write_topics(folder: Path, names: list[str], topics: int) -> None:
    """A file for each topic of each cluster."""
    for name in names:
        fleet.write_manifests(folder / name, topics)
        for path in (folder / name).rglob("*.yaml"):
            text = path.read_text().replace("name: team.", f"name: {name}.team.", 1)
            text = text.replace("spec:\n", f"spec:\n  topicName: {path_topic(path)}\n  clusters: [{name}]\n", 1)
            path.write_text(text)


def path_topic(path: Path) -> str:
    """The topic that a file of ``fleet.write_manifests`` is about."""
    return fleet.name(int(path.stem))


def command(folder: Path, *more: str) -> list[str]:
    """The plan that is measured; ends with 0 only if nothing is pending and nothing has failed."""
    return topiarist("plan", str(folder), "--exit-code", *more)


def measure(number: int = CLUSTERS, topics: int = TOPICS) -> dict[str, Any]:
    """The whole process over many clusters, in turns with one of as many topics: what disturbs one disturbs both."""
    with (
        adopted(number * topics) as (_, connect, one),
        memory_folder() as name,
        EmbeddedZooKeeper(java=["-Xmx2g", FULL_JIT]) as server,
        clusters(server, number, topics) as found,
    ):
        folder = Path(name)
        write_topics(folder, list(found), topics)
        write_documents(folder, found)
        process(topiarist("apply", name, "--adopt=*", "--yes"))
        process(command(folder))
        turns = [(process(command(folder)), process(plan_one(one, connect))) for _ in range(RUNS)]
        with Proxy(server.connect) as proxy:
            write_documents(folder, {name: proxy.through(connect) for name, connect in found.items()})
            process(command(folder))
            requests, writes = sum(proxy.requests.values()), proxy.writes
    many, single = medians([many for many, _ in turns]), medians([one for _, one in turns])
    return {
        "clusters": number,
        "topics": number * topics,
        **many,
        "one_cluster_seconds": single["seconds"],
        "times_one_cluster": round(many["seconds"] / single["seconds"], 2),
        "requests": requests,
        "requests_per_cluster": round(requests / number, 1),
        "writes": writes,
    }


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:])), indent=2))
