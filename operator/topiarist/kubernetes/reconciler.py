"""One reconciliation of one cluster: read, plan, filter, apply, and the result of each topic.

``cluster_worker`` builds a ``ReconcileRequest`` and calls ``reconcile_cluster``; ``manager`` writes the results to the
API server. The module plans and writes through the same functions as the command line (``topiarist.reconcile``), with
``approval`` in place of the questions to a user. It calls nothing of the Kubernetes API.

``PlanCache`` skips topics that had nothing to report while no input of their plan has changed, so ten thousand equal
topics cost little more than the read of the cluster. The inputs of a plan are the topic's spec, its state, and the
values that all topics share.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from topiarist.deletion_guard import DeletionGuard, filter_usage
from topiarist.errors import Reason, TopiaristError
from topiarist.filters.chain import PlanFilter, apply_filters, keep_all
from topiarist.filters.limits import NO_LIMITS, LimitFilter, split_external_changes, withhold_external_changes
from topiarist.kubernetes import approval, client
from topiarist.kubernetes.cache import Candidate
from topiarist.kubernetes.moves import (
    ClusterMoves,
    MoveTracker,
    TopicMoves,
    count_drained_replicas,
    describe_other_request,
    find_moves_in_flight,
    find_moves_waiting,
    has_unfinished_moves,
)
from topiarist.kubernetes.resources import Resource
from topiarist.model.moves import MoveProgress
from topiarist.model.outcome import Outcome, ReconcileReport, Result, has_uninitialized, partitions_to_initialize
from topiarist.model.plan import Change, Issue, Plan, RunOptions, TopicPlan
from topiarist.model.spec import ClusterSpec, DriftPolicy, TopicSpec
from topiarist.model.state import ClusterState, OwnershipRecord, TopicState
from topiarist.planning.moves.topic import may_elect_leaders
from topiarist.ports import (
    Cluster,
    MoveOptions,
    PartitionInspector,
    ProgressSource,
    Throttle,
    UsageReader,
    WriteControl,
)
from topiarist.reconcile import apply_plan, plan_cluster, require_cluster_id
from topiarist.text import format_count


class SyncState(str, Enum):
    """The state of a topic on a cluster, worst first: a Topic as a whole has the first one that it has on any cluster.

    ``CHANGED``: new partitions are written, and the last poll did not see them initialized by the controller.
    ``MOVING``: replicas of the topic are moved, or wait for a batch; nothing else is left to do.
    ``WAITING``: the topic waits for an end that needs no user, such as that of a reassignment or of a broker's
    downtime. ``REFUSED``: a change is refused until the user acts.
    """

    REFUSED = "Refused"
    DRIFTED = "Drifted"
    WAITING = "Waiting"
    MOVING = "Moving"
    CHANGED = "Changed"
    PAUSED = "Paused"
    OBSERVED = "Observed"
    SYNCED = "Synced"
    ABSENT = "Absent"


class PlanCache:
    """A cache of the topics of one cluster that had nothing to report when they were last planned.

    ``changed`` are the topics with new partitions that the controller had not initialized then.
    """

    def __init__(self) -> None:
        self._shared_inputs: object = None
        self._cached: dict[str, tuple[TopicSpec, TopicState | None]] = {}
        self._in_reassignment: frozenset[str] = frozenset()
        self.changed: frozenset[str] = frozenset()

    def changed_specs(
        self, state: ClusterState, cluster: ClusterSpec, run: RunOptions, specs: Iterable[TopicSpec]
    ) -> list[TopicSpec]:
        """Return the ``specs`` that have to be planned.

        A change of a value that all topics share empties the cache.
        """
        # Size limits concern changes only, and a topic with changes is never in the cache. Neither is a topic that a
        # reassignment names: the request changes with each moved partition, and concerns only the topics that it names.
        self._in_reassignment = _topics_in_reassignment(state)
        unnamed = replace(state, topics={}, size_limits=(), **_NO_REASSIGNMENT)
        shared = unnamed, cluster, run
        if shared != self._shared_inputs:
            self._shared_inputs, self._cached = shared, {}
        for name in self._in_reassignment:
            self._cached.pop(name, None)
        return [spec for spec in specs if not self._is_cached(spec, state.topics.get(spec.topic))]

    def update(self, spec: TopicSpec, found: TopicState | None, *, quiet: bool) -> None:
        """Add a planned topic to the cache if it is ``quiet``, otherwise remove it."""
        if quiet and spec.topic not in self._in_reassignment:
            self._cached[spec.topic] = spec, found
        else:
            self._cached.pop(spec.topic, None)

    def _is_cached(self, spec: TopicSpec, found: TopicState | None) -> bool:
        if may_elect_leaders(spec):
            return False  # a topic's znode does not show its leaders
        known = self._cached.get(spec.topic)
        # Identity suffices: specs and states keep their identity until they change, and "is" does not compare fields.
        return known is not None and known[0] is spec and known[1] is found


_NO_REASSIGNMENT: Mapping[str, Any] = {
    **{"requested_reassignments": (), "requested_at_ms": None, "batch": None, "batch_at_ms": None},
    **dict.fromkeys(("reassigning_topics", "stale_reassignments"), frozenset()),
}


def _topics_in_reassignment(state: ClusterState) -> frozenset[str]:
    batch = frozenset(move.topic for move in state.batch.moves) if state.batch else frozenset[str]()
    return batch | state.reassigning_topics | state.stale_reassignments


class ReconcileRequest(Struct, frozen=True):
    """The input of one reconciliation.

    ``cluster_resource`` is the Cluster, ``claimed_id`` the id of the Kafka cluster that it has claimed; empty for none.
    ``unreadable_topics`` are the topics of Topics that cannot be read. ``blocked_deletions`` maps a topic's name to
    the reason why the topic must not be deleted. ``policy_filter`` and ``limits`` apply the policies to a plan.
    ``open_usage_reader`` opens a session that reads the usage of topics, None if the Cluster has no address of its
    brokers. ``read_topic`` reads the present Topic before a change that cannot be undone; by default each Topic is
    current. ``plan_cache`` and ``move_tracker`` are kept from one reconciliation of the cluster to the next.
    """

    cluster_resource: Resource
    cluster: ClusterSpec
    candidates: Sequence[Candidate]
    owner: str
    unreadable_topics: frozenset[str] = frozenset()
    claimed_id: str = ""
    blocked_deletions: Mapping[str, str] = field(default_factory=dict)
    policy_filter: PlanFilter = keep_all
    limits: LimitFilter = NO_LIMITS
    open_usage_reader: Callable[[], UsageReader | None] = field(default=lambda: None)
    read_topic: approval.ReadTopic = field(default=lambda resource: resource)
    plan_cache: PlanCache = field(default_factory=PlanCache)
    move_tracker: MoveTracker = field(default_factory=MoveTracker)


class TopicResult(NamedTuple):
    """The result of one topic after a reconciliation.

    ``actual`` is the topic as it was read, before any write (None: absent). ``moves`` are the moves of the topic that
    are left, None if there are none; ``move_problem`` is a stall that holds them.
    """

    candidate: Candidate
    state: SyncState
    actual: TopicState | None = None
    plan: TopicPlan | None = None
    refusals: tuple[Issue, ...] = ()
    outcome: Outcome | None = None
    moves: TopicMoves | None = None
    move_problem: Issue | None = None

    @property
    def is_applied(self) -> bool:
        """Return whether all planned changes are made, except moves that later passes continue."""
        if self.outcome is None:
            return False
        done = self.outcome.result in (Result.DONE, Result.UNCHANGED)
        return done or self.outcome.reason is Reason.MOVES_UNFINISHED

    @property
    def record(self) -> OwnershipRecord | None:
        """The ownership record of the topic after the reconciliation; None if there is none, or it is not valid."""
        if self.plan and self.is_applied:
            return self.plan.record_after
        return self.actual.valid_record if self.actual else None

    @property
    def written_changes(self) -> tuple[Sequence[Change], Sequence[Change]]:
        """Return the changes that were written: those of the spec, and those that reverted external changes."""
        if self.plan is None or not self.is_applied or (self.outcome and self.outcome.result is Result.UNCHANGED):
            return (), ()
        return split_external_changes(self.plan, self.plan.record_after.owner if self.plan.record_after else "")

    @property
    def is_deferred(self) -> bool:
        """Return whether the topic is left to the next reconciliation: skipped, a conflict, or made otherwise.

        A topic that waits for a batch of moves is not: it waits for brokers, which takes longer.
        """
        left = (Result.SKIPPED, Result.CONFLICT, Result.DIFFERS)
        deferred = self.outcome is not None and self.outcome.result in left
        return deferred and self.state is not SyncState.MOVING

    @property
    def is_in_progress(self) -> bool:
        """Return whether the topic needs another reconciliation soon: written, being deleted, or deferred."""
        leaving = self.candidate.spec.absent and self.state is SyncState.WAITING
        return self.state is SyncState.CHANGED or leaving or self.is_deferred


class ReconcileResult(NamedTuple):
    """The result of one reconciliation.

    ``state`` is None if the cluster was not read, ``report`` is None if nothing was applied. ``error`` is the error
    that ended the reconciliation early, if any. ``deletions`` are the deletions of the last day, counted before any
    write; None if the cluster was not read. ``moves`` are None if nothing was applied. ``undeclared`` is the number of
    topics with the operator's record that no Topic declares. ``cluster_id`` is the id of the Kafka cluster that another
    Cluster has; empty for a Cluster that is served. ``notices`` say how a topic of records that was made differs
    from what was wanted.
    """

    topic_results: Sequence[TopicResult]
    state: ClusterState | None = None
    report: ReconcileReport | None = None
    error: TopiaristError | None = None
    deletions: Sequence[approval.Deletion] | None = None
    moves: ClusterMoves | None = None
    undeclared: int = 0
    cluster_id: str = ""
    notices: Sequence[str] = ()


class WritableCluster(Cluster, PartitionInspector, ProgressSource, Protocol):
    """A cluster that can be written, inspected, and polled for the controller's progress."""


