"""What the forms of ``apply`` have in common, and the plainest of them: from manifests.

A form says which clusters there are, what is to be done on them as far as the run allows it, and how it is carried out;
``apply`` shows, asks and reports. The others are in ``reviewed`` and ``kept``.

``apply --plan``: do what a plan in a file says, from the file alone; and what to ask of such a file in any case.

``apply --reviewed``: plan from what was merged, and do what was reviewed too. A file from a branch adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import click

from topiarist.adapters import atomic_files
from topiarist.adapters.saved_plans import decode
from topiarist.adapters.saved_plans.encode import encode_plans
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.cli import load, terminal
from topiarist.cli.clusters import ClusterSessions
from topiarist.cli.settings import Settings
from topiarist.errors import Reason, TopiaristError
from topiarist.filters.budgets import enforce_budgets
from topiarist.filters.permissions import filter_unapproved
from topiarist.filters.review import (
    already_satisfied,
    filter_unapproved_deletions,
    filter_unreviewed,
    recheck_saved_plan,
)
from topiarist.model.outcome import Outcome, ReconcileReport, Result, worst_exit_code
from topiarist.model.plan import Plan, TopicPlan
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.planning.preconditions import RevalidatedPlan, revalidate
from topiarist.ports import Cluster
from topiarist.reconcile import ApplyHooks, apply_plan, read_cluster
from topiarist.text import format_count, quote


class ApplyMode(Protocol):
    """A form of ``apply``. ``name`` and ``fingerprint`` (of a plan's file) are for the report.

    ``remarks`` are what the plans by themselves do not show, once there are plans.
    """

    name: str
    fingerprint: str | None
    remarks: list[str]
    clusters: Mapping[str, ClusterSpec]

    @property
    def needs_confirmation(self) -> bool:
        """Whether anything could be sent, so that there is something to ask a person."""

    def make_plans(self, fleet: ClusterSessions) -> list[Plan]:
        """What is to be done on each cluster that can be read, without what the run does not allow."""

    def refresh_after_prompt(self, fleet: ClusterSessions, plans: list[Plan]) -> list[Plan]:
        """The plans once a person has answered for them, which takes time."""

    def apply_plan(self, cluster: Cluster, plan: Plan, hooks: ApplyHooks) -> ReconcileReport:
        """Carry out one of the plans."""


class ApplyManifests:
    """Plan and do it: with ``unasked`` only what the run allows by flags."""

    name = "manifests"
    fingerprint: str | None = None

    def __init__(self, settings: Settings, non_interactive: bool) -> None:
        self.settings = settings
        self.non_interactive = non_interactive
        self.inputs = load.load_manifests(settings)
        self.desired = self.inputs.desired
        self.clusters = self.desired.targeted_clusters
        self.remarks: list[str] = []

    @property
    def needs_confirmation(self) -> bool:
        """Always."""
        return True

    def make_plans(self, fleet: ClusterSessions) -> list[Plan]:
        """As they are planned now."""
        return [self.filter_plan(plan) for plan in fleet.read_and_plan(self.desired, self.settings.run_options)]

    def filter_plan(self, plan: Plan) -> Plan:
        """What of a plan may be done."""
        return self.inputs.filter_plan(plan, self.settings, self.approve)

    def approve(self, plan: Plan) -> Plan:
        """What of a plan may be done without asking anybody else, as far as it may lose data."""
        return filter_unapproved(plan, self.settings.allow_risk) if self.non_interactive else plan

    def refresh_after_prompt(self, fleet: ClusterSessions, plans: list[Plan]) -> list[Plan]:
        """The same: what moved since they were shown is found when it is written."""
        return plans

    def apply_plan(self, cluster: Cluster, plan: Plan, hooks: ApplyHooks) -> ReconcileReport:
        """What was shown, and nothing else."""
        return apply_plan(cluster, hooks, plan)


_MAX_SHOWN_TOPICS = 12

_NOT_SHOWN_MESSAGE = "could not be done, or was done already, when the plan was shown"


class ApplySavedPlan:
    """Do what a plan in a file says, from the file alone. Once a topic has moved nothing more is sent, unless
    the run is ``partial``.
    """

    name = "plan"
    fingerprint: str | None

    def __init__(self, settings: Settings, path: str, non_interactive: bool) -> None:
        self._settings = settings
        self._partial = settings.partial
        self._non_interactive = non_interactive
        if told := _planning_flags(settings):
            raise click.UsageError(f"--plan does what its file says: {', '.join(told)} must be given when it is made")
        if settings.platform and settings.verbosity >= 0:
            terminal.log("--plan: policies are not judged again, they were when the plan was made")
        plans, self.fingerprint = load_saved_plan(path, settings.owner)
        if settings.cluster is not None:
            plans = tuple(plan for plan in plans if plan.cluster == settings.cluster)
        self._plans = {plan.cluster: plan for plan in plans}
        self.clusters = _match_clusters(self._plans, settings)
        self.remarks: list[str] = []
        self._revalidated: dict[str, RevalidatedPlan] = {}
        self._halted = False

    @property
    def needs_confirmation(self) -> bool:
        """Not where nothing is sent whatever the answer."""
        return not self._halted

    def make_plans(self, fleet: ClusterSessions) -> list[Plan]:
        """What is left of the plans; what is done already, and that nothing can be done, is said."""
        self._set_revalidated(fleet.map_sessions(self._revalidate))
        for name, looked in self._revalidated.items():
            if looked.already_applied:
                self.remarks.append(
                    format_remark("already done", name, [topic.topic for topic in looked.already_applied])
                )
            was = self._plans[name].write_block
            if was.reason and not looked.plan.write_block.reason:
                self.remarks.append(
                    format_remark("held back when the plan was made, so make it anew", name, [was.message])
                )
        return self._list_remaining_plans()

    def refresh_after_prompt(self, fleet: ClusterSessions, plans: list[Plan]) -> list[Plan]:
        """What is left of what was shown: others may have been at it while a person was thinking."""
        shown = {(plan.cluster, topic.topic): topic.changes for plan in plans for topic in plan.actionable_topics()}

        def look(name: str, cluster: ZooKeeperCluster) -> RevalidatedPlan:
            looked = self._revalidate(name, cluster)
            late = [
                topic.topic
                for topic in looked.plan.actionable_topics()
                if shown.get((name, topic.topic)) != topic.changes
            ]
            return looked._replace(conflicts={**dict.fromkeys(late, _NOT_SHOWN_MESSAGE), **looked.conflicts})

        self._set_revalidated({name: look(name, cluster) for name, cluster in fleet.clusters.items()})
        return self._list_remaining_plans()

    def _set_revalidated(self, looked: Mapping[str, RevalidatedPlan]) -> None:
        self._revalidated = dict(looked)
        moved = sum(len(found.conflicts) for found in looked.values())
        self._halted = moved > 0 and not self._partial
        if self._halted:
            self._log_stop(f"nothing is sent: {format_count(moved, 'topic')} moved since the plan was made")

    def _log_stop(self, what: str) -> None:
        terminal.log(f"{what}; make the plan anew, or do what still stands with --partial")

    def _list_remaining_plans(self) -> list[Plan]:
        return [found.without_conflicts() if self._partial else found.plan for found in self._revalidated.values()]

    def _revalidate(self, name: str, cluster: ZooKeeperCluster) -> RevalidatedPlan:
        plan, spec = self._plans[name], self.clusters[name]
        state = read_cluster(cluster, spec.cluster_id)
        require_same_cluster(plan, state.cluster_id, state.chroot)
        # What the brokers know, and what may be set on them, says the run: a file that says so is not believed.
        looked = revalidate(
            replace(plan, config_rules=spec.config_rules.with_relevant_settings(), min_version=state.min_version), state
        )
        unknown = self._settings.allow_unknown_brokers
        left = recheck_saved_plan(looked.plan, spec, planned_brokers=plan.brokers, allow_unknown_brokers=unknown)
        left = filter_unapproved_deletions(left, self._settings.allow_risk) if self._non_interactive else left
        left = enforce_budgets(left, spec.budgets, partial=self._settings.partial)
        still = {topic.topic for topic in left.actionable_topics()}
        return RevalidatedPlan(
            left, looked.already_applied, {topic: why for topic, why in looked.conflicts.items() if topic in still}
        )

    def apply_plan(self, cluster: Cluster, plan: Plan, hooks: ApplyHooks) -> ReconcileReport:
        """What is done, what moved, and then what still stands, if anything may be sent at all."""
        looked = self._revalidated[plan.cluster]
        topics = {topic.topic: topic for topic in (*looked.plan.topics, *looked.already_applied)}
        known = [Outcome(topic.topic, Result.UNCHANGED) for topic in looked.already_applied]
        known += [Outcome(name, Result.CONFLICT, Reason.STATE_CONFLICT, why) for name, why in looked.conflicts.items()]
        for outcome in known:
            hooks.on_final_outcome(topics[outcome.topic], outcome)
            if hooks.throttle:
                hooks.throttle.on_outcome(topics[outcome.topic], outcome)

        def settled(topic: TopicPlan, outcome: Outcome) -> None:
            if outcome.result is Result.CONFLICT and not self._partial:
                self._halted = True
                self._log_stop(f"nothing more is sent: {outcome.topic} moved")
            hooks.on_final_outcome(topic, outcome)

        halting = replace(hooks, stop=lambda: self._halted or hooks.stop(), on_final_outcome=settled)
        report = apply_plan(cluster, halting, looked.without_conflicts())
        return replace(report, plan=plan, outcomes=(*known, *report.outcomes))


def load_saved_plan(path: str, owner: str) -> tuple[tuple[Plan, ...], str]:
    """The plans in a file, and its fingerprint; all of them must be this owner's."""
    plans = decode.parse_plan_file(atomic_files.read_file(path), path)
    for plan in plans:
        if plan.owner != owner:
            message = f"{path}: the plan is that of owner {quote(plan.owner)}, this run is {quote(owner)}"
            raise TopiaristError(Reason.NOT_OWNED, message, "run it as its owner, with --owner")
    return plans, encode_plans(plans)["fingerprint"]


def _planning_flags(settings: Settings) -> list[str]:
    """The flags that were given and that count only when a plan is made."""
    given, default = (
        settings.run_options,
        RunOptions(owner=settings.owner, allow_unknown_brokers=settings.allow_unknown_brokers),
    )
    fields = [field for field in RunOptions.__dataclass_fields__ if getattr(given, field) != getattr(default, field)]
    if settings.require_topics:
        fields.append("require_topics")
    return [f"--{field.replace('_', '-')}" for field in fields]


def _match_clusters(plans: Mapping[str, Plan], settings: Settings) -> Mapping[str, ClusterSpec]:
    """The run's cluster for each plan. A single one without a name is whichever single one there is: its id tells."""
    clusters = load.load_clusters(replace(settings, cluster=None))
    if len(plans) == len(clusters) == 1 and "" in (*plans, *clusters):
        clusters = dict(zip(plans, clusters.values(), strict=True))
    elif settings.zookeeper and len(plans) > 1:
        names = ", ".join(plans)
        raise click.UsageError(f"--zookeeper is the address of one cluster, and the plan has {len(plans)}: {names}")
    require_known_clusters(plans, clusters)
    if not plans:
        if settings.cluster is not None:
            raise TopiaristError(Reason.UNKNOWN_CLUSTER, f"the plan has no cluster {settings.cluster}")
        terminal.log("the plan has no cluster: nothing to do")
    return {name: clusters[name] for name in plans}


def require_known_clusters(plans: Mapping[str, Plan], clusters: Mapping[str, ClusterSpec]) -> None:
    """Raise if the run does not know one of the clusters that plans are for."""
    if unknown := [name or "without a name" for name in plans if name not in clusters]:
        known = ", ".join(filter(None, clusters)) or "one without a name"
        message = f"the plan is for cluster {', '.join(unknown)}, which this run does not know; it knows {known}"
        raise TopiaristError(Reason.UNKNOWN_CLUSTER, message, "give its Cluster document with --clusters")


def require_same_cluster(plan: Plan, cluster_id: str, chroot: str) -> None:
    """Raise if a plan was made for another cluster than the one that is there."""
    if (plan.cluster_id, plan.chroot) != (cluster_id, chroot):
        message = f"the plan was made for cluster {_describe_cluster(plan.cluster_id, plan.chroot)}"
        message += f", and at its address is {_describe_cluster(cluster_id, chroot)}"
        raise TopiaristError(Reason.WRONG_CLUSTER, message, "mend the address, or make a plan for this cluster")


def _describe_cluster(cluster_id: str, chroot: str) -> str:
    return f"{cluster_id or 'without id'} at {chroot or '/'}"


def format_remark(label: str, cluster: str, topics: Sequence[str]) -> str:
    """What there is to say of some topics of a cluster; of many the first dozen."""
    where = f"{cluster}: " if cluster else ""
    listed = ", ".join(topics[:_MAX_SHOWN_TOPICS]) + (
        f", ... {len(topics) - _MAX_SHOWN_TOPICS:,} more" if len(topics) > _MAX_SHOWN_TOPICS else ""
    )
    return f"{where}{label}: {listed}"


class ApplyReviewed(ApplyManifests):
    """Plan and do what a reviewed plan has too; that is the permission for what it holds, but for deletions."""

    name = "reviewed"

    def __init__(self, settings: Settings, path: str, non_interactive: bool) -> None:
        super().__init__(settings, non_interactive)
        plans, self.fingerprint = load_saved_plan(path, settings.owner)
        self._reviewed_plans = {plan.cluster: plan for plan in plans if settings.cluster in (None, plan.cluster)}
        require_known_clusters(self._reviewed_plans, self.desired.clusters)

    def make_plans(self, fleet: ClusterSessions) -> list[Plan]:
        """As they are planned now, without what was not reviewed; a cluster that is another one is left out."""
        found = []
        for plan in fleet.read_and_plan(self.desired, self.settings.run_options):
            try:
                if reviewed := self._reviewed_plans.get(plan.cluster):
                    require_same_cluster(reviewed, plan.cluster_id, plan.chroot)
                    self._add_remarks(plan, reviewed)
                found.append(self.filter_plan(plan))
            except TopiaristError as error:
                fleet.error_code = worst_exit_code((fleet.error_code, error.reason.exit_code))
                terminal.print_error(error, plan.cluster)
        return found

    def approve(self, plan: Plan) -> Plan:
        """What was reviewed; without anybody to ask, deletions as far as the run's flags allow them."""
        reviewed = self._reviewed_plans.get(plan.cluster) or replace(plan, topics=())
        allowed = filter_unreviewed(plan, reviewed, self.settings.without_brokers)
        return filter_unapproved_deletions(allowed, self.settings.allow_risk) if self.non_interactive else allowed

    def _add_remarks(self, plan: Plan, reviewed: Plan) -> None:
        """Say what the reviewed plan has and nothing is to be done about any more."""
        declared = {spec.topic for spec in self.desired.specs[plan.cluster]}
        over = already_satisfied(plan, reviewed)
        for words, topics in (
            ("already done", [topic for topic in over if topic in declared]),
            ("reviewed, and not in the given paths", [topic for topic in over if topic not in declared]),
        ):
            if topics:
                self.remarks.append(format_remark(words, plan.cluster, topics))
