"""The tests' own tools against a real ZooKeeper: a proxy or a checker that sees nothing makes every proof worthless."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from support.zookeeper import write_checker
from support.zookeeper.proxy import CutTiming, Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic


@contextmanager
def connected(connect: str) -> Iterator[KazooClient]:
    client = KazooClient(connect, timeout=4.0, connection_retry={"max_tries": 0})
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_requests_are_counted_by_kind(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """Reads are not writes, a transaction is one write, and answers are counted beside requests."""
    with connected(proxy.through(cluster.connect)) as client:
        client.get("/controller")
        client.get_children("/brokers/ids")
        assert proxy.writes == 0
        transaction = client.transaction()
        transaction.create("/consumers/a", b"")
        transaction.create("/consumers/b", b"")
        transaction.commit()
        client.set("/consumers/a", b"1")
        client.delete("/consumers/b")
    assert proxy.writes == 3
    wanted = {"connect": 1, "getData": 1, "getChildren": 1, "multi": 1, "setData": 1, "delete": 1, "closeSession": 1}
    assert {name: proxy.requests[name] for name in wanted} == wanted
    (connection,) = proxy.connections
    assert connection.writes == 3
    assert connection.replies["multi"] == connection.replies["getData"] == 1


def test_watch_events_are_not_answers(cluster: SimulatedKafka, proxy: Proxy, client: KazooClient) -> None:
    """What the server sends by itself is counted as an event."""
    with connected(proxy.through(cluster.connect)) as watching:
        watching.get_children("/consumers", watch=lambda _: None)
        client.create("/consumers/new", b"")
        watching.sync("/consumers")
        assert proxy.connections[0].replies["event"] == 1


@pytest.mark.parametrize(
    ("when", "applied"), [(CutTiming.BEFORE, False), (CutTiming.AFTER, True)], ids=["before", "after"]
)
def test_a_cut_breaks_exactly_the_chosen_write(
    cluster: SimulatedKafka, proxy: Proxy, client: KazooClient, when: CutTiming, applied: bool
) -> None:
    """The client loses its connection at the second write; only with AFTER has the server done it."""
    proxy.cut(2, when)
    with connected(proxy.through(cluster.connect)) as cut:
        cut.create("/consumers/first", b"")
        with pytest.raises(ConnectionLoss):
            cut.create("/consumers/second", b"")
    assert proxy.triggered.is_set()
    assert client.exists("/consumers/first")
    assert (client.exists("/consumers/second") is not None) == applied


def test_after_a_cut_with_refuse_nobody_gets_in(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """Until reset the server looks as if it was gone."""
    proxy.cut(1, CutTiming.BEFORE, refuse=True)
    with connected(proxy.through(cluster.connect)) as cut, pytest.raises(ConnectionLoss):
        cut.create("/consumers/first", b"")
    late = KazooClient(proxy.connect, connection_retry={"max_tries": 0})
    with pytest.raises(KazooTimeoutError):
        late.start(timeout=1)
    late.close()
    proxy.reset()
    with connected(proxy.through(cluster.connect)) as again, pytest.raises(NoNodeError):
        again.get("/consumers/first")


def test_a_held_write_sees_what_was_done_meanwhile(cluster: SimulatedKafka, proxy: Proxy, client: KazooClient) -> None:
    """The proxy holds a client's request back, so that another client writes first."""
    proxy.hold(1, lambda: client.set("/consumers", b"theirs"))
    with connected(proxy.through(cluster.connect)) as held:
        version = held.set("/consumers", b"ours").version
    assert proxy.triggered.is_set()
    assert version == 2


def test_what_a_held_action_raises_is_not_lost(cluster: SimulatedKafka) -> None:
    """A barrier that fails makes its test fail."""

    def fail() -> None:
        raise ValueError("planted")

    hosts = cluster.connect.partition("/")[0]
    proxy = Proxy(hosts).__enter__()
    proxy.hold(1, fail)
    with connected(proxy.through(cluster.connect)) as held:
        held.set("/consumers", b"")
    with pytest.raises(ValueError, match="planted"):
        proxy.__exit__()


