"""Writer of the benchmark tables in the documentation, from the output of ``make bench`` and ``make bench-moves``.

Usage: ``make -s bench >figures.json``, then ``python tools/bench_table.py figures.json``. The file must hold an object
with ``date``, ``command``, ``machine`` (as ``benchmarks.common.machine`` returns it) and ``figures``: a list of
objects, each with the texts ``goal``, ``what``, ``measured``, ``wanted`` and ``gate``, and ``holds``, which is true if
the gate held in that run. ``medians`` is the number of runs in words, ``five`` if it is missing.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = {"goal": "number", "what": "what", "measured": "measured", "wanted": "goal", "gate": "gate, in the same run"}

NO_GATE = "none"
"""The gate of a figure without a limit; such a figure has no verdict."""


def row(*cells: str) -> str:
    """Return one line of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(report: Mapping[str, Any]) -> str:
    """Return the table of all figures, and a line with date, machine and command.

    Raises ``KeyError`` for a missing key of the report.
    """
    lines = [row(*COLUMNS.values(), "holds"), row(*["---"] * (len(COLUMNS) + 1))]
    for figure in report["figures"]:
        verdict = "" if figure["gate"] == NO_GATE else "yes" if figure["holds"] else "**no**"
        lines.append(row(*(figure[key] for key in COLUMNS), verdict))
    machine = report["machine"]
    where = (
        f"{machine['cpus']} cores ({machine['cpu']}), {machine['memory_gib']} GiB, {machine['system']}, "
        f"Python {machine['python']}, {machine['java']}"
    )
    lines += ["", f"Medians of {report.get('medians', 'five')}, by `{report['command']}` on {report['date']}: {where}."]
    return "\n".join(lines) + "\n"


def write_table(page: Path, text: str, target: str) -> None:
    """Write text between the ``begin`` and ``end`` markers of a page for this target of ``make``."""
    pattern = re.compile(rf"(?<=<!-- {target}:begin -->\n).*?(?=<!-- {target}:end -->)", re.DOTALL)
    page.write_text(pattern.sub(lambda _: text, page.read_text(encoding="utf-8")), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Write the table of one file of figures into its page; return the exit code."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        report = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
        target = report["command"].removeprefix("make ")
        if not report["figures"]:
            raise ValueError("there is no figure")
        text = table(report)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{arguments[0]}: not a file of figures: {error!r}", file=sys.stderr)
        return 1
    write_table(ROOT / "docs" / "internals" / "performance.md", text, target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
