"""A peer that speaks Kafka's protocol as a script says: right answers, and every kind of wrong one.

    with ScriptedBroker() as broker:
        broker.answers[MetadataRequest.API_KEY] = [close, answer_with(metadata_response(broker.port))]

The answers of a request are used in their order, the last one for ever. Without a script, the broker answers as one of
Kafka 3.9 without topics does. As a real one, it closes the connection at a version that it has not named as served.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from support.kafka.releases import RELEASES, encode_response
from support.network.listener import Listener

API_VERSIONS, METADATA, FIND_COORDINATOR, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 3, 10, 17, 36

SERVED: dict[int, tuple[int, int]] = {
    key: RELEASES["3.9.2"].offered[key]
    for key in (METADATA, FIND_COORDINATOR, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE)
}
"""The requests that the broker names as served, with their versions."""


class Request(NamedTuple):
    """A request as it arrived: the head, and the whole frame without its size."""

    api_key: int
    version: int
    correlation_id: int
    frame: bytes


Answer = Callable[["ScriptedBroker", socket.socket, Request], None]
"""What sends an answer to a request, or does anything else."""


class ScriptedBroker(Listener):
    """A broker with node id 1 until the ``with`` block ends. ``requests`` counts the requests by API key."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: Counter[int] = Counter()
        self.served: dict[int, tuple[int, int]] = SERVED
        self.answers: dict[int, list[Answer]] = {
            API_VERSIONS: [answer_with(versions_response())],
            METADATA: [
                lambda broker, peer, request: answer_with(metadata_response(broker.port))(broker, peer, request)
            ],
        }
        self.ended = threading.Event()
        self._peers: list[socket.socket] = []

    @property
    def address(self) -> str:
        """The address of the broker."""
        return f"127.0.0.1:{self.port}"

    def drop(self) -> None:
        """Break all open connections."""
        self.ended.set()
        for peer in self._peers:
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)

    def serve(self, client: socket.socket) -> None:
        """Answer the requests of one connection by the script."""
        self._peers.append(client)
        with client, suppress(OSError, struct.error):
            while True:
                (size,) = struct.unpack(">i", _receive(client, 4))
                if size > 1 << 20:
                    return  # as a broker that gets something else
                frame = _receive(client, size)
                api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
                request = Request(api_key, version, correlation_id, frame)
                low, high = self.served.get(api_key, (0, -1))
                if api_key != API_VERSIONS and not low <= version <= high:
                    return
                self.requests[request.api_key] += 1
                script = self.answers[request.api_key]
                answer = script.pop(0) if len(script) > 1 else script[0]
                answer(self, client, request)


def answer_with(response: Any) -> Answer:
    """Return an answer with this response."""

    def answer(broker: ScriptedBroker, peer: socket.socket, request: Request) -> None:
        if response.API_KEY == API_VERSIONS and not response.error_code:
            broker.served = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        peer.sendall(encode_response(response, request.version, request.correlation_id))

    return answer


def send_raw(data: bytes) -> Answer:
    """Return an answer with these bytes after the size and the right correlation id."""

    def answer(_broker: ScriptedBroker, peer: socket.socket, request: Request) -> None:
        peer.sendall(struct.pack(">ii", len(data) + 4, request.correlation_id) + data)

    return answer


def send_bytes(data: bytes) -> Answer:
    """Return an answer with these bytes and nothing else."""

    def answer(_broker: ScriptedBroker, peer: socket.socket, _request: Request) -> None:
        peer.sendall(data)

    return answer


def close(_broker: ScriptedBroker, peer: socket.socket, _request: Request) -> None:
    """Close the connection instead of an answer."""
    peer.shutdown(socket.SHUT_RDWR)


def say_nothing(broker: ScriptedBroker, _peer: socket.socket, _request: Request) -> None:
    """Leave the connection open without an answer."""
    broker.ended.wait(30.0)


def versions_response(served: dict[int, tuple[int, int]] | None = None, error_code: int = 0) -> Any:
    """Return the answer to ApiVersions."""
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in (SERVED if served is None else served).items()
    ]
    return ApiVersionsResponse(error_code=error_code, api_keys=keys, finalized_features_epoch=7)


def metadata_response(port: int, topics: Sequence[Any] = (), controller_id: int = 1) -> Any:
    """Return the answer to Metadata with this broker only."""
    node = MetadataResponse.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port, rack=None)
    return MetadataResponse(brokers=[node], cluster_id="scripted", controller_id=controller_id, topics=list(topics))


def topic_metadata(name: str, error_code: int = 0, leader_id: int = 1) -> Any:
    """Return the metadata of a topic with one partition, or with an error and none."""
    topic = MetadataResponse.MetadataResponseTopic
    partition = topic.MetadataResponsePartition(
        partition_index=0, leader_id=leader_id, replica_nodes=[1], isr_nodes=[1], offline_replicas=[]
    )
    return topic(name=name, error_code=error_code, partitions=[] if error_code else [partition])


def coordinator_response(port: int, key: str, error_code: int = 0) -> Any:
    """Return the answer to FindCoordinator: this broker, or an error."""
    found = FindCoordinatorResponse.Coordinator(
        key=key, node_id=-1 if error_code else 1, host="127.0.0.1", port=port, error_code=error_code
    )
    return FindCoordinatorResponse(coordinators=[found])


def handshake_response(error_code: int = 0, mechanisms: Sequence[str] = ("PLAIN",)) -> Any:
    """Return the answer to SaslHandshake."""
    return SaslHandshakeResponse(error_code=error_code, mechanisms=list(mechanisms))


def login_response(data: bytes = b"", error_code: int = 0, message: str | None = None, lifetime_ms: int = 0) -> Any:
    """Return the answer to SaslAuthenticate."""
    return SaslAuthenticateResponse(
        error_code=error_code, error_message=message, auth_bytes=data, session_lifetime_ms=lifetime_ms
    )


def _receive(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = peer.recv(size - len(data))
        if not more:
            raise ConnectionResetError
        data += more
    return data
