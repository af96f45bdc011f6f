"""Carry out moves and elections through Kafka's own API: as moves are done, further ones join those in flight.

The request AlterPartitionReassignments takes each partition by itself, so there is no barrier: at any moment the moves
in flight are within the limits of one batch. Each time moves join, the run takes the lock, compares their topics by
value, writes the record and the throttles (``BatchWriter``), compares once more, and sends them; it gives up the lock
while brokers copy. What became of a move is read from the cluster, never from an answer.

The controller takes a target for a partition that another client moves, and drops the other one. So a partition that is
being reassigned is never named. Reassignments of other clients count for the limits of brokers, and are waited for if
they concern a topic of the plan or leave no room.

A run that ends at any moment leaves moves that the controller finishes; the next run recognizes them by their targets.
Nothing is cancelled, also not after ``stop()``: a plan that moves back does that (``topiarist moves revert``).

Kafka has no transaction over records, configs and reassignments, so the order is what a crash can be recovered from:
the record comes first, and has the values that throttles are about to get beside those that they have. The next run
compares both with what is there. A move has its throttle before it begins, and a throttle goes only when its moves are
done. Configs have no compare-and-set: a change that another client makes between the look and the write is lost.

A broker takes its own configs alone. One that cannot be reached copies nothing, so it needs no throttle; one that we
throttled earlier stays in the record until a later run reaches it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from topiarist.adapters.kafka_admin.connection.connection import translate_errors
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.moves.batch_writer import HINT_CONTINUE, BatchWriter
from topiarist.adapters.kafka_admin.moves.look import (
    ELECTION_NOT_NEEDED,
    PREFERRED_LEADER_NOT_AVAILABLE,
    MoveLook,
    MoveReader,
    Partition,
    build_elections,
    read_elections_answer,
)
from topiarist.adapters.kafka_admin.records.codec import Records, RecordsStore
from topiarist.adapters.kafka_admin.write import requests
from topiarist.adapters.kafka_admin.write.chunks import ANSWER_TIMEOUT_S
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import BatchRecord, ClearedMoves, LeaderChange, ReplicaMove
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan
from topiarist.planning.moves.gate import ElectionJudgement
from topiarist.planning.moves.ledger import (
    HINT_ELECT_AGAIN,
    ElectionLedger,
    MoveLedger,
    OpenElections,
    fill_window,
    make_batches,
)
from topiarist.planning.moves.throttles import StallWatch, find_blocker, has_other_rate, require_rate
from topiarist.ports import MoveOptions
from topiarist.text import format_count
from topiarist.throttle import sleep_unless_stopped


def acquire_unless_stopped(records: RecordsStore, stop: Callable[[], bool]) -> Records | None:
    """Wait for the lock and read the records; return None if ``stop()`` became true before."""
    if stop():
        return None
    try:
        return records.acquire(stop)
    except TopiaristError as error:
        if error.reason is Reason.LOCKED and stop():
            return None
        raise


def clear_moves(session: Session, reader: MoveReader, records: RecordsStore) -> ClearedMoves | None:
    """Clear the record of an ended run, and put its throttles back, under the lock; return None if there is none.

    The next run of the same owner does this by itself. A user does it by hand if no run is going to continue.
    Raises ``TopiaristError``: ReassignmentInProgress while a move of the record is in flight.
    """
    if records.read().moves is None:
        return None
    known = records.acquire(lambda: False)
    try:
        if known.moves is None:
            return None
        look = reader.look(())
        moves = known.moves.moves
        # A target of another client counts too: its brokers may copy the same replicas.
        copying = [move for move in moves if (move.topic, move.partition) in look.reassignments]
        if copying:
            message = f"{format_count(len(copying), 'partition')} in flight: brokers copy, and need the throttles"
            raise TopiaristError(Reason.REASSIGNMENT_IN_PROGRESS, message, HINT_CONTINUE)
        remarks: dict[str, None] = {}
        BatchWriter(session, reader, records, known.moves, remarks.setdefault).end()
        return ClearedMoves(known.moves, tuple(remarks))
    finally:
        records.release()


_FIRST_POLL_S, _FAST_POLL_S, _SLOW_POLL_S, _FAST_POLLS = 0.1, 1.0, 3.0, 20
_ACCEPTED = requests.Certainty.ACCEPTED


class MoveAccess(NamedTuple):
    """The session, reader and records of the moves and elections of one run; ``stop()`` returns whether to end it."""

    session: Session
    reader: MoveReader
    records: RecordsStore
    stop: Callable[[], bool]


class Mover:
    """A run that carries out the moves of one plan; ``execute`` may be called once."""

    def __init__(self, access: MoveAccess, plan: Plan, options: MoveOptions) -> None:
        self._session, self._reader, self._records, self._stop = access
        self._owner = plan.owner
        self._options = options
        self._settings = options.settings
        self._ledger = MoveLedger(plan, options)
        self._known = Records()
        self._ready: tuple[ReplicaMove, ...] = ()
        self._in_doubt: dict[Partition, float] = {}
        self._polls = 0
        self._is_rate_adjusted = False
        self._stall = StallWatch(self._settings.stall_after, self._settings.throttle)

    def execute(self) -> Iterator[Outcome]:
        """Yield one outcome for each topic with moves; raise the error that ended the run after the last one."""
        yield from self._ledger.execute(self._steps(), self._report, HINT_CONTINUE)

    def _steps(self) -> Iterator[None]:
        with translate_errors("the brokers cannot be reached", HINT_CONTINUE):
            self._known = self._records.read()
            self._reader.expect(self._known.moves.moves if self._known.moves else ())
            while self._step():
                yield

    def _step(self) -> bool:
        """Do the next thing that is to be done; return whether there is more to do."""
        look = self._look(self._ledger.open)
        self._compare(look)
        mine = self._find_in_flight(look)
        others = self._find_others(look, mine)
        if self._stop():
            return self._end(mine)
        self._adjust_rate(mine)
        joining = fill_window(self._ready, self._ledger.in_flight.values(), others.values(), self._settings.batch)
        if joining and not self._is_blocked_by_owner(mine):
            before = self._ledger.batches_sent
            self._send(joining)
            return self._options.wait or self._ledger.batches_sent == before
        blocking = self._find_blocking(others)
        if mine or self._ledger.in_flight or blocking:
            if not self._options.wait:
                self._ledger.blocked_by = "" if self._ledger.in_flight else self._describe_waiting(mine, blocking)
                return False
            self._wait(look, mine, blocking)
            return True
        if self._ledger.held and not self._ledger.refuse_held_for_too_long(time.monotonic()):
            self._report(waiting_for=next(iter(self._ledger.held.values()))[1])
            self._sleep()
            return True
        return bool(self._ledger.open) or self._end(mine)

    def _look(self, names: Collection[str]) -> MoveLook:
        return self._reader.look(sorted(names))

    def _compare(self, look: MoveLook) -> None:
        """Compare all open topics with the cluster: what is done, under way, ready, and held."""
        ledger, ready, now = self._ledger, list[ReplicaMove](), time.monotonic()
        ledger.held.clear()
        for topic, judgement in ledger.judge(ledger.open, lambda name: look.moved_topic(name, self._known.topics)):
            for move in (*judgement.done, *judgement.under_way):
                self._in_doubt.pop((move.topic, move.partition), None)
            for move in judgement.done:
                ledger.in_flight.pop((move.topic, move.partition), None)
            ledger.close_finished(topic, judgement)
            for move in judgement.under_way:
                ledger.in_flight[move.topic, move.partition] = move
                topic.was_moved = True
            dropped = []
            for move, cause in (*((move, "") for move in judgement.ready), *judgement.held):
                key = move.topic, move.partition
                if now < self._in_doubt.get(key, 0.0):
                    continue
                if key in ledger.in_flight:
                    del ledger.in_flight[key]
                    if self._in_doubt.pop(key, None) is None:
                        dropped.append(move)
                        continue
                if cause:
                    ledger.hold(move, cause)
                else:
                    ready.append(move)
            if dropped:
                ledger.close_dropped(topic, dropped)
        ledger.in_flight = {key: move for key, move in ledger.in_flight.items() if key[0] in ledger.open}
        self._ready = tuple(move for move in ready if move.topic in ledger.open)

    def _find_in_flight(self, look: MoveLook) -> Mapping[Partition, ReplicaMove]:
        """Return the moves in flight that topiarist sent, of this run or of the record.

        What moves in a topic that is hidden now counts, since its target cannot be compared.
        """
        recorded = self._known.moves.moves if self._known.moves else ()
        known = {(move.topic, move.partition): move for move in (*recorded, *self._ledger.in_flight.values())}
        return {
            key: move
            for key, move in known.items()
            if look.target_of(key) == move.after or (key in look.reassignments and look.topics[move.topic] is None)
        }

    def _find_others(self, look: MoveLook, mine: Mapping[Partition, ReplicaMove]) -> Mapping[Partition, ReplicaMove]:
        """Return the other moves in flight, of other clients or of closed topics."""
        found = {}
        for key, reassignment in look.reassignments.items():
            if key not in self._ledger.in_flight:
                before = tuple(each for each in look.list_of(key) if each not in reassignment.adding)
                found[key] = ReplicaMove(*key, before or look.list_of(key) or (-1,), look.target_of(key))
        return {key: mine.get(key, move) for key, move in found.items()}

    def _find_blocking(self, others: Mapping[Partition, ReplicaMove]) -> Mapping[Partition, ReplicaMove]:
        """Return the other moves that keep moves of the plan from being sent."""
        if self._ready:
            return others  # the limits of the brokers leave no room
        return {key: move for key, move in others.items() if key[0] in self._ledger.open}

    def _wait(
        self, look: MoveLook, mine: Mapping[Partition, ReplicaMove], blocking: Mapping[Partition, ReplicaMove]
    ) -> None:
        """Report what is in flight, and wait for the next poll. Raises MovesStalled if nothing changes for long."""
        keys = {*mine, *self._ledger.in_flight, *blocking}
        in_flight = tuple(each for key in sorted(keys) if (each := look.in_flight(key)))
        if self._stall.is_stalled(len(in_flight), in_flight, time.monotonic()):
            raise self._stall.error(in_flight, look.brokers)
        copying, waiting_for = self._ledger.in_flight.values(), find_blocker(in_flight, look.brokers)
        if not copying and not waiting_for:
            waiting_for = self._describe_waiting(mine, blocking)
        self._report(copying, waiting_for)
        self._sleep()

    def _sleep(self) -> None:
        self._polls += 1
        pause = _FIRST_POLL_S if self._polls <= 2 else _FAST_POLL_S if self._polls < _FAST_POLLS else _SLOW_POLL_S
        sleep_unless_stopped(min(pause, self._settings.stall_after), self._stop)

    def _describe_waiting(
        self, mine: Mapping[Partition, ReplicaMove], blocking: Mapping[Partition, ReplicaMove]
    ) -> str:
        if mine and self._known.moves:
            source = f"owner {self._known.moves.owner}" if self._is_blocked_by_owner(mine) else "an earlier run"
            return f"{format_count(len(mine), 'partition')} of {source}"
        return f"a reassignment of {format_count(len(blocking), 'partition')} by another client"

    def _send(self, moves: Sequence[ReplicaMove]) -> None:
        """Send those of ``moves`` that are still ready, with their record and throttles."""
        rate = require_rate(self._settings.throttle, moves)
        known = acquire_unless_stopped(self._records, self._stop)
        if known is None:
            return
        try:
            self._known = known
            look = self._look(self._ledger.open)
            self._compare(look)
            mine = self._find_in_flight(look)
            if self._is_blocked_by_owner(mine):
                return
            moves = [move for move in moves if move in self._ready]
            if moves:
                self._send_locked(moves, mine, rate)
        finally:
            self._records.release()

    def _send_locked(self, moves: Sequence[ReplicaMove], mine: Mapping[Partition, ReplicaMove], rate: int) -> None:
        batch = self._known.moves
        if not self._options.wait and batch and batch.owner == self._owner:
            # Each run that does not wait sends once: the record has the number of the run before.
            self._ledger.batches_before = batch.batch
        number = self._ledger.number + 1
        rest = [move for move in (*self._ready, *(move for move, _ in self._ledger.held.values())) if move not in moves]
        in_flight = {**mine, **self._ledger.in_flight}
        recorded = tuple(move._replace(kinds=()) for move in (*in_flight.values(), *moves))
        batches = number + len(make_batches(rest, self._settings.batch))
        writer = self._writer()
        record = BatchRecord(self._owner, number, batches, recorded, {})
        failed = writer.prepare(record, rate)
        self._known = self._known._replace(moves=writer.batch)
        for name, error in failed.items():
            if topic := self._ledger.open.get(name):
                self._ledger.close(topic, Outcome(name, Result.FAILED, error.reason, error.message))
        self._compare(self._look(self._ledger.open))  # directly before they are sent
        moves = [move for move in moves if move in self._ready]
        if not moves:
            return
        for move in moves:
            self._ledger.open[move.topic].is_unknown = True
        elements = writer.send_moves(moves)
        self._reader.expect(move for move in moves if elements[move.topic, move.partition].certainty is _ACCEPTED)
        for move in moves:
            self._ledger.open[move.topic].is_unknown = False
        self._ledger.batches_sent += 1
        self._polls = 0
        self._stall.reset()
        self._read_elements(moves, elements)
        self._report(self._ledger.in_flight.values())

    def _read_elements(self, moves: Sequence[ReplicaMove], elements: Mapping[Partition, requests.Element]) -> None:
        """Note what was accepted or may have been; close the topics of what was refused."""
        until = time.monotonic() + ANSWER_TIMEOUT_S
        for move in moves:
            key = move.topic, move.partition
            element = elements[key]
            if element.certainty in (requests.Certainty.UNKNOWN, requests.Certainty.LATE):
                self._in_doubt[key] = until
                self._ledger.add_sent([move])
            elif element.certainty is _ACCEPTED:
                self._ledger.add_sent([move])
            elif topic := self._ledger.open.get(move.topic):
                self._ledger.close(topic, _refused_outcome(move, element))

    def _adjust_rate(self, mine: Mapping[Partition, ReplicaMove]) -> None:
        """Give the moves in flight of an earlier run the declared rate; those of another owner keep theirs."""
        batch, rate = self._known.moves, self._settings.throttle
        if self._is_rate_adjusted or rate is None or not mine or batch is None or batch.owner != self._owner:
            return
        self._is_rate_adjusted = True  # a rate of another client stays, and is found again each time
        if not has_other_rate(batch, rate):
            return
        known = acquire_unless_stopped(self._records, self._stop)
        if known is None:
            return
        try:
            self._known = known
            if known.moves and known.moves.owner == self._owner and has_other_rate(known.moves, rate):
                self._writer().replace_rate(rate)
        finally:
            self._records.release()

    def _end(self, mine: Mapping[Partition, ReplicaMove]) -> bool:
        """Put the throttles back if nothing of the record is in flight; return False: there is no more to do."""
        batch = self._known.moves
        if mine or self._in_doubt or not (self._ledger.batches_sent or (batch and batch.owner == self._owner)):
            return False
        # Also after ``stop()``: it is short, and it leaves no throttle behind.
        known = self._records.acquire(lambda: False)
        try:
            self._known = known
            own = known.moves if known.moves and known.moves.owner == self._owner else None
            if own and not self._find_in_flight(self._look(())):
                self._writer().end()
                self._ledger.remark_end(own)
        finally:
            self._records.release()
        if self._ledger.new_remarks:
            self._report()
        return False

    def _is_blocked_by_owner(self, mine: Mapping[Partition, ReplicaMove]) -> bool:
        """Return whether moves of another owner are in flight: the record is that owner's until they are done."""
        batch = self._known.moves
        return batch is not None and batch.owner != self._owner and bool(mine.keys() - self._ledger.in_flight.keys())

    def _writer(self) -> BatchWriter:
        return BatchWriter(self._session, self._reader, self._records, self._known.moves, self._ledger.remark)

    def _report(self, copying: Collection[ReplicaMove] = (), waiting_for: str = "") -> None:
        left = (*self._ready, *(move for move, _ in self._ledger.held.values()))
        waiting = [move for move in left if (move.topic, move.partition) not in self._ledger.in_flight]
        batches = self._ledger.number + len(make_batches(waiting, self._settings.batch))
        self._ledger.report((self._ledger.number, batches), copying, waiting_for)


