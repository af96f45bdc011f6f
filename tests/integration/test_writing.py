"""Applying a plan to a real ZooKeeper: what goes over the wire, what stands there afterwards, what happens when it
breaks.

After every write an independent reader, which shares no code with the product, looks at the whole cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from conftest import BROKERS
from integration.scene import REPLICAS, WISHES, locks, mixed, opened, witnessed
from support import checker
from support.proxy import Proxy, When
from support.wishes import ALL, outcomes, planned, results, wish
from topiarist.adapters.playground import Playground, Topic
from topiarist.core.plan import Run
from topiarist.core.spec import ClusterSpec
from topiarist.errors import Reason, TopiaristError
from topiarist.reconcile import Outcome, Pass, Result, carry_out


def test_the_independent_reader_sees_what_the_plan_showed(cluster: Playground) -> None:
    """Replica lists, configs and records stand in ZooKeeper as planned; foreign topics are byte-identical."""
    names = mixed(cluster)
    with witnessed(cluster.connect, *names), opened(cluster.connect) as port:
        plan = planned(port, *WISHES)
        assert set(results(port, plan).values()) == {Result.DONE}
    tree = checker.look(cluster.connect)
    by_name = {topic.topic: topic for topic in plan.topics}
    created = checker.topics(tree)["create"]["partitions"]
    assert [tuple(created[str(p)]) for p in range(4)] == list(by_name["create"].new_replicas())
    grown = checker.topics(tree)["grow"]["partitions"]
    assert [tuple(grown[str(p)]) for p in range(5)] == [*REPLICAS, *by_name["grow"].new_replicas()]
    assert checker.configs(tree)["configure"] == {"retention.ms": "2000", "flush.ms": "5"}
    assert checker.configs(tree)["create"] == {"retention.ms": "5000"}
    record = json.loads(tree["/topiarist/topics/configure"].data or b"")
    assert record == {"version": 1, "owner": "default", "config": ["retention.ms"]}


def test_a_plan_sends_no_write(cluster: Playground, proxy: Proxy) -> None:
    """Planning with a lot to do sends reads only, so that read-only credentials are enough."""
    mixed(cluster)
    with opened(proxy.through(cluster.connect)) as port:
        assert planned(port, *WISHES).pending
    assert proxy.writes == 0
    assert proxy.requests["multiRead"] > 0


def test_a_second_run_sends_no_write(cluster: Playground, proxy: Proxy) -> None:
    """Idempotence, counted at the wire: not even the lock is taken."""
    mixed(cluster)
    with opened(cluster.connect) as port:
        results(port, planned(port, *WISHES))
    cluster.settle()
    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        assert not plan.pending
        assert results(port, plan) == {}
    assert proxy.writes == 0


def test_one_transaction_for_each_topic(cluster: Playground, proxy: Proxy) -> None:
    """Four topics are four transactions; the rest is our root, the lock, and its release."""
    mixed(cluster)
    with opened(proxy.through(cluster.connect)) as port:
        results(port, planned(port, *WISHES))
    assert proxy.requests["multi"] == 4
    assert proxy.requests["create"] == 5
    assert proxy.requests["delete"] == 1


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("write", range(6, 11))
def test_a_cut_connection_is_resolved_by_reading(cluster: Playground, proxy: Proxy, write: int, when: When) -> None:
    """Cut before or after the server did a write: the same session finds out and goes on; nothing is told twice (F1,
    F2).

    Writes 1 to 5 make our root and the lock, 6 to 9 are the transactions, 10 is the lock's release.
    """
    names = mixed(cluster)
    before = len(checker.look(cluster.connect))
    with witnessed(cluster.connect, *names), opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        proxy.cut(write, when)
        assert set(results(port, plan).values()) == {Result.DONE}
        assert proxy.fired.is_set()
    assert len(checker.look(cluster.connect)) > before
    notifications = [path for path in checker.look(cluster.connect) if path.startswith("/config/changes/")]
    assert len(notifications) == 1  # "configure" is the only change of an existing config
    with opened(cluster.connect) as port:
        assert not planned(port, *WISHES).pending


def test_a_lost_session_ends_the_run(cluster: Playground, proxy: Proxy) -> None:
    """When the session cannot come back, what was under way is unknown, the rest not sent, and a re-run converges
    (F5).
    """
    names = mixed(cluster)
    with witnessed(cluster.connect, *names):
        with opened(proxy.through(cluster.connect)) as port:
            plan = planned(port, *WISHES)
            proxy.cut(7, When.AFTER, refuse=True)
            with pytest.raises(TopiaristError) as raised:
                results(port, plan)
        assert raised.value.reason is Reason.SESSION_LOST
        proxy.reset()
        with opened(cluster.connect, lock_timeout=30) as port:
            assert set(results(port, planned(port, *WISHES)).values()) <= {Result.DONE}
            assert not planned(port, *WISHES).pending


def test_every_topic_has_its_outcome_when_the_session_is_lost(cluster: Playground, proxy: Proxy) -> None:
    """The outcomes before the end: done, unknown or not sent, one for each topic."""
    names = mixed(cluster)
    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        proxy.cut(7, When.AFTER, refuse=True)
        report = carry_out(port, Pass(ClusterSpec(), WISHES, ALL, allow=lambda plan: plan), plan)
    seen = {outcome.topic: outcome.result for outcome in report.outcomes}
    assert report.error is not None
    assert report.error.reason is Reason.SESSION_LOST
    assert seen.keys() == set(names)
    assert Result.UNKNOWN in seen.values()
    assert set(seen.values()) <= {Result.DONE, Result.UNKNOWN, Result.NOT_SENT}


def test_without_the_lock_nothing_is_written(cluster: Playground, proxy: Proxy, client: KazooClient) -> None:
    """A holder whose node has gone (it was stopped for too long) is refused by its own check (F6)."""
    mixed(cluster)

    def take_the_lock_away() -> None:
        (path,) = locks(cluster)
        client.delete(path)

    before = checker.topics(checker.look(cluster.connect))
    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        proxy.hold(6, take_the_lock_away)
        with pytest.raises(TopiaristError) as raised:
            results(port, plan)
    assert raised.value.reason is Reason.SESSION_LOST
    assert checker.topics(checker.look(cluster.connect)) == before


def test_a_new_controller_in_the_middle_is_no_reason_to_stop(cluster: Playground, proxy: Proxy) -> None:
    """The epoch moved: the rest is read, compared and sent again under the new one (F10)."""
    names = mixed(cluster)
    with witnessed(cluster.connect, *names), opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        proxy.hold(7, lambda: cluster.elect(2))
        assert set(results(port, plan).values()) == {Result.DONE}
        assert proxy.fired.is_set()


def test_a_kraft_controller_in_the_middle_ends_the_run(cluster: Playground, proxy: Proxy, client: KazooClient) -> None:
    """Once a KRaft controller is in charge nothing more is written (F11)."""
    mixed(cluster)

    def migrate() -> None:
        client.delete("/controller")
        node = {"version": 2, "brokerid": 3000, "timestamp": "1", "kraftControllerEpoch": 5}
        client.create("/controller", json.dumps(node).encode())
        client.set("/controller_epoch", b"1000")

    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        before = checker.topics(checker.look(cluster.connect))
        proxy.hold(6, migrate)
        with pytest.raises(TopiaristError) as raised:
            results(port, plan)
    assert raised.value.reason is Reason.KRAFT_CONTROLLER
    assert checker.topics(checker.look(cluster.connect)) == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda client: client.create("/migration", b'{"version":0,"kraft_metadata_offset":-1}'),
            Reason.KRAFT_MIGRATION,
        ),
        (lambda client: client.delete("/controller"), Reason.NO_CONTROLLER),
    ],
)
def test_a_closed_gate_means_no_write(
    cluster: Playground, client: KazooClient, change: Callable[[KazooClient], object], reason: Reason
) -> None:
    """With a migration begun, or without a controller, the plan refuses everything and apply creates nothing at all."""
    mixed(cluster)
    with opened(cluster.connect) as port:
        open_plan = planned(port, *WISHES)
        change(client)
        closed = planned(port, *WISHES)
        assert not closed.pending
        assert {finding.reason for topic in closed.topics for finding in topic.refusals} == {reason}
        with pytest.raises(TopiaristError) as raised:
            results(port, open_plan)
    assert raised.value.reason is reason
    assert not client.exists("/topiarist")


def test_a_topic_id_that_comes_in_between_is_kept(chroot: str, proxy: Proxy) -> None:
    """The controller rewrites the topic between our read and our write: read again, its fields kept (F9)."""
    identity = "UXyU9i5ARn6W00ON2taeWA"
    with Playground(chroot, BROKERS, (2, 7)) as cluster, opened(proxy.through(chroot)) as port:
        cluster.add_topics(Topic("old", REPLICAS, {}))

        def rewrite() -> None:
            node = json.loads(cluster.client.get("/brokers/topics/old")[0])
            cluster.client.set("/brokers/topics/old", json.dumps(node | {"version": 3, "topic_id": identity}).encode())

        plan = planned(port, wish("old", partitions=4))
        proxy.hold(6, rewrite)
        assert results(port, plan) == {"old": Result.DONE}
        assert proxy.fired.is_set()
    node = checker.topics(checker.look(chroot))["old"]
    assert node["topic_id"] == identity
    assert len(node["partitions"]) == 4


def test_a_reassignment_that_begins_in_between_refuses_growth(cluster: Playground, client: KazooClient) -> None:
    """Growth of a topic under reassignment would be undone; the other topics go on (F13)."""
    mixed(cluster)
    with opened(cluster.connect) as port:
        plan = planned(port, *WISHES)
        node = json.loads(client.get("/brokers/topics/grow")[0])
        moving = node | {"partitions": {"0": [4, 1, 2, 3], "1": [2, 3, 4]}, "adding_replicas": {"0": [4]}}
        client.set("/brokers/topics/grow", json.dumps(moving).encode())
        found = outcomes(port, plan)
        assert found.pop("grow").result is Result.MOVED
        assert {outcome.result for outcome in found.values()} == {Result.DONE}
        (refused,) = [topic for topic in planned(port, *WISHES).topics if topic.refusals]
        assert [finding.reason for finding in refused.refusals] == [Reason.REASSIGNMENT_IN_PROGRESS]


def test_a_leftover_config_is_overwritten_at_its_version(cluster: Playground, client: KazooClient) -> None:
    """A config node without a topic, left by a crash of others, becomes the new topic's."""
    client.create("/config/topics/create", b'{"version":1,"config":{"flush.ms":"9"}}')
    with opened(cluster.connect) as port:
        assert results(port, planned(port, WISHES[0])) == {"create": Result.DONE}
    assert checker.configs(checker.look(cluster.connect))["create"] == {"retention.ms": "5000"}


