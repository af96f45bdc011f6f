"""The fast equality check: it never matches a topic for which a plan has changes, refusals or notices."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, manifest, spec
from support.drift.near_equal_clusters import make_near_equal
from support.drift.row_equality import check_row
from support.drift.small_fleet import BROKERS, SNAPSHOT_TIME, cluster_state, owned_topic
from support.examples import examples
from support.strategies import PlanInput, make_plan_input
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot
from topiarist.adapters.snapshots.lenient_reader import CachingReader, ReplicaLists, RowRemainder, TopicSize
from topiarist.desired.resolve import resolve
from topiarist.desired.shared_specs import ClusterTopicSpecs, SpecGroup
from topiarist.drift.compare import Comparison, compare_cluster
from topiarist.drift.cross_cluster import DeviationIndex, SpecGroups, make_deviation
from topiarist.drift.equality import EqualityIndex, EqualTopics
from topiarist.drift.findings import make_findings
from topiarist.drift.placement import find_checker
from topiarist.drift.snapshots import ClusterInput, SnapshotFile, read_snapshot
from topiarist.errors import Reason
from topiarist.model.plan import RunOptions
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec
from topiarist.model.state import AppliedSpec, ClusterState, OwnershipRecord, ReadError, TopicState
from topiarist.planning.builder import TopicPlanBuilder
from topiarist.planning.diff import COMPARED_FIELDS, ComparedField, TopicPart
from topiarist.planning.planner import make_plan_context, plan_topic

RUNS = (
    RunOptions(),
    RunOptions(adopt=("*",)),
    RunOptions(recreate=("*",), take_ownership=("o*",)),
    RunOptions(owner="k8s/team/release"),
)


def world(seed: int) -> PlanInput:
    """Return a random cluster, or one that matches its manifests with few differences."""
    made = make_plan_input(seed, 1 + seed % 10, (0.0, 0.08, 0.25)[seed % 3])
    return make_near_equal(made, seed) if seed % 2 else made


def recorded(one: PlanInput, equal_topics: EqualTopics) -> ClusterInput:
    """Return the cluster as read from its snapshot."""
    lines = dump_snapshot(Snapshot(one.cluster.name, SNAPSHOT_TIME, one.state))
    snapshot = SnapshotFile(SNAPSHOT_TIME, "cluster.jsonl", len(one.state.topics))
    return read_snapshot(snapshot, lines, replace(one.cluster, cluster_id=""), equal_topics, CachingReader())


def resolved(topics: list[Manifest]) -> Mapping[str, Sequence[TopicSpec]]:
    """Return the specs of two clusters, ``a`` and ``b``, without errors."""
    found = resolve(topics, {name: ClusterSpec(name, default_partitions=3) for name in "ab"})
    assert not found.errors
    return found.specs


def differences(groups: SpecGroups, done: Comparison, *others: Comparison) -> list[dict[str, Any]]:
    """Return the differences between one cluster and other clusters with different values of each topic."""
    fleet = DeviationIndex(groups)
    for number, each in enumerate((done, *others)):
        topics = each.context.state.topics if each.context else {}
        deviations = [make_deviation(0, wanted, topics.get(wanted.topic)) for wanted in each.specs]
        fleet.add(str(number), deviations, each.cluster_input.equal_topics.deviations)
    return list(fleet.differences(map(str, range(1 + len(others)))))


@examples(400)
@given(st.integers(0, 1 << 40), st.sampled_from(RUNS))
def test_a_report_is_the_same_with_and_without(seed: int, run: RunOptions) -> None:
    """A report is the same with the equality check and with a plan for every topic."""
    one = world(seed)
    shared = ClusterTopicSpecs((SpecGroup(("0", "1"), False, [*one.specs]),), one.cluster)
    groups = SpecGroups({"0": shared})
    settled = EqualityIndex(run.owner, groups).for_cluster(shared)
    seen = recorded(one, settled)
    whole = ClusterInput(one.cluster.name, SNAPSHOT_TIME, one.state)
    short = compare_cluster(seen, one.cluster, shared, run, "")
    full = compare_cluster(whole, one.cluster, one.specs, run, "")
    assert short.rows == full.rows
    assert short.counts == full.counts
    assert short.broker_load == full.broker_load
    assert len(settled.names) + len(short.specs) == len(one.specs) == len(full.specs)
    bare = ClusterInput(one.cluster.name, SNAPSHOT_TIME, replace(one.state, topics=_shrunk(one.state)))
    other = compare_cluster(bare, one.cluster, one.specs, run, "")
    assert differences(groups, short, other) == differences(groups, full, other)


def _shrunk(state: ClusterState) -> dict[str, TopicState]:
    """Return the topics with one more override, so that each differs from its original."""
    return {name: replace(topic, config={**topic.config, "flush.ms": "77"}) for name, topic in state.topics.items()}


def _row(one: PlanInput, name: str) -> dict[str, Any]:
    """Return the snapshot row of a topic."""
    rows = map(json.loads, dump_snapshot(Snapshot("", SNAPSHOT_TIME, one.state)))
    return next(row for row in rows if row["kind"] == "topic" and row["topic"] == name)


@examples(400)
@given(st.integers(0, 1 << 40), st.sampled_from(RUNS))
def test_what_is_equal_is_what_no_plan_has_a_word_about(seed: int, run: RunOptions) -> None:
    """The plan of an equal topic gives no finding, and has a change only if the ownership record is missing."""
    one = world(seed)
    context = make_plan_context(one.state, one.cluster, run)
    for wanted in one.specs:
        if wanted.topic in one.state.topics:
            row = _row(one, wanted.topic)
            if (found := check_row(wanted, row, run.owner, one.state.brokers)).names:
                plan = plan_topic(wanted, context)
                assert not make_findings(plan)
                assert found.missing_record == bool(plan.changes)


CONFIG = {"retention.ms": "5", "min.insync.replicas": "2"}
TOPIC = owned_topic("orders", CONFIG, record=OwnershipRecord("default", tuple(sorted(CONFIG))))
ASKED = {"partitions": 3, "replicationFactor": 2, "config": CONFIG}

Change = Callable[[TopicState], TopicState]


def configured(**changes: str) -> Change:
    """Return a change that sets these overrides."""
    named = {key.replace("_", "."): text for key, text in changes.items()}
    return lambda topic: replace(topic, config={**topic.config, **named})


def owned(**changes: Any) -> Change:
    """Return a change that replaces the ownership record."""
    return lambda topic: replace(topic, record=OwnershipRecord(**{"owner": "default", **changes}))


def applied(**changes: Any) -> Change:
    """Return a change that records the applied values of the topic, with these changes."""
    return owned(
        config_keys=tuple(sorted(CONFIG)),
        applied=AppliedSpec(**{"partitions": 3, "config": tuple(sorted(CONFIG.items())), **changes}),
    )


DIFFERENT: dict[str, tuple[Change, dict[str, Any]]] = {
    "another value": (configured(retention_ms="6"), {}),
    "another text for the value": (configured(retention_ms="05"), {}),
    "a key more": (configured(flush_ms="6"), {}),
    "a key less": (lambda topic: replace(topic, config={"retention.ms": "5"}), {}),
    "a key asked for": (lambda topic: topic, {"config": {**CONFIG, "flush.ms": 6}}),
    "a partition more": (lambda topic: replace(topic, replicas=(*topic.replicas, (1, 2)), partition_ids=range(4)), {}),
    "a partition less": (lambda topic: topic, {"partitions": 4}),
    "no partition": (lambda topic: replace(topic, replicas=(), partition_ids=()), {"partitions": None}),
    "a replica less": (lambda topic: replace(topic, replicas=((1,), *topic.replicas[1:])), {}),
    "a replica more": (lambda topic: replace(topic, replicas=((1, 2, 3), *topic.replicas[1:])), {}),
    "replicas of two numbers": (
        lambda topic: replace(topic, replicas=((1, 2, 3), *topic.replicas[1:])),
        {"replicationFactor": None},
    ),
    "no replica": (
        lambda topic: replace(topic, replicas=((), *topic.replicas[1:]), config={"retention.ms": "5"}),
        {"replicationFactor": None, "config": {"retention.ms": "5"}},
    ),
    "fewer replicas than in-sync ones": (
        lambda topic: replace(topic, replicas=((1,), *topic.replicas[1:])),
        {"replicationFactor": None},
    ),
    "more in-sync replicas than replicas": (
        configured(min_insync_replicas="+3"),
        {"config": {**CONFIG, "min.insync.replicas": "+3"}},
    ),
    "a segment that stops newer brokers": (
        configured(segment_bytes="1000"),
        {"config": {**CONFIG, "segment.bytes": "1000"}},
    ),
    "placed elsewhere": (lambda topic: topic, {"replicaAssignment": [[1, 2], [2, 3], [1, 3]]}),
    "a hole": (lambda topic: replace(topic, partition_ids=(0, 1, 3)), {}),
    "moving": (lambda topic: replace(topic, reassigning_partitions=(0,)), {}),
    "ignored": (lambda topic: topic, {"ignore": ["partitions"]}),
    "unwanted": (lambda topic: topic, {"ensure": "Absent"}),
    "another owner": (owned(owner="another"), {}),
    "another applied value": (applied(config=(("min.insync.replicas", "2"), ("retention.ms", "6"))), {}),
    "another applied size": (applied(partitions=2), {}),
    "another applied removal": (applied(remove_unmanaged=True), {}),
    "another name": (lambda topic: replace(topic, name="orders2"), {}),
    "a record of fewer keys": (owned(config_keys=("retention.ms",)), {}),
    "a tombstone": (owned(config_keys=tuple(sorted(CONFIG)), deleted=True), {}),
}
"""One difference each between a topic and its spec; not every difference is a finding."""

ALIKE: dict[str, tuple[Change, dict[str, Any], bool]] = {
    "nothing": (lambda topic: topic, {}, True),
    "other brokers": (lambda topic: replace(topic, replicas=((3, 1), (1, 2), (2, 3))), {}, True),
    "the same lists": (lambda topic: topic, {"replicaAssignment": [[1, 2], [2, 3], [3, 1]]}, True),
    "no size": (lambda topic: topic, {"partitions": None, "replicationFactor": None}, True),
    "touched by others": (lambda topic: replace(topic, modified_externally=True), {}, True),
    "a vendor's field": (lambda topic: replace(topic, unknown_fields=("x",)), {}, True),
    "other order": (lambda topic: replace(topic, config=dict(sorted(topic.config.items(), reverse=True))), {}, True),
    "no record": (lambda topic: replace(topic, record=None, record_valid=False), {}, False),
    "a stale record": (lambda topic: replace(topic, record=OwnershipRecord("another"), record_valid=False), {}, False),
    "in-sync replicas with a sign": (
        configured(min_insync_replicas="+2"),
        {"config": {**CONFIG, "min.insync.replicas": "+2"}},
        True,
    ),
    "applied values": (applied(), {}, True),
    "applied values without a size": (applied(partitions=None), {"partitions": None}, True),
}
"""Variants that are equal, each with a flag for an ownership record."""


def wanted(**fields: Any) -> TopicSpec:
    """Return the spec of the topic with these fields."""
    given = {**ASKED, **fields}
    if "replicaAssignment" in given:
        del given["partitions"], given["replicationFactor"]
    return spec("orders", **given)


def empty(specs: Sequence[TopicSpec], owner: str = "default") -> EqualTopics:
    """Return no equal topics of a cluster with these specs."""
    return EqualityIndex(owner, SpecGroups({})).for_cluster(specs)


def settled(topic: TopicState, asked: TopicSpec, **fields: Any) -> EqualTopics:
    """Return the equal topics of a cluster with one topic."""
    state = cluster_state("x", topic, **fields)
    found = empty([asked])
    read = recorded(PlanInput(state, PROD_CLUSTER, (asked,), RunOptions()), found)
    assert (read.state is not None and len(read.state.topics) + len(found.names) + len(read.state.topic_errors)) == 1
    return found


@pytest.mark.parametrize("case", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_a_near_miss_is_not_settled(case: tuple[Change, dict[str, Any]]) -> None:
    """A topic with any one difference is not equal, and needs a plan."""
    change, fields = case
    assert not settled(change(TOPIC), wanted(**fields)).names


@pytest.mark.parametrize("case", ALIKE.values(), ids=ALIKE.keys())
def test_what_is_settled(case: tuple[Change, dict[str, Any], bool]) -> None:
    """A topic that no plan would change is equal, and a missing ownership record is counted."""
    change, fields, known = case
    found = settled(change(TOPIC), wanted(**fields))
    assert (found.names, found.missing_record) == ({"orders"}, 0 if known else 1)


NOT_COMPARED = {
    # Who and where it is; the documents that it comes from.
    *("topic", "cluster", "manifest", "profile_labels", "inherited_keys", "excluded_default_keys"),
    # Values of a topic that is created.
    *("create_partitions", "create_replication_factor"),
    # They decide what becomes of a difference, or what a plan says beside one.
    *("observe_only", "keyed", "co_partition_group"),
    # They decide whether a plan must be made at all.
    *("absent", "ignored_fields", "allowed_moves", "spread_within_one"),
    # Compared with the ownership record.
    "remove_unmanaged",
}
"""Fields of ``TopicSpec`` that no row of ``COMPARED_FIELDS`` compares with a topic."""

PARTS = {
    "replicas": TopicPart.REPLICAS,
    "config": TopicPart.CONFIG,
    # Conditions of equality, each with a case in ``DIFFERENT`` or ``ALIKE``.
    **dict.fromkeys(("name", "partition_ids", "reassigning_partitions", "record", "record_valid")),
    # Nothing that a spec asks for.
    **dict.fromkeys(("identity", "topic_id", "modified_externally", "unknown_fields")),
}
"""Fields of ``TopicState`` with the part that rows of ``COMPARED_FIELDS`` compare; None for all others."""


def test_every_field_has_its_place() -> None:
    """A new field of a spec or a topic is compared by a row of the table, or named here with the reason why not."""
    names = {field.name for fields in COMPARED_FIELDS.values() for field in fields}
    assert names.isdisjoint(NOT_COMPARED)
    assert names | NOT_COMPARED == {*TopicSpec.__struct_fields__}
    assert PARTS.keys() == {*TopicState.__struct_fields__}
    assert {*PARTS.values()} - {None} | {TopicPart.SIZE} == COMPARED_FIELDS.keys() == {*TopicPart}


@pytest.mark.parametrize("part", TopicPart)
def test_a_new_field_is_compared_by_plans_and_reports(part: TopicPart, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more row of the table makes a difference for a plan, and the same finding with and without the check."""
    asked = wanted()

    def refuse(builder: TopicPlanBuilder, _topic: TopicState) -> None:
        builder.add_refusal(Reason.FEWER_PARTITIONS, "differs", ("partitions",))

    monkeypatch.setitem(COMPARED_FIELDS, part, [*COMPARED_FIELDS[part], ComparedField("x", lambda *_: False, refuse)])
    found = empty([asked])
    seen = recorded(PlanInput(cluster_state("x", TOPIC), PROD_CLUSTER, (asked,), RunOptions()), found)
    rows = compare_cluster(seen, PROD_CLUSTER, [asked], RunOptions(), "").rows
    assert (found.names, [row["message"] for row in rows]) == (set(), ["differs"])


