"""Topics of snapshots by their bytes, for whoever compares a fleet: what many rows have in common is looked at once.

Rows are written in one way, so that all but a topic's name and numbers is the same text over and over: its replica
lists (Kafka places topics in few ways) and what stands behind them. A text that was once read, checked and understood
is known again without being parsed. A line that is written in any other way, and each that could be wrong, goes the
usual way through ``checks``: nothing passes here that would not pass there. ::

    {"kind":"topic","cluster":C,"takenAt":T,"topic":NAME,"identity":N,"topicId":ID,"replicas":LISTS,REST
    '--------- the same in a file --------'                                                   known known
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from topiarist.adapters.snapshot.checks import Checks, Odd, is_sound, parse
from topiarist.adapters.snapshot.reading import lines
from topiarist.adapters.snapshot.rows import Row
from topiarist.core.state import Replicas

_MOST = 1 << 16
"""Texts of a kind that are kept: a fleet in which more of them differ gains little by more."""

_INT_MAX = 2**31 - 1

_NAMED = re.compile(
    rb'([a-zA-Z0-9._-]+)","identity":(?:0|[1-9][0-9]{0,17}),"topicId":(?:null|"[a-zA-Z0-9_-]*"),'
    rb'"replicas":(\[[0-9,\[\]]*\]),'
)
"""A name of which no character would be escaped, the two numbers, and the lists, whatever is in them."""


class Size(NamedTuple):
    """How many partitions a topic has, and the replication factors of these (0: one without any)."""

    partitions: int
    widths: frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """The replica lists of a topic; ``brokers`` are those that hold any."""

    replicas: tuple[Replicas, ...]
    size: Size
    brokers: frozenset[int]


_ELSEWHERE = frozenset({"kind", "cluster", "takenAt", "topic", "identity", "topicId", "replicas"})
"""Fields that are not in what rows have in common."""


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """All else of a row of a topic that could be read, with partitions from 0 on and none of them moving.

    ``known`` is for what others conclude from it.
    """

    row: Row
    known: dict[Any, Any] = field(default_factory=dict)


T = TypeVar("T")

Settle = Callable[[str, Lists, Rest], bool]
"""Whether nothing else needs to be known of the topic of this name."""


class Skimmer:
    """Reads files of one fleet, and knows in each what it has seen in those before. ``settled``: topics of the last."""

    def __init__(self) -> None:
        self.settled = 0
        self._rests: dict[bytes, Rest | None] = {}
        self._lists: dict[bytes, Lists | None] = {}

    def rows(self, path: Path, settle: Settle, broken: Callable[[int, bytes, Odd], None]) -> Iterator[Row]:
        """The rows of a file, the cluster first, without the topics that ``settle`` takes.

        ``broken`` is told of lines that are no rows; if that is the first one, there are no others. Raises as
        ``reading.lines``.
        """
        checks, start, self.settled = Checks(), b"\n", 0
        names, match, length = checks.names, _NAMED.match, 0
        for number, line in enumerate(lines(path), start=1):
            if line.startswith(start) and (found := match(line, length)) and (known := self._known(line, found)):
                name = found[1].decode()
                if name not in names and settle(name, *known):
                    names.add(name)
                    self.settled += 1
                    continue
            try:
                row = parse(line)
                checks.check(row)
            except Odd as odd:
                broken(number, line, odd)
                if number == 1:
                    return
                continue
            if number == 1:
                start = _start(row)
                length = len(start)
            yield row

    def _known(self, line: bytes, found: re.Match[bytes]) -> tuple[Lists, Rest] | None:
        """The two texts of a line, understood; None if they are not as nearly all are."""
        text = line[found.end() :]
        try:
            lists, rest = self._lists[found[2]], self._rests[text]
        except KeyError:
            lists, rest = self.lists(found[2]), _remember(self._rests, text, lambda: _rest(line))
        return (lists, rest) if lists and rest else None

    def lists(self, text: bytes) -> Lists | None:
        """Replica lists from their text; None if it is not that of lists."""
        return _remember(self._lists, text, lambda: _lists(text))


def _start(head: Row) -> bytes:
    """How the row of a topic begins in the file that begins with ``head``."""
    same = {"kind": "topic", "cluster": head["cluster"], "takenAt": head["takenAt"]}
    return json.dumps(same, separators=(",", ":"))[:-1].encode() + b',"topic":"'


def _remember(kept: dict[bytes, T], text: bytes, understand: Callable[[], T]) -> T:
    if text not in kept:
        if len(kept) >= _MOST:
            kept.clear()
        kept[text] = understand()
    return kept[text]


def _rest(line: bytes) -> Rest | None:
    """What stands behind the lists of a line; None if the line is no row, or not one that is looked at here."""
    try:
        row = parse(line)
    except Odd:
        return None
    # A row that has an identity has no fault: otherwise it is not sound.
    if not is_sound(row) or row["partitionIds"] is not None or row["movingPartitions"]:
        return None
    return Rest({key: value for key, value in row.items() if key not in _ELSEWHERE})


def _lists(text: bytes) -> Lists | None:
    """Replica lists from their text, by the rules of the schema; None if they break one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not all(type(ids) is list and all(type(each) is int and each <= _INT_MAX for each in ids) for ids in found):
        return None
    replicas = tuple(map(tuple, found))
    return Lists(
        replicas, _size(len(replicas), frozenset(map(len, replicas))), frozenset(chain.from_iterable(replicas))
    )


@lru_cache(maxsize=_MOST)
def _size(partitions: int, widths: frozenset[int]) -> Size:
    """The same object for the same size."""
    return Size(partitions, widths)
