"""Where snapshots and reports lie: paths here, or addresses such as ``s3a://bucket/folder``, for Spark alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

PARQUET_SUFFIX = ".parquet"

REMOTE_REASON = "is no path here"

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_FILE_URI = re.compile(r"file:/+")


def to_local_path(path: str) -> str:
    """The same as a plain path if it is the ``file:`` address of one."""
    return "/" + unquote(_FILE_URI.sub("", path)) if _FILE_URI.match(path) else path


def is_remote(path: str) -> bool:
    """Whether it is an address that is no plain path."""
    return bool(_URI.match(path)) and not _FILE_URI.match(path)


def to_uri(path: str) -> str:
    """How Spark is told of it: a plain path might be one in the store that a cluster takes for its own."""
    return path if is_remote(path) else f"file://{Path(path).absolute()}"


def to_literal_uri(path: str) -> str:
    """The same for reading: what Spark reads may be a pattern, and here none is meant."""
    return "".join(f"\\{letter}" if letter in "{}[]*?\\" else letter for letter in to_uri(path))


def list_parquet_files(path: str) -> Iterator[Path]:
    """The files of Parquet at a path, or in the folder there at any depth."""
    where = Path(path)
    if where.suffix == PARQUET_SUFFIX and where.is_file():
        yield where
    elif where.is_dir():
        yield from (
            file for file in where.rglob(f"*{PARQUET_SUFFIX}") if file.is_file() and not file.name.startswith(".")
        )


def spark_required_reason(path: str) -> str:
    """Why only Spark can read what is at a path; empty if it need not."""
    if is_remote(path):
        return REMOTE_REASON
    return "is Parquet" if next(list_parquet_files(path), None) else ""
