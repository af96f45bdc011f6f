"""The codec of snapshots: a ``ClusterState`` as rows, and rows as a ``ClusterState``.

``files`` and ``lenient_reader`` call it. Encoding loses nothing except fractions of seconds, and broker settings that
no plan uses: such a setting may hold a password or a path of a machine. Rows from a file are trusted here, because
``files.RowChecker`` has checked them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from sys import intern
from typing import Any

from topiarist.adapters.own_values import batch_fields, batch_of, record_fields, record_of
from topiarist.adapters.size_limits import REQUEST_LIMITS, ListSizes, build_list_limits, list_sizes_of
from topiarist.errors import REASONS
from topiarist.kafka.config_rules import RELEVANT_BROKER_SETTINGS
from topiarist.kafka.types import Broker, ClusterMode, KnownConfig, Replicas, parse_version
from topiarist.model.access import Via, via_of
from topiarist.model.moves import RequestedReassignment
from topiarist.model.state import (
    APACHE_KAFKA,
    GIVEN,
    Capabilities,
    ClusterState,
    OwnershipRecord,
    ReadError,
    SizeLimit,
    Support,
    TopicState,
    WriteBlock,
)
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
from topiarist.text import to_camel_case

# Times in snapshot rows: UTC, in whole seconds, in one form of text.

TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
"""The format of a time in a row, always UTC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=256)
def parse_time(text: str) -> datetime:
    """Parse a time of a row; raise ``ValueError`` for other text. The snapshots of a fleet have few different times."""
    return datetime.strptime(text, TIME_FORMAT).replace(tzinfo=UTC)


def format_time(time: datetime) -> str:
    """Format a time for a row, in whole seconds.

    Uses ``isoformat``, because ``strftime`` does not guarantee four digits for the year.
    """
    return f"{time.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat()}Z"


def format_ms(ms: int | None) -> str | None:
    """Format a time in ms since the epoch for a row, in whole seconds; None if it is unknown or after the year 9999."""
    try:
        return None if ms is None else format_time(_EPOCH + timedelta(milliseconds=ms))
    except OverflowError:
        return None


def to_ms(text: str | None) -> int | None:
    """Return a time of a row in ms since the epoch; None for None."""
    return None if text is None else (parse_time(text) - _EPOCH) // timedelta(milliseconds=1)


def format_seconds(seconds: int | None) -> str | None:
    """Format a time in seconds since the epoch for a row; None for None."""
    return format_ms(None if seconds is None else seconds * 1000)


def to_seconds(text: str) -> int:
    """Return a time of a row in seconds since the epoch."""
    return (parse_time(text) - _EPOCH) // timedelta(seconds=1)


# The codec of usage in snapshots: ``Evidence`` as a field of the cluster row, ``TopicUsage`` as a row of its own.
#
# Never stored are names of members, clients and hosts, and paths of a broker: none of them is in the values.

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


FORMAT_VERSION = 2
"""The newest format: with rows of usage. A snapshot without them is written as version 1."""


_encode_json = json.JSONEncoder(separators=(",", ":")).encode


def encode_state(state: ClusterState, cluster: str, taken_at: str) -> Iterator[bytes]:
    """Yield the lines of a snapshot, one row each, the cluster row first.

    Names and values keep the order of the state.
    """
    row_count = len(state.topics) + len(state.topic_errors) + len(state.dangling_records) + len(state.usage)
    for row in chain(
        [_cluster_row(state, row_count)],
        (_topic_row(state, topic) for topic in state.topics.values()),
        (_unreadable_topic_row(state, name, error) for name, error in state.topic_errors.items()),
        (
            {"kind": "record", "topic": name, "record": record_fields(record)}
            for name, record in state.dangling_records.items()
        ),
        (encode_usage(name, usage) for name, usage in sorted(state.usage.items())),
    ):
        yield _encode_json({"kind": row.pop("kind"), "cluster": cluster, "takenAt": taken_at, **row}).encode() + b"\n"


