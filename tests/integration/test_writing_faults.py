"""What happens between our reading and our writing: controllers, brokers, topics, permissions and connections that
change at exactly the wrong moment. Each is made to happen at the proxy, before the server sees the write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from conftest import BROKERS
from integration.scene import FIRST, REPLICAS, WISHES, Meddler, by_result, carried_out, mixed, opened, witnessed
from support import checker
from support.proxy import Proxy, When
from support.waiting import wait_until
from support.wishes import outcomes, planned, results, wish
from topiarist.adapters import znodes
from topiarist.adapters.embedded import EmbeddedZooKeeper
from topiarist.adapters.playground import Playground, Topic
from topiarist.adapters.zookeeper import writing
from topiarist.adapters.zookeeper.multi import Multi
from topiarist.core.state import TopicRecord
from topiarist.errors import Exit, Reason
from topiarist.reconcile import Result

MANY = tuple(wish(f"topic-{number:03}") for number in range(150))
"""More than are under way at any time."""


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
        client.set("/topiarist/gate", znodes.encode_gate("maintenance"))

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


def test_a_session_that_ends_in_the_pipeline_leaves_doubt_only_where_there_is_some(
    cluster: Playground, proxy: Proxy
) -> None:
    """Done is done, not sent is not there, and only what was under way is unknown; a re-run converges (F5)."""

    def end(identity: tuple[int, bytes]) -> None:
        thief = KazooClient(cluster.connect, client_id=identity)
        thief.start()
        thief.stop()
        thief.close()

    with witnessed(cluster.connect, *(spec.topic for spec in MANY)):
        with opened(proxy.through(cluster.connect)) as port:
            plan = planned(port, *MANY)
            proxy.hold(FIRST + 40, lambda: end(port._session.client.client_id))
            report = carried_out(port, plan, *MANY)
        there = set(checker.topics(checker.look(cluster.connect)))
        found = by_result(report.outcomes)
        assert sum(map(len, found.values())) == len(MANY)
        assert report.error is not None
        assert report.error.reason is Reason.SESSION_LOST
        assert set(found.get(Result.DONE, ())) <= there <= {*found.get(Result.DONE, ()), *found[Result.UNKNOWN]}
        with opened(cluster.connect) as port:
            assert set(results(port, planned(port, *MANY)).values()) <= {Result.DONE}
            assert not planned(port, *MANY).pending


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


def test_a_lost_answer_is_resolved_over_further_losses(cluster: Playground, meddler: Meddler) -> None:
    """The connection drops under a transaction, and again while its outcome is being found out."""
    names = mixed(cluster)
    dropping = {"multi": 1, "sync": 1, "multiRead": 1}

    def drop(kind: str) -> bool:
        if meddler.requests["multi"] == 0 or not dropping.get(kind):
            return True
        dropping[kind] -= 1
        return False

    with witnessed(cluster.connect, *names), opened(meddler.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        meddler.before = drop
        assert set(results(port, plan).values()) == {Result.DONE}
    assert dropping == {"multi": 0, "sync": 0, "multiRead": 0}


def test_an_answer_that_makes_no_sense_is_looked_up(
    cluster: Playground, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer with fewer results than operations says nothing: the record decides, and nothing is written twice."""
    monkeypatch.setattr(Multi, "deserialize", lambda self, buffer, offset: [])
    with witnessed(cluster.connect, "orders"), opened(proxy.through(cluster.connect)) as port:
        assert results(port, planned(port, wish("orders"))) == {"orders": Result.DONE}
    assert proxy.requests["multi"] == 1


def test_a_request_that_breaks_the_connection_does_not_take_others_along(cluster: Playground, meddler: Meddler) -> None:
    """A server whose limit is smaller than we were told closes the connection at each try: that topic fails with this
    word, and all behind it are done.
    """
    specs = (wish("a"), wish("big"), wish("c"), wish("d"))
    with witnessed(cluster.connect, "a", "c", "d"), opened(meddler.through(cluster.connect)) as port:
        plan = planned(port, *specs)
        meddler.poison = b"/brokers/topics/big"
        found = {outcome.topic: outcome for outcome in carried_out(port, plan, *specs).outcomes}
    big = found.pop("big")
    assert {outcome.result for outcome in found.values()} == {Result.DONE}
    assert (big.result, big.reason) == (Result.FAILED, Reason.WRITE_FAILED)
    assert "the connection dropped 5 times" in big.message


