"""Wait for a condition instead of sleeping: as short as the machine is fast, as long as it is slow."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import IO

DEFAULT_TIMEOUT_S = 30.0
"""Seconds; only a test that fails waits this long."""


def wait_until(
    condition: Callable[[], object], what: str, *, timeout: float = DEFAULT_TIMEOUT_S, interval: float = 0.005
) -> None:
    """Return once ``condition()`` is true; raises ``AssertionError`` with ``what`` if it never is.

    ``interval`` is between two looks: longer where a look costs whoever is looked at.
    """
    never = threading.Event()
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout:.0f} s in vain for: {what}"
        never.wait(interval)


def read_until(stream: IO[str], word: str) -> str:
    """Return the lines of ``stream`` up to the one with ``word``; raises ``AssertionError`` if it ends before."""
    said = ""
    while word not in said:
        line = stream.readline()
        assert line, f"ended too early: {said}"
        said += line
    return said


def is_alive(pid: int) -> bool:
    """Whether a process of this id runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
