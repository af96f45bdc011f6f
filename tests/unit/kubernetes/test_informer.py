"""A copy of a collection: a deletion during a gap of the watch is noticed, and there is no superfluous list request."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, cast

import pytest

from support.checkout import ROOT
from support.kubernetes import resource_bodies
from support.kubernetes.schemas import read_definition
from support.virtual_time import loop_time, virtual_time
from topiarist.kubernetes import informer as module
from topiarist.kubernetes.cache import Store
from topiarist.kubernetes.client import ApiError, KubernetesClient
from topiarist.kubernetes.informer import (
    NAMESPACE_NOT_FOUND,
    RELIST_INTERVAL_S,
    Definition,
    Definitions,
    Informer,
    Informers,
    Schema,
    describe_missing,
    parse_definition,
    prune,
)
from topiarist.kubernetes.resources import Resource, parse_resource

PATH = "/apis/topiarist.dev/v1/topics"


class Server:
    """An API server with Topics. A test scripts what its watches say: events, errors, or None for the end of one."""

    def __init__(self, *names: str) -> None:
        self.version = 1_000_000
        self.bodies: dict[str, dict[str, Any]] = {}
        self.script: asyncio.Queue[dict[str, Any] | ApiError | None] = asyncio.Queue()
        self.list_errors: list[ApiError] = []
        self.lists = 0
        self.watched_from: list[str] = []
        self.asked_at: list[float] = []
        for name in names:
            self.put(name)

    def put(self, name: str, **spec: Any) -> dict[str, Any]:
        """Create or change a Topic; returns its event."""
        self.version += 1
        known = self.bodies.get(name)
        sized = {"partitions": 3, "replicationFactor": 3, **spec}
        versions = {"resourceVersion": str(self.version), "generation": self.version}
        body = resource_bodies.body("Topic", name, sized, **versions)
        if known:
            body["metadata"]["uid"] = known["metadata"]["uid"]
        self.bodies[name] = body
        return {"type": "MODIFIED" if known else "ADDED", "object": body}

    def delete(self, name: str) -> dict[str, Any]:
        """Delete a Topic; returns its event."""
        self.version += 1
        body = self.bodies.pop(name)
        metadata = {**body["metadata"], "resourceVersion": str(self.version)}
        return {"type": "DELETED", "object": {**body, "metadata": metadata}}

    def bookmark(self) -> dict[str, Any]:
        """The event that only tells a version."""
        return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}

    async def list_pages(self, _path: str, **_: str) -> AsyncIterator[dict[str, Any]]:
        """Pages of one Topic each."""
        self.asked_at.append(loop_time())
        self.lists += 1
        metadata = {"resourceVersion": str(self.version)}
        yield {"metadata": metadata, "items": []}
        for body in [*self.bodies.values()]:
            if self.list_errors:
                raise self.list_errors.pop()
            yield {"metadata": metadata, "items": [{**body, "metadata": {**body["metadata"]}}]}

    async def watch(self, _path: str, resource_version: str, **_: str) -> AsyncIterator[dict[str, Any]]:
        """The script."""
        self.asked_at.append(loop_time())
        self.watched_from.append(resource_version)
        while (event := await self.script.get()) is not None:
            if isinstance(event, ApiError):
                raise event
            yield event


class Copy:
    """An informer at work, and what it delivers."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.found: dict[str, Resource] = {}
        self.listed: dict[str, int] = {}
        self.relists = 0
        self.informer = Informer(
            cast(KubernetesClient, server), PATH, parse_resource, self._upsert, self._remove, self._relisted
        )

    @property
    def names(self) -> list[str]:
        """The Topics that are there."""
        return sorted(self.found)

    async def hears(self, *events: dict[str, Any] | ApiError | None, seconds: float = 10.0) -> None:
        """Let a watch say this, and some time pass."""
        for event in events:
            self.server.script.put_nowait(event)
        await asyncio.sleep(seconds)

    def _upsert(self, found: Resource, listed: int) -> None:
        self.found[found.name] = found
        self.listed[found.name] = listed

    def _remove(self, found: Resource) -> None:
        del self.found[found.name]

    def _relisted(self) -> None:
        self.relists += 1


