"""The partitions of a topic as a table: a line of counts, then leader, replicas, ISR and what is not well.

Of many partitions only those that are not well are shown, and of many of these the first; a verbose page has all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from topiarist.core.description import Description
from topiarist.core.inspection import DURING_DELETION, NO_LEADER
from topiarist.core.lifecycle import counted
from topiarist.core.partitions import Condition, Partition
from topiarist.core.units import count
from topiarist.render.page import CHANGED, GONE, QUIET, TEXT, Page, remark, wrap

_SHOWN = 16
_FIRST = 6
_NARROWEST = 26
_GRAVE = frozenset({Condition.UNREADABLE, Condition.NOT_LISTED, Condition.OFFLINE, Condition.UNDER_MIN_ISR})


class _Row(NamedTuple):
    cells: tuple[str, ...]
    note: str
    tone: str


def table(page: Page, found: Description) -> Iterator[str]:
    """The counts and the table; nothing for a topic without partitions."""
    if not found.partitions:
        return
    yield from remark(page, "partitions", wrap(_counts(found), page.room))
    unwell = [one for one in found.partitions if one.ailments]
    whole = page.verbose or len(found.partitions) <= _SHOWN
    shown = found.partitions if whole else unwell
    if not page.verbose and len(shown) > _SHOWN:
        shown = shown[: _SHOWN - 1]
    if shown:
        yield from _table(page, shown, found.known)
    if len(shown) < len(found.partitions):
        left = len(unwell) - sum(bool(one.ailments) for one in shown)
        words = f"{left:,} more that are not well" if left else "the others are well" if found.known else "the others"
        tail = "-v shows them" if left or not found.known else "-v shows all"
        yield f"{'':{_FIRST}}... {words} ({tail})" if shown else f"{'':{_FIRST}}(-v shows them)"


def _counts(found: Description) -> str:
    """``12 x 3 replicas: 10 well, 1 offline, 2 under-replicated``."""
    ill = [f"{number:,} {condition.words}" for condition, number in counted(found.partitions).items()]
    listed = [one for one in found.partitions if one.listed]
    if not listed:
        return ", ".join(["their replica lists cannot be read", *ill])
    widths = sorted({one.width for one in listed})
    width = count(widths[0], "replica") if len(widths) == 1 else f"{widths[0]} to {widths[-1]} replicas"
    if not found.known:
        return ", ".join([f"{len(listed):,} x {width}", *ill, "leaders and ISR are not known"])
    well = sum(not one.ailments for one in found.partitions)
    # Leaders and ISRs are well, but not all is: the number of replicas is a note of the topic.
    whole = "all well" if len(widths) == 1 else "all in sync"
    return f"{len(listed):,} x {width}: " + ", ".join([f"{well:,} well" if ill else whole, *ill])


def _table(page: Page, shown: Sequence[Partition], known: bool) -> Iterator[str]:
    rows = [_row(one, known) for one in shown]
    heads = ("id", "leader", "replicas", "ISR") if known else ("id", "replicas")
    widths = [max(len(head), *(len(row.cells[at]) for row in rows)) for at, head in enumerate(heads)]
    widths[0] = max(widths[0], TEXT - _FIRST - 2)
    yield page.paint(_joined(heads, widths), QUIET)
    beside = sum(widths) + 2 * len(widths) + _FIRST
    for row in rows:
        yield from _row_lines(page, row, _joined(row.cells, widths), beside)


def _row_lines(page: Page, row: _Row, text: str, beside: int) -> Iterator[str]:
    """A row with what is said of it beside or, where there is no room for that, beneath."""
    if not row.note:
        yield text
        return
    fits = page.width - beside >= _NARROWEST
    column = beside if fits else TEXT
    lines = wrap(row.note, page.width - column)
    if not fits:
        yield text
        text = ""
    for line in lines:
        yield f"{text:<{column}}{page.paint(line, row.tone)}"
        text = ""


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    pairs = zip(cells, widths, strict=True)
    return f"{'':{_FIRST}}{'  '.join(cell.ljust(width) for cell, width in pairs)}".rstrip()


def _row(one: Partition, known: bool) -> _Row:
    state = one.state
    leader = "" if state is None else {NO_LEADER: "none", DURING_DELETION: "none"}.get(state.leader, str(state.leader))
    replicas, isr = _ids(one.replicas) if one.listed else "-", "" if state is None else _ids(state.isr)
    cells = (str(one.id), leader, replicas, isr) if known else (str(one.id), replicas)
    tone = GONE if any(one.has(condition) for condition in _GRAVE) else CHANGED
    return _Row(cells, "; ".join(map(str, one.ailments)), tone)


def _ids(brokers: Sequence[int]) -> str:
    return f"[{','.join(map(str, brokers))}]"