@pytest.mark.parametrize("mark", ["deleting", "faults"])
def test_what_is_marked_or_unreadable_is_not_settled(mark: str) -> None:
    """A topic that is marked for deletion or unreadable is not equal."""
    bare = spec("orders", replicationFactor=2)
    if mark == "deleting":
        assert settled(owned_topic("orders"), bare).names
        assert not settled(owned_topic("orders"), bare, pending_deletions=frozenset({"orders"})).names
        return
    state = replace(cluster_state("x"), topic_errors={"orders": ReadError("/brokers/topics/orders", "is no JSON")})
    found = empty([bare])
    read = recorded(PlanInput(state, PROD_CLUSTER, (bare,), RunOptions()), found)
    assert (found.names, list(read.state.topic_errors if read.state else ())) == (set(), ["orders"])


SOUND: dict[str, Any] = {
    "replicas": [[1, 2], [2, 3], [3, 1]],
    "readError": None,
    "deleting": False,
    "partitionIds": None,
    "reassigningPartitions": [],
    "reassigning": False,
    "config": CONFIG,
    "record": None,
    "recordValid": False,
}


@pytest.mark.parametrize(
    "fields",
    [
        {"readError": "is no JSON"},
        {"deleting": True},
        {"partitionIds": [0, 1, 3]},
        {"reassigningPartitions": [1]},
        {"reassigning": True},
    ],
)
def test_no_row_that_is_odd_is_equal(fields: dict[str, Any]) -> None:
    """No row with an unusual field is equal, including rows that the snapshot reader never passes to the check."""
    assert check_row(wanted(), SOUND, "default", BROKERS).names
    assert not check_row(wanted(), {**SOUND, **fields}, "default", BROKERS).names