def test_a_delay_is_for_each_frame_and_not_for_all(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """Frames wait beside each other: all requests of a pipeline are under way before the first answer is back."""
    with connected(proxy.through(cluster.connect)) as client:
        client.get("/controller")
        proxy.delay = 0.2
        pending = [client.get_async("/controller") for _ in range(50)]
        assert pending[0].get(timeout=300)
        assert proxy.requests["getData"] == 51
        assert all(result.get(timeout=300) for result in pending)


def test_the_checker_finds_nothing_wrong_with_kafka(cluster: SimulatedKafka, client: KazooClient) -> None:
    """A topic created, one grown, one configured with its notification, all by the book: no error."""
    cluster.add_topics(Topic("grown", ((1, 2),)), Topic("configured", ((1, 2),)), Topic("foreign", ((1, 2),)))
    before = write_checker.read_nodes(cluster.connect)
    cluster.add_topics(Topic("created", ((1, 2), (2, 3))))
    rewrite(client, "/brokers/topics/grown", lambda topic: topic["partitions"].update({"1": [2, 3]}))
    transaction = client.transaction()
    transaction.set_data("/config/topics/configured", b'{"version":1,"config":{"retention.ms":"1"}}')
    notification = b'{"version":2,"entity_path":"topics/configured"}'
    transaction.create("/config/changes/config_change_", notification, sequence=True)
    transaction.commit()
    cluster.wait_idle()
    assert (
        write_checker.find_problems(
            before, write_checker.read_nodes(cluster.connect), {"created", "grown", "configured"}
        )
        == []
    )


def rewrite(client: KazooClient, path: str, change: Callable[[dict[str, dict[str, object]]], object]) -> None:
    """Change the JSON of a node in place."""
    value = json.loads(client.get(path)[0])
    change(value)
    client.set(path, json.dumps(value).encode())


def recreate(client: KazooClient) -> None:
    data = client.get("/brokers/topics/mine")[0]
    client.delete("/brokers/topics/mine", recursive=True)
    client.create("/brokers/topics/mine", data)


TOPIC, CONFIG = "/brokers/topics/mine", "/config/topics/mine"

HARM: dict[str, tuple[Callable[[KazooClient], object], str]] = {
    "a topic gone": (lambda client: client.delete(TOPIC, recursive=True), "mine: the topic is gone"),
    "a topic made again": (recreate, "mine: the topic was deleted and made again"),
    "a partition gone": (
        lambda client: rewrite(client, TOPIC, lambda topic: topic["partitions"].pop("1")),
        "mine: partition 1 was on [2, 3], is on None",
    ),
    "replicas moved": (
        lambda client: rewrite(client, TOPIC, lambda topic: topic["partitions"].update({"1": [3, 2]})),
        "mine: partition 1 was on [2, 3], is on [3, 2]",
    ),
    "an id lost": (lambda client: rewrite(client, TOPIC, lambda topic: topic.pop("topic_id")), "mine: its id was"),
    "a field lost": (
        lambda client: rewrite(client, TOPIC, lambda topic: topic.pop("adding_replicas")),
        "mine: its field adding_replicas is gone",
    ),
    "a hole": (
        lambda client: rewrite(client, TOPIC, lambda topic: topic["partitions"].update({"7": [1]})),
        "has a hole in its partitions",
    ),
    "a replica twice": (
        lambda client: rewrite(client, TOPIC, lambda topic: topic["partitions"].update({"2": [1, 1]})),
        "has the impossible replicas [1, 1]",
    ),
    "a config nobody heard of": (
        lambda client: client.set(CONFIG, b'{"version":1,"config":{"retention.ms":"1"}}'),
        "mine: its config changed and no notification says so",
    ),
    "a number as a value": (
        lambda client: client.set(CONFIG, b'{"version":1,"config":{"retention.ms":1}}'),
        "has values that are no strings",
    ),
    "a config under a config": (lambda client: client.create(f"{CONFIG}/lock", b""), "keeps Kafka from deleting"),
    "a notification of another form": (
        lambda client: client.create(
            "/config/changes/config_change_0000000000", b'{"version":2,"entity_path":"/mine"}'
        ),
        "names no entity",
    ),
    "a notification of another name": (
        lambda client: client.create("/config/changes/abc", b'{"version":2,"entity_path":"topics/mine"}'),
        "brokers cannot read past this name",
    ),
    "a foreign topic touched": (
        lambda client: client.set("/config/topics/foreign", b'{"version":1, "config":{}}'),
        "foreign: /config/topics/foreign was not to be touched",
    ),
    "another new topic": (
        lambda client: client.create("/config/topics/other", b'{"version":1,"config":{}}'),
        "other: /config/topics/other was not to be touched",
    ),
    "the cluster's id": (lambda client: client.set("/cluster/id", b"{}"), "/cluster/id: nobody was to touch this"),
    "a bad record": (
        lambda client: client.create(
            "/topiarist/topics/mine", b'{"version":1,"owner":"a","config":["b","a"]}', makepath=True
        ),
        "has keys that are not sorted",
    ),
}


@pytest.mark.parametrize(("harm", "diagnostic"), HARM.values(), ids=HARM.keys())
def test_the_checker_sees_every_kind_of_harm(
    cluster: SimulatedKafka, client: KazooClient, harm: Callable[[KazooClient], object], diagnostic: str
) -> None:
    """Each planted harm is found and named."""
    cluster.add_topics(Topic("mine", ((1, 2), (2, 3))), Topic("foreign", ((1, 2),)))
    before = write_checker.read_nodes(cluster.connect)
    harm(client)
    found = write_checker.find_problems(before, write_checker.read_nodes(cluster.connect), {"mine"})
    assert any(diagnostic in problem for problem in found), found
