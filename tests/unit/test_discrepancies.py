"""Findings of a drift report: exactly what a plan says of a topic, field by field, and what nobody asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from topiarist.core.change import (
    AddPartitions,
    Adopt,
    Change,
    CreateTopic,
    DeleteTopic,
    Finding,
    Plan,
    Risk,
    TopicPlan,
    UpdateConfig,
)
from topiarist.core.discrepancies import discrepancies
from topiarist.core.discrepancy import Discrepancy, Kind, Planned, undeclared
from topiarist.core.plan import context_of, plan_topic
from topiarist.core.state import ClusterState, Fault, TopicRecord
from topiarist.errors import Reason
from unit.builders import NAMED, RACKS, cluster, lists, only, spec, state, topic
from unit.strategies import World, worlds

many = settings(max_examples=600)

SAID = {Reason.IGNORED, Reason.UNMANAGED, Reason.REPLICAS_DIFFER, Reason.STANDING_FAULT}
"""The notices that are about a difference; the others are about records, or about what is under way."""


def found(seen: ClusterState, **fields: Any) -> list[tuple[object, ...]]:
    """Kind, field, what is wanted, what is there and what a plan would do, of the topic ``orders``."""
    return [one[:5] for one in discrepancies(only(seen, spec(**fields)))]


def plans(world: World) -> Iterator[TopicPlan]:
    """What ``plan_topic`` says of each topic of a world."""
    context = context_of(world.state, world.cluster, world.run)
    return (plan_topic(wanted, context) for wanted in world.specs)


def wanted_of(change: Change) -> set[tuple[Kind, str]]:
    """Kind and field of what a change is for."""
    match change:
        case CreateTopic():
            return {(Kind.MISSING, "")}
        case DeleteTopic():
            return {(Kind.UNEXPECTED, "ensure")}
        case AddPartitions():
            return {(Kind.PARTITIONS, "partitions")}
        case UpdateConfig(items):
            return {(Kind.CONFIG, f"config.{item.key}") for item in items}
    return set()


@many
@given(worlds())
def test_there_are_findings_if_and_only_if_the_plan_has_something(world: World) -> None:
    """Changes (records aside), refusals and notices about differences: none of these, no finding, and the reverse."""
    for plan in plans(world):
        changes = [change for change in plan.changes if not isinstance(change, Adopt)]
        notices = [notice for notice in plan.notices if notice.reason in SAID]
        assert bool(discrepancies(plan)) is bool(changes or plan.refusals or notices)


@many
@given(worlds())
def test_each_change_and_refusal_has_its_findings_and_no_other_is_there(world: World) -> None:
    """A change that would be done is ``Change``, one that is held back and each refusal ``Refused`` with its reason."""
    for plan in plans(world):
        rows = discrepancies(plan)
        by_key = {(row.kind, row.field): row for row in rows}
        assert len(by_key) == len(rows)
        changed = {key for change in plan.changes for key in wanted_of(change)}
        refused: dict[tuple[Kind, str], set[Reason]] = {}
        for refusal in plan.refusals:
            for key in {key for change in refusal.held for key in wanted_of(change)}:
                refused.setdefault(key, set()).add(refusal.reason)
        for key, reasons in refused.items():
            assert reasons <= set(by_key[key].reasons)
        assert {refusal.reason for refusal in plan.refusals} <= {reason for row in rows for reason in row.reasons}
        if plan.observed:
            assert {row.planned for row in rows} <= {Planned.REPORTED}
            continue
        assert changed == {key for key, row in by_key.items() if row.planned is Planned.CHANGE}
        for key, row in by_key.items():
            if row.planned is Planned.REFUSED:
                assert {refusal.reason for refusal in plan.refusals} & set(row.reasons)
            if row.planned is Planned.REPORTED:
                assert set(row.reasons) <= SAID
                assert key not in changed


@many
@given(worlds())
def test_each_notice_about_a_difference_has_its_finding(world: World) -> None:
    """As many unmanaged keys as the plan names, as many ignored fields; every standing fault is in a message."""
    for plan in plans(world):
        rows = discrepancies(plan)
        notices = [notice for notice in plan.notices if notice.reason in SAID]
        for reason in (Reason.IGNORED, Reason.UNMANAGED, Reason.REPLICAS_DIFFER):
            number = sum(reason in row.reasons for row in rows)
            assert number == sum(notice.reason is reason for notice in notices)
        for notice in notices:
            if notice.reason is Reason.STANDING_FAULT:
                assert any(notice.message in row.message for row in rows if row.kind is Kind.FAULT)


@many
@given(worlds())
def test_the_values_of_a_finding_are_those_of_spec_and_state(world: World) -> None:
    """A config finding has the text of both sides, another partition count the numbers of both."""
    for plan in plans(world):
        for row in discrepancies(plan):
            before, wanted = plan.before, plan.spec
            assert wanted is not None
            key = row.field.removeprefix("config.")
            if row.kind in (Kind.CONFIG, Kind.UNMANAGED):
                assert before is not None
                assert (row.actual, row.expected) == (before.config.get(key), wanted.config.get(key))
                assert row.actual != row.expected
            elif row.kind is Kind.PARTITIONS:
                assert before is not None
                assert (row.actual, row.expected) == (str(len(before.replicas)), str(wanted.partitions))
            elif row.kind in (Kind.MISSING, Kind.REFUSED, Kind.FAULT):
                assert row.actual is None


@many
@given(worlds())
def test_what_stands_besides_a_topic_means_nothing_to_its_findings(world: World) -> None:
    """A cluster's gate and its limits say what may be written, not what differs: the plan's findings are the same."""
    whole: Plan = world.plan()
    by_topic = {plan.topic: plan for plan in whole.topics}
    for plan in plans(world):
        rows = discrepancies(plan)
        again = discrepancies(by_topic.get(plan.topic, replace(plan, changes=(), refusals=(), notices=())))
        assert [row[:4] for row in rows] == [row[:4] for row in again]


def test_a_missing_topic_has_its_size() -> None:
    """And a topic that is as asked has no finding, also without our record."""
    assert found(state()) == [
        (Kind.MISSING, "", "3 partitions, replication factor 2", None, Planned.CHANGE),
    ]
    assert found(state(topic(record=None))) == []


def test_growth_and_config_are_findings_of_their_own() -> None:
    """Each field by itself, with the risk of its own change."""
    seen = state(topic("orders", lists("12", "23"), "retention.ms", config={"retention.ms": "5", "segment.ms": "7"}))
    rows = discrepancies(only(seen, spec(partitions=3, config={"flush.ms": 8})))
    assert [(row.kind, row.field, row.expected, row.actual, row.risk) for row in rows] == [
        (Kind.CONFIG, "config.flush.ms", "8", None, Risk.DISRUPTIVE),
        (Kind.CONFIG, "config.retention.ms", None, "5", Risk.DATA_LOSS),
        (Kind.PARTITIONS, "partitions", "3", "2", Risk.DISRUPTIVE),
        (Kind.UNMANAGED, "config.segment.ms", None, "7", None),
    ]


def test_what_is_refused_says_why_and_what_to_do() -> None:
    """Fewer partitions and another replication factor: two findings, each with its reason and a way out."""
    rows = discrepancies(only(state(topic()), spec(partitions=2, replicationFactor=3)))
    assert [(row.kind, row.expected, row.actual, row.reasons, row.planned) for row in rows] == [
        (Kind.PARTITIONS, "2", "3", (Reason.FEWER_PARTITIONS,), Planned.REFUSED),
        (Kind.REPLICATION_FACTOR, "3", "2", (Reason.REPLICATION_FACTOR_DIFFERS,), Planned.REFUSED),
    ]
    assert [row.instead for row in rows] == [
        "set partitions: 3, or create a new topic",
        "set replicationFactor: 2, or reassign with kafka-reassign-partitions",
    ]


def test_what_is_held_back_keeps_its_class() -> None:
    """A topic that is not adopted differs in what it differs in, however it may not be touched."""
    seen = state(topic(record=None, config={"retention.ms": "5"}))
    (row,) = discrepancies(only(seen, spec(partitions=3, replicationFactor=2, config={"retention.ms": 9})))
    assert row[:5] == (Kind.CONFIG, "config.retention.ms", "9", "5", Planned.REFUSED)
    assert (row.reasons, row.risk) == ((Reason.NOT_ADOPTED,), Risk.DISRUPTIVE)


def test_two_reasons_for_one_field_are_one_finding() -> None:
    """Deleted by others, and not to be created either: one missing topic with both reasons."""
    seen = state(brokers=RACKS[:1], records={"orders": TopicRecord("default")})
    (row,) = discrepancies(only(seen, spec()))
    assert (row.kind, row.reasons) == (Kind.MISSING, (Reason.TOO_FEW_BROKERS, Reason.DELETED_OUTSIDE))
    assert row.message.endswith(
        "broker can take replicas; was ours and has been deleted by others; created again it would be empty"
    )


def test_explicit_lists_that_differ_are_told_by_partition() -> None:
    """Only those partitions that differ, as JSON by their ids."""
    rows = found(state(topic()), replicaAssignment=[[1, 2], [3, 2], [4, 3]])
    assert rows == [
        (Kind.ASSIGNMENT, "replicaAssignment", '{"1":[3,2],"2":[4,3]}', '{"1":[2,3],"2":[3,4]}', Planned.REPORTED)
    ]


def test_different_numbers_of_replicas_are_a_fault() -> None:
    """Also where the manifest has no replication factor that they could differ from."""
    rows = found(state(topic(replicas=lists("12", "23", "341"))), replicationFactor=None)
    assert rows == [(Kind.FAULT, "replicationFactor", None, None, Planned.REPORTED)]


def test_ignored_fields_are_reported_only() -> None:
    """One word in ``ignore`` may stand for two fields: each that differs is told, and no other."""
    seen = state(topic(config={"retention.ms": "5"}))
    rows = found(
        seen,
        replicaAssignment=[[1, 2]],
        ignore=["replicaAssignment", "config.retention.ms"],
        config={"retention.ms": 9},
    )
    assert rows == [
        (Kind.CONFIG, "config.retention.ms", "9", "5", Planned.REPORTED),
        (Kind.PARTITIONS, "partitions", "1", "3", Planned.REPORTED),
    ]
    rows = found(seen, replicaAssignment=[[1], [2], [3]], ignore=["partitions"])
    assert [row[0] for row in rows] == [Kind.ASSIGNMENT, Kind.REPLICATION_FACTOR, Kind.UNMANAGED]
    assert rows[1][4] is Planned.REFUSED


def test_a_topic_that_should_be_gone_is_unexpected() -> None:
    """It differs in ``ensure``; where it may not be deleted it says why."""
    absent = (Kind.UNEXPECTED, "ensure", None, "3 partitions, replication factor 2")
    assert found(state(topic()), ensure="Absent") == [(*absent, Planned.CHANGE)]
    assert found(state(topic(record=None)), ensure="Absent") == [
        (Kind.REFUSED, "", None, None, Planned.REFUSED),
    ]
    protected = topic("connect-offsets")
    rows = discrepancies(only(state(protected), spec("connect-offsets", ensure="Absent")))
    assert [(row[:5], row.reasons) for row in rows] == [((*absent, Planned.REFUSED), (Reason.PROTECTED_TOPIC,))]


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (state(faults={"orders": Fault("/brokers/topics/orders", "is no JSON")}), Reason.ZNODE_UNREADABLE),
        (state(topic(record=TopicRecord("other"))), Reason.NOT_OWNED),
        (state(topic(), deleting=frozenset({"orders"})), Reason.DELETION_IN_PROGRESS),
    ],
)
def test_a_topic_that_is_refused_as_a_whole_is_one_finding(seen: ClusterState, reason: Reason) -> None:
    """What differs in it is not known, or is none of our business."""
    (row,) = discrepancies(only(seen, spec()))
    assert (row[:5], row.reasons) == ((Kind.REFUSED, "", None, None, Planned.REFUSED), (reason,))


def _undeclared(seen: ClusterState, name: str = "orders", owner: str = "default") -> Discrepancy | None:
    return undeclared(name, seen, NAMED, owner)


def test_a_topic_that_nobody_asked_for_is_unexpected_or_orphaned() -> None:
    """By its record: ours is orphaned, another owner's is named, a record of an earlier topic counts for nothing."""
    row = _undeclared(state(topic()))
    assert row
    assert (row.kind, row.actual, row.planned) == (
        Kind.ORPHANED,
        "3 partitions, replication factor 2",
        Planned.REPORTED,
    )
    row = _undeclared(state(topic()), owner="other")
    assert row
    assert (row.kind, row.message) == (Kind.UNEXPECTED, "is not in the given paths; it belongs to owner default")
    for seen in (topic(record=None), topic(record_valid=False)):
        row = _undeclared(state(seen))
        assert row
        assert (row.kind, row.message) == (Kind.UNEXPECTED, "is not in the given paths")
    row = _undeclared(state(faults={"orders": Fault("/x", "is no JSON")}))
    assert row
    assert (row.kind, row.actual) == (Kind.UNEXPECTED, "unreadable")


def test_what_nobody_has_to_ask_for_is_no_finding() -> None:
    """Kafka's own topics, those of other software, and what is about to go; what is ours of them is orphaned."""
    assert _undeclared(state(topic("__consumer_offsets")), "__consumer_offsets") is None
    assert _undeclared(state(topic("connect-offsets", record=None)), "connect-offsets") is None
    assert _undeclared(state(topic(), deleting=frozenset({"orders"}))) is None
    row = _undeclared(state(topic("connect-offsets")), "connect-offsets")
    assert row
    assert row.kind is Kind.ORPHANED
    assert undeclared("connect-x", state(topic("connect-x", record=None)), cluster("eu", protected=()), "default")


def test_a_plan_without_a_spec_is_refused_as_a_whole() -> None:
    """A saved plan does not carry what was asked for: its refusals are still told."""
    plan = TopicPlan("orders", refusals=(Finding(Reason.FEWER_PARTITIONS, "no"),))
    assert [row.kind for row in discrepancies(plan)] == [Kind.REFUSED]
