"""The deletions of the last day, which share one budget: what the Cluster's status has kept, and what ZooKeeper shows.

Every deletion leaves a tombstone in its own transaction: one behind which the operator is killed counts all the same,
also where the Cluster was declared anew. The status keeps those whose tombstone has gone, since the topic was made
again.

One pass over one cluster: what its Topics ask for, the plan, what of it may be done, and what became of each topic.

It plans and writes as the command line does (``reconcile``), with the operator's answers to what a person would be
asked. Nothing of Kubernetes is called here: ``rounds`` hands the order in, ``controller`` writes what comes out.

Topics of which the last pass had nothing to say: they are not planned again while nothing that a plan is made from
has changed.

Ten thousand topics in step cost a pass their reading, and next to nothing else. Nothing is guessed: what a topic's plan
is made from are its spec, its state, and what is the same for all topics; ``passes`` plans whatever differs in any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import NamedTuple, Protocol

from topiarist.errors import Reason, TopiaristError
from topiarist.filters.chain import apply_filters
from topiarist.filters.external_changes import withhold_external_changes
from topiarist.filters.permissions import PlanFilter, keep_all
from topiarist.kubernetes import approval, consent
from topiarist.kubernetes.annotations import is_paused
from topiarist.kubernetes.api import clock
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.candidates import Candidate
from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.model.plan import Issue, Plan, TopicPlan
from topiarist.model.progress import has_uninitialized, partitions_to_initialize
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState, ListSizes, TopicState
from topiarist.model.tenancy import DriftPolicy
from topiarist.planning.planner import make_plan
from topiarist.ports import Cluster, ProgressSource, Throttle
from topiarist.reconcile import ApplyHooks, apply_plan, require_all_topics_planned, require_cluster_id


class Deletion(NamedTuple):
    """When a topic was deleted, as an RFC 3339 time, and its name; in this order they sort as they happened."""

    time: str
    topic: str

    @property
    def status_entry(self) -> Mapping[str, str]:
        """As the status says it."""
        return {"topic": self.topic, "time": self.time}


def recent_deletions(
    cluster_resource: Resource, state: ClusterState | None, owner: str, now: datetime
) -> Sequence[Deletion]:
    """The deletions by ``owner`` less than a day before ``now``, the oldest first: of the status of
    ``cluster_resource``, its Cluster, and of what was read, if anything was.
    """
    known = {Deletion(each["time"], each["topic"]) for each in cluster_resource.status.get("deletions", ())}
    since = (now - clock.DAY).timestamp() * 1000
    for topic, (by, written) in (state.deletion_records if state else {}).items():
        if by == owner and written > since:
            known.add(Deletion(clock.format_time(clock.from_milliseconds(written)), topic))
    return sorted(deletion for deletion in known if clock.is_within_a_day(deletion.time, now))


class SyncState(str, Enum):
    """How a topic stands on a cluster, in a word.

    ``CHANGED``: new partitions are written, and not yet taken over by the controller as far as was seen. ``WAITING``:
    for what passes by itself, as a reassignment or a broker that is away. ``REFUSED``: until somebody does something.
    """

    ABSENT = "Absent"
    CHANGED = "Changed"
    DRIFTED = "Drifted"
    SYNCED = "Synced"
    OBSERVED = "Observed"
    PAUSED = "Paused"
    REFUSED = "Refused"
    WAITING = "Waiting"


class PlanCache:
    """The memory of one cluster's passes."""

    def __init__(self) -> None:
        self._shared_inputs: object = None
        self._cached: dict[str, tuple[TopicSpec, TopicState | None]] = {}

    def changed_specs(
        self, state: ClusterState, cluster: ClusterSpec, run: RunOptions, specs: Iterable[TopicSpec]
    ) -> list[TopicSpec]:
        """Those of ``specs`` that have to be planned."""
        # Room counts for changes only, and a topic with changes is never quiet.
        shared = replace(state, topics={}, list_sizes=ListSizes()), cluster, run
        if shared != self._shared_inputs:
            self._shared_inputs, self._cached = shared, {}
        return [spec for spec in specs if not self._is_cached(spec, state.topics.get(spec.topic))]

    def update(self, spec: TopicSpec, found: TopicState | None, *, quiet: bool) -> None:
        """Whether there was anything to say of a topic that was planned."""
        if quiet:
            self._cached[spec.topic] = spec, found
        else:
            self._cached.pop(spec.topic, None)

    def _is_cached(self, spec: TopicSpec, found: TopicState | None) -> bool:
        known = self._cached.get(spec.topic)
        return known is not None and known[0] is spec and known[1] is found


@dataclass(frozen=True, slots=True)
class ReconcileRequest:
    """What a pass is to do.

    ``resource`` is the Cluster, ``guard`` what the policies leave of a plan, ``deletions`` gives those of the last day
    by what was read. ``held`` says of topics, by name, why they must not be deleted although their resources are.
    ``quiet`` is the memory of the cluster's passes.
    """

    cluster_resource: Resource
    cluster: ClusterSpec
    candidates: Sequence[Candidate]
    owner: str
    blocked_deletions: Mapping[str, str] = field(default_factory=dict)
    policy_filter: PlanFilter = keep_all
    list_deletions: Callable[[ClusterState], Sequence[Deletion]] = field(default=lambda state: ())
    plan_cache: PlanCache = field(default_factory=PlanCache)