def reconcile_cluster(
    cluster: WritableCluster, request: ReconcileRequest, stop: Callable[[], bool], pace: Throttle | None = None
) -> ReconcileResult:
    """Reconcile one cluster.

    A ``TopiaristError`` that ends the reconciliation is returned as ``error``, with the results obtained until then.
    """
    refused = [
        TopicResult(each, SyncState.REFUSED, refusals=each.refusals) for each in request.candidates if each.refusals
    ]
    candidates = {each.spec.topic: each for each in request.candidates if not each.refusals}
    desired = {topic: _desired_spec(each, request.cluster_resource) for topic, each in candidates.items()}
    state, deletions = None, None
    try:
        state = _require_records(cluster.read())
        run = _run_options(request, candidates, state)
        deletions = approval.recent_deletions(state, request.owner, client.utc_now())
        require_cluster_id(request.claimed_id or request.cluster.cluster_id, state.cluster_id)
        specs = request.plan_cache.changed_specs(state, request.cluster, run, desired.values())
        plan = plan_cluster(cluster, state, request.cluster, specs, run)
        guard = DeletionGuard(
            request.cluster, request.open_usage_reader, is_allowed=lambda topic: _allows_in_use(candidates[topic], plan)
        )
        plan = guard.add_usage(plan, state)
        plan = _filter_plan(plan, request, candidates, len(deletions))
        resources = {topic: each.resource for topic, each in candidates.items()}
        plan = approval.write_memory(plan, state, resources, desired, client.utc_now())
        blocker, problem = request.move_tracker.observe(cluster, state, request.cluster.moves)
    except TopiaristError as error:
        return ReconcileResult(refused, state, None, error, deletions)
    if approval.is_paused(request.cluster_resource):
        plan = replace(plan, batch=None)  # a pause also keeps the throttles of the last batch
    progress: list[MoveProgress] = []
    # One batch a pass: statuses and other changes do not wait for copies.
    options = MoveOptions(request.cluster.moves, wait=False, on_progress=progress.append)

    def check(topic: TopicPlan) -> Outcome | None:
        resource = candidates[topic.topic].resource
        return approval.check_current_topic(topic, resource, request.read_topic) or guard.check(topic)

    report = apply_plan(cluster, plan, stop=stop, control=WriteControl(pace, check), move_options=options)
    plans = {plan.topic: plan for plan in report.plan.topics}
    outcomes = {outcome.topic: outcome for outcome in report.outcomes}
    moves = _find_cluster_moves(request, state, report, progress, outcomes)
    moves = replace(moves, problem=problem, waiting_for=blocker or moves.waiting_for)
    request.move_tracker.remember(moves.in_flight)
    moves_by_topic = moves.by_topic()
    results = [
        _topic_result(
            each,
            desired[topic],
            state.topics.get(topic),
            plans.get(topic),
            outcomes.get(topic),
            (moves_by_topic.get(topic), problem),
        )
        for topic, each in candidates.items()
    ]
    planned = {spec.topic for spec in specs}
    results, poll_error = _mark_uninitialized(cluster, request, results, planned)
    changed = frozenset(result.candidate.spec.topic for result in results if result.state is SyncState.CHANGED)
    request.plan_cache.changed = changed | request.plan_cache.changed if poll_error else changed
    ended_by = report.error or poll_error
    _remember_quiet_topics(request, results, planned, has_error=ended_by is not None)
    undeclared = _count_undeclared(request, state)
    return ReconcileResult([*refused, *results], state, report, ended_by, deletions, moves, undeclared)


