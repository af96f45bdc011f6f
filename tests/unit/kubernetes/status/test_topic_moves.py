"""The moves of a topic in the status of its Topic: how many are done, and on which cluster they are held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.kubernetes import resource_bodies
from support.kubernetes.status_schema import validate_status
from topiarist.errors import Reason
from topiarist.kubernetes.moves import TopicMoves
from topiarist.kubernetes.reconciler import SyncState, TopicResult
from topiarist.kubernetes.status.topic import topic_status
from topiarist.kubernetes.status.writer import Event, topic_events
from topiarist.model.plan import Issue
from unit.kubernetes.topic_results import NOW, make_result

STALL = Issue(Reason.MOVES_STALLED, "no progress for 900 s", hint="wait")


def moved(total: int, left: int, in_flight: int = 0) -> dict[str, Any]:
    """Return the moves in a previous status."""
    return {"total": total, "left": left, "inFlight": in_flight, "reason": "Moving", "message": "before"}


def moving(
    moves: TopicMoves | None, old: Mapping[str, Any] | None = None, problem: Issue | None = None, **fields: Any
) -> TopicResult:
    """Return the result of a topic with these moves, after a status with the moves ``old``."""
    part = {"name": "prod", "state": "Moving", **({"moves": old} if old else {})}
    topic = resource_bodies.topic("orders", status={"clusters": [part]})
    state = SyncState.MOVING if moves else SyncState.SYNCED
    return make_result(topic, state)._replace(moves=moves, move_problem=problem, **fields)


def status_of(**results: TopicResult) -> Mapping[str, Any]:
    """Return the status of a Topic with these results by cluster, after validation against the schema."""
    (topic, *_) = (result.candidate.resource for result in results.values())
    status = topic_status(topic, results, {}, NOW, results)
    validate_status("topic", status)
    return status


def conditions(status: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the status and the reason of each condition."""
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


@pytest.mark.parametrize(
    ("old", "now", "total", "message"),
    [
        (None, TopicMoves(3), 3, "0 of 3 partitions moved"),
        (None, TopicMoves(3, 1, 2, 5), 3, "0 of 3 partitions moved, batch 2 of 5"),
        (moved(3, 3), TopicMoves(2), 3, "1 of 3 partitions moved"),
        (moved(3, 1), TopicMoves(1, 1, 5, 5), 3, "2 of 3 partitions moved, batch 5 of 5"),
        (moved(3, 1), TopicMoves(4), 6, "2 of 6 partitions moved"),
        (moved(1, 1), TopicMoves(1), 1, "0 of 1 partition moved"),
        (
            moved(2000, 1500),
            TopicMoves(1000, 7, 1001, 2002),
            2000,
            "1,000 of 2,000 partitions moved, batch 1,001 of 2,002",
        ),
    ],
)
def test_moves_that_are_done_stay_counted(
    old: Mapping[str, Any] | None, now: TopicMoves, total: int, message: str
) -> None:
    """The total survives a restart, and grows with moves that a later change adds."""
    status = status_of(prod=moving(now, old))
    wanted = {"total": total, "left": now.left, "inFlight": now.in_flight, "reason": "Moving", "message": message}
    assert status["clusters"][0]["moves"] == wanted
    assert status["conditions"][0]["message"] == f"prod: {message}"
    assert conditions(status) == {
        "Ready": ("False", "Moving"),
        "Reconciling": ("True", "Moving"),
        "Stalled": ("False", "Moving"),
        "DriftDetected": ("False", "Moving"),
        "Moving": ("True", "Moving"),
    }


def test_moves_that_are_held_stall_their_topic() -> None:
    """The reason and the text are those of the problem: kstatus reports a failure, and no progress."""
    status = status_of(prod=moving(TopicMoves(3, 1, 1, 2), moved(3, 3), STALL))
    moves = status["clusters"][0]["moves"]
    assert (moves["reason"], moves["message"]) == (
        "MovesStalled",
        "0 of 3 partitions moved, batch 1 of 2: no progress for 900 s: wait",
    )
    assert conditions(status) == {
        "Ready": ("False", "MovesStalled"),
        "Reconciling": ("False", "MovesStalled"),
        "Stalled": ("True", "MovesStalled"),
        "DriftDetected": ("False", "MovesStalled"),
        "Moving": ("True", "MovesStalled"),
    }


def test_of_several_clusters_with_moves_the_held_one_is_named() -> None:
    """The condition names a stall before a move in progress, and counts the others."""
    going, held = moving(TopicMoves(2)), moving(TopicMoves(1), problem=STALL)
    found = {each["type"]: each for each in status_of(a=going, b=held, c=going)["conditions"]}
    assert found["Moving"]["message"] == (
        "b: 0 of 1 partition moved: no progress for 900 s: wait; and 2 other clusters"
    )
    found = {each["type"]: each for each in status_of(a=going, b=going)["conditions"]}
    assert found["Moving"]["message"] == "a: 0 of 2 partitions moved; and 1 other cluster"


def test_a_topic_without_moves_has_no_condition_of_them() -> None:
    """Users wait for a condition only after the first move."""
    status = status_of(prod=moving(None, moved(3, 1)))
    assert "moves" not in status["clusters"][0]
    assert conditions(status).keys() == {"Ready", "Reconciling", "Stalled", "DriftDetected"}


@pytest.mark.parametrize(
    ("old", "now", "wanted"),
    [
        (None, TopicMoves(3), []),
        (None, TopicMoves(3, 1, 1, 2), [Event("MovesStarted", "prod: 3 partitions to move")]),
        (moved(3, 3), TopicMoves(3, 1, 1, 2), [Event("MovesStarted", "prod: 3 partitions to move")]),
        (moved(3, 3, 1), TopicMoves(3, 1, 1, 2), []),
        (moved(3, 2), TopicMoves(2, 1, 2, 2), []),
        (moved(3, 2), TopicMoves(2), []),
        (moved(3, 1, 1), None, [Event("ReplicasMoved", "prod: 3 partitions moved")]),
        (moved(3, 3, 3), None, [Event("ReplicasMoved", "prod: 3 partitions moved")]),
        (moved(3, 2, 1), None, []),
        (moved(3, 3), None, []),
        (None, None, []),
    ],
)
def test_moves_have_an_event_at_their_begin_and_their_end(
    old: Mapping[str, Any] | None, now: TopicMoves | None, wanted: list[Event]
) -> None:
    """The first batch begins them. They have ended only if the last batch had all that was left."""
    result = moving(now, old)
    assert [*topic_events("prod", result.candidate.resource.status_on("prod"), result)] == wanted
