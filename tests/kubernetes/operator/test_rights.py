"""The operator with the minimum of rights to namespaces and Secrets, and its messages about missing rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import make_digest_acl

from conftest import BROKERS
from integration.protected_cluster import ProtectedCluster
from kubernetes.fixtures.operator_fixture import OPERATOR_TIMEOUT_S, OperatorFixture
from kubernetes.fixtures.shared_operator_fixture import POLL_INTERVAL_S, SharedOperator, SharedOperatorFixture
from support.kubernetes.api_client import ApiClient
from support.kubernetes.operator_process import OperatorProcess
from support.kubernetes.server import ApiServer
from support.secret_scanner import assert_no_secrets_in_files, register_secret
from support.waiting import wait_until
from support.zookeeper.client import connect_client
from support.zookeeper.secured_server import SUPER, SecuredZooKeeper
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

ACCOUNT = "topiarist"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
USER = "kafka"
FIRST, SECOND = register_secret("planted-Larch1-first"), register_secret("planted-Larch2-second")


def grant(api: ApiClient, namespace: str, name: str, rule: Mapping[str, Any]) -> None:
    """Grant the operator's account one more right in its own namespace."""
    where = f"{RBAC}/namespaces/{namespace}/roles"
    api.create_object(where, {"metadata": {"name": name}, "rules": [rule]})
    api.create_object(
        where.removesuffix("s") + "bindings",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        },
    )


def test_some_namespaces_are_enough(
    server: ApiServer, zookeeper: EmbeddedZooKeeper, api: ApiClient, namespace: str, tmp_path: Path
) -> None:
    """The operator needs only Roles in the watched namespaces and read access to one definition.

    It serves the Topics there and reads no other namespace.
    """
    team, other = f"{namespace}-team", f"{namespace}-other"
    for name in (team, other):
        api.create_object("/api/v1/namespaces", {"metadata": {"name": name, "labels": {"team": "yes"}}})
    connect = f"{zookeeper.connect}/{namespace}"
    words = ("--period", "1", "--watch-namespace", team)
    with (
        SimulatedKafka(connect, BROKERS) as kafka,
        connect_client(connect) as client,
        OperatorProcess(server, namespace, tmp_path / "operator", *words) as operator,
    ):
        home, theirs, strange = (OperatorFixture(api, name, kafka, client) for name in (namespace, team, other))
        selector = {"from": "Selector", "selector": {"matchLabels": {"team": "yes"}}}
        home.declare_cluster(allowDeletion=True, allowedTopics=[{}, {"namespaces": selector}])
        home.wait_for_cluster_status()
        strange.declare_topic("strange")
        home.declare_topic("ours", deletionPolicy="Delete")
        theirs.declare_topic("theirs", deletionPolicy="Delete")
        home.wait_until_ready("ours")
        theirs.wait_until_ready("theirs")
        wait_until(
            lambda: "finalizers" in theirs.get_topic("theirs")["metadata"], "the finalizer", timeout=OPERATOR_TIMEOUT_S
        )
        theirs.delete_topic("theirs")
        wait_until(
            lambda: not theirs.get_topic("theirs"), "it has gone", timeout=OPERATOR_TIMEOUT_S, interval=POLL_INTERVAL_S
        )
        assert home.partition_count("theirs") == 0
        theirs.wait_for_events("theirs", "TopicCreated", "TopicDeleted")
        assert "status" not in strange.get_topic("strange")
        assert home.partition_count("strange") == 0
        log = operator.process.read_log()
    assert "Traceback" not in log, log
    assert "forbidden" not in log, log


def test_a_namespace_that_goes_takes_nobody_with_it(
    server: ApiServer, zookeeper: EmbeddedZooKeeper, api: ApiClient, namespace: str, tmp_path: Path
) -> None:
    """The Clusters, a metric and the log report a deleted watched namespace; once it exists again, it is served.

    A restart changes nothing, and a right missing in one namespace does not affect another namespace.
    """
    team, poor = f"{namespace}-team", f"{namespace}-poor"
    for name in (team, poor):
        api.create_object("/api/v1/namespaces", {"metadata": {"name": name}})
    connect = f"{zookeeper.connect}/{namespace}"
    words = ("--period", "1", "--watch-namespace", team, "--watch-namespace", poor)
    operator = OperatorProcess(server, namespace, tmp_path / "operator", *words)
    lost = f"{RBAC}/namespaces/{poor}/rolebindings"
    bindings = api.call("GET", lost).body["items"]
    for binding in bindings:
        assert api.call("DELETE", f"{lost}/{binding['metadata']['name']}").status == 200
    with SimulatedKafka(connect, BROKERS) as kafka, connect_client(connect) as client, operator:
        place = SharedOperatorFixture(
            SharedOperator(server, zookeeper, operator, namespace, tmp_path), api, namespace, kafka, client
        )
        theirs = place.in_namespace(team)

        def away() -> str:
            found = place.cluster_resource().get("status", {}).get("conditions", ())
            return next((each["message"] for each in found if each["type"] == "NamespaceAway"), "")

        place.declare_cluster()
        theirs.declare_topic("theirs")
        theirs.wait_until_ready("theirs")
        place.wait_for(lambda: f"{poor}: the operator's ServiceAccount may not " in away(), "the poor one is told")
        assert team not in away()
        remove(api, team)
        place.wait_for(lambda: f"{team}: there is no such namespace" in away(), "it is told")
        assert place.shared_operator.metric("topiarist_namespace_away", watched_namespace=team) == 1
        place.declare_topic("ours")
        place.wait_until_ready("ours")
        operator.process.stop()
        operator.start()
        place.declare_topic("ours", partitions=4)
        place.wait_until_ready("ours")
        assert place.partition_count("theirs") == 3
        api.create_object("/api/v1/namespaces", {"metadata": {"name": team}})
        theirs.declare_topic("theirs", partitions=5)
        theirs.wait_until_ready("theirs")
        for binding in bindings:
            plain = {key: binding[key] for key in ("roleRef", "subjects")}
            api.create_object(lost, {"metadata": {"name": binding["metadata"]["name"]}, **plain})
        place.wait_for(lambda: not away(), "nothing is away")
        assert place.shared_operator.metric("topiarist_namespace_away", watched_namespace=team) == 0
        log = operator.process.read_log()
    assert "Traceback" not in log, log
    assert "a watched namespace is unavailable" in log
    assert "a watched namespace is available again" in log


