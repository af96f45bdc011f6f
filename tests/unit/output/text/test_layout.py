"""Layout of all text output: escaping, wrapping, columns, the progress bar, values with units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.output.text.layout import (
    TextLayout,
    choose_action_column,
    format_grid,
    format_progress_bar,
    humanize_config_value,
    join_sections,
    shorten,
    wrap,
)
from topiarist.text import sanitize

ANY = st.text(st.characters(), max_size=200)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("retention.ms", "retention.ms"),
        ("Überweisung 訂單", "Überweisung 訂單"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\nb\rc\td\0", "a\\nb\\rc\\td\\x00"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("\u200bhidden\ufeff\u2028", "\\u200bhidden\\ufeff\\u2028"),
        ("\x85\x9b", "\\x85\\x9b"),
        ("lone \ud800", "lone \\ud800"),
    ],
)
def test_what_does_not_print_is_escaped(text: str, escaped: str) -> None:
    """Letters of any language are kept; control characters, ANSI, direction marks and surrogates are escaped."""
    assert sanitize(text) == escaped


@given(ANY)
def test_plain_text_can_always_be_printed(text: str) -> None:
    """The result of ``plain`` is printable and encodable, and ``plain`` does not change it a second time."""
    escaped = sanitize(text)
    assert escaped.isprintable()
    assert escaped.encode().decode() == escaped
    assert sanitize(escaped) == escaped


@given(ANY, st.integers(1, 100))
def test_wrapping_keeps_every_character_and_the_width(text: str, width: int) -> None:
    """Lines are never wider than the limit, and keep all characters except spaces, in order."""
    lines = wrap(text, width)
    assert all(len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == sanitize(text).replace(" ", "")


def test_wrapping_breaks_at_spaces() -> None:
    """A word that fits into a line stays whole; a longer one is broken."""
    assert wrap("one two three", 8) == ["one two", "three"]
    assert wrap("abcdefghij kl", 4) == ["abcd", "efgh", "ij", "kl"]
    assert wrap("", 10) == [""]
    assert wrap("four four ", 4) == ["four", "four"]
    assert wrap("two  blanks", 8) == ["two", "blanks"]


@pytest.mark.parametrize(
    ("spare_width", "lines"),
    [(0, ["a", "bcdefg", "hijk l"]), (3, ["a", "bcdefghij", "k l"]), (4, ["a", "bcdefghijk", "l"])],
)
def test_a_word_may_use_the_whole_terminal(spare_width: int, lines: list[str]) -> None:
    """A word that is too long for a line of text ends where the terminal ends."""
    assert TextLayout(spare_width=spare_width).wrap("a bcdefghijk l", 6) == lines


@given(ANY, st.integers(1, 100))
def test_no_word_is_broken_without_a_terminal(text: str, width: int) -> None:
    """A program, such as ``grep``, finds each name whole: only spaces divide lines."""
    found = " ".join(TextLayout().wrap(text, width)).split(" ")
    assert [*filter(None, found)] == [*filter(None, sanitize(text).split(" "))]


@pytest.mark.parametrize(
    ("text", "width", "shortened"),
    [("orders", 6, "orders"), ("abcdefghij", 9, "abc...hij"), ("abcdefghij", 8, "abc...ij"), ("abcdef", 5, "a...f")],
)
def test_a_name_is_shortened_in_the_middle(text: str, width: int, shortened: str) -> None:
    """Both ends of a name stay, and the result is as wide as allowed."""
    assert shorten(text, width) == shortened


def test_a_field_to_copy_stays_whole() -> None:
    """A field and its value at the end of a text are on one line, for copying."""
    assert wrap("no guard; add clusterId: 7sYk", 24) == ["no guard; add", "clusterId: 7sYk"]


def test_pieces_stay_whole_if_they_can() -> None:
    """Pieces move to the next line whole; only a piece longer than a line is broken."""
    layout = TextLayout(spare_width=0)
    assert layout.fill_lines(["86400000", "-> 3600000", "(1 day -> 1 hour)"], 20) == [
        "86400000 -> 3600000",
        "(1 day -> 1 hour)",
    ]
    assert layout.fill_lines(["abc defg"], 4) == ["abc", "defg"]


def test_grids_have_even_rows() -> None:
    """Cells are in columns, with similar numbers in each row, within the width."""
    assert format_grid([f"c{i}" for i in range(10)], 17) == ["c0  c1  c2  c3", "c4  c5  c6  c7", "c8  c9"]
    assert format_grid(["a", "long one"], 80) == ["a         long one"]
    assert format_grid(["wide"], 2) == ["wide"]
    assert format_grid([], 80) == []


def test_a_head_has_its_word_at_the_right_end() -> None:
    """The status of the first line is right-aligned at the page's edge; the action is wrapped beside it."""
    assert list(TextLayout(width=60).format_heading("~", "clicks", action="configure", right_text="Safe")) == [
        "  ~ clicks         configure                            Safe"
    ]
    assert list(
        TextLayout(width=60).format_heading(
            "~", "clicks", action="grow 6 -> 12 partitions, configure", right_text="DataLoss"
        )
    ) == [
        "  ~ clicks         grow 6 -> 12 partitions,         DataLoss",
        "                   configure",
    ]


