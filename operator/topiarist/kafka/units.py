"""Units of config values in manifests: ``retention.ms: 7d``, ``segment.bytes: 100MiB``.

``config_values.to_config_text`` replaces a value with a unit by the number that Kafka stores, in milliseconds or bytes,
so that no later module meets a unit; ``desired.export`` writes units on request. Each such value is text in every YAML
version, so that kubectl reads it as topiarist does. The part of a config's name after the last dot decides whether the
value is a time (``ms``) or a size (``bytes``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from topiarist.kafka.config_table import TOPIC_CONFIGS

MS_BY_TIME_UNIT: Mapping[str, int] = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
"""Milliseconds of each unit of time, ascending: a day has 24 hours, a week 7 days. Months and years have no length."""

BYTES_BY_SIZE_UNIT: Mapping[str, int] = {
    "B": 1,
    "KB": 10**3,
    "KiB": 1 << 10,
    "MB": 10**6,
    "MiB": 1 << 20,
    "GB": 10**9,
    "GiB": 1 << 30,
    "TB": 10**12,
    "TiB": 1 << 40,
}
"""Bytes of each unit of size, ascending."""

_UNITS_BY_SUFFIX = {"ms": MS_BY_TIME_UNIT, "bytes": BYTES_BY_SIZE_UNIT}
_WRITTEN_UNITS = frozenset({"s", "m", "h", "d", "KiB", "MiB", "GiB", "TiB"})
_AMOUNT = re.compile(r"([0-9]{1,19})([A-Za-z]{1,3})")
_CONFIGS_WITH_UNITS = frozenset(
    name
    for definition in TOPIC_CONFIGS.values()
    for name in (definition.name, *definition.server_defaults)
    if name.rpartition(".")[2] in _UNITS_BY_SUFFIX
)


def units_of(name: str) -> Mapping[str, int]:
    """Return the units of a topic config or broker setting, ascending; none if it is no time or size that Kafka knows.

    A vendor's own config has no units: what it stores is not known.
    """
    return _UNITS_BY_SUFFIX[name.rpartition(".")[2]] if name in _CONFIGS_WITH_UNITS else {}


def parse_amount(text: str, units: Mapping[str, int]) -> int | None:
    """Return the number that a value with a unit means; None for other text."""
    found = _AMOUNT.fullmatch(text)
    return int(found[1]) * units[found[2]] if found and found[2] in units else None


def replace_unit(name: str, text: str) -> str:
    """Return the number of milliseconds or bytes of a value with a unit; other text is returned unchanged."""
    number = parse_amount(text, units_of(name))
    return text if number is None else str(number)


def add_unit(name: str, text: str) -> str:
    """Return a number with the largest unit that divides it, such as ``7d``; unchanged if digits are as short.

    ``replace_unit`` returns the same number. Weeks and decimal units are not used: two weeks are ``14d``.
    """
    if not (text.isascii() and text.isdigit()):
        return text
    number = int(text)
    for unit, size in reversed([*units_of(name).items()]):
        if number and number % size == 0 and unit in _WRITTEN_UNITS:
            return min(text, f"{number // size}{unit}", key=len)
    return text


def describe_units(name: str) -> str:
    """Return the advice for a value that is no number: the units of the config; empty if it has none."""
    units = units_of(name)
    example = "7d" if units is MS_BY_TIME_UNIT else "100MiB"
    return f"a number may have one of the units {', '.join(units)}, such as {example}" if units else ""
