"""Findings of plans, their severity, and their rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, RACKED_BROKERS, cluster, plan_single_topic, replica_lists, spec, state, topic
from support.drift.small_fleet import REPLICA_LISTS, cluster_state, owned_topic, read_rows, run_drift, write_snapshot
from support.examples import examples
from support.strategies import PlanInput, plan_inputs
from topiarist.drift.findings import (
    NEVER_ACCEPTED,
    DriftClass,
    DriftFinding,
    PlannedAction,
    Severity,
    make_findings,
    undeclared_topic_finding,
)
from topiarist.drift.rows import RowOptions, RowWords, find_link_problem, is_worse, make_command, make_row
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
from topiarist.model.state import ClusterState, OwnershipRecord, ReadError, TopicState
from topiarist.planning.planner import make_plan_context, plan_topic
from topiarist.planning.risk import NO_FACTS, TopicFacts
from topiarist.schema.load import load_schema
from unit.planning.test_builder import OLD_NAME, kraft
from unit.planning.test_risk import EFFECTS as CONFIG_EFFECTS
from unit.planning.test_risk import MATRIX as CONFIG_MATRIX

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
    size = "3 partitions, replication factor 2"
    assert row[:5] == (DriftClass.MISSING, "", size, None, PlannedAction.REFUSED)
    assert row.reasons == (Reason.TOO_FEW_BROKERS, Reason.DELETED_EXTERNALLY)
    assert row.message.endswith(
        "broker can take replicas; was deleted by another client; a recreated topic would be empty"
    )


@pytest.mark.parametrize(
    ("reverse", "other_hint", "hints"),
    [(False, "ask", "ask"), (True, "ask", "ask"), (False, "wait", "ask; wait"), (True, "wait", "wait; ask")],
)
def test_the_highest_risk_of_one_field_counts(reverse: bool, other_hint: str, hints: str) -> None:
    """Of two refusals of one key both reasons, messages and hints are kept, each once, and the higher risk."""
    issues = [
        Issue(reason, reason.value, ("config",), hint, (UpdateConfig((ConfigItem("x", "1", "2", assessment),)),))
        for reason, hint, assessment in (
            (Reason.NOT_ADOPTED, "ask", RiskAssessment(Risk.DATA_LOSS, "gone")),
            (Reason.FROZEN, other_hint, RiskAssessment(Risk.SAFE)),
        )
    ][:: -1 if reverse else 1]
    (row,) = make_findings(TopicPlan("orders", topic(), refusals=tuple(issues), spec=spec()))
    assert (row.field, row.risk, row.explanation) == ("config.x", Risk.DATA_LOSS, "gone")
    assert row.reasons == tuple(issue.reason for issue in issues)
    assert (row.message, row.hint) == ("; ".join(issue.message for issue in issues), hints)


def test_the_hint_of_three_refusals_of_one_field_says_nothing_twice() -> None:
    """The same hint of the first and the third refusal stands once."""
    hints = {"one": "ask", "two": "wait", "three": "ask"}
    change = UpdateConfig((ConfigItem("x", "1", "2", RiskAssessment(Risk.SAFE)),))
    issues = tuple(Issue(Reason.FROZEN, text, ("config",), hint, (change,)) for text, hint in hints.items())
    (row,) = make_findings(TopicPlan("orders", topic(), refusals=issues, spec=spec()))
    assert (row.message, row.hint) == ("one; two; three", "ask; wait")


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
    rows = found(seen, replicaAssignment=[[1], [2], [3]], ignore=["replicaAssignment"])
    assert [row[0] for row in rows] == [DriftClass.ASSIGNMENT, DriftClass.REPLICATION_FACTOR, DriftClass.UNMANAGED]
    assert rows[1][4] is PlannedAction.REPORTED
    rows = found(seen, replicaAssignment=[[1], [2], [3]], ignore=["partitions"])
    assert [row[0] for row in rows] == [DriftClass.ASSIGNMENT, DriftClass.REPLICATION_FACTOR, DriftClass.UNMANAGED]
    assert rows[1][4] is PlannedAction.REFUSED
    partitions = DriftClass.PARTITIONS, "partitions", "5", "3", PlannedAction.REPORTED
    assert found(state(topic()), partitions=5, ignore=["partitions"]) == [partitions]
    assert found(state(topic()), partitions=3, ignore=["partitions"]) == []
    plan = plan_single_topic(
        state(topic()), spec(partitions=5, replicationFactor=3, ignore=["partitions", "replicationFactor"])
    )
    assert [row.message for row in make_findings(plan)] == [
        "partitions: 3 on the cluster, 5 in the manifest",
        "replicationFactor: 2 on the cluster, 3 in the manifest",
    ]


def test_an_absent_topic_has_no_difference_in_what_is_ignored() -> None:
    """A config that the manifest ignores and Kafka has dropped is a notice of the plan that creates the topic."""
    missing = DriftClass.MISSING, "", "3 partitions, replication factor 2", None, PlannedAction.CHANGE
    assert found(kraft(), config={OLD_NAME: False}, ignore=[f"config.{OLD_NAME}"]) == [missing]


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
    """A saved plan has no specs: its refusals still give findings, and its notices give none."""
    refused, ignored = Issue(Reason.FEWER_PARTITIONS, "no"), Issue(Reason.IGNORED, "no", ("config", "retention.ms"))
    plan = TopicPlan("orders", topic(), refusals=(refused,), notices=(ignored, Issue(Reason.UNMANAGED, "x")))
    assert [row.drift_class for row in make_findings(plan)] == [DriftClass.REFUSED]


def test_a_class_is_in_both_schemas() -> None:
    """A report documents each class, and an exception may name each class except those of ``NEVER_ACCEPTED``."""
    documented = load_schema("drift")["definitions"]["class"]
    assert documented["enum"] == [kind.value for kind in DriftClass]
    assert len(documented["enumDescriptions"]) == len(DriftClass)
    accepted = load_schema("driftexception")["properties"]["spec"]["properties"]["classes"]["items"]["enum"]
    assert accepted == [kind.value for kind in DriftClass if kind.value not in NEVER_ACCEPTED]


CLUSTERS = """\
apiVersion: topiarist.dev/v1
kind: Cluster
metadata:
  name: eu
  labels: {team: platform}
