"""One pass over one cluster: read it, plan, let somebody decide, apply, report. The port that an adapter has to fill.

The command line, the operator and the drift job all go through here, so there is one meaning of "different" and one way
to write. Level, not edge: a pass looks at everything; whatever caused it is only a reason to look.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from topiarist.core.change import Plan, TopicPlan
from topiarist.core.inspection import Inspection
from topiarist.core.plan import Run, make_plan
from topiarist.core.spec import ClusterSpec, TopicSpec
from topiarist.core.state import ClusterState, TopicState
from topiarist.core.waiting import Sight, Stage
from topiarist.errors import Exit, Reason, TopiaristError


class Result(str, Enum):
    """What became of one topic of a plan."""

    DONE = "done"
    ALREADY = "already so"
    MOVED = "moved"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"
    UNFINISHED = "not finished"
    NOT_SENT = "not sent"


_EXITS = {
    Result.DONE: Exit.DONE,
    Result.ALREADY: Exit.DONE,
    Result.NOT_SENT: Exit.DONE,  # whatever kept it from being sent has a code of its own
    Result.MOVED: Exit.MOVED,
    Result.REFUSED: Exit.REFUSED,
    Result.FAILED: Exit.ERROR,
    Result.UNKNOWN: Exit.ERROR,
    Result.UNFINISHED: Exit.ERROR,
}


def worst(codes: Collection[Exit]) -> Exit:
    """The code to end with: an error before all, else the highest."""
    return Exit.ERROR if Exit.ERROR in codes else max(codes, default=Exit.DONE)


class Outcome(NamedTuple):
    """The result for one topic; ``message`` says what was found and what it means (empty where all is well).

    ``topic_id`` is Kafka's id of the topic where the waiting has shown it: the controller gives it after a creation.
    """

    topic: str
    result: Result
    reason: Reason | None = None
    message: str = ""
    topic_id: str | None = None


class Pace(Protocol):
    """Whoever holds creations and growth back until the cluster has digested what was sent before."""

    def take(self, topic: TopicPlan) -> bool:
        """Whether a topic that gets new partitions may be sent now; if so it counts as sent."""

    def rest(self) -> None:
        """Nothing may be sent now: return when it is worth asking again. Raises ``TopiaristError`` to end the run."""

    def settled(self, topic: TopicPlan, outcome: Outcome) -> None:
        """What became of a topic."""


def waited(outcome: Outcome, stage: Stage) -> Outcome:
    """The outcome of a topic that was written, once it is known how far the cluster has come with it.

    What nobody waits for is as it was, with a word on it.
    """
    topic, result, *_ = outcome
    if not stage.final:
        return Outcome(topic, Result.UNFINISHED, stage.reason, stage.message)
    if stage.reason in (None, Reason.NOT_TAKEN_OVER):
        return Outcome(topic, result, stage.reason, stage.message)
    refused = stage.reason is Reason.DELETION_DISABLED
    return Outcome(topic, Result.REFUSED if refused else Result.FAILED, stage.reason, stage.message)


class Cluster(Protocol):
    """A cluster as topiarist sees it: two verbs."""

    def read(self) -> ClusterState:
        """Everything that a plan is made from, in one go.

        Raises ``TopiaristError`` if the cluster cannot be reached or is none.
        """

    def apply(self, plan: Plan, stop: Callable[[], bool], pace: Pace | None = None) -> Iterator[Outcome]:
        """Carry out ``plan``: one transaction a topic, each after comparing by value with what is there at that moment.

        With a ``pace`` the topics that get no new partitions come first, and of the others each waits for its leave.

        Gives exactly one outcome for each of ``plan.to_do()``, as it becomes known. After ``stop()`` is true nothing
        more is sent: what is under way is finished, the rest is ``NOT_SENT``. Writes nothing at all if nothing is to
        do.

        Raises ``TopiaristError`` before the first outcome if the run cannot begin (no lock, no controller).
        """


class Watched(Protocol):
    """A cluster of which somebody wants to know what it makes of what was applied."""

    def look(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, Sight]:
        """These topics as of now, each with the partitions of which somebody asks whether they are taken over.

        Cheap enough to be asked until the cluster has finished what ``apply`` began.
        """


class Inspected(Cluster, Protocol):
    """A cluster of which somebody wants to know what its controller has made of one topic."""

    def inspect(self, topic: str) -> Inspection | None:
        """The topic's partitions as of now; None where that is not known (a snapshot has none of it)."""

    def inspect_all(self, topics: Collection[TopicState]) -> Mapping[str, Inspection]:
        """Return the partitions of each of these topics as of now, without those where that is not known."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a pass did: its plan as decided, and one outcome for each topic that was to be touched."""

    plan: Plan
    outcomes: tuple[Outcome, ...] = ()
    error: TopiaristError | None = None

    def topics(self, result: Result) -> tuple[Outcome, ...]:
        """The outcomes with this result."""
        return tuple(outcome for outcome in self.outcomes if outcome.result is result)

    @property
    def exit(self) -> Exit:
        """Failures before all, then what moved, then what was refused; an error that ended the run is one of them."""
        codes = {refusal.reason.exit for topic in self.plan.topics if not topic.observed for refusal in topic.refusals}
        codes |= {_EXITS[outcome.result] for outcome in self.outcomes}
        if self.error:
            codes.add(self.error.reason.exit)
        return worst(codes)


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a run under way asks and tells. ``stop`` says whether to end it.

    ``tell`` hears of each outcome as the cluster gives it, ``settled`` of the outcome of each topic, with the topic's
    plan, also of topics that were not sent. ``pace`` holds back what has to be digested.
    """

    stop: Callable[[], bool] = field(default=lambda: False)
    tell: Callable[[Outcome], None] = field(default=lambda outcome: None)
    settled: Callable[[TopicPlan, Outcome], None] = field(default=lambda topic, outcome: None)
    pace: Pace | None = None


def survey(cluster: Cluster, spec: ClusterSpec, topics: Sequence[TopicSpec], run: Run) -> Plan:
    """Read a cluster and plan; writes nothing. Raises what ``read`` and ``complete`` raise."""
    return complete(make_plan(read(cluster, spec.cluster_id), spec, topics, run), topics)


def read(cluster: Cluster, cluster_id: str, said_by: str = "clusterId") -> ClusterState:
    """What a cluster holds. Raises ``WrongCluster`` if its id is not the one that ``said_by`` gives, if any."""
    state = cluster.read()
    require_meant(cluster_id, state.cluster_id, said_by)
    return state


def require_meant(wanted: str, found: str, said_by: str = "clusterId") -> None:
    """Raise ``WrongCluster`` if a cluster's id is not the one that ``said_by`` gives, if any."""
    if wanted and wanted != found:
        raise TopiaristError(
            Reason.WRONG_CLUSTER,
            f"found cluster id {found}, wanted {wanted} ({said_by})",
            f"go to the cluster that is meant, or mend the {said_by} if this is the one",
        )


