"""G16: ``topiarist plan`` without changes for 1,000 topics, beside a bare kazoo script, and the time of its imports.

The script (``kafka.bare``) checks nothing, and reads what it wants from one file. Both are whole processes, in turn.
The time of the imports is what Python reports for each module, without what a module imports itself.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.cli import clusters
from benchmarks.common import ROOT, RUNS, run_process, summarize_runs
from benchmarks.engine.planning import adopted_cluster, plan_command

TOPICS = 1000

_IMPORT_TIME = re.compile(r"^import time:\s+(\d+) \|", re.MULTILINE)


def measure(count: int = TOPICS) -> dict[str, Any]:
    """Return the medians of both processes, their ratio, and the seconds of imports."""
    with adopted_cluster(count) as (_, connect, folder):
        wanted = folder.parent / f"{folder.name}-wanted.json"
        wanted.write_text(json.dumps(make_wanted(count)))
        try:
            commands = plan_command(folder, connect), bare_command(connect, wanted)
            for command in commands:
                run_process(command)
            pairs = [(run_process(commands[0]), run_process(commands[1])) for _ in range(RUNS)]
            imports = statistics.median(import_seconds(commands[0]) for _ in range(RUNS))
        finally:
            wanted.unlink()
    figures = summarize_runs([plan for plan, _ in pairs])
    return {
        "topics": count,
        **figures,
        "bare_script_seconds": summarize_runs([bare for _, bare in pairs])["seconds"],
        "times_bare_script": round(statistics.median(plan.seconds / bare.seconds for plan, bare in pairs), 2),
        "import_seconds": round(imports, 3),
    }


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


def import_seconds(command: list[str]) -> float:
    """Return the seconds that a command of topiarist spends on imports, beyond those of the interpreter alone."""
    return _import_seconds([command[0], "-X", "importtime", *command[1:]]) - _import_seconds(
        [command[0], "-X", "importtime", "-c", ""]
    )


def _import_seconds(command: list[str]) -> float:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return sum(map(int, _IMPORT_TIME.findall(done.stderr))) / 1e6


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
