"""What is known of each cluster of a report: its state and when that was read, or why nothing is known.

From snapshots, of which the newest of each cluster counts; what cannot be used of them is kept and named, and what is
missing for it is never taken for missing on the cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from topiarist.adapters.snapshots.caching_reader import CachingReader
from topiarist.adapters.snapshots.files import SUFFIX, printable_path, read_first_row, require_chroot
from topiarist.adapters.snapshots.lenient_reader import InvalidRow, SnapshotHeader, read_header, read_partial_snapshot
from topiarist.drift.equality import EqualityIndex, EqualTopics
from topiarist.drift.uris import PARQUET_SUFFIX
from topiarist.errors import Reason, TopiaristError
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState
from topiarist.reconcile import require_cluster_id
from topiarist.text import printable


@dataclass(frozen=True, slots=True)
class ClusterInput:
    """One cluster as a report sees it: ``state`` is None if nothing is known of it, and ``problem`` then says why.

    ``taken`` is when its reading began. With ``gaps`` the state lacks topics, nobody knows which; it also lacks those
    that are ``settled``, of which nothing else needs to be known.
    """

    cluster: str
    taken_at: datetime | None = None
    state: ClusterState | None = None
    problem: str = ""
    is_incomplete: bool = False
    equal_topics: EqualTopics = field(default_factory=EqualTopics)


class SupersededSnapshot(NamedTuple):
    """A snapshot that does not count, and the newer one that does."""

    cluster: str
    file: str
    taken_at: datetime
    newer: str


class UnknownClusterSnapshot(NamedTuple):
    """A snapshot of a cluster that the run does not know."""

    cluster: str
    file: str


@dataclass(slots=True)
class UnusedInput:
    """What there is to say of the input; ``broken`` grows while clusters are read."""

    superseded: tuple[SupersededSnapshot, ...] = ()
    unknown_clusters: tuple[UnknownClusterSnapshot, ...] = ()
    invalid_rows: list[InvalidRow] = field(default_factory=list)


class SnapshotInventory:
    """The snapshots at some paths, files or folders, for the clusters of a run.

    What is elsewhere than in files says so in ``found``, ``read_head`` and ``local``. ``said`` is what there is to say
    of clusters that could not be read, for those who may know their addresses. Raises ``SnapshotUnusable`` for a path
    that is not there, or a folder without snapshots.
    """

    read_errors: Mapping[str, str] = MappingProxyType({})

    def __init__(self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> None:
        self._clusters = clusters
        self._reader = CachingReader()
        self._cluster_rows: dict[str, dict[str, Any]] = {}
        self.unused_input = UnusedInput()
        found: defaultdict[str, list[tuple[datetime, str]]] = defaultdict(list)
        for file, one in self.list_snapshots(paths):
            match one:
                case SnapshotHeader(cluster, taken):
                    found[cluster].append((taken, file))
                case broken:
                    self.unused_input.invalid_rows.append(broken)
        newest = {cluster: max(files) for cluster, files in found.items()}
        self._files = {cluster: newest[cluster] for cluster in clusters if cluster in newest}
        self.unused_input.superseded = tuple(
            SupersededSnapshot(cluster, file, taken, newest[cluster][1])
            for cluster, files in sorted(found.items())
            for taken, file in sorted(files)
            if (taken, file) != newest[cluster]
        )
        self.unused_input.unknown_clusters = tuple(
            UnknownClusterSnapshot(cluster, file)
            for cluster, (_, file) in sorted(newest.items())
            if cluster not in clusters
        )

    def list_snapshots(self, paths: Sequence[str]) -> Iterator[tuple[str, SnapshotHeader | InvalidRow]]:
        """Every file with what it is a snapshot of, or why it is none."""
        for file in sorted({file for path in paths for file in _list_files(Path(path))}):
            yield str(file), read_header(file)

    def cluster_row(self, name: str) -> dict[str, Any]:
        """The first row of the snapshot that counts for a cluster."""
        if name not in self._cluster_rows:
            self._cluster_rows[name] = self.read_cluster_row(name)
        return self._cluster_rows[name]

    def read_cluster_row(self, name: str) -> dict[str, Any]:
        """The same, read."""
        return read_first_row(Path(self._files[name][1]))

    def local_path(self, name: str) -> Path:
        """Where all rows of the snapshot that counts for a cluster can be read here."""
        return Path(self._files[name][1])

    @property
    def newest_taken_at(self) -> datetime | None:
        """When the newest of the snapshots that count was taken; None if there is none."""
        return max((taken for taken, _ in self._files.values()), default=None)

    @property
    def files(self) -> Mapping[str, tuple[datetime, str]]:
        """The snapshot that counts for each cluster that has one, and when it was taken."""
        return self._files

    def count_rows(self) -> int:
        """How many rows the snapshots that count say that they have."""
        return sum(self.cluster_row(name)["rows"] for name in self._files)

    def read_clusters(self, specs: Mapping[str, Sequence[TopicSpec]], owner: str) -> Iterator[ClusterInput]:
        """Each cluster of the run in order of name, one read at a time; topics equal to their specs are settled."""
        settler = EqualityIndex(owner)
        return (self.read_cluster(name, settler.for_cluster(specs[name])) for name in sorted(self._clusters))

    def read_cluster(self, name: str, settled: EqualTopics) -> ClusterInput:
        """What is known of one cluster; what cannot be used of its file is added to ``inputs``."""
        if name not in self._files:
            return ClusterInput(name, problem="there is no snapshot of it")
        taken, file = self._files[name]
        path = self.local_path(name)
        found = read_partial_snapshot(path, self._reader, settled.add_if_equal)
        broken = [_with_file_name(file, path, one) for one in found.invalid_rows]
        self.unused_input.invalid_rows.extend(broken)
        if found.state is None:
            return ClusterInput(name, problem=f"{broken[0].message} ({printable_path(file)})")
        problem = self.identity_problem(name, found.state)
        return ClusterInput(name, taken, None if problem else found.state, problem, found.is_incomplete, settled)

    def identity_problem(self, name: str, state: ClusterState) -> str:
        """Why a state is not that of the cluster that a document means; empty if it is."""
        try:
            require_cluster_id(self._clusters[name].cluster_id, state.cluster_id)
            require_chroot(self._clusters[name], state.chroot, self._files[name][1])
        except TopiaristError as error:
            return str(error.args[0])
        return ""


def reject_duplicate_cluster_ids(cluster_inputs: Iterable[ClusterInput]) -> Iterator[ClusterInput]:
    """The same, but of several with one cluster id only the first is compared: the others' names are mistaken."""
    first: dict[str, str] = {}
    for one in cluster_inputs:
        number = one.state.cluster_id if one.state else ""
        if number and first.setdefault(number, one.cluster) != one.cluster:
            yield ClusterInput(one.cluster, problem=f"its cluster id, {number}, is that of cluster {first[number]}")
        else:
            yield one


def _with_file_name(file: str, path: Path, invalid_row: InvalidRow) -> InvalidRow:
    """What is broken under the name of the file; a table's rows have no numbers of lines."""
    if str(path) == file:
        return invalid_row
    line = 0 if file.endswith(PARQUET_SUFFIX) else invalid_row.line
    return InvalidRow(
        printable_path(file),
        line,
        invalid_row.message.replace(printable_path(path), printable_path(file)),
        invalid_row.text,
    )


def _list_files(path: Path) -> Iterable[Path]:
    if not path.is_dir():
        if not path.exists():
            raise TopiaristError(
                Reason.SNAPSHOT_UNUSABLE, f"{printable(str(path), 4096)}: there is no such file or folder"
            )
        return [path]
    if files := [file for file in path.rglob(f"*{SUFFIX}") if not file.name.startswith(".")]:
        return files
    message = f"{printable(str(path), 4096)} has no file *{SUFFIX}"
    raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, message, "make some: topiarist snapshot --out FOLDER")
