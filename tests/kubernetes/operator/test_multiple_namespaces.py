"""Many namespaces, policies for all of them, and the user's view of the resources."""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from kubernetes.fixtures.resources import policy, resource_path, topic
from kubernetes.fixtures.shared_operator_fixture import SharedOperatorFixture


def test_two_hundred_namespaces(place: SharedOperatorFixture) -> None:
    """The operator creates one topic for each of 200 namespaces that a selector allows, and refuses a namespace without
    the label.
    """
    label = {"fleet": place.name}
    spaces = {f"{place.name}-{number:03}": label for number in range(200)} | {f"{place.name}-other": {}}

    def declare(name: str) -> None:
        body = {"metadata": {"name": name, "labels": spaces[name]}}
        place.shared_operator.server.admin.create_object("/api/v1/namespaces", body)
        place.in_namespace(name).declare_topic("mine", topicName=f"{name}.mine")

    def reasons() -> Counter[str]:
        items = place.api.call("GET", "/apis/topiarist.dev/v1/topics?labelSelector=unjudged").body["items"]
        mine = [each for each in items if each["metadata"]["namespace"] in spaces]
        return Counter(each["status"]["conditions"][0]["reason"] for each in mine if "status" in each)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(declare, spaces))
    rule = {"namespaces": {"from": "Selector", "selector": {"matchLabels": label}}, "names": [f"{place.name}-*"]}
    place.declare_cluster(allowedTopics=[rule])
    place.in_namespace(f"{place.name}-other").wait_for_conditions("mine", Stalled=("True", "NotAllowed"))
    counted = {"total": 201, "ready": 200, "drifted": 0, "refused": 1}
    place.wait_for(lambda: place.cluster_resource().get("status", {}).get("topics") == counted, "200 topics are ready")
    place.wait_for(lambda: reasons() == {"Synced": 200, "NotAllowed": 1}, "each of them says so")
    assert len(place.client.get_children("/brokers/topics")) == 200
    made = {"cluster": place.name, "action": "create", "outcome": "done"}
    assert place.shared_operator.metric("topiarist_topic_changes_total", **made) == 200


def law(place: SharedOperatorFixture, expression: str, **rule: Any) -> dict[str, Any]:
    """Return a Policy for one cluster."""
    made = {"name": "r", "message": "Not so.", "expression": expression, **rule}
    body = policy(made, selector={"clusters": [place.name], "topics": ["orders"]})
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
def test_a_broken_policy_holds_back_what_it_is_for(
    place: SharedOperatorFixture, expression: str, subject: str, words: str
) -> None:
    """An invalid Policy refuses the topics that it selects and reports its error in a condition.

    Other topics are created. Once corrected, the Policy is evaluated.
    """

    def said() -> str:
        found = place.api.call("GET", resource_path(place.shared_operator.namespace, law(place, ""), place.name)).body
        conditions = found.get("status", {}).get("conditions", ())
        ready: dict[str, str] = next((each for each in conditions if each["type"] == "Ready"), {})
        return f"{ready.get('status')} {ready.get('reason')} {ready.get('message')}"

    place.apply(law(place, expression, subject=subject))
    place.declare_cluster()
    place.declare_topic("orders")
    place.declare_topic("free")
    place.wait_for_conditions("orders", Ready=("False", "PolicyDenied"), Stalled=("True", "PolicyDenied"))
    place.wait_until_ready("free")
    assert place.partition_count("orders") == 0
    assert words in place.condition_message("orders")
    place.wait_for(lambda: said().startswith("False InvalidRule") and words in said(), "the Policy says so")
    place.apply(law(place, "topic.partitions < 3", subject=subject))
    place.wait_for_conditions("orders", Stalled=("True", "PolicyDenied"))
    place.wait_for(lambda: said().startswith("True Active"), "the Policy judges")
    place.apply(law(place, "topic.partitions < 4", subject=subject))
    place.wait_until_ready("orders")
    place.api.call("DELETE", resource_path(place.shared_operator.namespace, law(place, ""), place.name))


