"""Decisions per topic: create, adopt, take ownership, recreate, delete, or leave unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import (
    CLUSTER_ID,
    PROD_CLUSTER,
    RACKED_BROKERS,
    change_kinds,
    cluster,
    notice_reasons,
    plan,
    plan_single_topic,
    record_without_values,
    refusal_reasons,
    replica_lists,
    spec,
    state,
    topic,
)
from topiarist.adapters.size_limits import ListSizes, build_list_limits
from topiarist.errors import Reason
from topiarist.model.access import KafkaAccess, RecordsTopic
from topiarist.model.moves import BatchRecord, ReplicaMove, RequestedReassignment
from topiarist.model.plan import ALL_TOPICS, CreateTopic, DeleteTopic, Risk, RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, OwnershipRecord, ReadError, WriteBlock

OURS = OwnershipRecord("default", ("retention.ms",))
THEIRS = OwnershipRecord("k8s/team/release", ("retention.ms",))
TOMBSTONE = OwnershipRecord("default", deleted=True)
KEPT = {"retention.ms": "1000"}
PLAIN = RunOptions()
TAKE = RunOptions(take_ownership=ALL_TOPICS)
ALL = RunOptions(adopt=("*",))


def test_a_topic_that_is_not_there_is_created_with_everything() -> None:
    """A creation has all replica lists and overrides, and its ownership record lists the keys of the spec."""
    found = plan_single_topic(
        state(), spec(partitions=4, replicationFactor=2, config={"retention.ms": 1000, "cleanup.policy": "compact"})
    )
    assert change_kinds(found) == ["CreateTopic"]
    create = found.changes[0]
    assert isinstance(create, CreateTopic)
    assert [len(replicas) for replicas in create.replicas] == [2, 2, 2, 2]
    assert list(create.config.items()) == [("cleanup.policy", "compact"), ("retention.ms", "1000")]
    assert found.record_before is None
    assert record_without_values(found) == OwnershipRecord("default", ("cleanup.policy", "retention.ms"))
    assert found.risk is Risk.SAFE


# topic, flags -> changes, refusals, notices; the spec has retention.ms 1000 and three partitions with two replicas
EXISTING = {
    "ours, equal": (OURS, True, KEPT, PLAIN, [], [], []),
    "ours, differs": (OURS, True, {}, PLAIN, ["UpdateConfig"], [], []),
    "none, equal: adopted": (None, False, KEPT, PLAIN, ["TakeOwnership"], [], []),
    "none, differs": (None, False, {}, PLAIN, [], ["NotAdopted"], []),
    "none, differs, --adopt": (None, False, {}, ALL, ["UpdateConfig"], [], []),
    "none, differs, --adopt=ord*": (None, False, {}, RunOptions(adopt=("ord*",)), ["UpdateConfig"], [], []),
    "none, differs, --adopt=ORD*": (None, False, {}, RunOptions(adopt=("ORD*",)), [], ["NotAdopted"], []),
    "none, differs, --take-ownership": (None, False, {}, TAKE, [], ["NotAdopted"], []),
    "stale, equal: adopted": (OURS, False, KEPT, PLAIN, ["TakeOwnership"], [], ["StaleOwnershipRecord"]),
    "stale, differs": (OURS, False, {}, PLAIN, [], ["NotAdopted"], ["StaleOwnershipRecord"]),
    "stale, differs, --adopt": (OURS, False, {}, ALL, ["UpdateConfig"], [], ["StaleOwnershipRecord"]),
    "stale, of others, equal: adopted": (THEIRS, False, KEPT, PLAIN, ["TakeOwnership"], [], ["StaleOwnershipRecord"]),
    "others', equal": (THEIRS, True, KEPT, PLAIN, [], ["NotOwned"], []),
    "others', differs": (THEIRS, True, {}, PLAIN, [], ["NotOwned"], []),
    "others', differs, --adopt": (THEIRS, True, {}, ALL, [], ["NotOwned"], []),
    "others', equal, --take-ownership": (THEIRS, True, KEPT, TAKE, ["TakeOwnership"], [], []),
    "others', differs, --take-ownership": (THEIRS, True, {}, TAKE, ["UpdateConfig"], [], []),
    "tombstone, still there": (TOMBSTONE, True, KEPT, PLAIN, ["TakeOwnership"], [], []),
}


@pytest.mark.parametrize("case", EXISTING.values(), ids=EXISTING.keys())
def test_who_may_change_an_existing_topic(
    case: tuple[OwnershipRecord | None, bool, dict[str, str], RunOptions, list[str], list[str], list[str]],
) -> None:
    """An owned topic is changed, one without record or with a stale record is adopted, another owner's topic is
    refused.
    """
    record, valid, config, run, changes, refusals, notices = case
    seen = state(topic(record=record, record_valid=valid, config=config))
    found = plan_single_topic(seen, spec(config=KEPT), run)
    assert (change_kinds(found), refusal_reasons(found), notice_reasons(found)) == (changes, refusals, notices)
    assert record_without_values(found) == (OURS if changes or not refusals else record) or found.is_empty


def test_a_tombstone_beside_a_topic_that_stays_is_replaced() -> None:
    """With ``ensure: Present``, a normal ownership record replaces the deletion record, also without managed keys."""
    found = plan_single_topic(state(topic(record=TOMBSTONE)), spec())
    assert (change_kinds(found), record_without_values(found)) == (["TakeOwnership"], OwnershipRecord("default"))


def test_a_refused_adoption_shows_the_difference() -> None:
    """The refusal withholds the changes that an adoption would make, and its hint has the flag."""
    found = plan_single_topic(state(topic(record=None)), spec(partitions=4, config=KEPT))
    assert [type(change).__name__ for change in found.refusals[0].withheld] == ["AddPartitions", "UpdateConfig"]
    assert "--adopt=orders" in found.refusals[0].hint


def test_records_that_cannot_be_read_are_not_taken_for_absent() -> None:
    """No refusal says that there is no record, or advises to adopt, while the records are unreadable."""
    blocked = WriteBlock(Reason.RECORDS_BLOCKED, "a transaction is open")
    unread = replace(state(topic(record=None)), write_block=blocked, records_error=blocked)
    for wanted in (spec(config=KEPT), spec(ensure="Absent")):
        (refusal,) = plan_single_topic(unread, wanted).refusals
        assert "ownership record cannot be read" in refusal.message
        assert refusal.hint == "plan again when the records can be read"


def test_what_is_refused_anyway_is_a_difference_too() -> None:
    """An unadopted topic with more partitions than its spec differs, so it is not adopted without the flag."""
    found = plan_single_topic(state(topic(record=None)), spec(partitions=2))
    assert refusal_reasons(found) == ["FewerPartitions", "NotAdopted"]
    assert change_kinds(plan_single_topic(state(topic(record=None)), spec(partitions=2), ALL)) == ["TakeOwnership"]


def test_what_is_ignored_is_no_difference() -> None:
    """An unadopted topic that differs only in ignored fields is adopted."""
    found = plan_single_topic(state(topic(record=None)), spec(partitions=2, ignore=["partitions"]))
    assert (change_kinds(found), refusal_reasons(found), notice_reasons(found)) == (["TakeOwnership"], [], ["Ignored"])


def test_changed_outside_is_said() -> None:
    """A config changed externally since topiarist's last write has a notice, and the plan restores the spec's
    values.
    """
    three = replica_lists("12", "23", "34")
    seen = state(topic("orders", three, "retention.ms", config={"retention.ms": "7"}, modified_externally=True))
    found = plan_single_topic(seen, spec(config=KEPT))
    assert notice_reasons(found) == ["ModifiedExternally"]
    assert notice_reasons(plan_single_topic(state(topic(record=None, modified_externally=True)), spec())) == []
    assert change_kinds(found) == ["UpdateConfig"]


def test_an_owner_of_its_own() -> None:
    """With ``--owner``, topics of the default owner belong to another owner, and records have the given name."""
    run = RunOptions(owner="team")
    assert refusal_reasons(plan_single_topic(state(topic()), spec(), run)) == ["NotOwned"]
    assert record_without_values(plan_single_topic(state(), spec(), run)) == OwnershipRecord("team")
    taken = plan_single_topic(state(topic()), spec(), RunOptions(owner="team", take_ownership=ALL_TOPICS))
    assert (change_kinds(taken), record_without_values(taken)) == (["TakeOwnership"], OwnershipRecord("team"))


# ownership record of an absent topic, flags -> changes, refusals
MISSING = {
    "none": (None, PLAIN, ["CreateTopic"], []),
    "ours": (OURS, PLAIN, [], ["DeletedExternally"]),
    "ours, --recreate": (OURS, RunOptions(recreate=ALL_TOPICS), ["CreateTopic"], []),
    "ours, --adopt": (OURS, ALL, [], ["DeletedExternally"]),
    "tombstone": (TOMBSTONE, PLAIN, ["CreateTopic"], []),
    "others'": (THEIRS, PLAIN, [], ["NotOwned"]),
    "others', --recreate": (THEIRS, RunOptions(recreate=ALL_TOPICS), [], ["NotOwned"]),
    "others', --take-ownership": (THEIRS, TAKE, [], ["DeletedExternally"]),
    "others', both": (THEIRS, RunOptions(recreate=ALL_TOPICS, take_ownership=ALL_TOPICS), ["CreateTopic"], []),
}


@pytest.mark.parametrize("case", MISSING.values(), ids=MISSING.keys())
def test_what_a_record_without_a_topic_means(
    case: tuple[OwnershipRecord | None, RunOptions, list[str], list[str]],
) -> None:
    """topiarist's record without its topic means an external deletion, unless it is a deletion record."""
    record, run, changes, refusals = case
    seen = state(dangling_records={"orders": record} if record else {})
    found = plan_single_topic(seen, spec(), run)
    assert (change_kinds(found), refusal_reasons(found)) == (changes, refusals)
    assert found.record_before == record
    assert record_without_values(found) == (OwnershipRecord("default") if changes else record)


