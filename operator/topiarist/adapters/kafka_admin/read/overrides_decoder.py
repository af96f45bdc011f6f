"""A decoder of DescribeConfigs answers that keeps only the overrides of topics.

A broker answers with every config of every topic, and almost none is an override: of ten thousand topics it is 13 MB,
and kafka-python makes an object of each entry. This decoder steps over what is not kept, which takes a tenth of the
time. It decodes version 4, which every broker from Kafka 2.7 on serves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

VERSION = 4
"""The version of the answer."""

OVERRIDE = 1
"""The source of a config that the topic itself sets."""

_HEADER_BYTES = 4 + 1 + 4  # correlation id, tagged fields of the header, throttle time
_TOO_MANY = 1 << 28
_LONG = 128  # a length from here on has more than one byte

_PLAIN_ENDS = frozenset(bytes((1, config_type, 0, 0)) for config_type in range(10))
"""The end of an entry without synonyms, documentation and tagged fields: all that topiarist asks for."""


class MalformedAnswer(ValueError):
    """The bytes are not a DescribeConfigs answer."""


class TopicOverrides(NamedTuple):
    """The overrides of one topic, or the error of the broker for it: a code that is not 0, and its message."""

    name: str
    config: dict[str, str]
    error_code: int
    error_message: str


def decode_overrides(data: bytes) -> Iterator[TopicOverrides]:
    """Yield the overrides of each topic of an answer, header included. Raises ``MalformedAnswer``."""
    try:
        yield from _decode(data)
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedAnswer(str(error)) from error


def _decode(data: bytes) -> Iterator[TopicOverrides]:
    position = _HEADER_BYTES
    if len(data) < position or data[4]:
        raise MalformedAnswer("the header has tagged fields, or is cut off")
    results, position = read_length(data, position)
    for _ in range(results):
        code = int.from_bytes(data[position : position + 2], "big", signed=True)
        message, position = _read_text(data, position + 2)
        position += 1  # the type of the resource
        name, position = _read_text(data, position)
        entries, position = read_length(data, position)
        config: dict[str, str] = {}
        for _ in range(entries):
            # Nearly every entry is short and plain. Its length is one byte for each text, and 7 bytes follow.
            key_size = data[position]
            value_at = position + (key_size or 1)
            value_size = data[value_at]
            after = value_at + (value_size or 1)
            if key_size < _LONG and value_size < _LONG and data[after + 3 : after + 7] in _PLAIN_ENDS:
                if data[after + 1] == OVERRIDE:
                    config[data[position + 1 : value_at].decode()] = data[value_at + 1 : after].decode()
                position = after + 7
                continue
            key_start, key_end = read_span(data, position)
            value_start, value_end = read_span(data, key_end)
            source = data[value_end + 1]  # after the flag for a config that is read only
            if source == OVERRIDE:
                config[data[key_start:key_end].decode()] = data[value_start:value_end].decode()
            position = value_end + 3  # the source, and the flag for a sensitive config
            synonyms, position = read_length(data, position)
            for _ in range(synonyms):
                _, position = read_span(data, position)
                _, position = read_span(data, position)
                position = skip_tags(data, position + 1)
            _, position = read_span(data, position + 1)  # the type of the config, its documentation
            position = skip_tags(data, position)
        position = skip_tags(data, position)
        yield TopicOverrides(name or "", config, code, message or "")
    position = skip_tags(data, position)
    if position != len(data):
        raise MalformedAnswer(f"{len(data) - position} bytes follow the answer")


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = data[position]
    if value < 128:
        return value, position + 1
    value &= 127
    for shift in (7, 14, 21, 28):
        position += 1
        byte = data[position]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position + 1
    raise MalformedAnswer("a length has more than five bytes")


def read_length(data: bytes, position: int) -> tuple[int, int]:
    """Return the number of elements of a list (a null list has none), and the position after it."""
    value, position = _read_varint(data, position)
    if value > _TOO_MANY:
        raise MalformedAnswer(f"a list has {value:,} elements")
    return max(value - 1, 0), position


def read_span(data: bytes, position: int) -> tuple[int, int]:
    """Return start and end of a text (a null text is empty)."""
    value, position = _read_varint(data, position)
    end = position + max(value - 1, 0)
    if end > len(data):
        raise MalformedAnswer("a text ends after the answer")
    return position, end


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    start, end = read_span(data, position)
    return data[start:end].decode(), end


def skip_tags(data: bytes, position: int) -> int:
    if not data[position]:
        return position + 1
    count, position = _read_varint(data, position)
    for _ in range(count):
        _, position = _read_varint(data, position)
        size, position = _read_varint(data, position)
        position += size
        if position > len(data):
            raise MalformedAnswer("a tagged field ends after the answer")
    return position
