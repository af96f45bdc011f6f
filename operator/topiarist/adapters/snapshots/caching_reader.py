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

from topiarist.adapters.snapshots.codec import Row
from topiarist.adapters.snapshots.files import read_lines
from topiarist.adapters.snapshots.validate import RowChecker, RowError, is_valid_row, parse_row
from topiarist.kafka.types import Replicas

_MAX_CACHED_TEXTS = 1 << 16
"""Texts of a kind that are kept: a fleet in which more of them differ gains little by more."""

_INT_MAX = 2**31 - 1

_TOPIC_PATTERN = re.compile(
    rb'([a-zA-Z0-9._-]+)","identity":(?:0|[1-9][0-9]{0,17}),"topicId":(?:null|"[a-zA-Z0-9_-]*"),'
    rb'"replicas":(\[[0-9,\[\]]*\]),'
)
"""A name of which no character would be escaped, the two numbers, and the lists, whatever is in them."""


class TopicSize(NamedTuple):
    """How many partitions a topic has, and the replication factors of these (0: one without any)."""

    partitions: int
    replication_factors: frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaLists:
    """The replica lists of a topic; ``brokers`` are those that hold any."""

    replicas: tuple[Replicas, ...]
    size: TopicSize
    brokers: frozenset[int]


_VARYING_FIELDS = frozenset({"kind", "cluster", "takenAt", "topic", "identity", "topicId", "replicas"})
"""Fields that are not in what rows have in common."""


@dataclass(frozen=True, slots=True, eq=False)
class RowRemainder:
    """All else of a row of a topic that could be read, with partitions from 0 on and none of them moving.

    ``known`` is for what others conclude from it.
    """

    row: Row
    cache: dict[Any, Any] = field(default_factory=dict)


T = TypeVar("T")

EqualityCheck = Callable[[str, ReplicaLists, RowRemainder], bool]
"""Whether nothing else needs to be known of the topic of this name."""


class CachingReader:
    """Reads files of one fleet, and knows in each what it has seen in those before. ``settled``: topics of the last."""

    def __init__(self) -> None:
        self.equal_count = 0
        self._remainders: dict[bytes, RowRemainder | None] = {}
        self._replica_lists: dict[bytes, ReplicaLists | None] = {}

    def read_rows(
        self, path: Path, settle: EqualityCheck, broken: Callable[[int, bytes, RowError], None]
    ) -> Iterator[Row]:
        """The rows of a file, the cluster first, without the topics that ``settle`` takes.

        ``broken`` is told of lines that are no rows; if that is the first one, there are no others. Raises as
        ``reading.lines``.
        """
        checks, start, self.equal_count = RowChecker(), b"\n", 0
        names, match, length = checks.names, _TOPIC_PATTERN.match, 0
        for number, line in enumerate(read_lines(path), start=1):
            if line.startswith(start) and (found := match(line, length)) and (known := self._cached_parts(line, found)):
                name = found[1].decode()
                if name not in names and settle(name, *known):
                    names.add(name)
                    self.equal_count += 1
                    continue
            try:
                row = parse_row(line)
                checks.check(row)
            except RowError as odd:
                broken(number, line, odd)
                if number == 1:
                    return
                continue
            if number == 1:
                start = _topic_row_prefix(row)
                length = len(start)
            yield row

    def _cached_parts(self, line: bytes, found: re.Match[bytes]) -> tuple[ReplicaLists, RowRemainder] | None:
        """The two texts of a line, understood; None if they are not as nearly all are."""
        text = line[found.end() :]
        try:
            lists, rest = self._replica_lists[found[2]], self._remainders[text]
        except KeyError:
            lists, rest = (
                self.parse_replica_lists(found[2]),
                _get_or_compute(self._remainders, text, lambda: _parse_remainder(line)),
            )
        return (lists, rest) if lists and rest else None

    def parse_replica_lists(self, text: bytes) -> ReplicaLists | None:
        """Replica lists from their text; None if it is not that of lists."""
        return _get_or_compute(self._replica_lists, text, lambda: _parse_replica_lists(text))


def _topic_row_prefix(cluster_row: Row) -> bytes:
    """How the row of a topic begins in the file that begins with ``cluster_row``."""
    same = {"kind": "topic", "cluster": cluster_row["cluster"], "takenAt": cluster_row["takenAt"]}
    return json.dumps(same, separators=(",", ":"))[:-1].encode() + b',"topic":"'


def _get_or_compute(cache: dict[bytes, T], text: bytes, compute: Callable[[], T]) -> T:
    if text not in cache:
        if len(cache) >= _MAX_CACHED_TEXTS:
            cache.clear()
        cache[text] = compute()
    return cache[text]


def _parse_remainder(line: bytes) -> RowRemainder | None:
    """What stands behind the lists of a line; None if the line is no row, or not one that is looked at here."""
    try:
        row = parse_row(line)
    except RowError:
        return None
    # A row that has an identity has no fault: otherwise it is not sound.
    if not is_valid_row(row) or row["partitionIds"] is not None or row["movingPartitions"]:
        return None
    return RowRemainder({key: value for key, value in row.items() if key not in _VARYING_FIELDS})


def _parse_replica_lists(text: bytes) -> ReplicaLists | None:
    """Replica lists from their text, by the rules of the schema; None if they break one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not all(type(ids) is list and all(type(each) is int and each <= _INT_MAX for each in ids) for ids in found):
        return None
    replicas = tuple(map(tuple, found))
    return ReplicaLists(
        replicas,
        _make_topic_size(len(replicas), frozenset(map(len, replicas))),
        frozenset(chain.from_iterable(replicas)),
    )


@lru_cache(maxsize=_MAX_CACHED_TEXTS)
def _make_topic_size(partitions: int, replication_factors: frozenset[int]) -> TopicSize:
    """The same object for the same size."""
    return TopicSize(partitions, replication_factors)