def test_deleted_outside_shows_what_would_be_made() -> None:
    """The refusal withholds the creation that ``--recreate`` allows, and other refusals appear as well."""
    found = plan_single_topic(state(dangling_records={"orders": OURS}), spec())
    assert [type(change).__name__ for change in found.refusals[0].withheld] == ["CreateTopic"]
    found = plan_single_topic(state(dangling_records={"orders": OURS}, brokers=RACKED_BROKERS[:1]), spec())
    assert refusal_reasons(found) == ["TooFewBrokers", "DeletedExternally"]


def _absent(
    seen: ClusterState, run: RunOptions = PLAIN, name: str = "orders"
) -> tuple[list[str], list[str], list[str]]:
    found = plan_single_topic(seen, spec(name, ensure="Absent"), run)
    return change_kinds(found), refusal_reasons(found), notice_reasons(found)


def test_absent_deletes_a_topic_of_ours() -> None:
    """The change shows the lost partitions and replicas, and the resulting record is a deletion record of this
    owner.
    """
    found = plan_single_topic(
        state(topic("orders", replica_lists("12", "23"), "retention.ms", config=KEPT)), spec(ensure="Absent")
    )
    change = found.changes[0]
    assert isinstance(change, DeleteTopic)
    assert (change.partitions, change.replicas, change.assessment.risk) == (2, 4, Risk.DATA_LOSS)
    assert found.record_after == TOMBSTONE


