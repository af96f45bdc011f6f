"""A process of ours that ends when we do, however we go, in a folder of its own that holds its log and its process id.

Below the embedded ZooKeeper, and below the servers that the tests start. It knows of no server: when one is ready is
for its caller to say.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from topiarist.errors import Reason, TopiaristError

MAX_LOG_LINES = 20
"""So many of what it logged are part of an error."""

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
# Runs its arguments, and kills that process when its standard input says so or closes, as it does when we are gone. It
# has a session of its own: Ctrl-C in a terminal reaches us, and we end the process after its clients.


class SupervisedProcess:
    """One program, started and ended any number of times; its log goes on. ``name`` is what errors call it."""

    def __init__(self, folder: Path, command: Sequence[str], name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._command = [*command]
        self._name = name
        self._popen: subprocess.Popen[bytes] | None = None
        self._log_offset = 0

    @property
    def pid(self) -> int:
        """The id of the process, not of the shell that guards it."""
        return int((self.folder / "pid").read_text())

    @property
    def alive(self) -> bool:
        """Whether it runs, or stands still."""
        return self._popen is not None and self._popen.poll() is None

    def read_log(self) -> str:
        """What it has printed since it was last started."""
        with (self.folder / "log").open("rb") as log:
            log.seek(self._log_offset)
            return log.read().decode("utf-8", "replace")

    def start(self) -> None:
        """Begin to start it; ``wait_until`` tells when it is ready."""
        assert not self.alive, f"{self._name} runs already"
        (self.folder / "pid").unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._log_offset = log.tell()
            self._popen = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHDOG_SCRIPT, "sh", *self._command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
            )

    def wait_ready(self, ready: Callable[[], object], patience: float) -> bool:
        """Wait until it is ready; False if its port was taken by somebody else. It is ended if it does not get there.

        Raises ``TopiaristError`` (Unreachable) with its last words if it ends, or is not ready within ``patience``
        seconds.
        """
        assert self._popen, f"{self._name} was not started"
        deadline = time.monotonic() + patience
        while not ready():
            try:
                code = self._popen.wait(timeout=0.02)
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline:
                    continue
                code = None
            said = self.read_log()
            self.kill()
            if "address already in use" in said.lower():
                return False
            ended = f"was not ready within {patience:.0f} s" if code is None else f"ended with exit code {code}"
            last = "\n    ".join(said.strip().splitlines()[-MAX_LOG_LINES:])
            raise TopiaristError(Reason.UNREACHABLE, f"{self._name} {ended}; its last words:", last)
        return True

    def kill(self) -> None:
        """End it at once, without a good-bye, also if it stands still. Nothing happens if it has ended already."""
        running, self._popen = self._popen, None
        if running is None:
            return
        try:
            running.communicate(b"\n")
        except BrokenPipeError:
            running.wait()


def free_port() -> int:
    """A port of the loopback that nobody listens on now; somebody may take it before it is used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
