"""Files at URIs: the stores that snapshots, reports and histories may be in, without Spark.

``drift.snapshots``, ``drift.outputs`` and ``drift.parquet`` use ``Storage`` for every path with a scheme other than
``file:``. Only this module imports fsspec, and fsspec imports the driver of a scheme when the first file of that scheme
is used. URIs are text, as the user gave them. Each method raises ``TopiaristError`` with the URI in the message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn
from urllib.parse import unquote

from topiarist.adapters.snapshots.files import MAX_BYTES, MAX_ROW_BYTES
from topiarist.errors import Reason, TopiaristError, missing_packages_error
from topiarist.text import humanize_bytes, printable, printable_path

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_FILE_URI = re.compile(r"file:/+")

_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "az": "azure", "abfs": "azure", "abfss": "azure"}
"""The extra of topiarist with the driver of a scheme."""

_HEAD_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 23


def to_local_path(path: str) -> str:
    """Return a ``file:`` URI as a plain path; return any other text unchanged."""
    return "/" + unquote(_FILE_URI.sub("", path)) if _FILE_URI.match(path) else path


def is_remote(path: str) -> bool:
    """Return whether a text is a URI of another scheme than ``file:``."""
    return bool(_URI.match(path)) and not _FILE_URI.match(path)


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is a folder or is in it; of a URI, by its text: ``s3a:`` and ``s3:`` are one store."""
    if is_remote(path) or is_remote(folder):
        return _to_comparable(path).startswith(_to_comparable(folder))
    return Path(path).resolve().is_relative_to(Path(folder).resolve())


def _to_comparable(address: str) -> str:
    scheme, _, rest = address.partition(":")
    return f"{_EXTRAS.get(scheme, scheme)}:{rest.rstrip('/')}/"


def is_same_folder(one: str, other: str) -> bool:
    """Return whether two paths are one folder; an empty path is none."""
    return bool(one and other) and is_within(one, other) and is_within(other, one)


def is_hidden(path: str) -> bool:
    """Return whether a part of a relative path begins with a dot or an underscore.

    Such names are no snapshots: the log of a Delta table, files of Spark that are not complete, and temporary folders.
    """
    return any(part.startswith((".", "_")) for part in PurePosixPath(path).parts)