@asynccontextmanager
async def copy_of(*names: str) -> AsyncIterator[Copy]:
    """Have an informer list these Topics and watch."""
    copy = Copy(Server(*names))
    await copy.informer.refresh()
    running = asyncio.create_task(copy.informer.run())
    await asyncio.sleep(1)
    yield copy
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@virtual_time
async def test_what_is_listed_and_then_watched_is_there() -> None:
    """New, changed, deleted; one list is enough."""

    async with copy_of("a", "b") as copy:
        server = copy.server
        assert copy.names == ["a", "b"]
        await copy.hears(server.put("c"), server.put("a", partitions=9), server.delete("b"))
        assert copy.names == ["a", "c"]
        assert copy.found["a"].declared_spec["partitions"] == 9
        assert (copy.listed["a"], copy.listed["c"]) == (0, 0)  # an event replaces no later version
        assert (server.lists, copy.relists) == (1, 0)
        await copy.hears(ApiError(410, "too old"))  # removes nothing again, which ``_remove`` would not take
        assert (copy.names, server.lists) == (["a", "c"], 2)


@virtual_time
async def test_a_watch_that_ends_or_breaks_goes_on_where_it_was() -> None:
    """From the version of the last event or bookmark; nothing is listed."""

    async with copy_of("a") as copy:
        server = copy.server
        event, end = server.put("b"), ApiError(0, "broken")
        version = event["object"]["metadata"]["resourceVersion"]
        server.version += 50
        await copy.hears(event, None, server.bookmark(), end)
        assert server.watched_from[1:] == [version, str(server.version)]
        await copy.hears(server.delete("a"))
        assert (copy.names, server.lists) == (["b"], 1)


@virtual_time
async def test_a_version_that_the_server_has_forgotten() -> None:
    """All is listed again: what was deleted since is removed, also if another of its name is there."""

    async with copy_of("gone", "again", "stays") as copy:
        server, first = copy.server, copy.found["again"]
        for name in ("gone", "again"):
            server.delete(name)
        server.put("again")
        server.put("new")
        await copy.hears(ApiError(410, "too old resource version"))
        assert copy.names == ["again", "new", "stays"]
        assert copy.found["again"].uid != first.uid
        assert (server.lists, copy.relists) == (2, 1)
        assert server.watched_from[-1] == str(server.version)
        await copy.hears(server.put("later"))
        assert "later" in copy.names


@virtual_time
async def test_a_watch_that_cannot_be_opened_is_followed_by_a_list() -> None:
    """While the API server is away, etcd may be restored: versions are set back, and no event shows what has changed.

    Nothing is listed if the last list is recent.
    """

    async with copy_of("a", "b") as copy:
        server = copy.server
        await copy.hears(ApiError(0, "no answer"))
        assert server.lists == 1
        server.delete("a")
        server.version = 500
        await copy.hears(seconds=RELIST_INTERVAL_S)
        await copy.hears(ApiError(0, "no answer"))
        assert (copy.names, server.lists, server.watched_from[-1]) == (["b"], 2, "500")
        assert copy.listed["b"] == sys.maxsize
        await copy.hears(ApiError(0, "no answer"))
        assert server.lists == 2


@virtual_time
async def test_one_request_without_an_answer_is_an_outage() -> None:
    """A list of an older version then shows that etcd was restored, although only one request has failed."""

    async with copy_of("a") as copy:
        copy.server.version = 500
        await copy.hears(seconds=RELIST_INTERVAL_S)
        await copy.hears(ApiError(0, "no answer"))
        assert (copy.server.lists, copy.listed["a"]) == (2, sys.maxsize)


@virtual_time
async def test_objects_of_one_name_in_two_namespaces_are_two() -> None:
    """The one that a later list lacks is removed."""
    server, removed = Server("a"), list[Resource]()
    twin = {**server.bodies["a"], "metadata": {**server.bodies["a"]["metadata"], "namespace": "pay", "uid": "twin"}}
    server.bodies["twin"] = twin
    api = cast(KubernetesClient, server)
    informer = Informer(api, PATH, parse_resource, lambda *_: None, removed.append, lambda: None)
    await informer.refresh()
    del server.bodies["twin"]
    await informer.refresh()
    assert [each.namespace for each in removed] == ["pay"]


@virtual_time
async def test_a_list_that_is_late_brings_no_old_version_back() -> None:
    """Without an outage nothing was restored: what is known keeps its version, and so does what is listed."""

    async with copy_of("a") as copy:
        copy.server.version -= 1
        await copy.informer.refresh()
        assert copy.listed["a"] == copy.server.version
        await copy.hears(ApiError(410, "too old resource version"))
        assert (copy.server.lists, copy.listed["a"]) == (3, copy.server.version)


