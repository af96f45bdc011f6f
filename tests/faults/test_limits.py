"""What we may not do, cannot read, or would make too large: named per topic, and the others are done."""

from __future__ import annotations

from kazoo.client import KazooClient

from integration.scene import WISHES, mixed, opened, witnessed
from support.proxy import Proxy
from support.wishes import outcomes, planned, results, wish
from topiarist.adapters.playground import Playground
from topiarist.errors import Reason
from topiarist.reconcile import Result


def test_f20_a_request_too_large_for_the_servers_is_not_sent(cluster: Playground, proxy: Proxy) -> None:
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


def test_f21_lists_that_others_have_filled_meanwhile_are_not_made_longer(
    cluster: Playground, client: KazooClient
) -> None:
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


def test_f21_what_others_have_created_meanwhile_takes_no_room_twice(cluster: Playground) -> None:
    """Two runs with the same topics, which fill more than half of the list: for the second they are there already."""
    specs = [wish(f"a-topic-with-a-name-as-long-as-they-are-{number:02}", partitions=1) for number in range(50)]
    with opened(cluster.connect, max_buffer=4000) as first, opened(cluster.connect, max_buffer=4000) as second:
        one, other = planned(first, *specs), planned(second, *specs)
        assert set(results(first, one).values()) == {Result.DONE}
        assert set(results(second, other).values()) == {Result.ALREADY}


def test_f23_a_record_that_cannot_be_understood_is_refused(cluster: Playground, client: KazooClient) -> None:
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


def test_f20_a_plan_that_would_take_too_large_a_request(cluster: Playground, proxy: Proxy) -> None:
    """50,000 partitions would pass a megabyte: refused with the numbers, the others go on (F20)."""
    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, wish("huge", partitions=50_000, replicationFactor=6), wish("small"))
        huge, small = plan.topics
        assert [finding.reason for finding in huge.refusals] == [Reason.TOO_LARGE]
        assert "brokers can read 1,048,575" in huge.refusals[0].message
        assert small.to_do
        assert results(port, plan) == {"small": Result.DONE}
    assert sum(connection.requests["connect"] for connection in proxy.connections) == 1
