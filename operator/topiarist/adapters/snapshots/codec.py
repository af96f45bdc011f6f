"""The codec of snapshots: a ``ClusterState`` as rows, and rows as a ``ClusterState``.

``files`` and ``lenient_reader`` call it. Encoding loses nothing except fractions of seconds, and broker settings that
no plan uses: such a setting may hold a password or a path of a machine. Rows from a file are trusted here, because
``validate`` has checked them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from sys import intern
from typing import Any

from topiarist.adapters.operator_memory import decode_memory, encode_memory
from topiarist.adapters.size_limits import REQUEST_LIMITS, ListSizes, build_list_limits, list_sizes_of
from topiarist.adapters.snapshots.times import format_ms, to_ms
from topiarist.adapters.snapshots.usage_codec import decode_evidence, decode_usage, encode_evidence, encode_usage
from topiarist.errors import Reason
from topiarist.kafka.config_rules import RELEVANT_BROKER_SETTINGS
from topiarist.kafka.types import Broker, ClusterMode, KnownConfig, Replicas, parse_version
from topiarist.model.access import Via, via_of
from topiarist.model.moves import BatchRecord, OwnValue, ReplicaMove, RequestedReassignment
from topiarist.model.size_limits import SizeLimit
from topiarist.model.state import (
    NO_MEMORY,
    AppliedSpec,
    ClusterState,
    OwnershipRecord,
    ReadError,
    TopicState,
    WriteBlock,
)

FORMAT_VERSION = 2
"""The newest format: with rows of usage. A snapshot without them is written as version 1."""

Row = dict[str, Any]

_REASONS = {reason.value: reason for reason in Reason}

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
            {"kind": "record", "topic": name, "record": _encode_record(record)}
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
        write_block=WriteBlock(_REASONS.get(cluster_row["writeBlockReason"]), cluster_row["writeBlockMessage"]),
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
        batch=_decode_batch(cluster_row.get("batch")),
        batch_at_ms=to_ms(cluster_row.get("batchAt")),
        mode=ClusterMode(cluster_row.get("mode", ClusterMode.ZOOKEEPER.value)),
        bypasses_brokers=_is_through_zookeeper(cluster_row),
        known_configs=_decode_known_configs(cluster_row.get("knownConfigs")),
        fenced_brokers={broker["id"]: broker["rack"] for broker in cluster_row.get("fencedBrokers", ())},
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
        "batch": state.batch and _encode_batch(state.batch),
        "batchAt": format_ms(state.batch_at_ms),
        "mode": state.mode.value,
        "via": via_of(bypasses_brokers=state.bypasses_brokers).value,
        "knownConfigs": None
        if state.known_configs is None
        else [{"config": name, **known._asdict()} for name, known in sorted(state.known_configs.items())],
        "fencedBrokers": [{"id": broker, "rack": rack} for broker, rack in sorted(state.fenced_brokers.items())],
        **({"evidence": encode_evidence(state.evidence)} if state.evidence else {}),
    }


def _encode_batch(batch: BatchRecord) -> Row:
    return {
        "owner": batch.owner,
        "batch": batch.batch,
        "batches": batch.batches,
        "moves": [
            {"topic": move.topic, "partition": move.partition, "before": move.before, "after": move.after}
            for move in batch.moves
        ],
        "throttles": [
            {"entity": entity, "config": key, **own._asdict()}
            for entity, values in sorted(batch.throttles.items())
            for key, own in sorted(values.items())
        ],
    }


def _decode_batch(row: Row | None) -> BatchRecord | None:
    if row is None:
        return None
    throttles: dict[str, dict[str, OwnValue]] = {}
    for each in row["throttles"]:
        throttles.setdefault(each["entity"], {})[each["config"]] = OwnValue(each["before"], each["ours"])
    moves = (
        ReplicaMove(move["topic"], move["partition"], tuple(move["before"]), tuple(move["after"]))
        for move in row["moves"]
    )
    return BatchRecord(row["owner"], row["batch"], row["batches"], tuple(moves), throttles)


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
        "record": topic.record and _encode_record(topic.record),
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


def _encode_record(record: OwnershipRecord) -> Row:
    applied = record.applied and {
        "partitions": record.applied.partitions,
        "config": dict(record.applied.config),
        "removeUnmanaged": record.applied.remove_unmanaged,
    }
    row = {"owner": record.owner, "config": record.config_keys, "absent": record.deleted, "applied": applied}
    return row if record.memory == NO_MEMORY else {**row, "memory": encode_memory(record.memory)}


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
        row = fields.get("applied")
        values = tuple(sorted((intern(key), value) for key, value in row["config"].items())) if row else ()
        applied = AppliedSpec(row["partitions"], values, row["removeUnmanaged"]) if row else None
        keys, memory = tuple(map(intern, fields["config"])), decode_memory(fields.get("memory")) or NO_MEMORY
        record = OwnershipRecord(fields["owner"], keys, fields["absent"], applied, memory)
        return self._records.setdefault(record, record)


def decode_record(fields: Row) -> OwnershipRecord:
    """Decode one ownership record."""
    return _RowDecoder().decode_record(fields)
