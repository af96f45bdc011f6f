"""Preconditions of a plan: before, done or conflict for each topic; and the state after a plan."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import (
    CLUSTER_ID,
    PROD_CLUSTER,
    RACKED_BROKERS,
    RACKLESS_BROKERS,
    UNCAPPED_CLUSTER,
    change_kinds,
    cluster,
    current_topic,
    plan,
    plan_single_topic,
    refusal_reasons,
    replica_lists,
    spec,
    state,
    topic,
    with_topic,
)
from support.examples import examples
from support.memory_cluster import simulate
from support.strategies import PlanInput, plan_inputs
from topiarist.errors import Reason
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import UNLIMITED, MoveKind, MoveSettings
from topiarist.model.plan import AddPartitions, Plan, Risk, RunOptions, TopicPlan, UpdateConfig, retained_managed_keys
from topiarist.model.spec import TopicSpec
from topiarist.model.state import (
    AppliedSpec,
    ClusterState,
    OperatorMemory,
    OwnershipRecord,
    ReadError,
    TopicState,
    WriteBlock,
)
from topiarist.planning.preconditions import PlanValidity, Validity, check_preconditions, revalidate
from topiarist.planning.without_specs import UnmanageRequest, plan_unmanage

Foreign = Callable[[ClusterState], ClusterState]
"""A change of a cluster by another client."""

STANDS = state(
    topic("orders", replica_lists("12", "23", "34"), "segment.ms", config={"segment.ms": "5", "retention.ms": "7"})
)
WANTED = spec(partitions=5, config={"segment.ms": 6, "cleanup.policy": "compact"})


def _from(seen: ClusterState, found: TopicPlan, moved: ClusterState) -> PlanValidity:
    wanted = found.spec.cluster if found.spec else PROD_CLUSTER
    return check_preconditions(found, plan(seen, on=wanted).assumptions(), current_topic(moved, found.topic))


def _change(**fields: object) -> Foreign:
    return lambda seen: with_topic(seen, "orders", **fields)


def _config(**changes: str | None) -> Foreign:
    """Return an external change that sets or removes overrides; ``segment_ms`` is ``segment.ms``."""

    def act(seen: ClusterState) -> ClusterState:
        named = {key.replace("_", "."): text for key, text in changes.items()}
        config = {**seen.topics["orders"].config, **named}
        return with_topic(seen, "orders", config={key: text for key, text in config.items() if text is not None})

    return act


def _without(broker: int) -> Foreign:
    return lambda seen: replace(seen, brokers=tuple(each for each in seen.brokers if each.id != broker))


def _gone(seen: ClusterState) -> ClusterState:
    return replace(seen, topics={})


MOVES: dict[str, tuple[Foreign, str]] = {
    "deleted": (_gone, "existed, and does not exist now"),
    "marked": (lambda seen: replace(seen, pending_deletions=frozenset({"orders"})), "is marked for deletion now"),
    "made again": (_change(identity="8"), "was deleted and recreated, so it is a different topic"),
    "a key we change": (_config(segment_ms="9"), "segment.ms was 5, and is 9 now"),
    "a key we set": (_config(cleanup_policy="delete"), "cleanup.policy was not set, and is delete now"),
    "a key taken away": (_config(segment_ms=None), "segment.ms was 5, and is not set now"),
    "a key that makes ours invalid": (
        _config(max_compaction_lag_ms="abc"),
        "the config after the change would be invalid now: max.compaction.lag.ms: ",
    ),
    "grown": (
        _change(replicas=replica_lists("12", "23", "34", "45")),
        "had 3 partitions, and has 4 now",
    ),
    "a hole": (_change(partition_ids=(0, 1, 3)), "partition 2 is missing now"),
    "partition 0 moved": (
        _change(replicas=replica_lists("16", "23", "34")),
        "partition 0 was on [1, 2], and is on [1, 6] now",
    ),
    "reassigning": (_change(reassigning_partitions=(1,)), "its replicas are being reassigned now"),
    "partition 0 moving": (
        _change(replicas=replica_lists("612", "23", "34"), reassigning_partitions=(0,)),
        "its replicas are being reassigned now",
    ),
    "a request to reassign": (
        lambda seen: replace(seen, reassigning_topics=frozenset({"orders"})),
        "its replicas are being reassigned now",
    ),
    "vendor fields": (_change(unknown_fields=("x",)), "has fields now that Kafka does not write: x"),
    "another owner": (
        _change(record=OwnershipRecord("team")),
        "its ownership record was that of owner default (segment.ms)",
    ),
    "no key of ours": (_change(record=OwnershipRecord("default")), "and is that of owner default (no keys) now"),
    "another key of ours": (_change(record=OwnershipRecord("default", ("a",))), "and is that of owner default (a) now"),
    "another run": (
        _change(
            record=OwnershipRecord("default", ("segment.ms",), applied=AppliedSpec(4, (("segment.ms", "9"),))),
        ),
        "another run has applied other values since then: partitions, segment.ms",
    ),
    "another run of an operator": (
        _change(record=OwnershipRecord("default", ("segment.ms",), memory=OperatorMemory(step_ms=5))),
        "another run has written its ownership record since then",
    ),
    "released": (
        _change(record=None, record_valid=False),
        "its ownership record was valid, and is missing or stale now",
    ),
    "record stale": (_change(record_valid=False), "its ownership record was valid, and is missing or stale now"),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES.keys())
def test_what_moves_a_topic_under_its_plan(move: tuple[Foreign, str]) -> None:
    """Any single change of a precondition is detected, and the message has the expected and the actual value."""
    act, message = move
    found = plan_single_topic(STANDS, WANTED)
    stands = _from(STANDS, found, act(STANDS))
    assert stands.validity is Validity.CONFLICT
    assert message in stands.message


@pytest.mark.parametrize("name", ["orders", "new"], ids=["deletion", "creation"])
def test_a_request_that_names_a_topic_since_holds_its_deletion_and_its_creation_back(name: str) -> None:
    """A new request with the topic's name prevents its deletion, which the entry would outlive, and its creation."""
    found = plan_single_topic(STANDS, spec("orders", ensure="Absent") if name == "orders" else spec(name))
    assert found.is_actionable
    other = replace(STANDS, reassigning_topics=frozenset({"other"}))
    assert _from(STANDS, found, other).validity is Validity.APPLICABLE
    stands = _from(STANDS, found, replace(STANDS, reassigning_topics=frozenset({name})))
    assert stands.validity is Validity.CONFLICT
    assert "a reassignment request names it now" in stands.message


