"""Evaluates the policies of a run, and withholds the changes that policies deny.

The rules are those of platform owners; ``desired.parse`` makes the ``Policy`` values, and an adapter evaluates their
expressions. Rules about topics are evaluated before any connection is made, rules about changes when a plan is
filtered. An error in a rule ends every command except ``render``. A denial ends ``validate``; in a plan it becomes a
refusal. A policy never adds a change. ``runs.inputs`` and the operator's ``policy_cache`` call this module.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from topiarist.desired.parse import limit_errors
from topiarist.desired.resolve import Desired
from topiarist.errors import Diagnostic, InvalidManifests, Location, Reason
from topiarist.filters.chain import PolicyResult
from topiarist.kafka.types import format_version
from topiarist.model.moves import MoveKind
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    Issue,
    MoveReplicas,
    Plan,
    Risk,
    TopicPlan,
    UpdateConfig,
    config_after,
    withhold,
)
from topiarist.model.policy import CelBindings, Policy, Rule, RuleError, RuleSubject
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec, find_origin
from topiarist.model.usage import DAY_S, TopicSample, TopicUsage
from topiarist.ports import RuleEvaluator
from topiarist.schema.check import did_you_mean
from topiarist.text import format_count, list_first
from topiarist.usage import estimate_copied_bytes, estimate_cut

# Binds the variables that the expression of a policy rule can use to their values.
#
# ``policies`` calls the functions for each topic and each change. ``model.policy`` declares the names and types of the
# variables; a name that is not declared there does not compile.


class UsageAt(Struct, frozen=True):
    """The usage of a topic, and the time of its read."""

    usage: TopicUsage
    read_at: int


_NO_TOPIC: CelBindings = {"partitions": 0, "replicationFactor": 0, "config": {}}


def bind_cluster(cluster: ClusterSpec) -> CelBindings:
    """Return the variables that all topics of a cluster share."""
    return {
        "cluster.name": cluster.name,
        "cluster.labels": cluster.labels,
        "cluster.kafkaVersion": format_version(cluster.version) if cluster.version else "",
    }


def bind_topic(spec: TopicSpec, cluster_bindings: CelBindings, annotations: Mapping[str, str]) -> CelBindings:
    """Return the variables of a topic.

    ``cluster_bindings`` is the result of ``bind_cluster`` for the topic's cluster. ``annotations`` are those of the
    topic's document; a ``Manifest`` does not have them.
    """
    manifest = spec.manifest
    return {
        "topic.name": spec.topic,
        "topic.document": manifest.name,
        "topic.namespace": manifest.namespace,
        "topic.labels": spec.labels,
        "topic.annotations": annotations,
        "topic.partitions": spec.create_partitions,
        "topic.replicationFactor": spec.create_replication_factor,
        "topic.config": spec.config,
        "topic.observed": spec.observe_only,
        "topic.profiles": list(manifest.spec.get("profiles", ())),
        "topic.coPartitionGroup": spec.co_partition_group,
        "topic.keyed": spec.keyed,
        **cluster_bindings,
    }


def bind_change(plan: TopicPlan, change: Change, broker_count: int, usage: UsageAt | None = None) -> CelBindings:
    """Return the variables of a change, without those of its topic.

    ``broker_count`` is the number of registered brokers, ``usage`` the usage of the topic with the time of its read.
    """
    topic, before, keys = plan.before, _NO_TOPIC, list[str]()
    if topic:
        factor = len(topic.replicas[0]) if topic.replicas else 0
        before = {"partitions": len(topic.replicas), "replicationFactor": factor, "config": topic.config}
    after = before
    match change:
        case CreateTopic(replicas, config):
            after = {"partitions": len(replicas), "replicationFactor": len(replicas[0]), "config": config}
            keys = sorted(config)
        case AddPartitions():
            after = {**before, "partitions": change.total}
        case MoveReplicas(moves):
            first = moves[0]
            after = {**before, "replicationFactor": len(first.after)} if first.partition == 0 else before
        case UpdateConfig(items):
            after = {**before, "config": config_after(topic.config if topic else {}, (change,))}
            keys = [item.key for item in items]
        case DeleteTopic():
            after = _NO_TOPIC
    moves = change.moves if isinstance(change, MoveReplicas) else ()
    return {
        "cluster.brokers": broker_count,
        "change.kind": type(change).__name__,
        "change.risk": change.assessment.risk.label,
        "change.explanation": change.assessment.explanation,
        "change.keys": keys,
        "change.copies": sum(len(move.added) for move in moves),
        "change.movedPartitions": len(moves),
        "change.reasons": [kind.value for kind in MoveKind if any(kind in move.kinds for move in moves)],
        **{f"change.before.{name}": value for name, value in before.items()},
        **{f"change.after.{name}": value for name, value in after.items()},
        "change.bytesLost": _bytes_lost(change, usage),
        "change.bytesCopied": _bytes_copied(change, usage),
        **_bind_usage(usage),
    }


def _bind_usage(usage: UsageAt | None) -> CelBindings:
    """Return the variables of usage; numbers that are not known are -1, since a missing one would end the rule."""
    found = usage.usage if usage else TopicUsage(TopicSample())
    at = usage.read_at if usage else 0
    sides = (found.written, found.read)
    since = [side.observed_since for side in sides if side.observed_since is not None]
    ends, begins = found.sample.ends, found.sample.begins
    return {
        "topic.usage.known": usage is not None,
        "topic.usage.written": found.written.state.value,
        "topic.usage.read": found.read.state.value,
        "topic.usage.readers": found.sample.member_count,
        "topic.usage.groups": found.sample.committing_groups,
        "topic.usage.daysSinceWritten": _days(found.written.before, at),
        "topic.usage.daysSinceRead": _days(found.read.before, at),
        "topic.usage.daysObserved": _days(max(since), at) if len(since) == len(sides) else -1,
        "topic.usage.bytes": _or_unknown(found.sample.size),
        "topic.usage.bytesPerDay": _or_unknown(found.bytes_per_day),
        "topic.usage.empty": bool(ends) and None not in ends and ends == begins,
    }


def _bytes_lost(change: Change, usage: UsageAt | None) -> int:
    match change:
        case DeleteTopic():
            return _or_unknown(usage.usage.sample.size if usage else None)
        case UpdateConfig(items):
            # The segment size matters for the lower bounds only.
            bounds = [estimate_cut(item, usage.usage, usage.read_at, None) for item in items] if usage else []
            if any(item.assessment.risk is Risk.DATA_LOSS for item in items):
                known = [each.high for each in bounds if each]
                return max(known) if known else -1
    return 0


def _bytes_copied(change: Change, usage: UsageAt | None) -> int:
    if not isinstance(change, MoveReplicas) or not change.copies:
        return 0
    return _or_unknown(estimate_copied_bytes(change.moves, usage.usage.sample) if usage else None)


def _days(time: int | None, at: int) -> int:
    return -1 if time is None else max(at - time, 0) // DAY_S


def _or_unknown(number: int | None) -> int:
    return -1 if number is None else number


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
    topics = []
    for topic in plan.topics:
        # Evaluated before any change is withheld, so that every rule sees the whole topic plan.
        change_issues = [
            (change, issue)
            for change in topic.changes
            if topic.is_actionable
            for issue in find_change_issues(topic, change)
        ]
        for issue in topic_issues.get(topic.topic, ()):
            topic = _apply_issue(topic, topic.changes if topic.is_actionable else (), issue)
        for change, issue in change_issues:
            topic = _apply_issue(topic, (change,) if change in topic.changes else (), issue)
        topics.append(topic)
    count = len(topic_issues.keys() - {topic.topic for topic in plan.topics})
    warning = f"policies are violated by {format_count(count, 'topic')} without changes: topiarist validate lists them"
    return replace(plan, topics=tuple(topics), warnings=(*plan.warnings, warning) if count else plan.warnings)


def _apply_issue(topic: TopicPlan, changes: Sequence[Change], issue: Issue) -> TopicPlan:
    """Return the topic without ``changes`` if the issue denies them; otherwise with the issue added.

    A denial without changes is added as a refusal if the topic has other refusals, else as a warning.
    """
    if issue.reason is Reason.POLICY_DENIED and changes:
        return withhold(topic, changes, issue)
    if issue.reason is Reason.POLICY_DENIED and topic.refusals:
        return replace(topic, refusals=(*topic.refusals, issue))
    return replace(topic, notices=(*topic.notices, issue._replace(reason=Reason.POLICY_WARNING)))


def find_duplicate_names(policies: Sequence[Policy]) -> Iterator[Diagnostic]:
    """Yield the duplicate names of policies, and the errors in the names of their rules and limits."""
    first: dict[tuple[str, str], Policy] = {}
    for policy in policies:
        earlier = first.setdefault((policy.namespace, policy.name), policy)
        if earlier is not policy:
            here, there = (each.source.locate(("metadata", "name")) for each in (policy, earlier))
            yield Diagnostic(here, f"Policy {policy.name}: duplicate name, declared at {there} already")
        yield from limit_errors(policy.limits)
        first_rules: dict[str, Rule] = {}
        for rule in policy.rules:
            earlier_rule = first_rules.setdefault(rule.name, rule)
            if earlier_rule is not rule:
                message = f"{rule.title}: duplicate name, declared at {earlier_rule.locate('name')} already"
                yield Diagnostic(rule.locate("name"), message)


_MAX_SHOWN_CLUSTERS = 3

AnnotationLookup = Callable[[Manifest], Mapping[str, str]]
"""Returns ``metadata.annotations`` of a topic's document; called only if a rule uses annotations."""


