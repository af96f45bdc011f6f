"""F10, F13, F14 and F15 with real brokers: killed, added, moved and restarted while topiarist plans and writes.

After each test all brokers are up, no topic and no partition is lost, and Kafka shows every partition with a leader and
all replicas in sync. One run applies the rest, and the next run sends no write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from brokers.broker_fault_fixture import (
    RACKS,
    BrokerFaultFixture,
    check_messages,
    create_mixed_topics,
    result_counts,
    run_after_transactions,
)
from brokers.moves_fixture import MovesFixture
from support.kafka.reassignments import throttled_reassignment, wait_for_reassignments
from support.zookeeper.proxy import Proxy
from topiarist.errors import Exit


@pytest.fixture
def scene(moves: MovesFixture) -> Iterator[BrokerFaultFixture]:
    """Return the cluster of the tests of moves with a proxy to its ZooKeeper for topiarist."""
    with Proxy(moves.kafka.zookeeper.connect) as proxy:
        yield BrokerFaultFixture(moves.bed, proxy)


@pytest.mark.night(area="crash")
def test_f10_the_controller_is_killed_in_the_middle(scene: BrokerFaultFixture) -> None:
    """``kill -9`` of the controller when half of 200 topics is written: the next controller initializes the rest, and
    the run continues under its epoch. Topics with a replica on the dead broker are conflicts; a run after its return
    does them.
    """
    topics = create_mixed_topics(scene, "f10", new=160, existing=40, size=(1, 3))
    before, controller = scene.tree(), scene.kafka.controller()
    run_after_transactions(scene, 100, lambda: scene.kafka.kill(controller))
    said = scene.apply("--wait", "--max-inflight-replicas", "20")
    assert scene.proxy.triggered.is_set()
    results = result_counts(said)
    assert said.code == Exit.CONFLICT, said
    assert results.keys() == {"done", "conflict"}
    assert sum(results.values()) == len(topics)
    assert results["done"] >= 100
    assert f"broker {controller}" in said.out
    assert scene.kafka.controller() != controller
    assert len(scene.partition_counts(topics)) == len(topics) - results["conflict"]
    scene.kafka.revive(controller)
    scene.finish_and_verify(before, topics)
    check_messages(scene, topics)


@pytest.mark.night(area="crash")
def test_f13_a_reassignment_is_running(scene: BrokerFaultFixture) -> None:
    """A reassignment begins after the plan was saved, or before it is made: that topic does not grow, the others do.
    After the reassignment it grows, and Kafka has moved its replicas.
    """
    lists = dict.fromkeys(("f13-moving", "f13-growing"), ((1, 2), (2, 1)))
    assert scene.kafka_fixture.clients.create(lists) == {}
    scene.kafka_fixture.describe_in_sync(lists)
    topics = {name: {"partitions": 4, "replicationFactor": 2} for name in (*lists, "f13-new", "f13-late")}
    scene.declare({name: spec for name, spec in topics.items() if name != "f13-late"})
    scene.kafka_fixture.plan("--adopt=*")
    before = {path: node for path, node in scene.tree().items() if path != "/brokers/topics/f13-moving"}
    with throttled_reassignment(scene.kafka_fixture, {"f13-moving": (3, 2)}):
        said = scene.apply_plan("--partial")
        assert (said.code, result_counts(said)) == (Exit.CONFLICT, {"done": 2, "conflict": 1}), said
        assert "its replicas are being reassigned now" in said.out
        scene.declare(topics)
        said = scene.apply()
        # Only the growth is refused; the topic is adopted.
        assert (said.code, result_counts(said)) == (Exit.REFUSED, {"done": 2, "refused": 1}), said
        assert "being reassigned" in said.out
        assert scene.partition_counts(topics) == {"f13-moving": 2, "f13-growing": 4, "f13-new": 4, "f13-late": 4}
        assert scene.kafka_fixture.clients.ongoing_reassignments() == {"f13-moving": {"0": [[3], [1]]}}
    wait_for_reassignments(scene.kafka_fixture)
    scene.finish_and_verify(before, topics)
    grown = scene.kafka_fixture.describe_in_sync(topics)["f13-moving"].replicas
    assert grown[:2] == ((3, 2), (2, 1))


def test_f14_a_broker_is_killed_and_one_comes_between_plan_and_apply(scene: BrokerFaultFixture) -> None:
    """Nothing of the plan is written; with ``--partial`` all topics without that broker. When it is back the rest of
    the same plan is done, and the new broker has no replicas.
    """
    topics = create_mixed_topics(scene, "f14", new=20, existing=4, size=(1, 2))
    before, lost, come = scene.tree(), 4, 5
    planned = {
        name: [list(replicas) for change in changes for replicas in replica_lists(change)]
        for name, changes in scene.kafka_fixture.plan("--adopt=*").items()
    }
    needing = {name for name, lists in planned.items() if any(lost in replicas for replicas in lists)}
    assert len(needing) in range(1, len(topics))
    scene.kafka.kill(lost)
    scene.kafka.start(come, rack="b")
    scene.kafka.wait(lambda: scene.kafka.registered() == {1, 2, 3, 5}, "one broker to go and one to come")
    scene.proxy.reset()
    said = scene.apply_plan()
    assert (said.code, scene.proxy.writes) == (Exit.CONFLICT, 0), said
    said = scene.apply_plan("--partial")
    assert (said.code, result_counts(said)) == (
        Exit.CONFLICT,
        {"done": len(topics) - len(needing), "conflict": len(needing)},
    ), said
    assert f"broker {lost} was registered, and is not now" in said.out
    anew = scene.kafka_fixture.run("plan", "--adopt=*").out
    assert "BrokersMissing" in anew
    assert f"{len(needing)} refused, {len(topics) - len(needing)} unchanged" in anew, anew
    scene.kafka.revive(lost)
    said = scene.apply_plan("--wait")
    assert said.code == Exit.DONE, said
    scene.finish_and_verify(before, topics)
    check_messages(scene, topics)
    found = {name: topic.replicas for name, topic in scene.kafka_fixture.describe_in_sync(topics).items()}
    assert {name: list(map(list, found[name][-len(lists) :])) for name, lists in planned.items() if lists} == {
        name: lists for name, lists in planned.items() if lists
    }
    assert not [name for name, lists in found.items() if any(come in replicas for replicas in lists)]
    scene.kafka.stop(come)
    scene.kafka.wait(lambda: scene.kafka.registered() == RACKS.keys(), "the new broker to go")


def replica_lists(change: Mapping[str, Any]) -> list[list[int]]:
    """Return the replica lists that a change creates."""
    after = change.get("after") or {}
    return list(after.get("replicas") or after.get("newReplicas") or ())


@pytest.mark.night(area="crash")
def test_f15_zookeeper_is_killed_in_the_middle(scene: BrokerFaultFixture, report: Callable[[str], None]) -> None:
    """``kill -9`` of the only server, which restarts with the same data and port: sessions and run continue, unless the
    server was down for longer than the session timeout: then the run names the unknown outcomes.
    """
    topics = create_mixed_topics(scene, "f15", new=56, existing=4, size=(1, 2))
    before = scene.tree()
    run_after_transactions(scene, 30, scene.kafka.zookeeper.restart)
    said = scene.apply("--wait")
    assert scene.proxy.triggered.is_set()
    results = result_counts(said)
    report(f"ZooKeeper killed and restarted in the middle of {len(topics)} topics: {results}")
    assert sum(results.values()) == len(topics)
    if said.code != Exit.DONE:
        assert said.code == Exit.ERROR
        assert "ended during the run" in said.err, said
        assert results.keys() <= {"done", "unknown", "skipped"}
    assert len(scene.partition_counts(topics)) >= results["done"]
    scene.kafka.wait(lambda: scene.kafka.registered() == RACKS.keys(), "all brokers to be registered again")
    scene.finish_and_verify(before, topics)
    check_messages(scene, topics)