ABSENT = {
    "no topic": (state(), PLAIN, [], [], []),
    "no topic, tombstone": (state(dangling_records={"orders": TOMBSTONE}), PLAIN, [], [], []),
    "no topic, our record": (state(dangling_records={"orders": OURS}), PLAIN, [], [], []),
    "no topic, others' record": (state(dangling_records={"orders": THEIRS}), PLAIN, [], [], []),
    "marked": (state(topic(), pending_deletions=frozenset({"orders"})), PLAIN, [], [], ["DeletionInProgress"]),
    "marked, topic gone": (state(pending_deletions=frozenset({"orders"})), PLAIN, [], [], ["DeletionInProgress"]),
    "tombstone, topic there, no mark": (state(topic(record=TOMBSTONE)), PLAIN, [], ["DeletionDisabled"], []),
    "stale tombstone": (
        *(state(topic(record=TOMBSTONE, record_valid=False)), PLAIN),
        *([], ["NotAdopted"], ["StaleOwnershipRecord"]),
    ),
    "unadopted": (state(topic(record=None)), PLAIN, [], ["NotAdopted"], []),
    "unadopted, --adopt": (state(topic(record=None)), ALL, [], ["NotAdopted"], []),
    "stale": (state(topic(record=OURS, record_valid=False)), ALL, [], ["NotAdopted"], ["StaleOwnershipRecord"]),
    "others'": (state(topic(record=THEIRS)), PLAIN, [], ["NotOwned"], []),
    "others', --take-ownership": (state(topic(record=THEIRS)), TAKE, [], ["NotOwned"], []),
    "while reassigned": (state(topic(reassigning_partitions=(1,))), PLAIN, ["DeleteTopic"], [], []),
    "named by a request": (
        *(state(topic(), reassigning_topics=frozenset({"orders"})), PLAIN),
        *([], ["ReassignmentInProgress"], []),
    ),
}


