"""The codec of usage in snapshots: ``Evidence`` as a field of the cluster row, ``TopicUsage`` as a row of its own.

``codec`` calls it. Rows from a file are trusted here, because ``validate`` has checked them. Never stored are names of
members, clients and hosts, and paths of a broker: none of them is in the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topiarist.adapters.snapshots.times import format_seconds, to_seconds
from topiarist.model.usage import (
    CurvePoint,
    Evidence,
    GroupType,
    GroupUsage,
    Side,
    TopicSample,
    TopicUsage,
    UsageProblem,
    UsageState,
)

Row = dict[str, Any]

_EVIDENCE = {
    "brokersAsked": "brokers_asked",
    "brokersAnswered": "brokers_answered",
    "groups": "groups",
    "groupsUnread": "groups_unread",
    "groupsOpaque": "groups_opaque",
    "groupsComplete": "groups_complete",
    "offsetsRetentionMinutes": "retention_minutes",
    "problems": "problems",
    "problemsOmitted": "more_problems",
}
_SAMPLE = {
    "topicId": "topic_id",
    "ends": "ends",
    "begins": "begins",
    "bytes": "sizes",
    "bytesAllReplicas": "all_bytes",
    "oldestAt": "oldest",
    "newestAt": "newest",
    "groups": "groups",
    "groupsOmitted": "more_groups",
    "groupsDigest": "groups_digest",
}
_GROUP = {"id": "group", **{name: name for name in ("type", "members", "partitions", "committed", "lag")}}
_POINT = {"at": "taken_at", "begins": "begins", "ends": "ends", "bytes": "size"}
"""The fields of each kind of row in their order, and the attributes that they are copied from."""


def encode_evidence(evidence: Evidence) -> Row:
    """Return the field ``evidence`` of the cluster row."""
    problems = [problem._asdict() for problem in evidence.problems]
    return {"readAt": format_seconds(evidence.read_at), **_copy(evidence, _EVIDENCE), "problems": problems}


def decode_evidence(row: Row) -> Evidence:
    """Return the evidence of a cluster row."""
    problems = tuple(UsageProblem(**problem) for problem in row["problems"])
    return Evidence(read_at=to_seconds(row["readAt"]), **{**_read(row, _EVIDENCE), "problems": problems})


def encode_usage(topic: str, usage: TopicUsage) -> Row:
    """Return the row of a topic, without the fields that all rows of a file share."""
    sample = usage.sample
    return {
        "kind": "usage",
        "topic": topic,
        **_copy(sample, _SAMPLE),
        "groups": [{**_copy(group, _GROUP), "type": group.type.value} for group in sample.groups],
        "written": _encode_side(usage.written),
        "read": _encode_side(usage.read),
        "curve": [{**_copy(point, _POINT), "at": format_seconds(point.taken_at)} for point in usage.curve],
        "bytesPerDay": usage.bytes_per_day,
    }


def decode_usage(row: Row) -> TopicUsage:
    """Return the usage of a row."""
    groups = (GroupUsage(**_read(each, _GROUP))._replace(type=GroupType(each["type"])) for each in row["groups"])
    curve = (CurvePoint(**_read(each, _POINT))._replace(taken_at=to_seconds(each["at"])) for each in row["curve"])
    sample = TopicSample(**{**_read(row, _SAMPLE), "groups": tuple(groups)})
    return TopicUsage(sample, _decode_side(row["written"]), _decode_side(row["read"]), tuple(curve), row["bytesPerDay"])


def _copy(value: object, fields: Mapping[str, str]) -> Row:
    return {field: getattr(value, name) for field, name in fields.items()}


def _read(row: Row, fields: Mapping[str, str]) -> Row:
    """Return the attributes of a value; a list becomes a tuple."""
    found = ((name, row[field]) for field, name in fields.items())
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found}


def _encode_side(side: Side) -> Row:
    return {
        "state": side.state.value,
        "after": format_seconds(side.after),
        "before": format_seconds(side.before),
        "observedSince": format_seconds(side.observed_since),
        "why": side.why,
    }


def _decode_side(row: Row) -> Side:
    after, before, since = (
        None if row[key] is None else to_seconds(row[key]) for key in ("after", "before", "observedSince")
    )
    return Side(UsageState(row["state"]), after, before, since, tuple(row["why"]))
