"""A lenient reader for drift reports: the valid rows of a snapshot, and the rows that are not valid.

``files.load_snapshot`` rejects a file with an invalid row, because a plan must not use an incomplete state. A drift
report over a thousand clusters uses the valid rows and lists the invalid ones. The caller must handle incomplete
states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from topiarist.adapters.snapshots.caching_reader import CachingReader, EqualityCheck
from topiarist.adapters.snapshots.codec import Row, decode_state
from topiarist.adapters.snapshots.files import describe_wrong_row_count, printable_path, read_first_row
from topiarist.adapters.snapshots.times import parse_time
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
    """The cluster name of a snapshot file, the start of its read, and the number of rows after the first."""

    cluster: str
    taken_at: datetime
    row_count: int


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
    return make_header(row)


def make_header(cluster_row: Row) -> SnapshotHeader:
    """Return the header of a file with this first row."""
    return SnapshotHeader(cluster_row["cluster"], parse_time(cluster_row["takenAt"]), cluster_row["rows"])


def read_partial_snapshot(
    file: str,
    lines: Iterable[bytes],
    reader: CachingReader | None = None,
    is_equal: EqualityCheck = lambda *_: False,
    on_cluster_row: Callable[[Row], None] = lambda _: None,
) -> PartialSnapshot:
    """Read every valid row of the lines of a file, and collect every invalid line.

    The state is without the topics that ``is_equal`` accepts; ``on_cluster_row`` gets the first row before that.
    ``file`` is for messages. Raises ``TopiaristError`` only if the file cannot be opened or read: never for its
    content.
    """
    invalid_rows: list[InvalidRow] = []
    reader = reader or CachingReader()

    def add_invalid_row(number: int, line: bytes, error: RowError) -> None:
        text = line[: 4 * _MAX_SHOWN_CHARS].decode(errors="replace").rstrip("\n")[:_MAX_SHOWN_CHARS]
        invalid_rows.append(InvalidRow(printable_path(file), number, str(error), text))

    try:
        found = reader.read_rows(lines, is_equal, add_invalid_row)
        first = next(found, None)
        if first is None:
            empty = InvalidRow(printable_path(file), 0, "found an empty file, wanted a snapshot")
            return PartialSnapshot(None, tuple(invalid_rows) or (empty,))
        on_cluster_row(first)
        rows = [*found]
    except TopiaristError as error:
        if isinstance(error.__cause__, OSError):
            raise
        return PartialSnapshot(None, (*invalid_rows, InvalidRow(printable_path(file), 0, str(error.args[0]))))
    count = len(rows) + len(invalid_rows) + reader.equal_count
    if message := describe_wrong_row_count(count, first["rows"]):
        invalid_rows.append(InvalidRow(printable_path(file), 0, message))
    return PartialSnapshot(decode_state(first, rows), tuple(invalid_rows))
