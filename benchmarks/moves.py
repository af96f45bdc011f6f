"""Every figure of moves that needs no broker, as one JSON document: ``make bench-moves``.

The form is that of ``make bench``. The exit code is 1 if a gate does not hold; seconds have no gate. P9 is not among
them: topiarist does not level a cluster by load.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from benchmarks.common import compile_package, describe_machine
from benchmarks.engine import moves as computing
from benchmarks.zookeeper import moves as requests


def measure_requests() -> list[dict[str, Any]]:
    """Return P10 and P11."""
    seen = requests.measure()
    polls, writes = seen["requests_per_poll"], seen["writes_of_second_run"]
    return [
        {
            "goal": "P10",
            "what": f"requests a poll of a batch with {seen['topics']} topics",
            "measured": str(polls),
            "wanted": "2",
            "gate": f"{polls} requests (at most 2)",
            "holds": polls <= 2,
        },
        {
            "goal": "P11",
            "what": "second run, all moves done",
            "measured": f"{writes} writes",
            "wanted": "0 writes",
            "gate": f"{writes} writes (0)",
            "holds": writes == 0,
        },
    ]


def main() -> int:
    """Measure and print everything; return 1 if a gate does not hold."""
    compile_package()
    figures = [*computing.measure(), *measure_requests()]
    report = {
        "date": time.strftime("%Y-%m-%d"),
        "command": "make bench-moves",
        "medians": "three",
        "machine": describe_machine(),
        "figures": figures,
    }
    print(json.dumps(report, indent=2))
    return 0 if all(line["holds"] for line in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
