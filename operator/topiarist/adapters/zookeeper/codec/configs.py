"""Decode and encode config znodes: ``/config/topics/T``, ``/config/brokers/N``, and notifications (contract 4.5)."""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import cast

import msgspec
from msgspec import Struct
from msgspec.json import Decoder

from topiarist.adapters.zookeeper.codec.strict_json import (
    ZnodeError,
    dump_object,
    dump_texts,
    format_value,
    load_object,
    require_object,
    require_version,
)

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
        return found.config if found.version == _VERSION and msgspec.json.encode(found) == raw else None
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
