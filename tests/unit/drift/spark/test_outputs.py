"""Reports in a store: when one is replaced, and what remains if that fails."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.drift.small_fleet import (
    cluster_state,
    read_rows,
    read_summary,
    topic_document,
    write_manifests,
    write_snapshot,
)
from topiarist.drift.outputs.folder import ReportFolder
from topiarist.drift.spark import outputs
from topiarist.drift.spark.engine import SparkEngine
from topiarist.drift.spark.filesystem import Storage
from topiarist.drift.spark.outputs import RemoteReportFolder, load_previous
from topiarist.errors import Reason, TopiaristError
from unit.drift.spark.conftest import Place
from unit.drift.spark.local_store import STORE, FileSystem, HadoopPath
from unit.drift.spark.test_reports import report

LATEST = f"{STORE}/reports/latest"


@pytest.fixture
def storage(place: Place) -> Storage:
    """Return the store."""
    return Storage(place.spark)  # type: ignore[arg-type]


@pytest.fixture
def manifests(place: Place, tmp_path: Path) -> Path:
    """Write manifests and a snapshot of a cluster that lacks a topic."""
    write_snapshot(place.store / "snapshots", "eu", cluster_state("eu"))
    return write_manifests(tmp_path / "manifests", ["eu"], topic_document("t", ["eu"]))


def write_reports(manifests: Path, place: Place) -> dict[str, bytes]:
    """Write a report into the store twice; return the files of the second."""
    for _ in range(2):
        report(manifests, f"{STORE}/snapshots", LATEST, code=0)
    return read_files(place)


def read_files(place: Place) -> dict[str, bytes]:
    """Return the files of the report."""
    folder = place.store / "reports" / "latest"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("content", "is_replaced"),
    [
        (None, True),
        ([], True),
        (["summary.json"], True),
        (["summary.json.last", "findings.jsonl"], True),
        (["findings.jsonl"], False),
        (["notes.txt"], False),
    ],
)
def test_only_a_report_is_replaced(
    storage: Storage, place: Place, content: list[str] | None, is_replaced: bool
) -> None:
    """Nothing, an empty folder, a report and one that was not finished are replaced; anything else is an error."""
    folder = place.store / "reports" / "latest"
    for name in content or []:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    if content == []:
        folder.mkdir(parents=True)
    if is_replaced:
        with RemoteReportFolder(storage, f"{LATEST}/") as made:
            assert made.staging_path.startswith(f"{STORE}/reports/.topiarist-")
            assert (place.store / made.staging_path.removeprefix(f"{STORE}/")).is_dir()
            assert made.local_path.exists()
        assert not made.local_path.exists()
    else:
        with pytest.raises(TopiaristError, match=f"{LATEST}: cannot be written: it is not empty and not a") as raised:
            RemoteReportFolder(storage, LATEST)
        assert raised.value.reason is Reason.UNWRITABLE
    left = sorted(path.name for path in folder.iterdir()) if content is not None else []
    assert left == sorted(content or [])
    assert [path.name for path in (place.store / "reports").iterdir()] == ["latest"] * (content is not None)


def test_a_report_that_fails_leaves_nothing(
    manifests: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the run fails, the earlier report is unchanged, and no temporary file is left here or there."""
    before = write_reports(manifests, place)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()

    def fail(*_: Any) -> None:
        raise TopiaristError(Reason.UNWRITABLE, "no more room")

    monkeypatch.setattr(outputs, "write_parquet", fail)
    report(manifests, f"{STORE}/snapshots", LATEST, code=1)
    assert read_files(place) == before
    assert [path.name for path in (place.store / "reports").iterdir()] == ["latest"]
    assert not any((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_rename_that_fails_brings_the_earlier_report_back(
    manifests: Path, place: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], failing: int
) -> None:
    """Whichever rename of the publication fails, the earlier report is there again, and the error names it."""
    before = write_reports(manifests, place)
    monkeypatch.setattr(FileSystem, "rename", fail_nth(FileSystem.rename, failing))
    report(manifests, f"{STORE}/snapshots", LATEST, code=1)
    assert f"error: {STORE}/reports/" in capfd.readouterr().err
    assert read_files(place) == before
    assert [path.name for path in (place.store / "reports").iterdir()] == ["latest"]


@pytest.mark.parametrize("failing", [1, 2])
def test_a_first_report_that_cannot_be_renamed_is_none(
    manifests: Path, place: Place, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """Without an earlier report, a failed rename leaves no folder with a summary."""
    monkeypatch.setattr(FileSystem, "rename", fail_nth(FileSystem.rename, failing))
    report(manifests, f"{STORE}/snapshots", LATEST, code=1)
    assert "summary.json" not in read_files(place)
    assert not [path for path in (place.store / "reports").iterdir() if path.name.startswith(".")]


def fail_nth(rename: Callable[..., bool], number: int) -> Callable[..., bool]:
    """Return a rename that is refused at one call; renames of Parquet files are not counted."""
    calls: list[HadoopPath] = []

    def act(system: FileSystem, source: HadoopPath, target: HadoopPath) -> bool:
        if not source.getName().endswith(".parquet"):
            calls.append(source)
            if len(calls) == number:
                return False
        return rename(system, source, target)

    return act


def test_the_summary_gets_its_name_last(manifests: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until all files are in place, the folder has no summary: it is no report before."""
    rename, names = FileSystem.rename, list[tuple[str, str, bool]]()

    def act(system: FileSystem, source: HadoopPath, target: HadoopPath) -> bool:
        done = rename(system, source, target)
        names.append((source.getName(), target.getName(), (place.store / "reports/latest/summary.json").exists()))
        return done

    monkeypatch.setattr(FileSystem, "rename", act)
    report(manifests, f"{STORE}/snapshots", LATEST, code=0)
    assert names[-1] == ("summary.json.last", "summary.json", True)
    assert names[-2][1:] == ("latest", False)
    assert read_files(place).keys() >= {"summary.json", "summary.md", "report.html", "findings.jsonl", "resolved.jsonl"}


def test_a_previous_report_in_a_store_is_read(manifests: Path, place: Place, storage: Storage) -> None:
    """The findings and the time of a report are those of its files, with or without a slash at the end of any name."""
    write_reports(manifests, place)
    (place.store / "reports" / "index").symlink_to("latest")
    for address in (LATEST, f"{LATEST}/", f"{STORE}/reports/index", f"{STORE}/reports/index/"):
        found = load_previous(storage, address)
        assert found.as_of == read_summary(place.store / "reports" / "latest")["asOf"]
        rows = [row for rows in found.rows.values() for row in rows.values()]
        assert rows == read_rows(place.store / "reports" / "latest")


@pytest.mark.parametrize("name", ["summary.json", "findings.jsonl", "accepted.jsonl", "not-evaluated.jsonl"])
def test_a_previous_report_that_is_none_is_named_by_its_address(
    manifests: Path, place: Place, storage: Storage, name: str
) -> None:
    """A wrong or missing file of a previous report is an error with its address and not that of the local copy."""
    write_reports(manifests, place)
    (place.store / "reports" / "latest" / name).write_text("[]\n")
    with pytest.raises(TopiaristError, match=f"{LATEST}/{name}(:1)?: found no ") as raised:
        load_previous(storage, LATEST)
    assert "--previous" in raised.value.hint
    (place.store / "reports" / "latest" / name).unlink()
    with pytest.raises(TopiaristError, match=f"{LATEST}/{name}: ") as missing:
        load_previous(storage, LATEST)
    assert raised.value.reason is missing.value.reason is Reason.UNREADABLE


def test_paths_of_this_machine_need_no_store(tmp_path: Path, place: Place) -> None:
    """The engine reads and writes local paths as without Spark, and all others in their store."""
    engine = SparkEngine("a test")
    assert engine.description == "Spark: a test"
    (place.store / "full").mkdir()
    (place.store / "full" / "x").touch()
    (place.store / "empty").mkdir()
    exist = {
        f"{root}/{name}": name in ("full", "full/x")
        for root in (STORE, place.store)
        for name in ("full", "full/x", "empty", "no")
    }
    assert {path: engine.exists(path) for path in exist} == exist
    with engine.create_report_folder(str(tmp_path / "out")) as here, engine.create_report_folder(LATEST) as there:
        assert type(here) is ReportFolder
        assert type(there) is RemoteReportFolder


def test_tables_of_a_local_report_have_one_file_a_day(manifests: Path, place: Place, tmp_path: Path) -> None:
    """The table of findings has no files of Spark's own, and the same rows as the lines."""
    report(manifests, place.store / "snapshots", tmp_path / "out", "--engine", "spark", code=0)
    table = tmp_path / "out" / "findings.parquet"
    files = sorted(path.relative_to(table).as_posix() for path in table.rglob("*") if path.is_file())
    assert files == ["date=2025-01-31/part.parquet"]
    rows = [row.asDict() for row in place.spark.read.parquet(table.as_uri()).collect()]
    assert [str(row.pop("date")) for row in rows] == ["2025-01-31"]
    assert rows == read_rows(tmp_path / "out")