class TopicResult(NamedTuple):
    """One topic after a pass. ``found`` is the topic as it was read, before anything was done (None: absent).

    ``consent`` has the consents of the Topic's owner that count no longer, since there is nothing left for them; empty
    if there are none.
    """

    candidate: Candidate
    state: SyncState
    actual: TopicState | None = None
    plan: TopicPlan | None = None
    refusals: tuple[Issue, ...] = ()
    outcome: Outcome | None = None
    used_consents: str = ""

    @property
    def is_deferred(self) -> bool:
        """Whether the pass has left it for the next one: it was not sent, or changed between its plan and its write."""
        return self.outcome is not None and self.outcome.result in (Result.SKIPPED, Result.CONFLICT)

    @property
    def is_in_progress(self) -> bool:
        """Whether there is more to see soon: it was written, is being deleted, or is for the next pass."""
        leaving = self.candidate.spec.absent and self.state is SyncState.WAITING
        return self.state is SyncState.CHANGED or leaving or self.is_deferred


class ReconcileResult(NamedTuple):
    """What a pass saw and did. ``error`` ended it before its time, if there is one. ``deletions`` are those of the last
    day, as it began; None if nothing was read.
    """

    topic_results: Sequence[TopicResult]
    state: ClusterState | None = None
    report: ReconcileReport | None = None
    error: TopiaristError | None = None
    deletions: Sequence[Deletion] | None = None


class WritableCluster(Cluster, ProgressSource, Protocol):
    """A cluster that can be written to and watched."""


def reconcile_cluster(
    cluster: WritableCluster, request: ReconcileRequest, stop: Callable[[], bool], pace: Throttle | None = None
) -> ReconcileResult:
    """Carry out one pass; an error that ends it is part of what it saw, with what had been done until then."""
    objected = [
        TopicResult(each, SyncState.REFUSED, refusals=each.refusals) for each in request.candidates if each.refusals
    ]
    claims = {each.spec.topic: each for each in request.candidates if not each.refusals}
    wanted = {topic: _desired_spec(each, request.cluster_resource) for topic, each in claims.items()}
    state, deletions = None, None
    try:
        state = cluster.read()
        run = _run_options(request, claims, state)
        deletions = request.list_deletions(state)
        require_cluster_id(request.cluster.cluster_id, state.cluster_id)
        specs = request.plan_cache.changed_specs(state, request.cluster, run, wanted.values())
        plan = require_all_topics_planned(make_plan(state, request.cluster, specs, run), specs)
        plan = _filter_plan(plan, request, claims, len(deletions))
    except TopiaristError as error:
        return ReconcileResult(objected, state, None, error, deletions)
    report = apply_plan(cluster, ApplyHooks(stop=stop, throttle=pace), plan)
    plans = {plan.topic: plan for plan in report.plan.topics}
    outcomes = {outcome.topic: outcome for outcome in report.outcomes}
    views = [
        _topic_result(each, wanted[topic], state.topics.get(topic), plans.get(topic), outcomes.get(topic))
        for topic, each in claims.items()
    ]
    planned = {spec.topic for spec in specs}
    views, unseen = _mark_uninitialized(cluster, request.cluster.name, views, planned)
    ended = report.error or unseen
    for view in views:
        spec = view.candidate.spec
        if spec.topic in planned:
            calm = view.state in (SyncState.SYNCED, SyncState.ABSENT) and view.plan is None and ended is None
            request.plan_cache.update(spec, view.actual, quiet=calm)
    return ReconcileResult([*objected, *views], state, report, ended, deletions)


def _desired_spec(candidate: Candidate, cluster_resource: Resource) -> TopicSpec:
    """What a Topic asks for now: that it be deleted, if it is being deleted and its ``deletionPolicy`` is ``Delete``;
    nothing, as long as it, or its Cluster, is paused. What is only observed is not deleted either.
    """
    resource, spec, _ = candidate
    paused = is_paused(resource) or is_paused(cluster_resource)
    leaving = resource.deleting and spec.manifest.spec.get("deletionPolicy") == "Delete"
    if not leaving and not paused:
        return spec
    return replace(spec, absent=spec.absent or leaving, observe_only=paused or spec.observe_only)


def _run_options(request: ReconcileRequest, claims: Mapping[str, Candidate], state: ClusterState) -> RunOptions:
    """As whom, and to what the owners of Topics have consented."""

    def agreed(annotation: str) -> tuple[str, ...]:
        return tuple(
            sorted(
                topic
                for topic, each in claims.items()
                if each.resource.annotation(annotation)
                and approval.is_approved(
                    request.cluster,
                    each.resource,
                    annotation,
                    _CONSENT_DIGESTS[annotation](each.resource, request.cluster.name, state.record_of(topic)),
                )
            )
        )

    return RunOptions(
        owner=request.owner,
        adopt=request.cluster.adopt,
        take_ownership=agreed(consent.TAKE_OWNERSHIP),
        recreate=agreed(consent.RECREATE),
    )


