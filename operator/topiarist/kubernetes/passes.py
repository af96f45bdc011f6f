"""One pass over one cluster: what its Topics ask for, the plan, what of it may be done, and what became of each topic.

The command line's pass (``reconcile``) with the operator's answers to what a person would be asked. Nothing of
Kubernetes is called here: ``loop`` hands the order in and writes what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
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

    ``resource`` is the Cluster, ``guard`` what the policies leave of a plan, ``deletions`` how many topics were deleted
    within a day. ``held`` says of topics, by name, why they must not be deleted although their resources are. ``quiet``
    is the memory of the cluster's passes.
    """

    resource: Resource
    cluster: ClusterSpec
    candidates: Sequence[Candidate]
    owner: str
    held: Mapping[str, str] = field(default_factory=dict)
    guard: Callable[[Plan], Plan] = field(default=lambda plan: plan)
    deletions: int = 0
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
    """What a pass saw and did. ``error`` ended it before its time, if there is one."""

    views: Sequence[View]
    state: ClusterState | None = None
    report: Report | None = None
    error: TopiaristError | None = None


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
    meant = {each.spec.topic: _wanted(each, order) for each in order.candidates if not each.objections}
    chosen = {each.spec.topic: each for each in order.candidates if not each.objections}
    resources = {name: each.resource for name, each in chosen.items()}
    parts = {name: each.on(order.cluster.name) for name, each in resources.items()}
    remembered = _Remembered(cluster)
    budgets = order.cluster.budgets
    budgets = replace(budgets, deletions=max(0, budgets.deletions - order.deletions))

    def allow(plan: Plan) -> Plan:
        if order.cluster.drift_policy is DriftPolicy.REPORT:
            asked = {topic.topic: last_asked(parts[topic.topic]) for topic in plan.topics}
            plan = report_only(plan, {topic: was for topic, was in asked.items() if was})
        plan = permission.permitted(order.guard(plan), order.cluster, resources, order.held)
        return within_budgets(plan, budgets, partial=True)

    run = _run(order, resources)
    try:
        specs = order.quiet.others(remembered.read_ahead(), order.cluster, run, meant.values())
        job = Pass(order.cluster, specs, run, allow, stop=stop, pace=pace)
        report = reconcile(remembered, job)
    except TopiaristError as error:
        return Seen([_objected(each) for each in order.candidates if each.objections], remembered.state, None, error)
    plans = {plan.topic: plan for plan in report.plan.topics}
    outcomes = {outcome.topic: outcome for outcome in report.outcomes}
    state, views = remembered.state, []
    for each in order.candidates:
        topic = each.spec.topic
        if each.objections:
            views.append(_objected(each))
        else:
            found = state.topics.get(topic) if state else None
            wanted = each if meant[topic] is each.spec else each._replace(spec=meant[topic])
            view = _view(wanted, found, plans.get(topic), outcomes.get(topic))
            views.append(view._replace(state=State.OBSERVED) if each.spec.observe else view)
    planned = {spec.topic for spec in specs}
    settling = {topic for topic in planned if parts[topic].get("state") == State.CHANGED.value}
    ended = report.error
    try:
        views = _settled(cluster, views, settling)
    except TopiaristError as raised:
        ended = ended or raised
    for view in views:
        spec = view.candidate.spec
        if spec.topic in planned and not view.candidate.objections:
            calm = view.state in (State.IN_STEP, State.ABSENT) and view.plan is None and ended is None
            order.quiet.note(spec, view.found, quiet=calm)
    return Seen(views, state, report, ended)


def _settled(cluster: Watched, views: list[View], settling: Collection[str]) -> list[View]:
    """The views; what was written before, and its controller has not taken over yet, is no more than changed."""
    asked = {
        view.candidate.spec.topic: range(len(view.found.replicas))
        for view in views
        if view.candidate.spec.topic in settling and view.state is State.IN_STEP and view.found
    }
    if not asked:
        return views
    sights = cluster.look(asked)
    late = {topic for topic, partitions in asked.items() if behind(sights[topic], partitions)}
    return [view._replace(state=State.CHANGED) if view.candidate.spec.topic in late else view for view in views]


def _run(order: Order, resources: Mapping[str, Resource]) -> Run:
    """As whom, and what has been answered for."""

    def agreed(annotation: str) -> tuple[str, ...]:
        names = (name for name, each in resources.items() if permission.answered(order.cluster, each, annotation))
        return tuple(sorted(names))

    return Run(
        owner=order.owner,
        adopt=order.cluster.adopt,
        take_ownership=agreed(permission.TAKE_OWNERSHIP),
        recreate=agreed(permission.RECREATE),
    )


def _wanted(candidate: Candidate, order: Order) -> TopicSpec:
    """What a Topic asks for now: that it be deleted, if it is being deleted and its ``deletionPolicy`` is ``Delete``;
    nothing, as long as it is paused. What is only observed is not deleted either.
    """
    resource, spec, _ = candidate
    paused = "true" in (resource.annotation(PAUSED), order.resource.annotation(PAUSED))
    leaving = resource.deleting and spec.manifest.spec.get("deletionPolicy") == "Delete"
    if not leaving and not paused:
        return spec
    return replace(spec, absent=spec.absent or leaving, observe=paused or spec.observe)


def _objected(candidate: Candidate) -> View:
    return View(candidate, State.REFUSED, refusals=candidate.objections)


def _view(candidate: Candidate, found: TopicState | None, plan: TopicPlan | None, outcome: Outcome | None) -> View:
    refusals = plan.refusals if plan else ()
    if outcome and outcome.result not in (Result.DONE, Result.ALREADY):
        refusals = (*refusals, Finding(outcome.reason or Reason.NOT_SENT, outcome.message or outcome.result.value))
    state = _state(candidate, found, plan, refusals)
    return View(candidate, state, found, plan, refusals, outcome)


def _state(
    candidate: Candidate, found: TopicState | None, plan: TopicPlan | None, refusals: Sequence[Finding]
) -> State:
    spec, reasons = candidate.spec, {refusal.reason for refusal in refusals}
    if spec.observe:
        return State.PAUSED
    if reasons and any(not reason.retryable for reason in reasons - {Reason.DRIFT_DETECTED}):
        return State.REFUSED
    if Reason.DRIFT_DETECTED in reasons:
        return State.DRIFTED
    if reasons or (spec.absent and found is not None):
        return State.WAITING
    if plan and brings(plan):
        return State.CHANGED
    return State.ABSENT if spec.absent else State.IN_STEP
