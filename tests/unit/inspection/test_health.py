"""The health of a topic: partitions with their issues, and the phase on a cluster."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from support.builders import spec, state, topic
from topiarist.inspection.health import (
    IssueType,
    Partition,
    Phase,
    TopicPhase,
    build_partitions,
    count_issues,
    determine_phase,
)
from topiarist.kafka.types import MIN_KAFKA_VERSION, Replicas
from topiarist.model.outcome import TopicProgress, blocking_reason
from topiarist.model.spec import TopicSpec
from topiarist.model.state import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    ClusterState,
    OwnershipRecord,
    PartitionState,
    ReadError,
    Reassignment,
    TopicInspection,
    is_same_topic,
)

WELL = PartitionState(1, (1, 2, 3))
FAULT = ReadError("/brokers/topics/orders/partitions/0/state", "it is empty")


def seen(replicas: Replicas = (1, 2, 3), away: int | None = None, **config: str) -> ClusterState:
    """Return a cluster of six brokers, one perhaps offline, and the topic ``orders`` with one partition."""
    cluster_state = state(
        topic("orders", [replicas], config={key.replace("_", "."): text for key, text in config.items()})
    )
    return replace(cluster_state, brokers=tuple(broker for broker in cluster_state.brokers if broker.id != away))


def only(state: ClusterState, now: PartitionState | None, **fields: object) -> Partition:
    """Return the only partition of ``orders`` with this state; ``fields`` are those of its inspection."""
    states = {} if now is None else {0: now}
    found = TopicInspection("1", dict(enumerate(state.topics["orders"].replicas)), states)
    (one,) = build_partitions(state, "orders", replace(found, **fields), MIN_KAFKA_VERSION)
    return one


def said(one: Partition) -> list[str]:
    """Return the issues of a partition as text."""
    return list(map(str, one.issues))


@pytest.mark.parametrize(
    ("now", "away", "words"),
    [
        (WELL, None, []),
        (PartitionState(1, (3, 1, 2), 9, 9), None, []),
        (PartitionState(1, (1, 2)), None, ["under-replicated: ISR lacks 3"]),
        (PartitionState(2, (2,)), None, ["under-replicated: ISR lacks 1, 3", "preferred leader: 1"]),
        (PartitionState(2, (1, 2, 3)), None, ["preferred leader: 1"]),
        (PartitionState(1, (1, 2, 3)), 1, ["offline: leader 1 is not registered"]),
        (PartitionState(NO_LEADER, (1, 2, 3)), None, ["offline"]),
        (
            PartitionState(NO_LEADER, (1,)),
            1,
            ["offline: waits for 1, the last in sync", "under-replicated: ISR lacks 2, 3"],
        ),
        (PartitionState(NO_LEADER, (1, 2)), 1, ["offline", "under-replicated: ISR lacks 3"]),
        (PartitionState(NO_LEADER, ()), None, ["offline", "under-replicated: ISR lacks 1, 2, 3"]),
        (PartitionState(LEADER_DURING_DELETE, ()), 1, ["being deleted"]),
        (PartitionState(1, (1, 2, 3), recovering=True), None, ["recovering: unclean election"]),
        (None, None, ["not initialized"]),
        (None, 1, ["not initialized"]),
    ],
)
def test_a_partition_is_said_to_be_as_it_is(now: PartitionState | None, away: int | None, words: list[str]) -> None:
    """Leader, ISR and registered brokers determine the issues, worst first, and a healthy partition has none."""
    assert said(only(seen(away=away), now)) == words


def test_a_partition_that_no_broker_can_host_waits_for_one() -> None:
    """A partition without a live replica waits for one of its brokers, because the controller does not initialize it.
    An empty replica list is an error.
    """
    assert said(only(seen((7, 8)), None)) == ["not initialized: waits for 7 or 8"]
    assert said(only(seen((7,)), None)) == ["not initialized: waits for 7"]
    assert said(only(seen((6, 7)), None)) == ["not initialized"]
    assert said(only(seen(()), None)) == ["not initialized: it has no replicas"]


def test_min_isr_is_the_override_then_the_cluster_wide_default() -> None:
    """The minimum ISR is the override, then the cluster-wide default, then Kafka's default of 1."""
    now = PartitionState(1, (1,))
    assert said(only(seen(), now)) == ["under-replicated: ISR lacks 2, 3"]
    assert said(only(seen(min_insync_replicas="2"), now))[0] == "under min ISR: needs 2"
    defaults = replace(seen(), broker_defaults={"min.insync.replicas": "3"})
    assert said(only(defaults, now))[0] == "under min ISR: needs 3"
    assert said(only(seen(min_insync_replicas="many"), now)) == ["under-replicated: ISR lacks 2, 3"]


