"""G15: one ``topiarist plan`` over 50 clusters of 1,000 topics, each topic in a file of its own, nothing to do.

The same run measures as many topics on one cluster; the difference is the cost of the sessions. The gates hold on any
machine: no write, at most 30 requests per cluster, and at most 1.5 times the time of the single cluster.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from benchmarks.cli import clusters as clusters_
from benchmarks.common import FULL_JIT, RUNS, make_memory_folder, run_process, summarize_runs, topiarist_command
from benchmarks.engine.planning import adopted_cluster
from benchmarks.engine.planning import plan_command as plan_one
from support.zookeeper.proxy import Proxy
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

CLUSTERS, TOPICS = 50, 1_000

_CLUSTER_DOCUMENT = """\
apiVersion: topiarist.dev/v1
kind: Cluster
metadata: {{name: {name}}}
spec: {{zookeeper: {{connect: "{connect}"}}, clusterId: {name}, kafkaVersion: "3.9"}}
"""


@contextmanager
def create_clusters(server: EmbeddedZooKeeper, number: int, topics: int) -> Iterator[dict[str, str]]:
    """Create clusters, each with its own id and ``topics`` topics; yield their connect strings by name."""
    with ExitStack() as stack:
        found = {}
        for one in range(number):
            name = f"cluster-{one:03d}"
            found[name] = stack.enter_context(clusters_.seeded_cluster(server, name, topics))
            client = KazooClient(found[name])
            client.start()
            client.set("/cluster/id", json.dumps({"version": "1", "id": name}).encode())
            client.stop()
            client.close()
        yield found


def write_documents(folder: Path, connects: dict[str, str]) -> Path:
    """Write one ``Cluster`` document for each connect string into one file below ``folder``."""
    path = folder / "clusters.yaml"
    path.write_text("---\n".join(_CLUSTER_DOCUMENT.format(name=name, connect=at) for name, at in connects.items()))
    return path


def write_topics(folder: Path, names: list[str], topics: int) -> None:
    """Write a file for each topic of each cluster."""
    for name in names:
        clusters_.write_manifests(folder / name, topics)
        for path in (folder / name).rglob("*.yaml"):
            text = path.read_text().replace("name: team.", f"name: {name}.team.", 1)
            text = text.replace("spec:\n", f"spec:\n  topicName: {topic_of_file(path)}\n  clusters: [{name}]\n", 1)
            path.write_text(text)


def topic_of_file(path: Path) -> str:
    """Return the topic of a file of ``clusters.write_manifests``."""
    return clusters_.topic_name(int(path.stem))


def plan_command(folder: Path, *more: str) -> list[str]:
    """Return the measured command; its exit code is 0 only without changes and errors."""
    return topiarist_command("plan", str(folder), "--exit-code", *more)


def measure(number: int = CLUSTERS, topics: int = TOPICS) -> dict[str, Any]:
    """Measure many clusters in turns with one cluster of as many topics, so that other load affects both."""
    with (
        adopted_cluster(number * topics) as (_, connect, one),
        make_memory_folder() as name,
        EmbeddedZooKeeper(jvm_options=["-Xmx2g", FULL_JIT]) as server,
        create_clusters(server, number, topics) as found,
    ):
        folder = Path(name)
        write_topics(folder, list(found), topics)
        write_documents(folder, found)
        run_process(topiarist_command("apply", name, "--adopt=*", "--yes"))
        run_process(plan_command(folder))
        turns = [(run_process(plan_command(folder)), run_process(plan_one(one, connect))) for _ in range(RUNS)]
        with Proxy(server.connect) as proxy:
            write_documents(folder, {name: proxy.through(connect) for name, connect in found.items()})
            run_process(plan_command(folder))
            requests, writes = sum(proxy.requests.values()), proxy.writes
    many, single = summarize_runs([many for many, _ in turns]), summarize_runs([one for _, one in turns])
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
