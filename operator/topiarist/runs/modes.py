"""The modes of ``apply`` (manifests, saved plan, reviewed plan), how plans are applied, and the wait for controllers.

A mode defines the clusters of the run, the changes that the run allows on each, and how a plan is applied.
``cli.commands.apply`` and ``api`` make one; the command also shows the plans, asks for confirmation and reports.
``ApplyManifests`` is the base of ``ApplyReviewed``, which plans from the merged manifests and applies only changes that
the reviewed plan has too. ``ApplySavedPlan`` (``--plan``) applies a plan file without reading Topic manifests. A
reviewed plan (``--reviewed``) from a branch is not trusted: it can only restrict a run, never add to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from topiarist import reconcile
from topiarist.adapters.saved_plans import decode
from topiarist.errors import Reason, TopiaristError
from topiarist.filters.chain import filter_unapproved, withhold_split_groups
from topiarist.filters.review import already_satisfied, filter_unreviewed, recheck_saved_plan
from topiarist.model.access import via_of
from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.model.plan import Permissions, Plan, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState
from topiarist.planning.planner import find_implied_topics
from topiarist.planning.preconditions import RevalidatedPlan, revalidate
from topiarist.ports import (
    NO_CONTROL,
    NO_MOVE_OPTIONS,
    Cluster,
    MoveOptions,
    PartitionInspector,
    ProgressSource,
    WriteControl,
)
from topiarist.reconcile import ApplyPlan, apply_plan
from topiarist.runs.inputs import RunInputs, load_clusters, report_unmatched_patterns
from topiarist.runs.sessions import ClusterSessions
from topiarist.runs.settings import SILENT, RunListener, RunSettings, WrongSettings
from topiarist.text import format_count, list_first, quote
from topiarist.throttle import ControllerWait, ProgressDeadline

_MAX_SHOWN_TOPICS = 12


class ApplyManifests:
    """The mode that plans from manifests and applies the plans exactly as shown.

    If ``non_interactive``, risky changes need the run's flags (``--allow-risk``) instead of a confirmation. ``name``
    and ``fingerprint`` (of the plan file) are for the report. ``remarks`` hold facts that the plans do not show; they
    are complete once ``make_plans`` has returned.
    """

    name = "manifests"
    fingerprint: str | None = None
    needs_confirmation = True
    apply_plan: reconcile.ApplyPlan = staticmethod(reconcile.apply_plan)

    def __init__(self, settings: RunSettings, inputs: RunInputs, *, non_interactive: bool) -> None:
        self.settings = settings
        self.non_interactive = non_interactive
        self.inputs = inputs
        self.desired = inputs.desired
        self.clusters = inputs.desired.targeted_clusters
        self.remarks: list[str] = []

    def make_plans(self, sessions: ClusterSessions) -> list[Plan]:
        """Return a plan for each readable cluster, without changes that the run does not allow."""
        return [*map(self.filter_plan, sessions.read_and_plan(self.desired, self.settings.run_options))]

    def filter_plan(self, plan: Plan) -> Plan:
        """Return the plan without changes that the run does not allow: the same filters in every mode."""
        return self.inputs.filter_plan(plan, self.settings, self.approve)

    def approve(self, plan: Plan) -> Plan:
        """Return the plan; if non-interactive, without risky changes that no flag allows."""
        return filter_unapproved(plan, self.settings.allow_risk) if self.non_interactive else plan

    def refresh_after_prompt(self, sessions: ClusterSessions, plans: list[Plan]) -> list[Plan]:
        """Return the same plans.

        A topic that changed after its plan was shown becomes a conflict when it is written.
        """
        return plans

    def _add_remark(self, label: str, cluster: str, topics: Sequence[str]) -> None:
        """Add a remark on topics of a cluster, if there are any; list at most 12, and count the rest."""
        if topics:
            more = f", ... {len(topics) - _MAX_SHOWN_TOPICS:,} more" if len(topics) > _MAX_SHOWN_TOPICS else ""
            name = f"{cluster}: " if cluster else ""
            self.remarks.append(f"{name}{label}: {', '.join(topics[:_MAX_SHOWN_TOPICS])}{more}")


class ApplyReviewed(ApplyManifests):
    """The mode that applies only changes that a reviewed plan has too.

    A review never takes the place of the consent of the run to losses, and neither does a saved plan.
    """

    name = "reviewed"

    def __init__(self, settings: RunSettings, inputs: RunInputs, reviewed: PlanFile, *, non_interactive: bool) -> None:
        super().__init__(settings, inputs, non_interactive=non_interactive)
        plans, _, self.fingerprint = load_saved_plan(reviewed, settings.owner)
        self._reviewed_plans = {plan.cluster: plan for plan in plans if settings.cluster in (None, plan.cluster)}
        require_known_clusters(self._reviewed_plans, self.desired.clusters)

    def make_plans(self, sessions: ClusterSessions) -> list[Plan]:
        """Return new plans of the manifests, without changes that were not reviewed.

        Leaves out, with an error, a cluster with another id than in the reviewed plan. Adds remarks on
        reviewed topics that need no change any more.
        """
        plans = []
        for plan in sessions.read_and_plan(self.desired, self.settings.run_options):
            try:
                if reviewed := self._reviewed_plans.get(plan.cluster):
                    require_same_cluster(reviewed, plan)
                    declared = {spec.topic for spec in self.desired.specs[plan.cluster]}
                    satisfied = already_satisfied(plan, reviewed)
                    self._add_remark("already done", plan.cluster, [name for name in satisfied if name in declared])
                    undeclared = [name for name in satisfied if name not in declared]
                    self._add_remark("reviewed, but not in the given paths", plan.cluster, undeclared)
                plans.append(self.filter_plan(plan))
            except TopiaristError as error:
                sessions.fail(error, plan.cluster)
        return plans

    def approve(self, plan: Plan) -> Plan:
        """Return the plan without unreviewed changes; if non-interactive, also without losses that no flag allows."""
        reviewed = self._reviewed_plans.get(plan.cluster) or replace(plan, topics=())
        return super().approve(filter_unreviewed(plan, reviewed, self.settings.without_brokers))


class ApplySavedPlan(ApplyManifests):
    """The mode that applies a saved plan without reading Topic manifests.

    The file is the source of the plans; everything after it is as for manifests. After the first conflict nothing more
    is sent, unless the run is ``partial``.
    """

    name = "plan"

    def __init__(
        self, settings: RunSettings, saved: PlanFile, listener: RunListener = SILENT, *, non_interactive: bool
    ) -> None:
        require_no_planning_settings(settings)
        if settings.platform:
            listener.on_message("--plan: policies are not evaluated again; they were evaluated when the plan was made")
        plans, unplanned, fingerprint = load_saved_plan(saved, settings.owner)
        self._unplanned = {name: reason for name, reason in unplanned.items() if settings.cluster in (None, name)}
        self._plans = {plan.cluster: plan for plan in plans if settings.cluster in (None, plan.cluster)}
        topics = (topic.topic for plan in self._plans.values() for topic in plan.topics)
        report_unmatched_patterns(topics, settings, listener, "the plan")
        clusters = match_clusters(self._plans, settings, "the plan", listener)
        super().__init__(settings, RunInputs.without_topics(clusters), non_interactive=non_interactive)
        self.fingerprint = fingerprint
        self.clusters = clusters
        self._listener = listener
        self._revalidated: dict[str, RevalidatedPlan] = {}
        self._halted = False

    def make_plans(self, sessions: ClusterSessions) -> list[Plan]:
        """Return the remaining part of each saved plan.

        Adds remarks on topics that are already done, and on plans with a write block that has ended since they were
        made. Reports that nothing is sent if there are conflicts, and fails for clusters that could not be planned.
        """
        for name, reason in self._unplanned.items():
            message = f"not in the plan, because it could not be planned ({reason.value})"
            sessions.fail(TopiaristError(reason, message), name)
        plans = self._keep_and_filter(sessions.make_plans(self._revalidate))
        for plan in plans:
            name, planned_block = plan.cluster, self._plans[plan.cluster].write_block
            self._add_remark("already done", name, [each.topic for each in self._revalidated[name].already_applied])
            if planned_block.reason and not plan.write_block.reason:
                label = "the cluster was closed when the plan was made, so make a new plan"
                self._add_remark(label, name, [planned_block.message])
        return plans

    def refresh_after_prompt(self, sessions: ClusterSessions, plans: list[Plan]) -> list[Plan]:
        """Return the remaining part of the plans that were shown.

        Another client may have changed topics during the prompt. A topic with changes that were not shown becomes a
        conflict.
        """
        shown = {(plan.cluster, topic.topic): topic.changes for plan in plans for topic in plan.actionable_topics()}
        found = [sessions.make_plan(name, each, self._revalidate) for name, each in sessions.clusters.items()]
        return self._keep_and_filter(found, shown)

    def _keep_and_filter(
        self, plans: Iterable[Plan], shown: Mapping[tuple[str, str], object] | None = None
    ) -> list[Plan]:
        """Return the allowed part of revalidated plans, and keep what of each is done or in conflict.

        A topic with other changes than those that were ``shown`` is in conflict too.
        """
        kept = []
        for plan in map(self.filter_plan, plans):
            name, found = plan.cluster, self._revalidated[plan.cluster]
            remaining = {topic.topic: topic.changes for topic in plan.actionable_topics()}
            conflicts = {topic: why for topic, why in found.conflicts.items() if topic in remaining}
            if shown is not None:
                differs = "its changes differ from those shown"
                changed = (topic for topic, changes in remaining.items() if shown.get((name, topic)) != changes)
                conflicts = {**dict.fromkeys(changed, differs), **conflicts}
            self._revalidated[name] = RevalidatedPlan(plan, found.already_applied, conflicts)
            kept.append(self._revalidated[name])
        conflict_count = sum(len(plan.conflicts) for plan in kept)
        self._halted = conflict_count > 0 and not self.settings.partial
        self.needs_confirmation = not self._halted  # nothing is sent after any answer
        if self._halted:
            self._report_halt(
                f"nothing is sent: {format_count(conflict_count, 'topic')} changed since the plan was made"
            )
        return [_leave_out_conflicts(plan) if self.settings.partial else plan.plan for plan in kept]

    def _report_halt(self, what: str) -> None:
        text = f"{what}; make a new plan, or apply the unchanged topics with --partial"
        self._listener.on_message(text, important=True)

    def _revalidate(self, name: str, _cluster: PartitionInspector, state: ClusterState) -> Plan:
        """Return the part of a cluster's saved plan that is left to do; keep what is done or in conflict."""
        plan, spec = self._plans[name], self.clusters[name]
        require_same_cluster(plan, state)
        if plan.keeps_records != spec.keeps_records:
            made, run = (("with" if each else "without") for each in (plan.keeps_records, spec.keeps_records))
            message = f"the plan was made {made} records, and this run is {run} (spec.kafka.records of the Cluster)"
            raise TopiaristError(Reason.WRONG_CLUSTER, message, "make a new plan")
        # The config rules and the Kafka version are taken from the run: the plan file is not trusted for them.
        rules = spec.config_rules.for_cluster(state.mode, state.known_configs).with_relevant_settings()
        revalidated = revalidate(replace(plan, config_rules=rules, min_version=state.min_version), state)
        remaining = recheck_saved_plan(
            revalidated.plan,
            spec,
            state,
            planned_brokers=plan.brokers,
            allow_unknown_brokers=self.settings.allow_unknown_brokers,
        )
        self._revalidated[name] = revalidated
        return replace(
            remaining,
            drain_brokers=spec.drain_brokers,
            move_settings=spec.moves,
            implied=find_implied_topics(state, spec),
        )

    def apply_plan(
        self,
        cluster: Cluster,
        plan: Plan,
        *,
        stop: Callable[[], bool],
        on_outcome: Callable[[TopicPlan, Outcome], None],
        control: WriteControl = NO_CONTROL,
        move_options: MoveOptions = NO_MOVE_OPTIONS,
    ) -> ReconcileReport:
        """Report completed topics and conflicts, then apply the remaining topics.

        If the run is halted, nothing is sent.
        """
        revalidated = self._revalidated[plan.cluster]
        topics = {topic.topic: topic for topic in (*revalidated.plan.topics, *revalidated.already_applied)}
        known_outcomes = [Outcome(topic.topic, Result.UNCHANGED) for topic in revalidated.already_applied]
        known_outcomes += [
            Outcome(name, Result.CONFLICT, Reason.STATE_CONFLICT, why) for name, why in revalidated.conflicts.items()
        ]
        for outcome in known_outcomes:
            if control.throttle:
                control.throttle.on_outcome(topics[outcome.topic], outcome)
            on_outcome(topics[outcome.topic], outcome)

        def halt_on_conflict(topic: TopicPlan, outcome: Outcome) -> None:
            if outcome.result is Result.CONFLICT and not self.settings.partial:
                self._halted = True
                self._report_halt(f"nothing more is sent: {outcome.topic} changed since it was planned")
            on_outcome(topic, outcome)

        report = reconcile.apply_plan(
            cluster,
            revalidated.without_conflicts(),
            stop=lambda: self._halted or stop(),
            on_outcome=halt_on_conflict,
            control=control,
            move_options=move_options,
        )
        return replace(report, plan=plan, outcomes=(*known_outcomes, *report.outcomes))