@virtual_time
async def test_a_list_that_breaks_changes_nothing() -> None:
    """Half of the Topics would look as if the other half had been deleted."""

    async with copy_of("a", "b", "c") as copy:
        server = copy.server
        server.delete("a")
        server.list_errors = [ApiError(410, "the continue parameter is too old"), ApiError(503, "no")]
        server.script.put_nowait(ApiError(410, "too old"))
        while server.list_errors:
            assert copy.names == ["a", "b", "c"]
            await asyncio.sleep(0.05)
        await asyncio.sleep(10)
        assert copy.names == ["b", "c"]


@virtual_time
async def test_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """So is its end."""

    caplog.set_level(logging.INFO)
    async with copy_of("a") as copy:
        server = copy.server
        server.list_errors = [ApiError(0, "no answer")] * 100
        await copy.hears(ApiError(0, "no answer"), seconds=RELIST_INTERVAL_S)
        await copy.hears(ApiError(0, "no answer"), seconds=90.0)
        assert copy.informer.error is not None
        server.list_errors.clear()
        await copy.hears()  # a list ends the outage, without any event
        assert copy.informer.error is None
        assert [record.message for record in caplog.records] == [
            "the API server cannot be watched",
            "the API server is watched again",
        ]
        assert {vars(record)["path"] for record in caplog.records} == {PATH}
        assert vars(caplog.records[0])["error"] == "no answer"
        caplog.clear()
        await copy.hears(ApiError(0, "no answer"), server.bookmark())
        assert len(caplog.records) == 2


