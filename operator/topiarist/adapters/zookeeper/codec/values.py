"""Decode and encode the znodes of the whole cluster: brokers, controller, migration, requests, freeze (contract 4, 7).

Kafka ignores a whole request for one field that it does not know (contract 4.7), so a request has none.

Strict JSON for znodes: stricter than Kafka's own parser, so that malformed content is never silently repaired.

Kafka accepts trailing text, takes the last of two equal keys, and treats unparsable text as absent. A writer that did
the same would write back other content than it read. ``ZnodeError`` is the only exception that leaves this package.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from topiarist.adapters.own_values import JsonError, decode_freeze
from topiarist.adapters.zookeeper.codec.paths import FREEZE
from topiarist.kafka.types import Replicas
from topiarist.model.moves import ReplicaMove
from topiarist.model.state import Freeze

MAX_ID = 2**31 - 1
"""The largest id of a broker or partition: Kafka's ids are Java ints."""


ZnodeError = JsonError
"""The error for content that neither Kafka nor topiarist writes to a znode; the text says why, without the path."""


def load_object(raw: bytes) -> dict[str, object]:
    """Return the JSON object in ``raw``.

    Raises ``ZnodeError`` unless it is UTF-8 without trailing text, duplicate keys, NaN and lone surrogates.
    """
    if not raw or raw.isspace():
        raise ZnodeError("it is empty")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ZnodeError(f"it is not UTF-8 (byte {error.start})") from None
    value = _parse(_FAST_DECODER, text)
    if type(value) is not dict:
        raise ZnodeError("it is not a JSON object")
    # Each key has one colon. If there are as many colons as keys, no key is duplicated and no string contains a colon.
    # Only escapes can produce a lone surrogate. All other text takes the slow path, which checks every object. Keys are
    # counted at two levels: Kafka's topic and config znodes have no deeper objects.
    keys = len(value) + sum([len(inner) for inner in value.values() if type(inner) is dict])
    if text.count(":") != keys or "\\" in text:
        value = _parse(_DUPLICATE_CHECKING_DECODER, text)
        dump_object(value)
    return value


def dump_object(value: Mapping[str, object]) -> bytes:
    """Return compact JSON as Kafka writes it, keys in the order given; raise ``ZnodeError`` if not encodable."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise ZnodeError("it contains a lone surrogate (half of a character)") from None
    except RecursionError:
        raise ZnodeError("it is nested too deeply") from None


def dump_texts(value: Mapping[str, object]) -> bytes:
    """Return what ``dump_object`` returns, in a tenth of the time; numbers must be integers of 64 bits."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return dump_object(value)  # which raises the error


def require_version(fields: Mapping[str, object], max_version: int) -> int:
    """Return the ``version`` field: an integer from 1 to ``max_version``. Raises ``ZnodeError`` for any other."""
    version = fields.get("version")
    if type(version) is not int or version < 1:
        raise ZnodeError(f'"version" must be a positive integer, not {format_value(version)}')
    if version > max_version:
        raise ZnodeError(f'"version" is {version}, and topiarist supports at most {max_version}')
    return version


def require_object(fields: Mapping[str, object], name: str) -> dict[str, object]:
    """Return the field ``name``; raise ``ZnodeError`` unless it is an object."""
    value = fields.get(name)
    if type(value) is not dict:
        raise ZnodeError(f'"{name}" must be an object, not {format_value(value)}')
    return value


def require_text(fields: Mapping[str, object], name: str) -> str:
    """Return the field ``name``; raise ``ZnodeError`` unless it is non-empty text."""
    value = fields.get(name)
    if type(value) is not str or not value:
        raise ZnodeError(f'"{name}" must be text, not {format_value(value)}')
    return value


def require_integer(fields: Mapping[str, object], name: str) -> int:
    """Return the field ``name``; raise ``ZnodeError`` unless it is an integer of 32 bits."""
    value = fields.get(name)
    if type(value) is not int or not -MAX_ID - 1 <= value <= MAX_ID:
        raise ZnodeError(f'"{name}" must be an integer of 32 bits, not {format_value(value)}')
    return value


def parse_id(text: str) -> int:
    """Return the broker or partition id in ``text``.

    Raises ``ZnodeError`` unless it is decimal as Kafka writes it: no sign, no leading zero, 31 bits.
    """
    if text.isascii() and text.isdigit() and len(text) <= 10 and (text[0] != "0" or text == "0"):
        number = int(text)
        if number <= MAX_ID:
            return number
    raise ZnodeError(f"{format_value(text)} is not an id (a decimal number from 0 to {MAX_ID})")


def format_value(value: object) -> str:
    """Return a value for a message: JSON, at most 60 characters, control characters escaped."""
    if value is None:
        return "missing or null"
    try:
        text = json.dumps(value, default=repr)
    except RecursionError:
        return "something nested deep"
    return text if len(text) <= 60 else text[:57] + "..."


def _parse(decoder: json.JSONDecoder, text: str) -> dict[str, object]:
    try:
        if text[0] == "{":
            value, end = decoder.raw_decode(text)
            if end == len(text):
                return value  # type: ignore[no-any-return]
        # Whitespace around the value is valid but rare; decode() accepts it and reports any other extra text.
        return decoder.decode(text)  # type: ignore[no-any-return]
    except ZnodeError:
        raise
    except RecursionError:
        raise ZnodeError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ZnodeError(f"it is not JSON ({error.msg} at character {error.pos + 1})") from None
    except ValueError:  # CPython's limit on the digits of an integer
        raise ZnodeError("it contains a number that is too large") from None


def _reject_duplicate_keys(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for key, value in pairs:
        if key in fields:
            raise ZnodeError(f"the key {format_value(key)} appears twice")
        fields[key] = value
    return fields


def _reject_constant(text: str) -> object:
    raise ZnodeError(f"it contains {text}, which is not JSON")


def _parse_finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ZnodeError("it contains a number that is too large")
    return number


_FAST_DECODER = json.JSONDecoder(parse_constant=_reject_constant, parse_float=_parse_finite_float)
_DUPLICATE_CHECKING_DECODER = json.JSONDecoder(
    parse_constant=_reject_constant, parse_float=_parse_finite_float, object_pairs_hook=_reject_duplicate_keys
)


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
