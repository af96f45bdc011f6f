"""Tasks for a scheduler such as Airflow: plan, wait for an approval, apply exactly the approved plan.

Each function is the body of one task. Tasks share no memory: they pass text that is JSON, and every setting comes from
arguments. A task fails by raising; ``topiarist.api`` raises ``TopiaristError`` only.
"""

from __future__ import annotations

import json
from typing import Any

from topiarist import api


def plan_topics(manifests: str, clusters: str) -> str:
    """Return the plan of the manifests as JSON; fail if a cluster cannot be read, or if anything is refused."""
    settings = api.RunSettings(paths=(manifests,), clusters=(clusters,), require_topics=True)
    plans = api.make_plans(settings)
    if plans.has_refusals:
        raise RuntimeError(plans.to_text())
    return plans.to_json()


def describe_plan(plan: str) -> dict[str, Any]:
    """Return what the person who approves needs: the plan as text, its fingerprint, and the topics that are deleted."""
    plans = api.parse_plans(plan)
    deleted = [
        topic.topic
        for each in plans.plans
        for topic in each.topics
        if any(isinstance(change, api.DeleteTopic) for change in topic.changes)
    ]
    return {"text": plans.to_text(), "fingerprint": plans.fingerprint, "deleted": deleted}


def apply_topics(plan: str, approved_fingerprint: str, approved_deletions: list[str], clusters: str) -> str:
    """Apply the approved plan and return the result as JSON; fail unless everything is done.

    A repeated call is safe: changes that an earlier call has made are found done and are left alone.
    """
    if api.parse_plans(plan).fingerprint != approved_fingerprint:
        raise RuntimeError("the plan is not the approved one: plan again, and have the new plan approved")
    allowed = (api.approve_risk(api.Risk.DATA_LOSS, approved_deletions),) if approved_deletions else ()
    settings = api.RunSettings(clusters=(clusters,), allow_risk=allowed, wait=True, wait_timeout=120.0)
    result = api.apply_plans(settings, plan)
    result.require_done()
    return json.dumps(result.to_dict())
