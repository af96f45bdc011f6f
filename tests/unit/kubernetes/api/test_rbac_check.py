"""The rights that the operator requests: no more than it uses, each in one namespace if it can be limited to one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, cast

import pytest

from support.virtual_time import virtual_time
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api.client import ApiError, KubernetesClient
from topiarist.kubernetes.api.rbac_check import (
    IDENTITY_RIGHT,
    AccessRight,
    RightsMonitor,
    missing_rights,
    namespace_rights,
    require_rights,
    required_rights,
)

OWN = [
    "get/patch clusters.topiarist.dev in namespace kafka",
    "patch clusters/status.topiarist.dev in namespace kafka",
    "list/watch policies.topiarist.dev in namespace kafka",
    "patch policies/status.topiarist.dev in namespace kafka",
]
LEASE = [
    "create leases.coordination.k8s.io in namespace kafka",
    "get/update leases.coordination.k8s.io blue in namespace kafka",
]
KIND = [
    f"get/list/watch customresourcedefinitions.apiextensions.k8s.io {plural}.topiarist.dev in all namespaces"
    for plural in ("topics", "clusters", "policies")
]
EVERYWHERE = [
    "get/list/watch namespaces in all namespaces",
    "list/watch/patch topics.topiarist.dev in all namespaces",
    "patch topics/status.topiarist.dev in all namespaces",
    "list/watch clusters.topiarist.dev in all namespaces",
    "create events in all namespaces",
]


def watched(name: str) -> list[str]:
    """Return the rights in one watched namespace."""
    return [
        f"get namespaces {name} in namespace {name}",
        f"list/watch/patch topics.topiarist.dev in namespace {name}",
        f"patch topics/status.topiarist.dev in namespace {name}",
        f"list/watch clusters.topiarist.dev in namespace {name}",
        f"create events in namespace {name}",
    ]


class Server:
    """An API server that reviews accesses; all are allowed except those in ``denied``, by verb and resource."""

    def __init__(self, *denied: str) -> None:
        self.denied = denied
        self.forbidden = 0
        self.error: ApiError | None = None
        self.asked: list[dict[str, str]] = []

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return a review."""
        assert path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert (body["apiVersion"], body["kind"]) == ("authorization.k8s.io/v1", "SelfSubjectAccessReview")
        asked = body["spec"]["resourceAttributes"]
        self.asked.append(asked)
        if self.error:
            raise self.error
        return {"status": {"allowed": f"{asked['verb']} {asked['resource']}" not in self.denied}}


def texts(rights: Iterable[AccessRight]) -> list[str]:
    """Return rights as users read them."""
    return [str(right) for right in rights]


@pytest.mark.parametrize(
    ("namespaces", "lease", "wanted"),
    [
        ((), "", [*OWN, *KIND, *EVERYWHERE]),
        ((), "blue", [*OWN, *LEASE, *KIND, *EVERYWHERE]),
        (("kafka", "pay"), "", [*OWN, *KIND, *watched("kafka")]),
    ],
    ids=["all namespaces", "with a Lease", "some namespaces"],
)
def test_the_operator_requests_what_it_uses(namespaces: tuple[str, ...], lease: str, wanted: list[str]) -> None:
    """No right is for all namespaces if they are listed, and none is for Leases without leader election."""
    assert texts(required_rights("kafka", namespaces, lease=lease)) == wanted


def test_each_watched_namespace_has_its_own_rights() -> None:
    """Without a right in one namespace the operator serves the others; the uid of ``kube-system`` needs one more."""
    assert texts(namespace_rights("pay")) == watched("pay")
    assert str(IDENTITY_RIGHT) == "get namespaces kube-system in namespace kube-system"


def test_each_verb_is_reviewed_by_itself() -> None:
    """A review names one verb, and a subresource apart from its resource; each missing verb is returned."""
    server = Server("patch topics", "watch topics")
    rights = [
        AccessRight("topiarist.dev", "topics", ("list", "watch", "patch"), "pay"),
        AccessRight("topiarist.dev", "topics/status", ("update",)),
        AccessRight("", "namespaces", ("get",), "pay", "pay"),
    ]
    missing = asyncio.run(missing_rights(cast(KubernetesClient, server), rights))
    place = "topics.topiarist.dev in namespace pay"
    assert missing == [f"watch {place}", f"patch {place}"]
    topics = {"group": "topiarist.dev", "resource": "topics", "subresource": "", "namespace": "pay", "name": ""}
    assert server.asked == [
        {**topics, "verb": "list"},
        {**topics, "verb": "watch"},
        {**topics, "verb": "patch"},
        {**topics, "subresource": "status", "namespace": "", "verb": "update"},
        {**topics, "group": "", "resource": "namespaces", "name": "pay", "verb": "get"},
    ]


def test_the_operator_ends_without_its_rights() -> None:
    """The error has each missing right; without a missing right there is none."""
    rights = [*required_rights("kafka", (), lease="")]
    asyncio.run(require_rights(cast(KubernetesClient, Server()), rights))
    with pytest.raises(TopiaristError) as caught:
        asyncio.run(require_rights(cast(KubernetesClient, Server("create events", "list topics")), rights))
    error = caught.value
    assert error.reason is Reason.NO_PERMISSION
    assert "list topics.topiarist.dev in all namespaces; create events in all namespaces" in str(error)


@virtual_time
async def test_rights_are_checked_after_a_refusal_and_from_time_to_time() -> None:
    """A lost right is named within seconds of the first refused request, and without one within ten minutes; it is
    asked for every 15 seconds until it is back. Requests that no right of these allows cause one check a minute.
    """
    server, told = Server(), list[Sequence[str]]()
    rights = [AccessRight("topiarist.dev", "topics/status", ("patch",))]
    lost = [str(rights[0])]
    monitor = RightsMonitor(cast(KubernetesClient, server), rights, told.append)
    task = asyncio.create_task(monitor.run())
    await asyncio.sleep(300)
    assert server.asked == []
    server.denied, server.forbidden = ("patch topics",), 1
    await asyncio.sleep(6)
    assert told == [lost]
    await asyncio.sleep(60)
    assert told == [lost] * 5
    del told[1:]
    server.denied, server.error = (), ApiError(503, "no")
    await asyncio.sleep(60)
    assert told == [lost]
    server.error = None
    await asyncio.sleep(16)
    assert told == [lost, []]
    await asyncio.sleep(570)
    assert len(told) == 2
    await asyncio.sleep(40)
    assert told == [lost, [], []]
    for _ in range(60):
        server.forbidden += 1
        await asyncio.sleep(5)
    assert 7 <= len(told) <= 9
    task.cancel()
