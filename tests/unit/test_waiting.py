"""What a look at a topic means to whoever waits for the controller."""

from __future__ import annotations

from typing import Any

import pytest

from support.states import cluster, spec, topic
from topiarist.core.change import Plan, TopicPlan
from topiarist.core.plan import Run, make_plan
from topiarist.core.spec import ClusterSpec
from topiarist.core.state import ClusterState
from topiarist.core.waiting import DISABLED, FINISHED, Sight, Stage, awaited, brings, sight, stage, under_way
from topiarist.errors import Reason

SEEN = cluster(topic("orders"), topic("clicks", identity=2))
WORKING = "still marked for deletion: the controller is at it"
LISTS = {0: (1, 2, 3), 1: (2, 3, 4), 2: (3, 4, 5), 3: (4, 5, 6), 4: (5, 6, 1)}
"""The replica lists of a topic that has grown from three partitions to five."""


def plan(state: ClusterState = SEEN, *names: str, ensure: str = "Absent") -> Plan:
    """A plan for these topics, by default one that deletes ``orders``."""
    specs = [spec(name, ensure=ensure) for name in names or ("orders",)]
    return make_plan(state, ClusterSpec(), specs, Run())


def made(**fields: Any) -> TopicPlan:
    """The plan that creates ``new`` with two partitions."""
    return only(make_plan(SEEN, ClusterSpec(), [spec("new", **{"partitions": 2} | fields)], Run()))


def grown() -> TopicPlan:
    """The plan that grows ``orders`` from three partitions to five."""
    return only(make_plan(SEEN, ClusterSpec(), [spec("orders", partitions=5)], Run()))


def only(found: Plan) -> TopicPlan:
    """The plan of the only topic."""
    (topic,) = found.topics
    return topic


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (Sight(1, True), WORKING),
        (Sight(None, True), WORKING),
        (Sight(1, True, (4,)), "still marked for deletion: broker 4, with replicas of it, is not registered"),
        (Sight(1, True, (4, 5)), "still marked for deletion: brokers 4, 5, with replicas of it, are not registered"),
        (Sight(1, True, (), True), "still marked for deletion: its replicas are being reassigned"),
    ],
)
def test_a_mark_is_waited_for(now: Sight, words: str) -> None:
    """As long as it is there the controller has not finished; what keeps it is said where it can be seen."""
    found = stage(only(plan()), now)
    assert (found.final, found.reason, found.message) == (False, Reason.DELETION_IN_PROGRESS, words)


@pytest.mark.parametrize("now", [Sight(None, False), Sight(7, False)])
def test_a_topic_that_has_gone_is_finished(now: Sight) -> None:
    """Also if others have made another one of its name, and if the plan knew only of the mark."""
    assert stage(only(plan()), now) == FINISHED
    assert stage(TopicPlan("orders"), now) == FINISHED


def test_a_topic_that_stays_without_its_mark_was_not_deleted() -> None:
    """That is how brokers with ``delete.topic.enable=false`` show themselves (contract 6.5)."""
    found = stage(only(plan()), Sight(1, False))
    assert (found.final, found.reason, found.message) == (True, Reason.DELETION_DISABLED, DISABLED)
    assert "delete.topic.enable=false" in DISABLED


def test_new_partitions_and_deletions_are_waited_for() -> None:
    """No other change, nothing that is only observed; a deletion that began earlier is under way without a change."""
    begun = cluster(topic("orders"), deleting=frozenset({"orders"}))
    observed = make_plan(SEEN, ClusterSpec(), [spec("orders", ensure="Absent", mode="Observe")], Run())
    configured = make_plan(SEEN, ClusterSpec(), [spec("orders", config={"retention.ms": 5})], Run())
    assert awaited(only(plan()))
    assert awaited(made())
    assert awaited(grown())
    assert not awaited(only(configured))
    assert not awaited(only(observed))
    assert (under_way(only(plan(begun))), under_way(only(plan()))) == (True, False)
    seen = make_plan(begun, ClusterSpec(), [spec("orders", ensure="Absent", mode="Observe")], Run())
    assert [notice.reason for notice in only(seen).notices] == [Reason.DELETION_IN_PROGRESS]
    assert not under_way(only(seen))


def test_what_a_plan_brings_are_its_new_partitions() -> None:
    """Numbered as they will be; a change of config or a deletion brings none."""
    assert list(brings(made())) == [0, 1]
    assert list(brings(grown())) == [3, 4]
    assert brings(only(plan())) == {}


@pytest.mark.parametrize(
    ("taken", "seen", "led", "words"),
    [
        ({}, (), True, "the controller has not taken over 2 of 2 new partitions"),
        ({3}, (), True, "the controller has not taken over 1 of 2 new partitions"),
        ({}, (4,), False, "the controller has not taken over 1 of 2 new partitions; the cluster has no controller"),
    ],
)
def test_a_partition_without_a_state_is_waited_for(
    taken: set[int], seen: tuple[int, ...], led: bool, words: str
) -> None:
    """With how many there are; what an earlier look has shown stays seen; a missing controller is said."""
    now = Sight(1, False, replicas=LISTS, taken=frozenset(taken), led=led)
    assert stage(grown(), now, seen) == Stage(False, Reason.NOT_TAKEN_OVER, words)


