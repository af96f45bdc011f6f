"""Spark's schemas, made of ours: rows of snapshots and findings as ``schemas/`` has them, and specs as rows.

Explicit, so that nothing is inferred from data: a file without a single override still has the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import types

from topiarist import schema

CORRUPT = "_corrupt_record"
"""Where Spark puts a line that it cannot read."""

_TEXTS = types.ArrayType(types.StringType())
_LISTS = types.ArrayType(types.ArrayType(types.IntegerType()))

DESIRED = types.StructType(
    [
        types.StructField("cluster", types.StringType()),
        types.StructField("topic", types.StringType()),
        types.StructField("namespace", types.StringType()),
        types.StructField("manifest", types.StringType()),
        types.StructField("partitions", types.IntegerType()),
        types.StructField("replicationFactor", types.IntegerType()),
        types.StructField("createPartitions", types.IntegerType()),
        types.StructField("createReplicationFactor", types.IntegerType()),
        types.StructField("assignment", _LISTS),
        types.StructField("config", types.MapType(types.StringType(), types.StringType())),
        types.StructField("inherited", _TEXTS),
        types.StructField("ignore", _TEXTS),
        types.StructField("without", _TEXTS),
        types.StructField("removeUnmanaged", types.BooleanType()),
        types.StructField("absent", types.BooleanType()),
        types.StructField("observe", types.BooleanType()),
    ]
)
"""A spec, as ``desired_rows.row_of`` has it."""


def actual() -> types.StructType:
    """Topics and records of a snapshot in one table, and a place for what cannot be read."""
    definitions = schema.schema("snapshot")["definitions"]
    fields: dict[str, types.StructField] = {}
    for kind in ("topic", "record"):
        for name, inner in definitions[kind]["properties"].items():
            fields.setdefault(name, types.StructField(name, _type(inner, definitions)))
    return types.StructType([*fields.values(), types.StructField(CORRUPT, types.StringType())])


def finding() -> types.StructType:
    """A line of ``findings.jsonl``."""
    definitions = schema.schema("drift")["definitions"]
    fields = definitions["finding"]["properties"].items()
    return types.StructType([types.StructField(name, _type(inner, definitions)) for name, inner in fields])


def _type(inner: Mapping[str, Any], definitions: Mapping[str, Any]) -> types.DataType:
    """What Spark calls the type of a field; null is always allowed."""
    if "$ref" in inner:
        return _type(definitions[inner["$ref"].rpartition("/")[2]], definitions)
    kinds = inner["type"] if isinstance(inner["type"], list) else [inner["type"]]
    (kind,) = (each for each in kinds if each != "null")
    if kind == "array":
        return types.ArrayType(_type(inner["items"], definitions))
    if kind == "object" and isinstance(values := inner.get("additionalProperties"), Mapping):
        return types.MapType(types.StringType(), _type(values, definitions))
    if kind == "object":
        fields = inner["properties"].items()
        return types.StructType([types.StructField(name, _type(field, definitions)) for name, field in fields])
    if kind == "integer":
        return types.IntegerType() if inner.get("maximum", 2**31) < 2**31 else types.LongType()
    return {"string": types.StringType(), "boolean": types.BooleanType()}[kind]
