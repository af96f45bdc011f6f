"""A connection over a socket in memory: deadlines, sizes and ids of answers, and when a login is renewed."""

from __future__ import annotations

import select
import socket
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from kafka.protocol import metadata
from kafka.protocol.metadata import ApiVersionsResponse

from topiarist.adapters.kafka_admin.connection import connection as connection_module
from topiarist.adapters.kafka_admin.connection.connection import (
    MAX_ANSWER_BYTES,
    NEEDS,
    Connection,
    Disconnected,
    Features,
    UnsupportedRequest,
    Versions,
    choose_version,
    translate_errors,
)
from topiarist.adapters.kafka_admin.protocol import messages
from topiarist.adapters.kafka_admin.protocol.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeGroupsRequest,
    MetadataRequest,
)
from topiarist.errors import Reason, TopiaristError
from unit.adapters.kafka_admin.scripted_session import FakeTime

METADATA = MetadataRequest(topics=[], allow_auto_topic_creation=False)


class FakeSocket:
    """A socket with a peer that answers each frame with bytes; ``chunk`` is the most that one read returns."""

    def __init__(self, answer: Callable[[bytes], bytes | OSError], clock: FakeTime) -> None:
        self.answer = answer
        self.clock = clock
        self.sent: list[bytes] = []
        self.timeouts: list[float] = []
        self.unread = b""
        self.is_closed = False
        self.chunk = 1 << 30
        self.seconds_per_read = 0.0
        self.rooms: list[int] = []

    def settimeout(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("Timeout value out of range")  # as a socket does
        self.timeouts.append(seconds)

    def sendall(self, frame: bytes) -> None:
        self.sent.append(frame)
        answer = self.answer(frame)
        if isinstance(answer, OSError):
            raise answer
        self.unread = answer

    def recv_into(self, view: memoryview) -> int:
        self.rooms.append(len(view))
        self.clock.current += self.seconds_per_read
        if self.timeouts[-1] <= 0.001:
            raise TimeoutError
        part = self.unread[: min(len(view), self.chunk)]
        view[: len(part)] = part
        self.unread = self.unread[len(part) :]
        return len(part)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Replace the time of the connection."""
    clock = FakeTime()
    monkeypatch.setattr(connection_module, "time", clock)
    return clock


def correlation_id(frame: bytes) -> int:
    """Return the id of a request."""
    return int(struct.unpack_from(">i", frame, 8)[0])


def framed(frame: bytes, payload: bytes = b"payload", shift: int = 0) -> bytes:
    """Return an answer to a request; ``shift`` makes its id another one."""
    return struct.pack(">ii", 4 + len(payload), correlation_id(frame) + shift) + payload


def open_over(
    answer: Callable[[bytes], bytes | OSError], clock: FakeTime, **options: Any
) -> tuple[Connection, FakeSocket]:
    """Return a connection and its socket."""
    peer = FakeSocket(answer, clock)
    return Connection(peer, timeout=5.0, **options), peer  # type: ignore[arg-type]


def test_an_answer_in_parts(clock: FakeTime) -> None:
    """Bytes are collected; the frame has the id, the version and the client; requests are counted."""
    requests: Counter[tuple[str, str]] = Counter()
    connection, peer = open_over(framed, clock, requests=requests)
    peer.chunk = 3
    assert connection.call_raw(METADATA, 9)[4:] == b"payload"
    assert connection.call_raw(METADATA, 9)[:4] == struct.pack(">i", 2)
    size, key, version, number = struct.unpack_from(">ihhi", peer.sent[0])
    assert (size, key, version, number) == (len(peer.sent[0]) - 4, 3, 9, 1)
    assert b"topiarist" in peer.sent[0]
    assert requests == {("Metadata", "ok"): 2}
    assert not peer.is_closed
    assert peer.timeouts[0] == 5.0


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_connection_that_the_broker_has_closed_is_not_open(is_reset: bool) -> None:
    """It is noticed before the next request, which then was not sent; what a broker sends unasked changes nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    connection = Connection(ours, timeout=5.0)
    assert connection.is_open
    theirs.sendall(b"a ticket of TLS")
    wait_for_data(ours)
    assert connection.is_open
    assert ours.recv(100) == b"a ticket of TLS"
    if is_reset:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    theirs.close()
    wait_for_data(ours)
    assert not connection.is_open
    with pytest.raises(Disconnected, match=r"^the broker closed the connection$") as caught:
        connection.call_raw(METADATA, 9)
    assert (caught.value.was_sent, caught.value.is_late) == (False, False)


def wait_for_data(of: socket.socket) -> None:
    """Wait until something has arrived, or the end of the connection."""
    arrived = select.poll()
    arrived.register(of, select.POLLIN)
    assert arrived.poll(10_000)


def test_the_deadline_is_for_the_whole_answer(clock: FakeTime) -> None:
    """Parts that arrive do not extend it; a deadline of the caller replaces that of the connection."""
    connection, peer = open_over(framed, clock)
    peer.chunk, peer.seconds_per_read = 4, 1.0
    connection.call_raw(METADATA, 9)
    assert peer.timeouts == pytest.approx([5.0, 5.0, 4.0, 3.0, 2.0])
    with pytest.raises(Disconnected, match=r"no answer to Metadata within 2 s") as caught:
        connection.call_raw(METADATA, 9, timeout=2)
    assert (caught.value.was_sent, caught.value.is_late) == (True, True)
    assert peer.is_closed
    assert not connection.is_open
    connection, peer = open_over(framed, clock)
    peer.chunk, peer.seconds_per_read = 4, 1.0
    with pytest.raises(Disconnected, match=r"no answer to Metadata within 1.5 s"):
        connection.call_raw(METADATA, 9, timeout=1.5)
    assert peer.timeouts[-1] == 0.001
    connection, peer = open_over(framed, clock)
    with pytest.raises(Disconnected, match=r"no answer to Metadata within -1 s"):
        connection.call_raw(METADATA, 9, timeout=-1)
    assert peer.timeouts[0] == 0.001  # a socket takes no time that has passed


def test_a_large_answer_takes_memory_as_it_arrives(clock: FakeTime) -> None:
    """One mebibyte at first, whatever size is announced; then as much again as has arrived."""
    unit, payload = 1 << 20, bytes(range(256)) * 20_000
    connection, peer = open_over(lambda frame: framed(frame, payload), clock)
    assert connection.call_raw(METADATA, 9)[4:] == payload
    assert peer.rooms == [4, unit, unit, 2 * unit, 4 + len(payload) - 4 * unit]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda frame: framed(frame, shift=1), "it answered request 2, wanted 1"),
        (lambda frame: struct.pack(">i", 3) + b"abc", "it announced an answer of 3 bytes"),
        (lambda frame: struct.pack(">i", -1), "it announced an answer of -1 bytes"),
        (lambda frame: struct.pack(">i", MAX_ANSWER_BYTES + 1), "it announced an answer of 268,435,457 bytes"),
        (lambda frame: struct.pack(">i", MAX_ANSWER_BYTES), "the broker closed the connection"),
        (lambda frame: b"HTTP/1.1 400", "a web server answered: use the brokers' port"),
        (lambda frame: b"", "the broker closed the connection"),
        (lambda frame: framed(frame)[:-1], "the broker closed the connection"),
        (lambda frame: OSError("reset"), "reset"),
        (lambda frame: ConnectionResetError(), "ConnectionResetError"),
    ],
)
def test_what_is_no_answer(answer: Callable[[bytes], bytes | OSError], message: str, clock: FakeTime) -> None:
    """The connection is closed, the outcome of the request is unknown, and the next one is not sent."""
    connection, peer = open_over(answer, clock)
    with pytest.raises(Disconnected, match=message) as caught:
        connection.call_raw(METADATA, 9)
    assert caught.value.was_sent
    assert connection.requests == {("Metadata", "lost"): 1}
    assert peer.is_closed
    with pytest.raises(Disconnected, match=message) as caught:
        connection.call_raw(METADATA, 9)
    assert not caught.value.was_sent
    assert len(peer.sent) == 1
    connection.close()
    with pytest.raises(Disconnected, match=message):
        connection.call_raw(METADATA, 9)


