"""Error codes: the names of Kafka's documentation, and the errors that users see."""

from __future__ import annotations

import pytest

from topiarist.adapters.kafka_admin.connection.error_codes import (
    LOOKUP_CODES,
    PERMANENT_CODES,
    describe_error,
    error_name,
    error_of,
)
from topiarist.errors import Reason


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (-1, "UNKNOWN_SERVER_ERROR"),
        (0, "NONE"),
        (6, "NOT_LEADER_OR_FOLLOWER"),
        (36, "TOPIC_ALREADY_EXISTS"),
        (51, "CONCURRENT_TRANSACTIONS"),
        (100, "UNKNOWN_TOPIC_ID"),
        (250, "error 250"),
    ],
)
def test_names(code: int, name: str) -> None:
    """A code has its name in Kafka's documentation."""
    assert error_name(code) == name


def test_messages_of_brokers_are_printable() -> None:
    """A message of a broker moves no cursor, and without one the code is enough."""
    assert describe_error(44, "no\x1b[2J\n") == "POLICY_VIOLATION (44): no\\x1b[2J\\n"
    assert describe_error(44) == "POLICY_VIOLATION (44)"


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        (29, Reason.NO_PERMISSION, "cannot read: User:a lacks Describe on the topic t (TOPIC_AUTHORIZATION_FAILED)"),
        (31, Reason.NO_PERMISSION, "cannot read: User:a lacks Describe on the topic t (CLUSTER_AUTHORIZATION_FAILED)"),
        (35, Reason.PREREQUISITE_MISSING, "cannot read: the brokers do not support it (UNSUPPORTED_VERSION (35))"),
        (58, Reason.AUTHENTICATION_FAILED, "cannot read: SASL_AUTHENTICATION_FAILED (58)"),
        (15, Reason.UNREACHABLE, "cannot read: COORDINATOR_NOT_AVAILABLE (15)"),
        (42, Reason.UNREADABLE, "cannot read: INVALID_REQUEST (42)"),
    ],
)
def test_errors_of_users(code: int, reason: Reason, words: str) -> None:
    """A code becomes an error with the operation, the principal and the right that is missing."""
    error = error_of(code, "cannot read", right="Describe on the topic t", principal="User:a")
    assert error.reason is reason
    assert error.args[0] == words


LOOKUPS = {
    *("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER"),
    *("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"),
}
LATER = LOOKUPS | {
    *("UNKNOWN_SERVER_ERROR", "REQUEST_TIMED_OUT", "BROKER_NOT_AVAILABLE", "NETWORK_EXCEPTION", "NOT_CONTROLLER"),
    *("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "CONCURRENT_TRANSACTIONS", "KAFKA_STORAGE_ERROR"),
    *("FENCED_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE", "THROTTLING_QUOTA_EXCEEDED", "UNKNOWN_LEADER_EPOCH"),
}
RIGHTS = {f"{each}_AUTHORIZATION_FAILED" for each in ("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID")}
RIGHTS |= {"DELEGATION_TOKEN_AUTHORIZATION_FAILED"}
REFUSED = {
    *("MESSAGE_TOO_LARGE", "INVALID_TOPIC_EXCEPTION", "INVALID_REQUIRED_ACKS", "UNSUPPORTED_VERSION"),
    *("INVALID_REQUEST", "UNSUPPORTED_FOR_MESSAGE_FORMAT", "POLICY_VIOLATION", "INVALID_TRANSACTION_TIMEOUT"),
    *("UNSUPPORTED_COMPRESSION_TYPE", "INVALID_RECORD"),
}


def test_each_code() -> None:
    """A cause that may end is unreachable; a missing right is named; no code of a lookup is permanent."""
    found: dict[str, Reason] = {}
    for code in range(-1, 120):
        error = error_of(code, "w", right="R", principal="p")
        found[error_name(code)] = error.reason
        assert bool(error.hint) is (error.reason is Reason.NO_PERMISSION), code
    assert {name for name, reason in found.items() if reason is Reason.UNREACHABLE} == LATER
    assert {name for name, reason in found.items() if reason is Reason.NO_PERMISSION} == RIGHTS
    assert {error_name(code) for code in LOOKUP_CODES} == LOOKUPS
    assert {error_name(code) for code in PERMANENT_CODES} == REFUSED
