"""The ZooKeeper of a Kafka release: 3.5.7 with 2.4.1, 3.5.9 with 2.8.2, 3.8.4 with 3.9.2."""

from __future__ import annotations

from support.kafka.jars import fetch_jars
from support.kafka.processes import java_command
from support.zookeeper.server import RestartableZooKeeper
from topiarist.adapters.devcluster.zookeeper_server import CONFIG_FILE_NAME, MAIN_CLASS


class ZooKeeper(RestartableZooKeeper):
    """One server; its ``directory`` also holds the files of its brokers and is removed with the server."""

    def __init__(self, release: str) -> None:
        super().__init__(settings={"maxSessionTimeout": "60000", "4lw.commands.whitelist": "*"})
        self._release = release

    def _build_command(self) -> list[str]:
        return java_command(fetch_jars(self._release), self.directory, [MAIN_CLASS, CONFIG_FILE_NAME])
