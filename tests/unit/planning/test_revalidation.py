"""Revalidation of a saved plan against the present cluster: done, conflict, or remaining."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.builders import change_kinds, plan, refusal_reasons, replica_lists, spec, state, topic, with_topic
from topiarist.errors import Reason
from topiarist.model.plan import Plan
from topiarist.model.state import ClusterState, ReadError, WriteBlock
from topiarist.planning.preconditions import revalidate, simulate

ZSTD = {"compression.type": "zstd"}
SEEN = state(
    *map(topic, ("done", "left", "moved", "same")),
    topic("noticed", config={"flush.ms": "5"}),
    topic("refused", replica_lists("12", "23")),
)
PLAN = plan(
    SEEN,
    *(spec(name, config=ZSTD) for name in ("done", "left", "moved")),
    *(spec("noticed"), spec("same"), spec("refused", partitions=1)),
)


def _later() -> ClusterState:
    """Return a later state: one topic is done, and another client has set the key of another topic."""
    after = simulate(SEEN, [found for found in PLAN.topics if found.topic == "done"])
    return with_topic(after, "moved", config={"compression.type": "gzip"})


def _kinds(found: Plan) -> dict[str, list[str]]:
    return {each.topic: change_kinds(each) for each in found.topics}


def test_what_is_done_what_moved_and_what_is_left() -> None:
    """Each topic of the plan is done, a conflict or remaining; conflicts are shown and not applied."""
    looked = revalidate(PLAN, _later())
    update = ["UpdateConfig"]
    assert [found.topic for found in looked.already_applied] == ["done"]
    assert looked.conflicts == {"moved": "compression.type was not set, and is gzip now"}
    assert _kinds(looked.plan) == {"left": update, "moved": update, "noticed": [], "refused": []}
    assert _kinds(looked.without_conflicts()) == {"left": update, "noticed": [], "refused": []}


@pytest.mark.parametrize(("claimed", "counted"), [(1, 2), (2, 3), (10_000, 3)])
def test_no_file_makes_more_topics_unchanged_than_there_are(claimed: int, counted: int) -> None:
    """The count of unchanged topics includes those done since the plan, and is limited by the topics of the cluster."""
    assert PLAN.unchanged == 2
    assert revalidate(replace(PLAN, unchanged=claimed), _later()).plan.unchanged == counted


def test_a_topic_that_cannot_be_read_has_moved() -> None:
    """An unreadable topic is a conflict, and the message names the unreadable znode."""
    blind = replace(_later(), topic_errors={"left": ReadError("/config/topics/left", "it is not JSON")})
    assert revalidate(PLAN, blind).conflicts["left"] == "/config/topics/left: it is not JSON"


def test_a_closed_gate_holds_back_all_that_is_left() -> None:
    """With a write block, all remaining changes are withheld, and finished changes stay done."""
    closed = replace(_later(), write_block=WriteBlock(Reason.FROZEN, "disks are being moved"))
    looked = revalidate(PLAN, closed)
    assert ([found.topic for found in looked.already_applied], looked.conflicts) == (["done"], {})
    assert {found.topic: refusal_reasons(found) for found in looked.plan.topics} == {
        "left": ["Frozen"],
        "moved": ["Frozen"],
        "noticed": [],
        "refused": ["FewerPartitions"],
    }
    assert not looked.plan.has_changes
