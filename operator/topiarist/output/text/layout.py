"""The text layout for terminals: width, colours, and the few shapes of lines and values that all text output uses.

A block has a heading (sign, name, action, one word at the right end) and fields (a label, then lines in one column).
All text from a manifest or a cluster passes through ``sanitize`` first: a terminal executes control sequences. Colours
are added last, around text that is already laid out, so that they never change the layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from topiarist.errors import Diagnostic
from topiarist.text import format_count, humanize_bytes, humanize_duration, sanitize

Item = TypeVar("Item")

GREEN, YELLOW, BOLD_RED, DIM, BOLD = "32", "33", "1;31", "2", "1"
"""Styles: the ANSI codes for green, yellow, bold red, dim and bold text."""

BROKER_DEFAULT = "brokers' default"
"""Text for the value of a topic without an override."""

MAX_KEY_WIDTH = 37
"""The width of leader.replication.throttled.replicas; only a few keys are longer."""

MAX_SHOWN_DIAGNOSTICS = 100

TEXT_COLUMN = 19
"""The column (from 0) at which the text of a field starts."""

_LABEL_COLUMN = 6
_MAX_NAME_WIDTH = 34
_MIN_ACTION_WIDTH = 24
_MAX_SHOWN_NAMES = 12
_MAX_LONG = str((1 << 63) - 1)
_MAX_VALUE_LENGTH = 160


class TextLayout(Struct, frozen=True):
    """A text layout.

    ``width`` is in columns. ``spare_width`` are the columns of a terminal beyond it: for tables, and for a word that
    does not fit; None if the text is not for a terminal. Programs read that text, so each word in it stays whole.
    ``use_color`` adds ANSI styles. ``verbose`` shortens and omits nothing. ``action_column`` is the column of a
    heading's action; a longer name shifts the action to the right.
    """

    width: int = 80
    use_color: bool = False
    verbose: bool = False
    action_column: int = TEXT_COLUMN
    spare_width: int | None = None

    @property
    def text_width(self) -> int:
        """Return the columns for the text of a field."""
        return max(self.width - TEXT_COLUMN, 20)

    @property
    def table_width(self) -> int:
        """Return the columns for a table with a cell of running text: all columns of a terminal."""
        return self.width + (self.spare_width or 0)

    def limit(self, items: Sequence[Item], maximum: int) -> Sequence[Item]:
        """Return the items to show: all if there are at most ``maximum``, else one fewer.

        A line that counts the others takes the place of the last one. A verbose layout shows all.
        """
        return items if self.verbose or len(items) <= maximum else items[: maximum - 1]

    def colorize(self, text: str, style: str) -> str:
        """Return ``text`` in a style; unchanged if colours are off."""
        return f"\x1b[{style}m{text}\x1b[0m" if self.use_color and style and text else text

    def align_right(self, line: str, right_text: str, width: int, style: str) -> str:
        """Return ``line`` with ``right_text``, in a style, at the right end of ``width`` columns."""
        return line.ljust(width - len(right_text)) + self.colorize(right_text, style) if right_text else line

    def wrap(self, text: str, width: int | None = None) -> list[str]:
        """Return ``text``, sanitized, in lines of at most ``width``; without it, the width of a field.

        A word that is longer than a line is broken at the end of the terminal, and stays whole without a terminal.
        """
        return wrap(text, self.text_width if width is None else width, self.spare_width)

    def fill_lines(self, pieces: Iterable[str], width: int) -> list[str]:
        """Return pieces of text, joined by spaces into lines of at most ``width``.

        Only a piece that is longer than a line is broken, as by ``wrap``.
        """
        lines: list[str] = []
        for piece in pieces:
            if lines and len(lines[-1]) + 1 + len(piece) <= width:
                lines[-1] += f" {piece}"
            else:
                lines.extend(self.wrap(piece, width))
        return lines

    def format_heading(
        self, sign: str, name: str, *, action: str, right_text: str = "", styles: tuple[str, str] = ("", "")
    ) -> Iterator[str]:
        """Yield the heading of a block; several lines if the name or the action is long.

        ``right_text`` is put at the right end. ``styles`` are those of sign and name, and of ``right_text``.
        """
        name = sanitize(name)
        start = max(self.action_column, len(name) + 6)
        right_width = len(right_text) + 2 if right_text else 0
        space = self.width - start - right_width
        lines = self.wrap(action, space) if space >= _MIN_ACTION_WIDTH else []
        left = f"{sign} {name}".ljust(start - 2)
        if not lines or (len(lines) > 1 and start > self.action_column):
            # A long name gets lines of its own: beside it the action would have too few columns.
            for part in self.wrap(name, self.width - 4):
                yield f"  {self.colorize(f'{sign} {part}', styles[0])}"
                sign = " "
            start, left = TEXT_COLUMN, " " * (TEXT_COLUMN - 2)
            lines = self.wrap(action, max(self.width - start - right_width, 20))
        end = self.align_right(lines[0], right_text, self.width - start, styles[1])
        yield f"  {self.colorize(left, styles[0]) if left.strip() else left}{end}"
        for line in lines[1:]:
            yield " " * start + line

    def format_field(self, label: str, lines: Iterable[str]) -> Iterator[str]:
        """Return lines in the column of fields, the first one with its label.

        The lines must be sanitized and fit into the text width.
        """
        return self.format_section(label, lines, DIM, _LABEL_COLUMN)

    def format_text_field(self, label: str, text: str) -> Iterator[str]:
        """Return a field of running text; no lines if the text is empty."""
        return self.format_field(label, self.wrap(text) if text else ())

    def format_section(self, label: str, lines: Iterable[str], style: str = "", column: int = 2) -> Iterator[str]:
        """Yield a field about a whole cluster or topic, its label in the column of signs."""
        start = f"{'':{column}}{self.colorize(label, style)}{'':{TEXT_COLUMN - column - len(label)}}"
        for line in lines:
            yield f"{start}{line}"
            start = " " * TEXT_COLUMN

    def format_text_section(self, label: str, text: str, style: str = "") -> Iterator[str]:
        """Return running text about a whole cluster or topic."""
        return self.format_section(label, self.wrap(text), style)

    def format_warnings(self, warnings: Iterable[str]) -> Iterator[str]:
        """Yield the warnings about a cluster."""
        for warning in warnings:
            yield from self.format_text_section("warning", warning, YELLOW)

    def format_names(self, names: Sequence[str]) -> list[str]:
        """Return a list of names as lines.

        At most the first dozen are listed and the rest counted; a verbose layout lists all.
        """
        shown = self.limit(names, _MAX_SHOWN_NAMES)
        pieces = [f"{sanitize(name)}," for name in shown]
        if len(shown) < len(names):
            pieces.append(f"... {len(names) - len(shown):,} more")
        elif pieces:
            pieces[-1] = pieces[-1].removesuffix(",")
        return self.fill_lines(pieces, self.text_width)

    def format_message_groups(
        self, label: str, messages: Iterable[tuple[str, str]], max_shown: int, style: str = ""
    ) -> Iterator[str]:
        """Yield each message once with its topics, the most frequent message first.

        ``messages`` are pairs of topic and message. The topics of messages after ``max_shown`` are counted, unless the
        layout is verbose.
        """
        topics: dict[str, list[str]] = {}
        for topic, message in messages:
            topics.setdefault(message, []).append(topic)
        groups = sorted((-len(names), names, message) for message, names in topics.items())
        shown = self.limit(groups, max_shown)
        for _, names, message in shown:
            if len(names) == 1:
                lines = self.wrap(f"{names[0]}: {message}")
            else:
                lines = [*self.wrap(f"{format_count(len(names), 'topic')}: {message}"), *self.format_names(names)]
            yield from self.format_section(label, lines, style)
        if hidden_count := sum(len(names) for _, names, _ in groups[len(shown) :]):
            yield from self.format_section(label, [f"{hidden_count:,} more (-v shows them)"], style)


def wrap(text: str, width: int, spare_width: int | None = 0) -> list[str]:
    """Return ``text``, sanitized, in lines of at most ``width``.

    Lines break at spaces. A word that is longer than a line may use ``spare_width`` too, and is broken there; it stays
    whole if that is None.
    """
    text = sanitize(text)
    if len(text) <= width:
        return [text]
    lines, line, words = [], "", text.split(" ")
    if len(words) > 1 and words[-2].endswith(":"):
        # A final field to copy, as in "add clusterId: 7sYk", is one word.
        words[-2:] = [f"{words[-2]} {words[-1]}"]
    for word in words:
        joined = f"{line} {word}" if line else word
        if len(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line.rstrip())
        end = len(word) if spare_width is None else width + spare_width
        while len(word) > end:
            lines.append(word[:end])
            word = word[end:]
        line = word
    return [*lines, line] if line else lines


def shorten(text: str, width: int) -> str:
    """Return ``text``, with ``...`` in place of its middle if it is longer than ``width``, which is 5 or more.

    Names of one team differ at the end, those of different teams at the start.
    """
    if len(text) <= width:
        return text
    end = (width - 3) // 2
    return f"{text[: width - 3 - end]}...{text[-end:]}"


def format_value(layout: TextLayout, text: str) -> str:
    """Return a value for display: sanitized, ``""`` if empty, cut if long."""
    text = sanitize(text)
    if not text:
        return '""'
    if layout.verbose or len(text) <= _MAX_VALUE_LENGTH:
        return text
    return f"{text[:_MAX_VALUE_LENGTH]}... {len(text) - _MAX_VALUE_LENGTH:,} more characters"


def humanize_config_value(key: str, text: str) -> str:
    """Return a value in units: ``7 days``, ``1 GiB``, ``unlimited``.

    Empty if the key has no unit, or if the digits are as readable.
    """
    unit = humanize_duration if key.endswith(".ms") else humanize_bytes if key.endswith("bytes") else None
    if unit is None:
        return ""
    # Kafka's own sentinels: Long.MAX_VALUE and -1 are no limit; local.retention.ms=-2 takes the value of retention.ms.
    if text == _MAX_LONG or (text == "-1" and ".retention." in f".{key}"):
        return "unlimited"
    if text == "-2" and key.startswith("local."):
        return f"as {key.removeprefix('local.')}"
    if not (text.isascii() and text.isdigit() and len(text) < len(_MAX_LONG)):
        return ""
    words = unit(int(text))
    return "" if words.startswith(f"{text} ") else words


def with_units(key: str, text: str) -> str:
    """Return a config value with its value in units beside it, if it has one: ``604800000 (7 days)``."""
    words = humanize_config_value(key, text)
    return f"{text} ({words})" if words else text


def join_sections(sections: Iterable[Iterable[str]]) -> str:
    """Return sections of lines as text that ends with a newline, with an empty line between them.

    Sections without lines are left out; empty if there are no others.
    """
    texts = ["".join(f"{line}\n" for line in lines) for lines in sections]
    return "\n".join(text for text in texts if text)


def format_diagnostics(diagnostics: Sequence[Diagnostic], label: str = "error", *, suppressed_count: int = 0) -> str:
    """Return one line per error, ``file:line:column: error: message``, with its hint below.

    Only the first ``MAX_SHOWN_DIAGNOSTICS`` errors are shown; the rest is counted together with ``suppressed_count``,
    the number of errors that the caller counted but did not keep. Lines are not wrapped: tools that parse them expect
    one line per message. Empty if there is no error.
    """
    lines = []
    for diagnostic in diagnostics[:MAX_SHOWN_DIAGNOSTICS]:
        lines.append(f"{sanitize(str(diagnostic.location))}: {label}: {_indent_lines(diagnostic.message)}")
        if diagnostic.hint:
            lines.append(f"    {_indent_lines(diagnostic.hint)}")
    if hidden_count := len(diagnostics[MAX_SHOWN_DIAGNOSTICS:]) + suppressed_count:
        lines.append(f"... and {hidden_count:,} more")
    return "".join(f"{line}\n" for line in lines)


def _indent_lines(text: str) -> str:
    return "\n    ".join(map(sanitize, text.split("\n")))


def format_grid(cells: Sequence[str], width: int) -> list[str]:
    """Return cells in even columns, with about the same number in each line."""
    cell = max(map(len, cells), default=0)
    most = max((width + 2) // (cell + 2), 1)
    lines = -(-len(cells) // most)
    each = -(-len(cells) // max(lines, 1))
    rows = (cells[at : at + each] for at in range(0, len(cells), max(each, 1)))
    return ["  ".join(text.ljust(cell) for text in row).rstrip() for row in rows]


def choose_action_column(names: Iterable[str]) -> int:
    """Return the column of the action for headings with these names.

    The column is beside most names; a very long name does not count.
    """
    widest = max((len(name) + 6 for name in names if len(name) + 6 <= _MAX_NAME_WIDTH), default=TEXT_COLUMN)
    return max(widest, TEXT_COLUMN)


def format_progress_bar(done: int, total: int, width: int) -> str:
    """Return the progress of a run as one line: ``[########--------] 6 of 12``.

    The line fits ``width`` if that is 20 or more.
    """
    whole = f"{total:,}"
    figures = f"  {done:>{len(whole)},} of {whole}"
    space = min(width - len(figures) - 3, 60)
    if space < 1:
        return figures.strip()
    filled = space * min(done, total) // total if total else space
    return f"[{'#' * filled}{'-' * (space - filled)}]{figures}"
