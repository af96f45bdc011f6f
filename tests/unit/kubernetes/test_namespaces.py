"""Namespaces that are watched one by one: one that is away is told, looked for, and keeps the others from nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from support.kubernetes import resource_bodies
from topiarist.kubernetes.api.client import ApiError, KubernetesClient
from topiarist.kubernetes.cache import Store
from topiarist.kubernetes.namespaces import NAMESPACE_NOT_FOUND, WatchedNamespaces

HOME, TEAM, OTHER = "shop", "team", "other"


class Server:
    """An API server with namespaces and Topics; ``refused`` has paths that must not be got, and rights by namespace."""

    def __init__(self, *namespaces: str) -> None:
        self.namespaces = {*namespaces}
        self.topics: dict[str, list[dict[str, Any]]] = {}
        self.refused: dict[str, int] = {}
        self.lacking: set[str] = set()
        self.reviews = 0

    async def get(self, path: str, **_: str) -> dict[str, Any]:
        """A namespace, or a list."""
        if path in self.refused:
            raise ApiError(self.refused[path], f"{path} is refused")
        if path.startswith("/api/v1/namespaces/"):
            name = path.rpartition("/")[2]
            if name not in self.namespaces:
                raise ApiError(404, "not found")
            return {"metadata": {"name": name, "labels": {"name": name}}}
        where = path.split("/")[5]
        items = self.topics.get(where, []) if path.endswith("/topics") else []
        return {"metadata": {"resourceVersion": "1000000"}, "items": items}

    async def create(self, _path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """What may be done."""
        self.reviews += 1
        asked = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": not (asked["namespace"] in self.lacking and asked["verb"] == "patch")}}


def looked(places: WatchedNamespaces, store: Store, server: Server, *, first: bool = False) -> Mapping[str, str]:
    """A look, and what is away then."""
    asyncio.run(places.refresh(store, cast(KubernetesClient, server), first=first))
    return places.unavailable


def topic(namespace: str, name: str = "orders") -> dict[str, Any]:
    """A Topic in a namespace."""
    return resource_bodies.body("Topic", name, {"partitions": 3, "replicationFactor": 3}, namespace=namespace)


def test_a_namespace_that_goes_is_away_until_it_is_back() -> None:
    """Its Topics ask for nothing meanwhile; those of the others are listed in the same look."""
    server, store, places = (
        Server(HOME, TEAM, OTHER),
        Store(HOME, lambda _: None),
        WatchedNamespaces((HOME, OTHER, TEAM)),
    )
    server.topics = {TEAM: [topic(TEAM)]}
    assert looked(places, store, server, first=True) == {}
    assert not places.changed.is_set()
    server.namespaces.remove(TEAM)
    server.topics = {OTHER: [topic(OTHER)]}
    assert looked(places, store, server) == {TEAM: NAMESPACE_NOT_FOUND}
    assert places.changed.is_set()
    assert places.available == (HOME, OTHER)
    assert [*store.topics] == [(OTHER, "orders")]
    assert TEAM not in store.namespaces
    server.namespaces.add(TEAM)
    server.topics[TEAM] = [topic(TEAM)]
    assert looked(places, store, server) == {}
    assert {*store.topics} == {(OTHER, "orders"), (TEAM, "orders")}


def test_rights_are_asked_for_one_namespace_at_a_time() -> None:
    """At the start, and again of those that are away; what is missing is named."""
    server, store, places = (
        Server(HOME, TEAM, OTHER),
        Store(HOME, lambda _: None),
        WatchedNamespaces((HOME, OTHER, TEAM)),
    )
    server.lacking.add(TEAM)
    away = looked(places, store, server, first=True)
    assert away.keys() == {TEAM}
    assert away[TEAM].endswith("may not patch topics.topiarist.dev in namespace team, and 1 more")
    before = server.reviews
    assert looked(places, store, server).keys() == {TEAM}
    per_namespace = server.reviews - before
    server.lacking.clear()
    assert looked(places, store, server) == {}
    before = server.reviews
    assert looked(places, store, server) == {}
    assert (server.reviews - before, per_namespace) == (0, 10)


def test_topics_of_which_nothing_can_be_seen_are_kept() -> None:
    """A right that is lost takes no claim away; it is said why."""
    server, store, places = Server(HOME, TEAM), Store(HOME, lambda _: None), WatchedNamespaces((HOME, TEAM))
    server.topics = {TEAM: [topic(TEAM)]}
    looked(places, store, server, first=True)
    path = "/apis/topiarist.dev/v1/namespaces/team/topics"
    server.refused[path] = 403
    assert looked(places, store, server) == {TEAM: f"{path} is refused"}
    assert [*store.topics] == [(TEAM, "orders")]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/apis/topiarist.dev/v1/namespaces/shop/topics", 403),
        ("/apis/topiarist.dev/v1/namespaces/team/topics", 404),
        ("/apis/topiarist.dev/v1/namespaces/team/topics", 503),
        ("/apis/topiarist.dev/v1/namespaces/shop/clusters", 403),
    ],
)
def test_what_is_not_the_matter_of_one_namespace_ends_the_look(path: str, code: int) -> None:
    """The operator's own namespace, definitions that are not there, a server that is away."""
    server, store, places = Server(HOME, TEAM), Store(HOME, lambda _: None), WatchedNamespaces((HOME, TEAM))
    server.refused[path] = code
    with pytest.raises(ApiError):
        looked(places, store, server, first=True)
