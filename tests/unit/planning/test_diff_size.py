"""Partitions and replicas: placement of new topics, growth, and changes that Kafka cannot or must not make."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders import (
    CLUSTER_ID,
    DEFAULT_OPTIONS,
    RACKED_BROKERS,
    RACKLESS_BROKERS,
    change_kinds,
    cluster,
    notice_reasons,
    plan,
    plan_single_topic,
    refusal_reasons,
    replica_lists,
    spec,
    state,
    topic,
)
from topiarist.errors import Reason
from topiarist.kafka.placement import assign_replicas, derive_start_and_shift, expand_assignment
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.plan import (
    AddPartitions,
    CreateTopic,
    Load,
    Risk,
    RunOptions,
    TopicPlan,
    compute_broker_load_after,
)
from topiarist.model.spec import ClusterSpec, RackAwareness
from topiarist.model.state import ClusterState, TopicState

PARTLY = (*RACKED_BROKERS[:5], Broker(6))
"""Broker 6 has no rack, all other brokers have one."""

MISSING = RunOptions(without_brokers=frozenset({9}))


def placed(found: TopicPlan) -> tuple[Replicas, ...]:
    """Return the replica lists of the only change."""
    change = found.changes[0]
    assert isinstance(change, CreateTopic | AddPartitions)
    return change.replicas


def test_a_new_topic_lies_as_kafka_would_place_it() -> None:
    """Placement is Kafka's algorithm over the registered brokers, with start and shift from the topic's name alone."""
    start, shift = derive_start_and_shift("orders", RACKED_BROKERS)
    wanted = assign_replicas(RACKED_BROKERS, 12, replication_factor=3, start=start, shift=shift)
    assert placed(plan_single_topic(state(), spec(partitions=12, replicationFactor=3))) == wanted
    start, shift = derive_start_and_shift("orders", RACKLESS_BROKERS)
    wanted = assign_replicas(RACKLESS_BROKERS, 5, replication_factor=2, start=start, shift=shift)
    assert placed(plan_single_topic(state(brokers=RACKLESS_BROKERS), spec(partitions=5, replicationFactor=2))) == wanted


def test_growth_is_kafkas_own_expansion() -> None:
    """The change has only the new lists, and partition 0's list and the count as their basis."""
    stands = replica_lists("12", "23", "34")
    found = plan_single_topic(state(topic(replicas=stands)), spec(partitions=7))
    assert found.changes == (
        AddPartitions(
            3, (1, 2), expand_assignment(RACKED_BROKERS, dict(enumerate(stands)), 7), found.changes[0].assessment
        ),
    )
    assert found.risk is Risk.DISRUPTIVE


def test_growth_takes_the_width_of_partition_0() -> None:
    """Growth uses the width of partition 0, and a different replication factor of the spec is refused beside the
    growth.
    """
    found = plan_single_topic(
        state(topic(replicas=replica_lists("123", "12"))), spec(partitions=4, replicationFactor=2)
    )
    assert [len(replicas) for replicas in placed(found)] == [3, 3]
    assert refusal_reasons(found) == ["ReplicationFactorDiffers"]


def test_defaults_of_size_count_at_creation_only() -> None:
    """An existing topic without size in its spec keeps its size; a new topic gets the cluster's defaults."""
    with_defaults = ClusterSpec("prod", cluster_id=CLUSTER_ID, default_partitions=6, default_replication_factor=3)
    wanted = spec(on=with_defaults, config={}, ensure="Present")
    assert plan_single_topic(state(topic()), wanted).is_empty
    assert [len(replicas) for replicas in placed(plan_single_topic(state(), wanted))] == [3] * 6


