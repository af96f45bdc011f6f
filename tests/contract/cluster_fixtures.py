"""The clusters of the contract suite, each with methods for external changes.

Two are here; the third, real brokers in KRaft mode, is in ``tests/brokers``.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Protocol

from kazoo.client import KazooClient
from msgspec.structs import replace

from support.memory_cluster import MemoryCluster
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic, config_bytes
from topiarist.adapters.own_values import encode_batch
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.access import ZooKeeperAccess
from topiarist.model.moves import BatchRecord, ClearedMoves
from topiarist.model.state import ClusterState, TopicState
from topiarist.ports import Cluster, PartitionInspector, ProgressSource


class ClusterPorts(Cluster, PartitionInspector, ProgressSource, Protocol):
    """A cluster with all its ports."""

    def clear_moves(self) -> ClearedMoves | None:
        """Put back the throttles of the last batch, and delete its record."""


BROKERS = tuple(Broker(number, rack) for number, rack in enumerate("abcabc", start=1))


BROKER_DEFAULTS_PATH = "/config/brokers/<default>"


class ClusterFixture(Protocol):
    """A cluster that another client can change."""

    def open(self) -> ClusterPorts:
        """Return the ports of the cluster for one run."""

    def create_topic(self, name: str, replicas: tuple[Replicas, ...], config: dict[str, str]) -> None:
        """Create a topic as another client."""

    def configure_topic(self, name: str, config: dict[str, str]) -> None:
        """Set the overrides of a topic as another client."""

    def set_broker_defaults(self, settings: dict[str, str]) -> None:
        """Set the dynamic defaults of the brokers as another client."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic as another client, and wait until the topic is deleted."""

    def request_reassignment(self, name: str) -> None:
        """Request a reassignment of a topic that the controller does not begin."""

    def leave_batch(self, record: BatchRecord) -> None:
        """Leave the record of a batch and its throttles, as a run of topiarist that was killed."""

    def enable_moves(self) -> None:
        """Let the controller carry out reassignments."""

    def remove_broker(self, broker: int) -> None:
        """Remove the registration of a broker."""

    def wait_until_idle(self) -> None:
        """Wait until the controller has processed every change."""


def topics_of(state: ClusterState) -> dict[str, TopicState]:
    """Return the topics of a test: all but those that Kafka and topiarist have for themselves."""
    return {name: topic for name, topic in state.topics.items() if not name.startswith("__")}


def own_values(record: BatchRecord, entity: str) -> dict[str, str]:
    """Return the values that topiarist has set for one entity."""
    return {key: value.ours for key, value in record.throttles.get(entity, {}).items()}


class MemoryClusterFixture:
    """A fixture of ``MemoryCluster``, with one state for all sessions."""

    def __init__(self) -> None:
        self._cluster = MemoryCluster(ClusterState("id", BROKERS, controller=1, controller_epoch=1))

    def open(self) -> ClusterPorts:
        """Return the only cluster."""
        return self._cluster

    def create_topic(self, name: str, replicas: tuple[Replicas, ...], config: dict[str, str]) -> None:
        """Add a topic with a new identity to the state."""
        state = self._cluster.state
        topic = TopicState(name, str(state.next_identity), replicas, config)
        # A record that outlived its topic belongs to an earlier topic of that name.
        if record := state.dangling_records.get(name):
            topic = replace(topic, record=record)
        records = {other: kept for other, kept in state.dangling_records.items() if other != name}
        topics = {**state.topics, name: topic}
        self._cluster.state = replace(
            state, topics=topics, dangling_records=records, next_identity=state.next_identity + 1
        )

    def configure_topic(self, name: str, config: dict[str, str]) -> None:
        """Replace the topic by a copy with other overrides."""
        state = self._cluster.state
        topic = replace(state.topics[name], config=config, modified_externally=state.topics[name].record_valid)
        self._cluster.state = replace(state, topics={**state.topics, name: topic})

    def set_broker_defaults(self, settings: dict[str, str]) -> None:
        """Replace the dynamic defaults of the brokers."""
        self._cluster.state = replace(self._cluster.state, broker_defaults=settings)

    def delete_topic(self, name: str) -> None:
        """Remove the topic; its ownership record is kept."""
        state = self._cluster.state
        topics = dict(state.topics)
        gone = topics.pop(name)
        records = {**state.dangling_records, name: gone.record} if gone.record else state.dangling_records
        self._cluster.state = replace(state, topics=topics, dangling_records=records)

    def request_reassignment(self, name: str) -> None:
        """Add the topic to the topics of the reassignment request."""
        self._cluster.state = replace(self._cluster.state, reassigning_topics=frozenset({name}))

    def leave_batch(self, record: BatchRecord) -> None:
        """Add the record to the state, and its values to the overrides of its topics."""
        state = self._cluster.state
        topics = {
            name: replace(topic, config={**topic.config, **own_values(record, f"topics/{name}")})
            for name, topic in state.topics.items()
        }
        self._cluster.state = replace(state, topics=topics, batch=record)

    def enable_moves(self) -> None:
        """Do nothing: moves are made at once."""

    def remove_broker(self, broker: int) -> None:
        """Remove the broker from the state."""
        state = self._cluster.state
        self._cluster.state = replace(state, brokers=tuple(b for b in state.brokers if b.id != broker))

    def wait_until_idle(self) -> None:
        """Return at once, because there is no controller."""