def test_an_answer_without_content(clock: FakeTime) -> None:
    """Four bytes are the least that an answer has."""
    connection, _ = open_over(lambda frame: framed(frame, b""), clock)
    assert connection.call_raw(METADATA, 9) == struct.pack(">i", 1)


def test_versions(clock: FakeTime) -> None:
    """The highest version of both sides is sent; without one nothing is."""
    connection, peer = open_over(framed, clock)
    connection.versions = {3: (4, 7)}
    assert (connection.version_of(METADATA), connection.version_of(METADATA, 5)) == (7, 5)
    with pytest.raises(UnsupportedRequest, match="offer version 8 of Metadata"):
        connection.call(METADATA, version=8)
    connection.versions = {}
    with pytest.raises(UnsupportedRequest) as caught:
        connection.call(METADATA)
    assert caught.value.reason is Reason.PREREQUISITE_MISSING
    assert str(caught.value) == "the brokers do not offer Metadata, which is needed to read brokers and topics"
    assert peer.sent == []


def versions_answer(code: int) -> Callable[[bytes], bytes]:
    """Return an answerer of ApiVersions."""
    key = ApiVersionsResponse.ApiVersion(api_key=3, min_version=1, max_version=12)
    feature = ApiVersionsResponse.FinalizedFeatureKey(name="metadata.version", max_version_level=7, min_version_level=7)
    features = {"finalized_features_epoch": 9, "finalized_features": [feature]}
    answer = ApiVersionsResponse(error_code=code, api_keys=[key], throttle_time_ms=0, **features)
    return lambda frame: framed(frame, answer.encode(version=0 if code else 3))


