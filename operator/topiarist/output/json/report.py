"""The report of an ``apply`` as lines of JSON: a header, one line per topic and per moved partition, and a summary.

``apply --report`` writes each line when its event happens, so that an audit has the lines even if the run was
interrupted. The caller supplies all times. ``schemas/report.json`` describes each field. The report contains no
addresses, secrets or paths.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from topiarist import __version__
from topiarist.adapters.saved_plans.encode import (
    encode_change,
    encode_implied,
    encode_move,
    encode_record,
    encode_refusal,
)
from topiarist.errors import Reason
from topiarist.model.moves import ReplicaMove
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Issue, Plan, TopicPlan

FORMAT_VERSION = 1


def format_header(plans: Sequence[Plan], *, at: str, owner: str, mode: str, fingerprint: str | None) -> str:
    """Return the first line: owner, version, mode and clusters of the run.

    ``mode`` is ``manifests``, ``plan`` or ``reviewed``.
    """
    clusters = list(map(_encode_cluster, plans))
    fields = {"formatVersion": FORMAT_VERSION, "at": at, "release": __version__, "owner": owner}
    return _format_line("header", **fields, form=mode, fingerprint=fingerprint, clusters=clusters)


def format_topic(plan: Plan, topic_plan: TopicPlan, outcome: Outcome, *, at: str) -> str:
    """Return the line of a topic: its outcome and all planned changes, before and after."""
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


def format_move(plan: Plan, topic_plan: TopicPlan, move: ReplicaMove, *, batch: int, at: str) -> str:
    """Return the line of a partition with a finished move; ``batch`` is 0 if an earlier run sent it."""
    return _format_line(
        "move",
        at=at,
        cluster=plan.cluster,
        clusterId=plan.cluster_id,
        topic=move.topic,
        topicId=topic_plan.before.topic_id if topic_plan.before else None,
        **encode_move(move),
        batch=batch or None,
    )


def make_refused_outcome(topic_plan: TopicPlan) -> Outcome:
    """Return the outcome of a topic that has only refusals."""
    first = topic_plan.refusals[0]
    return Outcome(topic_plan.topic, Result.REFUSED, first.reason, first.message)


def format_summary(results: Iterable[Result], *, at: str, code: int, reasons: Sequence[Reason]) -> str:
    """Return the last line: topic counts by result, exit code, reasons of errors that ended the run."""
    counted = Counter(results)
    counts = {result.value: counted[result] for result in Result if counted[result]}
    return _format_line("summary", at=at, exit=int(code), results=counts, errors=[reason.value for reason in reasons])


def _encode_cluster(plan: Plan) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": plan.cluster, "clusterId": plan.cluster_id, "chroot": plan.chroot}
    if plan.implied_topics:
        fields["alsoCreates"] = list(map(encode_implied, plan.implied_topics))
    return fields


def _encode_refusal(issue: Issue) -> dict[str, Any]:
    # An audit has no manifest to find the field in.
    return {key: value for key, value in encode_refusal(issue).items() if key != "field"}


def _format_line(row: str, **fields: Any) -> str:
    return json.dumps({"row": row, **fields})
