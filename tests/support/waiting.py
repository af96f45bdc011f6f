"""Waits for a condition instead of sleeps: short on a fast machine, long enough on a slow machine."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

DEFAULT_TIMEOUT_S = 120.0
"""Seconds; only a test that fails waits this long."""


def wait_until(
    condition: Callable[[], object], what: str, *, timeout: float = DEFAULT_TIMEOUT_S, interval: float = 0.005
) -> None:
    """Return once ``condition()`` is true; raise ``AssertionError`` with ``what`` after the timeout.

    ``interval`` is the pause between two checks: longer if a check is expensive.
    """
    never = threading.Event()
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout:.0f} s in vain for: {what}"
        never.wait(interval)


def read_until(stream: IO[str], word: str) -> str:
    """Return the lines of ``stream`` up to the line with ``word``; raise ``AssertionError`` if the stream ends
    before.
    """
    said = ""
    while word not in said:
        line = stream.readline()
        assert line, f"ended too early: {said}"
        said += line
    return said


def is_alive(pid: int) -> bool:
    """Return True if a process with this id runs: one that has ended, and waits to be collected, does not.

    The lanes of tests adopt the children of killed processes, and collect them at the end.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    try:
        return not state.exists() or state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
