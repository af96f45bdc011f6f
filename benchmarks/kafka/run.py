"""Figures from real brokers, one JSON document: ``make bench-kafka``; the progress is on standard error.

ROUNDS (2) is the number of runs of each compared program. PARTS selects from ``side``, ``waiting``, ``load``,
``moves``, ``kraft`` and ``describe``. PACES (250 0) are the limits of replicas in flight per broker in the runs of
``load``, 0 for no limit. SIZES (1 1000 10000) are the numbers of topics in ``kraft`` for which there is nothing to do.
Seconds have no gate: the exit code is 0 unless a measurement failed.
"""

from __future__ import annotations

import json
import os
import sys
import time

from benchmarks.common import compile_package, describe_machine
from benchmarks.kafka import describe, initialization, kraft, load, moves, side_by_side
from support.kafka.jars import NEWEST
from topiarist.model.plan import MAX_INFLIGHT_REPLICAS_PER_BROKER

PARTS = ("side", "waiting", "load", "moves", "kraft", "describe")


def main() -> int:
    """Run the selected parts and print the figures."""
    rounds = int(os.environ.get("ROUNDS") or 2)
    paces = [int(word) for word in (os.environ.get("PACES") or f"{MAX_INFLIGHT_REPLICAS_PER_BROKER} 0").split()]
    sizes = [int(word) for word in (os.environ.get("SIZES") or " ".join(map(str, kraft.NOTHING_SIZES))).split()]
    parts = (os.environ.get("PARTS") or " ".join(PARTS)).split()
    if rounds < 1 or not set(parts) <= set(PARTS):
        print(f"ROUNDS={rounds}, PARTS={' '.join(parts)}: wanted a number, and some of {PARTS}", file=sys.stderr)
        return 2
    compile_package()
    start = time.monotonic()
    report = {
        "date": time.strftime("%Y-%m-%d"),
        "command": "make bench-kafka",
        "machine": describe_machine(),
        "kafka": NEWEST,
        "rounds": rounds,
    }
    if "side" in parts:
        report["side_by_side"] = side_by_side.measure(rounds)
    if "waiting" in parts:
        report["waiting"] = initialization.measure(rounds)
    if "load" in parts:
        report["load"] = load.measure(paces)
    if "moves" in parts:
        report["moves"] = moves.measure()
    if "kraft" in parts:
        report["kraft"] = kraft.measure(rounds, sizes)
    if "describe" in parts:
        report["describe_configs"] = describe.measure(rounds)
    report["minutes"] = round((time.monotonic() - start) / 60, 1)
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