SIZES = {
    "fewer partitions": ({"partitions": 2}, ["FewerPartitions"], []),
    "fewer, ignored": ({"partitions": 2, "ignore": ["partitions"]}, [], ["Ignored"]),
    "more, ignored": ({"partitions": 9, "ignore": ["partitions"]}, [], ["Ignored"]),
    "another factor": ({"replicationFactor": 3}, ["ReplicationFactorDiffers"], []),
    "another factor, ignored": ({"replicationFactor": 3, "ignore": ["replicationFactor"]}, [], ["Ignored"]),
    "explicit, as it stands": ({"replicaAssignment": [[1, 2], [2, 3], [3, 4]]}, [], []),
    "explicit, placed otherwise": ({"replicaAssignment": [[1, 2], [2, 4], [4, 3]]}, [], ["ReplicasDiffer"]),
    "explicit, fewer": ({"replicaAssignment": [[1, 2], [2, 3]]}, ["FewerPartitions"], []),
    "explicit, wider": (
        {"replicaAssignment": [[1, 2, 3], [2, 3, 4], [3, 4, 5]]},
        *(["ReplicationFactorDiffers"], ["ReplicasDiffer"]),
    ),
    "explicit, wider and more": (
        {"replicaAssignment": [[1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]]},
        *(["ReplicationFactorDiffers"], ["ReplicasDiffer"]),
    ),
    "explicit, wider and more, factor ignored": (
        {"replicaAssignment": [[1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]], "ignore": ["replicationFactor"]},
        *(["ReplicationFactorDiffers"], ["ReplicasDiffer", "Ignored"]),
    ),
    "explicit, more, count ignored": (
        {"replicaAssignment": [[1, 2], [2, 3], [3, 4], [4, 5]], "ignore": ["partitions"]},
        *([], ["Ignored"]),
    ),
    "explicit, wider, ignored": (
        {"replicaAssignment": [[1, 2, 3], [2, 3, 4], [3, 4, 5]], "ignore": ["replicaAssignment"]},
        *([], ["ReplicasDiffer", "Ignored"]),
    ),
    "explicit, wider, factor ignored": (
        {"replicaAssignment": [[1, 2, 3], [2, 3, 4], [3, 4, 5]], "ignore": ["replicationFactor"]},
        *([], ["ReplicasDiffer", "Ignored"]),
    ),
    "explicit, fewer, ignored": (
        {"replicaAssignment": [[1, 2], [2, 4]], "ignore": ["replicaAssignment"]},
        *([], ["ReplicasDiffer", "Ignored"]),
    ),
}


@pytest.mark.parametrize("case", SIZES.values(), ids=SIZES.keys())
def test_sizes_that_differ(case: tuple[dict[str, Any], list[str], list[str]]) -> None:
    """On a topic of three partitions with two replicas, impossible sizes are refused, ignored ones noticed, none
    changed.
    """
    fields, refusals, notices = case
    found = plan_single_topic(state(topic()), spec(**fields))
    assert (change_kinds(found), refusal_reasons(found), notice_reasons(found)) == ([], refusals, notices)


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        (replica_lists("12", "23", "1", "34"), "1 in partition 2, and 2 in the 3 others"),
        (replica_lists("1", "234", "341", "4"), "1 in partitions 0, 3, and 3 in the 2 others"),
        (replica_lists("1", "23"), "1 in partition 0, and 2 in partition 1"),
        (replica_lists("1", "23", "234", "341"), "1 in partition 0, 2 in partition 1, and 3 in the 2 others"),
        (replica_lists("12", "23"), ""),
    ],
)
def test_different_numbers_of_replicas_are_a_fault(replicas: tuple[Replicas, ...], message: str) -> None:
    """Different replica counts are an existing problem, or a refusal or notice if the manifest has a replication
    factor.
    """
    seen = topic(replicas=replicas)
    notices = plan_single_topic(state(seen), spec(partitions=len(replicas), replicationFactor=None)).notices
    said = [notice.message for notice in notices if notice.field == ("replicationFactor",)]
    assert said == ([f"partitions have different numbers of replicas: {message}"] if message else [])
    assert notice_reasons(plan_single_topic(state(seen), spec(partitions=len(replicas), replicationFactor=2))) == []


def test_widths_that_are_not_known_are_no_fault() -> None:
    """A moving partition and a partition without replicas are not reported as different replica counts."""
    seen = topic(replicas=replica_lists("12", "123", "23"), reassigning_partitions=(1,))
    assert notice_reasons(plan_single_topic(state(seen), spec(replicationFactor=None))) == []


