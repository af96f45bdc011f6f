"""Atomic files: a complete file or none, a complete line or none, and errors that name the path."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from topiarist.adapters.atomic_files import (
    MAX_FILE_BYTES,
    LineFile,
    create_file,
    read_file,
    require_empty_folder,
    write_file,
    write_folder,
)
from topiarist.errors import Reason, TopiaristError


@contextmanager
def full_at(size: int) -> Iterator[None]:
    """Limit the size of files, which simulates a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def refused(reason: Reason, *words: str) -> Iterator[None]:
    with pytest.raises(TopiaristError) as caught:
        yield
    assert caught.value.reason is reason
    assert all(word in str(caught.value) for word in words)


def test_a_file_is_written_and_read(tmp_path: Path) -> None:
    """The written text is read back, and the file has the permissions of any new file."""
    path = tmp_path / "plan.json"
    write_file(str(path), "ü\n")
    assert read_file(str(path)) == "ü\n".encode()
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["plain", "plan.json"]


def test_a_file_that_is_replaced_keeps_its_rights_and_links(tmp_path: Path) -> None:
    """Writing through a link replaces the target of the link, and keeps the link and the permissions of the file."""
    path, link = tmp_path / "plan.json", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o600)
    link.symlink_to(path)
    write_file(str(link), "new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode), link.is_symlink()) == ("new", 0o600, True)


def test_pieces_are_written_as_one_below_new_folders(tmp_path: Path) -> None:
    """Content in pieces is written as one file. Missing folders are created on request, and an existing file is
    replaced.
    """
    path = tmp_path / "a" / "b" / "file"
    for content in (b"old\n" * 1000, b"new\n" * 2000):
        write_file(str(path), iter([content[:10], content[10:]]), make_parents=True)
        assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", [KeyError, ValueError, KeyboardInterrupt])
def test_what_fails_on_the_way_leaves_the_earlier_file(kind: type[BaseException], tmp_path: Path) -> None:
    """An exception of the content iterator is passed on, and the existing file is unchanged.

    No temporary file remains.
    """
    path = tmp_path / "file"
    path.write_text("old")

    def broken() -> Iterator[bytes]:
        yield b"new"
        raise kind

    with pytest.raises(kind):
        write_file(str(path), broken())
    assert (path.read_text(), [file.name for file in tmp_path.iterdir()]) == ("old", ["file"])


def test_a_full_disk_leaves_the_earlier_file(tmp_path: Path) -> None:
    """On a full disk the error names the path, the existing file is unchanged, and no temporary file remains."""
    path = tmp_path / "plan.json"
    path.write_text("old")
    with full_at(1000), refused(Reason.UNWRITABLE, f"{path}: cannot be written: File too large"):
        write_file(str(path), "x" * 5000)
    assert (path.read_text(), [file.name for file in tmp_path.iterdir()]) == ("old", ["plan.json"])


@pytest.mark.parametrize(
    "path", ["/dev/full", "/dev/null", "folder", "nowhere/plan.json", "file/plan.json", "a\0b", "name" * 100, ""]
)
def test_what_cannot_be_a_file_is_left_alone(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices, folders and paths below missing folders are errors and remain unchanged."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with refused(Reason.UNWRITABLE, "cannot be written: "):
        write_file(path, "text")
    assert not Path("/dev/full").is_file()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.parametrize("path", ["nothing", "folder", "pipe", "/dev/zero", "a\0b", ""])
def test_what_cannot_be_read_is_said(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing file, a folder, a pipe without a writer and an endless device are errors without a wait."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with refused(Reason.UNREADABLE, f"{path}: "):
        read_file(path)


def test_lines_are_there_as_they_are_added(tmp_path: Path) -> None:
    """Each line is readable before the next line is added."""
    path = tmp_path / "report.jsonl"
    with LineFile(str(path)) as file:
        for number in range(3):
            file.add_line(f"line {number}")
            assert path.read_text().splitlines()[-1] == f"line {number}"
        file.add_line("end", last=True)
    assert path.read_text() == "line 0\nline 1\nline 2\nend\n"


@pytest.mark.parametrize(("before", "after"), [("a\n", "a\nb\n"), ("half", "half\nb\n"), ("", "b\n")])
def test_what_is_there_is_kept(before: str, after: str, tmp_path: Path) -> None:
    """Lines are appended to an existing file, on a new line if the last line has no line end."""
    path = tmp_path / "report.jsonl"
    path.write_text(before)
    with LineFile(str(path)) as file:
        file.add_line("b")
    assert path.read_text() == after


def test_a_file_for_nothing_is_taken_away(tmp_path: Path) -> None:
    """A file without lines is removed, unless it existed before."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch()
    with LineFile(str(old)), LineFile(str(new)):
        assert new.exists()
    assert [file.name for file in tmp_path.iterdir()] == ["old"]


def test_a_disk_that_becomes_full_leaves_whole_lines(tmp_path: Path) -> None:
    """A line that does not fit on the disk is not written in part, and the error names the path."""
    path = tmp_path / "report.jsonl"
    with LineFile(str(path)) as file:
        file.add_line("first")
        with full_at(10), refused(Reason.UNWRITABLE, f"{path}: cannot be written: "):
            file.add_line("x" * 100)
        assert path.read_text() == "first\n"
        file.add_line("second")
    assert path.read_text() == "first\nsecond\n"


def test_a_device_that_takes_nothing() -> None:
    """A disk without space causes an error at the first line."""
    with LineFile("/dev/full") as file, refused(Reason.UNWRITABLE, "/dev/full: cannot be written: No space left"):
        file.add_line("line")


@pytest.mark.parametrize("path", ["folder", "nowhere/report.jsonl", ""])
def test_a_report_that_cannot_be_opened(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that cannot be opened is an error before any line is added."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with refused(Reason.UNWRITABLE, f"{path}: cannot be written: "):
        LineFile(path)


@pytest.mark.slow
def test_a_file_without_end_is_not_read(tmp_path: Path) -> None:
    """A file above the size limit of 512 MiB is refused before it fills the memory."""
    path = tmp_path / "plan.json"
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with refused(Reason.UNREADABLE, str(path), "is larger than 512 MiB"):
        read_file(str(path))


def test_a_created_file_is_new(tmp_path: Path) -> None:
    """``create_file`` makes missing folders, and replaces neither a file nor a broken link."""
    create_file(str(tmp_path / "a/b/new.yaml"), "text\n")
    assert (tmp_path / "a/b/new.yaml").read_text() == "text\n"
    (tmp_path / "link.yaml").symlink_to("gone.yaml")
    for name in ("a/b/new.yaml", "link.yaml"):
        with refused(Reason.UNWRITABLE, name, "File exists"):
            create_file(str(tmp_path / name), "other\n")
    assert (tmp_path / "a/b/new.yaml").read_text() == "text\n"
    assert not (tmp_path / "gone.yaml").exists()


def test_a_file_that_cannot_be_completed_is_not_created(tmp_path: Path) -> None:
    """A full disk leaves no part of a file."""
    with full_at(1000), refused(Reason.UNWRITABLE, "new.yaml"):
        create_file(str(tmp_path / "new.yaml"), "x" * 5000)
    assert list(tmp_path.iterdir()) == []


# Atomic folders: a complete folder or none.

FILES = {"cluster.yaml": "a: 1\n", "topics/orders.yaml": "ü: 2\n", "topics/users.yaml": "c: 3\n"}


def contents(folder: Path) -> dict[str, str]:
    """Return the content of every file below a folder, including hidden files."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


def test_a_folder_is_written(tmp_path: Path) -> None:
    """A folder is written with its missing parent folders, and no temporary folder remains."""
    write_folder(tmp_path / "a" / "b", FILES)
    assert contents(tmp_path) == {f"a/b/{name}": text for name, text in FILES.items()}
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    """An empty folder is filled, also through a link, which remains a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    write_folder(tmp_path / "link", FILES)
    assert (tmp_path / "link").is_symlink()
    assert contents(tmp_path / "real") == FILES


def test_nothing_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with any file, a file, a broken link and the working directory are refused and remain unchanged."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / ".git").touch()
    (tmp_path / "file").touch()
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = contents(tmp_path)
    for name, why in (("full", "is not empty"), ("file", "is not a folder"), ("broken", "is not a folder")):
        with refused(Reason.UNWRITABLE, why, str(tmp_path / name)):
            write_folder(tmp_path / name, FILES)
    with refused(Reason.UNWRITABLE, "the working directory"):
        write_folder(Path(), FILES)
    assert contents(tmp_path) == before


def test_a_folder_can_be_checked_before(tmp_path: Path) -> None:
    """The check before a long read accepts a missing and an empty folder, and refuses all others."""
    require_empty_folder(tmp_path / "new")
    require_empty_folder(tmp_path)
    (tmp_path / "x").touch()
    with pytest.raises(TopiaristError):
        require_empty_folder(tmp_path)


def test_an_error_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    """The error names the path that the user gave, and no written file remains (F27)."""
    name = f"topics/{'x' * 300}.yaml"
    with refused(Reason.UNWRITABLE, f"{tmp_path}/out/{name}: cannot be written: File name too long"):
        write_folder(tmp_path / "out", {**FILES, name: ""})
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_is_named(tmp_path: Path) -> None:
    """A folder below a file is an error that names the path."""
    (tmp_path / "file").touch()
    with refused(Reason.UNWRITABLE, f"{tmp_path}/file/out: cannot be written: "):
        write_folder(tmp_path / "file" / "out", FILES)
