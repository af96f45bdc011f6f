"""A ZooKeeper as a release of Kafka brings it: 3.5.7 with 2.4.1, 3.5.9 with 2.8.2, 3.8.4 with 3.9.2."""

from __future__ import annotations

import shutil
import socket
import tempfile
from pathlib import Path
from typing import Self

from support.kafka.jars import jars
from support.kafka.processes import Process, free_port, java, write_properties

_SETTINGS = {
    "clientPortAddress": "127.0.0.1",
    "tickTime": "1000",
    "minSessionTimeout": "2000",
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "forceSync": "no",
    "4lw.commands.whitelist": "*",
    "autopurge.purgeInterval": "0",
}


class ZooKeeper:
    """One server on a free port of the loopback, with a folder that goes when it ends."""

    def __init__(self, release: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"topiarist-kafka-{release}-"))
        self.port = 0
        main = ["org.apache.zookeeper.server.ZooKeeperServerMain", "zoo.cfg"]
        self.process = Process(self.folder / "zookeeper", java(jars(release), self.folder, main))

    @property
    def connect(self) -> str:
        """The connect string, without a chroot."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start on a free port, and wait until it answers."""
        try:
            while not self._launched(free_port()):
                pass
        except BaseException:
            self.stop()
            raise
        return self

    def restart(self) -> None:
        """End it as ``kill -9`` does, and start it again on the same port with the same data."""
        self.process.kill()
        assert self._launched(self.port), f"port {self.port} was taken while ZooKeeper was restarted"

    def stop(self) -> None:
        """End it and remove its data, and that of the brokers below it."""
        self.process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launched(self, port: int) -> bool:
        self.port = port
        settings = {"dataDir": self.process.folder / "data", "clientPort": port, **_SETTINGS}
        write_properties(self.process.folder / "zoo.cfg", settings)
        self.process.start()
        return self.process.wait_until(self._answers)

    def _answers(self) -> bool:
        """Whether it serves, and is ours: another one on this port has another data folder."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"conf")
                with connection.makefile("rb") as reply:
                    return str(self.folder).encode() in reply.read()
        except OSError:
            return False
