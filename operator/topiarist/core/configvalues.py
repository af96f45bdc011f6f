"""What the text of one topic config means, exactly as Kafka reads it: parse, check against its bounds, compare.

The lower half of ``configs``, which is the door to it. Values are always text, as in ZooKeeper; Java's ways with
numbers are in ``javatext``, names and bounds in ``configtable``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from topiarist.core.configdefs import LIMITS, VERSIONS, ConfigDef
from topiarist.core.configtable import CONFIGS
from topiarist.core.javatext import as_found, boolean, double, double_text, integer, split, trim
from topiarist.core.quoting import escaped, quoted
from topiarist.core.state import Release

Value = bool | int | float | str | frozenset[str]
"""What a text means: equal values are equal to Kafka. Lists are sets: order and repetition mean nothing in them."""

NEWEST: Release = (3, 9)
_MEMORY = 1 << 12
"""Results kept: more than the distinct values of a large cluster, so that each is read once in a run."""

_COMMA = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
_THROTTLED = re.compile(r"(?:[0-9]+:[0-9]+)?")
_PLAIN_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@lru_cache(maxsize=_MEMORY)
def check(name: str, text: str, release: Release = NEWEST) -> str:
    """Say why a Kafka release refuses ``text`` for a config: what was found and what is wanted; empty if it takes it.

    Kafka's parser and validators to the letter, so ``0.5f`` and ``NaN`` are fine for a ratio; see ``stricter``.
    """
    definition = CONFIGS.get(name)
    if definition is None:
        return "Kafka has no such topic config"
    if definition.since > release:
        return "exists since Kafka {}.{}, wanted one of {}.{}".format(*definition.since, *release)
    value, problem = read(name, text)
    if problem and definition.form in LIMITS:
        return f"found {as_found(trim(text))}, wanted a whole number{_whole_numbers(definition, release)}"
    return problem or _out_of_bounds(definition, text, value, release)


def parse(name: str, text: str) -> Value:
    """What ``text`` means for a known config, so that equal meanings are equal values.

    Bounds and lists of words are not looked at: that is ``check``. Raises ``ValueError`` with what was found and
    wanted, ``KeyError`` for a name that Kafka does not know.
    """
    value, problem = read(name, text)
    if problem:
        raise ValueError(problem)
    return value


def equal(name: str, one: str, other: str) -> bool:
    """Whether two texts mean the same to Kafka. Unknown names and text that cannot be read compare as trimmed text."""
    if one == other or trim(one) == trim(other):
        return True
    if name not in CONFIGS:
        return False
    left, right = read(name, one), read(name, other)
    return not left[1] and left == right


def canonical_text(name: str, text: str) -> str:
    """The form in which Kafka's own tools show a readable value: ``0.50`` as ``0.5``, lists without blanks.

    Raises ``ValueError`` as ``parse`` does.
    """
    value = parse(name, text)
    match CONFIGS[name].form:
        case "boolean" | "int" | "long":
            return str(value).lower()
        case "double":
            return double_text(float(str(value)))
        case "words" | "throttle":
            return ",".join(_items(text))
        case _:
            return trim(text)


def stricter(name: str, text: str) -> str:
    """Say why a manifest must not hold a text that Kafka would take; empty if it may (or if ``check`` has to say it).

    Digits of other scripts, type suffixes, hexadecimal fractions and ``NaN`` are accidents waiting for another reader.
    Below ``hosted`` a broker throws when it makes the log, hosts none of the topics that it was told of at the same
    time, and does not start again. ``,*`` passes in newer releases; brokers of 2.4 throw on it.
    """
    definition = CONFIGS.get(name)
    if definition is None:
        return ""
    if not text.isascii():
        return f"found {escaped(text)}, wanted ASCII characters only"
    if definition.form == "double" and not _PLAIN_DOUBLE.fullmatch(trim(text)):
        return f"found {quoted(text)}, wanted a plain decimal number"
    if definition.form == "throttle" and "*" in text and trim(text) != "*":
        return f"found {quoted(text)}, wanted * alone"
    if definition.hosted is not None and _below(name, text, definition.hosted):
        return f"found {trim(text)}, wanted {definition.hosted} or more: with less no broker can host the topic"
    return ""


def _below(name: str, text: str, least: int) -> bool:
    value, problem = read(name, text)
    return not problem and isinstance(value, int) and value < least


@lru_cache(maxsize=_MEMORY)
def read(name: str, text: str) -> tuple[Value, str]:
    """The value of a text for a known config, and what is wrong with it (then the value means nothing)."""
    try:
        return _READERS[CONFIGS[name].form](trim(text)), ""
    except ValueError as error:
        return "", str(error)


def _items(text: str) -> list[str]:
    plain = trim(text)
    return _COMMA.split(plain) if plain else []


def _version_key(text: str) -> str:
    """The part of a version that counts: two numbers (three if the first is 0), what follows a further dot does not."""
    parts, counted = split(text, "."), 3 if text.startswith("0.") else 2
    return text if len(parts) <= counted else ".".join(parts[:counted])


_READERS: Mapping[str, Callable[[str], Value]] = {
    "boolean": boolean,
    "int": lambda text: integer(text, limit=LIMITS["int"]),
    "long": lambda text: integer(text, limit=LIMITS["long"]),
    "double": double,
    "word": str,
    "words": lambda text: frozenset(_items(text)),
    "throttle": lambda text: frozenset(filter(None, _items(text))),
    "version": _version_key,
}


def _out_of_bounds(definition: ConfigDef, text: str, value: Value, release: Release) -> str:
    """What a validator of Kafka's says of a value that could be read."""
    match definition.form:
        case "int" | "long" | "double":
            return _outside(definition, text, float(str(value)), release)
        case "word" | "words":
            return _bad_words(definition, [value] if isinstance(value, str) else _items(text), text)
        case "throttle":
            return _bad_throttle(text)
        case "version":
            return "" if _is_version(str(value), release) else _bad_version(text, release)
        case _:
            return ""


