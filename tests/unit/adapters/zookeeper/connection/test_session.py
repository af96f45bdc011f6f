"""Buffered I/O for kazoo: queued requests are sent together, and always before a wait."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from topiarist.adapters.zookeeper.connection.authentication import Authenticator
from topiarist.adapters.zookeeper.connection.session import BufferedHandler, BufferedSocket, WakeupPipe
from topiarist.model.access import Credentials


@pytest.fixture
def handler() -> BufferedHandler:
    return BufferedHandler(Authenticator(Credentials()), connect_deadline=float("inf"), connect_timeout=1.0)


@pytest.fixture
def ends() -> Iterator[tuple[BufferedSocket, socket.socket]]:
    """Return the client's socket, non-blocking as kazoo uses it, and the server's socket."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield BufferedSocket(ours), theirs


@pytest.fixture
def bell(handler: BufferedHandler) -> Iterator[WakeupPipe]:
    both, _ = handler.create_socket_pair()
    yield both
    both.close()


def _received(theirs: socket.socket) -> bytes:
    found = bytearray()
    while True:
        try:
            found += theirs.recv(65_536)
        except BlockingIOError:
            return bytes(found)


def test_requests_that_wait_together_leave_together(
    handler: BufferedHandler, ends: tuple[BufferedSocket, socket.socket], bell: WakeupPipe
) -> None:
    """No request is sent while the wakeup pipe signals more; after the last request the next wait sends all."""
    ours, theirs = ends
    for _ in range(3):
        bell.send(b"\0")
    for number in range(3):
        assert handler.select([ours, bell], [], [], 0)[0] == [bell]
        assert handler.select([], [ours], [], 0)[1] == [ours]
        ours.send(b"%d" % number)
        assert _received(theirs) == b""
        bell.recv(1)
    assert handler.select([ours, bell], [], [], 0) == ([], [], [])
    assert _received(theirs) == b"012"


def test_what_is_held_back_leaves_before_a_wait_for_an_answer(
    handler: BufferedHandler, ends: tuple[BufferedSocket, socket.socket]
) -> None:
    """The handshake waits for the socket only, and its request is sent before that wait."""
    ours, theirs = ends
    ours.send(b"connect")
    assert handler.select([ours], [], [], 0)[0] == []
    assert _received(theirs) == b"connect"
    theirs.send(b"welcome")
    assert handler.select([ours], [], [], 1)[0] == [ours]
    assert ours.recv(7) == b"welcome"


def test_an_answer_is_seen_while_the_bell_rings_on(
    handler: BufferedHandler, ends: tuple[BufferedSocket, socket.socket], bell: WakeupPipe
) -> None:
    """A continuous flow of requests fills the buffer; then the buffer is sent and the socket is read too."""
    ours, theirs = ends
    theirs.send(b"answer")
    bell.send(b"\0" * 1000)
    seen = []
    for _ in range(1000):
        ready = handler.select([ours, bell], [], [], 0)[0]
        assert bell in ready
        seen.append(ours in ready)
        if any(seen):
            break
        ours.send(b"x" * 1000)
        bell.recv(1)
    assert len(seen) == 67
    assert len(_received(theirs)) == 66_000


def test_what_is_read_ahead_counts_as_ready(
    handler: BufferedHandler, ends: tuple[BufferedSocket, socket.socket], bell: WakeupPipe
) -> None:
    """The second of two answers in one packet is found without another packet, also while a request waits."""
    ours, theirs = ends
    theirs.send(b"onetwo")
    assert handler.select([ours, bell], [], [], 1)[0] == [ours]
    assert ours.recv(3) == b"one"
    assert handler.select([ours, bell], [], [], None)[0] == [ours]
    bell.send(b"\0")
    assert handler.select([ours, bell], [], [], None)[0] == [ours, bell]
    assert ours.recv(100) == b"two"


def test_more_than_the_socket_takes_leaves_as_the_other_side_reads(ends: tuple[BufferedSocket, socket.socket]) -> None:
    """Four megabytes arrive complete and in order, although the socket accepts them in parts."""
    ours, theirs = ends
    sent = bytes(range(256)) * 16_384
    ours.send(sent)
    theirs.setblocking(True)
    found = bytearray()

    def read() -> None:
        while len(found) < len(sent):
            found.extend(theirs.recv(1 << 20))

    reader = threading.Thread(target=read)
    reader.start()
    ours.flush(10)
    reader.join(10)
    assert bytes(found) == sent


def test_a_server_that_takes_nothing_is_an_error(ends: tuple[BufferedSocket, socket.socket]) -> None:
    """If the server does not read until the timeout, the flush raises an OSError.

    kazoo treats this error as a lost connection.
    """
    ours, _ = ends
    ours.send(b"x" * (4 << 20))
    with pytest.raises(TimeoutError, match="accepts no more requests"):
        ours.flush(0.01)


def test_a_closed_connection_is_an_error_when_flushed(ends: tuple[BufferedSocket, socket.socket]) -> None:
    """A request to a closed connection raises an error and is never lost silently."""
    ours, theirs = ends
    theirs.close()
    ours.send(b"request")
    with pytest.raises(OSError, match=r"(?i)broken pipe|connection reset"):
        ours.flush(1)


def test_the_bell_is_silent_when_nobody_waits(handler: BufferedHandler, bell: WakeupPipe) -> None:
    """The pipe holds one byte for any number of requests, and none after the last request."""
    bell.send(b"\0\0")
    assert [bell.pending(), handler.select([bell], [], [], 0)[0]] == [2, [bell]]
    bell.recv(1)
    bell.recv(1)
    assert [bell.pending(), handler.select([bell], [], [], 0)[0]] == [0, []]
