"""One pass over one cluster: what its Topics ask for, the plan, what of it may be done, and what became of each topic.

The command line's pass (``reconcile``) with the operator's answers to what a person would be asked. Nothing of
Kubernetes is called here: ``rounds`` hands the order in, and ``controller`` writes what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import NamedTuple, Protocol

from topiarist.core.allowed import DriftPolicy
from topiarist.core.change import Finding, Plan, TopicPlan
from topiarist.core.drift import report_only
from topiarist.core.plan import Run
from topiarist.core.spec import ClusterSpec, TopicSpec
from topiarist.core.spending import within_budgets
from topiarist.core.state import ClusterState, TopicState
from topiarist.core.waiting import behind, brings
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import permission
from topiarist.kubernetes.candidates import Candidate
from topiarist.kubernetes.deletions import Deletion
from topiarist.kubernetes.quiet import Quiet
from topiarist.kubernetes.resources import Resource, last_asked
from topiarist.reconcile import Cluster, Outcome, Pace, Pass, Report, Result, Watched, reconcile

PAUSED = "paused"
"""The annotation by which a Topic or a Cluster is left alone for a while."""


class State(str, Enum):
    """How a topic stands on a cluster, in a word.

    ``CHANGED``: new partitions are written, and not yet taken over by the controller as far as was seen. ``WAITING``:
    for what passes by itself, as a reassignment or a broker that is away. ``REFUSED``: until somebody does something.
    """

    ABSENT = "Absent"
    CHANGED = "Changed"
    DRIFTED = "Drifted"
    IN_STEP = "InStep"
    OBSERVED = "Observed"
    PAUSED = "Paused"
    REFUSED = "Refused"
    WAITING = "Waiting"


@dataclass(frozen=True, slots=True)
class Order:
    """What a pass is to do.

    ``resource`` is the Cluster, ``guard`` what the policies leave of a plan, ``deletions`` gives those of the last day
    by what was read. ``held`` says of topics, by name, why they must not be deleted although their resources are.
    ``quiet`` is the memory of the cluster's passes.
    """

    resource: Resource
    cluster: ClusterSpec
    candidates: Sequence[Candidate]
    owner: str
    held: Mapping[str, str] = field(default_factory=dict)
    guard: Callable[[Plan], Plan] = field(default=lambda plan: plan)
    deletions: Callable[[ClusterState], Sequence[Deletion]] = field(default=lambda state: ())
    quiet: Quiet = field(default_factory=Quiet)


class View(NamedTuple):
    """One topic after a pass. ``found`` is the topic as it was read, before anything was done (None: absent)."""

    candidate: Candidate
    state: State
    found: TopicState | None = None
    plan: TopicPlan | None = None
    refusals: tuple[Finding, ...] = ()
    outcome: Outcome | None = None

    @property
    def unsent(self) -> bool:
        """Whether the pass has left it for the next one."""
        return self.outcome is not None and self.outcome.result is Result.NOT_SENT

    @property
    def under_way(self) -> bool:
        """Whether there is more to see soon: it was written, is being deleted, or is for the next pass."""
        leaving = self.candidate.spec.absent and self.state is State.WAITING
        return self.state is State.CHANGED or leaving or self.unsent


class Seen(NamedTuple):
    """What a pass saw and did. ``error`` ended it before its time, if there is one. ``deletions`` are those of the last
    day, as it began; None if nothing was read.
    """

    views: Sequence[View]
    state: ClusterState | None = None
    report: Report | None = None
    error: TopiaristError | None = None
    deletions: Sequence[Deletion] | None = None


class Port(Cluster, Watched, Protocol):
    """A cluster that can be written to and watched."""


class _Remembered:
    """The port, and what it read last; what was read ``ahead`` is given out once without reading again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ahead: ClusterState | None = None
        self.state: ClusterState | None = None

    def read_ahead(self) -> ClusterState:
        self._ahead = self.state = self._cluster.read()
        return self.state

    def read(self) -> ClusterState:
        ahead, self._ahead = self._ahead, None
        self.state = ahead or self._cluster.read()
        return self.state

    def apply(self, plan: Plan, stop: Callable[[], bool], pace: Pace | None = None) -> Iterator[Outcome]:
        return self._cluster.apply(plan, stop, pace)


def look(cluster: Port, order: Order, stop: Callable[[], bool], pace: Pace | None = None) -> Seen:
    """Carry out one pass; an error that ends it is part of what it saw, with what had been done until then."""
    objected = [View(each, State.REFUSED, refusals=each.objections) for each in order.candidates if each.objections]
    claims = {each.spec.topic: each for each in order.candidates if not each.objections}
    wanted = {topic: _wanted(each, order.resource) for topic, each in claims.items()}
    remembered, deletions = _Remembered(cluster), None
    try:
        run, state = _run(order, claims), remembered.read_ahead()
        deletions = order.deletions(state)
        specs = order.quiet.others(state, order.cluster, run, wanted.values())
        job = Pass(order.cluster, specs, run, _allowing(order, claims, len(deletions)), stop=stop, pace=pace)
        report = reconcile(remembered, job)
    except TopiaristError as error:
        return Seen(objected, remembered.state, None, error, deletions)
    found = remembered.state.topics if remembered.state else {}
    plans = {plan.topic: plan for plan in report.plan.topics}
    outcomes = {outcome.topic: outcome for outcome in report.outcomes}
    views = [
        _view(each, wanted[topic], found.get(topic), plans.get(topic), outcomes.get(topic))
        for topic, each in claims.items()
    ]
    planned = {spec.topic for spec in specs}
    views, unseen = _settled(cluster, order.cluster.name, views, planned)
    ended = report.error or unseen
    for view in views:
        spec = view.candidate.spec
        if spec.topic in planned:
            calm = view.state in (State.IN_STEP, State.ABSENT) and view.plan is None and ended is None
            order.quiet.note(spec, view.found, quiet=calm)
    return Seen([*objected, *views], remembered.state, report, ended, deletions)


