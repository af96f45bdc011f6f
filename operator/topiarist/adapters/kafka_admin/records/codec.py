"""Encode and decode the values of the topic of records, strictly.

A value of a newer version, or one that topiarist would not write, is an error: of its topic alone if it is the record
of a topic, of the whole run otherwise. It is never taken for an absent record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from topiarist.adapters.kafka_admin.records.values import (
    Claim,
    Intent,
    IntentKind,
    Lock,
    Meta,
    Moved,
    Records,
    TopicRecord,
)
from topiarist.adapters.operator_memory import decode_memory, encode_memory
from topiarist.adapters.strict_json import JsonError, decode_json
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_table import RATE_CONFIGS, THROTTLE_CONFIGS
from topiarist.kafka.types import Replicas, topic_name_problem
from topiarist.model.moves import BatchRecord, OwnThrottles, OwnValue, ReplicaMove
from topiarist.model.state import NO_MEMORY, AppliedSpec, Freeze, OwnershipRecord, ReadError
from topiarist.text import quote

META, LOCK, GATE, MOVED, MOVES = "meta", "lock", "gate", "moved", "moves"
TOPIC_PREFIX, CLAIM_PREFIX = "topic/", "claim/"

VERSION, VERSION_WITH_MEMORY = 1, 2
"""The version of every value, and of the record of a topic with the operator's memory, which version 1 has not."""

_MAX_LEASE_MS = 24 * 3600 * 1000
_THROTTLES = {"topics": THROTTLE_CONFIGS, "brokers": frozenset(RATE_CONFIGS)}
"""The configs that throttle moves, by the kind of their entity."""


def encode_lock(lock: Lock) -> bytes:
    """Return the value of ``lock``."""
    return _dump(
        {
            "run": lock.run or None,
            "owner": lock.owner,
            "host": lock.host,
            "leaseMs": round(lock.lease * 1000),
            "n": lock.number,
            "leaderEpoch": lock.leader_epoch,
        }
    )


def claim_key(run: str) -> str:
    """Return the key of the claim of a run."""
    return f"{CLAIM_PREFIX}{run}"


def encode_claim(claim: Claim) -> bytes:
    """Return the value of ``claim/RUN``."""
    return _dump(
        {
            "owner": claim.owner,
            "host": claim.host,
            "leaseMs": round(claim.lease * 1000),
            "attempt": claim.attempt,
        }
    )


def encode_meta(meta: Meta) -> bytes:
    """Return the value of ``meta``."""
    return _dump({"clusterId": meta.cluster_id, "topicId": meta.topic_id})


def encode_gate(freeze: Freeze | None) -> bytes:
    """Return the value of ``gate``; None means not frozen."""
    return _dump({"state": "open"} if freeze is None else {"state": "frozen", **freeze._asdict()})


def encode_moved(moved: Moved) -> bytes:
    """Return the value of ``moved``."""
    return _dump({"chroot": moved.chroot, "count": moved.total, "skipped": list(moved.skipped)})


def encode_batch(batch: BatchRecord) -> bytes:
    """Return the value of ``moves``."""
    moves = [
        {"topic": move.topic, "partition": move.partition, "before": list(move.before), "after": list(move.after)}
        for move in batch.moves
    ]
    return _dump(
        {
            "owner": batch.owner,
            "batch": batch.batch,
            "batches": batch.batches,
            "moves": moves,
            "throttles": _encode_throttles(batch.throttles),
            "replaced": _encode_throttles(batch.replaced),
        }
    )


def _encode_throttles(throttles: OwnThrottles) -> dict[str, object]:
    return {
        entity: {key: own._asdict() for key, own in sorted(values.items())}
        for entity, values in sorted(throttles.items())
    }


def encode_topic(record: TopicRecord) -> bytes:
    """Return the value of ``topic/NAME``."""
    fields: dict[str, object] = {"id": record.topic_id, "record": _encode_record(record.record)}
    if intent := record.intent:
        fields["intent"] = {
            "kind": intent.kind.value,
            "after": _encode_record(intent.after),
            "replicas": [list(each) for each in intent.replicas],
            "first": intent.first_partition,
            "config": dict(sorted(intent.config.items())),
        }
    return _dump(fields, _version_of(record))


