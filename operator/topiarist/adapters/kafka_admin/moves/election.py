"""Carry out the elections of a plan: request preferred leaders, and read which partitions have them.

The request ElectLeaders answers for each partition, and the controller has decided by then: nothing is left in place
that a run would have to wait for, as through ZooKeeper. One request at a time is sent, under the lock, for partitions
that can be elected at that moment. Leaders are read again afterwards, and only they count; what an answer refuses is
the cause that the user is told. A request without an answer is not repeated: the next run compares the leaders.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from topiarist.adapters.kafka_admin.connection.connection import Disconnected, UnsupportedRequest
from topiarist.adapters.kafka_admin.connection.error_codes import describe_error
from topiarist.adapters.kafka_admin.moves.batch_writer import BatchWriter
from topiarist.adapters.kafka_admin.moves.interfaces import MoveRecords, MoveRecordsRun, MoveSession
from topiarist.adapters.kafka_admin.moves.look import MoveReader
from topiarist.adapters.kafka_admin.moves.requests import (
    ELECTION_NOT_NEEDED,
    PREFERRED_LEADER_NOT_AVAILABLE,
    Partition,
    build_elections,
    read_elections_answer,
)
from topiarist.adapters.kafka_admin.write.answers import (
    CLUSTER_AUTHORIZATION,
    TOPIC_AUTHORIZATION,
    Element,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import LeaderChange, MoveProgress
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan, TopicPlan
from topiarist.planning.moves.execution.election_gate import ElectionJudgement, judge_elections
from topiarist.ports import MoveOptions
from topiarist.text import format_count

MAX_PARTITIONS = 500
"""Partitions in one request."""

HINT_ELECT_AGAIN = "run again: leaders that were elected are recognized"


@dataclass(slots=True)
class _OpenTopic:
    """A topic with elections that are not known to be done, by partition; ``causes`` says why."""

    plan: TopicPlan
    left: dict[int, LeaderChange]
    causes: dict[int, str] = field(default_factory=dict)
    was_sent: bool = False


class Elector:
    """A run that carries out the elections of one plan; ``execute`` may be called once."""

    def __init__(
        self,
        session: MoveSession,
        reader: MoveReader,
        records: MoveRecordsRun,
        plan: Plan,
        options: MoveOptions,
        stop: Callable[[], bool],
    ) -> None:
        self._session = session
        self._reader = reader
        self._records = records
        self._options = options
        self._stop = stop
        topics = [topic for topic in plan.actionable_topics() if topic.elections()]
        self._open = {each.topic: _OpenTopic(each, {one.partition: one for one in each.elections()}) for each in topics}
        wanted = [(topic.topic, each.partition) for topic in topics for each in topic.elections()]
        self._total, self._elected, self._requests = len(wanted), 0, 0
        self._queue = deque(wanted[start : start + MAX_PARTITIONS] for start in range(0, len(wanted), MAX_PARTITIONS))
        self._outcomes: deque[Outcome] = deque()

    def execute(self) -> Iterator[Outcome]:
        """Yield one outcome for each topic with elections; raise the error that ended the run after the last one."""
        ended_by = None
        try:
            while self._queue and not self._stop():
                self._elect(self._queue.popleft())
                yield from self._take_outcomes()
                if not self._options.wait and self._requests:
                    break
        except TopiaristError as error:
            ended_by = error
        except Disconnected as error:
            ended_by = TopiaristError(Reason.UNREACHABLE, f"the brokers cannot be reached: {error}", HINT_ELECT_AGAIN)
        except UnsupportedRequest as error:
            ended_by = TopiaristError(Reason.PREREQUISITE_MISSING, str(error))
        yield from self._take_outcomes()
        yield from (self._unfinished_outcome(topic) for topic in self._open.values())
        if ended_by:
            raise ended_by

    def _elect(self, partitions: Collection[Partition]) -> None:
        """Request the election of those partitions that can be elected, and read their leaders."""
        known = self._records.acquire(self._stop)
        if known is None:
            return
        try:
            ready = self._find_ready(partitions, known)
            if not ready:
                return
            # The record of the moves stays as it is: the commit renews the time in which requests may be sent.
            self._records.commit_batch(known.batch, hold=True)
            writer = BatchWriter(self._session, self._reader, self._records, known.batch, lambda remark: None)
            for name, _ in ready:
                self._open[name].was_sent = True
            answer = writer.send(build_elections(ready))
        finally:
            self._records.release()
        self._requests += 1
        elements = read_elections_answer(answer, ready) if answer else dict.fromkeys(ready, Element(None))
        self._judge_sent(ready, elements, known)
        self._report()

    def _find_ready(self, partitions: Iterable[Partition], known: MoveRecords) -> list[Partition]:
        ready = []
        for topic, judgement in self._judge(partitions, known):
            topic.causes.update((each.partition, cause) for each, cause in judgement.held)
            ready += [(topic.plan.topic, each.partition) for each in judgement.ready]
        return ready

    def _judge_sent(
        self, partitions: Collection[Partition], elements: Mapping[Partition, Element], known: MoveRecords
    ) -> None:
        """Compare the leaders of partitions after their election."""
        for topic, judgement in self._judge(partitions, known):
            topic.causes.update((each.partition, cause) for each, cause in judgement.held)
            for each in judgement.ready:
                topic.causes[each.partition] = _describe(each, elements[topic.plan.topic, each.partition])
        denied = [each for each in elements.values() if each.code in (TOPIC_AUTHORIZATION, CLUSTER_AUTHORIZATION)]
        if denied:
            message = f"no permission: it needs the right Alter on the cluster; the brokers answered {_name(denied[0])}"
            raise TopiaristError(Reason.NO_PERMISSION, message)

    def _judge(
        self, partitions: Iterable[Partition], known: MoveRecords
    ) -> Iterator[tuple[_OpenTopic, ElectionJudgement]]:
        """Yield open topics with their judgements; close those that have a conflict or nothing left."""
        wanted: dict[str, list[LeaderChange]] = {}
        for name, partition in partitions:
            if name in self._open and partition in self._open[name].left:
                wanted.setdefault(name, []).append(self._open[name].left[partition])
        look = self._reader.look(sorted(wanted))
        for name, elections in sorted(wanted.items()):
            topic = self._open[name]
            judgement = judge_elections(elections, topic.plan, look.moved_topic(name, known.topics))
            if judgement.conflict:
                self._close(topic, Outcome(name, Result.CONFLICT, Reason.STATE_CONFLICT, judgement.conflict))
                continue
            for each in judgement.elected:
                del topic.left[each.partition]
                topic.causes.pop(each.partition, None)
                self._elected += 1
            if topic.left:
                yield topic, judgement
            else:
                self._close(topic, Outcome(name, Result.DONE if topic.was_sent else Result.UNCHANGED))

    def _close(self, topic: _OpenTopic, outcome: Outcome) -> None:
        del self._open[topic.plan.topic]
        self._outcomes.append(outcome)

    def _take_outcomes(self) -> Iterator[Outcome]:
        while self._outcomes:
            yield self._outcomes.popleft()

    def _unfinished_outcome(self, topic: _OpenTopic) -> Outcome:
        name, wanted = topic.plan.topic, len(topic.plan.elections())
        if topic.was_sent and not topic.causes:
            message = "the answer was lost: the next run compares the leaders"
            return Outcome(name, Result.UNKNOWN, Reason.OUTCOME_UNKNOWN, message)
        if not topic.causes and len(topic.left) == wanted:
            return Outcome(name, Result.SKIPPED)
        message = f"{wanted - len(topic.left)} of {format_count(wanted, 'leader')} elected"
        cause = next(iter(topic.causes.values()), "the run was stopped")
        return Outcome(name, Result.PENDING, Reason.NOT_ELECTED, f"{message}: {cause}; run again")

    def _report(self) -> None:
        requests = self._requests + len(self._queue)
        waiting_for = "an election of preferred leaders"
        self._options.on_progress(
            MoveProgress(self._requests, requests, self._elected, self._total, waiting_for=waiting_for)
        )


def _describe(change: LeaderChange, element: Element) -> str:
    """Return why a partition keeps another leader after its election."""
    where = f"broker {change.after} as the leader of partition {change.partition}"
    if element.code in (0, ELECTION_NOT_NEEDED):
        return f"the controller elected {where}, and another broker leads it again"
    if element.code == PREFERRED_LEADER_NOT_AVAILABLE:
        return f"the controller cannot elect {where}: it is not in sync"
    return f"the controller did not elect {where}: {_name(element)}"


def _name(element: Element) -> str:
    if element.code is None:
        return "no answer"
    return describe_error(element.code) + (f": {element.message}" if element.message else "")