def test_a_request_too_large_for_the_servers_is_not_sent(cluster: Playground, proxy: Proxy) -> None:
    """The limit of this run counts, whatever the plan was made under (F20)."""
    throttled = ",".join(f"{partition}:1" for partition in range(4000))
    with opened(cluster.connect) as port:
        plan = planned(port, wish("huge", config={"leader.replication.throttled.replicas": throttled}), wish("small"))
    with opened(proxy.through(cluster.connect), max_buffer=20_000) as port:
        found = outcomes(port, plan)
    assert (found["huge"].result, found["huge"].reason) == (Result.REFUSED, Reason.TOO_LARGE)
    assert "the servers read 20,000" in found["huge"].message
    assert found["small"].result is Result.DONE
    assert proxy.requests["multi"] == 1


def test_lists_that_others_have_filled_meanwhile_are_not_made_longer(cluster: Playground, client: KazooClient) -> None:
    """Room for notifications when the plan was made, none when the lock was ours: refused with the numbers (F21)."""
    names, notification = mixed(cluster), b'{"version":2,"entity_path":"topics/foreign"}'
    with witnessed(cluster.connect, *names), opened(cluster.connect, max_buffer=3000) as port:
        plan = planned(port, *WISHES)
        assert not any(topic.refusals for topic in plan.topics)
        for _ in range(96):
            client.create("/config/changes/config_change_", notification, sequence=True)
        found = outcomes(port, plan)
    configure = found.pop("configure")
    assert (configure.result, configure.reason) == (Result.REFUSED, Reason.TOO_LARGE)
    assert "the list of config notifications" in configure.message
    assert {outcome.result for outcome in found.values()} == {Result.DONE}


def test_what_others_have_created_meanwhile_takes_no_room_twice(cluster: Playground) -> None:
    """Two runs with the same topics, which fill more than half of the list: for the second they are there already."""
    specs = [wish(f"a-topic-with-a-name-as-long-as-they-are-{number:02}", partitions=1) for number in range(50)]
    with opened(cluster.connect, max_buffer=4000) as first, opened(cluster.connect, max_buffer=4000) as second:
        one, other = planned(first, *specs), planned(second, *specs)
        assert set(results(first, one).values()) == {Result.DONE}
        assert set(results(second, other).values()) == {Result.ALREADY}


PROTECTED: list[tuple[str, dict[str, bool], dict[str, str]]] = [
    ("/brokers/topics", {"read": True}, {"create": "create children of /brokers/topics"}),
    ("/config/topics", {"read": True}, {"create": "create children of /config/topics"}),
    ("/config/changes", {"read": True}, {"configure": "create children of /config/changes"}),
    ("/brokers/topics/grow", {"read": True}, {"grow": "set /brokers/topics/grow"}),
    (
        "/admin/delete_topics",
        {"read": True},
        {"create": "create children of /admin/delete_topics", "grow": "create children of /admin/delete_topics"},
    ),
    (
        "/admin/delete_topics",
        {"read": True, "create": True},
        {"create": "delete children of /admin/delete_topics", "grow": "delete children of /admin/delete_topics"},
    ),
    (
        "/topiarist/topics",
        {"read": True},
        dict.fromkeys(("configure", "create", "grow", "same"), "create children of /topiarist/topics"),
    ),
    (
        "/topiarist/gate",
        {"write": True},
        {},
    ),
]


@pytest.mark.parametrize(("path", "rights", "denied"), PROTECTED)
def test_every_missing_right_is_named(
    cluster: Playground, client: KazooClient, path: str, rights: dict[str, bool], denied: dict[str, str]
) -> None:
    """One right taken away: the topics that need it fail with the path, the others are done, nothing is half written
    (F25).
    """
    names = mixed(cluster)
    with witnessed(cluster.connect, *names, "first"), opened(cluster.connect) as port:
        results(port, planned(port, wish("first")))
        plan = planned(port, *WISHES)
        client.set_acls(path, [make_acl("world", "anyone", admin=True, **rights)])
        report = carried_out(port, plan)
        client.set_acls(path, [make_acl("world", "anyone", all=True)])
    failed = {outcome.topic: outcome.message for outcome in report.outcomes if outcome.result is Result.FAILED}
    assert failed == {topic: f"no permission to {what}" for topic, what in denied.items()}
    if path == "/topiarist/gate":
        assert report.error is not None
        assert report.error.reason is Reason.NO_PERMISSION
        assert set(by_result(report.outcomes)) == {Result.NOT_SENT}
    else:
        assert report.error is None
        assert report.exit is Exit.ERROR
        assert {outcome.result for outcome in report.outcomes if outcome.topic not in denied} <= {Result.DONE}
    for topic in denied:
        assert not client.exists(f"/topiarist/topics/{topic}")


