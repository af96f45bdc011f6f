"""The rights that the chart gives: enough for all that the operator does, and with any one fewer something fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import kopf
import pytest

from kubernetes.resources import cluster, create, path
from support.helm import Document, Values
from support.kube import ApiServer
from support.kubeapi import Api as Client
from support.operator import Operator, grant, rights
from support.waiting import wait_until
from topiarist.errors import TopiaristError
from topiarist.kubernetes.api import Api
from topiarist.kubernetes.lease import Lease, Terms
from topiarist.kubernetes.rights import require_rights

CASES: dict[str, Values] = {
    "everywhere": {"leaderElection": {"enabled": True}, "secretNames": ["zookeeper"]},
    "namespaces": {"watchNamespaces": ["payments", "search"]},
}
ROLES = ("Role", "ClusterRole")


class Right(NamedTuple):
    """One verb on one resource, in one role."""

    kind: str
    namespace: str
    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb}-{self.resource.replace('/', '-')}-{self.namespace or 'everywhere'}"


def each(documents: Sequence[Document]) -> Iterator[Right]:
    """All rights in all roles."""
    for role in documents:
        if role["kind"] in ROLES:
            for rule in role["rules"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        where = role["metadata"].get("namespace", "")
                        yield Right(role["kind"], where, rule["apiGroups"][0], resource, verb)


def less(documents: Sequence[Document], right: Right) -> list[Document]:
    """The same without one right."""

    def kept(role: Document) -> list[dict[str, Any]]:
        here = role["kind"] == right.kind and role["metadata"].get("namespace", "") == right.namespace
        found = []
        for rule in role["rules"]:
            for resource in rule["resources"]:
                taken = {right.verb} if here and resource == right.resource else set()
                if verbs := [verb for verb in rule["verbs"] if verb not in taken]:
                    found.append({**rule, "resources": [resource], "verbs": verbs})
        return found

    return [{**one, "rules": kept(one)} if one["kind"] in ROLES else one for one in documents]


BY_WORK = {("namespaces", "list"), ("namespaces", "watch"), ("secrets", "get")} | {
    ("leases", verb) for verb in ("create", "get", "update")
}
"""Rights that are not asked for at the start: tests of their own show what fails without."""

HOME = "home"
ASKED = [
    pytest.param(case, right, id=f"{case}-{right}")
    for case, values in CASES.items()
    for right in each(rights(HOME, values))
    if (right.resource, right.verb) not in BY_WORK
]


class Account:
    """An account in a namespace of the test's, with the rights of a case or with one fewer."""

    def __init__(self, server: ApiServer, namespace: str, case: str, without: Right | None = None) -> None:
        values = dict(CASES[case])
        self.namespace = namespace
        self.watched = tuple(f"{namespace}-{name}" for name in values.get("watchNamespaces", ()))
        for name in self.watched:
            server.admin.make("/api/v1/namespaces", {"metadata": {"name": name}})
        given = rights(namespace, {**values, "watchNamespaces": [*self.watched]})
        if without is not None:
            where = {"": "", HOME: namespace}.get(without.namespace, f"{namespace}-{without.namespace}")
            given = less(given, without._replace(namespace=where))
        self.token = grant(server, given)
        self._info = kopf.ConnectionInfo(server=server.url, ca_path=str(server.ca), token=self.token)

    def api(self) -> Api:
        """The operator's own client."""
        return Api(lambda: self._info)

    def missing(self) -> str:
        """What the operator says at its start that it may not; empty if there is nothing."""

        async def ask() -> None:
            async with self.api() as api:
                await require_rights(api, self.namespace, self.watched)

        try:
            asyncio.run(ask())
        except TopiaristError as error:
            return str(error.args[0])
        return ""


@pytest.mark.parametrize("case", CASES)
def test_the_rights_of_the_chart_are_enough_to_begin(server: ApiServer, namespace: str, case: str) -> None:
    """The operator misses none of those that it asks for."""
    account = Account(server, namespace, case)
    wait_until(lambda: account.missing() == "", "the roles have arrived")


@pytest.mark.parametrize(("case", "right"), ASKED)
def test_with_one_right_fewer_it_does_not_begin(server: ApiServer, namespace: str, case: str, right: Right) -> None:
    """And it names that right, and no other."""
    account = Account(server, namespace, case, right)
    where = {HOME: namespace}.get(right.namespace, f"{namespace}-{right.namespace}")
    if (right.kind, right.resource) == ("ClusterRole", "clusters") or right.resource == "policies" and not right.namespace:
        where = namespace  # it has to see them at home, and is given that everywhere
    place = f"in namespace {where}" if right.namespace or where == namespace else "in all namespaces"
    resource, _, part = right.resource.partition("/")
    wanted = f"may not: {right.verb} {resource}{'/' * bool(part)}{part}.{right.group} {place}"
    wait_until(lambda: account.missing().endswith(wanted), wanted)


def test_every_right_is_accounted_for() -> None:
    """Those that no question is asked about are those with a test of their own; each case has all of its rights tried."""
    found = {(right.resource, right.verb) for values in CASES.values() for right in each(rights(HOME, values))}
    assert {(param.values[1].resource, param.values[1].verb) for param in ASKED} | BY_WORK == found
