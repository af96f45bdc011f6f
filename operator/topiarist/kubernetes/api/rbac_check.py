"""What the operator may do, asked before it works: a missing right is named then, not met in the middle of work.

What one watched namespace lacks keeps the others from nothing: ``places`` asks for it there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api.client import KubernetesClient
from topiarist.schema import load


class AccessRight(NamedTuple):
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


IDENTITY_RIGHT = AccessRight("", "namespaces", ("get",), "kube-system", "kube-system")
"""What an operator needs to find out in which Kubernetes cluster it is."""


def required_rights(operator_namespace: str, namespaces: Sequence[str], *, lease: str) -> Iterator[AccessRight]:
    """The rights without which the operator cannot work, but for the Secrets that Clusters name.

    ``namespaces`` are those that are watched, ``operator_namespace`` among them; none: all. Of each other one
    ``of_namespace`` has the rights. ``lease`` is the name of the Lease that it waits for, if there is one.
    """
    yield AccessRight(load.API_GROUP, "clusters/status", ("patch",), operator_namespace)
    yield AccessRight(load.API_GROUP, "policies/status", ("patch",), operator_namespace)
    if lease:
        yield AccessRight(
            "coordination.k8s.io", "leases", ("create",), operator_namespace
        )  # which cannot be limited by name
        yield AccessRight("coordination.k8s.io", "leases", ("get", "update"), operator_namespace, lease)
    yield AccessRight("apiextensions.k8s.io", "customresourcedefinitions", ("get",), name=f"topics.{load.API_GROUP}")
    yield from namespace_rights(operator_namespace if namespaces else "")


def namespace_rights(name: str) -> Iterator[AccessRight]:
    """The rights that the operator needs in a namespace that it watches; empty: in all."""
    yield (
        AccessRight("", "namespaces", ("get",), name, name)
        if name
        else AccessRight("", "namespaces", ("get", "list", "watch"))
    )
    yield AccessRight(load.API_GROUP, "topics", ("list", "watch", "patch"), name)
    yield AccessRight(load.API_GROUP, "topics/status", ("patch",), name)
    yield AccessRight(load.API_GROUP, "clusters", ("list", "watch"), name)
    yield AccessRight(load.API_GROUP, "policies", ("list", "watch"), name)
    yield AccessRight("events.k8s.io", "events", ("create",), name)


async def require_rights(api: KubernetesClient, rights: Sequence[AccessRight]) -> None:
    """Raise ``NoPermission`` with every right that is missing."""
    if missing := await missing_rights(api, rights):
        raise TopiaristError(
            Reason.NO_PERMISSION,
            f"the operator's ServiceAccount may not: {'; '.join(missing)}",
            "the chart's Roles and bindings give these rights",
        )


async def missing_rights(api: KubernetesClient, rights: Sequence[AccessRight]) -> list[str]:
    """Every right that is missing, in words."""
    single = [right._replace(verbs=(verb,)) for right in rights for verb in right.verbs]
    answers = await asyncio.gather(*(_is_allowed(api, right) for right in single))
    return [str(right) for right, there in zip(single, answers, strict=True) if not there]


async def _is_allowed(api: KubernetesClient, right: AccessRight) -> bool:
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
