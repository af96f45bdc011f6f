"""Shared parts of the tests with broken brokers: mixed work for a run, and the checks once all brokers are up."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.cli.runs import RunResult, run_topiarist
from support.kafka.cluster import Cluster
from support.kafka.kafka_fixture import KafkaFixture
from support.zookeeper import write_checker
from support.zookeeper.proxy import Proxy
from topiarist.errors import Exit

RACKS: dict[int, str | None] = {1: "a", 2: "b", 3: "a", 4: "b"}

Topics = Mapping[str, Mapping[str, Any]]

BROKER_PATHS = ("/isr_change_notification", "/log_dir_event_notification", "/latest_producer_id_block")
"""Paths of the brokers' notifications to each other, which they write at any time."""


@dataclass(frozen=True)
class BrokerFaultFixture:
    """The Kafka cluster, and the proxy between topiarist and its ZooKeeper."""

    kafka_fixture: KafkaFixture
    proxy: Proxy

    @property
    def kafka(self) -> Cluster:
        """Return the Kafka cluster."""
        return self.kafka_fixture.kafka

    def declare(self, topics: Topics) -> None:
        """Replace the manifests; runs connect through the proxy."""
        self.kafka_fixture.declare(topics, zookeeper={"connect": self.proxy.through(self.kafka.connect)})

    def apply(self, *words: str) -> RunResult:
        """Run ``apply`` and return its result with the output on one line; any exit code is accepted."""
        manifests = self.kafka_fixture.folder / "manifests"
        return self._run_apply(manifests, "--adopt=*", *words)

    def apply_plan(self, *words: str) -> RunResult:
        """Apply the saved plan and return the result with the output on one line."""
        folder = self.kafka_fixture.folder
        return self._run_apply("--plan", folder / "plan.json", "--clusters", folder / "manifests" / "all.yaml", *words)

    def _run_apply(self, *words: str | Path) -> RunResult:
        said = run_topiarist("apply", "--yes", "--allow-risk", "DataLoss", *words)
        return said._replace(out=" ".join(said.out.split()))

    def tree(self) -> write_checker.Tree:
        """Return all znodes of the cluster, as an independent client reads them, without the brokers' notifications."""
        tree = write_checker.read_nodes(self.kafka.connect)
        return {path: node for path, node in tree.items() if not path.startswith(BROKER_PATHS)}

    def partition_counts(self, topics: Topics) -> dict[str, int]:
        """Return the partition counts of these topics, without topics that do not exist."""
        found = write_checker.decode_topics(self.tree())
        return {name: len(found[name]["partitions"]) for name in topics if name in found}

    def finish_and_verify(self, before: write_checker.Tree, topics: Topics) -> None:
        """Apply the rest with all brokers up, and assert that the cluster is healthy and a second run does nothing."""
        said = self.apply("--wait")
        assert said.code == Exit.DONE, said
        self.proxy.reset()
        again = self.apply()
        assert (again.code, self.proxy.writes) == (Exit.DONE, 0), again
        assert again.out.endswith("Applied: nothing to do."), again
        after = self.tree()
        assert write_checker.find_problems(before, after, topics) == []
        assert self.partition_counts(topics) == {name: spec["partitions"] for name, spec in topics.items()}
        assert all(self.kafka.brokers[broker].alive for broker in RACKS)
        self.kafka.wait(lambda: self.kafka_fixture.clients.racks().keys() >= RACKS.keys(), "all brokers to be back")
        self.kafka_fixture.describe_in_sync(write_checker.decode_topics(after))


def result_counts(result: RunResult) -> dict[str, int]:
    """Return ``Applied: 3 done, 1 refused.`` as numbers."""
    (line,) = re.findall(r"Applied: ([^.]*)\.", result.out)
    return {what: int(number) for number, what in re.findall(r"(\d+) ([a-z ]+)", line)}


def create_mixed_topics(
    scene: BrokerFaultFixture, prefix: str, *, new: int, existing: int, size: tuple[int, int] = (3, 3)
) -> Topics:
    """Create topics and write to them; then declare growth for half of them, a config for all, and new topics.

    The new topics have ``size`` partitions and replicas.
    """
    lists = {f"{prefix}-{number:03}": ((1, 2, 3), (2, 3, 4)) for number in range(existing)}
    assert scene.kafka_fixture.clients.create(lists) == {}
    scene.kafka_fixture.describe_in_sync(lists)
    scene.kafka_fixture.write_messages(lists, "before")
    sizes = {name: (3 if number % 2 else 2, 3) for number, name in enumerate(lists)}
    sizes |= {f"{prefix}-new-{number:03}": size for number in range(new)}
    config = {"retention.ms": 1_000_000_000}
    topics = {
        name: {"partitions": partitions, "replicationFactor": replicas, "config": config}
        for name, (partitions, replicas) in sizes.items()
    }
    scene.declare(topics)
    return topics


def check_messages(scene: BrokerFaultFixture, topics: Topics) -> None:
    """Assert that old messages are kept, all partitions accept messages, and Kafka shows the declared config."""
    old = [name for name in topics if "-new-" not in name]
    scene.kafka_fixture.write_messages({name: range(spec["partitions"]) for name, spec in topics.items()}, "after")
    found = scene.kafka_fixture.read_messages({name: [0, 1] for name in old})
    assert found == {name: [["before", "after"]] * 2 for name in old}
    shown = scene.kafka_fixture.clients.overrides(topics)
    assert shown == {name: {"retention.ms": "1000000000"} for name in topics}


def run_after_transactions(scene: BrokerFaultFixture, transactions: int, action: Callable[[], None]) -> None:
    """Run ``action`` after this number of transactions of a run has been forwarded to ZooKeeper."""
    root = 4 * (scene.kafka.client.exists("/topiarist") is None)
    scene.proxy.hold(root + 1 + transactions, action)
