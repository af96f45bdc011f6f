"""What can still be used of a snapshot that is not whole: for a report, which says what it could not use.

``load`` refuses such a file, since a plan must not rest on a part. A report over a thousand clusters names the rows
that are broken, keeps them, and says of the rest what can be said; whoever calls has to know that there are gaps.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from topiarist.adapters.snapshots.caching_reader import CachingReader, EqualityCheck
from topiarist.adapters.snapshots.codec import Row, decode_state, parse_time
from topiarist.adapters.snapshots.files import printable_path, read_first_row
from topiarist.adapters.snapshots.validate import RowError
from topiarist.errors import TopiaristError
from topiarist.model.state import ClusterState
from topiarist.text import format_count

_MAX_SHOWN_CHARS = 1000
"""Characters of a broken line that are kept."""


class InvalidRow(NamedTuple):
    """A line that is no row, or (line 0) a file that is none: where it stands, why, and how it begins."""

    file: str
    line: int
    message: str
    text: str = ""


class SnapshotHeader(NamedTuple):
    """What a file says that it is: of which cluster, and when its reading began."""

    cluster: str
    taken_at: datetime


class PartialSnapshot(NamedTuple):
    """What a file still says of its cluster; ``state`` is None if that is nothing. ``gaps``: rows are missing."""

    state: ClusterState | None
    invalid_rows: tuple[InvalidRow, ...] = ()

    @property
    def is_incomplete(self) -> bool:
        """Whether topics may be there that the state does not have."""
        return bool(self.invalid_rows)


def read_header(path: Path) -> SnapshotHeader | InvalidRow:
    """What a file is a snapshot of, or why it is none; only its first line is read."""
    try:
        row = read_first_row(path)
    except TopiaristError as error:
        return InvalidRow(printable_path(path), 0, str(error.args[0]))
    return SnapshotHeader(row["cluster"], parse_time(row["takenAt"]))


def read_partial_snapshot(
    path: Path, reader: CachingReader | None = None, is_equal: EqualityCheck = lambda *_: False
) -> PartialSnapshot:
    """Every row of a file that is one, and every line that is none. Never raises for what is in the file.

    The state is without the topics that ``is_equal`` takes.
    """
    broken: list[InvalidRow] = []
    rows: list[Row] = []
    reader = reader or CachingReader()

    def keep(number: int, line: bytes, odd: RowError) -> None:
        text = line[: 4 * _MAX_SHOWN_CHARS].decode(errors="replace").rstrip("\n")[:_MAX_SHOWN_CHARS]
        broken.append(InvalidRow(printable_path(path), number, str(odd), text))

    try:
        rows.extend(reader.read_rows(path, is_equal, keep))
    except TopiaristError as error:
        return PartialSnapshot(None, (*broken, InvalidRow(printable_path(path), 0, str(error.args[0]))))
    if not rows:
        return PartialSnapshot(
            None, tuple(broken) or (InvalidRow(printable_path(path), 0, "found an empty file, wanted a snapshot"),)
        )
    first = rows.pop(0)
    found = len(rows) + len(broken) + reader.equal_count
    if found != first["rows"]:
        what = "was cut off" if found < first["rows"] else "has rows too many"
        why = f"{what}: found {format_count(found, 'row')} after the first, wanted {first['rows']:,}"
        broken.append(InvalidRow(printable_path(path), 0, why))
    return PartialSnapshot(decode_state(first, rows), tuple(broken))
