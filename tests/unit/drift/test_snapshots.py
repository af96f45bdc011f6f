"""The snapshots of a report: selection, broken files, and a message for everything that is ignored."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from support.builders import PROD_CLUSTER
from support.cli.runs import document
from support.drift.small_fleet import (
    REPLICA_LISTS,
    SNAPSHOT_TIME,
    cluster_state,
    owned_topic,
    read_rows,
    read_summary,
    row_keys,
    run_drift,
    topic_document,
    write_manifests,
    write_snapshot,
)
from topiarist.adapters.snapshots.files import read_lines
from topiarist.adapters.snapshots.lenient_reader import CachingReader, read_partial_snapshot
from topiarist.cli.main import run
from topiarist.drift import report
from topiarist.drift.cross_cluster import SpecGroups
from topiarist.drift.equality import EqualityIndex
from topiarist.drift.snapshots import (
    SnapshotFile,
    SnapshotInventory,
    list_files,
    read_snapshot,
    spark_required_reason,
    to_literal_uri,
    to_uri,
)
from topiarist.drift.storage import is_remote, to_local_path
from topiarist.errors import Reason, TopiaristError
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import OwnershipRecord, TopicState

NAMES = ("clicks", "orders", "users")


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """Return the manifests of a cluster that matches them, with its snapshot."""
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu", *map(owned_topic, NAMES)))
    return write_manifests(tmp_path / "manifests", ["eu"], *(topic_document(name, ["eu"]) for name in NAMES))


def eu(tmp_path: Path) -> Path:
    """Return the path of the snapshot."""
    return tmp_path / "snapshots" / "eu.jsonl"


def test_one_of_two_snapshots_of_a_time_counts(
    manifests: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither is newer; unusable files are counted as rows and files."""
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu"), file="a.jsonl")
    (tmp_path / "snapshots" / "b.jsonl").touch()
    (tmp_path / "snapshots" / "c.jsonl").touch()
    assert run_drift(manifests, tmp_path / "report") == 1
    said = capsys.readouterr().err
    assert f"{tmp_path / 'snapshots' / 'a.jsonl'}: ignored, {eu(tmp_path)} of eu is used\n" in said
    assert "2 rows or files not used: " in said


