"""F20 to F22: requests and lists that are too large are refused with their sizes, before anything is sent."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable

import pytest
from kazoo.client import KazooClient

from faults.conftest import FaultStatistics
from integration.write_fixtures import DESIRED_SPECS, REPLICAS, connect_cluster, create_mixed_topics, verify_changes
from support.builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.soak import SOAK
from support.zookeeper.busy_cluster import ClusterTemplate
from support.zookeeper.client import connect_client
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.zookeeper_server import find_jars, find_java
from topiarist.adapters.size_limits import MAX_NOTIFICATIONS
from topiarist.adapters.zookeeper.codec import topics
from topiarist.adapters.zookeeper.codec.topics import encode_config
from topiarist.errors import Reason
from topiarist.filters.chain import enforce_budgets
from topiarist.model.outcome import Result
from topiarist.model.spec import Budgets

MOST = 1_048_575
"""Bytes of the largest reply that a Java client reads by default."""

LONG = 240
"""Length of a name: long names fill the list with few topics."""


def listed(connect: str, path: str) -> list[str] | None:
    """Return what a real Java client with default settings lists below a znode; None if it loses its connection."""
    jars = [*find_jars(), *find_jars()[0].parent.glob("commons-cli-*.jar")]
    options = ["-Dlog4j2.level=off", "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join(map(str, jars))]
    command = [find_java(), *options, "org.apache.zookeeper.ZooKeeperMain", "-server", connect, "ls", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    last = done.stdout.strip().splitlines()[-1]
    if not last.startswith("["):
        assert "ConnectionLoss" in done.stdout + done.stderr, done
        return None
    return last.strip("[]").split(", ")


def fill(client: KazooClient, paths: Iterable[str], data: bytes) -> None:
    """Create many znodes quickly."""
    names = list(paths)
    for start in range(0, len(names), 500):
        transaction = client.transaction()
        for path in names[start : start + 500]:
            transaction.create(path, data)
        assert not [result for result in transaction.commit() if isinstance(result, Exception)]


def long(number: int) -> str:
    """Return a name of this length."""
    return f"{number:05}".ljust(LONG, "x")


def test_f21_what_was_created_can_still_be_listed(mould: ClusterTemplate, tally: FaultStatistics) -> None:
    """Another client has filled the list of topics to almost 90 %: topics that fit are created with a warning, the next
    is refused with the sizes, and a Java client lists all of them. Beyond a megabyte it loses its connection.
    """
    connect, node = mould.create_copy(), topics.encode_topic(REPLICAS)
    with connect_client(connect) as client, connect_cluster(connect) as port:
        taken = 4 + sum(4 + len(name) for name in client.get_children("/brokers/topics"))
        most = (MOST * 9 // 10 - taken) // (4 + LONG)
        fill(client, (f"/brokers/topics/{long(number)}" for number in range(most - 2)), node)
        plan = plan_specs(port, *(topic_spec(long(90_000 + number)) for number in range(4)))
        assert [warning for warning in plan.warnings if warning.startswith("the list of topics: ")]
        refused = [finding for topic in plan.topics for finding in topic.refusals]
        assert [finding.reason for finding in refused] == [Reason.TOO_LARGE] * 2
        assert f"brokers can read {MOST:,} in one reply" in refused[0].message
        assert set(apply_results(port, plan).values()) == {Result.DONE}
        there = listed(connect, "/brokers/topics")
        assert there is not None
        assert sorted(there) == sorted(client.get_children("/brokers/topics"))
        fill(
            client,
            (f"/brokers/topics/{long(50_000 + number)}" for number in range(MOST // 10 // (4 + LONG) + 10)),
            node,
        )
        assert listed(connect, "/brokers/topics") is None
    tally.set_cases(4)
    tally.record_maximum("topics listed", len(there))


def test_f21_at_70_percent_it_is_said(mould: ClusterTemplate) -> None:
    """Below 70 % there is no warning; above there is one with the sizes, and everything is done."""
    connect, node = mould.create_copy(), topics.encode_topic(REPLICAS)
    with connect_client(connect) as client, connect_cluster(connect) as port:
        taken = 4 + sum(4 + len(name) for name in client.get_children("/brokers/topics"))
        fill(client, (f"/brokers/topics/{long(n)}" for n in range((MOST * 7 // 10 - taken) // (4 + LONG))), node)
        plan = plan_specs(port)
        assert not [warning for warning in plan.warnings if "in one reply" in warning]
        plan = plan_specs(port, topic_spec(long(90_000)))
        assert [warning for warning in plan.warnings if f"of {MOST:,} bytes that a broker can read" in warning]
        assert apply_results(port, plan) == {long(90_000): Result.DONE}


@pytest.mark.timeout(900)
def test_f22_many_config_changes_at_once(mould: ClusterTemplate, proxy: Proxy, tally: FaultStatistics) -> None:
    """Each run sends as many as its budget allows, never more than ten thousand at a time, whatever the budget; with
    brokers that purge notifications a few runs do everything, each change announced once.
    """
    count, budget = (45_000, 20_000) if SOAK else (12_000, 7_000)
    connect = mould.create_copy()
    names = [f"many-{number:05}" for number in range(count)]
    wishes = [topic_spec(name, config={"retention.ms": 5}) for name in names]
    runs, told = 0, list[str]()
    with connect_client(connect) as client, connect_cluster(proxy.through(connect)) as port:
        fill(client, (f"/brokers/topics/{name}" for name in names), topics.encode_topic(REPLICAS))
        fill(client, (f"/config/topics/{name}" for name in names), encode_config({}))
        outstanding: list[str] = []
        while (
            plan := enforce_budgets(plan_specs(port, *wishes), Budgets(notifications=budget), partial=False)
        ).has_changes:
            found = apply_results(port, plan)
            there = client.get_children("/config/changes")
            assert len(there) - len(outstanding) == len(found) <= budget
            assert len(there) <= MAX_NOTIFICATIONS
            told += found
            runs += 1
            outstanding = there
            if len(there) == MAX_NOTIFICATIONS:
                held = enforce_budgets(plan_specs(port, *wishes), Budgets(notifications=budget), partial=False)
                assert {finding.reason for topic in held.topics for finding in topic.refusals} == {
                    Reason.BUDGET_EXCEEDED
                }
                assert not held.has_changes
                purge(client, there)
                outstanding = []
        assert sorted(told) == names
        purge(client, outstanding)
    tally.set_cases(count)
    tally.add("runs", runs)


def purge(client: KazooClient, names: list[str]) -> None:
    """Delete notifications, as brokers do after 15 minutes."""
    for start in range(0, len(names), 500):
        transaction = client.transaction()
        for name in names[start : start + 500]:
            transaction.delete(f"/config/changes/{name}")
        transaction.commit()


def test_f20_a_request_too_large_for_the_servers_is_not_sent(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """The limit of this run is checked, whatever limit the plan was made with."""
    throttled = ",".join(f"{partition}:1" for partition in range(4000))
    with connect_cluster(cluster.connect) as port:
        plan = plan_specs(
            port, topic_spec("huge", config={"leader.replication.throttled.replicas": throttled}), topic_spec("small")
        )
    with connect_cluster(proxy.through(cluster.connect), max_buffer=20_000) as port:
        found = apply_outcomes(port, plan)
    assert (found["huge"].result, found["huge"].reason) == (Result.REFUSED, Reason.TOO_LARGE)
    assert "90 % of the 20,000 that the servers accept" in found["huge"].message
    assert found["small"].result is Result.DONE
    assert proxy.requests["multi"] == 1


def test_f21_lists_that_others_have_filled_meanwhile_are_not_made_longer(
    cluster: SimulatedKafka, client: KazooClient
) -> None:
    """Room for notifications at planning, none when the run gets the lock: refused with the sizes."""
    names, notification = create_mixed_topics(cluster), b'{"version":2,"entity_path":"topics/foreign"}'
    with verify_changes(cluster.connect, *names), connect_cluster(cluster.connect, max_buffer=3000) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        assert not any(topic.refusals for topic in plan.topics)
        for _ in range(96):
            client.create("/config/changes/config_change_", notification, sequence=True)
        found = apply_outcomes(port, plan)
    configure = found.pop("configure")
    assert (configure.result, configure.reason) == (Result.REFUSED, Reason.TOO_LARGE)
    assert "the list of config notifications" in configure.message
    assert {outcome.result for outcome in found.values()} == {Result.DONE}


def test_f21_topics_that_others_have_created_meanwhile_leave_no_room(
    cluster: SimulatedKafka, client: KazooClient
) -> None:
    """Room for a name at planning, none when the run gets the lock: not created; existing topics are changed."""
    create_mixed_topics(cluster)
    topic = client.get("/brokers/topics/grow")[0]
    with connect_cluster(cluster.connect, max_buffer=4000) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        assert not any(topic.refusals for topic in plan.topics)
        fill(client, (f"/brokers/topics/{f'another-{number:02}'.ljust(40, '-')}" for number in range(82)), topic)
        found = apply_outcomes(port, plan)
    create = found.pop("create")
    assert (create.result, create.reason) == (Result.REFUSED, Reason.TOO_LARGE)
    assert "the list of topics" in create.message
    assert {outcome.result for outcome in found.values()} == {Result.DONE}
    assert not client.exists("/brokers/topics/create")


def test_f21_what_others_have_created_meanwhile_takes_no_room_twice(cluster: SimulatedKafka) -> None:
    """Two runs with the same topics, which fill more than half of the list: the second finds them unchanged."""
    specs = [topic_spec(f"a-topic-with-a-name-as-long-as-they-are-{number:02}", partitions=1) for number in range(50)]
    with (
        connect_cluster(cluster.connect, max_buffer=4000) as first,
        connect_cluster(cluster.connect, max_buffer=4000) as second,
    ):
        one, other = plan_specs(first, *specs), plan_specs(second, *specs)
        assert set(apply_results(first, one).values()) == {Result.DONE}
        assert set(apply_results(second, other).values()) == {Result.UNCHANGED}


def test_f20_a_plan_that_would_take_too_large_a_request(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """50,000 partitions would exceed a megabyte: refused with the sizes, the others continue."""
    with connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, topic_spec("huge", partitions=50_000, replicationFactor=6), topic_spec("small"))
        huge, small = plan.topics
        assert [finding.reason for finding in huge.refusals] == [Reason.TOO_LARGE]
        assert "brokers can read 1,048,575" in huge.refusals[0].message
        assert small.is_actionable
        assert apply_results(port, plan) == {"small": Result.DONE}
    assert sum(connection.requests["connect"] for connection in proxy.connections) == 1
