"""Atomic folders: a complete folder or none."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from topiarist.adapters.atomic_files import require_empty_folder, write_folder
from topiarist.errors import Reason, TopiaristError

FILES = {"cluster.yaml": "a: 1\n", "topics/orders.yaml": "ü: 2\n", "topics/users.yaml": "c: 3\n"}

DEADLY = """\
import os, signal, sys
from pathlib import Path
from topiarist.adapters.atomic_files import write_folder

class Files(dict):
    def items(self):
        for number, item in enumerate(super().items()):
            if number == int(sys.argv[2]):
                os.kill(os.getpid(), signal.SIGKILL)
            yield item

write_folder(Path(sys.argv[1]), Files({"cluster.yaml": "", "topics/a.yaml": "", "topics/b.yaml": ""}))
"""


def contents(folder: Path) -> dict[str, str]:
    """Return the content of every file below a folder, including hidden files."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


def refusal(folder: Path, files: dict[str, str] = FILES) -> str:
    """Return the message of the error that the write raises."""
    with pytest.raises(TopiaristError) as raised:
        write_folder(folder, files)
    assert raised.value.reason is Reason.UNWRITABLE
    return str(raised.value)


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
        assert why in refusal(tmp_path / name)
        assert str(tmp_path / name) in refusal(tmp_path / name)
    assert "the working directory" in refusal(Path())
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
    message = refusal(tmp_path / "out", {**FILES, name: ""})
    assert f"{tmp_path}/out/{name}: cannot be written: File name too long" in message
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_is_named(tmp_path: Path) -> None:
    """A folder below a file is an error that names the path."""
    (tmp_path / "file").touch()
    assert f"{tmp_path}/file/out: cannot be written: " in refusal(tmp_path / "file" / "out")


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_kill_leaves_no_part(tmp_path: Path, step: int) -> None:
    """A process that is killed before any file leaves no folder, and the next run succeeds (F4)."""
    killed = subprocess.run([sys.executable, "-c", DEADLY, str(tmp_path / "out"), str(step)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    write_folder(tmp_path / "out", FILES)
    assert contents(tmp_path / "out") == FILES
