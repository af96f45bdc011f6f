"""The report of an apply as lines of JSON: what was about to be done, what became of each topic, and how it ended.

Written line by line while things happen, so that an audit has it even where the run was cut off. Times are those of the
clock that the caller reads. ``schemas/report.json`` describes each field. No addresses, no secrets, no paths.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from topiarist import __version__
from topiarist.adapters.saved_plans.encode import encode_change, encode_record
from topiarist.errors import Reason
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Issue, Plan, TopicPlan

FORMAT_VERSION = 1


def format_header(plans: Sequence[Plan], *, at: str, owner: str, mode: str, fingerprint: str | None) -> str:
    """The first line: who is about to do what, and from where. ``mode`` is ``Manifests``, ``Plan`` or ``Reviewed``."""
    clusters = [{"name": plan.cluster, "clusterId": plan.cluster_id, "chroot": plan.chroot} for plan in plans]
    return _format_line(
        "header",
        formatVersion=FORMAT_VERSION,
        at=at,
        release=__version__,
        owner=owner,
        form=mode,
        fingerprint=fingerprint,
        clusters=clusters,
    )


def format_topic(plan: Plan, topic_plan: TopicPlan, outcome: Outcome, *, at: str) -> str:
    """The line of a topic: what became of it, with everything that was to be done, before and after."""
    return _format_line(
        "topic",
        at=at,
        cluster=plan.cluster,
        clusterId=plan.cluster_id,
        topic=topic_plan.topic,
        topicId=outcome.topic_id or (topic_plan.before.topic_id if topic_plan.before else None),
        result=outcome.result.value,
        reason=outcome.reason.value if outcome.reason else None,
        message=outcome.message,
        risk=topic_plan.risk.label,
        record={"before": encode_record(topic_plan.record_before), "after": encode_record(topic_plan.record_after)},
        changes=list(map(encode_change, topic_plan.changes)),
        refusals=list(map(_encode_refusal, topic_plan.refusals)),
    )


def make_refused_outcome(topic_plan: TopicPlan) -> Outcome:
    """What became of a topic of which nothing but refusals is left."""
    first = topic_plan.refusals[0]
    return Outcome(topic_plan.topic, Result.REFUSED, first.reason, first.message)


def format_summary(results: Iterable[Result], *, at: str, code: int, reasons: Sequence[Reason]) -> str:
    """The last line: how many topics there were of each result, the exit code, and what ended the run too early."""
    counted = Counter(results)
    counts = {result.value: counted[result] for result in Result if counted[result]}
    return _format_line("summary", at=at, exit=int(code), results=counts, errors=[reason.value for reason in reasons])


def _encode_refusal(issue: Issue) -> dict[str, Any]:
    held = list(map(encode_change, issue.withheld))
    return {"reason": issue.reason.value, "message": issue.message, "instead": issue.hint, "held": held}


def _format_line(row: str, **fields: Any) -> str:
    return json.dumps({"row": row, **fields})
