"""A fast reader of snapshot rows that caches the parts that many rows share.

``lenient_reader`` uses it for drift reports over a fleet. Rows are written in one form, so the text of two parts
repeats: the replica lists (Kafka places topics in few ways) and the fields after the lists. A part that was parsed and
validated once is looked up by its bytes. A line in any other form, or with anything that could be invalid, is checked
by ``validate``: this reader accepts no line that ``validate`` rejects. ::

    {"kind":"topic","cluster":C,"takenAt":T,"topic":NAME,"identity":I,"topicId":ID,"replicas":LISTS,REST
    '--- the same in all rows of a file --'                                                 cached cached
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import NamedTuple, TypeVar

from msgspec import Struct

from topiarist.adapters.snapshots.codec import Row
from topiarist.adapters.snapshots.validate import RowChecker, RowError, is_valid_row, parse_row
from topiarist.kafka.types import Replicas, count_replicas

_MAX_CACHED_TEXTS = 1 << 12
"""Cached texts per kind: a fleet with more different texts gains little from a larger cache."""

_INT_MAX = 2**31 - 1

_TOPIC_PATTERN = re.compile(
    rb'([a-zA-Z0-9._-]+)","identity":"[a-zA-Z0-9_-]{1,64}","topicId":(?:null|"[a-zA-Z0-9_-]*"),'
    rb'"replicas":(\[[0-9,\[\]]*\]),'
)
"""A name without escaped characters, the identity and topic id, and any replica lists."""


class TopicSize(NamedTuple):
    """A topic's partition count, and the replication factors of its partitions (0: no replicas)."""

    partitions: int
    replication_factors: frozenset[int]


class ReplicaLists(Struct, frozen=True, eq=False):
    """The replica lists of a topic; ``brokers`` are the brokers that hold a replica."""

    replicas: tuple[Replicas, ...]
    size: TopicSize
    brokers: frozenset[int]


_VARYING_FIELDS = frozenset({"kind", "cluster", "takenAt", "topic", "identity", "topicId", "replicas"})
"""Row fields that are not part of a ``RowRemainder``."""


class RowRemainder(Struct, frozen=True, eq=False):
    """The fields of a valid topic row without the ``_VARYING_FIELDS``.

    Only for topics with partitions from 0 on and no reassignment. Equal texts share one object.
    """

    row: Row


T = TypeVar("T")

EqualityCheck = Callable[[str, ReplicaLists, RowRemainder], bool]
"""A function that returns True if a topic equals its spec.

The row of an equal topic is not needed. Arguments: topic name, replica lists, other fields.
"""


class CachingReader:
    """A reader of the files of one fleet with a shared cache.

    ``equal_count`` counts the topics of the last file that the ``EqualityCheck`` accepted.
    """

    def __init__(self) -> None:
        self.equal_count = 0
        self._remainders: dict[bytes, RowRemainder | None] = {}
        self._replica_lists: dict[bytes, ReplicaLists | None] = {}

    def read_rows(
        self, lines: Iterable[bytes], is_equal: EqualityCheck, add_invalid_row: Callable[[int, bytes, RowError], None]
    ) -> Iterator[Row]:
        """Yield the rows of a file, the cluster row first, without the topics that ``is_equal`` accepts.

        ``add_invalid_row`` is called for each invalid line; if it is the first line, no rows follow.
        """
        checker, start, self.equal_count = RowChecker(), b"\n", 0
        names, match, length = checker.names, _TOPIC_PATTERN.match, 0
        for number, line in enumerate(lines, start=1):
            if line.startswith(start) and (found := match(line, length)) and (parts := self._cached_parts(line, found)):
                name = found[1].decode()
                if name not in names and is_equal(name, *parts):
                    names.add(name)
                    self.equal_count += 1
                    continue
            try:
                row = parse_row(line)
                checker.check(row)
            except RowError as error:
                add_invalid_row(number, line, error)
                if number == 1:
                    return
                continue
            if number == 1:
                same = {"kind": "topic", "cluster": row["cluster"], "takenAt": row["takenAt"]}
                start = json.dumps(same, separators=(",", ":"))[:-1].encode() + b',"topic":"'
                length = len(start)
            yield row

    def _cached_parts(self, line: bytes, found: re.Match[bytes]) -> tuple[ReplicaLists, RowRemainder] | None:
        """Return the parsed lists and remainder of a line; None unless both have the common form."""
        text = line[found.end() :]
        try:
            lists, remainder = self._replica_lists[found[2]], self._remainders[text]
        except KeyError:
            lists = self.parse_replica_lists(found[2])
            remainder = _get_or_compute(self._remainders, text, lambda: _parse_remainder(line))
        return (lists, remainder) if lists and remainder else None

    def parse_replica_lists(self, text: bytes) -> ReplicaLists | None:
        """Parse replica lists through the cache; None if the text is not valid lists."""
        return _get_or_compute(self._replica_lists, text, lambda: _parse_replica_lists(text))


def _get_or_compute(cache: dict[bytes, T], text: bytes, compute: Callable[[], T]) -> T:
    if text not in cache:
        if len(cache) >= _MAX_CACHED_TEXTS:
            cache.clear()
        cache[text] = compute()
    return cache[text]


def _parse_remainder(line: bytes) -> RowRemainder | None:
    """Parse the fields after the lists of a line; None if the row is invalid or not in the common form."""
    try:
        row = parse_row(line)
    except RowError:
        return None
    # _TOPIC_PATTERN requires an identity, and a valid row with an identity has no read error.
    if not is_valid_row(row) or row["partitionIds"] is not None or row["reassigningPartitions"]:
        return None
    return RowRemainder({key: value for key, value in row.items() if key not in _VARYING_FIELDS})


def _parse_replica_lists(text: bytes) -> ReplicaLists | None:
    """Parse replica lists by the rules of the schema; None if they break one."""
    try:
        lists = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not all(type(ids) is list and all(type(each) is int and each <= _INT_MAX for each in ids) for ids in lists):
        return None
    replicas = tuple(map(tuple, lists))
    return ReplicaLists(
        replicas,
        _make_topic_size(len(replicas), frozenset(map(count_replicas, replicas))),
        frozenset(chain.from_iterable(replicas)),
    )


@lru_cache(maxsize=_MAX_CACHED_TEXTS)
def _make_topic_size(partitions: int, replication_factors: frozenset[int]) -> TopicSize:
    """Return the same ``TopicSize`` object for equal sizes."""
    return TopicSize(partitions, replication_factors)