@pytest.mark.parametrize("case", ABSENT.values(), ids=ABSENT.keys())
def test_what_absent_means(case: tuple[ClusterState, RunOptions, list[str], list[str], list[str]]) -> None:
    """Only a topic owned before this run is deleted; an absent topic needs nothing; a marked topic is waited for."""
    seen, run, changes, refusals, notices = case
    assert _absent(seen, run) == (changes, refusals, notices)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("__consumer_offsets", "InternalTopic"), ("_schemas", "ProtectedTopic"), ("mm2-offsets", "ProtectedTopic")],
)
def test_internal_and_protected_topics_are_never_deleted(name: str, reason: str) -> None:
    """Internal and protected topics are never deleted, not even with an ownership record of topiarist."""
    assert _absent(state(topic(name)), name=name) == ([], [reason], [])


def test_a_marked_topic_is_left_alone() -> None:
    """A topic marked for deletion gets no changes, with or without its znode."""
    marked = frozenset({"orders"})
    for seen in (
        state(topic(), pending_deletions=marked),
        state(pending_deletions=marked),
        state(pending_deletions=marked, dangling_records={"orders": OURS}),
    ):
        assert refusal_reasons(plan_single_topic(seen, spec(partitions=9))) == ["DeletionInProgress"]
        assert (
            change_kinds(plan_single_topic(seen, spec(partitions=9), RunOptions(recreate=ALL_TOPICS, adopt=("*",))))
            == []
        )


def test_an_unreadable_topic_is_refused_with_its_reason() -> None:
    """The refusal has path and cause; the plan has no changes, and the topic does not count as absent."""
    seen = state(topic_errors={"orders": ReadError("/brokers/topics/orders", "is no JSON")})
    for wanted in (spec(), spec(ensure="Absent")):
        found = plan_single_topic(seen, wanted)
        assert (change_kinds(found), refusal_reasons(found)) == ([], ["TopicUnreadable"])
        assert "/brokers/topics/orders: is no JSON" in found.refusals[0].message


def test_observed_topics_are_planned_and_not_done() -> None:
    """``mode: Observe`` shows the change, and applying the plan changes nothing for that topic."""
    found = plan_single_topic(state(), spec(mode="Observe"))
    assert change_kinds(found) == ["CreateTopic"]
    assert not found.is_actionable
    assert change_kinds(plan_single_topic(state(topic(record=None)), spec(mode="Observe"))) == ["TakeOwnership"]


@pytest.mark.parametrize(
    "name", ["__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"]
)
def test_internal_topics_are_not_created(name: str) -> None:
    """Internal topics are not created, because Kafka creates them itself."""
    assert refusal_reasons(plan_single_topic(state(), spec(name, on=cluster("prod", protected=())))) == [
        "InternalTopic"
    ]


def test_internal_topics_are_not_grown_nor_configured() -> None:
    """Growth and config changes of internal topics are refused, also with an empty list of protected names."""
    free = cluster("prod", protected=(), cluster_id=CLUSTER_ID)
    seen = state(topic("__consumer_offsets", replica_lists("12"), "segment.ms", config={"segment.ms": "5"}))
    found = plan_single_topic(seen, spec("__consumer_offsets", on=free, partitions=2, config={"retention.ms": 9}))
    assert (change_kinds(found), refusal_reasons(found)) == ([], ["InternalTopic", "InternalTopic", "InternalTopic"])


