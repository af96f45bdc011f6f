"""Taking changes out of a plan so that what remains still fits together: its record, its refusals.

Used wherever something speaks against a change that was found: a cluster's gate, its limits of size, a policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from topiarist.core.change import Change, Finding, TopicPlan
from topiarist.core.differences import config_after, partitions_after, record_after


def hold(plan: TopicPlan, changes: Sequence[Change], finding: Finding) -> TopicPlan:
    """``plan`` without ``changes``, which ``finding`` holds back; what remains of it still fits together."""
    if not changes:
        return plan
    left = tuple(change for change in plan.changes if change not in changes)
    refusals = (*plan.refusals, finding._replace(held=tuple(changes)))
    if not left or plan.before is None or plan.spec is None:
        return replace(plan, changes=(), refusals=refusals, record_after=plan.record_before)
    owner = plan.record_after.owner if plan.record_after else ""
    config = config_after(plan.before.config, left)
    partitions = partitions_after(len(plan.before.replicas), left)
    after = record_after(owner, plan.spec, config, partitions, plan.before.valid_record)
    return replace(plan, changes=left, refusals=refusals, record_after=after)
