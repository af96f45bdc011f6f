"""Files in stores: what is found, read, written and copied there, and errors that name their address."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.drift.folder_store import STORE, FolderStore
from support.drift.folder_store import store as store
from topiarist.drift import storage as module
from topiarist.drift.storage import Storage, is_hidden, is_same_folder, is_within
from topiarist.errors import Reason, TopiaristError

MISSING = f"{STORE}/missing"


@pytest.fixture
def storage(store: Path) -> Storage:
    """Return a store with some files, which are at two depths and hidden or not."""
    for name in ("one.jsonl", "a/two.jsonl", ".hidden", "a/_SUCCESS", "_delta_log/three.jsonl", ".topiarist-x/4.jsonl"):
        (store / name).parent.mkdir(exist_ok=True)
        (store / name).write_bytes(f"{name}\nsecond\nthird".encode())
    return Storage()


def test_files_are_found_at_any_depth(storage: Storage) -> None:
    """Hidden files, and files in hidden folders, are left out; a file is itself, whatever its name is."""
    assert storage.list_files(STORE) == [f"{STORE}/{name}" for name in ("a/two.jsonl", "one.jsonl")]
    assert storage.list_files(f"{STORE}/") == storage.list_files(STORE)
    assert storage.list_files(f"{STORE}/.hidden") == [f"{STORE}/.hidden"]


@pytest.mark.parametrize(("path", "expected"), [("a/b.c", False), (".a", True), ("a/_b/c", True), ("a/.b/c", True)])
def test_hidden_names_begin_with_a_point_or_an_underscore(path: str, expected: bool) -> None:
    """One hidden part of a path is enough."""
    assert is_hidden(path) == expected


def test_names_tell_nothing_a_file_and_a_folder_apart(storage: Storage) -> None:
    """No names, one empty name, and the names in the folder."""
    assert storage.list_names(MISSING) is None
    assert storage.list_names(f"{STORE}/one.jsonl") == [""]
    assert storage.list_names(f"{STORE}/a") == ["_SUCCESS", "two.jsonl"]


@pytest.mark.parametrize("head", [1, 9, 10, 11, 1 << 20])
@pytest.mark.parametrize("content", ["", "first", "first\n", "one.jsonl\nsecond\n\n"])
def test_a_first_line_is_read_in_pieces(
    storage: Storage, store: Path, monkeypatch: pytest.MonkeyPatch, content: str, head: int
) -> None:
    """The first line is read with any number of requests."""
    monkeypatch.setattr(module, "_HEAD_BYTES", head)
    opened, open_file = list[int](), FolderStore.open

    def record(self: FolderStore, path: str, *words: Any, block_size: int) -> Any:
        opened.append(block_size)
        return open_file(self, path, *words, block_size=block_size)

    monkeypatch.setattr(FolderStore, "open", record)
    (store / "one.jsonl").write_text(content)
    first = "".join(content.splitlines(keepends=True)[:1])
    assert storage.read_first_line(f"{STORE}/one.jsonl").decode() == first
    assert opened == [head]
    assert b"".join(storage.read_lines(f"{STORE}/one.jsonl")).decode() == content


def test_a_file_and_a_row_have_limits(storage: Storage, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file and a line of the largest size are read; a byte more is an error that names both sizes."""
    address = f"{STORE}/one.jsonl"
    for name, line in (("MAX_BYTES", b"x" * 2048), ("MAX_ROW_BYTES", b"x" * 2048)):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, 2048)
            (store / "one.jsonl").write_bytes(line)
            assert [*storage.read_lines(address)] == [line]
            (store / "one.jsonl").write_bytes(b"x" + line)
            with pytest.raises(TopiaristError, match=r"found .* (more than|wanted at most) .*2 KiB") as raised:
                [*storage.read_lines(address)]
            assert raised.value.message.startswith(address)
            if name == "MAX_ROW_BYTES":
                with pytest.raises(TopiaristError, match="found a row of more than"):
                    storage.read_first_line(address)


def test_a_tail_is_the_end_or_the_whole(storage: Storage) -> None:
    """The last bytes of a file are read, or all of a shorter file."""
    assert storage.read_tail(f"{STORE}/one.jsonl", 4) == b"hird"
    assert storage.read_tail(f"{STORE}/one.jsonl", 100) == b"one.jsonl\nsecond\nthird"


def test_files_are_copied_and_stay(storage: Storage, store: Path, tmp_path: Path) -> None:
    """A copy replaces its target, creates its folders and leaves its source."""
    here = tmp_path / "here"
    here.mkdir()
    storage.download(f"{STORE}/one.jsonl", here / "copy")
    assert (here / "copy").read_bytes() == (store / "one.jsonl").read_bytes()
    for text in ("new", "newer"):
        (here / "copy").write_text(text)
        storage.upload(here / "copy", f"{STORE}/new/folder/copy")
        storage.copy(f"{STORE}/new/folder/copy", f"{STORE}/other/copy")
        assert (store / "new" / "folder" / "copy").read_text() == (store / "other" / "copy").read_text() == text


