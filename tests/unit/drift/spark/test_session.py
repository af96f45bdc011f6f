"""Sessions of Spark, the stores that they reach, and their errors as those of users."""

from __future__ import annotations

import os
import sys
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PySparkRuntimeError

from support.drift.java_errors import JavaError, Throwable
from support.waiting import wait_until
from topiarist.drift.spark import session
from topiarist.drift.spark.session import (
    HINT_SHARED,
    create_local_session,
    is_distributed,
    start_session,
    suppress_banner,
    translate_errors,
)
from topiarist.errors import Reason, TopiaristError

TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: found 3, wanted 4\n\n'

CAUSES = [
    (
        "UnsupportedFileSystemException",
        'No FileSystem for scheme "s3"',
        "Spark has no file system for this address",
        "write s3a: instead of s3:",
    ),
    (
        "UnsupportedFileSystemException",
        'No FileSystem for scheme "s3a"',
        "Spark has no file system for this address",
        "--packages",
    ),
    ("ClassNotFoundException", "S3A: FileSystem not found", "Spark has no file system for this address", "--packages"),
    ("OutOfMemoryError", "GC overhead", "Spark ran out of memory", "--driver-memory"),
    ("SparkException", "Java heap space", "Spark ran out of memory", "--driver-memory"),
    ("RuntimeException", "a is not a Parquet file", "found no Parquet, or an incomplete file", None),
    ("RuntimeException", "no Parquet magic", "found no Parquet, or an incomplete file", None),
    ("RuntimeException", "CorruptStatistics", "found no Parquet, or an incomplete file", None),
    ("FileNotFoundException", "File a is absent", "Spark found no such file or folder", HINT_SHARED),
    ("AnalysisException", "[PATH_NOT_FOUND] a", "Spark found no such file or folder", HINT_SHARED),
    ("SparkException", "[FAILED_READ_FILE.FILE_NOT_EXIST] a", "Spark found no such file or folder", HINT_SHARED),
    ("AccessControlException", "x", "Spark has no permission for this", None),
    ("AccessDeniedException", "x", "Spark has no permission for this", None),
    ("IOException", "Permission denied: user=x", "Spark has no permission for this", None),
    ("IllegalStateException", None, "Spark failed: IllegalStateException: ", None),
    ("PythonException", TRACE, "Spark failed: PythonException: ValueError: found 3, wanted 4", None),
    ("SparkException", "\n Job aborted\n\tat x.y(Z.java)", "Spark failed: SparkException: Job aborted", None),
]


def translated(error: Exception, path: str = "") -> TopiaristError:
    """Return the translation of an error."""
    with pytest.raises(TopiaristError) as raised, translate_errors(path=path):
        raise error
    assert raised.value.__cause__ is error
    return raised.value


@pytest.mark.parametrize(("name", "text", "message", "hint"), CAUSES)
def test_a_known_cause_has_plain_words_and_a_hint(name: str, text: str | None, message: str, hint: str | None) -> None:
    """The message begins with plain words and has the cause in parentheses; the hint says what to do, if anything."""
    error = translated(JavaError(name, text))
    said = error.message
    assert said.startswith(message)
    assert "\n" not in said
    assert message.startswith("Spark failed") or said == f"{message} ({name}: {text})"
    assert (hint in error.hint) if hint else error.hint == ""
    assert error.reason is Reason.SPARK_FAILED


@pytest.mark.parametrize("depth", [1, 3, 40])
def test_the_innermost_cause_is_named(depth: int) -> None:
    """However deep the causes are, the first cause is the one that users see."""
    cause = Throwable("UnknownHostException", "bucket")
    for number in range(depth):
        cause = Throwable(f"Outer{number}", "job aborted", cause)
    assert "Spark failed: UnknownHostException: bucket" in str(translated(JavaError("Outermost", "", cause)))


def test_a_column_of_another_type_is_named_with_its_file() -> None:
    """The reader of Parquet names the file and the column in the exception around the cause."""
    said = "[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while reading file a. Expected int"
    cause = Throwable("SchemaColumnConvertNotSupportedException", "column: [rows], physicalType: INT64")
    error = translated(JavaError("SparkException", "Job aborted", Throwable("SparkException", said, cause)))
    assert error.message == f"found no table of snapshots (SparkException: {said})"
    assert "docs/drift-reference.md" in error.hint