def _outside(definition: ConfigDef, text: str, number: float, release: Release) -> str:
    least, most = definition.lowest(release), definition.maximum
    # Written so that NaN passes, as it does in Kafka.
    if number == definition.besides or not (
        (least is not None and number < least) or (most is not None and number > most)
    ):
        return ""
    besides = f"{definition.besides}, or " if definition.besides is not None else ""
    wanted = f"{least} or more" if most is None else f"{besides}{least} to {most}"
    return f"found {trim(text)}, wanted {wanted}"


def _whole_numbers(definition: ConfigDef, release: Release) -> str:
    """The whole numbers that a config takes, where what was found is none of any kind or does not fit its type."""
    largest, least = LIMITS[definition.form], definition.lowest(release)
    besides = f", or {definition.besides}" if definition.besides is not None else ""
    most = largest if definition.maximum is None else definition.maximum
    return f" from {-largest - 1 if least is None else least} to {most}{besides}"


def _bad_words(definition: ConfigDef, items: list[str], text: str) -> str:
    odd = sorted(set(items).difference(definition.words))
    if not odd:
        return ""
    found = quoted(odd[0]) if odd[0] or len(items) == 1 else f"an empty item in {quoted(text)}"
    return f"found {found}, wanted {_choice(definition)}"


def _bad_version(text: str, release: Release) -> str:
    newest = f"{release[0]}.{release[1]}"
    wanted = f"a Kafka version of at most {newest}, such as {newest} or {newest}-IV{VERSIONS[newest]}"
    return f"found {quoted(text)}, wanted {wanted}"


def _choice(definition: ConfigDef) -> str:
    joint = "any of " if definition.form == "words" else "one of "
    return joint + ", ".join(definition.words)


def _bad_throttle(text: str) -> str:
    items = [trim(item) for item in _items(text)]
    # Kafka joins the items before it compares with the star, so ",*" passes too.
    if trim("".join(items)) == "*" or all(map(_THROTTLED.fullmatch, items)):
        return ""
    odd = next(item for item in items if not _THROTTLED.fullmatch(item))
    return f"found {quoted(odd)}, wanted * alone, or partition:broker items with commas between"


def _is_version(key: str, release: Release) -> bool:
    version, _, step = key.partition("-IV")
    if version not in VERSIONS:
        return False
    if not version.startswith("0.") and tuple(map(int, version.split("."))) > release:
        return False
    last = VERSIONS[version]
    return key == version or (last is not None and step in map(str, range(last + 1)))
