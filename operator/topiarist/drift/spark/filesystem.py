"""File operations on any store that Spark reaches, through Hadoop's file system classes.

``drift.spark.inputs`` and ``drift.spark.outputs`` use them for snapshots and reports. URIs are text, as the user gave
them. Each method raises ``TopiaristError`` with the URI in the message.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NoReturn

from pyspark.sql import SparkSession

from topiarist.adapters.snapshots.files import MAX_BYTES, MAX_ROW_BYTES
from topiarist.drift.spark.errors import translate_errors
from topiarist.errors import Reason, TopiaristError
from topiarist.text import humanize_bytes, printable

_CHUNK_BYTES = 1 << 20


class Storage:
    """The file systems that a Spark session can reach."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm
        self._conf = context._jsc.hadoopConfiguration()

    def list_files(self, address: str) -> list[str]:
        """Return all files below a folder at any depth, without hidden files, or the file itself."""
        with self._open(address, Reason.UNREADABLE) as (store, path):
            if not store.getFileStatus(path).isDirectory():
                return [address]
            walk, files = store.listFiles(path, True), []
            while walk.hasNext():
                files.append(str(walk.next().getPath().toString()))
        return [file for file in files if not file.rpartition("/")[2].startswith((".", "_"))]

    def list_names(self, address: str) -> list[str] | None:
        """Return the names in a folder, None if nothing exists there, and one empty name for a file."""
        with self._open(address, Reason.UNREADABLE) as (store, path):
            if not store.exists(path):
                return None
            if not store.getFileStatus(path).isDirectory():
                return [""]
            return [str(status.getPath().getName()) for status in store.listStatus(path)]

    def read_first_line(self, address: str) -> bytes:
        """Return the first line of a file, empty for an empty file.

        Raises ``SnapshotUnusable`` for a file above ``MAX_BYTES`` or a line above ``MAX_ROW_BYTES``.
        """
        with self._open(address, Reason.SNAPSHOT_UNUSABLE) as (store, path):
            if (length := store.getFileStatus(path).getLen()) > MAX_BYTES:
                _raise_unusable(address, f"found {humanize_bytes(length)}, wanted at most {humanize_bytes(MAX_BYTES)}")
            found = b""
            for chunk in self.read_chunks(address, Reason.SNAPSHOT_UNUSABLE):
                start, end, _ = chunk.partition(b"\n")
                found += start + end
                if len(found) > MAX_ROW_BYTES:
                    _raise_unusable(address, f"found a row of more than {humanize_bytes(MAX_ROW_BYTES)}")
                if end:
                    break
            return found

    def read_chunks(self, address: str, reason: Reason = Reason.UNREADABLE) -> Iterator[bytes]:
        """Yield the content of a file in parts; ``reason`` is that of errors."""
        with self._open(address, reason) as (store, path), closing(store.open(path)) as stream:
            while chunk := bytes(stream.readNBytes(_CHUNK_BYTES)):
                yield chunk

    def read_tail(self, address: str, length: int) -> bytes:
        """Return the last ``length`` bytes of a file."""
        with self._open(address, Reason.SNAPSHOT_UNUSABLE) as (store, path), closing(store.open(path)) as stream:
            stream.seek(max(store.getFileStatus(path).getLen() - length, 0))
            return bytes(stream.readNBytes(length))

    def download(self, address: str, file: Path) -> None:
        """Copy a remote file to a local file."""
        with self._open(address, Reason.UNREADABLE) as (store, path):
            store.copyToLocalFile(False, path, self._make_path(f"file://{file}"), True)

    def upload(self, file: Path, address: str) -> None:
        """Copy a local file to a URI; create missing parent folders and replace an existing file."""
        with self._open(address, Reason.UNWRITABLE) as (store, path):
            store.copyFromLocalFile(False, True, self._make_path(f"file://{file}"), path)

    def make_folder(self, address: str, about: str) -> None:
        """Create a folder and its missing parents; errors name ``about``."""
        with self._open(address, Reason.UNWRITABLE, about) as (store, path):
            _require_success(store.mkdirs(path), about)

    def move(self, address: str, to: str) -> None:
        """Rename a file or folder; the target must not exist, its parent folder must."""
        with self._open(address, Reason.UNWRITABLE, to) as (store, path):
            _require_success(store.rename(path, self._make_path(to)), to)

    def remove(self, address: str) -> None:
        """Remove a file, or a folder with its content, if it exists."""
        with self._open(address, Reason.UNWRITABLE) as (store, path):
            store.delete(path, True)

    def _make_path(self, address: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(address)

    @contextmanager
    def _open(self, address: str, reason: Reason, about: str = "") -> Iterator[tuple[Any, Any]]:
        """Yield the file system and path of a URI; errors of the block name ``about`` or the URI."""
        with translate_errors(reason, about or address):
            path = self._make_path(address)
            yield path.getFileSystem(self._conf), path


def _raise_unusable(address: str, message: str) -> NoReturn:
    raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, f"{printable(address, 4096)}: {message}")


def _require_success(succeeded: bool, address: str) -> None:
    if not succeeded:
        raise TopiaristError(Reason.UNWRITABLE, f"{printable(address, 4096)}: cannot be written: its store refused")
