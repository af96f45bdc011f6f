"""A real ZooKeeper server from PySpark's jars, for ``topiarist dev``, the demo and the tests.

Nothing is downloaded or installed: it is one Java process on 127.0.0.1 with its own data folder, which is removed when
the server ends. ``simulated_kafka`` adds brokers and a controller.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Self

from topiarist.errors import Reason, TopiaristError, missing_packages_error

# A supervised child process that ends with its parent, in a folder with its log and process id.
#
# ``zookeeper_server`` and the test servers start their programs with it. A caller passes the function that checks
# whether the program is ready.

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


_PORTS = range(20_000, 32_768)
"""Below the ports that systems give to outgoing connections, which could take a port between its choice and its use."""


@cache
def _ports_of_process(_: int) -> Iterator[int]:
    """Return the ports, again and again, from a place of its own for each process."""
    start = random.SystemRandom().choice(_PORTS)
    return cycle((*range(start, _PORTS.stop), *range(_PORTS.start, start)))


def free_port() -> int:
    """Return an unused port of the loopback address that this process was not given lately.

    Another process may bind it first.
    """
    for port in islice(_ports_of_process(os.getpid()), len(_PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise TopiaristError(Reason.UNREACHABLE, f"no port from {_PORTS.start} to {_PORTS.stop - 1} of 127.0.0.1 is free")


MIN_JAVA_VERSION = 17

START_TIMEOUT_S = 90.0
"""Seconds; a start takes 0.4 s on an idle machine."""

_JAR_PATTERNS = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-*.jar",
    "slf4j-api-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    # Netty, for settings that ask for TLS.
    "netty-buffer-[0-9]*.jar",
    "netty-codec-base-*.jar",
    "netty-common-*.jar",
    "netty-handler-[0-9]*.jar",
    "netty-resolver-[0-9]*.jar",
    "netty-transport-[0-9]*.jar",
    "netty-transport-classes-epoll-*.jar",
    "netty-transport-native-unix-common-*.jar",
    "netty-tcnative-classes-*.jar",
)

FAST_START_JVM_OPTIONS = (
    "-Xms32m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
)
"""C1 only and one collector thread: a small JVM starts twice as fast."""

# Without worker threads the thread that selects a connection serves it: of few clients each request costs a third less.
_JVM_OPTIONS = (
    "-Xmx512m",
    *FAST_START_JVM_OPTIONS,
    "-Dlog4j2.level=info",
    "-Dzookeeper.preAllocSize=4096",
    "-Dzookeeper.nio.numWorkerThreads=0",
)

MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"

CONFIG_FILE_NAME = "zoo.cfg"

_DEFAULT_SETTINGS = {
    "clientPortAddress": "127.0.0.1",
    "tickTime": "1000",
    "minSessionTimeout": "2000",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "forceSync": "no",
    "4lw.commands.whitelist": "conf,mntr,ruok,srvr",
}


class EmbeddedZooKeeper:
    """A ZooKeeper server that runs inside ``with EmbeddedZooKeeper() as server``.

    ``settings`` are lines of its ``zoo.cfg``, ``jvm_options`` options of its JVM; both override the defaults. ``port``
    is the port to listen on; without it a free port is used. Raises ``TopiaristError``: PrerequisiteMissing without
    Java 17 or PySpark, Unreachable if the server does not start or the port is in use.
    """

    def __init__(
        self, *, settings: Mapping[str, str] | None = None, jvm_options: Sequence[str] = (), port: int | None = None
    ) -> None:
        self.port = 0
        self._requested_port = port
        self.directory = Path()
        self._settings = {**_DEFAULT_SETTINGS, **(settings or {})}
        self._jvm_options = (*_JVM_OPTIONS, *jvm_options)
        self._process: SupervisedProcess | None = None

    @property
    def connect(self) -> str:
        """The connect string, without a chroot."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the Java process."""
        assert self._process
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True if the Java process exists."""
        return self._process is not None and self._process.alive

    def start(self) -> Self:
        """Start the server and wait until it is ready."""
        self.directory = Path(tempfile.mkdtemp(prefix="topiarist-zookeeper-"))
        atexit.register(self.stop)
        try:
            self._process = SupervisedProcess(self.directory, self._build_command(), "the embedded ZooKeeper")
            # Another process may bind the free port before the server does: then try the next one.
            while not self._launch(self._requested_port or free_port()):
                if self._requested_port:
                    message = f"another process uses port {self._requested_port} of 127.0.0.1"
                    raise TopiaristError(Reason.UNREACHABLE, message, "give another port, or none to use a free port")
        except BaseException:
            self.stop()
            raise
        return self

    def kill(self) -> None:
        """Kill the server at once; its data remains."""
        if self._process:
            self._process.kill()

    def stop(self) -> None:
        """Kill the server and remove its data. May be called more than once."""
        self.kill()
        atexit.unregister(self.stop)
        if self.directory != Path():
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _build_command(self) -> list[str]:
        """Return the command line, to be run in ``directory``."""
        return [
            find_java(),
            *self._jvm_options,
            "-cp",
            os.pathsep.join(map(str, find_jars())),
            MAIN_CLASS,
            CONFIG_FILE_NAME,
        ]

    def _launch(self, port: int) -> bool:
        """Start the process and wait until it is ready; return False if the port is in use."""
        assert self._process
        self.port = port
        lines = {"dataDir": str(self.directory / "data"), "clientPort": str(port), **self._settings}
        (self.directory / CONFIG_FILE_NAME).write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        self._process.start()
        return self._process.wait_ready(self._is_ready, START_TIMEOUT_S)

    def _is_ready(self) -> bool:
        """Return whether this server answers: another server on the port has another data folder."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"conf")
                with connection.makefile("rb") as reply:
                    return str(self.directory).encode() in reply.read()
        except OSError:
            return False


def find_java(purpose: str = "run a ZooKeeper server") -> str:
    """Return the Java executable: from ``JAVA_HOME`` if it is set, else from the path.

    Raises ``TopiaristError`` (PrerequisiteMissing) unless it is version 17 or later.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java") or ""
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        output = ""
    version = re.search(r'version "((\d+)[^"]*)"', output)
    if version and int(version[2]) >= MIN_JAVA_VERSION:
        return java
    found = f"{java} is version {version[1]}" if version else f"{java or 'java'} was not found"
    raise TopiaristError(
        Reason.PREREQUISITE_MISSING,
        f"Java {MIN_JAVA_VERSION} or later is needed to {purpose}, {found}: install one (Debian and Ubuntu: "
        f"apt install openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME",
    )


def find_jars() -> list[Path]:
    """Return the jars of a ZooKeeper server in PySpark's folder; PySpark is not imported.

    Raises ``TopiaristError`` (PrerequisiteMissing) if PySpark or a jar is missing.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise missing_packages_error("drift", "the embedded ZooKeeper, which runs from the jars of PySpark,")
    folder = Path(spec.origin).parent / "jars"
    jars_by_pattern = {pattern: sorted(folder.glob(pattern)) for pattern in _JAR_PATTERNS}
    missing = [pattern for pattern, jars in jars_by_pattern.items() if not jars]
    if missing:
        raise TopiaristError(
            Reason.PREREQUISITE_MISSING,
            f"PySpark has no {', '.join(missing)} in {folder}: install PySpark 4.0 or later",
        )
    return [jars[-1] for jars in jars_by_pattern.values()]
