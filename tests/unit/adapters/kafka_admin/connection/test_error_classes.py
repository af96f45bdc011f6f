"""What follows from each error code of Kafka's protocol: every code that Kafka has, and some that it has not."""

from __future__ import annotations

import pytest
from kafka.errors import for_code

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.moves import look
from topiarist.adapters.kafka_admin.read.topic_reader import absent_or_error
from topiarist.adapters.kafka_admin.write import requests
from topiarist.adapters.kafka_admin.write.requests import Certainty, Element, Kind, not_made_outcome
from topiarist.errors import Reason
from topiarist.model.outcome import Result

CODES = range(-1, 130)

LOOKUPS = {3, 5, 6, 14, 15, 16}
RETRYABLE = {-1, 3, 5, 6, 7, 8, 13, 14, 15, 16, 19, 20, 41, 51, 56, 74, 75, 78, 89}
RIGHTS = {29, 30, 31, 53, 65}
PERMANENT = {
    *("MESSAGE_TOO_LARGE", "INVALID_TOPIC_EXCEPTION", "INVALID_REQUIRED_ACKS", "UNSUPPORTED_VERSION"),
    *("INVALID_REQUEST", "UNSUPPORTED_FOR_MESSAGE_FORMAT", "POLICY_VIOLATION", "INVALID_TRANSACTION_TIMEOUT"),
    *("UNSUPPORTED_COMPRESSION_TYPE", "INVALID_RECORD"),
}

RENAMED = {
    -1: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
}
"""Names of Kafka's documentation for which kafka-python has others."""


def test_names() -> None:
    """A code has its name in Kafka's documentation, as kafka-python has it; one that Kafka has not is a number."""
    theirs = {code: for_code(code).message for code in range(-1, 128)}
    assert {code: error_codes.error_name(code) for code in theirs} == theirs | RENAMED
    last = len(error_codes._NAMES) - 2
    assert error_codes.error_name(last) == error_codes._NAMES[-1]
    unknown = [error_codes.error_name(code) for code in (last + 1, 250, -2)]
    assert unknown == [f"error {last + 1}", "error 250", "error -2"]


def test_errors_of_reads() -> None:
    """The reason tells a user apart: a right, an old broker, a login, brokers that may be back, and a bug."""
    for code in CODES:
        error = error_codes.error_of(code, "cannot read", right="Describe", principal="User:a", message="why")
        if code in RIGHTS:
            expected = Reason.NO_PERMISSION
            assert error.hint == "grant it with kafka-acls"
        elif code in (35, 58):
            expected = {35: Reason.PREREQUISITE_MISSING, 58: Reason.AUTHENTICATION_FAILED}[code]
        else:
            expected = Reason.UNREACHABLE if code in RETRYABLE else Reason.UNREADABLE
        assert error.reason is expected
        assert bool(error.hint) is (code in RIGHTS)
        assert error_codes.error_name(code) in error.message
        assert error.message.startswith("cannot read: ")
        assert (": why" in error.message) is (code not in RIGHTS)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (29, "cannot read: User:a lacks Describe on the topic t (TOPIC_AUTHORIZATION_FAILED)"),
        (35, "cannot read: the brokers do not support it (UNSUPPORTED_VERSION (35))"),
        (58, "cannot read: SASL_AUTHENTICATION_FAILED (58)"),
    ],
)
def test_words_of_errors(code: int, words: str) -> None:
    """An error has the operation, and the principal with the right that is missing."""
    error = error_codes.error_of(code, "cannot read", right="Describe on the topic t", principal="User:a")
    assert error.message == words


def test_classes() -> None:
    """Lookups are repeated for a leader or coordinator that is not there yet, and for nothing else."""
    assert {error_codes.error_name(code) for code in error_codes.PERMANENT_CODES} == PERMANENT
    assert [code for code in CODES if code in error_codes.LOOKUP_CODES] == sorted(LOOKUPS)
    assert [code for code in CODES if code in error_codes.RETRYABLE_CODES] == sorted(RETRYABLE)
    assert [code for code in CODES if code in error_codes.AUTHORIZATION_CODES] == sorted(RIGHTS)


def test_messages_of_brokers() -> None:
    """A message of a broker moves no cursor, and has at most 300 characters; without one the code is enough."""
    assert error_codes.describe_error(44, "no\x1b[2J\n") == "POLICY_VIOLATION (44): no\\x1b[2J\\n"
    assert error_codes.describe_error(44) == "POLICY_VIOLATION (44)"
    assert error_codes.describe_error(44, "x" * 300) == f"POLICY_VIOLATION (44): {'x' * 300}"
    assert len(error_codes.describe_error(44, "x" * 301)) <= len(f"POLICY_VIOLATION (44): {'x' * 300}")


CERTAINTIES = {
    0: Certainty.ACCEPTED,
    89: Certainty.THROTTLED,
    41: Certainty.NOT_CONTROLLER,
    7: Certainty.LATE,
    13: Certainty.LATE,
    -1: Certainty.UNKNOWN,
}

