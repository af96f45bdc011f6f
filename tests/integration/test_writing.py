"""Applying a plan to a real ZooKeeper: what goes over the wire, what stands there afterwards, what happens when it
breaks.

After every write an independent reader, which shares no code with the product, looks at the whole cluster.
"""

from __future__ import annotations

import json

from kazoo.client import KazooClient
from kazoo.security import make_acl

from integration.scene import REPLICAS, WISHES, Meddler, mixed, opened, witnessed
from support import checker
from support.proxy import Proxy
from support.wishes import planned, results, wish
from topiarist.adapters.embedded import EmbeddedZooKeeper
from topiarist.adapters.playground import Playground
from topiarist.adapters.zookeeper.writing import FEW_IN_FLIGHT, MOST_IN_FLIGHT, WINDOW
from topiarist.core.plan import EVERY, Run
from topiarist.errors import Reason
from topiarist.reconcile import Result


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
    assert record == {"version": 2, "owner": "default", "config": {"retention.ms": "2000"}, "partitions": 2}


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


def test_an_owner_cannot_touch_anothers_topics(cluster: Playground) -> None:
    """Two teams with different owners on one cluster are refused each other's topics, until one takes over."""
    mixed(cluster)
    with opened(cluster.connect) as port:
        results(port, planned(port, *WISHES))
        other = planned(port, wish("configure", config={"retention.ms": 9}), run=Run(owner="team-b"))
        assert [finding.reason for finding in other.topics[0].refusals] == [Reason.NOT_OWNED]
        taken = Run(owner="team-b", take_ownership=EVERY)
        assert results(port, planned(port, wish("configure", config={"retention.ms": 9}), run=taken)) == {
            "configure": Result.DONE
        }
    assert json.loads(checker.look(cluster.connect)["/topiarist/topics/configure"].data or b"")["owner"] == "team-b"


def test_no_more_is_under_way_than_keeps_a_server_busy(cluster: Playground, zookeeper: EmbeddedZooKeeper) -> None:
    """However many topics there are, and however far away the server is: others who ask it wait behind them."""
    under_way = []
    meddler = Meddler(zookeeper.connect)

    def look(kind: str) -> bool:
        if kind == "multi":
            under_way.append(sum(each.requests[kind] - each.replies[kind] for each in meddler.connections))
        return True

    meddler.delay = 0.05
    with meddler, opened(meddler.through(cluster.connect)) as port:
        plan = planned(port, *(wish(f"topic-{number}", partitions=1) for number in range(WINDOW)))
        meddler.before = look
        assert set(results(port, plan).values()) == {Result.DONE}
    assert FEW_IN_FLIGHT < max(under_way) <= MOST_IN_FLIGHT
