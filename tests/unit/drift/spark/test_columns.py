"""The types of rows for Spark, derived from the schemas: every field, and text where kinds of rows differ."""

from __future__ import annotations

import pytest
from pyspark.sql import types

from topiarist.drift.spark import columns
from topiarist.schema import load
from unit.drift.spark.conftest import Place
from unit.drift.spark.local_spark import Table, col, parse_type


def kinds_of(fields: types.StructType) -> dict[str, str]:
    """Return the type of each field as text."""
    return {field.name: field.dataType.simpleString() for field in fields}


def test_a_snapshot_row_has_the_fields_of_all_kinds() -> None:
    """The type has each field of each kind; a field of two types is text, any other has its own."""
    definitions = load.load_schema("snapshot")["definitions"]
    found = kinds_of(columns.snapshot_row_type())
    assert found.keys() == {name for kind in columns.ROW_KINDS for name in definitions[kind]["properties"]}
    assert next(iter(found)) == "kind"
    expected = {
        "kind": "string",
        "rows": "int",
        "topicListBytes": "bigint",
        "brokers": "array<struct<id:int,rack:string>>",
        "replicas": "array<array<int>>",
        "config": "map<string,string>",
        "modifiedExternally": "boolean",
        "written": found["read"],
    }
    assert {name: found[name] for name in expected} == expected
    ambiguous = {"reassigning", "deleting", "identity"}
    assert {found[name] for name in ambiguous} == {"string"}
    by_kind = [kinds_of(types.StructType(columns.fields_of_kinds(kind))) for kind in columns.ROW_KINDS]
    for name, kind in found.items():
        own = {each[name] for each in by_kind if name in each}
        assert own == {kind} or (len(own) > 1 and kind == "string"), name


def test_a_table_may_lack_the_columns_of_usage_only() -> None:
    """Earlier releases wrote no usage: its columns are optional, those that another kind has are not."""
    optional = columns.optional_columns()
    assert {"evidence", "ends", "curve", "bytesPerDay", "written"} <= optional
    assert not {"kind", "cluster", "topic", "topicId", "replicas", "owner"} & optional


def test_fields_of_several_kinds_are_there_once() -> None:
    """The fields are in the order of the schema, and the first kind that has a field decides its type."""
    one, both = columns.fields_of_kinds("topic"), columns.fields_of_kinds("topic", "cluster")
    assert both[: len(one)] == one
    assert len({field.name for field in both}) == len(both) > len(one)


@pytest.mark.parametrize("kind", ["finding", "accepted"])
def test_a_line_of_a_report_has_the_fields_of_its_schema(kind: str) -> None:
    """Findings have all fields of the schema; accepted ones also have their exception."""
    made = columns.report_row_type(kind)
    found = kinds_of(made)
    assert [*found] == [*load.load_schema("drift")["definitions"][kind]["properties"]]
    some = {"cluster": "string", "line": "bigint", "reasons": "array<string>", "modifiedExternally": "boolean"}
    assert {name: found[name] for name in some} == some
    assert ("exception" in found) == (kind == "accepted")
    if kind == "accepted":
        assert found["exception"].startswith("struct<name:string,")


def test_text_gets_the_type_of_its_kind_again(place: Place) -> None:
    """Columns that are text in a table, because kinds of rows differ, have the values of their kind when selected."""
    schema = columns.snapshot_row_type()
    empty = dict.fromkeys(schema.names)
    rows = [
        empty | {"kind": "topic", "deleting": text, "reassigning": "false", "replicas": [[1]], "file": "f"}
        for text in ("true", "false", None, "[]")
    ]
    table = Table(place.spark, schema, [rows])
    selected = columns.select_typed(table, columns.fields_of_kinds("topic"), col("file"))  # type: ignore[arg-type]
    found = selected.collect()
    assert [row.deleting for row in found] == [True, False, None, None]
    assert {(row.reassigning, str(row.replicas), row.file) for row in found} == {(False, "[[1]]", "f")}
    cluster = Table(place.spark, schema, [[empty | {"kind": "cluster", "deleting": '["a"]', "reassigning": "[]"}]])
    (row,) = columns.select_typed(cluster, columns.fields_of_kinds("cluster")).collect()  # type: ignore[arg-type]
    assert (row.deleting, row.reassigning) == (["a"], [])


def test_the_parser_of_the_tests_reads_types_as_spark_writes_them() -> None:
    """Each type of a snapshot is the same after it was written as text and parsed."""
    for field in columns.snapshot_row_type():
        assert parse_type(field.dataType.simpleString()) == field.dataType