def test_an_offline_partition_is_not_also_under_min_isr() -> None:
    """An offline partition is not also under the minimum ISR, because it accepts no write in any case."""
    one = only(seen(min_insync_replicas="3"), PartitionState(NO_LEADER, (1,)))
    assert not one.has_issue(IssueType.UNDER_MIN_ISR)


def test_the_minimum_is_at_most_the_number_of_replicas_since_3_7() -> None:
    """One replica in sync is enough for a partition with one; a real shortage is shown, and older brokers refuse."""
    state, found = seen((1,), min_insync_replicas="2"), TopicInspection("1", {0: (1,)}, {0: PartitionState(1, (1,))})
    for oldest, words in (((3, 6), ["under min ISR: needs 2"]), ((3, 7), []), ((4, 4), [])):
        (one,) = build_partitions(state, "orders", found, oldest)
        assert said(one) == words
    wide, short = seen((1, 2), min_insync_replicas="3"), {0: PartitionState(1, (1,))}
    (one,) = build_partitions(wide, "orders", TopicInspection("1", {0: (1, 2)}, short), (3, 7))
    assert said(one) == ["under min ISR: needs 2", "under-replicated: ISR lacks 2"]


def test_replicas_that_a_reassignment_adds_are_not_missed() -> None:
    """Under-replicated partitions count by the replicas before a reassignment, as in Kafka."""
    moved = seen((4, 1, 2, 3))
    moving = {0: Reassignment((4,), (3,))}
    assert said(only(moved, WELL, reassignments=moving)) == [
        "being reassigned: to [4,1,2], adding 4, removing 3",
        "preferred leader: 4",
    ]
    found = said(only(moved, PartitionState(4, (4, 1)), reassignments=moving))
    assert found == ["under-replicated: ISR lacks 2, 3", "being reassigned: to [4,1,2], adding 4, removing 3"]
    assert only(moved, WELL, reassignments=moving).replica_count == 3


def test_a_reassignment_that_is_asked_for_is_said() -> None:
    """A requested reassignment is reported before the controller starts it, also for an empty replica list."""
    assert said(only(seen(), WELL, requested_replicas={0: (4, 5)})) == ["being reassigned: [4,5] requested"]
    assert said(only(seen(), WELL, requested_replicas={0: ()})) == ["being reassigned: [] requested"]


def test_a_state_that_cannot_be_read_is_neither_well_nor_missing() -> None:
    """An unreadable partition state is neither healthy nor missing: the controller initialized the partition, and its
    content is unknown.
    """
    one = only(seen(), None, partition_errors={0: FAULT})
    assert [ailment.issue_type for ailment in one.issues] == [IssueType.UNREADABLE]
    assert one.read_error == FAULT


def test_states_that_the_topic_does_not_list_are_shown() -> None:
    """The states of partitions that another client removed from the list are shown as not listed (contract 5)."""
    found = TopicInspection("1", {0: (1, 2, 3)}, {0: WELL, 7: WELL}, {5: FAULT})
    one, fifth, seventh = build_partitions(seen(), "orders", found, MIN_KAFKA_VERSION)
    assert (one.listed, one.issues, fifth.listed, seventh.listed) == (True, (), False, False)
    assert said(seventh) == ["not listed by the topic"]
    assert said(fifth) == ["unreadable", "not listed by the topic"]