class Storage:
    """The stores that fsspec has a driver for; errors have ``reason``."""

    def __init__(self, reason: Reason = Reason.UNREADABLE) -> None:
        self._reason = reason

    def list_files(self, address: str) -> list[str]:
        """Return all files below a folder at any depth, without hidden files and folders, or the file itself.

        Raises an error if nothing exists there.
        """
        with self._open(address) as (store, path):
            if store.isfile(path):
                return [address]
            found = [str(file).removeprefix(path.rstrip("/")).lstrip("/") for file in store.find(path)]
            if not found and not store.exists(path):
                raise FileNotFoundError
        # A name that ends with a slash is the mark of a folder, which some writers leave in a bucket.
        files = (file for file in found if not is_hidden(file) and not file.endswith("/"))
        return sorted(f"{address.rstrip('/')}/{file}" for file in files)

    def list_names(self, address: str) -> list[str] | None:
        """Return the names in a folder, None if nothing exists there, and one empty name for a file."""
        with self._open(address) as (store, path):
            if store.isfile(path):
                return [""]
            if not store.exists(path):
                return None
            paths = {str(each).strip("/") for each in store.ls(path, detail=False)} - {path.strip("/")}
            return sorted(each.rpartition("/")[2] for each in paths)

    def read_first_line(self, address: str) -> bytes:
        """Return the first line of a snapshot, empty for an empty file."""
        return next(self.read_lines(address, _HEAD_BYTES), b"")

    def read_lines(self, address: str, block_bytes: int = _BLOCK_BYTES) -> Iterator[bytes]:
        """Yield the lines of a snapshot, each of at most ``MAX_ROW_BYTES``, of a file of at most ``MAX_BYTES``.

        A store is asked for ``block_bytes`` at a time.
        """
        with self._open(address) as (store, path), store.open(path, "rb", block_size=block_bytes) as file:
            if file.size > MAX_BYTES:
                self._raise(address, f"found {humanize_bytes(file.size)}, wanted at most {humanize_bytes(MAX_BYTES)}")
            rest = b""
            while chunk := file.read(block_bytes):
                *lines, rest = (rest + chunk).split(b"\n")
                if max([len(rest), *(len(line) + 1 for line in lines)]) > MAX_ROW_BYTES:
                    self._raise(address, f"found a row of more than {humanize_bytes(MAX_ROW_BYTES)}")
                for line in lines:
                    yield line + b"\n"
            if rest:
                yield rest

    def read_tail(self, address: str, length: int) -> bytes:
        """Return the last bytes of a file."""
        with self._open(address) as (store, path), store.open(path, "rb", block_size=_HEAD_BYTES) as file:
            file.seek(max(file.size - length, 0))
            return bytes(file.read())

    def download(self, address: str, file: Path) -> None:
        """Copy a file, or the files of a folder that Spark wrote in order of name, to one local file."""
        with file.open("wb") as output:
            output.writelines(self.read_parts(address))

    def read_parts(self, address: str) -> Iterator[bytes]:
        """Yield the content of a file, or of the files of a folder that Spark wrote in order of name."""
        for part in self.list_files(address):
            with self._open(part) as (store, path), store.open(path, "rb", block_size=_BLOCK_BYTES) as stream:
                while chunk := stream.read(_BLOCK_BYTES):
                    yield chunk

    def write_file(self, address: str, content: Iterable[bytes]) -> None:
        """Write a file; stores show it when it is complete."""
        with self._open(address, missing="there is no such bucket or folder") as (store, path):
            _make_parents(store, path)
            with store.open(path, "wb", block_size=_BLOCK_BYTES) as output:
                for chunk in content:
                    output.write(chunk)

    def upload(self, file: Path, address: str) -> None:
        """Copy a local file to a URI; it replaces an existing file."""
        with file.open("rb") as source:
            self.write_file(address, iter(lambda: source.read(_BLOCK_BYTES), b""))

    def copy(self, address: str, to: str) -> None:
        """Copy a file within a store, which does it by itself if it can."""
        with self._open(address, to) as (store, path):
            target = open_store(to)[1]
            _make_parents(store, target)
            store.cp_file(path, target)

    def remove(self, address: str) -> None:
        """Remove a file, or a folder with its content, if it exists."""
        with self._open(address) as (store, path):
            if store.exists(path):
                store.rm(path, recursive=True)

    @contextmanager
    def _open(
        self, address: str, about: str = "", missing: str = "there is no such file or folder"
    ) -> Iterator[tuple[Any, str]]:
        """Yield the file system and path of a URI; errors of the block name ``about`` or the URI."""
        try:
            store, path = open_store(address)
            store.invalidate_cache()
            yield store, path
        except TopiaristError:
            raise
        except FileNotFoundError:
            self._raise(about or address, missing)
        except Exception as error:  # each driver has exceptions of its own
            message = f"{type(error).__name__}: {error}".partition("\n")[0]
            self._raise(about or address, f"its store reported {printable(message, 400)}")

    def _raise(self, address: str, message: str) -> NoReturn:
        raise TopiaristError(self._reason, f"{printable_path(address)}: {message}")


def _make_parents(store: Any, path: str) -> None:
    """Create the folders of a file, in a store that has folders: there, paths begin with a slash.

    Other stores would create the bucket, so that a typing error in its name would be a new bucket.
    """
    if path.startswith("/"):
        store.makedirs(path.rpartition("/")[0], exist_ok=True)


def open_store(address: str) -> tuple[Any, str]:
    """Return the file system of a URI, and its path there. Raises ``PrerequisiteMissing`` without its driver."""
    scheme = address.partition(":")[0]
    try:
        from fsspec.core import url_to_fs

        store, path = url_to_fs(address)
    except (ImportError, ValueError) as error:
        is_known = isinstance(error, ImportError) or (scheme in _EXTRAS and "Protocol not known" in str(error))
        if not is_known:  # fsspec knows abfss only by its driver
            raise
        raise missing_packages_error(_EXTRAS.get(scheme, "drift"), printable_path(address)) from error
    return store, str(path)