spec:
  kafkaVersion: "3.9"
  defaults:
    config: {segment.ms: 5}
---
apiVersion: topiarist.dev/v1
kind: Cluster
metadata:
  name: us
spec:
  kafkaVersion: "3.9"
"""

TOPICS = """\
# Topics of the shop.
apiVersion: topiarist.dev/v1
kind: Topic
metadata:
  name: orders
  namespace: shop
  labels:
    team: checkout
spec:
  clusters: [eu, us]
  partitions: 3
  replicationFactor: 2
  config:
    retention.ms: 8
  overrides:
    - clusters: [us]
      config:
        retention.ms: 9
---
apiVersion: topiarist.dev/v1
kind: Topic
metadata:
  name: clicks
spec:
  clusters: [eu, us]
  partitions: 3
  replicationFactor: 2
"""


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of two clusters on which topics differ in fields of the manifests and in others."""
    monkeypatch.chdir(tmp_path)
    manifests = tmp_path / "fleet"
    manifests.mkdir()
    (manifests / "clusters.yaml").write_text(CLUSTERS)
    (manifests / "the topics.yaml").write_text(TOPICS)
    for name in ("eu", "us"):
        topics = (
            owned_topic("orders", {"retention.ms": "7"}, replicas=REPLICA_LISTS[:2]),
            TopicState("guest", "9", REPLICA_LISTS),
        )
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, *topics))
    return Path("fleet")


