"""Evaluates the policies of a run, and withholds the changes that policies deny.

The rules are those of platform owners; ``desired.parse`` makes the ``Policy`` values, and an adapter evaluates their
expressions. Rules about topics are evaluated before any connection is made, rules about changes when a plan is
filtered. An error in a rule ends every command except ``render``. A denial ends ``validate``; in a plan it becomes a
refusal. A policy never adds a change. ``cli.load`` and the operator's ``policy_cache`` call this module.
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
    """Return ``plan`` without the changes that rules deny.

    ``topic_issues`` are the issues of rules about topics, by topic: a denial withholds every change of the topic. For a
    topic without changes it is only a notice or a further refusal. ``find_change_issues`` returns the issues of rules
    about changes for one change.
    """
    topics = tuple(
        _deny_topic_changes(topic, topic_issues.get(topic.topic, ()), find_change_issues) for topic in plan.topics
    )
    count = len(topic_issues.keys() - {topic.topic for topic in plan.topics})
    warning = (
        f"policies are not kept by {format_count(count, 'topic')} without a difference: validate names what they break"
    )
    return replace(plan, topics=topics, warnings=(*plan.warnings, warning) if count else plan.warnings)


def _deny_topic_changes(
    topic: TopicPlan, issues: Sequence[Issue], find_change_issues: Callable[[TopicPlan, Change], Iterable[Issue]]
) -> TopicPlan:
    # Evaluated before any change is withheld, so that every rule sees the whole topic plan.
    change_issues = [
        (change, finding)
        for change in topic.changes
        if topic.is_actionable
        for finding in find_change_issues(topic, change)
    ]
    for finding in issues:
        topic = _apply_issue(topic, topic.changes if topic.is_actionable else (), finding)
    for change, finding in change_issues:
        topic = _apply_issue(topic, [remaining for remaining in topic.changes if remaining is change], finding)
    return topic


def _apply_issue(topic: TopicPlan, changes: Sequence[Change], issue: Issue) -> TopicPlan:
    """Return the topic without ``changes`` if the issue denies them.

    Otherwise the issue is added, and the changes stay.
    """
    return withhold(topic, changes, issue) if changes and _is_denial(issue) else _add_issue(topic, issue)


def _is_denial(issue: Issue) -> bool:
    return issue.reason is Reason.POLICY_DENIED


def _add_issue(topic: TopicPlan, issue: Issue) -> TopicPlan:
    """Add an issue that withholds no change.

    A denial is added as a refusal if the topic has other refusals. Every other issue is added as a warning.
    """
    if _is_denial(issue) and topic.refusals:
        return replace(topic, refusals=(*topic.refusals, issue))
    return replace(topic, notices=(*topic.notices, issue._replace(reason=Reason.POLICY_WARNING)))


def find_duplicate_names(policies: Sequence[Policy]) -> Iterator[Diagnostic]:
    """Yield the duplicate names of policies, and of the rules of each policy."""
    first: dict[tuple[str, str], Policy] = {}
    for policy in policies:
        earlier = first.setdefault((policy.namespace, policy.name), policy)
        if earlier is not policy:
            place, at = (source.locate(("metadata", "name")) for source in (policy.source, earlier.source))
            yield Diagnostic(place, f"Policy {policy.name}: there is one of this name at {at} already")
        names: dict[str, int] = {}
        for index, rule in enumerate(policy.rules):
            first_index = names.setdefault(rule.name, index)
            if first_index != index:
                place, at = (policy.rules[each].locate("name") for each in (index, first_index))
                yield Diagnostic(place, f"{rule.title}: there is one of this name at {at} already")


_MAX_SHOWN_CLUSTERS = 3

AnnotationLookup = Callable[[Manifest], Mapping[str, str]]
"""Returns ``metadata.annotations`` of a topic's document; called only if a rule uses annotations."""


