"""Watches and lists over HTTP: long lines, errors within a stream, read timeouts, pages and token changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import kopf
import pytest
from aiohttp import web

from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api import client as module
from topiarist.kubernetes.api.client import ApiError, KubernetesClient

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Login:
    """A login that returns a token set by the test."""

    def __init__(self) -> None:
        self.url = ""
        self.token = "first"
        self.broken = False

    def __call__(self) -> kopf.ConnectionInfo:
        if self.broken:
            raise TopiaristError(Reason.CREDENTIALS_INVALID, "no token")
        return kopf.ConnectionInfo(server=self.url, token=self.token)


def played(answer: Answer, work: Callable[[KubernetesClient, Login], Awaitable[None]]) -> None:
    """Start an API server that responds with ``answer``, and run ``work`` against it."""

    async def play() -> None:
        app, login = web.Application(), Login()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        login.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            async with KubernetesClient(login) as api:
                await work(api, login)
        finally:
            await runner.cleanup()

    asyncio.run(play())


def event(kind: str = "ADDED", **fields: Any) -> bytes:
    """Return one line of a watch."""
    return json.dumps({"type": kind, "object": {"metadata": {"resourceVersion": "7"}, **fields}}).encode() + b"\n"


def streaming(*chunks: bytes, ends: bool = True) -> Answer:
    """Return a handler that streams ``chunks`` and then ends, or keeps the connection open without data."""

    async def answer(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse()
        await stream.prepare(request)
        for chunk in chunks:
            await stream.write(chunk)
        if not ends:
            await asyncio.sleep(60)
        return stream

    return answer


def watched(*chunks: bytes, ends: bool = True) -> tuple[list[str], ApiError | None]:
    """Return the event types of a watch over ``chunks``, and its error."""
    found: list[str] = []
    errors: list[ApiError] = []

    async def work(api: KubernetesClient, _login: Login) -> None:
        try:
            async for each in api.watch("/topics", "5"):
                found.append(each["type"])
        except ApiError as error:
            errors.append(error)

    played(streaming(*chunks, ends=ends), work)
    return found, errors[0] if errors else None


def test_a_watch_gives_events_until_the_server_ends_it() -> None:
    """A watch yields events until the server ends it, including lines larger than one read and lines in several
    chunks.
    """
    large = event("MODIFIED", spec={"text": "x" * 1_500_000})
    assert watched(event(), large[:1000], large[1000:], event("BOOKMARK")) == (["ADDED", "MODIFIED", "BOOKMARK"], None)


def test_an_error_within_a_watch_is_raised() -> None:
    """The client raises an error within a watch as an ``ApiError``; for a version that is too old, ``gone`` is set."""
    found, error = watched(event(), event("ERROR", code=410, message="too old resource version"))
    assert found == ["ADDED"]
    assert error is not None
    assert (error.gone, str(error)) == (True, "too old resource version")


def test_a_watch_that_breaks_within_a_line_is_an_error_to_retry() -> None:
    """A watch that breaks within a line raises a retryable error; the partial line is not an event."""
    found, error = watched(event(), event()[:20])
    assert found == ["ADDED"]
    assert error is not None
    assert error.retryable


def test_a_silent_watch_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch without data raises a retryable error after the read timeout of 90 s; the server sends at least one event
    per minute.
    """
    assert module.WATCH_TIMEOUT.sock_read == 90
    monkeypatch.setattr(module, "WATCH_TIMEOUT", aiohttp.ClientTimeout(total=None, sock_read=0.2))
    found, error = watched(event(), ends=False)
    assert found == ["ADDED"]
    assert error is not None
    assert error.retryable


def test_a_watch_asks_for_bookmarks_and_is_not_counted() -> None:
    """A watch requests bookmarks from a given version, and the request metrics omit it. A refusal raises the error
    message of the server.
    """
    asked: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(dict(request.query))
        return web.json_response({"message": "topics is forbidden"}, status=403)

    async def work(api: KubernetesClient, _login: Login) -> None:
        with pytest.raises(ApiError, match="topics is forbidden") as caught:
            await anext(api.watch("/topics", "5", fieldSelector="metadata.namespace!=shop"))
        assert caught.value.forbidden
        assert api.requests == {}

    played(answer, work)
    (words,) = asked
    assert (words["watch"], words["allowWatchBookmarks"], words["resourceVersion"]) == ("true", "true", "5")
    assert words["fieldSelector"] == "metadata.namespace!=shop"


def test_a_list_is_read_to_its_last_page() -> None:
    """The client reads a list to its last page, each page with the token of the previous page."""

    async def answer(request: web.Request) -> web.StreamResponse:
        token = request.query.get("continue", "")
        following = {"": "a", "a": "b"}.get(token)
        metadata = {"resourceVersion": "7", **({"continue": following} if following else {})}
        return web.json_response({"metadata": metadata, "items": [token]})

    async def work(api: KubernetesClient, _login: Login) -> None:
        assert [page["items"] async for page in api.list_pages("/topics")] == [[""], ["a"], ["b"]]
        assert api.requests == {("GET", "200"): 3}

    played(answer, work)


def test_a_token_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client rereads its token at intervals, also for watches, and keeps the present token if it cannot read a new
    one.
    """
    seen: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        return web.Response(text="" if "watch" in request.query else "{}", content_type="application/json")

    async def work(api: KubernetesClient, login: Login) -> None:
        await api.get("/a")
        login.token = "second"
        await api.get("/a")
        monkeypatch.setattr(module, "LOGIN_INTERVAL_S", 0.0)
        assert [each async for each in api.watch("/a", "1")] == []
        login.broken = True
        await api.get("/a")

    played(answer, work)
    assert seen == ["Bearer first", "Bearer first", "Bearer second", "Bearer second"]
