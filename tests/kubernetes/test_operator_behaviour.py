"""What the operator promises, sentence by sentence, on a real API server and a real ZooKeeper."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from conftest import BROKERS
from kubernetes.estate import Estate, Place
from kubernetes.resources import path, policy, topic
from support import checker
from support.clients import connected
from support.kube import ApiServer
from support.kubeapi import Api
from support.operator import Operator
from support.planted import files_must_be_clean
from support.runs import ended
from topiarist.adapters import znodes
from topiarist.adapters.embedded import EmbeddedZooKeeper
from topiarist.adapters.playground import Playground, Topic

SHORT, LONG = "3600000", "604800000"
REPLICAS = ((1, 2), (2, 3), (3, 1))
DAY = 86_400_000


@pytest.fixture(scope="module")
def estate(
    server: ApiServer, zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Estate]:
    """One operator for all tests of this file; at its end it is alive, has logged nothing but JSON, and no secrets."""
    home, folder = "estate", tmp_path_factory.mktemp("estate")
    server.admin.make("/api/v1/namespaces", {"metadata": {"name": home}})
    with Operator(server, home, folder, "--period", "1") as operator:
        yield Estate(server, zookeeper, operator, home, folder)
        log = operator.process.log()
        assert operator.process.alive, log
    assert "Traceback" not in log, log
    assert all(isinstance(json.loads(line), dict) for line in log.splitlines())
    files_must_be_clean(folder)


@pytest.fixture
def place(estate: Estate, api: Api, namespace: str) -> Iterator[Place]:
    """A Kafka cluster that is nobody's but the test's, not declared yet."""
    connect = f"{estate.zookeeper.connect}/{namespace}"
    with Playground(connect, BROKERS) as kafka, connected(connect) as client:
        found = Place(estate, api, namespace, kafka, client)
        yield found
        api.call(
            "DELETE", path(estate.home, found.own() or topic(), found.name) if found.own().get("kind") else "/none"
        )


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
    assert place.events("orders") == ["TopicCreated", "ConfigUpdated", "ConfigUpdated"]


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
    assert set(place.on("orders")["pending"]) == {"grow 3 -> 4 partitions", "configure"}
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


def test_a_topic_deleted_outside_is_reported(place: Place) -> None:
    """Never made again in silence, whatever the policy of drift; both words make it again."""
    place.cluster(driftPolicy="Correct")
    place.topic("orders")
    place.until_ready("orders")
    place.client.create("/admin/delete_topics/orders", b"")
    place.until("orders", Ready=("False", "DeletedOutside"), Stalled=("True", "DeletedOutside"))
    place.topic("orders", {"recreate": "true"})
    place.pass_by()
    assert place.conditions("orders")["Stalled"] == ("True", "DeletedOutside")
    place.topic("orders")
    place.cluster(driftPolicy="Correct", allowRisk=["DataLoss"])
    place.pass_by()
    assert place.partitions("orders") == 0
    place.topic("orders", {"recreate": "true"})
    place.until_ready("orders")
    assert place.partitions("orders") == 3
    assert place.events("orders") == ["TopicCreated", "DeletedOutside", "TopicCreated"]


def test_a_topic_of_another_owner_takes_both_words(place: Place) -> None:
    """Without them it is left as it is."""
    place.kafka.add_topics(Topic("orders", REPLICAS, {"flush.ms": "7"}))
    record = json.dumps({"version": 1, "owner": "others", "config": ["flush.ms"]}).encode()
    place.client.create("/topiarist/topics/orders", record, makepath=True)
    place.cluster(adopt=["*"])
    place.topic("orders", {"take-ownership": "true"}, config={"flush.ms": 8})
    place.until("orders", Stalled=("True", "NotOwned"))
    assert "others" in place.message("orders")
    place.topic("orders", config={"flush.ms": 8})
    place.cluster(adopt=["*"], allowRisk=["DataLoss"])
    place.pass_by()
    assert place.config("orders") == {"flush.ms": "7"}
    place.topic("orders", {"take-ownership": "true"}, config={"flush.ms": 8})
    place.until_ready("orders")
    assert place.config("orders") == {"flush.ms": "8"}
    assert json.loads(place.client.get("/topiarist/topics/orders")[0])["owner"] == f"k8s/{place.estate.home}/topiarist"


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
    assert place.events("payments") == ["Adopted"]


def test_data_loss_takes_both_words(place: Place) -> None:
    """The Cluster's and the Topic's; either alone changes nothing."""
    place.cluster()
    place.topic("orders", config={"retention.ms": LONG})
    place.until_ready("orders")
    place.topic("orders", {"allow-risk": "DataLoss"}, config={"retention.ms": SHORT})
    place.until("orders", Ready=("False", "DataLoss"), Stalled=("True", "DataLoss"))
    assert "allowRisk: [DataLoss] in the Cluster" in place.message("orders")
    place.topic("orders", config={"retention.ms": SHORT})
    place.cluster(allowRisk=["DataLoss"])
    place.pass_by()
    assert place.config("orders") == {"retention.ms": LONG}
    place.topic("orders", {"allow-risk": "DataLoss"}, config={"retention.ms": SHORT})
    place.until_ready("orders")
    assert place.config("orders") == {"retention.ms": SHORT}


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
    assert place.events("orders") == ["TopicCreated", "DataLoss", "TopicDeleted", "TopicCreated"]


def test_the_budget_of_deletions_holds(place: Place) -> None:
    """Over it none is done; what was done counts for a day."""
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
    assert place.events("second") == ["ResourceConflict", "ConfigUpdated"]


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


def test_two_hundred_namespaces(place: Place) -> None:
    """Allowed by a selector, one Topic each: all are made and ready, and who lacks the label is refused."""
    label = {"fleet": place.name}
    spaces = {f"{place.name}-{number:03}": label for number in range(200)} | {f"{place.name}-other": {}}

    def declare(name: str) -> None:
        body = {"metadata": {"name": name, "labels": spaces[name]}}
        place.estate.server.admin.make("/api/v1/namespaces", body)
        place.elsewhere(name).topic("mine", topicName=f"{name}.mine")

    def reasons() -> Counter[str]:
        items = place.api.call("GET", "/apis/topiarist.dev/v1/topics?labelSelector=unjudged").body["items"]
        mine = [each for each in items if each["metadata"]["namespace"] in spaces]
        return Counter(each["status"]["conditions"][0]["reason"] for each in mine)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(declare, spaces))
    rule = {"namespaces": {"from": "Selector", "selector": {"matchLabels": label}}, "names": [f"{place.name}-*"]}
    place.cluster(allowedTopics=[rule])
    place.elsewhere(f"{place.name}-other").until("mine", Stalled=("True", "NotAllowed"))
    counted = {"total": 201, "ready": 200, "drifted": 0, "refused": 1}
    place.wait(lambda: place.own().get("status", {}).get("topics") == counted, "200 topics are ready")
    place.wait(lambda: reasons() == {"InStep": 200, "NotAllowed": 1}, "each of them says so")
    assert len(place.client.get_children("/brokers/topics")) == 200
    made = {"cluster": place.name, "action": "create", "outcome": "done"}
    assert place.estate.figure("topiarist_topic_changes_total", **made) == 200


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
    name = {"controller": place.name, "result": "success"}
    passes = place.estate.figure("controller_runtime_reconcile_total", **name)
    assert place.estate.figure("topiarist_topics", cluster=place.name, state="InStep") == 0
    place.cluster()
    place.until_ready("orders")
    assert place.estate.figure("controller_runtime_reconcile_total", **name) > passes


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


def law(place: Place, expression: str, **rule: Any) -> dict[str, Any]:
    """A Policy for one cluster."""
    made = {"name": "r", "message": "Not so.", "expression": expression, **rule}
    body = policy(made, selector={"clusters": [place.name]})
    body["metadata"]["name"] = place.name
    return body


@pytest.mark.parametrize(
    ("expression", "subject", "words"),
    [
        ('topic.config["nope"] == "1"', "Topic", "found no key"),
        ('topic.config["nope"] == "1"', "Change", "found no key"),
        ("topic.partitons > 1", "Topic", "does not compile"),
    ],
)
def test_a_broken_policy_holds_back_everything(place: Place, expression: str, subject: str, words: str) -> None:
    """And says what is wrong; mended, it judges."""

    def said() -> str:
        found = place.api.call("GET", path(place.estate.home, law(place, ""), place.name)).body
        ready = next((each for each in found.get("status", {}).get("conditions", ()) if each["type"] == "Ready"), {})
        return f"{ready.get('status')} {ready.get('reason')} {ready.get('message')}"

    place.apply(law(place, expression, subject=subject))
    place.cluster()
    place.topic("orders")
    place.until("orders", Ready=("False", "InvalidManifest"), Stalled=("True", "InvalidManifest"))
    assert place.partitions("orders") == 0
    assert words in place.message("orders")
    place.wait(lambda: said().startswith("False InvalidManifest") and words in said(), "the Policy says so")
    place.apply(law(place, "topic.partitions < 3", subject=subject))
    place.until("orders", Stalled=("True", "PolicyDenied"))
    place.wait(lambda: said().startswith("True Judging"), "the Policy judges")
    place.apply(law(place, "topic.partitions < 4", subject=subject))
    place.until_ready("orders")
    place.api.call("DELETE", path(place.estate.home, law(place, ""), place.name))


def test_a_topic_without_a_cluster_says_so(place: Place) -> None:
    """One that names none that there is, and one that names none where there are several."""
    other = place.elsewhere(place.namespace)
    other.name = f"{place.name}-other"
    other.cluster()
    place.cluster()
    place.topic("lost", clusters=["nowhere"])
    place.apply(topic("nobodys", partitions=3, replicationFactor=2))
    for name in ("lost", "nobodys"):
        place.until(name, Ready=("False", "UnknownCluster"), Stalled=("True", "UnknownCluster"))
    assert "fits spec.clusters" in place.message("lost")
    assert "there is not exactly one Cluster" in place.message("nobodys")
    other.leave()
    place.until_ready("nobodys")  # which now is meant for the only one
    place.delete("nobodys")
    place.topic("lost", clusters=["nowhere", place.name])
    place.until_ready("lost")
    assert place.found("lost")["status"]["topicName"] == "lost"


def test_metrics_tell_how_topics_stand(place: Place) -> None:
    """By state, with drift counted once, and what was asked of ZooKeeper."""
    place.cluster()
    place.topic("orders", config={"flush.ms": 7})
    place.topic("bad", config={"retention.ms": "soon"})
    place.until_ready("orders")
    place.client.set("/config/topics/orders", znodes.encode_config({"flush.ms": "9"}))
    place.until("orders", DriftDetected=("True", "DriftDetected"))
    place.pass_by()
    figure, name = place.estate.figure, place.name
    assert figure("topiarist_topics", cluster=name, state="Drifted") == 1
    assert figure("topiarist_topics", cluster=name, state="Refused") == 1
    assert figure("topiarist_topics", cluster=name, state="InStep") == 0
    assert figure("topiarist_drift_detected_total", cluster=name, kind="configure") == 1
    assert figure("topiarist_zookeeper_session_state", cluster=name) == 1
    assert figure("topiarist_last_successful_pass_timestamp_seconds", cluster=name) > 0
    assert figure("topiarist_pass_duration_seconds_count", cluster=name) > 0
    assert figure("leader_election_master_status", name="topiarist") == 1
    assert f'topiarist_zookeeper_requests_total{{cluster="{name}"' in place.estate.operator.asked("/metrics")[1]
    assert place.estate.operator.asked("/healthz") == (200, "ok\n")


def test_what_a_person_sees(place: Place) -> None:
    """With get, get -o wide, describe and wait: how it stands, why, and what happened."""
    place.cluster()
    place.topic("orders", config={"flush.ms": 7})
    place.topic("wrong", config={"retention.ms": "soon"})
    place.until_ready("orders")
    place.until("wrong", Stalled=("True", "ConfigInvalid"))
    rows = {line.split()[0]: line.split()[1:-1] for line in place.api.kubectl("get", "tpt").stdout.splitlines()}
    assert rows["NAME"] == ["PARTITIONS", "REPLICAS", "READY", "REASON"]
    assert rows["orders"] == ["3", "2", "True", "InStep"]
    assert rows["wrong"] == ["3", "2", "False", "ConfigInvalid"]
    wide = place.api.kubectl("get", "tpt", "wrong", "-o", "wide").stdout
    assert "spec.config[retention.ms]: " in wide
    described = place.api.kubectl("describe", "tpt", "orders").stdout
    for words in (rf"Name: +{place.name}", "State: +InStep", "Topic Id: +[-_A-Za-z0-9]{22}", "Partitions: +3"):
        assert re.search(words, described), described
    assert re.search(r"Normal +TopicCreated .*create 3 partitions x 2 replicas", described), described
    described = place.api.kubectl("describe", "tpt", "wrong").stdout
    assert re.search(r"Warning +ValidationFailed .*spec.config\[retention.ms\]", described), described
    done = place.api.kubectl("wait", "--for=condition=Ready", "topics.topiarist.dev/orders", "--timeout=60s")
    assert done.returncode == 0, done.stderr
    done = place.api.kubectl("wait", "--for=condition=Ready=False", "topics.topiarist.dev/wrong", "--timeout=60s")
    assert done.returncode == 0, done.stderr
    place.wait(lambda: place.own()["status"]["topics"]["ready"] == 1, "the Cluster counts")
    get = place.api.kubectl("get", "tpc", place.name, "-n", place.estate.home).stdout.splitlines()
    assert get[0].split("   ")[0] == "NAME"
    assert get[1].split()[:8] == [place.name, "3.9", "2", "1", "0", "1", "True", "Reachable"]
