"""The fault matrix of ``docs/internals/reliability.md``: faults, invariants, tests, and numbers of cases.

``make test-faults`` leaves the record of its run in the cache. ``python tools/fault_matrix.py RECORD`` copies the
record to ``docs/internals/reliability.json`` if it covers every fault, and ``make generate`` makes the page from it.
No part of the page is typed by hand.
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

from topiarist.text import format_count

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs" / "internals" / "reliability.json"
TESTS, BROKERS = (ROOT / "tests" / name for name in ("faults", "brokers"))
"""The folder with the counted tests, and the folder that repeats some with Kafka's controllers and brokers."""

OTHER_FOLDERS = {"kubernetes": "a real API server", "spark": "a real Spark cluster"}
"""Folders with tests of faults that concern one part of topiarist, and the system that they need."""

HEADINGS = {"M1": "Faults while replicas are moved", "K1": "Faults of clusters through Kafka's own protocol"}
"""The headings of parts, by their first fault."""

Faults = Mapping[str, Mapping[str, Any]]


def load_matrix() -> Faults:
    """Return the faults by number: their titles, how they are injected, what must hold."""
    return tomllib.loads((TESTS / "matrix.toml").read_text(encoding="utf-8"))


def summarize_tests(folder: Path) -> Mapping[str, list[str]]:
    """Return the first sentence of each fault test's docstring, by fault, in the order of the files."""
    sentences = defaultdict(list)
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match = isinstance(node, ast.FunctionDef) and re.match(r"test_([fmk])(\d\d)_", node.name)
            if match and isinstance(node, ast.FunctionDef):
                text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                sentences[f"{match[1].upper()}{int(match[2])}"].append(text.replace("``", "`"))
    return sentences


def matrix_part() -> str:
    """Return the generated part of the page: one heading for each fault."""
    record, real = json.loads(RECORD.read_text(encoding="utf-8")), summarize_tests(BROKERS)
    tests = dict(summarize_tests(TESTS))
    for folder in OTHER_FOLDERS:
        tests.update(summarize_tests(ROOT / "tests" / folder))
    total = sum(fault["cases"] for fault in record["faults"].values())
    faults, cases = format_count(len(record["faults"]), "fault"), format_count(total, "case")
    text = f"\nThe run of {record['date']}: {faults}, {cases}, none failed.\n"
    for number, fault in load_matrix().items():
        if "folder" not in fault and number not in record["faults"]:
            continue  # not measured yet, which a test of the repository reports
        if number in HEADINGS:
            text += f"\n## {HEADINGS[number]}\n"
        text += f"\n### {number}: {fault['title']}\n\n"
        text += f"Injected: {fault['inject']}\n\nMust hold: {fault['hold']}\n"
        if fault.get("folder") != BROKERS.name:
            text += f"\nShown{_evidence(number, fault, record)}:\n\n"
            text += "".join(f"- {sentence}\n" for sentence in tests[number])
        if number in real:
            text += "\nWith real brokers:\n\n" + "".join(f"- {sentence}\n" for sentence in real[number])
    return text + "\n"


def _evidence(number: str, fault: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """Return the number of cases of a fault, or the system that its tests use."""
    if folder := fault.get("folder"):
        return f" with {OTHER_FOLDERS[folder]}"
    counted = record["faults"][number]
    return f", cases {counted['cases']:,}" + "".join(f"; {what}: {value:,}" for what, value in counted["seen"].items())


def missing_cases(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield an error for each fault without a case in the record."""
    for number in (number for number, fault in load_matrix().items() if "folder" not in fault):
        if not record["faults"].get(number, {}).get("cases"):
            yield f"{number}: no test of this fault passed in the run"


def main(arguments: list[str]) -> int:
    """Copy a complete record to ``docs/internals/reliability.json``; return the exit code."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    record = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    if diagnostics := list(missing_cases(record)):
        print("\n".join(diagnostics), file=sys.stderr)
        return 1
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
