"""Moves of replicas and elections through Kafka's own API, on real brokers in KRaft mode."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest

import pytest
from msgspec.structs import replace

from brokers.moves_fixture import MESSAGE
from brokers.shared_clusters import THREE_RACKS
from support.kafka.kraft import CONTROLLER
from support.kafka.kraft_fixture import KraftFixture
from support.kafka.records_in_memory import RecordsInMemory
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.moves import look
from topiarist.adapters.kafka_admin.moves.look import MoveReader
from topiarist.adapters.kafka_admin.moves.mover import Elector, MoveAccess, Mover, clear_moves
from topiarist.adapters.kafka_admin.read.sync import sync
from topiarist.adapters.kafka_admin.records.codec import TopicRecord
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Replicas
from topiarist.model.access import KafkaAccess
from topiarist.model.moves import (
    DEFAULT_BATCH_LIMITS,
    BatchLimits,
    LeaderChange,
    MoveProgress,
    MoveSettings,
    ReplicaMove,
)
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import SAFE_ASSESSMENT, ElectLeaders, MoveReplicas, Plan, TopicPlan
from topiarist.model.state import OwnershipRecord
from topiarist.ports import MoveOptions

SLOW, FAST = 1024, 50 << 20
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
OWNER = "team"

Lists = Sequence[Replicas]


class Ended(Exception):
    """The end of a run at one request, as of a process that is killed."""


@dataclass
class Moves:
    """A cluster, the records of topiarist in memory, and runs over them."""

    bed: KraftFixture
    records: RecordsInMemory = field(default_factory=RecordsInMemory)
    seen: list[MoveProgress] = field(default_factory=list)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open connections."""
        session = Session(KafkaAccess(self.bed.kafka.bootstrap), 5.0)
        try:
            yield session
        finally:
            session.close()

    def reader(self, session: Session) -> MoveReader:
        """Return a reader."""
        return MoveReader(session, lambda: sync(session))

    def create(self, name: str, lists: Lists, *, messages: int = 0) -> None:
        """Create a topic with an owner, in sync, and with messages in each partition."""
        assert self.bed.clients.create({name: lists}) == {}
        self.bed.kafka.wait(lambda: self._is_in_sync(name), f"{name} in sync")
        for _ in range(messages):
            self.bed.clients.produce({name: len(lists)}, MESSAGE)
        with self.session() as session:
            topic = self.reader(session).look([name]).topics[name]
        assert topic is not None
        self.records.topics[name] = TopicRecord(OwnershipRecord(OWNER), topic.topic_id)

    def plan(self, targets: Mapping[str, Lists]) -> Plan:
        """Return a plan that moves topics to these lists."""
        with self.session() as session:
            state = self.reader(session).look(sorted(targets))
        topics = []
        for name, lists in sorted(targets.items()):
            before = state.topics[name]
            assert before is not None
            moves = tuple(
                ReplicaMove(name, partition, was, tuple(wanted))
                for partition, (was, wanted) in enumerate(zip_longest(before.replicas, lists))
                if was != tuple(wanted)
            )
            record = OwnershipRecord(OWNER)
            changes = (MoveReplicas(moves, SAFE_ASSESSMENT),) if moves else ()
            topics.append(TopicPlan(name, before, record, record, changes=changes))
        return Plan("prod", "", owner=OWNER, topics=tuple(topics), brokers=tuple(state.brokers.values()))

    def run(
        self,
        plan: Plan,
        *,
        rate: int = FAST,
        limits: BatchLimits = DEFAULT_BATCH_LIMITS,
        stop: Callable[[], bool] = lambda: False,
        stall_after: int = 60,
        wait: bool = True,
    ) -> list[Outcome]:
        """Carry out the moves of a plan."""
        settings = MoveSettings(throttle=rate, batch=limits, stall_after=stall_after)
        options = MoveOptions(settings, wait, self.seen.append)
        try:
            with self.session() as session:
                return [*Mover(MoveAccess(session, self.reader(session), self.records, stop), plan, options).execute()]
        finally:
            self.records.is_held = False

    def run_to_request(self, plan: Plan, number: int, **options: object) -> bool:
        """Run and end before a request, counted from 1; return whether the run got that far."""
        last = self.records.fence_checks + number

        def end(count: int) -> None:
            if count == last:
                raise Ended

        self.records.before_fence = end
        try:
            self.run(plan, **options)  # type: ignore[arg-type]
        except Ended:
            return True
        finally:
            self.records.before_fence = lambda number: None
        return False

    def lists(self, name: str) -> Lists:
        """Return the replica lists of a topic."""
        topic = self.bed.clients.describe([name])[name]
        assert topic is not None
        return topic.replicas

    def throttles(self, *topics: str) -> dict[str, Mapping[str, str]]:
        """Return the throttles of topics, and of all brokers, that are set."""
        entities = [*(f"topics/{name}" for name in topics), *(f"brokers/{broker}" for broker in THREE_RACKS)]
        with self.session() as session:
            found = self.reader(session).read_throttles(entities)
        assert not found.unreachable
        return {entity: values for entity, values in found.configs.items() if values}

    def reassign(self, name: str, partition: int, before: Replicas, after: Replicas) -> None:
        """Move a partition as another client."""
        request = look.build_reassignments([ReplicaMove(name, partition, before, after)])
        with self.session() as session:
            elements = look.read_reassignments_answer(session.controller().call(request), [(name, partition)])
        assert elements[name, partition].code == 0

    def cancel(self, name: str, partition: int) -> None:
        """Cancel the reassignment of a partition as another client."""
        request = look.build_reassignments([ReplicaMove(name, partition, (), ())])
        request.topics[0].partitions[0].replicas = None
        with self.session() as session:
            elements = look.read_reassignments_answer(session.controller().call(request), [(name, partition)])
        assert elements[name, partition].code == 0

    def _is_in_sync(self, name: str) -> bool:
        topic = self.bed.clients.describe([name])[name]
        return topic is not None and topic.is_in_sync


