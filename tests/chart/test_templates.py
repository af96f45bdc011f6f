"""The rendered templates: arguments, hardening and names of the operator, its rights, and the effect of each switch."""

from __future__ import annotations

from typing import Any

import helm_python
import pytest

from support.kubernetes.helm import CHART, Document, documents_of_kind, only_document, render
from support.kubernetes.rbac import RELEASE, granted_rights, rbac_documents, split_verbs
from topiarist import __version__
from topiarist.cli.commands.operator import command
from topiarist.kubernetes.client import (
    IDENTITY_RIGHT,
    AccessRight,
    kafka_topic_rights,
    namespace_rights,
    required_rights,
)
from topiarist.schema.load import TOKENS_FOLDER

ALWAYS = {
    "ClusterRole": 4,
    "ClusterRoleBinding": 1,
    "CustomResourceDefinition": 3,
    "Deployment": 1,
    "Pod": 1,
    "Role": 1,
    "RoleBinding": 1,
    "Service": 1,
    "ServiceAccount": 1,
    "ValidatingAdmissionPolicy": 2,
    "ValidatingAdmissionPolicyBinding": 2,
}


def kinds(values: dict[str, Any]) -> dict[str, int]:
    """Return the number of documents of each kind."""
    found = [one["kind"] for one in render(values)]
    return {kind: found.count(kind) for kind in sorted(set(found))}


def pod(found: list[Document]) -> Document:
    """Return the pod of the operator."""
    template: Document = only_document(found, "Deployment")["spec"]["template"]
    return template


def test_helm_finds_nothing_to_complain_about(case: dict[str, Any]) -> None:
    """``helm lint --strict`` reports no warnings and no errors; the missing icon is information only."""
    said = helm_python.lint(CHART, case, strict=True, namespace="kafka")
    assert said["errors"] == []
    assert [each for each in said["messages"] if each["severity"] > 1] == []


def test_the_default_makes_this() -> None:
    """The default values render exactly these documents; a switch enables each optional document."""
    assert kinds({}) == ALWAYS


@pytest.mark.parametrize(
    ("values", "more"),
    [
        ({"serviceMonitor": {"enabled": True}}, {"ServiceMonitor": 1}),
        ({"prometheusRule": {"enabled": True}}, {"PrometheusRule": 1}),
        ({"dashboard": {"enabled": True}}, {"ConfigMap": 1}),
        ({"networkPolicy": {"enabled": True}}, {"NetworkPolicy": 1}),
        ({"podDisruptionBudget": {"enabled": True}}, {"PodDisruptionBudget": 1}),
        (
            {"owner": "k8s/a/b/c", "drift": {"enabled": True, "manifests": {"configMap": {"name": "topics"}}}},
            {"CronJob": 1},
        ),
        ({"clusters": {"prod": {"spec": {"zookeeper": {"connect": "zk:2181"}}}}}, {"Cluster": 1}),
        ({"watchNamespaces": ["a", "b"]}, {"Role": 3, "RoleBinding": 3}),
        ({"rbac": {"aggregate": False}}, {"ClusterRole": -3}),
        ({"rbac": {"create": False}}, {"ClusterRole": -1, "ClusterRoleBinding": -1, "Role": -1, "RoleBinding": -1}),
        ({"serviceAccount": {"create": False}}, {"ServiceAccount": -1}),
        ({"crds": {"enabled": False}}, {"CustomResourceDefinition": -3}),
        (
            {"admissionPolicies": {"enabled": False}},
            {"ValidatingAdmissionPolicy": -2, "ValidatingAdmissionPolicyBinding": -2},
        ),
    ],
    ids=lambda value: next(iter(value)),
)
def test_a_switch_brings_what_it_says(values: dict[str, Any], more: dict[str, int]) -> None:
    """Each switch adds exactly its documents."""
    wanted = {kind: ALWAYS.get(kind, 0) + more.get(kind, 0) for kind in {**ALWAYS, **more}}
    assert kinds(values) == {kind: number for kind, number in sorted(wanted.items()) if number}


