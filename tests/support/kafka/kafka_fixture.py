"""The fixture of tests with real brokers: a cluster, Kafka's clients, and topiarist as a user runs it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.cli.runs import RunResult, document, run_topiarist
from support.kafka.clients import Clients, Topic
from support.kafka.cluster import Cluster
from topiarist.errors import Exit


@dataclass(frozen=True)
class KafkaFixture:
    """One cluster with its clients; ``folder`` holds the manifests and the plan of a test."""

    kafka: Cluster
    clients: Clients
    folder: Path

    def declare(self, topics: Mapping[str, Mapping[str, Any]], **cluster: Any) -> None:
        """Replace the manifests: topics by name with their specs, and the cluster with further fields."""
        spec = {"zookeeper": {"connect": self.kafka.connect}, "kafkaVersion": self.kafka.version, **cluster}
        documents = [document("Cluster", "kafka", **spec)]
        documents += [
            document("Topic", f"topic-{number}", topicName=name, **fields)
            for number, (name, fields) in enumerate(topics.items())
        ]
        (self.folder / "manifests").mkdir(exist_ok=True)
        (self.folder / "manifests" / "all.yaml").write_text("\n---\n".join(documents))

    def run(self, command: str, *words: str) -> RunResult:
        """Run topiarist on the manifests."""
        return run_topiarist(command, self.folder / "manifests", *words)

    def plan(self, *words: str) -> dict[str, list[dict[str, Any]]]:
        """Save a plan without refusals, and return each topic's changes in the form of the plan output."""
        said = self.run("plan", "--out", str(self.folder / "plan.json"), *words)
        assert said.code == Exit.DONE, said
        (cluster,) = json.loads((self.folder / "plan.json").read_text())["clusters"]
        refused = {topic["topic"]: topic["refusals"] for topic in cluster["topics"] if topic["refusals"]}
        assert refused == {}
        return {topic["topic"]: topic["changes"] for topic in cluster["topics"] if topic["changes"]}

    def apply_plan(self, *words: str) -> None:
        """Apply the saved plan; all of its changes must succeed."""
        clusters = str(self.folder / "manifests" / "all.yaml")
        consent = ("--yes", "--allow-risk", "DataLoss")
        said = run_topiarist("apply", "--plan", self.folder / "plan.json", "--clusters", clusters, *consent, *words)
        assert said.code == Exit.DONE, said

    def apply(self, *words: str) -> RunResult:
        """Plan and apply in one run; all changes must succeed."""
        said = self.run("apply", "--yes", *words)
        assert said.code == Exit.DONE, said
        return said

    def describe_in_sync(self, names: Collection[str]) -> dict[str, Topic]:
        """Return topics as the brokers describe them, once all of their replicas are in sync.

        The queried broker may not yet have the metadata of partitions that another broker returned: it must return all
        partitions of ZooKeeper.
        """
        found: dict[str, Topic] = {}

        def healthy() -> bool:
            topics = self.clients.describe(names)
            found.update((name, topic) for name, topic in topics.items() if topic is not None)
            return all(
                topic is not None and topic.is_in_sync and len(topic.partitions) >= self.kafka.partition_count(name)
                for name, topic in topics.items()
            )

        try:
            self.kafka.wait(healthy, f"all replicas of {len(names)} topics to be in sync")
        except AssertionError as error:
            ill = {name: found.get(name) for name in names if name not in found or not found[name].is_in_sync}
            raise AssertionError(f"{error}; {len(ill)} are not, among them {list(ill.items())[:3]}") from None
        return found

    def describe_grown(self, totals: Mapping[str, int]) -> dict[str, Topic]:
        """Return topics as the brokers describe them, once they have this many partitions."""
        found: dict[str, Topic] = {}

        def complete() -> bool:
            topics = self.clients.describe(totals)
            found.update((name, topic) for name, topic in topics.items() if topic is not None)
            return all(name in found and len(found[name].partitions) == total for name, total in totals.items())

        self.kafka.wait(complete, f"{len(totals)} topics to have all of their partitions")
        return found

    def write_messages(self, topics: Mapping[str, Sequence[Any]], value: str) -> None:
        """Write a message to every partition of topics (by their replica lists); all must be acknowledged."""
        offsets = self.clients.produce({name: len(lists) for name, lists in topics.items()}, value)
        wrong = {name: [one for one in found if isinstance(one, str)] for name, found in offsets.items()}
        assert not any(wrong.values()), {name: found for name, found in wrong.items() if found}

    def read_messages(self, topics: Mapping[str, Sequence[Any]]) -> dict[str, list[list[str]]]:
        """Return all messages of every partition of topics (by their replica lists)."""
        return self.clients.consume({name: len(lists) for name, lists in topics.items()})


KafkaFixtureFactory = Callable[..., AbstractContextManager[KafkaFixture]]
"""What makes a cluster for one test: a release, racks by broker, and what else ``Cluster`` takes."""
