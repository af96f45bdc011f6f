"""Report outputs that need Spark: findings as Parquet, and report folders at remote URIs.

``drift.spark.engine`` uses them. The Parquet table is partitioned by the day when clusters
were read, for queries over many reports. A remote report is written to a staging folder beside its target and then
renamed. Not every store renames a folder atomically, so that ``summary.json`` gets its name last, with a rename of one
file, which every store does atomically: a folder without ``summary.json`` is not a report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import functions as f

from topiarist.adapters.snapshots.codec import format_time, parse_time
from topiarist.drift import history
from topiarist.drift.findings import FindingRow
from topiarist.drift.history import (
    ACCEPTED_FILE,
    DROPPED,
    ENDED_COLUMNS,
    FINDINGS_FILE,
    FINDINGS_TABLE,
    NOT_EVALUATED_FILE,
    RESOLVED,
    RUN_COLUMNS,
    RUN_TIME,
    RUNS_TABLE,
    STATE_BY_FILE,
    SUMMARY_FILE,
    TEAM_COLUMNS,
    TEAMS_TABLE,
    TIME_COLUMNS,
    TREND_COLUMNS,
    PreviousReport,
    RunHistory,
)
from topiarist.drift.outputs.folder import WORK_FOLDER, ReportFolder, raise_not_replaceable
from topiarist.drift.snapshots import is_remote, to_literal_uri, to_uri
from topiarist.drift.spark.session import Storage, create_table, translate_errors
from topiarist.errors import Reason, TopiaristError
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


PARQUET_FOLDER, PART_FILE = "findings.parquet", "part.parquet"


def write_parquet(spark: SparkSession, folder: ReportFolder, staging: Path) -> None:
    """Write the rows of ``findings.jsonl`` in ``staging`` as Parquet, with one file ``part.parquet`` per day."""
    rows = spark.read.schema(report_row_type("finding")).json(
        to_literal_uri(folder.share_file(staging / FINDINGS_FILE))
    )
    days = rows.withColumn("date", f.substring("takenAt", 1, 10)).coalesce(1)
    target = f"{folder.staging_path}/{PARQUET_FOLDER}"
    days.write.partitionBy("date").option("compression", "zstd").parquet(to_uri(target))
    # Spark's file names are random in each run, and readers do not need the checksum and marker files of Spark.
    if is_remote(target):
        storage = Storage(spark)
        for address in storage.list_files(target):
            storage.move(address, f"{address.rpartition('/')[0]}/{PART_FILE}")
        storage.remove(f"{target}/_SUCCESS")
    else:
        for file in [*Path(target).rglob("*.crc"), Path(target, "_SUCCESS")]:
            file.unlink(missing_ok=True)
        for file in [*Path(target).rglob("*.parquet")]:
            file.rename(file.with_name(PART_FILE))


_PENDING_SUMMARY_FILE = f"{SUMMARY_FILE}.last"


class RemoteReportFolder(ReportFolder):
    """A ``ReportFolder`` at a URI: files are written locally and uploaded when all are complete."""

    def __init__(self, storage: Storage, address: str) -> None:
        self._storage = storage
        self._uri = address.rstrip("/")
        self._parent = self._uri.rpartition("/")[0]
        self._existing_names = storage.list_names(self._uri)
        names = self._existing_names
        if names and SUMMARY_FILE not in names and _PENDING_SUMMARY_FILE not in names:
            raise_not_replaceable(address)
        self._staging_uri = f"{self._parent}/.topiarist-{token_hex(8)}"
        storage.make_folder(self._staging_uri, address)
        self._sent: set[Path] = set()
        self._local_folder = TemporaryDirectory(prefix="topiarist-drift-")
        super().__init__(f"{self._local_folder.name}/report")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._local_folder.cleanup()
        with suppress(TopiaristError):  # an error of the cleanup must not hide the first error
            self._storage.remove(self._staging_uri)

    @property
    def staging_path(self) -> str:
        """Return the URI of the staging folder."""
        return self._staging_uri

    def share_file(self, file: Path) -> str:
        """Upload a file of the report to the staging folder, and return its URI."""
        address = f"{self._staging_uri}/{file.relative_to(self._staging)}"
        self._storage.upload(file, address)
        self._sent.add(file)
        return address

    def _publish(self) -> None:
        self._storage.remove(f"{self._staging_uri}/{WORK_FOLDER}")
        for file in sorted({each for each in self._staging.rglob("*") if each.is_file()} - self._sent):
            name = file.relative_to(self._staging).as_posix()
            # The summary marks a complete report, so that it gets its final name after the folder is in place.
            name = _PENDING_SUMMARY_FILE if name == SUMMARY_FILE else name
            self._storage.upload(file, f"{self._staging_uri}/{name}")
        backup = f"{self._parent}/.topiarist-{token_hex(8)}"
        if self._existing_names is not None:
            self._storage.move(self._uri, backup)
        try:
            self._storage.move(self._staging_uri, self._uri)
            self._storage.move(f"{self._uri}/{_PENDING_SUMMARY_FILE}", f"{self._uri}/{SUMMARY_FILE}")
        except BaseException:
            if self._existing_names is not None:
                with suppress(TopiaristError):
                    self._storage.remove(self._uri)
                    self._storage.move(backup, self._uri)
            raise
        self._storage.remove(backup)


def load_previous(storage: Storage, address: str) -> PreviousReport:
    """Read the report at a URI; raises the errors of ``history.load_previous``."""
    address = address.rstrip("/")
    with TemporaryDirectory(prefix="topiarist-drift-") as here:
        for name in (SUMMARY_FILE, NOT_EVALUATED_FILE, FINDINGS_FILE, ACCEPTED_FILE):
            storage.download(f"{address}/{name}", Path(here, name))
        try:
            return history.load_previous(here)
        except TopiaristError as error:
            raise TopiaristError(error.reason, str(error.args[0]).replace(here, address), error.hint) from error


# The history of a fleet in tables that Spark reads and writes, at any address.
#
# ``drift.spark.engine`` opens it. The tables are the folders of Parquet that ``drift.parquet`` describes, with
# the same names of files, so that runs with and without Spark can share a history.

_RUN_TYPES = {
    "time": "timestamp",
    "text": "string",
    "texts": "array<string>",
    "count": "bigint",
    "counts": "map<string, bigint>",
}
_RUNS_TYPE, _TEAMS_TYPE = (
    ", ".join(f"{name} {_RUN_TYPES[kind]}" for name, kind in columns.items()) for columns in (RUN_COLUMNS, TEAM_COLUMNS)
)


class SparkHistory(RunHistory):
    """The history in the tables ``findings`` and ``runs`` below a path or URI."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, self._path = spark, path.rstrip("/")
        self._storage = Storage(spark)

    def list_times(self) -> list[str]:
        """Return the times of all runs, in order."""
        if not self._storage.list_names(to_uri(self._table(RUNS_TABLE))):
            return []
        with translate_errors(Reason.UNREADABLE, self._path):
            return sorted(_text(row[RUN_TIME]) for row in self._read(RUNS_TABLE).select(RUN_TIME).collect())

    def read_runs(self, times: Sequence[str]) -> list[dict[str, Any]]:
        """Return ``TREND_COLUMNS`` of the runs with these times, in order."""
        rows = self._collect(RUNS_TABLE, times, *TREND_COLUMNS)
        return [row | {"byClass": dict(sorted(row["byClass"].items()))} for row in rows]

    def read_ended(self, times: Sequence[str]) -> list[dict[str, Any]]:
        """Return ``ENDED_COLUMNS`` of the findings that ended in the runs with these times, in order of time."""
        return self._collect(FINDINGS_TABLE, times, *ENDED_COLUMNS, where=f.col("status").isin(RESOLVED, DROPPED))

    def read_findings(self, time: str) -> list[dict[str, Any]]:
        """Return the findings of the run with this time."""
        return self._collect(FINDINGS_TABLE, [time], *(field.name for field in _findings_type()))

    def write_findings(self, time: str, report: str, dropped: Sequence[FindingRow]) -> None:
        """Write the findings of a report, with those that ended; they replace those of the same time."""
        with translate_errors(Reason.UNWRITABLE, self._path):
            # Not every store can replace a file by a rename: until its new row is written, the run does not count.
            self._storage.remove(self._file(RUNS_TABLE, time))
            row_type = report_row_type("accepted")
            age = f.to_timestamp(f.lit(time)).cast("long") - f.to_timestamp("seenSince").cast("long")
            rows = self._parse(list(map(json.dumps, dropped)), row_type)
            for name, state in STATE_BY_FILE.items():
                part = self._spark.read.schema(row_type).json(to_literal_uri(f"{report}/{name}"))
                changed = {} if state is None else {"status": f.lit(state)}
                changed |= {"ageSeconds": f.greatest(age, f.lit(0))} if state == RESOLVED else {}
                rows = rows.union(part.withColumns(changed))
            times = {name: f.to_timestamp(name) for name in TIME_COLUMNS - {RUN_TIME}}
            run_time = f.to_timestamp(f.lit(time)).alias(RUN_TIME)
            self._write(FINDINGS_TABLE, time, rows.withColumns(times).select(run_time, "*"))

    def write_teams(self, time: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the topics of each team in a run; they replace those of the same time."""
        self._write_rows(TEAMS_TABLE, _TEAMS_TYPE, time, [{RUN_TIME: time, **row} for row in rows])

    def write_run(self, row: Mapping[str, Any]) -> None:
        """Write a run; it replaces the run of the same time."""
        self._write_rows(RUNS_TABLE, _RUNS_TYPE, row[RUN_TIME], [row])

    def _write_rows(self, table: str, columns: str, time: str, rows: Sequence[Mapping[str, Any]]) -> None:
        with translate_errors(Reason.UNWRITABLE, self._path):
            row_type = types._parse_datatype_string(columns)
            assert isinstance(row_type, types.StructType)
            self._write(table, time, self._parse([*map(json.dumps, rows)], row_type))

    def _parse(self, lines: list[str], row_type: types.StructType) -> DataFrame:
        texts = create_table(self._spark, [(line,) for line in lines], "line string")
        return texts.select(f.from_json("line", row_type).alias("row")).select("row.*")

    def _write(self, table: str, time: str, rows: DataFrame) -> None:
        """Replace the rows of a run by one file."""
        # Spark names files at random: the file is written apart, and then gets the name of its run.
        staging, file = f"{to_uri(self._table(table))}/.topiarist-{token_hex(8)}", self._file(table, time)
        self._spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        try:
            rows.coalesce(1).write.option("compression", "zstd").parquet(staging)
            (part,) = (one for one in self._storage.list_files(staging) if one.endswith(".parquet"))
            self._storage.make_folder(file.rpartition("/")[0], self._path)
            self._storage.remove(file)
            self._storage.move(part, file)
        finally:
            self._storage.remove(staging)

    def _file(self, table: str, time: str) -> str:
        return f"{to_uri(self._table(table))}/date={time[:10]}/{parse_time(time):%Y%m%dT%H%M%SZ}.parquet"

    def _read(self, table: str) -> DataFrame:
        fields = types._parse_datatype_string(_RUNS_TYPE) if table == RUNS_TABLE else _findings_type()
        assert isinstance(fields, types.StructType)
        dated = types.StructType([*fields, types.StructField("date", types.DateType())])
        return self._spark.read.schema(dated).parquet(to_literal_uri(self._table(table)))

    def _collect(self, table: str, times: Sequence[str], *names: str, where: Any = None) -> list[dict[str, Any]]:
        with translate_errors(Reason.UNREADABLE, self._path):
            rows = (
                self._read(table)
                .where(f.col("date") >= times[0][:10])
                .where(f.col(RUN_TIME).isin([*map(parse_time, times)]))
            )
            rows = rows if where is None else rows.where(where)
            return [_to_row(row.asDict(recursive=True)) for row in rows.select(*names).orderBy(RUN_TIME).collect()]

    def _table(self, table: str) -> str:
        return f"{self._path}/{table}"


def _findings_type() -> types.StructType:
    fields = [
        types.StructField(field.name, types.TimestampType() if field.name in TIME_COLUMNS else field.dataType)
        for field in report_row_type("accepted")
    ]
    return types.StructType([types.StructField(RUN_TIME, types.TimestampType()), *fields])


def _text(time: datetime) -> str:
    """Return a time of Spark, which is in the time zone of this process, as in a report."""
    return format_time(time.astimezone(UTC))


def _to_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _text(value) if isinstance(value, datetime) else value for name, value in row.items()}
