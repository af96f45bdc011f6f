"""What goes wrong in Spark, in our words: one line for a person, no traceback, and nothing of a JVM's stack."""

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

_HINT_SHARED_FOLDER = (
    "all machines of a cluster have to reach it: name a folder that they share, or an address such as hdfs:"
)
_HINT_PACKAGES = "give spark-submit the packages of that store, as in --packages org.apache.hadoop:hadoop-aws:VERSION"
_HINT_MEMORY = "give it more: --driver-memory and --executor-memory of spark-submit"

_ROOT_CAUSES: tuple[tuple[str, str, str], ...] = (
    (r"No FileSystem for scheme|FileSystem not found", "Spark has nothing to reach this address with", _HINT_PACKAGES),
    (r"^OutOfMemoryError|Java heap space", "Spark ran out of memory", _HINT_MEMORY),
    (r"is not a Parquet file|Parquet magic|CorruptStatistics", "found no Parquet, or a part of a file", ""),
    (
        r"^FileNotFoundException|PATH_NOT_FOUND|FILE_NOT_EXIST",
        "Spark found no such file or folder",
        _HINT_SHARED_FOLDER,
    ),
    (r"^AccessControlException|^AccessDenied|Permission denied", "Spark may not do this", ""),
    (r"JAVA_GATEWAY_EXITED", "the Java of Spark did not start", "what it said stands above; look at JAVA_HOME"),
)
"""Root causes by pattern: what they mean, and what to do."""


@contextmanager
def translate_errors(reason: Reason = Reason.SPARK_FAILED, path: str = "") -> Iterator[None]:
    """Raise ``TopiaristError`` for what Spark, its JVM or the way to it raise; ``path`` is the path it was about."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        said, instead = _explain_root_cause(_root_cause(error))
        raise TopiaristError(reason, f"{printable(path, 4096)}: {said}" if path else said, instead) from error


def _explain_root_cause(root: str) -> tuple[str, str]:
    for pattern, words, instead in _ROOT_CAUSES:
        if re.search(pattern, root):
            return f"{words} ({printable(root, _MAX_MESSAGE_LENGTH)})", instead
    return f"Spark failed: {printable(root, _MAX_MESSAGE_LENGTH)}", ""


def _root_cause(error: BaseException) -> str:
    """The innermost cause as one line: its class without its package, and what it says."""
    java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    try:
        if java is not None:
            return _java_root_cause(java)
    except (Py4JError, ConnectionError):
        pass
    if isinstance(error, PySparkException):
        return _relevant_line(str(error))
    return f"its JVM is gone: {_relevant_line(str(error)) or type(error).__name__}"


def _java_root_cause(java: Any) -> str:
    for _ in range(_MAX_CAUSES):
        if (cause := java.getCause()) is None:
            break
        java = cause
    name = java.getClass().getSimpleName()
    return f"{name}: {_relevant_line(java.getMessage() or '')}"


def _relevant_line(text: str) -> str:
    """What a message says in one line: of a Python traceback the last, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "Traceback (most recent call last)" in text:
        return next((line.strip() for line in reversed(text.splitlines()) if line[:1].strip()), "")
    return lines[0] if lines else ""
