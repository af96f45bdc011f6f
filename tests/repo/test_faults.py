"""The fault matrix and its tests: every fault has a test, every test a fault, and every figure a measurement."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.checkout import ROOT

TOOL = ROOT / "tools" / "fault_matrix.py"
MATRIX = tomllib.loads((ROOT / "tests" / "faults" / "matrix.toml").read_text())
RECORD = json.loads((ROOT / "docs" / "internals" / "reliability.json").read_text())


FOLDERS = ("faults", "kubernetes", "spark")
"""Where the tests of faults are, by what it takes to bring them about."""


def names(folder: str) -> list[str]:
    """Return the tests of a folder, without ``test_``."""
    return [
        line.removeprefix("def test_").partition("(")[0]
        for path in (ROOT / "tests" / folder).rglob("test_*.py")
        for line in path.read_text().splitlines()
        if line.startswith("def test_")
    ]


def numbers(folder: str) -> set[str]:
    """Return the fault numbers in the names of the tests of a folder."""
    found = (re.match(r"([fmk])(\d\d)_", name) for name in names(folder))
    return {f"{match[1].upper()}{int(match[2])}" for match in found if match}


def test_every_fault_has_tests_and_every_test_its_fault() -> None:
    """The matrix has all faults: F1 to F34, M1 to M40, K1 to K29; the test names have the same numbers."""
    assert [name for name in names("faults") if not re.match(r"[fmk]\d\d_", name)] == []
    of_moves = {f"M{number}" for number in range(1, 41)}
    of_kafka = {f"K{number}" for number in range(1, 30)}
    assert MATRIX.keys() == {f"F{number}" for number in range(1, 35)} | of_moves | of_kafka
    folders = {
        folder: {number for number, fault in MATRIX.items() if fault.get("folder", "faults") == folder}
        for folder in FOLDERS
    }
    assert {folder: numbers(folder) for folder in FOLDERS} == folders


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("brokers", "\nWith real brokers:\n"),
        ("kubernetes", "\nShown with a real API server:\n"),
        ("spark", "\nShown with a real Spark cluster:\n"),
    ],
)
def test_faults_with_more_than_zookeeper_are_on_the_page_too(folder: str, words: str) -> None:
    """The tests of faults beyond ZooKeeper have matrix numbers, and the page describes their results with the fault."""
    page = (ROOT / "docs" / "internals" / "reliability.md").read_text()
    assert numbers(folder)
    assert numbers(folder) <= MATRIX.keys()
    assert {section.partition(":")[0] for section in page.split("\n### ") if words in section} == numbers(folder)


def test_the_record_has_every_fault() -> None:
    """The committed figures come from one run with all faults that was not a soak test."""
    assert RECORD["faults"].keys() == {number for number, fault in MATRIX.items() if "folder" not in fault}
    assert all(fault["cases"] >= fault["tests"] > 0 for fault in RECORD["faults"].values())
    assert RECORD["soak"] is False


@pytest.mark.parametrize("missing", ["F1", "F33", "M3"])
def test_a_record_that_lacks_a_fault_is_not_taken(missing: str, tmp_path: Path) -> None:
    """The tool names the faults without a test result and leaves the page unchanged."""
    record = tmp_path / "faults.json"
    record.write_text(
        json.dumps({**RECORD, "faults": {**RECORD["faults"], missing: {"tests": 0, "cases": 0, "seen": {}}}})
    )
    before = (ROOT / "docs" / "internals" / "reliability.json").read_bytes()
    done = subprocess.run([sys.executable, TOOL, record], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"{missing}: no test of this fault passed in the run\n")
    assert (ROOT / "docs" / "internals" / "reliability.json").read_bytes() == before
