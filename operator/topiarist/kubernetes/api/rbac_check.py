"""The RBAC rights that the operator needs, and the check for missing rights at startup.

``main`` checks the rights without which the operator cannot work. ``informer`` checks the rights in each other watched
namespace, so a right that is missing in one namespace does not affect the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api.client import KubernetesClient
from topiarist.schema import load


class AccessRight(NamedTuple):
    """A right to use verbs on a resource type.

    ``namespace`` is empty for all namespaces. With a ``name``, the right is for that object only.
    """

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
"""The right that the operator needs to identify its Kubernetes cluster, by the uid of ``kube-system``."""


def required_rights(operator_namespace: str, namespaces: Sequence[str], *, lease: str) -> Iterator[AccessRight]:
    """Yield the rights without which the operator cannot work, except for Secrets that Clusters name.

    ``namespaces`` are the watched namespaces including ``operator_namespace``; empty: all. The rights in each other
    namespace come from ``namespace_rights``. ``lease`` is the name of the Lease; empty without leader election.
    """
    yield AccessRight(load.API_GROUP, "clusters", ("get", "patch"), operator_namespace)
    yield AccessRight(load.API_GROUP, "clusters/status", ("patch",), operator_namespace)
    yield AccessRight(load.API_GROUP, "policies", ("list", "watch"), operator_namespace)
    yield AccessRight(load.API_GROUP, "policies/status", ("patch",), operator_namespace)
    if lease:
        yield AccessRight(
            "coordination.k8s.io", "leases", ("create",), operator_namespace
        )  # RBAC cannot limit "create" by name
        yield AccessRight("coordination.k8s.io", "leases", ("get", "update"), operator_namespace, lease)
    yield AccessRight("apiextensions.k8s.io", "customresourcedefinitions", ("get",), name=f"topics.{load.API_GROUP}")
    yield from namespace_rights(operator_namespace if namespaces else "")


def namespace_rights(name: str) -> Iterator[AccessRight]:
    """Yield the rights that the operator needs in a watched namespace; empty: in all."""
    yield (
        AccessRight("", "namespaces", ("get",), name, name)
        if name
        else AccessRight("", "namespaces", ("get", "list", "watch"))
    )
    yield AccessRight(load.API_GROUP, "topics", ("list", "watch", "patch"), name)
    yield AccessRight(load.API_GROUP, "topics/status", ("patch",), name)
    # Those of other namespaces are read for the Topics that another release serves.
    yield AccessRight(load.API_GROUP, "clusters", ("list", "watch"), name)
    yield AccessRight("", "events", ("create",), name)


async def require_rights(api: KubernetesClient, rights: Sequence[AccessRight]) -> None:
    """Raise ``NoPermission`` with every right that is missing."""
    if missing := await missing_rights(api, rights):
        raise TopiaristError(
            Reason.NO_PERMISSION,
            f"the operator's ServiceAccount may not: {'; '.join(missing)}",
            "the chart's Roles and bindings give these rights",
        )


async def missing_rights(api: KubernetesClient, rights: Sequence[AccessRight]) -> list[str]:
    """Return each missing right as text, one per verb."""
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