@pytest.fixture
def moves(kraft: KraftFixture) -> Moves:
    """Return the shared cluster, with new records."""
    return Moves(kraft)


def test_raise_lower_drain_and_reorder(moves: Moves) -> None:
    """All kinds of moves are carried out, the data are there, and no throttle is left."""
    moves.create("raised", [(1,), (2,)], messages=3)
    moves.create("lowered", [(1, 2, 3), (2, 3, 1)], messages=3)
    moves.create("drained", [(3, 1), (1, 2)], messages=3)
    moves.create("reordered", [(1, 2)], messages=3)
    targets: dict[str, Lists] = {
        "raised": [(1, 2), (2, 3)],
        "lowered": [(1, 2), (3, 2)],
        "drained": [(2, 1), (1, 2)],
        "reordered": [(2, 1)],
    }
    plan = moves.plan(targets)
    assert sorted(moves.run(plan)) == [Outcome(name, Result.DONE) for name in sorted(targets)]
    for name, lists in targets.items():
        assert tuple(moves.lists(name)) == tuple(lists)
    assert moves.throttles(*targets) == {}
    assert moves.records.batch is None
    assert sorted(moves.run(plan)) == [Outcome(name, Result.UNCHANGED) for name in sorted(targets)]
    finished = [(move.topic, move.partition) for progress in moves.seen for move in progress.finished]
    assert len(finished) == 2 * len(set(finished)) == 2 * 6  # each once in each run


def test_further_moves_join_those_in_flight(moves: Moves) -> None:
    """At most two partitions are in flight at any moment, and the third is sent before both are done."""
    moves.create("rolling", [(1, 2)] * 6, messages=2)
    plan = moves.plan({"rolling": [(3, 2)] * 6})
    limits = BatchLimits(partitions=2, incoming=2, outgoing=2)
    assert moves.run(plan, limits=limits) == [Outcome("rolling", Result.DONE)]
    assert max(len(progress.copying) for progress in moves.seen) <= 2
    assert all(len(batch.moves) <= 2 for batch in moves.records.batches if batch)
    assert list(moves.lists("rolling")) == [(3, 2)] * 6
    assert moves.throttles("rolling") == {}


