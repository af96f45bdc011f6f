"""The two clusters of the contract suite, each with the hand of somebody else who changes it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from typing import Protocol

from kazoo.client import KazooClient

from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic, config_bytes
from topiarist.adapters.memory import MemoryCluster
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.state import ClusterState, TopicState
from topiarist.ports import PartitionInspector, ProgressSource


class ClusterPorts(PartitionInspector, ProgressSource, Protocol):
    """All that a cluster can be asked."""


BROKERS = tuple(Broker(number, rack) for number, rack in enumerate("abcabc", start=1))


BROKER_DEFAULTS_PATH = "/config/brokers/<default>"


class ClusterFixture(Protocol):
    """A cluster, and the hand of somebody else in it."""

    def open(self) -> ClusterPorts:
        """The cluster through its port, as one run sees it."""

    def create_topic(self, name: str, replicas: tuple[Replicas, ...], config: dict[str, str]) -> None:
        """Create a topic as others do."""

    def configure_topic(self, name: str, config: dict[str, str]) -> None:
        """Set a topic's overrides as others do."""

    def set_broker_defaults(self, settings: dict[str, str]) -> None:
        """Set the brokers' dynamic defaults as others do."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic as others do, and wait until it has gone."""

    def request_reassignment(self, name: str) -> None:
        """Ask for a reassignment of a topic, which the controller does not begin with."""

    def remove_broker(self, broker: int) -> None:
        """Take a broker away."""

    def wait_until_idle(self) -> None:
        """Wait until the controller has reacted to everything."""


class MemoryClusterFixture:
    """``MemoryCluster``: everybody sees the one state."""

    def __init__(self) -> None:
        self._cluster = MemoryCluster(ClusterState("id", BROKERS, controller=1, controller_epoch=1))

    def open(self) -> ClusterPorts:
        """The one cluster."""
        return self._cluster

    def create_topic(self, name: str, replicas: tuple[Replicas, ...], config: dict[str, str]) -> None:
        """Put a topic with a new identity into the state."""
        state = self._cluster.state
        topic = TopicState(name, state.next_identity, replicas, config)
        # A record that stays behind when its topic goes belongs to an earlier topic of that name.
        if record := state.dangling_records.get(name):
            topic = replace(topic, record=record)
        records = {other: kept for other, kept in state.dangling_records.items() if other != name}
        topics = {**state.topics, name: topic}
        self._cluster.state = replace(
            state, topics=topics, dangling_records=records, next_identity=state.next_identity + 1
        )

    def configure_topic(self, name: str, config: dict[str, str]) -> None:
        """Replace the topic by one with other overrides."""
        state = self._cluster.state
        topic = replace(state.topics[name], config=config, modified_externally=state.topics[name].record_valid)
        self._cluster.state = replace(state, topics={**state.topics, name: topic})

    def set_broker_defaults(self, settings: dict[str, str]) -> None:
        """Replace them."""
        self._cluster.state = replace(self._cluster.state, broker_defaults=settings)

    def delete_topic(self, name: str) -> None:
        """Take the topic out; its record stays."""
        state = self._cluster.state
        topics = dict(state.topics)
        gone = topics.pop(name)
        records = {**state.dangling_records, name: gone.record} if gone.record else state.dangling_records
        self._cluster.state = replace(state, topics=topics, dangling_records=records)

    def request_reassignment(self, name: str) -> None:
        """Put it among the topics that a request names."""
        self._cluster.state = replace(self._cluster.state, reassigning_topics=frozenset({name}))

    def remove_broker(self, broker: int) -> None:
        """Take it out of the list."""
        state = self._cluster.state
        self._cluster.state = replace(state, brokers=tuple(b for b in state.brokers if b.id != broker))

    def wait_until_idle(self) -> None:
        """There is no controller to wait for."""


class ZooKeeperClusterFixture:
    """A real ZooKeeper with a played Kafka; each ``open`` is a session of its own."""

    def __init__(self, playground: SimulatedKafka, client: KazooClient, stack: ExitStack) -> None:
        self._playground = playground
        self._client = client
        self._stack = stack

    def open(self) -> ClusterPorts:
        """A new session."""
        return self._stack.enter_context(ZooKeeperCluster(self._playground.connect, owner="default", lock_timeout=5))

    def create_topic(self, name: str, replicas: tuple[Replicas, ...], config: dict[str, str]) -> None:
        """Create it as Kafka's tools do; the controller takes it over."""
        self._playground.add_topics(Topic(name, replicas, config))

    def configure_topic(self, name: str, config: dict[str, str]) -> None:
        """Set the node and notify, as Kafka's tools do."""
        self._client.set(f"/config/topics/{name}", config_bytes(config))

    def set_broker_defaults(self, settings: dict[str, str]) -> None:
        """Set the node of the brokers' defaults, which is made when it is first needed."""
        self._client.ensure_path(BROKER_DEFAULTS_PATH)
        self._client.set(BROKER_DEFAULTS_PATH, config_bytes(settings))

    def delete_topic(self, name: str) -> None:
        """Mark it and wait for the controller."""
        self._client.create(f"/admin/delete_topics/{name}", b"")
        self._playground.wait_idle()

    def request_reassignment(self, name: str) -> None:
        """Create the request, as Kafka's tools up to 2.x do; the played controller does not look at it."""
        entry = {"topic": name, "partition": 0, "replicas": [4, 5, 6]}
        data = json.dumps({"version": 1, "partitions": [entry]}).encode()
        self._client.create("/admin/reassign_partitions", data)

    def remove_broker(self, broker: int) -> None:
        """End its registration."""
        self._playground.remove_broker(broker)

    def wait_until_idle(self) -> None:
        """Wait for the played controller."""
        self._playground.wait_idle()