@pytest.mark.parametrize("parent", ["/config/topics", "/topiarist/topics"])
def test_a_leftover_that_cannot_be_read_is_named(cluster: Playground, client: KazooClient, parent: str) -> None:
    """A node that an earlier topic of that name left, closed to us: said with its path, before and at the write."""
    with opened(cluster.connect) as port:
        results(port, planned(port, wish("first")))
        plan = planned(port, wish("orders"))
        client.create(f"{parent}/orders", b"{}", acl=[make_acl("world", "anyone", write=True)])
        found = outcomes(port, plan)["orders"]
    assert (found.result, found.reason) == (Result.FAILED, Reason.NO_PERMISSION)
    assert found.message == f"no permission to read {parent}/orders"


def test_a_record_that_cannot_be_understood_is_refused(cluster: Playground, client: KazooClient) -> None:
    """A record without topic that is not one: the topic is refused with the path, instead of planned and then moved
    for ever (F23).
    """
    with opened(cluster.connect) as port:
        results(port, planned(port, wish("first")))
        client.create("/topiarist/topics/orders", b"not JSON")
        plan = planned(port, wish("orders"), wish("small"))
        assert [finding.reason for topic in plan.topics for finding in topic.refusals] == [Reason.ZNODE_UNREADABLE]
        assert "/topiarist/topics/orders" in plan.topics[0].refusals[0].message
        assert results(port, plan) == {"small": Result.DONE}


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("before", ["stale", "tombstone", "absent", "valid"])
def test_the_record_is_a_witness_whatever_it_was_before(
    cluster: Playground, proxy: Proxy, client: KazooClient, before: str, when: When
) -> None:
    """The answer is lost; the record tells, also where an earlier topic or a deletion had left one."""
    wanted = wish("orders", config={"retention.ms": 7})
    with opened(cluster.connect) as port:
        results(port, planned(port, wish("first")))
        if before != "absent":
            results(port, planned(port, wish("orders")))
        if before in ("stale", "tombstone"):
            record = TopicRecord("default", absent=before == "tombstone")
            client.set("/topiarist/topics/orders", znodes.encode_record(record))
            client.create("/admin/delete_topics/orders")
            cluster.settle()
        if before == "stale":
            cluster.add_topics(Topic("orders", REPLICAS, {}))
    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, wanted)
        proxy.cut(2, when)
        assert results(port, plan) == {"orders": Result.DONE}
        assert proxy.fired.is_set()
        assert not planned(port, wanted).pending
    assert proxy.requests["multi"] == (1 if when is When.AFTER else 2)


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


@pytest.mark.parametrize("levels", ["", "/a", "/a/b/c"])
def test_every_path_is_below_the_chroot(levels: str) -> None:
    """With no chroot, one level or several: read, lock, transaction, resolution and release all go to one place."""
    with EmbeddedZooKeeper() as server, Proxy(server.connect) as proxy:
        connect = f"{server.connect}{levels}"
        with Playground(connect, BROKERS) as cluster:
            names = mixed(cluster)
            with witnessed(connect, *names), opened(proxy.through(connect)) as port:
                plan = planned(port, *WISHES)
                proxy.cut(FIRST + 1, When.AFTER)
                assert set(results(port, plan).values()) == {Result.DONE}
                assert not planned(port, *WISHES).pending
            tops = {path.split("/")[1] for path in checker.look(server.connect) if path != "/"}
    expected = (
        {levels.split("/")[1]} if levels else {"admin", "brokers", "cluster", "config", "controller", "topiarist"}
    )
    assert expected <= tops
    assert not levels or tops <= {*expected, "zookeeper"}
