"""Decode and encode the znodes of the whole cluster: brokers, controller, migration, requests, freeze (contract 4, 7).

Kafka ignores a whole request for one field that it does not know (contract 4.7), so a request has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from topiarist.adapters.own_values import decode_freeze
from topiarist.adapters.zookeeper.codec.paths import FREEZE
from topiarist.adapters.zookeeper.codec.strict_json import (
    MAX_ID,
    ZnodeError,
    dump_object,
    format_value,
    load_object,
    parse_id,
    require_integer,
    require_text,
    require_version,
)
from topiarist.kafka.types import Replicas
from topiarist.model.moves import ReplicaMove
from topiarist.model.state import Freeze

# Kafka reads newer versions of these znodes as it reads the versions that it knows.
_ANY_VERSION = MAX_ID


class BrokerRegistration(Struct, frozen=True):
    """The registration of a broker. ``rack`` is None if it has none; the empty string is a rack."""

    id: int
    rack: str | None
    endpoints: tuple[str, ...]
    version: int


class ActiveController(Struct, frozen=True):
    """The active controller. ``kraft_epoch`` is -1 for a controller in ZooKeeper mode."""

    broker: int
    kraft_epoch: int
    version: int

    @property
    def is_kraft(self) -> bool:
        """Return True if a KRaft controller is in charge; then nothing may be written."""
        return self.kraft_epoch >= 0


def decode_cluster_id(raw: bytes) -> str:
    """Return the cluster id, an opaque text."""
    # The version is not checked: it is a string, and no Kafka release reads it.
    return require_text(load_object(raw), "id")


def decode_broker(broker: int, raw: bytes) -> BrokerRegistration:
    """Return the registration of ``broker``; unknown fields are ignored, as Kafka does."""
    fields = load_object(raw)
    version = require_version(fields, _ANY_VERSION)
    rack = fields.get("rack")
    if rack is not None and type(rack) is not str:
        raise ZnodeError(f'"rack" must be text or null, not {format_value(rack)}')
    if version == 1:
        endpoint = f"PLAINTEXT://{require_text(fields, 'host')}:{require_integer(fields, 'port')}"
        return BrokerRegistration(broker, rack, (endpoint,), version)
    endpoints = fields.get("endpoints")
    if type(endpoints) is not list or not all(type(each) is str for each in endpoints):
        raise ZnodeError(f'"endpoints" must be a list of texts, not {format_value(endpoints)}')
    return BrokerRegistration(broker, rack, tuple(endpoints), version)


def decode_controller(raw: bytes) -> ActiveController:
    """Return the controller; a znode without ``kraftControllerEpoch`` is of a release without KRaft."""
    fields = load_object(raw)
    version = require_version(fields, _ANY_VERSION)
    epoch = require_integer(fields, "kraftControllerEpoch") if "kraftControllerEpoch" in fields else -1
    return ActiveController(require_integer(fields, "brokerid"), epoch, version)


def decode_controller_epoch(raw: bytes) -> int:
    """Return the controller epoch: decimal text, not JSON."""
    try:
        return parse_id(raw.decode("ascii"))
    except UnicodeDecodeError:
        raise ZnodeError("it is not a decimal number") from None


def decode_feature_version(raw: bytes) -> int:
    """Return the version of ``/feature``, a hint at the Kafka version (contract 4.9)."""
    return require_version(load_object(raw), _ANY_VERSION)


def decode_migration_copied(raw: bytes) -> bool:
    """Return True if ZooKeeper's content was copied to KRaft (``kraft_metadata_offset`` above 0)."""
    offset = load_object(raw).get("kraft_metadata_offset")
    if type(offset) is not int:
        raise ZnodeError(f'"kraft_metadata_offset" must be an integer, not {format_value(offset)}')
    return offset > 0


def decode_requested_reassignments(raw: bytes) -> tuple[tuple[str, int, Replicas], ...]:
    """Return the requested reassignments of ``/admin/reassign_partitions``.

    Each has topic, partition and target replicas, in the order of the request. Negative and duplicate ids are kept:
    the controller reads them, and never removes such an entry.
    """
    fields = load_object(raw)
    require_version(fields, 1)
    entries = fields.get("partitions")
    if type(entries) is not list or fields.keys() != {"version", "partitions"}:
        raise ZnodeError('it must have "version", a list "partitions", and nothing else')
    return tuple(map(_decode_reassignment_entry, entries))


def _decode_reassignment_entry(entry: object) -> tuple[str, int, Replicas]:
    if type(entry) is not dict or entry.keys() != {"topic", "partition", "replicas"}:
        raise ZnodeError(f"a reassignment has topic, partition and replicas, not {format_value(entry)}")
    topic, partition, replicas = require_text(entry, "topic"), entry["partition"], entry["replicas"]
    if type(replicas) is not list or any(
        type(each) is not int or not -MAX_ID - 1 <= each <= MAX_ID for each in (partition, *replicas)
    ):
        raise ZnodeError(f"partition and replicas must be integers of 32 bits, not {format_value(entry)}")
    return topic, partition, tuple(replicas)


def encode_reassignment_request(moves: Sequence[ReplicaMove]) -> bytes:
    """Return the bytes of ``/admin/reassign_partitions``."""
    partitions = [{"topic": move.topic, "partition": move.partition, "replicas": list(move.after)} for move in moves]
    return dump_object({"version": 1, "partitions": partitions})


def encode_election_request(partitions: Iterable[tuple[str, int]]) -> bytes:
    """Return the bytes of ``/admin/preferred_replica_election``; ``partitions`` are topics with a partition."""
    entries = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return dump_object({"version": 1, "partitions": entries})


def decode_freeze_fail_closed(raw: bytes) -> Freeze | None:
    """Return the freeze; a malformed znode counts as frozen, since a freeze may have been intended."""
    try:
        return decode_freeze(raw)
    except ZnodeError as error:
        return Freeze(f"{FREEZE} cannot be read, which counts as frozen; topiarist unfreeze fixes it: {error}")
