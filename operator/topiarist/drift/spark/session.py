"""Spark in a JVM of this process's own, as ``topiarist drift`` starts it where nobody else has started one.

A JVM and Spark greet whoever starts them with half a dozen lines that say nothing to a person. They are kept back, and
shown only if the start fails; what comes after it, the bars, goes where it belongs.

Spark, started: in a JVM of this process's own, or as ``spark-submit`` has begun it, on whatever cluster.

On a cluster the executors get our package from here, and kazoo with it: whatever they have installed, they run what the
driver runs, and need no more than Python of the same version.
"""

from __future__ import annotations

import os
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext, SparkFiles
from pyspark.sql import SparkSession

from topiarist.drift.engine import is_spark_submit

_STDERR_FD = 2

_STARTED_MARK, _FAILED_MARK = b"\0started\0", b"\0failed\0"


def create_local_session(memory: str = "3g", *, progress: bool = False) -> SparkSession:
    """A session with a thread for each core, and nothing that listens but to itself.

    ``progress``: it draws bars on stderr while it is at work.
    """
    # A worker must find what we find, whatever the system calls python3; and whatever the machine's name leads to.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[*]").appName("topiarist drift")
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "OFF",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(progress).lower(),
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.session.timeZone": "UTC",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    with suppress_banner():
        return builder.getOrCreate()


@contextmanager
def suppress_banner() -> Iterator[None]:
    """What comes out on stderr meanwhile is dropped, unless this ends by an error; what children say later is not."""
    ours = os.dup(_STDERR_FD)
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR_FD)
    os.close(writing)
    passing = threading.Event()
    threading.Thread(target=_forward_stderr, args=(reading, ours, passing), name="stderr of Spark", daemon=True).start()
    try:
        yield
    except BaseException:
        _write_mark(_FAILED_MARK, passing)
        raise
    else:
        _write_mark(_STARTED_MARK, passing)
    finally:
        os.dup2(ours, _STDERR_FD)


def _write_mark(mark: bytes, passing: threading.Event) -> None:
    """Have the other side know that everything until now was said before the start had ended, and how that ended."""
    sys.stderr.flush()
    os.write(_STDERR_FD, mark)
    passing.wait()


def _forward_stderr(reading: int, target: int, passing: threading.Event) -> None:
    """Keep what comes until one of the marks, and pass on all after it; as long as anybody has the other end."""
    kept = b""
    while piece := os.read(reading, 1 << 16):
        kept += piece
        for mark in () if passing.is_set() else (_STARTED_MARK, _FAILED_MARK):
            before, found, after = kept.partition(mark)
            if found:
                kept = before + after if mark == _FAILED_MARK else after
                passing.set()
        if passing.is_set():
            os.write(target, kept)
            kept = b""
    os.close(reading)
    os.close(target)


_EXECUTOR_PACKAGES = ("topiarist", "kazoo")
"""Packages that executors need beside Python and Spark."""

_PROGRESS_SETTING = "spark.ui.showConsoleProgress"


def start_session(*, quiet: bool = False) -> SparkSession:
    """The session of this process; unless it is to be ``quiet``, Spark draws bars on a terminal while it is at work."""
    if not is_spark_submit():
        return create_local_session(progress=not quiet and sys.stderr.isatty())
    # Without this a SparkConf knows nothing of what was said to spark-submit.
    SparkContext._ensure_initialized()
    given = SparkConf()
    if _is_local_master(given.get("spark.master")):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("topiarist drift").config("spark.sql.session.timeZone", "UTC")
    if not given.contains(_PROGRESS_SETTING):
        builder = builder.config(_PROGRESS_SETTING, str(not quiet and _is_terminal()).lower())
    started = builder.getOrCreate()
    _send_packages(started)
    return started


def is_distributed(spark: SparkSession) -> bool:
    """Whether other machines do the work, or may do so."""
    return not _is_local_master(spark.sparkContext.master)


def _is_local_master(master: str | None) -> bool:
    return (master or "local").startswith("local")


def _is_terminal() -> bool:
    """Whether somebody looks at what ``spark-submit`` shows: our own streams are pipes to its JVM."""
    jvm: Any = SparkContext._jvm
    console = jvm.java.lang.System.console()
    try:
        return console is not None and bool(console.isTerminal())
    except Py4JError:  # before Java 22 a console cannot be asked, and there is none unless somebody looks
        return True


def _send_packages(spark: SparkSession) -> None:
    # The executors fetch it from here, whenever one of them begins: it has to stay as long as the session does.
    place = Path(SparkFiles.getRootDirectory(), "sent")
    place.mkdir(exist_ok=True)
    archive = place / "topiarist-job.zip"
    if not archive.exists():
        build_archive(archive)
        spark.sparkContext.addPyFile(str(archive))


def build_archive(archive: Path) -> None:
    """Put our package and what it needs on an executor into one file."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        for package in _EXECUTOR_PACKAGES:
            for name, file in _list_package_files(files(package), package):
                made.writestr(zipfile.ZipInfo(name), file.read_bytes())


def _list_package_files(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    """The files of a package, in order of name; also of one that is in an archive itself."""
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _list_package_files(entry, f"{name}/{entry.name}")
        elif entry.is_file():
            yield f"{name}/{entry.name}", entry
