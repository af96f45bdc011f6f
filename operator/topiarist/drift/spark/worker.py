"""The tasks of Spark: ``drift.task.work`` on an executor, its results as rows of one table.

``drift.spark.engine`` calls ``compare_batches`` in Python workers, with batches of Arrow. What tasks learn from each
other is kept in the worker process, which Spark uses for many tasks. Results return to the driver through a store, so
that they are decoded as data of known types and never unpickled. This module does not import PySpark, so that it can be
tested without Spark.
"""

from __future__ import annotations

import io
import json
import pickle
import socket
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple, get_args, get_origin

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from topiarist.adapters.snapshots.files import MAX_ROW_BYTES, unusable_snapshot_error
from topiarist.drift.compare import ClusterResult
from topiarist.drift.cross_cluster import TopicComparer
from topiarist.drift.snapshots import SnapshotLines
from topiarist.drift.task import Caches, Part, Shipped, work
from topiarist.errors import Reason, TopiaristError
from topiarist.text import humanize_bytes, printable_path

PART_TYPE = "cluster string, part binary, data binary"
"""Rows of parts, those of a cluster one after the other: the part, with a snapshot or before the lines of one."""

TABLE_TYPE = "cluster string, kind string, number int, data binary"
"""Rows of the table of results."""

_TABLE_SCHEMA = pa.schema(
    [("cluster", pa.string()), ("kind", pa.string()), ("number", pa.int32()), ("data", pa.binary())]
)
_BATCH_ROWS = 1000

RESULT, DEVIATION, FAILURE = "result", "deviation", "failure"
"""Kinds of rows in the table, besides the names of files with lines."""

TaskRow = tuple[str, str, int, bytes]
"""A row of the table: cluster, kind, number within the cluster and kind, and data."""


class TaskResult(NamedTuple):
    """A result without its lines and deviations, which stay on the executors, but with their numbers by kind."""

    result: ClusterResult
    counts: dict[str, int]


class TaskFailure(NamedTuple):
    """The error that ends the run, as a task found it on its machine."""

    reason: Reason
    message: str
    hint: str


_loaded: dict[str, tuple[Shipped, Caches]] = {}
"""The job of this worker process by its name; a process works for one job at a time."""


def load_job(name: str, pickled: bytes) -> tuple[Shipped, Caches]:
    """Return what tasks need of a job, as the driver sent it with the task; it is loaded once in each process."""
    if name not in _loaded:
        _loaded.clear()
        shipped = pickle.loads(pickled)
        _loaded[name] = shipped, Caches(shipped)
    return _loaded[name]


def compare_batches(batches: Iterable[pa.RecordBatch], name: str, pickled: bytes) -> Iterator[pa.RecordBatch]:
    """Compare the parts in batches of ``PART_TYPE``; yield batches of ``TABLE_TYPE``."""
    rows = run_task(read_parts(batches), *load_job(name, pickled))
    while some := [*islice(rows, _BATCH_ROWS)]:
        columns = zip(_TABLE_SCHEMA.types, zip(*some, strict=True), strict=True)
        yield pa.record_batch([pa.array(column, kind) for kind, column in columns], schema=_TABLE_SCHEMA)