class PlanFile(NamedTuple):
    """The content of a plan file; ``name`` is the file name for messages."""

    raw: bytes
    name: str


def load_saved_plan(saved: PlanFile, owner: str) -> decode.SavedPlans:
    """Return the content of a plan file.

    Raises ``TopiaristError`` (NotOwned) for a plan of another owner.
    """
    found = decode.parse_plan_file(*saved)
    for plan in found.plans:
        if plan.owner != owner:
            message = (
                f"{saved.name}: the plan was made with owner {quote(plan.owner)}, this run has owner {quote(owner)}"
            )
            raise TopiaristError(Reason.NOT_OWNED, message, "give the same --owner to both runs")
    return found


def require_no_planning_settings(settings: RunSettings) -> None:
    """Raise ``TopiaristError`` (WrongUsage) for settings that have an effect only while a plan is made."""
    if flags := _planning_flags(settings):
        raise WrongSettings(f"--plan applies the plan as saved: give {', '.join(flags)} when the plan is made")


def _planning_flags(settings: RunSettings) -> list[str]:
    allowed = Permissions(owner=settings.owner, allow_unknown_brokers=settings.allow_unknown_brokers)
    fields = [name for name in Permissions.__struct_fields__ if getattr(settings, name) != getattr(allowed, name)]
    if settings.require_topics:
        fields.append("require_topics")
    return [f"--{field.replace('_', '-')}" for field in fields]


