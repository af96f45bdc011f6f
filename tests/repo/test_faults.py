"""The fault matrix and its tests: no fault without a test, no test without a fault, no figure that nobody measured."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.pages import ROOT

TOOL = ROOT / "tools" / "fault_matrix.py"
MATRIX = tomllib.loads((ROOT / "tests" / "faults" / "matrix.toml").read_text())
RECORD = json.loads((ROOT / "docs" / "reliability.json").read_text())

ELSEWHERE = {"F31": "spark", "F32": "kubernetes"}
"""Faults whose tests stand where the means are to bring them about: the folder of each."""


def test_every_fault_has_tests_and_every_test_its_fault() -> None:
    """By the numbers in the names of the tests; the matrix has all of F1 to F34 that can be brought about."""
    names = [
        line.removeprefix("def test_").partition("(")[0]
        for path in (ROOT / "tests" / "faults").glob("test_*.py")
        for line in path.read_text().splitlines()
        if line.startswith("def test_")
    ]
    numbers = {f"F{int(name[1:3])}" for name in names if name[0] == "f" and name[1:3].isdigit() and name[3] == "_"}
    assert [name for name in names if not (name[0] == "f" and name[1:3].isdigit() and name[3] == "_")] == []
    assert numbers == MATRIX.keys() == {f"F{number}" for number in range(1, 35)} - ELSEWHERE.keys()


@pytest.mark.parametrize(("number", "folder"), ELSEWHERE.items())
def test_other_faults_have_their_tests_elsewhere(number: str, folder: str) -> None:
    """By the same numbers in the names of the tests."""
    texts = [path.read_text() for path in (ROOT / "tests" / folder).glob("test_*.py")]
    assert any(f"\ndef test_{number.lower()}_" in text for text in texts)


def test_faults_with_real_brokers_are_on_the_page_too() -> None:
    """Their tests have the numbers of the matrix, and what they show stands with the fault."""
    page = (ROOT / "docs" / "reliability.md").read_text()
    texts = [path.read_text() for path in (ROOT / "tests" / "kafka").glob("test_*.py")]
    names = [line for text in texts for line in text.splitlines() if line.startswith("def test_f")]
    numbers = {f"F{int(name.removeprefix('def test_f')[:2])}" for name in names}
    assert numbers
    assert numbers <= MATRIX.keys()
    sections = page.split("\n### ")
    assert {section.partition(":")[0] for section in sections if "\nWith real brokers:\n" in section} == numbers


def test_the_record_has_every_fault() -> None:
    """The committed figures are those of one run in which no fault was left out, and not one of a soak."""
    assert RECORD["faults"].keys() == MATRIX.keys()
    assert all(fault["cases"] >= fault["tests"] > 0 for fault in RECORD["faults"].values())
    assert RECORD["soak"] is False


@pytest.mark.parametrize("missing", ["F1", "F33"])
def test_a_record_that_lacks_a_fault_is_not_taken(missing: str, tmp_path: Path) -> None:
    """The tool names what no test has shown, and leaves the page as it is."""
    record = tmp_path / "faults.json"
    record.write_text(
        json.dumps({**RECORD, "faults": {**RECORD["faults"], missing: {"tests": 0, "cases": 0, "seen": {}}}})
    )
    before = (ROOT / "docs" / "reliability.json").read_bytes()
    done = subprocess.run([sys.executable, TOOL, record], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"{missing}: no test of it has passed in that run\n")
    assert (ROOT / "docs" / "reliability.json").read_bytes() == before
