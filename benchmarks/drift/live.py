"""``topiarist drift --live`` over clusters that are chroots of one real ZooKeeper, 500 topics each, as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks import fleets
from benchmarks.cli import clusters
from benchmarks.common import compile_package, make_memory_folder, run_process, topiarist_command
from benchmarks.drift.processes import measure_roles, start_process

from support.zookeeper.proxy import Proxy
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

TOPICS = 500

_SELECTOR = "spec:\n  clusterSelector: {matchLabels: {env: prod}}\n"


def measure(number: int, topics: int = TOPICS) -> dict[str, Any]:
    """Return the median of three runs, and what a proxy counts in one more: requests and writes."""
    with (
        make_memory_folder() as name,
        EmbeddedZooKeeper(jvm_options=["-Xmx3g"]) as server,
        fleets.create_clusters(server, number, topics) as found,
    ):
        folder = Path(name, "manifests")
        clusters.write_manifests(folder, topics)
        for path in folder.rglob("*.yaml"):
            path.write_text(path.read_text().replace("spec:\n", _SELECTOR, 1))
        _write_documents(folder, found)
        out = ["--live", "--engine", "python", "--out", str(Path(name, "report")), "-q"]
        command = topiarist_command("drift", str(folder), *out)
        runs = [measure_roles(start_process(command)).summarize() for _ in range(3)]
        summary = json.loads(Path(name, "report", "summary.json").read_text())
        with Proxy(server.connect) as proxy:
            _write_documents(folder, {cluster: proxy.through(connect) for cluster, connect in found.items()})
            run_process(command)
            requests, writes = sum(proxy.requests.values()), proxy.writes
    return {
        "clusters": number,
        "topics": summary["topics"]["compared"],
        "findings": summary["findings"]["total"],
        **sorted(runs, key=lambda run: run["seconds"])[1],
        "requests_per_cluster": round(requests / number, 1),
        "writes": writes,
    }


def _write_documents(folder: Path, connects: dict[str, str]) -> None:
    """Write the documents of the clusters, all with one label for the selector."""
    path = fleets.write_documents(folder, connects)
    path.write_text(path.read_text().replace("metadata: {name: ", "metadata: {labels: {env: prod}, name: "))


if __name__ == "__main__":
    compile_package()
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 200)))
