"""A state as rows, and rows as a state: nothing is lost on the way but settings of brokers that no plan looks at.

Those may hold passwords and paths of machines. Rows that come from a file have passed ``checks``: here they are
trusted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from sys import intern
from typing import Any

from topiarist.core.configs import SETTINGS
from topiarist.core.state import (
    Applied,
    Broker,
    ClusterState,
    Fault,
    Gate,
    Release,
    Replicas,
    Room,
    TopicRecord,
    TopicState,
)
from topiarist.errors import Reason

FORMAT_VERSION = 1

TIME = "%Y-%m-%dT%H:%M:%SZ"
"""A time, always UTC, as rows have it."""

Row = dict[str, Any]

_REASONS = {reason.value: reason for reason in Reason}

_as_json = json.JSONEncoder(separators=(",", ":")).encode


def encode(state: ClusterState, cluster: str, taken: str) -> Iterator[bytes]:
    """The lines of a snapshot, one row each, the cluster first; names and values in the order that the state has."""
    number = len(state.topics) + len(state.faults) + len(state.records)
    for row in chain([_head(state, number)], _topics(state), _faults(state), _records(state)):
        yield _as_json({"kind": row.pop("kind"), "cluster": cluster, "takenAt": taken, **row}).encode() + b"\n"


def state_of(head: Row, rows: Sequence[Row]) -> ClusterState:
    """The state of which the first row and the others are."""
    pool = _Pool()
    topics = [row for row in rows if row["kind"] == "topic"]
    return ClusterState(
        cluster_id=head["clusterId"],
        brokers=tuple(Broker(broker["id"], broker["rack"]) for broker in head["brokers"]),
        topics={row["topic"]: pool.topic(row) for row in topics if row["fault"] is None},
        location=head["chroot"],
        controller=head["controller"],
        controller_epoch=head["controllerEpoch"],
        gate=Gate(_REASONS.get(head["gateReason"]), head["gateMessage"]),
        deleting=_marked("deleting", head, topics),
        reassigning=_marked("reassigning", head, topics),
        records={row["topic"]: pool.record(row["record"]) for row in rows if row["kind"] == "record"},
        faults={row["topic"]: Fault(row["faultAt"], row["fault"]) for row in topics if row["fault"] is not None},
        broker_defaults=head["brokerDefaults"],
        release_at_least=_release(head["releaseAtLeast"]),
        room=Room(head["topicListBytes"], head["notificationListBytes"], head["replyLimitBytes"]),
        warnings=tuple(head["warnings"]),
        gives_ids=head["givesIds"] if "givesIds" in head else any(row["topicId"] for row in topics),
        next_identity=head["nextIdentity"],
        stale_requests=frozenset(head.get("staleRequests", ())),
    )


def _head(state: ClusterState, rows: int) -> Row:
    listed = {*state.topics, *state.faults}
    major, minor = state.release_at_least
    return {
        "kind": "cluster",
        "formatVersion": FORMAT_VERSION,
        "rows": rows,
        "clusterId": state.cluster_id,
        "chroot": state.location,
        "brokers": [broker._asdict() for broker in state.brokers],
        "controller": state.controller,
        "controllerEpoch": state.controller_epoch,
        "gateReason": state.gate.reason and state.gate.reason.value,
        "gateMessage": state.gate.message,
        "brokerDefaults": {name: text for name, text in state.broker_defaults.items() if name in SETTINGS},
        "releaseAtLeast": f"{major}.{minor}",
        "topicListBytes": state.room.topics,
        "notificationListBytes": state.room.notifications,
        "replyLimitBytes": state.room.limit,
        "nextIdentity": state.next_identity,
        "deleting": sorted(state.deleting - listed),
        "reassigning": sorted(state.reassigning - listed),
        "warnings": list(state.warnings),
        "givesIds": state.gives_ids,
        "staleRequests": sorted(state.stale_requests),
    }


def _topics(state: ClusterState) -> Iterator[Row]:
    for name, topic in state.topics.items():
        yield {
            "kind": "topic",
            "topic": name,
            "identity": topic.identity,
            "topicId": topic.topic_id,
            "replicas": topic.replicas,
            "partitionIds": None if topic.whole else list(topic.partition_ids),
            "movingPartitions": topic.reassigning,
            "config": dict(topic.config),
            "unknownFields": topic.unknown_fields,
            "record": topic.record and _record(topic.record),
            "recordValid": topic.record_valid,
            "changedOutside": topic.changed_outside,
            **_marks(state, name),
            "faultAt": None,
            "fault": None,
        }


def _faults(state: ClusterState) -> Iterator[Row]:
    """The topics that could not be read: of them there is nothing to say but that, and their marks."""
    for name, fault in state.faults.items():
        yield {
            "kind": "topic",
            "topic": name,
            **dict.fromkeys(("identity", "topicId")),
            "replicas": [],
            "partitionIds": None,
            "movingPartitions": [],
            "config": {},
            "unknownFields": [],
            "record": None,
            "recordValid": False,
            "changedOutside": False,
            **_marks(state, name),
            "faultAt": fault.where,
            "fault": fault.why,
        }


def _records(state: ClusterState) -> Iterator[Row]:
    for name, record in state.records.items():
        yield {"kind": "record", "topic": name, "record": _record(record)}


def _marks(state: ClusterState, name: str) -> Row:
    return {"deleting": name in state.deleting, "reassigning": name in state.reassigning}


def _record(record: TopicRecord) -> Row:
    applied = record.applied and {
        "partitions": record.applied.partitions,
        "config": dict(record.applied.config),
        "removeUnmanaged": record.applied.remove_unmanaged,
    }
    return {"owner": record.owner, "config": record.config, "absent": record.absent, "applied": applied}


def _marked(mark: str, head: Row, topics: Sequence[Row]) -> frozenset[str]:
    return frozenset(chain(head[mark], (row["topic"] for row in topics if row[mark])))


def time_of(text: str) -> datetime:
    """A time that a row has."""
    return datetime.strptime(text, TIME).replace(tzinfo=UTC)


def text_of(time: datetime) -> str:
    """A time as rows have it, to the second; a year has four digits, which ``strftime`` does not promise."""
    return f"{time.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat()}Z"


def _release(text: str) -> Release:
    major, minor = text.split(".")
    return int(major), int(minor)


class _Pool:
    """Makes values of rows, and equal ones once: topics share their replica lists, keys and records."""

    def __init__(self) -> None:
        self._replicas: dict[Replicas, Replicas] = {}
        self._records: dict[TopicRecord, TopicRecord] = {}

    def topic(self, row: Row) -> TopicState:
        """A topic of which all is known."""
        share: Callable[[Replicas, Replicas], Replicas] = self._replicas.setdefault
        config: Mapping[str, str] = {intern(key): text for key, text in row["config"].items()}
        return TopicState(
            name=row["topic"],
            identity=row["identity"],
            replicas=tuple([share(ids, ids) for ids in map(tuple, row["replicas"])]),
            config=config,
            partition_ids=() if row["partitionIds"] is None else tuple(row["partitionIds"]),
            topic_id=row["topicId"],
            reassigning=tuple(row["movingPartitions"]),
            record=row["record"] and self.record(row["record"]),
            record_valid=row["recordValid"],
            changed_outside=row["changedOutside"],
            unknown_fields=tuple(row["unknownFields"]),
        )

    def record(self, fields: Row) -> TopicRecord:
        """A record."""
        row = fields.get("applied")
        values = tuple(sorted((intern(key), value) for key, value in row["config"].items())) if row else ()
        applied = Applied(row["partitions"], values, row["removeUnmanaged"]) if row else None
        record = TopicRecord(fields["owner"], tuple(map(intern, fields["config"])), fields["absent"], applied)
        return self._records.setdefault(record, record)