def test_no_bucket_is_created(storage: Storage, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a store with a slash before its paths has folders; in others, a folder may be a new bucket."""
    storage.write_file(f"file:{tmp_path}/new/folder/a", [b"a"])
    assert (tmp_path / "new" / "folder" / "a").read_bytes() == b"a"
    monkeypatch.setattr(FolderStore, "makedirs", lambda *_, **__: pytest.fail("created"))
    storage.write_file(f"{STORE}/new/a", [b"a"])
    storage.copy(f"{STORE}/new/a", f"{STORE}/newer/a")
    assert (store / "newer" / "a").read_bytes() == b"a"


def test_a_folder_of_parts_is_downloaded_as_one_file(storage: Storage, store: Path, tmp_path: Path) -> None:
    """The files that executors wrote are joined in order of name, without those of Spark."""
    for name, text in (("part-1", "b"), ("part-0", "a"), ("_SUCCESS", "no")):
        (store / "lines").mkdir(exist_ok=True)
        (store / "lines" / name).write_text(f"{text}\n")
    storage.download(f"{STORE}/lines", tmp_path / "joined")
    assert (tmp_path / "joined").read_text() == "a\nb\n"


def test_files_and_folders_are_removed(storage: Storage, store: Path) -> None:
    """A folder is removed with its content; nothing to remove is no error."""
    for name in ("a", "one.jsonl", "one.jsonl"):
        storage.remove(f"{STORE}/{name}")
        assert not (store / name).exists()


@pytest.mark.parametrize(
    ("act", "named"),
    [
        (lambda it: it.list_files(MISSING), MISSING),
        (lambda it: it.list_names("s3x://a"), "s3x://a"),
        (lambda it: it.read_first_line(MISSING), MISSING),
        (lambda it: [*it.read_lines(MISSING)], MISSING),
        (lambda it: it.read_tail(MISSING, 4), MISSING),
        (lambda it: it.download(MISSING, Path("/dev/null")), MISSING),
        (lambda it: it.write_file(f"{STORE}/one.jsonl/x", [b""]), f"{STORE}/one.jsonl/x"),
        (lambda it: it.copy(MISSING, f"{STORE}/new"), f"{STORE}/new"),
        (lambda it: it.remove("s3x://a"), "s3x://a"),
    ],
)
def test_an_error_names_the_address(storage: Storage, act: Callable[[Storage], object], named: str) -> None:
    """The error of each operation begins with the address that the user knows, and has the reason of the store."""
    for given in (storage, Storage(Reason.UNWRITABLE)):
        with pytest.raises(TopiaristError) as raised:
            act(given)
        assert raised.value.message.startswith(f"{named}: ")
        assert raised.value.reason is (Reason.UNREADABLE if given is storage else Reason.UNWRITABLE)
        assert "\n" not in raised.value.message


def test_an_error_of_a_driver_is_one_line(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a driver raises is an error with its class and its first line."""

    def fail(*_: object, **__: object) -> None:
        raise KeyError("no credentials\nand more")

    monkeypatch.setattr(FolderStore, "open", fail)
    with pytest.raises(TopiaristError, match="its store reported KeyError: 'no credentials"):
        storage.read_tail(f"{STORE}/one.jsonl", 4)


@pytest.mark.parametrize(
    ("scheme", "driver", "extra"),
    [
        *(("s3", "s3fs", "s3"), ("s3a", "s3fs", "s3"), ("gs", "gcsfs", "gcs"), ("abfs", "adlfs", "azure")),
        *(("abfss", "adlfs", "azure"), ("hdfs", "fsspec.core", "drift")),
    ],
)
def test_a_driver_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, scheme: str, driver: str, extra: str
) -> None:
    """The error names the extra that has the driver of the scheme; drift is the extra of a scheme without its own."""
    monkeypatch.setitem(sys.modules, driver, None)
    address = f"{scheme}://bucket/a"
    with pytest.raises(TopiaristError, match=rf"{address}.* needs packages that are not installed") as raised:
        Storage().list_names(address)
    assert raised.value.reason is Reason.PREREQUISITE_MISSING
    assert f"(extra {extra})" in raised.value.message


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [
        ("a", "a", True),
        ("a/b", "a/", True),
        ("ab", "a", False),
        ("a", "a/b", False),
        ("s3://b/a/c", "s3://b/a/", True),
        ("s3://b/ac", "s3://b/a", False),
        ("s3://b/a/c", "s3a://b/a", True),
        ("gs://b/a", "gcs://b/a/", True),
        ("gs://b/a", "s3://b/a", False),
        ("a", "s3://b/a", False),
    ],
)
def test_a_path_is_in_a_folder_by_its_parts(path: str, folder: str, expected: bool) -> None:
    """A folder is in itself; an address is in no local folder."""
    assert is_within(path, folder) is expected
    assert is_same_folder(path, folder) is (expected and is_within(folder, path))
    assert not is_same_folder("", folder)
