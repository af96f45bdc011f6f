"""A real Spark cluster on this machine: a master and workers, each a process of its own, from PySpark's own jars.

All on loopback and on ports that the system gives. A worker and the executors that it starts are one process group, so
that it can be lost as a machine is lost: all at once.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import pyspark

from support.runs import Ended
from support.waiting import wait_until

HOME = Path(pyspark.__file__).parent

PATIENCE = 120.0
"""Seconds in which a process has to begin on a machine that has other work."""

_LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex
"""

_QUIET = _LOGGING.replace("info", "off")

_SMALL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "4",
    "spark.shuffle.io.retryWait": "100ms",
    "spark.ui.enabled": "false",
}


def environment(settings: Path, **more: str) -> dict[str, str]:
    """That of every process: nothing of ours is to be found by accident."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK", "PYSPARK"))}
    ours = {"SPARK_HOME": str(HOME), "SPARK_CONF_DIR": str(settings), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**kept, **ours, "SPARK_DAEMON_MEMORY": "256m", **more}


class Daemon:
    """A master or a worker. Raises ``AssertionError`` with what it said if it does not begin."""

    def __init__(self, folder: Path, main: str, begun: str, *words: str) -> None:
        self._log = folder / f"{main.lower()}-{len(list(folder.glob('*.log')))}.log"
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main.lower()}.{main}", *words]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"],
                env=environment(folder / "conf"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_until(lambda: self._process.poll() is not None or self.said(begun), begun, patience=PATIENCE)
            assert self._process.poll() is None, self._log.read_text()
        except BaseException:
            self.kill()
            raise

    @property
    def group(self) -> int:
        """The process group that it and its children are."""
        return self._process.pid

    def said(self, pattern: str) -> str:
        """The first part of what it has said that matches; empty if there is none."""
        found = re.search(pattern, self._log.read_text(errors="replace"))
        return found[0] if found else ""

    def kill(self) -> None:
        """End it and its children at once, without a good-bye."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Standalone:
    """A cluster; use as a context manager. Its logs and its workers' folders are below ``folder``."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._wanted = workers
        self.workers: list[Daemon] = []

    def __enter__(self) -> Self:
        for name, text in (("conf", _LOGGING), ("quiet", _QUIET)):
            (self._folder / name).mkdir(parents=True)
            (self._folder / name / "log4j2.properties").write_text(text)
        self.master = Daemon(self._folder, "Master", r"spark://127\.0\.0\.1:\d+")
        self.address = self.master.said(r"spark://127\.0\.0\.1:\d+")
        for _ in range(self._wanted):
            self.add()
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in (*self.workers, self.master):
            daemon.kill()

    def add(self) -> Daemon:
        """One worker more, of one core."""
        place = self._folder / f"work-{len(self.workers)}"
        words = ("--cores", "1", "--memory", "600m", "--work-dir", str(place), self.address)
        self.workers.append(Daemon(self._folder, "Worker", "Successfully registered with master", *words))
        return self.workers[-1]

    def submit(
        self, entry: Path, *words: str | Path, files: tuple[Path, ...] = (), conf: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Begin ``spark-submit`` of a Python file; Spark's own log is off."""
        settings = {**_SMALL, "spark.pyspark.driver.python": sys.executable, **(conf or {})}
        pairs = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        sent = ["--py-files", ",".join(map(str, files))] if files else []
        return subprocess.Popen(
            [str(HOME / "bin" / "spark-submit"), "--master", self.address, *pairs, *sent, str(entry), *map(str, words)],
            env=environment(self._folder / "quiet"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def finished(running: subprocess.Popen[str], patience: float = 300.0) -> Ended:
    """How a submitted run ended; one that takes longer than so many seconds hangs, and is ended."""
    try:
        out, err = running.communicate(timeout=patience)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    return Ended(running.returncode, out, err)
