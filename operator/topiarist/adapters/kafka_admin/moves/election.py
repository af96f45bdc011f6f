"""Carry out the elections of a plan: request preferred leaders, and read which partitions have them.

The request ElectLeaders answers for each partition, and the controller has decided by then: nothing is left in place
that a run would have to wait for, as through ZooKeeper. One request at a time is sent, under the lock, for partitions
that can be elected at that moment. Leaders are read again afterwards, and only they count; what an answer refuses is
the cause that the user is told. A request without an answer is not repeated: the next run compares the leaders.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from topiarist.adapters.kafka_admin.connection.connection import translate_errors
from topiarist.adapters.kafka_admin.moves.batch_writer import BatchWriter, acquire_unless_stopped
from topiarist.adapters.kafka_admin.moves.look import MoveReader, MoveSession
from topiarist.adapters.kafka_admin.moves.requests import (
    ELECTION_NOT_NEEDED,
    PREFERRED_LEADER_NOT_AVAILABLE,
    Partition,
    build_elections,
    read_elections_answer,
)
from topiarist.adapters.kafka_admin.records.codec import Records, RecordsStore
from topiarist.adapters.kafka_admin.write.answers import (
    Element,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import LeaderChange
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan
from topiarist.planning.moves.execution.election_gate import ElectionJudgement
from topiarist.planning.moves.execution.election_ledger import HINT_ELECT_AGAIN, ElectionLedger, OpenElections
from topiarist.ports import MoveOptions


class Elector:
    """A run that carries out the elections of one plan; ``execute`` may be called once."""

    def __init__(
        self,
        session: MoveSession,
        reader: MoveReader,
        records: RecordsStore,
        plan: Plan,
        options: MoveOptions,
        stop: Callable[[], bool],
    ) -> None:
        self._session = session
        self._reader = reader
        self._records = records
        self._options = options
        self._stop = stop
        self._ledger = ElectionLedger(plan, options)

    def execute(self) -> Iterator[Outcome]:
        """Yield one outcome for each topic with elections; raise the error that ended the run after the last one."""
        ended_by = None
        try:
            with translate_errors("the brokers cannot be reached", HINT_ELECT_AGAIN):
                while self._ledger.queue and not self._stop():
                    self._elect(self._ledger.queue.popleft())
                    yield from self._ledger.take_outcomes()
                    if not self._options.wait and self._ledger.requests:
                        break
        except TopiaristError as error:
            ended_by = error
        yield from self._ledger.take_outcomes()
        yield from map(self._unfinished_outcome, self._ledger.open.values())
        if ended_by:
            raise ended_by

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
            answer = writer.send(build_elections(ready))
        finally:
            self._records.release()
        self._ledger.requests += 1
        elements = read_elections_answer(answer, ready) if answer else dict.fromkeys(ready, Element(None))
        self._judge_sent(ready, elements, known)
        self._ledger.report()

    def _find_ready(self, partitions: Iterable[Partition], known: Records) -> list[Partition]:
        return [
            (topic.plan.topic, each.partition)
            for topic, judgement in self._judge(partitions, known)
            for each in judgement.ready
        ]

    def _judge_sent(
        self, partitions: Collection[Partition], elements: Mapping[Partition, Element], known: Records
    ) -> None:
        """Compare the leaders of partitions after their election."""
        for topic, judgement in self._judge(partitions, known):
            for each in judgement.ready:
                topic.causes[each.partition] = _describe(each, elements[topic.plan.topic, each.partition])
        denied = [each for each in elements.values() if each.is_denied]
        if denied:
            message = f"no permission: it needs the right Alter on the cluster; the brokers answered {denied[0].words}"
            raise TopiaristError(Reason.NO_PERMISSION, message)

    def _judge(
        self, partitions: Iterable[Partition], known: Records
    ) -> Iterator[tuple[OpenElections, ElectionJudgement]]:
        """Yield open topics with their judgements; close those that have a conflict or nothing left."""
        elections = self._ledger.find_left(partitions)
        look = self._reader.look(list(elections))
        for name, wanted in elections.items():
            topic = self._ledger.open[name]
            if judgement := self._ledger.judge(topic, wanted, look.moved_topic(name, known.topics)):
                yield topic, judgement

    def _unfinished_outcome(self, topic: OpenElections) -> Outcome:
        name = topic.plan.topic
        if topic.was_sent and not topic.causes:
            message = "the answer was lost: the next run compares the leaders"
            return Outcome(name, Result.UNKNOWN, Reason.OUTCOME_UNKNOWN, message)
        if not topic.causes and len(topic.left) == len(topic.plan.elections()):
            return Outcome(name, Result.SKIPPED)
        return self._ledger.pending_outcome(topic, "the run was stopped")


def _describe(change: LeaderChange, element: Element) -> str:
    """Return why a partition keeps another leader after its election."""
    where = f"broker {change.after} as the leader of partition {change.partition}"
    if element.code in (0, ELECTION_NOT_NEEDED):
        return f"the controller elected {where}, and another broker leads it again"
    if element.code == PREFERRED_LEADER_NOT_AVAILABLE:
        return f"the controller cannot elect {where}: it is not in sync"
    return f"the controller did not elect {where}: {element.words}"
