"""Spark sessions: started in a local JVM, or provided by ``spark-submit`` on any cluster.

``drift.spark.engine`` starts one session per process. A local start hides the banner lines of the JVM and of Spark, and
prints them only if the start fails. On a cluster, the driver sends the package ``topiarist`` and the packages that it
needs to the executors, so that executors run the same code as the driver and need only Python of the same version on
the same platform. Packages that are installed on an executor win over compiled packages of the driver.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NoReturn

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import RDD, SparkConf, SparkContext, SparkFiles
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from topiarist.adapters.snapshots.files import MAX_BYTES, MAX_ROW_BYTES
from topiarist.drift.report import is_spark_submit
from topiarist.errors import Reason, TopiaristError
from topiarist.text import humanize_bytes, printable

# Translation of Spark errors into ``TopiaristError`` with a one-line message.
#
# ``drift.spark.engine`` and ``Storage`` use it. Users see the root cause and a hint, without a traceback
# or a JVM stack.

_MAX_MESSAGE_LENGTH, _MAX_CAUSES = 400, 50

HINT_SHARED = "use a folder that all machines of the Spark cluster share, or an address such as hdfs:"
_HINT_PACKAGES = "pass the packages of that store: spark-submit --packages org.apache.hadoop:hadoop-aws:VERSION"
_HINT_MEMORY = "increase --driver-memory and --executor-memory of spark-submit"

_ROOT_CAUSES: tuple[tuple[str, str, str], ...] = (
    (r"No FileSystem for scheme|FileSystem not found", "Spark has no file system for this address", _HINT_PACKAGES),
    (r"^OutOfMemoryError|Java heap space", "Spark ran out of memory", _HINT_MEMORY),
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
        raise TopiaristError(reason, f"{printable(path, 4096)}: {message}" if path else message, hint) from error


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
        if (cause := java.getCause()) is None:
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


# File operations on any store that Spark reaches, through Hadoop's file system classes.
#
# ``drift.spark.engine`` and ``drift.spark.outputs`` use them for snapshots and reports. URIs are text, as the user gave
# them. Each method raises ``TopiaristError`` with the URI in the message.

_CHUNK_BYTES = 1 << 20


class Storage:
    """The file systems that a Spark session can reach."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm
        self._conf = context._jsc.hadoopConfiguration()

    def list_files(self, address: str) -> list[str]:
        """Return all files below a folder at any depth, without hidden files, or the file itself."""
        with self._open(address, Reason.UNREADABLE) as (store, path):
            if not store.getFileStatus(path).isDirectory():
                return [address]
            walk, files = store.listFiles(path, True), []
            while walk.hasNext():
                files.append(str(walk.next().getPath().toString()))
        return [file for file in files if not file.rpartition("/")[2].startswith((".", "_"))]

    def list_names(self, address: str) -> list[str] | None:
        """Return the names in a folder, None if nothing exists there, and one empty name for a file."""
        with self._open(address, Reason.UNREADABLE) as (store, path):
            if not store.exists(path):
                return None
            if not store.getFileStatus(path).isDirectory():
                return [""]
            return [str(status.getPath().getName()) for status in store.listStatus(path)]

    def read_first_line(self, address: str) -> bytes:
        """Return the first line of a file, empty for an empty file.

        Raises ``SnapshotUnusable`` for a file above ``MAX_BYTES`` or a line above ``MAX_ROW_BYTES``.
        """
        with self._open(address, Reason.SNAPSHOT_UNUSABLE) as (store, path):
            if (length := store.getFileStatus(path).getLen()) > MAX_BYTES:
                _raise_unusable(address, f"found {humanize_bytes(length)}, wanted at most {humanize_bytes(MAX_BYTES)}")
            found = b""
            for chunk in self.read_chunks(address, Reason.SNAPSHOT_UNUSABLE):
                start, end, _ = chunk.partition(b"\n")
                found += start + end
                if len(found) > MAX_ROW_BYTES:
                    _raise_unusable(address, f"found a row of more than {humanize_bytes(MAX_ROW_BYTES)}")
                if end:
                    break
            return found

    def read_chunks(self, address: str, reason: Reason = Reason.UNREADABLE) -> Iterator[bytes]:
        """Yield the content of a file in parts; ``reason`` is that of errors."""
        with self._open(address, reason) as (store, path), closing(store.open(path)) as stream:
            while chunk := bytes(stream.readNBytes(_CHUNK_BYTES)):
                yield chunk

    def read_tail(self, address: str, length: int) -> bytes:
        """Return the last ``length`` bytes of a file."""
        with self._open(address, Reason.SNAPSHOT_UNUSABLE) as (store, path), closing(store.open(path)) as stream:
            stream.seek(max(store.getFileStatus(path).getLen() - length, 0))
            return bytes(stream.readNBytes(length))

    def download(self, address: str, file: Path) -> None:
        """Copy a remote file to a local file."""
        with self._open(address, Reason.UNREADABLE) as (store, path):
            store.copyToLocalFile(False, path, self._make_path(f"file://{file}"), True)

    def upload(self, file: Path, address: str) -> None:
        """Copy a local file to a URI; create missing parent folders and replace an existing file."""
        with self._open(address, Reason.UNWRITABLE) as (store, path):
            store.copyFromLocalFile(False, True, self._make_path(f"file://{file}"), path)

    def make_folder(self, address: str, about: str) -> None:
        """Create a folder and its missing parents; errors name ``about``."""
        with self._open(address, Reason.UNWRITABLE, about) as (store, path):
            _require_success(store.mkdirs(path), about)

    def move(self, address: str, to: str) -> None:
        """Rename a file or folder; the target must not exist, its parent folder must."""
        with self._open(address, Reason.UNWRITABLE, to) as (store, path):
            _require_success(store.rename(path, self._make_path(to)), to)

    def remove(self, address: str) -> None:
        """Remove a file, or a folder with its content, if it exists."""
        with self._open(address, Reason.UNWRITABLE) as (store, path):
            store.delete(path, True)

    def _make_path(self, address: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(address)

    @contextmanager
    def _open(self, address: str, reason: Reason, about: str = "") -> Iterator[tuple[Any, Any]]:
        """Yield the file system and path of a URI; errors of the block name ``about`` or the URI."""
        with translate_errors(reason, about or address):
            path = self._make_path(address)
            yield path.getFileSystem(self._conf), path


def _raise_unusable(address: str, message: str) -> NoReturn:
    raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, f"{printable(address, 4096)}: {message}")


def _require_success(succeeded: bool, address: str) -> None:
    if not succeeded:
        raise TopiaristError(Reason.UNWRITABLE, f"{printable(address, 4096)}: cannot be written: its store refused")


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
