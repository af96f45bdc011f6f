"""The codec of usage in snapshots: ``Evidence`` as a field of the cluster row, ``TopicUsage`` as a row of its own.

``codec`` calls it. Rows from a file are trusted here, because ``validate`` has checked them. Never stored are names of
members, clients and hosts, and paths of a broker: none of them is in the values.
"""

from __future__ import annotations

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


def encode_evidence(evidence: Evidence) -> Row:
    """Return the field ``evidence`` of the cluster row."""
    return {
        "readAt": format_seconds(evidence.read_at),
        "brokersAsked": evidence.brokers_asked,
        "brokersAnswered": evidence.brokers_answered,
        "groups": evidence.groups,
        "groupsUnread": evidence.groups_unread,
        "groupsOpaque": evidence.groups_opaque,
        "groupsComplete": evidence.groups_complete,
        "offsetsRetentionMinutes": evidence.retention_minutes,
        "problems": [problem._asdict() for problem in evidence.problems],
        "problemsOmitted": evidence.more_problems,
    }


def decode_evidence(row: Row) -> Evidence:
    """Return the evidence of a cluster row."""
    return Evidence(
        read_at=to_seconds(row["readAt"]),
        brokers_asked=row["brokersAsked"],
        brokers_answered=row["brokersAnswered"],
        groups=row["groups"],
        groups_unread=row["groupsUnread"],
        groups_opaque=row["groupsOpaque"],
        groups_complete=row["groupsComplete"],
        retention_minutes=row["offsetsRetentionMinutes"],
        problems=tuple(UsageProblem(**problem) for problem in row["problems"]),
        more_problems=row["problemsOmitted"],
    )


def encode_usage(topic: str, usage: TopicUsage) -> Row:
    """Return the row of a topic, without the fields that all rows of a file share."""
    sample = usage.sample
    return {
        "kind": "usage",
        "topic": topic,
        "topicId": sample.topic_id,
        "ends": sample.ends,
        "begins": sample.begins,
        "bytes": sample.sizes,
        "bytesAllReplicas": sample.all_bytes,
        "oldestAt": sample.oldest,
        "newestAt": sample.newest,
        "groups": [_encode_group(group) for group in sample.groups],
        "groupsOmitted": sample.more_groups,
        "groupsDigest": sample.groups_digest,
        "written": _encode_side(usage.written),
        "read": _encode_side(usage.read),
        "curve": [
            {
                "at": format_seconds(point.taken_at),
                "begins": point.begins,
                "ends": point.ends,
                "bytes": point.size,
            }
            for point in usage.curve
        ],
        "bytesPerDay": usage.bytes_per_day,
    }


def decode_usage(row: Row) -> TopicUsage:
    """Return the usage of a row."""
    sample = TopicSample(
        topic_id=row["topicId"],
        ends=tuple(row["ends"]),
        begins=tuple(row["begins"]),
        sizes=tuple(row["bytes"]),
        all_bytes=row["bytesAllReplicas"],
        oldest=tuple(row["oldestAt"]),
        newest=tuple(row["newestAt"]),
        groups=tuple(
            GroupUsage(
                each["id"],
                GroupType(each["type"]),
                each["members"],
                each["partitions"],
                each["committed"],
                each["lag"],
            )
            for each in row["groups"]
        ),
        more_groups=row["groupsOmitted"],
        groups_digest=row["groupsDigest"],
    )
    curve = (CurvePoint(to_seconds(each["at"]), each["begins"], each["ends"], each["bytes"]) for each in row["curve"])
    return TopicUsage(sample, _decode_side(row["written"]), _decode_side(row["read"]), tuple(curve), row["bytesPerDay"])


def _encode_group(group: GroupUsage) -> Row:
    return {
        "id": group.group,
        "type": group.type.value,
        "members": group.members,
        "partitions": group.partitions,
        "committed": group.committed,
        "lag": group.lag,
    }


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