IRRELEVANT: dict[str, Foreign] = {
    "nothing": lambda seen: seen,
    "another key": _config(retention_ms="8"),
    "a throttle": _config(leader_replication_throttled_replicas="*"),
    "a vendor's key taken away": _config(retention_ms=None),
    "an id from the controller": _change(topic_id="abc"),
    "changed outside": _change(modified_externally=True),
    "another partition moved": _change(replicas=replica_lists("12", "26", "34")),
    "another controller": lambda seen: replace(seen, controller=5, controller_epoch=99),
    "another topic": lambda seen: replace(seen, topics={**seen.topics, "new": topic("new")}),
    "a new broker": lambda seen: replace(seen, brokers=(*seen.brokers, Broker(7, "a"))),
}


@pytest.mark.parametrize("act", IRRELEVANT.values(), ids=IRRELEVANT.keys())
def test_what_does_not_concern_a_plan(act: Foreign) -> None:
    """Other keys, throttles, controller, topic id, partitions, topics and brokers do not void a plan."""
    found = plan_single_topic(STANDS, WANTED)
    assert [type(change) for change in found.changes] == [AddPartitions, UpdateConfig]
    assert _from(STANDS, found, act(STANDS)) == PlanValidity(Validity.APPLICABLE)


def test_a_plan_without_its_specs_is_judged_alike() -> None:
    """A saved plan has no specs, and the preconditions yield the same result as with specs."""
    found = plan_single_topic(STANDS, WANTED)
    for change in (_config(vendors_own="1"), _config(segment_ms="9"), _config(retention_ms="9"), _gone):
        moved = change(STANDS)
        assert _from(STANDS, replace(found, spec=None), moved) == _from(STANDS, found, moved)
    assert "vendors.own" in _from(STANDS, found, _config(vendors_own="1")(STANDS)).message


