"""Values for the properties of a custom resource, generated from its schema as Acto does.

For each property: the bounds of numbers, lengths and lists, each value of an enumeration, and values of the wrong
meaning that the schema lets through.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema

from campaigns.crd_schema import Schema

Path = tuple[str, ...]

_TEXTS = (
    *("a", "orders", "prod", "a" * 63, "a" * 249, "a" * 253, "a" * 255, "a.b-c", "1", "*", "orders*", "partitions"),
    *("replicationFactor", "replicaAssignment", "config.retention.ms", "config.unknown.key", "retention.ms"),
    *("zk:2181/prod", "zk:2181", "none:1", "kafka:9092", "[::1]:9092", "https://login.example.com/token", "0%", "100%"),
    *("1%", "99%", "50%", "1s", "1h", "999999h", "8d", "9999d", "1d", "999999d", "1KiB", "1MiB", "999999999GiB"),
    *("0B", "1 TiB", "999999999999999999TB", "Unlimited", "label", "example.com/team", "-1", "not a number", "1e9", ""),
)
"""Texts for properties with a pattern; only those that the schema of a property lets through are used."""

_CONFIG_MAPS: tuple[Mapping[str, Any], ...] = (
    {},
    {"retention.ms": 604_800_000},
    {"retention.ms": "not a number"},
    {"retention.ms": -2},
    {"retention.ms": 9_223_372_036_854_775_807},
    {"retention.ms": True},
    {"cleanup.policy": "compact"},
    {"cleanup.policy": "compact,delete"},
    {"cleanup.policy": "shrink"},
    {"compression.type": "zstd", "max.message.bytes": 1_000_000},
    {"min.insync.replicas": 5},
    {"flush.ms": 0.5},
    {"unknown.key": "value"},
    {"min.cleanable.dirty.ratio": 0.5},
    {"segment.bytes": 1},
    {"RETENTION.MS": 1},
)
"""Configs of topics: valid values, values of the wrong type or range, unknown names."""


def property_paths(schema: Schema, path: Path = ()) -> Iterator[tuple[Path, Schema]]:
    """Yield each property of objects with its path; a property of a list's items has the path of the list."""
    for name, inner in schema.get("properties", {}).items():
        yield (*path, name), inner
        yield from property_paths(inner, (*path, name))


def property_values(schema: Schema, name: str = "") -> list[Any]:
    """Return the values to try for one property; all of them are valid by the structure of the schema."""
    validator = jsonschema.Draft202012Validator(schema)
    unique: dict[str, Any] = {repr(value): value for value in _candidates(schema, name) if validator.is_valid(value)}
    return [*unique.values()]


def set_property(spec: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Return a copy of a spec in which the property at ``path`` has this value; missing objects are created."""
    changed: dict[str, Any] = copy.deepcopy(dict(spec))
    target = changed
    for name in path[:-1]:
        target = target.setdefault(name, {})
    target[path[-1]] = value
    return changed


def _candidates(schema: Schema, name: str) -> Iterator[Any]:
    if "config" in name.lower() and schema.get("type") == "object":
        yield from _CONFIG_MAPS
        return
    yield from schema.get("enum", ())
    kind = schema.get("type")
    if kind == "boolean":
        yield from (True, False)
    elif kind == "integer":
        low, high = schema.get("minimum", -(2**31)), schema.get("maximum", 2**31)
        yield from sorted({low, low + 1, 3, 6, high})
    elif kind == "string" and "enum" not in schema:
        texts = [each for each in _TEXTS if len(each) <= schema.get("maxLength", 1000)]
        validator = jsonschema.Draft202012Validator(schema)
        valid = [each for each in texts if validator.is_valid(each)]
        yield from (valid if "pattern" in schema and len(valid) <= 8 else [*valid[:3], *valid[-3:]])
    elif kind == "array":
        yield from _lists(schema)
    elif kind == "object":
        yield from _objects(schema)


def _lists(schema: Schema) -> Iterator[Any]:
    values = property_values(schema["items"])
    yield []
    yield from ([value] for value in values[:6])
    yield values[:2]
    yield values[:1] * 2
    yield values[: schema.get("maxItems", 10)][:10]


def _objects(schema: Schema) -> Iterator[Any]:
    """Yield an empty object, one with the required properties, and one for each property beside these."""
    yield {}
    properties = schema.get("properties", {})
    required = {}
    for name in schema.get("required", ()):
        values = property_values(properties[name], name)
        required[name] = values[0]
    yield required
    for name, inner in properties.items():
        if inner.get("type") != "object":
            yield from ({**required, name: value} for value in property_values(inner, name)[:3])
        else:
            yield from ({**required, name: value} for value in property_values(inner, name)[-2:])
    if isinstance(others := schema.get("additionalProperties"), dict):
        values = property_values(others)
        yield from ({"a": value} for value in values[:3])
        yield dict.fromkeys(("a", "b", "standard"), values[0])
