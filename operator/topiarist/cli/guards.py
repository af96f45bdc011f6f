"""What a run may do of a plan: policies, then the permission for what may lose data, then the cluster's budgets.

Each takes a plan and gives one with less in it. ``plan`` shows what they leave, ``apply`` carries that out.
"""

from __future__ import annotations

from collections.abc import Callable

from topiarist.core.change import Plan
from topiarist.core.spending import within_budgets
from topiarist.desired import Desired
from topiarist.settings import Settings

Permit = Callable[[Plan], Plan]
"""What of a plan may be done although it may lose data; all of it where a person will be asked."""


def allowed(plan: Plan, desired: Desired, settings: Settings, *, permit: Permit = lambda plan: plan) -> Plan:
    """``plan`` without what the run may not do."""
    budgets = desired.clusters[plan.cluster].budgets
    return within_budgets(permit(desired.guard(plan)), budgets, partial=settings.partial)
