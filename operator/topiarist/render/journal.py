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
from topiarist.core.change import Finding, Plan, TopicPlan
from topiarist.errors import Reason
from topiarist.reconcile import Outcome, Result
from topiarist.render.document import change_fields, record_fields

FORMAT_VERSION = 1


def header(plans: Sequence[Plan], *, at: str, owner: str, form: str, fingerprint: str | None) -> str:
    """The first line: who is about to do what, and from where. ``form`` is ``Manifests``, ``Plan`` or ``Reviewed``."""
    clusters = [{"name": plan.cluster, "clusterId": plan.cluster_id, "chroot": plan.location} for plan in plans]
    return _line(
        "header",
        formatVersion=FORMAT_VERSION,
        at=at,
        release=__version__,
        owner=owner,
        form=form,
        fingerprint=fingerprint,
        clusters=clusters,
    )


def topic(plan: Plan, found: TopicPlan, outcome: Outcome, *, at: str) -> str:
    """The line of a topic: what became of it, with everything that was to be done, before and after."""
    return _line(
        "topic",
        at=at,
        cluster=plan.cluster,
        clusterId=plan.cluster_id,
        topic=found.topic,
        topicId=outcome.topic_id or (found.before.topic_id if found.before else None),
        result=outcome.result.value,
        reason=outcome.reason.value if outcome.reason else None,
        message=outcome.message,
        risk=found.risk.word,
        record={"before": record_fields(found.record_before), "after": record_fields(found.record_after)},
        changes=list(map(change_fields, found.changes)),
        refusals=list(map(_refusal, found.refusals)),
    )


def refused(found: TopicPlan) -> Outcome:
    """What became of a topic of which nothing but refusals is left."""
    first = found.refusals[0]
    return Outcome(found.topic, Result.REFUSED, first.reason, first.message)


def summary(results: Iterable[Result], *, at: str, code: int, reasons: Sequence[Reason]) -> str:
    """The last line: how many topics there were of each result, the exit code, and what ended the run too early."""
    counted = Counter(results)
    counts = {result.value: counted[result] for result in Result if counted[result]}
    return _line("summary", at=at, exit=int(code), results=counts, errors=[reason.value for reason in reasons])


def _refusal(finding: Finding) -> dict[str, Any]:
    held = list(map(change_fields, finding.held))
    return {"reason": finding.reason.value, "message": finding.message, "instead": finding.instead, "held": held}


def _line(row: str, **fields: Any) -> str:
    return json.dumps({"row": row, **fields})
