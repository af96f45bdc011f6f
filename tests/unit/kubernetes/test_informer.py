"""A copy of a collection: a deletion during a gap of the watch is noticed, and there is no superfluous list request."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from typing import Any, cast

import pytest

from support.kubernetes import resource_bodies
from support.virtual_time import loop_time, run_in_virtual_time
from topiarist.kubernetes.api.client import ApiError, KubernetesClient
from topiarist.kubernetes.api.resources import Resource, parse_resource
from topiarist.kubernetes.informer import RELIST_INTERVAL_S, Informer

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


def played(work: Callable[[Copy], Awaitable[None]], *names: str) -> None:
    """Have an informer list these Topics and watch, and play something."""

    async def play() -> None:
        copy = Copy(Server(*names))
        await copy.informer.refresh()
        running = asyncio.create_task(copy.informer.run())
        await asyncio.sleep(1)
        await work(copy)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_in_virtual_time(play)


def test_what_is_listed_and_then_watched_is_there() -> None:
    """New, changed, deleted; one list is enough."""

    async def work(copy: Copy) -> None:
        server = copy.server
        assert copy.names == ["a", "b"]
        await copy.hears(server.put("c"), server.put("a", partitions=9), server.delete("b"))
        assert copy.names == ["a", "c"]
        assert copy.found["a"].declared_spec["partitions"] == 9
        assert (copy.listed["a"], copy.listed["c"]) == (0, 0)  # an event replaces no later version
        assert (server.lists, copy.relists) == (1, 0)
        await copy.hears(ApiError(410, "too old"))  # removes nothing again, which ``_remove`` would not take
        assert (copy.names, server.lists) == (["a", "c"], 2)

    played(work, "a", "b")


def test_a_watch_that_ends_or_breaks_goes_on_where_it_was() -> None:
    """From the version of the last event or bookmark; nothing is listed."""

    async def work(copy: Copy) -> None:
        server = copy.server
        event, end = server.put("b"), ApiError(0, "broken")
        version = event["object"]["metadata"]["resourceVersion"]
        server.version += 50
        await copy.hears(event, None, server.bookmark(), end)
        assert server.watched_from[1:] == [version, str(server.version)]
        await copy.hears(server.delete("a"))
        assert (copy.names, server.lists) == (["b"], 1)

    played(work, "a")


def test_a_version_that_the_server_has_forgotten() -> None:
    """All is listed again: what was deleted since is removed, also if another of its name is there."""

    async def work(copy: Copy) -> None:
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

    played(work, "gone", "again", "stays")


def test_a_watch_that_cannot_be_opened_is_followed_by_a_list() -> None:
    """While the API server is away, etcd may be restored: versions are set back, and no event shows what has changed.

    Nothing is listed if the last list is recent.
    """

    async def work(copy: Copy) -> None:
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

    played(work, "a", "b")


def test_a_list_that_breaks_changes_nothing() -> None:
    """Half of the Topics would look as if the other half had been deleted."""

    async def work(copy: Copy) -> None:
        server = copy.server
        server.delete("a")
        server.list_errors = [ApiError(410, "the continue parameter is too old"), ApiError(503, "no")]
        server.script.put_nowait(ApiError(410, "too old"))
        while server.list_errors:
            assert copy.names == ["a", "b", "c"]
            await asyncio.sleep(0.05)
        await asyncio.sleep(10)
        assert copy.names == ["b", "c"]

    played(work, "a", "b", "c")


def test_an_outage_is_logged_once_and_asked_about_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    """With a pause that grows to a few seconds; its end is logged."""

    async def work(copy: Copy) -> None:
        server = copy.server
        server.list_errors = [ApiError(0, "no answer")] * 100
        await copy.hears(ApiError(0, "no answer"), seconds=RELIST_INTERVAL_S)
        await copy.hears(ApiError(0, "no answer"), seconds=90.0)
        pauses = [later - earlier for earlier, later in zip(server.asked_at[3:], server.asked_at[4:], strict=False)]
        assert len(pauses) > 15
        assert all(2.5 <= pause <= 5.0 for pause in pauses[4:])
        assert all(0.5 <= pause <= 4.0 for pause in pauses[:1])
        assert copy.informer.error is not None
        server.list_errors.clear()
        await copy.hears(server.bookmark())
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

    with caplog.at_level(logging.INFO):
        played(work, "a")


def test_a_server_that_is_away_is_asked_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause doubles from one second to five, and is at least what the server asks for; chance takes half of it."""
    shares = list[tuple[float, float]]()

    def longest(low: float, high: float) -> float:
        shares.append((low, high))
        return high

    monkeypatch.setattr("random.uniform", longest)

    async def work(copy: Copy) -> None:
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

    played(work, "a")


def test_a_spec_that_has_not_changed_is_not_read_again() -> None:
    """Neither for a status nor by a list: what is parsed is the same object."""

    async def work(copy: Copy) -> None:
        server, first = copy.server, copy.found["a"]
        body = {**server.bodies["a"], "status": {"observedGeneration": 1}}
        await copy.hears({"type": "MODIFIED", "object": body}, ApiError(410, "too old"))
        assert server.lists == 2
        assert copy.found["a"].manifest is first.manifest

    played(work, "a")