def decode_records(values: Mapping[bytes, bytes]) -> Records:
    """Return all records. Raises ``Unreadable`` if a value that is not of one topic cannot be read.

    ``values`` are in the order in which their keys were first written since they were last deleted.
    """
    topics: dict[str, TopicRecord] = {}
    errors: dict[str, ReadError] = {}
    found: dict[str, Any] = {}
    claims: list[Claim] = []
    decoders = {META: _meta, LOCK: _lock, GATE: _gate, MOVED: _moved, MOVES: _batch}
    for raw_key, raw in values.items():
        key = raw_key.decode(errors="backslashreplace")
        name = key.removeprefix(TOPIC_PREFIX) if key.startswith(TOPIC_PREFIX) else None
        try:
            if name is not None:
                _check(_is_topic(name), "the name of a topic")
                topics[name] = _topic(*_load_versioned(raw, VERSION_WITH_MEMORY))
            elif key in decoders:
                found[key] = decoders[key](_load(raw))
            elif key.startswith(CLAIM_PREFIX):
                claims.append(_claim(key.removeprefix(CLAIM_PREFIX), _load(raw)))
            else:
                raise _UnknownKey("found a key that this release of topiarist does not know")
        except (JsonError, _TooNew, _UnknownKey) as error:
            if name is None:
                message = f"the record {quote(key)} of topiarist cannot be read: {error}"
                raise TopiaristError(Reason.UNREADABLE, message, _HINTS[type(error)]) from None
            errors[name] = ReadError(key, str(error))
    lock, gate, meta, moved, moves = (found.get(key) for key in (LOCK, GATE, META, MOVED, MOVES))
    return Records(topics, lock or Lock(), gate, meta, moved, moves, errors, tuple(claims))


class _TooNew(Exception):
    """A value of a later release."""


class _UnknownKey(Exception):
    """A key of a later release, or of another client."""


_HINTS: Mapping[type[Exception], str] = {
    JsonError: "another client has written to the topic: write the last value of this key that topiarist wrote",
    _TooNew: "upgrade topiarist",
    _UnknownKey: "upgrade topiarist if a later release wrote it; if another client did, delete it:"
    " write a record with this key and a null value to the topic",
}


def _dump(fields: Mapping[str, object], version: int = VERSION) -> bytes:
    return json.dumps({"version": version, **fields}, separators=(",", ":"), ensure_ascii=False).encode()


def _load(raw: bytes) -> dict[str, Any]:
    return _load_versioned(raw, VERSION)[0]


def _load_versioned(raw: bytes, newest: int) -> tuple[dict[str, Any], int]:
    fields = decode_json(raw)
    if not isinstance(fields, dict):
        raise JsonError("found a value that is no object")
    version = fields.pop("version", None)
    if type(version) is not int or version < 1:
        raise JsonError('wanted a "version"')
    if version > newest:
        raise _TooNew(f"version {version} is of a later release of topiarist; this one knows version {newest}")
    return fields, version


def _fields(value: object, *names: str) -> list[Any]:
    """Return the values of exactly these fields, in their order."""
    if not isinstance(value, dict) or value.keys() != set(names):
        found = ", ".join(sorted(map(quote, value))) if isinstance(value, dict) else "no object"
        raise JsonError(f"found {found}, wanted the fields {', '.join(names)}")
    return [value[name] for name in names]


def _check(condition: bool, what: str) -> None:
    if not condition:
        raise JsonError(f"found a wrong value of {what}")