def rows_by_key(out: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return the rows of a report by cluster, topic and field."""
    return {(row["cluster"], row["topic"], row["field"]): row for row in read_rows(out)}


def test_a_row_has_the_place_of_its_field_in_the_manifest(fleet: Path, tmp_path: Path) -> None:
    """The line is that of the field, also in an override, and that of the document for a field it does not have."""
    run_drift(fleet, tmp_path / "report", "-q")
    found = rows_by_key(tmp_path / "report")
    file = "fleet/the topics.yaml"
    places = {key: (row["manifest"], row["file"], row["line"]) for key, row in found.items()}
    assert places == {
        ("eu", "orders", "partitions"): ("shop/orders", file, 11),
        ("eu", "orders", "config.retention.ms"): ("shop/orders", file, 14),
        ("eu", "orders", "config.segment.ms"): ("shop/orders", file, 2),
        ("us", "orders", "partitions"): ("shop/orders", file, 11),
        ("us", "orders", "config.retention.ms"): ("shop/orders", file, 18),
        ("eu", "clicks", ""): ("clicks", file, 20),
        ("us", "clicks", ""): ("clicks", file, 20),
        ("eu", "guest", ""): (None, None, None),
        ("us", "guest", ""): (None, None, None),
    }
    assert {row["link"] for row in found.values()} == {None}


def test_a_link_leads_to_the_line(fleet: Path, tmp_path: Path) -> None:
    """The link template gets the values of the row, percent-encoded; a topic without a manifest has no link."""
    template = "https://github.com/blob/main/{file}#L{line}?{topic}@{cluster}"
    run_drift(fleet, tmp_path / "report", "-q", "--link-template", template)
    found = rows_by_key(tmp_path / "report")
    link = "https://github.com/blob/main/fleet/the%20topics.yaml#L18?orders@us"
    assert found["us", "orders", "config.retention.ms"]["link"] == link
    assert found["us", "guest", ""]["link"] is None


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("https://github.com/{file}#L{line}", ""),
        ("", ""),
        ("{path}", "{path}"),
        ("{file}{", "{"),
        ("{file}}", "}"),
        ("{}", "{}"),
        ("{file!r}", "{file!r}"),
    ],
)
def test_a_template_has_known_fields_only(template: str, problem: str) -> None:
    """Any other text in braces is an error that names it."""
    assert find_link_problem(template) == problem


def test_a_wrong_template_is_a_usage_error(fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run ends before it reads anything, and names the fields that a template may have."""
    assert run_drift(fleet, tmp_path / "report", "--link-template", "https://github.com/{path}") == 2
    assert 'found "{path}", wanted only {file}, {line}, {cluster}, {topic} in braces' in capsys.readouterr().err
    assert not (tmp_path / "report").exists()


def test_the_responsible_team_is_that_of_the_nearest_label(fleet: Path, tmp_path: Path) -> None:
    """The label of the topic comes before that of the cluster, and both before the owner in the ownership record."""
    run_drift(fleet, tmp_path / "report", "-q", "--owner-label", "team")
    teams = {key[:2]: row["responsible"] for key, row in rows_by_key(tmp_path / "report").items()}
    assert teams == {
        ("eu", "orders"): "checkout",
        ("us", "orders"): "checkout",
        ("eu", "clicks"): "platform",
        ("us", "clicks"): None,
        ("eu", "guest"): "platform",
        ("us", "guest"): None,
    }
    run_drift(fleet, tmp_path / "report", "-q")
    owners = {key[:2]: row["responsible"] for key, row in rows_by_key(tmp_path / "report").items()}
    assert owners == {key: "default" if key[1] == "orders" else None for key in teams}


def test_a_command_has_the_paths_of_the_run() -> None:
    """Paths and options follow a topic that is no option itself; moves read Clusters, and plans have an owner."""
    words = "topics/", "--clusters", "c.yaml"
    options = RowOptions("", "", RowWords((*words, "--snapshot", "s"), words, words, ("--owner", "o")))
    commands = [
        make_command(make_row("eu", topic, DriftFinding(kind), "2025-01-31T12:00:00Z"), options)
        for topic, kind in (
            *(("a", DriftClass.CONFIG), ("-x", DriftClass.CONFIG)),
            *(("", DriftClass.STUCK), ("", DriftClass.UNKNOWN)),
        )
    ]
    place = {"file": "e f.yaml", "line": 17}
    for name, kind in (("a", DriftClass.INVALID), ("a", DriftClass.EXPIRED), ("", DriftClass.EXPIRED)):
        row = make_row("", name, DriftFinding(kind), "2025-01-31T12:00:00Z") | place
        commands.append(make_command(row, options))
    assert commands == [
        "topiarist describe a topics/ --clusters c.yaml --snapshot s --owner o --cluster eu",
        "topiarist describe --clusters c.yaml --snapshot s --owner o --cluster eu -- -x topics/",
        "topiarist moves topics/ --clusters c.yaml --cluster eu",
        "topiarist list topics/ --clusters c.yaml --snapshot s --cluster eu",
        "topiarist validate topics/ --clusters c.yaml",
        "tail -n +17 'e f.yaml'",
        "head -n 1 'e f.yaml'",
    ]


@pytest.mark.parametrize(
    ("cluster", "topic", "kind", "command"),
    [
        ("prod", "orders", DriftClass.CONFIG, "topiarist describe orders --cluster prod"),
        ("", "orders", DriftClass.CONFIG, "topiarist describe orders"),
        ("prod", "-x", DriftClass.CONFIG, "topiarist describe --cluster prod -- -x"),
        ("prod", "a b;c", DriftClass.CONFIG, "topiarist describe 'a b;c' --cluster prod"),
        ("prod", "", DriftClass.UNKNOWN, "topiarist list --cluster prod"),
        ("prod", "", DriftClass.THROTTLE, "topiarist moves --cluster prod"),
    ],
)
def test_the_command_shows_the_finding(cluster: str, topic: str, kind: DriftClass, command: str) -> None:
    """The command is quoted for a shell, and a topic that begins with a dash is no option."""
    row = make_row(cluster, topic, DriftFinding(kind), "2025-01-31T12:00:00Z")
    assert make_command(row, RowOptions()) == command


SEVERITIES = {
    **dict.fromkeys(("missing", "stuck"), Severity.CRITICAL),
    **dict.fromkeys(("racks", "widths", "throttle", "fault"), Severity.HIGH),
    **dict.fromkeys(("refused", "unknown", "invalid", "expired"), Severity.HIGH),
    **dict.fromkeys(("partitions", "drained", "spread", "moving", "dormant", "oversized"), Severity.MEDIUM),
    **dict.fromkeys(("unexpected", "orphaned", "assignment"), Severity.LOW),
}
"""The severity of each class that has the same one with all values, by hand."""


@pytest.mark.parametrize("risk", [None, *Risk])
@pytest.mark.parametrize("planned", PlannedAction)
def test_the_effect_decides_the_severity_and_the_repair_does_not(planned: PlannedAction, risk: Risk | None) -> None:
    """Each class has its severity, whatever a plan does about the finding and however dangerous that is."""
    values = {DriftClass.CONFIG, DriftClass.UNMANAGED, DriftClass.REPLICATION_FACTOR}
    assert SEVERITIES.keys() == {each.value for each in DriftClass if each not in values}
    for name, severity in SEVERITIES.items():
        finding = DriftFinding(DriftClass(name), planned=planned, risk=risk)
        assert make_row("eu", "orders", finding, "2025-01-31T12:00:00Z")["severity"] == severity.value, name


DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("field", "expected", "actual", "effect", "severity"),
    [
        ("config.retention.ms", str(7 * DAY_MS), str(8 * DAY_MS), "Cost", "Medium"),
        ("config.retention.ms", str(7 * DAY_MS), "60000", "DataLoss", "Critical"),
        ("config.retention.ms", str(7 * DAY_MS), "-1", "Availability", "High"),
        ("config.min.insync.replicas", "2", "1", "DataLoss", "Critical"),
        ("config.min.insync.replicas", "2", "3", "Availability", "High"),
        ("config.unclean.leader.election.enable", None, "true", "DataLoss", "Critical"),
        ("config.segment.bytes", "1073741824", "1073741823", "None", "Low"),
        ("config.vendor.key", None, "x", "Unknown", "High"),
        ("replicationFactor", "3", "2", "DataLoss", "Critical"),
        ("replicationFactor", "3", "2, 3", "DataLoss", "Critical"),
        ("replicationFactor", "3", "4", "Cost", "Medium"),
    ],
)
def test_values_decide_what_a_difference_does(
    field: str, expected: str | None, actual: str, effect: str, severity: str
) -> None:
    """What loses data is critical, what stops clients is high, what costs is medium, in both directions."""
    name = DriftClass.REPLICATION_FACTOR if field == "replicationFactor" else DriftClass.CONFIG
    row = make_row("eu", "orders", DriftFinding(name, field, expected, actual), "2025-01-31T12:00:00Z")
    assert (row["effect"], row["severity"]) == (effect, severity)
    assert row["effectReason"] or effect == "None"


