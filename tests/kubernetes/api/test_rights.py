"""The RBAC rights of the chart: sufficient for the operator, and every single right is necessary."""

from __future__ import annotations

import asyncio

import kopf
import pytest

from support.kubernetes.helm import Document, Values
from support.kubernetes.rbac import RELEASE, grant, granted_rights, rbac_documents, split_verbs, without_right
from support.kubernetes.server import ApiServer
from support.waiting import wait_until
from topiarist.errors import TopiaristError
from topiarist.kubernetes.client import AccessRight, KubernetesClient, namespace_rights, require_rights, required_rights

PATIENCE = 120.0
HOME, OTHER = "home", "other"
EVERYWHERE: Values = {"leaderElection": {"enabled": True}}
CASES = [
    *(
        pytest.param((), right)
        for several in required_rights(HOME, (), lease=RELEASE)
        for right in split_verbs(several)
    ),
    *(pytest.param((OTHER,), right) for several in namespace_rights(OTHER) for right in split_verbs(several)),
]
"""All rights of an operator that watches all namespaces, and the rights in one watched namespace of an operator that
does not.
"""


class Account:
    """An account with some rights, and the operator's check for missing rights."""

    def __init__(self, server: ApiServer, documents: list[Document], asked: list[AccessRight]) -> None:
        self._asked = asked
        self._info = kopf.ConnectionInfo(server=server.url, ca_path=str(server.ca), token=grant(server, documents))

    def missing(self) -> str:
        """Return the error of the check at the operator's start, or an empty text."""

        async def ask() -> None:
            async with KubernetesClient(lambda: self._info) as api:
                await require_rights(api, self._asked)

        try:
            asyncio.run(ask())
        except TopiaristError as error:
            return error.message
        return ""


def everything(home: str, others: list[str]) -> list[AccessRight]:
    """Return all rights that the operator checks if it watches its own namespace and ``others``.

    No ``others`` means all namespaces.
    """
    beside = [right for name in others for right in namespace_rights(name)]
    return [*required_rights(home, [*others, home] if others else (), lease=RELEASE), *beside]


@pytest.mark.parametrize("watched", [(), (OTHER,)], ids=["everywhere", "namespaces"])
def test_the_rights_of_the_chart_are_enough_to_begin(
    server: ApiServer, namespace: str, watched: tuple[str, ...]
) -> None:
    """The chart grants every right that the operator checks."""
    names = [f"{namespace}-{name}" for name in watched]
    for name in names:
        server.admin.create_object("/api/v1/namespaces", {"metadata": {"name": name}})
    asked = everything(namespace, names)
    account = Account(server, rbac_documents(namespace, {**EVERYWHERE, "watchNamespaces": names}), asked)
    wait_until(lambda: account.missing() == "", "the roles have arrived", timeout=PATIENCE)


@pytest.mark.parametrize(("watched", "right"), CASES, ids=str)
def test_with_one_right_fewer_it_does_not_begin(
    server: ApiServer, namespace: str, watched: tuple[str, ...], right: AccessRight
) -> None:
    """Without one right the operator does not start, and its error names exactly that right."""

    def here(name: str) -> str:
        return {"": "", HOME: namespace}.get(name, f"{namespace}-{name}")

    names = [here(name) for name in watched]
    for name in names:
        server.admin.create_object("/api/v1/namespaces", {"metadata": {"name": name}})
    right = right._replace(namespace=here(right.namespace))
    if right.name == OTHER:
        right = right._replace(name=here(OTHER))
    whole = rbac_documents(namespace, {**EVERYWHERE, "watchNamespaces": names})
    # The right to read a namespace is in a ClusterRole, without a namespace.
    said = right._replace(namespace="") if right.name == here(OTHER) else right
    assert said in set(granted_rights(whole))
    account = Account(server, without_right(whole, said), everything(namespace, names))
    wait_until(
        lambda: account.missing() == f"the operator's ServiceAccount may not: {right}",
        f"only this is missing: {right}",
        timeout=PATIENCE,
    )
