"""What the operator may do, asked once at its start: a missing right is named then, not met in the middle of work."""

from __future__ import annotations

from typing import Any

from topiarist import schema
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api import Api

_EVERYWHERE = (
    (schema.GROUP, "topics", "", ("list", "watch", "patch")),
    (schema.GROUP, "topics", "status", ("patch",)),
    ("events.k8s.io", "events", "", ("create",)),
)

_AT_HOME = (
    (schema.GROUP, "clusters", "", ("list", "watch")),
    (schema.GROUP, "clusters", "status", ("patch",)),
    (schema.GROUP, "policies", "", ("list", "watch")),
    (schema.GROUP, "policies", "status", ("patch",)),
)


async def require_rights(api: Api, home: str, namespaces: tuple[str, ...]) -> None:
    """Raise ``NoPermission`` with every right that is missing."""
    missing = []
    places = [(home, _AT_HOME), *((each, _EVERYWHERE) for each in namespaces or ("",))]
    for namespace, wanted in places:
        for group, resource, part, verbs in wanted:
            for verb in verbs:
                if not await _may(api, namespace, group, resource, part, verb):
                    where = f"in namespace {namespace}" if namespace else "in all namespaces"
                    missing.append(f"{verb} {resource}{'/' * bool(part)}{part}.{group} {where}")
    if missing:
        raise TopiaristError(
            Reason.NO_PERMISSION,
            f"the operator's ServiceAccount may not: {'; '.join(missing)}",
            "the chart's Role and RoleBinding give these rights",
        )


async def _may(api: Api, namespace: str, group: str, resource: str, part: str, verb: str) -> bool:
    asked: dict[str, Any] = {"group": group, "resource": resource, "subresource": part, "verb": verb}
    asked["namespace"] = namespace
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = await api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return bool(answer["status"]["allowed"])