def test_names_of_digits_stay_text(everything: dict[str, Any]) -> None:
    """Namespaces and releases with digits as names stay text, because no API server accepts a number there."""

    def numbers(value: Any, path: str = "") -> list[str]:
        if isinstance(value, dict):
            return [found for key, each in value.items() for found in numbers(each, f"{path}.{key}")]
        if isinstance(value, list):
            return [found for each in value for found in numbers(each, path)]
        return [path] if value in (2024, 2025, 2026) else []

    values = {**everything, "watchNamespaces": ["2026"]}
    assert [path for one in render(values, name="2024", namespace="2025") for path in numbers(one)] == []


def test_every_resource_says_whose_it_is(case: dict[str, Any]) -> None:
    """Every resource has the common labels and belongs to the namespace of the release, a watched namespace or none."""
    for one in render(case, name="prod"):
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "topiarist", one["metadata"]
        assert labels["app.kubernetes.io/instance"] == "prod"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels.get("cost-centre") == case.get("commonLabels", {}).get("cost-centre")
        assert one["metadata"].get("namespace") in (None, "kafka", *case.get("watchNamespaces", ()))


def test_two_releases_are_in_nobodys_way() -> None:
    """Two releases of one name in two namespaces do not conflict, if the second has no cluster-wide documents."""
    only_once: dict[str, Any] = {"crds": {"enabled": False}, "admissionPolicies": {"enabled": False}}

    def names(namespace: str) -> set[tuple[str, ...]]:
        found = (one for one in render(only_once, namespace=namespace))
        return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in found}

    assert not names("one") & names("two")


def test_the_operator_takes_the_arguments(case: dict[str, Any]) -> None:
    """The command line parses the arguments of the Deployment with the meaning of the values."""
    words = pod(render(case, name="prod"))["spec"]["containers"][0]["args"]
    assert words[0] == "operator"
    found = command.make_context("operator", words[1:]).params
    wanted = {
        "namespace": None,
        "release": case.get("release", "prod"),
        "namespaces": tuple(case.get("watchNamespaces", ())),
        "leader_election": case.get("leaderElection", {}).get("enabled", False),
        "listen": ("", 8080),
        "period": 45.0 if "extraArgs" in case else 60.0,
    }
    assert {key: found[key] for key in wanted} == wanted


def test_one_pod_ends_before_the_next_begins(everything: dict[str, Any]) -> None:
    """The old pod ends before the new pod starts, unless a Lease separates them."""
    assert only_document(render(), "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    found = only_document(render(everything), "Deployment")["spec"]
    assert (found["replicas"], found["strategy"]["type"]) == (2, "RollingUpdate")


def test_pods_are_hardened(case: dict[str, Any]) -> None:
    """The pods of the operator and of helm test have no root and no writable files; only the operator has a token."""
    found = render(case)
    for spec, token in ((pod(found)["spec"], True), (only_document(found, "Pod")["spec"], False)):
        assert spec["automountServiceAccountToken"] is token
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 65532
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"requests", "limits"} == set(container["resources"])
    assert pod(found)["spec"]["volumes"][0] == {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}
    assert all(one["automountServiceAccountToken"] is False for one in documents_of_kind(found, "ServiceAccount"))


def test_a_digest_counts_more_than_a_tag() -> None:
    """A digest overrides a tag, and the default is the release of the chart."""

    def image(**values: str) -> str:
        (container,) = pod(render({"image": values}))["spec"]["containers"]
        return str(container["image"])

    digest = f"sha256:{64 * 'a'}"
    assert image() == f"topiarist:{__version__}"
    assert image(repository="example.com/a", tag="b") == "example.com/a:b"
    assert image(repository="example.com/a", tag="b", digest=digest) == f"example.com/a@{digest}"


