"""One matrix of changes and outputs, literally: what each kind of change shows in text, diff, page and status.

A new kind of change has a row here, and a new output of changes a column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from support.builders import spec
from support.plans import DATA_LOSS_RISK, KEY_REMAPPING_RISK, RETENTION_CHANGE, existing_topic_plan
from support.plans import plan as make_plan
from topiarist.errors import FieldPath
from topiarist.model.moves import LeaderChange, MoveKind, ReplicaMove
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    MoveReplicas,
    Nudge,
    ReleaseOwnership,
    TakeOwnership,
    UpdateConfig,
)
from topiarist.output.groups import GroupedItems, count_plan, list_field_changes
from topiarist.output.html.plan import list_rows
from topiarist.output.markdown.sections import format_diff
from topiarist.output.text.layout import TextLayout
from topiarist.output.text.plan import format_topic
from topiarist.output.view import CHANGE_KINDS, view_topic

LOSS = DATA_LOSS_RISK.explanation
POSITIONS: dict[FieldPath, tuple[int, int]] = {
    ("spec", "partitions"): (9, 15),
    ("spec", "ensure"): (10, 11),
    ("spec", "config", "retention.ms"): (12, 7),
    ("spec", "replicationFactor"): (13, 4),
}
DEFAULT = ConfigItem("flush.ms", None, "", SAFE_ASSESSMENT, inherited=True)


def move(partition: int, before: tuple[int, ...], after: tuple[int, ...], *kinds: MoveKind) -> MoveReplicas:
    """Return the move of one partition."""
    return MoveReplicas((ReplicaMove("a", partition, before, after, kinds),), KEY_REMAPPING_RISK)


class Shown(NamedTuple):
    """A change and what outputs show of it, for a topic with three partitions and a place for each of its fields.

    ``action`` has the sign before it, ``text`` are the fields below the heading. ``before``, ``after``, ``line``,
    ``lists``, ``config`` and ``kind`` are those of the page. ``fields`` are those of a status.
    ``subjects`` are those of its risks.
    """

    change: Change
    kind: str
    action: str
    subjects: Sequence[str]
    line: str
    text: Sequence[str] = ()
    diff: Sequence[str] = ()
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    lists: Sequence[Sequence[str]] = ()
    config: Sequence[Sequence[str]] = ()
    fields: Mapping[str, tuple[str, str]] = {}


SHOWN = {
    "creation": Shown(
        CreateTopic(((1, 2), (2, 3)), {"retention.ms": "3600000", "x": ""}),
        kind="create",
        action="+ create 2 partitions x 2 replicas",
        subjects=["creation"],
        line="1:1",
        text=[
            "partitions   0 [1,2]  1 [2,3]",
            "config       + retention.ms  3600000  (1 hour)",
            '             + x             ""',
        ],
        diff=[
            *("@@ partitions @@", "+ 0 [1,2]  1 [2,3]"),
            *("@@ config @@", "+ retention.ms = 3600000  (1 hour)", '+ x = ""'),
        ],
        before=["no topic"],
        after=["2 partitions x 2 replicas", "retention.ms = 3600000 (1 hour)", 'x = ""'],
        lists=[["0", "", "[1, 2]", ""], ["1", "", "[2, 3]", ""]],
        config=[["retention.ms", "", "3600000 (1 hour)", "", "", ""], ["x", "", '""', "", "", ""]],
        fields={"partitions": ("0", "2")},
    ),
    "creation with unequal lists": Shown(
        CreateTopic(((1, 2), (1,), (1, 2, 3)), {}),
        kind="create",
        action="+ create 3 partitions x 1 to 3 replicas",
        subjects=["creation"],
        line="1:1",
        text=["partitions   0 [1,2]    1 [1]      2 [1,2,3]"],
        diff=["@@ partitions @@", "+ 0 [1,2]    1 [1]      2 [1,2,3]"],
        before=["no topic"],
        after=["3 partitions x 1 to 3 replicas"],
        lists=[["0", "", "[1, 2]", ""], ["1", "", "[1]", ""], ["2", "", "[1, 2, 3]", ""]],
        fields={"partitions": ("0", "3")},
    ),
    "growth": Shown(
        AddPartitions(1200, (1,), ((1,), (2,)), KEY_REMAPPING_RISK),
        kind="grow",
        action="~ grow 1,200 -> 1,202 partitions",
        subjects=["growth"],
        line="9:15",
        text=["risk         keys map to other partitions", "partitions   + 1200 [1]  + 1201 [2]"],
        diff=["@@ partitions 1,200 -> 1,202 @@", "+ 1200 [1]    1201 [2]"],
        before=["1,200 partitions"],
        after=["1,202 partitions"],
        lists=[["1200", "", "[1]", ""], ["1201", "", "[2]", ""]],
        fields={"partitions": ("1200", "1202")},
    ),
    "move": Shown(
        move(7, (1, 2, 3), (2, 1, 4), MoveKind.RACKS, MoveKind.LEADERS),
        kind="move",
        action="~ move 1 of 3 partitions, 1 copy",
        subjects=["move"],
        line="1:1",
        text=[
            "because      replicas are in fewer racks than they could be: 1 partition;",
            "             Leaders: 1 partition",
            "replicas     7 [1,2,3] -> [2,1,4]",
            "leaders      1 partition gets another preferred leader",
        ],
        diff=["@@ replicas: Racks (1), Leaders (1) @@", "  7 [1,2,3] -> [2,1,4]"],
        before=["7: [1, 2, 3]"],
        after=["7: [2, 1, 4]"],
        lists=[["7", "[1, 2, 3]", "[2, 1, 4]", "Racks, Leaders"]],
        fields={"replicas.7": ("1,2,3", "2,1,4")},
    ),
    "change of the factor": Shown(
        move(0, (1, 2), (1,), MoveKind.FACTOR),
        kind="move",
        action="~ factor 2 -> 1, 1 of 3 partitions",
        subjects=["move"],
        line="13:4",
        text=[
            "risk         1 partition with one replica: if its broker is lost, so are",
            "             the messages",
            "replicas     0 [1,2] -> [1]",
        ],
        diff=["@@ replicas: Factor (1) @@", "  0 [1,2] -> [1]"],
        before=["0: [1, 2]"],
        after=["0: [1]"],
        lists=[["0", "[1, 2]", "[1]", "Factor"]],
        fields={"replicas.0": ("1,2", "1")},
    ),
    "other order": Shown(
        move(0, (1, 2), (2, 1), MoveKind.ASSIGNMENT),
        kind="move",
        action="~ reorder the replicas of 1 of 3 partitions",
        subjects=["move"],
        line="1:1",
        text=[
            "because      replicaAssignment lists this order",
            "replicas     0 [1,2] -> [2,1]",
            "leaders      1 partition gets another preferred leader",
        ],
        diff=["@@ replicas: Assignment (1) @@", "  0 [1,2] -> [2,1]"],
        before=["0: [1, 2]"],
        after=["0: [2, 1]"],
        lists=[["0", "[1, 2]", "[2, 1]", "Assignment"]],
        fields={"replicas.0": ("1,2", "2,1")},
    ),
    "election": Shown(
        ElectLeaders((LeaderChange(4, 2, 1), LeaderChange(5, 3, 1)), KEY_REMAPPING_RISK),
        kind="elect",
        action="~ elect the preferred leaders of 2 partitions",
        subjects=["election"],
        line="1:1",
        text=["risk         keys map to other partitions", "leaders      4: 2 -> 1  5: 3 -> 1"],
        diff=["@@ leaders @@", "  4: 2 -> 1  5: 3 -> 1"],
        before=["4: leader 2", "5: leader 3"],
        after=["4: leader 1", "5: leader 1"],
        lists=[["4", "leader 2", "leader 1", ""], ["5", "leader 3", "leader 1", ""]],
        fields={"leader.4": ("2", "1"), "leader.5": ("3", "1")},
    ),
    "one key": Shown(
        UpdateConfig((RETENTION_CHANGE,)),
        kind="configure",
        action="~ configure",
        subjects=["retention.ms"],
        line="12:7",
        text=[f"risk         {LOSS}", "config       ~ retention.ms  86400000 -> 3600000  (1 day -> 1 hour)"],
        diff=["@@ config @@", "- retention.ms = 86400000  (1 day)", "+ retention.ms = 3600000  (1 hour)"],
        before=["retention.ms = 86400000 (1 day)"],
        after=["retention.ms = 3600000 (1 hour)"],
        config=[["retention.ms", "86400000 (1 day)", "3600000 (1 hour)", "DataLoss", LOSS, ""]],
        fields={"config.retention.ms": ("86400000", "3600000")},
    ),
    "a default and a key": Shown(
        UpdateConfig((DEFAULT, RETENTION_CHANGE)),
        kind="configure",
        action="~ configure",
        subjects=["flush.ms", "retention.ms"],
        line="1:1",
        text=[
            f"risk         retention.ms: {LOSS}",
            'config       + flush.ms      ""  from the cluster\'s defaults',
            "             ~ retention.ms  86400000 -> 3600000  (1 day -> 1 hour)",
        ],
        diff=[
            *("@@ config @@", '+ flush.ms = ""  (from the cluster\'s defaults)'),
            *("- retention.ms = 86400000  (1 day)", "+ retention.ms = 3600000  (1 hour)"),
        ],
        before=["flush.ms = brokers' default", "retention.ms = 86400000 (1 day)"],
        after=['flush.ms = ""', "retention.ms = 3600000 (1 hour)"],
        config=[
            ["flush.ms", "brokers' default", '""', "Safe", "", "from the cluster's defaults"],
            ["retention.ms", "86400000 (1 day)", "3600000 (1 hour)", "DataLoss", LOSS, ""],
        ],
        fields={"config.flush.ms": ("not set", '""'), "config.retention.ms": ("86400000", "3600000")},
    ),
    "a removed key": Shown(
        UpdateConfig((ConfigItem("flush.ms", "9", None, SAFE_ASSESSMENT),)),
        kind="configure",
        action="~ configure",
        subjects=["flush.ms"],
        line="1:1",
        text=["config       - flush.ms  9 -> brokers' default"],
        diff=["@@ config @@", "- flush.ms = 9", "+ flush.ms: brokers' default"],
        before=["flush.ms = 9"],
        after=["flush.ms = brokers' default"],
        config=[["flush.ms", "9", "brokers' default", "Safe", "", ""]],
        fields={"config.flush.ms": ("9", "not set")},
    ),
    "deletion": Shown(
        DeleteTopic(1, 3, DATA_LOSS_RISK),
        kind="delete",
        action="- delete 1 partition and all messages",
        subjects=["deletion"],
        line="10:11",
        text=[f"risk         {LOSS}"],
        diff=["- 1 partition, 3 replicas, all messages"],
        before=["1 partition, 3 replicas"],
        after=["no topic, no messages"],
        fields={"partitions": ("1", "0")},
    ),
    "record": Shown(TakeOwnership(), "record", "= update the ownership record", ["record"], "1:1"),
    "release": Shown(
        ReleaseOwnership(), "record", "= unmanage: only the ownership record is removed", ["record"], "1:1"
    ),
    "nudge": Shown(
        Nudge((3, 4)),
        kind="nudge",
        action="~ nudge: 2 partitions without a state",
        subjects=["nudge"],
        line="1:1",
        before=["2 partitions without a state"],
        after=["initialized by the controller"],
    ),
}


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
def test_a_change_in_every_output(shown: Shown) -> None:
    """Sign, action, subjects, fields of the text, lines of the diff, the row of the page, and fields of a status."""
    wanted = spec(
        "a", positions=POSITIONS, ensure="Present", partitions=3, replicationFactor=3, config={"retention.ms": 3600000}
    )
    found = replace(existing_topic_plan("a", shown.change), spec=wanted)
    view = view_topic(found)
    assert f"{view.sign} {view.action}" == shown.action
    assert [subject for change in view.changes for subject, _ in change.risks] == shown.subjects
    watched = view_topic(replace(found, observe_only=True))
    assert f"{watched.sign} {watched.action}" == f". observed, not applied: {view.action}"
    heading, *fields = format_topic(TextLayout(), found, GroupedItems())
    assert heading.endswith(shown.change.assessment.risk.label)
    assert [line[6:] for line in fields] == [*shown.text]
    assert format_diff(view.changes) == [*shown.diff]
    (row,) = list_rows(make_plan(found), "/repo")
    assert (row.level, row.kind, row.summary) == (shown.change.assessment.risk.label, shown.kind, view.action)
    assert (row.before, row.after, row.place) == ([*shown.before], [*shown.after], f"topics/a.yaml:{shown.line}")
    assert ([*row.lists], [*row.config]) == ([*shown.lists], [*shown.config])
    assert (row.cluster, row.topic, row.code, row.fix, row.cause, row.record, row.more) == ("prod-eu", "a", *[""] * 5)
    assert {each.field: (each.before, each.after) for each in list_field_changes([shown.change])} == shown.fields


def test_the_matrix_has_every_kind_of_change() -> None:
    """A kind of change without a row would be shown without a test."""
    assert {type(shown.change) for shown in SHOWN.values()} == set(CHANGE_KINDS)


def test_each_kind_of_change_has_its_count() -> None:
    """The last line of a plan counts topics by the kinds of their changes."""
    counts = [
        next(iter(count_plan(make_plan(existing_topic_plan("a", each.change))).counts)) for each in SHOWN.values()
    ]
    assert list(dict.fromkeys(counts)) == [
        *("to create", "to grow", "to move", "to elect", "to configure", "to delete"),
        *("record only", "to unmanage", "to nudge"),
    ]
