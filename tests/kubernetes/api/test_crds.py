"""CustomResourceDefinitions on a real API server.

The tests check accepted and refused resources, messages, and agreement with the file schema.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubernetes.fixtures.resources import cluster, create, policy, replace, rule, topic
from support.builders import document
from support.kubernetes.api_client import ApiClient
from topiarist.kubernetes.reconciler import SyncState
from topiarist.schema import check

pytestmark = pytest.mark.core

LONG = ".".join(["a" * 62] * 4)
"""A name of 251 characters: valid for a resource, too long for a topic."""

CA = {"ca": {"secretKeyRef": {"name": "zookeeper", "key": "ca.crt"}}}
LOGIN = {"username": "topiarist", "password": {"secretKeyRef": {"name": "kafka", "key": "password"}}}
OAUTH = {
    "mechanism": "OAUTHBEARER",
    "tokenEndpoint": "https://login.example.com/token",
    "clientId": "topiarist",
    "clientSecret": LOGIN["password"],
    "ca": CA["ca"],
}
TEAM = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["shop"]}]}

TOPICS = "/apis/topiarist.dev/v1/namespaces/{}/topics"

GOOD = [
    topic(),
    topic(LONG, topicName="a"),
    topic(topicName="A_b.c"),
    topic(replicaAssignment=[[1, 2], [2, 1]], config={"min.insync.replicas": 2}),
    topic(replicaAssignment=[[1, 2], [2, 1], [1, 2]], partitions=3, replicationFactor=2),
    topic(clusterSelector={"matchLabels": {"env": "prod"}}, overrides=[{"clusters": ["a"], "partitions": 3}]),
    cluster(allowedTopics=[{"namespaces": {"from": "Selector", "selector": TEAM}, "names": ["shop.*"]}, {}]),
    cluster(adopt=["shop.*"], allowRisk=["Disruptive", "DataLoss"], allowDeletion=True, driftPolicy="Correct"),
    cluster(zookeeper={"connect": "zk1:2181", "tls": CA}, budgets={"changedShare": "20%"}),
    document("Cluster", kafka={"bootstrapServers": "b1:9092,[::1]:9092", "tls": CA, "requestTimeout": "1m"}),
    document("Cluster", kafka={"bootstrapServers": "b1:9092", "sasl": {"mechanism": "SCRAM-SHA-512", **LOGIN}}),
    document("Cluster", kafka={"bootstrapServers": "b1:9092", "sasl": OAUTH, "records": {"replicationFactor": 1}}),
    *(
        document("Cluster", kafka={"bootstrapServers": "b1:9092", "records": records})
        for records in ("None", {}, {"topic": "a.b"}, {"topic": "a", "transactionalId": "b", "replicationFactor": 1})
    ),
    *(
        document("Cluster", via=via, kafka={"bootstrapServers": "b1:9092"}, zookeeper={"connect": "zk1"})
        for via in ("Kafka", "ZooKeeper")
    ),
    policy(rule(name="a"), rule(name="b"), selector={"clusterSelector": {"matchLabels": {"env": "prod"}}}),
]
BAD = [
    (topic(topicName=".."), "reserved: . and .."),
    (topic(topicName="a b"), "should match '^[a-zA-Z0-9._-]+$'"),
    (topic(topicName="a" * 250), "spec.topicName: Too long: may not be more than 249"),
    (topic(clusters=["a"], clusterSelector={}), "clusters and clusterSelector exclude each other"),
    (topic(clusters=["a", "a"]), 'spec.clusters[1]: Duplicate value: "a"'),
    (topic(replicaAssignment=[[1, 1]]), "spec.replicaAssignment[0][1]: Duplicate value: 1"),
    (topic(partitions=0), "spec.partitions in body should be greater than or equal to 1"),
    (topic(overrides=[{"partitions": 3}]), "one of these is required: clusters, clusterSelector"),
    (topic(overrides=[{"clusters": ["a"], "clusterSelector": {}}]), "clusters and clusterSelector exclude each other"),
    (topic(ignore=["topicName"]), "should match '^(partitions|replicationFactor|"),
    (topic(mode="Maybe"), 'spec.mode: Unsupported value: "Maybe": supported values: "Enforce", "Observe"'),
    (topic(partition=3), 'unknown field "spec.partition"'),
    (cluster(zookeeper={"connect": "a b"}), "spec.zookeeper.connect in body should match"),
    (
        document("Cluster", kafka={"bootstrapServers": "a:1"}, zookeeper={"connect": "a"}),
        "found both kafka and zookeeper without via, wanted via: Kafka or via: ZooKeeper",
    ),
    (document("Cluster", kafka={"bootstrapServers": "a"}), "spec.kafka.bootstrapServers in body should match"),
    (document("Cluster", kafka={"bootstrapServers": "a:1", "sasl": {}}), "spec.kafka.sasl.mechanism: Required value"),
    (
        document("Cluster", kafka={"bootstrapServers": "a:1", "sasl": {"mechanism": "OAUTHBEARER", **LOGIN}}),
        "wanted token, or tokenEndpoint with clientId",
    ),
    (
        document("Cluster", kafka={"bootstrapServers": "a:1", "sasl": {"mechanism": "PLAIN", **LOGIN, "scope": "a"}}),
        "scope requires tokenEndpoint",
    ),
    (cluster(zookeeper={"tls": {"key": CA["ca"]}, "connect": "a"}), "key requires certificate"),
    (cluster(zookeeper={"tls": {"keyPassword": CA["ca"]}, "connect": "a"}), "keyPassword requires certificate"),
    (cluster(zookeeper={"tls": {"ca": {}}, "connect": "a"}), "spec.zookeeper.tls.ca: Invalid value"),
    (cluster(zookeeper={"tls": {"ca": {}}, "connect": "a"}), "wanted secretKeyRef: in a custom resource"),
    (
        cluster(zookeeper={"tls": {"ca": {**CA["ca"], "file": "ca.pem"}}, "connect": "a"}),
        'unknown field "spec.zookeeper.tls.ca.file"',
    ),
    (cluster(zookeeper={"sasl": {"username": "a"}, "connect": "a"}), "username requires password"),
    (cluster(kafkaVersion="4.5"), 'spec.kafkaVersion: Unsupported value: "4.5"'),
    (cluster(allowRisk=["Safe"]), 'spec.allowRisk[0]: Unsupported value: "Safe"'),
    (cluster(allowedTopics=[{"namespaces": {"from": "Selector"}}]), "wanted a selector with from: Selector"),
    (cluster(allowedTopics=[{"namespaces": {"selector": TEAM}}]), "wanted a selector with from: Selector"),
    (cluster(allowedTopics=[{"namespaces": {"from": "All", "selector": TEAM}}]), "wanted a selector with from: Sel"),
    (
        cluster(allowedTopics=[{"namespaces": {"from": "Selector", "selector": {}}}]),
        "allowedTopics[0].namespaces.selector in body should have at least 1 properties",
    ),
    *(
        (
            cluster(
                allowedTopics=[{"namespaces": {"from": "Selector", "selector": {"matchExpressions": [requirement]}}}]
            ),
            "wanted values with In and NotIn, and only with them",
        )
        for requirement in ({"key": "a", "operator": "In"}, {"key": "a", "operator": "Exists", "values": ["b"]})
    ),
    (policy(selector={}), "one of these is required: topics, matchLabels, clusters, clusterSelector"),
    (policy(selector={"clusters": ["a"], "clusterSelector": {"matchLabels": {"a": "b"}}}), "exclude each other"),
    (policy(rule(subject="Cluster")), 'spec.rules[0].subject: Unsupported value: "Cluster"'),
    (document("Policy"), "one of these is required: rules, limits"),
]
STRICTER = [
    (topic(replicaAssignment=[[1]], partitions=2), "partitions and replicaAssignment do not agree"),
    (topic(replicaAssignment=[[1]], replicationFactor=2), "replicationFactor and replicaAssignment do not agree"),
    (
        topic(overrides=[{"clusters": ["a"], "replicaAssignment": [[1]], "partitions": 2}]),
        "partitions and replicaAssignment do not agree",
    ),
    (topic(replicaAssignment="1:2,2:1"), 'must be of type array: "string"'),
    (topic(LONG), "which has at most 249 characters: give a shorter one"),
    (topic(topicName="__consumer.offsets"), "the name of an internal topic of Kafka, or one that its metrics cannot"),
    (document("Cluster", zookeeper={}), "kafka.bootstrapServers or zookeeper.connect is required, in the section"),
    (document("Cluster"), "kafka.bootstrapServers or zookeeper.connect is required"),
    (document("Cluster", kafka={}), "kafka.bootstrapServers or zookeeper.connect is required"),
    (document("Cluster", via="Kafka", zookeeper={"connect": "a"}), "is required, in the section that via names"),
    (document("Cluster", via="ZooKeeper", kafka={"bootstrapServers": "a:1"}), "is required, in the section that via"),
    (policy(rule(), rule()), 'spec.rules[1]: Duplicate value: {"name":"a"}'),
]
"""Errors that the file schema does not report: other parts of topiarist report them, or they are valid in a file."""


def words(value: Any) -> str:
    """Return a short name for a case."""
    return value[:40] if isinstance(value, str) else ""


@pytest.mark.parametrize("body", GOOD)
def test_what_is_good_is_taken(api: ApiClient, namespace: str, body: dict[str, Any]) -> None:
    """The API server and the schema both accept valid resources."""
    assert check.check(body, custom_resource=True) == []
    answer = create(api, namespace, body)
    assert answer.status == 201, answer.message


@pytest.mark.parametrize(("body", "message"), BAD, ids=words)
def test_what_is_wrong_is_refused(server_api: ApiClient, body: dict[str, Any], message: str) -> None:
    """The API server and the schema both refuse invalid resources, and the API server's message names the problem."""
    assert check.check(body, custom_resource=True)
    answer = create(server_api, "default", body, keep=False)
    assert answer.status in (400, 422), answer
    assert message in answer.message


