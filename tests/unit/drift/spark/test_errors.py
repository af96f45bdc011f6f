"""Errors of Spark and its JVM: the message, the hint and the reason of each known cause."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PySparkRuntimeError

from topiarist.drift.spark.errors import HINT_SHARED, translate_errors
from topiarist.errors import Reason, TopiaristError
from unit.drift.spark.local_store import JavaError, Throwable

TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: found 3, wanted 4\n\n'

CAUSES = [
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
    said = str(error.args[0])
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
    said = str(translated(error).args[0])
    assert said.startswith(message)
    assert "\n" not in said


def test_a_captured_exception_is_asked_for_its_cause() -> None:
    """An exception that PySpark made of one of Java's is named by the cause of that one."""
    error = PySparkException("an outer message")
    error._origin = Throwable("SparkException", "x", Throwable("AccessControlException", "y"))  # type: ignore[attr-defined]
    assert str(translated(error).args[0]) == "Spark has no permission for this (AccessControlException: y)"


def test_a_jvm_that_ends_meanwhile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the JVM cannot be asked for the cause, the Python message is used."""

    def fail(_: Throwable) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(Throwable, "getCause", fail)
    error = PySparkException("an outer message")
    error._origin = Throwable("SparkException", "x")  # type: ignore[attr-defined]
    assert str(translated(error).args[0]) == "Spark failed: an outer message"


def test_the_path_comes_first_and_long_causes_are_cut() -> None:
    """The message starts with the path, and the text of a cause has a limited length."""
    said = str(translated(JavaError("IOException", "x" * 5000), "s3a://bucket/a").args[0])
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