def _require_records(state: ClusterState) -> ClusterState:
    """Return the state; raise ``TopiaristError`` if the records cannot be read.

    Without them a topic that a Topic lets go would count as one that never was the operator's.
    """
    problem = state.records_error
    if problem.reason:
        raise TopiaristError(problem.reason, problem.message)
    return state


def _count_undeclared(request: ReconcileRequest, state: ClusterState) -> int:
    declared = {each.spec.topic for each in request.candidates}.union(request.unreadable_topics)
    records = (topic.valid_record for name, topic in state.topics.items() if name not in declared)
    return sum(1 for record in records if record and record.owner == request.owner and not record.deleted)


def _remember_quiet_topics(
    request: ReconcileRequest, results: Sequence[TopicResult], planned: Collection[str], *, has_error: bool
) -> None:
    """Note which planned topics need nothing, so that the next pass plans them only if something of them changes."""
    for result in results:
        spec = result.candidate.spec
        if spec.topic in planned:
            quiet = result.state in (SyncState.SYNCED, SyncState.ABSENT) and result.plan is None and not has_error
            request.plan_cache.update(spec, result.actual, quiet=quiet)


def _find_cluster_moves(
    request: ReconcileRequest,
    state: ClusterState,
    report: ReconcileReport,
    progress: Iterable[MoveProgress],
    outcomes: Mapping[str, Outcome],
) -> ClusterMoves:
    """Return the moves that are left after the plan of ``report`` was applied to ``state``."""
    batch, sent = state.batch, next((each for each in progress if each.copying), None)
    in_flight = sent.copying if sent else find_moves_in_flight(state)
    has_all_outcomes = sent is not None or report.error is None
    waiting = find_moves_waiting(report.plan.topics, outcomes, in_flight) if has_all_outcomes else ()
    found = ClusterMoves(
        waiting,
        in_flight,
        moved=request.move_tracker.count_moved(state),
        draining=count_drained_replicas(state.topics.values(), request.cluster.drain_brokers),
    )
    if sent:
        return replace(found, batch=sent.batch, batches=sent.batches, is_sent=True)
    if batch and in_flight:
        return replace(found, batch=batch.batch, batches=batch.batches, sent_at_ms=state.batch_at_ms)
    # ``apply_plan`` puts the throttles of the operator's own batch back, unless nothing may be written.
    is_ended = (
        report.error is None
        and not state.write_block.reason
        and report.plan.batch is not None
        and report.plan.batch.owner == request.owner
    )
    return replace(
        found,
        waiting_for=describe_other_request(state) if waiting else "",
        throttle_left=bool(batch and batch.throttles and state.requested_at_ms is None and not is_ended),
    )