@pytest.mark.parametrize(("body", "message"), STRICTER, ids=words)
def test_an_api_server_refuses_more(server_api: ApiClient, body: dict[str, Any], message: str) -> None:
    """The API server refuses some resources that the schema accepts in a file, so that the user sees the error at
    once.
    """
    answer = create(server_api, "default", body, keep=False)
    assert answer.status == 422, answer
    assert message in answer.message


NO_RECORDS = [
    *(False, True, 0, 1, 2, 0.5, -1, 10**30, "", "none", "None\n", [], ["None"], [1, 2]),
    *({"tpoic": "a"}, {"topic": "a", "tpoic": "b"}, {"topic": "a", "transactionalId": "b", "replicas": 1}),
    *({"topic": 1}, {"topic": ""}, {"topic": "a b"}, {"topic": ".."}),
    *({"replicationFactor": 0}, {"replicationFactor": "3"}, {"topic": {}}),
]


@pytest.mark.parametrize("records", NO_RECORDS, ids=lambda value: str(value)[:40])
def test_records_are_a_mapping_of_known_fields_or_none(server_api: ApiClient, records: Any) -> None:
    """Numbers, booleans, lists, other words, and mappings with an unknown field or a wrong value are refused, also
    without strict field validation.
    """
    body = document("Cluster", kafka={"bootstrapServers": "b1:9092", "records": records})
    assert check.check(body, custom_resource=True)
    answer = server_api.call("POST", "/apis/topiarist.dev/v1/namespaces/default/clusters?dryRun=All", body)
    assert answer.status == 422, answer
    assert "spec.kafka.records" in answer.message


