"""Reading of snapshot files: invalid files are refused with the line of the error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.drift.small_fleet import SNAPSHOT_TIME as FLEET_TIME
from support.snapshots import snapshot_error, snapshot_lines, write_snapshot_rows
from support.states import cluster, topic
from topiarist.adapters.snapshots import files
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot, load_snapshot


@pytest.mark.slow
def test_a_file_that_was_cut_off_anywhere_is_no_snapshot(tmp_path: Path) -> None:
    """A truncated snapshot is refused at every length; only the last line end is optional."""
    text = b"".join(snapshot_lines())
    taken = [
        size
        for size in range(len(text) + 1)
        if not snapshot_error(load_snapshot, write_snapshot_rows(tmp_path, [text[:size]]))
    ]
    assert taken == [len(text) - 1, len(text)]
    assert "is truncated: found 5 rows after the first, wanted 6" in snapshot_error(
        load_snapshot, write_snapshot_rows(tmp_path, snapshot_lines()[:-1])
    )
    more = [*snapshot_lines(), snapshot_lines()[-1].replace(b"orders", b"more")]
    assert "has extra rows: found 7 rows after the first, wanted 6" in snapshot_error(
        load_snapshot, write_snapshot_rows(tmp_path, more)
    )


def changed(number: int, **values: Any) -> list[bytes]:
    """Return the lines with changed values in one line, counted from 1; ``drop`` lists the fields to remove."""
    found = snapshot_lines()
    row = json.loads(found[number - 1])
    for name in values.pop("drop", ()):
        del row[name]
    found[number - 1] = json.dumps({**row, **values}).encode() + b"\n"
    return found


def as_text(number: int, old: str, new: str) -> list[bytes]:
    """Return the lines with a replaced text in one line."""
    found = snapshot_lines()
    assert old.encode() in found[number - 1]
    found[number - 1] = found[number - 1].replace(old.encode(), new.encode("utf-8", "surrogateescape"), 1)
    return found


WRONG: list[tuple[list[bytes], int, str]] = [
    ([], 0, "found an empty file, wanted a snapshot"),
    ([b"\n"], 1, "found invalid JSON at column 1 (Expecting value), wanted a row"),
    ([b"[]\n"], 1, "found JSON that is not an object, wanted a row"),
    ([b"\xff\n"], 1, "found the byte 0xff at byte 1, not UTF-8, wanted a row"),
    ([b"[" * 100_000], 1, "found JSON that is nested too deeply, wanted a row"),
    (snapshot_lines()[1:], 1, 'kind: found "topic", wanted cluster'),
    ([b"{}\n"], 1, "kind: found no text, wanted cluster"),
    ([*snapshot_lines(), snapshot_lines()[0]], 8, 'kind: found "cluster", wanted topic or record or usage'),
    (changed(1, formatVersion=3), 1, "formatVersion: found 3, wanted 2: a newer release of topiarist wrote it"),
    (changed(1, formatVersion=0), 1, "formatVersion: found 0, wanted a whole number from 1 to 2"),
    (
        changed(1, takenAt="2025-02-30T00:00:00Z"),
        1,
        'takenAt: found "2025-02-30T00:00:00Z", wanted a valid time',
    ),
    (
        changed(1, requestedAt="2025-13-01T00:00:00Z"),
        1,
        'requestedAt: found "2025-13-01T00:00:00Z", wanted a valid time',
    ),
    (changed(1, takenAt="yesterday"), 1, 'takenAt: found "yesterday", wanted a time such as 2025-01-31T12:00:00Z'),
    (
        changed(1, writeBlockReason="Locked"),
        1,
        'writeBlockReason: found "Locked", wanted KRaftController, KRaftMigration',
    ),
    (
        changed(1, brokers=[{"id": 2, "rack": None}, {"id": 1, "rack": None}]),
        1,
        "brokers: found values that are duplicate or not in ascending order",
    ),
    (changed(1, brokers=[{"id": 2, "rack": 5}]), 1, "brokers[0].rack: found 5, wanted text or null"),
    (
        changed(1, controller="1"),
        1,
        'controller: found "1", wanted a whole number from -2147483648 to 2147483647 or null',
    ),
    (changed(2, identity=7), 2, "identity: found 7, wanted text or null"),
    (changed(2, identity="a b"), 2, 'identity: found "a b", wanted 1 to 64 of the characters a-z, A-Z, 0-9, _ and -'),
    (as_text(2, f'"identity":"{2**62}"', '"identity":1.0'), 2, 'found the number "1.0", wanted only integers'),
    (as_text(2, f'"identity":"{2**62}"', '"identity":NaN'), 2, 'found the number "NaN", wanted only integers'),
    (
        as_text(2, f'"identity":"{2**62}"', f'"identity":{"9" * 5000}'),
        2,
        "found a number with too many digits, wanted a row",
    ),
    (as_text(2, '"config":{', '"config":{"retention.ms":"2",'), 2, "found a duplicate key in an object, wanted a row"),
    (changed(2, deleting="yes"), 2, 'deleting: found "yes", wanted true or false'),
    (changed(2, config={"a": None}), 2, "config.a: found nothing, wanted text"),
    (changed(2, config={"a": "\ud800"}), 2, "found half of a character (a lone surrogate), wanted a row"),
    (changed(2, cluster="us"), 2, 'cluster: found "us", wanted "eu" as in the first row'),
    (changed(2, takenAt="2025-01-31T12:00:58Z"), 2, "takenAt: found"),
    (changed(2, partitionIds=[0, 7, 2]), 2, "partitionIds: found values that are duplicate or not in ascending order"),
    (changed(2, partitionIds=[0, 2]), 2, "partitionIds: found 2, wanted 3: one for each list in replicas"),
    (changed(2, partitionIds=[0, 1, 2], reassigningPartitions=[]), 2, "partitionIds: found 0 to n-1, wanted null"),
    (changed(2, reassigningPartitions=[1]), 2, "reassigningPartitions: found a partition that the topic does not have"),
    (
        changed(2, record={"owner": "a", "config": ["b", "a"], "absent": False}),
        2,
        "record.config: found values that are duplicate or not in ascending order",
    ),
    (
        changed(
            5,
            record={
                "owner": "a",
                "config": [],
                "absent": False,
                "applied": {"partitions": 0, "config": {}, "removeUnmanaged": False},
            },
        ),
        5,
        "record.applied.partitions: found 0, wanted a whole number from 1 or null",
    ),
    (changed(2, drop=["config"]), 2, "config: this required field is missing"),
    (changed(2, surprise=1), 2, "surprise: found an unknown field"),
    (changed(2, readError="broken"), 2, "readError: found one of readError and readErrorPath, wanted both or neither"),
    (changed(2, identity=None), 2, "identity: found both an identity and a readError, or neither, wanted one of them"),
    (changed(3, topic="odd"), 3, 'topic: found "odd" twice'),
    (changed(5, topic="odd"), 5, 'topic: found "odd" twice'),
    (changed(5, record=None), 5, "record: found nothing, wanted a mapping"),
    (changed(1, evidence=None), 7, "kind: found 'usage', and the first row has no evidence"),
    (changed(7, ends=[1]), 7, "ends: found 1 ends, 2 begins, 2 bytes, 2 oldestAt, 2 newestAt, wanted one of each"),
    (changed(7, ends=[-1, 0]), 7, "ends[0]: found -1, wanted"),
    (changed(7, curve=[{"at": "2025-13-01T00:00:00Z", "begins": 0, "ends": 0, "bytes": 0}]), 7, "curve[0].at: found"),
    ([*snapshot_lines(), snapshot_lines()[-1]], 8, 'topic: found "orders" twice'),
]


@pytest.mark.parametrize(("rows", "line", "words"), WRONG, ids=[words[:60] for _, _, words in WRONG])
def test_what_is_no_snapshot_is_refused_at_its_line(tmp_path: Path, rows: list[bytes], line: int, words: str) -> None:
    """The message has the file, the line, the value that was found and the value that was wanted."""
    path = write_snapshot_rows(tmp_path, rows)
    assert f"{path}{f':{line}' if line else ''}: {words}" in snapshot_error(load_snapshot, path)


def test_problems_are_told_together(tmp_path: Path) -> None:
    """One error lists up to ten rows, with up to five problems each."""
    topics = [topic(f"topic-{number:02}") for number in range(30)]
    rows = snapshot_lines(cluster(*topics))
    words = snapshot_error(
        load_snapshot, write_snapshot_rows(tmp_path, [rows[0], *(row.replace(b"false", b"5") for row in rows[1:])])
    )
    assert [line.split(":")[1] for line in words.split("\n")[:-1]] == [str(line) for line in range(2, 12)]
    assert words.split("\n")[0].count("wanted true or false") == 5 - 1


PIECES = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"\\ud800",
    b"\n",
    b"\x00",
    b"\xff",
]


@given(st.data())
def test_any_bytes_are_a_snapshot_or_an_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A damaged or replaced file gives either a valid state or the one expected exception with a printable message."""
    text = b"".join(snapshot_lines())
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(text)))
        piece = data.draw(st.one_of(st.sampled_from(PIECES), st.binary(max_size=6)))
        text = text[:at] + piece + text[at + data.draw(st.integers(0, 12)) :]
    path = write_snapshot_rows(
        tmp_path_factory.getbasetemp(), [data.draw(st.just(text) | st.binary(max_size=80))], "fuzz.jsonl"
    )
    if not snapshot_error(load_snapshot, path):
        assert list(dump_snapshot(load_snapshot(path)))


