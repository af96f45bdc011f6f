"""The rights of the chart: no wildcards, only named Secrets, exactly the requests of the operator."""

from __future__ import annotations

from typing import Any

import pytest

from support.kubernetes.helm import Document, documents_of_kind, render
from support.kubernetes.rbac import RELEASE, granted_rights, rbac_documents, split_verbs
from topiarist.kubernetes.client import (
    IDENTITY_RIGHT,
    AccessRight,
    kafka_topic_rights,
    namespace_rights,
    required_rights,
)

CLUSTER = {"prod": {"spec": {"zookeeper": {"connect": "zk:2181"}}}}


def rules(found: list[Document]) -> list[dict[str, Any]]:
    """Return all rules of all roles."""
    return [rule for kind in ("Role", "ClusterRole") for one in documents_of_kind(found, kind) for rule in one["rules"]]


def test_nothing_is_a_wildcard(case: dict[str, Any]) -> None:
    """No verb, resource or group is a wildcard, and no role can extend itself."""
    for rule in rules(render(case)):
        assert rule["verbs"]
        assert rule["resources"]
        words = {*rule["verbs"], *rule["resources"], *rule["apiGroups"]}
        assert not words & {"*", "escalate", "bind", "impersonate", "rbac.authorization.k8s.io"}, rule


def test_secrets_are_read_by_name_alone(everything: dict[str, Any]) -> None:
    """The operator may read the Secrets of the clusters, at any depth, and of the list; without any there is no rule.

    A rule with an empty list of names applies to all Secrets.
    """
    (rule,) = [rule for rule in rules(render(everything)) if "secrets" in rule["resources"]]
    logins = ["cloud", "cloud-ca", "cloud-user", "kafka", "kafka-tls"]
    assert rule["resourceNames"] == [*logins, "other", "realm", "zookeeper", "zookeeper-tls"]
    assert rule["verbs"] == ["get"]
    for values in ({}, {"clusters": CLUSTER}, {"watchNamespaces": ["a"]}):
        assert not [rule for rule in rules(render(values)) if "secrets" in rule["resources"]]


def test_secrets_and_leases_are_those_of_the_release(everything: dict[str, Any]) -> None:
    """A Role in the namespace of the release grants the rights on Secrets and Leases."""
    for one in render(everything):
        named = {resource for rule in one.get("rules", ()) for resource in rule.get("resources", ())}
        if one["kind"].endswith("Role") and named & {"secrets", "leases"}:
            assert (one["kind"], one["metadata"]["namespace"]) == ("Role", "kafka")


@pytest.mark.parametrize(
    ("values", "watched", "lease"),
    [
        ({}, (), ""),
        ({"leaderElection": {"enabled": True}, "secretNames": ["zookeeper"]}, (), RELEASE),
        ({"leaderElection": {"enabled": True}, "release": "blue"}, (), "blue"),
        ({"watchNamespaces": ["payments", "kafka"]}, ("payments", "kafka"), ""),
        ({"kafkaTopics": {"enabled": True}}, (), ""),
        ({"kafkaTopics": {"enabled": True}, "watchNamespaces": ["payments"]}, ("payments", "kafka"), ""),
        ({"watchNamespaces": ["payments", "search"]}, ("payments", "search", "kafka"), ""),
    ],
    ids=str,
)
def test_the_operator_gets_what_it_asks_for(values: dict[str, Any], watched: tuple[str, ...], lease: str) -> None:
    """The operator has exactly the rights that it checks at its start and read access to the named Secrets."""
    beside = [right for name in watched if name != "kafka" for right in namespace_rights(name)]
    whole = [*required_rights("kafka", watched, lease=lease), *beside, *([IDENTITY_RIGHT] if watched else [])]
    asked = {
        each._replace(namespace="") if each.resource == "namespaces" else each  # a Role cannot grant rights on them
        for right in whole
        for each in split_verbs(right)
    }
    secrets = {AccessRight("", "secrets", ("get",), "kafka", name) for name in values.get("secretNames", ())}
    if "kafkaTopics" in values:
        asked |= {each for right in kafka_topic_rights(watched) for each in split_verbs(right)}
    assert set(granted_rights(rbac_documents("kafka", values))) == asked | secrets


def test_roles_are_bound_where_they_are() -> None:
    """Each role is bound in its own namespace to the operator's account."""
    for values in ({}, {"watchNamespaces": ["a", "b"]}):
        found = rbac_documents("kafka", values)
        for kind in ("Role", "ClusterRole"):
            bound = {
                (one["metadata"].get("namespace"), one["roleRef"]["name"]): one["subjects"]
                for one in documents_of_kind(found, f"{kind}Binding")
                if one["roleRef"]["kind"] == kind
            }
            roles = {
                (one["metadata"].get("namespace"), one["metadata"]["name"]) for one in documents_of_kind(found, kind)
            }
            assert set(bound) == roles
            for subjects in bound.values():
                assert subjects == [{"kind": "ServiceAccount", "name": "topiarist", "namespace": "kafka"}]


def test_people_get_what_their_role_says() -> None:
    """view reads, edit also writes Topics, and admin also writes Clusters and Policies, as aggregated roles."""
    label = "rbac.authorization.k8s.io/aggregate-to-"
    found = {
        name.removeprefix(label): one["rules"]
        for one in documents_of_kind(render(), "ClusterRole")
        for name in one["metadata"]["labels"]
        if name.startswith(label)
    }
    write = ["create", "update", "patch", "delete", "deletecollection"]
    read = ["get", "list", "watch"]
    assert {to: [(rule["resources"], rule["verbs"]) for rule in given] for to, given in found.items()} == {
        "view": [(["topics", "clusters", "policies"], read)],
        "edit": [(["topics"], write)],
        "admin": [(["clusters", "policies"], write)],
    }
