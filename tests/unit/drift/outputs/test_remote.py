"""Reports in stores: only a report is replaced, and a run that dies leaves the earlier report or the new one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.dirfs import DirFileSystem

from support.drift.folder_store import STORE, FolderStore
from support.drift.folder_store import store as store
from support.drift.small_fleet import (
    cluster_state,
    owned_topic,
    read_rows,
    read_summary,
    topic_document,
    write_manifests,
    write_snapshot,
)
from topiarist.cli.main import run
from topiarist.drift.outputs.remote import RemoteReportFolder, load_previous
from topiarist.errors import Reason, TopiaristError

LATEST = f"{STORE}/reports/latest"


@pytest.fixture
def manifests(store: Path, tmp_path: Path) -> Path:
    """Write manifests and a snapshot of a cluster that lacks a topic."""
    write_snapshot(store / "snapshots", "eu", cluster_state("eu"))
    return write_manifests(tmp_path / "manifests", ["eu"], topic_document("t", ["eu"]))


def report(manifests: Path, *words: str, out: str = LATEST) -> int:
    """Report on the snapshots of the store without Spark."""
    return run(["drift", str(manifests), "--snapshots", f"{STORE}/snapshots", "--out", out, "-q", *words])


def read_files(store: Path) -> dict[str, bytes]:
    """Return the files of the report."""
    folder = store / "reports" / "latest"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def list_reports(store: Path) -> list[str]:
    """Return the names beside the report."""
    return sorted(path.name for path in (store / "reports").iterdir() if any(path.iterdir()))


def test_a_report_in_a_store_is_that_of_a_folder(manifests: Path, store: Path, tmp_path: Path) -> None:
    """One process and a pool read snapshots of a store and write the report there, with its history."""
    for jobs in ("1", "2"):
        assert report(manifests, "--jobs", jobs, "--history", f"{STORE}/history-{jobs}") == 0
        history = str(tmp_path / f"history-{jobs}")
        assert report(manifests, "--jobs", jobs, "--history", history, out=str(tmp_path / jobs)) == 0
        assert read_files(store) == {path.name: path.read_bytes() for path in (tmp_path / jobs).iterdir()}
        assert len([*(store / f"history-{jobs}").rglob("*.parquet")]) == 3
    assert [row["class"] for row in read_rows(store / "reports" / "latest")] == ["missing"]


def test_a_history_in_a_store_is_continued(manifests: Path, store: Path) -> None:
    """The second run takes the ages from the first, and the trend has both."""
    words = ("--history", f"{STORE}/history")
    assert report(manifests, *words) == 0
    write_snapshot(store / "snapshots", "eu", cluster_state("eu"), hours=2)
    assert report(manifests, *words) == 0
    (row,) = read_rows(store / "reports" / "latest")
    assert (row["status"], row["ageSeconds"]) == ("Unchanged", 7200)
    assert len(read_summary(store / "reports" / "latest")["trend"]) == 2


@pytest.mark.parametrize(
    ("content", "is_replaced"),
    [(None, True), ([], True), (["summary.json"], True), (["findings.jsonl"], False), (["notes.txt"], False)],
)
def test_only_a_report_is_replaced(store: Path, content: list[str] | None, is_replaced: bool) -> None:
    """Nothing, an empty folder and a report are replaced; anything else is an error."""
    folder = store / "reports" / "latest"
    for name in content or []:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    if content == []:
        folder.mkdir(parents=True)
    if is_replaced:
        with RemoteReportFolder(f"{LATEST}/") as made:
            assert made.staging_path == f"{STORE}/reports/.topiarist-next-latest"
            assert made.local_path.exists()
        assert not made.local_path.exists()
    else:
        with pytest.raises(TopiaristError, match=f"{LATEST}: cannot be written: it is not empty and not a") as raised:
            RemoteReportFolder(LATEST)
        assert raised.value.reason is Reason.UNWRITABLE
    left = sorted(path.name for path in folder.iterdir()) if content is not None else []
    assert left == sorted(content or [])


def test_a_report_is_where_its_address_says(manifests: Path, store: Path) -> None:
    """Only slashes at the end are no part of the name, whatever the letter before them."""
    for address, name in (("box", "box"), ("prefix/", "prefix"), ("last//", "last")):
        assert report(manifests, out=f"{STORE}/reports/{address}") == 0
        assert (store / "reports" / name / "summary.json").exists()


def test_a_report_that_fails_leaves_nothing(
    manifests: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the run fails, the earlier report is unchanged, and no temporary file is left here or there."""
    assert report(manifests) == 0
    before = read_files(store)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no more room")

    monkeypatch.setattr(FolderStore, "open", fail)
    assert report(manifests) == 1
    assert read_files(store) == before
    assert list_reports(store) == ["latest"]
    assert not any((tmp_path / "temporary").iterdir())


class Killed(BaseException):
    """The end of a process at some call."""


class Process:
    """A process that dies at a number of calls of one method: it makes no further call, not even to clean up."""

    def __init__(self, method: str, number: int) -> None:
        self._method, self._left, self._is_dead = method, number, False

    def guard(self, name: str) -> Callable[..., Any]:
        """Return the method of a store as this process calls it."""
        method = getattr(FolderStore, name)

        def act(*given: Any, **options: Any) -> Any:
            self._left -= name == self._method
            self._is_dead = self._is_dead or self._left == 0
            if self._is_dead:
                raise Killed
            return method(*given, **options)

        return act


