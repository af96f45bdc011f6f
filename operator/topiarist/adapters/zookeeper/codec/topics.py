"""Decode and encode the znodes of topics: assignments, states of partitions, configs (contract 4.3 to 4.5).

A bulk read of ten thousand topics must decode them in a tenth of a second, so a ``ZnodeDecoder`` decodes repeated
values once and shares them, those of configs and ownership records too. It lives as long as one bulk read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from sys import intern
from typing import NamedTuple, TypeVar, cast

from msgspec import Struct
from msgspec.json import Decoder, encode

from topiarist.adapters.own_values import decode_record
from topiarist.adapters.zookeeper.codec.values import (
    MAX_ID,
    ZnodeError,
    dump_object,
    dump_texts,
    format_value,
    load_object,
    parse_id,
    require_integer,
    require_object,
    require_version,
)
from topiarist.kafka.types import Replicas
from topiarist.model.state import LEADER_DURING_DELETE, AppliedSpec, OwnershipRecord, PartitionState, Reassignment

# Decode and encode config znodes: ``/config/topics/T``, ``/config/brokers/N``, and notifications (contract 4.5).

_VERSION = 1


class _UsualZnode(Struct, forbid_unknown_fields=True):
    version: int
    config: dict[str, str]


_USUAL_DECODER = Decoder(_UsualZnode)


def decode_config(raw: bytes) -> Mapping[str, str]:
    """Return the overrides of a config znode, as raw text; raise ``ZnodeError`` if it is malformed."""
    config = decode_usual_config(raw)
    return decode_any_config(raw) if config is None else config


def decode_usual_config(raw: bytes) -> Mapping[str, str] | None:
    """Return the overrides if the znode has the usual form, in a fifth of the time; else None.

    The usual form is that of its values, encoded again: no key is duplicated, and no text has half of a character.
    """
    try:
        found = _USUAL_DECODER.decode(raw)
        return found.config if found.version == _VERSION and encode(found) == raw else None
    except ValueError:
        return None


def decode_any_config(raw: bytes) -> Mapping[str, str]:
    """Do the same as ``decode_config`` for any znode."""
    fields = load_object(raw)
    require_version(fields, _VERSION)
    config = require_object(fields, "config")
    if not set(map(type, config.values())) <= {str}:
        name, value = next((name, value) for name, value in config.items() if type(value) is not str)
        raise ZnodeError(f"the value of {format_value(name)} must be text, not {format_value(value)}")
    # Intern the names: ten thousand topics share a few of them.
    return cast("dict[str, str]", dict(zip(map(intern, config), config.values(), strict=True)))


def encode_config(config: Mapping[str, str], other_fields: Mapping[str, object] | None = None) -> bytes:
    """Return the znode of these overrides, sorted by name, followed by ``other_fields``; there may be none.

    Raises ``ZnodeError`` for a value that is not text: brokers that load it do not start again (contract 1).
    """
    for name, value in config.items():
        if not isinstance(value, str):
            raise ZnodeError(f"the value of {name} must be text, not {format_value(value)}")
    fields: dict[str, object] = {"version": _VERSION, "config": dict(sorted(config.items()))}
    return dump_object({**fields, **other_fields}) if other_fields else dump_texts(fields)


def replace_config(raw: bytes, config: Mapping[str, str]) -> bytes:
    """Return the znode ``raw`` with its overrides replaced by ``config``, and unknown top-level fields kept."""
    decode_config(raw)
    kept = {name: value for name, value in load_object(raw).items() if name not in ("version", "config")}
    return encode_config(config, kept)


def encode_change_notification(entity_path: str) -> bytes:
    """Return the notification that makes the brokers read a config again.

    ``entity_path`` is ``topics/T`` or ``brokers/N`` (contract 4.6); raises ``ZnodeError`` for any other.
    """
    kind, slash, name = entity_path.partition("/")
    if kind not in ("topics", "brokers") or not slash or not name or "/" in name:
        raise ZnodeError(f"a config notification names topics/T or brokers/N, not {format_value(entity_path)}")
    return dump_object({"version": 2, "entity_path": entity_path})


_TOPIC_VERSION = 3
_TOPIC_FIELDS = frozenset({"version", "partitions", "adding_replicas", "removing_replicas", "topic_id"})
_STATE_VERSION = 1
_RECOVERED, _RECOVERING = 0, 1

_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_TOPIC_ID_FIELD = re.compile(rb'"topic_id":"([A-Za-z0-9_-]{22})"')
_MAX_SHARED_VALUES = 4096

T = TypeVar("T")


class TopicAssignment(NamedTuple):
    """The content of a topic's znode.

    ``replicas`` and ``partition_ids`` are in the same order, by ascending id; ``partition_ids`` is a ``range`` if the
    ids are 0 to n-1. ``reassignments`` has the partitions with adding or removing replicas, ``unknown_fields`` the
    names of top-level fields that no Kafka release writes.
    """

    version: int
    replicas: tuple[Replicas, ...]
    partition_ids: Sequence[int]
    reassignments: Mapping[int, Reassignment]
    topic_id: str | None = None
    unknown_fields: tuple[str, ...] = ()


class _PartitionIds(dict[str, int]):
    def __missing__(self, text: str) -> int:
        number = parse_id(text)
        self[text] = number
        return number


class ZnodeDecoder:
    """A decoder that shares values between topics: replica lists, whole assignments, configs, records."""

    def __init__(self) -> None:
        self.partition_ids = _PartitionIds()
        self.replica_lists: dict[Replicas, Replicas] = {}
        self.topics: dict[bytes | tuple[bytes, bytes], TopicAssignment] = {}
        self.configs: dict[bytes, Mapping[str, str]] = {}
        self.records: dict[bytes, OwnershipRecord] = {}
        self.config_keys: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.config_items: dict[tuple[str, str], tuple[str, str]] = {}

    def decode_topic(self, raw: bytes) -> TopicAssignment:
        """Decode a topic's znode, once for all topics that differ only in their topic id.

        Kafka's placement produces few distinct assignments.
        """
        field = _TOPIC_ID_FIELD.search(raw)
        key = raw if field is None else (raw[: field.start(1)], raw[field.end(1) :])
        node = self.topics.get(key)
        if node is None:
            node = _decode_topic(raw, self)
            # The key leaves the topic id out, so no other bytes of the znode may be taken for the id.
            only_id = field is None or (
                field[1].decode() == node.topic_id and raw.count(b"topic_id") == 1 and b"\\" not in raw
            )
            if only_id and len(self.topics) < _MAX_SHARED_VALUES:
                self.topics[key] = node
            return node
        if field is None:
            return node
        # Faster than _replace: every topic of a cluster with topic ids comes here.
        return TopicAssignment(node[0], node[1], node[2], node[3], field[1].decode(), node[5])

    def decode_config(self, raw: bytes) -> Mapping[str, str]:
        """Decode a config znode, once for equal bytes."""
        config = self.configs.get(raw)
        if config is None:
            config = decode_config(raw)
            if len(self.configs) < _MAX_SHARED_VALUES:
                self.configs[raw] = config
        return config

    def decode_record(self, raw: bytes) -> OwnershipRecord:
        """Decode an ownership record, once for equal bytes."""
        record = self.records.get(raw)
        if record is None:
            record = self._share_values(decode_record(raw))
            if len(self.records) < _MAX_SHARED_VALUES:
                self.records[raw] = record
        return record

    def _share_values(self, record: OwnershipRecord) -> OwnershipRecord:
        # Few whole records are equal, but their key lists and config items repeat.
        keys, applied, shared = _share(self.config_keys, record.config_keys), record.applied, self.config_items
        if applied is not None:
            share = shared.setdefault if len(shared) < _MAX_SHARED_VALUES else shared.get
            items = cast("tuple[tuple[str, str], ...]", tuple(map(share, applied.config, applied.config)))
            applied = AppliedSpec(applied.partitions, items, applied.remove_unmanaged)
        return OwnershipRecord(record.owner, keys, record.deleted, applied, record.memory)


def _share(shared: dict[T, T], value: T) -> T:
    """Return the equal value in ``shared``, else ``value`` itself, which is added if there is space."""
    return shared.setdefault(value, value) if len(shared) < _MAX_SHARED_VALUES else shared.get(value, value)


def decode_topic(raw: bytes) -> TopicAssignment:
    """Decode a topic's znode; raise ``ZnodeError`` on content that Kafka would not have written."""
    return _decode_topic(raw, ZnodeDecoder())


