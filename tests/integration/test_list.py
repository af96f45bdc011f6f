"""``topiarist list`` on a real ZooKeeper: it reads the partition states of all topics and sends no write."""

from __future__ import annotations

import json
from typing import Any

import pytest
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
