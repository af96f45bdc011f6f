"""Spark without a JVM: tables in this process, for what ``drift.spark`` does with Spark.

It has only the methods and functions that the package calls. Functions over batches of Arrow go through cloudpickle, as
on their way to an executor. A table in storage is a folder of files with random names, marker and checksum files.
``tests/spark`` runs the same reports by Spark itself.
"""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import chain
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import Row, types
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from support.drift.java_errors import JavaError

Values = dict[str, Any]

_ATOMS: Mapping[str, types.DataType] = {
    "string": types.StringType(),
    "int": types.IntegerType(),
    "bigint": types.LongType(),
    "boolean": types.BooleanType(),
    "timestamp": types.TimestampType(),
    "date": types.DateType(),
    "binary": types.BinaryType(),
}


def parse_type(text: str) -> types.DataType:
    """Return the type of a text such as ``map<string, bigint>`` or ``a int, b struct<c: string>``."""
    text = text.strip()
    if text in _ATOMS:
        return _ATOMS[text]
    kind, _, inner = text.partition("<")
    if kind == "array":
        return types.ArrayType(parse_type(inner[:-1]))
    if kind == "map":
        key, value = map(parse_type, _split(inner[:-1]))
        return types.MapType(key, value)
    fields = (
        re.split(r"[: ]", field.strip(), maxsplit=1) for field in _split(inner[:-1] if kind == "struct" else text)
    )
    return types.StructType([types.StructField(name, parse_type(of)) for name, of in fields])


def _split(text: str) -> list[str]:
    """Return the parts of a text between its commas, without those in brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def convert(value: Any, kind: types.DataType) -> Any:
    """Return a value of JSON as one of a type, as Spark's JSON parser: None if it is of another kind."""
    if value is None:
        return None
    if isinstance(kind, types.StringType):
        return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    if isinstance(kind, types.BooleanType):
        return value if isinstance(value, bool) else None
    if isinstance(kind, types.IntegerType | types.LongType):
        bits = 31 if isinstance(kind, types.IntegerType) else 63
        return value if isinstance(value, int) and -(2**bits) <= value < 2**bits else None
    if isinstance(kind, types.TimestampType):
        return datetime.fromisoformat(value)
    if isinstance(kind, types.ArrayType):
        return [convert(each, kind.elementType) for each in value]
    if isinstance(kind, types.MapType):
        return {key: convert(each, kind.valueType) for key, each in value.items()}
    assert isinstance(kind, types.StructType)
    return {field.name: convert(value.get(field.name), field.dataType) for field in kind}