def decode_partition_state(raw: bytes) -> PartitionState:
    """Return the state of a partition.

    Raises ``ZnodeError`` on content that Kafka would not have written; unknown fields are ignored.
    """
    fields = load_object(raw)
    require_version(fields, _STATE_VERSION)
    leader = require_integer(fields, "leader")
    if leader < LEADER_DURING_DELETE:
        raise ZnodeError(f'"leader" must be a broker id, -1 or -2, not {leader}')
    recovery = require_integer(fields, "leader_recovery_state") if "leader_recovery_state" in fields else _RECOVERED
    if recovery not in (_RECOVERED, _RECOVERING):
        raise ZnodeError(f'"leader_recovery_state" must be 0 or 1, not {recovery}')
    isr = fields.get("isr")
    if type(isr) is not list or any(type(broker) is not int or not 0 <= broker <= MAX_ID for broker in isr):
        raise ZnodeError(f'"isr" must be a list of broker ids, not {format_value(isr)}')
    return PartitionState(
        leader=leader,
        isr=tuple(isr),
        leader_epoch=require_integer(fields, "leader_epoch"),
        controller_epoch=require_integer(fields, "controller_epoch"),
        recovering=recovery == _RECOVERING,
    )


def encode_topic(replicas: Sequence[Replicas]) -> bytes:
    """Return the znode of a new topic with partitions 0 to n-1.

    Its version 3 without a topic id is valid for every release: a controller with topic ids adds one (contract 4.3).
    """
    partitions = ",".join([f'"{partition}":{_encode_replicas(brokers)}' for partition, brokers in enumerate(replicas)])
    moving = '"adding_replicas":{},"removing_replicas":{}'
    return f'{{"version":{_TOPIC_VERSION},"partitions":{{{partitions}}},{moving}}}'.encode()


