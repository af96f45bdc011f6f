"""Operators that start without delay, forked from a process with all imports, for kill and restart tests."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from support.cli import forked_runs
from support.kubernetes.operator_process import http_get
from support.waiting import wait_until

PRELOAD = [
    "topiarist.cli.main",
    "topiarist.cli.commands.operator",
    "topiarist.kubernetes.main",
    "support.kubernetes.forked_operators",
]
START_TIMEOUT_S = 120.0


class ForkedOperator:
    """One operator with these options, over all its starts; its log is in the file ``said``."""

    def __init__(self, kubeconfig: Path, log_path: Path, *words: str) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOAD)
        self._arguments = str(kubeconfig), str(log_path), words
        self._log_path = log_path
        self._process: BaseProcess | None = None
        self._started = threading.Event()

    @property
    def process(self) -> BaseProcess:
        """The process of the last start; a caller waits until it exists."""
        assert self._started.wait(30)
        assert self._process is not None
        return self._process

    @property
    def alive(self) -> bool:
        """True if it runs, or is paused."""
        return self._process is not None and self._process.is_alive()

    def start(self) -> None:
        """Start the operator; it ends with the test process in every case."""
        assert not self.alive
        self._log_path.unlink(missing_ok=True)
        self._process = self._context.Process(target=_run, args=self._arguments)
        self._process.start()
        self._started.set()

    def wait_until_ready(self) -> None:
        """Wait until it has read all resources, or waits for its Lease."""
        wait_until(lambda: not self.alive or self.http_get("/readyz")[0] == 200, "it is ready", timeout=START_TIMEOUT_S)
        assert self.alive, self.log

    def kill(self) -> None:
        """Kill it at once if it still runs."""
        if self._process is not None:
            forked_runs.kill(self._process)

    def terminate(self) -> None:
        """Send SIGTERM and check that it ends cleanly."""
        self.send(signal.SIGTERM)
        assert forked_runs.wait_for_exit_code(self.process) == 0, self.log

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(forked_runs.pid(self.process), number)

    @property
    def log(self) -> str:
        """Return its log since the last start."""
        return self._log_path.read_text() if self._log_path.exists() else ""

    def log_entries(self, message: str) -> list[dict[str, Any]]:
        """Return the lines of its log with this message."""
        return [line for line in self._log_lines() if line["message"] == message]

    def http_get(self, path: str) -> tuple[int, str]:
        """Return its HTTP response; status 0 without a response."""
        listening = self.log_entries("listening")
        return http_get(listening[0]["port"], path) if listening else (0, "")

    def metric(self, name: str) -> float:
        """Return a value of its metrics, by the name with labels; 0 for a missing metric."""
        for line in self.http_get("/metrics")[1].splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
        return 0.0

    def _log_lines(self) -> Iterator[dict[str, Any]]:
        for line in self.log.splitlines(keepends=True):
            if line.endswith("\n") and line.startswith("{"):
                yield json.loads(line)


def _run(kubeconfig: str, log_path: str, words: tuple[str, ...]) -> None:
    """Run the operator in the new process."""
    os.environ["KUBECONFIG"] = kubeconfig
    os.environ.pop("KUBERNETES_SERVICE_HOST", None)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    forked_runs._run(["operator", "--listen", "127.0.0.1:0", *words], log_path, None)


def _exit_with_parent() -> None:
    """Exit when the process that requested the start has ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