def test_a_topic_without_a_cluster_says_so(place: SharedOperatorFixture) -> None:
    """A Topic reports ``UnknownCluster`` if it names a Cluster that does not exist, or names none while several exist.

    Beside a Cluster that does not exist, it is applied to the others.
    """
    other = place.in_namespace(place.namespace)
    other.name = f"{place.name}-other"
    other.declare_cluster()
    place.declare_cluster()
    place.declare_topic("lost", clusters=["nowhere"])
    place.apply(topic("nobodys", partitions=3, replicationFactor=2))
    for name in ("lost", "nobodys"):
        place.wait_for_conditions(name, Ready=("False", "UnknownCluster"), Stalled=("True", "UnknownCluster"))
    assert "matches spec.clusters" in place.condition_message("lost")
    assert "spec.clusters names no Cluster, and there are several" in place.condition_message("nobodys")
    assert f"{place.name}, {other.name}" in place.condition_message("nobodys")
    for name in ("lost", "nobodys"):
        place.wait_for_events(name, "UnknownCluster")
    counted = partial(place.shared_operator.metric, "topiarist_topics", cluster="", state="UnknownCluster")
    place.wait_for(lambda: counted() == 2, "both are counted")
    other.delete_cluster()
    place.wait_until_ready("nobodys")  # which now belongs to the only Cluster
    other.declare_cluster()
    place.wait_for(lambda: "the topic stays on" in place.condition_message("nobodys"), "it stays where it was applied")
    place.apply(topic("nobodys", partitions=4, replicationFactor=2))
    place.wait_until_ready("nobodys")
    assert place.partition_count("nobodys") == 4
    other.delete_cluster()
    place.delete_topic("nobodys")
    place.declare_topic("lost", clusters=["nowhere", place.name])
    place.wait_for(lambda: place.partition_count("lost") == 3, "it is applied where it can be")
    refused = "nowhere: there is no such Cluster"
    place.wait_for(lambda: refused in place.condition_message("lost"), "the name is refused")
    place.declare_topic("lost", clusters=[place.name])
    place.wait_until_ready("lost")
    place.declare_topic("wide", replicationFactor=9)
    place.wait_for_conditions("wide", Ready=("False", "TooFewBrokers"), Stalled=("True", "TooFewBrokers"))
    place.wait_for_events("wide", "TooFewBrokers")
    assert place.get_topic("lost")["status"]["topicName"] == "lost"


def test_what_a_person_sees(place: SharedOperatorFixture) -> None:
    """``kubectl get``, ``get -o wide``, ``describe`` and ``wait`` show state, reason and history of topics."""
    place.declare_cluster()
    place.declare_topic("orders", config={"flush.ms": 7})
    place.declare_topic("wrong", config={"retention.ms": "soon"})
    place.wait_until_ready("orders")
    place.wait_for_conditions("wrong", Stalled=("True", "ConfigInvalid"))
    rows = {line.split()[0]: line.split()[1:-1] for line in place.api.kubectl("get", "tpt").stdout.splitlines()}
    assert rows["NAME"] == ["CLUSTER", "PARTITIONS", "REPLICAS", "READY", "REASON"]
    assert rows["orders"] == [place.name, "3", "2", "True", "Synced"]
    assert rows["wrong"] == [place.name, "2", "False", "ConfigInvalid"]  # it has no partitions yet
    wide = place.api.kubectl("get", "tpt", "wrong", "-o", "wide").stdout
    assert "spec.config[retention.ms]: " in wide
    place.wait_for_events("orders", "TopicCreated")
    described = place.api.kubectl("describe", "tpt", "orders").stdout
    for words in (rf"Name: +{place.name}", "State: +Synced", "Topic Id: +[-_A-Za-z0-9]{22}", "Partitions: +3"):
        assert re.search(words, described), described
    assert re.search(r"Normal +TopicCreated .*create 3 partitions x 2 replicas", described), described
    place.wait_for_events("wrong", "ValidationFailed")
    described = place.api.kubectl("describe", "tpt", "wrong").stdout
    assert re.search(r"Warning +ValidationFailed .*spec.config\[retention.ms\]", described), described
    done = place.api.kubectl("wait", "--for=condition=Ready", "topics.topiarist.dev/orders", "--timeout=60s")
    assert done.returncode == 0, done.stderr
    done = place.api.kubectl("wait", "--for=condition=Ready=False", "topics.topiarist.dev/wrong", "--timeout=60s")
    assert done.returncode == 0, done.stderr
    place.wait_for(lambda: place.cluster_resource()["status"]["topics"]["ready"] == 1, "the Cluster counts")
    get = place.api.kubectl("get", "tpc", place.name, "-n", place.shared_operator.namespace).stdout.splitlines()
    assert get[0].split("   ")[0] == "NAME"
    assert get[1].split()[:8] == [place.name, "3.9", "2", "1", "0", "1", "True", "Reachable"]
