"""Report outputs that need Spark: findings as Parquet, and the findings of a history, written by executors.

``drift.spark.engine`` uses them. The Parquet table is partitioned by the day when clusters were read, for queries over
many reports. The schemas of Spark for snapshots and findings are derived from the JSON Schemas in ``schemas/``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window, types
from pyspark.sql import functions as f

from topiarist.adapters.atomic_files import write_file
from topiarist.drift.findings import FindingRow
from topiarist.drift.history import (
    FINDINGS_FILE,
    FINDINGS_TABLE,
    RESOLVED,
    RUN_TIME,
    RUNS_TABLE,
    STATE_BY_FILE,
    TIME_COLUMNS,
)
from topiarist.drift.outputs import html
from topiarist.drift.outputs.folder import ReportFolder
from topiarist.drift.parquet import ParquetHistory
from topiarist.drift.snapshots import to_literal_uri, to_uri
from topiarist.drift.spark.session import translate_errors
from topiarist.drift.storage import Storage, is_remote
from topiarist.errors import Reason
from topiarist.schema import load

# Spark schemas for snapshot rows and findings, derived from the JSON Schemas in ``schemas/``.
#
# ``drift.spark.engine`` and this module read and write with them. Explicit schemas avoid inference from
# data: a column exists even if no row of a file has a value for it.

ROW_KINDS = ("cluster", "topic", "record", "usage")
"""Kinds of rows in a snapshot."""

_NEW_KIND, _NEW_FIELDS = "usage", {"evidence", "capabilities"}


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
    """Return the columns that a table may lack: those of usage and of capabilities, which few snapshots have."""
    others = {field.name for field in fields_of_kinds(*(kind for kind in ROW_KINDS if kind != _NEW_KIND))}
    return frozenset({field.name for field in fields_of_kinds(_NEW_KIND)} - others | _NEW_FIELDS)


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


def sample_lines(lines: DataFrame, total: int) -> list[Any]:
    """Return the lines in column ``value`` that the page of a report shows, as ``html.sample_rows`` selects them.

    Executors count and select: the driver gets no other line. ``lines`` has ``cluster`` and ``number`` for the order.
    """
    if total > html.MAX_FINDINGS:
        key = [f.regexp_extract("value", html.CLUSTER_CLASS, place) for place in (1, 2)]
        cells = lines.withColumn("cell", f.struct(*key, f.contains("value", f.lit(html.CRITICAL))))
        numbers = {tuple(row.cell): row["count"] for row in cells.groupBy("cell").count().collect()}
        shown = html.allocate_cells(numbers, html.MAX_FINDINGS)
        wanted = lines.sparkSession.createDataFrame([(cell, count) for cell, count in shown.items()], _CELL_TYPE)
        place = f.row_number().over(Window.partitionBy("cell").orderBy("cluster", "number")).alias("place")
        lines = cells.select("*", place).join(f.broadcast(wanted), "cell").where(f.col("place") <= f.col("shown"))
    return lines.orderBy("cluster", "number").select("value").collect()


_CELL_TYPE = "cell struct<col1: string, col2: string, col3: boolean>, shown int"

PARQUET_FOLDER, PART_FILE = "findings.parquet", "part.parquet"


def write_parquet(spark: SparkSession, folder: ReportFolder) -> None:
    """Write the rows of ``findings.jsonl`` in the staging folder as Parquet, partitioned by the day of ``takenAt``.

    A local folder has one file ``part.parquet`` for each day, an address has the files of the executors.
    """
    target = f"{folder.staging_path}/{PARQUET_FOLDER}"
    if is_remote(target) and FINDINGS_FILE not in folder.remote_names:  # there are none
        return
    source = to_literal_uri(f"{folder.staging_path}/{FINDINGS_FILE}")
    rows = spark.read.schema(report_row_type("finding")).json(source)
    days = rows.withColumn("date", f.substring("takenAt", 1, 10))
    days = days if is_remote(target) else days.coalesce(1)
    days.write.mode("overwrite").partitionBy("date").option("compression", "zstd").parquet(to_uri(target))
    if not is_remote(target):
        # Spark's file names are random in each run, and readers do not need the checksum and marker files of Spark.
        for file in [*Path(target).rglob("*.crc"), Path(target, "_SUCCESS")]:
            file.unlink(missing_ok=True)
        for file in [*Path(target).rglob("*.parquet")]:
            file.rename(file.with_name(PART_FILE))


class SparkHistory(ParquetHistory):
    """The history in the tables ``findings`` and ``runs`` below a path or URI; executors write the findings."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        super().__init__(path)
        self._spark = spark

    def write_findings(self, time: str, report: str, dropped: Sequence[FindingRow]) -> None:
        """Write the findings of a report, with those that ended; they replace those of the same time."""
        with translate_errors(Reason.UNWRITABLE, self._path):
            # Not every store can replace a file by a rename: until its new row is written, the run does not count.
            self._remove(self._file(RUNS_TABLE, time))
            row_type = report_row_type("accepted")
            age = f.to_timestamp(f.lit(time)).cast("long") - f.to_timestamp("seenSince").cast("long")
            lines = self._spark.createDataFrame([(json.dumps(row),) for row in dropped], "line string")
            rows = lines.select(f.from_json("line", row_type).alias("row")).select("row.*")
            for name, state in STATE_BY_FILE.items():
                part = self._spark.read.schema(row_type).json(to_literal_uri(f"{report}/{name}"))
                changed = {} if state is None else {"status": f.lit(state)}
                changed |= {"ageSeconds": f.greatest(age, f.lit(0))} if state == RESOLVED else {}
                rows = rows.union(part.withColumns(changed))
            times = {name: f.to_timestamp(name) for name in TIME_COLUMNS - {RUN_TIME}}
            run_time = f.to_timestamp(f.lit(time)).alias(RUN_TIME)
            self._write_rows(FINDINGS_TABLE, time, rows.withColumns(times).select(run_time, "*"))

    def _write_rows(self, table: str, time: str, rows: DataFrame) -> None:
        """Replace the rows of a run by one file."""
        # Spark names files at random: the file is written apart, and then gets the name of its run.
        staging = f"{self._path}/{table}/.topiarist-{token_hex(8)}"
        self._spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        try:
            rows.coalesce(1).write.option("compression", "zstd").parquet(to_uri(staging))
            target = self._file(table, time)
            if is_remote(staging):
                (part,) = (file for file in Storage().list_files(f"{staging}/") if file.endswith(".parquet"))
                self._storage.copy(part, target)
            else:
                (local,) = Path(staging).glob("*.parquet")
                write_file(target, [local.read_bytes()], make_parents=True)
        finally:
            self._remove(staging)

    def _remove(self, path: str) -> None:
        if is_remote(path):
            self._storage.remove(path)
        elif Path(path).is_dir():
            shutil.rmtree(path)
        else:
            Path(path).unlink(missing_ok=True)
