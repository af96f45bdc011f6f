"""Keeps what a run knows of the moves and elections of one plan, and in which batches they are sent.

The adapters send moves and read what became of them; what follows from it is the same for each of them and is decided
here. Sending is not shared: through ZooKeeper one request at a time is in place and the controller removes it, so a
batch is a barrier, written in one transaction with its throttles. Through Kafka's own API moves join those in flight,
and records, throttles and moves are separate requests. A common loop would consist of exceptions.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from msgspec import Struct, field

from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Broker
from topiarist.model.moves import BatchLimits, BatchRecord, LeaderChange, MoveProgress, MoveType, ReplicaMove
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan, TopicPlan
from topiarist.planning.moves.gate import ElectionJudgement, Judgement, MovedTopic, judge_elections, judge_topic
from topiarist.ports import MoveOptions
from topiarist.text import format_count

# Puts moves into batches, or into a window, so that no broker copies too much at a time.
#
# Through ZooKeeper a batch that has begun cannot be cancelled and nothing can join it, so a batch is small. What copies
# nothing (a reordered or shortened list) is done at once and has batches of its own, which come first. Through Kafka's
# own API moves join those in flight as soon as there is room: a window has the limits of a batch at any moment.

_ORDER = {type_: index for index, type_ in enumerate(MoveType)}


class _Batch(Struct):
    moves: list[ReplicaMove] = field(default_factory=list)
    incoming: Counter[int] = field(default_factory=Counter)
    outgoing: Counter[int] = field(default_factory=Counter)


def make_batches(moves: Iterable[ReplicaMove], limits: BatchLimits) -> tuple[tuple[ReplicaMove, ...], ...]:
    """Return the moves in batches: reordered lists, shortened lists, then copies; each by topic and partition.

    Each move joins the first batch with room. ``limits.incoming`` counts the added replicas of a broker,
    ``limits.outgoing`` the copied partitions that it leads before.
    """
    ordered = sorted(moves, key=lambda move: (_ORDER[move.type], move.topic, move.partition))
    still = [move for move in ordered if not move.added]
    size = limits.partitions
    batches = [tuple(still[at : at + size]) for at in range(0, len(still), size)]
    return (*batches, *_batch_copies([move for move in ordered if move.added], limits))


def fill_window(
    waiting: Iterable[ReplicaMove], in_flight: Iterable[ReplicaMove], others: Iterable[ReplicaMove], limits: BatchLimits
) -> tuple[ReplicaMove, ...]:
    """Return those of ``waiting`` that may join ``in_flight`` now, in the order of batches.

    ``others`` are moves of other clients. They count for the brokers that they copy from and to, and not as partitions.
    """
    window = _Batch(list(in_flight))
    for move in (*window.moves, *others):
        _count_copies(window, move)
    joining = []
    for move in sorted(waiting, key=lambda move: (_ORDER[move.type], move.topic, move.partition)):
        has_room = _has_room(window, move.before[0], move.added, limits) if move.added else True
        if has_room and len(window.moves) < limits.partitions:
            window.moves.append(move)
            _count_copies(window, move)
            joining.append(move)
    return tuple(joining)


def _count_copies(window: _Batch, move: ReplicaMove) -> None:
    if move.added:
        window.outgoing[move.before[0]] += 1
        window.incoming.update(move.added)


def _batch_copies(moves: Iterable[ReplicaMove], limits: BatchLimits) -> Iterable[tuple[ReplicaMove, ...]]:
    batches: list[_Batch] = []
    # The first batch that may have room, of all and for each broker: the search begins there, not at the first batch.
    first_open = 0
    first_in: defaultdict[int, int] = defaultdict(int)
    first_out: defaultdict[int, int] = defaultdict(int)
    for move in moves:
        source, added = move.before[0], move.added
        at = max(first_open, first_out[source], *[first_in[broker] for broker in added])
        while at < len(batches) and not _has_room(batches[at], source, added, limits):
            at += 1
        if at == len(batches):
            batches.append(_Batch())
        batch = batches[at]
        batch.moves.append(move)
        batch.outgoing[source] += 1
        batch.incoming.update(added)
        while first_open < len(batches) and len(batches[first_open].moves) >= limits.partitions:
            first_open += 1
        while first_out[source] < len(batches) and batches[first_out[source]].outgoing[source] >= limits.outgoing:
            first_out[source] += 1
        for broker in added:
            while first_in[broker] < len(batches) and batches[first_in[broker]].incoming[broker] >= limits.incoming:
                first_in[broker] += 1
    return (tuple(batch.moves) for batch in batches)


def _has_room(batch: _Batch, source: int, added: Iterable[int], limits: BatchLimits) -> bool:
    return (
        len(batch.moves) < limits.partitions
        and batch.outgoing[source] < limits.outgoing
        and all(batch.incoming[broker] < limits.incoming for broker in added)
    )


HEALTH_TIMEOUT_S = 60.0
"""Seconds that moves wait for their partitions to become healthy when nothing else is left to send."""

HINT_NOTHING_SENT = "no replica was moved"

Partition = tuple[str, int]


class OpenTopic(Struct):
    """A topic with moves that are not known to be done, by partition.

    ``was_moved`` is True if this run saw one move, ``is_unknown`` if it ended before the reply to a request.
    """

    plan: TopicPlan
    left: dict[int, ReplicaMove]
    was_moved: bool = False
    is_unknown: bool = False


def carry_out(
    plan: Plan, move: Callable[[], Iterator[Outcome]], elect: Callable[[], Iterator[Outcome]]
) -> Iterator[Outcome]:
    """Yield the outcomes of ``move``, then those of ``elect``, if the plan has such changes; raise what ended the run.

    ``move`` also ends what an earlier run of the owner left, for a plan without moves.
    """
    topics = [*plan.actionable_topics()]
    electing = [topic for topic in topics if topic.elections()]
    has_own_batch = plan.batch is not None and plan.batch.owner == plan.owner
    try:
        # A plan of elections alone does not wait for the reassignments of other clients.
        if not electing or has_own_batch or any(topic.moves() for topic in topics):
            yield from move()
    except TopiaristError:
        yield from (Outcome(topic.topic, Result.SKIPPED) for topic in electing)
        raise
    if electing:
        yield from elect()


class OutcomeLedger:
    """The outcomes of one run, in the order in which they are found."""

    def __init__(self) -> None:
        self._outcomes: deque[Outcome] = deque()

    def take_outcomes(self) -> Iterator[Outcome]:
        """Yield the outcomes that were found since the last call."""
        while self._outcomes:
            yield self._outcomes.popleft()

    def run(self, steps: Iterable[None], unfinished: Callable[[], Iterable[Outcome]]) -> Iterator[Outcome]:
        """Take all ``steps``, yielding outcomes after each, and then those of ``unfinished``.

        Raises the error that ended the steps after the last outcome.
        """
        ended_by = None
        try:
            for _ in steps:
                yield from self.take_outcomes()
        except TopiaristError as error:
            ended_by = error
        yield from self.take_outcomes()
        yield from unfinished()
        if ended_by:
            raise ended_by


class MoveLedger(OutcomeLedger):
    """The moves of one plan, during one run.

    ``open`` has the topics with moves left, ``held`` the moves that wait for the health of their partitions, each with
    its cause, and ``in_flight`` the moves that were sent. ``blocked_by`` is what keeps the run from sending moves.
    ``batches_sent`` counts the batches of this run, ``batches_before`` those of runs that it continues.
    """

    def __init__(self, plan: Plan, options: MoveOptions) -> None:
        super().__init__()
        topics = [topic for topic in plan.actionable_topics() if topic.moves()]
        self.open = {
            topic.topic: OpenTopic(topic, {each.partition: each for each in topic.moves()}) for topic in topics
        }
        self.held: dict[Partition, tuple[ReplicaMove, str]] = {}
        self.in_flight: dict[Partition, ReplicaMove] = {}
        self.blocked_by = ""
        self.batches_sent = self.batches_before = 0
        self._options = options
        self._planned_brokers: Mapping[int, Broker] = plan.assumptions().brokers
        self._total = sum(len(topic.moves()) for topic in topics)
        self._done = 0
        self._held_until: float | None = None
        self._finished: list[ReplicaMove] = []
        self._remarks: set[str] = set()
        self.new_remarks: list[str] = []

    def execute(self, steps: Iterable[None], report: Callable[[], None], hint: str) -> Iterator[Outcome]:
        """Yield one outcome for each topic with moves; raise the error that ended the steps after the last one.

        ``report`` reports the progress. ``hint`` is the one of errors about moves in flight, which changes if there are
        none.
        """

        def end() -> Iterator[Outcome]:
            if self._finished:
                report()
            yield from self.unfinished_outcomes()

        try:
            yield from self.run(steps, end)
        except TopiaristError as error:
            is_moving = self.number or self.in_flight
            if error.hint == hint and not is_moving:
                error.hint = HINT_NOTHING_SENT
            elif error.reason is Reason.FROZEN and error.hint != hint and is_moving:
                error.hint = f"{error.hint}; {hint}"  # a freeze leaves throttles too
            raise

    @property
    def number(self) -> int:
        """Return the number of the last batch that was sent."""
        return self.batches_before + self.batches_sent

    def judge(
        self,
        names: Collection[str],
        read: Callable[[str], MovedTopic],
        find_conflict: Callable[[str, MovedTopic], str] = lambda name, current: "",
    ) -> Iterator[tuple[OpenTopic, Judgement]]:
        """Yield each open topic with its judgement; close topics that have a conflict.

        ``read`` returns a topic as it is now, or raises ``TopiaristError``; ``find_conflict`` returns a further reason
        why nothing more of it is moved.
        """
        for name in list(names):
            topic = self.open[name]
            try:
                current = read(name)
            except TopiaristError as error:
                self.close(topic, Outcome(name, Result.CONFLICT, error.reason, str(error)))
                continue
            judgement = judge_topic(topic.left.values(), topic.plan, self._planned_brokers, current)
            conflict = judgement.conflict or find_conflict(name, current)
            if conflict:
                self.close(topic, Outcome(name, Result.CONFLICT, Reason.STATE_CONFLICT, conflict))
            else:
                yield topic, judgement

    def hold(self, move: ReplicaMove, cause: str) -> None:
        """Hold a move until its partition is healthy."""
        self.held[move.topic, move.partition] = move, cause

    def add_sent(self, moves: Iterable[ReplicaMove]) -> None:
        """Record moves that were sent."""
        self._held_until = None
        for move in moves:
            self.held.pop((move.topic, move.partition), None)
            self.in_flight[move.topic, move.partition] = move
            self.open[move.topic].was_moved = True

    def refuse_held_for_too_long(self, now: float) -> bool:
        """Refuse the topics of the held moves if they were held for too long; return whether they were.

        Called while nothing else can be sent: the time counts from the first call since moves were sent. ``now`` is
        the time in seconds.
        """
        if self._held_until is None:
            self._held_until = now + (HEALTH_TIMEOUT_S if self._options.wait else 0.0)
        if now < self._held_until:
            return False
        causes: dict[str, list[str]] = {}
        for (name, _), (_, cause) in sorted(self.held.items()):
            causes.setdefault(name, []).append(cause)
        for name, found in causes.items():
            message = f"{found[0]}; {format_count(len(found), 'partition')} not moved"
            self.close(self.open[name], Outcome(name, Result.REFUSED, Reason.NOT_IN_SYNC, message))
        self.held.clear()
        return True

    def close_finished(self, topic: OpenTopic, judgement: Judgement) -> None:
        """Count the moves that are done; close the topic after its last one."""
        for move in judgement.done:
            del topic.left[move.partition]
            self.held.pop((move.topic, move.partition), None)
            self._done += 1
            self._finished.append(move)
        if not topic.left:
            result = Result.DONE if topic.was_moved else Result.UNCHANGED
            self.close(topic, Outcome(topic.plan.topic, result))

    def close_dropped(self, topic: OpenTopic, dropped: Collection[ReplicaMove]) -> None:
        """Close a topic after moves of it ended without effect."""
        first = next(iter(dropped))
        message = (
            f"{format_count(len(dropped), 'move')} ended without effect: partition {first.partition} is still"
            f" on {list(first.before)}; the controller dropped it (its log has the cause), or another client"
            " cancelled it"
        )
        self.close(topic, Outcome(topic.plan.topic, Result.FAILED, Reason.MOVE_DROPPED, message))

    def close(self, topic: OpenTopic, outcome: Outcome) -> None:
        """End the work on a topic; a move of it that is in flight continues at the controller."""
        name = topic.plan.topic
        if self.open.pop(name, None):
            self._outcomes.append(outcome)
        for key in [key for key in self.held if key[0] == name]:
            del self.held[key]

    def unfinished_outcomes(self) -> Iterator[Outcome]:
        """Yield the outcome of each topic with moves left, after the run."""
        for name, topic in self.open.items():
            moves = topic.plan.moves()
            if topic.is_unknown:
                message = "the session ended before the reply: the next run detects whether its moves were sent"
                yield Outcome(name, Result.UNKNOWN, Reason.OUTCOME_UNKNOWN, message)
                continue
            # Without ``wait`` a run ends in order while moves are left: that is unfinished work, not an interruption.
            if self._options.wait and not topic.was_moved and len(topic.left) == len(moves):
                reason = Reason.REASSIGNMENT_IN_PROGRESS if self.blocked_by else None
                yield Outcome(name, Result.SKIPPED, reason, self.blocked_by)
                continue
            flying = sum(topic == name for topic, _ in self.in_flight)
            message = f"{len(moves) - len(topic.left)} of {format_count(len(moves), 'partition')} moved"
            message += f", {flying} in flight" if flying else f": {self.blocked_by}" if self.blocked_by else ""
            yield Outcome(name, Result.PENDING, Reason.MOVES_UNFINISHED, f"{message}; run again for the rest")

    def report(
        self, position: tuple[int, int], copying: Iterable[ReplicaMove] = (), waiting_for: str = "", done_more: int = 0
    ) -> None:
        """Report the progress; ``position`` is the number of the batch and of batches, ``done_more`` adds to done."""
        finished, self._finished = tuple(self._finished), []
        remarks, self.new_remarks = tuple(self.new_remarks), []
        done = self._done + done_more
        self._options.on_progress(
            MoveProgress(*position, done, self._total, tuple(copying), finished, waiting_for, remarks)
        )

    def remark_end(self, batch: BatchRecord) -> None:
        """Add a remark on the end of a batch of an earlier run, which no outcome shows."""
        if not self.batches_sent:
            put_back = ", and put its throttles back" if batch.throttles else ""
            self.remark(f"ended batch {batch.batch} of {batch.batches} of an earlier run{put_back}")

    def remark(self, remark: str) -> None:
        """Add a fact to the next report, once in a run."""
        # A write that is tried again finds the same facts.
        if remark not in self._remarks:
            self._remarks.add(remark)
            self.new_remarks.append(remark)


# Keeps what a run knows of the elections of one plan: which are left and why, and each topic's outcome.
#
# The adapters request elections and read the leaders afterwards; what follows from the leaders is the same for each of
# them and is decided here, as ``ledger`` does for moves. When a run ends early, its adapter knows whether a request may
# still be carried out.

MAX_PARTITIONS = 500
"""Partitions in one request.

