"""Snapshot inputs of a drift report: finds the newest snapshot of each cluster and reads its state.

``SnapshotInventory`` lists the snapshots and reads only their first rows. ``drift.task`` reads each snapshot with
``read_snapshot``, in any process: it returns a ``ClusterInput`` with a state, or with the reason why there is none. A
topic that is missing because its row is unusable is never reported as missing on the cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from topiarist.adapters.snapshots.codec import Row, format_time
from topiarist.adapters.snapshots.files import (
    SUFFIX,
    RowChecker,
    RowError,
    file_name,
    parse_row,
    read_lines,
    require_chroot,
)
from topiarist.adapters.snapshots.lenient_reader import (
    CachingReader,
    InvalidRow,
    SnapshotHeader,
    make_header,
    read_header,
    read_partial_snapshot,
)
from topiarist.drift.equality import EqualTopics
from topiarist.drift.placement import find_row_checker
from topiarist.drift.storage import Storage, is_hidden, is_remote
from topiarist.errors import Reason, TopiaristError
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState
from topiarist.reconcile import require_cluster_id
from topiarist.text import format_count, printable_path

# Paths and URIs of snapshots and reports, as Spark needs them.
#
# Engines and inventories use them to decide who can read a path, and to pass paths to Spark unchanged.

PARQUET_SUFFIX = ".parquet"

MAX_CLOCK_SKEW = timedelta(minutes=5)
"""The tolerated advance of the clock of the machine that took a snapshot."""

_MAX_PARALLEL_READS = 16
"""Number of first rows to fetch at the same time; a remote store has a high latency per request."""


def to_uri(path: str) -> str:
    """Return the URI of a path, because Spark resolves a plain path in the default store of the cluster."""
    return path if is_remote(path) else f"file://{Path(path).absolute()}"


def to_literal_uri(path: str) -> str:
    """Return the URI of a path for reading, with glob characters escaped."""
    return "".join(f"\\{letter}" if letter in "{}[]*?\\" else letter for letter in to_uri(path))


def spark_required_reason(path: str) -> str:
    """Return the reason why only Spark can read snapshots; empty if Spark is not needed."""
    if is_remote(path):
        files = Storage(Reason.SNAPSHOT_UNUSABLE).list_files(path)
        return "is Parquet" if any(file.endswith(PARQUET_SUFFIX) for file in files) else ""
    where = Path(path)
    files_here: Iterable[Path] = [where]
    if where.is_dir():
        files_here = (file for file in where.rglob(f"*{PARQUET_SUFFIX}") if not is_hidden(str(file.relative_to(where))))
    # Spark writes a Parquet table as a folder with the suffix of its files.
    return "is Parquet" if any(file.suffix == PARQUET_SUFFIX and file.is_file() for file in files_here) else ""


class ClusterInput(Struct, frozen=True):
    """The input of one cluster. Without a state, ``problem`` has the reason.

    ``state`` is None if the cluster could not be read. ``taken_at`` is the time when the read began. With
    ``invalid_rows``, the state lacks an unknown set of topics. The state also lacks the topics in ``equal_topics``,
    which need no plan.
    """

    cluster: str
    taken_at: datetime | None = None
    state: ClusterState | None = None
    problem: str = ""
    invalid_rows: Sequence[InvalidRow] = ()
    equal_topics: EqualTopics = field(default_factory=EqualTopics)

    @property
    def is_incomplete(self) -> bool:
        """Return whether the cluster may have topics that the state lacks."""
        return self.state is not None and bool(self.invalid_rows)

    def may_lack(self, topic: str) -> bool:
        """Return whether the row of a topic may be one of the invalid rows."""
        state = self.state
        if not self.is_incomplete or state is None or topic in self.equal_topics.names:
            return False
        known = (state.topics, state.topic_errors, state.dangling_records, state.pending_deletions)
        return not any(topic in names for names in known)


class UnusedInput(Struct):
    """Input that a report does not use; ``invalid_rows`` are files without a valid first row.

    Snapshots with a newer snapshot of their cluster, and snapshots of clusters that are not part of the run, are listed
    as in ``summary.json``.
    """

    superseded: Sequence[Mapping[str, str]] = ()
    unknown_clusters: Sequence[Mapping[str, str]] = ()
    invalid_rows: list[InvalidRow] = field(default_factory=list)


class SnapshotFile(NamedTuple):
    """The snapshot in use for a cluster: the start of its read, its path or URI, and the rows that it announces."""

    taken_at: datetime
    file: str
    row_count: int


class StoredLines(Struct, frozen=True):
    """The lines of a file or URI, read where they are used; a path is absolute: processes have other folders."""

    path: str

    def __iter__(self) -> Iterator[bytes]:
        if is_remote(self.path):
            return Storage(Reason.SNAPSHOT_UNUSABLE).read_lines(self.path)
        return read_lines(Path(self.path))


class SnapshotLines(NamedTuple):
    """A snapshot, and its lines, which are used once."""

    snapshot: SnapshotFile
    lines: Iterable[bytes]


class SnapshotInventory:
    """The snapshots at some paths (files or folders) for the clusters of a run.

    ``files`` has the snapshot in use for each cluster that has one. Paths may be URIs. A subclass for tables overrides
    ``list_snapshots`` and ``open_lines``. A snapshot that is later than ``now`` is unusable: with its time as that of
    the report, exceptions would end too early. Raises ``SnapshotUnusable`` for a path that does not exist, or a folder
    without snapshots.
    """

    def __init__(self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec], now: datetime) -> None:
        self.unused_input = UnusedInput()
        snapshots: defaultdict[str, list[SnapshotFile]] = defaultdict(list)
        for file, header in self.list_snapshots(paths):
            if isinstance(header, InvalidRow):
                self.unused_input.invalid_rows.append(header)
            elif header.taken_at > now + MAX_CLOCK_SKEW:
                self.unused_input.invalid_rows.append(_make_future_row(file, header.taken_at, now))
            else:
                snapshots[header.cluster].append(SnapshotFile(header.taken_at, file, header.row_count))
        newest = {cluster: max(files) for cluster, files in snapshots.items()}
        self.files = {cluster: newest[cluster] for cluster in clusters if cluster in newest}
        self.unused_input.superseded = [
            {"cluster": cluster, "file": file, "takenAt": format_time(taken_at), "newer": newest[cluster].file}
            for cluster, files in sorted(snapshots.items())
            for taken_at, file, _ in sorted(files)
            if file != newest[cluster].file or taken_at != newest[cluster].taken_at
        ]
        self.unused_input.unknown_clusters = [
            {"cluster": cluster, "file": each.file}
            for cluster, each in sorted(newest.items())
            if cluster not in clusters
        ]

    def list_snapshots(self, paths: Sequence[str]) -> Iterator[tuple[str, SnapshotHeader | InvalidRow]]:
        """Yield each file with its snapshot header, or with the error of an unusable file."""
        yield from read_headers({file for path in paths for file in list_files(path, SUFFIX)})

    def open_lines(self, file: str) -> Iterable[bytes]:
        """Return the lines of a file in use; empty if they are added to the part of the cluster later."""
        return StoredLines(file if is_remote(file) else str(Path(file).absolute()))

    def find_lines(self, cluster: str) -> SnapshotLines | None:
        """Return the snapshot in use of a cluster; None if it has none."""
        snapshot = self.files.get(cluster)
        return SnapshotLines(snapshot, self.open_lines(snapshot.file)) if snapshot else None

    def describe_missing(self, cluster: str) -> str:
        """Return why a cluster has no snapshot in use: none was given, or the file that may be its own is unusable."""
        unusable = self.unused_input.invalid_rows
        own = [each for each in unusable if Path(each.file).name == file_name(cluster)]
        if not unusable:
            return "it has no snapshot"
        more = "" if own or len(unusable) == 1 else f", and {format_count(len(unusable) - 1, 'other file')}"
        first = (own or unusable)[0]
        message = first.message.removeprefix(first.file).removeprefix(":1").removeprefix(": ")
        why = f"{first.file} is unusable{more}: {message}"
        return f"its snapshot {why}" if own else f"it has no snapshot that is usable; {why}"

    @property
    def newest_taken_at(self) -> datetime | None:
        """Return the time of the newest snapshot in use; None without snapshots."""
        return max((each.taken_at for each in self.files.values()), default=None)

    def count_rows(self) -> int:
        """Return the number of rows that the snapshots in use announce in their first rows."""
        return sum(each.row_count for each in self.files.values())


def read_snapshot(
    snapshot: SnapshotFile,
    lines: Iterable[bytes],
    cluster: ClusterSpec,
    equal_topics: EqualTopics,
    reader: CachingReader,
) -> ClusterInput:
    """Read the input of one cluster from the lines of its snapshot.

    ``equal_topics`` collects the topics that are equal to their specs; the state is without them. Raises
    ``TopiaristError`` only if the file cannot be opened or read.
    """

    def set_checker(row: Row) -> None:
        equal_topics.checker = find_row_checker(row, cluster)

    file = snapshot.file
    found = read_partial_snapshot(file, lines, reader, equal_topics.add_if_equal, set_checker)
    invalid_rows = found.invalid_rows
    if file.endswith(PARQUET_SUFFIX):  # rows of a table have no line number
        invalid_rows = tuple(row._replace(line=0) for row in invalid_rows)
    if found.state is None:
        problem = f"{invalid_rows[-1].message} ({printable_path(file)})"
        return ClusterInput(cluster.name, problem=problem, invalid_rows=invalid_rows)
    problem = _identity_problem(cluster, found.state, file)
    state = None if problem else found.state
    return ClusterInput(cluster.name, snapshot.taken_at, state, problem, invalid_rows, equal_topics)


def _identity_problem(cluster: ClusterSpec, state: ClusterState, file: str) -> str:
    """Return the reason why a state belongs to another cluster than the document; empty if it matches."""
    try:
        require_cluster_id(cluster.cluster_id, state.cluster_id)
        require_chroot(cluster, state.chroot, file)
    except TopiaristError as error:
        return error.message
    return ""


def read_headers(files: Iterable[str]) -> Iterator[tuple[str, SnapshotHeader | InvalidRow]]:
    """Yield each file in order with its snapshot header, or with its error; stores are asked for many at a time."""
    with ThreadPoolExecutor(_MAX_PARALLEL_READS) as pool:
        ordered = sorted(files)
        remote = pool.map(_read_remote_header, filter(is_remote, ordered))
        for file in ordered:
            yield file, next(remote) if is_remote(file) else read_header(Path(file))


def _make_future_row(file: str, taken_at: datetime, now: datetime) -> InvalidRow:
    name = printable_path(file)
    found = f"takenAt: found {format_time(taken_at)}, which is later than now, {format_time(now)}"
    return InvalidRow(name, 0, f"{name}: {found}: correct the clock of the machine that takes snapshots, or this one")


def _read_remote_header(file: str) -> SnapshotHeader | InvalidRow:
    name = printable_path(file)
    try:
        line = Storage(Reason.SNAPSHOT_UNUSABLE).read_first_line(file)
    except TopiaristError as error:
        return InvalidRow(name, 0, error.message)
    return parse_header(name, line)


def parse_header(name: str, line: bytes, place: str = ":1") -> SnapshotHeader | InvalidRow:
    """Return the snapshot header of the first line of a file, or its error; ``place`` says where in the file it is."""
    if not line:
        return InvalidRow(name, 0, f"{name}: found an empty file, wanted a snapshot")
    try:
        row = parse_row(line)
        RowChecker().check(row)
    except RowError as error:
        return InvalidRow(name, 0, f"{name}{place}: {error}")
    return make_header(row)


def list_files(path: str, *suffixes: str) -> list[str]:
    """Return the file itself, or the files with these suffixes at any depth of a folder.

    Hidden files, and files in hidden folders, are left out.
    """
    if is_remote(path):
        found_there = Storage(Reason.SNAPSHOT_UNUSABLE).list_files(path)
        return require_files(path, [file for file in found_there if file.endswith(suffixes) or file == path], suffixes)
    where = Path(path)
    if not where.exists():
        raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, f"{printable_path(path)}: there is no such file or folder")
    if not where.is_dir():
        return [str(where)]
    found = (file for suffix in suffixes for file in where.rglob(f"*{suffix}"))
    # Spark writes a Parquet table as a folder with the suffix of its files.
    files = [
        str(file)
        for file in found
        if not is_hidden(str(file.relative_to(where))) and (file.suffix != PARQUET_SUFFIX or file.is_file())
    ]
    return require_files(path, files, suffixes)


def require_files(path: str, files: list[str], suffixes: Iterable[str]) -> list[str]:
    """Return the files of a folder. Raises ``SnapshotUnusable`` if there are none."""
    if not files:
        message = f"{printable_path(path)} has no file {' or '.join(f'*{suffix}' for suffix in suffixes)}"
        raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, message, "create snapshots: topiarist snapshot --out FOLDER")
    return files
