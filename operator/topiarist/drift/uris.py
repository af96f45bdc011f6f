"""Paths and URIs of snapshots and reports: local paths, or URIs such as ``s3a://bucket/folder`` for Spark only.

Engines and inventories use them to decide who can read a path, and to pass paths to Spark unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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


def list_parquet_files(path: str) -> Iterator[Path]:
    """Yield the Parquet file at a path, or the Parquet files below the folder at any depth."""
    where = Path(path)
    if where.suffix == PARQUET_SUFFIX and where.is_file():
        yield where
    elif where.is_dir():
        yield from (
            file for file in where.rglob(f"*{PARQUET_SUFFIX}") if file.is_file() and not file.name.startswith(".")
        )


def spark_required_reason(path: str) -> str:
    """Return the reason why only Spark can read a path; empty if Spark is not needed."""
    if is_remote(path):
        return REMOTE_REASON
    return "is Parquet" if next(list_parquet_files(path), None) else ""
