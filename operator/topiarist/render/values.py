"""Config values and replica lists as a reviewer wants them: exact, aligned, and with units beside bare numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from topiarist.core.change import ConfigItem
from topiarist.core.state import Replicas
from topiarist.core.units import duration, size
from topiarist.render.page import ADDED, CHANGED, GONE, Page, fit, grid, plain, wrap

BROKERS_OWN = "brokers' default"
"""What holds where a topic has no override."""

_LARGEST = str((1 << 63) - 1)
_SHOWN_LISTS = 16
_SHOWN_TEXT = 160
_WIDEST_KEY = 37


def human(key: str, text: str) -> str:
    """A value in units: ``7 days``, ``1 GiB``, ``unlimited``; empty where its digits say it as well."""
    unit = duration if key.endswith(".ms") else size if key.endswith("bytes") else None
    if unit is None:
        return ""
    if text == _LARGEST or (text == "-1" and ".retention." in f".{key}"):
        return "unlimited"
    if text == "-2" and key.startswith("local."):
        return f"as {key.removeprefix('local.')}"
    if not (text.isascii() and text.isdigit() and len(text) < len(_LARGEST)):
        return ""
    words = unit(int(text))
    return "" if words.startswith(f"{text} ") else words


class Row(NamedTuple):
    """A config key to show, and a word about it (empty: none)."""

    item: ConfigItem
    note: str = ""


def config_lines(page: Page, rows: Sequence[Row]) -> list[str]:
    """One line per key, or more where a value is long: sign, key, before and after, units, note."""
    widest = max(min(len(plain(row.item.key)), _WIDEST_KEY) for row in rows)
    lines = []
    for row in rows:
        lines.extend(_config_line(page, row, widest))
    return lines


def _config_line(page: Page, row: Row, widest: int) -> list[str]:
    item = row.item
    mark, tone = ("-", GONE) if item.after is None else ("+", ADDED) if item.before is None else ("~", CHANGED)
    key, sign = plain(item.key).ljust(widest), page.paint(mark, tone)
    column = len(key) + 4
    pieces = _pieces(page, row)
    if any(column + len(piece) > page.room for piece in pieces):
        # Too long to stand beside its key: the value goes beneath.
        first, *rest = wrap(key.rstrip(), page.room - 2)
        return [
            f"{sign} {first}",
            *(f"  {part}" for part in rest),
            *(f"    {part}" for part in fit(pieces, page.room - 4)),
        ]
    first, *rest = fit(pieces, page.room - column)
    return [f"{sign} {key}  {first}", *(" " * column + line.lstrip() for line in rest)]


def _pieces(page: Page, row: Row) -> list[str]:
    """The parts of a line that should not be broken: before, after, units, note."""
    key, before, after = row.item.key, row.item.before, row.item.after
    note = [f" {row.note}"] if row.note else []
    if after is None:
        return [shown(page, before or ""), *_in_brackets(human(key, before or "")), f"-> {BROKERS_OWN}", *note]
    if before is None:
        return [shown(page, after), *_in_brackets(human(key, after)), *note]
    old, new = human(key, before), human(key, after)
    units = f"{old or _with_unit(key, before)} -> {new or _with_unit(key, after)}" if old or new else ""
    return [shown(page, before), f"-> {shown(page, after)}", *_in_brackets(units), *note]


def _in_brackets(words: str) -> list[str]:
    return [f" ({words})"] if words else []


def _with_unit(key: str, text: str) -> str:
    """A value that ``human`` has nothing to say of, fit to stand beside one that has a unit."""
    return f"{text} {'ms' if key.endswith('.ms') else 'bytes'}" if text.isascii() and text.isdigit() else text


def shown(page: Page, text: str) -> str:
    """A value as a page has it: plain, two quotes where it is empty, and cut where it is long."""
    text = plain(text)
    if not text:
        return '""'
    if page.verbose or len(text) <= _SHOWN_TEXT:
        return text
    return f"{text[:_SHOWN_TEXT]}... {len(text) - _SHOWN_TEXT:,} more characters"


def replica_lines(page: Page, lists: Sequence[Replicas], first: int) -> list[str]:
    """Replica lists under their partition ids, the preferred leader first; of many the first ones and how many more."""
    whole = page.verbose or len(lists) <= _SHOWN_LISTS
    shown = lists if whole else lists[: _SHOWN_LISTS - 1]
    digits = len(str(first + len(shown) - 1))
    plus = "+ " if first else ""
    cells = [
        f"{plus}{first + index:>{digits}} [{','.join(map(str, replicas))}]" for index, replicas in enumerate(shown)
    ]
    if not whole:
        cells.append(f"... {len(lists) - len(shown):,} more")
    return grid(cells, page.room)
