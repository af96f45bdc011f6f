"""Snapshot inputs of a drift report: finds the newest snapshot of each cluster and reads its state.

``drift.report`` gets one ``ClusterInput`` for each cluster of the run, with a state or with the reason why there is
none. Only the newest snapshot of a cluster is used. Unusable rows and files are collected in ``UnusedInput``; a topic
that is missing because its row is unusable is never reported as missing on the cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from topiarist.adapters.snapshots.caching_reader import CachingReader
from topiarist.adapters.snapshots.codec import format_time
from topiarist.adapters.snapshots.files import SUFFIX, printable_path, read_first_row, require_chroot
from topiarist.adapters.snapshots.lenient_reader import InvalidRow, SnapshotHeader, read_header, read_partial_snapshot
from topiarist.drift.equality import EqualityIndex, EqualTopics
from topiarist.drift.placement import PlacementChecker, find_row_checker
from topiarist.drift.uris import PARQUET_SUFFIX
from topiarist.errors import Reason, TopiaristError
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState
from topiarist.reconcile import require_cluster_id
from topiarist.text import printable


@dataclass(frozen=True, slots=True)
class ClusterInput:
    """The input of one cluster. Without a state, ``problem`` has the reason.

    ``state`` is None if the cluster could not be read. ``taken_at`` is the time when the read began. If
    ``is_incomplete``, the state lacks an unknown set of topics. The state also lacks the topics in ``equal_topics``,
    which need no plan.
    """

    cluster: str
    taken_at: datetime | None = None
    state: ClusterState | None = None
    problem: str = ""
    is_incomplete: bool = False
    equal_topics: EqualTopics = field(default_factory=EqualTopics)


@dataclass(slots=True)
class UnusedInput:
    """Input that a report does not use; ``invalid_rows`` grows while clusters are read.

    Snapshots with a newer snapshot of their cluster, and snapshots of clusters that are not part of the run, are listed
    as in ``summary.json``.
    """

    superseded: Sequence[Mapping[str, str]] = ()
    unknown_clusters: Sequence[Mapping[str, str]] = ()
    invalid_rows: list[InvalidRow] = field(default_factory=list)


class SnapshotInventory:
    """The snapshots at some paths (files or folders) for the clusters of a run.

    Subclasses for other storage override ``list_snapshots``, ``read_cluster_row`` and ``local_path``. ``read_errors``
    has error messages of clusters that could not be read; the messages may contain addresses. Raises
    ``SnapshotUnusable`` for a path that does not exist, or a folder without snapshots.
    """

    read_errors: Mapping[str, str] = MappingProxyType({})

    def __init__(self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> None:
        self._clusters = clusters
        self._reader = CachingReader()
        self._cluster_rows: dict[str, dict[str, Any]] = {}
        self.unused_input = UnusedInput()
        snapshots: defaultdict[str, list[tuple[datetime, str]]] = defaultdict(list)
        for file, header in self.list_snapshots(paths):
            if isinstance(header, InvalidRow):
                self.unused_input.invalid_rows.append(header)
            else:
                snapshots[header.cluster].append((header.taken_at, file))
        newest = {cluster: max(files) for cluster, files in snapshots.items()}
        self._files = {cluster: newest[cluster] for cluster in clusters if cluster in newest}
        self.unused_input.superseded = [
            {"cluster": cluster, "file": file, "takenAt": format_time(taken), "newer": newest[cluster][1]}
            for cluster, files in sorted(snapshots.items())
            for taken, file in sorted(files)
            if (taken, file) != newest[cluster]
        ]
        self.unused_input.unknown_clusters = [
            {"cluster": cluster, "file": file}
            for cluster, (_, file) in sorted(newest.items())
            if cluster not in clusters
        ]

    def list_snapshots(self, paths: Sequence[str]) -> Iterator[tuple[str, SnapshotHeader | InvalidRow]]:
        """Yield each file with its snapshot header, or with the error of an unusable file."""
        for file in sorted({file for path in paths for file in list_files(path, SUFFIX)}):
            yield file, read_header(Path(file))

    def cluster_row(self, name: str) -> dict[str, Any]:
        """Return the first row of the snapshot in use for a cluster; the row is cached."""
        if name not in self._cluster_rows:
            self._cluster_rows[name] = self.read_cluster_row(name)
        return self._cluster_rows[name]

    def read_cluster_row(self, name: str) -> dict[str, Any]:
        """Read the first row of the snapshot in use for a cluster."""
        return read_first_row(Path(self._files[name][1]))

    def local_path(self, name: str) -> Path:
        """Return a local file with all rows of the snapshot in use for a cluster."""
        return Path(self._files[name][1])

    @property
    def newest_taken_at(self) -> datetime | None:
        """Return the time of the newest snapshot in use; None without snapshots."""
        return max((taken for taken, _ in self._files.values()), default=None)

    @property
    def files(self) -> Mapping[str, tuple[datetime, str]]:
        """Return the time and file of the snapshot in use, for each cluster that has one."""
        return self._files

    def count_rows(self) -> int:
        """Return the number of rows that the snapshots in use announce in their first rows."""
        return sum(self.cluster_row(name)["rows"] for name in self._files)

    def read_clusters(self, specs: Mapping[str, Sequence[TopicSpec]], owner: str) -> Iterator[ClusterInput]:
        """Yield the clusters of the run in order of name, reading one at a time."""
        equality_index = EqualityIndex(owner)
        return (self.read_cluster(name, equality_index.for_cluster(specs[name])) for name in sorted(self._clusters))

    def read_cluster(self, name: str, equal_topics: EqualTopics) -> ClusterInput:
        """Read the input of one cluster; unusable rows are added to ``unused_input``.

        ``equal_topics`` collects the topics that are equal to their specs; the state is without them.
        """
        if name not in self._files:
            return ClusterInput(name, problem="it has no snapshot")
        taken, file = self._files[name]
        path = self.local_path(name)
        equal_topics.checker = self._find_checker(name)
        snapshot = read_partial_snapshot(path, self._reader, equal_topics.add_if_equal)
        invalid_rows = snapshot.invalid_rows
        if str(path) != file:
            invalid_rows = tuple(_with_original_file(row, path, file) for row in invalid_rows)
        self.unused_input.invalid_rows.extend(invalid_rows)
        if snapshot.state is None:
            return ClusterInput(name, problem=f"{invalid_rows[0].message} ({printable_path(file)})")
        problem = self.identity_problem(name, snapshot.state)
        state = None if problem else snapshot.state
        return ClusterInput(name, taken, state, problem, snapshot.is_incomplete, equal_topics)

    def _find_checker(self, name: str) -> PlacementChecker | None:
        """Return the checker for the replica lists of a cluster; None if the first row of its snapshot is unusable."""
        try:
            return find_row_checker(self.cluster_row(name), self._clusters[name])
        except TopiaristError:
            return None  # the reader of all rows reports it

    def identity_problem(self, name: str, state: ClusterState) -> str:
        """Return the reason why a state belongs to another cluster than the document; empty if it matches."""
        try:
            require_cluster_id(self._clusters[name].cluster_id, state.cluster_id)
            require_chroot(self._clusters[name], state.chroot, self._files[name][1])
        except TopiaristError as error:
            return str(error.args[0])
        return ""


def reject_duplicate_cluster_ids(cluster_inputs: Iterable[ClusterInput]) -> Iterator[ClusterInput]:
    """Yield the inputs, with a problem instead of a state for each repeated cluster id.

    Only the first cluster with an id is compared, because the names of the other clusters are wrong.
    """
    cluster_of_id: dict[str, str] = {}
    for cluster_input in cluster_inputs:
        name, cluster_id = cluster_input.cluster, cluster_input.state.cluster_id if cluster_input.state else ""
        if cluster_id and (first := cluster_of_id.setdefault(cluster_id, name)) != name:
            yield ClusterInput(name, problem=f"its cluster id, {cluster_id}, is that of cluster {first}")
        else:
            yield cluster_input


def _with_original_file(row: InvalidRow, path: Path, file: str) -> InvalidRow:
    """Return a row of a fetched file under the name of its original; rows of a table have line number 0."""
    message = row.message.replace(printable_path(path), printable_path(file))
    return InvalidRow(printable_path(file), 0 if file.endswith(PARQUET_SUFFIX) else row.line, message, row.text)


def list_files(path: str, *suffixes: str) -> list[str]:
    """Return the file itself, or the files with these suffixes at any depth of a folder; hidden files are left out."""
    where = Path(path)
    if not where.exists():
        raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, f"{printable(path, 4096)}: there is no such file or folder")
    if not where.is_dir():
        return [str(where)]
    found = (file for suffix in suffixes for file in where.rglob(f"*{suffix}") if not file.name.startswith("."))
    # Spark writes a Parquet table as a folder with the suffix of its files.
    files = [str(file) for file in found if file.suffix != PARQUET_SUFFIX or file.is_file()]
    return require_files(path, files, suffixes)


def require_files(path: str, files: list[str], suffixes: Iterable[str]) -> list[str]:
    """Return the files of a folder. Raises ``SnapshotUnusable`` if there are none."""
    if not files:
        message = f"{printable(path, 4096)} has no file {' or '.join(f'*{suffix}' for suffix in suffixes)}"
        raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, message, "create snapshots: topiarist snapshot --out FOLDER")
    return files
