"""Elections over brokers in memory: what is requested, and what each answer means."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import LeaderChange
from topiarist.model.outcome import Outcome, Result
from topiarist.planning.moves import ledger as ledger_module
from unit.adapters.kafka_admin.moves.moving_brokers import MovingBrokers
from unit.adapters.kafka_admin.scripted_session import LOST, NOT_SENT, reply

FIRST, SECOND = LeaderChange(0, 2, 1), LeaderChange(1, 3, 2)


@pytest.fixture
def brokers(brokers: MovingBrokers) -> MovingBrokers:
    """Return brokers with a topic that two other brokers lead."""
    brokers.create("a", (1, 2), (2, 3))
    brokers.topics["a"][0].leader, brokers.topics["a"][1].leader = 2, 3
    return brokers


def test_preferred_leaders_are_elected(brokers: MovingBrokers) -> None:
    """One request has all partitions, and the lock is given up; a second run has nothing to do."""
    plan = brokers.election_plan("a", FIRST, SECOND)
    assert brokers.elect(plan) == [Outcome("a", Result.DONE)]
    assert [part.leader for part in brokers.topics["a"].values()] == [1, 2]
    assert [
        [(each.topic, each.partitions) for each in sent.request.topic_partitions]
        for sent in brokers.session.sent
        if sent.name == "ElectLeaders"
    ] == [[("a", [0, 1])]]
    assert not brokers.records.is_held
    assert brokers.elect(plan) == [Outcome("a", Result.UNCHANGED)]
    assert brokers.session.names().count("ElectLeaders") == 1


NOT_ELECTED = "the controller did not elect broker 1 as the leader of partition 0"
LED_AGAIN = "the controller elected broker 1 as the leader of partition 0, and another broker leads it again"
ACCEPTED = reply(
    error_code=0,
    replica_election_results=[
        reply(topic="a", partition_result=[reply(partition_id=0, error_code=0, error_message=None)])
    ],
)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (80, "the controller cannot elect broker 1 as the leader of partition 0: it is not in sync"),
        (42, f"{NOT_ELECTED}: INVALID_REQUEST (42): why"),
        (None, f"{NOT_ELECTED}: no answer"),
        (84, LED_AGAIN),
        (ACCEPTED, LED_AGAIN),
        (reply(error_code=42, replica_election_results=[]), f"{NOT_ELECTED}: INVALID_REQUEST (42)"),
        (LOST, f"{NOT_ELECTED}: no answer"),
    ],
)
def test_a_partition_that_is_not_elected(brokers: MovingBrokers, answer: Any, message: str) -> None:
    """The leaders that are read count, and no request is repeated.

    The code of a partition, that of the whole answer, or a lost answer is the cause.
    """
    is_of_partition = isinstance(answer, int | None)
    if is_of_partition:
        brokers.refusals["a", 0] = (answer, "why")
    else:
        brokers.session.script["ElectLeaders"] = answer
    (outcome,) = brokers.elect(brokers.election_plan("a", FIRST, SECOND))
    assert outcome.result is Result.PENDING
    assert message in (outcome.message or "")
    assert brokers.topics["a"][1].leader == (2 if is_of_partition else 3)
    assert brokers.session.names().count("ElectLeaders") == 1


@pytest.mark.parametrize(("wait", "requests"), [(True, 2), (False, 1)])
def test_without_wait_one_request_is_sent(
    brokers: MovingBrokers, monkeypatch: pytest.MonkeyPatch, wait: bool, requests: int
) -> None:
    """Partitions beyond one request are elected by the next one, or by the next run."""
    monkeypatch.setattr(ledger_module, "MAX_PARTITIONS", 1)
    (outcome,) = brokers.elect(brokers.election_plan("a", FIRST, SECOND), wait=wait)
    message = "1 of 2 leaders elected: the run was stopped; run again"
    assert outcome == (Outcome("a", Result.DONE) if wait else Outcome("a", Result.PENDING, Reason.NOT_ELECTED, message))
    assert brokers.session.names().count("ElectLeaders") == requests
    assert [(each.batch, each.batches) for each in brokers.seen] == [(1, 2), (2, 2)][:requests]


@pytest.mark.parametrize("code", [29, 31])
def test_without_the_right(brokers: MovingBrokers, code: int) -> None:
    """The run ends with the right that is missing."""
    brokers.refusals["a", 0] = (code, "why")
    with pytest.raises(TopiaristError, match="it needs Alter on the cluster") as caught:
        brokers.elect(brokers.election_plan("a", FIRST))
    assert caught.value.reason is Reason.NO_PERMISSION
    assert f"({code}): why" in caught.value.message


def test_one_partition_that_is_denied(brokers: MovingBrokers) -> None:
    """It alone is not elected, with the cause; the run goes on."""
    brokers.create("b", (1, 2))
    brokers.topics["b"][0].leader = 2
    plan, other = (brokers.election_plan(name, FIRST) for name in "ab")
    brokers.refusals["a", 0] = (29, "why")
    pending, done = sorted(brokers.elect(replace(plan, topics=(*plan.topics, *other.topics))))
    assert (done, pending.result) == (Outcome("b", Result.DONE), Result.PENDING)
    assert "TOPIC_AUTHORIZATION_FAILED (29): why" in pending.message


def test_a_topic_that_is_not_described(brokers: MovingBrokers) -> None:
    """Its leaders cannot be compared: nothing is elected, and the cause is its own."""
    plan = brokers.election_plan("a", FIRST)
    brokers.errors["Metadata", "a"] = 29
    (outcome,) = brokers.elect(plan)
    assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.NO_PERMISSION)
    assert "no permission to read topic a: it needs Describe on the topic" in outcome.message
    assert "ElectLeaders" not in brokers.session.names()


def test_a_request_that_cannot_be_sent(brokers: MovingBrokers) -> None:
    """The error ends the run after the outcomes, and the lock is free."""
    brokers.session.script["ElectLeaders"] = NOT_SENT
    plan, outcomes = brokers.election_plan("a", FIRST), list[Outcome]()
    run = brokers.move(plan)
    with pytest.raises(TopiaristError) as caught:
        outcomes.extend(run)
    assert caught.value.reason is Reason.UNREACHABLE
    assert [(each.result, each.reason) for each in outcomes] == [(Result.UNKNOWN, Reason.OUTCOME_UNKNOWN)]
    assert not brokers.records.is_held


@pytest.mark.parametrize("stops", [[True] * 4, [False, True, True, True]], ids=["at once", "during the wait"])
def test_a_stopped_run(brokers: MovingBrokers, stops: list[bool]) -> None:
    """Nothing is requested, also if it is stopped while the lock is awaited, and the topic is skipped."""
    outcomes = brokers.elect(brokers.election_plan("a", FIRST), stop=iter(stops).__next__)
    assert outcomes == [Outcome("a", Result.SKIPPED)]
    assert "ElectLeaders" not in brokers.session.names()


def test_an_unhealthy_leader_is_not_requested(brokers: MovingBrokers) -> None:
    """A preferred leader that is not in sync is held with its cause."""
    brokers.topics["a"][0].isr = (2,)
    (outcome,) = brokers.elect(brokers.election_plan("a", FIRST))
    assert outcome.result is Result.PENDING
    assert "ElectLeaders" not in brokers.session.names()


def test_moves_come_before_elections(brokers: MovingBrokers) -> None:
    """A plan with both moves first; a plan of elections alone does not wait for other clients."""
    brokers.create("b", (1, 2))
    brokers.reassign("b", 0, (1, 3))
    brokers.copies_at_sleep = False
    plan: Any = brokers.election_plan("a", FIRST, SECOND)
    assert [*brokers.move(plan)] == [Outcome("a", Result.DONE)]
    assert brokers.clock.slept == []
