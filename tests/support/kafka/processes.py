"""A guarded Java process for a test that ends with the test process in every case.

A test can kill, pause and restart it.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from topiarist.adapters.devcluster.child_process import SupervisedProcess
from topiarist.adapters.devcluster.zookeeper_server import FAST_START_JVM_OPTIONS, find_java

PROCESS_TIMEOUT_S = 90.0
"""Seconds that a process may take to be ready: 3 on a quiet machine, 18 on a busy one."""

_LOG4J = """\
log4j.rootLogger={level}, OUT
log4j.appender.OUT=org.apache.log4j.ConsoleAppender
log4j.appender.OUT.target={target}
log4j.appender.OUT.layout=org.apache.log4j.PatternLayout
log4j.appender.OUT.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def java_command(
    jars: Path, folder: Path, main: Sequence[str], *, heap: str = "256m", quiet: bool = False
) -> list[str]:
    """Return the command line of a Java program; ``quiet`` programs log warnings only, to standard error.

    ``jars`` may be several folders, separated by ``:``. ``folder`` receives the logging configuration.
    """
    name = "log4j-quiet.properties" if quiet else "log4j.properties"
    level, target = ("WARN", "System.err") if quiet else ("INFO", "System.out")
    if not (folder / name).exists():  # write once: a starting process may be reading it
        (folder / name).write_text(_LOG4J.format(level=level, target=target))
    log4j = f"-Dlog4j.configuration=file:{folder / name}"
    return [find_java(), f"-Xmx{heap}", *FAST_START_JVM_OPTIONS, log4j, "-cp", str(jars / "*"), *main]


def write_properties(path: Path, properties: Mapping[str, object]) -> None:
    """Write a Java properties file."""
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


class Process(SupervisedProcess):
    """A guarded process that a test can also stop and pause."""

    def __init__(self, folder: Path, command: Sequence[str]) -> None:
        super().__init__(folder, command, shlex.join(command))

    def wait_ready(self, ready: Callable[[], object], timeout: float = PROCESS_TIMEOUT_S) -> bool:
        """Wait until the process is ready; return False if its port was in use."""
        return super().wait_ready(ready, timeout)

    def stop(self) -> None:
        """Stop the process as ``kill`` does and wait for its end; kill it after a timeout."""
        if self._popen is not None and self.alive:
            self.send(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(timeout=PROCESS_TIMEOUT_S)
        self.kill()

    def pause(self) -> None:
        """Suspend the process, with all its connections open."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process."""
        self.send(signal.SIGCONT)

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        os.kill(self.pid, number)