def match_clusters(
    names: Collection[str], settings: RunSettings, source: str, listener: RunListener = SILENT
) -> Mapping[str, ClusterSpec]:
    """Return the run's cluster for each name in a file; ``source`` is the file for messages, such as ``the plan``.

    If there is one name and one cluster, and one of them has no name, they match; the cluster id is compared later.
    """
    clusters = load_clusters(replace(settings, cluster=None), listener)
    if len(names) == len(clusters) == 1 and "" in (*names, *clusters):
        clusters = dict(zip(names, clusters.values(), strict=True))
    elif settings.address_option and len(names) > 1:
        listed = list_first([*names])
        address = f"{settings.address_option} is the address of one cluster"
        raise WrongSettings(f"{address}, and {source} has {len(names)}: {listed}")
    require_known_clusters(names, clusters, source)
    if not names:
        if settings.cluster is not None:
            raise TopiaristError(Reason.UNKNOWN_CLUSTER, f"{source} has no cluster {settings.cluster}")
        listener.on_message(f"{source} has no cluster: nothing to do", important=True)
    return {name: clusters[name] for name in names}


def require_known_clusters(
    names: Collection[str], clusters: Mapping[str, ClusterSpec], source: str = "the plan"
) -> None:
    """Raise ``TopiaristError`` (UnknownCluster) if the run has no cluster for one of the names in a file."""
    if unknown := [name or "without a name" for name in names if name not in clusters]:
        known = list_first([*filter(None, clusters)]) or "one without a name"
        missing = list_first(unknown)
        message = f"{source} is for cluster {missing}, which is not a cluster of this run; it has {known}"
        raise TopiaristError(Reason.UNKNOWN_CLUSTER, message, "give its Cluster document with --clusters")