def evaluate_policies(
    desired: Desired,
    policies: Sequence[Policy],
    clusters: Mapping[str, ClusterSpec],
    evaluator: PolicyEvaluator,
    *,
    validate_only: bool,
    invalid_clusters: Collection[str] = (),
) -> PolicyResult:
    """Evaluate the rules about topics for every topic of ``desired``.

    ``clusters`` are all clusters that the run knows, including those that its options exclude. Beside
    ``invalid_clusters`` no policy is called unused: it may be for one of them. With ``validate_only``
    no plan follows, so a denial is an error and a warning is a warning.
    """
    evaluator.evaluate(desired)
    diagnostics = [*evaluator.errors()]
    warnings = [] if invalid_clusters else [*_unused_policy_warnings(policies, clusters)]
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
            message = f"cannot be evaluated for {spec.topic}{on}{more}: {error.message}"
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
            selection = _select_rules(self._policies, desired.clusters[name], RuleSubject.TOPIC)
            shared = bind_cluster(desired.clusters[name])
            for spec in specs if selection else ():
                if not spec.absent and spec.create_partitions and spec.create_replication_factor:
                    self._evaluate_topic(spec, _rules_for_topic(selection, spec), shared)

    def _evaluate_topic(self, spec: TopicSpec, rules: Sequence[Rule], shared: CelBindings) -> None:
        for rule, error in self._rule_evaluator.evaluate(rules, self._bind_topic(spec, rules, shared)):
            if error:
                self.evaluation_errors.add(rule, spec, error)
                continue
            self._issues[spec.cluster.name][spec.topic].append(rule.make_issue(spec))
            self._violations.append((rule, spec))

    def _bind_topic(self, spec: TopicSpec, rules: Sequence[Rule], shared: CelBindings) -> CelBindings:
        # ``Manifest`` has no annotations: they are looked up in the document, and only for rules that use them.
        needs_annotations = any("annotations" in rule.expression for rule in rules)
        annotations = self._annotations(spec.manifest) if needs_annotations else {}
        return bind_topic(spec, shared, annotations)

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
            yield Diagnostic(place, message, f"the rule is at {rule.locate()}", rule.reason.value)

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
        errors = EvaluationErrors()
        # A saved plan has no specs, and its changes were evaluated when it was made.
        clusters = [topic.spec.cluster for topic in plan.topics if topic.spec]
        selection = _select_rules(self._policies, clusters[0] if clusters else ClusterSpec(), RuleSubject.CHANGE)

        def find_change_issues(topic: TopicPlan, change: Change) -> Iterator[Issue]:
            spec = topic.spec
            if spec is None or not (rules := _rules_for_topic(selection, spec)):
                return
            topic_bindings = self._bind_topic(spec, rules, bind_cluster(spec.cluster))
            usage = plan.usage.get(topic.topic)
            known = UsageAt(usage, plan.evidence.read_at) if usage and plan.evidence else None
            change_bindings = bind_change(topic, change, len(plan.brokers), known)
            for rule, error in self._rule_evaluator.evaluate(rules, {**topic_bindings, **change_bindings}):
                if error:
                    errors.add(rule, spec, error)
                else:
                    yield rule.make_issue(spec)

        return deny_changes(plan, self._issues.get(plan.cluster, {}), find_change_issues), errors