@pytest.mark.parametrize(("taken", "seen"), [({3, 4}, ()), ({4}, (3,)), ({}, (3, 4))])
def test_a_topic_whose_new_partitions_have_states_is_finished(taken: set[int], seen: tuple[int, ...]) -> None:
    """Whichever look has shown them; the partitions that were there before do not count, nor do moved replicas."""
    assert stage(grown(), Sight(1, False, replicas=LISTS, taken=frozenset(taken)), seen) == FINISHED
    moved = {**LISTS, 3: (1, 2, 3)}
    assert stage(grown(), Sight(1, False, replicas=moved, taken=frozenset(taken)), seen) == FINISHED


def test_partitions_without_a_live_broker_are_not_waited_for() -> None:
    """The controller gives them no state until one is back; that is said, and the others are waited for."""
    away = Sight(1, False, missing=(1, 5, 6), replicas=LISTS)
    assert not stage(grown(), away).final
    one = stage(grown(), away._replace(taken=frozenset({3})))
    assert one == Stage(
        True, Reason.NOT_TAKEN_OVER, "partition 4: not waited for, since brokers 1, 5, 6 are not registered"
    )
    both = stage(made(partitions=2, replicationFactor=1), Sight(9, False, (7,), replicas={0: (7,), 1: (7,)}))
    assert (both.final, both.message) == (True, "partitions 0, 1: not waited for, since broker 7 is not registered")


def test_a_partition_that_has_a_state_needs_no_broker() -> None:
    """It was taken over before its brokers went: nothing is left to say."""
    assert stage(grown(), Sight(1, False, (4, 5, 6, 1), replicas=LISTS, taken=frozenset({3, 4}))) == FINISHED


def test_of_many_partitions_the_first_are_named() -> None:
    """A topic of a hundred partitions does not fill the screen."""
    lists = dict.fromkeys(range(100), (7,))
    found = stage(made(partitions=100, replicationFactor=1), Sight(9, False, (7,), replicas=lists))
    assert found.message.startswith("partitions 0, 1, 2, 3, 4, 5, 6, 7, ... 92 more: not waited for")


TAKEN = frozenset({3, 4})


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (Sight(1, True, replicas=LISTS, taken=TAKEN), "is marked for deletion now"),
        (Sight(None, True), "is marked for deletion now"),
        (Sight(None, False), "is gone now"),
        (Sight(2, False, replicas=LISTS, taken=TAKEN), "made again by somebody else"),
        (Sight(1, False, replicas=LISTS, taken=TAKEN, stale=True), "made again by somebody else"),
        (Sight(1, False, taken=TAKEN, fault="not JSON"), "cannot be read now: not JSON"),
        (
            Sight(1, False, replicas={0: (1,), 1: (2,), 2: (3,)}, taken=TAKEN),
            "partitions 3, 4 were written, and lost again",
        ),
        (
            Sight(1, False, replicas={n: LISTS[n] for n in (0, 1, 2, 4)}, taken=TAKEN),
            "partition 3 was written, and lost again",
        ),
    ],
)
def test_what_is_no_longer_as_it_was_written_ends_the_waiting(now: Sight, words: str) -> None:
    """Gone, marked, another topic, unreadable, or grown in vain: no patience helps, and each is told as what it is."""
    found = stage(grown(), now, (3, 4))
    assert (found.final, found.reason) == (True, Reason.STATE_CONFLICT)
    assert words in found.message


def test_a_new_topic_is_told_from_another_by_our_record() -> None:
    """Its identity is not known before it is there; a record that is older than the topic belongs to an earlier one."""
    lists = {0: (1, 2, 3), 1: (2, 3, 4)}
    assert stage(made(), Sight(77, False, replicas=lists, taken=frozenset({0, 1}))) == FINISHED
    again = stage(made(), Sight(78, False, replicas=lists, taken=frozenset({0, 1}), stale=True))
    assert (again.final, again.reason) == (True, Reason.STATE_CONFLICT)


def test_a_sight_of_a_whole_cluster() -> None:
    """Brokers with replicas that are not registered, the mark, the reassignment; nothing of an absent topic."""
    state = cluster(
        topic("orders", ((1, 9), (8, 1))),
        deleting=frozenset({"orders", "gone"}),
        reassigning=frozenset({"orders"}),
    )
    assert sight(state, "orders") == Sight(1, True, (8, 9), True)
    moving = cluster(topic("orders", ((8, 9),), reassigning=(0,)))
    assert sight(moving, "orders").reassigning
    assert sight(state, "gone") == Sight(None, True)
    assert sight(state, "none", (0,)) == Sight(None, False)


def test_a_sight_with_partitions_asked_about() -> None:
    """All that the topic has; taken over are those asked about that have a live replica; holes keep their numbers."""
    state = cluster(topic("orders", ((1, 9), (8, 9), (2, 1)), partition_ids=(0, 2, 5)), controller=None)
    found = sight(state, "orders", (0, 2, 3, 5))
    assert found.replicas == {0: (1, 9), 2: (8, 9), 5: (2, 1)}
    assert (set(found.taken), found.stale, found.led) == ({0, 5}, False, False)
    stale = cluster(topic("orders", record_valid=False))
    assert sight(stale, "orders", (0,)).stale
    assert not sight(cluster(topic("orders", ours=None)), "orders", (0,)).stale
