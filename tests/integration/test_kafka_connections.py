"""Connections over real sockets to servers that answer late, wrong or not at all: each ends in time, with its cause."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable

import pytest

from support.network.listener import Listener
from topiarist.adapters.kafka_admin.connection.connection import Connection, Disconnected
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.protocol.messages import MetadataRequest
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import KafkaAccess

TIMEOUT_S = 0.5


class Peer(Listener):
    """A server that reads the first bytes of each connection, and lets ``act`` do the rest."""

    def __init__(self, act: Callable[[Peer, socket.socket, bytes], None]) -> None:
        super().__init__()
        self.ended = threading.Event()
        self._act = act

    def drop(self) -> None:
        """End what waits."""
        self.ended.set()

    def serve(self, client: socket.socket) -> None:
        """Answer one connection, and close it."""
        with client:
            self._act(self, client, client.recv(4096))


def say_nothing(peer: Peer, _client: socket.socket, _data: bytes) -> None:
    """Leave the connection open without an answer."""
    peer.ended.wait(30.0)


def trickle(peer: Peer, client: socket.socket, _data: bytes) -> None:
    """Announce an answer of 1,000 bytes, and send one of them every twentieth of a second."""
    client.sendall(struct.pack(">i", 1000))
    while not peer.ended.wait(0.05):
        client.sendall(b"\0")


def close(_peer: Peer, _client: socket.socket, _data: bytes) -> None:
    """Close the connection instead of an answer."""


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (say_nothing, "no answer to Metadata within 0.5 s"),
        (trickle, "no answer to Metadata within 0.5 s"),
        (close, "the broker closed the connection"),
    ],
)
def test_a_request_without_an_answer_ends_in_time(
    act: Callable[[Peer, socket.socket, bytes], None], words: str
) -> None:
    """The deadline is for the whole answer; the outcome of the request is unknown."""
    with Peer(act) as peer:
        connection = Connection(socket.create_connection(("127.0.0.1", peer.port)), timeout=TIMEOUT_S)
        started = time.monotonic()
        with pytest.raises(Disconnected, match=words) as caught:
            connection.call_raw(MetadataRequest(topics=[]), 9)
        assert time.monotonic() - started < TIMEOUT_S + 1.0
        assert caught.value.was_sent
        assert not connection.is_open


def find_error(servers: str) -> TopiaristError:
    """Return the error of a session with these servers."""
    with pytest.raises(TopiaristError) as caught:
        Session(KafkaAccess(servers), 1.0).any_broker()
    assert caught.value.reason is Reason.UNREACHABLE
    return caught.value


def test_each_server_that_cannot_be_reached_is_named() -> None:
    """A name without an address, a port without a listener, and a server that is silent until the deadline."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        gone = f"127.0.0.1:{closed.getsockname()[1]}"
    error = str(find_error(f"absent.invalid:9092,{gone}"))
    assert "absent.invalid has no address" in error
    assert "Connection refused" in error
    with Peer(say_nothing) as peer:
        assert "no answer" in str(find_error(f"127.0.0.1:{peer.port}"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a web server answered"),
        (b"Zookeeper version: 3.8.4", "a ZooKeeper answered"),
        (b"srvr is not executed because it is not in the whitelist.\n", "a ZooKeeper answered"),
    ],
)
def test_other_servers_are_named(answer: bytes, words: str) -> None:
    """A web server and a ZooKeeper at the port are named in the error."""

    def act(_peer: Peer, client: socket.socket, data: bytes) -> None:
        if data.startswith(b"srvr"):
            client.sendall(answer)

    with Peer(act) as peer:
        assert words in str(find_error(f"127.0.0.1:{peer.port}"))
