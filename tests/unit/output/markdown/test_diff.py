"""Changes as lines of a diff, literally."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.plans import DATA_LOSS_RISK, KEY_REMAPPING_RISK, RETENTION_CHANGE
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
    TakeOwnership,
    UpdateConfig,
)
from topiarist.output.markdown.sections import format_config_item, format_diff
from topiarist.output.view import view_changes

SHARED = ConfigItem("min.insync.replicas", "1", "2", SAFE_ASSESSMENT, inherited=True)


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (
            CreateTopic(((1, 2), (2, 3)), {"retention.ms": "3600000"}),
            ["@@ partitions @@", "+ 0 [1,2]  1 [2,3]", "@@ config @@", "+ retention.ms = 3600000  (1 hour)"],
        ),
        (CreateTopic(((1,),), {}), ["@@ partitions @@", "+ 0 [1]"]),
        (
            AddPartitions(1200, (1,), ((1,), (2,)), KEY_REMAPPING_RISK),
            ["@@ partitions 1,200 -> 1,202 @@", "+ 1200 [1]    1201 [2]"],
        ),
        (
            MoveReplicas((ReplicaMove("a", 7, (1, 2), (3, 2), (MoveKind.DRAIN,)),), KEY_REMAPPING_RISK),
            ["@@ replicas: Drain (1) @@", "  7 [1,2] -> [3,2]"],
        ),
        (ElectLeaders((LeaderChange(4, 2, 1),), KEY_REMAPPING_RISK), ["@@ leaders @@", "  4: 2 -> 1"]),
        (
            UpdateConfig((RETENTION_CHANGE,)),
            ["@@ config @@", "- retention.ms = 86400000  (1 day)", "+ retention.ms = 3600000  (1 hour)"],
        ),
        (UpdateConfig((SHARED,)), ["@@ config @@", "  1 key from the cluster's defaults: see above"]),
        (DeleteTopic(1, 3, DATA_LOSS_RISK), ["- 1 partition, 3 replicas, all messages"]),
        (TakeOwnership(), []),
        (Nudge((1,)), []),
    ],
)
def test_a_change_is_lines_that_a_viewer_colours(change: Change, lines: Sequence[str]) -> None:
    """Each kind of change has its heading between two signs, and lines with a sign for what goes and what comes."""
    assert format_diff(view_changes([change]), {("min.insync.replicas", "2"): ()}) == lines
    assert format_diff(view_changes([change, change]), {("min.insync.replicas", "2"): ()}) == [*lines, *lines]


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (None, "2", ["+ k.ms = 2  (why)"]),
        ("1", "2", ["- k.ms = 1", "+ k.ms = 2  (why)"]),
        ("60000", "120000", ["- k.ms = 60000  (1 minute)", "+ k.ms = 120000  (2 minutes, why)"]),
        ("1", None, ["- k.ms = 1  (why)", "+ k.ms: brokers' default"]),
    ],
)
def test_a_note_stands_once_beside_the_new_value(before: str | None, after: str | None, lines: Sequence[str]) -> None:
    """The note is beside the value after, or beside the value that is removed; units are before it."""
    assert [*format_config_item(ConfigItem("k.ms", before, after, SAFE_ASSESSMENT), "why")] == lines
    without = [line.replace(", why", "").replace("  (why)", "") for line in lines]
    assert [*format_config_item(ConfigItem("k.ms", before, after, SAFE_ASSESSMENT), "")] == without


def test_defaults_that_are_not_shared_stay_with_their_topic() -> None:
    """A default that no group shows has its source as a note; a key of the topic itself has none."""
    own = SHARED._replace(key="flush.ms", before=None, inherited=False)
    assert format_diff(view_changes([UpdateConfig((own, SHARED))])) == [
        "@@ config @@",
        "+ flush.ms = 2",
        "- min.insync.replicas = 1",
        "+ min.insync.replicas = 2  (from the cluster's defaults)",
    ]


def test_a_key_and_a_value_are_printable() -> None:
    """Control characters of keys and values are shown as text."""
    item = ConfigItem("a\x1b", "\x1b", "", SAFE_ASSESSMENT)
    assert [*format_config_item(item, "")] == ["- a\\x1b = \\x1b", '+ a\\x1b = ""']
    assert [*format_config_item(item._replace(before=None, after=None), "")] == ["+ a\\x1b: brokers' default"]
