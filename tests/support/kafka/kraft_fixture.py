"""The fixture of tests with real brokers in KRaft mode: a cluster and Kafka's own clients."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from support.kafka.clients import Clients, Topic
from support.kafka.kraft import KraftCluster


@dataclass(frozen=True)
class KraftFixture:
    """One cluster with its clients; ``folder`` is for the files of a test."""

    kafka: KraftCluster
    clients: Clients
    folder: Path

    def registered(self) -> set[int]:
        """Return the brokers that are registered and not fenced."""
        return set(self.clients.racks())

    def wait_for_topic(self, name: str, condition: Callable[[Topic], bool] = lambda topic: True) -> Topic:
        """Return a topic as Kafka's own client shows it, once it fulfils a condition: any broker may be late."""
        found: list[Topic] = []

        def look() -> bool:
            topic = self.clients.describe([name])[name]
            found[:] = [topic] if topic else []
            return topic is not None and condition(topic)

        self.kafka.wait(look, f"topic {name}")
        return found[0]


KraftFixtureFactory = Callable[..., AbstractContextManager[KraftFixture]]
"""What makes a cluster for one test: a release, racks by broker, and the fields of ``KraftOptions``."""
