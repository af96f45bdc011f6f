"""Values of one topic config, exactly as Kafka reads them: parse, check, compare, convert.

There are two degrees of strictness. ``check_value`` and ``is_equivalent`` read values exactly as Kafka does, since
values that another client stored must be readable. ``check_manifest_value`` refuses values that Kafka accepts but that
no manifest should hold.

Manifests may write a config value as text, number or boolean; Kafka stores text. ``to_config_text`` converts a value
when specs are merged, so that all later comparisons are between texts. Java's number formats are in ``java_numbers``,
names and bounds in ``config_table``; rules between keys are in ``config_rules``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache

from topiarist.kafka.config_table import MAX_BY_TYPE, MESSAGE_FORMAT_VERSIONS, TOPIC_CONFIGS, ConfigDef
from topiarist.kafka.java_numbers import (
    format_double,
    java_split,
    java_trim,
    parse_boolean,
    parse_double,
    parse_integer,
    quote_unless_integer,
)
from topiarist.kafka.types import KAFKA_VERSIONS, MAX_KAFKA_VERSION, KafkaVersion, format_version, parse_version
from topiarist.kafka.units import replace_unit
from topiarist.text import escape, quote

ConfigValue = bool | int | float | str | frozenset[str]
"""A parsed value: equal values are equal to Kafka. Lists become sets, since Kafka ignores order and repetition."""

_CACHE_SIZE = 1 << 12
"""Results in each cache: more than the distinct values of a large cluster, so that a run parses each value once."""

_MANY_DIGITS = len(str(MAX_BY_TYPE["long"]))

_COMMA = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
_THROTTLED_REPLICA = re.compile(r"(?:[0-9]+:[0-9]+)?")
_PLAIN_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@lru_cache(maxsize=_CACHE_SIZE)
def check_value(name: str, text: str, version: KafkaVersion = MAX_KAFKA_VERSION) -> str:
    """Return why a Kafka version refuses ``text`` for a config (found, wanted); empty if Kafka accepts it.

    Follows Kafka's parser and validators exactly, so ``0.5f`` and ``NaN`` are valid for a ratio; see
    ``check_manifest_value``. A config that the version has dropped is checked as the last version with it does.
    """
    definition = TOPIC_CONFIGS.get(name)
    if definition is None:
        return "Kafka has no such topic config"
    if definition.since > version:
        return f"exists since Kafka {format_version(definition.since)}, wanted one of {format_version(version)}"
    if definition.removed is not None:
        version = min(version, KAFKA_VERSIONS[KAFKA_VERSIONS.index(definition.removed) - 1])
    value, problem = try_parse_value(name, text)
    if problem and definition.type in MAX_BY_TYPE:
        largest, least = MAX_BY_TYPE[definition.type], definition.minimum_for(version)
        least = -largest - 1 if least is None else least
        most = largest if definition.maximum is None else definition.maximum
        besides = f", or {definition.also_allowed}" if definition.also_allowed is not None else ""
        found = quote_unless_integer(java_trim(text))
        return f"found {found}, wanted a whole number from {least} to {most}{besides}"
    return problem or _check_bounds(definition, text, value, version)


def parse_value(name: str, text: str) -> ConfigValue:
    """Parse ``text`` for a known config, so that texts with the same meaning give equal values.

    Bounds and lists of valid words are not checked: ``check_value`` does that. Raises ``ValueError`` with the found and
    the wanted value, and ``KeyError`` for a name that Kafka does not know.
    """
    value, problem = try_parse_value(name, text)
    if problem:
        raise ValueError(problem)
    return value


def is_equivalent(name: str, text: str, other: str) -> bool:
    """Return whether two texts mean the same to Kafka.

    Values of unknown configs and invalid values are compared as trimmed text.
    """
    if text == other or java_trim(text) == java_trim(other):
        return True
    if name not in TOPIC_CONFIGS:
        return False
    left, right = try_parse_value(name, text), try_parse_value(name, other)
    return not left[1] and left == right


def canonical_text(name: str, text: str) -> str:
    """Return a valid value as Kafka's own tools show it: ``0.50`` as ``0.5``, lists without blanks.

    Raises ``ValueError`` and ``KeyError`` as ``parse_value`` does.
    """
    value = parse_value(name, text)
    match TOPIC_CONFIGS[name].type:
        case "boolean" | "int" | "long":
            return str(value).lower()
        case "double":
            return format_double(float(str(value)))
        case "words" | "throttle":
            return ",".join(_split_list(text))
        case _:
            return java_trim(text)


def check_manifest_value(name: str, text: str) -> str:
    """Return why a manifest must not hold a text that Kafka accepts; empty if it may, or if ``check_value`` refuses it.

    Refused are digits of other scripts, type suffixes, hexadecimal fractions and ``NaN``, since other programs read
    them differently. Numbers below ``min_loadable`` are refused too: the broker throws when it creates the log, hosts
    none of the topics of the same request, and does not start again. ``,*`` is valid in newer versions, but brokers of
    2.4 throw on it.
    """
    definition = TOPIC_CONFIGS.get(name)
    if definition is None:
        return ""
    if not text.isascii():
        return f"found {escape(text)}, wanted ASCII characters only"
    if definition.type == "double" and not _PLAIN_DOUBLE.fullmatch(java_trim(text)):
        return f"found {quote(text)}, wanted a plain decimal number"
    if definition.type == "throttle" and "*" in text and java_trim(text) != "*":
        return f"found {quote(text)}, wanted * alone"
    least, (value, problem) = definition.min_loadable, try_parse_value(name, text)
    if least is not None and not problem and isinstance(value, int) and value < least:
        return f"found {java_trim(text)}, wanted {least} or more: with less no broker can host the topic"
    return ""


@lru_cache(maxsize=_CACHE_SIZE)
def try_parse_value(name: str, text: str) -> tuple[ConfigValue, str]:
    """Return the value of a text for a known config, and an error message.

    The message is empty if the text is valid; otherwise the value must not be used.
    """
    try:
        return _PARSERS[TOPIC_CONFIGS[name].type](java_trim(text)), ""
    except ValueError as error:
        return "", str(error)


def _split_list(text: str) -> list[str]:
    plain = java_trim(text)
    return _COMMA.split(plain) if plain else []


def _significant_version(text: str) -> str:
    """Return the part of a version that Kafka compares: two numbers, or three if the first is 0."""
    parts, counted = java_split(text, "."), 3 if text.startswith("0.") else 2
    return text if len(parts) <= counted else ".".join(parts[:counted])


_PARSERS: Mapping[str, Callable[[str], ConfigValue]] = {
    "boolean": parse_boolean,
    "int": lambda text: parse_integer(text, limit=MAX_BY_TYPE["int"]),
    "long": lambda text: parse_integer(text, limit=MAX_BY_TYPE["long"]),
    "double": parse_double,
    "word": str,
    "words": lambda text: frozenset(_split_list(text)),
    "throttle": lambda text: frozenset(filter(None, _split_list(text))),
    "version": _significant_version,
}


def _check_bounds(definition: ConfigDef, text: str, value: ConfigValue, version: KafkaVersion) -> str:
    """Return why Kafka's validator refuses a parsed value; empty if it accepts the value."""
    match definition.type:
        case "int" | "long" | "double":
            return _check_range(definition, text, float(str(value)), version)
        case "word" | "words":
            items = [value] if isinstance(value, str) else _split_list(text)
            unknown = sorted(set(items).difference(definition.valid_values))
            if unknown:
                found = quote(unknown[0]) if unknown[0] or len(items) == 1 else f"an empty item in {quote(text)}"
                number = "any" if definition.type == "words" else "one"
                return f"found {found}, wanted {number} of {', '.join(definition.valid_values)}"
        case "throttle":
            items = [java_trim(item) for item in _split_list(text)]
            odd = [item for item in items if not _THROTTLED_REPLICA.fullmatch(item)]
            # Kafka joins the items before it compares with the star, so ",*" passes too.
            if odd and java_trim("".join(items)) != "*":
                return f"found {quote(odd[0])}, wanted * alone, or partition:broker items with commas between"
        case "version":
            if not _is_valid_format_version(str(value), version):
                newest = format_version(version)
                example = f"{newest} or {newest}-IV{MESSAGE_FORMAT_VERSIONS[newest]}"
                return f"found {quote(text)}, wanted a Kafka version of at most {newest}, such as {example}"
    return ""


