"""Snapshots: what a cluster held, as a file that a plan can be made from where there is no way to the cluster.

One file of JSON lines for each cluster; ``schemas/snapshot.json`` describes each field. ``rows`` turns a state into
rows and back; ``reading`` and ``checks`` make sure that a file holds rows before anything is made of them. Before this
package stands whoever reads a cluster, after it whoever plans: with ``memory``, a state is a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from topiarist.adapters.snapshot.reading import named, read_head, read_rows, unusable
from topiarist.adapters.snapshot.rows import encode, state_of, text_of, time_of
from topiarist.adapters.snapshot.salvage import Broken, Head, Salvaged, head, salvage
from topiarist.adapters.snapshot.skim import Lists, Rest, Size, Skimmer
from topiarist.core.spec import ClusterSpec
from topiarist.core.state import ClusterState
from topiarist.core.values import shown
from topiarist.errors import Reason, TopiaristError

__all__ = [
    "SUFFIX",
    "Broken",
    "Head",
    "Lists",
    "Rest",
    "Salvaged",
    "Size",
    "Skimmer",
    "Snapshot",
    "Snapshots",
    "dump",
    "file_name",
    "head",
    "load",
    "read_head",
    "require_chroot",
    "salvage",
    "state_of",
    "text_of",
    "time_of",
]

SUFFIX = ".jsonl"


class Snapshot(NamedTuple):
    """A cluster's state under the name of its ``Cluster`` document (may be empty), and when its reading began (UTC)."""

    cluster: str
    taken: datetime
    state: ClusterState


def file_name(cluster: str) -> str:
    """The file of a cluster in a folder of snapshots."""
    return f"{cluster or 'default'}{SUFFIX}"


def dump(snapshot: Snapshot) -> Iterator[bytes]:
    """The lines of a snapshot's file: JSON in ASCII, the same bytes for the same snapshot."""
    return encode(snapshot.state, snapshot.cluster, text_of(snapshot.taken))


def load(path: Path) -> Snapshot:
    """The snapshot in a file. Raises ``SnapshotUnusable`` with the lines that are not as they should be."""
    first, *rows = read_rows(path)
    return Snapshot(first["cluster"], time_of(first["takenAt"]), state_of(first, rows))


class Snapshots:
    """The snapshots at ``path``: a file, or a folder with a ``*.jsonl`` for each cluster. ``taken`` has the times of
    those that were read.

    Raises ``SnapshotUnusable`` if there are none, or if a file does not begin as a snapshot.
    """

    def __init__(self, path: Path) -> None:
        self.taken: dict[str, datetime] = {}
        self._path = path
        self._files: dict[str, Path] = {}
        for file in self._candidates():
            name = read_head(file)["cluster"]
            if (other := self._files.setdefault(name, file)) != file:
                raise unusable(f"{named(file)}: found {_called(name)}, as in {named(other)}", "keep one of the two")

    def read(self, spec: ClusterSpec) -> ClusterState:
        """What a cluster held, as a run with this document would have read it.

        Raises ``SnapshotUnusable`` if there is no snapshot of it, ``WrongCluster`` if its document leads elsewhere.
        """
        file = self._files.get(spec.name)
        if file is None:
            there = ", ".join(_called(name) for name in sorted(self._files))
            raise unusable(f"{named(self._path)} has no snapshot of {_called(spec.name)}", f"it has {there}")
        found = load(file)
        self.taken[spec.name] = found.taken
        require_chroot(spec, found.state.location, file)
        # The limit is none of the cluster's own: it is what a run is told.
        return replace(found.state, room=replace(found.state.room, limit=spec.max_buffer))

    def _candidates(self) -> Iterable[Path]:
        if not self._path.is_dir():
            return [self._path]
        if files := sorted(self._path.glob(f"*{SUFFIX}")):
            return files
        raise unusable(f"{named(self._path)} has no file *{SUFFIX}", "make some: topiarist snapshot --out FOLDER")


def require_chroot(spec: ClusterSpec, chroot: str, file: Path | str) -> None:
    """Raise ``WrongCluster`` if a snapshot from ``file`` is not of the cluster that a document means.

    Where no cluster id says which cluster is meant, the document's address must at least lead to the same chroot.
    """
    wanted = "/".join(["", *filter(None, spec.connect.split("/")[1:])])
    if spec.connect and not spec.cluster_id and wanted != chroot:
        raise TopiaristError(
            Reason.WRONG_CLUSTER,
            f"{named(file)} was taken below {chroot or '/'}, and its address leads to {wanted or '/'}",
            "mend the address, take a new snapshot, or say which cluster is meant: clusterId",
        )


def _called(name: str) -> str:
    return f"cluster {shown(name)}" if name else "the cluster without a name"