def decode_state(cluster_row: Row, rows: Sequence[Row], max_reply_bytes: int | None = None) -> ClusterState:
    """Return the state of a cluster row and its topic and record rows.

    ``max_reply_bytes`` replaces the limit of the run that took the snapshot.
    """
    decoder = _RowDecoder()
    topics = [row for row in rows if row["kind"] == "topic"]
    return ClusterState(
        cluster_id=cluster_row["clusterId"],
        brokers=tuple(Broker(broker["id"], broker["rack"]) for broker in cluster_row["brokers"]),
        topics={row["topic"]: decoder.decode_topic(row) for row in topics if row["readError"] is None},
        chroot=cluster_row["chroot"],
        controller=cluster_row["controller"],
        controller_epoch=cluster_row["controllerEpoch"],
        write_block=WriteBlock(REASONS.get(cluster_row["writeBlockReason"]), cluster_row["writeBlockMessage"]),
        pending_deletions=_flagged_topics("deleting", cluster_row, topics),
        reassigning_topics=_flagged_topics("reassigning", cluster_row, topics),
        dangling_records={
            row["topic"]: decoder.decode_record(row["record"]) for row in rows if row["kind"] == "record"
        },
        topic_errors={
            row["topic"]: ReadError(row["readErrorPath"], row["readError"])
            for row in topics
            if row["readError"] is not None
        },
        broker_defaults=cluster_row["brokerDefaults"],
        min_version=parse_version(cluster_row["releaseAtLeast"]),
        size_limits=_decode_size_limits(cluster_row, max_reply_bytes),
        warnings=tuple(cluster_row["warnings"]),
        assigns_topic_ids=cluster_row["assignsTopicIds"]
        if "assignsTopicIds" in cluster_row
        else any(row["topicId"] for row in topics),
        next_identity=cluster_row["nextIdentity"],
        stale_reassignments=frozenset(cluster_row.get("staleReassignments", ())),
        requested_reassignments=tuple(
            RequestedReassignment(entry["topic"], entry["partition"], tuple(entry["replicas"]))
            for entry in cluster_row.get("requestedReassignments", ())
        ),
        requested_at_ms=to_ms(cluster_row.get("requestedAt")),
        batch=batch_of(batch) if (batch := cluster_row.get("batch")) else None,
        batch_at_ms=to_ms(cluster_row.get("batchAt")),
        mode=ClusterMode(cluster_row.get("mode", ClusterMode.ZOOKEEPER.value)),
        bypasses_brokers=_is_through_zookeeper(cluster_row),
        known_configs=_decode_known_configs(cluster_row.get("knownConfigs")),
        fenced_brokers={broker["id"]: broker["rack"] for broker in cluster_row.get("fencedBrokers", ())},
        capabilities=_decode_capabilities(cluster_row.get("capabilities") or ()),
        evidence=decode_evidence(cluster_row["evidence"]) if cluster_row.get("evidence") else None,
        usage={row["topic"]: decode_usage(row) for row in rows if row["kind"] == "usage"},
    )


def _is_through_zookeeper(row: Row) -> bool:
    return Via(row.get("via", Via.ZOOKEEPER.value)) is Via.ZOOKEEPER


def _decode_size_limits(row: Row, max_reply_bytes: int | None) -> tuple[SizeLimit, ...]:
    if row["topicListBytes"] is None:
        return () if _is_through_zookeeper(row) else REQUEST_LIMITS
    max_bytes = max_reply_bytes or row["replyLimitBytes"]
    return build_list_limits(ListSizes(row["topicListBytes"], row["notificationListBytes"], max_bytes))


def _decode_known_configs(rows: Sequence[Row] | None) -> Mapping[str, KnownConfig] | None:
    if rows is None:
        return None
    return {intern(row["config"]): KnownConfig(row["type"], row["default"]) for row in rows}


def _capabilities_field(capabilities: Capabilities) -> Row:
    """Return the field of the capabilities that are not those of Apache Kafka; empty without one."""
    rows = [
        {"name": to_camel_case(name), "given": each.is_given, "why": each.why, "lacksRight": each.lacks_right}
        for name, each in capabilities.items()
        if each != GIVEN
    ]
    return {"capabilities": rows} if rows else {}


def _decode_capabilities(rows: Sequence[Row]) -> Capabilities:
    found = {row["name"]: Support(row["given"], row["why"], row["lacksRight"]) for row in rows}
    names = ((name, to_camel_case(name)) for name, _ in APACHE_KAFKA.items())
    return Capabilities(**{name: found[field] for name, field in names if field in found})


