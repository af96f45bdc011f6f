"""Spark's schemas, made of ours: rows of snapshots and findings as ``schemas/`` has them.

Explicit, so that nothing is inferred from data: a file without a single override still has the column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as f

from topiarist import schema

CORRUPT = "_corrupt_record"
"""Where Spark puts a line that it cannot read."""

KINDS = ("cluster", "topic", "record")
"""Kinds of rows of a snapshot."""


def actual() -> types.StructType:
    """Topics and records of a snapshot in one table, and a place for what cannot be read."""
    return types.StructType([*of_kind("topic", "record"), types.StructField(CORRUPT, types.StringType())])


def rows() -> types.StructType:
    """A whole snapshot, or many, as one table: what Parquet has to hold to be taken for snapshots.

    Fields that mean different things in rows of different kinds are text there: the JSON that they are.
    """
    fields = {field.name: field for kind in reversed(KINDS) for field in of_kind(kind)}
    odd = {field.name for kind in KINDS for field in of_kind(kind) if field != fields[field.name]}
    return types.StructType(
        [types.StructField(name, types.StringType()) if name in odd else field for name, field in fields.items()]
    )


def typed(table: DataFrame, fields: Sequence[types.StructField], *others: Column) -> DataFrame:
    """Some fields of rows of such a table, of kinds that have them, as these kinds have them; and ``others``."""
    there = {field.name: field.dataType for field in rows()}

    def column(field: types.StructField) -> Column:
        found = f.col(field.name)
        if there[field.name] == field.dataType:
            return found
        if isinstance(field.dataType, types.BooleanType):
            return found.try_cast("boolean").alias(field.name)
        return f.from_json(found, field.dataType.simpleString()).alias(field.name)

    return table.select(*map(column, fields), *others)


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


def of_kind(*kinds: str) -> list[types.StructField]:
    """The fields of some kinds of rows, each once, in their order."""
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