class Expression:
    """A column: a name, and the function from the values of a row to its value."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str, evaluate: Callable[[Values], Any], kind: types.DataType | None = None) -> None:
        self.name, self.evaluate, self.kind = name, evaluate, kind

    def alias(self, name: str) -> Expression:
        """Return the column with another name."""
        return Expression(name, self.evaluate, self.kind)

    def _with(self, other: Any, operate: Callable[[Any, Any], Any]) -> Expression:
        right = as_expression(other)

        def evaluate(row: Values) -> Any:
            values = self.evaluate(row), right.evaluate(row)
            return None if None in values else operate(*values)

        return Expression(self.name, evaluate)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return self._with(other, lambda a, b: a == b)

    def __ge__(self, other: Any) -> Expression:
        return self._with(other, lambda a, b: (a.isoformat() if isinstance(a, date) and isinstance(b, str) else a) >= b)

    def __le__(self, other: Any) -> Expression:
        return self._with(other, lambda a, b: a <= b)

    def __sub__(self, other: Any) -> Expression:
        return self._with(other, lambda a, b: a - b)

    def __or__(self, other: Expression) -> Expression:
        return self._with(other, lambda a, b: a or b)

    def __invert__(self) -> Expression:
        return Expression(self.name, lambda row: not self.evaluate(row))

    def isin(self, *values: Any) -> Expression:
        """Return whether the value is one of some values, which may be in a list."""
        wanted = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        return Expression(self.name, lambda row: self.evaluate(row) in wanted)

    def cast(self, kind: str) -> Expression:
        """Return the value as text, from bytes, as bytes, from text, or as seconds, from a time."""
        converters: dict[str, Callable[[Any], Any]] = {
            "string": bytes.decode,
            "binary": str.encode,
            "long": lambda time: int(time.timestamp()),
        }

        def evaluate(row: Values) -> Any:
            value = self.evaluate(row)
            return None if value is None else converters[kind](value)

        return Expression(self.name, evaluate, _ATOMS.get(kind))

    def getItem(self, place: int) -> Expression:  # noqa: N802
        """Return an item of a list."""
        return Expression(self.name, lambda row: self.evaluate(row)[place])

    def try_cast(self, kind: str) -> Expression:
        """Return text as a boolean, None for any other text."""
        assert kind == "boolean"
        return Expression(self.name, lambda row: {"true": True, "false": False}.get(self.evaluate(row)))


class Window(NamedTuple):
    """Rows with equal values of some columns, in the order of others."""

    equal: str
    order: Sequence[str] = ()

    @classmethod
    def partitionBy(cls, name: str) -> Window:  # noqa: N802
        """Return the window of the rows with the same value."""
        return cls(name)

    def orderBy(self, *names: str) -> Window:  # noqa: N802
        """Return the window with its rows in order."""
        return self._replace(order=names)


class RowNumber(Expression):
    """The place of each row in its window, from 1."""

    def __init__(self) -> None:
        super().__init__("row_number", lambda row: self.places[id(row)], types.IntegerType())
        self.places: dict[int, int] = {}
        self.window = Window("")

    def over(self, window: Window) -> RowNumber:
        """Return the number in a window."""
        self.window = window
        return self

    def alias(self, name: str) -> RowNumber:
        """Return the column with another name."""
        self.name = name
        return self

    def number(self, rows: Iterable[Values]) -> None:
        """Number all rows of a table."""
        last: Counter[Any] = Counter()
        for row in sorted(rows, key=lambda row: [row[name] for name in self.window.order]):
            last[row[self.window.equal]] += 1
            self.places[id(row)] = last[row[self.window.equal]]


def as_expression(value: Any) -> Expression:
    """Return a column, or the column with a constant value."""
    return value if isinstance(value, Expression) else Expression(str(value), lambda row: value)


def col(name: str | Expression) -> Expression:
    """Return the column of a name; unknown names are errors."""
    return name if isinstance(name, Expression) else Expression(name.rpartition(".")[2], lambda row: row[name])


def _from_json(text: str | Expression, kind: types.DataType | str) -> Expression:
    parsed, column = parse_type(kind) if isinstance(kind, str) else kind, col(text)

    def evaluate(row: Values) -> Any:
        value = column.evaluate(row)
        return None if value is None else convert(json.loads(value), parsed)

    return Expression("from_json", evaluate, parsed)


def _to_json(column: Expression, options: Mapping[str, str]) -> Expression:
    keep = options.get("ignoreNullFields") == "false"

    def evaluate(row: Values) -> str:
        return json.dumps({name: value for name, value in column.evaluate(row).items() if keep or value is not None})

    return Expression("to_json", evaluate)


def _to_timestamp(column: str | Expression) -> Expression:
    parsed = col(column)
    return Expression(parsed.name, lambda row: datetime.fromisoformat(parsed.evaluate(row)), types.TimestampType())


FUNCTIONS = SimpleNamespace(
    broadcast=lambda table: table,
    col=col,
    contains=lambda name, text: Expression(name, lambda row: text.evaluate(row) in row[name]),
    from_json=_from_json,
    greatest=lambda *given: Expression("greatest", lambda row: max(each.evaluate(row) for each in given)),
    lit=lambda value: Expression(str(value), lambda row: value, _ATOMS["int"] if isinstance(value, int) else None),
    regexp_extract=lambda name, pattern, group: Expression(
        name, lambda row: found[group] if (found := re.search(pattern, row[name])) else ""
    ),
    row_number=RowNumber,
    spark_partition_id=lambda: col("id"),
    struct=lambda *columns: _struct(*columns),
    substring=lambda name, start, length: Expression(name, lambda row: row[name][start - 1 : start - 1 + length]),
    to_json=_to_json,
    to_timestamp=_to_timestamp,
)
"""The functions of ``pyspark.sql.functions`` that the package calls."""


def _struct(*columns: Any) -> Expression:
    """Return the columns of these names as one value, or a tuple of columns without names."""
    if isinstance(columns[0], Expression):
        return Expression("struct", lambda row: tuple(as_expression(each).evaluate(row) for each in columns))
    (names,) = columns
    return Expression("struct", lambda row: {name: row[name] for name in names})


def _shipped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as an executor receives it."""
    received: Callable[..., Any] = pickle.loads(cloudpickle.dumps(function))  # type: ignore[no-untyped-call]
    return received


