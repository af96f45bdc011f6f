"""Locations as reviewers see them: relative to the root of the repository.

Comments, annotations and pages call this module; a terminal shows locations as the user gave the paths.
"""

from __future__ import annotations

from posixpath import join, normpath

from topiarist.errors import Location


def relative_path(file: str, root: str) -> str:
    """Return ``file`` relative to the folder ``root``, as in git; unchanged if outside ``root``."""
    path = normpath(join(root, file))
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else file


def relative_location(location: Location, root: str) -> Location:
    """Return ``location`` with its file relative to the folder ``root``."""
    return location._replace(file=relative_path(location.file, root))