def _check_range(definition: ConfigDef, text: str, number: float, version: KafkaVersion) -> str:
    least, most = definition.minimum_for(version), definition.maximum
    # Written so that NaN passes, as it does in Kafka.
    if number == definition.also_allowed or not (
        (least is not None and number < least) or (most is not None and number > most)
    ):
        return ""
    besides = f"{definition.also_allowed}, or " if definition.also_allowed is not None else ""
    wanted = f"{least} or more" if most is None else f"{besides}{least} to {most}"
    return f"found {java_trim(text)}, wanted {wanted}"


def is_number_within_bounds(definition: ConfigDef, text: str, version: KafkaVersion) -> bool:
    """Return whether a text is a whole number in plain digits that both checks accept; False if that is not certain."""
    if definition.since > version or definition.removed is not None or definition.type not in MAX_BY_TYPE:
        return False
    if not (text.isascii() and text.isdigit() and len(text) < _MANY_DIGITS):
        return False
    number = int(text)
    least, most = definition.minimum_for(version) or 0, definition.maximum
    most = MAX_BY_TYPE[definition.type] if most is None else most
    return max(least, definition.min_loadable or 0) <= number <= most


def _is_valid_format_version(text: str, kafka_version: KafkaVersion) -> bool:
    version, _, step = text.partition("-IV")
    if version not in MESSAGE_FORMAT_VERSIONS:
        return False
    if not version.startswith("0.") and parse_version(version) > kafka_version:
        return False
    last = MESSAGE_FORMAT_VERSIONS[version]
    return text == version or (last is not None and step in map(str, range(last + 1)))


