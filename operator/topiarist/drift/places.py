"""Where snapshots and reports lie: paths here, or addresses such as ``s3a://bucket/folder``, for Spark alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

PARQUET = ".parquet"

FAR = "is no path here"

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_HERE = re.compile(r"file:/+")


def here(path: str) -> str:
    """The same as a plain path if it is the ``file:`` address of one."""
    return "/" + unquote(_HERE.sub("", path)) if _HERE.match(path) else path


def remote(path: str) -> bool:
    """Whether it is an address that is no plain path."""
    return bool(_ADDRESS.match(path)) and not _HERE.match(path)


def address(path: str) -> str:
    """How Spark is told of it: a plain path might be one in the store that a cluster takes for its own."""
    return path if remote(path) else f"file://{Path(path).absolute()}"


def exact(path: str) -> str:
    """The same for reading: what Spark reads may be a pattern, and here none is meant."""
    return "".join(f"\\{letter}" if letter in "{}[]*?\\" else letter for letter in address(path))


def tables(path: str) -> Iterator[Path]:
    """The files of Parquet at a path, or in the folder there at any depth."""
    where = Path(path)
    if where.suffix == PARQUET and where.is_file():
        yield where
    elif where.is_dir():
        yield from (file for file in where.rglob(f"*{PARQUET}") if file.is_file() and not file.name.startswith("."))


def beyond_us(path: str) -> str:
    """Why only Spark can read what is at a path; empty if it need not."""
    if remote(path):
        return FAR
    return "is Parquet" if next(tables(path), None) else ""
