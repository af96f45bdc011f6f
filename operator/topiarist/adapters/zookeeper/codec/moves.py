"""Encode the requests of a batch and of an election, and encode and decode topiarist's record of the batch.

Kafka ignores a whole request for one field that it does not know (contract 4.7), so a request has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from topiarist.adapters.zookeeper.codec.paths import is_znode_name
from topiarist.adapters.zookeeper.codec.strict_json import (
    ZnodeError,
    dump_object,
    format_value,
    load_object,
    parse_id,
    require_integer,
    require_object,
    require_text,
    require_version,
)
from topiarist.kafka.config_table import RATE_CONFIGS, THROTTLE_CONFIGS
from topiarist.kafka.types import Replicas
from topiarist.model.moves import BatchRecord, OwnThrottles, OwnValue, ReplicaMove

_VERSION = 1
_CONFIGS = {"topics": THROTTLE_CONFIGS, "brokers": frozenset(RATE_CONFIGS)}
"""The configs that throttle moves, by the kind of their entity."""


def encode_reassignment_request(moves: Sequence[ReplicaMove]) -> bytes:
    """Return the bytes of ``/admin/reassign_partitions``."""
    partitions = [{"topic": move.topic, "partition": move.partition, "replicas": list(move.after)} for move in moves]
    return dump_object({"version": _VERSION, "partitions": partitions})


def encode_election_request(partitions: Iterable[tuple[str, int]]) -> bytes:
    """Return the bytes of ``/admin/preferred_replica_election``; ``partitions`` are topics with a partition."""
    entries = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return dump_object({"version": _VERSION, "partitions": entries})


def encode_batch_record(record: BatchRecord) -> bytes:
    """Return the bytes of a batch record: equal records always have equal bytes."""
    moves = [
        {"topic": move.topic, "partition": move.partition, "before": list(move.before), "after": list(move.after)}
        for move in record.moves
    ]
    throttles = {
        entity: {key: own._asdict() for key, own in sorted(values.items())}
        for entity, values in sorted(record.throttles.items())
    }
    position = {"batch": record.batch, "batches": record.batches}
    return dump_object({"version": _VERSION, "owner": record.owner, **position, "moves": moves, "throttles": throttles})


def decode_batch_record(raw: bytes) -> BatchRecord:
    """Return the record; raise ``ZnodeError`` on content that ``encode_batch_record`` would not write."""
    fields = load_object(raw)
    require_version(fields, _VERSION)
    # One transaction writes the record and the throttles here: there are no replaced values.
    _require_fields(fields, {"version", *BatchRecord._fields} - {"replaced"})
    moves = fields["moves"]
    if type(moves) is not list:
        raise ZnodeError(f'"moves" must be a list, not {format_value(moves)}')
    return BatchRecord(
        owner=require_text(fields, "owner"),
        batch=require_integer(fields, "batch"),
        batches=require_integer(fields, "batches"),
        moves=tuple(map(_decode_move, moves)),
        throttles=_decode_throttles(require_object(fields, "throttles")),
    )


def _decode_move(fields: object) -> ReplicaMove:
    if not isinstance(fields, dict):
        raise ZnodeError(f"a move must be an object, not {format_value(fields)}")
    _require_fields(fields, {"topic", "partition", "before", "after"})
    before, after = _decode_replicas(fields["before"]), _decode_replicas(fields["after"])
    topic, partition = require_text(fields, "topic"), require_integer(fields, "partition")
    _require_name(topic)
    return ReplicaMove(topic, partition, before, after)


def _decode_replicas(value: object) -> Replicas:
    if type(value) is not list or not value or not all(type(broker) is int and broker >= 0 for broker in value):
        raise ZnodeError(f"a replica list must have broker ids, not {format_value(value)}")
    return tuple(value)


def _decode_throttles(entities: Mapping[str, object]) -> OwnThrottles:
    throttles: dict[str, dict[str, OwnValue]] = {}
    for entity, configs in entities.items():
        if not isinstance(configs, dict):
            raise ZnodeError(f"the throttles of {format_value(entity)} must be an object, not {format_value(configs)}")
        kind, _, name = entity.partition("/")
        if kind == "brokers":
            parse_id(name)
        _require_name(name)
        # The end of the moves writes these configs: another config could change more than a throttle.
        if kind not in _CONFIGS or not _CONFIGS[kind].issuperset(configs):
            raise ZnodeError(f"found throttles of {format_value(entity)} that topiarist does not set")
        throttles[entity] = {key: _decode_own_value(value) for key, value in configs.items()}
    return throttles


def _decode_own_value(fields: object) -> OwnValue:
    if not isinstance(fields, dict):
        raise ZnodeError(f"a throttle must be an object, not {format_value(fields)}")
    _require_fields(fields, set(OwnValue._fields))
    before = fields["before"]
    if before is not None and type(before) is not str:
        raise ZnodeError(f'"before" must be text or null, not {format_value(before)}')
    return OwnValue(before, require_text(fields, "ours"))


def _require_name(name: str) -> None:
    """Raise ``ZnodeError`` if a name cannot be part of a path."""
    if not is_znode_name(name):
        raise ZnodeError(f"{format_value(name)} cannot be the name of a znode")


def _require_fields(fields: Mapping[str, object], expected: set[str]) -> None:
    if fields.keys() != expected:
        wanted = ", ".join(sorted(expected))
        raise ZnodeError(f"found fields {', '.join(map(format_value, sorted(fields)))}, wanted {wanted}")
