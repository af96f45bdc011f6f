"""Spark sessions: started in a local JVM, or provided by ``spark-submit`` on any cluster.

``drift.spark.engine`` starts one session per process. A local start hides the banner lines of the JVM and of Spark, and
prints them only if the start fails. On a cluster, the driver sends the package ``topiarist`` and the packages that it
needs to the executors, so that executors run the same code as the driver and need only Python of the same version on
the same platform. Packages that are installed on an executor win over compiled packages of the driver.
"""

from __future__ import annotations

import os
import sys
import threading
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import RDD, SparkConf, SparkContext, SparkFiles
from pyspark.sql import DataFrame, SparkSession

from topiarist.drift.engine import is_spark_submit

_STDERR_FD = 2

_EXECUTOR_PACKAGES = ("topiarist", "kazoo")
"""Packages that executors need in addition to Python and Spark, and import from an archive."""

_NATIVE_PACKAGES = ("jsonschema_rs", "msgspec", "yaml")
"""Packages with compiled modules, which Python can import only from files."""

_NATIVE_ARCHIVE = "topiarist-native.zip"
"""Name of the archive of compiled packages, and of the folder in which executors have its content."""

_PROGRESS_SETTING = "spark.ui.showConsoleProgress"

_PYARROW = "pyarrow"

_STARTED_MARK, _FAILED_MARK = b"\0started\0", b"\0failed\0"


@contextmanager
def without_pyarrow() -> Iterator[None]:
    """Hide pyarrow, unless it is imported already.

    PySpark would import it in its first call of the JVM and with each table, for kinds of rows that no report has: 32
    MiB of memory.
    """
    is_hidden = _PYARROW not in sys.modules
    if is_hidden:
        sys.modules[_PYARROW] = None  # type: ignore[assignment]  # an import fails then
    try:
        yield
    finally:
        if is_hidden:
            del sys.modules[_PYARROW]


def create_table(spark: SparkSession, rows: RDD[Any] | Iterable[Any], schema: str) -> DataFrame:
    """Return a table of rows with this schema; the rows are not verified."""
    with without_pyarrow():
        return spark.createDataFrame(rows, schema, verifySchema=False)


def create_local_session(memory: str = "3g", *, progress: bool = False) -> SparkSession:
    """Return a session with one thread per core that listens on the loopback address only.

    With ``progress``, Spark draws progress bars on stderr.
    """
    # Workers must use this interpreter and its packages, not the system's python3.
    # The loopback address avoids a lookup of the host name, which may not resolve.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[*]").appName("topiarist drift")
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "OFF",
        "spark.ui.enabled": "false",
        _PROGRESS_SETTING: str(progress).lower(),
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.session.timeZone": "UTC",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    with suppress_banner(), without_pyarrow():
        return builder.getOrCreate()


@contextmanager
def suppress_banner() -> Iterator[None]:
    """Discard stderr output of the block, unless the block raises; pass on output that is written later.

    The redirection is at file descriptor level, because child processes write to it too.
    """
    original_stderr = os.dup(_STDERR_FD)
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR_FD)
    os.close(writing)
    passing = threading.Event()
    args = reading, original_stderr, passing
    threading.Thread(target=_forward_stderr, args=args, name="stderr of Spark", daemon=True).start()
    mark = _FAILED_MARK
    try:
        yield
        mark = _STARTED_MARK
    finally:
        sys.stderr.flush()
        os.write(_STDERR_FD, mark)
        passing.wait()  # until the thread has read the mark: later output must not be discarded
        os.dup2(original_stderr, _STDERR_FD)


def _forward_stderr(reading: int, target: int, passing: threading.Event) -> None:
    """Keep output until one of the marks, and forward all output after it, until all writers have closed the pipe.

    The output before the mark is forwarded after ``_FAILED_MARK`` and dropped after ``_STARTED_MARK``.
    """
    kept = b""
    while piece := os.read(reading, 1 << 16):
        kept += piece
        found = passing.is_set()
        for mark in () if found else (_STARTED_MARK, _FAILED_MARK):
            before, text, after = kept.partition(mark)
            if text:
                kept, found = (before + after if mark == _FAILED_MARK else after), True
        if found:
            os.write(target, kept)
            kept = b""
            passing.set()  # after the write: the caller may read what was written as soon as this is set
    os.close(reading)
    os.close(target)


def start_session(*, quiet: bool = False) -> SparkSession:
    """Return the session of this process; draw progress bars on a terminal unless ``quiet``."""
    if not is_spark_submit():
        return create_local_session(progress=not quiet and sys.stderr.isatty())
    with without_pyarrow():
        # Without this call, a SparkConf does not have the options of spark-submit.
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
    """Return whether executors may run on other machines."""
    return not _is_local_master(spark.sparkContext.master)


def _is_local_master(master: str | None) -> bool:
    return (master or "local").startswith("local")


def _is_terminal() -> bool:
    """Return whether ``spark-submit`` runs on a terminal.

    The streams of this process are pipes to the JVM, so that the console of the JVM is checked instead.
    """
    jvm: Any = SparkContext._jvm
    console = jvm.java.lang.System.console()
    try:
        return console is not None and bool(console.isTerminal())
    except Py4JError:  # Console.isTerminal exists since Java 22; before, console() is null without a terminal
        return True


def _send_packages(spark: SparkSession) -> None:
    # Each executor fetches the archives when it starts, so that the files must exist as long as the session.
    place = Path(SparkFiles.getRootDirectory(), "sent")
    if place.exists():
        return
    place.mkdir()
    archive, native = place / "topiarist-job.zip", place / _NATIVE_ARCHIVE
    for path, packages in ((archive, _EXECUTOR_PACKAGES), (native, _NATIVE_PACKAGES)):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as output:
            for package in packages:
                for name, file in _list_package_files(files(package), package):
                    output.writestr(zipfile.ZipInfo(name), file.read_bytes())
    context = spark.sparkContext
    context.addPyFile(str(archive))
    context.addArchive(str(native))
    # Executors must find these packages before they load a task, and PySpark has a public method for archives of Python
    # code only: it puts the names of those into this list too.
    assert context._python_includes is not None
    context._python_includes.append(_NATIVE_ARCHIVE)


def _list_package_files(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    """Yield the files of a package in order of name, also if the package is inside an archive."""
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _list_package_files(entry, f"{name}/{entry.name}")
        elif entry.is_file():
            yield f"{name}/{entry.name}", entry