def _wanted(candidate: Candidate, home: Resource) -> TopicSpec:
    """What a Topic asks for now: that it be deleted, if it is being deleted and its ``deletionPolicy`` is ``Delete``;
    nothing, as long as it, or its Cluster, is paused. What is only observed is not deleted either.
    """
    resource, spec, _ = candidate
    paused = "true" in (resource.annotation(PAUSED), home.annotation(PAUSED))
    leaving = resource.deleting and spec.manifest.spec.get("deletionPolicy") == "Delete"
    if not leaving and not paused:
        return spec
    return replace(spec, absent=spec.absent or leaving, observe=paused or spec.observe)


def _run(order: Order, claims: Mapping[str, Candidate]) -> Run:
    """As whom, and what has been answered for."""
    answered = partial(permission.answered, order.cluster)

    def agreed(annotation: str) -> tuple[str, ...]:
        return tuple(sorted(topic for topic, each in claims.items() if answered(each.resource, annotation)))

    return Run(
        owner=order.owner,
        adopt=order.cluster.adopt,
        take_ownership=agreed(permission.TAKE_OWNERSHIP),
        recreate=agreed(permission.RECREATE),
    )


def _allowing(order: Order, claims: Mapping[str, Candidate], deletions: int) -> Callable[[Plan], Plan]:
    """What may be done of a plan, with so many ``deletions`` within the last day."""
    cluster = order.cluster
    resources = {topic: each.resource for topic, each in claims.items()}
    budgets = replace(cluster.budgets, deletions=max(0, cluster.budgets.deletions - deletions))

    def allow(plan: Plan) -> Plan:
        if cluster.drift_policy is DriftPolicy.REPORT:
            asked = {topic.topic: last_asked(resources[topic.topic].on(cluster.name)) for topic in plan.topics}
            plan = report_only(plan, {topic: was for topic, was in asked.items() if was})
        plan = permission.permitted(order.guard(plan), cluster, resources, order.held)
        return within_budgets(plan, budgets, partial=True)

    return allow


def _view(
    candidate: Candidate, wanted: TopicSpec, found: TopicState | None, plan: TopicPlan | None, outcome: Outcome | None
) -> View:
    """A topic after the pass; its candidate then has what was wanted in place of what is declared."""
    refusals = plan.refusals if plan else ()
    if outcome and outcome.result not in (Result.DONE, Result.ALREADY):
        refusals = (*refusals, Finding(outcome.reason or Reason.NOT_SENT, outcome.message or outcome.result.value))
    state = State.OBSERVED if candidate.spec.observe else _state(wanted, found, plan, refusals)
    judged = candidate if wanted is candidate.spec else candidate._replace(spec=wanted)
    return View(judged, state, found, plan, refusals, outcome)


def _state(wanted: TopicSpec, found: TopicState | None, plan: TopicPlan | None, refusals: Sequence[Finding]) -> State:
    if wanted.observe:
        return State.PAUSED
    if refusals:  # most topics have none, and this is asked of all in every pass
        reasons = {refusal.reason for refusal in refusals}
        if any(not reason.retryable for reason in reasons - {Reason.DRIFT_DETECTED}):
            return State.REFUSED
        return State.DRIFTED if Reason.DRIFT_DETECTED in reasons else State.WAITING
    if wanted.absent and found is not None:
        return State.WAITING
    if plan and brings(plan):
        return State.CHANGED
    return State.ABSENT if wanted.absent else State.IN_STEP


def _settled(
    cluster: Watched, name: str, views: list[View], planned: Collection[str]
) -> tuple[list[View], TopiaristError | None]:
    """The views, where what was written before and has not been taken over yet is no more than changed; and why that
    could not be seen, if it could not. Only what was ``planned`` may have been written.
    """
    asked = {
        view.candidate.spec.topic: range(len(view.found.replicas))
        for view in views
        if view.state is State.IN_STEP and view.found and view.candidate.spec.topic in planned
        if view.candidate.resource.on(name).get("state") == State.CHANGED.value
    }
    if not asked:
        return views, None
    try:
        sights = cluster.look(asked)
    except TopiaristError as error:
        return views, error
    late = {topic for topic, partitions in asked.items() if behind(sights[topic], partitions)}
    return [view._replace(state=State.CHANGED) if view.candidate.spec.topic in late else view for view in views], None