def test_a_fault_does_what_its_message_says() -> None:
    """The summary has no messages: the reason of the effect names the fault."""
    message = "min.insync.replicas 3: a partition has only 2 replicas: writes with acks=all fail"
    row = make_row("eu", "a", DriftFinding(DriftClass.FAULT, "config.min.insync.replicas", message=message), "")
    assert (row["effect"], row["effectReason"], row["severity"]) == ("Availability", message, "High")


@pytest.mark.parametrize(
    ("kind", "reason", "effect"),
    [
        (DriftClass.REFUSED, Reason.NOT_ADOPTED, "None"),
        (DriftClass.REFUSED, Reason.NOT_OWNED, "Unknown"),
        (DriftClass.PARTITIONS, Reason.NOT_ADOPTED, "Order"),
    ],
)
def test_a_topic_that_waits_for_adoption_hides_no_difference(kind: DriftClass, reason: Reason, effect: str) -> None:
    """The differences of such a topic are findings by themselves; those of another owner's topic are unknown."""
    assert make_row("eu", "a", DriftFinding(kind, "", reasons=(reason,), message="says why"), "")["effect"] == effect


def test_the_setting_of_the_brokers_decides_what_an_undeclared_value_does() -> None:
    """Of a value that no manifest has, what the brokers would do without it counts."""
    finding = DriftFinding(DriftClass.UNMANAGED, "config.retention.ms", None, str(8 * DAY_MS))
    assert make_row("eu", "a", finding, "2025-01-31T12:00:00Z")["effect"] == "Cost"
    longer = {"log.retention.ms": str(30 * DAY_MS)}
    assert make_row("eu", "a", finding, "2025-01-31T12:00:00Z", None, TopicFacts(longer))["effect"] == "DataLoss"


