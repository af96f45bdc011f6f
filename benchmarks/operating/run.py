"""Figures of the operator, one JSON document: ``make bench-operator``; a person hears on standard error how far it is.

A real API server, etcd, ZooKeeper and the operator share this machine. TOPICS (10000) is how many there are. Seconds
decide nothing: it ends with 1 only if a count is not what it must be, as writes where nothing is to do.
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

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:1] = [str(ROOT), str(ROOT / "tests")]

from benchmarks import fleet  # noqa: E402
from benchmarks.common import compile_package, cpu_of, machine  # noqa: E402
from benchmarks.operating.objects import Topics, writes  # noqa: E402
from support import checker  # noqa: E402
from support.kube import ApiServer, install_definitions  # noqa: E402
from support.operator import Operator  # noqa: E402
from topiarist.adapters.embedded import EmbeddedZooKeeper  # noqa: E402

NAMESPACE = "bench"
CHANGES = 200
STEADY = 120.0
PATIENCE = 900.0

_PASSES = 'controller_runtime_reconcile_total{controller="prod",result="success"}'


def main() -> int:
    """Run it all, and print it."""
    compile_package()
    topics = int(os.environ.get("TOPICS") or 10_000)
    report: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "command": "make bench-operator"}
    report |= {"machine": machine(), "topics": topics}
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper() as zookeeper:
        say("starting the API server")
        with ApiServer(Path(folder) / "kube") as server, fleet.cluster(zookeeper, "prod", topics) as connect:
            install_definitions(server.admin)
            server.admin.make("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            server.admin.make(f"/apis/topiarist.dev/v1/namespaces/{NAMESPACE}/clusters", _cluster(connect))
            say(f"declaring {topics:,} Topics")
            asyncio.run(Topics(server.admin, NAMESPACE).make(topics))
            report |= measure(server, Path(folder), connect, topics)
    print(json.dumps(report, indent=2))
    return 0 if report["restart"]["writes_to_the_api"] == 0 and report["restart"]["zookeeper_changed"] is False else 1


def measure(server: ApiServer, folder: Path, connect: str, topics: int) -> dict[str, Any]:
    """The figures, in the order in which they can be had."""
    declared = Topics(server.admin, NAMESPACE)
    operator = Operator(server, NAMESPACE, folder / "operator", "--period", "60")
    found: dict[str, Any] = {}
    say("first start: records for all, statuses for all")
    start = time.monotonic()
    operator.process.start()
    until(lambda: asyncio.run(declared.some_ready(range(0, topics, max(topics // 20, 1)))), pause=1.0)
    until(lambda: asyncio.run(declared.ready()) == topics)
    found["first_start"] = {"seconds_until_all_ready": round(time.monotonic() - start, 1), **used(operator)}
    operator.process.stop()

    say("restart with nothing to do")
    before, tree = writes(server.admin), checker.look(connect)
    start = time.monotonic()
    operator.process.start()
    until(lambda: passes(operator) >= 1)
    found["restart"] = {
        "seconds_until_the_first_pass_is_over": round(time.monotonic() - start, 1),
        "writes_to_the_api": writes(server.admin) - before,
        "zookeeper_changed": checker.look(connect) != tree,
        **used(operator),
    }

    say(f"{CHANGES} changes, one after the other")
    seconds = sorted(asyncio.run(declared.changed(range(0, CHANGES))))
    found["one_change"] = {
        "seconds_median": round(statistics.median(seconds), 3),
        "seconds_p99": round(seconds[len(seconds) * 99 // 100 - 1], 3),
        "seconds_most": round(seconds[-1], 3),
        **used(operator),
    }

    found["steady"] = steady(operator, STEADY)
    operator.process.stop()
    often = Operator(server, NAMESPACE, folder / "often", "--period", "5", token=operator.token)
    often.process.start()
    until(lambda: passes(often) >= 5)
    found["every_5_seconds"] = steady(often, STEADY / 2)
    often.process.stop()
    return found


def steady(operator: Operator, seconds: float) -> Mapping[str, float]:
    """What the process uses while nothing happens."""
    say(f"nothing happens for {seconds:.0f} s")
    cpu, begun, count = cpu_of(operator.pid), time.monotonic(), passes(operator)
    time.sleep(seconds)
    return {
        "passes": passes(operator) - count,
        "percent_of_a_core": round(100 * (cpu_of(operator.pid) - cpu) / (time.monotonic() - begun), 2),
        **used(operator),
    }


def used(operator: Operator) -> Mapping[str, float]:
    """What the process has used since its start."""
    status = Path(f"/proc/{operator.pid}/status").read_text()
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return {"cpu_seconds": round(cpu_of(operator.pid), 1), "peak_mib": round(int(peak) / 1024, 1)}


def passes(operator: Operator) -> int:
    """How many passes have gone well."""
    _, text = operator.asked("/metrics")
    found = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(_PASSES)]
    return int(float(found[0])) if found else 0


def until(condition: Callable[[], bool], pause: float = 0.1) -> None:
    """Wait; raises if it does not come about."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("it has not come about in time")
        time.sleep(pause)


def say(what: str) -> None:
    """Tell a person how far it is."""
    print(what, file=sys.stderr, flush=True)


def _cluster(connect: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "topiarist.dev/v1",
        "kind": "Cluster",
        "metadata": {"name": "prod"},
        "spec": {"zookeeper": {"connect": connect}, "kafkaVersion": "3.9", "adopt": ["*"]},
    }


if __name__ == "__main__":
    sys.exit(main())
