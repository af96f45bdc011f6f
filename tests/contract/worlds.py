"""The two clusters of the contract suite, each with the hand of somebody else who changes it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from typing import Protocol

from kazoo.client import KazooClient

from topiarist.adapters.memory import MemoryCluster
from topiarist.adapters.playground import Playground, Topic
from topiarist.adapters.playground.seed import config_bytes
from topiarist.adapters.zookeeper import ZooKeeperCluster
from topiarist.core.state import Broker, ClusterState, Replicas, TopicState
from topiarist.reconcile import Inspected, Watched


class Port(Inspected, Watched, Protocol):
    """All that a cluster can be asked."""


BROKERS = tuple(Broker(number, rack) for number, rack in enumerate("abcabc", start=1))


DEFAULTS = "/config/brokers/<default>"


class World(Protocol):
    """A cluster, and the hand of somebody else in it."""

    def open(self) -> Port:
        """The cluster through its port, as one run sees it."""

    def add(self, name: str, replicas: tuple[Replicas, ...], config: dict[str, str]) -> None:
        """Create a topic as others do."""

    def configure(self, name: str, config: dict[str, str]) -> None:
        """Set a topic's overrides as others do."""

    def default(self, settings: dict[str, str]) -> None:
        """Set the brokers' dynamic defaults as others do."""

    def delete(self, name: str) -> None:
        """Delete a topic as others do, and wait until it has gone."""

    def request(self, name: str) -> None:
        """Ask for a reassignment of a topic, which the controller does not begin with."""

    def remove_broker(self, broker: int) -> None:
        """Take a broker away."""

    def settle(self) -> None:
        """Wait until the controller has reacted to everything."""


class MemoryWorld:
    """``MemoryCluster``: everybody sees the one state."""

    def __init__(self) -> None:
        self._cluster = MemoryCluster(ClusterState("id", BROKERS, controller=1, controller_epoch=1))

    def open(self) -> Port:
        """The one cluster."""
        return self._cluster

    def add(self, name: str, replicas: tuple[Replicas, ...], config: dict[str, str]) -> None:
        """Put a topic with a new identity into the state."""
        state = self._cluster.state
        topic = TopicState(name, state.next_identity, replicas, config)
        # A record that stays behind when its topic goes belongs to an earlier topic of that name.
        if record := state.records.get(name):
            topic = replace(topic, record=record)
        records = {other: kept for other, kept in state.records.items() if other != name}
        topics = {**state.topics, name: topic}
        self._cluster.state = replace(state, topics=topics, records=records, next_identity=state.next_identity + 1)

    def configure(self, name: str, config: dict[str, str]) -> None:
        """Replace the topic by one with other overrides."""
        state = self._cluster.state
        topic = replace(state.topics[name], config=config, changed_outside=state.topics[name].record_valid)
        self._cluster.state = replace(state, topics={**state.topics, name: topic})

    def default(self, settings: dict[str, str]) -> None:
        """Replace them."""
        self._cluster.state = replace(self._cluster.state, broker_defaults=settings)

    def delete(self, name: str) -> None:
        """Take the topic out; its record stays."""
        state = self._cluster.state
        topics = dict(state.topics)
        gone = topics.pop(name)
        records = {**state.records, name: gone.record} if gone.record else state.records
        self._cluster.state = replace(state, topics=topics, records=records)

    def request(self, name: str) -> None:
        """Put it among the topics that a request names."""
        self._cluster.state = replace(self._cluster.state, reassigning=frozenset({name}))

    def remove_broker(self, broker: int) -> None:
        """Take it out of the list."""
        state = self._cluster.state
        self._cluster.state = replace(state, brokers=tuple(b for b in state.brokers if b.id != broker))

    def settle(self) -> None:
        """There is no controller to wait for."""


class ZooKeeperWorld:
    """A real ZooKeeper with a played Kafka; each ``open`` is a session of its own."""

    def __init__(self, playground: Playground, client: KazooClient, stack: ExitStack) -> None:
        self._playground = playground
        self._client = client
        self._stack = stack

    def open(self) -> Port:
        """A new session."""
        return self._stack.enter_context(ZooKeeperCluster(self._playground.connect, owner="default", lock_timeout=5))

    def add(self, name: str, replicas: tuple[Replicas, ...], config: dict[str, str]) -> None:
        """Create it as Kafka's tools do; the controller takes it over."""
        self._playground.add_topics(Topic(name, replicas, config))

    def configure(self, name: str, config: dict[str, str]) -> None:
        """Set the node and notify, as Kafka's tools do."""
        self._client.set(f"/config/topics/{name}", config_bytes(config))

    def default(self, settings: dict[str, str]) -> None:
        """Set the node of the brokers' defaults, which is made when it is first needed."""
        self._client.ensure_path(DEFAULTS)
        self._client.set(DEFAULTS, config_bytes(settings))

    def delete(self, name: str) -> None:
        """Mark it and wait for the controller."""
        self._client.create(f"/admin/delete_topics/{name}", b"")
        self._playground.settle()

    def request(self, name: str) -> None:
        """Create the request, as Kafka's tools up to 2.x do; the played controller does not look at it."""
        entry = {"topic": name, "partition": 0, "replicas": [4, 5, 6]}
        data = json.dumps({"version": 1, "partitions": [entry]}).encode()
        self._client.create("/admin/reassign_partitions", data)

    def remove_broker(self, broker: int) -> None:
        """End its registration."""
        self._playground.remove_broker(broker)

    def settle(self) -> None:
        """Wait for the played controller."""
        self._playground.settle()