def _desired_spec(candidate: Candidate, cluster_resource: Resource) -> TopicSpec:
    """Return the spec that a Topic asks for now.

    The spec is ``absent`` if the resource is being deleted and its ``deletionPolicy`` is ``Delete``. It is
    ``observe_only`` while the Topic or its Cluster is paused. A topic that is only observed is not deleted either.
    """
    resource, spec, _ = candidate
    paused = approval.is_paused(resource) or approval.is_paused(cluster_resource)
    leaving = resource.deleting and spec.manifest.spec.get("deletionPolicy") == "Delete"
    if not leaving and not paused:
        return spec
    return replace(spec, absent=spec.absent or leaving, observe_only=paused or spec.observe_only)


def _run_options(request: ReconcileRequest, candidates: Mapping[str, Candidate], state: ClusterState) -> RunOptions:
    """Return the run options: the owner, and the topics with their owner's consent."""

    def agreed(annotation: str) -> tuple[str, ...]:
        return tuple(
            sorted(
                topic
                for topic, each in candidates.items()
                if each.resource.annotation(annotation)
                and approval.is_approved(
                    request.cluster,
                    each.resource,
                    annotation,
                    approval.consent_digest(annotation, each.resource, request.cluster.name, state.record_of(topic)),
                )
            )
        )

    return RunOptions(
        owner=request.owner,
        adopt=request.cluster.adopt,
        take_ownership=agreed(approval.TAKE_OWNERSHIP),
        recreate=agreed(approval.RECREATE),
    )


