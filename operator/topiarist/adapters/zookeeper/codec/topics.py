"""The znodes of one topic: ``/brokers/topics/T`` (assignment) and ``/config/topics/T`` (overrides); contract 4.3, 4.5.

Reading ten thousand of them must cost a tenth of a second, so what repeats is decoded once and shared: a ``Pool`` lives
as long as one bulk read.
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
    """A topic's znode.

    ``replicas`` and ``partition_ids`` go together, by ascending id; ``partition_ids`` is a ``range`` if they are 0 to
    n-1. ``reassigning`` has the ids with adding or removing replicas, ``unknown_fields`` the names of top-level fields
    that no Kafka release writes.
    """

    version: int
    replicas: tuple[Replicas, ...]
    partition_ids: Sequence[int]
    reassigning_partitions: tuple[int, ...] = ()
    topic_id: str | None = None
    unknown_fields: tuple[str, ...] = ()


class _PartitionIds(dict[str, int]):
    """Partition ids by their text; each text is checked once."""

    def __missing__(self, text: str) -> int:
        number = parse_id(text)
        self[text] = number
        return number


class ZnodeDecoder:
    """Decoded values that many topics of one cluster share: replica lists, whole assignments, configs, records."""

    def __init__(self) -> None:
        self.partition_ids = _PartitionIds()
        self.replica_lists: dict[Replicas, Replicas] = {}
        self.topics: dict[bytes | tuple[bytes, bytes], TopicAssignment] = {}
        self.configs: dict[bytes, Mapping[str, str]] = {}
        self.records: dict[bytes, OwnershipRecord] = {}
        self.config_keys: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.config_items: dict[tuple[str, str], tuple[str, str]] = {}

    def decode_topic(self, raw: bytes) -> TopicAssignment:
        """``decode_topic``, once for all topics that differ in their id only (Kafka's placement knows few patterns)."""
        field = _TOPIC_ID_FIELD.search(raw)
        key = raw if field is None else (raw[: field.start(1)], raw[field.end(1) :])
        node = self.topics.get(key)
        if node is None:
            node = _decode_topic(raw, self)
            if len(self.topics) < _MAX_SHARED_VALUES and (field is None or _is_only_topic_id(raw, field[1], node)):
                self.topics[key] = node
            return node
        if field is None:
            return node
        return TopicAssignment(node[0], node[1], node[2], node[3], field[1].decode(), node[5])

    def decode_config(self, raw: bytes) -> Mapping[str, str]:
        """``decode_config``, once for equal bytes."""
        config = self.configs.get(raw)
        if config is None:
            config = decode_config(raw)
            if len(self.configs) < _MAX_SHARED_VALUES:
                self.configs[raw] = config
        return config

    def decode_record(self, raw: bytes) -> OwnershipRecord:
        """``decode_record``, once for equal bytes."""
        record = self.records.get(raw)
        if record is None:
            record = self._share_values(decode_record(raw))
            if len(self.records) < _MAX_SHARED_VALUES:
                self.records[raw] = record
        return record

    def _share_values(self, record: OwnershipRecord) -> OwnershipRecord:
        """The same record, of lists of keys, and of keys with a value, that others have: few records are equal."""
        keys, applied = _share(self.config_keys, record.config_keys), record.applied
        if applied is not None:
            items = tuple(_share(self.config_items, item) for item in applied.config)
            applied = AppliedSpec(applied.partitions, items, applied.remove_unmanaged)
        return OwnershipRecord(record.owner, keys, record.deleted, applied)


def _share(shared: dict[T, T], value: T) -> T:
    """The equal value that the pool has; else this one, which the pool takes while there is room."""
    return shared.setdefault(value, value) if len(shared) < _MAX_SHARED_VALUES else shared.get(value, value)


def decode_topic(raw: bytes) -> TopicAssignment:
    """A topic's assignment from its znode; ``ZnodeError`` on anything that Kafka would not have written."""
    return _decode_topic(raw, ZnodeDecoder())


def encode_topic(replicas: Sequence[Replicas], *, version: int = TOPIC_VERSION, topic_id: str | None = None) -> bytes:
    """The znode of a topic with partitions 0 to n-1. Version 3 without an id fits every release (contract 4.3)."""
    partitions = ",".join([f'"{partition}":{_encode_replicas(brokers)}' for partition, brokers in enumerate(replicas)])
    moving = ',"adding_replicas":{},"removing_replicas":{}' if version > 1 else ""
    if topic_id is not None:
        topic_id_bytes(topic_id)
        moving += f',"topic_id":"{topic_id}"'
    return f'{{"version":{version:d},"partitions":{{{partitions}}}{moving}}}'.encode()


def add_partitions(raw: bytes, added: Sequence[Replicas]) -> bytes:
    """The znode ``raw`` with ``added`` as its next partitions and everything else kept, unknown fields too.

    The version becomes 3 if it was or the topic has an id, else 2. ``ZnodeError`` if ``raw`` is odd or its partition
    ids are not 0 to n-1 (the new ones would be numbered wrongly).
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
    """The 16 bytes of a topic id in Kafka's form: 22 characters of base64url. Only the form is checked."""
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
    """The partition ids, ascending (a ``range`` if they are 0 to n-1), and what stands under each."""
    found = {decoder.partition_ids[text]: value for text, value in partitions.items()}
    ids: Sequence[int] = range(len(found))
    if found and max(found) != len(found) - 1:
        ids = tuple(sorted(found))
    return ids, [found[partition] for partition in ids]


def _decode_replica_lists(ids: Sequence[int], lists: list[object], decoder: ZnodeDecoder) -> tuple[Replicas, ...]:
    # One look at all lists together; only if something is odd, one by one, to name the partition.
    if set(map(type, lists)) <= {list}:
        flat = list(chain.from_iterable(cast("list[list[int]]", lists)))
        # Types before values: to a dictionary of tuples, true is 1.
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
    moving: set[int] = set()
    known = ids if isinstance(ids, range) else frozenset(ids)
    for name in ("adding_replicas", "removing_replicas"):
        if name not in fields:
            continue
        for text, value in require_object(fields, name).items():
            partition = decoder.partition_ids[text]
            if partition not in known:
                raise ZnodeError(f'"{name}" names partition {partition}, which the topic does not have')
            if _validate_replicas(partition, value):
                moving.add(partition)
    return tuple(sorted(moving))


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
    """Whether the bytes found are the topic's id, and no other place of ``raw`` can be taken for it."""
    return match.decode() == node.topic_id and raw.count(b"topic_id") == 1 and b"\\" not in raw


def _encode_partitions(replicas: Sequence[Replicas]) -> dict[str, list[int]]:
    return {str(partition): list(_validate_replicas(partition, list(ids))) for partition, ids in enumerate(replicas)}


@lru_cache(maxsize=_REPLICA_LIST_CACHE_SIZE)
def _encode_replicas(replicas: Replicas) -> str:
    """A replica list as JSON; the topics of a cluster share few distinct ones."""
    return f"[{','.join(map(str, _validate_replicas('?', list(replicas))))}]"
