"""Snapshot files: cluster states as JSON lines, one file per cluster.

A snapshot replaces a cluster that is not reachable in ``plan`` and ``drift``. ``schemas/snapshot.json`` describes each
field. ``codec`` converts between states and rows, ``RowChecker`` checks rows. ``SnapshotCluster`` stands for a cluster
where only reading is asked for.

A snapshot file is untrusted. Nothing is repaired, and an incomplete file is never accepted. For any content of the
file, the only exception is ``TopiaristError`` (SnapshotUnusable) with the file, the lines, the found and the wanted
values.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from topiarist.adapters.own_values import JsonError, decode_json
from topiarist.adapters.snapshots.codec import FORMAT_VERSION, Row, decode_state, encode_state, format_time, parse_time
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import ZooKeeperAccess
from topiarist.model.plan import Plan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, TopicInspection, TopicState
from topiarist.ports import FoundRefusals
from topiarist.schema import load
from topiarist.text import format_count, humanize_bytes, list_first, printable, printable_path, quote

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator


# Validation of snapshot rows: strict JSON, the row's schema, and rules that no schema can express.
#
# jsonschema-rs validates by ``schemas/snapshot.json``; ``schema.explain`` explains an invalid row.

_FIRST_KIND, _OTHER_KINDS = "cluster", ("topic", "record", "usage")
_MAX_ERRORS_OF_ROW = 5
"""Errors of one row in a message."""


class RowError(Exception):
    """A line that is not a row, or a row at the wrong position; the message says what was found and wanted."""


def parse_row(line: bytes) -> Row:
    """Parse a line as a JSON object: valid Unicode, no duplicate keys, no fractions."""
    try:
        value = decode_json(line.rstrip(b"\n"))
    except JsonError as error:
        raise RowError(f"{error}, wanted a row") from None
    if not isinstance(value, dict):
        raise RowError("found JSON that is not an object, wanted a row")
    return value


class RowChecker:
    """A checker of the rows of one file, in order.

    ``names`` are the topic names of the rows so far, without those of usage.
    """

    def __init__(self) -> None:
        self._first_row: Row | None = None
        self.names: set[str] = set()
        self._names_of_usage: set[str] = set()

    def check(self, row: Row) -> None:
        """Raise ``RowError`` unless the row is valid as the next row."""
        wanted = _OTHER_KINDS if self._first_row else (_FIRST_KIND,)
        if row.get("kind") not in wanted:
            raise RowError(f"kind: {_describe_found(row.get('kind'))}, wanted {' or '.join(wanted)}")
        version = row.get("formatVersion")
        if type(version) is int and version > FORMAT_VERSION:
            message = f"found {version}, wanted {FORMAT_VERSION}: a newer release of topiarist wrote it"
            raise RowError(f"formatVersion: {message}")
        if not _matches_schema(row):
            from topiarist.schema import explain  # imports jsonschema, which a valid row does not need

            problems = explain.explain_errors(_row_schema(row["kind"]), row)[:_MAX_ERRORS_OF_ROW]
            raise RowError("; ".join(problem.message for problem in problems))
        if problem := next(self._row_errors(row), ""):
            raise RowError(problem)
        self._first_row = self._first_row or row

    def _row_errors(self, row: Row) -> Iterator[str]:
        if self._first_row is None:
            yield from _cluster_row_errors(row)
            return
        for field in ("cluster", "takenAt"):
            if row[field] != self._first_row[field]:
                wanted = quote(self._first_row[field])
                yield f"{field}: {_describe_found(row[field])}, wanted {wanted} as in the first row"
        names = self._names_of_usage if row["kind"] == "usage" else self.names
        if row["topic"] in names:
            yield f"topic: {_describe_found(row['topic'])} twice"
        names.add(row["topic"])
        if row["kind"] == "usage" and not self._first_row.get("evidence"):
            yield "kind: found 'usage', and the first row has no evidence"
        yield from _other_row_errors(row)


def is_valid_row(row: Row) -> bool:
    """Return whether a topic or record row is valid by itself, in any file."""
    return row.get("kind") in _OTHER_KINDS and _matches_schema(row) and not any(_other_row_errors(row))


def _cluster_row_errors(row: Row) -> Iterator[str]:
    times = {field: row.get(field) for field in ("takenAt", "requestedAt", "batchAt")}
    times["evidence.readAt"] = row["evidence"]["readAt"] if row.get("evidence") else None
    yield from _time_errors(times)
    yield from _order_errors("brokers", [broker["id"] for broker in row["brokers"]])


def _time_errors(times: Mapping[str, str | None]) -> Iterator[str]:
    for field, text in times.items():
        try:
            if text is not None:
                parse_time(text)
        except ValueError:
            yield f"{field}: {_describe_found(text)}, wanted a valid time"


def _usage_row_errors(row: Row) -> Iterator[str]:
    lengths = {field: len(row[field]) for field in ("ends", "begins", "bytes", "oldestAt", "newestAt")}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{count:,} {field}" for field, count in lengths.items())
        yield f"ends: found {found}, wanted one of each for each partition"
    times = {f"{side}.{field}": row[side][field] for side in ("written", "read") for field in _SIDE_TIMES}
    curve = [point["at"] for point in row["curve"]]
    times |= {f"curve[{index}].at": text for index, text in enumerate(curve)}
    yield from _time_errors(times)
    yield from _order_errors("curve", curve)


_SIDE_TIMES = ("after", "before", "observedSince")


def _other_row_errors(row: Row) -> Iterator[str]:
    if row["kind"] == "usage":
        yield from _usage_row_errors(row)
        return
    if row["kind"] == "topic":
        yield from _topic_row_errors(row)
    if row["record"]:
        yield from _order_errors("record.config", row["record"]["config"])


def _topic_row_errors(row: Row) -> Iterator[str]:
    if (row["readError"] is None) != (row["readErrorPath"] is None):
        yield "readError: found one of readError and readErrorPath, wanted both or neither"
    if (row["readError"] is None) == (row["identity"] is None):
        yield "identity: found both an identity and a readError, or neither, wanted one of them"
    partitions, ids = range(len(row["replicas"])), row["partitionIds"]
    if ids is not None:
        yield from _order_errors("partitionIds", ids)
        if len(ids) != len(partitions):
            yield f"partitionIds: found {len(ids):,}, wanted {len(partitions):,}: one for each list in replicas"
        if ids == list(partitions):
            yield "partitionIds: found 0 to n-1, wanted null"
    yield from _order_errors("reassigningPartitions", row["reassigningPartitions"])
    if not set(row["reassigningPartitions"]) <= set(partitions if ids is None else ids):
        yield "reassigningPartitions: found a partition that the topic does not have"


def _order_errors(field: str, values: Sequence[Any]) -> Iterator[str]:
    if any(value >= following for value, following in pairwise(values)):
        yield f"{field}: found values that are duplicate or not in ascending order"


def _matches_schema(row: Row) -> bool:
    try:
        return _build_validator(row["kind"]).is_valid(row)
    except ValueError:  # a number that jsonschema-rs cannot represent
        return False


@cache
def _build_validator(kind: str) -> Draft7Validator:
    from jsonschema_rs import Draft7Validator

    return Draft7Validator(_row_schema(kind))


@cache
def _row_schema(kind: str) -> dict[str, Any]:
    """Return the schema of one kind of row.

    Errors of one kind can be explained; errors of a choice between all kinds cannot.
    """
    definitions: Mapping[str, Any] = load.load_schema("snapshot")["definitions"]
    return {**definitions[kind], "definitions": definitions}


def _describe_found(value: object) -> str:
    return f"found {quote(value)}" if isinstance(value, str) else "found no text"


SUFFIX = ".jsonl"


class Snapshot(NamedTuple):
    """A cluster's state at one time.

    ``cluster`` is the name of its ``Cluster`` document (may be empty), ``taken_at`` the start of its read (UTC).
    """

    cluster: str
    taken_at: datetime
    state: ClusterState


def file_name(cluster: str) -> str:
    """Return the file name of a cluster in a folder of snapshots."""
    return f"{cluster or 'default'}{SUFFIX}"


def dump_snapshot(snapshot: Snapshot) -> Iterator[bytes]:
    """Yield the lines of a snapshot file: ASCII JSON, the same bytes for an equal snapshot."""
    return encode_state(snapshot.state, snapshot.cluster, format_time(snapshot.taken_at))


def load_snapshot(path: Path, max_reply_bytes: int | None = None) -> Snapshot:
    """Return the snapshot in a file; ``max_reply_bytes`` replaces the limit of the run that took it.

    Raises ``SnapshotUnusable`` with the invalid lines.
    """
    first, *rows = read_rows(path)
    return Snapshot(first["cluster"], parse_time(first["takenAt"]), decode_state(first, rows, max_reply_bytes))


class SnapshotFiles:
    """The snapshots at ``path``: a file, or a folder with one ``*.jsonl`` per cluster.

    ``taken_at`` has the times of the snapshots that were read. Raises ``SnapshotUnusable`` if there are none, or if a
    file has no valid first row.
    """

    def __init__(self, path: Path) -> None:
        self.taken_at: dict[str, datetime] = {}
        self._path = path
        self._files: dict[str, Path] = {}
        for file in self._list_files():
            name = read_first_row(file)["cluster"]
            if (other := self._files.setdefault(name, file)) != file:
                raise unusable_snapshot_error(
                    f"{printable_path(file)}: found {_describe_cluster(name)}, as in {printable_path(other)}",
                    "keep one of the two files",
                )

    def read(self, spec: ClusterSpec) -> ClusterState:
        """Return the state of a cluster as a run with this document would have read it.

        Raises ``SnapshotUnusable`` if there is no snapshot of the cluster, ``WrongCluster`` if the document's address
        has another chroot.
        """
        file = self._files.get(spec.name)
        if file is None:
            available = list_first([*map(_describe_cluster, sorted(self._files))])
            raise unusable_snapshot_error(
                f"{printable_path(self._path)} has no snapshot of {_describe_cluster(spec.name)}", f"it has {available}"
            )
        # The limit of a reply is a setting of the run's Cluster document, not a fact of the recorded cluster.
        snapshot = load_snapshot(file, (spec.zookeeper or ZooKeeperAccess()).jute_max_buffer)
        self.taken_at[spec.name] = snapshot.taken_at
        require_chroot(spec, snapshot.state.chroot, file)
        return snapshot.state

    def _list_files(self) -> Iterable[Path]:
        if not self._path.is_dir():
            return [self._path]
        if files := sorted(self._path.glob(f"*{SUFFIX}")):
            return files
        raise unusable_snapshot_error(
            f"{printable_path(self._path)} has no file *{SUFFIX}", "create one: topiarist snapshot --out FOLDER"
        )


class SnapshotCluster:
    """A snapshot in place of a cluster, where only reading is asked for."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state

    def read(self) -> ClusterState:
        """Return the state."""
        return self.state

    def inspect(self, topic: str) -> None:
        """Return None: a state holds no partition states."""

    def inspect_all(self, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
        """Return nothing, as ``inspect`` does."""
        return {}

    def find_refusals(self, plan: Plan) -> FoundRefusals:
        """Return no refusal: no broker is there to refuse."""
        return FoundRefusals({}, plan.capabilities)


def require_chroot(spec: ClusterSpec, chroot: str, file: Path | str) -> None:
    """Raise ``WrongCluster`` if a snapshot is from another chroot than the document's address.

    Checked only if the document has an address and no cluster id: a cluster id identifies the cluster by itself.
    """
    connect = spec.access.connect if isinstance(spec.access, ZooKeeperAccess) else ""
    wanted = "/".join(["", *filter(None, connect.split("/")[1:])])
    if connect and not spec.cluster_id and wanted != chroot:
        raise TopiaristError(
            Reason.WRONG_CLUSTER,
            f"{printable_path(file)} was taken at chroot {chroot or '/'}, "
            f"and the address of its Cluster has {wanted or '/'}",
            "fix the address, take a new snapshot, or identify the cluster by spec.clusterId",
        )


def _describe_cluster(name: str) -> str:
    return f"cluster {printable(name)}" if name else "the cluster without a name"


MAX_BYTES = 1 << 30
"""Bytes of one file: more than a million topics."""

MAX_ROW_BYTES = 1 << 26
"""Bytes of one row: a topic of more than a million partitions."""

_READ_BYTES = 1 << 16
"""Bytes per read."""

_MAX_SHOWN_ERRORS = 10
"""Invalid rows of one file in an error message."""


def unusable_snapshot_error(message: str, hint: str = "take a new snapshot, or fetch this one again") -> TopiaristError:
    """Build the ``TopiaristError`` of a snapshot that no plan can use."""
    return TopiaristError(Reason.SNAPSHOT_UNUSABLE, message, hint)


def read_first_row(path: Path) -> Row:
    """Return the first row of a file, which names the cluster; other rows are not read."""
    for row in _iterate_rows(path):
        return row
    raise unusable_snapshot_error(f"{printable_path(path)}: found an empty file, wanted a snapshot")


def read_rows(path: Path) -> list[Row]:
    """Return all rows of a file, the cluster row first.

    Raises ``SnapshotUnusable`` if a row is invalid, or if the number of rows differs from the first row's ``rows``.
    """
    rows = list(_iterate_rows(path))
    if not rows:
        raise unusable_snapshot_error(f"{printable_path(path)}: found an empty file, wanted a snapshot")
    if message := describe_wrong_row_count(len(rows) - 1, rows[0]["rows"]):
        raise unusable_snapshot_error(f"{printable_path(path)}: {message}")
    return rows


def describe_wrong_row_count(found: int, wanted: int) -> str:
    """Return the error of a file with another number of rows than its first row announces; empty if they are equal."""
    if found == wanted:
        return ""
    problem = "is truncated" if found < wanted else "has extra rows"
    return f"{problem}: found {format_count(found, 'row')} after the first, wanted {wanted:,}"


def _iterate_rows(path: Path) -> Iterator[Row]:
    """Yield the valid rows in order, then raise ``SnapshotUnusable`` if there were invalid ones.

    An invalid first row is raised at once; other rows are collected, at most ten.
    """
    checker, problems = RowChecker(), list[str]()
    for number, line in enumerate(read_lines(path), start=1):
        try:
            row = parse_row(line)
            checker.check(row)
        except RowError as error:
            problems.append(f"{printable_path(path)}:{number}: {error}")
            if number == 1 or len(problems) == _MAX_SHOWN_ERRORS:
                break
        else:
            yield row
    if problems:
        raise unusable_snapshot_error("\n    ".join(problems))


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a regular file, each of at most ``MAX_ROW_BYTES``."""
    try:
        # O_NONBLOCK and the check for a regular file: opening a pipe would block, and a device has no end.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise unusable_snapshot_error(
                    f"{printable_path(path)}: found no regular file, wanted a snapshot", "give a file or a folder"
                )
            if status.st_size > MAX_BYTES:
                raise unusable_snapshot_error(
                    f"{printable_path(path)}: found {humanize_bytes(status.st_size)}, "
                    f"wanted at most {humanize_bytes(MAX_BYTES)}"
                )
            while line := file.readline(MAX_ROW_BYTES + 1):
                if len(line) > MAX_ROW_BYTES:
                    raise unusable_snapshot_error(
                        f"{printable_path(path)}: found a row of more than {humanize_bytes(MAX_ROW_BYTES)}"
                    )
                yield line
                # If the whole file is smaller than the row limit, no line can exceed it: reading in bulk is faster.
                while status.st_size <= MAX_ROW_BYTES and (lines := file.readlines(_READ_BYTES)):
                    yield from lines
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise unusable_snapshot_error(
            f"{printable_path(path)}: cannot be read: {(reason or str(error)).lower()}", ""
        ) from error
