"""Error codes of Kafka's protocol: their names, which of them a retry may resolve, and the errors that users see."""

from __future__ import annotations

from kafka.errors import kafka_errors

from topiarist.errors import Reason, TopiaristError
from topiarist.text import printable

NONE = 0
UNKNOWN_SERVER_ERROR = -1
UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER = 3, 5, 6
COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED = 29, 30, 31
UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE, UNSUPPORTED_VERSION = 33, 34, 35
NOT_CONTROLLER, INVALID_REQUEST = 41, 42
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, SASL_AUTHENTICATION_FAILED = 53, 58

LOOKUP_CODES = frozenset(
    {
        UNKNOWN_TOPIC_OR_PARTITION,
        LEADER_NOT_AVAILABLE,
        NOT_LEADER_OR_FOLLOWER,
        COORDINATOR_LOAD_IN_PROGRESS,
        COORDINATOR_NOT_AVAILABLE,
        NOT_COORDINATOR,
    }
)
"""Codes of a leader or coordinator that is not elected or not known yet. Nothing was done; the lookup is repeated."""

RETRYABLE_CODES = LOOKUP_CODES | {UNKNOWN_SERVER_ERROR, 7, 8, 13, 19, 20, NOT_CONTROLLER, 51, 56, 74, 75, 78, 89}
"""Codes that may be gone after some time. They do not say whether a write was carried out: 7 and 13 leave it open."""

AUTHORIZATION_CODES = frozenset(
    {
        TOPIC_AUTHORIZATION_FAILED,
        GROUP_AUTHORIZATION_FAILED,
        CLUSTER_AUTHORIZATION_FAILED,
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        65,
    }
)

PERMANENT_CODES = frozenset({10, 17, 21, UNSUPPORTED_VERSION, INVALID_REQUEST, 43, 44, 50, 76, 87})
"""Codes of a request that the brokers refuse for its content: nothing was done, and a repetition gets the same answer.

No message tells the user to run again after one of them.
"""

# Where the library keeps an older name than Kafka's documentation.
_NAMES = {
    UNKNOWN_SERVER_ERROR: "UNKNOWN_SERVER_ERROR",
    NONE: "NONE",
    4: "INVALID_FETCH_SIZE",
    NOT_LEADER_OR_FOLLOWER: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
}


def error_name(code: int) -> str:
    """Return the name of an error code in Kafka's documentation; for an unknown code, ``error`` and its number."""
    known = kafka_errors.get(code)
    return _NAMES.get(code) or (str(known.message) if known else f"error {code}")


def describe_error(code: int, message: str | None = None) -> str:
    """Return an error code by name and number, with the message of the broker if there is one."""
    words = printable(message, 300) if message else ""
    return f"{error_name(code)} ({code})" + (f": {words}" if words else "")


def error_of(code: int, what: str, *, right: str, principal: str, message: str | None = None) -> TopiaristError:
    """Return the error for a code that ends a run.

    ``what`` is the failed operation (``cannot read the topics``), ``right`` the right that it needs, ``principal`` who
    topiarist is for the brokers.
    """
    if code in AUTHORIZATION_CODES:
        return TopiaristError(
            Reason.NO_PERMISSION, f"{what}: {principal} lacks {right} ({error_name(code)})", "grant it with kafka-acls"
        )
    if code == UNSUPPORTED_VERSION:
        return TopiaristError(
            Reason.PREREQUISITE_MISSING, f"{what}: the brokers do not support it ({describe_error(code, message)})"
        )
    if code == SASL_AUTHENTICATION_FAILED:
        return TopiaristError(Reason.AUTHENTICATION_FAILED, f"{what}: {describe_error(code, message)}")
    reason = Reason.UNREACHABLE if code in RETRYABLE_CODES else Reason.UNREADABLE
    return TopiaristError(reason, f"{what}: {describe_error(code, message)}")
