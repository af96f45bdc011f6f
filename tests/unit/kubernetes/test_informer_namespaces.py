"""Namespaces that are watched one by one: one that is away is told, looked for, and keeps the others from nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, cast

import pytest

from support.kubernetes import resource_bodies
from support.virtual_time import run_in_virtual_time
from topiarist.kubernetes.api.client import ApiError, KubernetesClient
from topiarist.kubernetes.cache import Store
from topiarist.kubernetes.informer import NAMESPACE_NOT_FOUND, RELIST_INTERVAL_S, Informers

HOME, TEAM, OTHER = "shop", "team", "other"
PERIOD = 60.0
CLUSTERS = "/apis/topiarist.dev/v1/namespaces/shop/clusters"
NAMESPACE_RETRY_INTERVAL_S = 15.0
"""Seconds, as documented."""


class Server:
    """An API server with namespaces and Topics; ``refused`` has paths that must not be got, and rights by namespace."""

    def __init__(self, *namespaces: str) -> None:
        self.namespaces = {*namespaces}
        self.topics: dict[str, list[dict[str, Any]]] = {}
        self.refused: dict[str, int] = {}
        self.lacking: set[str] = set()
        self.lacking_events: set[str] = set()
        self.reviews = 0
        self.gets = 0
        self.forbidden = 0
        self.listed: list[tuple[str, Mapping[str, str]]] = []
        self.watch_errors: dict[str, ApiError] = {}
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.clusters: list[dict[str, Any]] = []
        self.watched: set[str] = set()

    async def get(self, path: str, **_: str) -> dict[str, Any]:
        """A namespace."""
        self.gets += 1
        if path in self.refused:
            raise ApiError(self.refused[path], f"{path} is refused")
        name = path.rpartition("/")[2]
        if name not in self.namespaces:
            raise ApiError(404, "not found")
        return {"metadata": {"name": name, "labels": {"name": name}}}

    async def list_pages(self, path: str, **params: str) -> AsyncIterator[dict[str, Any]]:
        """A list."""
        if path in self.refused:
            raise ApiError(self.refused[path], f"{path} is refused")
        self.listed.append((path, params))
        items = self.topics.get(path.split("/")[5], []) if path.endswith("/topics") and path.count("/") > 4 else []
        items = self.clusters if path == CLUSTERS else items
        yield {"metadata": {"resourceVersion": "1000000"}, "items": items}

    async def watch(self, path: str, _version: str, **_: str) -> AsyncIterator[dict[str, Any]]:
        """Nothing happens, unless it is refused."""
        self.watched.add(path)
        if path in self.watch_errors:
            raise self.watch_errors[path]
        for event in self.events.get(path, ()):
            yield event
        await asyncio.Event().wait()
        yield {}

    async def create(self, _path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """What may be done."""
        self.reviews += 1
        asked = body["spec"]["resourceAttributes"]
        denied = asked["namespace"] in self.lacking and asked["verb"] == "patch"
        denied |= asked["namespace"] in self.lacking_events and asked["resource"] == "events"
        return {"status": {"allowed": not denied}}


class Watching:
    """Informers of some namespaces, or of all, and what they tell."""

    def __init__(self, server: Server, *names: str, period: float = PERIOD) -> None:
        self.server = server
        self.relists = 0
        self.store = Store(HOME, lambda *_: None)
        self.away: Mapping[str, str] = {}
        self.informers = Informers(
            cast(KubernetesClient, server), self.store, names, period, self._relisted, self._set_away
        )

    async def later(self, seconds: float = PERIOD + 1) -> Mapping[str, str]:
        """What is away after the next look."""
        await asyncio.sleep(seconds)
        return self.away

    def _relisted(self) -> None:
        self.relists += 1

    def _set_away(self, away: Mapping[str, str]) -> None:
        self.away = away


def played(
    server: Server, names: tuple[str, ...], work: Callable[[Watching], Awaitable[None]], period: float = PERIOD
) -> None:
    """List all, watch, and play something."""

    async def play() -> None:
        watching = Watching(server, *names, period=period)
        await watching.informers.refresh()
        running = asyncio.create_task(watching.informers.run())
        await work(watching)
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_in_virtual_time(play)


def topic(namespace: str, name: str = "orders") -> dict[str, Any]:
    """A Topic in a namespace."""
    return resource_bodies.body("Topic", name, {"partitions": 3, "replicationFactor": 3}, namespace=namespace)


def test_a_namespace_that_goes_is_away_until_it_is_back() -> None:
    """The others are served meanwhile; it is looked for more often than it would be looked at."""
    server = Server(HOME, TEAM, OTHER)
    server.topics = {TEAM: [topic(TEAM)], OTHER: [topic(OTHER)]}

    async def work(watching: Watching) -> None:
        assert watching.away == {}
        assert {*watching.store.topics} == {(OTHER, "orders"), (TEAM, "orders")}
        server.namespaces.remove(TEAM)
        assert await watching.later() == {TEAM: NAMESPACE_NOT_FOUND}
        assert TEAM not in watching.store.namespaces
        server.namespaces.add(TEAM)
        assert await watching.later(NAMESPACE_RETRY_INTERVAL_S + 1) == {}
        assert TEAM in watching.store.namespaces

    played(server, (HOME, OTHER, TEAM), work)


def test_namespaces_that_are_there_are_looked_at_once_a_period() -> None:
    """The requests of a quiet operator do not grow with the time in which it would look for a lost namespace."""
    server = Server(HOME, TEAM)

    async def work(watching: Watching) -> None:
        before = server.gets
        await watching.later(10 * PERIOD + 1)
        assert server.gets - before == 10 * 2

    played(server, (HOME, TEAM), work)


def test_a_namespace_that_comes_later_is_served() -> None:
    """One that is not there at the start is listed when it is."""
    server = Server(HOME)
    server.topics = {TEAM: [topic(TEAM)]}

    async def work(watching: Watching) -> None:
        assert watching.away == {TEAM: NAMESPACE_NOT_FOUND}
        assert watching.store.topics == {}
        server.namespaces.add(TEAM)
        assert await watching.later() == {}
        assert {*watching.store.topics} == {(TEAM, "orders")}

    played(server, (HOME, TEAM), work)


def test_rights_are_asked_for_one_namespace_at_a_time() -> None:
    """At the start, and again of those that are away; what is missing is named."""
    server = Server(HOME, TEAM, OTHER)
    server.lacking.add(TEAM)

    async def work(watching: Watching) -> None:
        assert watching.away.keys() == {TEAM}
        assert watching.away[TEAM].endswith("may not patch topics.topiarist.dev in namespace team, and 1 more")
        before = server.reviews
        assert (await watching.later(NAMESPACE_RETRY_INTERVAL_S + 1)).keys() == {TEAM}
        per_namespace = server.reviews - before
        server.lacking.clear()
        assert await watching.later() == {}
        before = server.reviews
        assert await watching.later() == {}
        assert (server.reviews - before, per_namespace) == (0, 8)

    played(server, (HOME, OTHER, TEAM), work)


def test_a_right_that_is_lost_later_is_found() -> None:
    """After a request that the API server refused, the rights in each namespace are checked again, and named."""
    watching = Watching(Server(HOME, TEAM), HOME, TEAM)

    async def work() -> None:
        await watching.informers.refresh()
        await watching.informers._check_namespaces()
        before = watching.server.reviews
        watching.server.lacking.add(TEAM)
        await watching.informers._check_namespaces()
        assert (watching.away, watching.server.reviews) == ({}, before)
        watching.server.forbidden += 1
        await watching.informers._check_namespaces()
        assert "patch topics" in watching.away[TEAM]
        watching.server.lacking.clear()
        await watching.informers._check_namespaces()
        assert watching.away == {}

    run_in_virtual_time(work)


def test_a_single_missing_right_is_named_alone() -> None:
    """The text counts further rights only if there are some."""
    server = Server(HOME, TEAM)
    server.lacking_events.add(TEAM)

    async def work(watching: Watching) -> None:
        assert watching.away[TEAM].endswith("may not create events in namespace team")

    played(server, (HOME, TEAM), work)


def test_topics_of_which_nothing_can_be_seen_are_kept() -> None:
    """A lost permission removes no claim; the reason is reported until the permission is back."""
    server = Server(HOME, TEAM)
    server.topics = {TEAM: [topic(TEAM)]}
    path = "/apis/topiarist.dev/v1/namespaces/team/topics"
    server.watch_errors[path] = ApiError(403, f"{path} is refused")

    async def work(watching: Watching) -> None:
        assert await watching.later() == {TEAM: f"{path} is refused"}
        assert [*watching.store.topics] == [(TEAM, "orders")]

    played(server, (HOME, TEAM), work)


def test_an_outage_makes_no_namespace_unavailable() -> None:
    """A watch that breaks for another reason is not the matter of one namespace."""
    server = Server(HOME, TEAM)
    server.watch_errors["/apis/topiarist.dev/v1/namespaces/team/topics"] = ApiError(503, "no")

    async def work(watching: Watching) -> None:
        assert await watching.later() == {}

    played(server, (HOME, TEAM), work)


def test_the_api_server_may_be_away() -> None:
    """Nothing is known of the namespaces then, and nothing ends."""
    server = Server(HOME, TEAM)

    async def work(watching: Watching) -> None:
        server.refused["/api/v1/namespaces/team"] = 503
        assert await watching.later() == {}
        server.refused.clear()
        server.namespaces.remove(TEAM)
        assert await watching.later() == {TEAM: NAMESPACE_NOT_FOUND}

    played(server, (HOME, TEAM), work)


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
    server = Server(HOME, TEAM)
    server.refused[path] = code
    with pytest.raises(ApiError):
        asyncio.run(Watching(server, HOME, TEAM).informers.refresh())


def test_what_is_listed() -> None:
    """Policies and Clusters of the operator's namespace, Topics of all, Clusters of others for other releases."""
    ours = "/apis/topiarist.dev/v1"
    everywhere, some = Server(HOME), Server(HOME, TEAM)
    asyncio.run(Watching(everywhere).informers.refresh())
    asyncio.run(Watching(some, HOME, TEAM).informers.refresh())
    home: list[tuple[str, Mapping[str, str]]]
    home = [(f"{ours}/namespaces/shop/{kind}", {}) for kind in ("clusters", "policies")]
    assert everywhere.listed == [
        *home,
        ("/api/v1/namespaces", {}),
        (f"{ours}/topics", {}),
        (f"{ours}/clusters", {"fieldSelector": "metadata.namespace!=shop"}),
    ]
    assert some.listed == [
        *home,
        (f"{ours}/namespaces/shop/topics", {}),
        (f"{ours}/namespaces/team/topics", {}),
        (f"{ours}/namespaces/team/clusters", {}),
    ]


