"""Spark schemas for snapshot rows and findings, derived from the JSON Schemas in ``schemas/``.

``drift.spark.inputs``, ``drift.spark.job`` and ``drift.spark.outputs`` read and write with them. Explicit schemas avoid
inference from data: a column exists even if no row of a file has a value for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as f

from topiarist.schema import load

CORRUPT_COLUMN = "_corrupt_record"
"""Column for the text of a line that Spark cannot parse."""

ROW_KINDS = ("cluster", "topic", "record")
"""Kinds of rows in a snapshot."""


def actual_row_type() -> types.StructType:
    """Return the type of topic and record rows in one table, with ``CORRUPT_COLUMN``."""
    return types.StructType(
        [*fields_of_kinds("topic", "record"), types.StructField(CORRUPT_COLUMN, types.StringType())]
    )


def snapshot_row_type() -> types.StructType:
    """Return the type of all rows of snapshots in one table, which a Parquet table must have.

    A field with different types in different kinds of rows is text that holds its JSON.
    """
    fields = {field.name: field for kind in reversed(ROW_KINDS) for field in fields_of_kinds(kind)}
    ambiguous = {field.name for kind in ROW_KINDS for field in fields_of_kinds(kind) if field != fields[field.name]}
    return types.StructType(
        [types.StructField(name, types.StringType()) if name in ambiguous else field for name, field in fields.items()]
    )


def select_typed(table: DataFrame, fields: Sequence[types.StructField], *others: Column) -> DataFrame:
    """Select fields of rows in a snapshot table, with the types of their kinds, and ``others``.

    All rows must be of kinds that have the fields.
    """
    table_types = {field.name: field.dataType for field in snapshot_row_type()}

    def column(field: types.StructField) -> Column:
        found = f.col(field.name)
        if table_types[field.name] == field.dataType:
            return found
        if isinstance(field.dataType, types.BooleanType):
            return found.try_cast("boolean").alias(field.name)
        return f.from_json(found, field.dataType.simpleString()).alias(field.name)

    return table.select(*map(column, fields), *others)


def is_valid_row() -> Column:
    """Return a condition: a topic or record row has all required values, and consistent ones.

    All other checks of rows are in ``adapters.snapshots.validate``.
    """
    topic, record = (_has_required_fields(kind) for kind in ("topic", "record"))
    consistent = (f.col("readError").isNull() != f.col("identity").isNull()) & (
        f.col("readError").isNull() == f.col("readErrorPath").isNull()
    )
    # array_contains returns null for an absent value if the array holds a null: faster than a test of each element.
    brokers = ~f.array_contains(f.flatten("replicas"), f.lit(-1))
    values = ~f.array_contains(f.map_values("config"), f.lit("\0"))
    return f.coalesce((topic & consistent & brokers & values) | record, f.lit(False))


def _has_required_fields(kind: str) -> Column:
    """Return a condition: a row is of a kind, and its non-nullable required fields are not null."""
    definition = load.load_schema("snapshot")["definitions"][kind]
    filled = f.col("kind") == kind
    for field in definition["required"]:
        if "null" not in definition["properties"][field].get("type", ()):
            filled = filled & f.col(field).isNotNull()
    return filled


def fields_of_kinds(*kinds: str) -> list[types.StructField]:
    """Return the fields of some kinds of rows, without duplicates, in schema order."""
    definitions = load.load_schema("snapshot")["definitions"]
    fields: dict[str, types.StructField] = {}
    for kind in kinds:
        for name, inner in definitions[kind]["properties"].items():
            fields.setdefault(name, types.StructField(name, _spark_type(inner, definitions)))
    return list(fields.values())


def finding_row_type() -> types.StructType:
    """Return the type of a line of ``findings.jsonl``."""
    definitions = load.load_schema("drift")["definitions"]
    fields = definitions["finding"]["properties"].items()
    return types.StructType([types.StructField(name, _spark_type(inner, definitions)) for name, inner in fields])


def _spark_type(inner: Mapping[str, Any], definitions: Mapping[str, Any]) -> types.DataType:
    """Return the Spark type of a field's schema; Spark fields are always nullable."""
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
