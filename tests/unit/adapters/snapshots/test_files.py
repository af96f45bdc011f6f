"""Snapshot files: every state is written and read back without loss, and no secret is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import state, topic
from support.drift.small_fleet import SNAPSHOT_TIME as FLEET_TIME
from support.snapshots import FULL_SIZES, FULL_STATE, SNAPSHOT_TIME, snapshot_error, snapshot_lines, write_snapshot_rows
from support.strategies import PlanInput, plan_inputs
from topiarist.adapters.size_limits import REQUEST_LIMITS, build_list_limits
from topiarist.adapters.snapshots import files
from topiarist.adapters.snapshots.files import Snapshot, SnapshotFiles, dump_snapshot, file_name, load_snapshot
from topiarist.errors import Reason
from topiarist.kafka.types import Broker, ClusterMode
from topiarist.model.access import KafkaAccess, ZooKeeperAccess
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import APACHE_KAFKA, ClusterState, TopicState, WriteBlock
from topiarist.planning.planner import make_plan
from topiarist.schema import load as load_


def plain(state: ClusterState) -> ClusterState:
    """Return the state with partition ids as adapters return them: a range only if no id is missing."""
    topics = {
        name: topic if topic.has_contiguous_partitions else replace(topic, partition_ids=tuple(topic.partition_ids))
        for name, topic in state.topics.items()
    }
    return replace(state, topics=topics)


def renamed(state: ClusterState, names: Mapping[str, str]) -> ClusterState:
    """Return the state with other topic names."""
    return replace(
        state,
        topics={names[name]: replace(topic, name=names[name]) for name, topic in state.topics.items()},
        dangling_records={names[name]: record for name, record in state.dangling_records.items()},
        topic_errors={names[name]: fault for name, fault in state.topic_errors.items()},
        pending_deletions=frozenset(names[name] for name in state.pending_deletions),
        reassigning_topics=frozenset(names[name] for name in state.reassigning_topics),
        stale_reassignments=frozenset(names[name] for name in state.stale_reassignments),
    )


@given(plan_inputs(), st.lists(st.text(min_size=1), min_size=10, max_size=10, unique=True), st.text(), st.text())
def test_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory, world: PlanInput, odd: list[str], name: str, word: str
) -> None:
    """Any state, with any topic names, is read back equal and in order, with the cluster's name and the time."""
    state = world.state
    known = sorted(
        {
            *state.topics,
            *state.dangling_records,
            *state.topic_errors,
            *state.pending_deletions,
            *state.reassigning_topics,
        }
    )
    state = plain(renamed(state, dict(zip(known, odd, strict=False))))
    state = replace(state, warnings=(word, name), brokers=(*state.brokers, Broker(77, word)))
    path = write_snapshot_rows(tmp_path_factory.getbasetemp(), snapshot_lines(state, name), "any.jsonl")
    found = load_snapshot(path)
    assert found == Snapshot(name, SNAPSHOT_TIME, state)
    assert list(found.state.topics) == list(state.topics)
    assert list(dump_snapshot(found)) == snapshot_lines(state, name)


def test_every_field_of_a_state_is_kept(tmp_path: Path) -> None:
    """A state without default values is read back equal. A new field must be added to the rows too; only the three
    that no plan depends on are left out.
    """
    bare = ClusterState("", ())
    for name in set(ClusterState.__struct_fields__) - {"deletion_records", "records_error", "records_topic_id"}:
        assert getattr(FULL_STATE, name) != getattr(bare, name), name
    for name in TopicState.__struct_fields__:
        assert getattr(FULL_STATE.topics["odd"], name) != getattr(TopicState("", "0", ()), name), name
    assert load_snapshot(write_snapshot_rows(tmp_path, snapshot_lines())) == Snapshot("eu", SNAPSHOT_TIME, FULL_STATE)


def test_every_write_block_is_kept(tmp_path: Path) -> None:
    """Whatever keeps writes from a cluster is in its snapshot, also that its brokers do not offer what writes need."""
    reasons = [Reason.KRAFT_CONTROLLER, Reason.KRAFT_MIGRATION, Reason.FROZEN, Reason.RECORDS_NOT_MOVED]
    for reason in (*reasons, Reason.MOVED_BACK, Reason.NO_CONTROLLER, Reason.NOT_OFFERED):
        state = replace(FULL_STATE, write_block=WriteBlock(reason, "why"))
        assert load_snapshot(write_snapshot_rows(tmp_path, snapshot_lines(state))).state == state


