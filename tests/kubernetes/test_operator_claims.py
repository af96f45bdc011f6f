"""Whose a topic is, who may take or delete it, and what stays when its resource goes."""

from __future__ import annotations

import json

from kubernetes.estate import Place
from topiarist.adapters.playground import Topic

REPLICAS = ((1, 2), (2, 3), (3, 1))


def test_a_topic_deleted_outside_is_reported(place: Place) -> None:
    """Never made again in silence, whatever the policy of drift; both words make it again."""
    place.cluster(driftPolicy="Correct")
    place.topic("orders")
    place.until_ready("orders")
    place.client.create("/admin/delete_topics/orders", b"")
    place.until("orders", Ready=("False", "DeletedOutside"), Stalled=("True", "DeletedOutside"))
    place.copy_command("orders")
    place.pass_by()
    assert place.conditions("orders")["Stalled"] == ("True", "DeletedOutside")
    place.annotate("orders", "recreate=true")
    place.cluster(driftPolicy="Correct", allowRisk=["DataLoss"])
    place.pass_by()
    assert place.partitions("orders") == 0
    place.copy_command("orders")
    place.until_ready("orders")
    assert place.partitions("orders") == 3
    place.until_events("orders", "TopicCreated", "DeletedOutside", "InvalidAnnotation", "TopicCreated")


def test_a_topic_of_another_owner_takes_both_words(place: Place) -> None:
    """Without them it is left as it is."""
    place.kafka.add_topics(Topic("orders", REPLICAS, {"flush.ms": "7"}))
    record = json.dumps({"version": 1, "owner": "others", "config": ["flush.ms"]}).encode()
    place.client.create("/topiarist/topics/orders", record, makepath=True)
    place.cluster(adopt=["*"])
    place.topic("orders", config={"flush.ms": 8})
    place.until("orders", Stalled=("True", "NotOwned"))
    assert "others" in place.message("orders")
    place.copy_command("orders")
    place.pass_by()
    assert place.config("orders") == {"flush.ms": "7"}
    place.annotate("orders", "take-ownership=true")
    place.cluster(adopt=["*"], allowRisk=["DataLoss"])
    place.pass_by()
    assert place.config("orders") == {"flush.ms": "7"}
    place.copy_command("orders")
    place.until_ready("orders")
    assert place.config("orders") == {"flush.ms": "8"}
    assert json.loads(place.client.get("/topiarist/topics/orders")[0])["owner"] == place.estate.owner


def test_adoption_is_the_clusters_word(place: Place) -> None:
    """By a pattern; a topic that differs is not touched before, one that is as asked becomes ours."""
    place.kafka.add_topics(
        Topic("orders.eu", REPLICAS, {"flush.ms": "7"}), Topic("payments", REPLICAS, {}), Topic("audit", REPLICAS, {})
    )
    place.cluster()
    place.topic("orders.eu", config={"flush.ms": 8})
    place.topic("audit", config={"flush.ms": 8}, deletionPolicy="Delete")
    place.topic("payments")
    place.until("orders.eu", Stalled=("True", "NotAdopted"))
    place.until("audit", Stalled=("True", "NotAdopted"))
    place.until_ready("payments")
    place.cluster(adopt=["orders.*"])
    place.until_ready("orders.eu")
    assert place.config("orders.eu") == {"flush.ms": "8"}
    assert place.config("audit") == {}
    assert place.conditions("audit")["Stalled"] == ("True", "NotAdopted")
    place.delete("audit")  # never ours, so nothing to delete and nothing to wait for
    place.until_gone("audit")
    assert place.partitions("audit") == 3
    place.until_events("payments", "Adopted")


def test_absent_is_absent(place: Place) -> None:
    """With allowDeletion; the resource stays, and present brings the topic back."""
    place.cluster()
    place.topic("orders")
    place.until_ready("orders")
    place.topic("orders", ensure="Absent")
    place.until("orders", Stalled=("True", "DataLoss"))
    assert "allowDeletion: true" in place.message("orders")
    place.cluster(allowDeletion=True)
    place.until("orders", Ready=("True", "Absent"))
    assert place.partitions("orders") == 0
    place.topic("orders", ensure="Present")
    place.until_ready("orders")
    place.until_events("orders", "TopicCreated", "DataLoss", "TopicDeleted", "TopicCreated")