def test_a_refusal_says_what_to_do() -> None:
    """A refusal has both numbers, the field, and the fix."""
    refusal = plan_single_topic(state(topic()), spec(partitions=2)).refusals[0]
    assert refusal.message == "3 -> 2 partitions: Kafka cannot remove partitions"
    assert refusal.field == ("partitions",)
    assert refusal.hint == "set partitions: 3, or create a new topic"
    refusal = plan_single_topic(state(topic()), spec(replicaAssignment=[[1, 2]])).refusals[0]
    assert refusal.field == ("replicaAssignment",)
    assert refusal.hint == "list 3 partitions, or create a new topic"
    refusal = plan_single_topic(state(topic()), spec(replicationFactor=3)).refusals[0]
    assert refusal.field == ("replicationFactor",)
    assert refusal.hint == "set replicationFactor: 2, or allow Factor in spec.moves of the Cluster"
    refusal = plan_single_topic(
        state(topic(replicas=replica_lists("12"))), spec(replicaAssignment=[[1, 2, 3]])
    ).refusals[0]
    assert refusal.field == ("replicaAssignment",)


@pytest.mark.parametrize(
    ("stands", "found"),
    [
        (topic(partition_ids=(0, 2, 3)), "found partition ids 0, 2, 3, wanted 0 to n-1"),
        (topic(replicas=()), "found partition ids none, wanted 0 to n-1"),
        (topic(replicas=((), (1,))), "partition 0 has no replicas, and Kafka"),
        (topic(replicas=((1,),) * 20, partition_ids=range(1, 21)), "18, 19, 20, wanted"),
        (topic(replicas=((1,),) * 21, partition_ids=range(1, 22)), "18, 19, 20, ..., wanted"),
    ],
)
def test_what_is_wrong_with_the_partitions_is_shown(stands: TopicState, found: str) -> None:
    """The message has the partition ids of the topic, the first twenty of them."""
    refusals = plan_single_topic(state(stands), spec(partitions=30, replicationFactor=None)).refusals
    assert [found in refusal.message for refusal in refusals] == [True]


# topic -> reason for the refusal of growth from three to four partitions
GROWTH = {
    "partition 1 missing": (topic(partition_ids=(0, 2, 3)), "PartitionsMalformed"),
    "partition 0 missing": (topic(partition_ids=range(1, 4)), "PartitionsMalformed"),
    "no partitions": (topic(replicas=()), "PartitionsMalformed"),
    "an empty list": (topic(replicas=((), (1,), (2,))), "PartitionsMalformed"),
    "reassigning": (topic(reassigning_partitions=(2,)), "ReassignmentInProgress"),
    "vendor fields": (topic(unknown_fields=("placement",)), "UnknownFields"),
    "a broker is missing": (topic(replicas=replica_lists("91", "12", "23")), "BrokersMissing"),
}


@pytest.mark.parametrize("case", GROWTH.values(), ids=GROWTH.keys())
def test_what_forbids_growth(case: tuple[TopicState, str]) -> None:
    """A topic that is malformed or being changed gets no partitions, and the reason appears once."""
    stands, reason = case
    found = plan_single_topic(state(stands), spec(partitions=4, replicationFactor=None))
    assert (change_kinds(found), refusal_reasons(found)) == ([], [reason])


def test_a_reassignment_request_forbids_growth() -> None:
    """A reassignment request forbids growth, even without a reassignment; topics outside the request grow."""
    seen = state(topic("a"), topic("b"), reassigning_topics=frozenset({"a"}))
    found = plan(seen, spec("a", partitions=4), spec("b", partitions=4)).topics
    assert [refusal_reasons(each) for each in found] == [["ReassignmentInProgress"], []]


def test_growth_refused_leaves_the_config_to_be_done() -> None:
    """If growth is refused, the config is still changed."""
    found = plan_single_topic(state(topic(reassigning_partitions=(0,))), spec(partitions=4, config={"retention.ms": 5}))
    assert (change_kinds(found), refusal_reasons(found)) == (["UpdateConfig"], ["ReassignmentInProgress"])


def _create(brokers: tuple[Broker, ...], mode: RackAwareness = RackAwareness.ENFORCED, factor: int = 2) -> TopicPlan:
    on = ClusterSpec("prod", cluster_id=CLUSTER_ID, rack_awareness=mode)
    return plan_single_topic(state(brokers=brokers), spec(on=on, partitions=2, replicationFactor=factor))


