"""The version of a request that both sides know, and the error if there is none that will do."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import CreateTopicsRequest, DeleteTopicsRequest, DescribeGroupsRequest, ElectLeadersRequest
from kafka.protocol.producer.transaction import EndTxnRequest

from topiarist.adapters.kafka_admin.connection.connection import (
    UnsupportedRequest,
    Versions,
    choose_version,
    find_missing,
    offers,
)
from topiarist.errors import Reason
from unit.adapters.kafka_admin.scripted_session import ScriptedSession, reply

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
        (DeleteTopicsRequest, (0, 5), None, "in versions 0 to 5, and version 6 is needed to delete topics by their"),
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


def test_the_first_request_that_is_missing() -> None:
    """Requests are looked at in their order; None is returned if all are offered."""
    session = ScriptedSession({})
    session.unsupported = {"EndTxn", "ElectLeaders"}
    connection = session.any_broker()
    missing = find_missing(connection, [CreateTopicsRequest, ElectLeadersRequest, EndTxnRequest])
    assert "ElectLeaders" in str(missing)
    assert find_missing(connection, [CreateTopicsRequest, DeleteTopicsRequest]) is None
    assert offers(connection, CreateTopicsRequest)
    assert not offers(connection, EndTxnRequest)


@pytest.mark.parametrize(
    ("name", "too_old"),
    [
        ("SaslHandshake", 0),
        ("DescribeConfigs", 0),
        ("ListOffsets", 1),
        ("Fetch", 3),
        ("FindCoordinator", 0),
        ("InitProducerId", 2),
        ("Produce", 2),
        ("CreateTopics", 0),
        ("DeleteTopics", 5),
    ],
)
def test_the_first_version_that_will_do(name: str, too_old: int) -> None:
    """A version without isolation, transactions, validation or topic ids is refused, and the next one is sent."""
    request = reply(API_KEY=1, max_version=30, name=f"{name}Request")
    assert choose_version({1: (0, too_old + 1)}, request) == too_old + 1
    with pytest.raises(UnsupportedRequest):
        choose_version({1: (0, too_old)}, request)


def test_requests_that_will_do_in_each_version() -> None:
    """All others are sent in whatever version the broker knows."""
    for name in ("Metadata", "AddPartitionsToTxn", "EndTxn", "CreatePartitions", "ElectLeaders", "DescribeQuorum"):
        request = reply(API_KEY=1, max_version=30, name=f"{name}Request")
        assert choose_version({1: (0, 0)}, request) == 0, name
