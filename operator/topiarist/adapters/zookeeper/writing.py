"""Carrying out a plan: one checked transaction a topic, pipelined, every result looked at, every doubt resolved by
reading.

For each window of topics: read their nodes, compare by value with what the plan was made from, send what still is true
at the versions just read, and settle the answers in order. What the server refused because something moved is read and
compared again; what a lost connection left open is decided by our record, whose version and bytes nobody else can
have made. When the run ends before its time, what was under way is still heard out. ``jobs`` says what is next,
``footing`` what the run stands on, ``transaction`` what is sent, ``verdict`` what an answer means.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from kazoo.exceptions import KazooException
from kazoo.protocol.serialization import Exists

from topiarist.adapters import znodes
from topiarist.adapters.znodes import ZnodeError
from topiarist.adapters.zookeeper import verdict
from topiarist.adapters.zookeeper.footing import Footing
from topiarist.adapters.zookeeper.jobs import TRIES, Job, Jobs
from topiarist.adapters.zookeeper.multi import Multi
from topiarist.adapters.zookeeper.reading import TopicNodes, read_topics, room_of
from topiarist.adapters.zookeeper.session import MOST_DROPS, Interrupted, Pending, Session, in_words
from topiarist.adapters.zookeeper.transaction import Operation, Site, operations
from topiarist.adapters.zookeeper.wire import Failure, Node, read_nodes, sync
from topiarist.core.change import Plan, TopicPlan
from topiarist.core.evolve import Position, standing
from topiarist.core.room import within_room
from topiarist.errors import Reason, TopiaristError
from topiarist.reconcile import Outcome, Pace, Result

WINDOW = 200
"""Topics that are read together, directly before they are written."""

MOST_IN_FLIGHT = 64
"""Transactions under way at any time, however far away the server is."""

FEW_IN_FLIGHT = 16
"""As many keep a server busy that answers at once."""

PER_SECOND = 3_000
"""Transactions that a server gets through in a second: as many are on their way to one that is a second away."""


class _Sent(NamedTuple):
    """A transaction under way: what it was made of, its answer, and the look at the topic that follows it."""

    job: Job
    steps: Sequence[Operation]
    nodes: TopicNodes
    site: Site
    answer: Pending
    look: Pending | None


class Writer:
    """Carries out one plan under one lock. ``outcomes`` may be called once."""

    def __init__(
        self,
        session: Session,
        plan: Plan,
        lock_path: str,
        *,
        max_buffer: int,
        stop: Callable[[], bool],
        pace: Pace | None = None,
    ) -> None:
        self._session = session
        self._plan = plan
        self._lock_path = lock_path
        self._max_buffer = max_buffer
        self._stop = stop
        self._basis = plan.basis()
        # All others who ask this server wait behind what is under way: no more than it takes to keep it busy.
        self._in_flight = int(min(MOST_IN_FLIGHT, FEW_IN_FLIGHT + PER_SECOND * session.round_trip))
        self._jobs = Jobs(pace, stop)
        self._flying: deque[_Sent] = deque()
        self._doubtful: list[_Sent] = []
        self._footing = Footing(session, lock_path, stop)

    def outcomes(self) -> Iterator[Outcome]:
        """One outcome for each topic to do, as they become known; raises what ended the run, after the last one."""
        yield from self._admit()
        try:
            with in_words(self._session):
                while self._more() and not self._stop():
                    yield from self._window()
                    yield from self._resolve()
        except TopiaristError as error:
            yield from self._abandon(error)
            raise
        yield from self._not_sent()

    def _admit(self) -> Iterator[Outcome]:
        """Queue what brokers will still be able to read; others may have filled their lists since the plan was made."""
        head = self._footing.head
        there = frozenset(head.topic_names)
        longer = [plan for plan in self._plan.to_do() if plan.before or plan.topic not in there]
        fitting = {fits.topic: fits for fits in within_room(longer, room_of(head, self._max_buffer))[0]}
        for plan in self._plan.to_do():
            fits = fitting.get(plan.topic, plan)
            if fits.changes == plan.changes:
                self._jobs.add(plan)
            else:
                refused = fits.refusals[-1]
                yield Outcome(plan.topic, Result.REFUSED, refused.reason, refused.message)

    def _more(self) -> bool:
        """Whether there is something to send; waits until something may be, if only the pace keeps it back."""
        if self._jobs.wait() and self._jobs:
            self._footing.renew_if_old()
        return bool(self._jobs)

    def _not_sent(self) -> Iterator[Outcome]:
        """The outcomes of what is left when the run ends."""
        for plan in self._jobs.left():
            yield Outcome(plan.topic, Result.NOT_SENT)

    def _window(self) -> Iterator[Outcome]:
        """Read, compare and send the next topics, and settle all that was sent."""
        plans = self._jobs.next(WINDOW)
        states = self._partition_states(plans)
        self._footing.look_again(plans)
        nodes, request = read_topics(self._session, [plan.topic for plan in plans])
        self._footing.take_request(request, nodes)
        interruptions = self._session.interruptions
        for plan in plans:
            if self._stop() or self._session.interruptions != interruptions:
                break  # nothing more is wanted, or would arrive
            outcome = self._start(self._jobs.take(), nodes[plan.topic], states[plan.topic])
            if outcome:
                yield outcome
            if len(self._flying) >= self._in_flight:
                yield from self._settle_oldest(self._in_flight // 2)
        yield from self._settle_oldest(len(self._flying))

    def _settle_oldest(self, count: int) -> Iterator[Outcome]:
        """Settle the first ``count`` of what is under way."""
        if count:
            # Answers come in order: to wait for the last of them first is to be woken up once, not for each.
            with suppress(Interrupted, TopiaristError, KazooException):
                self._session.result(self._flying[count - 1].answer)
        for _ in range(count):
            yield from self._settle(self._flying.popleft())

    def _partition_states(self, plans: Sequence[TopicPlan]) -> Mapping[str, Sequence[Node | Failure]]:
        """Read the state nodes of the partitions on which the plans rest, by topic.

        Read before the topics: a state read after them might be that of another topic, made again in between, for which
        its check would vouch.
        """
        wanted = {plan.topic: verdict.to_be_read(plan) for plan in plans}
        paths = [znodes.partition_state_path(name, each) for name, numbers in wanted.items() for each in numbers]
        states = read_nodes(self._session, paths)
        return {name: list(islice(states, len(numbers))) for name, numbers in wanted.items()}

    def _start(self, job: Job, nodes: TopicNodes, states: Sequence[Node | Failure]) -> Outcome | None:
        """Send the topic's transaction, or say why there is none to send."""
        topic = job.plan.topic
        for node, path in zip(nodes[1:4], (znodes.topic_path, znodes.config_path, znodes.record_path), strict=True):
            if node is Failure.DENIED:
                return verdict.denied(topic, "read", path(topic))
        now = self._footing.now(nodes)
        if isinstance(now, str):
            return Outcome(topic, Result.MOVED, Reason.ZNODE_UNREADABLE, now)
        stands = standing(job.plan, self._basis, now)
        if stands.position is Position.AFTER:
            return Outcome(topic, Result.ALREADY)
        if stands.position is Position.MOVED:
            return Outcome(topic, Result.MOVED, Reason.STATE_CONFLICT, stands.message)
        if settled := verdict.needless(job.plan, states) or verdict.not_taken_over(job.plan, nodes.topic, states):
            return settled
        site = self._footing.site
        try:
            state, request = next(iter(states), Failure.MISSING), self._footing.requested.version
            steps = operations(job.plan, nodes, site, state, request)
        except ZnodeError as error:
            return Outcome(topic, Result.FAILED, Reason.ZNODE_UNREADABLE, str(error))
        multi, most = Multi(self._session.chroot, steps), self._max_buffer * 9 // 10
        if multi.size > most:
            limit = f"the servers read {self._max_buffer:,}, and 90 % is the most"
            message = f"its transaction takes {multi.size:,} bytes; {limit}"
            return Outcome(topic, Result.REFUSED, Reason.TOO_LARGE, message)
        answer, look = self._session.send(multi), None
        if isinstance(nodes.topic, Node):
            # The same name may have become another topic in the very moment of writing: seen by its identity.
            look = self._session.send(Exists(self._session.chroot + znodes.topic_path(topic), None))
        self._flying.append(_Sent(job, steps, nodes, site, answer, look))
        return None

    def _settle(self, sent: _Sent) -> Iterator[Outcome]:
        try:
            results = self._session.result(sent.answer)
            looked = self._session.result(sent.look) if sent.look else None
        except Interrupted:
            self._doubtful.append(sent)
            return
        except TopiaristError:
            self._doubtful.append(sent)
            raise
        except KazooException as error:
            yield verdict.failed(sent.job.plan.topic, error)
            return
        if len(results) != len(sent.steps):
            self._doubtful.append(sent)  # not an answer that can be understood: our record has to say
            return
        failure = verdict.first_failure(sent.site, sent.steps, results)
        if failure is None:
            yield verdict.committed(sent.job.plan, sent.nodes, looked)
        elif failure.ground:
            yield from self._off_ground(sent, failure)
        elif failure.conflict:
            yield from self._again(sent.job, failure.message)
        else:
            yield failure.outcome(sent.job.plan.topic)

    def _off_ground(self, sent: _Sent, failure: verdict.Failed) -> Iterator[Outcome]:
        """The lock, the controller, the gate or a broker is not what it was: find out once, and end the run or go on
        from there.
        """
        if failure.step.path == self._lock_path:
            self._jobs.put(sent.job)
            message = f"our lock {failure.step.path} has gone: another run may have begun"
            raise TopiaristError(
                Reason.SESSION_LOST, message, "run the same command again: what was done is found done"
            )
        yield from self._again(sent.job, failure.message)
        if sent.site is self._footing.site and not self._jobs.closed:
            self._footing.renew()

    def _again(self, job: Job, message: str) -> Iterator[Outcome]:
        if not self._jobs.beaten(job):
            yield Outcome(job.plan.topic, Result.MOVED, Reason.STATE_CONFLICT, f"{message}, {TRIES} times in a row")

    def _dropped(self, sent: _Sent) -> Iterator[Outcome]:
        if not self._jobs.dropped(sent.job):
            yield verdict.dropped(sent.job.plan.topic, MOST_DROPS, Multi(self._session.chroot, sent.steps).size)

    def _resolve(self) -> Iterator[Outcome]:
        """Decide, by our records, what became of transactions whose answer was lost."""
        if not self._doubtful:
            return
        sync(self._session)
        names = [znodes.record_path(sent.job.plan.topic) for sent in self._doubtful]
        records = list(read_nodes(self._session, names))
        doubtful, self._doubtful = self._doubtful, []
        suspected = False
        for sent, record in zip(doubtful, records, strict=True):
            if verdict.bears_witness(record, sent.nodes.record, sent.steps[-1]):
                yield Outcome(sent.job.plan.topic, Result.DONE)
            elif suspected:
                self._jobs.put(sent.job)
            else:
                # A request that a server will not read breaks the connection. If it was one, it was this: the first
                # that was not done. Those behind it never got that far.
                suspected = True
                yield from self._dropped(sent)

    def _abandon(self, error: TopiaristError) -> Iterator[Outcome]:
        """Outcomes for what was under way, and for what was never sent, when the run ends before its time."""
        self._jobs.close()
        while self._flying:
            with suppress(TopiaristError):
                yield from self._settle(self._flying.popleft())
        if error.reason is not Reason.SESSION_LOST:
            with suppress(TopiaristError, KazooException):
                yield from self._resolve()  # a record is a witness only as long as the lock is ours
        for sent in self._doubtful:
            message = "the session ended before its answer came: done or not; the next run sees which"
            yield Outcome(sent.job.plan.topic, Result.UNKNOWN, Reason.OUTCOME_UNKNOWN, message)
        yield from self._not_sent()
