"""One connection to one broker: one request at a time, each with a deadline of its own.

A request is sent once, and the caller reads every error code of its answer.
"""

from __future__ import annotations

import select
import socket
import struct
import time
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from topiarist import __version__
from topiarist.adapters.kafka_admin.protocol.messages import (
    ApiVersionsRequest,
    MalformedMessage,
    decode_response,
    encode_request,
)
from topiarist.errors import Reason, TopiaristError

# Topic ids: 16 bytes in the protocol, and text of 22 characters in Kafka's tools and in topiarist's records.

NO_ID = uuid.UUID(int=0)
"""The id of no topic: of a topic that is named, in requests that accept either."""


def encode_topic_id(topic_id: object) -> str:
    """Return a topic id as Kafka's tools write it; empty for the id of no topic, and for what is not an id."""
    if not isinstance(topic_id, uuid.UUID) or topic_id == NO_ID:
        return ""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def decode_topic_id(text: str) -> uuid.UUID:
    """Return the id that ``encode_topic_id`` wrote; raise ``ValueError`` for other text."""
    return uuid.UUID(bytes=urlsafe_b64decode(f"{text}=="))


# The requests that topiarist sends, what it needs each for, and the versions that will do.
#
# A broker names the requests that it serves, with their versions. Services leave out some of them for good, so a
# request that is not offered is never sent, is never worth another try, and the error says what it was needed for. A
# version before ``Need.first`` lacks a field that counts, and the encoder drops such a field silently: CreateTopics
# before version 1 has no ``validate_only``, so that a question would create the topics.

Versions = Mapping[int, tuple[int, int]]
"""The lowest and highest version that a broker serves, by API key."""


class Need(NamedTuple):
    """The purpose of a request, and the first version with all fields that count for it."""

    purpose: str
    first: int = 0


TOPIC_IDS_VERSION = 10
"""The first version of Metadata with topic ids: Kafka 2.8 and later."""

DELETION_BY_ID_VERSION = 6
"""The first version of DeleteTopics that names topics by their ids: Kafka 2.8 and later."""

UPDATE_METADATA_KEY = 6
"""The API key of the request with which the controller of ZooKeeper mode updates brokers: no KRaft broker offers it."""

NEEDS: Mapping[str, Need] = {
    "SaslHandshake": Need("log in", 1),
    "SaslAuthenticate": Need("log in"),
    "Metadata": Need("read brokers and topics"),
    "DescribeConfigs": Need("read configs", 1),
    "DescribeQuorum": Need("know how old the metadata are"),
    "ListPartitionReassignments": Need("read reassignments in progress"),
    "DescribeCluster": Need("see fenced brokers", 2),
    "ListOffsets": Need("read offsets", 2),
    "Fetch": Need("read the records in its topic", 4),
    "FindCoordinator": Need("write its records", 1),
    "InitProducerId": Need("keep other runs from writing", 3),
    "AddPartitionsToTxn": Need("write its records"),
    "Produce": Need("write its records", 3),
    "EndTxn": Need("write its records"),
    "CreateTopics": Need("create topics", 1),
    "CreatePartitions": Need("add partitions"),
    "IncrementalAlterConfigs": Need("change configs"),
    "DeleteTopics": Need("delete topics", 1),
    "AlterPartitionReassignments": Need("move replicas"),
    "ElectLeaders": Need("elect leaders"),
}
_USAGE = Need("read the usage of topics")


class UnsupportedRequest(TopiaristError):
    """An error for a request that the broker does not offer in a version that will do; nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.PREREQUISITE_MISSING, message)


class Offering(Protocol):
    """A connection that knows what its broker offers."""

    def version_of(self, request: Any, at_most: int | None = None) -> int:
        """Return the version to send; raise ``UnsupportedRequest``."""


def name_of(request: Any) -> str:
    """Return the name of a request in Kafka's documentation."""
    return str(request.name).removesuffix("Request")


def choose_version(versions: Versions, request: Any, at_most: int | None = None) -> int:
    """Return the highest version of a request that both sides know; raise ``UnsupportedRequest``."""
    need, offered = NEEDS.get(name_of(request), _USAGE), versions.get(request.API_KEY)
    last = request.max_version if at_most is None else min(at_most, request.max_version)
    if offered is None:
        raise UnsupportedRequest(f"the brokers do not offer {name_of(request)}, which is needed to {need.purpose}")
    version = min(offered[1], last)
    if version < max(offered[0], need.first):
        found, wanted = _describe_range(*offered), _describe_range(need.first, last)
        message = f"the brokers offer {name_of(request)} in {found}, and {wanted} is needed to {need.purpose}"
        raise UnsupportedRequest(message)
    return int(version)