_CONSENTS = {
    Reason.NOT_OWNED: (approval.TAKE_OWNERSHIP, "leave it to its owner"),
    Reason.DELETED_EXTERNALLY: (approval.RECREATE, "delete the Topic to give it up"),
}
"""The annotation that allows a change that is refused for a reason, and what to do without it."""


def _with_consent_hint(candidate: Candidate, plan: TopicPlan, refusal: Issue) -> Issue:
    if refusal.reason not in _CONSENTS:
        return refusal
    annotation, alternative = _CONSENTS[refusal.reason]
    cluster, resource = candidate.spec.cluster, candidate.resource
    digest = approval.consent_digest(annotation, resource, cluster.name, plan.record_before)
    return refusal._replace(hint=f"{alternative}; {approval.approval_hint(cluster, resource, annotation, digest)}")


def _allows_in_use(candidate: Candidate, plan: Plan) -> bool:
    """Return whether the owner allows the deletion of a topic in use: for as many groups as there are now."""
    usage = plan.usage.get(candidate.spec.topic)
    groups = usage.sample.committing_groups if usage else 0
    return candidate.resource.annotation(approval.ALLOW_IN_USE) == format_count(groups, "group")


def _filter_plan(plan: Plan, request: ReconcileRequest, candidates: Mapping[str, Candidate], deletions: int) -> Plan:
    """Return the plan with only the permitted changes.

    ``deletions`` is the number of deletions within the last day, which reduces the budget of deletions.
    """
    cluster = request.cluster
    resources = {topic: each.resource for topic, each in candidates.items()}

    def withhold_observed(plan: Plan) -> Plan:
        left = withhold_external_changes(plan) if cluster.drift_policy is DriftPolicy.REPORT else plan
        return filter_usage(left, cluster.evidence, lambda topic, _: _allows_in_use(candidates[topic], plan))

    plan = approval.withhold_early_steps(plan, cluster.retention_step, client.utc_now())
    budgets = replace(cluster.budgets, deletions=max(0, cluster.budgets.deletions - deletions))
    return apply_filters(
        plan,
        budgets,
        observed=withhold_observed,
        policies=request.policy_filter,
        approve=lambda left: request.limits.enforce(
            approval.filter_unapproved(left, cluster, resources, request.blocked_deletions)
        ),
        partial=True,
    )