@pytest.mark.parametrize("name", ["__topiarist", "records"])
def test_the_topic_of_the_records_is_internal(name: str) -> None:
    """A manifest changes topiarist's own topic as little as one of Kafka's, by default and by a name of its own."""
    access = KafkaAccess("b1:9092", records=RecordsTopic("records"))
    free = replace(cluster("prod", protected=(), cluster_id=CLUSTER_ID), kafka=access)
    seen = state(topic(name, replica_lists("12"), "segment.ms", config={"segment.ms": "5"}))
    found = plan_single_topic(seen, spec(name, on=free, partitions=2, config={"retention.ms": 9}))
    assert (change_kinds(found), set(refusal_reasons(found))) == ([], {"InternalTopic"})
    assert {refusal.hint for refusal in found.refusals} == {"leave it to topiarist: remove it from the manifests"}
    for seen_topics, wanted in (((), spec(name, on=free)), ((topic(name),), spec(name, on=free, ensure="Absent"))):
        refused = plan_single_topic(state(*seen_topics), wanted)
        assert (change_kinds(refused), refusal_reasons(refused)) == ([], ["InternalTopic"])


def test_protected_topics_may_be_created_and_configured() -> None:
    """Protection refuses growth, deletion and changes of cleanup; creation and other config changes are allowed."""
    assert change_kinds(plan_single_topic(state(), spec("connect-offsets"))) == ["CreateTopic"]
    seen = state(topic("connect-offsets", config={"cleanup.policy": "compact"}))
    found = plan_single_topic(
        seen, spec("connect-offsets", partitions=9, config={"cleanup.policy": "delete", "retention.ms": 5})
    )
    assert (change_kinds(found), refusal_reasons(found)) == (["UpdateConfig"], ["ProtectedTopic", "ProtectedTopic"])
    own = cluster("prod", protected=("mine-*",), cluster_id=CLUSTER_ID)
    assert refusal_reasons(plan_single_topic(seen, spec("connect-offsets", on=own, partitions=4))) == []


COMPACTED = {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("name", "config", "partitions", "warned"),
    [
        ("kc-prod-offsets", COMPACTED, 1, True),
        ("debezium.Schema_History", COMPACTED, 1, True),
        ("my_configs", {"cleanup.policy": "compact,delete"}, 1, True),
        ("source-status", COMPACTED, 1, True),
        ("source-status", {"cleanup.policy": "delete"}, 1, False),
        ("source-status", {}, 1, False),
        ("order-status", COMPACTED, 2, False),
        ("orders", COMPACTED, 1, False),
        ("connect-offsets", COMPACTED, 1, False),
    ],
)
def test_a_topic_that_looks_like_the_state_of_other_software_has_a_warning(
    name: str, config: dict[str, str], partitions: int, warned: bool
) -> None:
    """An adoption, a change (refused or not) and a deletion warn; a topic that stays, or is protected, does not."""
    size: dict[str, Any] = {"partitions": partitions, "replicationFactor": 2}
    wanted, changed = (spec(name, config=each, **size) for each in (config, {**config, "retention.ms": 5}))
    owned = topic(name, replica_lists("12", "23")[:partitions], *config, config=config)
    free = replace(owned, record=None, record_valid=False)
    for seen, declared in ((free, wanted), (free, changed), (owned, changed), (owned, spec(name, ensure="Absent"))):
        assert notice_reasons(plan_single_topic(state(seen), declared)) == ["MayNeedProtection"] * warned
    assert notice_reasons(plan_single_topic(state(owned), wanted)) == []


def test_a_removed_cleanup_policy_is_a_change_of_cleanup() -> None:
    """On a protected topic, the removal of a managed ``cleanup.policy`` is refused as well."""
    seen = state(topic("a-changelog", replica_lists("12"), "cleanup.policy", config={"cleanup.policy": "compact"}))
    assert refusal_reasons(plan_single_topic(seen, spec("a-changelog", partitions=1))) == ["ProtectedTopic"]