def _describe_range(low: int, high: int) -> str:
    return f"version {low}" if low == high else f"versions {low} to {high}"


CLIENT_ID = "topiarist"
"""The client id of every request, for logs and quotas of the brokers."""

MAX_ANSWER_BYTES = 256 << 20
"""Maximum size of an answer in bytes; what is larger is no answer of a broker."""

_CLOSED_BY_BROKER = "the broker closed the connection"

_FIRST_BUFFER_BYTES = 1 << 20

Message = Any
"""A request or an answer, or a part of one: an object of a class of ``protocol/messages.py``."""


class Features(NamedTuple):
    """The finalized features in an answer to ApiVersions: their names, and their epoch (-1 without features)."""

    names: frozenset[str] = frozenset()
    epoch: int = -1


class Disconnected(Exception):
    """The connection broke, or the answer is late: the outcome of a request that was sent is unknown.

    ``was_sent`` is false if no byte of the request can have reached the broker. ``is_late`` is true if the connection
    held, and no answer came within the deadline. ``hint`` is for the user.
    """

    def __init__(self, message: str, *, was_sent: bool, is_late: bool = False, hint: str = "run again") -> None:
        super().__init__(message)
        self.was_sent = was_sent
        self.is_late = is_late
        self.hint = hint


@contextmanager
def translate_errors(what: str = "the connection to a broker broke", hint: str = "") -> Iterator[None]:
    """Translate a broken connection into a ``TopiaristError``, with the hint of the error unless there is another."""
    try:
        yield
    except Disconnected as error:
        raise TopiaristError(Reason.UNREACHABLE, f"{what}: {error}", hint or error.hint) from error


