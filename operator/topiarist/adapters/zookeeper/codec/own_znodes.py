"""Encode and decode topiarist's ownership records and freeze znode; encode Kafka's config change notification."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import cast

from msgspec import UNSET, DecodeError, Struct, UnsetType
from msgspec.json import Decoder

from topiarist.adapters.operator_memory import decode_memory, encode_memory
from topiarist.adapters.zookeeper.codec.paths import FREEZE
from topiarist.adapters.zookeeper.codec.strict_json import (
    MAX_ID,
    ZnodeError,
    dump_object,
    dump_texts,
    format_value,
    load_object,
    require_integer,
    require_object,
    require_text,
    require_version,
)
from topiarist.model.state import NO_MEMORY, AppliedSpec, Freeze, OperatorMemory, OwnershipRecord

_VERSION = 1
# Version 1 of a record has only the names of config keys, version 2 the applied values as well, and version 3 the
# operator's memory. Each record has the lowest version that it can have, so that earlier releases read it.
_VERSION_WITH_VALUES = 2
_VERSION_WITH_MEMORY = 3
_ABSENT = "Absent"
_REMOVE = "Remove"


@lru_cache(maxsize=4096)
def encode_record(record: OwnershipRecord) -> bytes:
    """Return the bytes of an ownership record: equal records always have equal bytes."""
    applied = record.applied
    fields: dict[str, object] = {"version": _VERSION, "owner": record.owner, "config": list(record.config_keys)}
    if applied is not None:
        values = dict(applied.config)
        fields |= {"version": _VERSION_WITH_VALUES, "config": {key: values.get(key) for key in record.config_keys}}
        if applied.partitions is not None:
            fields["partitions"] = applied.partitions
        if applied.remove_unmanaged:
            fields["unmanagedConfig"] = _REMOVE
    if record.deleted:
        fields["ensure"] = _ABSENT
    if record.memory != NO_MEMORY:
        fields |= {"version": _VERSION_WITH_MEMORY, "memory": encode_memory(record.memory)}
    return dump_texts(fields)


class _UsualRecord(Struct, forbid_unknown_fields=True):
    version: int
    owner: str
    config: dict[str, str | None]
    partitions: int | float | UnsetType = UNSET


_USUAL_DECODER = Decoder(_UsualRecord)


def decode_record(raw: bytes) -> OwnershipRecord:
    """Return the ownership record; raise ``ZnodeError`` on content that ``encode_record`` would not write."""
    return decode_usual_record(raw) or decode_any_record(raw)


def decode_usual_record(raw: bytes) -> OwnershipRecord | None:
    """Return the record if it has the usual form, in a fifth of the time; else None.

    ``configs.decode_usual_config`` says why no key is duplicated.
    """
    if not raw.startswith(b'{"version":2,') or b"\\" in raw:
        return None
    try:
        found = _USUAL_DECODER.decode(raw)
    except (DecodeError, UnicodeDecodeError):
        return None
    config, partitions = found.config, found.partitions
    keys = tuple(config)
    if (
        raw.count(b":") != (3 if partitions is UNSET else 4) + len(config)
        or not found.owner
        or list(keys) != sorted(keys)
        or None in config.values()
    ):
        return None
    if type(partitions) is int and 1 <= partitions <= MAX_ID:
        size = partitions
    elif partitions is UNSET:
        size = None
    else:
        return None
    applied = AppliedSpec(size, cast("tuple[tuple[str, str], ...]", tuple(config.items())))
    return OwnershipRecord(sys.intern(found.owner), keys, applied=applied)


def decode_any_record(raw: bytes) -> OwnershipRecord:
    """Do the same as ``decode_record`` for any znode."""
    fields = load_object(raw)
    version = require_version(fields, _VERSION_WITH_MEMORY)
    # A record without known values has a list of keys in every version that can have a memory.
    has_values = version == _VERSION_WITH_VALUES or (
        version == _VERSION_WITH_MEMORY and type(fields.get("config")) is dict
    )
    known_fields = {"version", "owner", "config", "ensure"}
    known_fields |= {"partitions", "unmanagedConfig"} if has_values else set()
    known_fields |= {"memory"} if version == _VERSION_WITH_MEMORY else set()
    _reject_unknown_fields(fields, known_fields)
    memory = _decode_memory(fields) if version == _VERSION_WITH_MEMORY else NO_MEMORY
    for field, word in (("ensure", _ABSENT), ("unmanagedConfig", _REMOVE)):
        if fields.get(field, word) != word:
            raise ZnodeError(f'"{field}" can only be "{word}", not {format_value(fields[field])}')
    owner, absent = sys.intern(require_text(fields, "owner")), "ensure" in fields
    if has_values:
        applied = _decode_applied(fields)
        return OwnershipRecord(owner, tuple(require_object(fields, "config")), absent, applied, memory)
    keys = fields.get("config")
    if type(keys) is not list or not all(type(key) is str for key in keys) or keys != sorted(set(keys)):
        raise ZnodeError(f'"config" must be a sorted list of config names, not {format_value(keys)}')
    return OwnershipRecord(owner, tuple(keys), absent, memory=memory)


def _decode_memory(fields: Mapping[str, object]) -> OperatorMemory:
    memory = decode_memory(require_object(fields, "memory"))
    if memory is None:
        wanted = '"consent", "stepMs" or "deletionsMs"'
        raise ZnodeError(f'"memory" must have {wanted}, not {format_value(fields["memory"])}')
    return memory


def _decode_applied(fields: Mapping[str, object]) -> AppliedSpec:
    config = require_object(fields, "config")
    if [*config] != sorted(config) or not all(value is None or type(value) is str for value in config.values()):
        raise ZnodeError(f'"config" must have sorted config names with text or null, not {format_value(config)}')
    partitions = require_integer(fields, "partitions") if "partitions" in fields else None
    if partitions is not None and partitions < 1:
        raise ZnodeError(f'"partitions" must be 1 or more, not {partitions}')
    values = tuple((sys.intern(key), value) for key, value in config.items() if type(value) is str)
    return AppliedSpec(partitions, values, "unmanagedConfig" in fields)


def encode_freeze(freeze: Freeze | None) -> bytes:
    """Return the bytes of the freeze znode; None means not frozen."""
    texts = {} if freeze is None else {name: text for name, text in freeze._asdict().items() if text}
    return dump_object({"version": _VERSION, "state": "open" if freeze is None else "frozen", **texts})


def decode_freeze(raw: bytes) -> Freeze | None:
    """Return the user, reason and time of the freeze, None if the cluster is not frozen.

    Each of the three may be empty. Raises ``ZnodeError`` on malformed content.
    """
    fields = load_object(raw)
    require_version(fields, _VERSION)
    _reject_unknown_fields(fields, {"version", "state", *Freeze._fields})
    state = fields.get("state")
    texts = {name: text for name in Freeze._fields if type(text := fields.get(name, "")) is str}
    if state not in ("open", "frozen") or len(texts) < len(Freeze._fields) or (state == "open" and any(texts.values())):
        raise ZnodeError(f'"state" must be "open", or "frozen" with a "reason", not {format_value(fields)}')
    return None if state == "open" else Freeze(**texts)


def decode_freeze_fail_closed(raw: bytes) -> Freeze | None:
    """Return the freeze; a malformed znode counts as frozen, since a freeze may have been intended."""
    try:
        return decode_freeze(raw)
    except ZnodeError as error:
        return Freeze(f"{FREEZE} cannot be read, which counts as frozen; topiarist unfreeze fixes it: {error}")


def encode_change_notification(entity_path: str) -> bytes:
    """Return the notification that makes the brokers read a config again.

    ``entity_path`` is ``topics/T`` or ``brokers/N`` (contract 4.6); raises ``ZnodeError`` for any other.
    """
    kind, slash, name = entity_path.partition("/")
    if kind not in ("topics", "brokers") or not slash or not name or "/" in name:
        raise ZnodeError(f"a config notification names topics/T or brokers/N, not {format_value(entity_path)}")
    return dump_object({"version": 2, "entity_path": entity_path})


def _reject_unknown_fields(fields: dict[str, object], allowed: set[str]) -> None:
    unknown = sorted(fields.keys() - allowed)
    if unknown:
        raise ZnodeError(f"unknown fields: {', '.join(map(format_value, unknown))}")