REFUSALS = {
    35: (Result.REFUSED, Reason.NOT_OFFERED),
    40: (Result.REFUSED, Reason.CONFIG_INVALID),
    38: (Result.REFUSED, Reason.TOO_FEW_BROKERS),
    44: (Result.REFUSED, Reason.POLICY_VIOLATION),
    60: (Result.REFUSED, Reason.REASSIGNMENT_IN_PROGRESS),
    73: (Result.REFUSED, Reason.DELETION_DISABLED),
    29: (Result.FAILED, Reason.NO_PERMISSION),
    31: (Result.FAILED, Reason.NO_PERMISSION),
    41: (Result.FAILED, Reason.NO_CONTROLLER),
    89: (Result.FAILED, Reason.THROTTLED),
    **dict.fromkeys((7, 13, -1), (Result.UNKNOWN, Reason.OUTCOME_UNKNOWN)),
    **dict.fromkeys((3, 17, 36, 37, 39, 100), (Result.CONFLICT, Reason.STATE_CONFLICT)),
}

CONFLICTS = {
    3: "existed, and does not exist now: ",
    17: "the brokers refuse its name now: ",
    36: "did not exist, and exists now: ",
    37: "has another partition count now: ",
    39: "the brokers refuse its replica lists now: ",
    100: "was deleted, or deleted and recreated: ",
}


def test_answers_to_writes() -> None:
    """Each code says whether the change may have been made, and becomes the outcome of its topic."""
    for code in CODES:
        element = Element(code, "why")
        assert element.certainty is CERTAINTIES.get(code, Certainty.NOT_MADE)
        outcome = not_made_outcome("orders", element, Kind.CREATE)
        assert (outcome.topic, outcome.result, outcome.reason) == (
            "orders",
            *REFUSALS.get(code, (Result.FAILED, Reason.WRITE_FAILED)),
        )
        words = (
            "the brokers confirmed it"
            if code == 0
            else f"the brokers answered {error_codes.error_name(code)} ({code}): why"
        )
        assert words in outcome.message
        assert outcome.message.startswith(CONFLICTS.get(code, ""))
        assert (Kind.CREATE.value in outcome.message) is (code in (29, 31))


def test_an_answer_without_the_topic() -> None:
    """Nothing is known of the change."""
    assert Element(None).certainty is Certainty.UNKNOWN
    outcome = not_made_outcome("orders", Element(None), Kind.GROW)
    assert (outcome.result, outcome.reason) == (Result.UNKNOWN, Reason.OUTCOME_UNKNOWN)
    assert "the brokers answered for other topics, and not for this one" in outcome.message


@pytest.mark.parametrize(
    ("code", "message", "unknown_brokers", "expected"),
    [
        (44, "the request is Excessively Large", False, (Result.REFUSED, Reason.TOO_LARGE)),
        (40, "excessively large", False, (Result.REFUSED, Reason.CONFIG_INVALID)),
        (39, "", True, (Result.REFUSED, Reason.UNKNOWN_BROKERS)),
        (37, "", True, (Result.CONFLICT, Reason.STATE_CONFLICT)),
        (36, "Topic 'a' is marked for deletion.", False, (Result.REFUSED, Reason.DELETION_IN_PROGRESS)),
    ],
)
def test_codes_with_two_meanings(
    code: int, message: str, unknown_brokers: bool, expected: tuple[Result, Reason]
) -> None:
    """A policy violation may be a limit, a topic that exists may be marked for deletion, brokers may not exist."""
    outcome = not_made_outcome("orders", Element(code, message), Kind.CREATE, unknown_brokers=unknown_brokers)
    assert (outcome.result, outcome.reason) == expected
    assert outcome.message.endswith(f"the brokers answered {Element(code, message).words}")


def test_codes_of_moves() -> None:
    """A read for moves is repeated while the cluster changes its leaders or controller."""
    for code in CODES:
        if code == 0:
            look._require(code, "", "a", "Describe")
            continue
        with pytest.raises(Exception, match=r"\(") as caught:
            look._require(code, "why", "topic a", "Describe on the topic")
        if code in (-1, 5, 6, 7, 9, 13, 14, 15, 41):
            assert isinstance(caught.value, look._Temporary)
        else:
            expected = Reason.NO_PERMISSION if code in (29, 31) else Reason.UNREADABLE
            assert getattr(caught.value, "reason", None) is expected
        assert f"{error_codes.describe_error(code)}: why" in str(caught.value)


def test_codes_of_topics() -> None:
    """Only one code proves that a topic does not exist; a hidden topic is no absent topic."""
    for code in CODES:
        found = absent_or_error("orders", code)
        assert (found is None) is (code == 3)
        if found:
            assert found.path == "topic orders"
            hidden = "it is hidden from topiarist, or does not exist: Describe is missing"
            refused = f"the brokers do not describe it: {error_codes.describe_error(code)}"
            assert found.message == (hidden if code in RIGHTS else refused)
        missing = absent_or_error("orders", None)
        assert missing is not None
        assert missing.message == "the answer of the brokers does not have it"


def test_the_names_of_codes_of_writes() -> None:
    """The constants are the codes of Kafka's documentation."""
    assert (requests.NONE, requests.UNKNOWN_TOPIC, requests.INVALID_TOPIC, requests.UNKNOWN_ID) == (0, 3, 17, 100)
    assert (requests.NOT_CONTROLLER, requests.THROTTLED, requests.REASSIGNMENT) == (41, 89, 60)