TOKEN = {"file": "/var/run/secrets/kubernetes.io/serviceaccount/token"}


@pytest.mark.parametrize("reference", [TOKEN, {"env": "TOPIARIST_PASSWORD"}], ids=words)
@pytest.mark.parametrize(
    "path", ["sasl.password", "digest.password", "tls.ca", "tls.certificate", "tls.key", "tls.keyPassword"]
)
def test_no_file_and_no_variable_of_the_operator_can_be_named(
    server_api: ApiClient, path: str, reference: dict[str, str]
) -> None:
    """A reference to a file or a variable is refused, with strict field validation and without it.

    Without strict validation the API server drops the unknown field, and no valid reference remains.
    """
    scheme, _, name = path.partition(".")
    around = {"tls": {"certificate": CA["ca"]}}.get(scheme, {"username": "kafka"})
    body = cluster(zookeeper={"connect": "zk1:2181", scheme: {**around, name: reference}})
    (form,) = reference
    answer = create(server_api, "default", body, keep=False)
    assert f'unknown field "spec.zookeeper.{path}.{form}"' in answer.message
    lenient = server_api.call("POST", "/apis/topiarist.dev/v1/namespaces/default/clusters?dryRun=All", body)
    assert lenient.status == 422, lenient
    assert f"spec.zookeeper.{path}: Invalid value" in lenient.message
    assert "wanted secretKeyRef: in a custom resource a reference names a key of a Secret" in lenient.message


