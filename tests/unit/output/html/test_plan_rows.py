"""The rows of a plan's page, literally: one for each kind of change, with its values, its lists and its place."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from support.plans import DATA_LOSS_RISK, KEY_REMAPPING_RISK, OWN_RECORD, RETENTION_CHANGE, existing_topic_plan
from support.plans import plan as make_plan
from support.states import PositionedSource, spec, topic
from topiarist.errors import FieldPath, Reason
from topiarist.model.moves import LeaderChange, MoveKind, ReplicaMove
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Issue,
    MoveReplicas,
    Nudge,
    ReleaseOwnership,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.spec import ClusterSpec, TopicSpec, ValueOrigin
from topiarist.model.state import OwnershipRecord
from topiarist.output.html.plan import PlanRow, list_rows

POSITIONS: dict[FieldPath, tuple[int, int]] = {
    ("spec", "partitions"): (9, 15),
    ("spec", "ensure"): (10, 11),
    ("spec", "config", "retention.ms"): (12, 7),
}
FLUSH = ConfigItem("flush.ms", None, "", SAFE_ASSESSMENT, inherited=True)
MOVE = ReplicaMove("a", 7, (1, 2, 3), (2, 1, 4), (MoveKind.DRAIN, MoveKind.SPREAD))


def wanted() -> TopicSpec:
    """Return the spec of a topic with a place in its file for each field."""
    return spec("a", positions=POSITIONS, ensure="Present", config={"retention.ms": 3600000})


def row_of(*changes: Change) -> PlanRow:
    """Return the only row of a topic with three partitions."""
    (row,) = list_rows(make_plan(replace(existing_topic_plan("a", *changes), spec=wanted())), "/repo")
    return row


@pytest.mark.parametrize(
    ("change", "kind", "summary", "before", "after", "line"),
    [
        (
            CreateTopic(((1, 2), (2, 3)), {"retention.ms": "3600000", "x": ""}),
            "create",
            "create 2 partitions x 2 replicas",
            ["no topic"],
            ["2 partitions x 2 replicas", "retention.ms = 3600000 (1 hour)", 'x = ""'],
            "1:1",
        ),
        (
            AddPartitions(3, (1, 2), ((2, 3),), KEY_REMAPPING_RISK),
            "grow",
            "grow 3 -> 4 partitions",
            ["3 partitions"],
            ["4 partitions"],
            "9:15",
        ),
        (
            MoveReplicas((MOVE,), KEY_REMAPPING_RISK),
            "move",
            "move 1 of 3 partitions, 1 copy",
            ["7: [1, 2, 3]"],
            ["7: [2, 1, 4]"],
            "1:1",
        ),
        (
            ElectLeaders((LeaderChange(4, 2, 1),), KEY_REMAPPING_RISK),
            "elect",
            "elect the preferred leaders of 1 partition",
            ["4: leader 2"],
            ["4: leader 1"],
            "1:1",
        ),
        (
            UpdateConfig((RETENTION_CHANGE,)),
            "configure",
            "configure",
            ["retention.ms = 86400000 (1 day)"],
            ["retention.ms = 3600000 (1 hour)"],
            "12:7",
        ),
        (
            UpdateConfig((FLUSH, RETENTION_CHANGE)),
            "configure",
            "configure",
            ["flush.ms = brokers' default", "retention.ms = 86400000 (1 day)"],
            ['flush.ms = ""', "retention.ms = 3600000 (1 hour)"],
            "1:1",
        ),
        (
            DeleteTopic(1, 3, DATA_LOSS_RISK),
            "delete",
            "delete 1 partition and all messages",
            ["1 partition, 3 replicas"],
            ["no topic, no messages"],
            "10:11",
        ),
        (TakeOwnership(), "record", "update the ownership record", [], [], "1:1"),
        (ReleaseOwnership(), "record", "unmanage: only the ownership record is removed", [], [], "1:1"),
        (
            Nudge((3,)),
            "nudge",
            "nudge: 1 partition without a state",
            ["1 partition without a state"],
            ["initialized by the controller"],
            "1:1",
        ),
    ],
)
def test_a_change_has_its_values_and_its_place(
    change: Change, kind: str, summary: str, before: Sequence[str], after: Sequence[str], line: str
) -> None:
    """A row has kind, level, summary, lines before and after, and the place of the one field that asks for it."""
    row = row_of(change)
    assert (row.level, row.kind, row.cluster, row.topic) == (change.assessment.risk.label, kind, "prod-eu", "a")
    assert (row.summary, row.before, row.after) == (summary, before, after)
    assert (row.place, row.code, row.fix, row.cause, row.record, row.more) == (f"topics/a.yaml:{line}", *[""] * 5)


@pytest.mark.parametrize(
    ("change", "lists", "config"),
    [
        (
            CreateTopic(((1, 2), (2, 3)), {"retention.ms": "3600000"}),
            [["0", "", "[1, 2]", ""], ["1", "", "[2, 3]", ""]],
            [["retention.ms", "", "3600000 (1 hour)", "", "", ""]],
        ),
        (AddPartitions(3, (1, 2), ((2, 3),), KEY_REMAPPING_RISK), [["3", "", "[2, 3]", ""]], []),
        (MoveReplicas((MOVE,), KEY_REMAPPING_RISK), [["7", "[1, 2, 3]", "[2, 1, 4]", "Drain, Spread"]], []),
        (ElectLeaders((LeaderChange(4, 2, 1),), KEY_REMAPPING_RISK), [["4", "leader 2", "leader 1", ""]], []),
        (
            UpdateConfig((FLUSH, RETENTION_CHANGE)),
            [],
            [
                ["flush.ms", "brokers' default", '""', "Safe", "", "from the cluster's defaults"],
                ["retention.ms", "86400000 (1 day)", "3600000 (1 hour)", "DataLoss", DATA_LOSS_RISK.explanation, ""],
            ],
        ),
        (DeleteTopic(1, 3, DATA_LOSS_RISK), [], []),
    ],
)
def test_the_dialog_has_each_list_and_each_key(
    change: Change, lists: Sequence[Sequence[str]], config: Sequence[Sequence[str]]
) -> None:
    """The details of a row are its replica lists by partition and its config keys, as in the cells but whole."""
    row = row_of(change)
    assert ([*row.lists], [*row.config]) == (lists, config)


def test_the_reason_of_a_row_has_risks_moves_defaults_and_usage() -> None:
    """The texts of a reason stand in this order: risks, why replicas move, new leaders, usage of the topic."""
    source = PositionedSource("clusters.yaml")
    drained = spec("a", ClusterSpec("prod-eu", source=source, drain_brokers=frozenset({3})))
    changed = existing_topic_plan("a", MoveReplicas((MOVE._replace(kinds=(MoveKind.DRAIN,)),), KEY_REMAPPING_RISK))
    (row,) = list_rows(make_plan(replace(changed, spec=drained, usage=("read by 2 groups",))), "/repo")
    assert row.reason.split("; ") == [
        "keys map to other partitions",
        "broker 3 is drained (Cluster.spec.drainBrokers)",
        "1 partition gets another preferred leader",
        "read by 2 groups",
    ]
    assert row_of(UpdateConfig((FLUSH,))).reason == "from the cluster's defaults"
    assert row_of(UpdateConfig((FLUSH, RETENTION_CHANGE))).reason == f"retention.ms: {DATA_LOSS_RISK.explanation}"


def test_a_refusal_has_its_code_fix_place_and_cause() -> None:
    """A refusal names the field of the topic, and the rule or the field of the Cluster that causes it."""
    rule = ValueOrigin(PositionedSource("/repo/rules.yaml", {("spec",): (3, 3)}), ("spec",))
    for reason, label in ((Reason.POLICY_DENIED, "rule"), (Reason.NOT_ADOPTED, "cluster")):
        issue = Issue(reason, "no", ("partitions",), "ask", cause_origin=rule)
        found = replace(existing_topic_plan("a", findings=(issue,)), notices=(issue,), spec=wanted())
        refused, noticed = list_rows(make_plan(found), "/repo")
        for row in (refused, noticed):
            assert (row.code, row.fix, row.place) == (reason.value, "ask", "topics/a.yaml:9:15")
            assert (row.cause, row.reason) == (f"{label} at rules.yaml:3:3", "no")
        assert (refused.level, refused.kind, refused.summary) == ("Refused", "refused", "refused")
        assert (noticed.level, noticed.kind, [*noticed.before]) == ("Notice", "note", [])


def test_an_observed_topic_has_notices_only() -> None:
    """What differs in an observed topic is no change and no refusal: its rows have the lowest level."""
    held = Issue(Reason.NOT_ADOPTED, "no", withheld=(UpdateConfig((RETENTION_CHANGE,)),))
    found = existing_topic_plan("a", UpdateConfig((RETENTION_CHANGE,)), findings=(held,))
    changed, refused = list_rows(make_plan(replace(found, observe_only=True)), "/repo")
    assert (changed.level, changed.kind, refused.level, refused.kind) == ("Notice", "observed", "Notice", "refused")
    assert (refused.summary, refused.after) == ("held back: configure", ["retention.ms = 3600000 (1 hour)"])


def test_a_topic_without_a_manifest_has_no_place() -> None:
    """A topic that no document declares has rows without a place; each row has an adoption beside its change."""
    found = TopicPlan("a", topic("a", owner="x"), OwnershipRecord("x"), OWN_RECORD, (TakeOwnership(), Nudge((1,))))
    taken, nudged = list_rows(make_plan(found), "/repo")
    assert (taken.place, nudged.place) == ("", "")
    assert taken.summary == "record only"
    assert (taken.record, nudged.record) == ("take ownership from x: the ownership record is written too",) * 2


def test_three_hundred_lists_are_in_the_dialog() -> None:
    """Of more replica lists the first three hundred are in the data, and the others are counted."""
    for partitions, more in ((300, ""), (301, "and 1 other partition"), (302, "and 2 other partitions")):
        row = row_of(CreateTopic(((1,),) * partitions, {}))
        assert (len(row.lists), row.more, row.lists[-1][0]) == (300, more, "299")


def test_rows_are_sorted_by_level_topic_and_cluster() -> None:
    """Losses are first, then refusals, and notices last; among equals the topic decides, then the cluster."""
    base = row_of(TakeOwnership())
    ordered = [
        base._replace(level=level, topic=name, cluster=cluster)
        for level in ("DataLoss", "Refused", "Disruptive", "Safe", "Notice")
        for name in "ab"
        for cluster in "xy"
    ]
    assert sorted(ordered[1::2] + ordered[::2], key=PlanRow.sort_key) == ordered
