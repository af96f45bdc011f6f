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

from topiarist.adapters.snapshot import SUFFIX, Broken, Head, Skimmer, head, read_head, require_chroot, salvage
from topiarist.adapters.snapshot.reading import named
from topiarist.core.spec import ClusterSpec, TopicSpec
from topiarist.core.state import ClusterState
from topiarist.core.values import shown
from topiarist.drift.places import PARQUET
from topiarist.drift.settling import Settled, Settler
from topiarist.errors import Reason, TopiaristError
from topiarist.reconcile import require_meant


@dataclass(frozen=True, slots=True)
class Observation:
    """One cluster as a report sees it: ``state`` is None if nothing is known of it, and ``problem`` then says why.

    ``taken`` is when its reading began. With ``gaps`` the state lacks topics, nobody knows which; it also lacks those
    that are ``settled``, of which nothing else needs to be known.
    """

    cluster: str
    taken: datetime | None = None
    state: ClusterState | None = None
    problem: str = ""
    gaps: bool = False
    settled: Settled = field(default_factory=Settled)


class Superseded(NamedTuple):
    """A snapshot that does not count, and the newer one that does."""

    cluster: str
    file: str
    taken: datetime
    newer: str


class Stranger(NamedTuple):
    """A snapshot of a cluster that the run does not know."""

    cluster: str
    file: str


@dataclass(slots=True)
class Inputs:
    """What there is to say of the input; ``broken`` grows while clusters are read."""

    superseded: tuple[Superseded, ...] = ()
    strangers: tuple[Stranger, ...] = ()
    broken: list[Broken] = field(default_factory=list)


class Recorded:
    """The snapshots at some paths, files or folders, for the clusters of a run.

    What is elsewhere than in files says so in ``found``, ``read_head`` and ``local``. ``said`` is what there is to say
    of clusters that could not be read, for those who may know their addresses. Raises ``SnapshotUnusable`` for a path
    that is not there, or a folder without snapshots.
    """

    said: Mapping[str, str] = MappingProxyType({})

    def __init__(self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> None:
        self._clusters = clusters
        self._skimmer = Skimmer()
        self._known: dict[str, dict[str, Any]] = {}
        self.inputs = Inputs()
        found: defaultdict[str, list[tuple[datetime, str]]] = defaultdict(list)
        for file, one in self.found(paths):
            match one:
                case Head(cluster, taken):
                    found[cluster].append((taken, file))
                case broken:
                    self.inputs.broken.append(broken)
        newest = {cluster: max(files) for cluster, files in found.items()}
        self._files = {cluster: newest[cluster] for cluster in clusters if cluster in newest}
        self.inputs.superseded = tuple(
            Superseded(cluster, file, taken, newest[cluster][1])
            for cluster, files in sorted(found.items())
            for taken, file in sorted(files)
            if (taken, file) != newest[cluster]
        )
        self.inputs.strangers = tuple(
            Stranger(cluster, file) for cluster, (_, file) in sorted(newest.items()) if cluster not in clusters
        )

    def found(self, paths: Sequence[str]) -> Iterator[tuple[str, Head | Broken]]:
        """Every file with what it is a snapshot of, or why it is none."""
        for file in sorted({file for path in paths for file in _files(Path(path))}):
            yield str(file), head(file)

    def head(self, name: str) -> dict[str, Any]:
        """The first row of the snapshot that counts for a cluster."""
        if name not in self._known:
            self._known[name] = self.read_head(name)
        return self._known[name]

    def read_head(self, name: str) -> dict[str, Any]:
        """The same, read."""
        return read_head(Path(self._files[name][1]))

    def local(self, name: str) -> Path:
        """Where all rows of the snapshot that counts for a cluster can be read here."""
        return Path(self._files[name][1])

    @property
    def newest(self) -> datetime | None:
        """When the newest of the snapshots that count was taken; None if there is none."""
        return max((taken for taken, _ in self._files.values()), default=None)

    @property
    def files(self) -> Mapping[str, tuple[datetime, str]]:
        """The snapshot that counts for each cluster that has one, and when it was taken."""
        return self._files

    def rows(self) -> int:
        """How many rows the snapshots that count say that they have."""
        return sum(self.head(name)["rows"] for name in self._files)

    def observations(self, specs: Mapping[str, Sequence[TopicSpec]], owner: str) -> Iterator[Observation]:
        """Each cluster of the run in order of name, one read at a time; topics equal to their specs are settled."""
        settler = Settler(owner)
        return (self.observed(name, settler.cluster(specs[name])) for name in sorted(self._clusters))

    def observed(self, name: str, settled: Settled) -> Observation:
        """What is known of one cluster; what cannot be used of its file is added to ``inputs``."""
        if name not in self._files:
            return Observation(name, problem="there is no snapshot of it")
        taken, file = self._files[name]
        path = self.local(name)
        found = salvage(path, self._skimmer, settled.settle)
        broken = [_of(file, path, one) for one in found.broken]
        self.inputs.broken.extend(broken)
        if found.state is None:
            return Observation(name, problem=f"{broken[0].why} ({named(file)})")
        problem = self.mistaken(name, found.state)
        return Observation(name, taken, None if problem else found.state, problem, found.gaps, settled)

    def mistaken(self, name: str, state: ClusterState) -> str:
        """Why a state is not that of the cluster that a document means; empty if it is."""
        try:
            require_meant(self._clusters[name].cluster_id, state.cluster_id)
            require_chroot(self._clusters[name], state.location, self._files[name][1])
        except TopiaristError as error:
            return str(error.args[0])
        return ""


def without_twins(observations: Iterable[Observation]) -> Iterator[Observation]:
    """The same, but of several with one cluster id only the first is compared: the others' names are mistaken."""
    first: dict[str, str] = {}
    for one in observations:
        number = one.state.cluster_id if one.state else ""
        if number and first.setdefault(number, one.cluster) != one.cluster:
            yield Observation(one.cluster, problem=f"its cluster id, {number}, is that of cluster {first[number]}")
        else:
            yield one


def _of(file: str, path: Path, broken: Broken) -> Broken:
    """What is broken under the name of the file; a table's rows have no numbers of lines."""
    if str(path) == file:
        return broken
    line = 0 if file.endswith(PARQUET) else broken.line
    return Broken(named(file), line, broken.why.replace(named(path), named(file)), broken.text)


def _files(path: Path) -> Iterable[Path]:
    if not path.is_dir():
        if not path.exists():
            raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, f"{shown(str(path), 4096)}: there is no such file or folder")
        return [path]
    if files := [file for file in path.rglob(f"*{SUFFIX}") if not file.name.startswith(".")]:
        return files
    message = f"{shown(str(path), 4096)} has no file *{SUFFIX}"
    raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, message, "make some: topiarist snapshot --out FOLDER")
