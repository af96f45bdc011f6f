"""With no more rights than it needs: of namespaces, of Secrets; and what it says where one is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import make_digest_acl

from conftest import BROKERS
from integration.protected import Protected
from kubernetes.estate import PAUSE, Estate, Place
from kubernetes.scene import PATIENCE, Scene
from support.clients import connected
from support.kube import ApiServer
from support.kubeapi import Api
from support.operator import Operator
from support.planted import files_must_be_clean, plant
from support.secured import SUPER, SecuredZooKeeper
from support.waiting import wait_until
from topiarist.adapters.embedded import EmbeddedZooKeeper
from topiarist.adapters.playground import Playground

ACCOUNT = "topiarist"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
USER = "kafka"
FIRST, SECOND = plant("planted-Larch1-first"), plant("planted-Larch2-second")


def grant(api: Api, namespace: str, name: str, rule: Mapping[str, Any]) -> None:
    """Give the operator's account one more right in its own namespace."""
    where = f"{RBAC}/namespaces/{namespace}/roles"
    api.make(where, {"metadata": {"name": name}, "rules": [rule]})
    api.make(
        where.removesuffix("s") + "bindings",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        },
    )


def test_some_namespaces_are_enough(
    server: ApiServer, zookeeper: EmbeddedZooKeeper, api: Api, namespace: str, tmp_path: Path
) -> None:
    """With Roles in those that are watched, and beside them no more than a look at one definition: Topics of these are
    served, a namespace that is not watched is not even looked at.
    """
    team, other = f"{namespace}-team", f"{namespace}-other"
    for name in (team, other):
        api.make("/api/v1/namespaces", {"metadata": {"name": name, "labels": {"team": "yes"}}})
    connect = f"{zookeeper.connect}/{namespace}"
    words = ("--period", "1", "--watch-namespace", team)
    with (
        Playground(connect, BROKERS) as kafka,
        connected(connect) as client,
        Operator(server, namespace, tmp_path / "operator", *words) as operator,
    ):
        home, theirs, strange = (Scene(api, name, kafka, client) for name in (namespace, team, other))
        selector = {"from": "Selector", "selector": {"matchLabels": {"team": "yes"}}}
        home.cluster(allowDeletion=True, allowedTopics=[{}, {"namespaces": selector}])
        home.until_seen()
        strange.topic("strange")
        home.topic("ours", deletionPolicy="Delete")
        theirs.topic("theirs", deletionPolicy="Delete")
        home.until_ready("ours")
        theirs.until_ready("theirs")
        wait_until(lambda: "finalizers" in theirs.found("theirs")["metadata"], "the finalizer", patience=PATIENCE)
        theirs.delete("theirs")
        wait_until(lambda: not theirs.found("theirs"), "it has gone", patience=PATIENCE, pause=PAUSE)
        assert home.partitions("theirs") == 0
        theirs.until_events("theirs", "TopicCreated", "TopicDeleted")
        assert "status" not in strange.found("strange")
        assert home.partitions("strange") == 0
        log = operator.process.log()
    assert "Traceback" not in log, log
    assert "forbidden" not in log, log


def test_a_namespace_that_goes_takes_nobody_with_it(
    server: ApiServer, zookeeper: EmbeddedZooKeeper, api: Api, namespace: str, tmp_path: Path
) -> None:
    """It is told by the Clusters, a metric and the log, and served again when it is back; a restart is none the worse
    for it, and neither is one namespace for a right that is missing in another.
    """
    team, poor = f"{namespace}-team", f"{namespace}-poor"
    for name in (team, poor):
        api.make("/api/v1/namespaces", {"metadata": {"name": name}})
    connect = f"{zookeeper.connect}/{namespace}"
    words = ("--period", "1", "--relist", "1", "--watch-namespace", team, "--watch-namespace", poor)
    operator = Operator(server, namespace, tmp_path / "operator", *words)
    lost = f"{RBAC}/namespaces/{poor}/rolebindings"
    bindings = api.call("GET", lost).body["items"]
    for binding in bindings:
        assert api.call("DELETE", f"{lost}/{binding['metadata']['name']}").status == 200
    with Playground(connect, BROKERS) as kafka, connected(connect) as client, operator:
        place = Place(Estate(server, zookeeper, operator, namespace, tmp_path), api, namespace, kafka, client)
        theirs = place.elsewhere(team)

        def away() -> str:
            found = place.own().get("status", {}).get("conditions", ())
            return next((each["message"] for each in found if each["type"] == "NamespaceAway"), "")

        place.cluster()
        theirs.topic("theirs")
        theirs.until_ready("theirs")
        place.wait(lambda: f"{poor}: the operator's ServiceAccount may not " in away(), "the poor one is told")
        assert team not in away()
        remove(api, team)
        place.wait(lambda: f"{team}: there is no such namespace" in away(), "it is told")
        assert place.estate.figure("topiarist_namespace_away", namespace=team) == 1
        place.topic("ours")
        place.until_ready("ours")
        operator.process.stop()
        operator.start()
        place.topic("ours", partitions=4)
        place.until_ready("ours")
        assert place.partitions("theirs") == 3
        api.make("/api/v1/namespaces", {"metadata": {"name": team}})
        theirs.topic("theirs", partitions=5)
        theirs.until_ready("theirs")
        for binding in bindings:
            plain = {key: binding[key] for key in ("roleRef", "subjects")}
            api.make(lost, {"metadata": {"name": binding["metadata"]["name"]}, **plain})
        place.wait(lambda: not away(), "nothing is away")
        assert place.estate.figure("topiarist_namespace_away", namespace=team) == 0
        log = operator.process.log()
    assert "Traceback" not in log, log
    assert "a watched namespace is away" in log
    assert "a watched namespace is back" in log