def _topic_result(
    candidate: Candidate,
    desired: TopicSpec,
    actual: TopicState | None,
    plan: TopicPlan | None,
    outcome: Outcome | None,
    move_state: tuple[TopicMoves | None, Issue | None],
) -> TopicResult:
    moves, problem = move_state
    refusals = tuple(_with_consent_hint(candidate, plan, refusal) for refusal in plan.refusals) if plan else ()
    is_moving = moves is not None and plan is not None and has_unfinished_moves(plan, outcome)
    if outcome and outcome.result not in (Result.DONE, Result.UNCHANGED) and not is_moving:
        refusals = (*refusals, Issue(outcome.reason or Reason.NOT_SENT, outcome.message or outcome.result.value))
    elif outcome and (step := approval.find_next_step(plan)):
        refusals = (*refusals, step)
    observed = candidate.spec.observe_only
    state = SyncState.OBSERVED if observed else _sync_state(desired, actual, plan, refusals, moves)
    return TopicResult(
        candidate if desired is candidate.spec else candidate._replace(spec=desired),
        state,
        actual,
        plan,
        refusals,
        outcome,
        moves,
        problem if moves else None,
    )


_REASONS_OF_MOVES = frozenset({Reason.AFTER_MOVES, Reason.REASSIGNMENT_IN_PROGRESS})
"""Reasons for which a change waits until the moves of its own topic are done."""


def _sync_state(
    desired: TopicSpec,
    actual: TopicState | None,
    plan: TopicPlan | None,
    refusals: Sequence[Issue],
    moves: TopicMoves | None,
) -> SyncState:
    if desired.observe_only:
        return SyncState.PAUSED
    if refusals:  # skip the set operations for most topics: this runs for every topic in every reconciliation
        reasons = {refusal.reason for refusal in refusals}
        if any(not reason.retryable for reason in reasons - {Reason.DRIFT_DETECTED}):
            return SyncState.REFUSED
        if Reason.DRIFT_DETECTED in reasons:
            return SyncState.DRIFTED
        if not moves or desired.absent or not (moves.in_flight or reasons <= _REASONS_OF_MOVES):
            return SyncState.WAITING
    if desired.absent and actual is not None:
        return SyncState.WAITING
    if moves:
        return SyncState.MOVING
    if plan and partitions_to_initialize(plan):
        return SyncState.CHANGED
    return SyncState.ABSENT if desired.absent else SyncState.SYNCED


def _mark_uninitialized(
    cluster: ProgressSource, request: ReconcileRequest, results: list[TopicResult], planned: Collection[str]
) -> tuple[list[TopicResult], TopiaristError | None]:
    """Return the results with ``CHANGED`` for topics with partitions not yet initialized by the controller.

    Only ``planned`` topics are polled that the last reconciliation or the status has as ``Changed``: a status may be
    refused, and after a restart there is no last reconciliation. The second value is the error that prevented the poll,
    or None; after an error the results are unchanged.
    """
    asked = {
        view.candidate.spec.topic: range(len(view.actual.replicas))
        for view in results
        if view.state is SyncState.SYNCED and view.actual and view.candidate.spec.topic in planned
        if view.candidate.spec.topic in request.plan_cache.changed
        or view.candidate.resource.status_on(request.cluster.name).get("state") == SyncState.CHANGED.value
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