def require_same_cluster(plan: Plan, found: ClusterState | Plan) -> None:
    """Raise ``TopiaristError`` (WrongCluster) if the plan was made for another cluster, or through another way to it.

    The identity of a topic depends on the way, so each topic would look like a recreated one.
    """
    if (plan.cluster_id, plan.chroot) != (found.cluster_id, found.chroot):
        planned, actual = (f"{each.cluster_id or 'without id'} at {each.chroot or '/'}" for each in (plan, found))
        message = f"the plan was made for cluster {planned}, found cluster {actual} at its address"
        raise TopiaristError(Reason.WRONG_CLUSTER, message, "correct the address, or make a plan for this cluster")
    if plan.bypasses_brokers != found.bypasses_brokers:
        planned, actual = (via_of(bypasses_brokers=each.bypasses_brokers).value for each in (plan, found))
        message = f"the plan was made via {planned}, and this run reaches the cluster via {actual}"
        raise TopiaristError(Reason.WRONG_CLUSTER, message, f"reach the cluster via {planned}, or make a new plan")


def _leave_out_conflicts(found: RevalidatedPlan) -> Plan:
    """Return the plan without topics that changed since it was made, and without growth that needs theirs."""
    return found._replace(plan=withhold_split_groups(found.plan, found.conflicts)).without_conflicts()


