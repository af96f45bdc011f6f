"""Paths and URIs of snapshots and reports: local paths, or URIs such as ``s3a://bucket/folder`` for Spark only.

Engines and inventories use them to decide who can read a path, and to pass paths to Spark unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

PARQUET_SUFFIX = ".parquet"

REMOTE_REASON = "is not a local path"

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_FILE_URI = re.compile(r"file:/+")


def to_local_path(path: str) -> str:
    """Return a ``file:`` URI as a plain path; return any other text unchanged."""
    return "/" + unquote(_FILE_URI.sub("", path)) if _FILE_URI.match(path) else path


def is_remote(path: str) -> bool:
    """Return whether a text is a URI of another scheme than ``file:``."""
    return bool(_URI.match(path)) and not _FILE_URI.match(path)


def to_uri(path: str) -> str:
    """Return the URI of a path, because Spark resolves a plain path in the default store of the cluster."""
    return path if is_remote(path) else f"file://{Path(path).absolute()}"


def to_literal_uri(path: str) -> str:
    """Return the URI of a path for reading, with glob characters escaped."""
    return "".join(f"\\{letter}" if letter in "{}[]*?\\" else letter for letter in to_uri(path))


def spark_required_reason(path: str) -> str:
    """Return the reason why only Spark can read a path; empty if Spark is not needed."""
    if is_remote(path):
        return REMOTE_REASON
    where = Path(path)
    files: Iterable[Path] = [where]
    if where.is_dir():
        files = (file for file in where.rglob(f"*{PARQUET_SUFFIX}") if not file.name.startswith("."))
    # Spark writes a Parquet table as a folder with the suffix of its files.
    return "is Parquet" if any(file.suffix == PARQUET_SUFFIX and file.is_file() for file in files) else ""