def add_partitions(raw: bytes, added: Sequence[Replicas]) -> bytes:
    """Return the znode ``raw`` with ``added`` as its next partitions, and all other fields kept.

    Unknown fields are kept too. The version becomes 3 if it was 3 or the topic has an id, else 2. Raises ``ZnodeError``
    if ``raw`` is malformed, or if its partition ids are not 0 to n-1 (the new ones would get wrong ids).
    """
    fields, node = load_object(raw), decode_topic(raw)
    if not isinstance(node.partition_ids, range):
        raise ZnodeError("its partition ids have holes")
    kept = {name: value for name, value in fields.items() if name not in _TOPIC_FIELDS}
    grown: dict[str, object] = {
        "version": 3 if node.version == 3 or node.topic_id is not None else 2,
        "partitions": {
            str(partition): _validate_replicas(partition, list(brokers))
            for partition, brokers in enumerate([*node.replicas, *added])
        },
        "adding_replicas": fields.get("adding_replicas", {}),
        "removing_replicas": fields.get("removing_replicas", {}),
    }
    if node.topic_id is not None:
        grown["topic_id"] = node.topic_id
    return dump_object(grown | kept)


def _decode_topic(raw: bytes, decoder: ZnodeDecoder) -> TopicAssignment:
    fields = load_object(raw)
    version = require_version(fields, _TOPIC_VERSION)
    by_id = {decoder.partition_ids[text]: value for text, value in require_object(fields, "partitions").items()}
    ids: Sequence[int] = range(len(by_id))
    if by_id and max(by_id) != len(by_id) - 1:
        ids = tuple(sorted(by_id))
    replicas = _decode_replica_lists(ids, [by_id[partition] for partition in ids], decoder)
    stable = fields.get("adding_replicas", {}) == {} == fields.get("removing_replicas", {})
    topic_id = fields.get("topic_id")
    if "topic_id" in fields and type(topic_id) is not str:
        raise ZnodeError(f'"topic_id" must be text, not {format_value(topic_id)}')
    if type(topic_id) is str and not _TOPIC_ID.fullmatch(topic_id):
        raise ZnodeError(f"a topic id has 22 characters of base64url, not {format_value(topic_id)}")
    return TopicAssignment(
        version,
        replicas,
        ids,
        {} if stable else _decode_reassignments(fields, by_id),
        cast("str | None", topic_id),
        () if fields.keys() <= _TOPIC_FIELDS else tuple(sorted(fields.keys() - _TOPIC_FIELDS)),
    )


def _decode_replica_lists(ids: Sequence[int], lists: list[object], decoder: ZnodeDecoder) -> tuple[Replicas, ...]:
    # Check all lists together; only if one is malformed check them one by one, to name the partition in the error.
    if set(map(type, lists)) <= {list}:
        flat = list(chain.from_iterable(cast("list[list[int]]", lists)))
        # Check types before values: as a dictionary key, a tuple with True equals a tuple with 1.
        if set(map(type, flat)) <= {int} and (not flat or (min(flat) >= 0 and max(flat) <= MAX_ID)):
            return tuple(
                [decoder.replica_lists.setdefault(ids, ids) for ids in map(tuple, cast("list[list[int]]", lists))]
            )
    return tuple([_validate_replicas(partition, value) for partition, value in zip(ids, lists, strict=True)])


def _decode_reassignments(fields: Mapping[str, object], existing: Mapping[int, object]) -> dict[int, Reassignment]:
    moving: dict[str, dict[int, Replicas]] = {"adding_replicas": {}, "removing_replicas": {}}
    for name in moving:
        partitions = require_object(fields, name) if name in fields else {}
        for text, value in partitions.items():
            partition = parse_id(text)
            if partition not in existing:
                raise ZnodeError(f'"{name}" names partition {partition}, which the topic does not have')
            # Kafka omits a partition without such replicas: an empty list is no reassignment.
            if replicas := _validate_replicas(partition, value):
                moving[name][partition] = replicas
    adding, removing = moving.values()
    return {
        partition: Reassignment(adding.get(partition, ()), removing.get(partition, ()))
        for partition in sorted(adding.keys() | removing.keys())
    }


def _validate_replicas(partition: int | str, value: object) -> Replicas:
    if type(value) is not list or any(type(broker) is not int for broker in value):
        raise ZnodeError(f"partition {partition} must have a list of broker ids, not {format_value(value)}")
    if any(not 0 <= broker <= MAX_ID for broker in value):
        raise ZnodeError(f"partition {partition} has an id that no broker can have: {format_value(value)}")
    return tuple(value)


@lru_cache(maxsize=65_536)
def _encode_replicas(replicas: Replicas) -> str:
    # Cached, since the topics of a cluster share few distinct lists.
    return f"[{','.join(map(str, _validate_replicas('?', list(replicas))))}]"