def namespace_event(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    """Return an event of a namespace."""
    return {"type": kind, "object": {"metadata": {"name": name, "resourceVersion": "2000000", **metadata}}}


def test_namespaces_are_watched_if_all_are() -> None:
    """Labels and a deletion in progress are known from the watch, and a namespace that was deleted is forgotten."""
    server = Server(HOME)
    server.events["/api/v1/namespaces"] = [
        namespace_event("ADDED", TEAM, labels={"team": "a"}),
        namespace_event("ADDED", OTHER, labels=None),
        namespace_event("ADDED", "gone"),
        namespace_event("MODIFIED", OTHER, deletionTimestamp="2026-02-01T00:00:00Z"),
        namespace_event("DELETED", "gone"),
    ]

    async def work(watching: Watching) -> None:
        await watching.later(1)
        assert watching.store.namespaces == {TEAM: {"team": "a"}, OTHER: {}}
        assert watching.store.terminating_namespaces == {OTHER}
        assert watching.away == {}

    played(server, (), work)


def test_a_short_period_is_that_of_namespaces_that_are_away_too() -> None:
    """A namespace that is away is looked for at least as often as it would be looked at."""
    server = Server(HOME)

    async def work(watching: Watching) -> None:
        server.namespaces.add(TEAM)
        assert await watching.later(4) == {TEAM: NAMESPACE_NOT_FOUND}
        assert await watching.later(2) == {}

    played(server, (HOME, TEAM), work, period=5.0)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces",
        "/apis/topiarist.dev/v1/topics",
        "/apis/topiarist.dev/v1/clusters",
        "/apis/topiarist.dev/v1/namespaces/shop/policies",
    ],
)
def test_a_list_after_a_gap_calls_for_passes(path: str) -> None:
    """A gap of any watch may hide a deletion, so everything is reconciled after its list; not after the first one."""
    server = Server(HOME)

    async def work(watching: Watching) -> None:
        await watching.later(1)
        assert watching.relists == 0

    played(server, (), work)
    server.watch_errors[path] = ApiError(410, "too old")

    async def gap(watching: Watching) -> None:
        await watching.later(0.01)
        server.watch_errors.clear()
        await watching.later(5)
        assert watching.relists == 1

    played(server, (), gap)


