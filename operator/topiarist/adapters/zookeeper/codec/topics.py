"""Decode and encode the znode of a topic, ``/brokers/topics/T``; decode its config and ownership record.

Contract 4.3 and 4.5. A bulk read of ten thousand topics must decode them in a tenth of a second, so a ``ZnodeDecoder``
decodes repeated values once and shares them; it lives as long as one bulk read. ``read`` decodes with it, and
``write.transaction`` encodes with the functions of this module.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple, TypeVar, cast

from topiarist.adapters.zookeeper.codec.configs import decode_config
from topiarist.adapters.zookeeper.codec.own_znodes import decode_record
from topiarist.adapters.zookeeper.codec.strict_json import (
    MAX_ID,
    ZnodeError,
    dump_object,
    format_value,
    load_object,
    parse_id,
    require_object,
    require_version,
)
from topiarist.kafka.types import Replicas
from topiarist.model.state import AppliedSpec, OwnershipRecord

TOPIC_VERSION = 3
TOPIC_FIELDS = frozenset({"version", "partitions", "adding_replicas", "removing_replicas", "topic_id"})

_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_TOPIC_ID_FIELD = re.compile(rb'"topic_id":"([A-Za-z0-9_-]{22})"')
_MAX_SHARED_VALUES = 4096
_REPLICA_LIST_CACHE_SIZE = 65_536

T = TypeVar("T")


class TopicAssignment(NamedTuple):
    """The content of a topic's znode.

    ``replicas`` and ``partition_ids`` are in the same order, by ascending id; ``partition_ids`` is a ``range`` if the
    ids are 0 to n-1. ``reassigning_partitions`` has the ids with adding or removing replicas, ``unknown_fields`` the
    names of top-level fields that no Kafka release writes.
    """

    version: int
    replicas: tuple[Replicas, ...]
    partition_ids: Sequence[int]
    reassigning_partitions: tuple[int, ...] = ()
    topic_id: str | None = None
    unknown_fields: tuple[str, ...] = ()


class _PartitionIds(dict[str, int]):
    """A cache of partition ids by their text; each text is validated once."""

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
            if len(self.topics) < _MAX_SHARED_VALUES and (field is None or _is_only_topic_id(raw, field[1], node)):
                self.topics[key] = node
            return node
        if field is None:
            return node
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
        """Return an equal record that shares its key list and its config items with earlier records.

        Few whole records are equal, but their parts repeat.
        """
        keys, applied = _share(self.config_keys, record.config_keys), record.applied
        if applied is not None:
            items = tuple(_share(self.config_items, item) for item in applied.config)
            applied = AppliedSpec(applied.partitions, items, applied.remove_unmanaged)
        return OwnershipRecord(record.owner, keys, record.deleted, applied)


def _share(shared: dict[T, T], value: T) -> T:
    """Return the equal value in ``shared``, else ``value`` itself, which is added if there is space."""
    return shared.setdefault(value, value) if len(shared) < _MAX_SHARED_VALUES else shared.get(value, value)


def decode_topic(raw: bytes) -> TopicAssignment:
    """Decode a topic's znode; raise ``ZnodeError`` on content that Kafka would not have written."""
    return _decode_topic(raw, ZnodeDecoder())


def encode_topic(replicas: Sequence[Replicas], *, version: int = TOPIC_VERSION, topic_id: str | None = None) -> bytes:
    """Return the znode of a topic with partitions 0 to n-1.

    Version 3 without a topic id is valid for every release (contract 4.3).
    """
    partitions = ",".join([f'"{partition}":{_encode_replicas(brokers)}' for partition, brokers in enumerate(replicas)])
    moving = ',"adding_replicas":{},"removing_replicas":{}' if version > 1 else ""
    if topic_id is not None:
        topic_id_bytes(topic_id)
        moving += f',"topic_id":"{topic_id}"'
    return f'{{"version":{version:d},"partitions":{{{partitions}}}{moving}}}'.encode()


def add_partitions(raw: bytes, added: Sequence[Replicas]) -> bytes:
    """Return the znode ``raw`` with ``added`` as its next partitions, and all other fields kept.

    Unknown fields are kept too. The version becomes 3 if it was 3 or the topic has an id, else 2. Raises ``ZnodeError``
    if ``raw`` is malformed, or if its partition ids are not 0 to n-1 (the new ones would get wrong ids).
    """
    fields, node = load_object(raw), decode_topic(raw)
    if not isinstance(node.partition_ids, range):
        raise ZnodeError("its partition ids have holes")
    kept = {name: value for name, value in fields.items() if name not in TOPIC_FIELDS}
    grown: dict[str, object] = {
        "version": 3 if node.version == 3 or node.topic_id is not None else 2,
        "partitions": _encode_partitions([*node.replicas, *added]),
        "adding_replicas": fields.get("adding_replicas", {}),
        "removing_replicas": fields.get("removing_replicas", {}),
    }
    if node.topic_id is not None:
        grown["topic_id"] = node.topic_id
    return dump_object(grown | kept)