@virtual_time
async def test_a_server_that_is_away_is_asked_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause doubles from one second to five, and is at least what the server asks for; chance takes half of it."""
    shares = list[tuple[float, float]]()

    def longest(low: float, high: float) -> float:
        shares.append((low, high))
        return high

    monkeypatch.setattr("random.uniform", longest)

    async with copy_of("a") as copy:
        server = copy.server
        for _ in range(6):
            await copy.hears(ApiError(0, "no answer"), seconds=0)
        await copy.hears(ApiError(429, "wait", retry_after=9.0), seconds=0)
        await copy.hears(seconds=60.0)
        asked = server.asked_at[-8:]
        first, *pauses = (round(later - earlier, 3) for earlier, later in pairwise(asked))
        assert first == 1.0 + 1.0  # the watch was open for a second
        assert pauses == [2.0, 4.0, 5.0, 5.0, 5.0, 18.0]
        assert {*shares} == {(0.5, 1.0)}


@virtual_time
async def test_a_spec_that_has_not_changed_is_not_read_again() -> None:
    """Neither for a status nor by a list: what is parsed is the same object."""

    async with copy_of("a") as copy:
        server, first = copy.server, copy.found["a"]
        body = {**server.bodies["a"], "status": {"observedGeneration": 1}}
        await copy.hears({"type": "MODIFIED", "object": body}, ApiError(410, "too old"))
        assert server.lists == 2
        assert copy.found["a"].manifest is first.manifest


# Namespaces that are watched one by one: one that is away is told, looked for, and keeps the others from nothing.

HOME, TEAM, OTHER = "shop", "team", "other"
PERIOD = 60.0
CLUSTERS = "/apis/topiarist.dev/v1/namespaces/shop/clusters"
NAMESPACE_RETRY_INTERVAL_S = 15.0
"""Seconds, as documented."""


class NamespaceServer:
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

    def __init__(self, server: NamespaceServer, *names: str, period: float = PERIOD) -> None:
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


@asynccontextmanager
async def watching_of(
    server: NamespaceServer, names: tuple[str, ...], period: float = PERIOD
) -> AsyncIterator[Watching]:
    """List all and watch."""
    watching = Watching(server, *names, period=period)
    await watching.informers.refresh()
    running = asyncio.create_task(watching.informers.run())
    yield watching
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def topic(namespace: str, name: str = "orders") -> dict[str, Any]:
    """A Topic in a namespace."""
    return resource_bodies.body("Topic", name, {"partitions": 3, "replicationFactor": 3}, namespace=namespace)


@virtual_time
async def test_a_namespace_that_goes_is_away_until_it_is_back() -> None:
    """The others are served meanwhile; it is looked for more often than it would be looked at.

    A namespace that is not there at the start is listed when it is.
    """
    server = NamespaceServer(HOME, OTHER)
    server.topics = {TEAM: [topic(TEAM)], OTHER: [topic(OTHER)]}

    async with watching_of(server, (HOME, OTHER, TEAM)) as watching:
        assert watching.away == {TEAM: NAMESPACE_NOT_FOUND}
        assert [*watching.store.topics] == [(OTHER, "orders")]
        server.namespaces.add(TEAM)
        assert await watching.later() == {}
        assert {*watching.store.topics} == {(OTHER, "orders"), (TEAM, "orders")}
        server.namespaces.remove(TEAM)
        assert await watching.later() == {TEAM: NAMESPACE_NOT_FOUND}
        assert TEAM not in watching.store.namespaces
        server.namespaces.add(TEAM)
        assert await watching.later(NAMESPACE_RETRY_INTERVAL_S + 1) == {}
        assert TEAM in watching.store.namespaces


@virtual_time
async def test_namespaces_that_are_there_are_looked_at_once_a_period() -> None:
    """The requests of a quiet operator do not grow with the time in which it would look for a lost namespace."""
    server = NamespaceServer(HOME, TEAM)

    async with watching_of(server, (HOME, TEAM)) as watching:
        before = server.gets
        await watching.later(10 * PERIOD + 1)
        assert server.gets - before == 10 * 2


@virtual_time
async def test_rights_are_asked_for_one_namespace_at_a_time() -> None:
    """At the start, and again of those that are away; what is missing is named."""
    server = NamespaceServer(HOME, TEAM, OTHER)
    server.lacking.add(TEAM)

    async with watching_of(server, (HOME, OTHER, TEAM)) as watching:
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


@virtual_time
async def test_a_right_that_is_lost_later_is_found() -> None:
    """After a request that the API server refused, the rights in each namespace are checked again, and named."""
    watching = Watching(NamespaceServer(HOME, TEAM), HOME, TEAM)
    await watching.informers.refresh()
    await watching.informers._check_namespaces()
    before = watching.server.reviews
    watching.server.lacking.add(TEAM)
    await watching.informers._check_namespaces()
    assert (watching.away, watching.server.reviews) == ({}, before)
    watching.server.forbidden += 1
    for _ in range(2):  # the second check follows no other refused request
        await watching.informers._check_namespaces()
        assert "patch topics" in watching.away[TEAM]
    watching.server.lacking.clear()
    await watching.informers._check_namespaces()
    assert watching.away == {}


@virtual_time
async def test_a_single_missing_right_is_named_alone() -> None:
    """The text counts further rights only if there are some."""
    server = NamespaceServer(HOME, TEAM)
    server.lacking_events.add(TEAM)

    async with watching_of(server, (HOME, TEAM)) as watching:
        assert watching.away[TEAM].endswith("may not create events in namespace team")


@pytest.mark.parametrize(("code", "away"), [(403, {TEAM: "refused"}), (503, {})])
@virtual_time
async def test_topics_of_which_nothing_can_be_seen_are_kept(code: int, away: dict[str, str]) -> None:
    """A lost permission removes no claim, and its reason is reported; an outage is not the matter of one namespace."""
    server = NamespaceServer(HOME, TEAM)
    server.topics = {TEAM: [topic(TEAM)]}
    server.watch_errors["/apis/topiarist.dev/v1/namespaces/team/topics"] = ApiError(code, "refused")

    async with watching_of(server, (HOME, TEAM)) as watching:
        assert await watching.later() == away
        assert [*watching.store.topics] == [(TEAM, "orders")]


@virtual_time
async def test_the_api_server_may_be_away() -> None:
    """Nothing is known of the namespaces then, and nothing ends."""
    server = NamespaceServer(HOME, TEAM)

    async with watching_of(server, (HOME, TEAM)) as watching:
        server.refused["/api/v1/namespaces/team"] = 503
        assert await watching.later() == {}
        server.refused.clear()
        server.namespaces.remove(TEAM)
        assert await watching.later() == {TEAM: NAMESPACE_NOT_FOUND}


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
    server = NamespaceServer(HOME, TEAM)
    server.refused[path] = code
    with pytest.raises(ApiError):
        asyncio.run(Watching(server, HOME, TEAM).informers.refresh())


def test_what_is_listed() -> None:
    """Policies and Clusters of the operator's namespace, Topics of all, Clusters of others for other releases."""
    ours = "/apis/topiarist.dev/v1"
    everywhere, some = NamespaceServer(HOME), NamespaceServer(HOME, TEAM)
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


