"""Hadoop's file systems without a JVM: two schemes over folders of this machine.

It has only the methods that ``drift.spark.session`` calls, with Hadoop's own rules where they surprise: a rename is
refused instead of raising, a copy to a local file leaves a checksum file unless it is raw, a folder with content is
removed only recursively.
"""

# The names of methods are those of Java.
# ruff: noqa: N802

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

STORE = "store://bucket"
"""The address of the root of the remote store."""


class Throwable:
    """A Java exception with the methods that topiarist calls."""

    def __init__(self, name: str, message: str | None, cause: Throwable | None = None) -> None:
        self._name, self._message, self._cause = name, message, cause

    def getClass(self) -> Throwable:
        """Return this object, which also answers the calls to its class."""
        return self

    def getSimpleName(self) -> str:
        """Return the name of the class."""
        return self._name

    def getMessage(self) -> str | None:
        """Return the message."""
        return self._message

    def getCause(self) -> Throwable | None:
        """Return the cause."""
        return self._cause


class JavaError(Py4JJavaError):  # type: ignore[misc]
    """A py4j error for a Java exception, without a JVM."""

    def __init__(self, name: str, message: str | None, cause: Throwable | None = None) -> None:
        self.java_exception: Any = Throwable(name, message, cause)

    def __str__(self) -> str:
        raise AssertionError("this would ask the JVM for its stack")


class HadoopConfiguration:
    """The folders of the stores by the address of their root, and the streams that are open."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self.roots = {"file://": Path("/"), **roots}
        self.open_streams = 0

    def find_file(self, address: str) -> Path:
        """Return the file of an address. Raises ``JavaError`` for an unknown scheme."""
        for root, folder in self.roots.items():
            if address.startswith(root):
                return folder / address.removeprefix(root).lstrip("/")
        raise JavaError("UnsupportedFileSystemException", f'No FileSystem for scheme "{address.partition(":")[0]}"')

    def find_address(self, file: Path) -> str:
        """Return the address of a file."""
        for root, folder in reversed(self.roots.items()):
            if file.is_relative_to(folder):
                return f"{root}/{file.relative_to(folder)}"
        raise AssertionError(file)


class HadoopPath:
    """A path of Hadoop; it also is the status of its file."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.file = Path()

    def getFileSystem(self, configuration: HadoopConfiguration) -> FileSystem:
        """Return the file system of the address."""
        self.file = configuration.find_file(self._address)
        return FileSystem(configuration)

    def toString(self) -> str:
        """Return the address."""
        return self._address

    def getName(self) -> str:
        """Return the last part of the address."""
        return self._address.rpartition("/")[2]


class FileStatus:
    """The status of an existing file or folder."""

    def __init__(self, file: Path, address: str) -> None:
        self._file, self._address = file, address

    def isDirectory(self) -> bool:
        """Return whether it is a folder."""
        return self._file.is_dir()

    def getLen(self) -> int:
        """Return the number of bytes."""
        return self._file.stat().st_size

    def getPath(self) -> HadoopPath:
        """Return the path."""
        return HadoopPath(self._address)


class RemoteIterator:
    """An iterator of Java."""

    def __init__(self, items: Iterator[FileStatus]) -> None:
        self._items = [*items]

    def hasNext(self) -> bool:
        """Return whether there is another item."""
        return bool(self._items)

    def next(self) -> FileStatus:
        """Return the next item."""
        return self._items.pop(0)


class InputStream:
    """A stream of a file, which must be closed."""

    def __init__(self, file: Path, configuration: HadoopConfiguration) -> None:
        self._stream = file.open("rb")
        self._configuration = configuration
        configuration.open_streams += 1

    def readNBytes(self, length: int) -> bytearray:
        """Return up to ``length`` bytes."""
        return bytearray(self._stream.read(length))

    def seek(self, position: int) -> None:
        """Continue at a position."""
        self._stream.seek(position)

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        self._configuration.open_streams -= 1


class FileSystem:
    """A file system of Hadoop."""

    def __init__(self, configuration: HadoopConfiguration) -> None:
        self._configuration = configuration

    def _status(self, file: Path) -> FileStatus:
        if not file.exists():
            raise JavaError("FileNotFoundException", f"File {file} does not exist")
        return FileStatus(file, self._configuration.find_address(file))

    def exists(self, path: HadoopPath) -> bool:
        """Return whether there is a file or folder."""
        return path.file.exists()

    def getFileStatus(self, path: HadoopPath) -> FileStatus:
        """Return the status of a file. Raises ``JavaError`` if there is none."""
        return self._status(path.file)

    def listStatus(self, path: HadoopPath) -> list[FileStatus]:
        """Return the content of a folder."""
        return [*map(self._status, sorted(path.file.iterdir()))]

    def listFiles(self, path: HadoopPath, recursive: bool) -> RemoteIterator:
        """Return the files of a folder."""
        found = path.file.rglob("*") if recursive else path.file.iterdir()
        return RemoteIterator(map(self._status, sorted(file for file in found if file.is_file())))

    def open(self, path: HadoopPath) -> InputStream:
        """Open a file."""
        self._status(path.file)
        return InputStream(path.file, self._configuration)

    def copyToLocalFile(self, remove_source: bool, source: HadoopPath, target: HadoopPath, is_raw: bool) -> None:
        """Copy a file to this machine."""
        self._status(source.file)
        target.getFileSystem(self._configuration)
        shutil.copyfile(source.file, target.file)
        if not is_raw:
            target.file.with_name(f".{target.file.name}.crc").touch()
        if remove_source:
            source.file.unlink()

    def copyFromLocalFile(self, remove_source: bool, overwrite: bool, source: HadoopPath, target: HadoopPath) -> None:
        """Copy a file of this machine."""
        source.getFileSystem(self._configuration)
        self._status(source.file)
        if target.file.exists() and not overwrite:
            raise JavaError("PathExistsException", f"{target.file} already exists")
        target.file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.file, target.file)
        if remove_source:
            source.file.unlink()

    def mkdirs(self, path: HadoopPath) -> bool:
        """Create a folder with its parents; return whether it exists now."""
        try:
            path.file.mkdir(parents=True, exist_ok=True)
        except OSError:
            return False
        return True

    def rename(self, source: HadoopPath, target: HadoopPath) -> bool:
        """Rename a file or folder; return whether it was done."""
        target.getFileSystem(self._configuration)
        if not source.file.exists() or target.file.exists() or not target.file.parent.is_dir():
            return False
        source.file.rename(target.file)
        return True

    def delete(self, path: HadoopPath, recursive: bool) -> bool:
        """Remove a file or folder; return whether there was one."""
        if not path.file.exists():
            return False
        if path.file.is_dir():
            if any(path.file.iterdir()) and not recursive:
                raise JavaError("PathIsNotEmptyDirectoryException", f"{path.file} is not empty")
            shutil.rmtree(path.file)
        else:
            path.file.unlink()
        return True