@given(plan_inputs())
def test_the_plan_is_that_of_the_state(tmp_path_factory: pytest.TempPathFactory, world: PlanInput) -> None:
    """A plan from a snapshot equals the plan from the cluster."""
    world = world._replace(state=plain(world.state))
    path = write_snapshot_rows(tmp_path_factory.getbasetemp(), snapshot_lines(world.state, "prod"), "plan.jsonl")
    assert make_plan(load_snapshot(path).state, world.cluster, world.specs, world.run) == world.plan()


@cache
def validator() -> jsonschema.Draft7Validator:
    """Return a validator for the schema in the repository."""
    jsonschema.Draft7Validator.check_schema(load_.load_schema("snapshot"))
    return jsonschema.Draft7Validator(load_.load_schema("snapshot"))


YOUNGER = {
    "assignsTopicIds",
    "staleReassignments",
    "requestedReassignments",
    "requestedAt",
    "batch",
    "batchAt",
    "mode",
    "via",
    "knownConfigs",
    "fencedBrokers",
    "capabilities",
    "evidence",
}
"""Fields that the rows of earlier releases do not have."""


def test_a_snapshot_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    """Fields that the rows of an earlier release do not have are derived from the topics."""
    for topic_id in (None, "one"):
        topics = {"orders": TopicState("orders", "1", ((1,),), topic_id=topic_id)}
        state = replace(
            FULL_STATE,
            topics=topics,
            assigns_topic_ids=topic_id is not None,
            stale_reassignments=frozenset(),
            mode=ClusterMode.ZOOKEEPER,
            bypasses_brokers=True,
            known_configs=None,
            fenced_brokers={},
            capabilities=APACHE_KAFKA,
            requested_reassignments=(),
            requested_at_ms=None,
            batch=None,
            batch_at_ms=None,
            evidence=None,
            usage={},
        )
        first, *rows = map(json.loads, snapshot_lines(state))
        older = {key: value for key, value in first.items() if key not in YOUNGER}
        found = load_snapshot(
            write_snapshot_rows(tmp_path, [json.dumps(row).encode() + b"\n" for row in (older, *rows)])
        )
        assert found.state == state


def test_a_snapshot_of_a_cluster_behind_its_brokers(tmp_path: Path) -> None:
    """It has no lists that brokers read from ZooKeeper, the limits of a request, and another limit changes nothing."""
    state = replace(FULL_STATE, size_limits=REQUEST_LIMITS)
    path = write_snapshot_rows(tmp_path, snapshot_lines(state))
    assert load_snapshot(path, 5_000_000).state == state
    row = json.loads(snapshot_lines(state)[0])
    assert (row["via"], row["topicListBytes"], row["notificationListBytes"], row["replyLimitBytes"]) == (
        "Kafka",
        None,
        None,
        None,
    )
    assert list(validator().iter_errors(row)) == []


def test_times_are_kept_in_whole_seconds_and_no_clock_breaks_a_snapshot(tmp_path: Path) -> None:
    """Fractions of a second are dropped; a time after the year 9999 is left out."""
    for found, kept in ((1_738_324_800_999, 1_738_324_800_000), (2**62, None)):
        rows = snapshot_lines(replace(FULL_STATE, requested_at_ms=found, batch_at_ms=found))
        state = load_snapshot(write_snapshot_rows(tmp_path, rows)).state
        assert (state.requested_at_ms, state.batch_at_ms) == (kept, kept)


def test_every_row_is_as_its_schema_says() -> None:
    """Every row is valid by the schema, and a row of an unknown kind is not."""
    for line in snapshot_lines():
        assert list(validator().iter_errors(json.loads(line))) == []
    assert not validator().is_valid({**json.loads(snapshot_lines()[1]), "kind": "other"})


def test_every_field_of_the_schema_is_described_and_every_one_is_written() -> None:
    """The rows have exactly the fields of the schema, and each field has a description."""
    definitions = load_.load_schema("snapshot")["definitions"]
    for line in snapshot_lines():
        row = json.loads(line)
        assert list(row) == list(definitions[row["kind"]]["properties"])
        assert [field for field in row if field not in YOUNGER] == definitions[row["kind"]]["required"]
    for part in definitions.values():
        for name, field in part.get("properties", {}).items():
            assert "$ref" in field or field["description"].endswith("."), name