def test_the_newer_of_two_snapshots_counts(manifests: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The newer of two snapshots counts, with any file names and folders, and the message names both."""
    old = write_snapshot(tmp_path / "snapshots" / "z", "eu", cluster_state("eu"), hours=-1, file="z.jsonl")
    assert run_drift(manifests, tmp_path / "report", "--exit-code") == 0
    assert f"{old}: ignored, {eu(tmp_path)} of eu is used" in capsys.readouterr().err
    assert read_summary(tmp_path / "report")["inputs"]["superseded"] == [
        {"cluster": "eu", "file": str(old), "takenAt": "2025-01-31T11:00:00Z", "newer": str(eu(tmp_path))}
    ]


def test_a_snapshot_of_a_stranger_is_named(manifests: Path, tmp_path: Path) -> None:
    """The summary names a snapshot of a cluster without a document, and the run ignores it."""
    path = write_snapshot(tmp_path / "snapshots", "us", cluster_state("us", owned_topic("clicks")))
    assert run_drift(manifests, tmp_path / "report", "--exit-code") == 0
    assert read_summary(tmp_path / "report")["inputs"]["unknownClusters"] == [{"cluster": "us", "file": str(path)}]


def test_of_many_strangers_some_are_named(manifests: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """stderr names 10 of many unknown clusters and the number of the rest; the summary has all of them."""
    for number in range(12):
        write_snapshot(tmp_path / "snapshots", f"other-{number:02d}", cluster_state(f"other-{number:02d}"))
    assert run_drift(manifests, tmp_path / "report") == 0
    said = capsys.readouterr().err
    assert said.count("is not in this run") == 10
    assert "and 2 more\n" in said
    assert len(read_summary(tmp_path / "report")["inputs"]["unknownClusters"]) == 12


def test_snapshots_may_be_given_one_by_one(manifests: Path, tmp_path: Path) -> None:
    """Snapshots may be files and folders, and a file that is given twice counts once."""
    write_snapshot(tmp_path / "other", "us", cluster_state("us"))
    manifests = write_manifests(tmp_path / "manifests", ["eu", "us"], *(topic_document(name, ["eu"]) for name in NAMES))
    words = ("--snapshots", tmp_path / "other" / "us.jsonl", "--snapshots", eu(tmp_path))
    assert run_drift(manifests, tmp_path / "report", "--exit-code", *words) == 0
    assert read_summary(tmp_path / "report")["inputs"]["superseded"] == []


def test_a_cluster_without_a_snapshot_is_one_row(manifests: Path, tmp_path: Path) -> None:
    """A cluster without a snapshot is one row, not one row for each topic: the state of its topics is unknown."""
    write_manifests(tmp_path / "manifests", ["eu", "us"], *(topic_document(name, ["eu", "us"]) for name in NAMES))
    assert run_drift(manifests, tmp_path / "report", "-q", "--exit-code") == 1
    (row,) = read_rows(tmp_path / "report")
    assert (row["cluster"], row["topic"], row["class"], row["expected"]) == ("us", "", "unknown", None)
    assert (row["message"], row["takenAt"]) == ("it has no snapshot", "2025-01-31T12:00:00Z")
    found = read_summary(tmp_path / "report")
    assert found["clusters"] == {"declared": 2, "compared": 1, "unknown": 1}
    assert found["byOwner"] == []  # the row of a whole cluster has no owner
    assert (found["topics"]["declared"], found["topics"]["compared"]) == (6, 3)
    text = (tmp_path / "report" / "summary.md").read_text()
    assert "**1 cluster could not be compared:**\n\n- `us`: it has no snapshot" in text


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "found invalid JSON"),
        ('{"kind":"topic"}', "cluster"),
        ('{"kind":"other"}', 'kind: found "other", wanted topic or record'),
    ],
)
def test_a_broken_row_is_kept_aside_and_its_topic_is_not_judged(
    manifests: Path, tmp_path: Path, line: str, why: str
) -> None:
    """A broken row is listed with its file, line and message. Its topic is no finding, and counted as not judged."""
    rows = eu(tmp_path).read_text().splitlines()
    rows[2] = line
    eu(tmp_path).write_text("\n".join(rows) + "\n")
    assert run_drift(manifests, tmp_path / "report", "-q") == 1
    assert read_rows(tmp_path / "report") == []
    (broken,) = read_rows(tmp_path / "report", "broken.jsonl")
    assert (broken["file"], broken["line"], broken["text"]) == (str(eu(tmp_path)), 3, line)
    assert why in broken["message"]
    found = read_summary(tmp_path / "report")
    assert (found["inputs"]["broken"], found["byCluster"][0]["incomplete"], found["topics"]["inSync"]) == (1, True, 2)
    assert (found["topics"]["compared"], found["topics"]["notJudged"], found["trend"][0]["findings"]) == (2, 1, 0)
    message = f"line 3: {broken['message']}"
    incomplete = {"cluster": "eu", "file": str(eu(tmp_path)), "rows": 1, "notJudged": 1, "message": message}
    assert found["incomplete"] == [incomplete]
    assert (
        "**1 cluster could be compared only in part:**\n\n- `eu`: 1 topic not judged, 1 invalid row in"
        in (tmp_path / "report" / "summary.md").read_text()
    )


def test_a_cut_file_says_how_much_is_missing(manifests: Path, tmp_path: Path) -> None:
    """The row count detects a file that is cut at the end of a line, and the message has the number of missing rows."""
    data = eu(tmp_path).read_bytes().splitlines(keepends=True)
    eu(tmp_path).write_bytes(b"".join(data[:2]))
    assert run_drift(manifests, tmp_path / "report", "-q") == 1
    assert read_rows(tmp_path / "report") == []
    (incomplete,) = read_summary(tmp_path / "report")["incomplete"]
    assert (incomplete["rows"], incomplete["notJudged"]) == (1, 2)
    assert incomplete["message"] == "is truncated: found 1 row after the first, wanted 3"
    (broken,) = read_rows(tmp_path / "report", "broken.jsonl")
    assert (broken["line"], broken["message"]) == (0, "is truncated: found 1 row after the first, wanted 3")


def test_what_a_broken_snapshot_still_says_is_reported(manifests: Path, tmp_path: Path) -> None:
    """Readable rows of a broken snapshot give findings, for a different topic and for an undeclared one."""
    seen = cluster_state(
        "eu",
        owned_topic("clicks", replicas=REPLICA_LISTS[:2]),
        TopicState("guest", "9", REPLICA_LISTS),
        owned_topic("users"),
    )
    path = write_snapshot(tmp_path / "snapshots", "eu", seen)
    path.write_text(path.read_text() + "?\n")
    assert run_drift(manifests, tmp_path / "report", "-q") == 1
    assert row_keys(read_rows(tmp_path / "report")) == [
        ("eu", "clicks", "partitions", "partitions"),
        ("eu", "guest", "unexpected", ""),
    ]


def test_a_topic_that_is_known_to_be_gone_is_missing_beside_a_gap_too(manifests: Path, tmp_path: Path) -> None:
    """A topic with a dangling record is missing even in an incomplete snapshot: the record proves its deletion."""
    gone = cluster_state(
        "eu", owned_topic("clicks"), owned_topic("users"), dangling_records={"orders": OwnershipRecord("default")}
    )
    path = write_snapshot(tmp_path / "snapshots", "eu", gone)
    path.write_text(path.read_text() + "?\n")
    run_drift(manifests, tmp_path / "report", "-q")
    (row,) = read_rows(tmp_path / "report")
    assert (row["topic"], row["class"], row["reasons"]) == ("orders", "missing", ["DeletedExternally"])
    assert row["owner"] == "default"


@pytest.mark.parametrize(("content", "line"), [("", 0), ("?\n?\n", 1), ('{"kind":"topic"}\n{}\n', 1)])
def test_a_file_that_begins_as_no_snapshot_is_named(manifests: Path, tmp_path: Path, content: str, line: int) -> None:
    """A file without a valid first row, which names its cluster, is one error and not one for each line, and a cluster
    without another snapshot is unknown.
    """
    (error,) = read_partial_snapshot("x.jsonl", io.BytesIO(content.encode())).invalid_rows
    assert error.line == line
    eu(tmp_path).write_text(content)
    assert run_drift(manifests, tmp_path / "report", "-q") == 1
    assert row_keys(read_rows(tmp_path / "report")) == [("eu", "", "unknown", "")]
    (broken,) = read_rows(tmp_path / "report", "broken.jsonl")
    assert str(eu(tmp_path)) in broken["message"]


def test_a_snapshot_of_another_cluster_than_is_meant_is_not_compared(manifests: Path, tmp_path: Path) -> None:
    """A snapshot with another cluster id or chroot than the document of its cluster is not compared."""
    text = (manifests / "all.yaml").read_text()
    for field, value, why in (
        ("clusterId", "other", "found cluster id eu, wanted other (clusterId)"),
        (
            "zookeeper",
            {"connect": "zk:2181/kafka"},
            f"{eu(tmp_path)} was taken at chroot /, and the address of its Cluster has",
        ),
    ):
        changed = text.replace('"kafkaVersion": "3.9"', f'"kafkaVersion": "3.9", "{field}": {json.dumps(value)}')
        (manifests / "all.yaml").write_text(changed)
        assert run_drift(manifests, tmp_path / "report", "-q") == 1
        (row,) = read_rows(tmp_path / "report")
        assert row["class"] == "unknown"
        assert row["message"].startswith(why)


@pytest.mark.parametrize(("path", "why"), [("nowhere", "there is no such file"), ("empty", "has no file *.jsonl")])
def test_a_path_without_snapshots_is_an_error(
    manifests: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, why: str
) -> None:
    """A path without snapshots ends with one error line and no report."""
    (tmp_path / "empty").mkdir()
    assert run_drift(manifests, tmp_path / "report", "--snapshots", tmp_path / path) == 1
    assert f"error: {tmp_path / path}" in (said := capsys.readouterr().err)
    assert why in said
    assert not (tmp_path / "report").exists()


def test_an_unusable_file_is_named_by_what_ends_its_read(tmp_path: Path) -> None:
    """Broken rows before are errors of those rows alone."""
    path = tmp_path / "eu.jsonl"
    data = write_snapshot(tmp_path, "eu", cluster_state("eu", owned_topic("a"))).read_bytes()

    def lines() -> Iterator[bytes]:
        yield from [data.splitlines(keepends=True)[0], b"?\n", b"?\n"]
        raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, "found a row of more than 1 MiB")

    file = SnapshotFile(SNAPSHOT_TIME, str(path), 1)
    equal_topics = EqualityIndex("default", SpecGroups({})).for_cluster([])
    found = read_snapshot(file, lines(), PROD_CLUSTER, equal_topics, CachingReader())
    assert found.state is None
    assert found.problem == f"found a row of more than 1 MiB ({path})"
    assert [row.line for row in found.invalid_rows] == [2, 3, 0]


def test_a_file_that_cannot_be_opened_is_no_content(tmp_path: Path) -> None:
    """A file that was deleted after its folder was listed is an error, and nothing that a report may have."""
    path = tmp_path / "gone.jsonl"
    with pytest.raises(TopiaristError, match="cannot be read: no such file"):
        read_partial_snapshot(str(path), read_lines(path))


@pytest.mark.parametrize(
    ("path", "local", "far"),
    [
        ("snapshots", "snapshots", False),
        ("/a b/c", "/a b/c", False),
        ("file:/a/b", "/a/b", False),
        ("file:///a%20b", "/a b", False),
        ("s3a://bucket/a", "s3a://bucket/a", True),
        ("hdfs:///a", "hdfs:///a", True),
        ("hdfs:/a", "hdfs:/a", True),
        ("a:b", "a:b", False),
        ("x:/a", "x:/a", False),
    ],
)
def test_an_address_is_no_path(path: str, local: str, far: bool) -> None:
    """A scheme followed by an absolute path is a URI, except for URIs of local files."""
    assert to_local_path(path) == local
    assert is_remote(path) == far


def test_spark_is_told_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark gets URIs, because it would resolve a plain path in its default file system."""
    monkeypatch.chdir(tmp_path)
    assert to_uri("snapshots") == f"file://{tmp_path}/snapshots"
    assert to_uri("gs://bucket/a") == "gs://bucket/a"
    assert to_literal_uri("/a/{b}[c]*?\\d") == r"file:///a/\{b\}\[c\]\*\?\\d"


def test_a_table_is_for_spark(manifests: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A Parquet folder needs Spark, and is not ignored if JSON lines exist beside it."""
    (tmp_path / "snapshots" / "us.parquet").write_bytes(b"PAR1")
    assert run_drift(manifests, tmp_path / "report", "--engine", "python") == 2
    assert f"error: {tmp_path / 'snapshots'} is Parquet: it needs Spark" in capsys.readouterr().err


def test_what_only_spark_reads_needs_java(
    manifests: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Input that only Spark reads needs Java, and the error does not suggest ``--engine python``."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    (tmp_path / "snapshots" / "us.parquet").write_bytes(b"PAR1")
    assert run_drift(manifests, tmp_path / "report") == 1
    said = capsys.readouterr().err
    assert said.startswith("error: Java 17 or later is needed to compare by Spark")
    assert "--engine python" not in said


def test_a_submitted_run_is_by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run under ``spark-submit`` uses Spark without an option and without a check for Java."""
    assert report.find_spark_reason("auto", ["snapshots"]) == ""
    monkeypatch.setenv("JAVA_HOME", "nowhere")
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    assert report.find_spark_reason("auto", ["snapshots"]) == "a session is given"
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert report.find_spark_reason("auto", ["snapshots"]) == "started by spark-submit"
    assert report.find_spark_reason("spark", ["snapshots"]) == "--engine spark"
    assert report.find_spark_reason("python", ["snapshots"]) == ""


@pytest.mark.parametrize("folder", ["_delta_log", ".topiarist-next-snapshots", "a/_temporary"])
def test_hidden_folders_have_no_snapshots(tmp_path: Path, folder: str) -> None:
    """Files of a Delta log, of an unfinished write and of an unpublished report are not read, nor need they Spark."""
    write_snapshot(tmp_path / "here", "eu", cluster_state("eu"))
    write_snapshot(tmp_path / "here" / folder, "us", cluster_state("us"))
    (tmp_path / "here" / folder / "0.checkpoint.parquet").write_bytes(b"PAR1")
    assert list_files(str(tmp_path / "here"), ".jsonl", ".parquet") == [str(tmp_path / "here" / "eu.jsonl")]
    assert spark_required_reason(str(tmp_path / "here")) == ""


def test_files_of_this_machine_may_have_addresses(manifests: Path, tmp_path: Path) -> None:
    """A URI of a local file equals its path and needs no Spark."""
    words = ["--snapshots", f"file://{tmp_path}/snapshots", "--out", f"file://{tmp_path}/report", "-q"]
    assert run(["drift", str(manifests), *words, "--engine", "python"]) == 0
    assert (tmp_path / "report" / "summary.json").is_file()


def test_of_mixed_versions_what_is_too_new_is_named(manifests: Path, tmp_path: Path) -> None:
    """The report names snapshots with a newer format version. A cluster with an older snapshot beside it is compared; a
    cluster without another snapshot is unknown.
    """
    for name, hours in (("eu", 1), ("us", 0)):
        path = write_snapshot(tmp_path / "snapshots", name, cluster_state(name), hours=hours, file=f"new-{name}.jsonl")
        head, *rows = path.read_text().splitlines()
        path.write_text("\n".join([json.dumps(json.loads(head) | {"formatVersion": 3}), *rows]) + "\n")
    write_manifests(manifests, ["eu", "us"], *(topic_document(name, ["eu"]) for name in NAMES))
    assert run_drift(manifests, tmp_path / "report", "-q") == 1
    assert row_keys(read_rows(tmp_path / "report")) == [("us", "", "unknown", "")]
    found = read_rows(tmp_path / "report", "broken.jsonl")
    assert [Path(one["file"]).name for one in found] == ["new-eu.jsonl", "new-us.jsonl"]
    assert {one["message"].partition(": ")[2] for one in found} == {
        "formatVersion: found 3, wanted 2: a newer release of topiarist wrote it"
    }


def test_without_the_right_to_write_it_is_one_line(
    manifests: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing write permission is one error line, before topiarist compares anything. The test simulates the system
    error, because root may write everywhere.
    """
    mkdir = Path.mkdir

    def refuse(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        if path.name.startswith(".topiarist"):
            raise PermissionError(13, "Permission denied", str(path))
        mkdir(path, mode, parents, exist_ok)

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert run_drift(manifests, tmp_path / "report") == 1
    assert capsys.readouterr().err == f"error: {tmp_path / 'report'}: cannot be written: Permission denied\n"
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "it has no snapshot"),
        ({"us.jsonl": ""}, "its snapshot {us} is unusable: found an empty file, wanted a snapshot"),
        ({"us.jsonl": "", "a.jsonl": ""}, "its snapshot {us} is unusable: found an empty file, wanted a snapshot"),
        ({"a.jsonl": ""}, "it has no snapshot that is usable; {a} is unusable: found an empty file, wanted a snapshot"),
        (
            {"a.jsonl": "", "b.jsonl": ""},
            "it has no snapshot that is usable; {a} is unusable, and 1 other file: found an empty file, wanted a"
            " snapshot",
        ),
    ],
)
def test_a_cluster_without_a_usable_snapshot_says_why(
    manifests: Path, tmp_path: Path, files: dict[str, str], problem: str
) -> None:
    """The reason is that of its own file by name, else that files are unusable, else that there is none."""
    (manifests / "us.yaml").write_text(document("Cluster", "us", kafkaVersion="3.9"))
    for name, content in files.items():
        (tmp_path / "snapshots" / name).write_text(content)
    assert run_drift(manifests, tmp_path / "report", "-q") == 1
    (row,) = (row for row in read_rows(tmp_path / "report") if row["class"] == "unknown")
    places = {name.partition(".")[0]: tmp_path / "snapshots" / name for name in files}
    assert row["message"] == problem.format(**places)


def test_a_snapshot_of_the_future_is_unusable(manifests: Path, tmp_path: Path) -> None:
    """A snapshot that is dated later than the run is named and not used, nor is its time that of the report.

    With an earlier snapshot of its cluster, that one counts; without one, the cluster is unknown.
    """
    write_manifests(tmp_path / "manifests", ["eu", "us"], *(topic_document(name, ["eu"]) for name in NAMES))
    ahead = [
        write_snapshot(tmp_path / "snapshots" / "z", name, cluster_state(name), hours=10**6) for name in ("eu", "us")
    ]
    assert run_drift(manifests, tmp_path / "report", "-q") == 1
    (row,) = read_rows(tmp_path / "report")
    assert (row["cluster"], row["class"]) == ("us", "unknown")
    found = read_summary(tmp_path / "report")
    assert (found["asOf"], found["inputs"]["superseded"]) == ("2025-01-31T12:00:00Z", [])
    broken = read_rows(tmp_path / "report", "broken.jsonl")
    assert [(each["file"], each["line"]) for each in broken] == [(str(path), 0) for path in ahead]
    named = f"{ahead[1]}: takenAt: found 2139-03-02T04:00:00Z, which is later than now, "
    assert broken[1]["message"].startswith(named)
    assert "takenAt: found 2139-03-02T04:00:00Z, which is later than now" in row["message"]


@pytest.mark.parametrize(("behind", "is_used"), [(300, True), (301, False)])
def test_clocks_may_differ_a_little(manifests: Path, tmp_path: Path, behind: int, is_used: bool) -> None:
    """A snapshot may be five minutes ahead of the clock of the report, and not one second more."""
    assert manifests
    now = SNAPSHOT_TIME - timedelta(seconds=behind)
    inventory = SnapshotInventory([str(tmp_path / "snapshots")], {"eu": ClusterSpec("eu")}, now)
    assert inventory.newest_taken_at == (SNAPSHOT_TIME if is_used else None)
    messages = [row.message for row in inventory.unused_input.invalid_rows]
    assert messages == (
        []
        if is_used
        else [
            f"{eu(tmp_path)}: takenAt: found 2025-01-31T12:00:00Z, which is later than now, 2025-01-31T11:54:59Z: "
            "correct the clock of the machine that takes snapshots, or this one"
        ]
    )