def test_causes_in_a_circle_end() -> None:
    """An exception that is its own cause is named like any other."""
    error = JavaError("CircularException", "round")
    error.java_exception._cause = error.java_exception
    assert "Spark failed: CircularException: round" in str(translated(error))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            Py4JNetworkError("Answer from Java side is empty"),
            "Spark failed: the JVM of Spark has ended: Answer from Java side",
        ),
        (ConnectionRefusedError(111, "refused"), "Spark failed: the JVM of Spark has ended: [Errno 111] refused"),
        (Py4JError(""), "Spark failed: the JVM of Spark has ended: Py4JError"),
        (PySparkRuntimeError("[JAVA_GATEWAY_EXITED] It exited"), "the JVM of Spark did not start ([JAVA_GATEWAY"),
        (PySparkException("[UNRESOLVED_COLUMN] a\nb"), "Spark failed: [UNRESOLVED_COLUMN] a"),
        (PySparkException(" \n"), "Spark failed: "),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_without_a_java_exception_is_named(error: Exception, message: str) -> None:
    """Errors of PySpark are named by their first line; an error of the connection says that the JVM has ended."""
    said = translated(error).message
    assert said.startswith(message)
    assert "\n" not in said


def test_a_captured_exception_is_asked_for_its_cause() -> None:
    """An exception that PySpark made of one of Java's is named by the cause of that one."""
    error = PySparkException("an outer message")
    error._origin = Throwable("SparkException", "x", Throwable("AccessControlException", "y"))  # type: ignore[attr-defined]
    assert translated(error).message == "Spark has no permission for this (AccessControlException: y)"


def test_a_jvm_that_ends_meanwhile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the JVM cannot be asked for the cause, the Python message is used."""

    def fail(_: Throwable) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(Throwable, "getCause", fail)
    error = PySparkException("an outer message")
    error._origin = Throwable("SparkException", "x")  # type: ignore[attr-defined]
    assert translated(error).message == "Spark failed: an outer message"


def test_the_path_comes_first_and_long_causes_are_cut() -> None:
    """The message starts with the path, and the text of a cause has a limited length."""
    said = translated(JavaError("IOException", "x" * 5000), "s3a://bucket/a").message
    assert said.startswith("s3a://bucket/a: Spark failed: IOException: xxx")
    assert 300 < len(said) < 500


def test_errors_of_topiarist_pass_unchanged() -> None:
    """An error that topiarist raised keeps its reason and its message, and the given reason is for all others."""
    mine = TopiaristError(Reason.UNWRITABLE, "x: cannot be written")
    with pytest.raises(TopiaristError) as raised, translate_errors(Reason.UNREADABLE):
        raise mine
    assert raised.value is mine
    with pytest.raises(TopiaristError) as raised, translate_errors(Reason.UNREADABLE):
        raise JavaError("IOException", "x")
    assert raised.value.reason is Reason.UNREADABLE


class Builder:
    """A builder of sessions that keeps what it is told."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def config(self, key: str, value: str) -> Builder:
        """Keep a setting."""
        self.settings[key] = value
        return self

    def master(self, value: str) -> Builder:
        """Keep the master."""
        return self.config("master", value)

    def appName(self, value: str) -> Builder:  # noqa: N802
        """Keep the name."""
        return self.config("name", value)

    def getOrCreate(self) -> Builder:  # noqa: N802
        """Return the builder, which the caller takes for a session."""
        return self


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    """Return the builder of sessions; no variable of Spark is set."""
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    found = Builder()
    monkeypatch.setattr(session, "SparkSession", SimpleNamespace(builder=found))
    return found