@pytest.mark.parametrize(
    ("standing", "new", "collides"),
    [
        ("orders.v1", "orders_v1", True),
        ("orders_v1", "orders.v1", True),
        ("a.b_c", "a_b.c", True),
        ("orders", "orders.v1", False),
        ("ordersxv1", "orders.v1", False),
    ],
)
def test_names_that_collide(standing: str, new: str, collides: bool) -> None:
    """Kafka's metrics do not distinguish dots and underscores: a name that equals an existing one is refused."""
    found = plan_single_topic(state(topic(standing)), spec(new))
    assert refusal_reasons(found) == (["NameCollision"] if collides else [])
    unreadable = plan_single_topic(state(topic_errors={standing: ReadError("here", "why")}), spec(new))
    assert refusal_reasons(unreadable) == (["NameCollision"] if collides else [])


def test_a_collision_that_stands_refuses_nothing() -> None:
    """Two existing topics with colliding names are both managed, because only creations are refused."""
    seen = state(topic("a.b"), topic("a_b"))
    assert plan_single_topic(seen, spec("a.b")).is_empty
    assert change_kinds(plan_single_topic(seen, spec("a_b", config=KEPT))) == ["UpdateConfig"]


KRAFT = WriteBlock(Reason.KRAFT_CONTROLLER, "a KRaft controller is in charge")


def test_a_plan_is_sorted_and_counts_the_rest() -> None:
    """Topics are sorted by name; topics without issues and topics with notices only are counted."""
    seen = state(topic("b", config={"retention.ms": "5"}), topic("c"), topic("d"))
    found = plan(seen, spec("d", partitions=4), spec("c"), spec("b"), spec("a"))
    assert [each.topic for each in found.topics] == ["a", "b", "d"]
    assert found.unchanged == 2
    assert found.has_changes
    assert not found.has_refusals


def test_nothing_to_do() -> None:
    """A plan without changes and issues is empty and not pending."""
    found = plan(state(topic()), spec())
    assert (found.topics, found.unchanged, found.has_changes, found.load) == ((), 1, False, {})


def test_a_closed_gate_holds_everything() -> None:
    """With a write block, every change becomes a refusal that withholds the change, with the message of the write
    block.
    """
    seen = state(topic("old"), write_block=KRAFT)
    found = plan(seen, spec("new"), spec("old", partitions=4, config={"retention.ms": 5}))
    assert not found.has_changes
    assert [refusal_reasons(each) for each in found.topics] == [["KRaftController"], ["KRaftController"]]
    assert [type(change).__name__ for change in found.topics[1].refusals[0].withheld] == [
        "AddPartitions",
        "UpdateConfig",
    ]
    assert found.topics[1].record_after == found.topics[1].record_before
    assert found.topics[0].record_after is None


def test_a_closed_gate_refuses_nothing_that_was_not_asked() -> None:
    """With a write block, topics without a difference and observed topics have no refusal."""
    seen = state(topic("old"), write_block=KRAFT)
    assert not plan(seen, spec("old"), spec("new", mode="Observe")).has_refusals


def test_orphans() -> None:
    """Owned topics without a manifest are reported, if their record is valid and they are not marked for deletion."""
    ours, theirs = OwnershipRecord("default"), OwnershipRecord("team")
    seen = state(
        topic("declared", record=ours),
        topic("orphan", record=ours),
        topic("another", record=ours),
        topic("stale", record=ours, record_valid=False),
        topic("unadopted", record=None),
        topic("theirs", record=theirs),
        topic("going", record=OwnershipRecord("default", deleted=True)),
        pending_deletions=frozenset({"going"}),
    )
    assert plan(seen, spec("declared")).orphans == ("another", "orphan")
    assert plan(seen, spec("declared"), run=RunOptions(owner="team")).orphans == ("theirs",)


def test_a_cluster_without_an_id_to_guard_it() -> None:
    """The warning has the line to paste; without a ``Cluster`` document, there is no such line."""
    assert plan(state(), on=cluster("prod", version=(3, 9))).warnings == (
        "no clusterId guards this cluster; add to spec: clusterId: ID",
    )
    assert plan(state(), on=PROD_CLUSTER).warnings == ()
    assert plan(state(), on=ClusterSpec()).warnings == ()


