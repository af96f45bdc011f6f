"""The policies of the operator: compiled once, judged by in every pass, and never passed by because they are broken.

A rule that cannot be judged holds back what it is for and nothing else: the topics that its Policy selects, or the one
topic for which it fails. A rule that only warns holds nothing back. A Policy that cannot be read holds back every
change, since its selector is not known. ``judging`` does the same for one run of the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from topiarist.core.change import Finding, Plan, TopicPlan
from topiarist.core.guardrails import Policy, Rule
from topiarist.core.policy import restrict
from topiarist.core.spec import ClusterSpec
from topiarist.desired import Desired
from topiarist.errors import Complaint, Reason
from topiarist.judging import Bench, Faults, compiled
from topiarist.kubernetes.candidates import Candidate
from topiarist.kubernetes.resources import annotations_of

if TYPE_CHECKING:
    from topiarist.adapters.cel import Court, Fault

Guard = Callable[[Plan], Plan]

_INSTEAD = "correct or delete the Policy: until then nothing is changed that it might deny"


class Policing:
    """What the policies leave of plans. ``faults`` says of each cluster what was wrong with rules in its last pass."""

    def __init__(self) -> None:
        self.faults: dict[str, Sequence[str]] = {}
        self._court: tuple[Sequence[Policy], Court] | None = None

    def guard(
        self, policies: Sequence[Policy], unreadable: Sequence[str], spec: ClusterSpec, found: Sequence[Candidate]
    ) -> Guard:
        """The guard of one pass. ``unreadable`` names the Policies that cannot be read; ``found`` are its Topics."""
        guard = self._guard(policies, spec, found)
        return _hold_all(f"Policy {unreadable[0]} cannot be read") if unreadable else guard

    def check(self, policies: Sequence[Policy]) -> Sequence[str]:
        """Return what is wrong with rules as they stand, whether there is a Cluster that they are for or not."""
        return _texts(Bench(policies, annotations_of, self._compiled(policies)).complaints()) if policies else []

    def _compiled(self, policies: Sequence[Policy]) -> Court:
        known = self._court  # other threads judge too
        if known is None or known[0] != policies:
            self._court = known = policies, compiled(policies)
        return known[1]

    def _guard(self, policies: Sequence[Policy], spec: ClusterSpec, found: Sequence[Candidate]) -> Guard:
        if not policies:
            self.faults.pop(spec.name, None)
            return lambda plan: plan
        court = self._compiled(policies)
        bench = Bench(policies, annotations_of, court)
        specs = tuple(each.spec for each in found if not each.objections)
        bench.judge(Desired({spec.name: specs}, {spec.name: spec}))
        mine = [policy for policy in policies if policy.means(spec)]
        self._note(spec, bench.complaints())

        def judged(plan: Plan) -> Plan:
            left, late = bench.judged(plan)
            self._note(spec, [*bench.complaints(), *late.complaints()])  # another pass may have given a rule up
            return restrict(left, lambda topic, _: _held(topic, mine, court, (bench.faults, late)))

        return judged

    def _note(self, spec: ClusterSpec, found: Iterable[Complaint]) -> None:
        self.faults[spec.name] = broken = _texts(found)
        if broken:
            self._court = None  # one that has given a rule up would pass it by from now on


def _held(topic: TopicPlan, policies: Sequence[Policy], court: Court, faults: Sequence[Faults]) -> Finding | None:
    """Return why a topic is held back, if a rule that might deny its changes cannot be judged."""
    for rule, fault in _broken(topic, policies, court, faults):
        if rule.deny:
            why = f"{rule.title}: cannot be judged: {fault.message}"
            return Finding(Reason.POLICY_DENIED, why, instead=_INSTEAD)
    return None


def _broken(
    topic: TopicPlan, policies: Sequence[Policy], court: Court, faults: Sequence[Faults]
) -> Iterator[tuple[Rule, Fault]]:
    for policy in policies:
        if topic.spec is None or policy.covers(topic.spec):
            yield from ((rule, court.faults[rule]) for rule in policy.rules if rule in court.faults)
    for found in faults:
        yield from found.of(topic.topic)


def of_policy(name: str, faults: Iterable[str]) -> list[str]:
    """Those of ``faults`` that are about rules of this Policy."""
    return [fault for fault in faults if fault.startswith(f"policy {name}, ")]


def _hold_all(why: str) -> Guard:
    found = Finding(Reason.INVALID_MANIFEST, why, instead="correct or delete the Policy: until then nothing is changed")
    return lambda plan: restrict(plan, lambda topic, change: found)


def _texts(found: Iterable[Complaint]) -> list[str]:
    return [f"{fault.message}: {fault.hint}" if fault.hint else fault.message for fault in found]
