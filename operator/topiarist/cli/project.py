"""The project file of a run: found above the working folder, or named by ``--project``.

``parameters.apply_project`` takes values from it for the options and arguments that are not given. ``parameters`` also
completes names from the same manifests. ``adapters.manifests.project_file`` parses the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from topiarist.errors import Diagnostic, InvalidManifests, Location
from topiarist.text import printable, quote

if TYPE_CHECKING:
    from topiarist.adapters.manifests.files import ProjectFile
    from topiarist.adapters.manifests.source import File

PROJECT_FILE = "topiarist.yaml"
"""The name of ``adapters.manifests.project_file``, which imports the YAML library: most folders have no such file."""

NO_PROJECT = "none"
"""The value of ``--project`` for a run without a project file."""

PATH_KEYS = ("manifests", "clusters", "platform")


class Project(Struct, frozen=True):
    """A project file, and the folder that its paths start from: text to put before a path, empty or with a slash."""

    file: ProjectFile
    prefix: str

    def get(self, key: str) -> Any:
        """Return the value of a field, or None if the file has none.

        Paths are as the user would give them in the working folder. Raises ``InvalidManifests`` for paths that do not
        exist, or that lead out of the git repository.
        """
        value = self.file.fields.get(key)
        if value is None or key not in PATH_KEYS:
            return value
        paths = [_join(self.prefix, each) for each in value]
        if errors := [*self._find_path_errors(key, value, paths)]:
            raise InvalidManifests(errors)
        return paths

    def locate(self, *path: str | int) -> Location:
        """Return the location of a field, or of an item of its list."""
        return self.file.locate(*path)

    def _find_path_errors(self, key: str, values: list[str], paths: list[str]) -> Iterator[Diagnostic]:
        root = find_repository(self.prefix or ".")
        for index, (value, path) in enumerate(zip(values, paths, strict=True)):
            if _leads_out(root, path):
                message = f"{key}: found {quote(value)}, which leads out of the git repository {printable(root, 200)}"
                yield Diagnostic(self.locate(key, index), message, "give such a path as an option or argument")
            elif not os.path.exists(path):  # noqa: PTH110 - a given path may be text that pathlib would change
                message = f"{key}: found {quote(value)}, but there is no file or folder {printable(path, 200)}"
                yield Diagnostic(self.locate(key, index), message, "paths are relative to the folder of this file")


class UnusedFile(Struct, frozen=True):
    """A file that has the name of a project file and is a Kubernetes document."""

    name: str


def load_project(given: str | None = None) -> Project | UnusedFile | None:
    """Return the project of a run: that of the file ``given``, or of the nearest one above the working folder.

    The search ends at the folder with ``.git``, or at the root of the file system. Returns None if there is no project
    file or ``given`` is ``NO_PROJECT``, and ``UnusedFile`` if the only file of that name is a Kubernetes document.
    Raises ``InvalidManifests`` with every error of the file.
    """
    if given == NO_PROJECT:
        return None
    if given is not None:
        return _load_file(given)
    unused = None
    for prefix in _search_folders():
        path = prefix + PROJECT_FILE
        if os.path.lexists(path):
            from topiarist.adapters.manifests.files import is_project_file, parse_project_file

            file = _read_file(path, prefix)
            if is_project_file(file):
                return Project(parse_project_file(file), prefix)
            unused = unused or UnusedFile(file.name)
    return unused


def find_repository(folder: str) -> str:
    """Return the nearest folder with ``.git``, at or above ``folder``; empty if there is none."""
    found = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(found, ".git")):  # noqa: PTH118
        above = os.path.dirname(found)  # noqa: PTH120
        if above == found:
            return ""
        found = above
    return found


def _search_folders() -> Iterator[str]:
    """Yield the working folder and those above it, as the start of a path: empty, ``../``, ``../../``, ..."""
    try:
        depth = os.getcwd().rstrip("/").count("/")  # noqa: PTH109
    except OSError:  # the working folder was deleted
        return
    for level in range(depth + 1):
        prefix = "../" * level
        yield prefix
        if os.path.lexists(f"{prefix}.git"):
            return


def _load_file(path: str) -> Project:
    from topiarist.adapters.manifests.files import file_location, is_project_file, parse_project_file

    prefix = path[: path.rfind("/") + 1]
    file = _read_file(path, prefix)
    if not is_project_file(file._replace(name=PROJECT_FILE)):
        hint = "a project file has no apiVersion; give manifests as arguments"
        raise InvalidManifests([Diagnostic(file_location(path), "found a manifest, wanted a project file", hint)])
    return Project(parse_project_file(file), prefix)


def _read_file(path: str, prefix: str) -> File:
    """Return the content of a project file; raise ``InvalidManifests`` if it is no regular, readable file.

    A link is followed only inside its git repository: another file would show in error messages.
    """
    from topiarist.adapters.manifests.files import file_location, read_files
    from topiarist.adapters.manifests.source import File

    root = find_repository(prefix or ".")
    if _leads_out(root, path):
        message = f"found a symbolic link to a target outside the git repository {printable(root, 200)}"
        raise InvalidManifests([Diagnostic(file_location(path), message, "replace the link by its target")])
    if os.path.isdir(path):  # noqa: PTH112
        raise InvalidManifests([Diagnostic(file_location(path), "found a folder, wanted a project file")])
    found = next(iter(read_files([path if path != "-" else "./-"])))
    if not isinstance(found, File):
        raise InvalidManifests([found if isinstance(found, Diagnostic) else found.warning])
    return found


def _leads_out(root: str, path: str) -> bool:
    real = os.path.realpath(path)
    return bool(root) and real != root and not real.startswith(root.rstrip("/") + "/")


def _join(prefix: str, path: str) -> str:
    joined = path if path.startswith("/") else prefix + path
    return "./-" if joined == "-" else joined  # alone, it would mean standard input