def test_a_release_that_cannot_be() -> None:
    """A cluster with features newer than the declared release has a warning, after those of the adapter."""
    old = cluster("prod", cluster_id=CLUSTER_ID, version=(2, 8))
    assert plan(state(min_version=(2, 8)), on=old).warnings == ()
    assert plan(state(min_version=(3, 4), warnings=("odd",)), on=old).warnings == (
        "odd",
        "kafkaVersion is 2.8, but the metadata of the cluster needs 3.4 or later",
    )


def test_the_guards_that_are_bypassed_are_named() -> None:
    """The plan warns that the brokers' policies are not checked, except if it writes ownership records only."""
    seen = state(topic(record=None))
    assert any("policies" in warning for warning in plan(state(), spec()).warnings)
    assert change_kinds(plan(seen, spec()).topics[0]) == ["TakeOwnership"]
    assert plan(seen, spec()).warnings == ()


def test_a_plan_carries_what_it_rests_on() -> None:
    """A plan has its cluster, id, location, owner and brokers as preconditions; controller and epoch are for
    information.
    """
    seen = replace(state(), chroot="/kafka", controller=3, controller_epoch=42)
    found = plan(seen, spec(), run=RunOptions(owner="team"))
    assert (found.cluster, found.cluster_id, found.chroot, found.owner) == ("prod", CLUSTER_ID, "/kafka", "team")
    assert (found.brokers, found.controller, found.controller_epoch) == (seen.brokers, 3, 42)


def test_lists_that_are_nearly_full() -> None:
    """Above 70 % a list has a warning with the numbers; above 90 % changes that do not fit are refused."""
    seen = state(
        topic("old"),
        size_limits=build_list_limits(ListSizes(topics_bytes=881, notifications_bytes=720, max_bytes=1000)),
    )
    found = plan(seen, spec("anew", config={}), spec("brandnew"), spec("old", config={"retention.ms": 5}))
    assert [(each.topic, change_kinds(each), refusal_reasons(each)) for each in found.topics] == [
        ("anew", ["CreateTopic"], []),
        ("brandnew", [], ["TooLarge"]),
        ("old", ["UpdateConfig"], []),
    ]
    assert found.warnings[:2] == (
        "the list of topics: 889 of 1,000 bytes that a broker can read in one reply",
        "the list of config notifications: 748 of 1,000 bytes that a broker can read in one reply",
    )


def test_a_full_list_of_notifications_lets_topics_grow() -> None:
    """A full list of notifications refuses the config change only; the record does not list keys that were not set."""
    seen = state(topic(), size_limits=build_list_limits(ListSizes(notifications_bytes=890, max_bytes=1000)))
    found = plan(seen, spec(partitions=4, config={"retention.ms": 5})).topics[0]
    assert (change_kinds(found), refusal_reasons(found)) == (["AddPartitions"], ["TooLarge"])
    assert record_without_values(found) == OwnershipRecord("default")


def test_what_is_only_observed_takes_no_room() -> None:
    """Observed topics are neither refused for lack of space nor counted in the space of other topics."""
    seen = state(size_limits=build_list_limits(ListSizes(topics_bytes=880, max_bytes=1000)))
    found = plan(seen, spec("observed-and-long", mode="Observe"), spec("other"))
    assert [refusal_reasons(each) for each in found.topics] == [[], []]


def test_a_topic_too_large_for_its_own_entry() -> None:
    """Growth counts the present partitions: the number in the refusal is the size of the whole entry."""
    seen = state(
        topic(replicas=replica_lists("12", "23", "34")), size_limits=build_list_limits(ListSizes(max_bytes=100))
    )
    assert refusal_reasons(plan(seen, spec(partitions=7)).topics[0]) == []
    found = plan(seen, spec(partitions=30)).topics[0]
    assert (change_kinds(found), refusal_reasons(found)) == ([], ["TooLarge"])


def test_a_batch_in_progress_is_named_with_its_owner() -> None:
    """Only runs of its owner wait for it, and only after their other changes."""
    batch = BatchRecord("team", 1, 2, (ReplicaMove("a", 0, (1, 2), (2, 3)),), {})
    moving = state(batch=batch, requested_reassignments=(RequestedReassignment("a", 0, (2, 3)),))
    (warning,) = plan(moving).warnings
    assert warning.startswith("batch 1 of 2 of moves by owner team is in progress: 1 partition left; ")
    assert warning.endswith("; an apply of that owner waits for it, after its other changes")