class Connection:
    """An open connection, until it breaks or is closed; then every call raises ``Disconnected``.

    ``opened`` is a connected socket. ``timeout`` is the deadline of a request in seconds. ``versions`` are the lowest
    and highest versions that the broker serves, by API key, ``features`` those that it has finalized, both by the last
    answer to ApiVersions. ``requests`` counts requests by name and result (ok, lost). ``log_in_again`` is called before
    the first request after ``log_in_again_at`` (a time of the monotonic clock), and returns the next such time.
    ``leader_epochs`` are those in which the broker has told the end of partition 0 of a topic, as its leader.
    """

    def __init__(
        self, opened: socket.socket, *, timeout: float, requests: Counter[tuple[str, str]] | None = None
    ) -> None:
        self.requests: Counter[tuple[str, str]] = Counter() if requests is None else requests
        self.versions: Versions = {}
        self.features = Features()
        self.leader_epochs: dict[str, int] = {}
        self._timeout = timeout
        self._correlation_id = 0
        self._broken = ""
        self.log_in_again_at: float | None = None
        self.log_in_again: Callable[[], float | None] | None = None
        self._socket = opened

    def close(self) -> None:
        """Close the connection."""
        self._break("it was closed")

    @property
    def is_open(self) -> bool:
        """Return whether the connection can be used: neither side has closed it since the last request.

        A broker closes connections that were idle for minutes, and all when it ends. Then this closes it here too.
        """
        if not self._broken and self._is_closed_by_broker():
            self._break(_CLOSED_BY_BROKER)
        return not self._broken

    def read_versions(self, timeout: float | None = None) -> Message:
        """Ask the broker for the versions of its requests, and keep them; return the whole answer.

        Its epoch of the finalized features is the offset of the metadata that a KRaft broker serves.
        """
        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version=__version__)
        answer = self.call(request, version=3, timeout=timeout)
        if not answer.error_code:
            self.versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
            names = frozenset(each.name for each in answer.finalized_features)
            self.features = Features(names, answer.finalized_features_epoch)
        return answer

    def version_of(self, request: Message, at_most: int | None = None) -> int:
        """Return the highest version of a request that both sides know; raise ``UnsupportedRequest``."""
        return choose_version(self.versions, request, at_most)

    def call(self, request: Message, *, version: int | None = None, timeout: float | None = None) -> Message:
        """Send a request once and return its answer, with its error codes.

        ``version`` is the version to send; None: the highest that both sides know. ``timeout`` in seconds replaces that
        of the connection. Raises ``UnsupportedRequest``, and ``Disconnected``, after which the connection is closed.
        """
        chosen = self.version_of(request) if version is None else version
        return self.decode(request, chosen, self.call_raw(request, chosen, timeout))

    def decode(self, request: Message, version: int, data: bytes) -> Message:
        """Return the answer to a request from the bytes of ``call_raw``. Raises ``Disconnected``."""
        try:
            return decode_response(request, version, data)
        except MalformedMessage as error:
            self._break(f"an answer to {request.name} cannot be decoded")
            raise Disconnected(f"{self._broken}: {error}", was_sent=True) from error

    def call_raw(self, request: Message, version: int, timeout: float | None = None) -> bytes:
        """Send a request once and return the bytes of its answer, header included.

        Raises ``Disconnected``, and ``UnsupportedRequest`` for what the broker is known not to offer.
        """
        self._require_offered(request, version)
        self._renew_login()
        if self._broken:
            raise Disconnected(self._broken, was_sent=False)
        self._correlation_id += 1
        frame = encode_request(request, version, self._correlation_id, CLIENT_ID)
        name = name_of(request)
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        result = "lost"
        try:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            self._socket.sendall(frame)
            head = self._receive(4, deadline)
            if head == b"HTTP":
                raise OSError("a web server answered: use the brokers' port")
            (size,) = struct.unpack(">i", head)
            if not 4 <= size <= MAX_ANSWER_BYTES:
                raise OSError(f"it announced an answer of {size:,} bytes")
            data = self._receive(size, deadline)
            (found,) = struct.unpack_from(">i", data)
            if found != self._correlation_id:
                raise OSError(f"it answered request {found}, wanted {self._correlation_id}")
            result = "ok"
        except TimeoutError:
            self._break(f"no answer to {name} within {self._timeout if timeout is None else timeout:g} s")
            raise Disconnected(self._broken, was_sent=True, is_late=True) from None
        except OSError as error:
            self._break(str(error) or type(error).__name__)
            raise Disconnected(self._broken, was_sent=True) from error
        finally:
            self.requests[name, result] += 1
        return data

    def _require_offered(self, request: Message, version: int) -> None:
        """Raise ``UnsupportedRequest`` for a version that is not offered, to which a broker closes the connection."""
        is_known = self.versions and request.API_KEY != ApiVersionsRequest.API_KEY
        if is_known and choose_version(self.versions, request, version) != version:
            raise UnsupportedRequest(f"the brokers do not offer version {version} of {name_of(request)}")

    def _renew_login(self) -> None:
        """Log in again if it is time. Whatever fails here, the caller's request was not sent."""
        if self.log_in_again is None or self.log_in_again_at is None or time.monotonic() < self.log_in_again_at:
            return
        self.log_in_again_at = None  # the login sends requests itself
        try:
            self.log_in_again_at = self.log_in_again()
        except Disconnected as error:
            self._break(str(error))
            raise Disconnected(f"the login could not be renewed: {error}", was_sent=False) from error
        except BaseException:
            self._break("the login could not be renewed")
            raise

    def _receive(self, size: int, deadline: float) -> bytes:
        buffer = bytearray(min(size, _FIRST_BUFFER_BYTES))
        received = 0
        while received < size:
            if received == len(buffer):  # an announced size alone takes no memory
                buffer.extend(bytes(min(len(buffer), size - received)))
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            with memoryview(buffer) as view:
                count = self._socket.recv_into(view[received:])
            if not count:
                raise OSError(_CLOSED_BY_BROKER)
            received += count
        return bytes(buffer)

    def _is_closed_by_broker(self) -> bool:
        """Return whether the end of the connection has arrived, without waiting and without taking what arrived."""
        arrived = select.poll()
        arrived.register(self._socket, select.POLLIN)
        if not arrived.poll(0):
            return False
        try:
            return not socket.socket.recv(self._socket, 1, socket.MSG_PEEK)  # below TLS, which may have sent a ticket
        except OSError:
            return True

    def _break(self, why: str) -> None:
        if not self._broken:
            self._broken = why
            self._socket.close()
