"""Snapshots: what a cluster held, as a file that a plan can be made from where there is no way to the cluster.

One file of JSON lines for each cluster; ``schemas/snapshot.json`` describes each field. ``rows`` turns a state into
rows and back; ``reading`` and ``checks`` make sure that a file holds rows before anything is made of them. Before this
package stands whoever reads a cluster, after it whoever plans: with ``memory``, a state is a cluster.

Files of snapshots as rows that can be trusted: nothing is repaired, and a part is never taken for the whole.

A snapshot may come from anywhere. Whatever is in the file, ``SnapshotUnusable`` is the one exception that leaves this
module: it has the file, the lines, what was found there and what was wanted. ``rows`` makes a state of what is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from topiarist.adapters.snapshots.codec import Row, decode_state, encode_state, format_time, parse_time
from topiarist.adapters.snapshots.validate import RowChecker, RowError, parse_row
from topiarist.errors import Reason, TopiaristError
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState
from topiarist.text import format_count, humanize_bytes, printable

SUFFIX = ".jsonl"


class Snapshot(NamedTuple):
    """A cluster's state under the name of its ``Cluster`` document (may be empty), and when its reading began (UTC)."""

    cluster: str
    taken_at: datetime
    state: ClusterState


def file_name(cluster: str) -> str:
    """The file of a cluster in a folder of snapshots."""
    return f"{cluster or 'default'}{SUFFIX}"


def dump_snapshot(snapshot: Snapshot) -> Iterator[bytes]:
    """The lines of a snapshot's file: JSON in ASCII, the same bytes for the same snapshot."""
    return encode_state(snapshot.state, snapshot.cluster, format_time(snapshot.taken_at))


def load_snapshot(path: Path) -> Snapshot:
    """The snapshot in a file. Raises ``SnapshotUnusable`` with the lines that are not as they should be."""
    first, *rows = read_rows(path)
    return Snapshot(first["cluster"], parse_time(first["takenAt"]), decode_state(first, rows))


class SnapshotFiles:
    """The snapshots at ``path``: a file, or a folder with a ``*.jsonl`` for each cluster. ``taken`` has the times of
    those that were read.

    Raises ``SnapshotUnusable`` if there are none, or if a file does not begin as a snapshot.
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
                    "keep one of the two",
                )

    def read(self, spec: ClusterSpec) -> ClusterState:
        """What a cluster held, as a run with this document would have read it.

        Raises ``SnapshotUnusable`` if there is no snapshot of it, ``WrongCluster`` if its document leads elsewhere.
        """
        file = self._files.get(spec.name)
        if file is None:
            there = ", ".join(_describe_cluster(name) for name in sorted(self._files))
            raise unusable_snapshot_error(
                f"{printable_path(self._path)} has no snapshot of {_describe_cluster(spec.name)}", f"it has {there}"
            )
        found = load_snapshot(file)
        self.taken_at[spec.name] = found.taken_at
        require_chroot(spec, found.state.chroot, file)
        # The limit is none of the cluster's own: it is what a run is told.
        return replace(found.state, list_sizes=replace(found.state.list_sizes, max_bytes=spec.jute_max_buffer))

    def _list_files(self) -> Iterable[Path]:
        if not self._path.is_dir():
            return [self._path]
        if files := sorted(self._path.glob(f"*{SUFFIX}")):
            return files
        raise unusable_snapshot_error(
            f"{printable_path(self._path)} has no file *{SUFFIX}", "make some: topiarist snapshot --out FOLDER"
        )


def require_chroot(spec: ClusterSpec, chroot: str, file: Path | str) -> None:
    """Raise ``WrongCluster`` if a snapshot from ``file`` is not of the cluster that a document means.

    Where no cluster id says which cluster is meant, the document's address must at least lead to the same chroot.
    """
    wanted = "/".join(["", *filter(None, spec.connect.split("/")[1:])])
    if spec.connect and not spec.cluster_id and wanted != chroot:
        raise TopiaristError(
            Reason.WRONG_CLUSTER,
            f"{printable_path(file)} was taken below {chroot or '/'}, and its address leads to {wanted or '/'}",
            "mend the address, take a new snapshot, or say which cluster is meant: clusterId",
        )


def _describe_cluster(name: str) -> str:
    return f"cluster {printable(name)}" if name else "the cluster without a name"


MAX_BYTES = 1 << 30
"""Size of a file: more than a million topics."""

MAX_ROW_BYTES = 1 << 26
"""Bytes of one row: a topic of more than a million partitions."""

_READ_BYTES = 1 << 16
"""Bytes that are read at a time."""

_MAX_SHOWN_ERRORS = 10
"""Rows of one file whose problems are shown."""

_MAX_PATH_LENGTH = 4096
"""Characters of a path that are shown: more than Linux allows."""


def printable_path(path: Path | str) -> str:
    """A path, or the address of what is elsewhere, as a message may have it."""
    return printable(str(path), _MAX_PATH_LENGTH)


def unusable_snapshot_error(message: str, hint: str = "take a new snapshot, or fetch this one again") -> TopiaristError:
    """What to raise for a snapshot that no plan can be made from."""
    return TopiaristError(Reason.SNAPSHOT_UNUSABLE, message, hint)


def read_first_row(path: Path) -> Row:
    """The first row of a file, which says what it is a snapshot of; the others are not looked at."""
    for row in _iterate_rows(path):
        return row
    raise unusable_snapshot_error(f"{printable_path(path)}: found an empty file, wanted a snapshot")


def read_rows(path: Path) -> list[Row]:
    """All rows of a file, the cluster first."""
    rows = list(_iterate_rows(path))
    if not rows:
        raise unusable_snapshot_error(f"{printable_path(path)}: found an empty file, wanted a snapshot")
    found, wanted = len(rows) - 1, rows[0]["rows"]
    if found != wanted:
        what = "was cut off" if found < wanted else "has rows too many"
        raise unusable_snapshot_error(
            f"{printable_path(path)}: {what}: found {format_count(found, 'row')} after the first, wanted {wanted:,}"
        )
    return rows


def _iterate_rows(path: Path) -> Iterator[Row]:
    """The rows in order. Raises at once if the first is none, and for the others when all, or ten, are known."""
    checks, problems = RowChecker(), list[str]()
    for number, line in enumerate(read_lines(path), start=1):
        try:
            row = parse_row(line)
            checks.check(row)
        except RowError as odd:
            problems.append(f"{printable_path(path)}:{number}: {odd}")
            if number == 1 or len(problems) == _MAX_SHOWN_ERRORS:
                break
        else:
            yield row
    if problems:
        raise unusable_snapshot_error("\n    ".join(problems))


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a regular file, none of them beyond all bounds."""
    try:
        # A pipe would keep us waiting, and a device has no end.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise unusable_snapshot_error(
                    f"{printable_path(path)}: found no regular file, wanted a snapshot", "name a file or a folder"
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
                # Where a whole file is no larger than a row may be, the others come by the hundred: that is quicker.
                while status.st_size <= MAX_ROW_BYTES and (some := file.readlines(_READ_BYTES)):
                    yield from some
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise unusable_snapshot_error(
            f"{printable_path(path)}: cannot be read: {(why or str(error)).lower()}", ""
        ) from error