class PolicyResult(NamedTuple):
    """The result of the policies of a run.

    ``errors`` and ``warnings`` are known before any connection is made; ``plan_filter`` is for the plans.
    """

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

    ``clusters`` are all clusters that the run knows, including those that its options exclude. With ``validate_only``
    no plan follows, so a denial is an error and a warning is a warning.
    """
    evaluator.evaluate(desired)
    diagnostics, warnings = [*evaluator.errors()], [*_unused_policy_warnings(policies, clusters)]
    if validate_only:
        diagnostics += evaluator.diagnostics(deny=True)
        warnings += evaluator.diagnostics(deny=False)
    return PolicyResult(diagnostics, warnings, evaluator.filter_plan)


class EvaluationErrors:
    """Rules that could not be evaluated, each with its topics and errors."""

    def __init__(self) -> None:
        self._errors_by_rule: dict[Rule, list[tuple[TopicSpec, RuleError]]] = defaultdict(list)

    def __contains__(self, rule: Rule) -> bool:
        return rule in self._errors_by_rule

    def add(self, rule: Rule, spec: TopicSpec, error: RuleError) -> None:
        self._errors_by_rule[rule].append((spec, error))

    def for_topic(self, topic: str) -> Iterator[tuple[Rule, RuleError]]:
        """Yield the rules that could not be evaluated for a topic."""
        for rule, errors in self._errors_by_rule.items():
            yield from ((rule, error) for spec, error in errors if spec.topic == topic)

    def errors(self) -> Iterator[Diagnostic]:
        """Yield one error for each rule, at the place of the rule.

        The message has the first topic and the number of further topics.
        """
        for rule, errors in self._errors_by_rule.items():
            spec, error = errors[0]
            more = f" and {format_count(len(errors) - 1, 'other topic')}" if len(errors) > 1 else ""
            on = _format_clusters([spec.cluster.name])
            message = f"cannot be judged for {spec.topic}{on}{more}: {error.message}"
            yield _make_diagnostic(rule, message, error.hint)


class PolicyEvaluator:
    """The compiled rules of a run, and their results for its topics.

    ``evaluation_errors`` has the rules about topics that could not be evaluated.
    """

    def __init__(
        self, policies: Sequence[Policy], annotations: AnnotationLookup, rule_evaluator: RuleEvaluator
    ) -> None:
        """Store the policies; ``rule_evaluator`` has their compiled rules."""
        self._policies = policies
        self._annotations = annotations
        self._rule_evaluator = rule_evaluator
        self.evaluation_errors = EvaluationErrors()
        self._issues: dict[str, dict[str, list[Issue]]] = defaultdict(lambda: defaultdict(list))
        self._violations: list[tuple[Rule, TopicSpec]] = []

    def evaluate(self, desired: Desired) -> None:
        """Evaluate every topic on every cluster.

        Topics that are to be deleted, or that have no size yet, are left out.
        """
        for name, specs in desired.specs.items():
            selection = _ApplicableRules(self._policies, desired.clusters[name], RuleSubject.TOPIC)
            shared = cel_variables.bind_cluster(desired.clusters[name])
            for spec in specs if selection else ():
                if not spec.absent and spec.create_partitions and spec.create_replication_factor:
                    self._evaluate_topic(spec, selection.for_topic(spec), shared)

    def _evaluate_topic(self, spec: TopicSpec, rules: Sequence[Rule], shared: policy_.CelBindings) -> None:
        facts = cel_variables.bind_topic(spec, shared, _needed_annotations(rules, spec, self._annotations))
        for rule, error in self._rule_evaluator.evaluate(rules, facts):
            if error:
                self.evaluation_errors.add(rule, spec, error)
                continue
            self._issues[spec.cluster.name][spec.topic].append(rule.make_issue(spec))
            self._violations.append((rule, spec))

    def errors(self) -> Iterator[Diagnostic]:
        """Yield the errors in the rules, each at the place of its rule."""
        yield from find_duplicate_names(self._policies)
        for rule, error in tuple(self._rule_evaluator.rule_errors.items()):
            if rule not in self.evaluation_errors:  # ``evaluation_errors`` reports these with the topic
                yield _make_diagnostic(rule, error.message, error.hint)
        yield from self.evaluation_errors.errors()

    def diagnostics(self, *, deny: bool) -> Iterator[Diagnostic]:
        """Yield the violations of rules about topics that deny, or that warn.

        Each violation is at the place of the field in the manifest, and is reported once for all clusters.
        """
        places: dict[tuple[Rule, Location, str], list[str]] = defaultdict(list)
        for rule, spec in self._violations:
            if rule.deny is deny:
                place = find_origin(spec, *rule.make_issue(spec).field).locate() or Location("the cluster's defaults")
                places[rule, place, spec.topic].append(spec.cluster.name)
        for (rule, place, topic), clusters in places.items():
            message = f"{topic}{_format_clusters(clusters)}: {rule.message} ({rule.title})"
            yield Diagnostic(place, message, f"the rule stands at {rule.locate()}", rule.reason.value)

    def filter_plan(self, plan: Plan) -> Plan:
        """Return the part of a plan that the rules allow.

        A topic without a spec comes from a saved plan and was evaluated when that plan was made. Raises
        ``InvalidManifests`` if a rule cannot be evaluated.
        """
        filtered, evaluation_errors = self.evaluate_plan(plan)
        if diagnostics := [*evaluation_errors.errors()]:
            raise InvalidManifests(diagnostics)
        return filtered

    def evaluate_plan(self, plan: Plan) -> tuple[Plan, EvaluationErrors]:
        """Return the allowed part of a plan, and the evaluation errors.

        The errors are those of rules about changes that could not be evaluated for a topic.
        """
        changes = _ChangeEvaluation(self._rule_evaluator, self._policies, self._annotations, plan)
        return deny_changes(plan, self._issues.get(plan.cluster, {}), changes.evaluate), changes.evaluation_errors


class _ChangeEvaluation:
    """The evaluation of the rules about changes for one plan."""

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
        """Yield an issue for each rule that a change violates."""
        spec = topic.spec
        rules = self._applicable_rules.for_topic(spec) if spec else ()
        if spec is None or not rules:
            return
        facts = cel_variables.bind_topic(
            spec, cel_variables.bind_cluster(spec.cluster), _needed_annotations(rules, spec, self._annotations)
        )
        for rule, error in self._rule_evaluator.evaluate(
            rules, {**facts, **cel_variables.bind_change(topic, change, self._broker_count)}
        ):
            if error:
                self.evaluation_errors.add(rule, spec, error)
            else:
                yield rule.make_issue(spec)


class _ApplicableRules:
    """The rules on one subject that apply to one cluster; false if empty."""

    def __init__(self, policies: Iterable[Policy], cluster: ClusterSpec, subject: RuleSubject) -> None:
        rules = {policy: [rule for rule in policy.rules if rule.subject is subject] for policy in policies}
        self._rules_by_policy = {
            policy: subject_rules
            for policy, subject_rules in rules.items()
            if subject_rules and policy.applies_to_cluster(cluster)
        }

    def __bool__(self) -> bool:
        return bool(self._rules_by_policy)

    def for_topic(self, spec: TopicSpec) -> Sequence[Rule]:
        """Return the rules that apply to this topic."""
        return [
            rule for policy, rules in self._rules_by_policy.items() if policy.applies_to_topic(spec) for rule in rules
        ]


def _needed_annotations(rules: Iterable[Rule], spec: TopicSpec, annotations: AnnotationLookup) -> Mapping[str, str]:
    """Return the annotations of a topic's document; empty if no rule uses them."""
    is_needed = any("annotations" in rule.expression for rule in rules)
    return annotations(spec.manifest) if is_needed else {}


def _unused_policy_warnings(policies: Iterable[Policy], clusters: Mapping[str, ClusterSpec]) -> Iterator[Diagnostic]:
    """Yield a warning for each policy that selects no existing cluster.

    The author of such a policy assumes that it protects something.
    """
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
    """Return an error in a rule, at the start of its expression."""
    return Diagnostic(rule.locate("expression"), f"{rule.title}: {message}", hint)


def _format_clusters(clusters: Sequence[str]) -> str:
    """Return the cluster names as text, shortened if there are many.

    The result is empty for a cluster without a name.
    """
    names = sorted(filter(None, set(clusters)))
    shown, more = names[:_MAX_SHOWN_CLUSTERS], names[_MAX_SHOWN_CLUSTERS:]
    rest = f" and {format_count(len(more), 'other cluster')}" if more else ""
    return f" on {', '.join(shown)}{rest}" if names else ""
