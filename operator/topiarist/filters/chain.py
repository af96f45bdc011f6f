"""Applies the filters to a plan in their fixed order, for the command line and the operator.

First the changes are withheld that the observed cluster forbids (external changes that are only reported, deletions of
topics in use), then changes that policies deny, then changes without a required approval. The budgets count the
remaining changes. Last come groups of topics that grow together or not at all.
"""

from __future__ import annotations

from topiarist.filters.budgets import enforce_budgets
from topiarist.filters.co_partitions import withhold_split_groups
from topiarist.filters.permissions import PlanFilter, keep_all
from topiarist.model.plan import Plan
from topiarist.model.spec import Budgets


def apply_filters(
    plan: Plan,
    budgets: Budgets,
    *,
    observed: PlanFilter = keep_all,
    policies: PlanFilter = keep_all,
    approve: PlanFilter = keep_all,
    partial: bool,
) -> Plan:
    """Return the plan without the changes that the run may not make.

    ``approve`` keeps everything if a person is asked afterwards. See ``enforce_budgets`` for ``partial``.
    """
    return withhold_split_groups(enforce_budgets(approve(policies(observed(plan))), budgets, partial=partial))
