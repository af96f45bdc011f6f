"""``topiarist list`` on a real ZooKeeper: it reads the partition states of all topics and sends no write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from integration.protected_cluster import READ_ONLY, ProtectedCluster
from integration.write_fixtures import REPLICAS
from support.zookeeper import write_checker
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.cli.main import run

Capture = pytest.CaptureFixture[str]


def said(capsys: Capture, *words: str) -> dict[str, dict[str, Any]]:
    """Return the topics of the only cluster of a list, by name."""
    assert run(["list", *words, "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["clusters"]
    return {one["topic"]: one for one in found["topics"]}


def test_no_write_is_sent(cluster: SimulatedKafka, proxy: Proxy, capsys: Capture) -> None:
    """A list only reads, whatever its result; ``get`` is the same command."""
    cluster.add_topics(Topic("orders", REPLICAS, {"retention.ms": "5"}), Topic("clicks", REPLICAS, {}))
    cluster.wait_idle()
    before = write_checker.read_nodes(cluster.connect)
    address = proxy.through(cluster.connect)
    found = said(capsys, "--zookeeper", address)
    assert {name: one["states"] for name, one in found.items()} == {
        "clicks": ["Unowned", "Well"],
        "orders": ["Unowned", "Well"],
    }
    assert run(["get", "--zookeeper", address, "--topic", "orders"]) == 0
    assert "1 of 2 topics" in capsys.readouterr().out
    assert proxy.writes == 0
    assert write_checker.read_nodes(cluster.connect) == before


def test_states_of_partitions(cluster: SimulatedKafka, client: KazooClient, capsys: Capture) -> None:
    """The list counts partitions without a leader, with a small ISR, with an invalid state, and without a state."""
    cluster.add_topics(*(Topic(name, REPLICAS, {}) for name in ("no-leader", "small", "odd", "new")))
    cluster.wait_idle()
    fields = {"controller_epoch": 1, "version": 1, "leader_epoch": 4}
    path = "/brokers/topics/{}/partitions/0/state"
    client.set(path.format("no-leader"), json.dumps({**fields, "leader": -1, "isr": []}).encode())
    client.set(path.format("small"), json.dumps({**fields, "leader": REPLICAS[0][0], "isr": [REPLICAS[0][0]]}).encode())
    client.set(path.format("odd"), b"[]")
    client.delete(path.format("new"))
    found = said(capsys, "--zookeeper", cluster.connect)
    states = {name: set(one["states"]) - {"Unowned"} for name, one in found.items()}
    assert states == {
        "no-leader": {"Offline", "UnderReplicated"},
        "small": {"UnderReplicated"},
        "odd": {"Unreadable"},
        "new": {"NotInitialized"},
    }
    assert (found["no-leader"]["offline"], found["small"]["underReplicated"]) == (1, 1)


def test_a_topic_that_is_being_moved(cluster: SimulatedKafka, client: KazooClient, capsys: Capture) -> None:
    """Replicas that a reassignment adds do not count as missing from the ISR, as in Kafka's own count."""
    cluster.add_topics(Topic("orders", ((1, 2),), {}))
    cluster.wait_idle()
    node = json.loads(client.get("/brokers/topics/orders")[0])
    node |= {"partitions": {"0": [3, 1, 2]}, "adding_replicas": {"0": [3]}}
    client.set("/brokers/topics/orders", json.dumps(node).encode())
    cluster.wait_idle()
    found = said(capsys, "--zookeeper", cluster.connect)["orders"]
    assert set(found["states"]) == {"Unowned", "Reassigning", "NotPreferredLeader"}
    assert found["replicaCounts"] == {"2": 1}


def test_read_only_credentials_are_enough(protected: ProtectedCluster, capsys: Capture) -> None:
    """List shows every world-readable znode without credentials; unreadable states do not count as healthy."""
    protected.playground.add_topics(Topic("orders", REPLICAS, {}), Topic("secret", REPLICAS, {}))
    protected.playground.wait_idle()
    protected.protect(READ_ONLY, make_acl("digest", "kafka:x", all=True))
    protected.protect(make_acl("digest", "kafka:x", all=True), below="/brokers/topics/secret/partitions")
    found = said(capsys, "--zookeeper", protected.playground.connect)
    assert {name: (one["statesKnown"], one["states"]) for name, one in found.items()} == {
        "orders": (True, ["Unowned", "Well"]),
        "secret": (False, ["Unknown", "Unowned"]),
    }
