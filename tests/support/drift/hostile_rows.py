"""A fleet of snapshots with one hostile row each: every way in which a row can be invalid, and odd rows that are valid.

Each cluster has the topics ``clicks``, ``orders`` and ``users`` as its manifests want them, except for the row of
``orders``, which is line 3 of its file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from support.drift.small_fleet import SNAPSHOT_TIME, cluster_state, owned_topic, topic_document, write_manifests
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot, file_name

TOPICS = ("clicks", "orders", "users")

HOSTILE_LINE = 3
"""The line of the hostile row, counted from 1."""


class HostileRow(NamedTuple):
    """A change of the lines of a snapshot, and the part of the error that names it; empty for a valid row.

    ``line`` is the line of the error, 0 for the file as a whole.
    """

    change: Callable[[list[bytes]], list[bytes]]
    error: str
    line: int = HOSTILE_LINE


def _encode(row: Any) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def _fields(error: str, **fields: Any) -> HostileRow:
    """Return a row with other values of some fields."""
    return _row(error, lambda row: {**row, **fields})


def _row(error: str, change: Callable[[dict[str, Any]], Any]) -> HostileRow:
    return _line(error, lambda line: _encode(change(json.loads(line))))


def _line(error: str, change: Callable[[bytes], bytes]) -> HostileRow:
    return _lines(error, lambda lines: [*lines[:2], change(lines[2]), *lines[3:]])


def _lines(error: str, change: Callable[[list[bytes]], list[bytes]], line: int = HOSTILE_LINE) -> HostileRow:
    return HostileRow(change, error, line)


def _text(error: str, old: bytes, new: bytes) -> HostileRow:
    """Return a row with another text in place of an old one, which it must have."""

    def change(line: bytes) -> bytes:
        assert old in line
        return line.replace(old, new, 1)

    return _line(error, change)


def _without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda row: {key: value for key, value in row.items() if key != name}


_RECORD = {"owner": "default", "config": [], "absent": False}

HOSTILE_ROWS: Mapping[str, HostileRow] = {
    "garbage": _line("found invalid JSON", lambda line: b"garbage\n"),
    "garbage that is not Unicode": _line("wanted a row", lambda line: b"garbage\xff\n"),
    "a name that is not Unicode": _text("wanted a row", b'"topic":"orders"', b'"topic":"orders\xff"'),
    "half a row": _line("found invalid JSON", lambda line: line[: len(line) // 2] + b"\n"),
    "an empty line": _line("found invalid JSON", lambda line: b"\n"),
    "zeros": _line("wanted a row", lambda line: b"\0" * 40 + b"\n"),
    "a byte order mark": _line("found invalid JSON", lambda line: b"\xef\xbb\xbf" + line),
    "a list": _line("found JSON that is not an object", lambda line: b"[" + line.rstrip() + b"]\n"),
    "a text": _line("found JSON that is not an object", lambda line: b'"orders"\n'),
    "two rows in a line": _line("found invalid JSON", lambda line: line.rstrip() * 2 + b"\n"),
    "a deep list": _text("wanted a row", b'"replicas":[', b'"replicas":' + b"[" * 100_000),
    "a key twice": _text("found a duplicate key", b'"topic":"orders"', b'"topic":"orders","topic":"orders"'),
    "a number that is not JSON": _text("wanted a row", b'"recordValid":true', b'"recordValid":NaN'),
    "half a surrogate pair": _text("found half of a character", b'"topic":"orders"', b'"topic":"\\ud800"'),
    "no kind": _row("kind: found no text", _without("kind")),
    "another kind": _fields('kind: found "other"', kind="other"),
    "a second first row": _lines('kind: found "cluster"', lambda lines: [*lines[:2], lines[0], *lines[3:]]),
    "a name that is a number": _fields("topic: found 5", topic=5),
    "a name that is null": _fields("topic: found nothing", topic=None),
    "an empty name": _fields("topic", topic=""),
    "no config": _row("config", _without("config")),
    "no replicas": _row("replicas", _without("replicas")),
    "an unknown field": _fields("vendor", vendor=1),
    "a value that is a number": _fields("config", config={"retention.ms": 5}),
    "a value that is null": _fields("config", config={"retention.ms": None}),
    "a config that is a list": _fields("config", config=["retention.ms"]),
    "a negative broker": _fields("replicas", replicas=[[1, 2], [2, -3], [3, 1]]),
    "a broker that is null": _fields("replicas", replicas=[[1, 2], [2, None], [3, 1]]),
    "a broker that is a text": _fields("replicas", replicas=[[1, 2], [2, "3"], [3, 1]]),
    "a broker that is no integer": _fields('found the number "3.5"', replicas=[[1, 2], [2, 3.5], [3, 1]]),
    "a broker with a fraction of zero": _text("wanted a row", b'"replicas":[[1,', b'"replicas":[[1.0,'),
    "a broker with an exponent": _text("wanted a row", b'"replicas":[[1,', b'"replicas":[[1e0,'),
    "a broker that is too large": _fields("replicas", replicas=[[1, 2**31], [2, 3], [3, 1]]),
    "a broker beyond all integers": _fields("replicas", replicas=[[1, 2**70], [2, 3], [3, 1]]),
    "a partition that is null": _fields("replicas", replicas=[[1, 2], None, [3, 1]]),
    "a truth in words": _fields("deleting", deleting="false"),
    "a truth in numbers": _fields("deleting", deleting=0),
    "an identity with a space": _fields("identity", identity="7 8"),
    "neither identity nor error": _fields("identity", identity=None),
    "an error beside an identity": _fields("identity", readError="is no JSON", readErrorPath="/brokers/topics/orders"),
    "an error without its path": _fields("readError", readError="is no JSON", identity=None),
    "as many ids as no lists": _fields("partitionIds: found 2", partitionIds=[0, 5]),
    "ids in no order": _fields("partitionIds", partitionIds=[0, 7, 5]),
    "ids that need no field": _fields("partitionIds: found 0 to n-1", partitionIds=[0, 1, 2]),
    "a partition in flight that is none": _fields("reassigningPartitions", reassigningPartitions=[9]),
    "partitions in flight in no order": _fields("reassigningPartitions", reassigningPartitions=[1, 0]),
    "a record with keys in no order": _fields("record.config", record={**_RECORD, "config": ["b", "a"]}),
    "a record without an owner": _fields("record", record={"config": [], "absent": False}),
    "a record with more": _fields("record", record={**_RECORD, "more": 1}),
    "another cluster": _fields("cluster", cluster="other"),
    "another time": _fields("takenAt", takenAt="2025-01-31T12:00:01Z"),
    "a time that is none": _fields("takenAt", takenAt="yesterday"),
    "the name of another row": _fields('topic: found "clicks" twice', topic="clicks"),
    "a row less": _lines("is truncated: found 2 rows", lambda lines: [*lines[:2], *lines[3:]], 0),
    "a cut end": _lines("found invalid JSON", lambda lines: [*lines[:3], lines[3][:40]], 4),
    "a row more": _lines(
        "has extra rows: found 4 rows",
        lambda lines: [*lines, _encode({**json.loads(lines[2]), "topic": "__consumer_offsets"})],
        0,
    ),
    "a first row that is none": _lines("wanted a row", lambda lines: [b"\xff\n", *lines[1:]], 0),
    "a first row of a topic": _lines('kind: found "topic"', lambda lines: lines[1:], 0),
    "a newer format": _lines(
        "formatVersion: found 99", lambda lines: [_encode({**json.loads(lines[0]), "formatVersion": 99}), *lines[1:]], 0
    ),
    "a day that no calendar has": _lines(
        "takenAt", lambda lines: [line.replace(b"2025-01-31T", b"2025-02-31T") for line in lines], 0
    ),
    "brokers in no order": _lines(
        "brokers",
        lambda lines: [
            _encode({**json.loads(lines[0]), "brokers": [*reversed(json.loads(lines[0])["brokers"])]}),
            *lines[1:],
        ],
        0,
    ),
    "an empty file": _lines("found an empty file", lambda lines: [], 0),
    "carriage returns": _lines("", lambda lines: [line.replace(b"\n", b"\r\n") for line in lines]),
    "spaces": _line("", lambda line: json.dumps(json.loads(line)).encode() + b"\n"),
    "fields in another order": _row("", lambda row: dict(reversed(row.items()))),
    "rows in another order": _lines("", lambda lines: [lines[0], *reversed(lines[1:])]),
    "no last line break": _lines("", lambda lines: [*lines[:3], lines[3].rstrip(b"\n")]),
    "text as escapes": _text("", b'"orders"', b'"\\u006frders"'),
}
"""Hostile rows of every kind by name."""


def cluster_name(kind: str) -> str:
    """Return the name of the cluster with a hostile row."""
    return kind.lower().replace(" ", "-")


def write_hostile_fleet(folder: Path, kinds: Mapping[str, HostileRow] = HOSTILE_ROWS) -> tuple[Path, Path]:
    """Write the manifests and the snapshots of a fleet with a cluster for each kind; return both folders."""
    names = [cluster_name(kind) for kind in kinds]
    manifests = write_manifests(folder / "manifests", names, *(topic_document(topic, names) for topic in TOPICS))
    snapshots = folder / "snapshots"
    snapshots.mkdir()
    for name, row in zip(names, kinds.values(), strict=True):
        state = cluster_state(name, *map(owned_topic, TOPICS))
        lines = [*dump_snapshot(Snapshot(name, SNAPSHOT_TIME, state))]
        (snapshots / file_name(name)).write_bytes(b"".join(row.change(lines)))
    return manifests, snapshots
