"""Decode and encode config znodes: ``/config/topics/T``, and ``/config/brokers/N`` of the same form (contract 4.5)."""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import cast

from topiarist.adapters.zookeeper.codec.strict_json import (
    ZnodeError,
    dump_object,
    format_value,
    load_object,
    require_object,
    require_version,
)

_VERSION = 1


def decode_config(raw: bytes) -> Mapping[str, str]:
    """Return the overrides of a config znode, as raw text; raise ``ZnodeError`` if it is malformed."""
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
    return dump_object({"version": _VERSION, "config": dict(sorted(config.items())), **(other_fields or {})})


def replace_config(raw: bytes, config: Mapping[str, str]) -> bytes:
    """Return the znode ``raw`` with its overrides replaced by ``config``, and unknown top-level fields kept."""
    decode_config(raw)
    kept = {name: value for name, value in load_object(raw).items() if name not in ("version", "config")}
    return encode_config(config, kept)
