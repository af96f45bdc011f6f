"""From paths to bytes: which files a run reads, and what may be wrong with them before anything in them is.

Below a given folder only regular files are opened, and no link leads out: a repository from somewhere cannot make a run
read other files, wait for a pipe, or run in circles. Each file is opened by one descriptor, checked, and read once;
what becomes of it on disk afterwards does not matter.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import BinaryIO

from topiarist.adapters.manifests.limits import MAX_BYTES, MAX_FILES, MAX_FOLDERS, MAX_NAME
from topiarist.adapters.manifests.source import File
from topiarist.core.values import shown
from topiarist.errors import Complaint, Place, Reason

STDIN = "<stdin>"
SUFFIXES = (".yaml", ".yml")

_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def read(paths: Iterable[str], stdin: BinaryIO | None = None) -> Iterator[File | Complaint]:
    """The files that ``paths`` mean, in order, or what is wrong with one; ``-`` is ``stdin``.

    A folder means its ``*.yaml`` and ``*.yml``, at any depth, sorted, without hidden ones (``.git``). A file that
    several paths or links lead to is read once. A path that is given may itself be a link.
    """
    walk = _Walk()
    for path in paths:
        if path != "-":
            yield from walk.path(path)
        elif stdin is not None:
            data = stdin.read(MAX_BYTES + 1)
            yield File(STDIN, data) if len(data) <= MAX_BYTES else _too_large(STDIN)


class _Walk:
    """All paths of one run; remembers what was read."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()
        self._files = 0

    def path(self, path: str) -> Iterator[File | Complaint]:
        """The files of one given path."""
        try:
            kind = stat.S_IFMT(os.stat(path).st_mode)  # noqa: PTH116 - a given path may be text that pathlib would change
            if kind == stat.S_IFDIR:
                yield from _Folder(self, path).files()
            elif kind == stat.S_IFREG:
                yield from self.file(os.open(path, _OPEN), path)
            else:
                yield _irregular(path, kind)
        except (OSError, ValueError) as error:
            yield _unusable(path, error)

    def first(self, status: os.stat_result) -> bool:
        """Whether a file or folder has not been met before."""
        identity = (status.st_dev, status.st_ino)
        if identity in self._seen:
            return False
        self._seen.add(identity)
        return True

    def file(self, descriptor: int, name: str) -> Iterator[File | Complaint]:
        """The content of one open file, which is closed."""
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                yield _irregular(name, stat.S_IFMT(status.st_mode))
                return
            if not self.first(status):
                return
            self._files += 1
            if self._files > MAX_FILES:
                yield _wrong(_place(name), f"found more than {MAX_FILES:,} files", "give fewer paths")
            elif status.st_size > MAX_BYTES:
                yield _too_large(name)
            elif len(data := os.read(descriptor, status.st_size + 1)) != status.st_size:
                yield _wrong(_place(name), "changed while it was being read", "run again")
            else:
                yield File(_place(name).file, data)
        finally:
            os.close(descriptor)


class _Folder:
    """One given folder: the root that no link leads out of."""

    def __init__(self, walk: _Walk, path: str) -> None:
        self._walk = walk
        self._root = os.path.realpath(path, strict=True)
        self._prefix = "" if path == "." else path.removeprefix("./").rstrip("/") + "/"
        self._links: list[str] = []

    def files(self) -> Iterator[File | Complaint]:
        """Everything below: first what lies there itself, then what links lead to and has not been read."""
        yield from self._folder(os.open(self._root, _OPEN | os.O_DIRECTORY), "", 0)
        for link in iter(self._next_link, None):
            yield from self._link(link)

    def _next_link(self) -> str | None:
        return self._links.pop(0) if self._links else None

    def _folder(self, descriptor: int, below: str, depth: int) -> Iterator[File | Complaint]:
        """Read an open folder, which is closed; ``below`` is its path below the root, with a final slash."""
        try:
            if not self._walk.first(os.fstat(descriptor)):
                return
            if depth > MAX_FOLDERS:
                yield _wrong(Place(self._name(below)), f"found folders nested more than {MAX_FOLDERS} deep")
                return
            with os.scandir(descriptor) as entries:
                found = sorted((entry for entry in entries if entry.name[0] != "."), key=_by_name)
            for entry in found:
                yield from self._entry(descriptor, below, entry, depth)
        finally:
            os.close(descriptor)

    def _entry(self, folder: int, below: str, entry: os.DirEntry[str], depth: int) -> Iterator[File | Complaint]:
        path = below + entry.name
        try:
            if entry.is_symlink():
                self._links.append(path)
            elif entry.is_dir(follow_symlinks=False):
                inner = os.open(entry.name, _OPEN | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                yield from self._folder(inner, f"{path}/", depth + 1)
            elif entry.name.endswith(SUFFIXES):
                if entry.is_file(follow_symlinks=False):
                    opened = os.open(entry.name, _OPEN | os.O_NOFOLLOW, dir_fd=folder)
                    yield from self._walk.file(opened, self._prefix + path)
                else:
                    yield _irregular(self._prefix + path, stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode))
        except OSError as error:
            yield _unusable(self._prefix + path, error)

    def _link(self, path: str) -> Iterator[File | Complaint]:
        """What a link leads to: a folder's files, or a file if the link is named like a manifest."""
        try:
            target = os.path.realpath(f"{self._root}/{path}", strict=True)
            kind = stat.S_IFMT(os.stat(target).st_mode)  # noqa: PTH116
            if kind != stat.S_IFDIR and not path.endswith(SUFFIXES):
                return
            if target != self._root and not PurePath(target).is_relative_to(self._root):
                message = f"found a link that leads out of {self._name()}"
                yield _wrong(_place(self._prefix + path), message, "put what it leads to in its place")
            elif kind == stat.S_IFDIR:
                yield from self._folder(self._open_below(target), f"{path}/", path.count("/") + 1)
            elif kind == stat.S_IFREG:
                yield from self._walk.file(self._open_below(target), self._prefix + path)
            else:
                yield _irregular(self._prefix + path, kind)
        except FileNotFoundError:
            yield _wrong(_place(self._prefix + path), "found a link that leads nowhere", "mend it, or take it away")
        except OSError as error:
            yield _unusable(self._prefix + path, error)

    def _open_below(self, target: str) -> int:
        """Open a path that has no links, step by step from the root, so that none can be put in its way meanwhile."""
        descriptor = os.open(self._root, _OPEN | os.O_DIRECTORY)
        for step in PurePath(target).relative_to(self._root).parts:
            try:
                inner = os.open(step, _OPEN | os.O_NOFOLLOW, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = inner
        return descriptor

    def _name(self, below: str = "") -> str:
        return _place((self._prefix + below).rstrip("/") or ".").file


def _by_name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _wrong(place: Place, message: str, hint: str = "") -> Complaint:
    return Complaint(place, message, hint, Reason.UNREADABLE.value)


def _irregular(name: str, kind: int) -> Complaint:
    what = _KINDS.get(kind, "something else")
    hint = "give - and the text on standard input" if kind == stat.S_IFIFO else ""
    return _wrong(_place(name), f"found {what}, wanted a regular file", hint)


def _too_large(name: str) -> Complaint:
    return _wrong(_place(name), f"found more than {MAX_BYTES // 2**20} MiB", "split it up")


def _unusable(name: str, error: Exception) -> Complaint:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return _wrong(_place(name), f"cannot be read: {why[:1].lower()}{why[1:]}")


def _place(name: str) -> Place:
    """The file as a whole, under a name that can be shown; an empty path is shown as two quotes."""
    return Place(shown(name, MAX_NAME) or '""')