def _is_number(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_topic(value: object) -> bool:
    return type(value) is str and not topic_name_problem(value)


def _is_text_or_none(value: object) -> bool:
    return value is None or type(value) is str


def _lock(fields: object) -> Lock:
    run, owner, host, lease, number, epoch = _fields(fields, "run", "owner", "host", "leaseMs", "n", "leaderEpoch")
    _check(_is_text_or_none(run) and _is_text(owner) and _is_text(host), "the holder")
    _check(_is_number(lease) and lease <= _MAX_LEASE_MS and _is_number(number), "the lease or the number")
    _check(epoch is None or _is_number(epoch), "leaderEpoch")
    return Lock(run or "", owner, host, lease / 1000, number, epoch)


def _claim(run: str, fields: object) -> Claim:
    owner, host, lease, attempt = _fields(fields, "owner", "host", "leaseMs", "attempt")
    _check(bool(run) and _is_text(owner) and _is_text(host), "the claimant")
    _check(_is_number(lease) and lease <= _MAX_LEASE_MS and _is_number(attempt), "the lease or the attempt")
    return Claim(run, owner, host, lease / 1000, attempt)


def _meta(fields: object) -> Meta:
    cluster_id, topic_id = _fields(fields, "clusterId", "topicId")
    _check(_is_text(cluster_id) and _is_text(topic_id), "an id")
    return Meta(cluster_id, topic_id)


def _gate(fields: dict[str, Any]) -> Freeze | None:
    if fields == {"state": "open"}:
        return None
    state, *texts = _fields(fields, "state", *Freeze._fields)
    _check(state == "frozen" and all(map(_is_text, texts)), "the freeze")
    return Freeze(*texts)


def _moved(fields: object) -> Moved:
    chroot, count, skipped = _fields(fields, "chroot", "count", "skipped")
    _check(_is_text(chroot) and _is_number(count) and isinstance(skipped, list), "the origin")
    _check(all(map(_is_text, skipped)), "skipped")
    return Moved(chroot, count, tuple(skipped))


def _batch(fields: object) -> BatchRecord:
    owner, batch, batches, moves, throttles, replaced = _fields(fields, *BatchRecord._fields)
    _check(_is_text(owner) and _is_number(batch) and _is_number(batches), "the batch")
    _check(isinstance(moves, list), "the moves")
    return BatchRecord(owner, batch, batches, tuple(map(_move, moves)), _throttles(throttles), _throttles(replaced))


def _move(fields: object) -> ReplicaMove:
    topic, partition, before, after = _fields(fields, "topic", "partition", "before", "after")
    _check(_is_topic(topic) and _is_number(partition), "a move")
    return ReplicaMove(topic, partition, _replicas(before), _replicas(after))


def _throttles(entities: object) -> dict[str, dict[str, OwnValue]]:
    throttles = {}
    for entity, configs in entities.items() if isinstance(entities, dict) else [("", None)]:
        kind, _, name = entity.partition("/")
        _check(_is_topic(name) if kind == "topics" else name.isascii() and name.isdigit(), "the throttles")
        # The end of the moves writes these configs: another config could change more than a throttle.
        known = _THROTTLES.get(kind, frozenset())
        if not isinstance(configs, dict) or not known.issuperset(configs):
            raise JsonError(f"found throttles of {quote(entity)} that topiarist does not set")
        throttles[entity] = {key: _own_value(value) for key, value in configs.items()}
    return throttles


def _own_value(fields: object) -> OwnValue:
    before, ours = _fields(fields, "before", "ours")
    _check(_is_text_or_none(before) and _is_text(ours), "a throttle")
    return OwnValue(before, ours)


def _replicas(value: object) -> Replicas:
    if not isinstance(value, list) or not value or not all(map(_is_number, value)):
        raise JsonError("found a list of replicas without broker ids")
    return tuple(value)


def _encode_record(record: OwnershipRecord | None) -> dict[str, object] | None:
    if record is None:
        return None
    applied = record.applied
    return {
        "owner": record.owner,
        "keys": list(record.config_keys),
        "deleted": record.deleted,
        "applied": applied
        and {
            "partitions": applied.partitions,
            "config": dict(applied.config),
            "removeUnmanaged": applied.remove_unmanaged,
        },
        **({"memory": encode_memory(record.memory)} if record.memory != NO_MEMORY else {}),
    }


def _record(fields: object) -> OwnershipRecord | None:
    if fields is None:
        return None
    memory = decode_memory(fields.pop("memory")) if isinstance(fields, dict) and "memory" in fields else NO_MEMORY
    _check(memory is not None, "the memory")
    owner, keys, deleted, applied = _fields(fields, "owner", "keys", "deleted", "applied")
    _check(_is_text(owner) and type(deleted) is bool and isinstance(keys, list), "the record")
    _check(all(map(_is_text, keys)) and keys == sorted(set(keys)), "the config names")
    values = None if applied is None else _applied(applied)
    return OwnershipRecord(owner, tuple(keys), deleted, values, memory or NO_MEMORY)


def _applied(fields: object) -> AppliedSpec:
    partitions, config, remove = _fields(fields, "partitions", "config", "removeUnmanaged")
    _check(partitions is None or (_is_number(partitions) and partitions > 0), "partitions")
    _check(isinstance(config, dict) and all(map(_is_text, config.values())) and type(remove) is bool, "applied")
    return AppliedSpec(partitions, tuple(sorted(config.items())), remove)


def _topic(fields: dict[str, Any], version: int) -> TopicRecord:
    intent = _intent(fields.pop("intent")) if "intent" in fields else None
    topic_id, record = _fields(fields, "id", "record")
    _check(_is_text_or_none(topic_id), "id")
    found = TopicRecord(_record(record), topic_id, intent)
    _check(version == _version_of(found), "the version")
    return found


def _version_of(record: TopicRecord) -> int:
    """Return the version of the value of a topic: an earlier release reads all but those with a memory."""
    records = (record.record, record.intent.after if record.intent else None)
    has_memory = any(each is not None and each.memory != NO_MEMORY for each in records)
    return VERSION_WITH_MEMORY if has_memory else VERSION


def _intent(fields: object) -> Intent:
    kind, after, replicas, first, config = _fields(fields, "kind", "after", "replicas", "first", "config")
    _check(isinstance(kind, str) and kind in {each.value for each in IntentKind}, "the kind of the intent")
    _check(isinstance(replicas, list) and _is_number(first), "the replicas")
    _check(isinstance(config, dict) and all(map(_is_text_or_none, config.values())), "the config")
    return Intent(IntentKind(kind), _record(after), tuple(map(_replicas, replicas)), first, config)
