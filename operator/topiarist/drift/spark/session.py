"""Spark sessions: started in a local JVM, or provided by ``spark-submit`` on any cluster.

``drift.spark.engine`` starts one session per process. A local start hides the banner lines of the JVM and of Spark, and
prints them only if the start fails. On a cluster, the driver sends the package ``topiarist`` and the packages that it
needs to the executors, so that executors run the same code as the driver and need only Python of the same version on
the same platform. Packages that are installed on an executor win over compiled packages of the driver.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from topiarist.drift.report import has_given_session
from topiarist.errors import Reason, TopiaristError
from topiarist.text import printable, printable_path

# Translation of Spark errors into ``TopiaristError`` with a one-line message.
#
# ``drift.spark.engine`` and ``drift.spark.outputs`` use it. Users see the root cause and a hint, without a traceback
# or a JVM stack.

_MAX_MESSAGE_LENGTH, _MAX_CAUSES = 400, 50

_MISMATCH = "SchemaColumnConvertNotSupportedException"
"""A cause that lacks the file, which the exception around it has."""

HINT_SHARED = "use a folder that all machines of the Spark cluster share, or an address such as hdfs:"
_HINT_PACKAGES = "pass the packages of that store: spark-submit --packages org.apache.hadoop:hadoop-aws:VERSION"
HINT_SCHEMA = "write the table with the schema in docs/drift-reference.md"
_HINT_MEMORY = "increase --driver-memory and --executor-memory of spark-submit"

_ROOT_CAUSES: tuple[tuple[str, str, str], ...] = (
    (r'No FileSystem for scheme "s3"', "Spark has no file system for this address", "write s3a: instead of s3:"),
    (r"No FileSystem for scheme|FileSystem not found", "Spark has no file system for this address", _HINT_PACKAGES),
    (r"^OutOfMemoryError|Java heap space", "Spark ran out of memory", _HINT_MEMORY),
    (r"PARQUET_COLUMN_DATA_TYPE_MISMATCH", "found no table of snapshots", HINT_SCHEMA),
    (r"is not a Parquet file|Parquet magic|CorruptStatistics", "found no Parquet, or an incomplete file", ""),
    (
        r"^FileNotFoundException|PATH_NOT_FOUND|FILE_NOT_EXIST",
        "Spark found no such file or folder",
        HINT_SHARED,
    ),
    (r"^AccessControlException|^AccessDenied|Permission denied", "Spark has no permission for this", ""),
    (r"JAVA_GATEWAY_EXITED", "the JVM of Spark did not start", "see its output above; check JAVA_HOME"),
)
"""Patterns of root causes, each with a message and a hint."""


@contextmanager
def translate_errors(reason: Reason = Reason.SPARK_FAILED, path: str = "") -> Iterator[None]:
    """Raise ``TopiaristError`` for errors of Spark, its JVM or the connection to the JVM.

    ``path`` is the path to name in the message, if any.
    """
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        message, hint = _explain_root_cause(_root_cause(error))
        raise TopiaristError(reason, f"{printable_path(path)}: {message}" if path else message, hint) from error


def _explain_root_cause(root: str) -> tuple[str, str]:
    for pattern, message, hint in _ROOT_CAUSES:
        if re.search(pattern, root):
            return f"{message} ({printable(root, _MAX_MESSAGE_LENGTH)})", hint
    return f"Spark failed: {printable(root, _MAX_MESSAGE_LENGTH)}", ""


def _root_cause(error: BaseException) -> str:
    """Return the innermost cause as one line: its class without the package, and its message."""
    java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    try:
        if java is not None:
            return _java_root_cause(java)
    except (Py4JError, ConnectionError):  # the JVM ended: only the Python message is left
        pass
    if isinstance(error, PySparkException):
        return _relevant_line(str(error))
    return f"the JVM of Spark has ended: {_relevant_line(str(error)) or type(error).__name__}"


def _java_root_cause(java: Any) -> str:
    for _ in range(_MAX_CAUSES):
        if (cause := java.getCause()) is None or cause.getClass().getSimpleName() == _MISMATCH:
            break
        java = cause
    name = java.getClass().getSimpleName()
    return f"{name}: {_relevant_line(java.getMessage() or '')}"


def _relevant_line(text: str) -> str:
    """Return one line of a message: the last of a Python traceback, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "Traceback (most recent call last)" in text:
        return next((line.strip() for line in reversed(text.splitlines()) if line[:1].strip()), "")
    return lines[0] if lines else ""


_STDERR_FD = 2

_EXECUTOR_PACKAGES = ("topiarist", "kazoo")
"""Packages that executors need in addition to Python and Spark, and import from an archive."""

_NATIVE_PACKAGES = ("jsonschema_rs", "msgspec", "yaml")
"""Packages with compiled modules, which Python can import only from files."""

NATIVE_ARCHIVE = "topiarist-native.zip"
"""Name of the archive of compiled packages, and of the folder in which executors have its content."""

_PROGRESS_SETTING = "spark.ui.showConsoleProgress"

_STARTED_MARK, _FAILED_MARK = b"\0started\0", b"\0failed\0"


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
    with suppress_banner():
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
    """Return the session of this process; a local one draws progress bars on a terminal unless ``quiet``."""
    if not has_given_session():
        return create_local_session(progress=not quiet and sys.stderr.isatty())
    started = SparkSession.builder.appName("topiarist drift").getOrCreate()
    started.conf.set("spark.sql.session.timeZone", "UTC")
    _send_packages(started)
    return started


def is_distributed(spark: SparkSession) -> bool:
    """Return whether executors may run on other machines."""
    return not (spark.conf.get("spark.master", "local") or "local").startswith("local")


@cache
def _send_packages(spark: SparkSession) -> None:
    # Each executor fetches the archives when it starts, so that the files must exist as long as the session.
    place = Path(mkdtemp(prefix="topiarist-spark-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    archive, native = place / "topiarist-job.zip", place / NATIVE_ARCHIVE
    for path, packages in ((archive, _EXECUTOR_PACKAGES), (native, _NATIVE_PACKAGES)):
        with zipfile.ZipFile(path, "w") as output:
            for package in packages:
                for name, file in _list_package_files(files(package), package):
                    output.writestr(zipfile.ZipInfo(name), file.read_bytes())
    spark.addArtifacts(str(archive), pyfile=True)
    spark.addArtifacts(str(native), archive=True)


def _list_package_files(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    """Yield the files of a package in order of name, also if the package is inside an archive."""
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _list_package_files(entry, f"{name}/{entry.name}")
        elif entry.is_file():
            yield f"{name}/{entry.name}", entry
