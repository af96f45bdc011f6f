"""Ownership of topics: adoption, transfer, deletion, and topics that stay after the deletion of their resources."""

from __future__ import annotations

import json

from kubernetes.fixtures.shared_operator_fixture import SharedOperatorFixture
from topiarist.adapters.devcluster.seed import Topic

REPLICAS = ((1, 2), (2, 3), (3, 1))


def test_a_topic_deleted_outside_is_reported(place: SharedOperatorFixture) -> None:
    """An externally deleted topic is reported under any drift policy.

    It is recreated only with the Cluster's approval and the Topic's consent.
    """
    place.declare_cluster(driftPolicy="Correct")
    place.declare_topic("orders")
    place.wait_until_ready("orders")
    place.client.create("/admin/delete_topics/orders", b"")
    place.wait_for_conditions("orders", Ready=("False", "DeletedExternally"), Stalled=("True", "DeletedExternally"))
    place.run_suggested_command("orders")
    place.wait_for_full_pass()
    assert place.topic_conditions("orders")["Stalled"] == ("True", "DeletedExternally")
    place.annotate_topic("orders", "recreate=true")
    place.declare_cluster(driftPolicy="Correct", allowRisk=["DataLoss"])
    place.wait_for_full_pass()
    assert place.partition_count("orders") == 0
    place.run_suggested_command("orders")
    place.wait_until_ready("orders")
    assert place.partition_count("orders") == 3
    place.wait_for_events("orders", "TopicCreated", "DeletedExternally", "InvalidAnnotation", "TopicCreated")


def test_a_topic_of_another_owner_takes_both_words(place: SharedOperatorFixture) -> None:
    """The operator takes a topic of another owner only with the Cluster's approval and the Topic's consent.

    Otherwise it changes nothing.
    """
    place.kafka.add_topics(Topic("orders", REPLICAS, {"flush.ms": "7"}))
    record = b'{"version":1,"owner":"others","config":["flush.ms"]}'
    place.client.create("/topiarist/topics/orders", record, makepath=True)
    place.declare_cluster(adopt=["*"])
    place.declare_topic("orders", config={"flush.ms": 8})
    place.wait_for_conditions("orders", Stalled=("True", "NotOwned"))
    assert "others" in place.condition_message("orders")
    place.run_suggested_command("orders")
    place.wait_for_full_pass()
    assert place.topic_config("orders") == {"flush.ms": "7"}
    place.annotate_topic("orders", "take-ownership=true")
    place.declare_cluster(adopt=["*"], allowRisk=["DataLoss"])
    place.wait_for_full_pass()
    assert place.topic_config("orders") == {"flush.ms": "7"}
    place.run_suggested_command("orders")
    place.wait_until_ready("orders")
    assert place.topic_config("orders") == {"flush.ms": "8"}
    assert json.loads(place.client.get("/topiarist/topics/orders")[0])["owner"] == place.shared_operator.owner


def test_adoption_is_the_clusters_word(place: SharedOperatorFixture) -> None:
    """The operator adopts a topic that differs from its spec only if ``adopt`` of the Cluster matches its name.

    A topic equal to its spec is adopted at once.
    """
    place.kafka.add_topics(
        Topic("orders.eu", REPLICAS, {"flush.ms": "7"}), Topic("payments", REPLICAS, {}), Topic("audit", REPLICAS, {})
    )
    place.declare_cluster()
    place.declare_topic("orders.eu", config={"flush.ms": 8})
    place.declare_topic("audit", config={"flush.ms": 8}, deletionPolicy="Delete")
    place.declare_topic("payments")
    place.wait_for_conditions("orders.eu", Stalled=("True", "NotAdopted"))
    place.wait_for_conditions("audit", Stalled=("True", "NotAdopted"))
    place.wait_until_ready("payments")
    place.declare_cluster(adopt=["orders.*"])
    place.wait_until_ready("orders.eu")
    assert place.topic_config("orders.eu") == {"flush.ms": "8"}
    assert place.topic_config("audit") == {}
    assert place.topic_conditions("audit")["Stalled"] == ("True", "NotAdopted")
    place.delete_topic("audit")  # never adopted, so there is no topic to delete and no finalizer
    place.wait_until_deleted("audit")
    assert place.partition_count("audit") == 3
    place.wait_for_events("payments", "Adopted")


def test_absent_is_absent(place: SharedOperatorFixture) -> None:
    """With ``allowDeletion``, ``ensure: Absent`` deletes the topic and keeps the resource.

    ``Present`` creates the topic again.
    """
    place.declare_cluster()
    place.declare_topic("orders")
    place.wait_until_ready("orders")
    place.declare_topic("orders", ensure="Absent")
    place.wait_for_conditions("orders", Stalled=("True", "DataLoss"))
    assert "allowDeletion: true" in place.condition_message("orders")
    place.declare_cluster(allowDeletion=True)
    place.wait_for_conditions("orders", Ready=("True", "Absent"))
    assert place.partition_count("orders") == 0
    place.declare_topic("orders", ensure="Present")
    place.wait_until_ready("orders")
    place.wait_for_events("orders", "TopicCreated", "DataLoss", "TopicDeleted", "TopicCreated")


