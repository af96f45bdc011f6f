"""Who may do what: no wildcards, no Secrets but those that are named, nothing outside the namespaces that are watched."""

from __future__ import annotations

from typing import Any

from support.helm import Document, of_kind, render

CLUSTER = {"prod": {"spec": {"zookeeper": {"connect": "zk:2181"}}}}


def rules(found: list[Document]) -> list[dict[str, Any]]:
    """All rules of all roles."""
    return [rule for kind in ("Role", "ClusterRole") for one in of_kind(found, kind) for rule in one["rules"]]


def test_nothing_is_a_wildcard(case: dict[str, Any]) -> None:
    """No verb, resource or group; and no role can make itself larger."""
    for rule in rules(render(case)):
        assert rule["verbs"]
        assert rule["resources"]
        words = {*rule["verbs"], *rule["resources"], *rule["apiGroups"]}
        assert not words & {"*", "escalate", "bind", "impersonate", "rbac.authorization.k8s.io"}, rule


def test_secrets_are_read_by_name_alone(everything: dict[str, Any]) -> None:
    """Those that clusters name, at any depth, and those of the list; without any there is no such right.

    A rule with an empty list of names would be one for all Secrets.
    """
    (rule,) = [rule for rule in rules(render(everything)) if "secrets" in rule["resources"]]
    assert rule["resourceNames"] == ["other", "zookeeper", "zookeeper-tls"]
    assert rule["verbs"] == ["get"]
    for values in ({}, {"clusters": CLUSTER}, {"watchNamespaces": ["a"]}):
        assert not [rule for rule in rules(render(values)) if "secrets" in rule["resources"]]


def test_secrets_and_leases_are_those_of_the_release(everything: dict[str, Any]) -> None:
    """Rights on them are given in its own namespace, by a Role."""
    for one in render(everything):
        named = {resource for rule in one.get("rules", ()) for resource in rule.get("resources", ())}
        if one["kind"].endswith("Role") and named & {"secrets", "leases"}:
            assert (one["kind"], one["metadata"]["namespace"]) == ("Role", "kafka")


def test_the_lease_is_known_by_name(everything: dict[str, Any]) -> None:
    """All but its creation, of which the name cannot be said; without election there is no right at all."""
    found = [rule for rule in rules(render(everything)) if rule["resources"] == ["leases"]]
    assert [(rule["verbs"], rule.get("resourceNames")) for rule in found] == [
        (["create"], None),
        (["get", "update"], ["kept"]),
    ]
    assert not [rule for rule in rules(render()) if "leases" in rule["resources"]]


def test_only_the_named_namespaces_are_touched() -> None:
    """With ``watchNamespaces`` there is a Role in each of them, and no ClusterRole for the operator."""
    found = render({"watchNamespaces": ["a", "b"], "rbac": {"aggregate": False}})
    assert not of_kind(found, "ClusterRole")
    assert not of_kind(found, "ClusterRoleBinding")
    assert [one["metadata"]["namespace"] for one in of_kind(found, "Role")] == ["kafka", "a", "b"]
    for role, binding in zip(of_kind(found, "Role"), of_kind(found, "RoleBinding"), strict=True):
        assert binding["metadata"]["namespace"] == role["metadata"]["namespace"]
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "topiarist", "namespace": "kafka"}]


def test_people_get_what_their_role_says() -> None:
    """view reads, edit writes Topics, admin Clusters and Policies: on top of one another, as Kubernetes has them."""
    label = "rbac.authorization.k8s.io/aggregate-to-"
    found = {
        name.removeprefix(label): one["rules"]
        for one in of_kind(render(), "ClusterRole")
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