def test_where_the_list_cannot_be_read_no_partition_is_called_unlisted() -> None:
    """With an unreadable partition list, the states are shown and no partition is called unlisted."""
    cluster_state = state(topic_errors={"orders": ReadError("/brokers/topics/orders", "it is empty")})
    (one,) = build_partitions(cluster_state, "orders", TopicInspection("1", {}, {3: WELL}), MIN_KAFKA_VERSION)
    assert (one.id, one.listed, one.issues, one.state) == (3, False, (), WELL)


def test_without_an_inspection_only_what_the_state_has_is_said() -> None:
    """A snapshot has no leaders and ISRs, so no partition is reported as initialized or not initialized."""
    cluster_state = state(topic("orders", [(1, 2), (7,)], reassigning_partitions=(1,)))
    first, second = build_partitions(cluster_state, "orders", None, MIN_KAFKA_VERSION)
    assert (first.state, said(first), said(second)) == (None, [], ["being reassigned"])
    assert build_partitions(cluster_state, "none", None, MIN_KAFKA_VERSION) == ()


def test_states_that_may_not_be_read_are_not_called_missing() -> None:
    """Without permission to read the states, a partition is neither initialized nor not initialized, and a requested
    reassignment is still reported.
    """
    one = only(seen(), None, requested_replicas={0: (4,)}, states_readable=False)
    assert said(one) == ["being reassigned: [4] requested"]


def test_every_condition_has_words_of_its_own() -> None:
    """Every condition has a label of its own in plain words."""
    words = [condition.label for condition in IssueType]
    assert len(set(words)) == len(words)
    assert all(" " in word or "-" in word or word.islower() for word in words)


@pytest.mark.parametrize(
    ("found", "same"),
    [
        (None, True),
        (TopicInspection("1", {0: (1, 2, 3)}), True),
        (TopicInspection("2", {0: (1, 2, 3)}), False),
        (TopicInspection("1", {0: (1, 2, 3), 1: (2, 3, 4)}), False),
        (TopicInspection("1", {0: (3, 2, 1)}), False),
        (TopicInspection(None, {}), False),
    ],
)
def test_a_topic_that_changed_while_it_was_read_is_noticed(found: TopicInspection | None, same: bool) -> None:
    """A topic that was recreated, grown, reassigned or deleted between the two reads is not the same topic."""
    assert is_same_topic(seen(), "orders", found) is same


def test_a_topic_that_is_not_there_agrees_with_nothing_there() -> None:
    """An absent topic matches no topic that was created meanwhile. An unreadable topic matches any inspection."""
    assert is_same_topic(state(), "orders", TopicInspection(None, {}))
    assert not is_same_topic(state(), "orders", TopicInspection("1", {0: (1,)}))
    assert is_same_topic(state(topic_errors={"orders": FAULT}), "orders", TopicInspection("1", {}))


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
    found = lived(state(dangling_records={"orders": record} if record else {}), wanted=wanted)
    assert (found.phase, found.blocked_by) == (phase, "")


def test_taken_over_is_said_by_partition() -> None:
    """The phase counts initialized partitions: none, some or all. Unlisted partitions do not count."""
    cluster_state = state(topic("orders", LISTS[:2]))
    assert lived(cluster_state) == TopicPhase(
        Phase.NOT_INITIALIZED, "not initialized by the controller", "the controller, which is initializing it"
    )
    some = lived(cluster_state, 0)
    assert (some.phase, some.message) == (Phase.PARTLY_INITIALIZED, "1 of 2 partitions initialized by the controller")
    assert lived(cluster_state, 0, 1) == TopicPhase(Phase.INITIALIZED, "initialized by the controller")
    assert lived(cluster_state, 0, 1, 9).phase is Phase.INITIALIZED
    assert lived(cluster_state, 0, 9).message.startswith("1 of 2 ")


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
    cluster_state = state(topic("orders", lists))
    taken = [at for at, replicas in enumerate(lists) if set(replicas) & {1, 2}]
    assert lived(cluster_state, *taken).blocked_by == waits