def test_a_new_topics_config_is_judged_by_the_brokers_of_the_moment() -> None:
    """A config that fitted the brokers' defaults when it was planned is not created once it no longer fits."""
    seen = state()
    found = plan_single_topic(seen, spec(config={"min.compaction.lag.ms": 11}))
    moved = replace(seen, broker_defaults={"log.cleaner.max.compaction.lag.ms": "10"})
    assert _from(seen, found, seen).validity is Validity.APPLICABLE
    assert "min.compaction.lag.ms is 11" in _from(seen, found, moved).message


def test_a_release_that_the_plan_knew_of_is_not_forgotten() -> None:
    """The release that the plan detected is kept, because a single topic may prove less than all topics together."""
    seen = state(topic(config={"message.format.version": "3.0"}), min_version=(3, 0))
    found = plan_single_topic(seen, spec(on=cluster("prod", cluster_id=CLUSTER_ID), config={"segment.ms": 5}))
    alone = replace(seen, min_version=(2, 8))
    assert _from(seen, found, alone).validity is Validity.APPLICABLE


def test_a_release_that_shows_by_now_counts() -> None:
    """After an upgrade of the brokers, a value that was invalid before does not void the plan."""
    seen = state(topic(), min_version=(3, 0))
    found = plan_single_topic(seen, spec(on=cluster("prod", cluster_id=CLUSTER_ID), config={"segment.ms": 5}))
    upgraded = with_topic(replace(seen, min_version=(3, 6)), "orders", config={"local.retention.ms": "-1"})
    assert _from(seen, found, upgraded).validity is Validity.APPLICABLE


def test_what_others_changed_is_judged_by_the_clusters_release() -> None:
    """The declared release validates the config: a value that an old release accepts does not void the plan."""
    old = cluster("prod", cluster_id=CLUSTER_ID, version=(2, 8))
    seen = state(topic(config={"flush.messages": "0"}))
    found = plan_single_topic(seen, spec(on=old, config={"segment.ms": 5}))
    assert _from(seen, found, _config(retention_ms="5")(seen)).validity is Validity.APPLICABLE


def test_what_others_changed_is_judged_as_the_plan_judged() -> None:
    """External changes are validated with the brokers' dynamic defaults and, without declared release, both possible
    releases.
    """
    lag = state(topic(), broker_defaults={"log.cleaner.max.compaction.lag.ms": "10"})
    found = plan_single_topic(lag, spec(config={"segment.ms": 5}))
    assert _from(lag, found, _config(min_compaction_lag_ms="9")(lag)).validity is Validity.APPLICABLE
    assert "min.compaction.lag.ms is 11" in _from(lag, found, _config(min_compaction_lag_ms="11")(lag)).message
    free = cluster("prod", cluster_id=CLUSTER_ID)
    for release, position in (((3, 0), Validity.CONFLICT), ((3, 5), Validity.CONFLICT), ((3, 6), Validity.APPLICABLE)):
        seen = state(topic(), min_version=release)
        found = plan_single_topic(seen, spec(on=free, config={"segment.ms": 5}))
        changed = with_topic(seen, "orders", config={"local.retention.ms": "-1"})
        assert _from(seen, found, changed).validity is position


def test_topic_ids_count_where_both_sides_have_one() -> None:
    """Two different topic ids are two topics, and one id alone proves nothing; but a topic that lost its id does not
    grow.
    """
    with_id = with_topic(STANDS, "orders", topic_id="one")
    found = plan_single_topic(with_id, WANTED)
    assert _from(STANDS, plan_single_topic(STANDS, WANTED), with_id).validity is Validity.APPLICABLE
    assert _from(with_id, found, STANDS).message == "had the topic id one, and has none now"
    configured = plan_single_topic(with_id, spec(config={"segment.ms": 6}))
    assert _from(with_id, configured, STANDS).validity is Validity.APPLICABLE
    assert _from(with_id, found, with_topic(STANDS, "orders", topic_id="two")).validity is Validity.CONFLICT


def test_brokers_of_new_replicas_must_be_as_seen() -> None:
    """A broker that is offline or in another rack voids only the replica lists that name it."""
    explicit = plan_single_topic(STANDS, spec(replicaAssignment=[[1, 2], [2, 3], [3, 4], [5, 6]]))
    assert _from(STANDS, explicit, _without(6)(STANDS)).message == "broker 6 was registered, and is not now"
    moved = replace(STANDS, brokers=(*RACKED_BROKERS[:5], Broker(6, "z")))
    assert _from(STANDS, explicit, moved).message == "broker 6 was in rack c, and is in z now"
    assert _from(STANDS, explicit, _without(1)(STANDS)).validity is Validity.APPLICABLE


