"""The ZooKeeper servers of Kafka's releases, 3.5 to 3.8: topiarist reads each in the fastest way that it supports."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from support.cli.runs import document, run_topiarist
from support.kafka.kafka_fixture import KafkaFixture
from support.kafka.zookeeper import ZooKeeper
from support.zookeeper import write_checker
from support.zookeeper.client import connect_client
from support.zookeeper.proxy import Proxy
from topiarist.adapters.devcluster.seed import Topic, add_topics, create_cluster
from topiarist.adapters.zookeeper.connection.session import Session, open_session
from topiarist.adapters.zookeeper.read.state import read_state
from topiarist.errors import Exit
from topiarist.kafka.types import Broker
from topiarist.model.state import ClusterState

TOPICS = 1000

BROKERS = tuple(Broker(number, "abc"[number % 3]) for number in range(1, 7))

REPLICAS = ((1, 2, 3), (2, 3, 4), (3, 4, 5))


@pytest.fixture
def knows_multiread(release: str) -> bool:
    """Return True if the release has ZooKeeper 3.6 or later."""
    return int(release.partition(".")[0]) >= 3


@pytest.fixture(scope="module")
def many(server: ZooKeeper) -> Iterator[str]:
    """Return the connect string of a simulated cluster with many topics, with inactive brokers and controller."""
    with connect_client(server.connect) as client:
        client.create("/many", b"")
    with connect_client(f"{server.connect}/many") as client:
        create_cluster(client, BROKERS, (2, 4))
        config = {"cleanup.policy": "compact", "flush.ms": "1000"}
        add_topics(client, (Topic(f"many-{number}", REPLICAS, config) for number in range(TOPICS)), (2, 4))
        yield f"{server.connect}/many"
    # Tests of one cluster run together, so those of this file may be in two parts, each with this fixture.
    with connect_client(server.connect) as client:
        client.delete("/many", recursive=True)


@contextmanager
def opened(connect: str, *, multiread: bool | None = None) -> Iterator[Session]:
    """Open a session; with ``multiread=False`` it reads one by one without a test request."""
    with closing(open_session(connect, 30.0)) as session:
        session.supports_multiread = multiread
        yield session


def state_of(session: Session) -> ClusterState:
    """Return the whole state that a plan needs."""
    return read_state(session, jute_max_buffer=1_048_575)


def test_the_best_way_is_found_and_all_ways_read_the_same(
    server: ZooKeeper, many: str, bare: KafkaFixture, knows_multiread: bool, report: Callable[[str], None]
) -> None:
    """After one multi-read request a server before 3.6 closes the connection.

    The same session continues and reads one by one. Both ways return the same state, on a cluster with 1000 topics and
    on real brokers.
    """
    with Proxy(server.connect) as proxy, opened(proxy.through(many)) as session:
        number, begin = session.session_id, time.monotonic()
        found = state_of(session)
        seconds = time.monotonic() - begin
        assert (session.supports_multiread, session.session_id, session.lost) == (knows_multiread, number, False)
        assert session.disconnects == (0 if knows_multiread else 1)
        assert proxy.requests["connect"] == (1 if knows_multiread else 2)
        assert (proxy.requests["multiRead"] > 1) is knows_multiread
        assert (proxy.requests["getData"] >= 2 * TOPICS) is not knows_multiread
    check(found, many)
    with opened(many, multiread=False) as session:
        begin = time.monotonic()
        assert state_of(session) == found
        report(
            f"ZooKeeper of Kafka {bare.kafka.release}: {TOPICS} topics read in {seconds:.2f} s"
            f" ({'MultiRead' if knows_multiread else 'one by one, with the question before'}),"
            f" one by one in {time.monotonic() - begin:.2f} s"
        )
    with opened(bare.kafka.connect) as best, opened(bare.kafka.connect, multiread=False) as plain:
        assert state_of(best) == state_of(plain)


def check(found: ClusterState, connect: str) -> None:
    """Compare a state with the result of an independent reader, which shares no code with topiarist."""
    tree = write_checker.read_nodes(connect)
    topics, configs = write_checker.decode_topics(tree), write_checker.decode_configs(tree)
    assert len(topics) >= TOPICS
    assert {name: topic.config for name, topic in found.topics.items()} == configs
    assert {
        name: {str(number): list(ids) for number, ids in zip(topic.partition_ids, topic.replicas, strict=True)}
        for name, topic in found.topics.items()
    } == {name: topic["partitions"] for name, topic in topics.items()}
    assert {name: topic.identity for name, topic in found.topics.items()} == {
        name: str(tree[f"/brokers/topics/{name}"].czxid) for name in topics
    }


def test_the_connection_that_is_lost_by_asking_is_no_fault(
    server: ZooKeeper, many: str, knows_multiread: bool, tmp_path: Path
) -> None:
    """A run with writes succeeds without an error on a server that closes the connection of the test request.

    That connection carries only the test request.
    """
    with Proxy(server.connect) as proxy:
        documents = [
            document("Cluster", "many", zookeeper={"connect": proxy.through(many)}, kafkaVersion="2.4"),
            document("Topic", "asked", partitions=3, replicationFactor=3),
        ]
        (tmp_path / "all.yaml").write_text("\n---\n".join(documents))
        said = run_topiarist("apply", tmp_path, "--yes")
        assert (said.code, said.err) == (Exit.DONE, ""), said
        assert len(proxy.connections) == (1 if knows_multiread else 2)
        if not knows_multiread:
            # The next request, a sync, may be sent before the client notices the closed connection; it is sent again.
            assert set(proxy.connections[0].requests) - {"sync"} == {"connect", "multiRead"}
        assert proxy.connections[-1].writes == proxy.writes > 0
        again = run_topiarist("plan", tmp_path, "--exit-code")
        assert (again.code, again.err) == (Exit.DONE, ""), again
        assert "asked" in write_checker.decode_topics(write_checker.read_nodes(many))