OTHERS: tuple[Any, ...] = (None, True, -5, "", "x", [], [[]], ["x"], {}, {"x": []}, [0, 0], 2**70)
"""Values of every kind."""


@pytest.mark.slow
def test_any_row_is_a_state_or_an_error(tmp_path: Path) -> None:
    """A row with one value of another type is refused, or gives a state that can be written."""
    for number, line in enumerate(snapshot_lines(), start=1):
        for name in json.loads(line):
            for value in OTHERS:
                path = write_snapshot_rows(tmp_path, changed(number, **{name: value}))
                if not snapshot_error(load_snapshot, path):
                    assert list(dump_snapshot(load_snapshot(path)))


@pytest.mark.parametrize("place", [1, 3])
def test_no_row_is_read_that_is_beyond_all_bounds(place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row above the size limit is refused at any position, so that a line without an end cannot fill the memory."""
    found = snapshot_lines()
    monkeypatch.setattr(files, "MAX_ROW_BYTES", max(map(len, found)))
    assert not snapshot_error(load_snapshot, write_snapshot_rows(tmp_path, found))
    found.insert(place - 1, b" " * max(map(len, found)) + b"\n")
    assert "found a row of more than" in snapshot_error(load_snapshot, write_snapshot_rows(tmp_path, found))


def test_files_of_any_size_are_read_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading line by line and reading many lines at once give the same state."""
    state = cluster(*(topic(f"t{number}") for number in range(2000)))
    path = write_snapshot_rows(tmp_path, list(dump_snapshot(Snapshot("c", FLEET_TIME, state))))
    many = load_snapshot(path)
    monkeypatch.setattr(files, "MAX_ROW_BYTES", path.stat().st_size // 2)
    assert load_snapshot(path) == many
    assert many.state == state
