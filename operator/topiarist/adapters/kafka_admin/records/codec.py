"""Encode and decode the values of the topic of records, strictly: one table of its keys.

A value of a newer version, or one that topiarist would not write, is an error: of its topic alone if it is the record
of a topic, of the whole run otherwise. It is never taken for an absent record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.json import Decoder

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
from topiarist.adapters.own_values import (
    Int32,
    NewerVersionError,
    Record,
    ReplicaList,
    Wire,
    decode_batch,
    decode_freeze,
    decode_value,
    encode_value,
    record_fields,
    stored_record,
)
from topiarist.adapters.strict_json import JsonError
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.names import topic_name_problem
from topiarist.model.state import OwnershipRecord, ReadError
from topiarist.text import quote

META, LOCK, GATE, MOVED, MOVES = "meta", "lock", "gate", "moved", "moves"
TOPIC_PREFIX, CLAIM_PREFIX = "topic/", "claim/"


class _Intent(Wire):
    kind: IntentKind
    after: Record | None
    replicas: list[ReplicaList]
    first: Int32
    config: dict[str, str | None]


class _Topic(Wire):
    id: str | None
    record: Record | None
    intent: _Intent | UnsetType = UNSET


_CLAIM, _TOPIC = Decoder(Claim), Decoder(_Topic)
_LOCK, _META, _MOVED = Decoder(Lock), Decoder(Meta), Decoder(Moved)
_DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    META: lambda raw: decode_value(raw, _META),
    LOCK: lambda raw: decode_value(raw, _LOCK),
    GATE: decode_freeze,
    MOVED: lambda raw: decode_value(raw, _MOVED),
    MOVES: decode_batch,
}


def claim_key(run: str) -> str:
    """Return the key of the claim of a run."""
    return f"{CLAIM_PREFIX}{run}"


def encode_topic(record: TopicRecord) -> bytes:
    """Return the value of ``topic/NAME``."""
    fields: dict[str, object] = {"id": record.topic_id, "record": record.record and record_fields(record.record)}
    if intent := record.intent:
        fields["intent"] = {
            "kind": intent.kind,
            "after": intent.after and record_fields(intent.after),
            "replicas": intent.replicas,
            "first": intent.first_partition,
            "config": dict(sorted(intent.config.items())),
        }
    return encode_value(fields)


def decode_records(values: Mapping[bytes, bytes]) -> Records:
    """Return all records. Raises ``Unreadable`` if a value that is not of one topic cannot be read.

    ``values`` are in the order in which their keys were first written since they were last deleted.
    """
    topics: dict[str, TopicRecord] = {}
    errors: dict[str, ReadError] = {}
    found: dict[str, Any] = {}
    claims: list[Claim] = []
    for raw_key, raw in values.items():
        key = raw_key.decode(errors="backslashreplace")
        name = key.removeprefix(TOPIC_PREFIX) if key.startswith(TOPIC_PREFIX) else None
        try:
            if name is not None:
                topics[name] = _decode_topic(name, raw)
            elif key in _DECODERS:
                found[key] = _DECODERS[key](raw)
            elif key.startswith(CLAIM_PREFIX):
                claims.append(_decode_claim(key, raw))
            else:
                raise _UnknownKeyError("found a key that this release of topiarist does not know")
        except JsonError as error:
            if name is None:
                message = f"the record {quote(key)} of topiarist cannot be read: {error}"
                raise TopiaristError(Reason.UNREADABLE, message, _HINTS[type(error)]) from None
            errors[name] = ReadError(key, str(error))
    lock, gate, meta, moved, moves = (found.get(key) for key in (LOCK, GATE, META, MOVED, MOVES))
    return Records(topics, lock or Lock(), gate, meta, moved, moves, errors, tuple(claims))


class _UnknownKeyError(JsonError):
    """A key of a later release, or of another client."""


_HINTS: Mapping[type[JsonError], str] = {
    JsonError: "another client has written to the topic: write the last value of this key that topiarist wrote",
    NewerVersionError: "upgrade topiarist",
    _UnknownKeyError: "upgrade topiarist if a later release wrote it; if another client did, delete it:"
    " write a record with this key and a null value to the topic",
}


def _decode_claim(key: str, raw: bytes) -> Claim:
    claim = decode_value(raw, _CLAIM)
    if claim_key(claim.run) != key:
        raise JsonError(f'"run": found {quote(claim.run)}, wanted that of the key')
    return claim


def _decode_topic(name: str, raw: bytes) -> TopicRecord:
    if problem := topic_name_problem(name):
        raise JsonError(problem)
    found = decode_value(raw, _TOPIC)
    intent = None if found.intent is UNSET else _intent_of(found.intent)
    return TopicRecord(_record_of(found.record), found.id, intent)


def _intent_of(found: _Intent) -> Intent:
    replicas = tuple(map(tuple, found.replicas))
    return Intent(found.kind, _record_of(found.after), replicas, found.first, found.config)


def _record_of(found: Record | None) -> OwnershipRecord | None:
    return None if found is None else stored_record(found, is_deleted=found.absent)