Through ZooKeeper each is checked at its version, and one change of any replica in sync refuses them all.
"""

HINT_ELECT_AGAIN = "run again: finished elections are recognized"


class OpenElections(Struct):
    """A topic with elections that are not known to be done, by partition.

    ``causes`` says why partitions keep another leader. ``was_sent`` is true if this run requested an election of the
    topic, ``is_unknown`` if the run ended before the reply.
    """

    plan: TopicPlan
    left: dict[int, LeaderChange]
    causes: dict[int, str] = field(default_factory=dict)
    was_sent: bool = False
    is_unknown: bool = False


class ElectionLedger(OutcomeLedger):
    """The elections of one plan, during one run.

    ``open`` has the topics with elections left, ``queue`` the partitions of each request that was not sent yet, and
    ``requests`` counts those that were sent.
    """

    def __init__(self, plan: Plan, options: MoveOptions) -> None:
        super().__init__()
        topics = [topic for topic in plan.actionable_topics() if topic.elections()]
        self.open = {
            topic.topic: OpenElections(topic, {each.partition: each for each in topic.elections()}) for topic in topics
        }
        wanted = [(topic.topic, each.partition) for topic in topics for each in topic.elections()]
        self.queue: deque[tuple[Partition, ...]] = deque(
            tuple(wanted[start : start + MAX_PARTITIONS]) for start in range(0, len(wanted), MAX_PARTITIONS)
        )
        self.requests = 0
        self._options = options
        self._total, self._elected = len(wanted), 0

    def find_left(self, partitions: Iterable[Partition]) -> dict[str, list[LeaderChange]]:
        """Return the elections of these partitions that are left, by topic in order of name."""
        found: dict[str, list[LeaderChange]] = {}
        for name, partition in partitions:
            if name in self.open and partition in self.open[name].left:
                found.setdefault(name, []).append(self.open[name].left[partition])
        return dict(sorted(found.items()))

    def judge(
        self,
        partitions: Iterable[Partition],
        read: Callable[[str], MovedTopic],
        in_flight: Collection[Partition] = (),
    ) -> Iterator[tuple[OpenElections, ElectionJudgement]]:
        """Yield the open topics of these partitions, each with its judgement by ``judge_elections``.

        ``read`` returns a topic as it is now, or raises ``TopiaristError``; ``in_flight`` are partitions that a request
        names. Closes a topic that has a conflict or no election left; otherwise ``causes`` has why partitions cannot
        be elected now.
        """
        for name, elections in self.find_left(partitions).items():
            topic = self.open[name]
            try:
                current = read(name)
            except TopiaristError as error:
                self.close(topic, Outcome(name, Result.CONFLICT, error.reason, str(error)))
                continue
            requested = {partition for other, partition in in_flight if other == name}
            if judgement := self._judge(topic, elections, current, requested):
                yield topic, judgement

    def _judge(
        self,
        topic: OpenElections,
        elections: Iterable[LeaderChange],
        current: MovedTopic,
        requested: Collection[int],
    ) -> ElectionJudgement | None:
        """Judge a topic, and count the elections that are done; None if it is closed."""
        judgement = judge_elections(elections, topic.plan, current, requested)
        if judgement.conflict:
            self.close(topic, Outcome(topic.plan.topic, Result.CONFLICT, Reason.STATE_CONFLICT, judgement.conflict))
            return None
        for each in judgement.elected:
            del topic.left[each.partition]
            topic.causes.pop(each.partition, None)
            self._elected += 1
        if not topic.left:
            self.close(topic, Outcome(topic.plan.topic, Result.DONE if topic.was_sent else Result.UNCHANGED))
            return None
        topic.causes.update((each.partition, cause) for each, cause in judgement.held)
        return judgement

    def add_sent(self, partitions: Iterable[Partition]) -> None:
        """Record that elections of these partitions are requested."""
        for name, _ in partitions:
            self.open[name].was_sent = True

    def close(self, topic: OpenElections, outcome: Outcome) -> None:
        """End the work on a topic."""
        if self.open.pop(topic.plan.topic, None):
            self._outcomes.append(outcome)

    def pending_outcome(self, topic: OpenElections, cause: str) -> Outcome:
        """Return the outcome of a topic with elections left; ``cause`` counts where no partition has one."""
        wanted = len(topic.plan.elections())
        message = f"{wanted - len(topic.left)} of {format_count(wanted, 'leader')} elected"
        cause = next(iter(topic.causes.values()), cause)
        return Outcome(topic.plan.topic, Result.PENDING, Reason.NOT_ELECTED, f"{message}: {cause}; run again")

    def report(self) -> None:
        """Report the progress."""
        self._options.on_progress(
            MoveProgress(
                self.requests,
                self.requests + len(self.queue),
                self._elected,
                self._total,
                waiting_for="an election of preferred leaders",
            )
        )
