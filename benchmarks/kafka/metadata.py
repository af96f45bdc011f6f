"""Kafka's Metadata request, which every client sends before it uses a topic, and ListOffsets, to a given broker.

A broker in KRaft mode names the leaders of new partitions before it has made their logs. It answers ListOffsets with an
error until then, as it does writes and reads.

A client library would need a separate process, and would choose the broker itself. This sends the request to each
broker, for few topics at a time, so that it is no load.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

_METADATA_API_KEY, _METADATA_API_VERSION = 3, 1
_LIST_OFFSETS_API_KEY, _LIST_OFFSETS_API_VERSION = 2, 1
_LATEST = -1
_BATCH_SIZE = 200
_TIMEOUT_S = 120.0


class _Reader:
    """A reader of the values of a response, in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offset = 0

    def int16(self) -> int:
        return self._unpack("!h")

    def int32(self) -> int:
        return self._unpack("!i")

    def text(self) -> str:
        length = self.int16()
        self._offset += max(length, 0)
        return self._data[self._offset - max(length, 0) : self._offset].decode()

    def skip(self, count: int) -> None:
        self._offset += count

    def _unpack(self, form: str) -> int:
        found: int = struct.unpack_from(form, self._data, self._offset)[0]
        self._offset += struct.calcsize(form)
        return found


class BrokerConnection:
    """A connection to one broker; closed by ``with``."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def count_leaders(self, topics: Sequence[str]) -> dict[str, int]:
        """Return how many partitions of each topic have a leader for this broker; 0 for an unknown topic."""
        body = struct.pack("!i", len(topics)) + b"".join(map(_encode_text, topics))
        reader = self._call(_METADATA_API_KEY, _METADATA_API_VERSION, body)
        for _ in range(reader.int32()):
            reader.int32(), reader.text(), reader.int32(), reader.text()  # a broker
        reader.int32()  # the controller
        return dict(_read_topic(reader) for _ in range(reader.int32()))

    def find_served(self, topics: Mapping[str, int]) -> set[tuple[str, int]]:
        """Return the partitions of these topics, given by their number, that this broker serves as their leader."""
        body = struct.pack("!ii", -1, len(topics))
        for name, count in topics.items():
            partitions = b"".join(struct.pack("!iq", number, _LATEST) for number in range(count))
            body += _encode_text(name) + struct.pack("!i", count) + partitions
        reader = self._call(_LIST_OFFSETS_API_KEY, _LIST_OFFSETS_API_VERSION, body)
        served = set()
        for _ in range(reader.int32()):
            name = reader.text()
            for _ in range(reader.int32()):
                number, error = reader.int32(), reader.int16()
                reader.skip(16)  # a time and an offset
                if not error:
                    served.add((name, number))
        return served

    def _call(self, api_key: int, version: int, body: bytes) -> _Reader:
        request = struct.pack("!hhi", api_key, version, 0) + _encode_text("benchmark") + body
        self._socket.sendall(struct.pack("!i", len(request)) + request)
        reader = _Reader(self._receive(struct.unpack("!i", self._receive(4))[0]))
        reader.int32()  # the request's number
        return reader

    def _receive(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            piece = self._socket.recv(count - len(found))
            if not piece:
                raise ConnectionError("the broker has closed the connection")
            found += piece
        return bytes(found)


class PendingTopics(NamedTuple):
    """The topics, with their partitions, that a broker does not yet report with leaders."""

    broker: BrokerConnection
    topics: dict[str, int]

    def poll(self) -> None:
        """Request the next topics until one of them is not ready."""
        while self.topics:
            names = list(self.topics)[:_BATCH_SIZE]
            ready = [name for name, led in self.broker.count_leaders(names).items() if led >= self.topics[name]]
            for name in ready:
                del self.topics[name]
            if len(ready) < len(names):
                return


class UnservedTopics:
    """The topics, with their partitions, that are not yet served by a leader of each partition."""

    def __init__(self, brokers: Sequence[BrokerConnection], topics: Mapping[str, int]) -> None:
        self._brokers = brokers
        self._topics = dict(topics)

    def poll(self) -> bool:
        """Ask for the next topics until one of them is not served; return whether all are."""
        while self._topics:
            asked = dict(list(self._topics.items())[:_BATCH_SIZE])
            served = set().union(*(broker.find_served(asked) for broker in self._brokers))
            ready = [name for name, count in asked.items() if all((name, one) in served for one in range(count))]
            for name in ready:
                del self._topics[name]
            if len(ready) < len(asked):
                return False
        return True


def make_pending(brokers: Sequence[BrokerConnection], topics: Mapping[str, int]) -> list[PendingTopics]:
    """Return all topics, by their number of partitions, for all brokers."""
    return [PendingTopics(broker, dict(topics)) for broker in brokers]


def _encode_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("!h", len(data)) + data


def _read_topic(reader: _Reader) -> tuple[str, int]:
    """Return a topic's name, and how many of its partitions have a leader."""
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