def test_the_budget_of_deletions_holds(place: SharedOperatorFixture) -> None:
    """Deletions above the budget are all refused.

    Earlier deletions count for a day, also after the Cluster is deleted and declared again.
    """
    names = ["a", "b", "c"]
    place.declare_cluster(allowDeletion=True, budgets={"deletions": 2})
    for name in (*names, "d"):
        place.declare_topic(name, deletionPolicy="Delete")
    place.wait_until_ready(*names, "d")
    place.wait_for_finalizers(*names, "d")
    place.declare_cluster({"paused": "true"}, allowDeletion=True, budgets={"deletions": 2})
    place.wait_for_conditions("d", Ready=("Unknown", "Paused"))
    for name in names:
        place.delete_topic(name)
    place.declare_cluster(allowDeletion=True, budgets={"deletions": 2})
    for name in names:
        place.wait_for_conditions(name, Stalled=("True", "BudgetExceeded"))
    assert place.are_present_and_owned(*names)
    place.declare_cluster(allowDeletion=True, budgets={"deletions": 3})
    place.wait_until_deleted(*names)
    assert not any(map(place.partition_count, names))
    place.wait_for(lambda: len(place.cluster_resource()["status"]["deletions"]) == 3, "deletions are remembered")
    place.delete_topic("d")
    place.wait_for_conditions("d", Stalled=("True", "BudgetExceeded"))
    assert place.are_present_and_owned("d")
    place.declare_topic("d", deletionPolicy="Retain")  # a change after the deletion request still counts
    place.wait_until_deleted("d")
    assert place.are_present_and_owned("d")
    before = place.cluster_resource()["status"]["deletions"]
    assert {each["topic"] for each in before} == {*names}
    place.delete_cluster()
    place.declare_cluster(allowDeletion=True, budgets={"deletions": 3})
    place.wait_for(
        lambda: place.cluster_resource().get("status", {}).get("deletions") == before, "deletions are remembered"
    )


def test_a_topic_moves_between_namespaces(place: SharedOperatorFixture) -> None:
    """A Topic declared in a new namespace and then deleted in the old one keeps its topic, under either deletion
    policy.
    """
    there = place.in_namespace(f"{place.namespace}-new")
    place.shared_operator.server.admin.create_object("/api/v1/namespaces", {"metadata": {"name": there.namespace}})
    place.declare_cluster(allowDeletion=True)
    names = {"kept": "Retain", "bound": "Delete"}
    for name, deletion in names.items():
        place.declare_topic(name, deletionPolicy=deletion)
    place.wait_until_ready(*names)
    place.wait_for_finalizers("bound")
    before = {name: place.client.exists(f"/brokers/topics/{name}").czxid for name in names}
    for name, deletion in names.items():
        there.declare_topic(name, deletionPolicy=deletion)
        there.wait_for_conditions(name, Stalled=("True", "ResourceConflict"))
        place.delete_topic(name)
    place.wait_until_deleted(*names)
    there.wait_until_ready(*names)
    there.wait_for_finalizers("bound")
    assert {name: place.client.exists(f"/brokers/topics/{name}").czxid for name in names} == before


def test_a_cluster_that_goes_takes_nothing_along(place: SharedOperatorFixture) -> None:
    """After the deletion of a Cluster the finalizers are removed, and topics and ownership records stay.

    The Topics report ``UnknownCluster``; a new Cluster restores them.
    """
    place.declare_cluster(allowDeletion=True)
    for name in ("orders", "going"):
        place.declare_topic(name, deletionPolicy="Delete")
    place.wait_until_ready("orders", "going")
    place.wait_for_finalizers("orders", "going")
    place.declare_cluster()
    place.delete_topic("going")
    place.wait_for_conditions("going", Stalled=("True", "DeletionHeld"))
    place.delete_cluster()
    place.wait_for_conditions("orders", Ready=("False", "UnknownCluster"), Stalled=("True", "UnknownCluster"))
    place.wait_until_deleted("going")
    place.wait_for(lambda: not place._has_finalizer("orders"), "the finalizer has gone")
    assert place.are_present_and_owned("orders", "going")
    labels = {"controller": place.name, "result": "success"}
    passes = place.shared_operator.metric("controller_runtime_reconcile_total", **labels)
    standing = {"cluster": place.name, "state": "Synced"}
    place.wait_for(lambda: place.shared_operator.metric("topiarist_topics", **standing) == 0, "its figures have gone")
    place.declare_cluster()
    place.wait_until_ready("orders")
    assert place.shared_operator.metric("controller_runtime_reconcile_total", **labels) > passes