@pytest.mark.parametrize("who", ["settled", "left", "deleting"])
def test_brokers_that_are_missed_are_those_of_all_topics(who: str) -> None:
    """A missing topic is refused while a broker with replicas of any other topic is offline, with equal and unequal
    topics. A topic that is marked for deletion does not count.
    """
    away = ((1, 9), (2, 3), (3, 1))
    topics = {"settled": owned_topic("a", replicas=away), "left": owned_topic("a", {"flush.ms": "5"}, replicas=away)}
    marked = frozenset({"a"}) if who == "deleting" else frozenset[str]()
    state = cluster_state("x", topics.get(who, topics["settled"]), owned_topic("b"), pending_deletions=marked)
    specs = tuple(spec(name, partitions=3, replicationFactor=2) for name in ("a", "b", "c"))
    found = empty(specs)
    seen = recorded(PlanInput(state, PROD_CLUSTER, specs, RunOptions()), found)
    assert found.names == ({"a", "b"} if who == "settled" else {"b"})
    done = compare_cluster(seen, PROD_CLUSTER, specs, RunOptions(), "")
    (missing,) = (row for row in done.rows if row["topic"] == "c")
    assert missing["reasons"] == ([] if who == "deleting" else ["BrokersMissing"])
    assert (
        done.rows
        == compare_cluster(ClusterInput("prod", SNAPSHOT_TIME, state), PROD_CLUSTER, specs, RunOptions(), "").rows
    )