class ZooKeeperClusterFixture:
    """A fixture of a real ZooKeeper with a simulated Kafka; each ``open`` is a new session."""

    def __init__(self, playground: SimulatedKafka, client: KazooClient, stack: ExitStack) -> None:
        self._playground = playground
        self._client = client
        self._stack = stack

    def open(self) -> ClusterPorts:
        """Return the ports of a new session."""
        return self._stack.enter_context(
            ZooKeeperCluster(ZooKeeperAccess(self._playground.connect), owner="default", lock_timeout=5)
        )

    def create_topic(self, name: str, replicas: tuple[Replicas, ...], config: dict[str, str]) -> None:
        """Create the topic as Kafka's tools do; the simulated controller initializes it."""
        self._playground.add_topics(Topic(name, replicas, config))

    def configure_topic(self, name: str, config: dict[str, str]) -> None:
        """Write the znode and the notification, as Kafka's tools do."""
        self._client.set(f"/config/topics/{name}", config_bytes(config))

    def set_broker_defaults(self, settings: dict[str, str]) -> None:
        """Write the znode of the brokers' defaults, and create it if it does not exist."""
        self._client.ensure_path(BROKER_DEFAULTS_PATH)
        self._client.set(BROKER_DEFAULTS_PATH, config_bytes(settings))

    def delete_topic(self, name: str) -> None:
        """Create the deletion request and wait for the controller."""
        self._client.create(f"/admin/delete_topics/{name}", b"")
        self._playground.wait_idle()

    def request_reassignment(self, name: str) -> None:
        """Create the request as Kafka's tools up to 2.x do; the simulated controller ignores it."""
        entry = {"topic": name, "partition": 0, "replicas": [4, 5, 6]}
        data = json.dumps({"version": 1, "partitions": [entry]}).encode()
        self._client.create("/admin/reassign_partitions", data)

    def leave_batch(self, record: BatchRecord) -> None:
        """Write the znodes of the record and of its throttles."""
        self._client.ensure_path("/topiarist")
        self._client.create("/topiarist/moves", encode_batch(record))
        for entity in record.throttles:
            self._client.ensure_path(f"/config/{entity}")
            self._client.set(f"/config/{entity}", config_bytes(own_values(record, entity)))

    def enable_moves(self) -> None:
        """Let the simulated controller react to reassignment requests."""
        self._playground.moves_replicas = True
        self._playground.wait_idle()

    def remove_broker(self, broker: int) -> None:
        """Delete the broker's registration."""
        self._playground.remove_broker(broker)

    def wait_until_idle(self) -> None:
        """Wait for the simulated controller."""
        self._playground.wait_idle()
