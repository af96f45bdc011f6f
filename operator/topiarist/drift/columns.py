"""Spark's schemas, made of ours: rows of snapshots and findings as ``schemas/`` has them.

Explicit, so that nothing is inferred from data: a file without a single override still has the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, types
from pyspark.sql import functions as f

from topiarist import schema

CORRUPT = "_corrupt_record"
"""Where Spark puts a line that it cannot read."""

KINDS = ("cluster", "topic", "record")
"""Kinds of rows of a snapshot."""


def actual() -> types.StructType:
    """Topics and records of a snapshot in one table, and a place for what cannot be read."""
    return types.StructType([*_fields("topic", "record"), types.StructField(CORRUPT, types.StringType())])


def rows() -> types.StructType:
    """A whole snapshot, or many, as one table: what Parquet has to hold to be taken for snapshots."""
    return types.StructType(_fields(*KINDS))


def names(kind: str) -> list[str]:
    """The fields of one kind of row, in their order."""
    return list(schema.schema("snapshot")["definitions"][kind]["properties"])


def sound() -> Column:
    """Whether a topic or a record has all that its kind must have; what else may be wrong is for ``checks``."""
    topic, record = (_filled(kind) for kind in ("topic", "record"))
    consistent = (f.col("fault").isNull() != f.col("identity").isNull()) & (
        f.col("fault").isNull() == f.col("faultAt").isNull()
    )
    # Of a list that has not what is looked for, null is the answer if it has a null: cheaper than to look at each.
    brokers = ~f.array_contains(f.flatten("replicas"), f.lit(-1))
    values = ~f.array_contains(f.map_values("config"), f.lit("\0"))
    return f.coalesce((topic & consistent & brokers & values) | record, f.lit(False))


def _filled(kind: str) -> Column:
    """Whether a row is of a kind and has no null where there may be none."""
    definition = schema.schema("snapshot")["definitions"][kind]
    filled = f.col("kind") == kind
    for field in definition["required"]:
        if "null" not in definition["properties"][field].get("type", ()):
            filled = filled & f.col(field).isNotNull()
    return filled


def _fields(*kinds: str) -> list[types.StructField]:
    """The fields of some kinds of rows, each once."""
    definitions = schema.schema("snapshot")["definitions"]
    fields: dict[str, types.StructField] = {}
    for kind in kinds:
        for name, inner in definitions[kind]["properties"].items():
            fields.setdefault(name, types.StructField(name, _type(inner, definitions)))
    return list(fields.values())


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
