"""The two parts of a plan: the changes before the moves, and the moves after them."""

from __future__ import annotations

from msgspec.structs import replace

from support.builders import cluster, plan, replica_lists, spec, state, topic
from topiarist.model.moves import MoveKind, MoveSettings
from topiarist.model.plan import MoveReplicas, Plan, TakeOwnership, UpdateConfig
from topiarist.model.run_options import RunOptions
from topiarist.planning.moves.leaders import only_moves, without_moves
from topiarist.planning.preconditions import simulate

DRAINING = cluster(
    "prod", cluster_id="ID", version=(3, 9), moves=MoveSettings(frozenset(MoveKind), 1000), drain_brokers=frozenset({6})
)
LISTS = replica_lists("61", "12")


FIELDS = {"partitions": 2, "replicationFactor": 2}
FOUND = state(
    topic("adopted", LISTS, record=None),
    topic("both", LISTS),
    topic("config", replica_lists("12", "23")),
    topic("moved", LISTS),
)
SPECS = (
    spec("adopted", DRAINING, **FIELDS),
    spec("both", DRAINING, config={"retention.ms": 5}, **FIELDS),
    spec("config", DRAINING, config={"retention.ms": 5}, **FIELDS),
    spec("moved", DRAINING, **FIELDS),
)


def _plan() -> Plan:
    """Return a plan with moves and a config change, moves and an adoption, moves alone, and a config change alone."""
    return plan(FOUND, *SPECS, run=RunOptions(adopt=("*",)), on=DRAINING)


def test_the_changes_before_the_moves() -> None:
    """A topic that is moved gets its ownership record first, if that changes; one without a change is not written."""
    changes = {each.topic: [type(change) for change in each.changes] for each in without_moves(_plan()).topics}
    again = plan(simulate(FOUND, without_moves(_plan()).actionable_topics()), SPECS[-1], on=DRAINING)
    assert without_moves(again).topics[0].changes == ()
    assert changes == {
        "adopted": [TakeOwnership],
        "both": [UpdateConfig],
        "config": [UpdateConfig],
        "moved": [TakeOwnership],
    }


def test_the_moves_after_them() -> None:
    """The topics are as they are once the other changes are made: config, owner and record."""
    planned = _plan()
    moves = only_moves(planned, {"adopted", "both", "moved"})
    assert [each.topic for each in moves.topics] == ["adopted", "both", "moved"]
    assert all([type(change) for change in each.changes] == [MoveReplicas] for each in moves.topics)
    for each in moves.topics:
        assert each.before is not None
        assert each.record_before == each.record_after == each.before.valid_record
    assert moves.topics[0].before.valid_record.owner == "default"  # type: ignore[union-attr]
    assert dict(moves.topics[1].before.config) == {"retention.ms": "5"}  # type: ignore[union-attr]


def test_only_the_named_topics_are_moved() -> None:
    """A topic keeps its replicas if its other changes failed."""
    assert [each.topic for each in only_moves(_plan(), {"moved"}).topics] == ["moved"]
    assert only_moves(_plan(), ()).topics == ()


def test_a_topic_without_a_state_before_stays_so() -> None:
    """A plan that was read from a file may have none."""
    planned = _plan()
    topics = tuple(replace(each, before=None) for each in planned.topics)
    assert only_moves(replace(planned, topics=topics), {"moved"}).topics[0].before is None
