"""Decode what a member of a classic consumer group is subscribed to, and what it is assigned.

Both are bytes that the clients exchange; a broker stores them and does not check them. So whatever is not of the form
that Kafka's own consumers write is no error: the group is opaque, and nothing can be said about what it reads. The
topics come first in all versions of both forms, and what follows is not read.
"""

from __future__ import annotations

import struct

_MAX_VERSION = 32
_MAX_ITEMS = 1 << 20


class Undecodable(Exception):
    """Bytes that are not a subscription or an assignment of a consumer."""


def decode_subscription(data: bytes) -> frozenset[str]:
    """Return the subscribed topics. Raises ``Undecodable``."""
    count, position = _read_head(data)
    topics: set[str] = set()
    for _ in range(count):
        topic, position = _read_text(data, position)
        topics.add(topic)
    return frozenset(topics)


def decode_assignment(data: bytes) -> frozenset[str]:
    """Return the topics with an assigned partition; none for a member without an assignment. Raises ``Undecodable``."""
    if not data:
        return frozenset()
    count, position = _read_head(data)
    topics: set[str] = set()
    for _ in range(count):
        topic, position = _read_text(data, position)
        partitions = _read(">i", data, position)
        position += 4 + 4 * max(partitions, 0)
        if position > len(data):
            raise Undecodable("it ends early")
        if partitions > 0:
            topics.add(topic)
    return frozenset(topics)


def _read_head(data: bytes) -> tuple[int, int]:
    version, count = _read(">h", data, 0), _read(">i", data, 2)
    if not 0 <= version <= _MAX_VERSION or not 0 <= count <= _MAX_ITEMS:
        raise Undecodable("it is of another form")
    return count, 6


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    length, start = _read(">h", data, position), position + 2
    text = data[start : start + max(length, 0)]
    if length <= 0 or len(text) != length:
        raise Undecodable("it has no topic name where one is due")
    try:
        return text.decode(), start + length
    except UnicodeDecodeError:
        raise Undecodable("a topic name is not UTF-8") from None


def _read(form: str, data: bytes, position: int) -> int:
    try:
        return int(struct.unpack_from(form, data, position)[0])
    except struct.error:
        raise Undecodable("it ends early") from None
