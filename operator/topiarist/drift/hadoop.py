"""Files wherever Spark reaches them, by Hadoop's own ways into each store: the few verbs that a report needs.

Addresses are text, as they were given. Each method raises ``TopiaristError``, with the address in it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from topiarist.adapters.snapshot.reading import MAX_BYTES, MAX_ROW
from topiarist.core.units import size
from topiarist.core.values import shown
from topiarist.drift.spark_errors import in_words
from topiarist.errors import Reason, TopiaristError

_CHUNK = 1 << 20


class Storage:
    """The stores that a Spark session knows."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm
        self._conf = context._jsc.hadoopConfiguration()

    def files(self, address: str) -> list[str]:
        """All files in a folder, at any depth, without those that programs hide; or the file itself."""
        with in_words(Reason.UNREADABLE, address):
            store, path = self._at(address)
            if not store.getFileStatus(path).isDirectory():
                return [address]
            walk, found = store.listFiles(path, True), []
            while walk.hasNext():
                found.append(str(walk.next().getPath().toString()))
        return [file for file in found if not file.rpartition("/")[2].startswith((".", "_"))]

    def names(self, address: str) -> list[str] | None:
        """What is in a folder, by name; None if nothing is there at all, and an empty name for a file."""
        with in_words(Reason.UNREADABLE, address):
            store, path = self._at(address)
            if not store.exists(path):
                return None
            if not store.getFileStatus(path).isDirectory():
                return [""]
            return [str(status.getPath().getName()) for status in store.listStatus(path)]

    def lines(self, address: str) -> Generator[bytes, None, None]:
        """The lines of a file, none of them beyond all bounds."""
        with in_words(Reason.SNAPSHOT_UNUSABLE, address):
            store, path = self._at(address)
            if (length := store.getFileStatus(path).getLen()) > MAX_BYTES:
                _unusable(address, f"found {size(length)}, wanted at most {size(MAX_BYTES)}")
            stream = store.open(path)
            try:
                yield from _lines(address, iter(lambda: bytes(stream.readNBytes(_CHUNK)), b""))
            finally:
                stream.close()

    def tail(self, address: str, length: int) -> bytes:
        """The last bytes of a file."""
        with in_words(Reason.SNAPSHOT_UNUSABLE, address):
            store, path = self._at(address)
            stream = store.open(path)
            try:
                stream.seek(max(store.getFileStatus(path).getLen() - length, 0))
                return bytes(stream.readNBytes(length))
            finally:
                stream.close()

    def get(self, address: str, file: Path) -> None:
        """Fetch a file."""
        with in_words(Reason.UNREADABLE, address):
            store, path = self._at(address)
            store.copyToLocalFile(False, path, self._path(f"file://{file}"), True)

    def put(self, file: Path, address: str) -> None:
        """Send a file; folders above it that are missing are made, and what is there is replaced."""
        with in_words(Reason.UNWRITABLE, address):
            store, path = self._at(address)
            store.copyFromLocalFile(False, True, self._path(f"file://{file}"), path)

    def make(self, address: str, about: str) -> None:
        """Make a folder, and those above it; errors name what it is ``about``."""
        with in_words(Reason.UNWRITABLE, about):
            store, path = self._at(address)
            _require(store.mkdirs(path), about)

    def move(self, address: str, to: str) -> None:
        """Give a file or folder another name, at which nothing is; the folder above that is there."""
        with in_words(Reason.UNWRITABLE, to):
            store, path = self._at(address)
            _require(store.rename(path, self._path(to)), to)

    def remove(self, address: str) -> None:
        """Remove a file or folder with all that is in it, if it is there."""
        with in_words(Reason.UNWRITABLE, address):
            store, path = self._at(address)
            store.delete(path, True)

    def _path(self, address: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(address)

    def _at(self, address: str) -> tuple[Any, Any]:
        path = self._path(address)
        return path.getFileSystem(self._conf), path


def _lines(address: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in whole)
        if len(rest) > MAX_ROW:
            _unusable(address, f"found a row of more than {size(MAX_ROW)}")
    if rest:
        yield rest


def _unusable(address: str, words: str) -> None:
    raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, f"{shown(address, 4096)}: {words}")


def _require(done: bool, address: str) -> None:
    if not done:
        raise TopiaristError(Reason.UNWRITABLE, f"{shown(address, 4096)}: cannot be written: its store refused")
