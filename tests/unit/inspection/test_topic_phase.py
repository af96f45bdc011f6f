"""The phases of a topic's life on a cluster, and the event that each phase waits for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from support.states import cluster, spec, topic
from topiarist.inspection.health import IssueType, Phase, TopicPhase, build_partitions, count_issues, determine_phase
from topiarist.kafka.types import MIN_KAFKA_VERSION, Replicas
from topiarist.model.progress import TopicProgress, blocking_reason
from topiarist.model.spec import TopicSpec
from topiarist.model.state import ClusterState, OwnershipRecord, PartitionState, ReadError, TopicInspection

OURS, TOMBSTONE = OwnershipRecord("default"), OwnershipRecord("default", deleted=True)
WISH, FAREWELL = spec("orders"), spec("orders", ensure="Absent")
LISTS: Sequence[Replicas] = ((1, 2), (2, 3), (7, 8))


def lived(state: ClusterState, *states: int, wanted: TopicSpec | None = None, known: bool = True) -> TopicPhase:
    """Return the phase of ``orders`` with these partitions initialized."""
    listed = state.topics["orders"].replicas if "orders" in state.topics else ()
    taken = {partition: PartitionState(1, (1,)) for partition in states}
    found = TopicInspection("1", dict(enumerate(listed)), taken) if known else None
    return determine_phase(state, "orders", wanted, build_partitions(state, "orders", found, MIN_KAFKA_VERSION), known)


@pytest.mark.parametrize(
    ("record", "wanted", "phase"),
    [
        (None, None, Phase.UNKNOWN),
        (None, WISH, Phase.DECLARED),
        (None, FAREWELL, Phase.ABSENT),
        (OURS, None, Phase.DELETED_EXTERNALLY),
        (OURS, WISH, Phase.DELETED_EXTERNALLY),
        (TOMBSTONE, FAREWELL, Phase.DELETED),
        (TOMBSTONE, None, Phase.DELETED),
    ],
)
def test_a_topic_that_is_not_there(record: OwnershipRecord | None, wanted: TopicSpec | None, phase: Phase) -> None:
    """The phase of an absent topic follows from its ownership record and its manifest."""
    found = lived(cluster(dangling_records={"orders": record} if record else {}), wanted=wanted)
    assert (found.phase, found.blocked_by) == (phase, "")


def test_taken_over_is_said_by_partition() -> None:
    """The phase counts initialized partitions: none, some or all. Unlisted partitions do not count."""
    state = cluster(topic("orders", LISTS[:2]))
    assert lived(state) == TopicPhase(
        Phase.NOT_INITIALIZED, "not initialized by the controller", "the controller, which is initializing it"
    )
    some = lived(state, 0)
    assert (some.phase, some.message) == (Phase.PARTLY_INITIALIZED, "1 of 2 partitions initialized by the controller")
    assert lived(state, 0, 1) == TopicPhase(Phase.INITIALIZED, "initialized by the controller")
    assert lived(state, 0, 1, 9).phase is Phase.INITIALIZED
    assert lived(state, 0, 9).message.startswith("1 of 2 ")


@pytest.mark.parametrize(
    ("lists", "waits"),
    [
        ([(1, 2), (7,)], "broker 7, not registered"),
        ([(1, 2), (7, 8)], "one of brokers 7, 8, not registered"),
        ([(7, 8), (8, 9)], "one of brokers 7, 8, 9, not registered, for each of 2 partitions"),
        ([(1,), ()], "replicas for 1 partition"),
        ([(7,), ()], "broker 7, not registered; replicas for 1 partition"),
    ],
)
def test_a_creation_waits_for_brokers(lists: Sequence[Replicas], waits: str) -> None:
    """A partition without a live replica waits until one of its brokers registers."""
    state = cluster(topic("orders", lists))
    taken = [at for at, replicas in enumerate(lists) if set(replicas) & {1, 2}]
    assert lived(state, *taken).blocked_by == waits


def test_nothing_moves_without_a_controller() -> None:
    """Without a controller, a new topic and a deletion request, with or without a topic, wait for one."""
    state = cluster(topic("orders", LISTS), controller=None)
    assert lived(state).blocked_by == "there is no controller"
    assert lived(replace(state, pending_deletions=frozenset({"orders"}))).blocked_by == "there is no controller"
    assert (
        lived(cluster(controller=None, pending_deletions=frozenset({"orders"}))).blocked_by == "there is no controller"
    )


def test_a_mark_is_said_with_who_set_it_and_what_it_waits_for() -> None:
    """The phase names the client that requested the deletion, by the deletion record, and the brokers or the
    reassignment that the deletion waits for.
    """
    marked = {"pending_deletions": frozenset({"orders"})}
    away = lived(cluster(topic("orders", LISTS), **marked), 0, 1)
    assert away.message == "marked for deletion by another client"
    assert away.blocked_by == "brokers 7, 8, with replicas of it, are not registered"
    ours = topic("orders", LISTS[:1], record_valid=True)
    ours = replace(ours, record=TOMBSTONE)
    assert lived(cluster(ours, **marked), 0) == TopicPhase(
        Phase.MARKED_FOR_DELETION, "marked for deletion by owner default", blocking_reason(TopicProgress("1", True))
    )
    moving = lived(cluster(replace(ours, reassigning_partitions=(0,)), **marked), 0)
    assert moving.blocked_by == "its replicas are being reassigned"
    assert lived(cluster(**marked)) == TopicPhase(
        Phase.MARKED_FOR_DELETION, "marked for deletion and deleted: the controller removes the request next"
    )
    stale = replace(ours, record_valid=False)
    assert lived(cluster(stale, **marked), 0).message == "marked for deletion by another client"


def test_a_mark_that_was_thrown_away_is_told_from_a_topic_that_stays() -> None:
    """A topic with a deletion record and without a deletion request has disabled deletion at its brokers."""
    ours = replace(topic("orders", LISTS[:1]), record=TOMBSTONE)
    found = lived(cluster(ours), 0)
    assert found.phase is Phase.DELETION_DISABLED
    assert "delete.topic.enable=false" in found.message
    assert lived(cluster(replace(ours, record_valid=False)), 0).phase is Phase.INITIALIZED


def test_an_odd_topic_is_unreadable_unless_it_is_being_deleted() -> None:
    """An unreadable topic is unreadable, unless it is marked for deletion, which takes precedence."""
    faults = {"orders": ReadError("/brokers/topics/orders", "it is empty")}
    assert lived(cluster(topic_errors=faults)).phase is Phase.UNREADABLE
    marked = lived(cluster(topic_errors=faults, pending_deletions=frozenset({"orders"})))
    assert (marked.phase, marked.message) == (Phase.MARKED_FOR_DELETION, "marked for deletion by another client")


def test_a_snapshot_knows_that_a_topic_exists_and_no_more() -> None:
    """A snapshot shows that a topic exists, and not whether it is initialized."""
    assert lived(cluster(topic("orders", LISTS)), known=False).phase is Phase.EXISTS


def test_a_topic_without_partitions_waits_for_nothing() -> None:
    """A topic without partitions is initialized, because Kafka reads a missing list as an empty one."""
    assert lived(cluster(topic("orders", []))) == TopicPhase(Phase.INITIALIZED, "has no partitions")


def test_conditions_are_counted_the_worst_first() -> None:
    """Each partition counts once for each of its conditions, and the counts are ordered worst first."""
    state = cluster(topic("orders", LISTS[:2]))
    found = TopicInspection(
        "1", {0: (1, 2), 1: (2, 3), 2: (1, 2)}, {0: PartitionState(2, (2,)), 1: PartitionState(-1, (3,))}
    )
    assert list(count_issues(build_partitions(state, "orders", found, MIN_KAFKA_VERSION)).items()) == [
        (IssueType.OFFLINE, 1),
        (IssueType.NOT_INITIALIZED, 1),
        (IssueType.UNDER_REPLICATED, 2),
        (IssueType.NOT_PREFERRED_LEADER, 1),
    ]
