"""The vector runner: the committed vectors pass, and no malformed file breaks a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vectors import kinds, run

ASSIGN = {
    "id": "one",
    "kind": "assign",
    "input": {"brokers": [{"id": 7}], "n_partitions": 2, "replication_factor": 1},
    "expected": {"assignment": {"0": [7], "1": [7]}},
}


def test_every_vector_passes_or_is_about_what_the_product_does_not_do() -> None:
    """No committed vector fails, and the unsupported ones are exactly the operations that the product does not have."""
    vectors = [vector for path in run.LOCAL_VECTORS for vector in run.read_vectors(path)]
    outcomes = [run.run_vector(vector) for vector in vectors]
    assert [outcome for outcome in outcomes if outcome.status == "failed"] == []
    aside = {outcome.label for outcome in outcomes if outcome.status == "unsupported"}
    named = {
        f"{kind} {operation}".strip() for kind, operations in kinds.UNSUPPORTED.items() for operation in operations
    }
    assert aside == named - {"config roundtrip"}
    assert sum(outcome.status == "passed" for outcome in outcomes) == 306


@pytest.mark.parametrize(
    "change",
    [
        {"expected": {"assignment": {"0": [7], "1": [8]}}},
        {"expected": {"assignment": {"0": [7]}}},
        {"expected": {"error": "invalid_partitions"}},
        {"expected": {"something": "else"}},
        {"expected": {"property": {"leaders_per_broker": 3}}},
        {"expected": {"property": {"no such property": 3}}},
        {"expected": {}},
        {"expected": None},
        {"kind": "no such kind"},
        {"kind": "validate", "input": {"op": "no such operation"}},
        {"kind": "config", "input": {"op": "validate"}},
        {"kind": "config", "input": {"op": "validate", "name": "retention.ms", "value": None}},
        {"input": None},
        {"input": {"brokers": "none"}},
    ],
)
def test_a_wrong_or_odd_vector_fails_and_says_why(change: dict[str, Any]) -> None:
    """Wrong values, unknown words and malformed vectors fail with a reason; they never pass and never crash."""
    outcome = run.run_vector(ASSIGN | change)
    assert outcome.status == "failed"
    assert outcome.message


@pytest.mark.parametrize("vector", [None, 3, "text", [], {}, {"id": "x"}])
def test_what_is_no_vector_fails(vector: object) -> None:
    """Any JSON value that is not a vector fails without an exception."""
    assert run.run_vector(vector, 4).status == "failed"


def test_lists_and_lines_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A JSON list and JSON lines (with blank lines) yield the same report; the last line has the counts."""
    listed, lined = tmp_path / "a.json", tmp_path / "b.jsonl"
    listed.write_text(json.dumps([ASSIGN]), encoding="utf-8")
    noted = json.dumps(ASSIGN | {"note": "a\u2028b"}, ensure_ascii=False)
    lined.write_text(f"{json.dumps(ASSIGN)}\n\n{noted}\n", encoding="utf-8")
    assert run.main([str(listed), str(lined)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 0 failed"


def test_failures_are_named_and_end_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report has expected and actual result of a failed vector and the count of unsupported ones; exit code 1."""
    wrong = ASSIGN | {"expected": {"assignment": {"0": [7], "1": [8]}}}
    aside = {"id": "later", "kind": "validate", "input": {"op": "describe"}, "expected": {"rows": 3}}
    path = tmp_path / "a.json"
    path.write_text(json.dumps([wrong, aside]), encoding="utf-8")
    assert run.main([str(path)]) == 1
    out = capsys.readouterr().out
    assert 'FAILED assign one: expected assignment {"0": [7], "1": [8]}, seen {"0": [7], "1": [7]}' in out
    assert "unsupported: 1: later (validate describe)" in out
    assert out.splitlines()[-1] == "0 passed, 1 failed"


@pytest.mark.parametrize("text", ["", "{", '{"a": 1}', "[1,"])
def test_an_unreadable_file_ends_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    """A file without a JSON list is named in the report, and the other files still run."""
    broken, good = tmp_path / "broken.json", tmp_path / "good.json"
    broken.write_text(text, encoding="utf-8")
    good.write_text(json.dumps([ASSIGN]), encoding="utf-8")
    assert run.main([str(broken), str(tmp_path / "missing.json"), str(good)]) == 1
    out = capsys.readouterr().out
    assert out.count("cannot be read") == 2
    assert out.splitlines()[-1] == "1 passed, 0 failed"


def test_huge_numbers_are_read() -> None:
    """Integers and fractions beyond any machine's range reach the product as their text."""
    value = run._parse_json(
        '{"kind": "config", "input": {"op": "validate", "name": "retention.ms", "value": %s}}' % ("9" * 5000)
    )
    assert run.run_vector(value | {"expected": {"error": "invalid_config"}}).status == "passed"
    ratio = {"op": "validate", "name": "min.cleanable.dirty.ratio", "value": run._parse_json("0.50")}
    expected = {"valid": True, "canonical": "0.5"}
    assert run.run_vector({"kind": "config", "input": ratio, "expected": expected}).status == "passed"


def test_a_random_start_means_every_start() -> None:
    """With start -1 a property must hold for each start and shift: a vector fails if one start breaks it."""
    brokers = [{"id": number} for number in range(3)]
    given = {"brokers": brokers, "n_partitions": 3, "replication_factor": 2, "start_index": -1}
    vector = {"id": "x", "kind": "assign", "input": given, "expected": {"property": {"leaders_per_broker": 1}}}
    assert run.run_vector(vector).status == "passed"
    some = {"assignment": {"0": [0, 1], "1": [1, 2], "2": [2, 0]}}
    assert run.run_vector(vector | {"expected": some}).status == "failed"