def has_equivalent_value(stored: Mapping[str, str], key: str, text: str) -> bool:
    """Return whether ``stored`` has ``key`` with a value that means the same to Kafka as ``text``."""
    now = stored.get(key)
    return now is not None and is_equivalent(key, now, text)


Scalar = str | int | bool | Decimal
"""A config value in a manifest; a fraction is a ``Decimal`` so that it keeps its digits."""

PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
PLAIN_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")
_MAX_INTEGER_LENGTH = len(str(-(2**63)))


def to_config_text(name: str, value: Scalar) -> str:
    """Return Kafka's text of a config's value in a manifest: ``true`` or ``false``, all digits of a number, or text.

    Text is trimmed as Java does it (everything up to U+0020), and a time or size with a unit becomes its number. A
    fraction keeps the written digits: ``0.50`` does not become ``0.5``, and no fraction gets an exponent.
    """
    if isinstance(value, str):
        text = java_trim(value)
        # A value with a unit begins with a digit, and other text is most of the values.
        return replace_unit(name, text) if text[:1].isdigit() and not text.isdigit() else text
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else format(value, "f")


def to_scalar(text: str) -> Scalar:
    """Return the boolean, whole number or fraction that ``to_config_text`` converts to ``text``, else ``text`` itself.

    Numbers are limited to values that every reader of YAML and JSON keeps: whole numbers of 64 bits, and fractions that
    a float can hold. Negative zero stays text.
    """
    if text in ("true", "false"):
        return text == "true"
    if PLAIN_INTEGER.fullmatch(text):
        return int(text) if len(text) <= _MAX_INTEGER_LENGTH and is_kept_number(int(text)) else text
    if PLAIN_FRACTION.fullmatch(text) and is_kept_number(value := Decimal(text)):
        return text if text.startswith("-") and not value else value
    return text


def is_kept_number(value: int | Decimal) -> bool:
    """Return whether every reader of YAML and JSON keeps a number: 64 bits, or a fraction that a float can hold."""
    return -(2**63) <= value < 2**63 if isinstance(value, int) else value == Decimal(repr(float(value)))