@virtual_time
async def test_namespaces_are_watched_if_all_are() -> None:
    """Labels and a deletion in progress are known from the watch, and a namespace that was deleted is forgotten."""
    server = NamespaceServer(HOME)
    server.events["/api/v1/namespaces"] = [
        namespace_event("ADDED", TEAM, labels={"team": "a"}),
        namespace_event("ADDED", OTHER, labels=None),
        namespace_event("ADDED", "gone"),
        namespace_event("MODIFIED", OTHER, deletionTimestamp="2026-02-01T00:00:00Z"),
        namespace_event("DELETED", "gone"),
    ]

    async with watching_of(server, ()) as watching:
        await watching.later(1)
        assert watching.store.namespaces == {TEAM: {"team": "a"}, OTHER: {}}
        assert watching.store.terminating_namespaces == {OTHER}
        assert watching.away == {}


@virtual_time
async def test_a_short_period_is_that_of_namespaces_that_are_away_too() -> None:
    """A namespace that is away is looked for at least as often as it would be looked at."""
    server = NamespaceServer(HOME)

    async with watching_of(server, (HOME, TEAM), period=5.0) as watching:
        server.namespaces.add(TEAM)
        assert await watching.later(4) == {TEAM: NAMESPACE_NOT_FOUND}
        assert await watching.later(2) == {}


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces",
        "/apis/topiarist.dev/v1/topics",
        "/apis/topiarist.dev/v1/clusters",
        "/apis/topiarist.dev/v1/namespaces/shop/policies",
    ],
)
@virtual_time
async def test_a_list_after_a_gap_calls_for_passes(path: str) -> None:
    """A gap of any watch may hide a deletion, so everything is reconciled after its list; not after the first one."""
    server = NamespaceServer(HOME)

    async with watching_of(server, ()) as watching:
        await watching.later(1)
        assert watching.relists == 0
    server.watch_errors[path] = ApiError(410, "too old")

    async with watching_of(server, ()) as watching:
        await watching.later(0.01)
        server.watch_errors.clear()
        await watching.later(5)
        assert watching.relists == 1


@virtual_time
async def test_a_namespace_that_is_being_deleted_is_known() -> None:
    """Its Topics delete no topic; this is read with its labels once a period."""
    server = NamespaceServer(HOME, TEAM)
    read = server.get

    async def get(path: str, **params: str) -> dict[str, Any]:
        found = await read(path, **params)
        if path.endswith(f"/{TEAM}"):
            found["metadata"]["deletionTimestamp"] = "2026-02-01T00:00:00Z"
        return found

    async with watching_of(server, (HOME, TEAM)) as watching:
        assert watching.store.terminating_namespaces == set()
        server.get = get  # type: ignore[method-assign]
        await watching.later()
        assert watching.store.terminating_namespaces == {TEAM}
        assert watching.store.namespaces == {HOME: {"name": HOME}, TEAM: {"name": TEAM}}


def cluster_event(kind: str | None, name: str = "prod", version: int = 1_000_001, **spec: Any) -> dict[str, Any]:
    """Return an event of a Cluster as kopf passes it on."""
    body = resource_bodies.body("Cluster", name, spec, uid=name, resourceVersion=str(version))
    return {"type": kind, "object": body}


@virtual_time
async def test_clusters_come_from_kopf_and_are_listed_again() -> None:
    """kopf's watch adds, changes and removes Clusters; it misses the deletion in a gap, which the next list shows."""
    server = NamespaceServer(HOME)

    async with watching_of(server, ()) as watching:
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


@virtual_time
async def test_clusters_are_listed_anew_with_the_policies() -> None:
    """A watch that failed shows an outage: a list that is older than an event of kopf then replaces what is known."""
    server, policies = NamespaceServer(HOME), CLUSTERS.replace("clusters", "policies")

    async with watching_of(server, ()) as watching:
        server.watch_errors[policies] = ApiError(410, "too old")
        watching.informers.clusters.handle(cluster_event("ADDED", version=2_000_000))
        server.clusters = [cluster_event(None, version=900_000)["object"]]
        await watching.later(0.3)
        assert watching.store.clusters["prod"].resource_version == 2_000_000  # the list is only late
        watching.informers.clusters.handle(cluster_event("MODIFIED", version=2_000_001))
        server.watch_errors[policies] = ApiError(0, "no answer")
        await watching.later(RELIST_INTERVAL_S + 12)
        assert watching.store.clusters["prod"].resource_version == 900_000


