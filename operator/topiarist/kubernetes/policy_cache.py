"""The policies of the operator: compiled once, judged by in every pass, and never passed by because they are broken.

A rule that cannot be judged holds back what it is for and nothing else: the topics that its Policy selects, or the one
topic for which it fails. A rule that only warns holds nothing back. A Policy that cannot be read holds back every
change, since its selector is not known. ``judging`` does the same for one run of the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from topiarist.desired.resolve import Desired
from topiarist.errors import Diagnostic, Reason
from topiarist.filters.permissions import PlanFilter, filter_changes, keep_all
from topiarist.filters.policies import EvaluationErrors, PolicyEvaluator
from topiarist.kubernetes.api.resources import manifest_annotations
from topiarist.kubernetes.candidates import Candidate
from topiarist.model.plan import Issue, Plan, TopicPlan
from topiarist.model.policy import Policy, Rule, RuleError
from topiarist.model.spec import ClusterSpec
from topiarist.ports import RuleEvaluator

_HINT_FIX_POLICY = "correct or delete the Policy: until then nothing is changed that it might deny"


class PolicyCache:
    """What the policies leave of plans. ``faults`` says of each cluster what was wrong with rules in its last pass."""

    def __init__(self) -> None:
        self.rule_errors: dict[str, Sequence[str]] = {}
        self._evaluator: tuple[Sequence[Policy], RuleEvaluator] | None = None

    def build_filter(
        self, policies: Sequence[Policy], unreadable: Sequence[str], spec: ClusterSpec, found: Sequence[Candidate]
    ) -> PlanFilter:
        """The guard of one pass. ``unreadable`` names the Policies that cannot be read; ``found`` are its Topics."""
        guard = self._build_rule_filter(policies, spec, found)
        return _withhold_all(f"Policy {unreadable[0]} cannot be read") if unreadable else guard

    def check_rules(self, policies: Sequence[Policy]) -> Sequence[str]:
        """Return what is wrong with rules as they stand, whether there is a Cluster that they are for or not."""
        return (
            _format_diagnostics(PolicyEvaluator(policies, manifest_annotations, self._compile_rules(policies)).errors())
            if policies
            else []
        )

    def _compile_rules(self, policies: Sequence[Policy]) -> RuleEvaluator:
        known = self._evaluator  # other threads judge too
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
        court = self._compile_rules(policies)
        bench = PolicyEvaluator(policies, manifest_annotations, court)
        specs = tuple(each.spec for each in found if not each.refusals)
        bench.evaluate(Desired({spec.name: specs}, {spec.name: spec}))
        mine = [policy for policy in policies if policy.applies_to_cluster(spec)]
        self._record_errors(spec, bench.errors())

        def judged(plan: Plan) -> Plan:
            left, late = bench.evaluate_plan(plan)
            self._record_errors(spec, [*bench.errors(), *late.errors()])  # another pass may have given a rule up
            return filter_changes(
                left, lambda topic, _: _failed_rule_issue(topic, mine, court, (bench.evaluation_errors, late))
            )

        return judged

    def _record_errors(self, spec: ClusterSpec, found: Iterable[Diagnostic]) -> None:
        self.rule_errors[spec.name] = broken = _format_diagnostics(found)
        if broken:
            self._evaluator = None  # one that has given a rule up would pass it by from now on


def _failed_rule_issue(
    topic: TopicPlan, policies: Sequence[Policy], evaluator: RuleEvaluator, faults: Sequence[EvaluationErrors]
) -> Issue | None:
    """Return why a topic is held back, if a rule that might deny its changes cannot be judged."""
    for rule, fault in _failed_rules(topic, policies, evaluator, faults):
        if rule.deny:
            why = f"{rule.title}: cannot be judged: {fault.message}"
            return Issue(Reason.POLICY_DENIED, why, hint=_HINT_FIX_POLICY)
    return None


def _failed_rules(
    topic: TopicPlan, policies: Sequence[Policy], evaluator: RuleEvaluator, faults: Sequence[EvaluationErrors]
) -> Iterator[tuple[Rule, RuleError]]:
    for policy in policies:
        if topic.spec is None or policy.applies_to_topic(topic.spec):
            yield from ((rule, evaluator.rule_errors[rule]) for rule in policy.rules if rule in evaluator.rule_errors)
    for found in faults:
        yield from found.for_topic(topic.topic)


def errors_of_policy(name: str, errors: Iterable[str]) -> list[str]:
    """Those of ``errors`` that are about rules of this Policy."""
    return [fault for fault in errors if fault.startswith(f"policy {name}, ")]


def _withhold_all(message: str) -> PlanFilter:
    found = Issue(Reason.INVALID_MANIFEST, message, hint="correct or delete the Policy: until then nothing is changed")
    return lambda plan: filter_changes(plan, lambda topic, change: found)


def _format_diagnostics(diagnostics: Iterable[Diagnostic]) -> list[str]:
    return [f"{fault.message}: {fault.hint}" if fault.hint else fault.message for fault in diagnostics]
