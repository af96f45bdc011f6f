"""Files in a store of Hadoop: what each operation does, and how its errors name the address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from topiarist.drift.spark import filesystem
from topiarist.drift.spark.filesystem import Storage
from topiarist.errors import Reason, TopiaristError
from unit.drift.spark.conftest import Place
from unit.drift.spark.local_store import STORE

MISSING = f"{STORE}/missing"


@pytest.fixture
def storage(place: Place) -> Storage:
    """Return a store with some files, which are at two depths and hidden or not."""
    for name in ("one.jsonl", "a/two.jsonl", ".hidden", "a/_SUCCESS", "_b/three.jsonl"):
        (place.store / name).parent.mkdir(exist_ok=True)
        (place.store / name).write_bytes(f"{name}\nsecond\nthird".encode())
    return Storage(place.spark)  # type: ignore[arg-type]


def test_files_are_found_at_any_depth(storage: Storage) -> None:
    """Hidden files and markers are left out; a file is itself, also if its name begins with a point."""
    assert storage.list_files(STORE) == [f"{STORE}/{name}" for name in ("_b/three.jsonl", "a/two.jsonl", "one.jsonl")]
    assert storage.list_files(f"{STORE}/.hidden") == [f"{STORE}/.hidden"]


def test_names_tell_nothing_a_file_and_a_folder_apart(storage: Storage) -> None:
    """No names, one empty name, and the names in the folder."""
    assert storage.list_names(MISSING) is None
    assert storage.list_names(f"{STORE}/one.jsonl") == [""]
    assert storage.list_names(f"{STORE}/a") == ["_SUCCESS", "two.jsonl"]


@pytest.mark.parametrize("chunk", [1, 9, 10, 11, 1 << 20])
@pytest.mark.parametrize("content", ["", "first", "first\n", "one.jsonl\nsecond\n\n"])
def test_a_first_line_ends_with_its_newline(
    storage: Storage, place: Place, monkeypatch: pytest.MonkeyPatch, content: str, chunk: int
) -> None:
    """The first line is read in any number of pieces, and the rest is not."""
    monkeypatch.setattr(filesystem, "_CHUNK_BYTES", chunk)
    (place.store / "one.jsonl").write_text(content)
    assert storage.read_first_line(f"{STORE}/one.jsonl").decode() == "".join(content.splitlines(keepends=True)[:1])
    assert b"".join(storage.read_chunks(f"{STORE}/one.jsonl")).decode() == content
    assert place.spark.configuration.open_streams == 0


def test_a_file_and_a_row_have_limits(storage: Storage, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file and a first line of the largest size are read; a byte more is an error that names both sizes."""
    address = f"{STORE}/one.jsonl"
    for name, line in (("MAX_BYTES", b"x" * 2048), ("MAX_ROW_BYTES", b"x" * 2047 + b"\n")):
        with monkeypatch.context() as patch:
            patch.setattr(filesystem, name, 2048)
            (place.store / "one.jsonl").write_bytes(line)
            assert storage.read_first_line(address) == line
            (place.store / "one.jsonl").write_bytes(b"x" + line)
            with pytest.raises(TopiaristError, match=r"found .* (more than|wanted at most) 2 KiB") as raised:
                storage.read_first_line(address)
            assert str(raised.value.args[0]).startswith(address)
            assert raised.value.reason is Reason.SNAPSHOT_UNUSABLE


@pytest.mark.parametrize(("length", "tail"), [(4, b"hird"), (100, b"one.jsonl\nsecond\nthird")])
def test_a_tail_is_the_end_or_the_whole(storage: Storage, place: Place, length: int, tail: bytes) -> None:
    """The last bytes of a file are read, or all of a shorter file."""
    assert storage.read_tail(f"{STORE}/one.jsonl", length) == tail
    assert place.spark.configuration.open_streams == 0


def test_files_are_copied_and_stay(storage: Storage, place: Place, tmp_path: Path) -> None:
    """A copy replaces its target, creates its folders, leaves its source, and adds no file of checksums."""
    here = tmp_path / "here"
    here.mkdir()
    storage.download(f"{STORE}/one.jsonl", here / "copy")
    assert [path.name for path in here.iterdir()] == ["copy"]
    assert (here / "copy").read_bytes() == (place.store / "one.jsonl").read_bytes()
    for text in ("new", "newer"):
        (here / "copy").write_text(text)
        storage.upload(here / "copy", f"{STORE}/new/folder/copy")
        assert (place.store / "new" / "folder" / "copy").read_text() == (here / "copy").read_text() == text


def test_folders_are_made_moved_and_removed(storage: Storage, place: Place) -> None:
    """A folder is made with its parents, moved with its content, and removed with it; nothing to remove is no error."""
    storage.make_folder(f"{STORE}/x/y", "x")
    storage.make_folder(f"{STORE}/x/y", "x")
    assert (place.store / "x" / "y").is_dir()
    storage.move(f"{STORE}/a", f"{STORE}/x/a")
    assert (place.store / "x" / "a" / "two.jsonl").exists()
    assert not (place.store / "a").exists()
    storage.remove(f"{STORE}/x")
    storage.remove(f"{STORE}/x")
    assert not (place.store / "x").exists()


@pytest.mark.parametrize(
    ("act", "named", "reason"),
    [
        (lambda it: it.list_files(MISSING), MISSING, Reason.UNREADABLE),
        (lambda it: it.list_names("s3x://a"), "s3x://a", Reason.UNREADABLE),
        (lambda it: it.read_first_line(MISSING), MISSING, Reason.SNAPSHOT_UNUSABLE),
        (lambda it: [*it.read_chunks(MISSING)], MISSING, Reason.UNREADABLE),
        (lambda it: [*it.read_chunks(MISSING, Reason.SNAPSHOT_UNUSABLE)], MISSING, Reason.SNAPSHOT_UNUSABLE),
        (lambda it: it.read_tail(MISSING, 4), MISSING, Reason.SNAPSHOT_UNUSABLE),
        (lambda it: it.download(MISSING, Path("/nonexistent/x")), MISSING, Reason.UNREADABLE),
        (lambda it: it.upload(Path("/nonexistent/x"), MISSING), MISSING, Reason.UNWRITABLE),
        (lambda it: it.make_folder(f"{STORE}/one.jsonl/x", "the report"), "the report", Reason.UNWRITABLE),
        (lambda it: it.move(MISSING, f"{STORE}/new"), f"{STORE}/new", Reason.UNWRITABLE),
        (lambda it: it.move(f"{STORE}/a", f"{STORE}/_b"), f"{STORE}/_b", Reason.UNWRITABLE),
        (lambda it: it.move("s3x://a", f"{STORE}/new"), f"{STORE}/new", Reason.UNWRITABLE),
        (lambda it: it.remove("s3x://a"), "s3x://a", Reason.UNWRITABLE),
    ],
)
def test_an_error_names_the_address(
    storage: Storage, act: Callable[[Storage], object], named: str, reason: Reason
) -> None:
    """The error of each operation begins with the address that the user knows, and has the reason of the operation."""
    with pytest.raises(TopiaristError) as raised:
        act(storage)
    assert str(raised.value.args[0]).startswith(f"{named}: ")
    assert raised.value.reason is reason