VALUES = [0, -1, 9223372036854775807, True, False, 0.5, 1e-7, "text", "", "10", "compact,delete"]
NO_VALUES = [[], [1], ["a", "b"], {}, {"a": 1}, "two\nlines", "a" * 65537]


@pytest.mark.parametrize("holder", ["config", "overrides", "defaults", "brokerConfig"])
def test_config_values_of_every_kind(api: ApiClient, namespace: str, holder: str) -> None:
    """Integers, booleans, fractions and text keep their values and types, also under unknown keys."""
    config = {f"vendor.key{index}": value for index, value in enumerate(VALUES)}
    answer = create(api, namespace, configured(holder, config))
    assert answer.status == 201, answer.message
    spec = answer.body["spec"]
    found = {"overrides": lambda: spec["overrides"][0]["config"], "defaults": lambda: spec["defaults"]["config"]}
    assert found.get(holder, lambda: spec[holder])() == config
    assert check.check(configured(holder, config)) == []


@pytest.mark.parametrize("holder", ["config", "overrides", "defaults", "brokerConfig"])
@pytest.mark.parametrize("value", NO_VALUES, ids=lambda value: str(value)[:20])
def test_lists_and_maps_are_no_config_values(server_api: ApiClient, holder: str, value: Any) -> None:
    """Lists, maps and multi-line text as config values are refused with the path of the key, in all places that accept
    configs.
    """
    answer = create(server_api, "default", configured(holder, {"retention.ms": value}), keep=False)
    assert answer.status == 422, answer
    assert "config.retention.ms" in answer.message.lower().replace("brokerconfig", "config")
    assert check.check(configured(holder, {"retention.ms": value}))


def configured(holder: str, config: dict[str, Any]) -> dict[str, Any]:
    """Return a document with configs in the place that ``holder`` names."""
    if holder == "config":
        return topic(config=config)
    if holder == "overrides":
        return topic(overrides=[{"clusters": ["a"], "config": config}])
    fields: dict[str, Any] = {holder: {"config": config} if holder == "defaults" else config}
    return cluster(**fields)


FEWER = "partitions can only grow: Kafka removes no partition"
RENAMED = "the topic's name cannot change: Kafka renames no topic"
UPDATES = [
    (topic(partitions=3), topic(partitions=4), None),
    (topic(partitions=3), topic(partitions=3, config={"retention.ms": 1}), None),
    (topic(partitions=3), topic(partitions=2), FEWER),
    (topic(partitions=3), topic(), None),
    (topic(), topic(partitions=1), None),
    (topic(partitions=2), topic(replicaAssignment=[[1], [2]]), None),
    (topic(partitions=3), topic(replicaAssignment=[[1], [2]]), FEWER),
    (topic(replicaAssignment=[[1], [2]]), topic(replicaAssignment=[[1], [2], [3]]), None),
    (topic(replicaAssignment=[[1], [2]]), topic(replicaAssignment=[[1]]), FEWER),
    (topic(replicaAssignment=[[1], [2]]), topic(partitions=1), FEWER),
    (topic(replicaAssignment=[[1], [2]]), topic(partitions=2), None),
    (topic(), topic(topicName="b"), RENAMED),
    (topic(), topic(topicName="a"), None),
    (topic(topicName="b"), topic(topicName="c"), RENAMED),
    (topic(topicName="b"), topic(), RENAMED),
    (topic(topicName="a"), topic(), None),
    (cluster(clusterId="a"), cluster(clusterId="b"), None),
]


