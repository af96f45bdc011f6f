"""A lenient reader for drift reports: the valid rows of a snapshot, and the rows that are not valid.

``files.load_snapshot`` rejects a file with an invalid row, because a plan must not use an incomplete state. A drift
report over a thousand clusters uses the valid rows and lists the invalid ones. The caller must handle incomplete
states.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec import Struct

from topiarist.adapters.snapshots.codec import Row, decode_state, parse_time
from topiarist.adapters.snapshots.files import (
    RowChecker,
    RowError,
    describe_wrong_row_count,
    is_valid_row,
    parse_row,
    read_first_row,
)
from topiarist.errors import TopiaristError
from topiarist.kafka.types import Replicas, count_replicas
from topiarist.model.state import ClusterState
from topiarist.text import printable_path

# A fast reader of snapshot rows that caches the parts that many rows share.
#
# Rows are written in one form, so the text of two parts repeats: the replica lists (Kafka places topics in few ways)
# and the fields after the lists. A part that was parsed and validated once is looked up by its bytes. A line in any
# other form, or with anything that could be invalid, is checked by ``RowChecker``: no line that it rejects is accepted.
#
#     {"kind":"topic","cluster":C,"takenAt":T,"topic":NAME,"identity":I,"topicId":ID,"replicas":LISTS,REST
#     '--- the same in all rows of a file --'                                                 cached cached

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
        return InvalidRow(printable_path(path), 0, error.message)
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
        return PartialSnapshot(None, (*invalid_rows, InvalidRow(printable_path(file), 0, error.message)))
    count = len(rows) + len(invalid_rows) + reader.equal_count
    if message := describe_wrong_row_count(count, first["rows"]):
        invalid_rows.append(InvalidRow(printable_path(file), 0, message))
    return PartialSnapshot(decode_state(first, rows), tuple(invalid_rows))
