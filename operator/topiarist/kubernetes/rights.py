"""What the operator may do, asked before it works: a missing right is named then, not met in the middle of work.

What one watched namespace lacks keeps the others from nothing: ``places`` asks for it there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from topiarist import schema
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api import Api


class Right(NamedTuple):
    """Verbs on a kind of object: in a namespace (empty: in all), on one object only if it has a ``name``."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        what = f"{'/'.join(self.verbs)} {self.resource}{'.' * bool(self.group)}{self.group}"
        named = f" {self.name}" if self.name else ""
        return f"{what}{named} in {f'namespace {self.namespace}' if self.namespace else 'all namespaces'}"


IDENTITY = Right("", "namespaces", ("get",), "kube-system", "kube-system")
"""What an operator needs to find out in which Kubernetes cluster it is."""


def wanted(home: str, namespaces: Sequence[str], *, lease: str) -> Iterator[Right]:
    """The rights without which the operator cannot work, but for the Secrets that Clusters name.

    ``namespaces`` are those that are watched, ``home`` among them; none: all. Of each other one ``of_namespace`` has
    the rights. ``lease`` is the name of the Lease that it waits for, if there is one.
    """
    yield Right(schema.GROUP, "clusters/status", ("patch",), home)
    yield Right(schema.GROUP, "policies/status", ("patch",), home)
    if lease:
        yield Right("coordination.k8s.io", "leases", ("create",), home)  # which cannot be limited by name
        yield Right("coordination.k8s.io", "leases", ("get", "update"), home, lease)
    yield Right("apiextensions.k8s.io", "customresourcedefinitions", ("get",), name=f"topics.{schema.GROUP}")
    yield from of_namespace(home if namespaces else "")


def of_namespace(name: str) -> Iterator[Right]:
    """The rights that the operator needs in a namespace that it watches; empty: in all."""
    yield Right("", "namespaces", ("get",), name, name) if name else Right("", "namespaces", ("get", "list", "watch"))
    yield Right(schema.GROUP, "topics", ("list", "watch", "patch"), name)
    yield Right(schema.GROUP, "topics/status", ("patch",), name)
    yield Right(schema.GROUP, "clusters", ("list", "watch"), name)
    yield Right(schema.GROUP, "policies", ("list", "watch"), name)
    yield Right("events.k8s.io", "events", ("create",), name)


async def require_rights(api: Api, rights: Sequence[Right]) -> None:
    """Raise ``NoPermission`` with every right that is missing."""
    if missing := await missing_rights(api, rights):
        raise TopiaristError(
            Reason.NO_PERMISSION,
            f"the operator's ServiceAccount may not: {'; '.join(missing)}",
            "the chart's Roles and bindings give these rights",
        )


async def missing_rights(api: Api, rights: Sequence[Right]) -> list[str]:
    """Every right that is missing, in words."""
    single = [right._replace(verbs=(verb,)) for right in rights for verb in right.verbs]
    answers = await asyncio.gather(*(_may(api, right) for right in single))
    return [str(right) for right, there in zip(single, answers, strict=True) if not there]


async def _may(api: Api, right: Right) -> bool:
    resource, _, part = right.resource.partition("/")
    asked = {"group": right.group, "resource": resource, "subresource": part, "verb": right.verbs[0]}
    asked |= {"namespace": right.namespace, "name": right.name}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = await api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return bool(answer["status"]["allowed"])
