"""A platform owner's rules as values, what they say of a topic or a change, and a plan without what they deny.

``schema`` makes the policies, an adapter evaluates their expressions; here is whom a policy is for and what follows
from a verdict. A rule can only take away: nothing is done because of a policy.

The policies of a run: whom they are for, what they say of its topics before anything is connected to, and the guard
that they are for its plans.

What is wrong with a rule stops every command but ``render``. What a rule denies stops ``validate``; of a plan the guard
makes a refusal of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from topiarist.desired.resolve import Desired
from topiarist.errors import Diagnostic, InvalidManifests, Location, Reason
from topiarist.filters import cel_variables
from topiarist.filters.permissions import PlanFilter, keep_all
from topiarist.model import policy as policy_
from topiarist.model.plan import Change, Issue, Plan, TopicPlan, withhold
from topiarist.model.policy import Policy, Rule, RuleError, RuleSubject
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec, find_origin
from topiarist.ports import RuleEvaluator
from topiarist.schema.messages import did_you_mean
from topiarist.text import format_count


def deny_changes(
    plan: Plan,
    topic_issues: Mapping[str, Sequence[Issue]],
    find_change_issues: Callable[[TopicPlan, Change], Iterable[Issue]],
) -> Plan:
    """``plan`` without the changes that rules deny.

    ``topic_issues`` is what rules about topics say, by topic: a denial holds back every change of the topic, and is
    only said where there is none. ``find_change_issues`` gives what rules about changes say to one.
    """
    topics = tuple(
        _deny_topic_changes(topic, topic_issues.get(topic.topic, ()), find_change_issues) for topic in plan.topics
    )
    silent = len(topic_issues.keys() - {topic.topic for topic in plan.topics})
    words = (
        f"policies are not kept by {format_count(silent, 'topic')} without a difference: validate names what they break"
    )
    return replace(plan, topics=topics, warnings=(*plan.warnings, words) if silent else plan.warnings)


def _deny_topic_changes(
    topic: TopicPlan, issues: Sequence[Issue], find_change_issues: Callable[[TopicPlan, Change], Iterable[Issue]]
) -> TopicPlan:
    verdicts = [
        (change, finding)
        for change in topic.changes
        if topic.is_actionable
        for finding in find_change_issues(topic, change)
    ]
    for finding in issues:
        topic = _apply_issue(topic, topic.changes if topic.is_actionable else (), finding)
    for change, finding in verdicts:
        topic = _apply_issue(topic, [left for left in topic.changes if left is change], finding)
    return topic


def _apply_issue(topic: TopicPlan, changes: Sequence[Change], issue: Issue) -> TopicPlan:
    """The topic without ``changes`` if the finding denies them; otherwise it is only said."""
    return withhold(topic, changes, issue) if changes and _is_denial(issue) else _add_issue(topic, issue)


def _is_denial(issue: Issue) -> bool:
    return issue.reason is Reason.POLICY_DENIED


def _add_issue(topic: TopicPlan, issue: Issue) -> TopicPlan:
    """A finding that holds nothing back: a refusal beside another one, else only a word."""
    if _is_denial(issue) and topic.refusals:
        return replace(topic, refusals=(*topic.refusals, issue))
    return replace(topic, notices=(*topic.notices, issue._replace(reason=Reason.POLICY_WARNING)))


def find_duplicate_names(policies: Sequence[Policy]) -> Iterator[Diagnostic]:
    """Names that are there twice, of policies and of the rules of one policy."""
    first: dict[tuple[str, str], Policy] = {}
    for policy in policies:
        earlier = first.setdefault((policy.namespace, policy.name), policy)
        if earlier is not policy:
            place, at = (source.locate(("metadata", "name")) for source in (policy.source, earlier.source))
            yield Diagnostic(place, f"Policy {policy.name}: there is one of this name at {at} already")
        names: dict[str, int] = {}
        for index, rule in enumerate(policy.rules):
            known = names.setdefault(rule.name, index)
            if known != index:
                place, at = (policy.rules[each].locate("name") for each in (index, known))
                yield Diagnostic(place, f"{rule.title}: there is one of this name at {at} already")


_MAX_SHOWN_CLUSTERS = 3

AnnotationLookup = Callable[[Manifest], Mapping[str, str]]
"""Gives ``metadata.annotations`` of a topic's document; asked for only where a rule asks."""


class PolicyResult(NamedTuple):
    """What the policies of a run say: errors and warnings before any connection, and the filter for its plans."""

    errors: Sequence[Diagnostic] = ()
    warnings: Sequence[Diagnostic] = ()
    plan_filter: PlanFilter = keep_all