def test_no_permission_is_named_and_the_others_are_done(cluster: Playground, client: KazooClient) -> None:
    """One protected config node: that topic is named with the path, half of nothing is written (F25)."""
    mixed(cluster)
    client.set_acls("/config/topics/configure", [make_acl("world", "anyone", read=True)])
    with opened(cluster.connect) as port:
        found = outcomes(port, planned(port, *WISHES))
    failed = found.pop("configure")
    assert (failed.result, failed.reason) == (Result.FAILED, Reason.NO_PERMISSION)
    assert failed.message == "no permission to set /config/topics/configure"
    assert {outcome.result for outcome in found.values()} == {Result.DONE}
    assert not client.exists("/topiarist/topics/configure")


def test_new_nodes_have_the_permissions_of_their_siblings(cluster: Playground, client: KazooClient) -> None:
    """Topics, configs, notifications and our own nodes are as open or closed as what stands beside them."""
    mixed(cluster)
    acl = [make_acl("world", "anyone", read=True, create=True, delete=True, write=True)]
    for parent in ("/brokers/topics", "/config/topics", "/config/changes"):
        client.set_acls(parent, acl)
    with opened(cluster.connect) as port:
        results(port, planned(port, *WISHES))
    change = f"/config/changes/{client.get_children('/config/changes')[0]}"
    paths = ("/brokers/topics/create", "/config/topics/create", change, "/topiarist", "/topiarist/topics/create")
    assert {path: client.get_acls(path)[0] for path in paths} == dict.fromkeys(paths, acl)


