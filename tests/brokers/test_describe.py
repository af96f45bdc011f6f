"""``topiarist describe`` in every state of a topic on real brokers, compared with Kafka's own client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kazoo.client import TransactionRequest

from brokers.describe_comparison import DescribeResult, describe_topic, wait_for_agreement
from support.kafka.cluster import Cluster
from support.kafka.kafka_fixture import KafkaFixture
from support.kafka.reassignments import throttled_reassignment, wait_for_reassignments
from support.zookeeper.proxy import Proxy
from topiarist.errors import Exit

TRANSACTION = 6
"""The number of the first write about a topic on a new cluster, after topiarist's four znodes and the lock."""


def other_than_controller(bed: KafkaFixture) -> list[int]:
    """Return the brokers except the controller, sorted; stopping one causes no election of a controller."""
    return sorted(set(bed.kafka.racks) - {bed.kafka.controller()})


def well(seen: DescribeResult, partitions: int) -> bool:
    """Return True if a topic is initialized and has no conditions."""
    return (seen.code, seen.phase, seen.waits_for, seen.document["conditions"], len(seen.partition_states)) == (
        Exit.DONE,
        "Initialized",
        "",
        {},
        partitions,
    )


def test_a_topic_that_is_well_and_grows(bare: KafkaFixture) -> None:
    """``describe`` shows the id, configs, leaders and ISRs of a topic that topiarist creates and grows and that Kafka
    grows.
    """
    spec = {"replicationFactor": 2, "config": {"min.insync.replicas": 2, "retention.ms": "+86400000"}}
    for partitions in (3, 5):
        bare.declare({"seen-well": {"partitions": partitions, **spec}})
        bare.apply("--wait")
        bare.describe_in_sync(["seen-well"])
        seen = wait_for_agreement(bare, "seen-well")
        assert well(seen, partitions), seen
    assert bare.clients.grow({"seen-well": 20}) == {}
    bare.describe_grown({"seen-well": 20})
    bare.describe_in_sync(["seen-well"])
    assert well(wait_for_agreement(bare, "seen-well"), 20)


def test_a_broker_that_is_away(bare: KafkaFixture) -> None:
    """With an offline broker ``describe`` shows the conditions of its partitions as Kafka does.

    The partitions are under-replicated, under min ISR, offline, or not initialized if they are new, and a deletion
    waits for the broker. After the broker's return only preferred leaders differ.
    """
    away, other, third = *other_than_controller(bare), bare.kafka.controller()
    whole, least = [away, other, third], {"config": {"min.insync.replicas": 2}}
    topics: dict[str, dict[str, Any]] = {
        "seen-short": {"replicaAssignment": [whole, [other, third, away], [third, away, other]]},
        "seen-least": {"replicaAssignment": [[away, other], [other, third]], **least},
        "seen-alone": {"replicaAssignment": [[away], [other]]},
        "seen-leaving": {"replicaAssignment": [whole]},
    }
    bare.declare(topics)
    bare.apply()
    bare.describe_in_sync(topics)
    bare.write_messages({name: spec["replicaAssignment"] for name, spec in topics.items()}, "before")
    bare.kafka.stop(away)
    try:
        check_without(bare, away)
        bare.declare({**topics, "seen-new": {"replicaAssignment": [[away], [other], [third]]}})
        bare.apply("--allow-unknown-brokers", "--wait")
        seen = wait_for_agreement(bare, "seen-new")
        assert (seen.phase, seen.waits_for) == ("PartlyInitialized", f"broker {away}, not registered")
        assert seen.partitions_with("NotInitialized") == {0}
        assert bare.clients.delete(["seen-leaving"]) == {}
        bare.kafka.wait(lambda: describe_topic(bare, "seen-leaving").phase == "MarkedForDeletion", "the mark")
        seen = describe_topic(bare, "seen-leaving")
        assert (seen.document["message"], seen.waits_for) == (
            "marked for deletion by another client",
            f"broker {away}, with replicas of it, is not registered",
        )
    finally:
        bare.kafka.start(away)
    left = {name: spec for name, spec in topics.items() if name != "seen-leaving"}
    bare.describe_in_sync([*left, "seen-new"])
    bare.kafka.wait(
        lambda: describe_topic(bare, "seen-leaving").phase == "DeletedExternally", "the topic that was marked to go"
    )
    assert well(wait_for_agreement(bare, "seen-new"), 3)
    assert well(wait_for_agreement(bare, "seen-alone"), 2)
    led_by_others = wait_for_agreement(bare, "seen-short")
    assert (led_by_others.phase, led_by_others.document["conditions"]) == ("Initialized", {"NotPreferredLeader": 1})
    assert wait_for_agreement(bare, "seen-least").document["conditions"] == {"NotPreferredLeader": 1}


def check_without(bed: KafkaFixture, away: int) -> None:
    """Check the topics with replicas on the offline broker ``away``."""
    bed.kafka.wait(lambda: away not in bed.clients.racks(), "the brokers to know that one of them is away")
    short = until(bed, "seen-short", "UnderReplicated", {0, 1, 2})
    assert (short.phase, short.waits_for, short.document["brokersMissing"]) == ("Initialized", "", [away])
    assert short.document["conditions"] == {"UnderReplicated": 3, "NotPreferredLeader": 1}
    least = until(bed, "seen-least", "UnderMinIsr", {0})
    assert least.document["conditions"] == {"UnderMinIsr": 1, "UnderReplicated": 1, "NotPreferredLeader": 1}
    alone = until(bed, "seen-alone", "Offline", {0})
    assert alone.document["conditions"] == {"Offline": 1}
    assert f"offline: waits for {away}, the last in sync" in alone.text


