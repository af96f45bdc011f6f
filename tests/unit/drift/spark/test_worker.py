"""What tasks write into the table of results, and what a worker process keeps for the next task."""

from __future__ import annotations

import json
import pickle
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from topiarist.desired.resolve import Desired
from topiarist.drift.compare import ClusterResult, ClusterUpgrade, FindingCounts
from topiarist.drift.cross_cluster import Deviation
from topiarist.drift.findings import DriftClass, DriftFinding
from topiarist.drift.history import Repair
from topiarist.drift.rows import make_row
from topiarist.drift.spark import worker
from topiarist.drift.spark.worker import (
    DEVIATION,
    FAILURE,
    RESULT,
    TaskResult,
    decode_result,
    load_job,
    run_task,
    split_lines,
)
from topiarist.drift.task import Caches, Shipped
from topiarist.errors import Reason, TopiaristError
from topiarist.model.plan import RunOptions

SHIPPED = Shipped(Desired({}, {}), RunOptions(), "2025-01-31T12:00:00Z")


def run_with(
    monkeypatch: pytest.MonkeyPatch, *results: ClusterResult, error: TopiaristError | None = None
) -> list[Any]:
    """Return the rows of a task with these results, and an error after them."""

    def work(*_: Any) -> Iterator[ClusterResult]:
        yield from results
        if error:
            raise error

    monkeypatch.setattr(worker, "work", work)
    return [*run_task((), SHIPPED, Caches(SHIPPED))]


def test_a_result_is_rows_and_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines and deviations are rows in order; the result itself is without them, and says how many there are."""
    deviations = [Deviation(name, "m", 0, "[]") for name in "abc"]
    lines = {"findings.jsonl": [b"1\n", b"2\n"], "broken.jsonl": []}
    result = ClusterResult("eu", invalid_rows=4, lines=lines, deviations=deviations[:2], sizes=deviations[2:])
    *rows, (cluster, kind, number, data) = run_with(monkeypatch, result)
    assert rows == [
        ("eu", "findings.jsonl", 0, b"1"),
        ("eu", "findings.jsonl", 1, b"2"),
        *(("eu", DEVIATION, place, json.dumps(each).encode()) for place, each in enumerate(deviations, start=1)),
    ]
    assert (cluster, kind, number) == ("eu", RESULT, 0)
    found = decode_result(RESULT, data)
    assert isinstance(found, TaskResult)
    result, counts = found
    assert result.cluster == "eu"
    assert result.invalid_rows == 4
    assert (result.lines, result.deviations, result.sizes) == ({}, [], [])
    assert counts == {"findings.jsonl": 2, "broken.jsonl": 0, DEVIATION: 3}


def test_a_result_without_deviations_has_none_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of a result are its own."""
    rows = run_with(monkeypatch, ClusterResult("a", sizes=[Deviation("t", "m", 0, "")]), ClusterResult("b"))
    found = [decode_result(RESULT, row[3]) for row in rows if row[1] == RESULT]
    assert [each.counts for each in found if isinstance(each, TaskResult)] == [{DEVIATION: 1}, {DEVIATION: 0}]


def test_an_error_is_a_row_that_names_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that ends the run follows the results before it, with its reason, message and hint."""
    error = TopiaristError(Reason.SNAPSHOT_UNUSABLE, "eu.jsonl: cannot be read", "try again")
    rows = run_with(monkeypatch, ClusterResult("eu"), error=error)
    assert [row[1] for row in rows] == [RESULT, FAILURE]
    assert rows[1][:3] == ("", FAILURE, 0)
    expected = (Reason.SNAPSHOT_UNUSABLE, f"{socket.gethostname()}: eu.jsonl: cannot be read", "try again")
    assert decode_result(FAILURE, rows[1][3]) == expected


def test_a_result_is_the_same_after_it_was_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """All counts of a result have their types again, also those of findings without an owner."""
    row = make_row("eu", "t", DriftFinding(DriftClass.MISSING), "2025-01-31T12:00:00Z")
    counts = FindingCounts(matched_exceptions=frozenset({1}), repairs=[Repair("config", None, 5)])
    counts.add_rows([row, {**row, "owner": "shop", "responsible": "shop"}])
    upgrade = ClusterUpgrade((), {"drop": 2})
    given = ClusterResult("eu", document={"cluster": "eu"}, findings=counts, upgrade=upgrade, imbalances=[{"a": 1}])
    (stored,) = run_with(monkeypatch, given)
    found = decode_result(RESULT, stored[3])
    assert isinstance(found, TaskResult)
    assert found.result.findings == counts
    assert [type(each) for each in found.result.findings.owners.values()] == [Counter, Counter]
    assert found.result.findings.responsible["nobody"].new == 0
    assert (found.result.document, found.result.imbalances) == (given.document, given.imbalances)
    assert found.result.upgrade == ClusterUpgrade([], {"drop": 2})


@pytest.mark.parametrize("data", [b"", pickle.dumps(print), b"\x92\x01\x02"])
def test_what_is_no_result_is_not_loaded(data: bytes) -> None:
    """Rows come back from a store that others may write to: they are data of known types, and never unpickled."""
    with pytest.raises(msgspec.DecodeError):
        decode_result(RESULT, data)


def test_a_process_loads_a_job_once_and_keeps_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks of a job share what they learn; the next job replaces it."""
    monkeypatch.setattr(worker, "_loaded", {})
    pickled = pickle.dumps(SHIPPED)
    first = load_job("a", pickled)
    assert first[0] == SHIPPED
    assert load_job("a", pickled)[1] is first[1]
    assert load_job("b", pickled)[1] is not first[1]
    assert [*worker._loaded] == ["b"]


def test_a_row_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines keep their newline; a line above the limit is an error that names the file and the limit."""
    monkeypatch.setattr(worker, "MAX_ROW_BYTES", 2048)
    longest = b"x" * 2047 + b"\n"
    assert [*split_lines("s3a://b/eu.jsonl", longest + b"{}\n{}")] == [longest, b"{}\n", b"{}"]
    lines = split_lines("s3a://b/eu.jsonl", b"{}\nx" + longest)
    assert next(lines) == b"{}\n"
    with pytest.raises(TopiaristError, match=r"s3a://b/eu.jsonl: found a row of more than 2") as raised:
        next(lines)
    assert raised.value.reason is Reason.SNAPSHOT_UNUSABLE