def test_each_row_makes_sense_by_itself() -> None:
    """Every row has the name of the cluster, the time and its kind; the first has the number of rows; all are ASCII."""
    rows = [json.loads(line) for line in snapshot_lines()]
    assert {(row["cluster"], row["takenAt"]) for row in rows} == {("eu", "2025-01-31T12:00:59Z")}
    assert [row["kind"] for row in rows] == ["cluster", "topic", "topic", "topic", "record", "record", "usage"]
    assert rows[0]["rows"] == 6
    assert all(line.isascii() and line.endswith(b"\n") for line in snapshot_lines())


def test_settings_of_brokers_that_bear_on_no_topic_stay_behind() -> None:
    """Listener passwords, key stores and their paths in dynamic broker settings are not written to a snapshot."""
    secrets = {
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": "planted password",
        "ssl.keystore.password": "planted password",
        "ssl.keystore.location": "planted path",
    }
    state = replace(FULL_STATE, broker_defaults={**secrets, "log.retention.hours": "5"})
    text = b"".join(snapshot_lines(state))
    assert b"planted" not in text
    assert json.loads(snapshot_lines(state)[0])["brokerDefaults"] == {"log.retention.hours": "5"}


# Snapshots of a run: files are matched to the clusters of the manifests by content, from one file or a folder.


@pytest.mark.parametrize("name", ["absent.jsonl", "folder.jsonl", "\0"])
def test_what_is_no_file_is_said(tmp_path: Path, name: str) -> None:
    """A missing file, a folder and an invalid file name are errors."""
    (tmp_path / "folder.jsonl").mkdir()
    assert "cannot be read" in snapshot_error(load_snapshot, tmp_path / name)


def test_a_device_is_not_read() -> None:
    """A device is refused before it is read, because it may have no end."""
    assert "/dev/zero: found no regular file" in snapshot_error(load_snapshot, Path("/dev/zero"))


def test_a_folder_has_a_file_for_each_cluster(tmp_path: Path) -> None:
    """Clusters are found by the content of the files, not by file names; other and hidden files are ignored."""
    write_snapshot_rows(tmp_path, snapshot_lines(name="eu"), "first.jsonl")
    write_snapshot_rows(tmp_path, snapshot_lines(replace(FULL_STATE, cluster_id="other"), name=""), file_name(""))
    write_snapshot_rows(tmp_path, [b"?"], "README.md")
    write_snapshot_rows(tmp_path, [b"?"], ".eu.jsonl.0123.part")
    found = SnapshotFiles(tmp_path)
    assert found.read(ClusterSpec(name="eu")).cluster_id == "7sYk"
    assert found.read(ClusterSpec()).cluster_id == "other"
    assert found.taken_at == {"eu": SNAPSHOT_TIME, "": SNAPSHOT_TIME}
    assert SnapshotFiles(tmp_path / "default.jsonl").read(ClusterSpec()).cluster_id == "other"


def test_a_cluster_without_a_snapshot_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    """The error names the cluster without a snapshot, the path, and the clusters that have one."""
    path = write_snapshot_rows(tmp_path, snapshot_lines())
    words = snapshot_error(SnapshotFiles(path).read, ClusterSpec(name="us"))
    assert words == f"{path} has no snapshot of cluster us\n    it has cluster eu"
    assert "no snapshot of the cluster without a name" in snapshot_error(SnapshotFiles(path).read, ClusterSpec())


def test_a_folder_without_snapshots_or_with_two_of_one_cluster_is_no_use(tmp_path: Path) -> None:
    """A folder without snapshots, or with two snapshots of one cluster, is an error before planning."""
    assert f"{tmp_path} has no file *.jsonl" in snapshot_error(SnapshotFiles, tmp_path)
    write_snapshot_rows(tmp_path, snapshot_lines(), "a.jsonl")
    write_snapshot_rows(tmp_path, snapshot_lines(), "b.jsonl")
    assert "b.jsonl: found cluster eu, as in " in snapshot_error(SnapshotFiles, tmp_path)
    write_snapshot_rows(tmp_path, [b"?"], "b.jsonl")
    assert "b.jsonl:1: found invalid JSON" in snapshot_error(SnapshotFiles, tmp_path)