def test_racks_on_some_brokers_only() -> None:
    """With racks on some brokers only, ``Enforced`` refuses a creation; ``Safe`` and ``Disabled`` ignore the racks."""
    assert refusal_reasons(_create(PARTLY)) == ["RacksIncomplete"]
    bare = tuple(Broker(broker.id) for broker in PARTLY)
    for mode in (RackAwareness.SAFE, RackAwareness.DISABLED):
        assert placed(_create(PARTLY, mode)) == placed(_create(bare))
    assert placed(_create(RACKED_BROKERS, RackAwareness.SAFE)) == placed(_create(RACKED_BROKERS))
    assert placed(_create(RACKED_BROKERS, RackAwareness.DISABLED)) == placed(_create(bare))


@pytest.mark.parametrize("mode", list(RackAwareness))
@pytest.mark.parametrize("fields", [{"partitions": 4}, {"replicaAssignment": [[1, 2], [2, 3], [3, 4], [4, 5]]}])
def test_expansion_is_always_enforced(mode: RackAwareness, fields: dict[str, Any]) -> None:
    """A partly racked cluster cannot expand, in any rack mode, and not by explicit lists either."""
    on = ClusterSpec("prod", cluster_id=CLUSTER_ID, rack_awareness=mode)
    refusals = plan_single_topic(state(topic(), brokers=PARTLY), spec(on=on, **fields)).refusals
    assert [(refusal.reason.value, refusal.field) for refusal in refusals] == [("RacksIncomplete", tuple(fields))]


def test_too_few_brokers() -> None:
    """More replicas than available brokers are refused, also without any broker."""
    assert refusal_reasons(_create(RACKED_BROKERS[:1])) == ["TooFewBrokers"]
    assert refusal_reasons(_create(())) == ["TooFewBrokers"]
    drained = plan_single_topic(state(brokers=RACKED_BROKERS[:2]), spec(), RunOptions(without_brokers=frozenset({1})))
    assert refusal_reasons(drained) == ["TooFewBrokers"]
    grown = plan_single_topic(
        state(topic(replicas=replica_lists("12")), brokers=RACKED_BROKERS[:2]),
        spec(partitions=2),
        RunOptions(without_brokers=frozenset({1})),
    )
    assert refusal_reasons(grown) == ["TooFewBrokers"]


def _rolling() -> ClusterState:
    return state(topic("other", replica_lists("19")), topic("orders"))


def test_a_missing_broker_holds_back_placements() -> None:
    """An offline broker that holds replicas prevents creations and growth, and config changes are made."""
    found = plan(_rolling(), spec("new"), spec(partitions=4, config={"retention.ms": 5})).topics
    assert [refusal_reasons(each) for each in found] == [["BrokersMissing"], ["BrokersMissing"]]
    assert [change_kinds(each) for each in found] == [[], ["UpdateConfig"]]
    assert "broker 9" in found[0].refusals[0].message


def test_a_missing_broker_that_is_meant() -> None:
    """With ``--without-brokers`` or ``excludeBrokers``, placements leave out the offline broker."""
    assert change_kinds(plan_single_topic(_rolling(), spec("new"), MISSING)) == ["CreateTopic"]
    on = ClusterSpec("prod", cluster_id=CLUSTER_ID, exclude_brokers=frozenset({9}))
    assert change_kinds(plan_single_topic(_rolling(), spec("new", on=on))) == ["CreateTopic"]
    assert refusal_reasons(plan_single_topic(_rolling(), spec("new"), RunOptions(without_brokers=frozenset({3})))) == [
        "BrokersMissing"
    ]


def test_a_broker_that_nobody_knows_is_named() -> None:
    """An id with a typing error leaves out no broker; one that is offline, and holds replicas, is no such error."""
    run = RunOptions(without_brokers=frozenset({3, 9, 44}), drain_brokers=frozenset({5, 66}))
    assert [each for each in plan(_rolling(), spec("new"), run=run).warnings if "registered" in each] == [
        "--without-brokers 44: this broker is not registered and has no replica",
        "--drain-brokers 66: this broker is not registered and has no replica",
    ]
    assert not [each for each in plan(_rolling(), spec("new"), run=MISSING).warnings if "registered" in each]