def _to_arrow(kind: types.DataType) -> pa.DataType:
    return {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "binary": pa.binary()}[kind.simpleString()]


class Table:
    """Rows with a type, in partitions."""

    def __init__(self, spark: LocalSpark, schema: types.StructType, partitions: Sequence[Sequence[Values]]) -> None:
        self._spark, self.schema, self._partitions = spark, schema, partitions

    def _made(self, change: Callable[[Sequence[Values]], Sequence[Values]], fields: Any = None) -> Table:
        schema = self.schema if fields is None else types.StructType(fields)
        return Table(self._spark, schema, [change(rows) for rows in self._partitions])

    def select(self, *columns: str | Expression) -> Table:
        """Return some columns; ``*`` is all of them, ``a.*`` are the fields of ``a``."""
        chosen = {each.name: each for column in columns for each in self._expand(column)}
        for each in chosen.values():
            if isinstance(each, RowNumber):
                each.number(chain(*self._partitions))
        return self._made(
            lambda rows: [{name: each.evaluate(row) for name, each in chosen.items()} for row in rows],
            [types.StructField(name, self._kind_of(each)) for name, each in chosen.items()],
        )

    def distinct(self) -> Table:
        """Return the table: only its number of partitions is asked."""
        return self

    def count(self) -> int:
        """Return the number of rows."""
        return len([*chain(*self._partitions)])

    def groupBy(self, name: str) -> SimpleNamespace:  # noqa: N802
        """Return the groups of rows with the same value, which can only be counted."""
        numbers = Counter(row[name] for row in chain(*self._partitions))
        fields = [self.schema[name], types.StructField("count", types.LongType())]
        rows = [{name: value, "count": number} for value, number in numbers.items()]
        return SimpleNamespace(count=lambda: Table(self._spark, types.StructType(fields), [rows]))

    def _expand(self, column: str | Expression) -> list[Expression]:
        if isinstance(column, str) and column.endswith(".*"):
            outer = column.removesuffix(".*")
            fields = self.schema[outer].dataType
            assert isinstance(fields, types.StructType)
            return [
                Expression(field.name, lambda row, name=field.name: row[outer][name], field.dataType)  # type: ignore[misc]
                for field in fields
            ]
        return [*map(col, self.schema.names)] if column == "*" and isinstance(column, str) else [col(column)]

    def _kind_of(self, column: Expression | types.StructField) -> types.DataType:
        known = {field.name: field.dataType for field in self.schema}
        kind = column.kind if isinstance(column, Expression) else None
        return kind or known.get(column.name) or types.StringType()

    def where(self, condition: Expression) -> Table:
        """Return the rows for which a condition is true."""
        return self._made(lambda rows: [row for row in rows if condition.evaluate(row) is True])

    def withColumns(self, columns: Mapping[str, Expression]) -> Table:  # noqa: N802
        """Return the table with some columns added or replaced."""
        return self._made(
            lambda rows: [row | {name: each.evaluate(row) for name, each in columns.items()} for row in rows],
            [
                *(types.StructField(each.name, self._kind_of(columns.get(each.name) or each)) for each in self.schema),
                *(types.StructField(name, types.StringType()) for name in columns if name not in self.schema.names),
            ],
        )

    def withColumn(self, name: str, column: Expression) -> Table:  # noqa: N802
        """Return the table with a column added or replaced."""
        return self.withColumns({name: column})

    def join(self, other: Table, on: Sequence[str], how: str = "inner") -> Table:
        """Return the rows with a partner in another table, or in an inner join by one column the pairs."""
        if how == "inner":
            assert isinstance(on, str)
            partners = {row[on]: row for row in chain(*other._partitions)}
            fields = {field.name: field for field in (*self.schema, *other.schema)}
            return self._made(
                lambda rows: [row | partners[row[on]] for row in rows if row[on] in partners], [*fields.values()]
            )
        assert how == "left_semi"
        keys = {tuple(row[name] for name in on) for row in chain(*other._partitions)}
        return self._made(lambda rows: [row for row in rows if tuple(row[name] for name in on) in keys])

    def union(self, other: Table) -> Table:
        """Return the rows of both, by the order of their columns."""
        names = self.schema.names
        rows = [[dict(zip(names, row.values(), strict=True)) for row in part] for part in other._partitions]
        return Table(self._spark, self.schema, [*self._partitions, *rows])

    def unionByName(self, other: Table) -> Table:  # noqa: N802
        """Return the rows of both, by the names of their columns."""
        rows = [[{name: row[name] for name in self.schema.names} for row in part] for part in other._partitions]
        return Table(self._spark, self.schema, [*self._partitions, *rows])

    def repartition(self, *columns: str) -> Table:
        """Return the table with all rows of some values in one partition, in no useful order."""
        found: list[list[Values]] = [[], []]
        for row in [*chain(*self._partitions)][::-1]:
            found[sum(str([row[name] for name in columns]).encode()) % 2].append(row)
        return Table(self._spark, self.schema, found)

    def repartitionById(self, number: int, column: str) -> Table:  # noqa: N802
        """Return the table with the rows of each number in their own partition."""
        rows = [*chain(*self._partitions)]
        return Table(
            self._spark, self.schema, [[row for row in rows if row[column] % number == each] for each in range(number)]
        )

    def coalesce(self, number: int) -> Table:
        """Return the table in one partition."""
        assert number == 1
        return Table(self._spark, self.schema, [[*chain(*self._partitions)]])

    def sortWithinPartitions(self, *names: str) -> Table:  # noqa: N802
        """Return the table with each partition in order."""
        return self._made(
            lambda rows: sorted(rows, key=lambda row: [(row[name] is not None, row[name]) for name in names])
        )

    def orderBy(self, *names: str) -> Table:  # noqa: N802
        """Return the table in order, in two partitions."""
        rows = sorted(chain(*self._partitions), key=lambda row: [row[name] for name in names])
        return Table(self._spark, self.schema, [rows[: len(rows) // 2], rows[len(rows) // 2 :]])

    def collect(self) -> list[Row]:
        """Return all rows; times are local, without a time zone."""
        names = self.schema.names  # rows of files also have hidden columns
        return [Row(**{name: _to_python(row[name]) for name in names}) for row in chain(*self._partitions)]

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterator[Row]:  # noqa: N802, N803
        """Yield all rows."""
        yield from self.collect()

    def mapInArrow(self, function: Callable[[Iterator[Any]], Iterator[Any]], schema: str) -> Table:  # noqa: N802
        """Return what a function makes of the batches of each partition, which have one row or two."""
        kept, made = pa.schema([(field.name, _to_arrow(field.dataType)) for field in self.schema]), parse_type(schema)
        assert isinstance(made, types.StructType)
        partitions = []
        for rows in self._partitions:
            table = pa.Table.from_pylist([{name: row[name] for name in kept.names} for row in rows], kept)
            found = [row for batch in _shipped(function)(iter(table.to_batches(2))) for row in batch.to_pylist()]
            assert all([*row] == made.names for row in found)
            partitions.append(found)
        return Table(self._spark, made, partitions)

    def drop(self, name: str) -> Table:
        """Return the table without a column."""
        return self.select(*(each for each in self.schema.names if each != name))

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.schema.names)

    @property
    def sparkSession(self) -> LocalSpark:  # noqa: N802
        """Return the session."""
        return self._spark

    @property
    def write(self) -> Writer:
        """Return a writer."""
        return Writer(self._spark, self)


def _to_python(value: Any) -> Any:
    return value.astimezone().replace(tzinfo=None) if isinstance(value, datetime) else value


class Writer:
    """A writer of a table into a folder, which must not exist."""

    def __init__(self, spark: LocalSpark, table: Table) -> None:
        self._spark, self._table = spark, table
        self._by: list[str] = []
        self._replaces = False
        self.options: dict[str, str] = {}

    def partitionBy(self, *names: str) -> Writer:  # noqa: N802
        """Write a folder for each value of some columns."""
        self._by += names
        return self

    def option(self, name: str, value: str) -> Writer:
        """Set an option."""
        self.options[name] = value
        return self

    def mode(self, mode: str) -> Writer:
        """Replace an existing folder."""
        self._replaces = mode == "overwrite"
        return self

    def parquet(self, address: str) -> None:
        """Write Parquet files."""
        kept = to_arrow_schema(
            types.StructType([each for each in self._table.schema if each.name not in self._by]), timezone="UTC"
        )
        for file, rows in self._list_files(address, f"{self.options.get('compression', 'snappy')}.parquet"):
            pq.write_table(pa.Table.from_pylist([{name: row[name] for name in kept.names} for row in rows], kept), file)

    def text(self, address: str) -> None:
        """Write the only column that is no folder as lines of text."""
        for file, rows in self._list_files(address, "txt"):
            file.write_text("".join(f"{text}\n" for (text,) in (row.values() for row in rows)))

    def _list_files(self, address: str, suffix: str) -> Iterator[tuple[Path, list[Values]]]:
        root = self._spark.configuration.find_file(address)
        if self._replaces:
            rmtree(root, ignore_errors=True)
        if root.exists():
            raise PySparkException(f"[PATH_ALREADY_EXISTS] Path {address} already exists.")
        for number, rows in enumerate(self._table._partitions):
            folders: dict[Path, list[Values]] = {}
            for row in rows:
                folder = root.joinpath(*(f"{name}={row[name]}" for name in self._by))
                folders.setdefault(folder, []).append({name: row[name] for name in row if name not in self._by})
            for folder, some in folders.items():
                folder.mkdir(parents=True, exist_ok=True)
                file = folder / f"part-{number:05}-{token_hex(4)}.{suffix}"
                yield file, some
                if address.startswith("file:"):  # Hadoop has checksums in files for local file systems only
                    file.with_name(f".{file.name}.crc").touch()
        root.mkdir(parents=True, exist_ok=True)
        (root / "_SUCCESS").touch()


class Reader:
    """A reader of files and folders; glob characters in an address must be escaped."""

    def __init__(self, spark: LocalSpark) -> None:
        self._spark = spark
        self._schema: types.StructType | None = None

    def schema(self, schema: types.StructType | str) -> Reader:
        """Set the type of the rows."""
        parsed = parse_type(schema) if isinstance(schema, str) else schema
        assert isinstance(parsed, types.StructType)
        self._schema = parsed
        return self

    def format(self, name: str) -> Reader:
        """Set the format of ``load``."""
        assert name == "binaryFile"
        return self

    def load(self, addresses: Sequence[str]) -> Table:
        """Return each file as a row with its content."""
        rows = [
            {"path": self._spark.configuration.find_address(file), "content": file.read_bytes()}
            for address in addresses
            for _, file in self._list_files(address)
        ]
        fields = [types.StructField("path", types.StringType()), types.StructField("content", types.BinaryType())]
        return Table(self._spark, types.StructType(fields), [rows])

    def json(self, address: str) -> Table:
        """Return the rows of lines of JSON."""
        assert self._schema is not None
        lines = (line for _, file in self._list_files(address) for line in file.read_text().splitlines())
        return Table(self._spark, self._schema, [[convert(json.loads(line), self._schema) for line in lines]])

    def parquet(self, *addresses: str) -> Table:
        """Return the rows of binary files, with the columns that their folders name."""
        partitions, fields = [], self._schema
        for root, file in (found for address in addresses for found in self._list_files(address)):
            try:
                table = pq.read_table(file, partitioning=None)
            except pa.ArrowException as error:
                raise PySparkException(f"[CANNOT_READ_FILE_FOOTER] {file} is not a Parquet file") from error
            rows = table.to_pylist(maps_as_pydicts="strict")
            fields = fields or from_arrow_schema(table.schema)
            names = dict(name.split("=", 1) for name in file.relative_to(root).parts[:-1] if "=" in name)
            more: Values = {**names, "_metadata.file_path": self._encode(file)}
            if "date" in names:
                more["date"] = date.fromisoformat(names["date"])
            added = [types.StructField(name, types.StringType()) for name in names if name not in fields.names]
            fields = types.StructType([*fields, *added])
            empty = dict.fromkeys(fields.names)
            partitions.append([empty | row | more for row in rows])
        return Table(self._spark, fields or types.StructType(), partitions)

    def _encode(self, file: Path) -> str:
        return quote(self._spark.configuration.find_address(file), safe=":/")

    def _list_files(self, address: str) -> Iterator[tuple[Path, Path]]:
        if re.search(r"(?<!\\)[{}\[\]*?]", address):
            raise PySparkException(f"[PATH_NOT_FOUND] Path does not exist: {address} (a pattern)")
        root = self._spark.configuration.find_file(re.sub(r"\\(.)", r"\1", address))
        if root.is_file():
            yield root.parent, root
            return
        if not root.exists():
            raise PySparkException(f"[PATH_NOT_FOUND] Path does not exist: {address}")
        for file in sorted(root.rglob("*")):
            if file.is_file() and not any(part.startswith((".", "_")) for part in file.relative_to(root).parts):
                yield root, file


class Stores:
    """The folders of the stores by the address of their root."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self.roots = {"file://": Path("/"), **roots}

    def find_file(self, address: str) -> Path:
        """Return the file of an address. Raises ``JavaError`` for an unknown scheme."""
        for root, folder in self.roots.items():
            if address.startswith(root):
                return folder / address.removeprefix(root).lstrip("/")
        raise JavaError("UnsupportedFileSystemException", f'No FileSystem for scheme "{address.partition(":")[0]}"')

    def find_address(self, file: Path) -> str:
        """Return the address of a file."""
        for root, folder in reversed(self.roots.items()):
            if file.is_relative_to(folder):
                return f"{root}/{file.relative_to(folder)}"
        raise AssertionError(file)


class LocalSpark:
    """A session; ``roots`` are the folders of the stores by address."""

    def __init__(self, roots: Mapping[str, Path], master: str = "local[2]") -> None:
        self.configuration = Stores(roots)
        self.master = master
        self.settings: dict[str, Any] = {}
        self.conf = SimpleNamespace(
            set=self.settings.__setitem__, get=lambda name, default: {"spark.master": self.master}.get(name, default)
        )

    @property
    def read(self) -> Reader:
        """Return a reader."""
        return Reader(self)

    def range(self, end: int) -> Table:
        """Return a table that has a row in each of the two partitions that run at the same time."""
        assert end > 2
        return Table(self, types.StructType([types.StructField("id", types.LongType())]), [[{"id": 0}], [{"id": 1}]])

    def createDataFrame(self, rows: Iterable[Any], schema: str) -> Table:  # noqa: N802
        """Return a table of rows, which are tuples."""
        fields = parse_type(schema)
        assert isinstance(fields, types.StructType)
        return Table(self, fields, [[dict(zip(fields.names, row, strict=True)) for row in rows]])
