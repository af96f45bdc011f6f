"""Values of one topic config, exactly as Kafka reads them: parse, check, compare, convert.

There are two degrees of strictness. ``check_value`` and ``is_equivalent`` read values exactly as Kafka does, since
values that another client stored must be readable. ``check_manifest_value`` refuses values that Kafka accepts but that
no manifest should hold.

Manifests may write a config value as text, number or boolean; Kafka stores text. ``to_config_text`` converts a value
when specs are merged, so that all later comparisons are between texts. Names and bounds are in ``config_table``, rules
between keys in ``config_rules``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from math import inf, isnan

from topiarist.kafka.config_table import MAX_BY_TYPE, MESSAGE_FORMAT_VERSIONS, TOPIC_CONFIGS, ConfigDef
from topiarist.kafka.types import KAFKA_VERSIONS, MAX_KAFKA_VERSION, KafkaVersion, format_version, parse_version
from topiarist.text import escape, quote

# Java's parsing of numbers and booleans, where Python's own ``int`` and ``float`` differ.
#
# Kafka's config values and the replica lists of its command line are text that Java parses. Python would accept
# ``1_000`` and refuse ``0.5f``; these functions accept exactly what Java accepts (tested against Java 17).

_ASCII_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_NAN_OR_INFINITY = re.compile(r"[+-]?(?:NaN|Infinity)")
_TRIMMED_CHARACTERS = "".join(map(chr, range(0x21)))
_TOO_MANY_DIGITS = 20
"""A number of significant digits that no 64-bit number has."""


def java_trim(text: str) -> str:
    """Trim text as ``String.trim`` does: remove all characters up to U+0020 from both ends, and no other blanks."""
    return text.strip(_TRIMMED_CHARACTERS)


def java_split(text: str, separator: str) -> list[str]:
    """Split text as ``String.split`` does without a limit.

    Empty parts at the end are dropped, but empty text is one empty part.
    """
    parts = text.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts


def parse_integer(text: str, *, limit: int) -> int:
    """Parse an integer as ``Integer.parseInt`` or ``Long.parseLong`` does: an optional sign and digits of any script.

    The value must be in the range ``-limit - 1`` to ``limit``. Raises ``ValueError`` with the found and the wanted
    value.
    """
    plain = text if _ASCII_INTEGER.fullmatch(text) else _to_ascii_digits(text)
    digits = plain.lstrip("+-").lstrip("0") or "0"
    value = int(digits) if len(digits) < _TOO_MANY_DIGITS else limit + 2
    value = -value if plain.startswith("-") else value
    if not -limit - 1 <= value <= limit:
        raise ValueError(f"found {quote_unless_integer(text)}, wanted {-limit - 1} to {limit}")
    return value


def parse_double(text: str) -> float:
    """Parse a number as ``Double.parseDouble`` does.

    Accepts decimal and hexadecimal numbers with an optional type suffix, ``NaN`` and ``Infinity``. Raises
    ``ValueError`` with the found value.
    """
    plain = java_trim(text)
    body = plain[:-1] if plain[-1:] in ("f", "F", "d", "D") else plain
    if _DECIMAL.fullmatch(body) or _NAN_OR_INFINITY.fullmatch(plain):
        return float(body if _DECIMAL.fullmatch(body) else plain)
    # The letters f and d are hexadecimal digits too, but never in the exponent, which is mandatory.
    if _HEXADECIMAL.fullmatch(body):
        return _parse_hexadecimal(body)
    raise ValueError(f"found {quote_unless_integer(text)}, wanted a number")


def parse_boolean(text: str) -> bool:
    """Parse ``true`` or ``false`` in any case, as Java does.

    Java converts each character to upper case, then to lower case, so U+017F equals ``s``. Raises ``ValueError`` with
    the found value.
    """
    folded = "".join(character.upper().lower() for character in text)
    if len(folded) != len(text) or folded not in ("true", "false"):
        raise ValueError(f"found {quote_unless_integer(text)}, wanted true or false")
    return folded == "true"


def format_double(value: float) -> str:
    """Format a number as ``Double.toString`` does: ``1.0``, ``0.001``, ``1.0E-4``, ``NaN``."""
    if isnan(value):
        return "NaN"
    if value in (inf, -inf):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    number = Decimal(repr(value)).normalize()
    first, *others = number.as_tuple().digits
    return f"{'-' if value < 0 else ''}{first}.{''.join(map(str, others)) or '0'}E{number.adjusted()}"


def _to_ascii_digits(text: str) -> str:
    sign, digits = (text[:1], text[1:]) if text[:1] in ("+", "-") else ("", text)
    # Java reads 16-bit units, so it does not accept digits beyond the basic plane.
    values = [unicodedata.decimal(digit, -1) if digit <= "\uffff" else -1 for digit in digits]
    if not values or -1 in values:
        raise ValueError(f"found {quote_unless_integer(text)}, wanted a whole number")
    return sign + "".join(map(str, values))


def _parse_hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return -inf if text.startswith("-") else inf


def quote_unless_integer(text: str) -> str:
    """Return text for a message: an integer unchanged, other text in quotes, long text shortened."""
    if len(text) > 60:
        return f"{escape(text[:40])}... ({len(text)} characters)"
    return text if _ASCII_INTEGER.fullmatch(text) else escape(text)


# Units of config values in manifests: ``retention.ms: 7d``, ``segment.bytes: 100MiB``.
#
# ``to_config_text`` replaces a value with a unit by the number that Kafka stores, in milliseconds or
# bytes, so that no later module meets a unit; ``desired.export`` writes units on request. Each such value is text in
# every YAML version, so that kubectl reads it as topiarist does. The part of a config's name after the last dot decides
# whether the value is a time (``ms``) or a size (``bytes``).

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
