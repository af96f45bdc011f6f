"""A ZooKeeper as a release of Kafka brings it: 3.5.7 with 2.4.1, 3.5.9 with 2.8.2, 3.8.4 with 3.9.2."""

from __future__ import annotations

from support.kafka.jars import jars
from support.kafka.processes import java
from topiarist.adapters.embedded import CONFIG, MAIN, EmbeddedZooKeeper


class ZooKeeper(EmbeddedZooKeeper):
    """One server; what its brokers need lies in its ``directory`` too, and goes with it."""

    def __init__(self, release: str) -> None:
        super().__init__(settings={"maxSessionTimeout": "60000", "4lw.commands.whitelist": "*"})
        self._release = release

    def _command(self) -> list[str]:
        return java(jars(self._release), self.directory, [MAIN, CONFIG])
