"""Kafka's Metadata request, as any client sends it before it uses a topic; asked of one broker, and nothing else asked.

A client library would need a process of its own beside what is measured, and ask a broker of its own choice. This asks
each broker, and of few topics at a time, so that the question is no load.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

_METADATA, _VERSION = 3, 1
_AT_A_TIME = 200
_LIMIT = 120.0


class _Reader:
    """Values one after the other out of a response."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def int16(self) -> int:
        return self._number("!h")

    def int32(self) -> int:
        return self._number("!i")

    def text(self) -> str:
        length = self.int16()
        self._at += max(length, 0)
        return self._data[self._at - max(length, 0) : self._at].decode()

    def skip(self, count: int) -> None:
        self._at += count

    def _number(self, form: str) -> int:
        found: int = struct.unpack_from(form, self._data, self._at)[0]
        self._at += struct.calcsize(form)
        return found


class Broker:
    """A connection to one broker; closed by ``with``."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_LIMIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def led(self, topics: Sequence[str]) -> dict[str, int]:
        """How many partitions of each topic have a leader, as this broker knows it; 0 for one that it does not know."""
        body = struct.pack("!i", len(topics)) + b"".join(map(_text, topics))
        request = struct.pack("!hhi", _METADATA, _VERSION, 0) + _text("benchmark") + body
        self._socket.sendall(struct.pack("!i", len(request)) + request)
        reader = _Reader(self._read(struct.unpack("!i", self._read(4))[0]))
        reader.int32()  # the request's number
        for _ in range(reader.int32()):
            reader.int32(), reader.text(), reader.int32(), reader.text()  # a broker
        reader.int32()  # the controller
        return dict(_topic(reader) for _ in range(reader.int32()))

    def _read(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            piece = self._socket.recv(count - len(found))
            if not piece:
                raise ConnectionError("the broker has closed the connection")
            found += piece
        return bytes(found)


class Left(NamedTuple):
    """Topics, with their partitions, that a broker has not shown with leaders yet."""

    broker: Broker
    topics: dict[str, int]

    def look(self) -> None:
        """Ask for the next few until one of them is not ready."""
        while self.topics:
            names = list(self.topics)[:_AT_A_TIME]
            ready = [name for name, led in self.broker.led(names).items() if led >= self.topics[name]]
            for name in ready:
                del self.topics[name]
            if len(ready) < len(names):
                return


def left(brokers: Sequence[Broker], wanted: Mapping[str, int]) -> list[Left]:
    """All topics, by their number of partitions, for all brokers."""
    return [Left(broker, dict(wanted)) for broker in brokers]


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("!h", len(data)) + data


def _topic(reader: _Reader) -> tuple[str, int]:
    """A topic's name, and how many of its partitions have a leader."""
    reader.int16()  # an error stands for no partitions
    name = reader.text()
    reader.skip(1)  # whether it is Kafka's own
    led = 0
    for _ in range(reader.int32()):
        error, _, leader = reader.int16(), reader.int32(), reader.int32()
        led += not error and leader >= 0
        for _ in range(2):  # replicas, in-sync replicas
            reader.skip(4 * reader.int32())
    return name, led
