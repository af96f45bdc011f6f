"""How a message shows text from outside: on one line, not too long, nothing that a terminal obeys, in double quotes.

One style for all messages, that of YAML and JSON, so that what is shown can be pasted. ``values`` is the door to it for
whoever is not ``core``.

Numbers as people say them: ``604800000`` ms is ``7 days``, ``1073741824`` bytes is ``1 GiB``.

Used in reasons of risk and in every rendering of a plan. Exact or silent: a value that no unit fits within a tenth is
given in the largest unit with one decimal, marked with ``~``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence


def printable(text: str, max_length: int = 60) -> str:
    """Text from outside as a message may have it: on one line, cut after ``max_length`` characters, nothing
    unprintable.

    What cannot be printed is escaped, so that no manifest moves a terminal's cursor or begins a line of its own.
    """
    cut = text if len(text) <= max_length else f"{text[: max_length - 3]}..."
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def quote(text: str) -> str:
    """``shown`` in double quotes, as YAML would have it."""
    return '"' + printable(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def escape(text: str) -> str:
    """``quoted``, with everything escaped that is not ASCII: for text that may look like what it is not."""
    return json.dumps(text if len(text) <= 60 else f"{text[:57]}...")


def shorten_list(numbers: Sequence[int]) -> str:
    """Numbers as a list for a message: the first twenty, and whether there are more."""
    return ", ".join(map(str, numbers[:20])) + (", ..." if len(numbers) > 20 else "")


_DURATION_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"))
_SIZE_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def humanize_duration(ms: int) -> str:
    """Milliseconds in words: ``7 days``, ``~1.5 hours``, ``250 ms``."""
    for unit, name in _DURATION_UNITS:
        if ms >= unit:
            amount, exact = _format_amount(ms, unit)
            return f"{exact}{amount} {name}{'' if amount == '1' else 's'}"
    return f"{ms} ms"


def humanize_bytes(number: int) -> str:
    """Bytes in words: ``1 GiB``, ``~1.4 MiB``, ``512 bytes``."""
    for unit, name in _SIZE_UNITS:
        if number >= unit:
            amount, exact = _format_amount(number, unit)
            return f"{exact}{amount} {name}"
    return format_count(number, "byte")


def format_count(number: int, noun: str) -> str:
    """``1 topic``, ``812 topics``, ``12,000 partitions``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _format_amount(value: int, unit: int) -> tuple[str, str]:
    if value % unit == 0:
        return f"{value // unit:,}", ""
    return f"{value / unit:,.1f}".removesuffix(".0"), "~"