def test_excluded_brokers_get_no_new_replicas() -> None:
    """Excluded brokers get no replicas at creation, at growth or by explicit lists, and keep their present replicas."""
    on = ClusterSpec("prod", cluster_id=CLUSTER_ID, exclude_brokers=frozenset({2}))
    for run in (DEFAULT_OPTIONS, RunOptions(without_brokers=frozenset({5}))):
        out = {2} | run.without_brokers
        for wanted in (spec("new", on=on, partitions=30, replicationFactor=3), spec(on=on, partitions=30)):
            lists_made = placed(plan_single_topic(state(topic()), wanted, run))
            assert not out & {broker for replicas in lists_made for broker in replicas}
    explicit = spec("new", on=on, replicaAssignment=[[1, 2]])
    assert refusal_reasons(plan_single_topic(state(), explicit)) == ["ExcludedBrokers"]
    assert refusal_reasons(plan_single_topic(state(), explicit, RunOptions(allow_unknown_brokers=True))) == [
        "ExcludedBrokers"
    ]


def test_explicit_lists_are_taken_as_they_are() -> None:
    """Explicit lists are used unchanged at creation and for new partitions, despite an offline broker elsewhere."""
    wanted = spec(replicaAssignment=[[6, 1], [5, 2], [4, 3], [3, 6]])
    assert placed(plan_single_topic(_rolling(), wanted)) == ((3, 6),)
    assert placed(plan_single_topic(state(), wanted)) == ((6, 1), (5, 2), (4, 3), (3, 6))


def test_explicit_lists_with_unknown_brokers() -> None:
    """Kafka accepts unknown brokers at creation only: the plan accepts them with the flag, and refuses them at
    growth.
    """
    unknown = RunOptions(allow_unknown_brokers=True)
    wanted = spec(replicaAssignment=[[1, 2], [2, 3], [3, 4], [8, 1]])
    assert refusal_reasons(plan_single_topic(state(), wanted)) == ["UnknownBrokers"]
    registered = "broker 8 is not registered; registered: "
    assert plan_single_topic(state(), wanted).refusals[0].message == registered + "1, 2, 3, 4, 5, 6"
    assert (
        plan_single_topic(state(brokers=()), spec(replicaAssignment=[[8]])).refusals[0].message == registered + "none"
    )
    assert change_kinds(plan_single_topic(state(), wanted, unknown)) == ["CreateTopic"]
    for run in (DEFAULT_OPTIONS, unknown):
        assert refusal_reasons(plan_single_topic(state(topic()), wanted, run)) == ["UnknownBrokers"]


def test_explicit_lists_are_compared_by_partition_id() -> None:
    """If ids have holes, the lists of the manifest on other partitions are a difference."""
    lists = replica_lists("12", "23", "34")
    stored = topic(replicas=lists, partition_ids=(1, 2, 3))
    notices = plan_single_topic(state(stored), spec(replicaAssignment=[list(each) for each in lists])).notices
    assert [notice.message for notice in notices if notice.reason is Reason.REPLICAS_DIFFER] == [
        "2 partitions not on the brokers of the manifest: partition 1 is on [1, 2] instead of [2, 3];"
        " to move them, allow Assignment in spec.moves of the Cluster"
    ]


def test_explicit_lists_of_moving_partitions_are_not_compared() -> None:
    """During a reassignment, a partition's list differs from the old and the new list, and is not compared."""
    explicit = spec(replicaAssignment=[[5, 6], [2, 3], [3, 4]])
    assert notice_reasons(plan_single_topic(state(topic()), explicit)) == ["ReplicasDiffer"]
    assert notice_reasons(plan_single_topic(state(topic(reassigning_partitions=(0,))), explicit)) == []


def test_the_factor_of_moving_partitions_is_not_judged() -> None:
    """A list under reassignment has old and new replicas, so its length is not compared with the replication factor."""
    moving = topic(replicas=replica_lists("123", "23", "34"), reassigning_partitions=(0,))
    assert plan_single_topic(state(moving), spec(partitions=3, replicationFactor=2)).is_empty
    assert refusal_reasons(plan_single_topic(state(moving), spec(partitions=3, replicationFactor=3))) == [
        "ReplicationFactorDiffers"
    ]


def test_unequal_widths_are_named() -> None:
    """The message has both widths, and proposes neither."""
    refusal = plan_single_topic(
        state(topic(replicas=replica_lists("123", "12"))), spec(partitions=2, replicationFactor=3)
    ).refusals[0]
    assert refusal.message == "replication factor 2 and 3 -> 3: Factor moves are not allowed"
    assert "set replicationFactor" not in refusal.hint


