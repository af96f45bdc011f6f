"""A guarded Java process for a test that ends with the test process in every case.

A test can kill, pause and restart it.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from support.kafka.jars import class_archive
from topiarist.adapters.devcluster.zookeeper_server import FAST_START_JVM_OPTIONS, SupervisedProcess, find_java

PROCESS_TIMEOUT_S = 90.0
"""Seconds that a process may take to be ready: 3 on a quiet machine, 18 on a busy one."""

_LOG_PAUSE_S = 0.1

_LOG4J = """\
log4j.rootLogger={level}, OUT
log4j.appender.OUT=org.apache.log4j.ConsoleAppender
log4j.appender.OUT.target={target}
log4j.appender.OUT.layout=org.apache.log4j.PatternLayout
log4j.appender.OUT.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
_LOG4J2 = """\
<Configuration><Appenders><Console name="OUT" target="{target}"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console>
</Appenders><Loggers><Root level="{level}"><AppenderRef ref="OUT"/></Root></Loggers></Configuration>
"""
# Kafka 4.0 and later.


def java_command(
    jars: Path,
    folder: Path,
    main: Sequence[str],
    *,
    heap: str = "256m",
    quiet: bool = False,
    classes: Sequence[Path] = (),
) -> list[str]:
    """Return the command line of a Java program; ``quiet`` programs log warnings only, to standard error.

    ``jars`` is a folder of jars, ``classes`` are further folders of classes. ``folder`` receives the logging
    configuration. ``main`` may begin with options of the JVM.
    """
    level = "WARN" if quiet else "INFO"
    if any(jars.glob("log4j-core-*.jar")):
        option, name, content = "log4j2.configurationFile", f"log4j2-{level}.xml", _LOG4J2
        target = "SYSTEM_ERR" if quiet else "SYSTEM_OUT"
    else:
        option, name, content = "log4j.configuration", f"log4j-{level}.properties", _LOG4J
        target = "System.err" if quiet else "System.out"
    if not (folder / name).exists():  # write once: a starting process may be reading it
        (folder / name).write_text(content.format(level=level, target=target))
    log4j = f"-D{option}=file:{folder / name}"
    class_path = ":".join(map(str, (jars / "*", *classes)))
    return [find_java(), f"-Xmx{heap}", *FAST_START_JVM_OPTIONS, log4j, "-cp", class_path, *main]


def archive_options(jars: Path) -> list[str]:
    """Return the options of a JVM that uses the class archive of these jars; none if there is no archive."""
    archive = class_archive(jars)
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"] if archive.exists() else []


def write_properties(path: Path, properties: Mapping[str, object]) -> None:
    """Write a Java properties file."""
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


class Process(SupervisedProcess):
    """A guarded process that a test can also stop and pause."""

    def __init__(self, folder: Path, command: Sequence[str]) -> None:
        super().__init__(folder, command, shlex.join(command))

    def add_option(self, option: str) -> None:
        """Start the program with a further option of the JVM from now on."""
        self._command.insert(1, option)

    def wait_ready(self, ready: Callable[[], object], timeout: float = PROCESS_TIMEOUT_S) -> bool:
        """Wait until the process is ready; return False if its port was in use."""
        return super().wait_ready(ready, timeout)

    def wait_for_log(self, words: str) -> bool:
        """Wait until the process has logged these words since its start; return False if its port was in use.

        A cluster reads the logs of all of its processes at once: the pauses leave the processor to them.
        """
        pause = threading.Event()
        return self.wait_ready(lambda: words in self.read_log() or pause.wait(_LOG_PAUSE_S))

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
