"""G16: ``topiarist plan`` without changes for 1,000 topics, beside its floor and a bare kazoo script, and its imports.

The floor (``cli.floor``) does the least work of such a plan. The script (``kafka.bare``) checks nothing, and reads what
it wants from one file. All are whole processes, in turn. The time of the imports is what Python reports for each
module, without what a module imports itself.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.cli import clusters
from benchmarks.common import ROOT, RUNS, run_process, summarize_runs
from benchmarks.engine.planning import adopted_cluster, floor_command, plan_command

TOPICS = 1000

_IMPORT_TIME = re.compile(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", re.MULTILINE)


def measure(count: int = TOPICS) -> dict[str, Any]:
    """Return the medians of the plan, its ratios to the floor and to the script, and the seconds of its imports."""
    with adopted_cluster(count) as (_, connect, folder):
        wanted = folder.parent / f"{folder.name}-wanted.json"
        wanted.write_text(json.dumps(make_wanted(count)))
        try:
            commands = plan_command(folder, connect), floor_command(folder, connect), bare_command(connect, wanted)
            for command in commands:
                run_process(command)
            rounds = [tuple(map(run_process, commands)) for _ in range(RUNS)]
            imports = [import_seconds(commands[0]) for _ in range(RUNS)]
        finally:
            wanted.unlink()
    plans, floors, scripts = map(list, zip(*rounds, strict=True))
    plan_seconds, floor_seconds, script_seconds = ([run.seconds for run in runs] for runs in (plans, floors, scripts))
    return {
        "topics": count,
        **summarize_runs(plans),
        "floor_seconds": summarize_runs(floors)["seconds"],
        "bare_script_seconds": summarize_runs(scripts)["seconds"],
        "times_floor_cpu": _median_ratio((run.cpu_seconds for run in plans), (run.cpu_seconds for run in floors)),
        "times_bare_script": _median_ratio(plan_seconds, script_seconds),
        "floor_times_bare_script": _median_ratio(floor_seconds, script_seconds),
        "import_seconds": round(statistics.median(own + others for own, others in imports), 3),
        "own_import_seconds": round(statistics.median(own for own, _ in imports), 3),
    }


def _median_ratio(values: Iterable[float], others: Iterable[float]) -> float:
    """Return the median ratio of the figures of two programs over the rounds."""
    return round(statistics.median(one / other for one, other in zip(values, others, strict=True)), 2)


def make_wanted(count: int) -> dict[str, Any]:
    """Return the topics of the cluster as the script wants them."""
    return {
        clusters.topic_name(number): {
            "partitions": 12,
            "replicationFactor": 3,
            "config": clusters.topic_config(number),
        }
        for number in range(count)
    }


def bare_command(connect: str, wanted: Path) -> list[str]:
    """Return the command of the script."""
    return [sys.executable, str(ROOT / "benchmarks" / "kafka" / "bare.py"), connect, str(wanted)]


def import_seconds(command: list[str]) -> tuple[float, float]:
    """Return the seconds of imports: of topiarist's modules, and of others beyond those of the interpreter alone."""
    own, others = _import_seconds([command[0], "-X", "importtime", *command[1:]])
    return own, others - _import_seconds([command[0], "-X", "importtime", "-c", ""])[1]


def _import_seconds(command: list[str]) -> tuple[float, float]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = [(name.partition(".")[0] == "topiarist", int(own)) for own, name in _IMPORT_TIME.findall(done.stderr)]
    return sum(own for is_own, own in found if is_own) / 1e6, sum(own for is_own, own in found if not is_own) / 1e6


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