def test_the_versions_of_a_broker_are_kept(clock: FakeTime) -> None:
    """The request says which client asks; an answer with an error has no versions."""
    connection, peer = open_over(versions_answer(0), clock)
    assert connection.read_versions(2.0).error_code == 0
    assert connection.versions == {3: (1, 12)}
    assert connection.features == Features(frozenset({"metadata.version"}), 9)
    sent = metadata.ApiVersionsRequest.decode(peer.sent[0][4:], version=3, header=True)
    assert (sent.client_software_name, bool(sent.client_software_version)) == ("topiarist", True)
    assert peer.timeouts[0] == 2.0
    for version, words in ((0, "in versions 1 to 12"), (13, "do not offer version 13 of Metadata")):
        with pytest.raises(UnsupportedRequest, match=words):
            connection.call_raw(METADATA, version)
    assert len(peer.sent) == 1
    connection.call_raw(METADATA, 12)
    assert len(peer.sent) == 2
    connection, _ = open_over(versions_answer(35), clock)
    assert connection.read_versions().error_code == 35
    assert connection.versions == {}


def test_an_answer_that_cannot_be_decoded(clock: FakeTime) -> None:
    """The connection is closed."""
    connection, peer = open_over(lambda frame: framed(frame, b"\xff" * 9), clock)
    with pytest.raises(Disconnected, match="an answer to MetadataRequest cannot be decoded") as caught:
        connection.call(METADATA, version=9)
    assert caught.value.was_sent
    assert peer.is_closed


def test_a_closed_connection(clock: FakeTime) -> None:
    """It sends nothing."""
    connection, peer = open_over(framed, clock)
    connection.close()
    with pytest.raises(Disconnected, match="it was closed") as caught:
        connection.call_raw(METADATA, 9)
    assert not caught.value.was_sent
    assert peer.sent == []


def test_a_login_is_renewed_in_time(clock: FakeTime) -> None:
    """It is renewed before the first request after its time, not before, and then at the next time."""
    connection, _ = open_over(framed, clock)
    logins: list[float] = []

    def log_in() -> float | None:
        logins.append(clock.current)
        connection.call_raw(METADATA, 9)  # the login itself renews nothing
        return clock.current + 100 if len(logins) == 1 else None

    start = clock.current
    connection.log_in_again, connection.log_in_again_at = log_in, start + 10
    for seconds in (0, 9, 10, 109, 110, 500):
        clock.current = start + seconds
        connection.call_raw(METADATA, 9)
    assert [each - start for each in logins] == [10, 110]


