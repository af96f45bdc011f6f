"""The history of a fleet in a folder of Parquet files, at a path or URI, without Spark.

``drift.report.Engine`` opens it. Each table is a folder with one file for each run in a partition for each day, named
by the time of the run. A local file is written beside its target and renamed; a store shows a file when it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from topiarist.adapters.atomic_files import write_file
from topiarist.adapters.snapshots.codec import format_time, parse_time
from topiarist.drift.findings import FindingRow
from topiarist.drift.history import (
    DROPPED,
    ENDED_COLUMNS,
    FINDINGS_TABLE,
    RESOLVED,
    RUN_COLUMNS,
    RUN_TIME,
    RUNS_TABLE,
    STATE_BY_FILE,
    TEAM_COLUMNS,
    TEAMS_TABLE,
    TIME_COLUMNS,
    TREND_COLUMNS,
    RunHistory,
    seconds_between,
)
from topiarist.drift.storage import Storage, is_hidden, is_remote, open_store
from topiarist.errors import Reason, TopiaristError
from topiarist.schema import load
from topiarist.text import list_first, printable, printable_path

_TIME = pa.timestamp("us", tz="UTC")
_TIME_FORMAT, _FILE_TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ", "%Y%m%dT%H%M%SZ"
_BATCH_ROWS = 10_000
_MAX_SHOWN_NAMES = 3

_RUN_TYPES = {
    "time": _TIME,
    "text": pa.string(),
    "texts": pa.list_(pa.string()),
    "count": pa.int64(),
    "counts": pa.map_(pa.string(), pa.int64()),
}
RUNS_SCHEMA, TEAMS_SCHEMA = (
    pa.schema([(name, _RUN_TYPES[kind]) for name, kind in columns.items()]) for columns in (RUN_COLUMNS, TEAM_COLUMNS)
)


def findings_schema() -> pa.Schema:
    """Return the columns of the findings: the time of the run, the fields of a finding, and its exception or null."""
    definitions = load.load_schema("drift")["definitions"]
    fields = definitions["accepted"]["properties"].items()
    return pa.schema([(RUN_TIME, _TIME), *((name, _arrow_type(name, inner, definitions)) for name, inner in fields)])


def _arrow_type(name: str, inner: Mapping[str, Any], definitions: Mapping[str, Any]) -> pa.DataType:
    if name in TIME_COLUMNS:
        return _TIME
    if "$ref" in inner:
        return _arrow_type(name, definitions[inner["$ref"].rpartition("/")[2]], definitions)
    kinds = inner["type"] if isinstance(inner["type"], list) else [inner["type"]]
    (kind,) = (each for each in kinds if each != "null")
    if kind == "array":
        return pa.list_(_arrow_type("", inner["items"], definitions))
    if kind == "object":
        fields = inner["properties"].items()
        return pa.struct([(key, _arrow_type(key, field, definitions)) for key, field in fields])
    return {"string": pa.string(), "boolean": pa.bool_(), "integer": pa.int64()}[kind]


class ParquetHistory(RunHistory):
    """The history in a folder."""

    def __init__(self, path: str) -> None:
        self._path = path.rstrip("/")
        self._storage = Storage(Reason.UNWRITABLE)

    def list_times(self) -> list[str]:
        """Return the times of all runs, in order. Raises ``Unreadable`` for a folder with other content only."""
        names = self._list_names()
        if names and not {FINDINGS_TABLE, RUNS_TABLE, TEAMS_TABLE} & {*names}:
            content = "a file" if names == [""] else list_first(names, _MAX_SHOWN_NAMES)
            tables = f"{FINDINGS_TABLE}, {RUNS_TABLE} and {TEAMS_TABLE}"
            self._raise_unreadable(f"found {content}, wanted the folders {tables}, or an empty folder")
        folder = f"{self._path}/{RUNS_TABLE}"
        if is_remote(folder):
            found = self._storage.list_files(folder) if RUNS_TABLE in names else []
        else:
            found = [str(file) for file in Path(folder).glob("date=*/*.parquet") if not is_hidden(file.name)]
        return sorted(self._parse_name(PurePosixPath(file)) for file in found)

    def _list_names(self) -> list[str]:
        """Return the names in the folder without hidden ones; one empty name for a file."""
        path = Path(self._path)
        if is_remote(self._path):
            names = self._storage.list_names(self._path) or []
        elif path.is_dir():
            with self._translate_errors():
                names = sorted(each.name for each in path.iterdir())
        else:
            names = [""] if path.exists() else []
        return [name for name in names if not is_hidden(name)]

    def _parse_name(self, file: PurePosixPath) -> str:
        try:
            return format_time(datetime.strptime(f"{file.stem}+0000", f"{_FILE_TIME_FORMAT}%z"))
        except ValueError:
            self._raise_unreadable(f"{file.name}: found no time in the name")

    def read_runs(self, times: Sequence[str]) -> list[dict[str, Any]]:
        """Return ``TREND_COLUMNS`` of the runs with these times, in order."""
        with self._translate_errors():
            table = self._open(RUNS_TABLE, RUNS_SCHEMA, times).to_table(columns=[*TREND_COLUMNS])
            return [row | {"byClass": dict(sorted(row["byClass"]))} for row in _to_rows(table.sort_by(RUN_TIME))]

    def read_ended(self, times: Sequence[str]) -> list[dict[str, Any]]:
        """Return ``ENDED_COLUMNS`` of the findings that ended in the runs with these times, in order of time."""
        # Rows that ended are in row groups of their own, so that the filter skips all others by their statistics.
        has_ended = pc.field("status").isin([RESOLVED, DROPPED])
        with self._translate_errors():
            dataset = self._open(FINDINGS_TABLE, findings_schema(), times)
            return _to_rows(dataset.to_table(columns=[*ENDED_COLUMNS], filter=has_ended).sort_by(RUN_TIME))

    def read_findings(self, time: str) -> Iterator[dict[str, Any]]:
        """Yield the findings of the run with this time."""
        with self._translate_errors():
            for batch in self._open(FINDINGS_TABLE, findings_schema(), [time]).to_batches(batch_size=_BATCH_ROWS):
                yield from _to_rows(pa.table(batch))

    def write_findings(self, time: str, report: str, dropped: Sequence[FindingRow]) -> None:
        """Write the findings of a report, with those that ended; they replace those of the same time."""
        found, resolved = (_read_rows(report, time, are_resolved=each) for each in (False, True))
        parts = (found, chain(resolved, dropped))
        batches = ([{**row, RUN_TIME: time} for row in batch] for part in parts for batch in _batches(part))
        self._write(FINDINGS_TABLE, time, _encode(findings_schema(), batches))

    def write_teams(self, time: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the topics of each team in a run; they replace those of the same time."""
        self._write(TEAMS_TABLE, time, _encode(TEAMS_SCHEMA, [[{RUN_TIME: time, **row} for row in rows]]))

    def write_run(self, row: Mapping[str, Any]) -> None:
        """Write a run; it replaces the run of the same time."""
        self._write(RUNS_TABLE, row[RUN_TIME], _encode(RUNS_SCHEMA, [[row]]))

    def _write(self, table: str, time: str, data: bytes) -> None:
        file = self._file(table, time)
        if is_remote(file):
            self._storage.write_file(file, [data])
        else:
            write_file(file, [data], make_parents=True)

    def _file(self, table: str, time: str) -> str:
        name = parse_time(time).strftime(_FILE_TIME_FORMAT)
        return f"{self._path}/{table}/date={time[:10]}/{name}.parquet"

    def _open(self, table: str, schema: pa.Schema, times: Sequence[str]) -> Any:
        files, store = [self._file(table, time) for time in times], None
        if is_remote(self._path):
            store, files = open_store(files[0])[0], [open_store(file)[1] for file in files]
        return ds.dataset(files, schema=schema, format="parquet", filesystem=store)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, KeyError) as error:
            self._raise_unreadable(str(error).partition("\n")[0])

    def _raise_unreadable(self, message: str) -> NoReturn:
        raise TopiaristError(
            Reason.UNREADABLE,
            f"{printable_path(self._path)}: found no history of drift reports: {printable(message, 400)}",
            "set --history to a new folder, or to one that earlier reports have written",
        )