def test_another_owner_of_the_run() -> None:
    """A topic with the record of another owner is not equal: ownership depends on the owner of the run."""
    found = empty([wanted()], "another")
    recorded(PlanInput(cluster_state("x", TOPIC), PROD_CLUSTER, (wanted(),), RunOptions()), found)
    assert not found.names


def test_what_is_known_of_one_spec_is_not_that_of_another() -> None:
    """Topics with the same text are each compared with their own spec, also on two clusters with different specs."""
    one, other = spec("orders", config={"retention.ms": "5"}), spec("users", config={"retention.ms": "6"})
    topics = [owned_topic(name, {"retention.ms": "5"}) for name in ("orders", "users")]
    settler = EqualityIndex("default", SpecGroups({}))
    for specs, names in (((one, other), {"orders"}), ((replace(one, config={}), other), set())):
        found = settler.for_cluster(specs)
        recorded(PlanInput(cluster_state("x", *topics), PROD_CLUSTER, specs, RunOptions()), found)
        assert found.names == names


EVERYWHERE: dict[str, Any] = {"clusters": ["a", "b"], **ASKED}


def rest_of(text: str) -> RowRemainder:
    """Return the remainder of a row with this ``retention.ms``."""
    return RowRemainder({**SOUND, "config": {**CONFIG, "retention.ms": text}})


