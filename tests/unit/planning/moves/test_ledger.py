"""Batches of moves: their order, their limits, and the throttled replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import RACKLESS_BROKERS, topic
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import BatchLimits, LeaderChange, MoveProgress, MoveSettings, MoveType, ReplicaMove
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import ElectLeaders, Plan, TopicPlan
from topiarist.model.state import PartitionState
from topiarist.planning.moves import ledger as election_ledger
from topiarist.planning.moves.gate import ElectionJudgement, MovedTopic
from topiarist.planning.moves.ledger import HINT_NOTHING_SENT, ElectionLedger, MoveLedger, fill_window, make_batches
from topiarist.planning.moves.throttles import find_throttled_brokers, find_throttled_replicas
from topiarist.planning.risk import assess_elections
from topiarist.ports import MoveOptions

LISTS = st.permutations(range(6)).flatmap(lambda ids: st.integers(1, 3).map(lambda width: tuple(ids[:width])))
MOVES = st.lists(
    st.tuples(st.sampled_from("tu"), st.integers(0, 60), LISTS, LISTS).filter(lambda move: move[2] != move[3]),
    max_size=60,
    unique_by=lambda move: move[:2],
).map(lambda moves: [ReplicaMove(*move) for move in moves])
LIMITS = st.builds(BatchLimits, st.integers(1, 8), st.integers(1, 4), st.integers(1, 4))


def fits(batch: list[ReplicaMove], move: ReplicaMove, limits: BatchLimits) -> bool:
    """Return whether a batch has room for one more move."""
    all_moves = [*batch, move]
    incoming = Counter(broker for each in all_moves for broker in each.added)
    outgoing = Counter(each.before[0] for each in all_moves)
    return (
        len(all_moves) <= limits.partitions
        and max(incoming.values()) <= limits.incoming
        and max(outgoing.values()) <= limits.outgoing
    )


@given(MOVES, LIMITS)
def test_each_move_joins_the_first_batch_with_room(moves: list[ReplicaMove], limits: BatchLimits) -> None:
    """The batches are those of the plain search through all batches."""
    expected: list[list[ReplicaMove]] = []
    order = [MoveType.RAISE, MoveType.MOVE]
    copying = [move for move in moves if move.added]
    for move in sorted(copying, key=lambda move: (order.index(move.type), move.topic, move.partition)):
        batch = next((batch for batch in expected if fits(batch, move, limits)), None)
        if batch is None:
            expected.append(batch := [])
        batch.append(move)
    found = make_batches(moves, limits)
    assert [[*batch] for batch in found if batch[0].added] == expected


@given(MOVES, LIMITS)
def test_what_copies_nothing_comes_first_and_by_itself(moves: list[ReplicaMove], limits: BatchLimits) -> None:
    """Every move is in one batch; reordered and shortened lists are in batches before all copies."""
    batches = make_batches(moves, limits)
    assert Counter(move for batch in batches for move in batch) == Counter(moves)
    copies = [any(move.added for move in batch) for batch in batches]
    assert copies == sorted(copies)
    for batch in batches:
        assert 0 < len(batch) <= limits.partitions
        assert len({bool(move.added) for move in batch}) == 1
    still = [move.type for batch in batches for move in batch if not move.added]
    assert still == sorted(still, key=[MoveType.REORDER, MoveType.LOWER].index)


def test_only_copies_are_throttled() -> None:
    """The replicas before are read from and the added ones written; a reordered list is not named."""
    moves = [
        ReplicaMove("t", 10, (1, 2), (3, 2)),
        ReplicaMove("t", 2, (4, 2), (4, 2, 5)),
        ReplicaMove("t", 3, (6, 7), (7, 6)),
        ReplicaMove("u", 0, (6, 7), (7,)),
    ]
    found = find_throttled_replicas(moves)
    assert found == {"t": (((2, 2), (2, 4), (10, 1), (10, 2)), ((2, 5), (10, 3)))}
    assert find_throttled_brokers(found.values()) == (1, 2, 3, 4, 5)


def test_a_move_says_what_it_does() -> None:
    """The four types, and the list while the controller moves the partition."""
    assert ReplicaMove("t", 0, (3, 1), (1, 3)).type is MoveType.REORDER
    assert ReplicaMove("t", 0, (1, 2), (2,)).type is MoveType.LOWER
    assert ReplicaMove("t", 0, (2, 3), (2, 3, 4)).type is MoveType.RAISE
    assert ReplicaMove("t", 0, (1, 2), (4, 2)).type is MoveType.MOVE
    assert ReplicaMove("t", 0, (1, 2), (4, 2)).in_flight == (4, 2, 1)


@given(MOVES, LIMITS, st.data())
def test_a_window_has_the_limits_of_a_batch(moves: list[ReplicaMove], limits: BatchLimits, data: st.DataObject) -> None:
    """Nothing is in flight above the limits, and no move that has room is left out."""
    waiting, in_flight, done = list(moves), list[ReplicaMove](), list[ReplicaMove]()
    while waiting or in_flight:
        joining = fill_window(waiting, in_flight, (), limits)
        assert joining or in_flight
        in_flight += joining
        waiting = [move for move in waiting if move not in joining]
        copying = [move for move in in_flight if move.added]
        assert len(in_flight) <= limits.partitions
        assert not copying or fits(copying[:-1], copying[-1], limits)
        if len(in_flight) < limits.partitions:
            assert not [move for move in waiting if not move.added or fits(copying, move, limits)]
        finished = data.draw(st.lists(st.sampled_from(in_flight), min_size=1, unique=True))
        in_flight = [move for move in in_flight if move not in finished]
        done += finished
    assert sorted(done) == sorted(moves)


def test_other_clients_count_for_the_limits_of_brokers() -> None:
    """They take no place of a partition."""
    waiting = [ReplicaMove("t", 0, (1, 2), (3, 2)), ReplicaMove("t", 1, (2, 1), (4, 1))]
    others = [ReplicaMove("u", 0, (5,), (3,))]
    assert fill_window(waiting, (), others, BatchLimits(1, 1, 1)) == (waiting[1],)
    assert fill_window(waiting, (), (), BatchLimits(2, 1, 1)) == tuple(waiting)


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


def judge(ledger: ElectionLedger, elections: list[LeaderChange], current: MovedTopic) -> ElectionJudgement | None:
    """Return the judgement of elections of the topic as it is now; None if it is closed."""
    partitions = [("orders", each.partition) for each in elections]
    return next((found for _, found in ledger.judge(partitions, lambda _: current)), None)


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
    if sent:
        ledger.add_sent([("orders", 0)])
    half = {**ELECTED, 2: AWAY[2]}
    judgement = judge(ledger, [FIRST, LAST], look(half))
    assert judgement is not None
    assert judgement.ready == (LAST,)
    assert ledger.find_left([("orders", 2), ("orders", 0), ("other", 0)]) == {"orders": [LAST]}
    assert [*ledger.take_outcomes()] == []
    assert judge(ledger, [LAST], look(ELECTED)) is None
    assert [*ledger.take_outcomes()] == [Outcome("orders", result)]
    assert [*ledger.take_outcomes()] == []
    assert ledger.open == {}
    ledger.requests = 1
    ledger.report()
    assert (reports[0].batch, reports[0].batches, reports[0].done, reports[0].total) == (1, 2, 2, 2)


def test_a_conflict_closes_the_topic() -> None:
    """A topic that was deleted has a conflict, and nothing more of it is left."""
    ledger = make_ledger([])
    assert judge(ledger, [FIRST, LAST], look(ELECTED)._replace(topic=None)) is None
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
    judge(ledger, [FIRST], look({**AWAY, 0: PartitionState(2, (2,))}))
    assert ledger.pending_outcome(orders, "").message == (
        "0 of 2 leaders elected: broker 1, the first replica of partition 0, is not in sync; run again"
    )
    judge(ledger, [FIRST], look({**AWAY, 0: ELECTED[0]}))
    assert orders.causes == {}
    assert ledger.pending_outcome(orders, "why").message == "1 of 2 leaders elected: why; run again"


@pytest.mark.parametrize(
    ("reason", "hint", "batches", "shown"),
    [
        (Reason.FROZEN, "unfreeze it", 1, "unfreeze it; moves continue"),
        (Reason.FROZEN, "unfreeze it", 0, "unfreeze it"),
        (Reason.UNREACHABLE, "moves continue", 1, "moves continue"),
        (Reason.UNREACHABLE, "moves continue", 0, HINT_NOTHING_SENT),
    ],
)
def test_an_error_says_what_becomes_of_the_moves(reason: Reason, hint: str, batches: int, shown: str) -> None:
    """Moves that were sent, and their throttles, are left to the next run, also by a freeze."""
    ledger = MoveLedger(Plan("prod", "id"), MoveOptions())
    ledger.batches_sent = batches

    def fail() -> Iterator[None]:
        yield
        raise TopiaristError(reason, "why", hint)

    with pytest.raises(TopiaristError) as caught:
        list(ledger.execute(fail(), lambda: None, "moves continue"))
    assert caught.value.hint == shown
