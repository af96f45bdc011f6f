"""The requests that topiarist sends, what it needs each for, and the versions that will do.

A broker names the requests that it serves, with their versions. Services leave out some of them for good, so a request
that is not offered is never sent, is never worth another try, and the error says what it was needed for. A version
before ``Need.first`` lacks a field that counts, and the encoder drops such a field silently: CreateTopics before
version 1 has no ``validate_only``, so that a question would create the topics.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

from topiarist.errors import Reason, TopiaristError

Versions = Mapping[int, tuple[int, int]]
"""The lowest and highest version that a broker serves, by API key."""


class Need(NamedTuple):
    """The purpose of a request, and the first version with all fields that count for it."""

    purpose: str
    first: int = 0


NEEDS: Mapping[str, Need] = {
    "SaslHandshake": Need("log in", 1),
    "SaslAuthenticate": Need("log in"),
    "Metadata": Need("read brokers and topics"),
    "DescribeConfigs": Need("read configs", 1),
    "DescribeQuorum": Need("know how old the metadata are"),
    "ListPartitionReassignments": Need("read reassignments in progress"),
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
    "DeleteTopics": Need("delete topics by their ids", 6),
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


def find_missing(connection: Offering, requests: Collection[Any]) -> UnsupportedRequest | None:
    """Return the error of the first of these requests that is not offered; None if all are."""
    for request in requests:
        try:
            connection.version_of(request)
        except UnsupportedRequest as error:
            return error
    return None


def offers(connection: Offering, request: Any) -> bool:
    """Return whether the broker offers a request."""
    return find_missing(connection, [request]) is None


def _describe_range(low: int, high: int) -> str:
    return f"version {low}" if low == high else f"versions {low} to {high}"
