"""The rights of the operator in the chart: its account with roles and bindings, split into single rights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from support.kubernetes.helm import Document, Values, render
from support.kubernetes.server import ApiServer
from topiarist.kubernetes.client import AccessRight

RELEASE = "topiarist"

NAMESPACED_ONLY: Values = {
    "crds": {"enabled": False},
    "admissionPolicies": {"enabled": False},
    "rbac": {"aggregate": False},
}
"""What it is rendered without: what there is one of for the whole API server, and people's roles."""

PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}
ROLES = ("Role", "ClusterRole")


def rbac_documents(namespace: str, values: Values | None = None) -> list[Document]:
    """Return the ServiceAccount with its roles and bindings, from the chart for a release with these values."""
    found = render({**(values or {}), **NAMESPACED_ONLY}, name=RELEASE, namespace=namespace)
    return [one for one in found if one["kind"] in PATHS]


def grant(server: ApiServer, given: Sequence[Document]) -> str:
    """Create an account with its roles and bindings, and return a token of the account."""
    api = server.admin
    for one in given:
        api.create_object(PATHS[one["kind"]].format(one["metadata"].get("namespace")), one)
    (account,) = (one["metadata"] for one in given if one["kind"] == "ServiceAccount")
    return api.request_token(account["namespace"], account["name"])


def split_verbs(right: AccessRight) -> Iterator[AccessRight]:
    """Return the rules split into one verb each."""
    for verb in right.verbs:
        yield right._replace(verbs=(verb,))


def granted_rights(documents: Sequence[Document]) -> Iterator[AccessRight]:
    """Return all rights of all roles, each with one verb."""
    for role in documents:
        if role["kind"] in ROLES:
            for rule in role["rules"]:
                yield from _rule_rights(rule, role["metadata"].get("namespace", ""))


def _rule_rights(rule: Document, namespace: str) -> Iterator[AccessRight]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for name in rule.get("resourceNames", ("",)):
                yield from split_verbs(AccessRight(group, resource, tuple(rule["verbs"]), namespace, name))


def without_right(documents: Sequence[Document], right: AccessRight) -> list[Document]:
    """Return the documents without one right, which has one verb. Raises ``ValueError`` if it is missing."""
    left = list(granted_rights(documents))
    left.remove(right)

    def rules(namespace: str) -> list[dict[str, Any]]:
        return [
            {"apiGroups": [each.group], "resources": [each.resource], "verbs": [*each.verbs]}
            | ({"resourceNames": [each.name]} if each.name else {})
            for each in left
            if each.namespace == namespace
        ]

    return [
        {**one, "rules": rules(one["metadata"].get("namespace", ""))} if one["kind"] in ROLES else one
        for one in documents
    ]
