"""A Java process for a test: guarded, so that it ends with us however we end; killed, paused and restarted at will."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from topiarist.adapters.embedded import GUARD, find_java

PATIENCE = 90.0
"""Seconds that a process may take to be ready: 3 on a quiet machine, 18 on a busy one."""

# C1 only and one collector thread: what makes a small JVM start twice as fast.
_JAVA = (
    "-Xms32m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
)

_LOG4J = """\
log4j.rootLogger={level}, OUT
log4j.appender.OUT=org.apache.log4j.ConsoleAppender
log4j.appender.OUT.target={target}
log4j.appender.OUT.layout=org.apache.log4j.PatternLayout
log4j.appender.OUT.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def java(jars: Path, folder: Path, main: Sequence[str], *, heap: str = "256m", quiet: bool = False) -> list[str]:
    """The command line of a Java program; ``quiet`` ones log warnings only, to standard error.

    ``jars`` may be more than one folder, by ``:``. ``folder`` gets the file that says how to log.
    """
    name = "log4j-quiet.properties" if quiet else "log4j.properties"
    level, target = ("WARN", "System.err") if quiet else ("INFO", "System.out")
    if not (folder / name).exists():  # never again: a process that is just starting may be reading it
        (folder / name).write_text(_LOG4J.format(level=level, target=target))
    log4j = f"-Dlog4j.configuration=file:{folder / name}"
    return [find_java(), f"-Xmx{heap}", *_JAVA, log4j, "-cp", str(jars / "*"), *main]


def free_port() -> int:
    """A port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def write_properties(path: Path, properties: Mapping[str, object]) -> None:
    """Write a Java properties file."""
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


class Process:
    """One process, in a folder of its own that holds its log, over all its starts, and its process id."""

    def __init__(self, folder: Path, command: Sequence[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.command = list(command)
        self._running: subprocess.Popen[bytes] | None = None
        self._start = 0

    @property
    def pid(self) -> int:
        """The id of the Java process."""
        return int((self.folder / "pid").read_text())

    @property
    def alive(self) -> bool:
        """Whether it runs (or is paused)."""
        return self._running is not None and self._running.poll() is None

    def log(self) -> str:
        """What it has logged since it was last started."""
        with (self.folder / "log").open("rb") as log:
            log.seek(self._start)
            return log.read().decode("utf-8", "replace")

    def start(self) -> None:
        """Begin to start it; ``wait_until`` tells when it is ready."""
        assert not self.alive, f"{self.folder.name} runs already"
        (self.folder / "pid").unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._start = log.tell()
            self._running = subprocess.Popen(
                ["/bin/sh", "-c", GUARD, "sh", *self.command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
            )

    def wait_until(self, ready: Callable[[], object], patience: float = PATIENCE) -> bool:
        """Wait until it is ready: False if its port was taken. Raises ``AssertionError`` with its last words."""
        deadline, never = time.monotonic() + patience, threading.Event()
        while not ready():
            alive, said = self.alive, self.log()
            if not alive and "address already in use" in said.lower():
                return False
            wrong = "" if alive else "ended"
            if time.monotonic() > deadline:
                wrong = f"was not ready within {patience:.0f} s"
            if wrong:
                self.kill()
                raise AssertionError(f"{shlex.join(self.command)} {wrong}; its last words:\n{said[-3000:]}")
            never.wait(0.05)
        return True

    def kill(self) -> None:
        """End it at once, as ``kill -9`` does, also if it is paused. Nothing happens if it has ended already."""
        running, self._running = self._running, None
        if running is None:
            return
        try:
            running.communicate(b"\n")
        except BrokenPipeError:
            running.wait()

    def stop(self) -> None:
        """Ask it to end, as ``kill`` does, and wait until it has; what takes too long is killed."""
        if self._running is not None and self.alive:
            self.send(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._running.wait(timeout=PATIENCE)
        self.kill()

    def pause(self) -> None:
        """Let it stand still, with all its connections open."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self.send(signal.SIGCONT)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)
