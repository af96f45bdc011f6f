"""``apply --plan``: do what a plan in a file says, from the file alone; and what to ask of such a file in any case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import click

from topiarist import saved
from topiarist.adapters import textfiles
from topiarist.adapters.zookeeper import ZooKeeperCluster
from topiarist.cli import inputs, terminal
from topiarist.cli.fleet import Fleet
from topiarist.core.change import Plan, TopicPlan
from topiarist.core.plan import Run
from topiarist.core.quoting import quoted
from topiarist.core.review import allow_deletions, guard
from topiarist.core.rules import judging
from topiarist.core.spec import ClusterSpec
from topiarist.core.spending import within_budgets
from topiarist.core.standings import Looked, look
from topiarist.core.units import count
from topiarist.errors import Reason, TopiaristError
from topiarist.reconcile import Cluster, Hooks, Outcome, Report, Result, carry_out, read
from topiarist.render.document import document
from topiarist.settings import Settings

_SHOWN = 12

_NOT_SHOWN = "could not be done, or was done already, when the plan was shown"


class Kept:
    """Do what a plan in a file says, from the file alone. Once a topic has moved nothing more is sent, unless
    the run is ``partial``.
    """

    name = "plan"
    fingerprint: str | None

    def __init__(self, settings: Settings, path: str, unasked: bool) -> None:
        self._settings = settings
        self._partial = settings.partial
        self._unasked = unasked
        if told := _planning_flags(settings):
            raise click.UsageError(f"--plan does what its file says: {', '.join(told)} must be given when it is made")
        if settings.platform and settings.verbosity >= 0:
            terminal.say("--plan: policies are not judged again, they were when the plan was made")
        plans, self.fingerprint = opened(path, settings.owner)
        if settings.cluster is not None:
            plans = tuple(plan for plan in plans if plan.cluster == settings.cluster)
        self._plans = {plan.cluster: plan for plan in plans}
        self.clusters = _addresses(self._plans, settings)
        self.remarks: list[str] = []
        self._looked: dict[str, Looked] = {}
        self._halted = False

    @property
    def asks(self) -> bool:
        """Not where nothing is sent whatever the answer."""
        return not self._halted

    def plans(self, fleet: Fleet) -> list[Plan]:
        """What is left of the plans; what is done already, and that nothing can be done, is said."""
        self._found(fleet.each(self._look))
        for name, looked in self._looked.items():
            if looked.done:
                self.remarks.append(remark("already done", name, [topic.topic for topic in looked.done]))
            was = self._plans[name].gate
            if was.reason and not looked.plan.gate.reason:
                self.remarks.append(remark("held back when the plan was made, so make it anew", name, [was.message]))
        return self._shown()

    def confirmed(self, fleet: Fleet, plans: list[Plan]) -> list[Plan]:
        """What is left of what was shown: others may have been at it while a person was thinking."""
        shown = {(plan.cluster, topic.topic): topic.changes for plan in plans for topic in plan.to_do()}

        def look(name: str, cluster: ZooKeeperCluster) -> Looked:
            looked = self._look(name, cluster)
            late = [topic.topic for topic in looked.plan.to_do() if shown.get((name, topic.topic)) != topic.changes]
            return looked._replace(moved={**dict.fromkeys(late, _NOT_SHOWN), **looked.moved})

        self._found({name: look(name, cluster) for name, cluster in fleet.clusters.items()})
        return self._shown()

    def _found(self, looked: Mapping[str, Looked]) -> None:
        self._looked = dict(looked)
        moved = sum(len(found.moved) for found in looked.values())
        self._halted = moved > 0 and not self._partial
        if self._halted:
            self._say(f"nothing is sent: {count(moved, 'topic')} moved since the plan was made")

    def _say(self, what: str) -> None:
        terminal.say(f"{what}; make the plan anew, or do what still stands with --partial")

    def _shown(self) -> list[Plan]:
        return [found.standing() if self._partial else found.plan for found in self._looked.values()]

    def _look(self, name: str, cluster: ZooKeeperCluster) -> Looked:
        plan, spec = self._plans[name], self.clusters[name]
        state = read(cluster, spec.cluster_id)
        require_same(plan, state.cluster_id, state.location)
        # What the brokers know, and what may be set on them, says the run: a file that says so is not believed.
        looked = look(replace(plan, judging=judging(spec), release_at_least=state.release_at_least), state)
        unknown = self._settings.allow_unknown_brokers
        left = guard(looked.plan, spec, seen=plan.brokers, allow_unknown_brokers=unknown)
        left = allow_deletions(left, self._settings.allow_risk) if self._unasked else left
        left = within_budgets(left, spec.budgets, partial=self._settings.partial)
        still = {topic.topic for topic in left.to_do()}
        return Looked(left, looked.done, {topic: why for topic, why in looked.moved.items() if topic in still})

    def carry_out(self, cluster: Cluster, plan: Plan, hooks: Hooks) -> Report:
        """What is done, what moved, and then what still stands, if anything may be sent at all."""
        looked = self._looked[plan.cluster]
        topics = {topic.topic: topic for topic in (*looked.plan.topics, *looked.done)}
        known = [Outcome(topic.topic, Result.ALREADY) for topic in looked.done]
        known += [Outcome(name, Result.MOVED, Reason.STATE_CONFLICT, why) for name, why in looked.moved.items()]
        for outcome in known:
            hooks.settled(topics[outcome.topic], outcome)
            if hooks.pace:
                hooks.pace.settled(topics[outcome.topic], outcome)

        def settled(topic: TopicPlan, outcome: Outcome) -> None:
            if outcome.result is Result.MOVED and not self._partial:
                self._halted = True
                self._say(f"nothing more is sent: {outcome.topic} moved")
            hooks.settled(topic, outcome)

        halting = replace(hooks, stop=lambda: self._halted or hooks.stop(), settled=settled)
        report = carry_out(cluster, halting, looked.standing())
        return replace(report, plan=plan, outcomes=(*known, *report.outcomes))


def opened(path: str, owner: str) -> tuple[tuple[Plan, ...], str]:
    """The plans in a file, and its fingerprint; all of them must be this owner's."""
    plans = saved.read(textfiles.read(path), path)
    for plan in plans:
        if plan.owner != owner:
            message = f"{path}: the plan is that of owner {quoted(plan.owner)}, this run is {quoted(owner)}"
            raise TopiaristError(Reason.NOT_OWNED, message, "run it as its owner, with --owner")
    return plans, document(plans)["fingerprint"]


