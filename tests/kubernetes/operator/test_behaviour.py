"""The operator's documented behaviour for one topic, on a real API server and a real ZooKeeper."""

from __future__ import annotations

import pytest

from kubernetes.fixtures.shared_operator_fixture import SharedOperatorFixture
from support.cli.runs import run_topiarist
from support.zookeeper import write_checker
from topiarist.adapters.devcluster.seed import Topic

pytestmark = pytest.mark.core

SHORT, LONG = "3600000", "604800000"
REPLICAS = ((1, 2), (2, 3), (3, 1))


def test_a_paused_topic_is_left_alone(place: SharedOperatorFixture) -> None:
    """The operator does not change a topic that is paused by an annotation on the Topic or the Cluster.

    The status lists the pending changes.
    """
    place.declare_cluster()
    place.declare_topic("orders")
    place.wait_until_ready("orders")
    place.declare_topic("orders", {"paused": "true"}, partitions=6)
    place.wait_for_conditions("orders", Ready=("Unknown", "Paused"))
    assert place.cluster_status_of("orders")["pending"] == ["grow 3 -> 6 partitions"]
    assert place.partition_count("orders") == 3
    place.declare_cluster({"paused": "true"})
    place.wait_for_conditions("orders", Ready=("Unknown", "Paused"))
    place.declare_topic("orders", partitions=6)
    place.wait_for_full_pass()
    assert place.topic_conditions("orders")["Ready"] == ("Unknown", "Paused")
    assert place.partition_count("orders") == 3
    place.declare_cluster()
    place.wait_until_ready("orders")
    assert place.partition_count("orders") == 6
    place.wait_for_events("orders", "TopicCreated", "PartitionsIncreased")


def test_what_is_observed_is_planned_and_not_done(place: SharedOperatorFixture) -> None:
    """With ``mode: Observe`` the status shows the plan and nothing is written.

    Without it the operator applies the plan.
    """
    place.declare_cluster()
    place.kafka.add_topics(Topic("orders", REPLICAS, {"flush.ms": "7"}))
    tree = write_checker.read_nodes(place.kafka.connect)
    place.declare_topic("orders", mode="Observe", partitions=4, config={"flush.ms": 8})
    place.wait_for_conditions("orders", Ready=("True", "Observed"), Stalled=("False", "Observed"))
    assert set(place.cluster_status_of("orders")["pending"]) == {"grow 3 -> 4 partitions", "configure flush.ms 7 -> 8"}
    plan = " ".join(place.cluster_status_of("orders")["plan"].split())
    assert plan.startswith(". orders observed, not applied: grow 3 -> 4 partitions, Disruptive configure")
    assert plan.endswith("config ~ flush.ms 7 -> 8")
    place.wait_for_full_pass()
    assert {name: node.data for name, node in write_checker.read_nodes(place.kafka.connect).items()} == {
        name: node.data for name, node in tree.items()
    }
    place.declare_cluster(adopt=["orders"])
    place.declare_topic("orders", partitions=4, config={"flush.ms": 8})
    place.wait_until_ready("orders")
    assert (place.partition_count("orders"), place.topic_config("orders")) == (4, {"flush.ms": "8"})
    assert {"plan", "pending"}.isdisjoint(place.cluster_status_of("orders"))


def test_a_frozen_cluster_is_not_written_to(place: SharedOperatorFixture) -> None:
    """The operator writes nothing to a frozen cluster and reports the reason of the freeze.

    After ``unfreeze`` it applies all changes.
    """
    place.declare_cluster()
    place.declare_topic("orders")
    place.wait_until_ready("orders")
    frozen = run_topiarist(
        "freeze", "--zookeeper", place.kafka.connect, "--reason", "brokers are replaced", "--user", "ada"
    )
    assert frozen.code == 0, frozen
    place.declare_topic("later")
    place.wait_for_conditions("later", Ready=("False", "Frozen"), Stalled=("True", "Frozen"))
    place.wait_for_cluster_conditions(Ready=("False", "Frozen"), Stalled=("True", "Frozen"))
    assert "brokers are replaced" in place.condition_message("later")
    assert place.topic_conditions("orders")["Ready"] == ("True", "Synced")
    assert place.partition_count("later") == 0
    assert run_topiarist("unfreeze", "--zookeeper", place.kafka.connect, "--user", "ada").code == 0
    place.wait_until_ready("later")
    place.wait_for_cluster_conditions(Ready=("True", "Reachable"))


def test_data_loss_takes_both_words(place: SharedOperatorFixture) -> None:
    """A change with data loss needs the Cluster's approval and the Topic's consent to exactly this change.

    A consent counts once.
    """
    place.declare_cluster()
    place.declare_topic("orders", config={"retention.ms": LONG})
    place.wait_until_ready("orders")
    place.annotate_topic("orders", "allow-risk=DataLoss")
    place.declare_topic("orders", config={"retention.ms": SHORT})
    place.wait_for_conditions("orders", Ready=("False", "DataLoss"), Stalled=("True", "DataLoss"))
    assert "allowRisk: [DataLoss] in the Cluster" in place.condition_message("orders")
    place.declare_cluster(allowRisk=["Disruptive", "DataLoss"])
    place.wait_for_full_pass()
    assert place.topic_config("orders") == {"retention.ms": LONG}
    place.run_suggested_command("orders")
    place.wait_until_ready("orders")
    assert place.topic_config("orders") == {"retention.ms": SHORT}
    done = next(words for words in place.event_notes("orders") if words.startswith(f"{place.name}: configure"))
    assert done == f"{place.name}: configure retention.ms {LONG} -> {SHORT}"
    for asked, state in ((LONG, True), (SHORT, False)):
        place.declare_topic("orders", config={"retention.ms": asked})
        place.wait_for_conditions(
            "orders", **({"Ready": ("True", "Synced")} if state else {"Stalled": ("True", "DataLoss")})
        )
    assert place.topic_config("orders") == {"retention.ms": LONG}


def test_a_number_that_lost_digits_is_refused(place: SharedOperatorFixture) -> None:
    """The operator refuses a number that kubectl rounded to a float; the quoted number is accepted."""
    place.declare_cluster()
    for written, ready in (("9223372036854775808", False), ('"9223372036854775807"', True)):
        body = f"""
apiVersion: topiarist.dev/v1
kind: Topic
metadata: {{name: orders, labels: {{unjudged: ""}}}}
spec: {{clusters: [{place.name}], partitions: 3, replicationFactor: 2, config: {{flush.ms: {written}}}}}
"""
        done = place.api.kubectl("apply", "-f", "-", given=body)
        assert done.returncode == 0, done.stderr
        if ready:
            place.wait_until_ready("orders")
            assert place.topic_config("orders") == {"flush.ms": "9223372036854775807"}
        else:
            place.wait_for_conditions("orders", Ready=("False", "InvalidManifest"), Stalled=("True", "InvalidManifest"))
            assert place.condition_message("orders").startswith(
                "spec.config[flush.ms]: found the number 9223372036854776000, "
            )
            assert place.partition_count("orders") == 0
