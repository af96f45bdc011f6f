"""From paths to bytes: which files a run reads, and what may be wrong with them before anything in them is.

Below a given folder only regular files are opened, and no link leads out: a repository from somewhere cannot make a run
read other files, wait for a pipe, or run in circles. Each file is opened by one descriptor, checked, and read once;
what becomes of it on disk afterwards does not matter.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import PurePath
from typing import BinaryIO, NamedTuple

from topiarist.adapters.manifests.limits import MAX_BYTES, MAX_FILES, MAX_FOLDERS, MAX_NAME, MAX_PEEKS
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

_YAML_TEXT = re.compile(r".+[.](?:yaml|yml)[.]txt|.+[.](?:yaml|yml) *", re.IGNORECASE)
_JSON_MANIFEST = re.compile(rb'"apiVersion"\s*:\s*"topiarist\.dev/')
_PEEK = 64 * 1024
"""Bytes of a JSON file that are searched for a manifest."""


class Ignored(NamedTuple):
    """A warning about a path that holds nothing to read, or a file that is not read although its name suggests it."""

    warning: Complaint


def read(paths: Iterable[str], stdin: BinaryIO | None = None) -> Iterator[File | Complaint | Ignored]:
    """The files that ``paths`` mean, in order, or what is wrong with one; ``-`` is ``stdin``.

    A folder means its ``*.yaml`` and ``*.yml``, at any depth, sorted, without hidden ones (``.git``). A file that
    several paths or links lead to is read once. A path that is given may itself be a link. Files of a folder that look
    like manifests and have another name, and folders without any file, are ``Ignored``.
    """
    walk = _Walk()
    for path in paths:
        if path != "-":
            yield from walk.path(path)
        elif stdin is not None:
            yield _stdin(stdin)


def _stdin(stream: BinaryIO) -> File | Complaint:
    try:
        data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        why = "it is closed" if error.errno == errno.EBADF else error.strerror
        return Complaint(Place(STDIN), f"cannot be read: {why}")
    return File(STDIN, data) if len(data) <= MAX_BYTES else _too_large(STDIN)


class _Walk:
    """All paths of one run; remembers what was read."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()
        self._files = 0
        self._again = False
        self.peeks = iter(range(MAX_PEEKS))

    def path(self, path: str) -> Iterator[File | Complaint | Ignored]:
        """The files of one given path, or a warning if there is none."""
        self._again, nothing = False, True
        for found in self._path(path):
            nothing = False
            yield found
        if nothing and not self._again:
            yield _ignored(path, "found no *.yaml and no *.yml in this folder")

    def _path(self, path: str) -> Iterator[File | Complaint | Ignored]:
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
            self._again = True
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
                yield _wrong(place_of(name), f"found more than {MAX_FILES:,} files", "give fewer paths")
            elif status.st_size > MAX_BYTES:
                yield _too_large(name)
            elif len(data := os.read(descriptor, status.st_size + 1)) != status.st_size:
                yield _wrong(place_of(name), "changed while it was being read", "run again")
            else:
                yield File(place_of(name).file, data)
        finally:
            os.close(descriptor)