@pytest.mark.parametrize(
    ("held", "wanted", "settings", "risk"),
    [
        ({}, {}, {}, Risk.DISRUPTIVE),
        ({"cleanup.policy": "delete"}, {"cleanup.policy": "delete"}, {}, Risk.DISRUPTIVE),
        ({"cleanup.policy": "compact"}, {"cleanup.policy": "compact"}, {}, Risk.DATA_LOSS),
        ({"cleanup.policy": "delete, compact"}, {}, {}, Risk.DATA_LOSS),
        ({}, {}, {"log.cleanup.policy": "compact"}, Risk.DATA_LOSS),
        ({"cleanup.policy": "delete"}, {}, {"log.cleanup.policy": "compact"}, Risk.DISRUPTIVE),
        ({"cleanup.policy": "compact"}, {"cleanup.policy": "delete"}, {}, Risk.DATA_LOSS),
        ({"cleanup.policy": "delete"}, {"cleanup.policy": "compact"}, {}, Risk.DATA_LOSS),
    ],
)
def test_the_risk_of_growth(held: dict[str, str], wanted: dict[str, str], settings: dict[str, str], risk: Risk) -> None:
    """Growth is disruptive; if the topic compacts, by override or broker setting, before or after, growth is data
    loss.
    """
    grown = topic(config=held)
    static = cluster("prod", cluster_id=CLUSTER_ID, broker_config=settings)
    for seen, on in (
        (state(grown, broker_defaults=settings), cluster("prod", cluster_id=CLUSTER_ID)),
        (state(grown), static),
    ):
        assert plan_single_topic(seen, spec(on=on, partitions=4, config=wanted)).changes[0].assessment.risk is risk


def test_what_brokers_carry_before_and_after() -> None:
    """The load has preferred leaders and replicas of each broker, also of empty brokers; it is empty without
    placements.
    """
    seen = state(topic("other", replica_lists("12", "13")), brokers=RACKED_BROKERS[:4])
    found = plan(seen, spec(replicaAssignment=[[3, 1], [4, 1]]))
    assert found.load == {1: Load(2, 2), 2: Load(0, 1), 3: Load(0, 1), 4: Load(0, 0)}
    assert compute_broker_load_after(found) == {1: Load(2, 4), 2: Load(0, 1), 3: Load(1, 2), 4: Load(1, 1)}
    assert plan(seen, spec("other", partitions=2)).load == {}


def test_observed_topics_weigh_nothing() -> None:
    """The load after the plan excludes the changes of observed topics."""
    found = plan(state(brokers=RACKED_BROKERS[:3]), spec(mode="Observe", replicaAssignment=[[3, 1]]))
    assert compute_broker_load_after(found) == {1: Load(), 2: Load(), 3: Load()}


def test_a_partition_without_replicas_is_no_other_replication_factor() -> None:
    """A partition without replicas is reported once: as the refusal of growth if it is partition 0, else as a
    problem.
    """
    stands = state(topic(replicas=((), (2, 3), ())))
    grown = plan_single_topic(stands, spec(partitions=6, replicationFactor=2))
    assert (refusal_reasons(grown), notice_reasons(grown)) == (["PartitionsMalformed"], ["ExistingProblem"])
    assert grown.notices[0].message == "no replicas on the cluster for partition 2"
    kept = plan_single_topic(stands, spec(partitions=3, replicationFactor=2))
    assert (refusal_reasons(kept), notice_reasons(kept)) == ([], ["ExistingProblem"])
    assert kept.notices[0].message == "no replicas on the cluster for partition 0, 2"


def test_a_broker_that_holds_only_what_is_being_deleted_is_not_missed() -> None:
    """Offline broker 9 counts as missing only while it holds a replica of a topic that stays."""
    old = topic("old", replica_lists("91", "19"))
    assert refusal_reasons(plan_single_topic(state(old), spec("new"))) == ["BrokersMissing"]
    assert change_kinds(plan_single_topic(state(old, pending_deletions=frozenset({"old"})), spec("new"))) == [
        "CreateTopic"
    ]
    other = topic("other", replica_lists("29"))
    assert refusal_reasons(plan_single_topic(state(old, other, pending_deletions=frozenset({"old"})), spec("new"))) == [
        "BrokersMissing"
    ]
