"""Findings of a drift report: the content of the plan field by field, and undeclared topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, RACKED_BROKERS, cluster, plan_single_topic, replica_lists, spec, state, topic
from support.examples import examples
from support.strategies import PlanInput, plan_inputs
from topiarist.drift.findings.finding import (
    NEVER_ACCEPTED,
    DriftClass,
    DriftFinding,
    PlannedAction,
    make_findings,
    undeclared_topic_finding,
)
from topiarist.errors import Reason
from topiarist.model.moves import MoveKind
from topiarist.model.plan import (
    AddPartitions,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    Issue,
    MoveReplicas,
    Plan,
    Risk,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.state import ClusterState, OwnershipRecord, ReadError
from topiarist.planning.planner import make_plan_context, plan_topic
from topiarist.schema.load import load_schema

many = examples(600)

SAID = {Reason.IGNORED, Reason.UNMANAGED, Reason.REPLICAS_DIFFER, Reason.EXISTING_PROBLEM}
"""The notices about a difference; all other notices are about records or deletions in progress."""


def found(seen: ClusterState, **fields: Any) -> list[tuple[object, ...]]:
    """Return class, field, expected value, actual value and planned action of each finding of the topic ``orders``."""
    return [one[:5] for one in make_findings(plan_single_topic(seen, spec(**fields)))]


def plans(world: PlanInput) -> Iterator[TopicPlan]:
    """Yield the plan of each topic of a random input."""
    context = make_plan_context(world.state, world.cluster, world.run)
    return (plan_topic(wanted, context) for wanted in world.specs)


FAULTS = (DriftClass.FAULT, DriftClass.WIDTHS)

OF_KIND = {
    MoveKind.ASSIGNMENT: (DriftClass.ASSIGNMENT, "replicaAssignment"),
    MoveKind.DRAIN: (DriftClass.DRAINED, ""),
    MoveKind.RACKS: (DriftClass.RACKS, ""),
    MoveKind.FACTOR: (DriftClass.REPLICATION_FACTOR, "replicationFactor"),
    MoveKind.SPREAD: (DriftClass.SPREAD, ""),
    MoveKind.LEADERS: (DriftClass.SPREAD, ""),
}


def wanted_of(change: Change) -> set[tuple[DriftClass, str]]:
    """Return the class and field of each finding that belongs to a change."""
    match change:
        case CreateTopic():
            return {(DriftClass.MISSING, "")}
        case DeleteTopic():
            return {(DriftClass.UNEXPECTED, "ensure")}
        case AddPartitions():
            return {(DriftClass.PARTITIONS, "partitions")}
        case MoveReplicas(moves):
            return {OF_KIND[kind] for move in moves for kind in move.kinds}
        case UpdateConfig(items):
            return {(DriftClass.CONFIG, f"config.{item.key}") for item in items}
    return set()


@many
@given(plan_inputs())
def test_there_are_findings_if_and_only_if_the_plan_has_something(world: PlanInput) -> None:
    """A plan gives findings exactly if it has changes other than records, refusals, or notices about differences."""
    for plan in plans(world):
        changes = [change for change in plan.changes if not isinstance(change, TakeOwnership)]
        notices = [notice for notice in plan.notices if notice.reason in SAID]
        assert bool(make_findings(plan)) is bool(changes or plan.refusals or notices)


@many
@given(plan_inputs())
def test_each_change_and_refusal_has_its_findings_and_no_other_is_there(world: PlanInput) -> None:
    """Each planned change gives a finding with ``Change``; each withheld change and each refusal gives one with
    ``Refused`` and its reason. No other finding exists.
    """
    for plan in plans(world):
        rows = make_findings(plan)
        by_key = {(row.drift_class, row.field): row for row in rows}
        assert len(by_key) == len(rows)
        changed = {key for change in plan.changes for key in wanted_of(change)}
        refused: dict[tuple[DriftClass, str], set[Reason]] = {}
        for refusal in plan.refusals:
            for key in {key for change in refusal.withheld for key in wanted_of(change)}:
                refused.setdefault(key, set()).add(refusal.reason)
        for key, reasons in refused.items():
            assert reasons <= set(by_key[key].reasons)
        assert {refusal.reason for refusal in plan.refusals} <= {reason for row in rows for reason in row.reasons}
        if plan.observe_only:
            assert {row.planned for row in rows} <= {PlannedAction.REPORTED}
            continue
        assert changed == {key for key, row in by_key.items() if row.planned is PlannedAction.CHANGE}
        for key, row in by_key.items():
            if row.planned is PlannedAction.REFUSED:
                assert {refusal.reason for refusal in plan.refusals} & set(row.reasons)
            if row.planned is PlannedAction.REPORTED:
                assert set(row.reasons) <= SAID
                assert key not in changed


@many
@given(plan_inputs())
def test_each_notice_about_a_difference_has_its_finding(world: PlanInput) -> None:
    """Each notice about an unmanaged key, an ignored field or different replicas has one finding, and the message of
    each existing problem is in a finding.
    """
    for plan in plans(world):
        rows = make_findings(plan)
        notices = [notice for notice in plan.notices if notice.reason in SAID]
        for reason in (Reason.IGNORED, Reason.UNMANAGED, Reason.REPLICAS_DIFFER):
            number = sum(reason in row.reasons for row in rows)
            assert number == sum(notice.reason is reason for notice in notices)
        for notice in notices:
            if notice.reason is Reason.EXISTING_PROBLEM:
                assert any(notice.message in row.message for row in rows if row.drift_class in FAULTS)


@many
@given(plan_inputs())
def test_the_values_of_a_finding_are_those_of_spec_and_state(world: PlanInput) -> None:
    """A config finding has the text of both sides, and a partition count finding the numbers of both."""
    for plan in plans(world):
        for row in make_findings(plan):
            before, wanted = plan.before, plan.spec
            assert wanted is not None
            key = row.field.removeprefix("config.")
            if row.drift_class in (DriftClass.CONFIG, DriftClass.UNMANAGED):
                assert before is not None
                assert (row.actual, row.expected) == (before.config.get(key), wanted.config.get(key))
                assert row.actual != row.expected
            elif row.drift_class is DriftClass.PARTITIONS:
                assert before is not None
                assert (row.actual, row.expected) == (str(len(before.replicas)), str(wanted.partitions))
            elif row.drift_class in (DriftClass.MISSING, DriftClass.REFUSED, DriftClass.FAULT):
                assert row.actual is None


@many
@given(plan_inputs())
def test_what_stands_besides_a_topic_means_nothing_to_its_findings(world: PlanInput) -> None:
    """The write block and limits of a cluster do not change the findings: they restrict writes, not differences."""
    whole: Plan = world.plan()
    by_topic = {plan.topic: plan for plan in whole.topics}
    for plan in plans(world):
        rows = make_findings(plan)
        again = make_findings(by_topic.get(plan.topic, replace(plan, changes=(), refusals=(), notices=())))
        assert [row[:4] for row in rows] == [row[:4] for row in again]


def test_a_missing_topic_has_its_size() -> None:
    """The finding of a missing topic has its size, and a matching topic has no finding, with or without a record."""
    assert found(state()) == [
        (DriftClass.MISSING, "", "3 partitions, replication factor 2", None, PlannedAction.CHANGE),
    ]
    assert found(state(topic(record=None))) == []


def test_growth_and_config_are_findings_of_their_own() -> None:
    """Each field is a separate finding with the risk of its own change."""
    seen = state(
        topic("orders", replica_lists("12", "23"), "retention.ms", config={"retention.ms": "5", "segment.ms": "7"})
    )
    rows = make_findings(plan_single_topic(seen, spec(partitions=3, config={"flush.ms": 8})))
    assert [(row.drift_class, row.field, row.expected, row.actual, row.risk) for row in rows] == [
        (DriftClass.CONFIG, "config.flush.ms", "8", None, Risk.DISRUPTIVE),
        (DriftClass.CONFIG, "config.retention.ms", None, "5", Risk.DATA_LOSS),
        (DriftClass.PARTITIONS, "partitions", "3", "2", Risk.DISRUPTIVE),
        (DriftClass.UNMANAGED, "config.segment.ms", None, "7", None),
    ]


def test_what_is_refused_says_why_and_what_to_do() -> None:
    """Fewer partitions and another replication factor are two findings, each with its reason and a hint."""
    rows = make_findings(plan_single_topic(state(topic()), spec(partitions=2, replicationFactor=3)))
    assert [(row.drift_class, row.expected, row.actual, row.reasons, row.planned) for row in rows] == [
        (DriftClass.PARTITIONS, "2", "3", (Reason.FEWER_PARTITIONS,), PlannedAction.REFUSED),
        (DriftClass.REPLICATION_FACTOR, "3", "2", (Reason.REPLICATION_FACTOR_DIFFERS,), PlannedAction.REFUSED),
    ]
    assert [row.hint for row in rows] == [
        "set partitions: 3, or create a new topic",
        "set replicationFactor: 2, or allow Factor in spec.moves of the Cluster",
    ]


def test_growth_by_lists_of_another_width_is_a_finding_of_its_own() -> None:
    """A plan refuses lists of another width once, and the report names both the partitions and the factor."""
    lists, growth = [[1], [2], [3], [4]], (DriftClass.PARTITIONS, "partitions", "4", "3", PlannedAction.REFUSED)
    factor = DriftClass.REPLICATION_FACTOR, "replicationFactor", "1", "2"
    rows = found(state(topic()), replicaAssignment=lists)
    assert rows[1:] == [growth, (*factor, PlannedAction.REFUSED)]
    rows = found(state(topic()), replicaAssignment=lists, ignore=["replicationFactor"])
    assert rows[1:] == [growth, (*factor, PlannedAction.REPORTED)]


def test_what_is_held_back_keeps_its_class() -> None:
    """A withheld change of a topic that is not adopted keeps its drift class, field and values."""
    seen = state(topic(record=None, config={"retention.ms": "5"}))
    (row,) = make_findings(plan_single_topic(seen, spec(partitions=3, replicationFactor=2, config={"retention.ms": 9})))
    assert row[:5] == (DriftClass.CONFIG, "config.retention.ms", "9", "5", PlannedAction.REFUSED)
    assert (row.reasons, row.risk) == ((Reason.NOT_ADOPTED,), Risk.DISRUPTIVE)


def test_two_reasons_for_one_field_are_one_finding() -> None:
    """A topic that another client deleted and that topiarist cannot create is one missing topic with both reasons."""
    seen = state(brokers=RACKED_BROKERS[:1], dangling_records={"orders": OwnershipRecord("default")})
    (row,) = make_findings(plan_single_topic(seen, spec()))
    assert (row.drift_class, row.reasons) == (DriftClass.MISSING, (Reason.TOO_FEW_BROKERS, Reason.DELETED_EXTERNALLY))
    assert row.message.endswith(
        "broker can take replicas; was deleted by another client; a recreated topic would be empty"
    )


@pytest.mark.parametrize("reverse", [False, True])
def test_the_highest_risk_of_one_field_counts(reverse: bool) -> None:
    """Of two refusals of one key both reasons, messages and hints are kept, each once, and the higher risk."""
    issues = [
        Issue(reason, reason.value, ("config",), "ask", (UpdateConfig((ConfigItem("x", "1", "2", assessment),)),))
        for reason, assessment in (
            (Reason.NOT_ADOPTED, RiskAssessment(Risk.DATA_LOSS, "gone")),
            (Reason.FROZEN, RiskAssessment(Risk.SAFE)),
        )
    ][:: -1 if reverse else 1]
    (row,) = make_findings(TopicPlan("orders", topic(), refusals=tuple(issues), spec=spec()))
    assert (row.field, row.risk, row.explanation) == ("config.x", Risk.DATA_LOSS, "gone")
    assert row.reasons == tuple(issue.reason for issue in issues)
    assert (row.message, row.hint) == ("; ".join(issue.message for issue in issues), "ask")


def test_explicit_lists_that_differ_are_told_by_partition() -> None:
    """The finding lists only the partitions with different replicas, as JSON by partition id."""
    rows = found(state(topic()), replicaAssignment=[[1, 2], [3, 2], [4, 3]])
    assert rows == [
        (
            DriftClass.ASSIGNMENT,
            "replicaAssignment",
            '{"1":[3,2],"2":[4,3]}',
            '{"1":[2,3],"2":[3,4]}',
            PlannedAction.REPORTED,
        )
    ]


def test_different_numbers_of_replicas_are_found_without_a_wanted_number() -> None:
    """Partitions with different numbers of replicas are a finding, also if the manifest has no replication factor."""
    rows = found(state(topic(replicas=replica_lists("12", "23", "341"))), replicationFactor=None)
    assert rows == [(DriftClass.WIDTHS, "", None, None, PlannedAction.REPORTED)]


def test_ignored_fields_are_reported_only() -> None:
    """Each field that an entry in ``ignore`` covers is reported if it differs, and no other field is."""
    seen = state(topic(config={"retention.ms": "5"}))
    rows = found(
        seen,
        replicaAssignment=[[1, 2]],
        ignore=["replicaAssignment", "config.retention.ms"],
        config={"retention.ms": 9},
    )
    assert rows == [
        (DriftClass.CONFIG, "config.retention.ms", "9", "5", PlannedAction.REPORTED),
        (DriftClass.PARTITIONS, "partitions", "1", "3", PlannedAction.REPORTED),
    ]
    rows = found(seen, replicaAssignment=[[1], [2], [3]], ignore=["partitions"])
    assert [row[0] for row in rows] == [DriftClass.ASSIGNMENT, DriftClass.REPLICATION_FACTOR, DriftClass.UNMANAGED]
    assert rows[1][4] is PlannedAction.REFUSED


def test_a_topic_that_should_be_gone_is_unexpected() -> None:
    """A topic that should be absent differs in ``ensure``, with the reason if topiarist may not delete it."""
    absent = (DriftClass.UNEXPECTED, "ensure", None, "3 partitions, replication factor 2")
    assert found(state(topic()), ensure="Absent") == [(*absent, PlannedAction.CHANGE)]
    assert found(state(topic(record=None)), ensure="Absent") == [
        (DriftClass.REFUSED, "", None, None, PlannedAction.REFUSED),
    ]
    protected = topic("connect-offsets")
    rows = make_findings(plan_single_topic(state(protected), spec("connect-offsets", ensure="Absent")))
    assert [(row[:5], row.reasons) for row in rows] == [((*absent, PlannedAction.REFUSED), (Reason.PROTECTED_TOPIC,))]


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (state(topic_errors={"orders": ReadError("/brokers/topics/orders", "is no JSON")}), Reason.TOPIC_UNREADABLE),
        (state(topic(record=OwnershipRecord("other"))), Reason.NOT_OWNED),
        (state(topic(), pending_deletions=frozenset({"orders"})), Reason.DELETION_IN_PROGRESS),
    ],
)
def test_a_topic_that_is_refused_as_a_whole_is_one_finding(seen: ClusterState, reason: Reason) -> None:
    """A topic that is refused as a whole is one finding without values."""
    (row,) = make_findings(plan_single_topic(seen, spec()))
    assert (row[:5], row.reasons) == ((DriftClass.REFUSED, "", None, None, PlannedAction.REFUSED), (reason,))


def _undeclared(seen: ClusterState, name: str = "orders", owner: str = "default") -> DriftFinding | None:
    return undeclared_topic_finding(name, seen, PROD_CLUSTER, owner)


def test_a_topic_that_nobody_asked_for_is_unexpected_or_orphaned() -> None:
    """An undeclared topic with a record of this owner is orphaned; any other is unexpected, and names its other owner.
    The record of an earlier topic does not count.
    """
    row = _undeclared(state(topic()))
    assert row
    assert (row.drift_class, row.actual, row.planned) == (
        DriftClass.ORPHANED,
        "3 partitions, replication factor 2",
        PlannedAction.REPORTED,
    )
    row = _undeclared(state(topic()), owner="other")
    assert row
    assert (row.drift_class, row.message) == (
        DriftClass.UNEXPECTED,
        "is not in the given paths; it belongs to owner default",
    )
    for seen in (topic(record=None), topic(record_valid=False)):
        row = _undeclared(state(seen))
        assert row
        assert (row.drift_class, row.message) == (DriftClass.UNEXPECTED, "is not in the given paths")
    row = _undeclared(state(topic_errors={"orders": ReadError("/x", "is no JSON")}))
    assert row
    assert (row.drift_class, row.actual) == (DriftClass.UNEXPECTED, "unreadable")


def test_what_nobody_has_to_ask_for_is_no_finding() -> None:
    """Internal topics, protected topics and topics marked for deletion give no finding, but a protected topic with a
    record of this owner is orphaned.
    """
    assert _undeclared(state(topic("__consumer_offsets")), "__consumer_offsets") is None
    assert _undeclared(state(topic("__topiarist")), "__topiarist") is None
    assert _undeclared(state(topic("connect-offsets", record=None)), "connect-offsets") is None
    assert _undeclared(state(topic(), pending_deletions=frozenset({"orders"}))) is None
    row = _undeclared(state(topic("connect-offsets")), "connect-offsets")
    assert row
    assert row.drift_class is DriftClass.ORPHANED
    assert undeclared_topic_finding(
        "connect-x", state(topic("connect-x", record=None)), cluster("eu", protected=()), "default"
    )


def test_a_plan_without_a_spec_is_refused_as_a_whole() -> None:
    """A saved plan has no specs, and its refusals still give findings."""
    plan = TopicPlan("orders", refusals=(Issue(Reason.FEWER_PARTITIONS, "no"),))
    assert [row.drift_class for row in make_findings(plan)] == [DriftClass.REFUSED]


def test_a_class_is_in_both_schemas() -> None:
    """A report documents each class, and an exception may name each class except those that nobody may accept."""
    documented = load_schema("drift")["definitions"]["class"]
    assert documented["enum"] == [kind.value for kind in DriftClass]
    assert len(documented["enumDescriptions"]) == len(DriftClass)
    accepted = load_schema("driftexception")["properties"]["spec"]["properties"]["classes"]["items"]["enum"]
    assert accepted == [kind.value for kind in DriftClass if kind.value not in NEVER_ACCEPTED]