@pytest.mark.parametrize(
    ("field", "expected", "before", "now", "worse"),
    [
        ("config.retention.ms", str(7 * DAY_MS), "60000", str(8 * DAY_MS), False),
        ("config.retention.ms", str(7 * DAY_MS), str(8 * DAY_MS), "60000", True),
        ("config.retention.ms", str(7 * DAY_MS), str(3 * DAY_MS), "60000", True),
        ("config.retention.ms", str(7 * DAY_MS), "60000", str(3 * DAY_MS), False),
        ("config.retention.ms", str(7 * DAY_MS), str(8 * DAY_MS), str(9 * DAY_MS), True),
        ("config.retention.ms", str(7 * DAY_MS), str(9 * DAY_MS), str(8 * DAY_MS), False),
        ("config.retention.ms", str(7 * DAY_MS), "60000", "60000", False),
        ("config.min.insync.replicas", "2", "3", "4", True),
        ("config.min.insync.replicas", "2", "4", "3", False),
        ("replicationFactor", "3", "2, 3", "1, 3", True),
        ("replicationFactor", "3", "1", "2", False),
        ("partitions", "6", "7", "8", False),
    ],
)
def test_a_finding_is_worse_by_severity_or_by_its_value_in_the_same_direction(
    field: str, expected: str, before: str, now: str, worse: bool
) -> None:
    """A value that does more of the same harm is worse; one that does less, or other and lesser harm, is not."""
    kinds = {"replicationFactor": DriftClass.REPLICATION_FACTOR, "partitions": DriftClass.PARTITIONS}
    kind = kinds.get(field, DriftClass.CONFIG)
    rows = [
        make_row("eu", "a", DriftFinding(kind, field, expected, each), "2025-01-31T12:00:00Z") for each in (before, now)
    ]
    assert is_worse(rows[1], rows[0], NO_FACTS) is worse


