"""What we may not do, cannot read, or would make too large: named per topic, and the others are done."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from integration.scene import WISHES, by_result, carried_out, mixed, opened, witnessed
from support.proxy import Proxy
from support.wishes import outcomes, planned, results, wish
from topiarist.adapters.playground import Playground
from topiarist.errors import Exit, Reason
from topiarist.reconcile import Result


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
