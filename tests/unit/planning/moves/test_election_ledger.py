"""The ledger of elections: which are left, which outcome a topic has, and what is reported."""

from __future__ import annotations

import pytest

from support.builders import RACKLESS_BROKERS, topic
from topiarist.model.moves import LeaderChange, MoveProgress, MoveSettings
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import ElectLeaders, Plan, TopicPlan
from topiarist.model.state import PartitionState
from topiarist.planning.moves.execution import ledger as election_ledger
from topiarist.planning.moves.execution.gate import MovedTopic
from topiarist.planning.moves.execution.ledger import ElectionLedger
from topiarist.planning.risk import assess_elections
from topiarist.ports import MoveOptions

FIRST, LAST = LeaderChange(0, 2, 1), LeaderChange(2, 4, 3)
BEFORE = topic()
ELECTED = {0: PartitionState(1, (1, 2)), 1: PartitionState(2, (2, 3)), 2: PartitionState(3, (3, 4))}
AWAY = {**ELECTED, 0: PartitionState(2, (1, 2)), 2: PartitionState(4, (3, 4))}


def make_ledger(reports: list[MoveProgress]) -> ElectionLedger:
    """Return the ledger of a plan with two elections of one topic."""
    changes = (ElectLeaders((FIRST, LAST), assess_elections((FIRST, LAST))),)
    plan = TopicPlan("orders", BEFORE, BEFORE.record, BEFORE.record, changes)
    return ElectionLedger(Plan("prod", "id", topics=(plan,)), MoveOptions(MoveSettings(), on_progress=reports.append))


def look(states: dict[int, PartitionState]) -> MovedTopic:
    """Return the topic with these states."""
    return MovedTopic(BEFORE, {}, False, {broker.id: broker for broker in RACKLESS_BROKERS}, states)


def test_requests_are_of_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request has at most ``MAX_PARTITIONS`` partitions, in order."""
    monkeypatch.setattr(election_ledger, "MAX_PARTITIONS", 1)
    assert [*make_ledger([]).queue] == [(("orders", 0),), (("orders", 2),)]
    monkeypatch.setattr(election_ledger, "MAX_PARTITIONS", 2)
    assert [*make_ledger([]).queue] == [(("orders", 0), ("orders", 2))]


@pytest.mark.parametrize(("sent", "result"), [(True, Result.DONE), (False, Result.UNCHANGED)])
def test_a_topic_ends_with_its_last_election(sent: bool, result: Result) -> None:
    """A leader that is elected is counted and never asked for again; the last one gives the outcome, once."""
    reports: list[MoveProgress] = []
    ledger = make_ledger(reports)
    (orders,) = ledger.open.values()
    if sent:
        ledger.add_sent([("orders", 0)])
    half = {**ELECTED, 2: AWAY[2]}
    judgement = ledger.judge(orders, [FIRST, LAST], look(half))
    assert judgement is not None
    assert judgement.ready == (LAST,)
    assert ledger.find_left([("orders", 2), ("orders", 0), ("other", 0)]) == {"orders": [LAST]}
    assert [*ledger.take_outcomes()] == []
    assert ledger.judge(orders, [LAST], look(ELECTED)) is None
    assert [*ledger.take_outcomes()] == [Outcome("orders", result)]
    assert [*ledger.take_outcomes()] == []
    assert ledger.open == {}
    ledger.requests = 1
    ledger.report()
    assert (reports[0].batch, reports[0].batches, reports[0].done, reports[0].total) == (1, 2, 2, 2)


def test_a_conflict_closes_the_topic() -> None:
    """A topic that was deleted has a conflict, and nothing more of it is left."""
    ledger = make_ledger([])
    (orders,) = ledger.open.values()
    assert ledger.judge(orders, [FIRST, LAST], look(ELECTED)._replace(topic=None)) is None
    (outcome,) = ledger.take_outcomes()
    assert outcome.result is Result.CONFLICT
    assert ledger.find_left([("orders", 0)]) == {}


def test_what_is_left_has_a_cause() -> None:
    """The cause of a partition is told, else that of the adapter; an election that is done has none any more."""
    ledger = make_ledger([])
    (orders,) = ledger.open.values()
    assert ledger.pending_outcome(orders, "the run was stopped").message == (
        "0 of 2 leaders elected: the run was stopped; run again"
    )
    ledger.judge(orders, [FIRST], look({**AWAY, 0: PartitionState(2, (2,))}))
    assert ledger.pending_outcome(orders, "").message == (
        "0 of 2 leaders elected: broker 1, the first replica of partition 0, is not in sync; run again"
    )
    ledger.judge(orders, [FIRST], look({**AWAY, 0: ELECTED[0]}))
    assert orders.causes == {}
    assert ledger.pending_outcome(orders, "why").message == "1 of 2 leaders elected: why; run again"