def _cluster_row(state: ClusterState, row_count: int) -> Row:
    topic_names = {*state.topics, *state.topic_errors}
    major, minor = state.min_version
    sizes = list_sizes_of(state.size_limits)
    return {
        "kind": "cluster",
        "formatVersion": FORMAT_VERSION if state.evidence else 1,
        "rows": row_count,
        "clusterId": state.cluster_id,
        "chroot": state.chroot,
        "brokers": [broker._asdict() for broker in state.brokers],
        "controller": state.controller,
        "controllerEpoch": state.controller_epoch,
        "writeBlockReason": state.write_block.reason and state.write_block.reason.value,
        "writeBlockMessage": state.write_block.message,
        "brokerDefaults": {
            name: text for name, text in state.broker_defaults.items() if name in RELEVANT_BROKER_SETTINGS
        },
        "releaseAtLeast": f"{major}.{minor}",
        "topicListBytes": sizes and sizes.topics_bytes,
        "notificationListBytes": sizes and sizes.notifications_bytes,
        "replyLimitBytes": sizes and sizes.max_bytes,
        "nextIdentity": state.next_identity,
        "deleting": sorted(state.pending_deletions - topic_names),
        "reassigning": sorted(state.reassigning_topics - topic_names),
        "warnings": list(state.warnings),
        "assignsTopicIds": state.assigns_topic_ids,
        "staleReassignments": sorted(state.stale_reassignments),
        "requestedReassignments": [entry._asdict() for entry in state.requested_reassignments],
        "requestedAt": format_ms(state.requested_at_ms),
        "batch": state.batch and batch_fields(state.batch),
        "batchAt": format_ms(state.batch_at_ms),
        "mode": state.mode.value,
        "via": via_of(bypasses_brokers=state.bypasses_brokers).value,
        "knownConfigs": None
        if state.known_configs is None
        else [{"config": name, **known._asdict()} for name, known in sorted(state.known_configs.items())],
        "fencedBrokers": [{"id": broker, "rack": rack} for broker, rack in sorted(state.fenced_brokers.items())],
        **_capabilities_field(state.capabilities),
        **({"evidence": encode_evidence(state.evidence)} if state.evidence else {}),
    }


def _topic_row(state: ClusterState, topic: TopicState) -> Row:
    return {
        "kind": "topic",
        "topic": topic.name,
        "identity": topic.identity,
        "topicId": topic.topic_id,
        "replicas": topic.replicas,
        "partitionIds": None if topic.has_contiguous_partitions else list(topic.partition_ids),
        "reassigningPartitions": topic.reassigning_partitions,
        "config": dict(topic.config),
        "unknownFields": topic.unknown_fields,
        "record": topic.record and record_fields(topic.record),
        "recordValid": topic.record_valid,
        "modifiedExternally": topic.modified_externally,
        "deleting": topic.name in state.pending_deletions,
        "reassigning": topic.name in state.reassigning_topics,
        "readErrorPath": None,
        "readError": None,
    }


def _unreadable_topic_row(state: ClusterState, name: str, error: ReadError) -> Row:
    """Return the row of an unreadable topic: only the read error and the request flags are known."""
    unknown = TopicState(name=name, identity="", replicas=(), config={}, record_valid=False)
    return {**_topic_row(state, unknown), "identity": None, "readErrorPath": error.path, "readError": error.message}


def _flagged_topics(flag: str, cluster_row: Row, topics: Sequence[Row]) -> frozenset[str]:
    return frozenset(chain(cluster_row[flag], (row["topic"] for row in topics if row[flag])))


class _RowDecoder:
    """A decoder of rows that shares equal replica lists, keys and records between topics."""

    def __init__(self) -> None:
        self._replicas: dict[Replicas, Replicas] = {}
        self._records: dict[OwnershipRecord, OwnershipRecord] = {}

    def decode_topic(self, row: Row) -> TopicState:
        """Decode the row of a readable topic."""
        share: Callable[[Replicas, Replicas], Replicas] = self._replicas.setdefault
        config: Mapping[str, str] = {intern(key): text for key, text in row["config"].items()}
        return TopicState(
            name=row["topic"],
            identity=row["identity"],
            replicas=tuple([share(ids, ids) for ids in map(tuple, row["replicas"])]),
            config=config,
            partition_ids=() if row["partitionIds"] is None else tuple(row["partitionIds"]),
            topic_id=row["topicId"],
            reassigning_partitions=tuple(row["reassigningPartitions"]),
            record=row["record"] and self.decode_record(row["record"]),
            record_valid=row["recordValid"],
            modified_externally=row["modifiedExternally"],
            unknown_fields=tuple(row["unknownFields"]),
        )

    def decode_record(self, fields: Row) -> OwnershipRecord:
        """Decode an ownership record."""
        record = record_of(fields)
        return self._records.setdefault(record, record)