def test_a_local_session_uses_this_machine_only(builder: Builder) -> None:
    """The session has one thread a core, listens on the loopback address, and is quiet; times are in UTC."""
    create_local_session("2g")
    assert builder.settings == {
        "master": "local[*]",
        "name": "topiarist drift",
        "spark.driver.memory": "2g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "OFF",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.session.timeZone": "UTC",
    }
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_variables_of_the_user_are_kept(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python or address that the user chose is used."""
    monkeypatch.setenv("PYSPARK_PYTHON", "python-of-mine")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.2")
    create_local_session()
    assert (os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"]) == ("python-of-mine", "127.0.0.2")
    assert builder.settings["spark.driver.memory"] == "3g"


@pytest.mark.parametrize(
    ("quiet", "is_terminal", "shown"), [(False, True, "true"), (True, True, "false"), (False, False, "false")]
)
def test_progress_is_for_terminals(
    builder: Builder, monkeypatch: pytest.MonkeyPatch, quiet: bool, is_terminal: bool, shown: str
) -> None:
    """Progress bars are drawn on a terminal, unless the user wants no messages."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    start_session(quiet=quiet)
    assert builder.settings["spark.ui.showConsoleProgress"] == shown


class Given(Builder):
    """A session that exists before the command: its settings, and what it sends to executors."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
        super().__init__()
        self.sent: list[tuple[dict[str, bool], str]] = []
        self.conf = SimpleNamespace(set=self.config)
        monkeypatch.setenv(variable, "1")
        monkeypatch.setattr(session, "SparkSession", SimpleNamespace(builder=self))

    def addArtifacts(self, path: str, **kinds: bool) -> None:  # noqa: N802
        """Keep the path of an archive."""
        self.sent.append((kinds, path))


@pytest.mark.parametrize("variable", ["PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "DATABRICKS_RUNTIME_VERSION"])
def test_a_given_session_keeps_its_options(builder: Builder, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """A session of spark-submit, of a Connect server or of Databricks is used as it is; times are in UTC."""
    given = Given(monkeypatch, variable)
    assert start_session() is given  # type: ignore[comparison-overlap]
    assert given.settings == {"name": "topiarist drift", "spark.sql.session.timeZone": "UTC"}
    assert "PYSPARK_PYTHON" not in os.environ
    assert builder.settings == {}


@pytest.mark.usefixtures("builder")
def test_executors_receive_the_packages_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package and its libraries are in archives, compiled ones apart; a second start sends none."""
    driver = Given(monkeypatch, "PYSPARK_GATEWAY_PORT")
    monkeypatch.setattr(session, "_EXECUTOR_PACKAGES", ("json", "xml"))
    monkeypatch.setattr(session, "_NATIVE_PACKAGES", ("yaml",))
    start_session()
    assert [kinds for kinds, _ in driver.sent] == [{"pyfile": True}, {"archive": True}]
    names = [zipfile.ZipFile(path).namelist() for _, path in driver.sent]
    assert {"json/__init__.py", "json/decoder.py", "xml/dom/minidom.py"} <= {*names[0]}
    assert "yaml/__init__.py" in names[1]
    assert not [name for name in (*names[0], *names[1]) if "__pycache__" in name]
    assert names == [sorted(each) for each in names]
    assert Path(driver.sent[1][1]).name == session.NATIVE_ARCHIVE
    with zipfile.ZipFile(driver.sent[0][1]) as archive:
        assert archive.read("json/decoder.py") == Path(sys.modules["json.decoder"].__file__ or "").read_bytes()
        assert archive.infolist()[0].date_time == (1980, 1, 1, 0, 0, 0)
    start_session()
    assert len(driver.sent) == 2


def test_executors_need_this_package_and_its_libraries() -> None:
    """The names of the packages are those that can be imported here, with compiled ones apart."""
    assert session._EXECUTOR_PACKAGES == ("topiarist", "kazoo")
    assert session._NATIVE_PACKAGES == ("jsonschema_rs", "msgspec", "yaml")


@pytest.mark.parametrize(
    ("master", "expected"), [("local[*]", False), ("local", False), (None, False), ("yarn", True), ("spark://a", True)]
)
def test_executors_of_a_cluster_are_elsewhere(master: str | None, expected: bool) -> None:
    """Only a local master has its executors on this machine."""
    context: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda *_: master))
    assert is_distributed(context) is expected


def write_and_fail() -> None:
    """Write to stderr as a JVM does that cannot start."""
    os.write(2, b"no Java ")
    os.write(2, b"here\n")
    raise OSError


def test_output_of_a_start_is_hidden(capfd: pytest.CaptureFixture[str]) -> None:
    """What is written while Spark starts is dropped, and stderr is the same file afterwards; no thread is left."""
    before, threads = os.fstat(2), {*threading.enumerate()}
    with suppress_banner():
        assert os.fstat(2) != before
        os.write(2, b"WARNING: a banner\n")
    assert os.fstat(2).st_ino == before.st_ino
    print("and on", file=sys.stderr)
    assert capfd.readouterr().err == "and on\n"
    wait_until(lambda: threads.issuperset(threading.enumerate()), "the end of the thread that dropped the output")


def test_output_of_a_start_that_fails_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    """If the start fails, everything that was written is shown."""
    with pytest.raises(OSError), suppress_banner():  # noqa: PT011
        write_and_fail()
    assert capfd.readouterr().err == "no Java here\n"


def test_output_after_the_start_is_shown() -> None:
    """A process that started meanwhile keeps its stderr: what it writes later is passed on, in order.

    The text is read from a pipe: a capture that is emptied while another thread writes can lose it.
    """
    reading, writing = os.pipe()
    stderr = os.dup(2)
    os.dup2(writing, 2)
    os.close(writing)
    try:
        with suppress_banner():
            os.write(2, b"a banner\n")
            inherited = os.dup(2)
        os.write(inherited, b"bars ")
        assert os.read(reading, 100) == b"bars "
        os.write(inherited, b"more bars")
        os.close(inherited)
        assert os.read(reading, 100) == b"more bars"
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(reading)