def _refused_outcome(move: ReplicaMove, element: requests.Element) -> Outcome:
    message = f"partition {move.partition} was not moved: the brokers answered {element.words}"
    if element.is_denied:
        message = f"no permission: it needs Alter on the cluster; {message}"
        return Outcome(move.topic, Result.FAILED, Reason.NO_PERMISSION, message)
    reason, result = _REFUSALS.get(element.code, (Reason.WRITE_FAILED, Result.FAILED))
    return Outcome(move.topic, result, reason, message)


_REFUSALS: Mapping[int | None, tuple[Reason, Result]] = {
    3: (Reason.STATE_CONFLICT, Result.CONFLICT),
    38: (Reason.STATE_CONFLICT, Result.CONFLICT),
    39: (Reason.UNKNOWN_BROKERS, Result.REFUSED),
    60: (Reason.REASSIGNMENT_IN_PROGRESS, Result.REFUSED),
}
"""The reasons of refusals: no such topic, another factor, a target that is not registered, a reassignment."""


# Carry out the elections of a plan: request preferred leaders, and read which partitions have them.
#
# The request ElectLeaders answers for each partition, and the controller has decided by then: nothing is left in place
# that a run would have to wait for, as through ZooKeeper. One request at a time is sent, under the lock, for partitions
# that can be elected at that moment. Leaders are read again afterwards, and only they count; what an answer refuses is
# the cause that the user is told. A request without an answer is not repeated: the next run compares the leaders.