def test_nothing_moves_without_a_controller() -> None:
    """Without a controller, a new topic and a deletion request, with or without a topic, wait for one."""
    cluster_state = state(topic("orders", LISTS), controller=None)
    assert lived(cluster_state).blocked_by == "there is no controller"
    assert lived(replace(cluster_state, pending_deletions=frozenset({"orders"}))).blocked_by == "there is no controller"
    assert lived(state(controller=None, pending_deletions=frozenset({"orders"}))).blocked_by == "there is no controller"


def test_a_mark_is_said_with_who_set_it_and_what_it_waits_for() -> None:
    """The phase names the client that requested the deletion, by the deletion record, and the brokers or the
    reassignment that the deletion waits for.
    """
    marked = {"pending_deletions": frozenset({"orders"})}
    away = lived(state(topic("orders", LISTS), **marked), 0, 1)
    assert away.message == "marked for deletion by another client"
    assert away.blocked_by == "brokers 7, 8, with replicas of it, are not registered"
    ours = topic("orders", LISTS[:1], record_valid=True)
    ours = replace(ours, record=TOMBSTONE)
    assert lived(state(ours, **marked), 0) == TopicPhase(
        Phase.MARKED_FOR_DELETION, "marked for deletion by owner default", blocking_reason(TopicProgress("1", True))
    )
    moving = lived(state(replace(ours, reassigning_partitions=(0,)), **marked), 0)
    assert moving.blocked_by == "its replicas are being reassigned"
    assert lived(state(**marked)) == TopicPhase(
        Phase.MARKED_FOR_DELETION, "marked for deletion and deleted: the controller removes the request next"
    )
    stale = replace(ours, record_valid=False)
    assert lived(state(stale, **marked), 0).message == "marked for deletion by another client"


def test_a_mark_that_was_thrown_away_is_told_from_a_topic_that_stays() -> None:
    """A topic with a deletion record and without a deletion request has disabled deletion at its brokers."""
    ours = replace(topic("orders", LISTS[:1]), record=TOMBSTONE)
    found = lived(state(ours), 0)
    assert found.phase is Phase.DELETION_DISABLED
    assert "delete.topic.enable=false" in found.message
    assert lived(state(replace(ours, record_valid=False)), 0).phase is Phase.INITIALIZED


def test_an_odd_topic_is_unreadable_unless_it_is_being_deleted() -> None:
    """An unreadable topic is unreadable, unless it is marked for deletion, which takes precedence."""
    faults = {"orders": ReadError("/brokers/topics/orders", "it is empty")}
    assert lived(state(topic_errors=faults)).phase is Phase.UNREADABLE
    marked = lived(state(topic_errors=faults, pending_deletions=frozenset({"orders"})))
    assert (marked.phase, marked.message) == (Phase.MARKED_FOR_DELETION, "marked for deletion by another client")


def test_a_snapshot_knows_that_a_topic_exists_and_no_more() -> None:
    """A snapshot shows that a topic exists, and not whether it is initialized."""
    assert lived(state(topic("orders", LISTS)), known=False).phase is Phase.EXISTS


def test_a_topic_without_partitions_waits_for_nothing() -> None:
    """A topic without partitions is initialized, because Kafka reads a missing list as an empty one."""
    assert lived(state(topic("orders", []))) == TopicPhase(Phase.INITIALIZED, "has no partitions")


def test_conditions_are_counted_the_worst_first() -> None:
    """Each partition counts once for each of its conditions, and the counts are ordered worst first."""
    cluster_state = state(topic("orders", LISTS[:2]))
    found = TopicInspection(
        "1", {0: (1, 2), 1: (2, 3), 2: (1, 2)}, {0: PartitionState(2, (2,)), 1: PartitionState(-1, (3,))}
    )
    assert list(count_issues(build_partitions(cluster_state, "orders", found, MIN_KAFKA_VERSION)).items()) == [
        (IssueType.OFFLINE, 1),
        (IssueType.NOT_INITIALIZED, 1),
        (IssueType.UNDER_REPLICATED, 2),
        (IssueType.NOT_PREFERRED_LEADER, 1),
    ]