def test_tokens_for_brokers_are_projected(everything: dict[str, Any]) -> None:
    """Each is a file of its name in the one folder that a Cluster may name; without any, nothing is mounted."""
    found = pod(render(everything))["spec"]
    (mount,) = [each for each in found["containers"][0]["volumeMounts"] if each["name"] == "tokens"]
    assert mount == {"name": "tokens", "mountPath": TOKENS_FOLDER, "readOnly": True}
    (volume,) = [each for each in found["volumes"] if each["name"] == "tokens"]
    tokens = [each["serviceAccountToken"] for each in volume["projected"]["sources"]]
    assert tokens == [
        {"path": "kafka", "audience": "kafka", "expirationSeconds": 3600},
        {"path": "msk", "audience": "msk.example", "expirationSeconds": 600},
    ]
    assert "tokens" not in [each["name"] for each in pod(render({}))["spec"]["volumes"]]


def test_what_people_add_is_added(everything: dict[str, Any]) -> None:
    """Each value that Kubernetes defines is rendered unchanged."""
    found = pod(render(everything))
    spec, (container,) = found["spec"], found["spec"]["containers"]
    for key in ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "priorityClassName"):
        assert spec[key] == everything[key]
    assert spec["volumes"][2:] == everything["extraVolumes"]
    assert spec["imagePullSecrets"] == everything["imagePullSecrets"]
    assert container["volumeMounts"][2:] == everything["extraVolumeMounts"]
    assert container["env"] == everything["extraEnv"]
    assert container["envFrom"] == everything["extraEnvFrom"]
    assert everything["podLabels"].items() <= found["metadata"]["labels"].items()
    assert {"example.com/note": "pod"}.items() <= found["metadata"]["annotations"].items()
    assert only_document(render(everything), "Deployment")["metadata"]["annotations"] == {
        "example.com/note": "deployment"
    }


def test_selectors_find_the_pods(everything: dict[str, Any]) -> None:
    """The selectors of Deployment, Service, PodDisruptionBudget and NetworkPolicy match only their pods."""
    found = render(everything)
    labels = pod(found)["metadata"]["labels"]
    other = only_document(found, "Pod")["metadata"]["labels"]
    selectors = [
        only_document(found, "Deployment")["spec"]["selector"]["matchLabels"],
        only_document(found, "Service")["spec"]["selector"],
        only_document(found, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        only_document(found, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= labels.items()
        assert not selector.items() <= other.items()
    service = only_document(found, "Service")["metadata"]["labels"]
    assert only_document(found, "ServiceMonitor")["spec"]["selector"]["matchLabels"].items() <= service.items()


def test_the_network_policy_knows_the_clusters(everything: dict[str, Any]) -> None:
    """The NetworkPolicy allows the ports of brokers, of token endpoints and of the connect strings (or ZooKeeper's
    default port), and the pod of helm test.
    """
    spec = only_document(render(everything), "NetworkPolicy")["spec"]
    ports = [[each["port"] for each in rule["ports"]] for rule in spec["egress"]]
    assert ports == [[53, 53], [443, 6443], [9092, 9093, 9094, 9095, 9098], [8443], [2181, 2182, 2281], [4317]]
    assert spec["egress"][2]["to"] == everything["networkPolicy"]["kafkaTo"]
    assert "to" not in spec["egress"][3]
    assert spec["egress"][4]["to"] == everything["networkPolicy"]["zookeeperTo"]
    (ingress,) = spec["ingress"]
    assert ingress["from"][1]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "test"


def test_helm_test_asks_a_release(everything: dict[str, Any]) -> None:
    """helm test sends a request to the name and port of the Service, with valid Python code."""
    found = render(everything, name="prod")
    _, _, program, url = only_document(found, "Pod")["spec"]["containers"][0]["command"]
    compile(program, "helm test", "exec")
    service = only_document(found, "Service")
    assert url == f"http://{service['metadata']['name']}.kafka.svc:{service['spec']['ports'][0]['port']}"


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