# The definitions in the API server, compared with the fields that this release needs.

OLD = json.loads((ROOT / "tests" / "integration" / "files-of-0.1.0" / "definitions.json").read_text())
NAMES = {"Topic": "topics.topiarist.dev", "Cluster": "clusters.topiarist.dev", "Policy": "policies.topiarist.dev"}
NEW = {name: read_definition(name) for name in NAMES.values()}


def changed(name: str, *path: str | int, value: Any = None) -> dict[str, Any]:
    """Return a definition of this release with one field replaced, or without it."""
    body = copy.deepcopy(NEW[name])
    *above, last = path
    found: Any = body["spec"]["versions"][0]
    for step in above:
        found = found[step]
    if value is None:
        del found[last]
    else:
        found[last] = value
    return body


SCHEMA = ("schema", "openAPIV3Schema", "properties")


@pytest.mark.parametrize("kind", NAMES)
def test_the_definitions_of_this_release_have_every_field(kind: str) -> None:
    """The generated definitions lack nothing, and a later release with more fields and values lacks nothing either."""
    name = NAMES[kind]
    found = parse_definition(kind, NEW[name])
    assert (found.name, found.missing) == (name, ())
    assert prune({"observedGeneration": 1, "later": 2}, found.status) == {"observedGeneration": 1}
    more = changed(name, *SCHEMA, "status", "properties", "later", value={"type": "string"})
    assert parse_definition(kind, more).missing == ()
    (version,) = more["spec"]["versions"]
    older = [{**version, "name": "v1alpha1", "schema": {}}, {**version, "served": False}, version]
    assert parse_definition(kind, {**more, "spec": {"versions": older}}).missing == ()


@pytest.mark.parametrize(
    ("kind", "body", "missing"),
    [
        ("Topic", changed(NAMES["Topic"], *SCHEMA, "spec", "properties", "topicName"), "spec.topicName"),
        (
            "Topic",
            changed(NAMES["Topic"], *SCHEMA, "spec", "properties", "mode", "enum", value=["Enforce"]),
            "spec.mode: Observe",
        ),
        (
            "Topic",
            changed(NAMES["Topic"], *SCHEMA, "status", "properties", "clusters", "items", "properties", "consent"),
            "status.clusters[].consent",
        ),
        (
            "Cluster",
            changed(NAMES["Cluster"], *SCHEMA, "status", "properties", "recordsTopicId"),
            "status.recordsTopicId",
        ),
        ("Cluster", changed(NAMES["Cluster"], "served", value=0), "the version v1"),
        ("Policy", changed(NAMES["Policy"], "subresources", "status"), "the subresource status"),
    ],
)
def test_what_a_definition_lacks_is_named(kind: str, body: dict[str, Any], missing: str) -> None:
    """A field of a spec or a status, a value, the version, the subresource."""
    assert parse_definition(kind, body).missing == (missing,)


@pytest.mark.parametrize(
    "part",
    [{}, {"schema": {}}, {"schema": {"openAPIV3Schema": {}}}, {"schema": {"openAPIV3Schema": {"properties": {}}}}],
)
def test_a_definition_may_lack_any_part(part: dict[str, Any]) -> None:
    """It then lacks every field, and the subresource."""
    body = {"metadata": {"name": NAMES["Topic"]}, "spec": {"versions": [{"name": "v1", "served": True, **part}]}}
    found = parse_definition("Topic", body)
    assert {"spec.partitions", "status.conditions", "the subresource status"} <= {*found.missing}
    assert found.status == {}


