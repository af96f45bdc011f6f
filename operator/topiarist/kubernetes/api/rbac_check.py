"""The RBAC rights that the operator needs, and the check for missing rights, at the start and later.

``main`` checks the rights without which the operator cannot work, and runs a ``RightsMonitor``. ``informer`` checks the
rights in each other watched namespace, so a right that is missing in one namespace does not affect the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api.client import ApiError, KubernetesClient
from topiarist.kubernetes.api.resources import PLURALS, definition_name
from topiarist.schema import load

REFUSAL_CHECK_S = 5.0
"""Seconds between two looks at the number of refused requests."""

MISSING_CHECK_S, REPEATED_CHECK_S, SILENT_CHECK_S = 15.0, 60.0, 600.0
"""Least seconds between two checks of all rights: while one is missing, after a refusal, and without any.

kopf posts Events, so a refusal of an Event is not counted.
"""


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
    for kind in PLURALS:
        verbs = ("get", "list", "watch")
        yield AccessRight("apiextensions.k8s.io", "customresourcedefinitions", verbs, name=definition_name(kind))
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


class RightsMonitor:
    """A monitor of ``rights`` after the start: an administrator may remove them at any time.

    ``on_checked`` is called after each check with the missing rights.
    """

    def __init__(
        self, api: KubernetesClient, rights: Sequence[AccessRight], on_checked: Callable[[Sequence[str]], None]
    ) -> None:
        self._api = api
        self._rights = rights
        self._on_checked = on_checked

    async def run(self) -> None:
        """Check the rights after a refused request, and from time to time, until cancelled."""
        loop, missing = asyncio.get_running_loop(), list[str]()
        checked_at, forbidden = loop.time(), self._api.forbidden
        refused_at = float("-inf")
        while True:
            await asyncio.sleep(REFUSAL_CHECK_S)
            since, is_refused = loop.time() - checked_at, self._api.forbidden != forbidden
            due = since >= (MISSING_CHECK_S if missing else SILENT_CHECK_S)
            due |= is_refused and loop.time() - refused_at >= REPEATED_CHECK_S
            if not due:
                continue
            forbidden = self._api.forbidden
            try:
                missing = await missing_rights(self._api, self._rights)
            except ApiError:
                continue
            checked_at = loop.time()
            refused_at = checked_at if is_refused else refused_at
            self._on_checked(missing)


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
