"""Config lines, values and replica lists as text: signs, units, notes and columns."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from topiarist.model.moves import LeaderChange, ReplicaMove
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    Change,
    ConfigItem,
    CreateTopic,
    ElectLeaders,
    MoveReplicas,
)
from topiarist.output.text.layout import TextLayout, format_value
from topiarist.output.text.topic_block import format_config_lines, format_partitions
from topiarist.output.view import view_changes


def lines_of(*rows: tuple[str, str | None, str | None, str], width: int = 80, color: bool = False) -> list[str]:
    """Return the lines of keys with their values before and after and a note."""
    found = [(ConfigItem(key, before, after, SAFE_ASSESSMENT), note) for key, before, after, note in rows]
    return format_config_lines(TextLayout(width=width, use_color=color), found)


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (None, "3600000", "+ k.ms  3600000  (1 hour)  why"),
        (None, "", '+ k.ms  ""  why'),
        ("3600000", None, "- k.ms  3600000  (1 hour) -> brokers' default  why"),
        ("1", None, "- k.ms  1 -> brokers' default  why"),
        ("3600000", "86400000", "~ k.ms  3600000 -> 86400000  (1 hour -> 1 day)  why"),
        ("3600000", "1", "~ k.ms  3600000 -> 1  (1 hour -> 1 ms)  why"),
        ("x", "3600000", "~ k.ms  x -> 3600000  (x -> 1 hour)  why"),
        ("1", "2", "~ k.ms  1 -> 2  why"),
        ("", "2", '~ k.ms  "" -> 2  why'),
    ],
)
def test_a_key_has_its_sign_its_values_and_its_units(before: str | None, after: str | None, line: str) -> None:
    """A line has the values before and after, both in one unit if one of them has a unit, and the note."""
    assert lines_of(("k.ms", before, after, "why")) == [line]
    assert lines_of(("k.ms", before, after, "")) == [line.removesuffix("  why")]


def test_a_size_beside_a_converted_one_is_in_bytes() -> None:
    """A number of bytes that needs no conversion is called bytes beside one that is converted."""
    line = "~ segment.bytes  500 -> 1048576  (500 bytes -> 1 MiB)"
    assert lines_of(("segment.bytes", "500", "1048576", "")) == [line]


def test_signs_have_colors_and_keys_a_column() -> None:
    """Green is a new key, red one that goes, yellow one that changes; all values begin in one column."""
    rows = (("a", None, "1", ""), ("bb", "1", None, ""), ("ccc", "1", "2", ""))
    assert lines_of(*rows, color=True) == [
        "\x1b[32m+\x1b[0m a    1",
        "\x1b[1;31m-\x1b[0m bb   1 -> brokers' default",
        "\x1b[33m~\x1b[0m ccc  1 -> 2",
    ]
    assert lines_of() == []


def test_a_long_key_does_not_move_the_others() -> None:
    """A key of more than 37 characters is not counted for the column of the values."""
    assert lines_of(("k" * 37, None, "1", ""), ("a", None, "1", ""))[1] == f"+ a{' ' * 38}1"
    assert lines_of(("k" * 38, None, "1", ""), ("a", None, "1", ""))[1] == f"+ a{' ' * 38}1"


def test_a_value_without_room_is_below_its_key() -> None:
    """A value that does not fit beside its key stands below it, indented, and goes on after a space."""
    assert lines_of(("key", None, "v" * 54, "")) == [f"+ key  {'v' * 54}"]
    assert lines_of(("key", None, "v" * 55, "why")) == ["+ key", f"    {'v' * 55}", "     why"]
    assert lines_of(("key", "v" * 30, "w" * 30, "")) == [f"~ key  {'v' * 30}", f"       -> {'w' * 30}"]


@pytest.mark.parametrize(
    ("length", "verbose", "shown"),
    [
        (160, False, "v" * 160),
        (161, False, f"{'v' * 160}... 1 more characters"),
        (1360, False, f"{'v' * 160}... 1,200 more characters"),
        (1360, True, "v" * 1360),
    ],
)
def test_a_long_value_is_cut(length: int, verbose: bool, shown: str) -> None:
    """The first 160 characters are shown and the others counted, unless the layout is verbose."""
    assert format_value(TextLayout(verbose=verbose), "v" * length) == shown


def partitions_of(change: Change, *, verbose: bool = False) -> list[str]:
    """Return the lines of the partitions of a change."""
    (view,) = view_changes([change])
    assert view.table
    return format_partitions(TextLayout(verbose=verbose), view.table)


def elections(*partitions: int) -> ElectLeaders:
    """Return elections of broker 2 as the leader of partitions."""
    return ElectLeaders(tuple(LeaderChange(partition, 1, 2) for partition in partitions), SAFE_ASSESSMENT)


def moves(*partitions: int) -> MoveReplicas:
    """Return moves of partitions from one broker to two others."""
    return MoveReplicas(tuple(ReplicaMove("a", each, (1,), (2, 3)) for each in partitions), SAFE_ASSESSMENT)


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (moves(9, 10), [" 9 [1] -> [2,3]  10 [1] -> [2,3]"]),
        (elections(9, 10), [" 9: 1 -> 2  10: 1 -> 2"]),
        (CreateTopic(((1, 2),) * 2, {}), ["0 [1,2]  1 [1,2]"]),
        (AddPartitions(9, (1,), ((1,),) * 2, SAFE_ASSESSMENT), ["+  9 [1]  + 10 [1]"]),
        (AddPartitions(9, (1,), ((1,),), SAFE_ASSESSMENT), ["+ 9 [1]"]),
        # With broker ids of seven digits, a line has fewer lists.
        (
            AddPartitions(100, (1,), ((1000001, 1000002, 1000003),) * 2, SAFE_ASSESSMENT),
            ["+ 100 [1000001,1000002,1000003]", "+ 101 [1000001,1000002,1000003]"],
        ),
    ],
)
def test_lists_are_aligned_by_their_partition(change: Change, lines: list[str]) -> None:
    """Ids are on the right of a column; a new partition beside others has a sign."""
    assert partitions_of(change) == lines


@pytest.mark.parametrize(
    "change",
    [
        lambda count: moves(*range(1001 - count, 1001)),
        lambda count: elections(*range(1001 - count, 1001)),
        lambda count: AddPartitions(1001 - count, (1,), ((1,),) * count, SAFE_ASSESSMENT),
    ],
)
def test_sixteen_partitions_are_shown_whole(change: Callable[[int], Change]) -> None:
    """Of seventeen, the first fifteen and the number of the others; ids that are not shown take no room."""
    for count, shown, verbose in ((16, 16, False), (17, 15, False), (17, 17, True)):
        text = "  ".join(partitions_of(change(count), verbose=verbose))
        assert len(re.findall(r"\d:? \[?1", text)) == shown
        assert text.endswith("... 2 more") is (shown < count)
        assert text.removeprefix("+ ").startswith(" ") is (shown == count)


def test_units_of_one_value_come_with_those_of_the_other() -> None:
    """A value that needs no conversion has its unit beside one that is converted, and none alone."""
    for before, after, units in (("1000", "250", "  (1 second -> 250 ms)"), ("200", "250", "")):
        item = ConfigItem("retention.ms", before, after, SAFE_ASSESSMENT)
        assert format_config_lines(TextLayout(), [(item, "")]) == [f"~ retention.ms  {before} -> {after}{units}"]
