"""A supervised child process that ends with its parent, in a folder with its log and process id.

``zookeeper_server`` and the test servers start their programs with it. A caller passes the function that checks whether
the program is ready.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from topiarist.errors import Reason, TopiaristError

MAX_LOG_LINES = 20
"""Last lines of the log in an error message."""

_WATCHDOG_SCRIPT = """
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
echo $server >pid
{ read -r _ <&3; kill -9 $server; } 2>/dev/null &
guard=$!
wait $server
code=$?
kill $guard 2>/dev/null
exit $code
"""
# Runs its arguments as a process, and kills that process when standard input gets a line or closes, which also happens
# when topiarist is killed. The shell has its own process group, so that Ctrl-C in a terminal reaches only topiarist,
# which ends the process after its clients. Its own session would be more than that: Linux gives each session an equal
# share of the processors, and ten servers would leave their clients a tenth.


class SupervisedProcess:
    """A program that can be started and ended any number of times.

    Its log file is appended to. ``name`` is its name in error messages.
    """

    def __init__(self, folder: Path, command: Sequence[str], name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._command = [*command]
        self._name = name
        self._popen: subprocess.Popen[bytes] | None = None
        self._log_offset = 0

    @property
    def pid(self) -> int:
        """The id of the process, not of the shell that supervises it."""
        return int((self.folder / "pid").read_text())

    @property
    def alive(self) -> bool:
        """True if the process exists, also if it is stopped by a signal."""
        return self._popen is not None and self._popen.poll() is None

    def read_log(self) -> str:
        """Return the output since the last start."""
        with (self.folder / "log").open("rb") as log:
            log.seek(self._log_offset)
            return log.read().decode("utf-8", "replace")

    def start(self) -> None:
        """Start the process without waiting; ``wait_ready`` waits until it is ready."""
        assert not self.alive, f"{self._name} is already running"
        (self.folder / "pid").unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._log_offset = log.tell()
            self._popen = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHDOG_SCRIPT, "sh", *self._command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                process_group=0,
            )

    def wait_ready(self, ready: Callable[[], object], timeout: float) -> bool:
        """Wait until the process is ready; return False if its port is used by another process.

        If the process ends, or is not ready within ``timeout`` seconds, it is killed. Raises ``TopiaristError``
        (Unreachable) with the last lines of its log, except for a port in use.
        """
        assert self._popen, f"{self._name} was not started"
        deadline = time.monotonic() + timeout
        while not ready():
            try:
                code = self._popen.wait(timeout=0.02)
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline:
                    continue
                code = None
            log = self.read_log()
            self.kill()
            if "address already in use" in log.lower():
                return False
            ended = f"was not ready within {timeout:.0f} s" if code is None else f"ended with exit code {code}"
            last = "\n    ".join(log.strip().splitlines()[-MAX_LOG_LINES:])
            raise TopiaristError(Reason.UNREACHABLE, f"{self._name} {ended}; the end of its log:", last)
        return True

    def kill(self) -> None:
        """Kill the process at once, also if it is stopped by a signal.

        Does nothing if the process has ended.
        """
        running, self._popen = self._popen, None
        if running is None:
            return
        try:
            running.communicate(b"\n")
        except BrokenPipeError:
            running.wait()


def free_port() -> int:
    """Return an unused port of the loopback address; another process may bind it first."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
