"""G1, G2 and G5: ``topiarist plan`` as a whole process without changes, over 10,000 and 100,000 topics, and its server.

The gates hold on any machine: no write, at most 140 ZooKeeper requests for 10,000 topics (30,000 znodes), a time per
topic that does not grow with their number, and a multiple of the floor (``cli.floor``), measured in turn. A plan
of many files uses a second processor, and the floor does not: the multiple of the processor time is measured too.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.cli import clusters
from benchmarks.common import (
    FULL_JIT,
    RUNS,
    ProcessRun,
    make_memory_folder,
    process_cpu_seconds,
    run_process,
    summarize_runs,
    topiarist_command,
)

from support.zookeeper.proxy import Proxy
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper


@contextmanager
def adopted_cluster(count: int) -> Iterator[tuple[EmbeddedZooKeeper, str, Path]]:
    """Yield a server with ``count`` adopted topics, the connect string, and the folder of their manifests."""
    with (
        make_memory_folder() as folder,
        EmbeddedZooKeeper(jvm_options=["-Xmx4g", FULL_JIT]) as server,
        clusters.seeded_cluster(server, f"n{count}", count) as connect,
    ):
        clusters.write_manifests(Path(folder), count)
        run_process(
            topiarist_command("apply", folder, "--zookeeper", connect, "--kafka-version", "3.9", "--adopt=*", "--yes")
        )
        yield server, connect, Path(folder)


def plan_command(folder: Path, connect: str) -> list[str]:
    """Return the measured command; its exit code is 0 only without changes."""
    return topiarist_command("plan", str(folder), "--zookeeper", connect, "--kafka-version", "3.9", "--exit-code")


def floor_command(folder: Path, connect: str) -> list[str]:
    """Return the command that does the least work of such a plan."""
    return [sys.executable, "-m", "benchmarks.cli.floor", str(folder), connect]


def measure(count: int = 10_000) -> dict[str, Any]:
    """Measure the whole process, its requests, and the CPU time of the server."""
    with adopted_cluster(count) as (server, connect, folder):
        runs: list[ProcessRun] = []
        floors: list[ProcessRun] = []
        server_cpu: list[float] = []
        run_process(plan_command(folder, connect))
        for _ in range(RUNS):
            before = process_cpu_seconds(server.pid)
            runs.append(run_process(plan_command(folder, connect)))
            server_cpu.append(process_cpu_seconds(server.pid) - before)
            floors.append(run_process(floor_command(folder, connect)))
        with Proxy(server.connect) as proxy:
            run_process(plan_command(folder, proxy.through(connect)))
            requests, writes = sum(proxy.requests.values()), proxy.writes
    figures = summarize_runs(runs)
    pairs = list(zip(runs, floors, strict=True))
    return {
        "topics": count,
        **figures,
        "microseconds_per_topic": round(figures["seconds"] / count * 1e6, 1),
        "server_cpu_seconds": round(statistics.median(server_cpu), 3),
        "requests": requests,
        "writes": writes,
        "floor_seconds": summarize_runs(floors)["seconds"],
        "times_floor": round(statistics.median(run.seconds / floor.seconds for run, floor in pairs), 2),
        "times_floor_cpu": round(statistics.median(run.cpu_seconds / floor.cpu_seconds for run, floor in pairs), 2),
    }


if __name__ == "__main__":
    import json

    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000), indent=2))