class _Folder:
    """One given folder: the root that no link leads out of."""

    def __init__(self, walk: _Walk, path: str) -> None:
        self._walk = walk
        self._root = os.path.realpath(path, strict=True)
        self._prefix = "" if path == "." else path.removeprefix("./").rstrip("/") + "/"
        self._links: list[str] = []

    def files(self) -> Iterator[File | Complaint | Ignored]:
        """Everything below: first what lies there itself, then what links lead to and has not been read."""
        yield from self._folder(os.open(self._root, _OPEN | os.O_DIRECTORY), "", 0)
        for link in iter(self._next_link, None):
            yield from self._link(link)

    def _next_link(self) -> str | None:
        return self._links.pop(0) if self._links else None

    def _folder(self, descriptor: int, below: str, depth: int) -> Iterator[File | Complaint | Ignored]:
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

    def _entry(
        self, folder: int, below: str, entry: os.DirEntry[str], depth: int
    ) -> Iterator[File | Complaint | Ignored]:
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
            elif _looks_like_yaml(entry.name) or self._holds_json_manifest(folder, entry):
                yield _unread(self._prefix + path)
        except OSError as error:
            yield _unusable(self._prefix + path, error)

    def _holds_json_manifest(self, folder: int, entry: os.DirEntry[str]) -> bool:
        """Return whether a file is JSON that begins like a manifest; only so many files are opened to find out."""
        if not entry.name.lower().endswith(".json") or not entry.is_file(follow_symlinks=False):
            return False
        if next(self._walk.peeks, None) is None:
            return False
        try:
            opened = os.open(entry.name, _OPEN | os.O_NOFOLLOW, dir_fd=folder)
        except OSError:
            return False  # a file that is not read may be unreadable
        try:
            return _JSON_MANIFEST.search(os.read(opened, _PEEK)) is not None
        finally:
            os.close(opened)

    def _link(self, path: str) -> Iterator[File | Complaint | Ignored]:
        """What a link leads to: a folder's files, or a file if the link is named like a manifest."""
        try:
            target = os.path.realpath(f"{self._root}/{path}", strict=True)
            kind = stat.S_IFMT(os.stat(target).st_mode)  # noqa: PTH116
            if kind != stat.S_IFDIR and not path.endswith(SUFFIXES):
                if _looks_like_yaml(PurePath(path).name):
                    yield _unread(self._prefix + path)
                return
            if target != self._root and not PurePath(target).is_relative_to(self._root):
                message = f"found a link that leads out of {self._name()}"
                yield _wrong(place_of(self._prefix + path), message, "put what it leads to in its place")
            elif kind == stat.S_IFDIR:
                yield from self._folder(self._open_below(target), f"{path}/", path.count("/") + 1)
            elif kind == stat.S_IFREG:
                yield from self._walk.file(self._open_below(target), self._prefix + path)
            else:
                yield _irregular(self._prefix + path, kind)
        except FileNotFoundError:
            yield _wrong(place_of(self._prefix + path), "found a link that leads nowhere", "mend it, or take it away")
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
        return place_of((self._prefix + below).rstrip("/") or ".").file


def _by_name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _looks_like_yaml(name: str) -> bool:
    """Return whether a name is a slip for ``*.yaml`` or ``*.yml``: ``b.YAML``, ``c.ymal``, ``d.yaml.txt``."""
    if _YAML_TEXT.fullmatch(name):
        return True
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    if sorted(suffix) in (sorted("yaml"), sorted("yml")):
        return True
    return suffix.startswith("y") and bool(get_close_matches(suffix, ("yaml", "yml"), n=1, cutoff=0.75))


def _unread(name: str) -> Ignored:
    hint = "rename it, or give it by its own path"
    return _ignored(name, "not read: in a folder only *.yaml and *.yml count", hint)


def _ignored(name: str, message: str, hint: str = "") -> Ignored:
    return Ignored(Complaint(place_of(name), message, hint, Reason.UNREADABLE.value))


def _wrong(place: Place, message: str, hint: str = "") -> Complaint:
    return Complaint(place, message, hint, Reason.UNREADABLE.value)


def _irregular(name: str, kind: int) -> Complaint:
    what = _KINDS.get(kind, "something else")
    hint = "give - and the text on standard input" if kind == stat.S_IFIFO else ""
    return _wrong(place_of(name), f"found {what}, wanted a regular file", hint)


def _too_large(name: str) -> Complaint:
    return _wrong(place_of(name), f"found more than {MAX_BYTES // 2**20} MiB", "split it up")


def _unusable(name: str, error: Exception) -> Complaint:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return _wrong(place_of(name), f"cannot be read: {why[:1].lower()}{why[1:]}")


def place_of(name: str) -> Place:
    """The file as a whole, under a name that can be shown; an empty path is shown as two quotes, ``-`` as stdin."""
    return Place(STDIN if name == "-" else shown(name, MAX_NAME) or '""')