def test_a_broker_that_was_not_registered_when_planned_is_no_conflict() -> None:
    """A creation on an unregistered broker, which the run allowed, stays valid while the broker is absent."""
    found = plan_single_topic(state(), spec(replicaAssignment=[[1, 9]]), RunOptions(allow_unknown_brokers=True))
    assert found.is_actionable
    assert _from(state(), found, state()).validity is Validity.APPLICABLE


def test_growth_and_config_changes_that_were_made_are_recognized() -> None:
    """The record alone does not prove it: both changes have to be on the topic."""
    found = plan_single_topic(STANDS, WANTED)
    done = simulate(STANDS, [found])
    assert _from(STANDS, found, done).validity is Validity.ALREADY_APPLIED
    narrow = with_topic(done, "orders", replicas=STANDS.topics["orders"].replicas)
    assert _from(STANDS, found, narrow).validity is Validity.CONFLICT
    assert _from(STANDS, found, _config(segment_ms="5")(done)).validity is Validity.CONFLICT


def test_min_insync_replicas_is_compared_with_the_replicas_of_now() -> None:
    """Partitions that became narrower since the plan void a change of ``min.insync.replicas``."""
    narrow = with_topic(STANDS, "orders", replicas=replica_lists("12", "2", "34"))
    for on, wanted in ((UNCAPPED_CLUSTER, Validity.CONFLICT), (PROD_CLUSTER, Validity.APPLICABLE)):
        found = plan_single_topic(STANDS, spec(on=on, config={"min.insync.replicas": 2, "segment.ms": 5}))
        assert _from(STANDS, found, narrow).validity is wanted


ABSENT: dict[str, tuple[Foreign, Validity]] = {
    "nothing": (lambda seen: seen, Validity.APPLICABLE),
    "made by others": (lambda seen: replace(seen, topics={"orders": topic(record=None)}), Validity.CONFLICT),
    "marked": (lambda seen: replace(seen, pending_deletions=frozenset({"orders"})), Validity.CONFLICT),
    "a record appeared": (
        lambda seen: replace(seen, dangling_records={"orders": OwnershipRecord("team")}),
        Validity.CONFLICT,
    ),
    "a broker went": (_without(1), Validity.CONFLICT),
}


@pytest.mark.parametrize("case", ABSENT.values(), ids=ABSENT.keys())
def test_a_creation_needs_absence(case: tuple[Foreign, Validity]) -> None:
    """A creation needs no topic and no deletion request, the same record, and the same brokers."""
    act, position = case
    found = plan_single_topic(state(), spec(partitions=6, replicationFactor=6))
    assert _from(state(), found, act(state())).validity is position


def test_a_created_topic_is_recognised() -> None:
    """A created topic is recognised by its lists, overrides and record, also after additions of the controller or a
    client.
    """
    found = plan_single_topic(state(), spec(config={"retention.ms": 5}))
    done = simulate(state(), [found])
    later = with_topic(done, "orders", topic_id="abc", config={"retention.ms": "5", "x": "y"})
    for seen in (done, later):
        assert _from(state(), found, seen).validity is Validity.ALREADY_APPLIED
    others = (
        with_topic(done, "orders", config={"retention.ms": "6"}),
        with_topic(done, "orders", replicas=replica_lists("45")),
        with_topic(done, "orders", record_valid=False),
        replace(done, pending_deletions=frozenset({"orders"})),
    )
    for seen in others:
        assert _from(state(), found, seen).validity is Validity.CONFLICT


def test_a_deletion_is_done_when_marked_or_gone_with_our_tombstone() -> None:
    """A deletion request without topiarist's deletion record does not count as the planned deletion."""
    found = plan_single_topic(STANDS, spec(ensure="Absent"))
    done = simulate(STANDS, [found])
    assert _from(STANDS, found, STANDS).validity is Validity.APPLICABLE
    assert _from(STANDS, found, done).validity is Validity.ALREADY_APPLIED
    marked = replace(STANDS, pending_deletions=frozenset({"orders"}))
    assert _from(STANDS, found, marked).validity is Validity.CONFLICT
    tombstone = with_topic(marked, "orders", record=found.record_after)
    assert _from(STANDS, found, tombstone).validity is Validity.ALREADY_APPLIED
    unmarked = with_topic(STANDS, "orders", record=found.record_after)
    assert _from(STANDS, found, unmarked).message.endswith("and is that of owner default (deleted) now")


