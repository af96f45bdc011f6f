"""Processes to be killed: whole runs of the command line, each forked from a process that has loaded all of it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = ["BaseProcess", "ForkedRuns", "kill", "pid", "wait_for_exit", "wait_for_exit_code"]

PRELOAD = [
    "topiarist.cli.main",
    "topiarist.cli.apply.command",
    "topiarist.cli.commands.plan",
    "topiarist.cli.commands.export",
    "topiarist.cli.commands.snapshot",
    "topiarist.adapters.manifests.loader",
    "topiarist.adapters.zookeeper.cluster",
    "support.cli.forked_runs",
]


class ForkedRuns:
    """Starts runs of topiarist; 30 ms each instead of 300."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOAD)

    def start(self, *words: str | Path, output_file: Path, kill_at: tuple[str, int] | None = None) -> BaseProcess:
        """Begin a run whose output goes to the file ``output_file``.

        ``kill_at``: the end of a source file's path and a number; the run kills itself at the so many-th line that it
        comes to in there. The number 0 kills nothing and adds how many lines there were to what was said.
        """
        process = self._context.Process(target=_run, args=([str(word) for word in words], str(output_file), kill_at))
        process.start()
        return process


def wait_for_exit_code(process: BaseProcess) -> int:
    """The exit code of a run, once it has ended; that of a killed one is minus the signal."""
    process.join(60)
    assert process.exitcode is not None, "the run does not end"
    return process.exitcode


def kill(process: BaseProcess) -> None:
    """End it as ``kill -9`` does, and wait until it has gone; its exit code is left to whoever waits for it."""
    process.kill()
    wait_for_exit(process)


def wait_for_exit(process: BaseProcess) -> None:
    """Wait until it has gone."""
    assert wait([process.sentinel], 60), "the run does not end"


def pid(process: BaseProcess) -> int:
    """Its number."""
    assert process.pid is not None
    return process.pid


def _run(words: list[str], output_file: str, kill_at: tuple[str, int] | None) -> None:
    """In the new process."""
    from topiarist.cli.main import run

    output = os.open(output_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    lines = _LineCounter(*kill_at) if kill_at else None
    if lines:
        threading.settrace(lines.trace)
        sys.settrace(lines.trace)
    code = run(words)
    sys.settrace(None)
    if lines:
        print(f"\nlines: {lines.count}")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class _LineCounter:
    def __init__(self, file: str, kill_at: int) -> None:
        self.count = 0
        self._file, self._kill_at = file, kill_at

    def trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        """Count the lines of the file, and kill at the one that was asked for."""
        if not frame.f_code.co_filename.endswith(self._file):
            return None
        self.count += event == "line"
        if event == "line" and self.count == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.trace