def _planning_flags(settings: Settings) -> list[str]:
    """The flags that were given and that count only when a plan is made."""
    given, default = settings.run, Run(owner=settings.owner, allow_unknown_brokers=settings.allow_unknown_brokers)
    fields = [field for field in Run.__dataclass_fields__ if getattr(given, field) != getattr(default, field)]
    if settings.require_topics:
        fields.append("require_topics")
    return [f"--{field.replace('_', '-')}" for field in fields]


def _addresses(plans: Mapping[str, Plan], settings: Settings) -> Mapping[str, ClusterSpec]:
    """The run's cluster for each plan. A single one without a name is whichever single one there is: its id tells."""
    clusters = inputs.load_clusters(replace(settings, cluster=None))
    if len(plans) == len(clusters) == 1 and "" in (*plans, *clusters):
        clusters = dict(zip(plans, clusters.values(), strict=True))
    elif settings.zookeeper and len(plans) > 1:
        names = ", ".join(plans)
        raise click.UsageError(f"--zookeeper is the address of one cluster, and the plan has {len(plans)}: {names}")
    require_known(plans, clusters)
    if not plans:
        if settings.cluster is not None:
            raise TopiaristError(Reason.UNKNOWN_CLUSTER, f"the plan has no cluster {settings.cluster}")
        terminal.say("the plan has no cluster: nothing to do")
    return {name: clusters[name] for name in plans}


def require_known(plans: Mapping[str, Plan], clusters: Mapping[str, ClusterSpec]) -> None:
    """Raise if the run does not know one of the clusters that plans are for."""
    if unknown := [name or "without a name" for name in plans if name not in clusters]:
        known = ", ".join(filter(None, clusters)) or "one without a name"
        message = f"the plan is for cluster {', '.join(unknown)}, which this run does not know; it knows {known}"
        raise TopiaristError(Reason.UNKNOWN_CLUSTER, message, "give its Cluster document with --clusters")


def require_same(plan: Plan, cluster_id: str, location: str) -> None:
    """Raise if a plan was made for another cluster than the one that is there."""
    if (plan.cluster_id, plan.location) != (cluster_id, location):
        message = f"the plan was made for cluster {_place(plan.cluster_id, plan.location)}"
        message += f", and at its address is {_place(cluster_id, location)}"
        raise TopiaristError(Reason.WRONG_CLUSTER, message, "mend the address, or make a plan for this cluster")


def _place(cluster_id: str, location: str) -> str:
    return f"{cluster_id or 'without id'} at {location or '/'}"


def remark(words: str, cluster: str, topics: Sequence[str]) -> str:
    """What there is to say of some topics of a cluster; of many the first dozen."""
    where = f"{cluster}: " if cluster else ""
    listed = ", ".join(topics[:_SHOWN]) + (f", ... {len(topics) - _SHOWN:,} more" if len(topics) > _SHOWN else "")
    return f"{where}{words}: {listed}"
