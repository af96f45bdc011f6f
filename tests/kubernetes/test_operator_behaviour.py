"""What the operator promises of one topic, sentence by sentence, on a real API server and a real ZooKeeper."""

from __future__ import annotations

from kubernetes.estate import Place
from support import checker
from support.runs import ended
from topiarist.adapters import znodes
from topiarist.adapters.playground import Topic

SHORT, LONG = "3600000", "604800000"
REPLICAS = ((1, 2), (2, 3), (3, 1))
DAY = 86_400_000


def test_a_key_that_leaves_the_spec_goes(place: Place) -> None:
    """One that we set; what others set stays until the spec says that it goes."""
    place.cluster()
    place.topic("orders", config={"flush.ms": 7, "preallocate": True})
    place.until_ready("orders")
    config = {**place.config("orders"), "segment.ms": str(DAY)}
    place.client.set("/config/topics/orders", znodes.encode_config(config))
    place.topic("orders", config={"preallocate": True})
    place.wait(lambda: place.config("orders") == {"preallocate": "true", "segment.ms": str(DAY)}, "our key has gone")
    place.until_ready("orders")
    place.topic("orders", config={"preallocate": True}, unmanagedConfig="Remove")
    place.wait(lambda: place.config("orders") == {"preallocate": "true"}, "what nobody declares has gone")
    place.until_ready("orders")
    place.until_events("orders", "TopicCreated", "ConfigUpdated", "ConfigUpdated")


def test_a_paused_topic_is_left_alone(place: Place) -> None:
    """By an annotation on it, or on the Cluster; its status says so, and what waits."""
    place.cluster()
    place.topic("orders")
    place.until_ready("orders")
    place.topic("orders", {"paused": "true"}, partitions=6)
    place.until("orders", Ready=("Unknown", "Paused"))
    assert place.on("orders")["pending"] == ["grow 3 -> 6 partitions"]
    assert place.partitions("orders") == 3
    place.cluster({"paused": "true"})
    place.until("orders", Ready=("Unknown", "Paused"))
    place.topic("orders", partitions=6)
    place.pass_by()
    assert place.conditions("orders")["Ready"] == ("Unknown", "Paused")
    assert place.partitions("orders") == 3
    place.cluster()
    place.until_ready("orders")
    assert place.partitions("orders") == 6


def test_what_is_observed_is_planned_and_not_done(place: Place) -> None:
    """The status has the plan as a person reads it; without mode: Observe it is carried out."""
    place.cluster()
    place.kafka.add_topics(Topic("orders", REPLICAS, {"flush.ms": "7"}))
    tree = checker.look(place.kafka.connect)
    place.topic("orders", mode="Observe", partitions=4, config={"flush.ms": 8})
    place.until("orders", Ready=("True", "Observed"), Stalled=("False", "Observed"))
    assert set(place.on("orders")["pending"]) == {"grow 3 -> 4 partitions", "configure flush.ms 7 -> 8"}
    plan = " ".join(place.on("orders")["plan"].split())
    assert plan.startswith(". orders observed, not done: grow 3 -> 4 partitions, Disruptive configure")
    assert plan.endswith("config ~ flush.ms 7 -> 8")
    place.pass_by()
    assert {name: node.data for name, node in checker.look(place.kafka.connect).items()} == {
        name: node.data for name, node in tree.items()
    }
    place.cluster(adopt=["orders"])
    place.topic("orders", partitions=4, config={"flush.ms": 8})
    place.until_ready("orders")
    assert (place.partitions("orders"), place.config("orders")) == (4, {"flush.ms": "8"})
    assert {"plan", "pending"}.isdisjoint(place.on("orders"))


def test_a_frozen_cluster_is_not_written_to(place: Place) -> None:
    """Whoever froze it is named; after a thaw all is done."""
    place.cluster()
    place.topic("orders")
    place.until_ready("orders")
    frozen = ended("freeze", "--zookeeper", place.kafka.connect, "--reason", "brokers are replaced", "--by", "ada")
    assert frozen.code == 0, frozen
    place.topic("later")
    place.until("later", Ready=("False", "Frozen"), Stalled=("True", "Frozen"))
    place.until_own(Ready=("False", "Frozen"), Stalled=("True", "Frozen"))
    assert "brokers are replaced" in place.message("later")
    assert place.conditions("orders")["Ready"] == ("True", "InStep")
    assert place.partitions("later") == 0
    assert ended("thaw", "--zookeeper", place.kafka.connect, "--by", "ada").code == 0
    place.until_ready("later")
    place.until_own(Ready=("True", "Reachable"))


def test_data_loss_takes_both_words(place: Place) -> None:
    """The Cluster's, and the Topic's to this very change; either alone changes nothing, and a consent counts once."""
    place.cluster()
    place.topic("orders", config={"retention.ms": LONG})
    place.until_ready("orders")
    place.annotate("orders", "allow-risk=DataLoss")
    place.topic("orders", config={"retention.ms": SHORT})
    place.until("orders", Ready=("False", "DataLoss"), Stalled=("True", "DataLoss"))
    assert "allowRisk: [DataLoss] in the Cluster" in place.message("orders")
    place.cluster(allowRisk=["Disruptive", "DataLoss"])
    place.pass_by()
    assert place.config("orders") == {"retention.ms": LONG}
    place.copy_command("orders")
    place.until_ready("orders")
    assert place.config("orders") == {"retention.ms": SHORT}
    done = next(words for words in place.notes("orders") if words.startswith(f"{place.name}: configure"))
    assert done == f"{place.name}: configure retention.ms {LONG} -> {SHORT}"
    for asked, state in ((LONG, True), (SHORT, False)):
        place.topic("orders", config={"retention.ms": asked})
        place.until("orders", **({"Ready": ("True", "InStep")} if state else {"Stalled": ("True", "DataLoss")}))
    assert place.config("orders") == {"retention.ms": LONG}


def test_drift_is_named_by_key(place: Place) -> None:
    """In the status, in its own condition and in the Event: what is there, and what is wanted."""
    place.cluster()
    place.topic("orders", config={"flush.ms": 7})
    place.until_ready("orders")
    place.client.set("/config/topics/orders", znodes.encode_config({"flush.ms": "9"}))
    place.until("orders", DriftDetected=("True", "DriftDetected"))
    words = "flush.ms is 9, wanted 7"
    assert words in place.message("orders", "DriftDetected")
    (field,) = place.on("orders")["refusals"][0]["fields"]
    assert (field["field"], field["found"], field["wanted"]) == ("config.flush.ms", "9", "7")
    assert field["since"] == place.on("orders")["refusals"][0]["since"]
    place.wait(lambda: any(words in note for note in place.notes("orders")), "an Event says so")


def test_a_number_that_lost_digits_is_refused(place: Place) -> None:
    """kubectl reads it as a float: what arrives is not what was written."""
    place.cluster()
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
            place.until_ready("orders")
            assert place.config("orders") == {"flush.ms": "9223372036854775807"}
        else:
            place.until("orders", Ready=("False", "InvalidManifest"), Stalled=("True", "InvalidManifest"))
            assert place.message("orders").startswith("spec.config[flush.ms]: found the number 9223372036854776000, ")
            assert place.partitions("orders") == 0
