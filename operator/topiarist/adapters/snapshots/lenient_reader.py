"""A lenient reader for drift reports: the valid rows of a snapshot, and the rows that are not valid.

``files.load_snapshot`` rejects a file with an invalid row, because a plan must not use an incomplete state. A drift
report over a thousand clusters uses the valid rows and lists the invalid ones. The caller must handle incomplete
states.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from topiarist.adapters.snapshots.caching_reader import CachingReader, EqualityCheck
from topiarist.adapters.snapshots.codec import Row, decode_state, parse_time
from topiarist.adapters.snapshots.files import describe_wrong_row_count, printable_path, read_first_row
from topiarist.adapters.snapshots.validate import RowError
from topiarist.errors import TopiaristError
from topiarist.model.state import ClusterState

_MAX_SHOWN_CHARS = 1000
"""Characters of an invalid line that are kept."""


class InvalidRow(NamedTuple):
    """A line that is not a valid row, or (line 0) an unusable file.

    Has the file, the line, the reason, and the beginning of the line.
    """

    file: str
    line: int
    message: str
    text: str = ""


class SnapshotHeader(NamedTuple):
    """The cluster name of a snapshot file, and the start of its read."""

    cluster: str
    taken_at: datetime


class PartialSnapshot(NamedTuple):
    """The valid part of a snapshot; ``state`` is None if there is none.

    ``invalid_rows`` are the lines and files that could not be used.
    """

    state: ClusterState | None
    invalid_rows: tuple[InvalidRow, ...] = ()

    @property
    def is_incomplete(self) -> bool:
        """True if the cluster may have topics that the state lacks."""
        return bool(self.invalid_rows)


def read_header(path: Path) -> SnapshotHeader | InvalidRow:
    """Return the cluster and time of a file, or why it is unusable.

    Reads only the first line.
    """
    try:
        row = read_first_row(path)
    except TopiaristError as error:
        return InvalidRow(printable_path(path), 0, str(error.args[0]))
    return SnapshotHeader(row["cluster"], parse_time(row["takenAt"]))


def read_partial_snapshot(
    path: Path, reader: CachingReader | None = None, is_equal: EqualityCheck = lambda *_: False
) -> PartialSnapshot:
    """Read every valid row of a file, and collect every invalid line.

    Never raises for the content of the file. The state is without the topics that ``is_equal`` accepts.
    """
    invalid_rows: list[InvalidRow] = []
    rows: list[Row] = []
    reader = reader or CachingReader()

    def add_invalid_row(number: int, line: bytes, error: RowError) -> None:
        text = line[: 4 * _MAX_SHOWN_CHARS].decode(errors="replace").rstrip("\n")[:_MAX_SHOWN_CHARS]
        invalid_rows.append(InvalidRow(printable_path(path), number, str(error), text))

    try:
        rows.extend(reader.read_rows(path, is_equal, add_invalid_row))
    except TopiaristError as error:
        return PartialSnapshot(None, (*invalid_rows, InvalidRow(printable_path(path), 0, str(error.args[0]))))
    if not rows:
        empty = InvalidRow(printable_path(path), 0, "found an empty file, wanted a snapshot")
        return PartialSnapshot(None, tuple(invalid_rows) or (empty,))
    first = rows.pop(0)
    found = len(rows) + len(invalid_rows) + reader.equal_count
    if message := describe_wrong_row_count(found, first["rows"]):
        invalid_rows.append(InvalidRow(printable_path(path), 0, message))
    return PartialSnapshot(decode_state(first, rows), tuple(invalid_rows))