@pytest.mark.parametrize(
    "error", [Disconnected("reset", was_sent=True), TopiaristError(Reason.AUTHENTICATION_FAILED, "no")]
)
def test_a_login_that_cannot_be_renewed(error: Exception, clock: FakeTime) -> None:
    """The request itself was not sent, and the connection is closed."""
    connection, peer = open_over(framed, clock)

    def log_in() -> float | None:
        raise error

    connection.log_in_again, connection.log_in_again_at = log_in, clock.current
    with pytest.raises((Disconnected, TopiaristError)) as caught:
        connection.call_raw(METADATA, 9)
    if isinstance(caught.value, Disconnected):
        assert str(caught.value) == "the login could not be renewed: reset"
        assert not caught.value.was_sent
    assert peer.is_closed
    assert peer.sent == []


def test_errors_of_users() -> None:
    """A broken connection becomes an error with a reason; a request that is not offered is one, and has no hint."""
    error = Disconnected("reset", was_sent=True)
    with pytest.raises(TopiaristError, match="the connection to a broker broke: reset") as caught, translate_errors():
        raise error
    assert (caught.value.reason, caught.value.hint) == (Reason.UNREACHABLE, "run again")
    assert caught.value.__cause__ is error
    with pytest.raises(UnsupportedRequest) as unsupported, translate_errors():
        raise UnsupportedRequest("not offered")
    assert not unsupported.value.hint


CREATE, DELETE = CreateTopicsRequest.API_KEY, DeleteTopicsRequest.API_KEY
NEWEST = CreateTopicsRequest.max_version


@pytest.mark.parametrize(
    ("offered", "at_most", "version"),
    [
        ((0, 99), None, NEWEST),
        ((0, 99), 4, 4),
        ((0, 99), 99, NEWEST),
        ((0, 3), None, 3),
        ((0, 3), 4, 3),
        ((4, 99), 4, 4),
        ((0, 1), None, 1),
        ((1, 1), 1, 1),
    ],
)
def test_the_highest_version_of_both_sides(offered: tuple[int, int], at_most: int | None, version: int) -> None:
    """Neither the broker, nor the library, nor the caller must get a version that it does not know."""
    assert choose_version({CREATE: offered}, CreateTopicsRequest, at_most) == version


@pytest.mark.parametrize(
    ("request_type", "offered", "at_most", "words"),
    [
        (CreateTopicsRequest, None, None, "do not offer CreateTopics, which is needed to create topics"),
        (DescribeGroupsRequest, None, None, "do not offer DescribeGroups, which is needed to read the usage of topics"),
        (CreateTopicsRequest, (0, 0), None, f"in version 0, and versions 1 to {NEWEST} is needed to create topics"),
        (CreateTopicsRequest, (5, 9), 4, "in versions 5 to 9, and versions 1 to 4 is needed to create topics"),
        (DeleteTopicsRequest, (0, 0), None, "in version 0, and versions 1 to 6 is needed to delete topics"),
    ],
)
def test_a_request_that_will_not_do(
    request_type: Any, offered: tuple[int, int] | None, at_most: int | None, words: str
) -> None:
    """The error says what the request was needed for: a field that counts would be dropped silently."""
    versions: Versions = {} if offered is None else {request_type.API_KEY: offered}
    with pytest.raises(UnsupportedRequest, match=words) as caught:
        choose_version(versions, request_type, at_most)
    assert (caught.value.reason, caught.value.hint) == (Reason.PREREQUISITE_MISSING, "")


def test_the_first_version_that_will_do() -> None:
    """A version without isolation, transactions, validation or fences is refused; other requests are sent in any."""
    assert {name: need.first for name, need in NEEDS.items() if need.first} == {
        "SaslHandshake": 1,
        "DescribeConfigs": 1,
        "DescribeCluster": 2,
        "ListOffsets": 2,
        "Fetch": 4,
        "FindCoordinator": 1,
        "InitProducerId": 3,
        "Produce": 3,
        "CreateTopics": 1,
        "DeleteTopics": 1,
    }


def test_each_purpose_is_that_of_a_request() -> None:
    """A request under another name would be one for the usage of topics, in whatever version."""
    for name in NEEDS:
        assert getattr(messages, f"{name}Request").name == f"{name}Request"


def test_requests_that_will_do_in_each_version() -> None:
    """What is needed in no version is sent in whatever version the broker knows."""
    assert choose_version({MetadataRequest.API_KEY: (0, 0)}, MetadataRequest) == 0
