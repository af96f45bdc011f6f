"""Local paths and URIs of ``topiarist drift``, and the errors for unusable places and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.drift.small_fleet import (
    cluster_state,
    owned_topic,
    read_rows,
    row_keys,
    run_drift,
    topic_document,
    write_manifests,
    write_snapshot,
)
from topiarist.cli.main import run
from topiarist.drift import engine
from topiarist.drift.uris import is_remote, spark_required_reason, to_local_path, to_uri

NAMES = ("clicks", "orders")


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """Return the manifests of a cluster that matches them, with its snapshot."""
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu", *map(owned_topic, NAMES)))
    return write_manifests(tmp_path / "manifests", ["eu"], *(topic_document(name, ["eu"]) for name in NAMES))


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
    assert bool(spark_required_reason(path)) == far


def test_spark_is_told_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark gets URIs, because it would resolve a plain path in its default file system."""
    monkeypatch.chdir(tmp_path)
    assert to_uri("snapshots") == f"file://{tmp_path}/snapshots"
    assert to_uri("gs://bucket/a") == "gs://bucket/a"


@pytest.mark.parametrize("option", ["--snapshots", "--out", "--previous"])
def test_an_address_is_for_spark(
    manifests: Path, tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A remote URI with ``--engine python`` is a usage error, before topiarist reads or writes anything."""
    words = {"--snapshots": str(tmp_path / "snapshots"), "--out": str(tmp_path / "report"), option: "s3a://bucket/a"}
    given = [word for pair in words.items() for word in pair]
    assert run(["drift", str(manifests), "--engine", "python", *given]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: s3a://bucket/a is not a local path: it needs Spark, and --engine python")
    assert len(said.splitlines()) == 2
    assert not (tmp_path / "report").exists()


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
    words = ["--snapshots", "s3a://bucket/snapshots", "--out", str(tmp_path / "report")]
    assert run(["drift", str(manifests), *words]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: Java 17 or later is needed to compare by Spark")
    assert "--engine python" not in said


def test_a_submitted_run_is_by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run under ``spark-submit`` uses Spark without an option and without a check for Java."""
    assert engine.find_spark_reason("auto", ["snapshots"], ["report"]) == ""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setenv("JAVA_HOME", "nowhere")
    assert engine.find_spark_reason("auto", ["snapshots"], ["report"]) == "started by spark-submit"
    assert engine.find_spark_reason("auto", ["hdfs:/a"], ["report"]) == "hdfs:/a is not a local path"
    assert engine.find_spark_reason("spark", ["snapshots"], ["report"]) == "--engine spark"
    assert engine.find_spark_reason("python", ["snapshots"], ["report"]) == ""


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