def test_a_long_name_is_above_its_action() -> None:
    """The action beside its word gets the lines below the name, within the width; without colours nothing is added."""
    long, action = "x" * 50, "grow 6 -> 12 partitions, configure, and more"
    for layout in (TextLayout(width=60), TextLayout(width=60, use_color=True)):
        assert list(layout.format_heading("~", long, action=action, right_text="DataLoss")) == [
            f"  ~ {long}",
            "                   grow 6 -> 12 partitions,         DataLoss",
            "                   configure, and more",
        ]


def test_a_long_name_has_the_style_of_its_sign() -> None:
    """Each line of a name is coloured with its sign, and the word at the right end by itself."""
    layout = TextLayout(width=30, use_color=True, spare_width=0)
    first, second, last = layout.format_heading("+", "x" * 30, action="create", right_text="Safe", styles=("32", "2"))
    assert (first, second) == (f"  \x1b[32m+ {'x' * 26}\x1b[0m", "  \x1b[32m  xxxx\x1b[0m")
    assert last == "                   create \x1b[2mSafe\x1b[0m"


@pytest.mark.parametrize("count", [3, 4])
def test_messages_are_shown_up_to_a_number(count: int) -> None:
    """As many messages as allowed are shown; of more, one line counts the others, unless the layout is verbose."""
    messages = [(f"t{number}", f"message {number}") for number in range(count)]
    found = [*TextLayout().format_message_groups("left out", messages, 3)]
    assert ["more" in line for line in found] == [False, False, count > 3]
    assert len([*TextLayout(verbose=True).format_message_groups("left out", messages, 3)]) == count


def test_names_are_shortened_to_a_dozen() -> None:
    """Twelve names are all shown; of more, the first eleven are shown, or all with ``--verbose``."""
    twelve = [f"t{i}" for i in range(12)]
    assert TextLayout().format_names(twelve) == ["t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11"]
    assert TextLayout().format_names([*twelve, "t12"]) == ["t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, ... 2 more"]
    assert TextLayout(verbose=True).format_names([*twelve, "t12"]) == [
        "t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12"
    ]
    assert TextLayout().format_names([]) == []


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("retention.ms", "604800000", "7 days"),
        ("retention.ms", "-1", "unlimited"),
        ("retention.bytes", "-1", "unlimited"),
        ("local.retention.ms", "-2", "as retention.ms"),
        ("local.retention.bytes", "-1", "unlimited"),
        ("flush.ms", "9223372036854775807", "unlimited"),
        ("segment.bytes", "1073741824", "1 GiB"),
        ("segment.ms", "250", ""),
        ("retention.ms", "0", ""),
        ("retention.ms", "٣", ""),
        ("retention.ms", "1_000", ""),
        ("retention.ms", "9" * 400, ""),
        ("min.insync.replicas", "2", ""),
        ("flush.messages", "1048576", ""),
        ("cleanup.policy", "compact", ""),
        ("segment.jitter.ms", "-1", ""),
    ],
)
def test_values_get_units_where_digits_alone_say_little(key: str, text: str, words: str) -> None:
    """Times and sizes have units; values that are small, not numbers or without a unit have none."""
    assert humanize_config_value(key, text) == words


@pytest.mark.parametrize(
    ("done", "total", "width", "line"),
    [
        (0, 12, 30, "[-----------------]   0 of 12"),
        (6, 12, 30, "[########---------]   6 of 12"),
        (12, 12, 30, "[#################]  12 of 12"),
        (0, 0, 30, "[###################]  0 of 0"),
        (1, 2, 200, f"[{'#' * 30}{'-' * 30}]  1 of 2"),
        (9, 4, 20, "[#########]  9 of 4"),
        (1000, 2000, 25, "[###---]  1,000 of 2,000"),
        (1, 4, 12, "[-]  1 of 4"),
        (1, 4, 11, "1 of 4"),
    ],
)
def test_the_bar_grows_with_the_work(done: int, total: int, width: int, line: str) -> None:
    """The bar shows done and remaining work in at most 60 columns, is full at the end, also of more work than there
    is, and is figures only on a narrow line.
    """
    assert format_progress_bar(done, total, width) == line


@given(st.integers(0, 20_000), st.integers(0, 10_000), st.integers(25, 300))
def test_the_bar_fits_its_line(done: int, total: int, width: int) -> None:
    """For any numbers, the bar fits into its line."""
    assert len(format_progress_bar(done, total, width)) < width


