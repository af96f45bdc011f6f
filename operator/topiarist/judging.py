"""The policies of a run: whom they are for, what they say of its topics before anything is connected to, and the guard
that they are for its plans.

What is wrong with a rule stops every command but ``render``. What a rule denies stops ``validate``; of a plan the guard
makes a refusal of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from topiarist.core import facts
from topiarist.core.change import Change, Finding, Plan, TopicPlan
from topiarist.core.guardrails import Policy, Rule, Subject, doubles, guarded
from topiarist.core.spec import ClusterSpec, Manifest, TopicSpec, origin
from topiarist.core.units import count
from topiarist.desired import Desired
from topiarist.errors import Complaint, InvalidManifests, Place
from topiarist.schema.words import guess

if TYPE_CHECKING:
    from topiarist.adapters.cel import Court, Fault

_SHOWN_CLUSTERS = 3

Annotations = Callable[[Manifest], Mapping[str, str]]
"""Gives ``metadata.annotations`` of a topic's document; asked for only where a rule asks."""


def judged(
    desired: Desired,
    policies: Sequence[Policy],
    clusters: Mapping[str, ClusterSpec],
    annotations: Annotations,
    *,
    alone: bool,
) -> Desired:
    """``desired`` with what ``policies`` say of it: complaints, warnings, and the guard for its plans.

    ``clusters`` are all that the run knows, also those that it is narrowed away from. ``alone``: no plan will follow,
    so what is denied is a complaint and what is warned of a warning.
    """
    if not policies:
        return desired
    bench = Bench(policies, annotations)
    bench.judge(desired)
    complaints, warnings = [*desired.complaints, *bench.complaints()], [*desired.warnings, *_idle(policies, clusters)]
    if alone:
        complaints += bench.findings(deny=True)
        warnings += bench.findings(deny=False)
    return replace(
        desired,
        complaints=tuple(sorted(set(complaints))),
        warnings=tuple(sorted(set(warnings))),
        guard=bench.guard,
    )


class Faults:
    """Rules that could not be judged: the topics for which, and the first reason."""

    def __init__(self) -> None:
        self._found: dict[Rule, list[tuple[TopicSpec, Fault]]] = defaultdict(list)

    def __contains__(self, rule: Rule) -> bool:
        return rule in self._found

    def add(self, rule: Rule, spec: TopicSpec, fault: Fault) -> None:
        self._found[rule].append((spec, fault))

    def of(self, topic: str) -> Iterator[tuple[Rule, Fault]]:
        """Yield the rules that could not be judged for a topic."""
        for rule, found in self._found.items():
            yield from ((rule, fault) for spec, fault in found if spec.topic == topic)

    def complaints(self) -> Iterator[Complaint]:
        """One for each rule, at its own place, with the first topic and the number of the others."""
        for rule, found in self._found.items():
            spec, fault = found[0]
            more = f" and {count(len(found) - 1, 'other topic')}" if len(found) > 1 else ""
            on = _on([spec.cluster.name])
            message = f"cannot be judged for {spec.topic}{on}{more}: {fault.message}"
            yield _complaint(rule, message, fault.hint)


def compiled(policies: Iterable[Policy]) -> Court:
    """All rules of these policies; those that do not compile are among its faults."""
    # Loaded here and not above: a run without policies must not wait for it.
    from topiarist.adapters.cel import Court

    return Court(rule for policy in policies for rule in policy.rules)


