"""The Java programs of this project, compiled once, that answer one request after another on standard output.

``clients`` calls them; a process of Kafka's own tools takes seconds for each answer.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from support.kafka.jars import HERE, NEWEST, JarsError, cache_folder, fetch_jars
from support.kafka.processes import archive_options, java_command
from topiarist.adapters.devcluster.zookeeper_server import find_java

_SOURCES = HERE / "java"


class KafkaError(Exception):
    """A request that failed as a whole, with the message of the Java exception."""


class Program:
    """A Java program of this project that answers requests until the ``with`` block ends."""

    def __init__(self, main: str, release: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="topiarist-kafka-clients-")
        jars = fetch_jars(release)
        words = [*archive_options(jars), main]
        command = java_command(jars, Path(self._folder.name), words, quiet=True, classes=[compile_programs()])
        self._log = Path(self._folder.name, "log").open("w+")  # noqa: SIM115 - open as long as the process runs
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, process_group=0
        )

    @property
    def pid(self) -> int:
        """The id of the Java process."""
        return self._process.pid

    @property
    def folder(self) -> Path:
        """The folder of its log, removed when the program ends."""
        return Path(self._folder.name)

    def ask(self, **request: Any) -> Any:
        """Return the answer to a request. Raises ``KafkaError``."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise KafkaError(f"the Java program ended: {self._log.read()[-3000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise KafkaError(answer["error"])
        return answer["result"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The program ends at once when its input closes, also at the end of the test process.
        with self._process:
            pass
        self._log.close()
        self._folder.cleanup()


def compile_programs() -> Path:
    """Return the folder with the Java programs, compiled once for each version of their sources.

    Raises ``JarsError``.
    """
    sources = sorted(_SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    folder = cache_folder() / f"classes-{digest}"
    if folder.is_dir():
        return folder
    with tempfile.TemporaryDirectory(prefix="compiling-", dir=cache_folder()) as temporary:
        target = Path(temporary, "classes")
        _run_javac(["--release", "17", "-cp", str(fetch_jars(NEWEST) / "*"), "-d", str(target), *map(str, sources)])
        try:
            target.rename(folder)
        except OSError:  # another process was faster
            assert folder.is_dir()
    return folder


def _run_javac(words: Sequence[str]) -> None:
    javac = Path(find_java()).resolve().with_name("javac")
    try:
        subprocess.run([javac, *words], capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise JarsError(
            f"a JDK is needed, not only a JRE: there is no {javac} (Debian and Ubuntu: "
            "apt install openjdk-17-jdk-headless; macOS: brew install openjdk@17), or set JAVA_HOME to one"
        ) from None
    except subprocess.CalledProcessError as error:
        raise JarsError(f"the Java programs of the tests do not compile:\n{error.stderr}") from None