_CONSENT_DIGESTS = {consent.TAKE_OWNERSHIP: consent.ownership_digest, consent.RECREATE: consent.recreation_digest}

_CONSENT_ANNOTATIONS = {Reason.NOT_OWNED: consent.TAKE_OWNERSHIP, Reason.DELETED_EXTERNALLY: consent.RECREATE}
"""The annotation that allows what is refused for a reason."""

_ALTERNATIVE_HINTS = {
    Reason.NOT_OWNED: "leave it to its owner",
    Reason.DELETED_EXTERNALLY: "delete the Topic to give it up",
}


def _with_consent_hint(candidate: Candidate, plan: TopicPlan, refusal: Issue) -> Issue:
    """Return a refusal with the annotation that would consent to what it refuses, if there is one."""
    annotation = _CONSENT_ANNOTATIONS.get(refusal.reason)
    if annotation is None:
        return refusal
    cluster, resource = candidate.spec.cluster, candidate.resource
    digest = _CONSENT_DIGESTS[annotation](resource, cluster.name, plan.record_before)
    instead = f"{_ALTERNATIVE_HINTS[refusal.reason]}; {approval.approval_hint(cluster, resource, annotation, digest)}"
    return refusal._replace(hint=instead)


def _filter_plan(plan: Plan, request: ReconcileRequest, claims: Mapping[str, Candidate], deletions: int) -> Plan:
    """What may be done of a plan, with so many ``deletions`` within the last day."""
    cluster = request.cluster
    resources = {topic: each.resource for topic, each in claims.items()}
    budgets = replace(cluster.budgets, deletions=max(0, cluster.budgets.deletions - deletions))
    return apply_filters(
        plan,
        budgets,
        external=withhold_external_changes if cluster.drift_policy is DriftPolicy.REPORT else keep_all,
        policies=request.policy_filter,
        approve=lambda left: approval.filter_unapproved(left, cluster, resources, request.blocked_deletions),
        partial=True,
    )


def _topic_result(
    candidate: Candidate, desired: TopicSpec, actual: TopicState | None, plan: TopicPlan | None, outcome: Outcome | None
) -> TopicResult:
    """A topic after the pass; its candidate then has what was wanted in place of what is declared."""
    refusals = tuple(_with_consent_hint(candidate, plan, refusal) for refusal in plan.refusals) if plan else ()
    if outcome and outcome.result not in (Result.DONE, Result.UNCHANGED):
        refusals = (*refusals, Issue(outcome.reason or Reason.NOT_SENT, outcome.message or outcome.result.value))
    state = SyncState.OBSERVED if candidate.spec.observe_only else _sync_state(desired, actual, plan, refusals)
    judged = candidate if desired is candidate.spec else candidate._replace(spec=desired)
    done = outcome is not None and outcome.result in (Result.DONE, Result.UNCHANGED)
    used = state in (SyncState.SYNCED, SyncState.ABSENT) or (
        done and plan is not None and approval.has_consented_changes(plan)
    )
    return TopicResult(
        judged,
        state,
        actual,
        plan,
        refusals,
        outcome,
        consent.current_consents_digest(candidate.resource) if used else "",
    )


def _sync_state(
    desired: TopicSpec, actual: TopicState | None, plan: TopicPlan | None, refusals: Sequence[Issue]
) -> SyncState:
    if desired.observe_only:
        return SyncState.PAUSED
    if refusals:  # most topics have none, and this is asked of all in every pass
        reasons = {refusal.reason for refusal in refusals}
        if any(not reason.retryable for reason in reasons - {Reason.DRIFT_DETECTED}):
            return SyncState.REFUSED
        return SyncState.DRIFTED if Reason.DRIFT_DETECTED in reasons else SyncState.WAITING
    if desired.absent and actual is not None:
        return SyncState.WAITING
    if plan and partitions_to_initialize(plan):
        return SyncState.CHANGED
    return SyncState.ABSENT if desired.absent else SyncState.SYNCED


def _mark_uninitialized(
    cluster: ProgressSource, cluster_name: str, results: list[TopicResult], planned: Collection[str]
) -> tuple[list[TopicResult], TopiaristError | None]:
    """The views, where what was written before and has not been taken over yet is no more than changed; and why that
    could not be seen, if it could not. Only what was ``planned`` may have been written.
    """
    asked = {
        view.candidate.spec.topic: range(len(view.actual.replicas))
        for view in results
        if view.state is SyncState.SYNCED and view.actual and view.candidate.spec.topic in planned
        if view.candidate.resource.status_on(cluster_name).get("state") == SyncState.CHANGED.value
    }
    if not asked:
        return results, None
    try:
        sights = cluster.poll(asked)
    except TopiaristError as error:
        return results, error
    late = {topic for topic, partitions in asked.items() if has_uninitialized(sights[topic], partitions)}
    return [
        view._replace(state=SyncState.CHANGED) if view.candidate.spec.topic in late else view for view in results
    ], None
