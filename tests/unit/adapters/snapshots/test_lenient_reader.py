"""Cached snapshot rows: the caching reader accepts and rejects the same lines as the full reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.drift.small_fleet import SNAPSHOT_TIME, cluster_state, owned_topic
from support.examples import examples
from support.strategies import make_cluster
from topiarist.adapters.snapshots import lenient_reader as module
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot, read_lines
from topiarist.adapters.snapshots.lenient_reader import (
    CachingReader,
    PartialSnapshot,
    ReplicaLists,
    RowRemainder,
    TopicSize,
    read_partial_snapshot,
)
from topiarist.model.state import ClusterState, TopicState


class Taker:
    """A consumer that accepts matching rows and builds topics from them."""

    def __init__(self, fits: Callable[[str], bool] = lambda name: True) -> None:
        self.topics: dict[str, TopicState] = {}
        self._fits = fits

    def settle(self, name: str, lists: ReplicaLists, rest: RowRemainder) -> bool:
        """Accept a topic without its identity and topic id, which are not available here."""
        row = rest.row
        if not self._fits(name):
            return False
        assert (row["readError"], row["partitionIds"], row["reassigningPartitions"]) == (None, None, [])
        assert lists.size == TopicSize(len(lists.replicas), frozenset(map(len, lists.replicas)))
        assert lists.brokers == {broker for ids in lists.replicas for broker in ids}
        made = cluster_state("x", TopicState(name, "7", lists.replicas, row["config"]))
        self.topics[name] = replace(
            made.topics[name],
            record_valid=row["recordValid"],
            modified_externally=row["modifiedExternally"],
            unknown_fields=tuple(row["unknownFields"]),
        )
        return True


def bare(topic: TopicState) -> TopicState:
    """Return a topic without its identity, topic id and record."""
    return replace(topic, identity="7", topic_id=None, record=None)


def both(path: Path, taker: Taker, skimmer: CachingReader) -> tuple[PartialSnapshot, PartialSnapshot]:
    """Read a file with and without the consumer, and compare accepted plus remaining topics with all topics."""
    short, full = (
        read_partial_snapshot(str(path), read_lines(path), skimmer, taker.settle),
        read_partial_snapshot(str(path), read_lines(path)),
    )
    assert short.invalid_rows == full.invalid_rows
    assert (short.state is None) is (full.state is None)
    if short.state and full.state:
        there = {name: bare(topic) for name, topic in full.state.topics.items()}
        left = {name: bare(topic) for name, topic in short.state.topics.items()}
        assert left.keys().isdisjoint(taker.topics)
        assert {**left, **taker.topics} == there
        assert replace(
            short.state, topics={}, pending_deletions=frozenset(), reassigning_topics=frozenset()
        ) == replace(full.state, topics={}, pending_deletions=frozenset(), reassigning_topics=frozenset())
    return short, full


def written(state: ClusterState) -> list[bytes]:
    """Return the lines of a snapshot."""
    return list(dump_snapshot(Snapshot("c0", SNAPSHOT_TIME, state)))


def spoilt(random: Random, line: bytes) -> bytes:
    """Return a line with a few changed characters; the result may be a valid row with another content."""
    changed = bytearray(line)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(changed))
        piece = random.choice(
            [b"0", b"1", b"-", b",", b"[", b"]", b'"', b"}", b" ", b"\\", b"\\u0041", b"\xff", b"", b"\n"]
        )
        changed[at : at + random.randint(0, 2)] = piece
    return bytes(changed)


@examples(400)
@given(st.integers(0, 1 << 40))
def test_nothing_is_taken_that_would_not_be_read(seed: int) -> None:
    """Files with damaged lines give the same rows and the same invalid lines as a full read.

    One caching reader reads two random files.
    """
    random, skimmer = Random(seed), CachingReader()
    with TemporaryDirectory() as folder:
        for number in range(2):
            state, _ = make_cluster(seed % 50, 1 + seed % 12, (0.0, 0.1)[seed % 2])
            lines = written(state)
            lines = [lines[0], *(spoilt(random, line) if random.random() < 0.3 else line for line in lines[1:])]
            path = Path(folder, f"{number}.jsonl")
            path.write_bytes(b"".join(lines))
            both(path, Taker(lambda name: random.random() < 0.8), skimmer)


def read(tmp_path: Path, *lines: bytes) -> tuple[Taker, PartialSnapshot]:
    """Read lines after a valid first row and two topics that fill the cache with their texts."""
    head, *good = written(cluster_state("c0", owned_topic("orders"), owned_topic("users")))
    row = {**json.loads(head), "rows": len(good) + len(lines)}
    path = tmp_path / "c0.jsonl"
    path.write_bytes(b"".join([json.dumps(row, separators=(",", ":")).encode() + b"\n", *good, *lines]))
    taker = Taker()
    short, _ = both(path, taker, CachingReader())
    return taker, short


def line(name: str = "clicks") -> bytes:
    """Return a line with the same texts as the other topics."""
    return list(dump_snapshot(Snapshot("c0", SNAPSHOT_TIME, cluster_state("c0", owned_topic(name)))))[1]


def test_a_known_text_is_taken(tmp_path: Path) -> None:
    """Topics that differ only in name and numbers are accepted from the cache."""
    taker, found = read(
        tmp_path,
        line().replace(b'"identity":"7","topicId":null', b'"identity":"mW3xE0uVfLpA7sYkR1TQ9g","topicId":"Ab-_1"'),
    )
    assert sorted(taker.topics) == ["clicks", "orders", "users"]
    assert (found.invalid_rows, found.state and found.state.topics) == ((), {})


BROKEN = {
    "a name twice": (b"clicks", b"orders"),
    "another cluster": (b'"c0"', b'"c1"'),
    "another time": (b"2025", b"2026"),
    "a number as identity": (b'"identity":"7"', b'"identity":7'),
    "an empty identity": (b'"identity":"7"', b'"identity":""'),
    "no identity": (b'"identity":"7"', b'"identity":'),
    "a list that is open": (b"[1,2],", b"[1,2,"),
    "a number in place of a list": (b"[1,2],", b"1,"),
    "no broker": (b"[1,2],", b"[1,2147483648],"),
    "an empty place": (b"[1,2],", b"[1,,2],"),
    "lists too deep": (b"[1,2],", b"[[1],2],"),
    "half a line": (b'"readError":null}', b'"readError":null'),
    "something behind it": (b'"readError":null}', b'"readError":null} x'),
    "a key twice": (b'"deleting":false', b'"deleting":false,"deleting":false'),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())
def test_a_line_that_is_no_row_is_broken_whatever_is_known(case: tuple[bytes, bytes], tmp_path: Path) -> None:
    """An invalid line is reported with its number and ignored, also if its text is in the cache."""
    assert case[0] in line()
    taker, found = read(tmp_path, line().replace(*case, 1))
    assert [one.line for one in found.invalid_rows] == [4]
    assert sorted(taker.topics) == ["orders", "users"]


def test_a_row_of_another_form_is_read_in_full(tmp_path: Path) -> None:
    """A row with spaces, another order of keys, or a name that needs escapes is read in full."""
    row = json.loads(line())
    loose = json.dumps(row).encode() + b"\n"
    turned = json.dumps({**dict(reversed(row.items())), "topic": "b"}, separators=(",", ":")).encode() + b"\n"
    taker, found = read(tmp_path, loose, turned, line("ü"))
    assert sorted(taker.topics) == ["orders", "users"]
    assert found.state
    assert sorted(found.state.topics) == ["b", "clicks", "ü"]


def test_no_more_texts_are_kept_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet in which every topic has another text is read completely, and the cache stays within its limit."""
    monkeypatch.setattr(module, "_MAX_CACHED_TEXTS", 3)
    topics = [owned_topic(f"t{number}", {"retention.ms": str(number)}, replicas=((number,),)) for number in range(20)]
    path = tmp_path / "c0.jsonl"
    path.write_bytes(b"".join(dump_snapshot(Snapshot("c0", SNAPSHOT_TIME, cluster_state("c0", *topics)))))
    taker, skimmer = Taker(), CachingReader()
    both(path, taker, skimmer)
    assert len(taker.topics) == 20
    assert len(skimmer._remainders) <= 3
    assert len(skimmer._replica_lists) <= 3
