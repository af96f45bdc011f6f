"""A folder of files, written whole or not at all: beside its place first, then moved there in one step.

The way back of ``files``. Whatever happens in between (a full disk, a signal, a kill), under the folder's own name
there is never a part of it.

Files of our own: read as they are, written whole or not at all, or written line by line as things happen.

Every error names the path as it was given, and what the system said.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import NoReturn, Self
from uuid import uuid4

from topiarist.errors import Reason, TopiaristError
from topiarist.text import humanize_bytes, printable

_MAX_SHOWN_PATH = 4096
"""Characters of a path that are shown."""


def require_empty_folder(folder: Path) -> None:
    """Raise ``TopiaristError`` unless ``folder`` is absent, or empty and not the one that we are in."""
    with _translate_errors(folder):
        if not folder.is_dir():
            if folder.exists() or folder.is_symlink():
                raise _make_folder_error(folder, "it exists and is no folder", "name a folder that does not exist yet")
        elif folder.samefile(Path.cwd()):
            raise _make_folder_error(folder, "it is the folder that you are in", "name one below it")
        elif any(folder.iterdir()):
            raise _make_folder_error(
                folder, "it is not empty", "name a folder that does not exist yet, and compare the two"
            )


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Make ``folder`` (absent or empty) hold ``files``, text by path below it. Raises ``TopiaristError`` if it cannot.

    Folders above it are made where they are missing.
    """
    require_empty_folder(folder)
    # A link to an empty folder is followed: what is replaced in one step is the folder itself.
    place = Path(os.path.realpath(folder))
    part = place.with_name(f".{place.name[:200]}.{uuid4().hex[:8]}.part")
    with _translate_errors(folder):
        part.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _translate_errors(folder):
            part.mkdir()
        for below in sorted({Path(name).parent for name in files}):
            with _translate_errors(folder / below):
                (part / below).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with _translate_errors(folder / name):
                (part / name).write_text(text, encoding="utf-8", newline="\n")
        with _translate_errors(folder):
            part.rename(place)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Let an error of the operating system name the path that a person knows, in words."""
    try:
        yield
    except OSError as error:
        raise _make_folder_error(path, error.strerror or str(error), "nothing was written") from error


def _make_folder_error(path: Path, message: str, hint: str) -> TopiaristError:
    return TopiaristError(
        Reason.UNWRITABLE, f"{printable(str(path), _MAX_SHOWN_PATH)}: cannot be written: {message}", hint
    )


MAX_FILE_BYTES = 1 << 29
"""Size of a file that is read whole: a plan of a million topics."""

_SYNC_INTERVAL_S = 1.0
"""Seconds between two times that lines are forced to the disk: each one by itself would cost more than its topic."""


def read_file(path: str) -> bytes:
    """What a regular file holds. Raises ``TopiaristError`` (Unreadable)."""
    try:
        # Without waiting: a pipe that nobody writes to would never answer.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TopiaristError(Reason.UNREADABLE, f"{path}: is no file")
            data = file.read(MAX_FILE_BYTES + 1)
            if len(data) > MAX_FILE_BYTES:
                raise TopiaristError(Reason.UNREADABLE, f"{path}: is larger than {humanize_bytes(MAX_FILE_BYTES)}")
            return data
    except (OSError, ValueError) as error:
        raise TopiaristError(Reason.UNREADABLE, f"{path}: cannot be read: {_error_message(error)}") from error


def write_file(path: str, content: str | Iterable[bytes], *, make_parents: bool = False) -> None:
    """Put ``content`` in the place of what is at ``path``, all of it at once; a link keeps leading to it.

    ``make_parents``: folders above it that are missing are made. Raises ``TopiaristError`` (Unwritable); the file that
    was there is then as it was, as it is after an error of whoever gives the content.
    """
    try:
        target = _resolve_target(path)
        if make_parents:
            target.parent.mkdir(parents=True, exist_ok=True)
        _replace_file(target, [content.encode()] if isinstance(content, str) else content)
    except OSError as error:
        _raise_unwritable(path, _error_message(error))


def _resolve_target(path: str) -> Path:
    """The regular file that a path leads to, or the place for one."""
    try:
        target = Path(path).resolve()
    except ValueError as error:
        _raise_unwritable(path, _error_message(error))
    if target.exists() and not target.is_file():
        _raise_unwritable(path, "there is something else than a file")
    return target


def _replace_file(target: Path, chunks: Iterable[bytes]) -> None:
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
        self._last_sync = 0.0
        try:
            self._is_new = not Path(path).exists()
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            self._is_regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
            self._size = os.fstat(self._descriptor).st_size if self._is_regular else 0
        except (OSError, ValueError) as error:
            _raise_unwritable(path, _error_message(error))
        self._ends_within_line = self._size > 0 and os.pread(self._descriptor, 1, self._size - 1) != b"\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            os.close(self._descriptor)
            if self._is_new and self._is_regular and not self._size:
                Path(self._path).unlink()

    def add_line(self, line: str, *, last: bool = False) -> None:
        """Add a line; it is on its way to the disk at once, and there soon (at the ``last`` one: when this returns)."""
        data = ("\n" * self._ends_within_line + line + "\n").encode()
        try:
            self._write(data)
            if self._is_regular and (last or time.monotonic() - self._last_sync > _SYNC_INTERVAL_S):
                os.fsync(self._descriptor)
                self._last_sync = time.monotonic()
        except OSError as error:
            _raise_unwritable(self._path, _error_message(error))
        self._size += len(data)
        self._ends_within_line = False

    def _write(self, data: bytes) -> None:
        rest = data
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            if self._is_regular:
                os.ftruncate(self._descriptor, self._size)
            raise


def _raise_unwritable(path: str, message: str) -> NoReturn:
    raise TopiaristError(Reason.UNWRITABLE, f"{path}: cannot be written: {message}")


def _error_message(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
