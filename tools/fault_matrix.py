"""The fault matrix for ``docs/reliability.md``: what is done, what must hold, what tests show, and in how many cases.

``make test-faults`` leaves the record of its run in the cache; ``python tools/fault_matrix.py RECORD`` puts it into
``docs/reliability.json``, if no fault is missing in it, from which ``make generate`` makes the page. Nothing of it is
typed by hand.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs" / "reliability.json"
TESTS, BROKERS = (ROOT / "tests" / name for name in ("faults", "kafka"))
"""Whose tests are counted, and those that show some of it once more with Kafka's own controllers and brokers."""

OTHER_FOLDERS = {"kubernetes": "a real API server", "spark": "a real Spark cluster"}
"""Folders with the tests of faults that only one part of topiarist knows, and what they need."""

Faults = Mapping[str, Mapping[str, Any]]


def load_matrix() -> Faults:
    """The faults by number: their titles, how they are injected, what must hold."""
    return tomllib.loads((TESTS / "matrix.toml").read_text(encoding="utf-8"))


def summarize_tests(folder: Path) -> Mapping[str, list[str]]:
    """What the tests of each fault show, in the order of their files: the first sentence of each docstring."""
    found = defaultdict(list)
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match = isinstance(node, ast.FunctionDef) and re.match(r"test_f(\d\d)_", node.name)
            if match and isinstance(node, ast.FunctionDef):
                text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                found[f"F{int(match[1])}"].append(text.replace("``", "`"))
    return found


def matrix_part() -> str:
    """The generated part of the page: one heading a fault."""
    record, real = json.loads(RECORD.read_text(encoding="utf-8")), summarize_tests(BROKERS)
    tests = dict(summarize_tests(TESTS))
    for folder in OTHER_FOLDERS:
        tests.update(summarize_tests(ROOT / "tests" / folder))
    total = sum(fault["cases"] for fault in record["faults"].values())
    text = f"\nThe run of {record['date']}: {len(record['faults'])} faults, {total:,} cases, none failed.\n"
    for number, fault in load_matrix().items():
        text += f"\n### {number}: {fault['title']}\n\n"
        text += (
            f"Injected: {fault['inject']}\n\nMust hold: {fault['hold']}\n\nShown{_evidence(number, fault, record)}:\n\n"
        )
        text += "".join(f"- {sentence}\n" for sentence in tests[number])
        if number in real:
            text += "\nWith real brokers:\n\n" + "".join(f"- {sentence}\n" for sentence in real[number])
    return text + "\n"


def _evidence(number: str, fault: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """How often something was shown, or with what."""
    if folder := fault.get("folder"):
        return f" with {OTHER_FOLDERS[folder]}"
    counted = record["faults"][number]
    return f", cases {counted['cases']:,}" + "".join(f"; {what}: {value:,}" for what, value in counted["seen"].items())


def missing_cases(record: Mapping[str, Any]) -> Iterator[str]:
    """What speaks against a record: faults without a case."""
    for number in (number for number, fault in load_matrix().items() if "folder" not in fault):
        if not record["faults"].get(number, {}).get("cases"):
            yield f"{number}: no test of it has passed in that run"


def main(arguments: list[str]) -> int:
    """Take a record over; returns the exit code."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    record = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    if complaints := list(missing_cases(record)):
        print("\n".join(complaints), file=sys.stderr)
        return 1
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
