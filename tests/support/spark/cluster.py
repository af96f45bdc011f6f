"""A real Spark cluster on this machine: a master and workers as separate processes, from PySpark's own jars.

All processes use the loopback interface and ports from the system. A worker and its executors are one process group, so
that a test can kill all of them at once, like a lost machine.
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

from support.cli.runs import RunResult
from topiarist.adapters.devcluster.zookeeper_server import FAST_START_JVM_OPTIONS, SupervisedProcess

HOME = Path(pyspark.__file__).parent

FAST_START_OPTIONS = " ".join(FAST_START_JVM_OPTIONS)
"""Options of JVMs that live for a few small jobs: most of the time of such a one goes to its compiler."""

_ENVIRONMENT_PREFIXES = ("PYTHON", "SPARK", "PYSPARK")
"""Prefixes of the variables that a process of Spark inherits from its starter only."""

START_TIMEOUT_S = 120.0
"""Seconds in which a process has to begin on a machine that has other work."""

_ADDRESS = r"spark://127\.0\.0\.1:\d+"

_LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex
"""

_LOGGING_OFF = _LOGGING.replace("info", "off")

_DEFAULT_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": FAST_START_OPTIONS,
    "spark.driver.memory": "1g",
    "spark.executor.extraJavaOptions": FAST_START_OPTIONS,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "4",
    "spark.shuffle.io.retryWait": "100ms",
    "spark.ui.enabled": "false",
}


def environment(settings: Path, **more: str) -> dict[str, str]:
    """Return the environment of every process, without topiarist's settings and code."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_ENVIRONMENT_PREFIXES)}
    return {**kept, **_spark_environment(settings), **more}


def _spark_environment(settings: Path) -> dict[str, str]:
    ours = {"SPARK_HOME": str(HOME), "SPARK_CONF_DIR": str(settings), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**ours, "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": FAST_START_OPTIONS}


class Daemon:
    """A master or a worker, with all its child processes.

    Raises ``TopiaristError`` with its output if it does not start.
    """

    def __init__(self, folder: Path, main: str, ready_pattern: str, *words: str) -> None:
        setting = [word for name in os.environ if name.startswith(_ENVIRONMENT_PREFIXES) for word in ("-u", name)]
        setting += [f"{name}={value}" for name, value in _spark_environment(folder.parent / "conf").items()]
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main.lower()}.{main}", *words]
        ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self._process = SupervisedProcess(folder, ["env", *setting, *command, *ports], f"Spark's {main.lower()}")
        self._process.start()
        self._process.wait_ready(lambda: self.find_in_log(ready_pattern), START_TIMEOUT_S)

    @property
    def group(self) -> int:
        """The process group of the daemon and its children."""
        return os.getpgid(self._process.pid)

    def find_in_log(self, pattern: str) -> str:
        """Return the first match in its log; empty without a match."""
        found = re.search(pattern, self._process.read_log())
        return found[0] if found else ""

    def kill(self) -> None:
        """Kill it and its children at once, without a shutdown."""
        with suppress(ProcessLookupError):
            os.killpg(self.group, signal.SIGKILL)
        self._process.kill()


class StandaloneCluster:
    """A cluster as a context manager; its logs and its workers' folders are below ``folder``."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._worker_count, self._started_workers = workers, 0
        self.workers: list[Daemon] = []

    def __enter__(self) -> Self:
        for name, text in (("conf", _LOGGING), ("quiet", _LOGGING_OFF)):
            (self._folder / name).mkdir(parents=True)
            (self._folder / name / "log4j2.properties").write_text(text)
        self.master = Daemon(self._folder / "master", "Master", _ADDRESS)
        self.address = self.master.find_in_log(_ADDRESS)
        try:
            for _ in range(self._worker_count):
                self.add_worker()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in (*self.workers, self.master):
            daemon.kill()

    def add_worker(self) -> Daemon:
        """Add a worker with one core."""
        self._started_workers += 1
        place = self._folder / f"worker-{self._started_workers}"
        words = ("--cores", "1", "--memory", "1g", "--work-dir", str(place / "work"), self.address)
        self.workers.append(Daemon(place, "Worker", "Successfully registered with master", *words))
        return self.workers[-1]

    def submit(
        self, entry: Path, *words: str | Path, files: tuple[Path, ...] = (), conf: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start ``spark-submit`` of a Python file; Spark's own log is off."""
        settings = {**_DEFAULT_CONF, "spark.pyspark.driver.python": sys.executable, **(conf or {})}
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


def wait_for_run(running: subprocess.Popen[str], timeout: float = 300.0) -> RunResult:
    """Return the result of a submitted run; end a run that takes longer than this number of seconds."""
    try:
        out, err = running.communicate(timeout=timeout)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    return RunResult(running.returncode, out, err)
