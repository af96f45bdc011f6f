"""A pytest server: imports the libraries that no mutant changes once, then forks for each run.

Reads requests from standard input, one JSON object a line: the arguments of pytest, environment variables, the output
file, and the limits of time and memory. Answers each with one line: the exit code, or ``hangs``. Nothing of this
project is imported here, so that each run imports the mutant.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

LIBRARIES = (
    *("click", "hypothesis.internal.conjecture.engine", "hypothesis.strategies", "jsonschema_rs", "kazoo.client"),
    *("kafka", "pytest", "yaml"),
)

MEMORY_BYTES = 3 << 30
"""Data of a child: a mutant that allocates without end fails, and the machine goes on.

Not its address space: the JVM of a test's ZooKeeper reserves more than that.
"""

_POLL_INTERVAL_S = 0.005


def main() -> None:
    """Serve requests until standard input ends."""
    for library in LIBRARIES:
        importlib.import_module(library)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            sys.exit(_run_tests(request))
        print(wait_for(child, request["seconds"]), flush=True)


def _run_tests(request: Mapping[str, Any]) -> int:
    """Run pytest once in the child process and return its exit code."""
    os.setsid()
    if request["has_limits"]:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    os.environ.update(request["variables"])
    for number, name in ((0, os.devnull), (1, request["output"]), (2, request["output"])):
        opened = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, number)
    import pytest

    return int(pytest.main(request["words"]))


def wait_for(child: int, seconds: float) -> str:
    """Return the exit code of a child process, or ``hangs`` after ending it with its process group.

    ``seconds`` are those of ``own_time``: a busy machine ends no child.
    """
    deadline = own_time(child) + seconds
    while own_time(child) < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return str(os.waitstatus_to_exitcode(status))
        time.sleep(_POLL_INTERVAL_S)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"


def own_time(process: int) -> float:
    """Return a clock that stands still while the main thread of a process is ready and other processes run.

    Where there is no Linux it never stands still.
    """
    delay_ns = 0
    with suppress(FileNotFoundError):
        delay_ns = int(Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()[1])
    return time.monotonic() - delay_ns / 1e9


if __name__ == "__main__":
    main()