def read_parts(batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
    """Yield the parts in batches of ``PART_TYPE``, with the lines of their snapshots."""
    rows = chain.from_iterable(
        zip(*(map(_to_python, batch.column(name)) for name in ("cluster", "part", "data")), strict=True)
        for batch in batches
    )
    for _, some in groupby(rows, key=itemgetter(0)):
        _, pickled, content = next(some)
        part: Part = pickle.loads(pickled)  # sent by the driver with this task
        if isinstance(part.source, SnapshotLines) and content is not None:
            part = _with_lines(part.source, part, split_lines(part.source.snapshot.file, content))
        elif isinstance(part.source, SnapshotLines) and not part.source.lines:
            part = _with_lines(part.source, part, (line + b"\n" for _, _, line in some))
        yield part


def find_differences(
    batches: Iterable[pa.RecordBatch], name: str, pickled: bytes, compared: frozenset[str], max_shown: int
) -> Iterator[pa.RecordBatch]:
    """Yield the number of cross-cluster differences in deviations, which are in order of topic, and the first ones.

    Rows have ``cluster``, ``topic``, ``manifest``, ``group`` and ``variant``.
    """
    _, caches = load_job(name, pickled)
    comparer, count, shown = TopicComparer(caches.groups, compared), 0, list[dict[str, Any]]()
    rows = (row for batch in batches for row in batch.to_pylist())
    for (topic, manifest), some in groupby(rows, key=itemgetter("topic", "manifest")):
        deviations = [(row["cluster"], int(row["group"]), row["variant"]) for row in some]
        differences = [*comparer.find_differences(topic, manifest, deviations)]
        count += len(differences)
        shown += differences
        if len(shown) > 2 * max_shown:
            shown = nsmallest(max_shown, shown, key=difference_key)
    lines = [json.dumps(each).encode() for each in nsmallest(max_shown, shown, key=difference_key)]
    numbers = pa.array([count, *(0 for _ in lines)])
    yield pa.record_batch({"number": numbers, "data": pa.array([None, *lines], pa.binary())})


def difference_key(difference: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the key of the order of cross-cluster differences."""
    return difference["topic"], difference["manifest"], difference["field"]


def _to_python(value: pa.Scalar) -> Any:
    return value.as_py()


def _with_lines(source: SnapshotLines, part: Part, lines: Iterable[bytes]) -> Part:
    return part._replace(source=source._replace(lines=lines))


def run_task(parts: Iterable[Part], shipped: Shipped, caches: Caches) -> Iterator[TaskRow]:
    """Yield the rows of all results of some parts; an error that ends the run is a row too.

    As a value it reaches the driver without another attempt and without a traceback.
    """
    try:
        for result in work(parts, shipped, caches):
            yield from _encode_result(result)
    except TopiaristError as error:
        failure = TaskFailure(error.reason, f"{socket.gethostname()}: {error.message}", error.hint)
        yield "", FAILURE, 0, msgspec.msgpack.encode(failure)


def _encode_result(result: ClusterResult) -> Iterator[TaskRow]:
    cluster = result.cluster
    yield from encode_lines(result)
    number = 0
    for number, deviation in enumerate((*result.deviations, *result.sizes), start=1):
        yield cluster, DEVIATION, number, json.dumps(deviation).encode()
    counts = {name: len(lines) for name, lines in result.lines.items()} | {DEVIATION: number}
    found = TaskResult(replace(result, lines={}, deviations=(), sizes=()), counts)
    yield cluster, RESULT, 0, msgspec.msgpack.encode(found)


def decode_result(kind: str, data: bytes) -> TaskResult | TaskFailure:
    """Return the result or the failure in a row of the table."""
    types: dict[str, Any] = {RESULT: TaskResult, FAILURE: TaskFailure}
    found: TaskResult | TaskFailure = msgspec.msgpack.decode(data, type=types[kind], dec_hook=_decode_counts)
    return found


def _decode_counts(kind: Any, value: Any) -> Any:
    """Return a counter or a dictionary with a default, which the decoder does not know."""
    inner = get_args(kind)[-1]
    if get_origin(kind) is Counter:
        return Counter(value)
    values = msgspec.convert(value, dict[str | None, inner], dec_hook=_decode_counts)  # type: ignore[valid-type]
    return defaultdict(get_origin(inner) or inner, values)


def encode_lines(result: ClusterResult) -> Iterator[TaskRow]:
    """Yield the lines of a result as rows of the table."""
    for name, lines in result.lines.items():
        for number, line in enumerate(lines):
            yield result.cluster, name, number, line.rstrip(b"\n")


def split_lines(file: str, content: bytes) -> Iterator[bytes]:
    """Yield the lines of a file that Spark has read. Raises ``SnapshotUnusable`` for a line above ``MAX_ROW_BYTES``."""
    for line in io.BytesIO(content):
        if len(line) > MAX_ROW_BYTES:
            message = f"{printable_path(file)}: found a row of more than {humanize_bytes(MAX_ROW_BYTES)}"
            raise unusable_snapshot_error(message)
        yield line