def remove(api: ApiClient, namespace: str) -> None:
    """Delete a namespace and its Topics as a controller manager does."""
    where = f"/api/v1/namespaces/{namespace}"
    for found in api.call("GET", f"/apis/topiarist.dev/v1/namespaces/{namespace}/topics").body["items"]:
        name = found["metadata"]["name"]
        assert api.call("DELETE", f"/apis/topiarist.dev/v1/namespaces/{namespace}/topics/{name}").status == 200
    assert api.call("DELETE", where).status == 200
    left = api.call("GET", where).body
    assert api.call("PUT", f"{where}/finalize", {**left, "spec": {"finalizers": []}}).status == 200
    wait_until(lambda: api.call("GET", where).status == 404, "the namespace has gone", timeout=OPERATOR_TIMEOUT_S)


@pytest.fixture
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    """Start a ZooKeeper that accepts every login and protects znodes by ACLs only."""
    with SecuredZooKeeper(tmp_path_factory.mktemp("secured")) as found:
        yield found


def keep(api: ApiClient, home: str, password: str) -> None:
    """Write a password into the Secret that the Cluster names."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"password": password}}
    found = api.call(
        "PATCH",
        f"/api/v1/namespaces/{home}/secrets/login?fieldManager=t&force=true",
        body,
        "application/apply-patch+yaml",
    )
    assert found.status in (200, 201), found


def test_secrets_are_rotated_without_a_restart(
    server: ApiServer, api: ApiClient, namespace: str, secured: SecuredZooKeeper, tmp_path: Path
) -> None:
    """The operator reports a missing Secret, and uses a new or changed Secret from the next pass on.

    No password appears in a log, a status or an Event.
    """
    folder = tmp_path / "operator"
    connect = f"{secured.connect}/{namespace}"
    with (
        SimulatedKafka(connect, BROKERS) as kafka,
        connect_client(connect) as client,
        OperatorProcess(server, namespace, folder, "--period", "1") as operator,
    ):
        for each in (kafka.client, client):
            each.add_auth("digest", SUPER)
        place = SharedOperatorFixture(
            SharedOperator(server, secured, operator, namespace, folder), api, namespace, kafka, client
        )
        protected = ProtectedCluster(secured, kafka)
        protected.protect(make_digest_acl(USER, FIRST, all=True))
        reference = {"secretKeyRef": {"name": "login", "key": "password"}}
        place.declare_cluster(zookeeper={"digest": {"username": USER, "password": reference}})
        place.declare_topic("orders")
        place.wait_for_cluster_conditions(Stalled=("True", "NoPermission"))  # to read the Secret
        rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["login"], "verbs": ["get"]}
        grant(api, namespace, "secrets", rule)
        place.wait_for_cluster_conditions(Stalled=("True", "CredentialsInvalid"))
        place.wait_for_conditions("orders", Stalled=("True", "CredentialsInvalid"))
        keep(api, namespace, FIRST)
        place.wait_until_ready("orders")
        place.wait_for_cluster_conditions(Ready=("True", "Reachable"))
        pid = operator.process.pid
        protected.protect(make_digest_acl(USER, SECOND, all=True))
        place.declare_topic("later")
        place.wait_for(
            lambda: place.topic_conditions("later").get("Stalled") == ("True", "NoPermission"),
            "the old one is of no use",
        )
        keep(api, namespace, SECOND)
        place.wait_until_ready("later", "orders")
        assert (operator.process.alive, operator.process.pid) == (True, pid)
        shown = str(place.cluster_resource()) + str(place.get_topic("later"))
        shown += str(api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events").body)
        assert FIRST not in shown
        assert SECOND not in shown
    assert_no_secrets_in_files(folder)
