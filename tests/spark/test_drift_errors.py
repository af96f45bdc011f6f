"""Errors of Spark and its JVM as the user sees them: one line, for every cause."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkRuntimeError

from support.drift.java_errors import JavaError, Throwable
from topiarist.drift.spark.session import translate_errors
from topiarist.errors import Reason, TopiaristError


def java(name: str, message: str | None) -> JavaError:
    """Return an error with an inner cause, which is the relevant one."""
    return JavaError("SparkException", "Job aborted:\n\tat x.y(Z.java)", Throwable(name, message))


TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: found 3, wanted 4\n\n'


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            java("UnsupportedFileSystemException", 'No FileSystem for scheme "s3a"'),
            "Spark has no file system for this",
        ),
        (
            java("ClassNotFoundException", "Class org.x.S3AFileSystem not found"),
            "Spark has no file system for this",
        ),
        (java("OutOfMemoryError", "Java heap space"), "Spark ran out of memory"),
        (java("RuntimeException", "file:/a is not a Parquet file. Expected magic"), "found no Parquet"),
        (java("FileNotFoundException", "File file:/a does not exist"), "Spark found no such file or folder"),
        (java("AccessControlException", "Permission denied: user=x"), "Spark has no permission for this"),
        (java("PythonException", TRACE), "Spark failed: PythonException: ValueError: found 3, wanted 4"),
        (java("IllegalStateException", None), "Spark failed: IllegalStateException: "),
        (
            Py4JNetworkError("Answer from Java side is empty"),
            "JVM of Spark has ended: Answer from Java side is empty",
        ),
        (
            ConnectionRefusedError(111, "Connection refused"),
            "JVM of Spark has ended: [Errno 111] Connection refused",
        ),
        (PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited"), "the JVM of Spark did not start"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_of_spark_is_one_line(error: Exception, said: str) -> None:
    """The message is one line with the innermost cause, described in plain words if it is known, without a stack
    trace.
    """
    with pytest.raises(TopiaristError) as raised, translate_errors():
        raise error
    message = raised.value.message
    assert said in message
    assert "\n" not in message
    assert "\tat " not in message
    assert raised.value.reason is Reason.SPARK_FAILED


def test_errors_of_ours_stay_as_they_are() -> None:
    """A ``TopiaristError`` passes unchanged."""
    with pytest.raises(TopiaristError) as raised, translate_errors():
        raise TopiaristError(Reason.UNWRITABLE, "x: cannot be written")
    assert raised.value.reason is Reason.UNWRITABLE


def test_what_it_was_about_comes_first() -> None:
    """The message starts with the given address, and the error has the given reason."""
    with pytest.raises(TopiaristError) as raised, translate_errors(Reason.UNREADABLE, "s3a://bucket/a"):
        raise java("AccessControlException", "Permission denied")
    assert str(raised.value).startswith(
        "s3a://bucket/a: Spark has no permission for this (AccessControlException: Permission denied"
    )
    assert raised.value.reason is Reason.UNREADABLE
