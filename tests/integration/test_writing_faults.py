"""What happens between our reading and our writing: controllers, brokers, topics, permissions and connections that
change at exactly the wrong moment. Each is made to happen at the proxy, before the server sees the write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from integration.scene import FIRST, MANY, REPLICAS, WISHES, Meddler, by_result, carried_out, mixed, opened, witnessed
from support import checker
from support.proxy import Proxy, When
from support.waiting import wait_until
from support.wishes import outcomes, planned, results, wish
from topiarist.adapters import znodes
from topiarist.adapters.embedded import EmbeddedZooKeeper
from topiarist.adapters.playground import Playground, Topic
from topiarist.adapters.zookeeper import writing
from topiarist.core.state import Freeze, TopicRecord
from topiarist.errors import Exit, Reason
from topiarist.reconcile import Result


@pytest.fixture
def meddler(zookeeper: EmbeddedZooKeeper) -> Iterator[Meddler]:
    """A proxy that asks before every request."""
    between = Meddler(zookeeper.connect)
    with between:
        yield between


@pytest.mark.parametrize("cut", [False, True])
def test_a_gate_that_closes_in_the_middle_leaves_no_doubt(
    cluster: Playground, proxy: Proxy, client: KazooClient, cut: bool
) -> None:
    """Frozen while many transactions are under way: what was done is done, the rest not sent, nothing is unknown; not
    even if the answers after the first refusal are lost.
    """

    def freeze() -> None:
        wait_until(lambda: client.exists("/brokers/topics/topic-039"), "the transactions before this one")
        client.set("/topiarist/gate", znodes.encode_gate(Freeze("maintenance")))

    with witnessed(cluster.connect, *(spec.topic for spec in MANY)), opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *MANY)
        proxy.hold(FIRST + 40, freeze)
        if cut:
            proxy.cut(FIRST + 41, When.AFTER)
        report = carried_out(port, plan, *MANY)
    found = by_result(report.outcomes)
    assert {result: len(names) for result, names in found.items()} == {Result.DONE: 40, Result.NOT_SENT: 110}
    assert report.error is not None
    assert report.error.reason is Reason.FROZEN
    assert "maintenance" in str(report.error)
    assert report.exit is Exit.REFUSED
    assert sorted(checker.topics(checker.look(cluster.connect))) == found[Result.DONE]


def test_a_gate_that_goes_before_the_first_transaction_is_named(
    cluster: Playground, proxy: Proxy, client: KazooClient
) -> None:
    """There is nothing for the transactions to check any more: none is sent."""
    mixed(cluster)
    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        proxy.hold(FIRST - 1, lambda: client.delete("/topiarist/gate"))
        report = carried_out(port, plan)
    assert report.error is not None
    assert report.error.reason is Reason.STATE_CONFLICT
    assert "/topiarist/gate has gone in the middle of the run" in str(report.error)
    assert by_result(report.outcomes) == {Result.NOT_SENT: ["configure", "create", "grow", "same"]}
    assert proxy.requests["multi"] == 0


def test_a_lock_that_goes_in_the_middle_leaves_no_doubt(cluster: Playground, proxy: Proxy, client: KazooClient) -> None:
    """Once our lock's node has gone every transaction is refused: that is known, for those under way too (F6)."""

    def take_it_away() -> None:
        wait_until(lambda: client.exists("/brokers/topics/topic-039"), "the transactions before this one")
        (name,) = client.get_children("/topiarist/lock")
        client.delete(f"/topiarist/lock/{name}")

    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *MANY)
        proxy.hold(FIRST + 40, take_it_away)
        report = carried_out(port, plan, *MANY)
    found = by_result(report.outcomes)
    assert {result: len(names) for result, names in found.items()} == {Result.DONE: 40, Result.NOT_SENT: 110}
    assert sorted(checker.topics(checker.look(cluster.connect))) == found[Result.DONE]
    assert report.error is not None
    assert report.error.reason is Reason.SESSION_LOST
    assert report.exit is Exit.ERROR


def test_a_broker_that_goes_before_the_write_is_named(cluster: Playground, proxy: Proxy) -> None:
    """Registered when the run began, gone at the transaction: nothing is placed on it, and the message says which
    (F14).
    """
    with witnessed(cluster.connect), opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, wish("orders", partitions=6))
        proxy.hold(FIRST, lambda: cluster.remove_broker(4))
        found = outcomes(port, plan)["orders"]
        assert proxy.fired.is_set()
    assert (found.result, found.message) == (Result.MOVED, "broker 4 was registered, and is not now")


def test_a_broker_that_changed_its_rack_is_named(cluster: Playground, client: KazooClient) -> None:
    """Placements were made for the racks seen: with another one the plan is no longer true."""
    with witnessed(cluster.connect), opened(cluster.connect) as port:
        plan = planned(port, wish("orders", partitions=6))
        node = json.loads(client.get("/brokers/ids/4")[0])
        client.set("/brokers/ids/4", json.dumps(node | {"rack": "c"}).encode())
        found = outcomes(port, plan)["orders"]
    assert (found.result, found.message) == (Result.MOVED, "broker 4 was in rack a, and is in c now")