@pytest.mark.parametrize(("before", "after", "message"), UPDATES)
def test_updates(
    api: ApiClient, namespace: str, before: dict[str, Any], after: dict[str, Any], message: str | None
) -> None:
    """Partitions only grow and a topic keeps its name.

    An explicit ``topicName`` equal to the present name changes nothing.
    """
    found = create(api, namespace, before)
    assert found.status == 201, found.message
    answer = replace(api, namespace, after, found)
    assert answer.status == (422 if message else 200), answer
    if message:
        assert message in answer.message
        assert answer.body["details"]["causes"][0]["reason"] == "FieldValueForbidden"


def test_fewer_partitions_have_a_way_out(api: ApiClient, namespace: str) -> None:
    """The message for fewer partitions names the solution: delete the resource, keep the topic, and create the resource
    with fewer partitions.
    """
    found = create(api, namespace, topic(partitions=3))
    refused = replace(api, namespace, topic(partitions=2), found)
    assert "delete this resource with deletionPolicy: Retain" in refused.message
    assert found.body["spec"]["deletionPolicy"] == "Retain"
    assert api.call("DELETE", f"{TOPICS.format(namespace)}/a").status == 200
    assert create(api, namespace, topic(partitions=2)).status == 201


def test_overrides_get_no_defaults(api: ApiClient, namespace: str) -> None:
    """The API server adds defaults to a spec and not to an override, where a default would replace the value of the
    spec.
    """
    spec = create(api, namespace, topic(mode="Observe", overrides=[{"clusters": ["a"]}])).body["spec"]
    assert spec["overrides"] == [{"clusters": ["a"]}]
    assert spec["mode"] == "Observe"
    assert spec["unmanagedConfig"] == "Keep"


def test_the_status_is_apart(api: ApiClient, namespace: str) -> None:
    """A write of the spec cannot change the status, a write of the status cannot change the spec, and the status is
    validated.
    """
    found = create(api, namespace, {**topic(partitions=3), "status": {"topicName": "b"}})
    assert "status" not in found.body
    where = f"{TOPICS.format(namespace)}/a/status?fieldManager=us&fieldValidation=Strict"
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Synced",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {
        "observedGeneration": 1,
        "topicName": "a",
        "conditions": [condition],
        "clusters": [{"name": "prod", "partitions": 3, "applied": {"config": {"retention.ms": "1"}}}],
    }
    body = {**topic(partitions=9), "status": status}
    answer = api.call("PATCH", where, {**body, "spec": {"partitions": 9}}, "application/apply-patch+yaml")
    assert answer.status == 200, answer
    assert (answer.body["status"], answer.body["spec"]["partitions"]) == (status, 3)
    wrong = {**body, "status": {**status, "conditions": [{**condition, "status": "Yes"}]}}
    assert api.call("PATCH", where, wrong, "application/apply-patch+yaml").status == 422


def test_every_state_of_a_topic_can_be_written(api: ApiClient, namespace: str) -> None:
    """The status accepts every ``SyncState`` and no other value."""
    create(api, namespace, topic())
    where = f"{TOPICS.format(namespace)}/a/status"
    for state, code in (*((state.value, 200) for state in SyncState), ("Lost", 422)):
        status = {"status": {"clusters": [{"name": "prod", "state": state}]}}
        assert api.call("PATCH", where, status, "application/merge-patch+json").status == code, state