def complete(plan: Plan, topics: Sequence[TopicSpec]) -> Plan:
    """The plan, if it settles each of the topics that it was made for: something to do, a refusal, or nothing to do.

    Raises ``Incomplete`` if one has been lost, or counts twice.
    """
    settled = [topic.topic for topic in plan.topics if topic.changes or topic.refusals]
    known = {spec.topic for spec in topics}
    if len(settled) + plan.unchanged == len(topics) and len(known.intersection(settled)) == len(settled):
        return plan
    raise TopiaristError(
        Reason.INCOMPLETE,
        f"found results for {len(settled) + plan.unchanged:,} topics, wanted one for each of {len(topics):,}",
        "this is a mistake in topiarist: please report it",
    )


def carry_out(cluster: Cluster, hooks: Hooks, plan: Plan) -> Report:
    """Apply ``plan`` and nothing else: a topic that is not as it was planned from is reported, for the next pass.

    Outcomes known so far are kept if the run ends before its time; every topic has one in any case.
    """
    outcomes: list[Outcome] = []
    topics = {topic.topic: topic for topic in plan.to_do()}
    error = None
    try:
        for outcome in cluster.apply(plan, hooks.stop, hooks.pace) if topics else ():
            outcomes.append(outcome)
            hooks.tell(outcome)
            if hooks.pace:
                hooks.pace.settled(topics[outcome.topic], outcome)
            hooks.settled(topics[outcome.topic], outcome)
    except TopiaristError as raised:
        error = raised
        known = {outcome.topic for outcome in outcomes}
        for unsent in [Outcome(name, Result.NOT_SENT) for name in topics if name not in known]:
            outcomes.append(unsent)
            hooks.settled(topics[unsent.topic], unsent)
    return Report(plan, tuple(outcomes), error)
