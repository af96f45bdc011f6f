"""Config values and replica lists as text: exact, aligned, and with units beside bare numbers.

``text.changes``, ``text.describe`` and ``markdown.diff`` call this module.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from topiarist.kafka.types import Replicas
from topiarist.model.moves import LeaderChange, ReplicaMove
from topiarist.model.plan import ConfigItem
from topiarist.output.text.layout import BOLD_RED, GREEN, YELLOW, TextLayout, format_grid, sanitize
from topiarist.text import humanize_bytes, humanize_duration

BROKER_DEFAULT = "brokers' default"
"""Text for the value of a topic without an override."""

_MAX_LONG = str((1 << 63) - 1)
_MAX_SHOWN_LISTS = 16
_MAX_VALUE_LENGTH = 160
# The width of leader.replication.throttled.replicas; only a few keys are longer.
_MAX_KEY_WIDTH = 37


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


class ConfigRow(Struct, frozen=True):
    """A config key to show, with a note (may be empty)."""

    item: ConfigItem
    note: str = ""


def format_config_lines(layout: TextLayout, rows: Sequence[ConfigRow]) -> list[str]:
    """Return one line per key, or more if a value is long.

    A line has a sign, the key, the values before and after, units and the note.
    """
    widest = max((min(len(sanitize(row.item.key)), _MAX_KEY_WIDTH) for row in rows), default=0)
    return [line for row in rows for line in _format_config_row(layout, row, widest)]


def _format_config_row(layout: TextLayout, row: ConfigRow, widest: int) -> list[str]:
    item = row.item
    mark, tone = ("-", BOLD_RED) if item.after is None else ("+", GREEN) if item.before is None else ("~", YELLOW)
    key, sign = sanitize(item.key).ljust(widest), layout.colorize(mark, tone)
    column = len(key) + 4
    pieces = _format_pieces(layout, row)
    if any(column + len(piece) > layout.text_width for piece in pieces):
        # The value is too long to fit beside its key, so it goes on the next line.
        first, *rest = layout.wrap(key.rstrip(), layout.text_width - 2)
        return [
            f"{sign} {first}",
            *(f"  {part}" for part in rest),
            *(f"    {part}" for part in layout.fill_lines(pieces, layout.text_width - 4)),
        ]
    first, *rest = layout.fill_lines(pieces, layout.text_width - column)
    return [f"{sign} {key}  {first}", *(" " * column + line.lstrip() for line in rest)]


def _format_pieces(layout: TextLayout, row: ConfigRow) -> list[str]:
    """Return the unbreakable parts of a line: before, after, units, note."""
    key, before, after = row.item.key, row.item.before, row.item.after
    old, new = humanize_config_value(key, before or ""), humanize_config_value(key, after or "")
    if after is None:
        pieces, units = [format_value(layout, before or "")], old
    elif before is None:
        pieces, units = [format_value(layout, after)], new
    else:
        pieces = [format_value(layout, before), f"-> {format_value(layout, after)}"]
        units = f"{old or _append_unit(key, before)} -> {new or _append_unit(key, after)}" if old or new else ""
    if units:
        pieces.append(f" ({units})")
    if after is None:
        pieces.append(f"-> {BROKER_DEFAULT}")
    if row.note:
        pieces.append(f" {row.note}")
    return pieces


def _append_unit(key: str, text: str) -> str:
    """Return a bare number with its unit, to be shown beside a value that ``humanize_config_value`` converts."""
    return f"{text} {'ms' if key.endswith('.ms') else 'bytes'}" if text.isascii() and text.isdigit() else text


def format_value(layout: TextLayout, text: str) -> str:
    """Return a value for display: sanitized, ``""`` if empty, cut if long."""
    text = sanitize(text)
    if not text:
        return '""'
    if layout.verbose or len(text) <= _MAX_VALUE_LENGTH:
        return text
    return f"{text[:_MAX_VALUE_LENGTH]}... {len(text) - _MAX_VALUE_LENGTH:,} more characters"


def format_moves(layout: TextLayout, moves: Sequence[ReplicaMove]) -> list[str]:
    """Return the replica lists of moved partitions, before and after; of many only the first, and the rest counted."""
    whole = layout.verbose or len(moves) <= _MAX_SHOWN_LISTS
    shown = moves if whole else moves[: _MAX_SHOWN_LISTS - 1]
    digits = len(str(max(move.partition for move in shown)))
    cells = [
        f"{move.partition:>{digits}} {_format_replicas(move.before)} -> {_format_replicas(move.after)}"
        for move in shown
    ]
    if not whole:
        cells.append(f"... {len(moves) - len(shown):,} more")
    return format_grid(cells, layout.text_width)


def format_elections(layout: TextLayout, partitions: Sequence[LeaderChange]) -> list[str]:
    """Return the leaders of partitions before and after; of many only the first, and the rest counted."""
    whole = layout.verbose or len(partitions) <= _MAX_SHOWN_LISTS
    shown = partitions if whole else partitions[: _MAX_SHOWN_LISTS - 1]
    digits = len(str(max(each.partition for each in shown)))
    cells = [f"{each.partition:>{digits}}: {each.before} -> {each.after}" for each in shown]
    if not whole:
        cells.append(f"... {len(partitions) - len(shown):,} more")
    return format_grid(cells, layout.text_width)


def _format_replicas(replicas: Replicas) -> str:
    return f"[{','.join(map(str, replicas))}]"


def format_replica_lists(layout: TextLayout, lists: Sequence[Replicas], first_partition: int) -> list[str]:
    """Return replica lists with their partition ids, the preferred leader first.

    Of many lists only the first are shown and the rest counted.
    """
    whole = layout.verbose or len(lists) <= _MAX_SHOWN_LISTS
    shown = lists if whole else lists[: _MAX_SHOWN_LISTS - 1]
    digits = len(str(first_partition + len(shown) - 1))
    plus = "+ " if first_partition else ""
    cells = [
        f"{plus}{first_partition + index:>{digits}} {_format_replicas(replicas)}"
        for index, replicas in enumerate(shown)
    ]
    if not whole:
        cells.append(f"... {len(lists) - len(shown):,} more")
    return format_grid(cells, layout.text_width)
