"""The meaning of a poll result for a run that waits for the controller."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders import spec, state, topic
from topiarist.errors import Reason
from topiarist.model.outcome import (
    DELETION_DISABLED_MESSAGE,
    FINISHED,
    ProgressState,
    TopicProgress,
    build_topic_progress,
    evaluate_progress,
    is_deletion_pending,
    needs_controller,
    partitions_to_initialize,
)
from topiarist.model.plan import Plan, RunOptions, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState
from topiarist.planning.planner import make_plan

SEEN = state(topic("orders"), topic("clicks", identity="2"))
WORKING = "still marked for deletion: the deletion is in progress"
LISTS = {0: (1, 2, 3), 1: (2, 3, 4), 2: (3, 4, 5), 3: (4, 5, 6), 4: (5, 6, 1)}
"""The replica lists of a topic that has grown from three partitions to five."""


def plan(state: ClusterState = SEEN, *names: str, ensure: str = "Absent") -> Plan:
    """Return a plan for these topics; by default it deletes ``orders``."""
    specs = [spec(name, ensure=ensure) for name in names or ("orders",)]
    return make_plan(state, ClusterSpec(), specs, RunOptions())


def made(**fields: Any) -> TopicPlan:
    """Return the plan that creates ``new`` with two partitions."""
    return only(make_plan(SEEN, ClusterSpec(), [spec("new", **{"partitions": 2} | fields)], RunOptions()))


def grown() -> TopicPlan:
    """Return the plan that grows ``orders`` from three partitions to five."""
    return only(make_plan(SEEN, ClusterSpec(), [spec("orders", partitions=5)], RunOptions()))


def only(found: Plan) -> TopicPlan:
    """Return the plan of the only topic."""
    (topic,) = found.topics
    return topic


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (TopicProgress("1", True), WORKING),
        (TopicProgress(None, True), WORKING),
        (TopicProgress("1", True, (4,)), "still marked for deletion: broker 4, with replicas of it, is not registered"),
        (
            TopicProgress("1", True, (4, 5)),
            "still marked for deletion: brokers 4, 5, with replicas of it, are not registered",
        ),
        (TopicProgress("1", True, (), True), "still marked for deletion: its replicas are being reassigned"),
    ],
)
def test_a_mark_is_waited_for(now: TopicProgress, words: str) -> None:
    """A deletion is unfinished while its request exists, and the message names a visible cause of the delay."""
    found = evaluate_progress(only(plan()), now)
    assert (found.final, found.reason, found.message) == (False, Reason.DELETION_IN_PROGRESS, words)


@pytest.mark.parametrize("now", [TopicProgress(None, False), TopicProgress("7", False)])
def test_a_topic_that_has_gone_is_finished(now: TopicProgress) -> None:
    """A deletion is finished if the topic no longer exists or was recreated, also without a planned change."""
    assert evaluate_progress(only(plan()), now) == FINISHED
    assert evaluate_progress(TopicPlan("orders"), now) == FINISHED


def test_a_topic_that_stays_without_its_mark_was_not_deleted() -> None:
    """A topic that stays without its deletion request has brokers with ``delete.topic.enable=false`` (contract 6.5)."""
    found = evaluate_progress(only(plan()), TopicProgress("1", False))
    assert (found.final, found.reason, found.message) == (True, Reason.DELETION_DISABLED, DELETION_DISABLED_MESSAGE)
    assert "delete.topic.enable=false" in DELETION_DISABLED_MESSAGE


def test_new_partitions_and_deletions_are_waited_for() -> None:
    """Only new partitions and deletions need the controller, never an observed topic. An earlier deletion is pending
    without a change.
    """
    begun = state(topic("orders"), pending_deletions=frozenset({"orders"}))
    observed = make_plan(SEEN, ClusterSpec(), [spec("orders", ensure="Absent", mode="Observe")], RunOptions())
    configured = make_plan(SEEN, ClusterSpec(), [spec("orders", config={"retention.ms": 5})], RunOptions())
    assert needs_controller(only(plan()))
    assert needs_controller(made())
    assert needs_controller(grown())
    assert not needs_controller(only(configured))
    assert not needs_controller(only(observed))
    assert (is_deletion_pending(only(plan(begun))), is_deletion_pending(only(plan()))) == (True, False)
    seen = make_plan(begun, ClusterSpec(), [spec("orders", ensure="Absent", mode="Observe")], RunOptions())
    assert [notice.reason for notice in only(seen).notices] == [Reason.DELETION_IN_PROGRESS]
    assert not is_deletion_pending(only(seen))


def test_what_a_plan_brings_are_its_new_partitions() -> None:
    """A plan initializes its new partitions under their final numbers; a config change or a deletion has none."""
    assert list(partitions_to_initialize(made())) == [0, 1]
    assert list(partitions_to_initialize(grown())) == [3, 4]
    assert partitions_to_initialize(only(plan())) == {}


@pytest.mark.parametrize(
    ("taken", "seen", "led", "words"),
    [
        ({}, (), True, "the controller has not initialized 2 of 2 new partitions"),
        ({3}, (), True, "the controller has not initialized 1 of 2 new partitions"),
        ({}, (4,), False, "the controller has not initialized 1 of 2 new partitions; the cluster has no controller"),
    ],
)
def test_a_partition_without_a_state_is_waited_for(
    taken: set[int], seen: tuple[int, ...], led: bool, words: str
) -> None:
    """The message has the number of uninitialized partitions and reports a missing controller. Partitions from an
    earlier poll stay initialized.
    """
    now = TopicProgress("1", False, replicas=LISTS, initialized=frozenset(taken), has_controller=led)
    assert evaluate_progress(grown(), now, seen) == ProgressState(False, Reason.NOT_INITIALIZED, words)


@pytest.mark.parametrize(("taken", "seen"), [({3, 4}, ()), ({4}, (3,)), ({}, (3, 4))])
def test_a_topic_whose_new_partitions_have_states_is_finished(taken: set[int], seen: tuple[int, ...]) -> None:
    """Growth is finished when any poll has shown each new partition as initialized. Existing partitions and moved
    replicas do not count.
    """
    assert (
        evaluate_progress(grown(), TopicProgress("1", False, replicas=LISTS, initialized=frozenset(taken)), seen)
        == FINISHED
    )
    moved = {**LISTS, 3: (1, 2, 3)}
    assert (
        evaluate_progress(grown(), TopicProgress("1", False, replicas=moved, initialized=frozenset(taken)), seen)
        == FINISHED
    )


def test_partitions_without_a_live_broker_are_not_waited_for() -> None:
    """Partitions without a live broker are reported and not waited for, because the controller cannot initialize them;
    all other partitions are waited for.
    """
    away = TopicProgress("1", False, missing_brokers=(1, 5, 6), replicas=LISTS)
    assert not evaluate_progress(grown(), away).final
    one = evaluate_progress(grown(), away._replace(initialized=frozenset({3})))
    assert one == ProgressState(
        True, Reason.NOT_INITIALIZED, "partition 4: not waited for, since brokers 1, 5, 6 are not registered"
    )
    both = evaluate_progress(
        made(partitions=2, replicationFactor=1), TopicProgress("9", False, (7,), replicas={0: (7,), 1: (7,)})
    )
    assert (both.final, both.message) == (True, "partitions 0, 1: not waited for, since broker 7 is not registered")


def test_a_partition_that_has_a_state_needs_no_broker() -> None:
    """A partition that was initialized before its brokers went offline needs no message."""
    assert (
        evaluate_progress(
            grown(), TopicProgress("1", False, (4, 5, 6, 1), replicas=LISTS, initialized=frozenset({3, 4}))
        )
        == FINISHED
    )


def test_of_many_partitions_the_first_are_named() -> None:
    """The message lists the first eight of many partitions and the number of the rest."""
    lists = dict.fromkeys(range(100), (7,))
    found = evaluate_progress(
        made(partitions=100, replicationFactor=1), TopicProgress("9", False, (7,), replicas=lists)
    )
    assert found.message.startswith("partitions 0, 1, 2, 3, 4, 5, 6, 7, ... 92 more: not waited for")


TAKEN = frozenset({3, 4})


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (TopicProgress("1", True, replicas=LISTS, initialized=TAKEN), "is marked for deletion now"),
        (TopicProgress(None, True), "is marked for deletion now"),
        (TopicProgress(None, False), "does not exist now"),
        (TopicProgress("2", False, replicas=LISTS, initialized=TAKEN), "another client deleted and recreated it"),
        (
            TopicProgress("1", False, replicas=LISTS, initialized=TAKEN, record_stale=True),
            "another client deleted and recreated it",
        ),
        (TopicProgress("1", False, initialized=TAKEN, read_error="not JSON"), "cannot be read now: not JSON"),
        (
            TopicProgress("1", False, replicas={0: (1,), 1: (2,), 2: (3,)}, initialized=TAKEN),
            "partitions 3, 4 were written, and then lost",
        ),
        (
            TopicProgress("1", False, replicas={n: LISTS[n] for n in (0, 1, 2, 4)}, initialized=TAKEN),
            "partition 3 was written, and then lost",
        ),
    ],
)
def test_what_is_no_longer_as_it_was_written_ends_the_waiting(now: TopicProgress, words: str) -> None:
    """A deleted, marked, recreated, unreadable or reverted topic ends the wait with its own message."""
    found = evaluate_progress(grown(), now, (3, 4))
    assert (found.final, found.reason) == (True, Reason.STATE_CONFLICT)
    assert words in found.message


def test_a_new_topic_is_told_from_another_by_our_record() -> None:
    """A stale record shows that another client recreated a new topic: the plan has no identity of it."""
    lists = {0: (1, 2, 3), 1: (2, 3, 4)}
    assert (
        evaluate_progress(made(), TopicProgress("77", False, replicas=lists, initialized=frozenset({0, 1}))) == FINISHED
    )
    again = evaluate_progress(
        made(), TopicProgress("78", False, replicas=lists, initialized=frozenset({0, 1}), record_stale=True)
    )
    assert (again.final, again.reason) == (True, Reason.STATE_CONFLICT)


def test_a_sight_of_a_whole_cluster() -> None:
    """The progress has the unregistered brokers with replicas, the deletion request and the reassignment, and nothing
    for an absent topic.
    """
    cluster_state = state(
        topic("orders", ((1, 9), (8, 1))),
        pending_deletions=frozenset({"orders", "gone"}),
        reassigning_topics=frozenset({"orders"}),
    )
    assert build_topic_progress(cluster_state, "orders") == TopicProgress("1", True, (8, 9), True)
    moving = state(topic("orders", ((8, 9),), reassigning_partitions=(0,)))
    assert build_topic_progress(moving, "orders").reassigning
    assert build_topic_progress(cluster_state, "gone") == TopicProgress(None, True)
    assert build_topic_progress(cluster_state, "none") == TopicProgress(None, False)
