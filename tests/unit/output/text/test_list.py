"""The table of ``topiarist list``: each column, each state with its style, and the line of totals."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.states import cluster, spec
from topiarist.inspection.list import TopicFlag, TopicList, TopicRow
from topiarist.inspection.partition_health import IssueType
from topiarist.model.spec import ClusterSpec
from topiarist.output.text.layout import BOLD_RED, YELLOW, TextLayout
from topiarist.output.text.list import format_lists

EU = ClusterSpec(name="eu")
WELL = TopicRow("well", None, 12, {3: 12}, "default", {}, (TopicFlag.HEALTHY,), {}, True)
ROWS = (
    replace(WELL, spec=spec("well", EU), config={"a": "b", "c": "d"}),
    replace(
        WELL,
        topic="off",
        partitions_by_replicas={2: 1, 3: 11},
        owner="",
        flags=(TopicFlag.UNEQUAL_REPLICAS, TopicFlag.UNOWNED, TopicFlag.UNDECLARED),
        issues={IssueType.OFFLINE: 1, IssueType.UNDER_REPLICATED: 4},
    ),
    TopicRow("gone", spec("gone", EU), flags=(TopicFlag.MISSING,)),
    replace(WELL, topic="quiet", flags=(TopicFlag.DORMANT, TopicFlag.MALFORMED_PARTITIONS)),
    replace(WELL, topic="new", flags=(TopicFlag.UNKNOWN,), states_known=False),
)
TEXT = """\
eu   cluster 7sYk
  warning: a broker is offline
  topic  partitions  replicas  owner    state                                            manifest              config
  well           12         3  default  healthy                                          topics/well.yaml:1:1  a=b, c=d
  off            12       2-3  -        unequal replicas, 1 offline, 4 under-replicated  -                     -
  gone            -         -  -        missing                                          topics/gone.yaml:1:1  -
  quiet          12         3  default  dormant, malformed partitions                    -                     -
  new            12         3  default  unknown                                          -                     -
"""
TOTALS = (
    "4 of 9 topics, 1 missing, 1 with offline partitions, 1 under-replicated, 1 with unequal replicas, "
    "1 with malformed partitions, 1 without owner, 1 undeclared, 1 dormant, 1 with unknown state.\n"
)


def _listed(*rows: TopicRow, count: int = 0, manifests_given: bool = True) -> TopicList:
    state = cluster(cluster_id="7sYk", warnings=("a broker is offline",))
    return TopicList(EU, state, rows, count or len(rows), manifests_given)


def test_a_table_has_a_line_for_each_topic() -> None:
    """Columns are as wide as their widest cell, numbers are on the right, and totals count each state."""
    assert format_lists([_listed(*ROWS, count=9)], TextLayout(), truncate=False) == TEXT + TOTALS


def test_without_manifests_there_is_no_column_for_them() -> None:
    """No column is empty in each line; the clusters are divided by an empty line, and none at all is no text."""
    one = _listed(WELL, manifests_given=False)
    text = format_lists([one, one], TextLayout(), truncate=False)
    assert text == (
        """\
eu   cluster 7sYk
  warning: a broker is offline
  topic  partitions  replicas  owner    state    config
  well           12         3  default  healthy  -
1 topic.

"""
        * 2
    ).removesuffix("\n")
    assert format_lists([], TextLayout(), truncate=False) == ""


def test_a_terminal_cuts_lines() -> None:
    """Only with ``truncate`` is a line as wide as the terminal; the cut is marked."""
    lines = format_lists([_listed(*ROWS)], TextLayout(width=40), truncate=True).splitlines()
    assert max(map(len, lines[2:-1])) == 40
    assert [line[37:] for line in lines[2:-1]] == ["..."] * 6


@pytest.mark.parametrize(
    ("row", "style"),
    [
        (WELL, ""),
        (ROWS[1], BOLD_RED),
        (ROWS[2], BOLD_RED),
        (replace(WELL, flags=(TopicFlag.UNREADABLE,)), BOLD_RED),
        (replace(WELL, flags=(TopicFlag.MARKED_FOR_DELETION,)), BOLD_RED),
        (replace(WELL, flags=(TopicFlag.UNEQUAL_REPLICAS,)), YELLOW),
        (replace(WELL, flags=(TopicFlag.MALFORMED_PARTITIONS,)), YELLOW),
        (replace(WELL, issues={IssueType.REASSIGNING: 1}), YELLOW),
        (replace(WELL, flags=(TopicFlag.DORMANT,)), ""),
    ],
)
def test_what_is_wrong_has_a_color(row: TopicRow, style: str) -> None:
    """Red is for topics that cannot be used, yellow for what needs a look, and no color for the others."""
    line = format_lists([_listed(row)], TextLayout(use_color=True), truncate=False).splitlines()[3]
    assert line.startswith(f"\x1b[{style}m" if style else "  ")
