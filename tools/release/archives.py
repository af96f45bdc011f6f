"""Archives that are the same bit by bit for the same contents: sorted entries, fixed times, owners and modes."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """A file of an archive: its bytes, and whether it may be executed."""

    data: bytes
    executable: bool = False


def write_archive(path: Path, entries: Mapping[str, Entry], epoch: int) -> None:
    """Write a compressed tar archive of files; ``epoch`` is the time of each, in seconds."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(entries):
            info = tarfile.TarInfo(name)
            info.size = len(entries[name].data)
            info.mode = 0o755 if entries[name].executable else 0o644
            info.mtime = epoch
            archive.addfile(info, io.BytesIO(entries[name].data))
    with path.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
        compressed.write(buffer.getvalue())


def read_archive(path: Path) -> dict[str, Entry]:
    """Return the files of a tar archive by name; raise ``ValueError`` for links and other entries without bytes."""
    entries = {}
    with tarfile.open(path) as archive:
        for info in archive:
            if info.isdir():
                continue
            file = archive.extractfile(info) if info.isreg() else None
            if not file:
                raise ValueError(f"{path.name}: {info.name} is no file")
            entries[info.name] = Entry(file.read(), bool(info.mode & 0o100))
    return entries


def read_folder(folder: Path, name: str) -> dict[str, Entry]:
    """Return the files below a folder by the name that they have below ``name`` in an archive; hidden files are out."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {
        f"{name}/{path.relative_to(folder).as_posix()}": Entry(path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in paths
    }


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_checksums(folder: Path) -> None:
    """Write SHA256SUMS of all files below a folder, in the form that ``sha256sum --check`` reads."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    lines = [f"{checksum(path)}  {path.relative_to(folder).as_posix()}\n" for path in paths]
    (folder / "SHA256SUMS").write_text("".join(lines))