def test_a_narrow_page_keeps_twenty_columns_for_text() -> None:
    """However narrow a page is, a field has twenty columns; a table may use the columns that are spare."""
    assert [TextLayout(width=width).text_width for width in (10, 39, 40, 80)] == [20, 20, 21, 61]
    assert [TextLayout(width=80, spare_width=spare).table_width for spare in (None, 0, 7)] == [80, 80, 87]


def test_a_style_is_around_text_only() -> None:
    """Without colors, without a style and without text nothing is added."""
    for layout, text, style, shown in (
        (TextLayout(use_color=True), "a", "1", "\x1b[1ma\x1b[0m"),
        (TextLayout(use_color=True), "", "1", ""),
        (TextLayout(use_color=True), "a", "", "a"),
        (TextLayout(), "a", "1", "a"),
    ):
        assert layout.colorize(text, style) == shown
    assert TextLayout(use_color=True).align_right("a", "b", 5, "1") == "a   \x1b[1mb\x1b[0m"
    assert TextLayout().align_right("a", "", 5, "1") == "a"


def test_fields_and_sections_have_their_columns() -> None:
    """The label of a field is in column six, that of a section in column two, and the text of both in one column."""
    layout = TextLayout(width=40, use_color=True)
    assert [*layout.format_text_field("risk", "one two three four five")] == [
        "      \x1b[2mrisk\x1b[0m         one two three four",
        "                   five",
    ]
    assert [*layout.format_text_section("notes", "one", "33")] == ["  \x1b[33mnotes\x1b[0m            one"]
    assert [*layout.format_text_section("notes", "one")] == ["  notes            one"]
    assert [*layout.format_text_field("risk", "")] == [*layout.format_field("risk", [])] == []
    assert [*layout.format_warnings(["a", "b"])] == [f"  \x1b[33mwarning\x1b[0m          {text}" for text in "ab"]


def test_equal_messages_are_grouped_by_their_number() -> None:
    """The most frequent message comes first, then by topic; topics after the last shown message are counted."""
    messages = [("b", "one"), ("a", "two"), ("c", "three"), ("d", "three"), ("e", "four")]
    layout = TextLayout(use_color=True)
    assert [*layout.format_message_groups("left", messages, 3, "33")] == [
        "  \x1b[33mleft\x1b[0m             2 topics: three",
        "                   c, d",
        "  \x1b[33mleft\x1b[0m             a: two",
        "  \x1b[33mleft\x1b[0m             2 more (-v shows them)",
    ]
    assert [*layout.format_message_groups("left", [], 3)] == []


@pytest.mark.parametrize(
    ("name", "action", "width", "lines"),
    [
        ("n", "a" * 3, 80, ["  ~ n              aaa"]),
        ("n" * 13, "aaa", 80, ["  ~ nnnnnnnnnnnnn  aaa"]),
        ("n" * 14, "aaa", 80, ["  ~ nnnnnnnnnnnnnn  aaa"]),
        ("n" * 50, "aaa bbb", 80, [f"  ~ {'n' * 50}  aaa bbb"]),
        ("n" * 51, "aaa bbb", 80, [f"  ~ {'n' * 51}", f"{'':19}aaa bbb"]),
        ("n" * 30, "aa bb " * 9 + "aa", 80, [f"  ~ {'n' * 30}", f"{'':19}{'aa bb ' * 9}aa"]),
        ("n", "aa bb " * 11 + "aa bb", 80, [f"  ~ n{'':14}{('aa bb ' * 10).strip()}", f"{'':19}aa bb aa bb"]),
        ("n" * 40, "a b", 30, [f"  ~ {'n' * 40}", f"{'':19}a b"]),
    ],
)
def test_an_action_stands_beside_its_name_if_it_can(name: str, action: str, width: int, lines: list[str]) -> None:
    """The action is beside the name if it has 24 columns there, and needs one line or the usual column."""
    assert [*TextLayout(width=width).format_heading("~", name, action=action)] == lines


def test_sections_without_lines_leave_no_gap() -> None:
    """Sections are divided by one empty line, and those without lines are left out."""
    assert join_sections([["a", "b"], [], ["c"], []]) == "a\nb\n\nc\n"
    assert join_sections([]) == ""


@pytest.mark.parametrize(
    ("lengths", "column"), [([], 19), ([1, 28], 34), ([1, 29], 19), ([1, 13], 19), ([14], 20), ([20, 249], 26)]
)
def test_the_column_of_actions_follows_names_up_to_a_width(lengths: list[int], column: int) -> None:
    """Names up to 28 characters move the column of actions; a longer one does not count."""
    assert choose_action_column(["x" * length for length in lengths]) == column