@pytest.mark.parametrize("connect", ["", "zk1:2181/kafka", "zk1:2181,zk2:2181/kafka/", "zk1:2181//kafka"])
def test_the_limit_is_that_of_the_run(tmp_path: Path, connect: str) -> None:
    """``maxBuffer`` comes from the manifest and not from the snapshot, as it does with a live cluster."""
    state = SnapshotFiles(write_snapshot_rows(tmp_path, snapshot_lines())).read(
        ClusterSpec(name="eu", zookeeper=ZooKeeperAccess(connect, 5_000_000))
    )
    assert state == replace(FULL_STATE, size_limits=build_list_limits(FULL_SIZES._replace(max_bytes=5_000_000)))


@pytest.mark.parametrize(("connect", "wanted"), [("zk1:2181/other", "/other"), ("zk1:2181", "/")])
def test_an_address_that_leads_to_another_chroot_is_another_cluster(tmp_path: Path, connect: str, wanted: str) -> None:
    """A snapshot of another chroot is refused, unless the cluster id of the manifest matches that of the snapshot."""
    words = snapshot_error(
        SnapshotFiles(write_snapshot_rows(tmp_path, snapshot_lines())).read,
        ClusterSpec(name="eu", zookeeper=ZooKeeperAccess(connect)),
    )
    assert f"was taken at chroot /kafka, and the address of its Cluster has {wanted}" in words
    by_brokers = ClusterSpec(name="eu", kafka=KafkaAccess("b1:9092"))
    assert SnapshotFiles(tmp_path).read(by_brokers).chroot == "/kafka"
    spec = ClusterSpec(name="eu", zookeeper=ZooKeeperAccess(connect), cluster_id="7sYk")
    assert SnapshotFiles(tmp_path).read(spec).chroot == "/kafka"


# Reading of snapshot files: invalid files are refused with the line of the error.


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


WRONG: list[tuple[list[bytes], int, str]] = [
    ([], 0, "found an empty file, wanted a snapshot"),
    ([b"\n"], 1, "found invalid JSON at column 1 (Expecting value), wanted a row"),
    ([b"[]\n"], 1, "found JSON that is not an object, wanted a row"),
    ([b"\xff\n"], 1, "found the byte 0xff at byte 1, not UTF-8, wanted a row"),
    (snapshot_lines()[1:], 1, 'kind: found "topic", wanted cluster'),
    ([b"{}\n"], 1, "kind: found no text, wanted cluster"),
    ([*snapshot_lines(), snapshot_lines()[0]], 8, 'kind: found "cluster", wanted topic or record or usage'),
    (changed(1, formatVersion=3), 1, "formatVersion: found 3, wanted 2: a newer release of topiarist wrote it"),
    (changed(1, formatVersion=0), 1, "formatVersion: found 0, wanted a whole number from 1 to 2"),
    (changed(1, takenAt="2025-02-30T00:00:00Z"), 1, 'takenAt: found "2025-02-30T00:00:00Z", wanted a valid time'),
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
    rows = snapshot_lines(state(*topics))
    words = snapshot_error(
        load_snapshot, write_snapshot_rows(tmp_path, [rows[0], *(row.replace(b"false", b"5") for row in rows[1:])])
    )
    assert [line.split(":")[1] for line in words.split("\n")[:-1]] == [str(line) for line in range(2, 12)]
    assert words.split("\n")[0].count("wanted true or false") == 5 - 1


PIECES = [
    *(b'"', b"{", b"}", b"[", b"]", b",", b":"),
    *(b"null", b"true", b"-1", b"1e999", b"\\ud800", b"\n", b"\x00", b"\xff"),
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
    cluster_state = state(*(topic(f"t{number}") for number in range(2000)))
    path = write_snapshot_rows(tmp_path, list(dump_snapshot(Snapshot("c", FLEET_TIME, cluster_state))))
    many = load_snapshot(path)
    monkeypatch.setattr(files, "MAX_ROW_BYTES", path.stat().st_size // 2)
    assert load_snapshot(path) == many
    assert many.state == cluster_state