def remove(api: Api, namespace: str) -> None:
    """Delete a namespace as a controller manager would, with the Topics in it."""
    where = f"/api/v1/namespaces/{namespace}"
    for found in api.call("GET", f"/apis/topiarist.dev/v1/namespaces/{namespace}/topics").body["items"]:
        name = found["metadata"]["name"]
        assert api.call("DELETE", f"/apis/topiarist.dev/v1/namespaces/{namespace}/topics/{name}").status == 200
    assert api.call("DELETE", where).status == 200
    left = api.call("GET", where).body
    assert api.call("PUT", f"{where}/finalize", {**left, "spec": {"finalizers": []}}).status == 200
    wait_until(lambda: api.call("GET", where).status == 404, "the namespace has gone", patience=PATIENCE)


@pytest.fixture
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    """A ZooKeeper that lets everybody in and leaves the rest to ACLs."""
    with SecuredZooKeeper(tmp_path_factory.mktemp("secured")) as found:
        yield found


def keep(api: Api, home: str, password: str) -> None:
    """Put a password into the Secret that the Cluster names."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"password": password}}
    found = api.call(
        "PATCH",
        f"/api/v1/namespaces/{home}/secrets/login?fieldManager=t&force=true",
        body,
        "application/apply-patch+yaml",
    )
    assert found.status in (200, 201), found


def test_secrets_are_rotated_without_a_restart(
    server: ApiServer, api: Api, namespace: str, secured: SecuredZooKeeper, tmp_path: Path
) -> None:
    """A Secret that is missing is named; one that comes, and one that changes, counts from the next pass on. None of
    them turns up in a log, a status or an Event.
    """
    folder = tmp_path / "operator"
    connect = f"{secured.connect}/{namespace}"
    with (
        Playground(connect, BROKERS) as kafka,
        connected(connect) as client,
        Operator(server, namespace, folder, "--period", "1") as operator,
    ):
        for each in (kafka.client, client):
            each.add_auth("digest", SUPER)
        place = Place(Estate(server, secured, operator, namespace, folder), api, namespace, kafka, client)
        protected = Protected(secured, kafka)
        protected.protect(make_digest_acl(USER, FIRST, all=True))
        reference = {"secretKeyRef": {"name": "login", "key": "password"}}
        place.cluster(zookeeper={"digest": {"username": USER, "password": reference}})
        place.topic("orders")
        place.until_own(Stalled=("True", "NoPermission"))  # to read the Secret
        rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["login"], "verbs": ["get"]}
        grant(api, namespace, "secrets", rule)
        place.until_own(Stalled=("True", "CredentialsInvalid"))
        place.until("orders", Stalled=("True", "CredentialsInvalid"))
        keep(api, namespace, FIRST)
        place.until_ready("orders")
        place.until_own(Ready=("True", "Reachable"))
        pid = operator.process.pid
        protected.protect(make_digest_acl(USER, SECOND, all=True))
        place.topic("later")
        place.wait(
            lambda: place.conditions("later").get("Stalled") == ("True", "NoPermission"), "the old one is of no use"
        )
        keep(api, namespace, SECOND)
        place.until_ready("later", "orders")
        assert (operator.process.alive, operator.process.pid) == (True, pid)
        shown = str(place.own()) + str(place.found("later"))
        shown += str(api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events").body)
        assert FIRST not in shown
        assert SECOND not in shown
    files_must_be_clean(folder)
