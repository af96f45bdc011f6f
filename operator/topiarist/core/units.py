"""Numbers as people say them: ``604800000`` ms is ``7 days``, ``1073741824`` bytes is ``1 GiB``.

Used in reasons of risk and in every rendering of a plan. Exact or silent: a value that no unit fits within a tenth is
given in the largest unit with one decimal, marked with ``~``.
"""

from __future__ import annotations

_DURATIONS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"))
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def duration(ms: int) -> str:
    """Milliseconds in words: ``7 days``, ``~1.5 hours``, ``250 ms``."""
    for unit, name in _DURATIONS:
        if ms >= unit:
            amount, exact = _amount(ms, unit)
            return f"{exact}{amount} {name}{'' if amount == '1' else 's'}"
    return f"{ms} ms"


def size(number: int) -> str:
    """Bytes in words: ``1 GiB``, ``~1.4 MiB``, ``512 bytes``."""
    for unit, name in _SIZES:
        if number >= unit:
            amount, exact = _amount(number, unit)
            return f"{exact}{amount} {name}"
    return count(number, "byte")


def count(number: int, noun: str) -> str:
    """``1 topic``, ``812 topics``, ``12,000 partitions``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _amount(value: int, unit: int) -> tuple[str, str]:
    if value % unit == 0:
        return f"{value // unit:,}", ""
    return f"{value / unit:,.1f}".removesuffix(".0"), "~"
