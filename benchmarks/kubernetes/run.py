"""Figures of the operator, one JSON document: ``make bench-operator``; the progress is on standard error.

A real API server, etcd, ZooKeeper and the operator share this machine. TOPICS (10000) is the number of Topics. Seconds
have no gate: the exit code is 1 only if a count is wrong, such as writes without changes.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.cli import clusters
from benchmarks.common import compile_package, describe_machine, process_cpu_seconds
from benchmarks.kubernetes.objects import Topics, count_writes
from support.kubernetes.operator_process import OperatorProcess
from support.kubernetes.server import ApiServer, install_definitions
from support.zookeeper import write_checker
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

NAMESPACE = "bench"
CHANGES = 200
STEADY_S = 120.0
TIMEOUT_S = 900.0

_RECONCILE_METRIC = 'controller_runtime_reconcile_total{controller="prod",result="success"}'


def main() -> int:
    """Run all measurements and print the figures."""
    compile_package()
    topics = int(os.environ.get("TOPICS") or 10_000)
    report: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "command": "make bench-operator"}
    report |= {"machine": describe_machine(), "topics": topics}
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper() as zookeeper:
        log_progress("starting the API server")
        with ApiServer(Path(folder) / "kube") as server, clusters.seeded_cluster(zookeeper, "prod", topics) as connect:
            install_definitions(server.admin)
            server.admin.create_object("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            server.admin.create_object(
                f"/apis/topiarist.dev/v1/namespaces/{NAMESPACE}/clusters", _cluster_body(connect)
            )
            log_progress(f"declaring {topics:,} Topics")
            asyncio.run(Topics(server.admin, NAMESPACE).create(topics))
            report |= measure(server, Path(folder), connect, topics)
    print(json.dumps(report, indent=2))
    return 0 if report["restart"]["writes_to_the_api"] == 0 and report["restart"]["zookeeper_changed"] is False else 1


def measure(server: ApiServer, folder: Path, connect: str, topics: int) -> dict[str, Any]:
    """Return the figures, in the order of the measurements."""
    declared = Topics(server.admin, NAMESPACE)
    operator = OperatorProcess(server, NAMESPACE, folder / "operator", "--period", "60")
    found: dict[str, Any] = {}
    log_progress("first start: records for all, statuses for all")
    start = time.monotonic()
    operator.process.start()
    wait_until(lambda: asyncio.run(declared.are_ready(range(0, topics, max(topics // 20, 1)))), pause=1.0)
    wait_until(lambda: asyncio.run(declared.count_ready()) == topics)
    found["first_start"] = {"seconds_until_all_ready": round(time.monotonic() - start, 1), **read_usage(operator)}
    operator.process.stop()

    log_progress("restart with nothing to do")
    before, tree = count_writes(server.admin), write_checker.read_nodes(connect)
    start = time.monotonic()
    operator.process.start()
    wait_until(lambda: count_reconciles(operator) >= 1)
    found["restart"] = {
        "seconds_until_the_first_pass_is_over": round(time.monotonic() - start, 1),
        "writes_to_the_api": count_writes(server.admin) - before,
        "zookeeper_changed": write_checker.read_nodes(connect) != tree,
        **read_usage(operator),
    }

    log_progress(f"{CHANGES} changes, one after the other")
    seconds = sorted(asyncio.run(declared.measure_changes(range(0, CHANGES))))
    found["one_change"] = {
        "seconds_median": round(statistics.median(seconds), 3),
        "seconds_p99": round(seconds[len(seconds) * 99 // 100 - 1], 3),
        "seconds_most": round(seconds[-1], 3),
        **read_usage(operator),
    }

    found["steady"] = measure_steady(operator, STEADY_S)
    operator.process.stop()
    often = OperatorProcess(server, NAMESPACE, folder / "often", "--period", "5", token=operator.token)
    often.process.start()
    wait_until(lambda: count_reconciles(often) >= 5)
    found["every_5_seconds"] = measure_steady(often, STEADY_S / 2)
    often.process.stop()
    return found


def measure_steady(operator: OperatorProcess, seconds: float) -> Mapping[str, float]:
    """Return the resources that the idle process uses."""
    log_progress(f"nothing happens for {seconds:.0f} s")
    cpu, begun, count = process_cpu_seconds(operator.pid), time.monotonic(), count_reconciles(operator)
    time.sleep(seconds)
    return {
        "passes": count_reconciles(operator) - count,
        "percent_of_a_core": round(100 * (process_cpu_seconds(operator.pid) - cpu) / (time.monotonic() - begun), 2),
        **read_usage(operator),
    }


def read_usage(operator: OperatorProcess) -> Mapping[str, float]:
    """Return the resources that the process has used since its start."""
    status = Path(f"/proc/{operator.pid}/status").read_text()
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return {"cpu_seconds": round(process_cpu_seconds(operator.pid), 1), "peak_mib": round(int(peak) / 1024, 1)}


def count_reconciles(operator: OperatorProcess) -> int:
    """Return the number of successful passes."""
    _, text = operator.http_get("/metrics")
    found = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(_RECONCILE_METRIC)]
    return int(float(found[0])) if found else 0


def wait_until(condition: Callable[[], bool], pause: float = 0.1) -> None:
    """Wait for a condition; raise if it does not become true in time."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("it has not come about in time")
        time.sleep(pause)


def log_progress(text: str) -> None:
    """Print a line of progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def _cluster_body(connect: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "topiarist.dev/v1",
        "kind": "Cluster",
        "metadata": {"name": "prod"},
        "spec": {"zookeeper": {"connect": connect}, "kafkaVersion": "3.9", "adopt": ["*"]},
    }


if __name__ == "__main__":
    sys.exit(main())