def test_a_request_that_is_too_large_is_never_sent(cluster: Playground, proxy: Proxy) -> None:
    """50,000 partitions would pass a megabyte: refused with the numbers, the others go on (F20)."""
    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, wish("huge", partitions=50_000, replicationFactor=6), wish("small"))
        huge, small = plan.topics
        assert [finding.reason for finding in huge.refusals] == [Reason.TOO_LARGE]
        assert "brokers can read 1,048,575" in huge.refusals[0].message
        assert small.to_do
        assert results(port, plan) == {"small": Result.DONE}
    assert sum(connection.requests["connect"] for connection in proxy.connections) == 1


def test_stop_finishes_what_is_under_way(cluster: Playground) -> None:
    """After the first outcome nothing more is sent; the lock is free and the next run does the rest (F30)."""
    specs = [*WISHES, *(wish(f"more-{number:03}") for number in range(300))]
    mixed(cluster)
    seen: list[Outcome] = []
    with witnessed(cluster.connect, *(spec.topic for spec in specs)), opened(cluster.connect) as port:
        plan = planned(port, *specs)
        for outcome in port.apply(plan, lambda: bool(seen)):
            seen.append(outcome)
        assert len(seen) == len(specs)
        by_result = {result: [o for o in seen if o.result is result] for result in Result}
        assert by_result[Result.DONE]
        assert by_result[Result.NOT_SENT]
        assert locks(cluster) == []
        assert set(results(port, planned(port, *specs)).values()) == {Result.DONE}
        assert not planned(port, *specs).pending


def test_an_owner_cannot_touch_anothers_topics(cluster: Playground) -> None:
    """Two teams with different owners on one cluster are refused each other's topics, until one takes over."""
    mixed(cluster)
    with opened(cluster.connect) as port:
        results(port, planned(port, *WISHES))
        other = planned(port, wish("configure", config={"retention.ms": 9}), run=Run(owner="team-b"))
        assert [finding.reason for finding in other.topics[0].refusals] == [Reason.NOT_OWNED]
        taken = Run(owner="team-b", take_ownership=True)
        assert results(port, planned(port, wish("configure", config={"retention.ms": 9}), run=taken)) == {
            "configure": Result.DONE
        }
    assert json.loads(checker.look(cluster.connect)["/topiarist/topics/configure"].data or b"")["owner"] == "team-b"
