"""Translation of Spark errors into ``TopiaristError`` with a one-line message.

``drift.spark.engine`` and ``drift.spark.filesystem`` use it. Users see the root cause and a hint, without a traceback
or a JVM stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from topiarist.errors import Reason, TopiaristError
from topiarist.text import printable

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
