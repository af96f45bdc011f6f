"""The requests of a read of usage: one time limit for all, and a problem noted for each that is not answered."""

from __future__ import annotations

import pytest

from topiarist.adapters.kafka_admin.connection.connection import UnsupportedRequest
from topiarist.adapters.kafka_admin.protocol.messages import ListGroupsRequest
from topiarist.adapters.kafka_admin.usage.groups import (
    ATTEMPTS,
    MAX_PROBLEMS,
    RETRY_INTERVAL_S,
    UsageRequests,
    chunks,
    is_temporary,
)
from topiarist.model.usage import UsageProblem
from unit.adapters.kafka_admin.scripted_session import LOST, FakeTime, ScriptedSession, reply

REQUEST = ListGroupsRequest(states_filter=[], types_filter=[])


def test_a_request_has_the_rest_of_the_time(clock: FakeTime) -> None:
    """The limit is for all requests together; at its end nothing is sent, and a timeout is noted."""
    answer = reply(error_code=0, groups=[])
    session = ScriptedSession({"ListGroups": answer})
    requests = UsageRequests(session, 10.0)
    clock.current += 4
    assert requests.ask("ListGroups", 2, REQUEST, at_most=3) is answer
    assert [(each.broker, each.version, each.timeout) for each in session.sent] == [(2, 3, 6.0)]
    clock.current += 6
    assert requests.ask("ListGroups", 2, REQUEST) is None
    assert len(session.sent) == 1
    assert requests.problems == [UsageProblem("ListGroups", 2, 7)]


@pytest.mark.parametrize(("error", "code"), [(LOST, 13), (UnsupportedRequest("not offered"), 35)])
def test_a_request_without_an_answer_is_a_problem(error: Exception, code: int) -> None:
    """A lost connection is NETWORK_EXCEPTION, a request that the broker does not know UNSUPPORTED_VERSION."""
    requests = UsageRequests(ScriptedSession({"ListGroups": error}))
    assert requests.ask("ListGroups", 1, REQUEST) is None
    assert requests.problems == [UsageProblem("ListGroups", 1, code)]


@pytest.mark.parametrize(("throttled", "slept"), [(2000, [2.0]), (60_000, [10.0]), (0, [])])
def test_a_throttled_answer_is_waited_for(clock: FakeTime, throttled: int, slept: list[float]) -> None:
    """The next request is sent when the broker takes it, or when the time is over."""
    session = ScriptedSession({"ListGroups": reply(throttle_time_ms=throttled)})
    requests = UsageRequests(session, 10.0)
    assert requests.ask("ListGroups", 1, REQUEST)
    assert clock.slept == slept


def test_a_throttled_answer_that_comes_too_late_is_not_waited_for(clock: FakeTime) -> None:
    """A broker takes longer than the time for all requests: its answer counts, and no time is left to wait."""

    def answer(_broker: int, _request: object) -> object:
        clock.current += 11
        return reply(throttle_time_ms=2000)

    assert UsageRequests(ScriptedSession({"ListGroups": answer}), 10.0).ask("ListGroups", 1, REQUEST)
    assert clock.slept == [0]


def test_versions() -> None:
    """The version is that of both sides; -1 if there is none, or no connection."""
    session = ScriptedSession({})
    session.versions["ListGroups"] = 2
    requests = UsageRequests(session)
    assert requests.version_of(1, REQUEST) == 2
    session.unsupported.add("ListGroups")
    assert requests.version_of(1, REQUEST) == -1
    session.unreachable.add(3)
    assert requests.version_of(3, REQUEST) == -1


def test_problems_are_limited() -> None:
    """Of more than the limit only the number is kept."""
    requests = UsageRequests(ScriptedSession({}))
    for number in range(MAX_PROBLEMS + 2):
        requests.note("ListGroups", number, 1)
    assert [each.broker for each in requests.problems] == [*range(MAX_PROBLEMS)]
    assert requests.more_problems == 2


def test_attempts(clock: FakeTime) -> None:
    """There are three attempts with a pause between them, and the last one is marked."""
    assert [*UsageRequests(ScriptedSession({})).attempts()] == [False, False, True]
    assert ATTEMPTS == 3
    assert clock.slept == [RETRY_INTERVAL_S, RETRY_INTERVAL_S]
    assert 0 < RETRY_INTERVAL_S < 1


def test_temporary_codes() -> None:
    """Only a leader or coordinator that is not there yet is asked for again."""
    assert [code for code in range(-1, 120) if is_temporary(code)] == [3, 5, 6, 14, 15, 16]


def test_chunks() -> None:
    """The last part may be smaller, and there is no empty one."""
    assert [*chunks([1, 2, 3, 4, 5], 2)] == [[1, 2], [3, 4], [5]]
    assert [*chunks([1, 2], 2)] == [[1, 2]]
    assert [*chunks([], 2)] == []
