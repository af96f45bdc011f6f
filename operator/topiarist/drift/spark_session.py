"""Spark, started: in a JVM of this process's own, or as ``spark-submit`` has begun it, on whatever cluster.

On a cluster the executors get our package from here, and kazoo with it: whatever they have installed, they run what the
driver runs, and need no more than Python of the same version.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext, SparkFiles
from pyspark.sql import SparkSession

from topiarist.drift import spark_local
from topiarist.drift.engines import submitted

_SENT = ("topiarist", "kazoo")
"""Packages that executors need beside Python and Spark."""

_BARS = "spark.ui.showConsoleProgress"


def start(*, quiet: bool = False) -> SparkSession:
    """The session of this process; unless it is to be ``quiet``, Spark draws bars on a terminal while it is at work."""
    if not submitted():
        return spark_local.session(progress=not quiet and sys.stderr.isatty())
    # Without this a SparkConf knows nothing of what was said to spark-submit.
    SparkContext._ensure_initialized()
    given = SparkConf()
    if _here(given.get("spark.master")):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("topiarist drift").config("spark.sql.session.timeZone", "UTC")
    if not given.contains(_BARS):
        builder = builder.config(_BARS, str(not quiet and _is_watched()).lower())
    started = builder.getOrCreate()
    _send(started)
    return started


def distributed(started: SparkSession) -> bool:
    """Whether other machines do the work, or may do so."""
    return not _here(started.sparkContext.master)


def _here(master: str | None) -> bool:
    return (master or "local").startswith("local")


def _is_watched() -> bool:
    """Whether somebody looks at what ``spark-submit`` shows: our own streams are pipes to its JVM."""
    jvm: Any = SparkContext._jvm
    console = jvm.java.lang.System.console()
    try:
        return console is not None and bool(console.isTerminal())
    except Py4JError:  # before Java 22 a console cannot be asked, and there is none unless somebody looks
        return True


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
