"""A session that reads a cluster repeatedly decodes only changed znodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise

import pytest
from kazoo.client import KazooClient

from conftest import BROKERS
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.adapters.zookeeper.codec import topics
from topiarist.adapters.zookeeper.connection.session import Session, open_session
from topiarist.adapters.zookeeper.read.cluster_metadata import DecodeCache
from topiarist.adapters.zookeeper.read.state import read_state
from topiarist.model.access import ZooKeeperAccess
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
    with closing(open_session(cluster.connect, 10.0)) as opened:
        yield opened


def read(session: Session, memory: DecodeCache) -> ClusterState:
    """Read the state with the cache, and check that a read without the cache is equal."""
    found = read_state(session, jute_max_buffer=1_048_575, cache=memory)
    assert found == read_state(session, jute_max_buffer=1_048_575)
    return found


def decoded(before: ClusterState, after: ClusterState) -> list[str]:
    """Return the topics that the second read decoded: their values are different objects."""
    values = [{**state.topics, **state.topic_errors} for state in (before, after)]
    return sorted(name for name, value in values[1].items() if value is not values[0].get(name))


def test_nothing_is_decoded_twice(session: Session) -> None:
    """The second read returns the same objects."""
    memory = DecodeCache()
    first = read(session, memory)
    assert tuple(first.topics) == NAMES
    assert decoded(first, read(session, memory)) == []


def test_a_change_of_any_znode_is_seen(session: Session, client: KazooClient) -> None:
    """A write, creation or deletion of the topic, its config or its record is detected."""
    memory = DecodeCache()
    states = [read(session, memory)]
    client.set("/config/topics/orders", topics.encode_config({"flush.ms": "9"}))
    states.append(read(session, memory))
    assert states[-1].topics["orders"].config == {"flush.ms": "9"}
    client.delete("/config/topics/orders")
    states.append(read(session, memory))
    assert states[-1].topics["orders"].config == {}
    client.create("/topiarist/topics/orders", b"not a record", makepath=True)
    states.append(read(session, memory))
    assert [*states[-1].topic_errors] == ["orders"]
    client.delete("/topiarist/topics/orders")
    states.append(read(session, memory))
    assert not states[-1].topic_errors
    data, _ = client.get("/brokers/topics/orders")
    client.set("/brokers/topics/orders", data)
    states.append(read(session, memory))
    assert [decoded(*pair) for pair in pairwise(states)] == [["orders"]] * 5


def test_a_topic_that_is_made_again_is_another(session: Session, client: KazooClient) -> None:
    """A recreated topic is a different one, even with the same bytes; a deleted topic leaves the cache."""
    memory = DecodeCache()
    before = read(session, memory)
    data, _ = client.get("/brokers/topics/orders")
    client.delete("/brokers/topics/orders", recursive=True)
    assert "orders" not in read(session, memory).topics
    client.create("/brokers/topics/orders", data)
    after = read(session, memory)
    assert after.topics["orders"].identity != before.topics["orders"].identity
    assert decoded(before, after) == ["orders"]


def test_requests_are_counted_by_operation_and_result(cluster: SimulatedKafka) -> None:
    """The metrics count the requests of repeated reads to ZooKeeper by operation and result."""
    with ZooKeeperCluster(ZooKeeperAccess(cluster.connect), owner="default").enable_decode_cache() as port:
        port.read()
        before = dict(port.requests)
        assert before["multiRead", "ok"] > 0
        port.read()
        more = {key: number - before.get(key, 0) for key, number in port.requests.items()}
    assert more["sync", "ok"] == 1
    assert {operation for operation, _ in more} <= {"sync", "multiRead"}
    assert {result for _, result in more} == {"ok"}
