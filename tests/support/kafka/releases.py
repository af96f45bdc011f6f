"""The releases of Kafka as which brokers in memory answer, and the way of a request to them and back.

``records_suite`` compares all of this with real brokers in KRaft mode.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kafka.protocol.metadata import ApiVersionsResponse

from topiarist.adapters.kafka_admin.connection.connection import Connection, Disconnected, Features, Message
from topiarist.kafka.types import KafkaVersion

NEWEST = "4.4.0"
_SIZE_BYTES = 4
_LAST_PRODUCE = 11
"""The last version of Produce with which a producer adds its partition to a transaction itself."""


class Release(NamedTuple):
    """What a release offers: the versions of its requests by API key, and the level of ``metadata.version``.

    With ``verifies_producers``, a leader accepts a batch only in a transaction that its partition was added to.
    With ``keeps_last_epoch``, a producer gets the new epoch for its old one after an abort by the coordinator.
    """

    version: KafkaVersion
    metadata_level: int
    verifies_producers: bool
    keeps_last_epoch: bool
    offered: Mapping[int, tuple[int, int]]


_OFFERED: Mapping[int, tuple[tuple[int, int], tuple[int, int], tuple[int, int]]] = {
    0: ((0, 9), (0, 11), (0, 13)),  # Produce
    1: ((0, 13), (0, 17), (4, 18)),  # Fetch
    2: ((0, 7), (0, 9), (1, 11)),  # ListOffsets
    3: ((0, 12), (0, 12), (0, 13)),  # Metadata
    10: ((0, 4), (0, 6), (0, 6)),  # FindCoordinator
    17: ((0, 1), (0, 1), (0, 1)),  # SaslHandshake
    18: ((0, 3), (0, 4), (0, 5)),  # ApiVersions
    19: ((0, 7), (0, 7), (2, 7)),  # CreateTopics
    20: ((0, 6), (0, 6), (1, 6)),  # DeleteTopics
    22: ((0, 4), (0, 5), (0, 5)),  # InitProducerId
    24: ((0, 3), (0, 5), (0, 5)),  # AddPartitionsToTxn
    26: ((0, 3), (0, 4), (0, 5)),  # EndTxn
    32: ((0, 4), (0, 4), (1, 4)),  # DescribeConfigs
    36: ((0, 2), (0, 2), (0, 2)),  # SaslAuthenticate
    37: ((0, 3), (0, 3), (0, 3)),  # CreatePartitions
    44: ((0, 1), (0, 1), (0, 1)),  # IncrementalAlterConfigs
    46: ((0, 0), (0, 0), (0, 0)),  # ListPartitionReassignments
    55: ((0, 1), (0, 2), (0, 2)),  # DescribeQuorum
    60: ((0, 0), (0, 1), (0, 2)),  # DescribeCluster
}


def _offered_by(column: int) -> Mapping[int, tuple[int, int]]:
    return {key: versions[column] for key, versions in _OFFERED.items()}


RELEASES: Mapping[str, Release] = {
    "3.3.2": Release((3, 3), 7, False, False, _offered_by(0)),
    "3.9.2": Release((3, 9), 21, True, False, _offered_by(1)),
    NEWEST: Release((4, 4), 33, True, True, _offered_by(2)),
}


class Offering:
    """A connection that offers what a release offers. ``carry_out`` gets each request as a broker decodes it."""

    features = Features(frozenset({"metadata.version"}), 1)

    def __init__(self, release: Release, carry_out: Callable[[Message], Message]) -> None:
        self.versions = release.offered
        self.leader_epochs: dict[str, int] = {}
        self._carry_out = carry_out

    def version_of(self, request: Any, at_most: int | None = None) -> int:
        """Return the version that a real connection chooses; raise ``UnsupportedRequest``."""
        return Connection.version_of(self, request, at_most)  # type: ignore[arg-type]

    def call(self, request: Message, *, version: int | None = None, timeout: float | None = None) -> Message:
        """Return the decoded answer, which has only the fields of the version."""
        used = self.version_of(request) if version is None else version
        return self.decode(request, used, self.call_raw(request, used, timeout))

    def call_raw(self, request: Message, version: int, timeout: float | None = None) -> bytes:
        """Return the bytes of an answer. A broker closes the connection at a version that it does not offer.

        Raises ``Disconnected``, and what ``carry_out`` raises.
        """
        low, high = self.versions.get(request.API_KEY, (0, -1))
        if not low <= version <= high:
            raise Disconnected("the broker closed the connection", was_sent=True)
        assert request.name != "ProduceRequest" or version <= _LAST_PRODUCE, "brokers would add the partition"
        answer = self._carry_out(type(request).decode(request.encode(version=version), version=version))
        return encode_response(answer, version, correlation_id=1)[_SIZE_BYTES:]

    def decode(self, request: Message, version: int, data: bytes) -> Message:
        """Return a decoded answer."""
        return Connection.decode(self, request, version, data)  # type: ignore[arg-type]


def encode_response(response: Any, version: int, correlation_id: int) -> bytes:
    """Return a response as a broker sends it; the library encodes the headers of requests only."""
    is_versions = response.API_KEY == ApiVersionsResponse.API_KEY
    # The answer to ApiVersions has the old header in every version, and with an error the oldest body.
    tags = b"" if is_versions or not type(response).flexible_version_q(version) else b"\0"
    body: bytes = response.encode(
        version=0 if is_versions and response.error_code else version, header=False, framed=False
    )
    return struct.pack(">ii", 4 + len(tags) + len(body), correlation_id) + tags + body