def test_a_throttle_is_held_and_put_back_by_value(moves: Moves) -> None:
    """A rate of another client stays; ours are there while brokers copy, and go at the end, also in a next run."""
    moves.create("held", [(1, 2)], messages=15)
    assert moves.bed.clients.alter({"3": {RATES[0]: "7777777"}}, kind="BROKER") == {}
    plan = moves.plan({"held": [(1, 3)]})
    stopped = threading.Event()
    found: list[dict[str, Mapping[str, str]]] = []

    def stop() -> bool:
        if not stopped.is_set() and moves.seen and moves.seen[-1].copying:
            found.append(moves.throttles("held"))
            stopped.set()
        return stopped.is_set()

    (outcome,) = moves.run(plan, rate=SLOW, stop=stop)
    assert (outcome.result, outcome.reason) == (Result.PENDING, Reason.MOVES_UNFINISHED)
    assert found[0] == {
        "topics/held": {
            "leader.replication.throttled.replicas": "0:1,0:2",
            "follower.replication.throttled.replicas": "0:3",
        },
        "brokers/1": dict.fromkeys(RATES, str(SLOW)),
        "brokers/2": dict.fromkeys(RATES, str(SLOW)),
        "brokers/3": {RATES[0]: "7777777", RATES[1]: str(SLOW)},
    }
    assert moves.throttles("held") == found[0]  # the stopped run leaves them: brokers copy
    with moves.session() as session, pytest.raises(TopiaristError) as caught:
        clear_moves(session, moves.reader(session), moves.records)
    assert caught.value.reason is Reason.REASSIGNMENT_IN_PROGRESS
    assert moves.run(plan, rate=FAST) == [Outcome("held", Result.DONE)]
    assert moves.throttles("held") == {"brokers/3": {RATES[0]: "7777777"}}
    assert moves.bed.clients.alter({"3": {RATES[0]: None}}, kind="BROKER") == {}
    assert moves.records.batch is None


@pytest.mark.parametrize("with_clear", [False, True], ids=["next run", "clear"])
def test_k21_a_run_that_ends_at_any_request(moves: Moves, with_clear: bool) -> None:
    """The next run, or ``moves clear``, finds every throttle that was written, and nothing is moved twice."""
    name = f"crash-{'clear' if with_clear else 'run'}"
    before, after = [(1, 2), (2, 1)], [(3, 2), (2, 3)]
    moves.create(name, before, messages=1)
    number, is_back = 1, False
    limits = BatchLimits(partitions=1)
    while True:
        plan = moves.plan({name: before if is_back else after})
        if not moves.run_to_request(plan, number, limits=limits):
            break
        if with_clear:
            moves.bed.kafka.wait(lambda: not moves.bed.clients.ongoing_reassignments(), "no reassignment")
            with moves.session() as session:
                clear_moves(session, moves.reader(session), moves.records)
            assert moves.throttles(name) == {}, number
            assert moves.records.batch is None
        (outcome,) = moves.run(plan)
        assert outcome.result in (Result.DONE, Result.UNCHANGED), (number, outcome)
        assert moves.throttles(name) == {}, number
        assert moves.records.batch is None, number
        assert list(moves.lists(name)) == list(before if is_back else after)
        number, is_back = number + 1, not is_back
    assert number > 8


def test_k22_the_controller_is_restarted_while_brokers_copy(moves: Moves) -> None:
    """The run waits, and goes on."""
    moves.create("restarted", [(1, 2)] * 4, messages=3)
    plan = moves.plan({"restarted": [(3, 2)] * 4})
    restarted = threading.Event()

    def stop() -> bool:
        if not restarted.is_set() and moves.seen and moves.seen[-1].copying:
            restarted.set()
            moves.bed.kafka.restart(CONTROLLER)
        return False

    assert moves.run(plan, limits=BatchLimits(1, 1, 1), rate=FAST, stop=stop) == [Outcome("restarted", Result.DONE)]
    assert restarted.is_set()
    assert list(moves.lists("restarted")) == [(3, 2)] * 4
    assert moves.throttles("restarted") == {}