@pytest.mark.parametrize(
    ("key", "before", "now", "facts", "worse"),
    [
        # Without an override the brokers keep 30 days.
        ("retention.ms", None, str(14 * DAY_MS), TopicFacts({"log.retention.hours": "720"}), False),
        ("retention.ms", str(14 * DAY_MS), None, TopicFacts({"log.retention.hours": "720"}), True),
        ("retention.bytes", "2000", "-1", TopicFacts(config={}), True),
        ("retention.bytes", "2000", "3000", TopicFacts(config={"cleanup.policy": "compact"}), False),
    ],
)
def test_the_values_of_its_topic_and_brokers_decide_whether_a_finding_is_worse(
    key: str, before: str | None, now: str | None, facts: TopicFacts, worse: bool
) -> None:
    """An absent override means the value of the brokers, also where two reports are compared."""
    wanted = "1000" if key == "retention.bytes" else str(7 * DAY_MS)
    findings = [DriftFinding(DriftClass.CONFIG, f"config.{key}", wanted, each) for each in (before, now)]
    earlier, row = [make_row("eu", "a", each, "2025-01-31T12:00:00Z", None, facts) for each in findings]
    assert is_worse(row, earlier, facts) is worse


@pytest.mark.parametrize(
    ("kind", "before", "now", "worse"),
    [
        (DriftClass.RACKS, "1 partition; for example partition 0 on [1, 4, 2]", "2 partitions; for example", True),
        (DriftClass.RACKS, "999 partitions", "1,000 partitions", True),
        (DriftClass.RACKS, "2 partitions; for example partition 0", "2 partitions; for example partition 1", False),
        (DriftClass.RACKS, "2 partitions", "1 partition", False),
        (DriftClass.RACKS, None, "2 partitions", False),
        (DriftClass.RACKS, "some text of another version", "2 partitions", False),
        (DriftClass.DRAINED, "1 replica on broker 6", "12 replicas on broker 6", True),
        (DriftClass.STUCK, "9 partitions", "10 partitions", True),
        (DriftClass.STUCK, "9 partitions", None, False),
        (DriftClass.STUCK, ", 9 partitions", "10 partitions", False),
        (DriftClass.WIDTHS, ",", "1, 3", False),
        (DriftClass.WIDTHS, "2, 3", "1, 3", True),
        (DriftClass.WIDTHS, "1, 3", "2, 3", False),
        (DriftClass.WIDTHS, "2, 3", "2, 4", False),
        (DriftClass.MOVING, "1 partition", "2 partitions", False),
        (DriftClass.SPREAD, "0 (broker 4) to 1 (broker 1) replicas", "9 (broker 4) to 99 (broker 1) replicas", False),
    ],
)
def test_more_partitions_with_less_safety_are_worse(
    kind: DriftClass, before: str | None, now: str | None, worse: bool
) -> None:
    """More partitions without their racks, on brokers to be drained or stuck are worse, and so are fewer replicas."""
    rows = [make_row("eu", "a", DriftFinding(kind, "", None, each), "2025-01-31T12:00:00Z") for each in (before, now)]
    assert is_worse(rows[1], rows[0], NO_FACTS) is worse