WRITES = ("open", "cp_file", "rm")


@pytest.mark.parametrize("number", range(1, 21, 3))
@pytest.mark.parametrize("method", WRITES)
def test_a_run_that_dies_leaves_a_whole_report(
    manifests: Path, store: Path, monkeypatch: pytest.MonkeyPatch, method: str, number: int
) -> None:
    """Wherever a run dies, the next one finds the earlier or the new report as the previous one, and publishes it."""
    assert report(manifests) == 0
    early = read_files(store)
    write_snapshot(store / "snapshots", "eu", cluster_state("eu", owned_topic("old")), hours=3)
    with monkeypatch.context() as patch:
        process = Process(method, number)
        for name in WRITES:
            patch.setattr(FolderStore, name, process.guard(name))
        with suppress(Killed):  # the run makes fewer of these calls
            report(manifests, "--previous", LATEST)
    found = load_previous(LATEST)
    assert found.as_of in ("2025-01-31T12:00:00Z", "2025-01-31T15:00:00Z")
    assert ("t", "missing") in [key[1:3] for rows in found.rows.values() for key in rows]
    if found.as_of == "2025-01-31T12:00:00Z":
        assert read_files(store) == early
    assert report(manifests, "--previous", LATEST) == 0
    assert read_summary(store / "reports" / "latest")["findings"]["unchanged"] >= 1
    assert list_reports(store) == ["latest"]


@pytest.mark.parametrize("number", [1, 2, 5])
def test_a_store_that_fails_while_a_report_is_published_loses_nothing(
    manifests: Path, store: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """After an error of the store in the middle of the copy, the new report is complete beside its target."""
    assert report(manifests) == 0
    write_snapshot(store / "snapshots", "eu", cluster_state("eu", owned_topic("old")), hours=3)
    copies = count(1)

    def copy(self: FolderStore, *given: Any) -> None:
        if next(copies) == number:
            raise OSError("slow down")
        DirFileSystem.cp_file(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(FolderStore, "cp_file", copy)
        assert report(manifests, "--previous", LATEST) == 1
    assert load_previous(LATEST).as_of == "2025-01-31T15:00:00Z"
    assert report(manifests, "--previous", LATEST) == 0
    assert list_reports(store) == ["latest"]


@pytest.mark.parametrize("number", range(1, 10))
def test_a_run_that_begins_during_another_is_the_one_that_counts(
    manifests: Path, store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    """Wherever a run writes its report, a run that begins and ends there publishes its own; the first run is told."""
    writes, newer = count(1), dict[str, bytes]()

    def open_file(self: FolderStore, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode == "wb" and next(writes) == number:
            write_snapshot(store / "snapshots", "eu", cluster_state("eu", owned_topic("old")), hours=3)
            assert report(manifests) == 0
            newer.update(read_files(store))
        return DirFileSystem.open(self, path, mode, **options)

    monkeypatch.setattr(FolderStore, "open", open_file)
    code = report(manifests)
    assert newer
    assert code == (number > 1)
    message = "another run has begun to write this report; give each run a folder of its own"
    assert (f"error: {LATEST}: cannot be written: {message}" in capsys.readouterr().err) is bool(code)
    assert (read_files(store) == newer) is bool(code)
    assert list_reports(store) == ["latest"]


def test_a_place_where_nothing_may_be_written_is_found_before_the_work(
    manifests: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No cluster is compared for a report that cannot be written."""

    def open_file(self: FolderStore, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode == "wb":
            raise PermissionError("Access Denied")
        return DirFileSystem.open(self, path, mode, **options)

    monkeypatch.setattr(FolderStore, "open", open_file)
    assert run(["drift", str(manifests), "--snapshots", f"{STORE}/snapshots", "--out", LATEST]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert line.endswith("its store reported PermissionError: Access Denied")


def test_a_previous_report_in_a_store_is_read(manifests: Path, store: Path) -> None:
    """The findings and the time of a report are those of its files, with or without a slash at the end."""
    report(manifests)
    for address in (LATEST, f"{LATEST}/"):
        found = load_previous(address)
        assert found.as_of == read_summary(store / "reports" / "latest")["asOf"]
        rows = [row for rows in found.rows.values() for row in rows.values()]
        assert rows == read_rows(store / "reports" / "latest")


@pytest.mark.parametrize("name", ["summary.json", "findings.jsonl", "accepted.jsonl", "not-evaluated.jsonl"])
def test_a_previous_report_that_is_none_is_named_by_its_address(manifests: Path, store: Path, name: str) -> None:
    """A wrong or missing file of a previous report is an error with its address and not that of the local copy."""
    report(manifests)
    (store / "reports" / "latest" / name).write_text("[]\n")
    with pytest.raises(TopiaristError, match=f"{LATEST}/{name}(:1)?: found no ") as raised:
        load_previous(LATEST)
    assert "--previous" in raised.value.hint
    (store / "reports" / "latest" / name).unlink()
    with pytest.raises(TopiaristError, match=f"{LATEST}/{name}: ") as missing:
        load_previous(LATEST)
    assert raised.value.reason is missing.value.reason is Reason.UNREADABLE