# Applies the plans of a run to its clusters, one after the other, and waits for their controllers.
#
# ``cli.execute`` and ``api`` call it with the plans of a mode (``modes``) or of a command. With ``settings.wait``, each
# cluster gets a throttle that the caller hands to ``wait_for_controllers`` afterwards. A listener gets the outcomes.

# The wait of ``apply --wait``: throttle writes, then poll until the controllers are done.
#
# ``throttle`` defines how many replicas may be in flight and how to interpret each poll; this module has the clock, the
# sleeping and the messages. While a cluster is written to, its ``ControllerWait`` is the throttle
# of that run, under the run's lock. Afterwards nothing is written and no lock is held. The wait fails after
# ``--wait-timeout`` seconds without progress, however much is left to do. Ctrl-C ends the waiting, not the controller's
# work.

ShowProgress = Callable[[int], AbstractContextManager[Callable[[], None]]]
"""A function that shows how many topics are done, of a number that it gets."""


@contextmanager
def _show_nothing(_total: int) -> Iterator[Callable[[], None]]:
    yield lambda: None


def make_controller_wait(
    cluster: ProgressSource,
    settings: RunSettings,
    stop: Callable[[], bool],
    on_outcome: Callable[[TopicPlan, Outcome], None],
    listener: RunListener = SILENT,
) -> ControllerWait:
    """Return the throttle of one cluster's run, limited by the settings.

    ``listener`` gets a message once when the throttle holds the run back.
    """

    def held() -> None:
        most = format_count(settings.max_inflight_replicas, "replica")
        listener.on_pause(
            f"throttled: the controller has to initialize earlier partitions first, {most} per broker at a time"
        )

    return ControllerWait(
        cluster,
        stop,
        max_replicas=settings.max_inflight_replicas,
        timeout=settings.wait_timeout,
        on_update=on_outcome,
        on_throttled=held,
    )