def test_a_deletion_is_of_as_many_partitions_as_were_shown() -> None:
    """A deletion is void if partitions were added since the plan; changes of brokers and config do not matter."""
    found = plan_single_topic(STANDS, spec(ensure="Absent"))
    for act in (
        _change(replicas=replica_lists("45", "26", "341")),
        _config(segment_ms="9"),
        _change(reassigning_partitions=(1,)),
    ):
        assert _from(STANDS, found, act(STANDS)).validity is Validity.APPLICABLE
    grown = with_topic(STANDS, "orders", replicas=replica_lists("12", "23", "34", "45"))
    assert _from(STANDS, found, grown).message == "had 3 partitions, and has 4 now"


def test_what_looks_done_and_is_another_topic_has_moved() -> None:
    """A recreated topic with the planned values is a conflict, because the plan did not write them."""
    found = plan_single_topic(STANDS, WANTED)
    alike = with_topic(simulate(STANDS, [found]), "orders", identity="8")
    assert _from(STANDS, found, alike).message == "was deleted and recreated, so it is a different topic"


def test_a_key_that_the_record_vouches_for_stays_as_seen() -> None:
    """A key that the record keeps as managed must have the planned value, or the record would claim an external
    value.
    """
    found = plan_single_topic(STANDS, spec(config={"segment.ms": 5, "cleanup.policy": "compact"}))
    assert list(retained_managed_keys(found)) == ["segment.ms"]
    assert not list(retained_managed_keys(plan_single_topic(STANDS, WANTED)))  # the plan changes every managed key
    assert _from(STANDS, found, _config(segment_ms="9")(STANDS)).message == "segment.ms was 5, and is 9 now"


COMPACTS = "keys map to other partitions: old values and tombstones stay in the old ones, uncompacted"
GROWS = f"the growth was planned as Disruptive, and is DataLoss now: {COMPACTS}"


def _defaults(**settings: str) -> Foreign:
    """Return an external change of the dynamic broker defaults; ``log_retention_ms`` is ``log.retention.ms``."""
    named = {key.replace("_", "."): text for key, text in settings.items()}
    return lambda seen: replace(seen, broker_defaults={**seen.broker_defaults, **named})


RISES: dict[str, tuple[TopicSpec, Foreign, str]] = {
    "growth, a topic that compacts": (spec(partitions=5), _config(cleanup_policy="compact"), GROWS),
    "growth, brokers that compact": (spec(partitions=5), _defaults(log_cleanup_policy="compact,delete"), GROWS),
    "growth, and a config": (
        spec(partitions=5, config={"segment.ms": 6}),
        _config(cleanup_policy="delete,compact"),
        GROWS,
    ),
    "a key that was not set": (
        spec(config={"segment.ms": 5, "delete.retention.ms": 3600000, "retention.bytes": 5}),
        _defaults(log_cleaner_delete_retention_ms="7200000"),
        "the change of delete.retention.ms was planned as Safe, and is DataLoss now: tombstones are removed after",
    ),
    "a key that is taken away": (
        spec(),
        _defaults(log_roll_ms="1"),
        "the change of segment.ms was planned as Safe, and is Disruptive now: many more files",
    ),
}


@pytest.mark.parametrize(("wanted", "act", "message"), RISES.values(), ids=RISES.keys())
def test_a_change_that_may_cost_more_than_was_shown_has_moved(wanted: TopicSpec, act: Foreign, message: str) -> None:
    """A change with a higher risk than reviewed is a conflict, even if only values outside the change differ."""
    defaults = {"log.cleaner.delete.retention.ms": "3600000", "log.roll.ms": "50"}
    seen = replace(with_topic(STANDS, "orders", config={"segment.ms": "50"}), broker_defaults=defaults)
    found = plan_single_topic(seen, wanted)
    assert found.changes
    assert _from(seen, found, seen).validity is Validity.APPLICABLE
    stands = _from(seen, found, act(seen))
    assert (stands.validity, message in stands.message) == (Validity.CONFLICT, True), stands.message
    assert _from(seen, replace(found, spec=None), act(seen)) == stands


