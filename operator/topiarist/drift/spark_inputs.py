"""Snapshots that only Spark can reach: at addresses of other stores, and tables of Parquet wherever they are.

Files of JSON lines are what they are elsewhere, one for each cluster. A table has the same rows, of as many clusters
and times as there are, in files that mean nothing by themselves. Of both, first rows are read here, and all others by
the executors; what does not have the rows that it should have is then looked at line by line, as without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import unquote

from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as f

from topiarist.adapters.snapshot import SUFFIX, Broken, Head, text_of, time_of
from topiarist.adapters.snapshot.checks import Checks, Odd, parse
from topiarist.adapters.snapshot.reading import lines, named
from topiarist.core.spec import ClusterSpec
from topiarist.core.values import shown
from topiarist.drift import columns, spark
from topiarist.drift.hadoop import Storage
from topiarist.drift.observing import Recorded
from topiarist.drift.places import PARQUET, address, exact, here, remote, tables
from topiarist.drift.spark_errors import in_words
from topiarist.errors import Reason, TopiaristError

_AT_ONCE = 16
"""First rows that are fetched at the same time: a store answers each of them late."""

_MAGIC, _FILE = b"PAR1", "_file"


class Stored(Recorded):
    """As ``Recorded``, for paths and addresses of all sorts."""

    def __init__(self, started: SparkSession, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> None:
        self._spark = started
        self._storage = Storage(started)
        self._heads: dict[tuple[str, str, str], bytes] = {}
        self._tables: list[str] = []
        # A folder of Spark's own, which it removes at its end.
        self._fetched = Path(SparkFiles.getRootDirectory(), f"fetched-{token_hex(8)}{SUFFIX}")
        super().__init__(paths, clusters)

    def found(self, paths: Sequence[str]) -> Iterator[tuple[str, Head | Broken]]:
        """Every file with what it is a snapshot of, or why it is none; of a table a row for each snapshot in it."""
        files = sorted({file for path in paths for file in self._files_at(path)})
        plain = [file for file in files if not file.endswith(PARQUET)]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for file, line in zip(plain, pool.map(self._first, plain), strict=True):
                yield file, line if isinstance(line, Broken) else self._head(file, line)
        for file in files:
            if file.endswith(PARQUET):
                if problem := self._problem(file):
                    yield file, Broken(named(file), 0, problem)
                else:
                    self._tables.append(file)
        if self._tables:
            yield from self._heads_of_tables()

    def read_head(self, name: str) -> dict[str, Any]:
        """The first row of the snapshot that counts for a cluster."""
        return parse(self._line(name))

    def local(self, name: str) -> Path:
        """The rows of the snapshot that counts for a cluster, fetched; the next one takes their place."""
        file = self._files[name][1]
        if not remote(file) and not file.endswith(PARQUET):
            return Path(file)
        with self._fetched.open("wb") as made:
            made.writelines(self._rows_of(name) if file.endswith(PARQUET) else self._storage.lines(file))
        return self._fetched

    def there(self, names: Iterable[str]) -> DataFrame:
        """Topics and records of the snapshots that count for these clusters, as ``spark.lines`` has them."""
        wanted = {name: self._files[name] for name in names}
        plain = [exact(file) for _, file in wanted.values() if not file.endswith(PARQUET)]
        found = spark.lines(self._spark, plain) if plain else None
        chosen = [(name, text_of(taken)) for name, (taken, file) in wanted.items() if file.endswith(PARQUET)]
        if not chosen:
            assert found is not None
            return found
        keys = types.StructType([types.StructField(name, types.StringType()) for name in ("cluster", "takenAt")])
        counted = f.broadcast(self._spark.createDataFrame(chosen, keys))
        rows = self._table().where("kind <> 'cluster'").join(counted, ["cluster", "takenAt"], "left_semi")
        uncorrupted = f.lit(None).cast("string").alias(columns.CORRUPT)
        table = columns.typed(rows, columns.of_kind("topic", "record"), uncorrupted)
        return table if found is None else found.unionByName(table)

    def _files_at(self, path: str) -> list[str]:
        if remote(path):
            files = self._storage.files(path)
        elif (where := Path(path)).is_dir():
            files = [str(file) for file in (*where.rglob(f"*{SUFFIX}"), *tables(path)) if file.name[0] != "."]
        elif where.exists():
            files = [path]
        else:
            raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, f"{shown(path, 4096)}: there is no such file or folder")
        if found := [file for file in files if file.endswith((SUFFIX, PARQUET)) or file == path]:
            return found
        message = f"{shown(path, 4096)} has no file *{SUFFIX} and none *{PARQUET}"
        raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, message, "make some: topiarist snapshot --out FOLDER")

    def _first(self, file: str) -> bytes | Broken:
        """The first line of a file, empty if there is none, or why it cannot be read."""
        try:
            return next(iter(self._storage.lines(file) if remote(file) else lines(Path(file))), b"")
        except TopiaristError as error:
            return Broken(named(file), 0, str(error.args[0]))

    def _head(self, file: str, line: bytes) -> Head | Broken:
        """What a first line says, which is kept if it says something."""
        if not line:
            return Broken(named(file), 0, f"{named(file)}: found an empty file, wanted a snapshot")
        try:
            row = parse(line)
            Checks().check(row)
        except Odd as odd:
            return Broken(named(file), 0, f"{named(file)}:1: {odd}")
        found = Head(row["cluster"], time_of(row["takenAt"]))
        self._heads[found.cluster, row["takenAt"], file] = line
        return found

    def _line(self, name: str) -> bytes:
        taken, file = self._files[name]
        return self._heads[name, text_of(taken), file]

    def _problem(self, file: str) -> str:
        """Why a file is no Parquet, by its end; what is before that only its reader can tell."""
        try:
            ended = self._storage.tail(address(file), len(_MAGIC)) == _MAGIC
        except TopiaristError as error:
            return str(error.args[0])
        return "" if ended else "found no end of a Parquet file: it was cut off, or is none"

    def _heads_of_tables(self) -> Iterator[tuple[str, Head | Broken]]:
        with in_words(Reason.SNAPSHOT_UNUSABLE, self._tables[0]):
            _require_columns(self._spark.read.parquet(exact(self._tables[0])).schema, self._tables[0])
            heads = self._lines_of(self._table(), "cluster").collect()
        given = {address(file): file for file in self._tables}
        for row in heads:
            # Spark tells it as an address in which some characters are written by their numbers.
            file = given.get(address(here(row.file))) or given.get(unquote(row.file), row.file)
            yield file, self._head(file, row.text.encode())

    def _rows_of(self, name: str) -> Iterator[bytes]:
        """The lines that a snapshot in a table would be a file of."""
        taken, _ = self._files[name]
        yield self._line(name) + b"\n"
        whole = self._table().where((f.col("cluster") == name) & (f.col("takenAt") == text_of(taken)))
        for kind in ("topic", "record"):
            for row in self._lines_of(whole, kind).toLocalIterator():
                yield row.text.encode() + b"\n"

    def _table(self) -> DataFrame:
        """All rows, with the address of the file of each."""
        rows = self._spark.read.schema(columns.rows()).parquet(*map(exact, self._tables))
        return rows.select("*", f.col("_metadata.file_path").alias(_FILE))

    def _lines_of(self, rows: DataFrame, kind: str) -> DataFrame:
        """The rows of a kind as lines, ``text``, each with its ``file``."""
        fields = columns.of_kind(kind)
        line = f.to_json(f.struct([field.name for field in fields]), {"ignoreNullFields": "false"})
        chosen = rows.where(f.col("kind") == kind)
        return columns.typed(chosen, fields, f.col(_FILE)).select(line.alias("text"), f.col(_FILE).alias("file"))


def there(started: SparkSession, recorded: Recorded, names: Iterable[str]) -> DataFrame:
    """Topics and records of the snapshots that count for these clusters."""
    if isinstance(recorded, Stored):
        return recorded.there(names)
    return spark.lines(started, [exact(recorded.files[name][1]) for name in names])


def _require_columns(found: types.StructType, file: str) -> None:
    """Raise ``SnapshotUnusable`` unless a table has the columns of snapshots, each with its type."""
    wanted = {field.name: field.dataType.simpleString() for field in columns.rows()}
    there = {field.name: field.dataType.simpleString() for field in found}
    if odd := [name for name, kind in wanted.items() if there.get(name) != kind]:
        first = f"{odd[0]}: found {there.get(odd[0], 'no such column')}, wanted {wanted[odd[0]]}"
        message = f"{named(file)}: found no table of snapshots: column {first}"
        raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, message, "write it with the schema that docs/drift.md names")