class Elector:
    """A run that carries out the elections of one plan; ``execute`` may be called once."""

    def __init__(self, access: MoveAccess, plan: Plan, options: MoveOptions) -> None:
        self._session, self._reader, self._records, self._stop = access
        self._options = options
        self._ledger = ElectionLedger(plan, options)

    def execute(self) -> Iterator[Outcome]:
        """Yield one outcome for each topic with elections; raise the error that ended the run after the last one."""
        yield from self._ledger.run(self._steps(), lambda: map(self._unfinished_outcome, self._ledger.open.values()))

    def _steps(self) -> Iterator[None]:
        with translate_errors("the brokers cannot be reached", HINT_ELECT_AGAIN):
            while self._ledger.queue and not self._stop():
                self._elect(self._ledger.queue.popleft())
                yield
                if not self._options.wait and self._ledger.requests:
                    break

    def _elect(self, partitions: Collection[Partition]) -> None:
        """Request the election of those partitions that can be elected, and read their leaders."""
        known = acquire_unless_stopped(self._records, self._stop)
        if known is None:
            return
        try:
            ready = self._find_ready(partitions, known)
            if not ready:
                return
            # The record of the moves stays as it is: the commit renews the time in which requests may be sent.
            self._records.commit_batch(known.moves, hold=True)
            writer = BatchWriter(self._session, self._reader, self._records, known.moves, lambda remark: None)
            self._ledger.add_sent(ready)
            for name, _ in ready:
                self._ledger.open[name].is_unknown = True
            answer = writer.send(build_elections(ready))
        finally:
            self._records.release()
        self._ledger.requests += 1
        elements = read_elections_answer(answer, ready) if answer else dict.fromkeys(ready, requests.Element(None))
        self._judge_sent(ready, elements, known)
        self._ledger.report()

    def _find_ready(self, partitions: Iterable[Partition], known: Records) -> list[Partition]:
        return [
            (topic.plan.topic, each.partition)
            for topic, judgement in self._judge(partitions, known)
            for each in judgement.ready
        ]

    def _judge_sent(
        self, partitions: Collection[Partition], elements: Mapping[Partition, requests.Element], known: Records
    ) -> None:
        """Compare the leaders of partitions after their election."""
        for topic, judgement in self._judge(partitions, known):
            topic.is_unknown = False
            for each in judgement.ready:
                topic.causes[each.partition] = _describe(each, elements[topic.plan.topic, each.partition])
        denied = [each for each in elements.values() if each.is_denied]
        if denied and len(denied) == len(elements):
            message = f"no permission: it needs Alter on the cluster; the brokers answered {denied[0].words}"
            raise TopiaristError(Reason.NO_PERMISSION, message)

    def _judge(
        self, partitions: Iterable[Partition], known: Records
    ) -> Iterator[tuple[OpenElections, ElectionJudgement]]:
        """Return open topics with their judgements; close those that have a conflict or nothing left."""
        look = self._reader.look([*self._ledger.find_left(partitions)])
        return self._ledger.judge(partitions, lambda name: look.moved_topic(name, known.topics))

    def _unfinished_outcome(self, topic: OpenElections) -> Outcome:
        name = topic.plan.topic
        if topic.is_unknown:
            message = "the answer was lost: the next run compares the leaders"
            return Outcome(name, Result.UNKNOWN, Reason.OUTCOME_UNKNOWN, message)
        if not topic.causes and len(topic.left) == len(topic.plan.elections()):
            return Outcome(name, Result.SKIPPED)
        return self._ledger.pending_outcome(topic, "the run was stopped")


def _describe(change: LeaderChange, element: requests.Element) -> str:
    """Return why a partition keeps another leader after its election."""
    where = f"broker {change.after} as the leader of partition {change.partition}"
    if element.code in (0, ELECTION_NOT_NEEDED):
        return f"the controller elected {where}, and another broker leads it again"
    if element.code == PREFERRED_LEADER_NOT_AVAILABLE:
        return f"the controller cannot elect {where}: it is not in sync"
    return f"the controller did not elect {where}: {element.words}"
