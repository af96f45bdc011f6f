"""The history of a fleet in tables that Spark reads and writes, at any address.

``drift.spark.engine`` opens it. The tables are the folders of Parquet that ``drift.history.parquet`` describes, with
the same names of files, so that runs with and without Spark can share a history.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as f

from topiarist.adapters.snapshots.times import format_time, parse_time
from topiarist.drift.findings.finding import FindingRow
from topiarist.drift.history.runs import (
    DROPPED,
    ENDED_COLUMNS,
    FINDINGS_TABLE,
    RESOLVED,
    RUN_COLUMNS,
    RUN_TIME,
    RUNS_TABLE,
    STATE_BY_FILE,
    TIME_COLUMNS,
    TREND_COLUMNS,
    RunHistory,
)
from topiarist.drift.spark.columns import report_row_type
from topiarist.drift.spark.errors import translate_errors
from topiarist.drift.spark.filesystem import Storage
from topiarist.drift.spark.session import create_table
from topiarist.drift.uris import to_literal_uri, to_uri
from topiarist.errors import Reason

_RUN_TYPES = {
    "time": "timestamp",
    "text": "string",
    "texts": "array<string>",
    "count": "bigint",
    "counts": "map<string, bigint>",
}
_RUNS_TYPE = ", ".join(f"{name} {_RUN_TYPES[kind]}" for name, kind in RUN_COLUMNS.items())


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

    def write_run(self, row: Mapping[str, Any]) -> None:
        """Write a run; it replaces the run of the same time."""
        with translate_errors(Reason.UNWRITABLE, self._path):
            run_type = types._parse_datatype_string(_RUNS_TYPE)
            assert isinstance(run_type, types.StructType)
            self._write(RUNS_TABLE, row[RUN_TIME], self._parse([json.dumps(row)], run_type))

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
