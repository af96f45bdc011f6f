"""Atomic writes: a folder or a file, written as a whole or not at all, and a log of whole lines.

The commands write exports, plans, snapshots and reports with it. A folder is written to a temporary sibling and
renamed: after a full disk, a signal or a kill, its final name never holds a part. Every error names the path as the
caller gave it and the message of the operating system.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self
from uuid import uuid4

from topiarist.errors import Reason, TopiaristError
from topiarist.text import humanize_bytes, printable_path


def require_empty_folder(folder: Path) -> None:
    """Raise ``TopiaristError`` unless ``folder`` is absent, or empty and not the working directory."""
    with _translate_errors(folder, "nothing was written"):
        if not folder.is_dir():
            if folder.exists() or folder.is_symlink():
                raise _unwritable_error(folder, "it exists and is not a folder", "give a folder that does not exist")
        elif folder.samefile(Path.cwd()):
            raise _unwritable_error(folder, "it is the working directory", "give a folder below it")
        elif any(folder.iterdir()):
            hint = "give a folder that does not exist, and compare the two folders"
            raise _unwritable_error(folder, "it is not empty", hint)


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write ``files`` (text by relative path) as ``folder``, which must be absent or empty.

    Missing parent folders are created. Raises ``TopiaristError`` (Unwritable) on failure.
    """
    require_empty_folder(folder)
    # Follow a link to an empty folder, so that the rename replaces the folder and not the link.
    target = Path(os.path.realpath(folder))
    part = target.with_name(f".{target.name[:200]}.{uuid4().hex[:8]}.part")
    current = folder
    try:
        part.mkdir(parents=True)
        for name, text in files.items():
            current = folder / name
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            (part / name).write_text(text, encoding="utf-8", newline="\n")
        current = folder
        part.rename(target)
    except OSError as error:
        raise _unwritable_error(current, _error_message(error), "nothing was written") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _translate_errors(path: str | Path, hint: str = "") -> Iterator[None]:
    """Translate the errors of the operating system into ``TopiaristError`` with the path that the user knows."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise _unwritable_error(path, _error_message(error), hint) from error


def _unwritable_error(path: str | Path, message: str, hint: str = "") -> TopiaristError:
    return TopiaristError(Reason.UNWRITABLE, f"{printable_path(path)}: cannot be written: {message}", hint)


MAX_FILE_BYTES = 1 << 29
"""Bytes of a file that is read at once: a plan of a million topics."""

_SYNC_INTERVAL_S = 1.0
"""Seconds between two calls of ``fsync``.

One call per line would take longer than the work on the topic in that line.
"""


def read_file(path: str) -> bytes:
    """Return the bytes of a regular file.

    Raises ``TopiaristError`` (Unreadable), also for a file larger than ``MAX_FILE_BYTES``.
    """
    try:
        # O_NONBLOCK: opening a pipe without a writer would block.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TopiaristError(Reason.UNREADABLE, f"{path}: is not a regular file")
            data = file.read(MAX_FILE_BYTES + 1)
            if len(data) > MAX_FILE_BYTES:
                raise TopiaristError(Reason.UNREADABLE, f"{path}: is larger than {humanize_bytes(MAX_FILE_BYTES)}")
            return data
    except (OSError, ValueError) as error:
        raise TopiaristError(Reason.UNREADABLE, f"{path}: cannot be read: {_error_message(error)}") from error


def write_file(path: str, content: str | Iterable[bytes], *, make_parents: bool = False) -> None:
    """Replace the file at ``path`` with ``content`` atomically; a link keeps its target.

    With ``make_parents`` missing parent folders are created. Raises ``TopiaristError`` (Unwritable). On any error,
    including one raised by ``content``, the existing file is unchanged.
    """
    with _translate_errors(path):
        target = Path(path).resolve()
        if target.exists() and not target.is_file():
            raise _unwritable_error(path, "it exists and is not a regular file")
        if make_parents:
            target.parent.mkdir(parents=True, exist_ok=True)
    try:
        _replace_file(target, [content.encode()] if isinstance(content, str) else content)
    except OSError as error:
        raise _unwritable_error(path, _error_message(error)) from error


def create_file(path: str, content: str) -> None:
    """Write a new file at ``path``, with missing parent folders; an existing file or link is never replaced.

    Raises ``TopiaristError`` (Unwritable), also if the file exists. After an error there is no file.
    """
    target, data = Path(path), content.encode()
    with _translate_errors(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_new_file(target, [data], 0o666)


def _write_new_file(target: Path, chunks: Iterable[bytes], mode: int) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise


def _replace_file(target: Path, chunks: Iterable[bytes]) -> None:
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666
    beside = target.with_name(f".topiarist-{os.urandom(8).hex()}")
    _write_new_file(beside, chunks, mode)
    try:
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    # Make the rename durable. The file is complete, and not every system can sync a folder, so ignore errors.
    with suppress(OSError):
        folder = os.open(target.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


class LineFile:
    """A file that whole lines are appended to; use as a context manager.

    A line is written as a whole or not at all. Existing lines are kept. A new file without lines is removed on exit.
    Raises ``TopiaristError`` (Unwritable) from the constructor and from ``add_line``.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._last_sync = 0.0
        with _translate_errors(path):
            self._is_new = not Path(path).exists()
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            self._is_regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
            self._size = os.fstat(self._descriptor).st_size if self._is_regular else 0
        self._ends_within_line = self._size > 0 and os.pread(self._descriptor, 1, self._size - 1) != b"\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.close(self._descriptor)
            if self._is_new and self._is_regular and not self._size:
                Path(self._path).unlink()

    def add_line(self, line: str, *, last: bool = False) -> None:
        """Append a line; it is written at once and synced to disk within about a second.

        With ``last`` it is synced before this returns.
        """
        data = ("\n" * self._ends_within_line + line + "\n").encode()
        with _translate_errors(self._path):
            self._write(data)
            if self._is_regular and (last or time.monotonic() - self._last_sync > _SYNC_INTERVAL_S):
                os.fsync(self._descriptor)
                self._last_sync = time.monotonic()
        self._size += len(data)
        self._ends_within_line = False

    def _write(self, data: bytes) -> None:
        rest = data
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            # Remove the part of the line that was written, so that the file keeps whole lines only.
            if self._is_regular:
                os.ftruncate(self._descriptor, self._size)
            raise


def _error_message(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
