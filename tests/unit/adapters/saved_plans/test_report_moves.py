"""Moved partitions read from a report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from topiarist.adapters.saved_plans.decode import ReportMoves, parse_report
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import MoveKind, ReplicaMove

HEADER = {"row": "header", "formatVersion": 1}
MOVE = {"partition": 3, "before": [1, 2], "after": [4, 2], "reasons": ["Drain"]}
PLACE = {"cluster": "prod", "clusterId": "ID", "topic": "orders", "topicId": "A"}
LINE = {"row": "move", **PLACE, **MOVE, "batch": 1}
MOVED = ReplicaMove("orders", 3, (1, 2), (4, 2), (MoveKind.DRAIN,))


def _parse(*lines: dict[str, Any] | str) -> ReportMoves:
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    return parse_report(text.encode(), "report.jsonl")


def _pending(*moves: dict[str, Any], result: str = "pending") -> dict[str, Any]:
    changes = [{"kind": "UpdateConfig"}, {"kind": "MoveReplicas", "moves": [*moves]}]
    return {"row": "topic", **PLACE, "result": result, "changes": changes}


def test_lines_of_partitions_are_moves() -> None:
    """Moves are found by cluster and topic, with the ids of both."""
    found = _parse(HEADER, LINE, {"row": "summary"}).clusters["prod"]
    assert found.cluster_id == "ID"
    assert found.topics["orders"].topic_id == "A"
    assert found.topics["orders"].moves == (MOVED,)


@pytest.mark.parametrize(("result", "count"), [("pending", 1), ("refused", 0), ("skipped", 0)])
def test_planned_moves_of_an_unfinished_topic_count(result: str, count: int) -> None:
    """A batch that was sent may be done now; a topic without a sent batch has nothing to move back."""
    clusters = _parse(HEADER, _pending(MOVE, result=result)).clusters
    assert len(clusters) == count


def test_a_recreated_topic_starts_anew() -> None:
    """Moves of an earlier topic of the same name do not count."""
    later = {**LINE, "topicId": "B", "before": [4, 2], "after": [5, 2]}
    found = _parse(HEADER, LINE, HEADER, later).clusters["prod"].topics["orders"]
    assert (found.topic_id, [move.before for move in found.moves]) == ("B", [(4, 2)])


def test_cut_lines_are_counted() -> None:
    """A line that is no JSON is named by its number, and all others count."""
    found = _parse(HEADER, json.dumps(LINE)[:30], LINE)
    assert (found.cut_lines, len(found.clusters)) == ((2,), 1)


@pytest.mark.parametrize(
    "spoiled",
    [
        {"partition": -1},
        {"partition": True},
        {"before": []},
        {"before": [1, 1]},
        {"after": [1, 2]},
        {"after": "4"},
        {"reasons": []},
        {"reasons": ["Because"]},
        {"topicId": 5},
        {"cluster": None},
    ],
    ids=str,
)
def test_a_line_that_topiarist_never_writes_is_an_error(spoiled: dict[str, Any]) -> None:
    """The error names the file and the line."""
    with pytest.raises(TopiaristError, match=r"report[.]jsonl, line 2: is no line of a report") as caught:
        _parse(HEADER, {**LINE, **spoiled})
    assert caught.value.reason is Reason.UNREADABLE


def test_one_name_is_one_cluster() -> None:
    """Two clusters of one name in a report cannot be distinguished."""
    with pytest.raises(TopiaristError, match="line 3"):
        _parse(HEADER, LINE, {**LINE, "clusterId": "another"})


def test_a_report_begins_with_a_header() -> None:
    """Lines of JSON without a header of the known version are no report."""
    with pytest.raises(TopiaristError, match="found no header"):
        _parse(LINE)
    with pytest.raises(TopiaristError, match="found no header"):
        _parse({**HEADER, "formatVersion": 2})
