"""Spark's schemas, made of ours: rows of snapshots and findings as ``schemas/`` has them.

Explicit, so that nothing is inferred from data: a file without a single override still has the column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as f

from topiarist.schema import load

CORRUPT_COLUMN = "_corrupt_record"
"""Where Spark puts a line that it cannot read."""

ROW_KINDS = ("cluster", "topic", "record")
"""Kinds of rows of a snapshot."""


def actual_row_type() -> types.StructType:
    """Topics and records of a snapshot in one table, and a place for what cannot be read."""
    return types.StructType(
        [*fields_of_kinds("topic", "record"), types.StructField(CORRUPT_COLUMN, types.StringType())]
    )


def snapshot_row_type() -> types.StructType:
    """A whole snapshot, or many, as one table: what Parquet has to hold to be taken for snapshots.

    Fields that mean different things in rows of different kinds are text there: the JSON that they are.
    """
    fields = {field.name: field for kind in reversed(ROW_KINDS) for field in fields_of_kinds(kind)}
    odd = {field.name for kind in ROW_KINDS for field in fields_of_kinds(kind) if field != fields[field.name]}
    return types.StructType(
        [types.StructField(name, types.StringType()) if name in odd else field for name, field in fields.items()]
    )


def select_typed(table: DataFrame, fields: Sequence[types.StructField], *others: Column) -> DataFrame:
    """Some fields of rows of such a table, of kinds that have them, as these kinds have them; and ``others``."""
    there = {field.name: field.dataType for field in snapshot_row_type()}

    def column(field: types.StructField) -> Column:
        found = f.col(field.name)
        if there[field.name] == field.dataType:
            return found
        if isinstance(field.dataType, types.BooleanType):
            return found.try_cast("boolean").alias(field.name)
        return f.from_json(found, field.dataType.simpleString()).alias(field.name)

    return table.select(*map(column, fields), *others)


def is_valid_row() -> Column:
    """Whether a topic or a record has all that its kind must have; what else may be wrong is for ``checks``."""
    topic, record = (_has_required_fields(kind) for kind in ("topic", "record"))
    consistent = (f.col("fault").isNull() != f.col("identity").isNull()) & (
        f.col("fault").isNull() == f.col("faultAt").isNull()
    )
    # Of a list that has not what is looked for, null is the answer if it has a null: cheaper than to look at each.
    brokers = ~f.array_contains(f.flatten("replicas"), f.lit(-1))
    values = ~f.array_contains(f.map_values("config"), f.lit("\0"))
    return f.coalesce((topic & consistent & brokers & values) | record, f.lit(False))


def _has_required_fields(kind: str) -> Column:
    """Whether a row is of a kind and has no null where there may be none."""
    definition = load.load_schema("snapshot")["definitions"][kind]
    filled = f.col("kind") == kind
    for field in definition["required"]:
        if "null" not in definition["properties"][field].get("type", ()):
            filled = filled & f.col(field).isNotNull()
    return filled


def fields_of_kinds(*kinds: str) -> list[types.StructField]:
    """The fields of some kinds of rows, each once, in their order."""
    definitions = load.load_schema("snapshot")["definitions"]
    fields: dict[str, types.StructField] = {}
    for kind in kinds:
        for name, inner in definitions[kind]["properties"].items():
            fields.setdefault(name, types.StructField(name, _spark_type(inner, definitions)))
    return list(fields.values())


def finding_row_type() -> types.StructType:
    """A line of ``findings.jsonl``."""
    definitions = load.load_schema("drift")["definitions"]
    fields = definitions["finding"]["properties"].items()
    return types.StructType([types.StructField(name, _spark_type(inner, definitions)) for name, inner in fields])


def _spark_type(inner: Mapping[str, Any], definitions: Mapping[str, Any]) -> types.DataType:
    """What Spark calls the type of a field; null is always allowed."""
    if "$ref" in inner:
        return _spark_type(definitions[inner["$ref"].rpartition("/")[2]], definitions)
    kinds = inner["type"] if isinstance(inner["type"], list) else [inner["type"]]
    (kind,) = (each for each in kinds if each != "null")
    if kind == "array":
        return types.ArrayType(_spark_type(inner["items"], definitions))
    if kind == "object" and isinstance(values := inner.get("additionalProperties"), Mapping):
        return types.MapType(types.StringType(), _spark_type(values, definitions))
    if kind == "object":
        fields = inner["properties"].items()
        return types.StructType([types.StructField(name, _spark_type(field, definitions)) for name, field in fields])
    if kind == "integer":
        return types.IntegerType() if inner.get("maximum", 2**31) < 2**31 else types.LongType()
    return {"string": types.StringType(), "boolean": types.BooleanType()}[kind]