def test_a_namespace_that_is_being_deleted_is_known() -> None:
    """Its Topics delete no topic; this is read with its labels once a period."""
    server = Server(HOME, TEAM)
    read = server.get

    async def get(path: str, **params: str) -> dict[str, Any]:
        found = await read(path, **params)
        if path.endswith(f"/{TEAM}"):
            found["metadata"]["deletionTimestamp"] = "2026-02-01T00:00:00Z"
        return found

    async def work(watching: Watching) -> None:
        assert watching.store.terminating_namespaces == set()
        server.get = get  # type: ignore[method-assign]
        await watching.later()
        assert watching.store.terminating_namespaces == {TEAM}
        assert watching.store.namespaces == {HOME: {"name": HOME}, TEAM: {"name": TEAM}}

    played(server, (HOME, TEAM), work)


def cluster_event(kind: str | None, name: str = "prod", version: int = 1_000_001, **spec: Any) -> dict[str, Any]:
    """Return an event of a Cluster as kopf passes it on."""
    body = resource_bodies.body("Cluster", name, spec, uid=name, resourceVersion=str(version))
    return {"type": kind, "object": body}


def test_clusters_come_from_kopf_and_are_listed_again() -> None:
    """kopf's watch adds, changes and removes Clusters; it misses the deletion in a gap, which the next list shows."""
    server = Server(HOME)

    async def work(watching: Watching) -> None:
        found, clusters = watching.informers.clusters, watching.store.clusters
        for kind in (None, "ADDED", "MODIFIED"):
            found.handle(cluster_event(kind, str(kind)))
        assert [*clusters] == ["None", "ADDED", "MODIFIED"]
        found.handle(cluster_event("DELETED", "ADDED"))
        assert [*clusters] == ["None", "MODIFIED"]
        assert CLUSTERS not in server.watched
        await watching.later()
        assert [*clusters] == []
        server.refused[CLUSTERS] = 503  # kopf's watch and that of the Policies report an outage
        found.handle(cluster_event("ADDED"))
        await watching.later()
        assert [*clusters] == ["prod"]

    played(server, (), work)


def test_clusters_are_listed_anew_with_the_policies() -> None:
    """A watch that failed shows an outage: a list that is older than an event of kopf then replaces what is known."""
    server, policies = Server(HOME), CLUSTERS.replace("clusters", "policies")

    async def work(watching: Watching) -> None:
        server.watch_errors[policies] = ApiError(410, "too old")
        watching.informers.clusters.handle(cluster_event("ADDED", version=2_000_000))
        server.clusters = [cluster_event(None, version=900_000)["object"]]
        await watching.later(0.3)
        assert watching.store.clusters["prod"].resource_version == 2_000_000  # the list is only late
        watching.informers.clusters.handle(cluster_event("MODIFIED", version=2_000_001))
        server.watch_errors[policies] = ApiError(0, "no answer")
        await watching.later(RELIST_INTERVAL_S + 12)
        assert watching.store.clusters["prod"].resource_version == 900_000

    played(server, (), work)