def topic_id_bytes(text: str) -> bytes:
    """Return the 16 bytes of a topic id in Kafka's form: 22 characters of base64url.

    Only the form is checked; raises ``ZnodeError`` for any other.
    """
    if not _TOPIC_ID.fullmatch(text):
        raise _topic_id_error(text)
    return urlsafe_b64decode(text + "==")


def _decode_topic(raw: bytes, decoder: ZnodeDecoder) -> TopicAssignment:
    fields = load_object(raw)
    version = require_version(fields, TOPIC_VERSION)
    ids, lists = _sort_partitions(require_object(fields, "partitions"), decoder)
    return TopicAssignment(
        version,
        _decode_replica_lists(ids, lists, decoder),
        ids,
        ()
        if fields.get("adding_replicas", {}) == {} == fields.get("removing_replicas", {})
        else _decode_reassigning_partitions(fields, ids, decoder),
        _decode_topic_id(fields),
        () if fields.keys() <= TOPIC_FIELDS else tuple(sorted(fields.keys() - TOPIC_FIELDS)),
    )


def _sort_partitions(partitions: Mapping[str, object], decoder: ZnodeDecoder) -> tuple[Sequence[int], list[object]]:
    """Return the ascending partition ids (a ``range`` if they are 0 to n-1) and their values."""
    by_id = {decoder.partition_ids[text]: value for text, value in partitions.items()}
    ids: Sequence[int] = range(len(by_id))
    if by_id and max(by_id) != len(by_id) - 1:
        ids = tuple(sorted(by_id))
    return ids, [by_id[partition] for partition in ids]


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


def _validate_replicas(partition: int | str, value: object) -> Replicas:
    if type(value) is not list or any(type(broker) is not int for broker in value):
        raise ZnodeError(f"partition {partition} must have a list of broker ids, not {format_value(value)}")
    if any(not 0 <= broker <= MAX_ID for broker in value):
        raise ZnodeError(f"partition {partition} has an id that no broker can have: {format_value(value)}")
    return tuple(value)


def _decode_reassigning_partitions(
    fields: Mapping[str, object], ids: Sequence[int], decoder: ZnodeDecoder
) -> tuple[int, ...]:
    reassigning: set[int] = set()
    existing_ids = ids if isinstance(ids, range) else frozenset(ids)
    for name in ("adding_replicas", "removing_replicas"):
        if name not in fields:
            continue
        for text, value in require_object(fields, name).items():
            partition = decoder.partition_ids[text]
            if partition not in existing_ids:
                raise ZnodeError(f'"{name}" names partition {partition}, which the topic does not have')
            if _validate_replicas(partition, value):
                reassigning.add(partition)
    return tuple(sorted(reassigning))


def _decode_topic_id(fields: Mapping[str, object]) -> str | None:
    if "topic_id" not in fields:
        return None
    value = fields["topic_id"]
    if type(value) is not str:
        raise ZnodeError(f'"topic_id" must be text, not {format_value(value)}')
    if not _TOPIC_ID.fullmatch(value):
        raise _topic_id_error(value)
    return value


def _topic_id_error(text: str) -> ZnodeError:
    return ZnodeError(f"a topic id has 22 characters of base64url, not {format_value(text)}")


def _is_only_topic_id(raw: bytes, match: bytes, node: TopicAssignment) -> bool:
    """Return True if ``match`` is the topic's id and ``raw`` has no second candidate."""
    return match.decode() == node.topic_id and raw.count(b"topic_id") == 1 and b"\\" not in raw


def _encode_partitions(replicas: Sequence[Replicas]) -> dict[str, list[int]]:
    return {str(partition): list(_validate_replicas(partition, list(ids))) for partition, ids in enumerate(replicas)}


@lru_cache(maxsize=_REPLICA_LIST_CACHE_SIZE)
def _encode_replicas(replicas: Replicas) -> str:
    """Return a replica list as JSON; cached, since the topics of a cluster share few distinct lists."""
    return f"[{','.join(map(str, _validate_replicas('?', list(replicas))))}]"
