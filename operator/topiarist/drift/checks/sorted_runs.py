"""A sort on disk, for rows that may not fit into memory.

``drift.checks.cross_cluster`` uses it. Rows are written as sorted runs to temporary files without a name, which end
with the process. Runs are merged in rounds, so that the number of open files stays small.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

Row = tuple[str, ...]

_MAX_ROWS_IN_MEMORY = 10_000

_MAX_RUNS_PER_ROUND = 32
"""Runs of one round; so many are merged to one of the next round: three rounds have 300 million rows in 93 files."""

_BUFFER_BYTES = 1 << 14


class SortedRuns:
    """Rows of text, added in any order and read in order; ``close`` removes the files.

    Files are created in ``folder``, or in the default folder for temporary files. Raises ``OSError`` if a file cannot
    be written.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._rows: list[Row] = []
        self._rounds: list[list[IO[str]]] = []

    @property
    def open_files(self) -> int:
        """The number of temporary files."""
        return sum(map(len, self._rounds))

    def add(self, row: Row) -> None:
        """Add a row."""
        self._rows.append(row)
        if len(self._rows) >= _MAX_ROWS_IN_MEMORY:
            self._rows.sort()
            self._add_run(0, (json.dumps(each) + "\n" for each in self._rows))
            self._rows = []

    def _add_run(self, number: int, lines: Iterable[str]) -> None:
        """Write a run of a round, and merge the runs of the round if there are too many."""
        if number == len(self._rounds):
            self._rounds.append([])
        runs = self._rounds[number]
        run = TemporaryFile("w+", _BUFFER_BYTES, encoding="ascii", newline="\n", dir=self._folder)  # noqa: SIM115
        runs.append(run)
        run.writelines(lines)
        run.seek(0)
        if len(runs) >= _MAX_RUNS_PER_ROUND:
            self._add_run(number + 1, heapq.merge(*runs, key=json.loads))
            _close(runs)

    def rows(self) -> Iterator[Row]:
        """Yield all rows in order, once; no row may be added afterwards."""
        self._rows.sort()
        return heapq.merge(self._rows, *(map(_parse, run) for runs in self._rounds for run in runs))

    def close(self) -> None:
        """Remove the files."""
        for runs in self._rounds:
            _close(runs)


def _parse(line: str) -> Row:
    return tuple(json.loads(line))


def _close(runs: list[IO[str]]) -> None:
    while runs:
        runs.pop().close()