def test_a_change_that_costs_no_more_than_was_shown_stands() -> None:
    """A change with a lower risk, or the same risk for another reason, is valid; creations and deletions always are."""
    compacts = with_topic(STANDS, "orders", config={"segment.ms": "5", "cleanup.policy": "compact"})
    grows = plan_single_topic(compacts, spec(partitions=5))
    assert grows.risk is Risk.DATA_LOSS
    for act in (_config(cleanup_policy="delete"), _config(cleanup_policy="compact,delete")):
        assert _from(compacts, grows, act(compacts)).validity is Validity.APPLICABLE
    act = _defaults(log_cleanup_policy="compact", log_retention_ms="1")
    for seen, wanted in ((STANDS, spec(ensure="Absent")), (state(), spec())):
        assert _from(seen, plan_single_topic(seen, wanted), act(seen)).validity is Validity.APPLICABLE


def test_what_growth_may_cost_depends_on_what_the_config_will_be() -> None:
    """The risk of growth depends on the config after the plan, which may remove or set ``cleanup.policy``."""
    deletes = state(
        topic("orders", replica_lists("12", "23"), "cleanup.policy", config={"cleanup.policy": "delete"}),
    )
    deletes = replace(deletes, broker_defaults={"log.cleanup.policy": "compact"})
    for wanted in (spec(partitions=3), spec(partitions=3, config={"cleanup.policy": "compact"})):
        grows, configures = plan_single_topic(deletes, wanted).changes
        assert (grows.assessment.risk, configures.assessment.risk) == (Risk.DATA_LOSS, Risk.DATA_LOSS)
    kept = spec(partitions=3, config={"cleanup.policy": "delete"})
    assert plan_single_topic(deletes, kept).risk is Risk.DISRUPTIVE


def test_a_name_that_collides_by_now_is_not_created() -> None:
    """Kafka does not distinguish dots and underscores: a creation is void if another client created a colliding
    name.
    """
    found = plan_single_topic(state(), spec("a.b"))
    assert _from(state(), found, state(topic("a_b"))).message == "would collide with a_b, which exists now"
    assert _from(state(), found, state(topic("ab"))).validity is Validity.APPLICABLE


def test_a_release_is_about_the_record_alone() -> None:
    """A release concerns the record alone: the same record is before, no record is done, another record is a
    conflict.
    """
    (found,) = plan_unmanage(STANDS, "prod", UnmanageRequest(("orders",)), RunOptions())[0].topics
    marked = replace(STANDS, pending_deletions=frozenset({"orders"}))
    again = with_topic(STANDS, "orders", identity="8", record_valid=False)
    for seen in (STANDS, marked, again):
        assert _from(STANDS, found, seen).validity is Validity.APPLICABLE
    for seen in (with_topic(STANDS, "orders", record=None, record_valid=False), _gone(STANDS)):
        assert _from(STANDS, found, seen).validity is Validity.ALREADY_APPLIED
    assert (
        _from(STANDS, found, with_topic(STANDS, "orders", record=OwnershipRecord("team"))).validity is Validity.CONFLICT
    )
    assert not list(retained_managed_keys(found))


def test_a_plan_without_changes_vouches_for_nothing() -> None:
    """A plan with refusals only writes no record and lists no new managed keys."""
    found = plan_single_topic(STANDS, spec(partitions=2, config={"segment.ms": 5}))
    assert (found.changes, found.record_after) == ((), OwnershipRecord("default", ("segment.ms",)))
    assert not list(retained_managed_keys(found))


def test_a_half_finished_plan_is_neither() -> None:
    """The plan of a topic is one transaction, so a partly present result is a conflict."""
    found = plan_single_topic(STANDS, WANTED)
    half = with_topic(STANDS, "orders", config={"segment.ms": "6", "cleanup.policy": "compact"})
    assert _from(STANDS, found, half).validity is Validity.CONFLICT