@pytest.mark.parametrize(
    ("wanted", "found", "missing"),
    [
        ({"properties": {"a": {}, "b": {}}}, {"properties": {"b": {}, "c": {}}}, ["x.a"]),
        ({"properties": {"a": {"properties": {"b": {}}}}}, {"properties": {"a": {"properties": {}}}}, ["x.a.b"]),
        ({"properties": {"a": {"properties": {"b": {}}}}}, {"additionalProperties": {}}, ["x.a.b"]),
        ({"properties": {"a": {}}}, {"x-kubernetes-preserve-unknown-fields": True}, []),
        ({"items": {"properties": {"a": {}}}}, {"items": {"properties": {}}}, ["x[].a"]),
        ({"items": {"properties": {"a": {}}}}, {}, []),
        ({"additionalProperties": {"properties": {"a": {}}}}, {"additionalProperties": {"properties": {}}}, ["x.*.a"]),
        ({"additionalProperties": False}, {"additionalProperties": {"properties": {}}}, []),
        ({"enum": ["A", "B", "C"]}, {"enum": ["B"]}, ["x: A", "x: C"]),
        ({"enum": ["A"]}, {"type": "string"}, []),
        ({}, {"enum": ["A"]}, []),
        ({"$ref": "#/definitions/size"}, {"properties": {}}, ["x.small"]),
    ],
)
def test_a_schema_is_compared_field_by_field(wanted: Schema, found: Schema, missing: list[str]) -> None:
    """What a definition lacks has its path; more fields, more values and free fields lack nothing."""
    references: Schema = {"size": {"properties": {"small": {}}}}
    assert [*module._find_missing(wanted, references, found, "x")] == missing


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        (["spec.a"], "n does not have spec.a"),
        ([f"spec.{letter}" for letter in "abcde"], "n does not have spec.a, spec.b, spec.c, spec.d, spec.e"),
        (
            [f"spec.{letter}" for letter in "abcdefg"],
            "n does not have spec.a, spec.b, spec.c, spec.d, spec.e and 2 more",
        ),
    ],
)
def test_a_message_names_some_of_the_fields(missing: list[str], text: str) -> None:
    """The rest is counted: a definition of another release may lack hundreds."""
    assert describe_missing({"Topic": Definition("n", tuple(missing), {})}) == text


def test_a_status_is_cut_to_what_a_definition_has() -> None:
    """Fields in lists and objects go, maps and values stay."""
    schema = {
        "properties": {
            "list": {"items": {"properties": {"name": {}}}},
            "object": {"properties": {"in": {}}},
            "map": {"additionalProperties": {}},
        }
    }
    status = {"list": [{"name": 1, "other": 2}], "object": {"in": 1, "out": 2}, "map": {"any": 1}, "new": 3}
    assert prune(status, schema) == {"list": [{"name": 1}], "object": {"in": 1}, "map": {"any": 1}}
    assert prune({"list": ({"name": 1, "other": 2},)}, schema) == {"list": [{"name": 1}]}
    assert prune([{"any": 1}], {"type": "array"}) == [{"any": 1}]


class DefinitionServer:
    """An API server with definitions, and events that a test adds before the watch."""

    def __init__(self) -> None:
        self.bodies = dict(NEW)
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.selectors: list[str] = []

    async def list_pages(self, path: str, **params: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the definition that the selector names."""
        assert path == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        name = params["fieldSelector"].removeprefix("metadata.name=")
        self.selectors.append(name)
        items = [{**self.bodies[name], "metadata": {"name": name}}] if name in self.bodies else []
        yield {"metadata": {"resourceVersion": "1"}, "items": items}

    async def watch(self, _path: str, _version: str, **params: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of one definition."""
        for event in self.events.pop(params["fieldSelector"].removeprefix("metadata.name="), ()):
            yield event


@virtual_time
async def test_a_change_of_a_definition_is_told() -> None:
    """Each is read by its name at the start, all before the first report; a change and a deletion are reported."""

    server, told = DefinitionServer(), list[Mapping[str, Definition]]()
    del server.bodies[NAMES["Policy"]]
    name = NAMES["Topic"]
    old = {**OLD[name], "metadata": {"name": name, "resourceVersion": "2"}}
    new = {**NEW[name], "metadata": {"name": name, "resourceVersion": "3"}}
    definitions = Definitions(cast(KubernetesClient, server), told.append)
    await definitions.refresh()
    assert sorted(server.selectors) == sorted(NAMES.values())
    assert [[*each] for each in told] == [["Policy"]]
    assert describe_missing(told[0]) == f"{NAMES['Policy']} does not have everything"
    server.events[name] = [{"type": "MODIFIED", "object": old}, {"type": "MODIFIED", "object": new}]
    server.events[name].append({"type": "DELETED", "object": new})
    task = asyncio.create_task(definitions.run())
    await asyncio.sleep(1)
    assert [[*each] for each in told[1:]] == [["Topic", "Policy"], ["Policy"], ["Topic", "Policy"]]
    task.cancel()
