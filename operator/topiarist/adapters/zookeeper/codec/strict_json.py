"""Strict JSON for znodes: stricter than Kafka's own parser, so that malformed content is never silently repaired.

Kafka accepts trailing text, takes the last of two equal keys, and treats unparsable text as absent. A writer that did
the same would write back other content than it read. ``ZnodeError`` is the only exception that leaves this package.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import msgspec

from topiarist.adapters.own_values import JsonError

MAX_ID = 2**31 - 1
"""The largest id of a broker or partition: Kafka's ids are Java ints."""


ZnodeError = JsonError
"""The error for content that neither Kafka nor topiarist writes to a znode; the text says why, without the path."""


def load_object(raw: bytes) -> dict[str, object]:
    """Return the JSON object in ``raw``.

    Raises ``ZnodeError`` unless it is UTF-8 without trailing text, duplicate keys, NaN and lone surrogates.
    """
    if not raw or raw.isspace():
        raise ZnodeError("it is empty")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ZnodeError(f"it is not UTF-8 (byte {error.start})") from None
    value = _parse(_FAST_DECODER, text)
    if type(value) is not dict:
        raise ZnodeError("it is not a JSON object")
    # Each key has one colon. If there are as many colons as keys, no key is duplicated and no string contains a colon.
    # Only escapes can produce a lone surrogate. All other text takes the slow path, which checks every object. Keys are
    # counted at two levels: Kafka's topic and config znodes have no deeper objects.
    keys = len(value) + sum([len(inner) for inner in value.values() if type(inner) is dict])
    if text.count(":") != keys or "\\" in text:
        value = _parse(_DUPLICATE_CHECKING_DECODER, text)
        dump_object(value)
    return value


def dump_object(value: Mapping[str, object]) -> bytes:
    """Return compact JSON as Kafka writes it, keys in the order given; raise ``ZnodeError`` if not encodable."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise ZnodeError("it contains a lone surrogate (half of a character)") from None
    except RecursionError:
        raise ZnodeError("it is nested too deeply") from None


def dump_texts(value: Mapping[str, object]) -> bytes:
    """Return what ``dump_object`` returns, in a tenth of the time; numbers must be integers of 64 bits."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return dump_object(value)  # which raises the error


def require_version(fields: Mapping[str, object], max_version: int) -> int:
    """Return the ``version`` field: an integer from 1 to ``max_version``. Raises ``ZnodeError`` for any other."""
    version = fields.get("version")
    if type(version) is not int or version < 1:
        raise ZnodeError(f'"version" must be a positive integer, not {format_value(version)}')
    if version > max_version:
        raise ZnodeError(f'"version" is {version}, and topiarist supports at most {max_version}')
    return version


def require_object(fields: Mapping[str, object], name: str) -> dict[str, object]:
    """Return the field ``name``; raise ``ZnodeError`` unless it is an object."""
    value = fields.get(name)
    if type(value) is not dict:
        raise ZnodeError(f'"{name}" must be an object, not {format_value(value)}')
    return value


def require_text(fields: Mapping[str, object], name: str) -> str:
    """Return the field ``name``; raise ``ZnodeError`` unless it is non-empty text."""
    value = fields.get(name)
    if type(value) is not str or not value:
        raise ZnodeError(f'"{name}" must be text, not {format_value(value)}')
    return value


def require_integer(fields: Mapping[str, object], name: str) -> int:
    """Return the field ``name``; raise ``ZnodeError`` unless it is an integer of 32 bits."""
    value = fields.get(name)
    if type(value) is not int or not -MAX_ID - 1 <= value <= MAX_ID:
        raise ZnodeError(f'"{name}" must be an integer of 32 bits, not {format_value(value)}')
    return value


def parse_id(text: str) -> int:
    """Return the broker or partition id in ``text``.

    Raises ``ZnodeError`` unless it is decimal as Kafka writes it: no sign, no leading zero, 31 bits.
    """
    if text.isascii() and text.isdigit() and len(text) <= 10 and (text[0] != "0" or text == "0"):
        number = int(text)
        if number <= MAX_ID:
            return number
    raise ZnodeError(f"{format_value(text)} is not an id (a decimal number from 0 to {MAX_ID})")


def format_value(value: object) -> str:
    """Return a value for a message: JSON, at most 60 characters, control characters escaped."""
    if value is None:
        return "missing or null"
    try:
        text = json.dumps(value, default=repr)
    except RecursionError:
        return "something nested deep"
    return text if len(text) <= 60 else text[:57] + "..."


def _parse(decoder: json.JSONDecoder, text: str) -> dict[str, object]:
    try:
        if text[0] == "{":
            value, end = decoder.raw_decode(text)
            if end == len(text):
                return value  # type: ignore[no-any-return]
        # Whitespace around the value is valid but rare; decode() accepts it and reports any other extra text.
        return decoder.decode(text)  # type: ignore[no-any-return]
    except ZnodeError:
        raise
    except RecursionError:
        raise ZnodeError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ZnodeError(f"it is not JSON ({error.msg} at character {error.pos + 1})") from None
    except ValueError:  # CPython's limit on the digits of an integer
        raise ZnodeError("it contains a number that is too large") from None


def _reject_duplicate_keys(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for key, value in pairs:
        if key in fields:
            raise ZnodeError(f"the key {format_value(key)} appears twice")
        fields[key] = value
    return fields


def _reject_constant(text: str) -> object:
    raise ZnodeError(f"it contains {text}, which is not JSON")


def _parse_finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ZnodeError("it contains a number that is too large")
    return number


_FAST_DECODER = json.JSONDecoder(parse_constant=_reject_constant, parse_float=_parse_finite_float)
_DUPLICATE_CHECKING_DECODER = json.JSONDecoder(
    parse_constant=_reject_constant, parse_float=_parse_finite_float, object_pairs_hook=_reject_duplicate_keys
)
