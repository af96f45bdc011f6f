"""A plan that was kept against a cluster as it is now: what is done, what moved, and what is left to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from topiarist.core.change import Plan
from topiarist.core.evolve import evolve
from topiarist.core.standings import look
from topiarist.core.state import ClusterState, Fault, Gate
from topiarist.errors import Reason
from unit.builders import kinds, lists, plan, refused, spec, state, topic, with_topic

ZSTD = {"compression.type": "zstd"}
SEEN = state(
    *map(topic, ("done", "left", "moved", "same")),
    topic("noticed", config={"flush.ms": "5"}),
    topic("refused", lists("12", "23")),
)
PLAN = plan(
    SEEN,
    *(spec(name, config=ZSTD) for name in ("done", "left", "moved")),
    *(spec("noticed"), spec("same"), spec("refused", partitions=1)),
)


def _later() -> ClusterState:
    """One topic is done, and others have set the key of another."""
    after = evolve(SEEN, [found for found in PLAN.topics if found.topic == "done"])
    return with_topic(after, "moved", config={"compression.type": "gzip"})


def _kinds(found: Plan) -> dict[str, list[str]]:
    return {each.topic: kinds(each) for each in found.topics}


def test_what_is_done_what_moved_and_what_is_left() -> None:
    """Each topic of the plan is one of the three; what moved is still shown, and not done."""
    looked = look(PLAN, _later())
    update = ["UpdateConfig"]
    assert [found.topic for found in looked.done] == ["done"]
    assert looked.moved == {"moved": "compression.type was not set, and is gzip now"}
    assert _kinds(looked.plan) == {"left": update, "moved": update, "noticed": [], "refused": []}
    assert _kinds(looked.standing()) == {"left": update, "noticed": [], "refused": []}


@pytest.mark.parametrize(("claimed", "counted"), [(1, 2), (2, 3), (10_000, 3)])
def test_no_file_makes_more_topics_unchanged_than_there_are(claimed: int, counted: int) -> None:
    """Two topics are neither changed nor refused; what is done by now is unchanged too."""
    assert PLAN.unchanged == 2
    assert look(replace(PLAN, unchanged=claimed), _later()).plan.unchanged == counted


def test_a_topic_that_cannot_be_read_has_moved() -> None:
    """Nobody knows how it stands; which node it is is said."""
    blind = replace(_later(), faults={"left": Fault("/config/topics/left", "it is not JSON")})
    assert look(PLAN, blind).moved["left"] == "/config/topics/left: it is not JSON"


def test_a_closed_gate_holds_back_all_that_is_left() -> None:
    """Nothing moves under a plan that may not be done; what is done stays so."""
    closed = replace(_later(), gate=Gate(Reason.FROZEN, "disks are being moved"))
    looked = look(PLAN, closed)
    assert ([found.topic for found in looked.done], looked.moved) == (["done"], {})
    assert {found.topic: refused(found) for found in looked.plan.topics} == {
        "left": ["Frozen"],
        "moved": ["Frozen"],
        "noticed": [],
        "refused": ["FewerPartitions"],
    }
    assert not looked.plan.pending
