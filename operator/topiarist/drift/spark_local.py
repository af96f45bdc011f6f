"""Spark in a JVM of this process's own, as ``topiarist drift`` starts it where nobody else has started one.

A JVM and Spark greet whoever starts them with half a dozen lines that say nothing to a person. They are kept back, and
shown only if the start fails; what comes after it, the bars, goes where it belongs.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_STDERR = 2

_STARTED, _FAILED = b"\0started\0", b"\0failed\0"


def session(memory: str = "3g", *, progress: bool = False) -> SparkSession:
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
    with without_greeting():
        return builder.getOrCreate()


@contextmanager
def without_greeting() -> Iterator[None]:
    """What comes out on stderr meanwhile is dropped, unless this ends by an error; what children say later is not."""
    ours = os.dup(_STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    passing = threading.Event()
    threading.Thread(target=_pass_on, args=(reading, ours, passing), name="stderr of Spark", daemon=True).start()
    try:
        yield
    except BaseException:
        _mark(_FAILED, passing)
        raise
    else:
        _mark(_STARTED, passing)
    finally:
        os.dup2(ours, _STDERR)


def _mark(mark: bytes, passing: threading.Event) -> None:
    """Have the other side know that everything until now was said before the start had ended, and how that ended."""
    sys.stderr.flush()
    os.write(_STDERR, mark)
    passing.wait()


def _pass_on(reading: int, to: int, passing: threading.Event) -> None:
    """Keep what comes until one of the marks, and pass on all after it; as long as anybody has the other end."""
    kept = b""
    while piece := os.read(reading, 1 << 16):
        kept += piece
        for mark in () if passing.is_set() else (_STARTED, _FAILED):
            before, found, after = kept.partition(mark)
            if found:
                kept = before + after if mark == _FAILED else after
                passing.set()
        if passing.is_set():
            os.write(to, kept)
            kept = b""
    os.close(reading)
    os.close(to)