RuleSelection = Sequence[tuple[Policy, Sequence[Rule]]]
"""The rules on one subject that apply to one cluster, by policy."""


def _select_rules(policies: Iterable[Policy], cluster: ClusterSpec, subject: RuleSubject) -> RuleSelection:
    on_subject = ((policy, [rule for rule in policy.rules if rule.subject is subject]) for policy in policies)
    return [(policy, rules) for policy, rules in on_subject if rules and policy.applies_to_cluster(cluster)]


def _rules_for_topic(selection: RuleSelection, spec: TopicSpec) -> Sequence[Rule]:
    return [rule for policy, rules in selection if policy.applies_to_topic(spec) for rule in rules]


def _unused_policy_warnings(policies: Iterable[Policy], clusters: Mapping[str, ClusterSpec]) -> Iterator[Diagnostic]:
    # The author of a policy that selects no cluster assumes that it protects something.
    for policy in policies:
        for index, name in enumerate(policy.cluster_names):
            if name not in clusters:
                place = policy.source.locate(("spec", "selector", "clusters", index))
                message = f"policy {policy.name}: there is no Cluster {name}, so the policy does not apply there"
                yield Diagnostic(place, message, did_you_mean(name, clusters))
        if policy.cluster_labels and not any(map(policy.applies_to_cluster, clusters.values())):
            place = policy.source.locate(("spec", "selector", "clusterSelector"))
            yield Diagnostic(place, f"policy {policy.name}: no Cluster has these labels, so the policy has no effect")


def _make_diagnostic(rule: Rule, message: str, hint: str) -> Diagnostic:
    return Diagnostic(rule.locate("expression"), f"{rule.title}: {message}", hint)


def _format_clusters(clusters: Sequence[str]) -> str:
    names = sorted(filter(None, set(clusters)))
    return f" on {list_first(names, _MAX_SHOWN_CLUSTERS, 'other cluster')}" if names else ""