def test_a_cluster_with_an_override_is_compared_with_the_others() -> None:
    """Only topics of manifests for one cluster are in no group; sizes that a spec leaves open are deviations."""
    size = TopicSize(3, frozenset({2}))
    lists = ReplicaLists(((1, 2), (2, 3), (3, 1)), size, frozenset({1, 2, 3}))
    specs = resolved(
        [
            manifest("shared", **EVERYWHERE),
            manifest("changed", **EVERYWHERE, overrides=[{"clusters": ["a"], "config": {"retention.ms": 6}}]),
            manifest("own", **{**EVERYWHERE, "clusters": ["a"]}),
            manifest("open", **{**EVERYWHERE, "partitions": None}),
        ]
    )
    groups = SpecGroups(specs)
    index = EqualityIndex("default", groups)
    deviations = {}
    for name in "ab":
        equal = index.for_cluster(specs[name])
        equal.checker = find_checker(BROKERS, PROD_CLUSTER)
        for wanted in specs[name]:
            assert equal.add_if_equal(wanted.topic, lists, rest_of(wanted.config["retention.ms"]))
        assert [topic for topic in equal.names if equal.group_of(topic) is None] == (["own"] if name == "a" else [])
        assert {number for topic in equal.names for number, *_ in groups.specs_of(topic)} >= {equal.group_of("changed")}
        (deviations[name],) = equal.deviations
    assert deviations["a"] is deviations["b"]
    assert (deviations["a"].topic, json.loads(deviations["a"].variant)[1]["partitions"]) == ("open", "3")
    assert len(groups.specs_of("changed")) == 2
    assert groups.specs_of("own") == []


def test_no_more_comparisons_are_kept_than_specs_call_for() -> None:
    """A fleet in which all rows differ keeps a fixed number of comparisons, and equal rows share theirs."""
    found = resolved([manifest("shared", **EVERYWHERE), manifest("own", **{**EVERYWHERE, "clusters": ["a"]})])
    specs = found["a"]
    assert isinstance(specs, ClusterTopicSpecs)
    index = EqualityIndex("default", SpecGroups(found))
    shared = {each.spec.topic: each for group in specs.groups for each in index.share_specs(group).values()}
    rests = [rest_of(str(number)) for number in range(1000)]
    for rest in rests:
        assert index.compare(shared["shared"], rest) is index.compare(shared["shared"], rest)
        assert index.compare(shared["own"], rest) is not index.compare(shared["own"], rest)
        assert index.cached_count <= 8
        assert len(index._equalities) <= 8


def test_a_topic_without_a_manifest_is_in_no_group() -> None:
    """A topic that no manifest declares has no group."""
    assert EqualTopics().group_of("guest") is None