def evaluate_policies(
    desired: Desired,
    policies: Sequence[Policy],
    clusters: Mapping[str, ClusterSpec],
    evaluator: PolicyEvaluator,
    *,
    validate_only: bool,
) -> PolicyResult:
    """Evaluate the rules about topics for every topic of ``desired``.

    ``clusters`` are all that the run knows, also those that it is narrowed away from. ``validate_only``: no plan will
    follow, so a denial is an error and a warning is a warning.
    """
    evaluator.evaluate(desired)
    complaints, warnings = [*evaluator.errors()], [*_unused_policy_warnings(policies, clusters)]
    if validate_only:
        complaints += evaluator.diagnostics(deny=True)
        warnings += evaluator.diagnostics(deny=False)
    return PolicyResult(complaints, warnings, evaluator.filter_plan)


class EvaluationErrors:
    """Rules that could not be judged: the topics for which, and the first reason."""

    def __init__(self) -> None:
        self._errors_by_rule: dict[Rule, list[tuple[TopicSpec, RuleError]]] = defaultdict(list)

    def __contains__(self, rule: Rule) -> bool:
        return rule in self._errors_by_rule

    def add(self, rule: Rule, spec: TopicSpec, error: RuleError) -> None:
        self._errors_by_rule[rule].append((spec, error))

    def for_topic(self, topic: str) -> Iterator[tuple[Rule, RuleError]]:
        """Yield the rules that could not be judged for a topic."""
        for rule, found in self._errors_by_rule.items():
            yield from ((rule, fault) for spec, fault in found if spec.topic == topic)

    def errors(self) -> Iterator[Diagnostic]:
        """One for each rule, at its own place, with the first topic and the number of the others."""
        for rule, found in self._errors_by_rule.items():
            spec, fault = found[0]
            more = f" and {format_count(len(found) - 1, 'other topic')}" if len(found) > 1 else ""
            on = _format_clusters([spec.cluster.name])
            message = f"cannot be judged for {spec.topic}{on}{more}: {fault.message}"
            yield _make_diagnostic(rule, message, fault.hint)


class PolicyEvaluator:
    """The rules of a run, compiled, and what those about topics say of its topics.

    ``faults`` has the rules about topics that could not be judged.
    """

    def __init__(
        self, policies: Sequence[Policy], annotations: AnnotationLookup, rule_evaluator: RuleEvaluator
    ) -> None:
        """``rule_evaluator`` has the compiled rules of these policies."""
        self._policies = policies
        self._annotations = annotations
        self._rule_evaluator = rule_evaluator
        self.evaluation_errors = EvaluationErrors()
        self._issues: dict[str, dict[str, list[Issue]]] = defaultdict(lambda: defaultdict(list))
        self._violations: list[tuple[Rule, TopicSpec]] = []

    def evaluate(self, desired: Desired) -> None:
        """Judge every topic on every cluster but those that are to go, or have no size yet."""
        for name, specs in desired.specs.items():
            selection = _ApplicableRules(self._policies, desired.clusters[name], RuleSubject.TOPIC)
            shared = cel_variables.bind_cluster(desired.clusters[name])
            for spec in specs if selection else ():
                if not spec.absent and spec.create_partitions and spec.create_replication_factor:
                    self._evaluate_topic(spec, selection.for_topic(spec), shared)

    def _evaluate_topic(self, spec: TopicSpec, rules: Sequence[Rule], shared: policy_.CelBindings) -> None:
        known = cel_variables.bind_topic(spec, shared, _needed_annotations(rules, spec, self._annotations))
        for rule, fault in self._rule_evaluator.evaluate(rules, known):
            if fault:
                self.evaluation_errors.add(rule, spec, fault)
                continue
            self._issues[spec.cluster.name][spec.topic].append(rule.make_issue(spec))
            self._violations.append((rule, spec))

    def errors(self) -> Iterator[Diagnostic]:
        """What is wrong with the rules themselves, each at its own place."""
        yield from find_duplicate_names(self._policies)
        for rule, fault in tuple(self._rule_evaluator.rule_errors.items()):
            if rule not in self.evaluation_errors:  # one that was given up here: for which topic is known
                yield _make_diagnostic(rule, fault.message, fault.hint)
        yield from self.evaluation_errors.errors()

    def diagnostics(self, *, deny: bool) -> Iterator[Diagnostic]:
        """What rules about topics deny, or warn of, where it was written; once for all clusters."""
        places: dict[tuple[Rule, Location, str], list[str]] = defaultdict(list)
        for rule, spec in self._violations:
            if rule.deny is deny:
                place = find_origin(spec, *rule.make_issue(spec).field).locate() or Location("the cluster's defaults")
                places[rule, place, spec.topic].append(spec.cluster.name)
        for (rule, place, topic), clusters in places.items():
            message = f"{topic}{_format_clusters(clusters)}: {rule.message} ({rule.title})"
            yield Diagnostic(place, message, f"the rule stands at {rule.locate()}", rule.reason.value)

    def filter_plan(self, plan: Plan) -> Plan:
        """What the rules leave of a plan. Raises ``InvalidManifests`` if one of them cannot be judged.

        A topic that comes without its spec, from a saved plan, was judged when that was made.
        """
        left, faults = self.evaluate_plan(plan)
        if found := [*faults.errors()]:
            raise InvalidManifests(found)
        return left

    def evaluate_plan(self, plan: Plan) -> tuple[Plan, EvaluationErrors]:
        """Return what the rules leave of a plan, and the rules about changes that could not be judged for a topic."""
        changes = _ChangeEvaluation(self._rule_evaluator, self._policies, self._annotations, plan)
        return deny_changes(plan, self._issues.get(plan.cluster, {}), changes.evaluate), changes.evaluation_errors


