"""The policies of the operator: compiled once, and applied as a filter in each reconciliation.

``cluster_worker`` calls ``build_filter``; ``manager`` calls ``check_rules`` for the statuses of Policies. Errors in
policies never bypass them. A rule that cannot be evaluated withholds the changes of the topics that its Policy selects,
or of the one topic for which the evaluation fails. A rule that only warns withholds nothing. A Policy that cannot be
read withholds every change, because its selector is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from topiarist.desired.resolve import Desired
from topiarist.errors import Diagnostic, Reason
from topiarist.filters.chain import PlanFilter, filter_changes, keep_all
from topiarist.filters.limits import LimitFilter
from topiarist.filters.policies import EvaluationErrors, PolicyEvaluator
from topiarist.kubernetes.api.resources import manifest_annotations
from topiarist.kubernetes.candidates import Candidate
from topiarist.model.plan import Issue, Plan, TopicPlan
from topiarist.model.policy import Policy, Rule, RuleError
from topiarist.model.spec import ClusterSpec
from topiarist.ports import RuleEvaluator

_HINT_FIX_POLICY = "correct or delete the Policy: until then nothing is changed that it might deny"


def build_limits(policies: Sequence[Policy], spec: ClusterSpec, found: Sequence[Candidate]) -> LimitFilter:
    """Return the limits of one reconciliation; topics that are refused for now count too."""
    return LimitFilter(policies, Desired({spec.name: tuple(each.spec for each in found)}, {spec.name: spec}))


class PolicyCache:
    """A cache of compiled policy rules that builds the policy filter of each reconciliation.

    ``rule_errors`` has the rule errors of the last reconciliation by cluster.
    """

    def __init__(self) -> None:
        self.rule_errors: dict[str, Sequence[str]] = {}
        self._evaluator: tuple[Sequence[Policy], RuleEvaluator] | None = None

    def build_filter(
        self, policies: Sequence[Policy], unreadable: Sequence[str], spec: ClusterSpec, found: Sequence[Candidate]
    ) -> PlanFilter:
        """Return the policy filter of one reconciliation.

        ``unreadable`` names the Policies that cannot be read. ``found`` are the candidates of the cluster.
        """
        rule_filter = self._build_rule_filter(policies, spec, found)
        if not unreadable:
            return rule_filter
        message, hint = (
            f"Policy {unreadable[0]} cannot be read",
            "correct or delete the Policy: until then nothing is changed",
        )
        issue = Issue(Reason.INVALID_MANIFEST, message, hint=hint)
        return lambda plan: filter_changes(plan, lambda topic, change: issue)

    def check_rules(self, policies: Sequence[Policy]) -> Sequence[str]:
        """Return the errors in the rules of all policies, including those that apply to no Cluster."""
        return (
            _format_diagnostics(PolicyEvaluator(policies, manifest_annotations, self._compile_rules(policies)).errors())
            if policies
            else []
        )

    def _compile_rules(self, policies: Sequence[Policy]) -> RuleEvaluator:
        known = self._evaluator  # read once: other threads may replace it
        if known is None or known[0] != policies:
            # The CEL library takes 40 ms to load: an operator without policies does without it.
            from topiarist.adapters import cel

            self._evaluator = known = (
                policies,
                cel.CelRuleEvaluator(rule for policy in policies for rule in policy.rules),
            )
        return known[1]

    def _build_rule_filter(
        self, policies: Sequence[Policy], spec: ClusterSpec, found: Sequence[Candidate]
    ) -> PlanFilter:
        if not policies:
            self.rule_errors.pop(spec.name, None)
            return keep_all
        rules = self._compile_rules(policies)
        evaluator = PolicyEvaluator(policies, manifest_annotations, rules)
        specs = tuple(each.spec for each in found if not each.refusals)
        evaluator.evaluate(Desired({spec.name: specs}, {spec.name: spec}))
        of_cluster = [policy for policy in policies if policy.applies_to_cluster(spec)]
        self._record_errors(spec, evaluator.errors())

        def filter_plan(plan: Plan) -> Plan:
            left, late = evaluator.evaluate_plan(plan)
            # Record again: evaluation, or another thread that shares the rules, may have disabled a rule meanwhile.
            self._record_errors(spec, [*evaluator.errors(), *late.errors()])
            errors = evaluator.evaluation_errors, late
            return filter_changes(left, lambda topic, _: _failed_rule_issue(topic, of_cluster, rules, errors))

        return filter_plan

    def _record_errors(self, spec: ClusterSpec, found: Iterable[Diagnostic]) -> None:
        self.rule_errors[spec.name] = broken = _format_diagnostics(found)
        if broken:
            self._evaluator = None  # compile again next time: this evaluator skips the rules that it has disabled


def _failed_rule_issue(
    topic: TopicPlan, policies: Sequence[Policy], rules: RuleEvaluator, errors: Sequence[EvaluationErrors]
) -> Issue | None:
    """Return a refusal for a topic with a deny rule that cannot be evaluated; None if there is no such rule."""
    for rule, error in _failed_rules(topic, policies, rules, errors):
        if rule.deny:
            why = f"{rule.title}: cannot be judged: {error.message}"
            return Issue(Reason.POLICY_DENIED, why, hint=_HINT_FIX_POLICY)
    return None


def _failed_rules(
    topic: TopicPlan, policies: Sequence[Policy], rules: RuleEvaluator, errors: Sequence[EvaluationErrors]
) -> Iterator[tuple[Rule, RuleError]]:
    for policy in policies:
        if topic.spec is None or policy.applies_to_topic(topic.spec):
            yield from ((rule, rules.rule_errors[rule]) for rule in policy.rules if rule in rules.rule_errors)
    for found in errors:
        yield from found.for_topic(topic.topic)


def errors_of_policy(name: str, errors: Iterable[str]) -> list[str]:
    """Return the ``errors`` that are about rules of this Policy."""
    return [fault for fault in errors if fault.startswith(f"policy {name}, ")]


def _format_diagnostics(diagnostics: Iterable[Diagnostic]) -> list[str]:
    return [f"{fault.message}: {fault.hint}" if fault.hint else fault.message for fault in diagnostics]
