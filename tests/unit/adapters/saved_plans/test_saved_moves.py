"""Saved moves: they come back to the byte, and a file with moves that no planner makes is refused."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, RACKLESS_BROKERS, plan, replica_lists, spec, state, topic
from topiarist.adapters.saved_plans.decode import parse_plan_file
from topiarist.adapters.saved_plans.encode import compute_fingerprint, dumps, encode_plans
from topiarist.errors import Reason, TopiaristError
from topiarist.filters.move_limit import limit_moves
from topiarist.model.moves import UNLIMITED, MoveKind, MoveSettings
from topiarist.model.plan import MoveReplicas, Plan
from topiarist.model.spec import ClusterSpec

ON = replace(
    PROD_CLUSTER,
    moves=MoveSettings(frozenset({MoveKind.DRAIN, MoveKind.FACTOR, MoveKind.ASSIGNMENT}), UNLIMITED),
    drain_brokers=frozenset({4}),
)
SEEN = state(
    topic("drained", replica_lists("41", "24")),
    topic("listed", replica_lists("12")),
    topic("raised", replica_lists("12", "23")),
    brokers=RACKLESS_BROKERS,
)


def make_plan(on: ClusterSpec = ON) -> Plan:
    """Return a plan with a drain, an explicit list and a raised factor."""
    return plan(
        SEEN,
        spec("drained", on, partitions=2, replicationFactor=2),
        spec("listed", on, replicaAssignment=[[3, 1]]),
        spec("raised", on, partitions=2, replicationFactor=3, config={"retention.ms": 5}),
    )


PLAN = make_plan()
CONTENT = encode_plans([PLAN])


def test_moves_come_back() -> None:
    """Every list and reason is read back, also those that a limit of the run withholds."""
    for made in (PLAN, limit_moves(PLAN, 2)):
        raw = dumps(encode_plans([made])).encode()
        (kept,) = parse_plan_file(raw, "plan.json")
        assert [each.moves() for each in kept.topics] == [each.moves() for each in made.topics]
        assert dumps(encode_plans([kept])).encode() == raw


def test_the_pace_is_no_part_of_a_saved_plan() -> None:
    """Another throttle, batch size, or brokers drained by another means give the same file: they change no list."""
    other = replace(ON, moves=replace(ON.moves, throttle=1024, stall_after=5))
    assert encode_plans([make_plan(other)]) == CONTENT


Edit = Callable[[dict[str, Any]], None]


def edit(topic_index: int, at: int, **fields: Any) -> Edit:
    """Return the edit of one move of a topic."""

    def act(content: dict[str, Any]) -> None:
        content["clusters"][0]["topics"][topic_index]["changes"][0]["moves"][at].update(fields)

    return act


def _twice(content: dict[str, Any]) -> None:
    moves = content["clusters"][0]["topics"][0]["changes"][0]["moves"]
    moves.append(moves[-1])


def _none(content: dict[str, Any]) -> None:
    content["clusters"][0]["topics"][0]["changes"][0]["moves"] = []


def _calm(content: dict[str, Any]) -> None:
    content["clusters"][0]["topics"][0]["changes"][0].update(risk="Safe", explanation="")


def _two_changes(content: dict[str, Any]) -> None:
    changes = content["clusters"][0]["topics"][0]["changes"]
    changes.append(changes[0])


def _internal(content: dict[str, Any]) -> None:
    raised = content["clusters"][0]["topics"][2]
    raised["topic"] = "__consumer_offsets"
    content["clusters"][0]["topics"] = [raised]


DRAINED, RAISED = 0, 2
FORGED: dict[str, tuple[Edit, str]] = {
    "a broker twice": (edit(DRAINED, 0, after=[1, 1]), ""),
    "no broker": (edit(DRAINED, 0, after=[]), ""),
    "no broker before": (edit(DRAINED, 0, before=[]), ""),
    "a negative broker": (edit(DRAINED, 0, after=[-1, 1]), ""),
    "a negative partition": (edit(DRAINED, 0, partition=-1), ""),
    "equal lists": (edit(DRAINED, 0, after=[4, 1]), "equal replica lists"),
    "a partition twice": (_twice, "duplicate or not sorted"),
    "no moves": (_none, ""),
    "no reason": (edit(DRAINED, 0, reasons=[]), ""),
    "an unknown reason": (edit(DRAINED, 0, reasons=["Whim"]), ""),
    "reasons out of order": (edit(DRAINED, 0, reasons=["Racks", "Drain"]), "not in order"),
    "a smaller risk": (_calm, "another risk"),
    "two moves": (_two_changes, "exclude each other"),
    "drained to fewer replicas": (edit(DRAINED, 0, after=[1]), "without the reason Factor"),
    "racks with a replica more": (edit(DRAINED, 0, after=[4, 1, 2], reasons=["Racks"]), "without the reason Factor"),
    "spread to fewer replicas": (edit(DRAINED, 0, after=[1], reasons=["Spread"]), "without the reason Factor"),
    "drained to another order": (edit(DRAINED, 0, after=[1, 4]), "another order of the same brokers"),
    "racks with another leader": (edit(DRAINED, 0, after=[2, 1], reasons=["Racks"]), "another preferred leader"),
    "raised with another leader": (edit(RAISED, 0, after=[2, 1, 3]), "another preferred leader"),
    "lowered to the second replica": (edit(RAISED, 0, after=[2]), "another preferred leader"),
    "a Kafka topic with another factor": (_internal, "internal to Kafka"),
}


@pytest.mark.parametrize(("forge", "words"), FORGED.values(), ids=FORGED)
def test_moves_that_no_planner_makes_are_refused(forge: Edit, words: str) -> None:
    """An edited file with a correct fingerprint is refused as a whole before anything is sent (M24)."""
    content = deepcopy(CONTENT)
    forge(content)
    with pytest.raises(TopiaristError) as caught:
        parse_plan_file(signed(content), "plan.json")
    assert caught.value.reason is Reason.NOT_A_PLAN
    assert words in str(caught.value)


def test_the_forged_plan_was_good_before() -> None:
    """The file of the test above is accepted without an edit, so each edit is the cause of its refusal."""
    (kept,) = parse_plan_file(signed(deepcopy(CONTENT)), "plan.json")
    kinds = [[type(change) for change in each.changes] for each in kept.topics]
    assert kinds[0] == kinds[1] == [MoveReplicas]
