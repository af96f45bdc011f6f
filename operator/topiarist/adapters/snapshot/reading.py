"""Files of snapshots as rows that can be trusted: nothing is repaired, and a part is never taken for the whole.

A snapshot may come from anywhere. Whatever is in the file, ``SnapshotUnusable`` is the one exception that leaves this
module: it has the file, the lines, what was found there and what was wanted. ``rows`` makes a state of what is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from topiarist.adapters.snapshot.checks import Checks, Odd, parse
from topiarist.adapters.snapshot.rows import Row
from topiarist.core.units import count, size
from topiarist.core.values import shown
from topiarist.errors import Reason, TopiaristError

MAX_BYTES = 1 << 30
"""Size of a file: more than a million topics."""

MAX_ROW = 1 << 26
"""Bytes of one row: a topic of more than a million partitions."""

_AT_ONCE = 1 << 16
"""Bytes that are read at a time."""

_MOST = 10
"""Rows of one file whose problems are shown."""

_PATH = 4096
"""Characters of a path that are shown: more than Linux allows."""


def named(path: Path | str) -> str:
    """A path, or the address of what is elsewhere, as a message may have it."""
    return shown(str(path), _PATH)


def unusable(message: str, hint: str = "take a new snapshot, or fetch this one again") -> TopiaristError:
    """What to raise for a snapshot that no plan can be made from."""
    return TopiaristError(Reason.SNAPSHOT_UNUSABLE, message, hint)


def read_head(path: Path) -> Row:
    """The first row of a file, which says what it is a snapshot of; the others are not looked at."""
    for row in _rows(path):
        return row
    raise unusable(f"{named(path)}: found an empty file, wanted a snapshot")


def read_rows(path: Path) -> list[Row]:
    """All rows of a file, the cluster first."""
    rows = list(_rows(path))
    if not rows:
        raise unusable(f"{named(path)}: found an empty file, wanted a snapshot")
    found, wanted = len(rows) - 1, rows[0]["rows"]
    if found != wanted:
        what = "was cut off" if found < wanted else "has rows too many"
        raise unusable(f"{named(path)}: {what}: found {count(found, 'row')} after the first, wanted {wanted:,}")
    return rows


def _rows(path: Path) -> Iterator[Row]:
    """The rows in order. Raises at once if the first is none, and for the others when all, or ten, are known."""
    checks, problems = Checks(), list[str]()
    for number, line in enumerate(lines(path), start=1):
        try:
            row = parse(line)
            checks.check(row)
        except Odd as odd:
            problems.append(f"{named(path)}:{number}: {odd}")
            if number == 1 or len(problems) == _MOST:
                break
        else:
            yield row
    if problems:
        raise unusable("\n    ".join(problems))


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a regular file, none of them beyond all bounds."""
    try:
        # A pipe would keep us waiting, and a device has no end.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise unusable(f"{named(path)}: found no regular file, wanted a snapshot", "name a file or a folder")
            if status.st_size > MAX_BYTES:
                raise unusable(f"{named(path)}: found {size(status.st_size)}, wanted at most {size(MAX_BYTES)}")
            while line := file.readline(MAX_ROW + 1):
                if len(line) > MAX_ROW:
                    raise unusable(f"{named(path)}: found a row of more than {size(MAX_ROW)}")
                yield line
                # Where a whole file is no larger than a row may be, the others come by the hundred: that is quicker.
                while status.st_size <= MAX_ROW and (some := file.readlines(_AT_ONCE)):
                    yield from some
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise unusable(f"{named(path)}: cannot be read: {(why or str(error)).lower()}", "") from error
