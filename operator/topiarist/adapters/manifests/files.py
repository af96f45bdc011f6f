"""Files of a run: paths in, bytes or errors out.

``loader`` calls ``read_files``. Below a given folder only regular files are opened, and no link outside the folder is
followed: an untrusted repository cannot make a run read other files, wait for a pipe, or loop. Each file is opened once
by descriptor, checked, and read once, so later changes on disk have no effect.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, BinaryIO

from msgspec import Struct

from topiarist.adapters.manifests.source import (
    MAX_BYTES,
    MAX_FILES,
    MAX_FOLDER_DEPTH,
    MAX_NAME_LENGTH,
    MAX_PEEKS,
    Document,
    File,
)
from topiarist.errors import Diagnostic, InvalidManifests, Location, Reason
from topiarist.schema.check import check_project
from topiarist.text import printable

STDIN = "<stdin>"
SUFFIXES = (".yaml", ".yml")

_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_FILE_TYPE_NAMES = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}

_YAML_TEXT = re.compile(r".+[.](?:yaml|yml)[.]txt|.+[.](?:yaml|yml) *", re.IGNORECASE)
_JSON_MANIFEST = re.compile(rb'"apiVersion"\s*:\s*"topiarist\.dev/')
_MAX_PEEK_BYTES = 64 * 1024
"""Bytes of a JSON file that are searched for a manifest."""


class IgnoredPath(Struct, frozen=True):
    """A warning about a path that brings no input.

    Either a folder without manifests, or a skipped file with a name like a manifest's.
    """

    warning: Diagnostic


def read_files(paths: Iterable[str], stdin: BinaryIO | None = None) -> Iterator[File | Diagnostic | IgnoredPath]:
    """Yield the files that ``paths`` name, in order, or an error for each; ``-`` is ``stdin``.

    A folder stands for its ``*.yaml`` and ``*.yml`` files at any depth, sorted, without hidden entries (``.git``). A
    file that several paths or links lead to is read once. A given path may be a link. Folders without any file, and
    files of a folder that look like manifests but have another suffix, are ``IgnoredPath`` values.
    """
    walk = _FileWalker()
    for path in dict.fromkeys(paths):
        if path != "-":
            yield from walk.walk_path(path)
        elif stdin is not None:
            yield _read_stdin(stdin)


def _read_stdin(stream: BinaryIO) -> File | Diagnostic:
    try:
        data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = "it is closed" if error.errno == errno.EBADF else error.strerror
        return Diagnostic(Location(STDIN), f"cannot be read: {reason}")
    return File(STDIN, data) if len(data) <= MAX_BYTES else _too_large_error(STDIN)


class _FileWalker:
    """A reader of all paths of one run that remembers the files it has read."""

    def __init__(self) -> None:
        self._visited: set[tuple[int, int]] = set()
        self._file_count = 0
        self._has_repeated_file = False
        self.remaining_peeks = iter(range(MAX_PEEKS))

    def walk_path(self, path: str) -> Iterator[File | Diagnostic | IgnoredPath]:
        """Yield the files of one given path, or a warning if there is none."""
        self._has_repeated_file, is_empty = False, True
        for found in self._walk_given_path(path):
            is_empty = False
            yield found
        if is_empty and not self._has_repeated_file:
            message = "found no *.yaml and no *.yml in this folder"
            yield _make_ignored_path(path, message, "files with another suffix need their own path")

    def _walk_given_path(self, path: str) -> Iterator[File | Diagnostic | IgnoredPath]:
        try:
            kind = stat.S_IFMT(os.stat(path).st_mode)  # noqa: PTH116 - a given path may be text that pathlib would change
            if kind == stat.S_IFDIR:
                yield from _FolderWalker(self, path).walk_files()
            elif kind == stat.S_IFREG:
                yield from self.read_file(os.open(path, _OPEN_FLAGS), path)
            else:
                yield _not_regular_error(path, kind)
        except (OSError, ValueError) as error:
            yield _unreadable_error(path, error)

    def mark_visited(self, status: os.stat_result) -> bool:
        """Mark a file or folder as visited; return False if it was visited before."""
        identity = (status.st_dev, status.st_ino)
        if identity in self._visited:
            self._has_repeated_file = True
            return False
        self._visited.add(identity)
        return True

    def read_file(self, descriptor: int, name: str) -> Iterator[File | Diagnostic]:
        """Yield the content of one open file, and close the file."""
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                yield _not_regular_error(name, stat.S_IFMT(status.st_mode))
                return
            if not self.mark_visited(status):
                return
            self._file_count += 1
            if self._file_count > MAX_FILES:
                yield _make_error(file_location(name), f"found more than {MAX_FILES:,} files", "give fewer paths")
            elif status.st_size > MAX_BYTES:
                yield _too_large_error(name)
            elif len(data := os.read(descriptor, status.st_size + 1)) != status.st_size:
                yield _make_error(file_location(name), "changed while it was being read", "run again")
            else:
                yield File(file_location(name).file, data)
        finally:
            os.close(descriptor)


class _FolderWalker:
    """A reader of one given folder that follows no link to a target outside the folder."""

    def __init__(self, walk: _FileWalker, path: str) -> None:
        self._walk = walk
        self._root = os.path.realpath(path, strict=True)
        self._prefix = "" if path == "." else path.removeprefix("./").rstrip("/") + "/"
        self._links: list[str] = []

    def walk_files(self) -> Iterator[File | Diagnostic | IgnoredPath]:
        """Yield all files below the folder: first regular entries, then unread targets of links."""
        yield from self._walk_folder(os.open(self._root, _OPEN_FLAGS | os.O_DIRECTORY), "", 0)
        while self._links:
            yield from self._follow_link(self._links.pop(0))

    def _walk_folder(self, descriptor: int, below: str, depth: int) -> Iterator[File | Diagnostic | IgnoredPath]:
        """Read an open folder and close it; ``below`` is its path below the root, with a final slash."""
        try:
            if not self._walk.mark_visited(os.fstat(descriptor)):
                return
            if depth > MAX_FOLDER_DEPTH:
                yield _make_error(
                    Location(self._display_name(below)),
                    f"found folders nested more than {MAX_FOLDER_DEPTH} levels deep",
                )
                return
            with os.scandir(descriptor) as entries:
                visible = sorted((entry for entry in entries if entry.name[0] != "."), key=lambda entry: entry.name)
            for entry in visible:
                yield from self._walk_entry(descriptor, below, entry, depth)
        finally:
            os.close(descriptor)

    def _walk_entry(
        self, folder: int, below: str, entry: os.DirEntry[str], depth: int
    ) -> Iterator[File | Diagnostic | IgnoredPath]:
        path = below + entry.name
        try:
            if entry.is_symlink():
                self._links.append(path)
            elif entry.is_dir(follow_symlinks=False):
                inner = os.open(entry.name, _OPEN_FLAGS | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                yield from self._walk_folder(inner, f"{path}/", depth + 1)
            elif entry.name.endswith(SUFFIXES):
                if entry.is_file(follow_symlinks=False):
                    opened = os.open(entry.name, _OPEN_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
                    yield from self._walk.read_file(opened, self._prefix + path)
                else:
                    yield _not_regular_error(
                        self._prefix + path, stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
                    )
            elif _is_misspelled_yaml_name(entry.name) or self._is_json_manifest(folder, entry):
                yield _unread_file_warning(self._prefix + path)
        except OSError as error:
            yield _unreadable_error(self._prefix + path, error)

    def _is_json_manifest(self, folder: int, entry: os.DirEntry[str]) -> bool:
        # At most MAX_PEEKS files of a run are opened: a folder may hold any number of JSON files.
        if not entry.name.lower().endswith(".json") or not entry.is_file(follow_symlinks=False):
            return False
        if next(self._walk.remaining_peeks, None) is None:
            return False
        try:
            opened = os.open(entry.name, _OPEN_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
        except OSError:
            return False  # a JSON file is not input, so an unreadable one is no error
        try:
            return _JSON_MANIFEST.search(os.read(opened, _MAX_PEEK_BYTES)) is not None
        finally:
            os.close(opened)

    def _follow_link(self, path: str) -> Iterator[File | Diagnostic | IgnoredPath]:
        # A link to a folder is followed; a link to a file only if the link itself has the suffix of a manifest.
        try:
            target = os.path.realpath(f"{self._root}/{path}", strict=True)
            kind = stat.S_IFMT(os.stat(target).st_mode)  # noqa: PTH116
            if kind != stat.S_IFDIR and not path.endswith(SUFFIXES):
                if _is_misspelled_yaml_name(PurePath(path).name):
                    yield _unread_file_warning(self._prefix + path)
                return
            if target != self._root and not PurePath(target).is_relative_to(self._root):
                message = f"found a symbolic link to a target outside {self._display_name()}"
                yield _make_error(file_location(self._prefix + path), message, "replace the link by its target")
            elif kind == stat.S_IFDIR:
                yield from self._walk_folder(self._open_below(target), f"{path}/", path.count("/") + 1)
            elif kind == stat.S_IFREG:
                yield from self._walk.read_file(self._open_below(target), self._prefix + path)
            else:
                yield _not_regular_error(self._prefix + path, kind)
        except FileNotFoundError:
            yield _make_error(file_location(self._prefix + path), "found a broken symbolic link", "fix or remove it")
        except OSError as error:
            yield _unreadable_error(self._prefix + path, error)

    def _open_below(self, target: str) -> int:
        """Open a path without links, step by step from the root.

        With O_NOFOLLOW at each step, a link that is created meanwhile is an error and is not followed.
        """
        descriptor = os.open(self._root, _OPEN_FLAGS | os.O_DIRECTORY)
        for step in PurePath(target).relative_to(self._root).parts:
            try:
                inner = os.open(step, _OPEN_FLAGS | os.O_NOFOLLOW, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = inner
        return descriptor

    def _display_name(self, below: str = "") -> str:
        return file_location((self._prefix + below).rstrip("/") or ".").file


def _is_misspelled_yaml_name(name: str) -> bool:
    """Return whether a name is a misspelled ``*.yaml`` or ``*.yml``: ``b.YAML``, ``c.ymal``, ``d.yaml.txt``."""
    if _YAML_TEXT.fullmatch(name):
        return True
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    if sorted(suffix) in (sorted("yaml"), sorted("yml")):
        return True
    if not suffix.startswith("y"):
        return False
    from difflib import get_close_matches

    return bool(get_close_matches(suffix, ("yaml", "yml"), n=1, cutoff=0.75))


def _unread_file_warning(name: str) -> IgnoredPath:
    hint = "rename it, or give its own path"
    return _make_ignored_path(name, "not read: topiarist reads only *.yaml and *.yml files of a folder", hint)


def _make_ignored_path(name: str, message: str, hint: str = "") -> IgnoredPath:
    return IgnoredPath(Diagnostic(file_location(name), message, hint, Reason.UNREADABLE.value))


def _make_error(location: Location, message: str, hint: str = "") -> Diagnostic:
    return Diagnostic(location, message, hint, Reason.UNREADABLE.value)


def _not_regular_error(name: str, kind: int) -> Diagnostic:
    found = _FILE_TYPE_NAMES.get(kind, "something else")
    hint = "give - and pipe the text to standard input" if kind == stat.S_IFIFO else ""
    return _make_error(file_location(name), f"found {found}, wanted a regular file", hint)


def _too_large_error(name: str) -> Diagnostic:
    return _make_error(file_location(name), f"found more than {MAX_BYTES // 2**20} MiB", "split the file")


def _unreadable_error(name: str, error: Exception) -> Diagnostic:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if "\0" in name:
        reason = "a name cannot contain a NUL character"
    return _make_error(file_location(name), f"cannot be read: {reason[:1].lower()}{reason[1:]}")


def file_location(name: str) -> Location:
    """Return the location of a whole file, with a printable name.

    An empty path is shown as two quotes, ``-`` as ``<stdin>``.
    """
    return Location(STDIN if name == "-" else printable(name, MAX_NAME_LENGTH) or '""')


# The project file ``topiarist.yaml`` as text: distinguished from manifests, and parsed with positions.
#
# ``cli.parameters`` finds the file and calls ``parse_project_file``. ``loader`` calls ``is_project_file``, because a
# folder of manifests may hold the project file too.

PROJECT_FILE = "topiarist.yaml"

_API_VERSION = re.compile(rb"^(?:\xef\xbb\xbf)?(?:---)?[ \t{]*[\"']?apiVersion[\"']?[ \t]*:", re.MULTILINE)
"""The start of a Kubernetes document; a project file has no such field."""


class ProjectFile(Struct, frozen=True):
    """The fields of a project file, and the document that locates them; an empty file has neither."""

    name: str
    fields: Mapping[str, Any]
    document: Document | None

    def locate(self, *path: str | int) -> Location:
        """Return the location of a field, or of an item of its list."""
        return self.document.locate(path) if self.document else Location(self.name)


def is_project_file(file: File) -> bool:
    """Return whether a file is a project file: it has the name of one, and no field ``apiVersion``.

    A Kubernetes document in a file of this name is read as any other: no manifest is left out because of its name.
    """
    if not file.name.endswith(PROJECT_FILE):  # most files; a path costs time for each of thousands
        return False
    return PurePath(file.name).name == PROJECT_FILE and not _API_VERSION.search(file.data)


def parse_project_file(file: File) -> ProjectFile:
    """Return the content of a project file; raise ``InvalidManifests`` with every error."""
    from topiarist.adapters.manifests.diagnose import diagnose_documents

    errors: list[Diagnostic] = []
    suppressed_count = 0
    found = ProjectFile(file.name, {}, None)
    for part in diagnose_documents(file):
        if isinstance(part, Diagnostic):
            errors.append(part)
            continue
        if part.body is None and not part.issues:
            continue
        suppressed_count += part.suppressed_count
        errors += [issue.diagnostic for issue in part.issues]
        if found.document is not None:
            message = "found a second document, wanted one"
            errors.append(Diagnostic(part.source.locate(), message, "merge it into the first one"))
        elif not isinstance(part.body, dict):
            hint = "write fields, such as manifests: [topics]"
            errors.append(Diagnostic(part.source.locate(), "found a list or text, wanted a mapping", hint))
        elif not part.issues:
            errors += [
                Diagnostic(part.source.locate(error.path), error.message, error.hint)
                for error in check_project(part.body)
            ]
        found = ProjectFile(file.name, part.body, part.source)
    if errors:
        raise InvalidManifests(errors, suppressed_count)
    return found
