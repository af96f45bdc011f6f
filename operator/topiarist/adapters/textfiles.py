"""Files of our own: read as they are, written whole or not at all, or written line by line as things happen.

Every error names the path as it was given, and what the system said.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import NoReturn, Self

from topiarist.core.units import size
from topiarist.errors import Reason, TopiaristError

MAX_BYTES = 1 << 29
"""Size of a file that is read whole: a plan of a million topics."""

_SYNCED_EVERY = 1.0
"""Seconds between two times that lines are forced to the disk: each one by itself would cost more than its topic."""


def read(path: str) -> bytes:
    """What a regular file holds. Raises ``TopiaristError`` (Unreadable)."""
    try:
        # Without waiting: a pipe that nobody writes to would never answer.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TopiaristError(Reason.UNREADABLE, f"{path}: is no file")
            data = file.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise TopiaristError(Reason.UNREADABLE, f"{path}: is larger than {size(MAX_BYTES)}")
            return data
    except (OSError, ValueError) as error:
        raise TopiaristError(Reason.UNREADABLE, f"{path}: cannot be read: {_words(error)}") from error


def write_whole(path: str, content: str | Iterable[bytes], *, parents: bool = False) -> None:
    """Put ``content`` in the place of what is at ``path``, all of it at once; a link keeps leading to it.

    ``parents``: folders above it that are missing are made. Raises ``TopiaristError`` (Unwritable); the file that was
    there is then as it was, as it is after an error of whoever gives the content.
    """
    try:
        target = _target(path)
        if parents:
            target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, [content.encode()] if isinstance(content, str) else content)
    except OSError as error:
        _unwritable(path, _words(error))


def _target(path: str) -> Path:
    """The regular file that a path leads to, or the place for one."""
    try:
        target = Path(path).resolve()
    except ValueError as error:
        _unwritable(path, _words(error))
    if target.exists() and not target.is_file():
        _unwritable(path, "there is something else than a file")
    return target


def _replace(target: Path, chunks: Iterable[bytes]) -> None:
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666
    beside = target.with_name(f".topiarist-{token_hex(8)}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(descriptor)
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    with suppress(OSError):  # the file is whole; whether its new name outlives a power cut, not every system can say
        folder = os.open(target.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


class LineFile:
    """A file that lines are added to, each of them whole or not at all; use as a context manager.

    What is there already is kept. A file that was made for nothing is taken away again. Raises ``TopiaristError``
    (Unwritable) from each of its methods.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._synced = 0.0
        try:
            self._new = not Path(path).exists()
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            self._regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
            self._size = os.fstat(self._descriptor).st_size if self._regular else 0
        except (OSError, ValueError) as error:
            _unwritable(path, _words(error))
        self._begins_within_a_line = self._size > 0 and os.pread(self._descriptor, 1, self._size - 1) != b"\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            os.close(self._descriptor)
            if self._new and self._regular and not self._size:
                Path(self._path).unlink()

    def add(self, line: str, *, last: bool = False) -> None:
        """Add a line; it is on its way to the disk at once, and there soon (at the ``last`` one: when this returns)."""
        data = ("\n" * self._begins_within_a_line + line + "\n").encode()
        try:
            self._write(data)
            if self._regular and (last or time.monotonic() - self._synced > _SYNCED_EVERY):
                os.fsync(self._descriptor)
                self._synced = time.monotonic()
        except OSError as error:
            _unwritable(self._path, _words(error))
        self._size += len(data)
        self._begins_within_a_line = False

    def _write(self, data: bytes) -> None:
        rest = data
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            if self._regular:
                os.ftruncate(self._descriptor, self._size)
            raise


def _unwritable(path: str, words: str) -> NoReturn:
    raise TopiaristError(Reason.UNWRITABLE, f"{path}: cannot be written: {words}")


def _words(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
