"""The page that a person reads: its width and colours, and the few shapes that every text is made of.

A block has a head (sign, name, what happens, one word at the right end) and fields (a label, then lines in one column).
Whatever comes from a manifest or a cluster passes through ``plain`` on its way here: a terminal obeys what it is sent.
Colour is put on last, around text that is already laid out, so that it never changes a layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

ADDED, CHANGED, GONE, QUIET, STRONG = "32", "33", "1;31", "2", "1"
"""Tones: what a terminal is told to make text green, yellow, bold red, dim or bold."""

TEXT = 19
"""The column (from 0) where fields have their text."""

_LABEL = 6
_WIDEST_NAMES = 34
_NARROWEST_ACTION = 24
_SHOWN_NAMES = 12


@dataclass(frozen=True, slots=True)
class Page:
    """How to write: ``width`` in columns, ``verbose`` to shorten nothing and leave nothing out.

    ``column`` is where heads have their action; longer names push it away.
    """

    width: int = 80
    colour: bool = False
    verbose: bool = False
    column: int = TEXT

    @property
    def room(self) -> int:
        """Columns for the text of a field."""
        return max(self.width - TEXT, 20)

    def paint(self, text: str, tone: str) -> str:
        """``text`` in a tone, or as it is where there is no colour."""
        return f"\x1b[{tone}m{text}\x1b[0m" if self.colour and tone and text else text


def plain(text: str) -> str:
    r"""``text`` with everything escaped that does not print: control characters, ANSI, direction marks, surrogates.

    What is escaped reads as in Python and JSON: ``\x1b``, ``\u202e``.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def wrap(text: str, width: int) -> list[str]:
    """``text`` made plain, in lines of at most ``width``; breaks at spaces, and within a word longer than a line."""
    text = plain(text)
    if len(text) <= width:
        return [text]
    lines, line = [], ""
    for word in _words(text):
        joined = f"{line} {word}" if line else word
        if len(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        while len(word) > width:
            lines.append(word[:width])
            word = word[width:]
        line = word
    return [*lines, line] if line else lines


def _words(text: str) -> list[str]:
    """The words to break between; a field to copy at the end, as in "add clusterId: 7sYk", is one of them."""
    words = text.split(" ")
    if len(words) > 1 and words[-2].endswith(":"):
        words[-2:] = [f"{words[-2]} {words[-1]}"]
    return words


def fit(pieces: Iterable[str], width: int) -> list[str]:
    """Pieces of text joined by spaces into lines of at most ``width``; only a piece longer than that is broken."""
    lines: list[str] = []
    for piece in pieces:
        if lines and len(lines[-1]) + 1 + len(piece) <= width:
            lines[-1] += f" {piece}"
        else:
            lines.extend(wrap(piece, width))
    return lines


def head(
    page: Page, sign: str, name: str, *, action: str, word: str = "", tones: tuple[str, str] = ("", "")
) -> Iterator[str]:
    """The first line of a block; more lines where the name or the action is long.

    ``word`` stands at the right end. ``tones`` are those of sign and name, and of the word.
    """
    name = plain(name)
    start = max(page.column, len(name) + 6)
    space = page.width - start - (len(word) + 2 if word else 0)
    lines = wrap(action, space) if space >= _NARROWEST_ACTION else []
    left = f"{sign} {name}".ljust(start - 2)
    if not lines or (len(lines) > 1 and start > page.column):
        # A long name has a line of its own, or several.
        for part in wrap(name, page.width - 4):
            yield f"  {page.paint(f'{sign} {part}', tones[0])}"
            sign = " "
        start, left = TEXT, " " * (TEXT - 2)
        lines = wrap(action, max(page.width - start - (len(word) + 2 if word else 0), 20))
    end = ended(lines[0], word, page.width - start, page.paint(word, tones[1]))
    yield f"  {page.paint(left, tones[0]) if left.strip() else left}{end}"
    for line in lines[1:]:
        yield " " * start + line


def ended(line: str, word: str, width: int, painted: str) -> str:
    """``line`` with ``word`` at the right end of ``width`` columns."""
    return f"{line.ljust(width - len(word))}{painted}" if word else line


def field(page: Page, label: str, lines: Iterable[str]) -> Iterator[str]:
    """Lines in the column of fields, the first one behind its label. Lines have to be plain and fit."""
    start = f"{'':{_LABEL}}{page.paint(label, QUIET)}{'':{TEXT - _LABEL - len(label)}}"
    for line in lines:
        yield f"{start}{line}"
        start = " " * TEXT


def remark(page: Page, label: str, lines: Iterable[str], tone: str = "") -> Iterator[str]:
    """Lines about a whole: as a field, but the label stands where heads have their sign."""
    start = f"  {page.paint(label, tone)}{'':{TEXT - 2 - len(label)}}"
    for text in lines:
        yield f"{start}{text}"
        start = " " * TEXT


def said(page: Page, label: str, text: str) -> Iterator[str]:
    """A field of running text; nothing if there is none."""
    return field(page, label, wrap(text, page.room) if text else ())


def names(page: Page, found: Sequence[str]) -> list[str]:
    """A list of names as lines: the first dozen and how many more, or all of them on a verbose page."""
    shown = found if page.verbose or len(found) <= _SHOWN_NAMES else found[: _SHOWN_NAMES - 1]
    pieces = [f"{plain(name)}," for name in shown]
    if len(shown) < len(found):
        pieces.append(f"... {len(found) - len(shown):,} more")
    elif pieces:
        pieces[-1] = pieces[-1].removesuffix(",")
    return fit(pieces, page.room)


def grid(cells: Sequence[str], width: int) -> list[str]:
    """Cells in even columns, with about as many in each line."""
    cell = max(map(len, cells), default=0)
    most = max((width + 2) // (cell + 2), 1)
    lines = -(-len(cells) // most)
    each = -(-len(cells) // max(lines, 1))
    rows = (cells[at : at + each] for at in range(0, len(cells), max(each, 1)))
    return ["  ".join(text.ljust(cell) for text in row).rstrip() for row in rows]


def column_for(found: Iterable[str]) -> int:
    """Where heads of blocks with these names have their action: beside most of them, not beside a very long one."""
    widest = max((len(name) + 6 for name in found if len(name) + 6 <= _WIDEST_NAMES), default=TEXT)
    return max(widest, TEXT)


def bar(done: int, total: int, width: int) -> str:
    """A line that says how far a run is: ``[########--------]  6 of 12``; it fits ``width`` if that is 20 or more."""
    whole = f"{total:,}"
    figures = f"  {done:>{len(whole)},} of {whole}"
    space = min(width - len(figures) - 3, 60)
    if space < 1:
        return figures.strip()
    filled = space * min(done, total) // total if total else space
    return f"[{'#' * filled}{'-' * (space - filled)}]{figures}"
