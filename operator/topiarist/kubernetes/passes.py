"""One pass over one cluster: what its Topics ask for, the plan, what of it may be done, and what became of each topic.

It plans and writes as the command line does (``reconcile``), with the operator's answers to what a person would be
asked. Nothing of Kubernetes is called here: ``rounds`` hands the order in, ``controller`` writes what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple, Protocol

from topiarist.core.allowed import DriftPolicy
from topiarist.core.change import Finding, Plan, TopicPlan
from topiarist.core.drift import report_only
from topiarist.core.plan import Run, make_plan
from topiarist.core.spec import ClusterSpec, TopicSpec
from topiarist.core.spending import within_budgets
from topiarist.core.state import ClusterState, TopicState
from topiarist.core.waiting import behind, brings
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import consent, permission
from topiarist.kubernetes.annotation import is_paused
from topiarist.kubernetes.candidates import Candidate
from topiarist.kubernetes.deletions import Deletion
from topiarist.kubernetes.quiet import Quiet
from topiarist.kubernetes.resources import Resource
from topiarist.reconcile import (
    Cluster,
    Hooks,
    Outcome,
    Pace,
    Report,
    Result,
    Watched,
    carry_out,
    complete,
    require_meant,
)


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
    """One topic after a pass. ``found`` is the topic as it was read, before anything was done (None: absent).

    ``consent`` has the consents of the Topic's owner that count no longer, since there is nothing left for them; empty
    if there are none.
    """

    candidate: Candidate
    state: State
    found: TopicState | None = None
    plan: TopicPlan | None = None
    refusals: tuple[Finding, ...] = ()
    outcome: Outcome | None = None
    consent: str = ""

    @property
    def left(self) -> bool:
        """Whether the pass has left it for the next one: it was not sent, or changed between its plan and its write."""
        return self.outcome is not None and self.outcome.result in (Result.NOT_SENT, Result.MOVED)

    @property
    def under_way(self) -> bool:
        """Whether there is more to see soon: it was written, is being deleted, or is for the next pass."""
        leaving = self.candidate.spec.absent and self.state is State.WAITING
        return self.state is State.CHANGED or leaving or self.left


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


def look(cluster: Port, order: Order, stop: Callable[[], bool], pace: Pace | None = None) -> Seen:
    """Carry out one pass; an error that ends it is part of what it saw, with what had been done until then."""
    objected = [View(each, State.REFUSED, refusals=each.objections) for each in order.candidates if each.objections]
    claims = {each.spec.topic: each for each in order.candidates if not each.objections}
    wanted = {topic: _wanted(each, order.resource) for topic, each in claims.items()}
    state, deletions = None, None
    try:
        state = cluster.read()
        run = _run(order, claims, state)
        deletions = order.deletions(state)
        require_meant(order.cluster.cluster_id, state.cluster_id)
        specs = order.quiet.others(state, order.cluster, run, wanted.values())
        plan = complete(make_plan(state, order.cluster, specs, run), specs)
        plan = _allowed(plan, order, claims, len(deletions))
    except TopiaristError as error:
        return Seen(objected, state, None, error, deletions)
    report = carry_out(cluster, Hooks(stop=stop, pace=pace), plan)
    plans = {plan.topic: plan for plan in report.plan.topics}
    outcomes = {outcome.topic: outcome for outcome in report.outcomes}
    views = [
        _view(each, wanted[topic], state.topics.get(topic), plans.get(topic), outcomes.get(topic))
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
    return Seen([*objected, *views], state, report, ended, deletions)


def _wanted(candidate: Candidate, home: Resource) -> TopicSpec:
    """What a Topic asks for now: that it be deleted, if it is being deleted and its ``deletionPolicy`` is ``Delete``;
    nothing, as long as it, or its Cluster, is paused. What is only observed is not deleted either.
    """
    resource, spec, _ = candidate
    paused = is_paused(resource) or is_paused(home)
    leaving = resource.deleting and spec.manifest.spec.get("deletionPolicy") == "Delete"
    if not leaving and not paused:
        return spec
    return replace(spec, absent=spec.absent or leaving, observe=paused or spec.observe)


def _run(order: Order, claims: Mapping[str, Candidate], state: ClusterState) -> Run:
    """As whom, and to what the owners of Topics have consented."""

    def agreed(annotation: str) -> tuple[str, ...]:
        return tuple(
            sorted(
                topic
                for topic, each in claims.items()
                if each.resource.annotation(annotation)
                and permission.consents(
                    order.cluster,
                    each.resource,
                    annotation,
                    _DIGESTS[annotation](each.resource, order.cluster.name, state.record_of(topic)),
                )
            )
        )

    return Run(
        owner=order.owner,
        adopt=order.cluster.adopt,
        take_ownership=agreed(consent.TAKE_OWNERSHIP),
        recreate=agreed(consent.RECREATE),
    )


_DIGESTS = {consent.TAKE_OWNERSHIP: consent.of_ownership, consent.RECREATE: consent.of_recreation}

_ANNOTATIONS = {Reason.NOT_OWNED: consent.TAKE_OWNERSHIP, Reason.DELETED_OUTSIDE: consent.RECREATE}
"""The annotation that allows what is refused for a reason."""

_OTHERWISE = {Reason.NOT_OWNED: "leave it to its owner", Reason.DELETED_OUTSIDE: "delete the Topic to give it up"}


def _with_consent(candidate: Candidate, plan: TopicPlan, refusal: Finding) -> Finding:
    """Return a refusal with the annotation that would consent to what it refuses, if there is one."""
    annotation = _ANNOTATIONS.get(refusal.reason)
    if annotation is None:
        return refusal
    cluster, resource = candidate.spec.cluster, candidate.resource
    digest = _DIGESTS[annotation](resource, cluster.name, plan.record_before)
    instead = f"{_OTHERWISE[refusal.reason]}; {permission.way(cluster, resource, annotation, digest)}"
    return refusal._replace(instead=instead)


def _allowed(plan: Plan, order: Order, claims: Mapping[str, Candidate], deletions: int) -> Plan:
    """What may be done of a plan, with so many ``deletions`` within the last day."""
    cluster = order.cluster
    resources = {topic: each.resource for topic, each in claims.items()}
    budgets = replace(cluster.budgets, deletions=max(0, cluster.budgets.deletions - deletions))
    if cluster.drift_policy is DriftPolicy.REPORT:
        plan = report_only(plan)
    plan = permission.permitted(order.guard(plan), cluster, resources, order.held)
    return within_budgets(plan, budgets, partial=True)


def _view(
    candidate: Candidate, wanted: TopicSpec, found: TopicState | None, plan: TopicPlan | None, outcome: Outcome | None
) -> View:
    """A topic after the pass; its candidate then has what was wanted in place of what is declared."""
    refusals = tuple(_with_consent(candidate, plan, refusal) for refusal in plan.refusals) if plan else ()
    if outcome and outcome.result not in (Result.DONE, Result.ALREADY):
        refusals = (*refusals, Finding(outcome.reason or Reason.NOT_SENT, outcome.message or outcome.result.value))
    state = State.OBSERVED if candidate.spec.observe else _state(wanted, found, plan, refusals)
    judged = candidate if wanted is candidate.spec else candidate._replace(spec=wanted)
    done = outcome is not None and outcome.result in (Result.DONE, Result.ALREADY)
    used = state in (State.IN_STEP, State.ABSENT) or (done and plan is not None and permission.consented(plan))
    return View(judged, state, found, plan, refusals, outcome, consent.used(candidate.resource) if used else "")


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
