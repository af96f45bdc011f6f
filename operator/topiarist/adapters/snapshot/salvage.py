"""What can still be used of a snapshot that is not whole: for a report, which says what it could not use.

``load`` refuses such a file, since a plan must not rest on a part. A report over a thousand clusters names the rows
that are broken, keeps them, and says of the rest what can be said; whoever calls has to know that there are gaps.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from topiarist.adapters.snapshot.checks import Odd
from topiarist.adapters.snapshot.reading import named, read_head
from topiarist.adapters.snapshot.rows import Row, state_of, time_of
from topiarist.adapters.snapshot.skim import Settle, Skimmer
from topiarist.core.state import ClusterState
from topiarist.core.units import count
from topiarist.errors import TopiaristError

_SHOWN = 1000
"""Characters of a broken line that are kept."""


class Broken(NamedTuple):
    """A line that is no row, or (line 0) a file that is none: where it stands, why, and how it begins."""

    file: str
    line: int
    why: str
    text: str = ""


class Head(NamedTuple):
    """What a file says that it is: of which cluster, and when its reading began."""

    cluster: str
    taken: datetime


class Salvaged(NamedTuple):
    """What a file still says of its cluster; ``state`` is None if that is nothing. ``gaps``: rows are missing."""

    state: ClusterState | None
    broken: tuple[Broken, ...] = ()

    @property
    def gaps(self) -> bool:
        """Whether topics may be there that the state does not have."""
        return bool(self.broken)


def head(path: Path) -> Head | Broken:
    """What a file is a snapshot of, or why it is none; only its first line is read."""
    try:
        row = read_head(path)
    except TopiaristError as error:
        return Broken(named(path), 0, str(error.args[0]))
    return Head(row["cluster"], time_of(row["takenAt"]))


def salvage(path: Path, skimmer: Skimmer | None = None, settle: Settle = lambda *_: False) -> Salvaged:
    """Every row of a file that is one, and every line that is none. Never raises for what is in the file.

    The state is without the topics that ``settle`` takes.
    """
    broken: list[Broken] = []
    rows: list[Row] = []
    skimmer = skimmer or Skimmer()

    def keep(number: int, line: bytes, odd: Odd) -> None:
        text = line[: 4 * _SHOWN].decode(errors="replace").rstrip("\n")[:_SHOWN]
        broken.append(Broken(named(path), number, str(odd), text))

    try:
        rows.extend(skimmer.rows(path, settle, keep))
    except TopiaristError as error:
        return Salvaged(None, (*broken, Broken(named(path), 0, str(error.args[0]))))
    if not rows:
        return Salvaged(None, tuple(broken) or (Broken(named(path), 0, "found an empty file, wanted a snapshot"),))
    first = rows.pop(0)
    found = len(rows) + len(broken) + skimmer.settled
    if found != first["rows"]:
        what = "was cut off" if found < first["rows"] else "has rows too many"
        why = f"{what}: found {count(found, 'row')} after the first, wanted {first['rows']:,}"
        broken.append(Broken(named(path), 0, why))
    return Salvaged(state_of(first, rows), tuple(broken))
