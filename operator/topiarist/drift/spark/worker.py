"""The tasks of Spark: ``drift.task.work`` on an executor, its results as rows of one table.

``drift.spark.engine`` calls ``run_task`` in Python workers. What tasks learn from each other is kept in the worker
process, which Spark uses for many tasks. This module does not import PySpark, so that it can be tested without Spark.
"""

from __future__ import annotations

import io
import json
import pickle
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from topiarist.adapters.snapshots.files import MAX_ROW_BYTES, printable_path, unusable_snapshot_error
from topiarist.drift.compare import ClusterResult
from topiarist.drift.task import Caches, Part, Shipped, work
from topiarist.errors import Reason, TopiaristError
from topiarist.text import humanize_bytes

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


def load_job(name: str, load: Callable[[], Shipped]) -> tuple[Shipped, Caches]:
    """Return what tasks need of a job, loaded once in each process."""
    if name not in _loaded:
        _loaded.clear()
        shipped = load()
        _loaded[name] = shipped, Caches(shipped)
    return _loaded[name]


def run_task(parts: Iterable[Part], shipped: Shipped, caches: Caches) -> Iterator[TaskRow]:
    """Yield the rows of all results of some parts; an error that ends the run is a row too.

    As a value it reaches the driver without another attempt and without a traceback.
    """
    try:
        for result in work(parts, shipped, caches):
            yield from _encode_result(result)
    except TopiaristError as error:
        failure = TaskFailure(error.reason, f"{socket.gethostname()}: {error.args[0]}", error.hint)
        yield "", FAILURE, 0, pickle.dumps(failure)


def _encode_result(result: ClusterResult) -> Iterator[TaskRow]:
    cluster = result.cluster
    yield from encode_lines(result)
    number = 0
    for number, deviation in enumerate((*result.deviations, *result.sizes), start=1):
        yield cluster, DEVIATION, number, json.dumps(deviation).encode()
    counts = {name: len(lines) for name, lines in result.lines.items()} | {DEVIATION: number}
    yield cluster, RESULT, 0, pickle.dumps(TaskResult(replace(result, lines={}, deviations=(), sizes=()), counts))


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