def _read_rows(report: str, time: str, *, are_resolved: bool) -> Iterator[FindingRow]:
    """Yield the resolved findings of a report with their age at its time, or all others, with their state."""
    for name, state in STATE_BY_FILE.items():
        if (state == RESOLVED) is not are_resolved:
            continue
        with TemporaryDirectory(prefix="topiarist-drift-") as here:
            file = Path(report, name)
            if is_remote(report):
                file = Path(here, name)
                Storage().download(f"{report}/{name}", file)
            with file.open("rb") as lines:
                for line in lines:
                    row = json.loads(line)
                    if are_resolved:
                        row["ageSeconds"] = seconds_between(row["seenSince"], time)
                    yield row if state is None else row | {"status": state}


def _batches(rows: Iterator[FindingRow]) -> Iterator[list[FindingRow]]:
    while batch := [*islice(rows, _BATCH_ROWS)]:
        yield batch


def _encode(schema: pa.Schema, batches: Iterable[Sequence[Mapping[str, Any]]]) -> bytes:
    """Return a Parquet file with one row group for each batch."""
    texts = pa.schema([(field.name, pa.string() if field.type == _TIME else field.type) for field in schema])
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for batch in batches:
            table = pa.Table.from_pylist(batch, texts)
            columns = [
                pc.strptime(column, _TIME_FORMAT, "us").cast(_TIME) if field.type == _TIME else column
                for field, column in zip(schema, table.columns, strict=True)
            ]
            writer.write_table(pa.table(columns, schema))
    return bytes(sink.getvalue())


def _to_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table, with times as text."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            texts = pc.strftime(table.column(index).cast(pa.timestamp("s", tz="UTC")), _TIME_FORMAT)
            table = table.set_column(index, field.name, texts)
    return list(table.to_pylist())
