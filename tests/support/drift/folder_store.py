"""A store without a network: a scheme of fsspec over a folder of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fsspec import register_implementation
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

STORE = "store://bucket"
"""The address of the root of the remote store."""


class FolderStore(DirFileSystem):  # type: ignore[misc]
    """The store behind ``STORE``."""

    protocol = "store"
    cachable = False
    folder = Path()

    def __init__(self, **_: Any) -> None:
        super().__init__(path=str(self.folder), fs=LocalFileSystem(auto_mkdir=True))

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(path).removeprefix("store://").strip("/")


register_implementation("store", FolderStore, clobber=True)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the empty folder behind ``STORE``."""
    folder = tmp_path / "store" / "bucket"
    folder.mkdir(parents=True)
    monkeypatch.setattr(FolderStore, "folder", folder.parent)
    return folder