def _foreign(found: TopicPlan, before: TopicState, draw: st.DataObject) -> dict[str, object]:
    """Return the fields of one external change to a precondition of an existing topic's plan."""
    moves: list[dict[str, object]] = [
        {"identity": f"{before.identity}1"},
        {"record": OwnershipRecord("somebody", ("x",)), "record_valid": True},
        {"record_valid": not before.record_valid}
        if before.record
        else {"record": OwnershipRecord("x"), "record_valid": True},
    ]
    for change in found.changes:
        if isinstance(change, AddPartitions):
            moves += [
                {"replicas": ((77,), *before.replicas[1:])},
                {"replicas": (*before.replicas, (1,)), "partition_ids": range(len(before.replicas) + 1)},
                {"reassigning_partitions": (0,)},
                {"unknown_fields": ("x",)},
            ]
        elif isinstance(change, UpdateConfig):
            key = draw.draw(st.sampled_from([item.key for item in change.items]))
            moves.append({"config": {**before.config, key: "somebody's"}})
            moves.append({"config": {other: text for other, text in before.config.items() if other != key} | (
                {key: "0"} if key not in before.config else {})})  # fmt: skip
    return draw.draw(st.sampled_from(moves))


@examples(300)
@given(plan_inputs(), st.data())
def test_any_relevant_change_moves_a_topic(world: PlanInput, data: st.DataObject) -> None:
    """In any plan, one change of a precondition is detected with a message, and other topics stay before.

    The topic counts as done if another client has written exactly the planned record.
    """
    found: Plan = world.plan()
    existing = [each for each in found.actionable_topics() if each.before is not None]
    if not existing:
        return
    chosen = data.draw(st.sampled_from(existing))
    assert chosen.before is not None
    moved = with_topic(world.state, chosen.topic, **_foreign(chosen, chosen.before, data))
    for each in existing:
        stands = _from(world.state, each, moved)
        assert (stands.validity is Validity.APPLICABLE) == (each is not chosen)
        assert bool(stands.message) == (stands.validity is Validity.CONFLICT)


def test_moves_stand_by_value_of_each_partition() -> None:
    """Some partitions may be as before, some under way and some done; any other list is a conflict."""
    on = replace(PROD_CLUSTER, moves=MoveSettings(frozenset({MoveKind.FACTOR}), throttle=UNLIMITED))
    wanted = spec(on=on, partitions=3, replicationFactor=3)
    record = plan_single_topic(state(topic(), brokers=RACKLESS_BROKERS), wanted).record_after
    seen = state(topic(record=record), brokers=RACKLESS_BROKERS)
    planned = plan_single_topic(seen, wanted)
    first, second, third = (move.after for move in planned.moves())

    def standing(*lists: Replicas, in_flight: tuple[int, ...] = ()) -> PlanValidity:
        moved = with_topic(
            seen, "orders", replicas=lists, partition_ids=range(len(lists)), reassigning_partitions=in_flight
        )
        return _from(seen, planned, moved)

    assert standing((1, 2), (2, 3), (3, 4)).validity is Validity.APPLICABLE
    assert standing(first, second, (3, 4), in_flight=(1,)).validity is Validity.APPLICABLE
    assert standing(first, second, third, in_flight=(2,)).validity is Validity.APPLICABLE
    assert standing(first, second, third).validity is Validity.ALREADY_APPLIED
    assert standing(first, (3, 2), third).message == "partition 1 was on [2, 3], and is on [3, 2] now"
    assert standing(first, second).message == "partition 2 existed, and does not exist now"


@examples(300)
@given(plan_inputs())
def test_irrelevant_changes_move_nothing(world: PlanInput) -> None:
    """A key outside the plan, a topic id or another controller leaves every topic before its plan."""
    touched = {
        name: replace(each, topic_id=each.topic_id or "new", config={**each.config, "confluent.other": "1"})
        for name, each in world.state.topics.items()
    }
    cluster = replace(world.cluster, allow_unknown_configs=("confluent.*",))
    specs = tuple(replace(wanted, cluster=cluster) for wanted in world.specs)
    world = world._replace(cluster=cluster, specs=specs)
    later = replace(world.state, topics=touched, controller=9, controller_epoch=99)
    for each in world.plan().actionable_topics():
        if each.spec is not None and not each.spec.remove_unmanaged:
            assert _from(world.state, each, later).validity is Validity.APPLICABLE


def test_adoption_flags_do_not_matter_to_standing() -> None:
    """An adoption with differences is done once the record and the values are written."""
    seen = state(topic(record=None))
    found = plan_single_topic(seen, WANTED, RunOptions(adopt=("*",)))
    assert _from(seen, found, simulate(seen, [found])).validity is Validity.ALREADY_APPLIED
    assert _from(seen, found, seen).validity is Validity.APPLICABLE


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