def test_the_budget_of_deletions_holds(place: Place) -> None:
    """Over it none is done; what was done counts for a day, also for a Cluster that is declared anew."""
    names = ["a", "b", "c"]
    place.cluster(allowDeletion=True, budgets={"deletions": 2})
    for name in (*names, "d"):
        place.topic(name, deletionPolicy="Delete")
    place.until_ready(*names, "d")
    place.until_held(*names, "d")
    place.cluster({"paused": "true"}, allowDeletion=True, budgets={"deletions": 2})
    place.until("d", Ready=("Unknown", "Paused"))
    for name in names:
        place.delete(name)
    place.cluster(allowDeletion=True, budgets={"deletions": 2})
    for name in names:
        place.until(name, Stalled=("True", "BudgetExceeded"))
    assert place.stays(*names)
    place.cluster(allowDeletion=True, budgets={"deletions": 3})
    place.until_gone(*names)
    assert not any(map(place.partitions, names))
    place.wait(lambda: len(place.own()["status"]["deletions"]) == 3, "deletions are remembered")
    place.delete("d")
    place.until("d", Stalled=("True", "BudgetExceeded"))
    assert place.stays("d")
    place.topic("d", deletionPolicy="Retain")  # a last word, which is heard
    place.until_gone("d")
    assert place.stays("d")
    before = place.own()["status"]["deletions"]
    assert {each["topic"] for each in before} == {*names}
    place.leave()
    place.cluster(allowDeletion=True, budgets={"deletions": 3})
    place.wait(lambda: place.own().get("status", {}).get("deletions") == before, "deletions are remembered")


def test_a_claim_passes_on(place: Place) -> None:
    """The older of two counts; when it goes, with its finalizer, the other one takes over and nothing is deleted."""
    place.cluster(allowDeletion=True)
    place.topic("first", topicName="orders", deletionPolicy="Delete", config={"flush.ms": 7})
    place.until_ready("first")
    place.until_held("first")
    place.topic("second", topicName="orders", config={"flush.ms": 8})
    place.until("second", Ready=("False", "ResourceConflict"), Stalled=("True", "ResourceConflict"))
    assert f"Topic {place.namespace}/first declares topic orders too" in place.message("second")
    assert place.conditions("first")["Ready"] == ("True", "InStep")
    identity = place.client.exists("/brokers/topics/orders").czxid
    place.delete("first")
    place.until_gone("first")
    place.until_ready("second")
    assert place.config("orders") == {"flush.ms": "8"}
    assert place.client.exists("/brokers/topics/orders").czxid == identity
    place.until_events("second", "ResourceConflict", "ConfigUpdated")


def test_a_topic_that_cannot_be_read_keeps_its_claim(place: Place) -> None:
    """The younger one takes nothing over, as long as the older one is there."""
    place.cluster()
    place.topic("first", topicName="orders")
    place.until_ready("first")
    place.topic("second", topicName="orders", config={"flush.ms": 8})
    place.until("second", Stalled=("True", "ResourceConflict"))
    place.topic("first", topicName="orders", config={"min.cleanable.dirty.ratio": 0.12345678901234567})
    place.until("first", Stalled=("True", "InvalidManifest"))
    place.pass_by()
    assert place.conditions("second")["Stalled"] == ("True", "ResourceConflict")
    assert place.on("first")["state"] == "InStep"
    assert place.config("orders") == {}
    place.delete("first")
    place.until_ready("second")
    assert place.config("orders") == {"flush.ms": "8"}


def test_a_topic_moves_between_namespaces(place: Place) -> None:
    """Declared in the new one, then deleted in the old one: the topic never goes, under either deletion policy."""
    there = place.elsewhere(f"{place.namespace}-new")
    place.estate.server.admin.make("/api/v1/namespaces", {"metadata": {"name": there.namespace}})
    place.cluster(allowDeletion=True)
    names = {"kept": "Retain", "bound": "Delete"}
    for name, deletion in names.items():
        place.topic(name, deletionPolicy=deletion)
    place.until_ready(*names)
    place.until_held("bound")
    before = {name: place.client.exists(f"/brokers/topics/{name}").czxid for name in names}
    for name, deletion in names.items():
        there.topic(name, deletionPolicy=deletion)
        there.until(name, Stalled=("True", "ResourceConflict"))
        place.delete(name)
    place.until_gone(*names)
    there.until_ready(*names)
    there.until_held("bound")
    assert {name: place.client.exists(f"/brokers/topics/{name}").czxid for name in names} == before


def test_a_cluster_that_goes_takes_nothing_along(place: Place) -> None:
    """Finalizers go, topics and records stay, and the Topics say that they have no home; it may come back."""
    place.cluster(allowDeletion=True)
    for name in ("orders", "going"):
        place.topic(name, deletionPolicy="Delete")
    place.until_ready("orders", "going")
    place.until_held("orders", "going")
    place.cluster()
    place.delete("going")
    place.until("going", Stalled=("True", "DeletionHeld"))
    place.leave()
    place.until("orders", Ready=("False", "UnknownCluster"), Stalled=("True", "UnknownCluster"))
    place.until_gone("going")
    place.wait(lambda: not place._held("orders"), "the finalizer has gone")
    assert place.stays("orders", "going")
    labels = {"controller": place.name, "result": "success"}
    passes = place.estate.figure("controller_runtime_reconcile_total", **labels)
    standing = {"cluster": place.name, "state": "InStep"}
    place.wait(lambda: place.estate.figure("topiarist_topics", **standing) == 0, "its figures have gone")
    place.cluster()
    place.until_ready("orders")
    assert place.estate.figure("controller_runtime_reconcile_total", **labels) > passes
