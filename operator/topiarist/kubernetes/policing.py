"""The policies of the operator: compiled once, judged by in every pass, and never passed by because they are broken.

A Policy that cannot be read, or whose rule cannot be judged, holds back every change that it might have denied. What is
wrong with it stands in its status. ``judging`` does the same for one run of the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from topiarist.core.change import Finding, Plan
from topiarist.core.guardrails import Policy
from topiarist.core.policy import restrict
from topiarist.core.spec import ClusterSpec
from topiarist.desired import Desired
from topiarist.errors import Complaint, InvalidManifests, Reason
from topiarist.judging import Bench, compiled
from topiarist.kubernetes.candidates import Candidate
from topiarist.kubernetes.resources import annotations_of

if TYPE_CHECKING:
    from topiarist.adapters.cel import Court

Guard = Callable[[Plan], Plan]


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
        return _hold(f"Policy {unreadable[0]} cannot be read") if unreadable else guard

    def _guard(self, policies: Sequence[Policy], spec: ClusterSpec, found: Sequence[Candidate]) -> Guard:
        if not policies:
            self.faults.pop(spec.name, None)
            return lambda plan: plan
        known = self._court  # other threads judge too
        if known is None or known[0] != policies:
            self._court = known = policies, compiled(policies)
        bench = Bench(policies, annotations_of, known[1])
        specs = tuple(each.spec for each in found if not each.objections)
        bench.judge(Desired({spec.name: specs}, {spec.name: spec}))
        mine = [policy for policy in policies if policy.means(spec)]

        def judged(plan: Plan) -> Plan:
            if held := self._broken(mine, spec, bench.complaints()):
                return held(plan)
            try:
                left = bench.guard(plan)
            except InvalidManifests as error:
                late: Iterable[Complaint] = error.complaints
            else:
                late = bench.complaints()  # another cluster's pass may have given a rule up meanwhile
            held = self._broken(mine, spec, late)
            return held(plan) if held else left

        self._broken(mine, spec, bench.complaints())
        return judged

    def _broken(self, mine: Sequence[Policy], spec: ClusterSpec, found: Iterable[Complaint]) -> Guard | None:
        """What to do with a plan because of rules that cannot be judged; None if there are none for this cluster."""
        self.faults[spec.name] = broken = [_said(fault.message, fault.hint) for fault in found]
        if broken:
            self._court = None  # one that has given a rule up would pass it by from now on
        wrong = [fault for policy in mine for fault in of_policy(policy.name, broken)]
        return _hold(wrong[0]) if wrong else None


def of_policy(name: str, faults: Sequence[str]) -> list[str]:
    """Those of ``faults`` that are about rules of this Policy."""
    return [fault for fault in faults if fault.startswith(f"policy {name}, ")]


def _hold(why: str) -> Guard:
    found = Finding(Reason.INVALID_MANIFEST, why, instead="mend or delete the Policy: until then nothing is changed")
    return lambda plan: restrict(plan, lambda topic, change: found)


def _said(message: str, hint: str) -> str:
    return f"{message}: {hint}" if hint else message
