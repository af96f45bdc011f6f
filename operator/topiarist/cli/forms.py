"""What the forms of ``apply`` have in common, and the plainest of them: from manifests.

A form says which clusters there are, what is to be done on them as far as the run allows it, and how it is carried out;
``apply`` shows, asks and reports. The others are in ``reviewed`` and ``kept``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from topiarist.cli import guards, inputs
from topiarist.cli.fleet import Fleet
from topiarist.core.change import Plan
from topiarist.core.policy import allow_risk
from topiarist.core.spec import ClusterSpec
from topiarist.reconcile import Cluster, Hooks, Report, carry_out
from topiarist.settings import Settings


class Form(Protocol):
    """A form of ``apply``. ``name`` and ``fingerprint`` (of a plan's file) are for the report.

    ``remarks`` are what the plans by themselves do not show, once there are plans.
    """

    name: str
    fingerprint: str | None
    remarks: list[str]
    clusters: Mapping[str, ClusterSpec]

    @property
    def asks(self) -> bool:
        """Whether anything could be sent, so that there is something to ask a person."""

    def plans(self, fleet: Fleet) -> list[Plan]:
        """What is to be done on each cluster that can be read, without what the run does not allow."""

    def confirmed(self, fleet: Fleet, plans: list[Plan]) -> list[Plan]:
        """The plans once a person has answered for them, which takes time."""

    def carry_out(self, cluster: Cluster, plan: Plan, hooks: Hooks) -> Report:
        """Carry out one of the plans."""


class Manifests:
    """Plan and do it: with ``unasked`` only what the run allows by flags."""

    name = "manifests"
    fingerprint: str | None = None

    def __init__(self, settings: Settings, unasked: bool) -> None:
        self.settings = settings
        self.unasked = unasked
        self.desired = inputs.load(settings)
        self.clusters = self.desired.wanted
        self.remarks: list[str] = []

    @property
    def asks(self) -> bool:
        """Always."""
        return True

    def plans(self, fleet: Fleet) -> list[Plan]:
        """As they are planned now."""
        return [self.allow(plan) for plan in fleet.survey(self.desired, self.settings.run)]

    def allow(self, plan: Plan) -> Plan:
        """What of a plan may be done."""
        return guards.allowed(plan, self.desired, self.settings, permit=self.permit)

    def permit(self, plan: Plan) -> Plan:
        """What of a plan may be done without asking anybody else, as far as it may lose data."""
        return allow_risk(plan, self.settings.allow_risk) if self.unasked else plan

    def confirmed(self, fleet: Fleet, plans: list[Plan]) -> list[Plan]:
        """The same: what moved since they were shown is found when it is written."""
        return plans

    def carry_out(self, cluster: Cluster, plan: Plan, hooks: Hooks) -> Report:
        """What was shown, and nothing else."""
        return carry_out(cluster, hooks, plan)