def test_the_most_severe_comes_first() -> None:
    """The order of severities is that of summaries."""
    assert [each.value for each in Severity] == ["Critical", "High", "Medium", "Low"]


SEVERITY_BY_LETTER = {"L": "Critical", "A": "High", "C": "Medium", "O": "Medium", "N": "Low"}
"""The severity of each letter of the matrix of configs: loss, availability, cost, order, nothing."""


@pytest.mark.parametrize("kind", [DriftClass.CONFIG, DriftClass.UNMANAGED])
@pytest.mark.parametrize("key", sorted(CONFIG_MATRIX))
def test_every_config_has_its_severity_in_both_directions(key: str, kind: DriftClass) -> None:
    """The matrix by hand has each config in both directions; the severity of a difference is that of its letter."""
    directions = set()
    for (expected, actual, _), letter in zip(CONFIG_MATRIX[key], CONFIG_EFFECTS[key], strict=True):
        row = make_row("eu", "orders", DriftFinding(kind, f"config.{key}", expected, actual), "2025-01-31T12:00:00Z")
        assert row["severity"] == SEVERITY_BY_LETTER[letter], (expected, actual)
        numbers = [float(text) for text in (expected, actual) if text.replace(".", "", 1).lstrip("-").isdigit()]
        directions.add(expected < actual if len(numbers) < 2 else numbers[0] < numbers[1])
    assert directions == {True, False}


@pytest.mark.parametrize(
    ("key", "actual", "severity"),
    [
        # "when all replicas are out of sync, an out-of-sync replica may become leader": acknowledged messages are lost
        ("unclean.leader.election.enable", "true", "Critical"),
        ("unclean.leader.election.enable", "false", "Low"),
        # "the maximum time we will retain a log before we will discard old log segments", by default 7 days
        ("retention.ms", "60000", "Critical"),
        ("retention.ms", "604800000", "Low"),
        ("retention.ms", str(8 * DAY_MS), "Medium"),
        # "if set to -1, no time limit is applied": disks fill
        ("retention.ms", "-1", "High"),
        # "the maximum size a partition can grow to before we will discard old log segments", by default no limit
        ("retention.bytes", "1000000", "Critical"),
        # "compact ... retains the latest value for each key", by default delete
        ("cleanup.policy", "compact", "Critical"),
        ("cleanup.policy", "compact,delete", "Critical"),
        # "the minimum number of replicas that must acknowledge a write": with more, producers are refused; by default 1
        ("min.insync.replicas", "2", "High"),
        ("min.insync.replicas", "1", "Low"),
        # "the largest record batch size allowed by Kafka", by default 1048588 bytes
        ("max.message.bytes", "1000", "High"),
        # "LogAppendTime": messages have other times than their producers gave them
        ("message.timestamp.type", "LogAppendTime", "Medium"),
        ("compression.type", "zstd", "Medium"),
        ("remote.storage.enable", "true", "Medium"),
    ],
)
def test_an_undeclared_value_is_judged_by_the_default_of_kafka(key: str, actual: str, severity: str) -> None:
    """Of a value that nothing declares, Kafka's documented default is the other side, written here by hand."""
    for kind in (DriftClass.UNMANAGED, DriftClass.CONFIG):
        row = make_row("eu", "orders", DriftFinding(kind, f"config.{key}", None, actual), "2025-01-31T12:00:00Z")
        assert row["severity"] == severity
