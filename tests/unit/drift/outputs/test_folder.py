"""The folder of a drift report: whole or not at all, in place of nothing, of an empty folder or of a report."""

from __future__ import annotations

from pathlib import Path

import pytest

from topiarist.cli.main import run
from topiarist.drift.causes import Causes
from topiarist.drift.compare import LINE_FILES
from topiarist.drift.outputs import folder as folder_
from topiarist.drift.outputs import html
from topiarist.drift.outputs.folder import ReportFolder
from topiarist.errors import Reason, TopiaristError

FORMATTED = ["metrics.prom", "report.html", "summary.json", "summary.md"]


@pytest.fixture(autouse=True)
def _plain_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Render each format as the name of the run, because the folder decides nothing about them."""
    formats = dict.fromkeys(("summary.json", "summary.md", "metrics.prom"), lambda summary: str(summary["asOf"]))
    monkeypatch.setattr(folder_, "_SUMMARY_FORMATTERS", formats)
    monkeypatch.setattr(html, "render_chunks", lambda summary, *files: [summary["asOf"].encode()])


def written(path: Path, name: str = "one") -> None:
    """Write a report of this name."""
    with ReportFolder(str(path)) as report:
        report.add_lines({LINE_FILES[0]: [f"{name}\n".encode()]})
        report.commit({"asOf": name}, Causes(), {})


def names(path: Path) -> list[str]:
    """Return the names in a folder, in order."""
    return sorted(each.name for each in path.iterdir())


def test_a_report_has_all_its_files(tmp_path: Path) -> None:
    """A committed report has each file with lines, also an empty one, and each format; nothing else is left."""
    out = tmp_path / "deep" / "report"
    written(out)
    assert names(out) == sorted([*LINE_FILES, *FORMATTED])
    assert (out / LINE_FILES[0]).read_text() == "one\n"
    assert {(out / name).read_text() for name in LINE_FILES[1:]} == {""}
    assert {(out / name).read_text() for name in FORMATTED} == {"one"}
    assert names(out.parent) == ["report"]


def test_without_a_commit_there_is_no_report(tmp_path: Path) -> None:
    """A run that ends early leaves neither a report nor a staging folder, and keeps the earlier report."""
    out = tmp_path / "report"

    def stop() -> None:
        with ReportFolder(str(out)) as report:
            report.add_lines({LINE_FILES[0]: [b"two\n"]})
            assert [name.startswith(".topiarist-") for name in names(tmp_path) if name != "report"] == [True]
            raise KeyError

    for left in ([], ["report"]):
        with pytest.raises(KeyError):
            stop()
        assert names(tmp_path) == left
        written(out)
    assert (out / LINE_FILES[0]).read_text() == "one\n"


def test_a_new_report_replaces_the_earlier_one(tmp_path: Path) -> None:
    """An earlier report and an empty folder are replaced as a whole; a file that others put there goes with it."""
    out = tmp_path / "report"
    out.mkdir()
    written(out)
    (out / "note.txt").write_text("mine")
    written(out, "two")
    assert (out / LINE_FILES[0]).read_text() == "two\n"
    assert (names(tmp_path), "note.txt" in names(out)) == (["report"], False)


def test_other_folders_and_files_are_never_replaced(tmp_path: Path) -> None:
    """A folder with content that is no report, and a file, are an error before anything is written."""
    other, file = tmp_path / "other", tmp_path / "file"
    other.mkdir()
    (other / "mine").write_text("x")
    file.write_text("x")
    for path in (other, file):
        with pytest.raises(TopiaristError, match="is not empty and not a drift report; use a new") as caught:
            ReportFolder(str(path))
        assert caught.value.reason is Reason.UNWRITABLE
        assert str(caught.value).startswith(f"{path}: cannot be written: ")
    assert names(tmp_path) == ["file", "other"]


def test_work_and_last_steps_come_before_the_report_is_there(tmp_path: Path) -> None:
    """Last steps see the findings in the staging folder, in their order; the work folder is not in the report."""
    out, seen = tmp_path / "report", list[str]()
    with ReportFolder(str(out)) as report:
        work = report.make_work_folder()
        assert report.make_work_folder() == work == report.local_path / "work"
        (work / "part").write_text("x")
        assert report.staging_path == str(report.local_path)
        report.add_lines({LINE_FILES[0]: [b"a\n"]})
        report.add_lines({LINE_FILES[0]: [b"b\n"], LINE_FILES[1]: [b"c\n"]})
        report.add_final_step(lambda staging: seen.append((staging / LINE_FILES[0]).read_text()))
        report.add_final_step(lambda staging: seen.append(str(out.exists())))
        report.commit({"asOf": "one"}, Causes(), {})
    assert seen == ["a\nb\n", "False"]
    assert "work" not in names(out)


def test_an_earlier_report_stays_if_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the last rename fails, the earlier report is back in its place and the error says so."""
    out = tmp_path / "report"
    written(out)
    rename = Path.rename

    def fail(path: Path, target: Path) -> Path:
        if (path / LINE_FILES[0]).read_text() == "two\n":
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(TopiaristError, match="report: cannot be written: No space left on device"):
        written(out, "two")
    assert ((out / LINE_FILES[0]).read_text(), names(tmp_path)) == ("one\n", ["report"])


def test_an_error_without_a_cause_of_the_system_has_its_text(tmp_path: Path) -> None:
    """An error that a last step raises by itself is shown by its text."""

    def fail(staging: Path) -> None:
        raise OSError(f"no {staging.name[:1]}")

    with ReportFolder(str(tmp_path / "report")) as report:
        report.add_final_step(fail)
        with pytest.raises(TopiaristError, match=r"cannot be written: no \."):
            report.commit({"asOf": "one"}, Causes(), {})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--history", "report/history"), '--history: found "report/history", which is in the folder of --out'),
        (("--history", "./report"), '--history: found "./report", which is in the folder of --out'),
        (("--baseline", "report/known.jsonl"), '--baseline: found "report/known.jsonl", which is in'),
        (("--codeowners", "report/CODEOWNERS"), "--codeowners: found"),
        (("--clusters", "report/clusters.yaml"), "--clusters: found"),
        (("report/topics",), 'PATH: found "report/topics", which is in'),
        (("--snapshots", "report/x.jsonl"), '--snapshots: found "report/x.jsonl", which is in'),
        (("--out", "snapshots/report"), '--out: found "snapshots/report", which is in the folder of --snapshots'),
        (
            ("--out", "s3://fleet/x", "--history", "s3://fleet/x/history"),
            '--history: found "s3://fleet/x/history", which is in the folder of --out',
        ),
    ],
)
def test_a_report_replaces_no_input(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    message: str,
) -> None:
    """A folder that a report replaces has nothing that a run reads, such as its history of all earlier runs."""
    monkeypatch.chdir(tmp_path)
    assert run(["drift", "topics", "--snapshots", "snapshots", "--out", "report", *words]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