class _ChangeEvaluation:
    """What rules about changes say of one plan."""

    def __init__(
        self, rule_evaluator: RuleEvaluator, policies: Sequence[Policy], annotations: AnnotationLookup, plan: Plan
    ) -> None:
        self.evaluation_errors = EvaluationErrors()
        self._annotations = annotations
        self._rule_evaluator = rule_evaluator
        self._broker_count = len(plan.brokers)
        clusters = [topic.spec.cluster for topic in plan.topics if topic.spec]
        self._applicable_rules = _ApplicableRules(
            policies, clusters[0] if clusters else ClusterSpec(), RuleSubject.CHANGE
        )

    def evaluate(self, topic: TopicPlan, change: Change) -> Iterator[Issue]:
        """The rules that a change does not keep."""
        spec = topic.spec
        rules = self._applicable_rules.for_topic(spec) if spec else ()
        if spec is None or not rules:
            return
        known = cel_variables.bind_topic(
            spec, cel_variables.bind_cluster(spec.cluster), _needed_annotations(rules, spec, self._annotations)
        )
        for rule, fault in self._rule_evaluator.evaluate(
            rules, {**known, **cel_variables.bind_change(topic, change, self._broker_count)}
        ):
            if fault:
                self.evaluation_errors.add(rule, spec, fault)
            else:
                yield rule.make_issue(spec)


class _ApplicableRules:
    """The rules on one subject that hold on one cluster; false if there are none."""

    def __init__(self, policies: Iterable[Policy], cluster: ClusterSpec, subject: RuleSubject) -> None:
        rules = {policy: [rule for rule in policy.rules if rule.subject is subject] for policy in policies}
        self._rules_by_policy = {
            policy: found for policy, found in rules.items() if found and policy.applies_to_cluster(cluster)
        }

    def __bool__(self) -> bool:
        return bool(self._rules_by_policy)

    def for_topic(self, spec: TopicSpec) -> Sequence[Rule]:
        """Those that are for this topic."""
        return [
            rule for policy, rules in self._rules_by_policy.items() if policy.applies_to_topic(spec) for rule in rules
        ]


def _needed_annotations(rules: Iterable[Rule], spec: TopicSpec, annotations: AnnotationLookup) -> Mapping[str, str]:
    """The annotations of a topic's document, if a rule asks for them."""
    asked = any("annotations" in rule.expression for rule in rules)
    return annotations(spec.manifest) if asked else {}


def _unused_policy_warnings(policies: Iterable[Policy], clusters: Mapping[str, ClusterSpec]) -> Iterator[Diagnostic]:
    """Policies for clusters that are not there: whoever wrote them believes that they guard something."""
    for policy in policies:
        for index, name in enumerate(policy.cluster_names):
            if name not in clusters:
                place = policy.source.locate(("spec", "selector", "clusters", index))
                message = f"policy {policy.name}: there is no Cluster {name}, so nothing is judged for it"
                yield Diagnostic(place, message, did_you_mean(name, clusters))
        if policy.cluster_labels and not any(map(policy.applies_to_cluster, clusters.values())):
            place = policy.source.locate(("spec", "selector", "clusterSelector"))
            yield Diagnostic(place, f"policy {policy.name}: no Cluster has these labels, so nothing is judged by it")


def _make_diagnostic(rule: Rule, message: str, hint: str) -> Diagnostic:
    """What is wrong with a rule, where its expression begins."""
    return Diagnostic(rule.locate("expression"), f"{rule.title}: {message}", hint)


def _format_clusters(clusters: Sequence[str]) -> str:
    """The clusters in words, of many the first ones; nothing for the unnamed one."""
    names = sorted(filter(None, set(clusters)))
    shown, more = names[:_MAX_SHOWN_CLUSTERS], names[_MAX_SHOWN_CLUSTERS:]
    rest = f" and {format_count(len(more), 'other cluster')}" if more else ""
    return f" on {', '.join(shown)}{rest}" if names else ""
