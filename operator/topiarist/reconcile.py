"""One pass over one cluster: read it, plan, let somebody decide, apply, report. The port that an adapter has to fill.

The command line, the operator and the drift job all go through here, so there is one meaning of "different" and one way
to write. Level, not edge: a pass looks at everything; whatever caused it is only a reason to look.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple, Protocol

from topiarist.core.change import Plan, TopicPlan
from topiarist.core.inspection import Inspection
from topiarist.core.plan import Run, make_plan
from topiarist.core.spec import ClusterSpec, TopicSpec
from topiarist.core.state import ClusterState
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
    """The result for one topic; ``message`` says what was found and what it means (empty where all is well)."""

    topic: str
    result: Result
    reason: Reason | None = None
    message: str = ""


class Pace(Protocol):
    """Whoever holds creations and growth back until the cluster has digested what was sent before."""

    def take(self, topic: TopicPlan) -> bool:
        """Whether a topic that gets new partitions may be sent now; if so it counts as sent."""

    def rest(self) -> None:
        """Nothing may be sent now: return when it is worth asking again. Raises ``TopiaristError`` to end the run."""

    def settled(self, topic: TopicPlan, outcome: Outcome) -> None:
        """What became of a topic; one that moved may be planned, taken and settled once more."""


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
class Pass:
    """What a pass is about, and who listens to it.

    ``allow`` gives back what of a plan may be done. ``asked`` is true if a person has answered for the plan: then
    only what was shown is done, and what moved since is reported, not planned again. ``tell`` hears of each outcome,
    ``settled`` of the last one of each topic, with the topic's plan. ``pace`` holds back what has to be
    digested.
    """

    spec: ClusterSpec
    topics: Sequence[TopicSpec]
    run: Run
    allow: Callable[[Plan], Plan]
    asked: bool = False
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


def reconcile(cluster: Cluster, job: Pass) -> Report:
    """One whole pass."""
    return carry_out(cluster, job, job.allow(survey(cluster, job.spec, job.topics, job.run)))


def carry_out(cluster: Cluster, job: Pass, plan: Plan) -> Report:
    """Apply ``plan``. A topic that moved under it is read and planned anew once, unless a person answered for the
    plan.
    """
    report = _apply(cluster, job, plan, final=job.asked)
    moved = {outcome.topic for outcome in report.topics(Result.MOVED)}
    if not moved or job.asked:
        return report
    if report.error or job.stop():
        return _given_up(job, report)
    try:
        again = job.allow(survey(cluster, job.spec, [spec for spec in job.topics if spec.topic in moved], job.run))
    except TopiaristError as error:
        return _given_up(job, replace(report, error=error))
    second = _apply(cluster, job, again)
    known = {outcome.topic for outcome in second.outcomes}
    kept = tuple(outcome for outcome in report.outcomes if outcome.topic not in moved)
    settled = tuple(_settled(topic, again) for topic in sorted(moved - known))
    topics = [topic for topic in plan.topics if topic.topic not in moved]
    whole = replace(plan, topics=tuple(sorted([*topics, *again.topics], key=lambda topic: topic.topic)))
    _tell_settled(job, (*plan.topics, *again.topics), settled)
    return Report(whole, kept + second.outcomes + settled, second.error)


def _given_up(job: Pass, report: Report) -> Report:
    """The report of a run that ends before the topics that moved are planned again: moved is their last word."""
    _tell_settled(job, report.plan.topics, report.topics(Result.MOVED))
    return report


def _tell_settled(job: Pass, topics: Sequence[TopicPlan], outcomes: Sequence[Outcome]) -> None:
    plans = {topic.topic: topic for topic in topics}
    for outcome in outcomes:
        job.settled(plans[outcome.topic], outcome)


def _settled(name: str, again: Plan) -> Outcome:
    """The outcome of a topic that moved to where nothing is to be done, or nothing may be: the reason was not shown."""
    refusals = [refusal for topic in again.topics if topic.topic == name for refusal in topic.refusals]
    if refusals:
        return Outcome(name, Result.REFUSED, refusals[0].reason, refusals[0].message)
    return Outcome(name, Result.ALREADY)


def _apply(cluster: Cluster, job: Pass, plan: Plan, *, final: bool = True) -> Report:
    """Apply, and keep the outcomes known so far if the run ends before its time; every topic has one in any case.

    Unless this is ``final``, topics that moved are not settled yet.
    """
    outcomes: list[Outcome] = []
    topics = {topic.topic: topic for topic in plan.to_do()}
    error = None
    try:
        for outcome in cluster.apply(plan, job.stop, job.pace) if topics else ():
            outcomes.append(outcome)
            job.tell(outcome)
            if job.pace:
                job.pace.settled(topics[outcome.topic], outcome)
            if final or outcome.result is not Result.MOVED:
                job.settled(topics[outcome.topic], outcome)
    except TopiaristError as raised:
        error = raised
        known = {outcome.topic for outcome in outcomes}
        unsent = [Outcome(topic, Result.NOT_SENT) for topic in topics if topic not in known]
        _tell_settled(job, plan.topics, unsent)
        outcomes.extend(unsent)
    return Report(plan, tuple(outcomes), error)
