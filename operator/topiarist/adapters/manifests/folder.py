"""A folder of files, written whole or not at all: beside its place first, then moved there in one step.

The way back of ``files``. Whatever happens in between (a full disk, a signal, a kill), under the folder's own name
there is never a part of it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from topiarist.core.values import shown
from topiarist.errors import Reason, TopiaristError

_MOST = 4096
"""Characters of a path that are shown."""


def check_folder(folder: Path) -> None:
    """Raise ``TopiaristError`` unless ``folder`` is absent, or empty and not the one that we are in."""
    with _named(folder):
        if not folder.is_dir():
            if folder.exists() or folder.is_symlink():
                raise _unwritable(folder, "it exists and is no folder", "name a folder that does not exist yet")
        elif folder.samefile(Path.cwd()):
            raise _unwritable(folder, "it is the folder that you are in", "name one below it")
        elif any(folder.iterdir()):
            raise _unwritable(folder, "it is not empty", "name a folder that does not exist yet, and compare the two")


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Make ``folder`` (absent or empty) hold ``files``, text by path below it. Raises ``TopiaristError`` if it cannot.

    Folders above it are made where they are missing.
    """
    check_folder(folder)
    # A link to an empty folder is followed: what is replaced in one step is the folder itself.
    place = Path(os.path.realpath(folder))
    part = place.with_name(f".{place.name[:200]}.{uuid4().hex[:8]}.part")
    with _named(folder):
        part.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _named(folder):
            part.mkdir()
        for below in sorted({Path(name).parent for name in files}):
            with _named(folder / below):
                (part / below).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with _named(folder / name):
                (part / name).write_text(text, encoding="utf-8", newline="\n")
        with _named(folder):
            part.rename(place)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let an error of the operating system name the path that a person knows, in words."""
    try:
        yield
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error), "nothing was written") from error


def _unwritable(path: Path, why: str, hint: str) -> TopiaristError:
    return TopiaristError(Reason.UNWRITABLE, f"{shown(str(path), _MOST)}: cannot be written: {why}", hint)
