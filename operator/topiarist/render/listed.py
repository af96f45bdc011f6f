"""Renders the lists of topics as text: a table for each cluster, a line for each topic, and a line of totals.

On a terminal a line that is too long is cut and ends with ``...``; elsewhere it is whole, for programs that read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from topiarist.core.listing import Mark, Row
from topiarist.core.partitions import Condition
from topiarist.core.spec import origin
from topiarist.core.units import count
from topiarist.render.listing import Listed
from topiarist.render.page import CHANGED, GONE, QUIET, STRONG, Page, plain

_HEADS = ("topic", "partitions", "replicas", "owner", "state", "manifest", "config")
_MAX_COLUMN = 48
_CRITICAL = frozenset({Mark.MISSING, Mark.UNREADABLE, Mark.MARKED})
_MARKS = {
    Mark.MISSING: "missing",
    Mark.UNREADABLE: "unreadable",
    Mark.MARKED: "marked for deletion",
    Mark.UNEQUAL: "unequal replicas",
    Mark.UNKNOWN: "not known",
    Mark.WELL: "well",
}


def lists(found: Sequence[Listed], page: Page, *, cut: bool) -> str:
    """Return the tables of all clusters, in the order given; ``cut`` lines to the width of the page."""
    return "\n".join("".join(f"{line}\n" for line in _lines(each, page, cut=cut)) for each in found)


def _lines(found: Listed, page: Page, *, cut: bool) -> Iterator[str]:
    name = f"{found.cluster.name}   " if found.cluster.name else ""
    yield page.paint(f"{name}cluster {plain(found.state.cluster_id)}", STRONG)
    for warning in found.state.warnings:
        yield page.paint(f"  warning: {plain(warning)}", CHANGED)
    if found.rows:
        yield from _table(found, page, cut=cut)
    yield page.paint(_totals(found), STRONG)


def _table(found: Listed, page: Page, *, cut: bool) -> Iterator[str]:
    cells = [_cells(row) for row in found.rows]
    shown = [at for at, head in enumerate(_HEADS) if head != "manifest" or found.declared]
    widths = [min(max(len(line[at]) for line in [_HEADS, *cells]), _MAX_COLUMN) for at in shown]
    for row, line in zip((None, *found.rows), (_HEADS, *cells), strict=True):
        parts = [_aligned(_HEADS[at], line[at], width) for at, width in zip(shown, widths, strict=True)]
        text = f"  {'  '.join(parts)}".rstrip()
        if cut and len(text) > page.width:
            text = f"{text[: page.width - 3]}..."
        yield page.paint(text, _tone(row) if row else QUIET)


def _aligned(head: str, cell: str, width: int) -> str:
    return cell.rjust(width) if head in ("partitions", "replicas") else cell.ljust(width)


def _cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row; no blank within a word that a program would read."""
    widths = sorted(row.widths)
    place = origin(row.spec).place() if row.spec else None
    return (
        plain(row.topic),
        "-" if row.partitions is None else str(row.partitions),
        "-" if not widths else str(widths[0]) if len(widths) == 1 else f"{widths[0]}-{widths[-1]}",
        plain(row.owner) or "-",
        state_words(row),
        (plain(str(place)) if place else plain(row.spec.manifest.name)) if row.spec else "-",
        ", ".join(f"{plain(key)}={plain(text)}" for key, text in row.config.items()) or "-",
    )


def state_words(row: Row) -> str:
    """Return the states of a row in words, with the number of partitions in each condition."""
    marks = [_MARKS[mark] for mark in row.marks if mark in _MARKS]
    return ", ".join([*marks, *(f"{number:,} {condition.words}" for condition, number in row.conditions.items())])


def _tone(row: Row) -> str:
    if not _CRITICAL.isdisjoint(row.marks) or Condition.OFFLINE in row.conditions:
        return GONE
    return CHANGED if row.conditions or Mark.UNEQUAL in row.marks else ""


def _totals(found: Listed) -> str:
    rows = found.rows
    counts = {
        "missing": sum(Mark.MISSING in row.marks for row in rows),
        "with offline partitions": sum(Condition.OFFLINE in row.conditions for row in rows),
        "under-replicated": sum(Condition.UNDER_REPLICATED in row.conditions for row in rows),
        "with unequal replicas": sum(Mark.UNEQUAL in row.marks for row in rows),
        "without owner": sum(Mark.UNOWNED in row.marks for row in rows),
        "undeclared": sum(Mark.UNDECLARED in row.marks for row in rows),
        "of unknown state": sum(not row.known and _CRITICAL.isdisjoint(row.marks) for row in rows),
    }
    there = sum(Mark.MISSING not in row.marks for row in rows)
    whole = count(there, "topic") if there == found.present else f"{there:,} of {count(found.present, 'topic')}"
    return ", ".join([whole, *(f"{number:,} {words}" for words, number in counts.items() if number)]) + "."