def test_k23_another_client_moves_partitions(moves: Moves) -> None:
    """Its partition is not touched, and the limits of the brokers count its copies."""
    moves.create("theirs", [(1, 2)], messages=15)
    moves.create("ours", [(1, 2)], messages=1)
    plan = moves.plan({"ours": [(1, 3)], "theirs": [(2, 3)]})
    assert moves.bed.clients.throttle(SLOW) == {}
    slow = {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"}
    assert moves.bed.clients.alter({"theirs": slow}) == {}
    moves.reassign("theirs", 0, (1, 2), (1, 3))

    def stop() -> bool:
        if moves.seen and "another client" in moves.seen[-1].waiting_for:
            assert moves.bed.clients.throttle(None) == {}
        return False

    outcomes = {each.topic: each for each in moves.run(plan, limits=BatchLimits(5, 1, 5), stop=stop)}
    assert outcomes["theirs"].result is Result.CONFLICT
    assert outcomes["ours"] == Outcome("ours", Result.DONE)
    assert any("another client" in progress.waiting_for for progress in moves.seen)
    moves.bed.kafka.wait(lambda: list(moves.lists("theirs")) == [(1, 3)], "the other move")
    assert moves.throttles("theirs")["topics/theirs"] == slow


def test_k24_a_move_that_another_client_cancels(moves: Moves) -> None:
    """It is reported as dropped, and is not sent again; the throttles are put back."""
    moves.create("cancelled", [(1, 2)], messages=15)
    plan = moves.plan({"cancelled": [(1, 3)]})
    cancelled = threading.Event()

    def stop() -> bool:
        if not cancelled.is_set() and moves.seen and moves.seen[-1].copying:
            cancelled.set()
            moves.cancel("cancelled", 0)
        return False

    (outcome,) = moves.run(plan, rate=SLOW, stop=stop)
    assert (outcome.result, outcome.reason) == (Result.FAILED, Reason.MOVE_DROPPED)
    assert moves.throttles("cancelled") == {}


def test_k25_a_target_that_ends_while_it_copies(moves: Moves) -> None:
    """The run names the broker, and ends when nothing changes; the next run goes on when it is back."""
    moves.create("ended", [(1, 2)], messages=15)
    plan = moves.plan({"ended": [(1, 3)]})
    killed = threading.Event()

    def stop() -> bool:
        if not killed.is_set() and moves.seen and moves.seen[-1].copying:
            killed.set()
            moves.bed.kafka.kill(3)
            moves.bed.kafka.wait(lambda: moves.bed.registered() == {1, 2}, "the session to expire")
        return False

    with pytest.raises(TopiaristError) as caught:
        moves.run(plan, rate=SLOW, stop=stop, stall_after=6)
    assert caught.value.reason is Reason.MOVES_STALLED
    assert "broker 3 is not registered" in str(caught.value)
    moves.bed.kafka.start(3)
    moves.bed.kafka.wait(lambda: moves.bed.registered() == {1, 2, 3}, "broker 3")
    assert moves.run(plan, rate=FAST) == [Outcome("ended", Result.DONE)], moves.throttles("ended")
    assert moves.throttles("ended") == {}


def test_elections(moves: Moves) -> None:
    """Preferred leaders are elected, and those that lead already are not elected again."""
    moves.create("elected", [(1, 2), (2, 3)])
    assert moves.run(moves.plan({"elected": [(2, 1), (2, 3)]})) == [Outcome("elected", Result.DONE)]
    before = moves.plan({"elected": [(2, 1), (2, 3)]}).topics[0]
    change = ElectLeaders((LeaderChange(0, 1, 2), LeaderChange(1, 3, 2)), SAFE_ASSESSMENT)
    plan = Plan("prod", "", owner=OWNER, topics=(replace(before, changes=(change,)),))

    def run() -> list[Outcome]:
        options = MoveOptions(MoveSettings(), on_progress=moves.seen.append)
        with moves.session() as session:
            return [
                *Elector(
                    MoveAccess(session, moves.reader(session), moves.records, lambda: False), plan, options
                ).execute()
            ]

    assert run() == [Outcome("elected", Result.DONE)]
    assert run() == [Outcome("elected", Result.UNCHANGED)]
    topic = moves.bed.clients.describe(["elected"])["elected"]
    assert topic is not None
    assert [partition.leader for partition in topic.partitions] == [2, 2]
