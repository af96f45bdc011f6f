"""Keeps what a run knows of the elections of one plan: which are left and why, and each topic's outcome.

The adapters request elections and read the leaders afterwards; what follows from the leaders is the same for each of
them and is decided here, as ``ledger`` does for moves. When a run ends early, its adapter knows whether a request may
still be carried out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from msgspec import Struct, field

from topiarist.errors import Reason
from topiarist.model.moves import LeaderChange, MoveProgress
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan, TopicPlan
from topiarist.planning.moves.execution.election_gate import ElectionJudgement, judge_elections
from topiarist.planning.moves.execution.gate import MovedTopic
from topiarist.planning.moves.execution.ledger import OutcomeLedger, Partition
from topiarist.ports import MoveOptions
from topiarist.text import format_count

MAX_PARTITIONS = 500
"""Partitions in one request.

Through ZooKeeper each is checked at its version, and one change of any replica in sync refuses them all.
"""

HINT_ELECT_AGAIN = "run again: leaders that were elected are recognized"


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
        topic: OpenElections,
        elections: Iterable[LeaderChange],
        current: MovedTopic,
        requested: Collection[int] = (),
    ) -> ElectionJudgement | None:
        """Judge elections of a topic as ``judge_elections`` does, and count those that are done.

        Closes the topic after its last election, and if it has a conflict. Returns None then; else ``causes`` has why
        partitions cannot be elected now.
        """
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