def wait_for_controllers(
    controller_waits: Mapping[str, ControllerWait],
    reports: Sequence[ReconcileReport],
    settings: RunSettings,
    stop: Callable[[], bool],
    listener: RunListener = SILENT,
    show_progress: ShowProgress = _show_nothing,
) -> list[ReconcileReport]:
    """Wait for the controllers and return the updated reports of the run.

    ``show_progress`` gets the number of topics that are waited for, and gives a function that is called for each one.
    Returns when the controllers are done, when there is no progress for ``wait_timeout`` seconds, or when ``stop``
    returns True.
    """
    waits = [controller_waits[report.plan.cluster] for report in reports]
    for watch, report in zip(waits, reports, strict=True):
        watch.add_report(report)
    pending = [is_growth for watch in waits for is_growth in watch.remaining.values()]
    if pending:
        counts = (("initialize", sum(pending)), ("delete", len(pending) - sum(pending)))
        work = " and ".join(f"{verb} {format_count(count, 'topic')}" for verb, count in counts if count)
        listener.on_message(
            f"waiting for the controller to {work}, at most {settings.wait_timeout:g} s without progress"
        )
    deadline = ProgressDeadline(settings.wait_timeout, stop)
    with show_progress(len(pending)) as step:
        while not stop():
            since = time.monotonic()
            polls = [watch.poll() for watch in waits]
            deadline.record_poll(progress=any(result.progress for result in polls), since=since)
            for _ in chain.from_iterable(result.finished for result in polls):
                step()
            if not any(watch.remaining for watch in waits) or deadline.is_expired:
                break
            deadline.wait()
    stopped = stop()
    if stopped and (remaining_count := sum(len(watch.remaining) for watch in waits)):
        text = f"no longer waiting for {format_count(remaining_count, 'topic')}: the controller continues"
        listener.on_message(text, important=True)
    else:
        finished = ((True, "initialized by the controller"), (False, "deleted"))
        counted = [(sum(watch.count_finished(grown=grown) for watch in waits), verb) for grown, verb in finished]
        if text := ", ".join(f"{format_count(count, 'topic')} {verb}" for count, verb in counted if count):
            listener.on_message(text)
    return [watch.update_report(report, stopped=stopped) for watch, report in zip(waits, reports, strict=True)]


class Applied(NamedTuple):
    """The reports of the plans, in their order, and the waits of the clusters by name; none without ``wait``."""

    reports: list[ReconcileReport]
    waits: dict[str, ControllerWait]


def moves_replicas(plan: Plan) -> bool:
    """Return whether applying the plan may wait for replicas that are copied."""
    return plan.batch is not None or any(topic.moves() for topic in plan.actionable_topics())


def apply_plans(
    sessions: ClusterSessions,
    plans: Sequence[Plan],
    settings: RunSettings,
    listener: RunListener,
    stop: Callable[[], bool],
    *,
    apply_one: ApplyPlan = apply_plan,
) -> Applied:
    """Apply each plan to the open session of its cluster; ``stop`` returns whether to send nothing more."""
    waits: dict[str, ControllerWait] = {}

    def apply_to_cluster(plan: Plan) -> ReconcileReport:
        cluster, on_outcome = sessions.clusters[plan.cluster], partial(listener.on_outcome, plan)
        if settings.wait:
            waits[plan.cluster] = make_controller_wait(
                cluster, settings, stop, partial(listener.on_late_outcome, plan), listener
            )
        report = apply_one(
            cluster,
            plan,
            stop=stop,
            on_outcome=on_outcome,
            control=WriteControl(waits.get(plan.cluster), sessions.guard_of(plan.cluster)),
            move_options=MoveOptions(
                sessions.specs[plan.cluster].moves,
                not settings.no_wait,
                on_progress=partial(listener.on_move_progress, plan),
            ),
        )
        listener.on_cluster_finished(plan)
        return report

    # Moves may take hours, so the clusters without moves are written first.
    by_cluster = {plan.cluster: apply_to_cluster(plan) for plan in sorted(plans, key=moves_replicas)}
    return Applied([by_cluster[plan.cluster] for plan in plans], waits)
