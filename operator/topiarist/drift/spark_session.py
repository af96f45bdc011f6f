"""Spark, started: in a JVM of this process's own, or as ``spark-submit`` has begun it, on whatever cluster.

On a cluster the executors get our package from here, and kazoo with it: whatever they have installed, they run what the
driver runs, and need no more than Python of the same version.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from topiarist.drift import spark
from topiarist.drift.engines import submitted

_SENT = ("topiarist", "kazoo")
"""Packages that executors need beside Python and Spark."""


def start(*, progress: bool = False) -> SparkSession:
    """The session of this process. ``progress``: Spark draws bars on stderr while its own JVM is at work."""
    if not submitted():
        return spark.session(progress=progress)
    builder = SparkSession.builder.appName("topiarist drift").config("spark.sql.session.timeZone", "UTC")
    started = builder.getOrCreate()
    if distributed(started):
        _send(started)
    return started


def distributed(started: SparkSession) -> bool:
    """Whether other machines do the work, or may do so."""
    return not (started.sparkContext.master or "").startswith("local")


def _send(started: SparkSession) -> None:
    # The executors fetch it from here, whenever one of them begins: it has to stay as long as the session does.
    place = Path(SparkFiles.getRootDirectory(), "sent")
    place.mkdir(exist_ok=True)
    archive = place / "topiarist-job.zip"
    if not archive.exists():
        pack(archive)
        started.sparkContext.addPyFile(str(archive))


def pack(archive: Path) -> None:
    """Put our package and what it needs on an executor into one file."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        for package in _SENT:
            for name, file in _files(files(package), package):
                made.writestr(zipfile.ZipInfo(name), file.read_bytes())


def _files(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    """The files of a package, in order of name; also of one that is in an archive itself."""
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _files(entry, f"{name}/{entry.name}")
        elif entry.is_file():
            yield f"{name}/{entry.name}", entry