class Bench:
    """The rules of a run, compiled, and what those about topics say of its topics.

    ``faults`` has the rules about topics that could not be judged.
    """

    def __init__(self, policies: Sequence[Policy], annotations: Annotations, court: Court | None = None) -> None:
        """``court`` has the rules of these policies already, if they have been compiled before."""
        self._policies = policies
        self._annotations = annotations
        self._court = court or compiled(policies)
        self.faults = Faults()
        self._findings: dict[str, dict[str, list[Finding]]] = defaultdict(lambda: defaultdict(list))
        self._unkept: list[tuple[Rule, TopicSpec]] = []

    def judge(self, desired: Desired) -> None:
        """Judge every topic on every cluster but those that are to go, or have no size yet."""
        for name, specs in desired.specs.items():
            selection = _Selection(self._policies, desired.clusters[name], Subject.TOPIC)
            shared = facts.of_cluster(desired.clusters[name])
            for spec in specs if selection else ():
                if not spec.absent and spec.create_partitions and spec.create_replication_factor:
                    self._topic(spec, selection.rules(spec), shared)

    def _topic(self, spec: TopicSpec, rules: Sequence[Rule], shared: facts.Facts) -> None:
        known = facts.of_topic(spec, shared, _asked_for(rules, spec, self._annotations))
        for rule, fault in self._court.judge(rules, known):
            if fault:
                self.faults.add(rule, spec, fault)
                continue
            self._findings[spec.cluster.name][spec.topic].append(rule.finding(spec))
            self._unkept.append((rule, spec))

    def complaints(self) -> Iterator[Complaint]:
        """What is wrong with the rules themselves, each at its own place."""
        yield from doubles(self._policies)
        for rule, fault in tuple(self._court.faults.items()):
            if rule not in self.faults:  # one that was given up here: for which topic is known
                yield _complaint(rule, fault.message, fault.hint)
        yield from self.faults.complaints()

    def findings(self, *, deny: bool) -> Iterator[Complaint]:
        """What rules about topics deny, or warn of, where it was written; once for all clusters."""
        places: dict[tuple[Rule, Place, str], list[str]] = defaultdict(list)
        for rule, spec in self._unkept:
            if rule.deny is deny:
                place = origin(spec, *rule.finding(spec).field).place() or Place("the cluster's defaults")
                places[rule, place, spec.topic].append(spec.cluster.name)
        for (rule, place, topic), clusters in places.items():
            message = f"{topic}{_on(clusters)}: {rule.message} ({rule.title})"
            yield Complaint(place, message, f"the rule stands at {rule.place()}", rule.reason.value)

    def guard(self, plan: Plan) -> Plan:
        """What the rules leave of a plan. Raises ``InvalidManifests`` if one of them cannot be judged.

        A topic that comes without its spec, from a saved plan, was judged when that was made.
        """
        left, faults = self.judged(plan)
        if found := [*faults.complaints()]:
            raise InvalidManifests(found)
        return left

    def judged(self, plan: Plan) -> tuple[Plan, Faults]:
        """Return what the rules leave of a plan, and the rules about changes that could not be judged for a topic."""
        changes = _Changes(self._court, self._policies, self._annotations, plan)
        return guarded(plan, self._findings.get(plan.cluster, {}), changes.judge), changes.faults


class _Changes:
    """What rules about changes say of one plan."""

    def __init__(self, court: Court, policies: Sequence[Policy], annotations: Annotations, plan: Plan) -> None:
        self.faults = Faults()
        self._annotations = annotations
        self._court = court
        self._brokers = len(plan.brokers)
        clusters = [topic.spec.cluster for topic in plan.topics if topic.spec]
        self._selection = _Selection(policies, clusters[0] if clusters else ClusterSpec(), Subject.CHANGE)

    def judge(self, topic: TopicPlan, change: Change) -> Iterator[Finding]:
        """The rules that a change does not keep."""
        spec = topic.spec
        rules = self._selection.rules(spec) if spec else ()
        if spec is None or not rules:
            return
        known = facts.of_topic(spec, facts.of_cluster(spec.cluster), _asked_for(rules, spec, self._annotations))
        for rule, fault in self._court.judge(rules, {**known, **facts.of_change(topic, change, self._brokers)}):
            if fault:
                self.faults.add(rule, spec, fault)
            else:
                yield rule.finding(spec)


class _Selection:
    """The rules on one subject that hold on one cluster; false if there are none."""

    def __init__(self, policies: Iterable[Policy], cluster: ClusterSpec, subject: Subject) -> None:
        rules = {policy: [rule for rule in policy.rules if rule.subject is subject] for policy in policies}
        self._rules = {policy: found for policy, found in rules.items() if found and policy.means(cluster)}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def rules(self, spec: TopicSpec) -> Sequence[Rule]:
        """Those that are for this topic."""
        return [rule for policy, rules in self._rules.items() if policy.covers(spec) for rule in rules]


def _asked_for(rules: Iterable[Rule], spec: TopicSpec, annotations: Annotations) -> Mapping[str, str]:
    """The annotations of a topic's document, if a rule asks for them."""
    asked = any("annotations" in rule.expression for rule in rules)
    return annotations(spec.manifest) if asked else {}


def _idle(policies: Iterable[Policy], clusters: Mapping[str, ClusterSpec]) -> Iterator[Complaint]:
    """Policies for clusters that are not there: whoever wrote them believes that they guard something."""
    for policy in policies:
        for index, name in enumerate(policy.clusters):
            if name not in clusters:
                place = policy.source.place(("spec", "selector", "clusters", index))
                message = f"policy {policy.name}: there is no Cluster {name}, so nothing is judged for it"
                yield Complaint(place, message, guess(name, clusters))
        if policy.cluster_labels and not any(map(policy.means, clusters.values())):
            place = policy.source.place(("spec", "selector", "clusterSelector"))
            yield Complaint(place, f"policy {policy.name}: no Cluster has these labels, so nothing is judged by it")


def _complaint(rule: Rule, message: str, hint: str) -> Complaint:
    """What is wrong with a rule, where its expression begins."""
    return Complaint(rule.place("expression"), f"{rule.title}: {message}", hint)


def _on(clusters: Sequence[str]) -> str:
    """The clusters in words, of many the first ones; nothing for the unnamed one."""
    names = sorted(filter(None, set(clusters)))
    shown, more = names[:_SHOWN_CLUSTERS], names[_SHOWN_CLUSTERS:]
    rest = f" and {count(len(more), 'other cluster')}" if more else ""
    return f" on {', '.join(shown)}{rest}" if names else ""
