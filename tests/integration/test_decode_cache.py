"""A session that reads a cluster again and again: what has not changed is not decoded anew, and what has always is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from conftest import BROKERS
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.adapters.zookeeper.codec import configs
from topiarist.adapters.zookeeper.connection.session import Session, open_session
from topiarist.adapters.zookeeper.read.decode_cache import DecodeCache
from topiarist.adapters.zookeeper.read.state import read_state
from topiarist.model.state import ClusterState

REPLICAS = ((1, 2, 3), (2, 3, 4))
NAMES = ("clicks", "orders", "views")


@pytest.fixture
def cluster(zookeeper: EmbeddedZooKeeper, chroot: str) -> Iterator[SimulatedKafka]:
    """A cluster with three topics."""
    with SimulatedKafka(f"{zookeeper.connect}/{chroot}", BROKERS) as kafka:
        kafka.add_topics(*(Topic(name, REPLICAS, {"flush.ms": "7"}) for name in NAMES))
        kafka.wait_idle()
        with kafka.pause_controller():  # what is written here no controller would survive
            yield kafka


@pytest.fixture
def session(cluster: SimulatedKafka) -> Iterator[Session]:
    """The session that reads."""
    with open_session(cluster.connect, 10.0) as opened:
        yield opened


def read(session: Session, memory: DecodeCache) -> ClusterState:
    """The state, with what is known; the same as without."""
    found = read_state(session, jute_max_buffer=1_048_575, cache=memory).state
    assert found == read_state(session, jute_max_buffer=1_048_575).state
    return found


def test_nothing_is_decoded_twice(session: Session) -> None:
    """The second read gives the very same objects."""
    memory = DecodeCache()
    first = read(session, memory)
    assert memory.decoded_count == len(NAMES)
    second = read(session, memory)
    assert memory.decoded_count == 0
    assert all(second.topics[name] is first.topics[name] for name in NAMES)


def test_a_change_of_any_znode_is_seen(session: Session, client: KazooClient) -> None:
    """Of the topic, its config, or its record, whether it is written, made or gone."""
    memory = DecodeCache()
    read(session, memory)
    client.set("/config/topics/orders", configs.encode_config({"flush.ms": "9"}))
    assert read(session, memory).topics["orders"].config == {"flush.ms": "9"}
    assert memory.decoded_count == 1
    client.delete("/config/topics/orders")
    assert read(session, memory).topics["orders"].config == {}
    assert memory.decoded_count == 1
    client.create("/topiarist/topics/orders", b"not a record", makepath=True)
    assert [*read(session, memory).topic_errors] == ["orders"]
    assert memory.decoded_count == 1
    client.delete("/topiarist/topics/orders")
    assert not read(session, memory).topic_errors
    assert memory.decoded_count == 1
    data, _ = client.get("/brokers/topics/clicks")
    client.set("/brokers/topics/clicks", data)
    read(session, memory)
    assert memory.decoded_count == 1


def test_a_topic_that_is_made_again_is_another(session: Session, client: KazooClient) -> None:
    """Also with the same bytes; and one that has gone is forgotten."""
    memory = DecodeCache()
    before = read(session, memory).topics["orders"]
    data, _ = client.get("/brokers/topics/orders")
    client.delete("/brokers/topics/orders", recursive=True)
    assert "orders" not in read(session, memory).topics
    client.create("/brokers/topics/orders", data)
    after = read(session, memory).topics["orders"]
    assert after.identity != before.identity
    assert memory.decoded_count == 1


def test_requests_are_counted_by_operation_and_result(cluster: SimulatedKafka) -> None:
    """What a cluster that is read again costs its ZooKeeper can be seen."""
    with ZooKeeperCluster(cluster.connect, owner="default").enable_decode_cache() as port:
        port.read()
        before = dict(port.requests)
        assert before["multiRead", "ok"] > 0
        port.read()
        more = {key: number - before.get(key, 0) for key, number in port.requests.items()}
    assert more["sync", "ok"] == 1
    assert {operation for operation, _ in more} <= {"sync", "multiRead"}
    assert {result for _, result in more} == {"ok"}