def test_a_reassignment_asked_for_in_the_middle_of_a_run_is_seen(
    cluster: Playground, proxy: Proxy, client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request is there and the controller has not touched the topic yet: its growth would be undone (F13)."""
    monkeypatch.setattr(writing, "WINDOW", 1)
    names = mixed(cluster)
    request = b'{"version":1,"partitions":[{"topic":"grow","partition":0,"replicas":[4,5,6]}]}'
    with witnessed(cluster.connect, *names), opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        proxy.hold(FIRST, lambda: client.create("/admin/reassign_partitions", request))
        found = outcomes(port, plan)
    grow = found.pop("grow")
    assert (grow.result, grow.message) == (Result.MOVED, "its replicas are being reassigned now")
    assert {outcome.result for outcome in found.values()} == {Result.DONE}
    assert len(checker.topics(checker.look(cluster.connect))["grow"]["partitions"]) == 2


def test_a_topic_made_again_at_equal_versions_is_reported(
    chroot: str, proxy: Proxy, cluster: Playground, client: KazooClient
) -> None:
    """Between the last read and its transaction nothing can keep us from writing to another topic of that name, since
    versions start over; it is noticed and said (F12, F33).
    """
    cluster.add_topics(Topic("orders", REPLICAS, {"retention.ms": "1"}))
    seen = {path: client.get(path)[1] for path in ("/brokers/topics/orders", "/config/topics/orders")}

    def make_again() -> None:
        client.create("/admin/delete_topics/orders")
        cluster.settle()
        cluster.add_topics(Topic("orders", REPLICAS, {"retention.ms": "1"}))
        assert {path: client.get(path)[1].version for path in seen} == {p: stat.version for p, stat in seen.items()}

    with opened(proxy.through(chroot)) as port:
        plan = planned(port, wish("orders", config={"retention.ms": 2}))
        proxy.hold(FIRST, make_again)
        found = outcomes(port, plan)["orders"]
        assert proxy.fired.is_set()
    assert (found.result, found.reason) == (Result.FAILED, Reason.STATE_CONFLICT)
    assert "/brokers/topics/orders was deleted or made again" in found.message


def test_a_topic_that_moves_every_time_is_given_up(cluster: Playground, meddler: Meddler, client: KazooClient) -> None:
    """A topic that somebody else writes before each of our tries is moved after the third; nothing is overwritten."""
    mixed(cluster)

    def touch(kind: str) -> bool:
        if kind == "multi":
            client.set("/brokers/topics/grow", client.get("/brokers/topics/grow")[0])
        return True

    with witnessed(cluster.connect, "grow"), opened(meddler.through(cluster.connect)) as port:
        plan = planned(port, WISHES[1])
        meddler.before = touch
        found = outcomes(port, plan)["grow"]
    assert (found.result, found.reason) == (Result.MOVED, Reason.STATE_CONFLICT)
    assert found.message == "/brokers/topics/grow changed while it was written, 3 times in a row"
    assert meddler.requests["multi"] == 3
    assert len(checker.topics(checker.look(cluster.connect))["grow"]["partitions"]) == 2


def test_controllers_that_change_without_end_end_the_tries(
    cluster: Playground, meddler: Meddler, client: KazooClient
) -> None:
    """A new epoch before every try: given up after a few, instead of for ever under the lock."""

    def elect(kind: str) -> bool:
        if kind == "multi":
            client.set("/controller_epoch", str(int(client.get("/controller_epoch")[0]) + 1).encode())
        return True

    with witnessed(cluster.connect), opened(meddler.through(cluster.connect)) as port:
        plan = planned(port, wish("orders"))
        meddler.before = elect
        found = outcomes(port, plan)["orders"]
    assert (found.result, found.reason) == (Result.MOVED, Reason.STATE_CONFLICT)
    assert "/controller_epoch" in found.message
    assert 1 < meddler.requests["multi"] <= 5


def test_an_election_in_the_middle_is_waited_for(cluster: Playground, meddler: Meddler, client: KazooClient) -> None:
    """While there is no controller nothing is written; when there is one the run goes on (contract 7, 12)."""
    names = mixed(cluster)
    written_without: list[str] = []
    state = {"multis": 0, "reads": 0}

    def play(kind: str) -> bool:
        if kind == "multi":
            state["multis"] += 1
            if state["multis"] == 2:
                client.delete("/controller")
        elif kind == "multiRead" and not client.exists("/controller"):
            state["reads"] += 1
            written_without.extend(checker.topics(checker.look(cluster.connect)))
            if state["reads"] == 5:
                cluster.settle()  # elects
        return True

    with witnessed(cluster.connect, *names), opened(meddler.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        meddler.before = play
        assert set(results(port, plan).values()) == {Result.DONE}
    assert state["reads"] >= 5
    assert "create" not in written_without


def test_a_config_that_changes_under_a_growth_is_not_vouched_for(
    cluster: Playground, proxy: Proxy, client: KazooClient
) -> None:
    """Our record says which keys hold our values: a key changed by others between reading and writing voids that."""
    mixed(cluster)

    def meddle() -> None:
        client.set("/config/topics/grow", b'{"version":1,"config":{"retention.ms":"666"}}')

    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, WISHES[1])
        assert plan.topics[0].record_after == TopicRecord("default", ("retention.ms",))
        proxy.hold(FIRST, meddle)
        found = outcomes(port, plan)["grow"]
        assert proxy.fired.is_set()
    assert found.result is Result.MOVED
    assert "retention.ms" in found.message
    assert not client.exists("/topiarist/topics/grow")