def until(bed: KafkaFixture, topic: str, condition: str, partitions: set[int]) -> DescribeResult:
    """Return the description of a topic, once it and Kafka show a condition."""
    bed.kafka.wait(
        lambda: describe_topic(bed, topic).partitions_with(condition) == partitions, f"{topic} to be {condition}"
    )
    return wait_for_agreement(bed, topic)


def test_reassignments(bare: KafkaFixture) -> None:
    """``describe`` shows added and removed replicas during a reassignment, and a deletion does not wait for it.

    A new controller that finds both lets each wait for the other, until the deletion request is removed and a
    controller is elected again.
    """
    one, two, three = sorted(bare.kafka.racks)
    topics = ("seen-moving", "seen-going", "seen-stuck")
    bare.declare({name: {"replicaAssignment": [[one, two], [two, one]]} for name in topics})
    bare.apply()
    bare.describe_in_sync(topics)
    with throttled_reassignment(bare, dict.fromkeys(topics, (three, two))):
        seen = wait_for_agreement(bare, "seen-moving")
        (moving, _) = seen.document["partitions"]
        assert (moving["replicas"], moving["adding"], moving["removing"]) == ([three, two, one], [three], [one])
        message = f"to [{three},{two}], adding {three}, removing {one}"
        assert moving["conditions"][0] == {"condition": "Reassigning", "message": message}
        assert (seen.phase, seen.partitions_with("UnderReplicated")) == ("Initialized", set())
        assert bare.clients.delete(["seen-going"]) == {}
        bare.kafka.wait(
            lambda: describe_topic(bare, "seen-going").phase == "DeletedExternally", "the first topic to go"
        )
        assert bare.clients.describe(["seen-going"]) == {"seen-going": None}
        mark = "/admin/delete_topics/seen-stuck"
        elect(bare, lambda transaction: transaction.create(mark, b""))
    bare.kafka.wait(
        lambda: bare.clients.ongoing_reassignments().keys() == {"seen-stuck"}, "the other reassignment to be done"
    )
    assert well(wait_for_agreement(bare, "seen-moving"), 2)
    stuck = describe_topic(bare, "seen-stuck")
    assert (stuck.phase, stuck.waits_for) == ("MarkedForDeletion", "its replicas are being reassigned")
    assert stuck.partitions_with("Reassigning") == {0}
    elect(bare, lambda transaction: transaction.delete(mark))
    wait_for_reassignments(bare)
    assert well(wait_for_agreement(bare, "seen-stuck"), 2)


def elect(bed: KafkaFixture, change: Callable[[TransactionRequest], object]) -> None:
    """Depose the controller, and apply a change before the next election."""
    transaction = bed.kafka.client.transaction()
    transaction.delete("/controller")
    change(transaction)
    assert not [result for result in transaction.commit() if isinstance(result, Exception)]
    controller = bed.kafka.controller()
    bed.kafka.wait(lambda: bed.clients.controller() == controller, "the brokers to know their controller")


def test_a_topic_that_no_controller_has_seen_yet(bare: KafkaFixture) -> None:
    """A topic created while all brokers are suspended is not initialized, also after their sessions expire.

    Once the brokers resume, they initialize it.
    """
    bed = bare
    kafka = bed.kafka
    with Proxy(kafka.zookeeper.connect) as proxy:
        proxy.hold(TRANSACTION, lambda: pause(kafka))
        through = {"connect": proxy.through(kafka.connect)}
        bed.declare({"notEvaluated": {"partitions": 3, "replicationFactor": 3}}, zookeeper=through)
        bed.apply()
        assert proxy.triggered.is_set()
    early = describe_topic(bed, "notEvaluated")
    there = early.document["controller"] is not None
    assert (early.phase, early.partitions_with("NotInitialized")) == ("NotInitialized", {0, 1, 2})
    assert early.waits_for == ("the controller, which is initializing it" if there else "there is no controller")
    kafka.wait(lambda: not kafka.registered() and not kafka.client.exists("/controller"), "the sessions to end")
    late = describe_topic(bed, "notEvaluated")
    assert (late.phase, late.waits_for, late.document["brokersMissing"]) == (
        "NotInitialized",
        "there is no controller",
        [1, 2, 3],
    )
    assert late.document["writeBlock"]["reason"] == "NoController"
    for broker in kafka.racks:
        kafka.resume(broker)
    bed.describe_in_sync(["notEvaluated"])
    seen = wait_for_agreement(bed, "notEvaluated")
    assert (seen.phase, seen.waits_for, len(seen.partition_states)) == ("Initialized", "", 3)
    assert seen.document["conditions"].keys() <= {"NotPreferredLeader"}  # the first broker to return leads


def pause(kafka: Cluster) -> None:
    """Suspend all brokers."""
    for broker in kafka.racks:
        kafka.pause(broker)
