"""Spark schemas for snapshot rows and findings, derived from the JSON Schemas in ``schemas/``.

``drift.spark.inputs`` and ``drift.spark.outputs`` read and write with them. Explicit schemas avoid inference from data:
a column exists even if no row of a file has a value for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as f

from topiarist.schema import load

ROW_KINDS = ("cluster", "topic", "record", "usage")
"""Kinds of rows in a snapshot."""

_NEW_KIND, _NEW_FIELD = "usage", "evidence"


def snapshot_row_type() -> types.StructType:
    """Return the type of all rows of snapshots in one table, which a Parquet table must have.

    A field with different types in different kinds of rows is text that holds its JSON.
    """
    fields = {field.name: field for kind in reversed(ROW_KINDS) for field in fields_of_kinds(kind)}
    ambiguous = {field.name for kind in ROW_KINDS for field in fields_of_kinds(kind) if field != fields[field.name]}
    return types.StructType(
        [types.StructField(name, types.StringType()) if name in ambiguous else field for name, field in fields.items()]
    )


def optional_columns() -> frozenset[str]:
    """Return the columns that a table may lack: those of usage, which earlier releases did not write."""
    others = {field.name for field in fields_of_kinds(*(kind for kind in ROW_KINDS if kind != _NEW_KIND))}
    return frozenset({field.name for field in fields_of_kinds(_NEW_KIND)} - others | {_NEW_FIELD})


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


def fields_of_kinds(*kinds: str) -> list[types.StructField]:
    """Return the fields of some kinds of rows, without duplicates, in schema order."""
    definitions = load.load_schema("snapshot")["definitions"]
    fields: dict[str, types.StructField] = {}
    for kind in kinds:
        for name, inner in definitions[kind]["properties"].items():
            fields.setdefault(name, types.StructField(name, _spark_type(inner, definitions)))
    return list(fields.values())


def report_row_type(kind: str) -> types.StructType:
    """Return the type of a line of a report: ``finding``, or ``accepted`` for a finding with its exception."""
    definitions = load.load_schema("drift")["definitions"]
    fields = definitions[kind]["properties"].items()
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
