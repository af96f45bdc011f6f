"""Error codes: the names of Kafka's documentation, and the errors that users see."""

from __future__ import annotations

import pytest

from topiarist.adapters.kafka_admin.connection.error_codes import describe_error, error_name, error_of
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
