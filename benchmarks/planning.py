"""G1 and G2: ``topiarist plan`` as a whole process, with nothing to do, over 10,000 and 100,000 topics; and G5, its
server.

The figures that hold on any machine: no write, at most 140 ZooKeeper requests for 10,000 topics (30,000 znodes), and a
time per topic that does not grow with their number.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import fleet
from benchmarks.common import FULL_JIT, RUNS, Run, cpu_of, medians, memory_folder, process, topiarist
from support.proxy import Proxy
from topiarist.adapters.embedded import EmbeddedZooKeeper


@contextmanager
def adopted(count: int) -> Iterator[tuple[EmbeddedZooKeeper, str, Path]]:
    """A cluster of ``count`` topics with records, the connect string, and the folder of their manifests."""
    with (
        memory_folder() as folder,
        EmbeddedZooKeeper(java=["-Xmx4g", FULL_JIT]) as server,
        fleet.cluster(server, f"n{count}", count) as connect,
    ):
        fleet.write_manifests(Path(folder), count)
        process(topiarist("apply", folder, "--zookeeper", connect, "--kafka-version", "3.9", "--adopt=*", "--yes"))
        yield server, connect, Path(folder)


def command(folder: Path, connect: str) -> list[str]:
    """The plan that is measured; ends with 0 only if nothing is pending."""
    return topiarist("plan", str(folder), "--zookeeper", connect, "--kafka-version", "3.9", "--exit-code")


def measure(count: int = 10_000) -> dict[str, Any]:
    """The whole process, its requests, and the CPU that it costs the server."""
    with adopted(count) as (server, connect, folder):
        runs: list[Run] = []
        server_cpu: list[float] = []
        process(command(folder, connect))
        for _ in range(RUNS):
            before = cpu_of(server.pid)
            runs.append(process(command(folder, connect)))
            server_cpu.append(cpu_of(server.pid) - before)
        with Proxy(server.connect) as proxy:
            process(command(folder, proxy.through(connect)))
            requests, writes = sum(proxy.requests.values()), proxy.writes
    figures = medians(runs)
    return {
        "topics": count,
        **figures,
        "microseconds_per_topic": round(figures["seconds"] / count * 1e6, 1),
        "server_cpu_seconds": round(statistics.median(server_cpu), 3),
        "requests": requests,
        "writes": writes,
    }


if __name__ == "__main__":
    import json

    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000), indent=2))
