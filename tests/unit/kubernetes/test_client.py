"""Watches and lists over HTTP: long lines, errors within a stream, read timeouts, pages and token changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

import aiohttp
import kopf
import pytest
from aiohttp import web

from support.virtual_time import real_time, virtual_time
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import client
from topiarist.kubernetes.client import (
    IDENTITY_RIGHT,
    AccessRight,
    ApiError,
    KubernetesClient,
    kafka_topic_rights,
    missing_rights,
    monitor_rights,
    namespace_rights,
    require_rights,
    required_rights,
)

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


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[tuple[KubernetesClient, Login]]:
    """Start an API server that responds with ``answer``, and a client of it."""
    app, login = web.Application(), Login()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    login.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with KubernetesClient(login) as api:
            yield api, login
    finally:
        await runner.cleanup()


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

    async def work() -> None:
        async with serving(streaming(*chunks, ends=ends)) as (api, _login):
            try:
                async for each in api.watch("/topics", "5"):
                    found.append(each["type"])
            except ApiError as error:
                errors.append(error)

    asyncio.run(work())
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
    found, error = watched(event("ERROR"))
    assert error is not None
    assert (found, error.code, str(error), error.retryable) == ([], 0, "", True)


def test_a_watch_that_breaks_within_a_line_is_an_error_to_retry() -> None:
    """A watch that breaks within a line raises a retryable error with the cause; the partial line is not an event."""
    found, error = watched(event(), event()[:20])
    assert found == ["ADDED"]
    assert error is not None
    assert error.retryable
    assert str(error).startswith("the watch broke: ")
    assert "line 1 column" in str(error)


def test_a_silent_watch_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch without data raises a retryable error after the read timeout of 90 s; the server sends at least one event
    per minute.
    """
    assert client.WATCH_TIMEOUT.sock_read == 90
    monkeypatch.setattr(client, "WATCH_TIMEOUT", aiohttp.ClientTimeout(total=None, sock_read=0.2))
    found, error = watched(event(), ends=False)
    assert found == ["ADDED"]
    assert error is not None
    assert error.retryable
    assert str(error).removeprefix("the watch broke: ").strip()


@real_time
async def test_a_watch_that_breaks_without_a_text_has_the_name_of_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a request, so that the log says more than nothing."""

    def fail(*_: Any, **__: Any) -> None:
        raise TimeoutError

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response()

    async with serving(answer) as (api, _login):
        monkeypatch.setattr(aiohttp.ClientSession, "get", fail)
        with pytest.raises(ApiError, match=r"^the watch broke: TimeoutError$"):
            await anext(api.watch("/topics", "5"))


@real_time
async def test_a_watch_asks_for_bookmarks_and_is_not_counted() -> None:
    """A watch requests bookmarks from a given version, and the request metrics omit it. A refusal raises the error
    message of the server.
    """
    asked: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(dict(request.query))
        return web.json_response({"message": "topics is forbidden"}, status=403)

    async with serving(answer) as (api, _login):
        with pytest.raises(ApiError, match="topics is forbidden") as caught:
            await anext(api.watch("/topics", "5", fieldSelector="metadata.namespace!=shop"))
        assert caught.value.forbidden
        assert api.requests == {}
    (words,) = asked
    assert (words["watch"], words["allowWatchBookmarks"], words["resourceVersion"]) == ("true", "true", "5")
    assert (words["fieldSelector"], words["timeoutSeconds"]) == ("metadata.namespace!=shop", "600")


@real_time
async def test_any_number_of_watches_are_open_at_once() -> None:
    """Each watched namespace has two; a pool of a hundred connections would leave the others without events."""
    async with serving(streaming(event(), ends=False)) as (api, _login), asyncio.timeout(30):
        watches = [api.watch(f"/namespaces/n{number}/topics", "5") for number in range(101)]
        assert len(await asyncio.gather(*map(anext, watches))) == 101


@real_time
async def test_a_list_is_read_to_its_last_page() -> None:
    """The client reads a list to its last page, each page with the token of the previous page."""

    async def answer(request: web.Request) -> web.StreamResponse:
        token = request.query.get("continue", "")
        following = {"": "a", "a": "b"}.get(token)
        metadata = {"resourceVersion": "7", **({"continue": following} if following else {})}
        return web.json_response({"metadata": metadata, "items": [token]})

    async with serving(answer) as (api, _login):
        assert [page["items"] async for page in api.list_pages("/topics")] == [[""], ["a"], ["b"]]
        assert api.requests == {("GET", "200"): 3}


@real_time
async def test_a_token_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client rereads its token at intervals, also for watches, and keeps the present token if it cannot read a new
    one.
    """
    seen: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        return web.Response(text="" if "watch" in request.query else "{}", content_type="application/json")

    async with serving(answer) as (api, login):
        await api.get("/a")
        login.token = "second"
        await api.get("/a")
        monkeypatch.setattr(client, "LOGIN_INTERVAL_S", 0.0)
        assert [each async for each in api.watch("/a", "1")] == []
        login.broken = True
        await api.get("/a")
    assert seen == ["Bearer first", "Bearer first", "Bearer second", "Bearer second"]


class Asked(NamedTuple):
    """A request as the server received it."""

    method: str
    path: str
    query: dict[str, str]
    content_type: str
    body: Any


@real_time
async def test_each_request_has_its_method_and_content_type() -> None:
    """The API server tells a merge patch from a server-side apply by the content type alone."""
    asked: list[Asked] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.text() or "null")
        assert (request.headers["User-Agent"], request.headers["Accept"]) == ("topiarist", "application/json")
        asked.append(Asked(request.method, request.path, dict(request.query), request.headers["Content-Type"], body))
        return web.json_response({"answer": len(asked)})

    async with serving(answer) as (api, _login):
        answers = [
            await api.get("/a", limit="7"),
            await api.create("/a", {"b": 1}),
            await api.replace("/a/b", {"b": 2}),
            await api.patch("/a/b", {"b": 3}),
            await api.apply("/a/b", {"b": 4}, "us"),
        ]
        assert answers == [{"answer": number} for number in range(1, 6)]
        assert api.requests == {("GET", "200"): 1, ("POST", "200"): 1, ("PUT", "200"): 1, ("PATCH", "200"): 2}
    plain, force = "application/json", {"fieldManager": "us", "force": "true"}
    assert asked == [
        Asked("GET", "/a", {"limit": "7"}, plain, None),
        Asked("POST", "/a", {}, plain, {"b": 1}),
        Asked("PUT", "/a/b", {}, plain, {"b": 2}),
        Asked("PATCH", "/a/b", {}, "application/merge-patch+json", {"b": 3}),
        Asked("PATCH", "/a/b", force, "application/apply-patch+yaml", {"b": 4}),
    ]


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        (0, {"retryable"}),
        (400, set()),
        (403, {"forbidden"}),
        (404, {"not_found"}),
        (409, {"conflict"}),
        (410, {"gone"}),
        (429, {"retryable"}),
        (499, set()),
        (500, {"retryable"}),
        (503, {"retryable"}),
    ],
)
def test_each_error_is_of_one_kind(code: int, kinds: set[str]) -> None:
    """A request that may succeed later is repeated, and no other one is."""
    error = ApiError(code, "why")
    found = {kind for kind in ("retryable", "forbidden", "not_found", "conflict", "gone") if getattr(error, kind)}
    assert (found, str(error)) == (kinds, "why")


@pytest.mark.parametrize(
    ("code", "kind", "body", "message"),
    [
        (403, "application/json", '{"message": "topics is forbidden"}', "topics is forbidden"),
        (403, "application/json", '{"reason": "Forbidden"}', "HTTP 403 Forbidden"),
        (403, "application/json", "[]", "HTTP 403 Forbidden"),
        (403, "application/json", "{", "HTTP 403 Forbidden"),
        (502, "text/html", "<html>", "HTTP 502 Bad Gateway"),
    ],
)
@real_time
async def test_an_answer_of_a_proxy_is_an_error_too(code: int, kind: str, body: str, message: str) -> None:
    """An error without the message of the API server has the HTTP status line."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(text=body, status=code, content_type=kind)

    async with serving(answer) as (api, _login):
        with pytest.raises(ApiError) as caught:
            await api.get("/a")
        assert (caught.value.code, str(caught.value)) == (code, message)


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("900", 60.0), ("soon", 0.0), ("-1", 0.0), (None, 0.0)])
@real_time
async def test_a_server_may_ask_to_wait(header: str | None, seconds: float) -> None:
    """``Retry-After`` of a request and of a watch is in the error, at most a minute; refused rights are counted."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        headers = {"Retry-After": header} if header else {}
        return web.json_response({"message": "too many"}, status=429 if header else 403, headers=headers)

    async with serving(answer) as (api, _login):
        with pytest.raises(ApiError) as caught:
            await api.get("/a")
        with pytest.raises(ApiError) as watched:
            await anext(api.watch("/topics", "5"))
        assert (caught.value.retry_after, watched.value.retry_after) == (seconds, seconds)
        assert api.forbidden == (0 if header else 2)


@real_time
async def test_a_server_without_an_answer_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that breaks and a request that takes too long are retryable errors, which are counted."""
    assert (client.REQUEST_TIMEOUT.total, client.REQUEST_TIMEOUT.sock_connect) == (30, 10)
    assert (client.WATCH_TIMEOUT.total, client.WATCH_TIMEOUT.sock_connect) == (None, 10)
    monkeypatch.setattr(client, "REQUEST_TIMEOUT", aiohttp.ClientTimeout(total=0.2))

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/breaks":
            assert request.transport
            request.transport.close()
        await asyncio.sleep(60)
        return web.Response()

    async with serving(answer) as (api, _login):
        for path, why in {"/breaks": "Server disconnected", "/hangs": "TimeoutError"}.items():
            with pytest.raises(ApiError, match=f"no answer from the API server: {why}$") as caught:
                await api.get(path)
            assert (caught.value.code, caught.value.retryable) == (0, True)
        assert api.requests == {("GET", "<error>"): 2}


@real_time
async def test_few_requests_are_in_flight_at_a_time() -> None:
    """Ten thousand statuses must not open ten thousand connections."""
    flying, most, is_full = [0], [0], asyncio.Event()

    async def answer(_request: web.Request) -> web.StreamResponse:
        flying[0] += 1
        most[0] = max(most[0], flying[0])
        if flying[0] == client.MAX_IN_FLIGHT_REQUESTS:
            is_full.set()
        await is_full.wait()
        flying[0] -= 1
        return web.json_response({})

    async with serving(answer) as (api, _login):
        await asyncio.gather(*(api.get("/a") for _ in range(40)))
    assert most == [client.MAX_IN_FLIGHT_REQUESTS]


# Times in the formats of Kubernetes, and the day of a budget.

NOON = datetime(2026, 1, 31, 12, 0, 0, 250, UTC)


def test_times_are_written_as_kubernetes_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions have whole seconds, Events and Leases microseconds; both are in UTC."""
    assert client.format_time(NOON) == "2026-01-31T12:00:00Z"
    monkeypatch.setattr(client, "utc_now", lambda: NOON)
    assert client.format_micro_time_now() == "2026-01-31T12:00:00.000250Z"


def test_the_clock_is_in_utc() -> None:
    """A time of the clock can be compared with one that the API server wrote."""
    assert client.utc_now().utcoffset() == timedelta(0)


def test_zookeeper_counts_milliseconds() -> None:
    """A time of ZooKeeper is in milliseconds, and keeps them."""
    assert client.from_milliseconds(1_769_860_800_250) == datetime(2026, 1, 31, 12, 0, 0, 250_000, UTC)


@pytest.mark.parametrize(
    ("text", "within"),
    [
        ("2026-01-31T12:00:00Z", True),
        ("2026-01-31T12:00:01Z", True),
        ("2026-01-30T12:00:01Z", True),
        ("2026-01-30T12:00:00Z", False),
        ("2026-01-29T13:00:00Z", False),
    ],
)
def test_a_day_has_24_hours(text: str, within: bool) -> None:
    """A deletion leaves the budget exactly 24 hours after it was made; the clock may be set back meanwhile."""
    assert client.is_within_a_day(text, NOON.replace(microsecond=0)) is within


# The rights that the operator requests: no more than it uses, each in one namespace if it can be limited to one.

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


def watched_rights(name: str) -> list[str]:
    """Return the rights in one watched namespace."""
    return [
        f"get namespaces {name} in namespace {name}",
        f"list/watch/patch topics.topiarist.dev in namespace {name}",
        f"patch topics/status.topiarist.dev in namespace {name}",
        f"list/watch clusters.topiarist.dev in namespace {name}",
        f"create events in namespace {name}",
    ]


class RightsServer:
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
        (("kafka", "pay"), "", [*OWN, *KIND, *watched_rights("kafka")]),
    ],
    ids=["all namespaces", "with a Lease", "some namespaces"],
)
def test_the_operator_requests_what_it_uses(namespaces: tuple[str, ...], lease: str, wanted: list[str]) -> None:
    """No right is for all namespaces if they are listed, and none is for Leases without leader election."""
    assert texts(required_rights("kafka", namespaces, lease=lease)) == wanted


def test_each_watched_namespace_has_its_own_rights() -> None:
    """Without a right in one namespace the operator serves the others; the uid of ``kube-system`` needs one more."""
    assert texts(namespace_rights("pay")) == watched_rights("pay")
    assert str(IDENTITY_RIGHT) == "get namespaces kube-system in namespace kube-system"


@pytest.mark.parametrize(
    ("namespaces", "places"), [((), ["in all namespaces"]), (("a", "b"), ["in namespace a", "in namespace b"])]
)
def test_kafka_topics_need_rights_of_their_own(namespaces: tuple[str, ...], places: list[str]) -> None:
    """Their definition is one for all namespaces; they, their status and Strimzi's Kafkas are those of a namespace."""
    definition = "get/list/watch customresourcedefinitions.apiextensions.k8s.io kafkatopics.kafka.strimzi.io"
    own = ("list/watch/patch kafkatopics", "patch kafkatopics/status", "list kafkas")
    assert texts(kafka_topic_rights(namespaces)) == [
        f"{definition} in all namespaces",
        *(f"{each}.kafka.strimzi.io {place}" for place in places for each in own),
    ]


def test_each_verb_is_reviewed_by_itself() -> None:
    """A review names one verb, and a subresource apart from its resource; each missing verb is returned."""
    server = RightsServer("patch topics", "watch topics")
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
    asyncio.run(require_rights(cast(KubernetesClient, RightsServer()), rights))
    with pytest.raises(TopiaristError) as caught:
        asyncio.run(require_rights(cast(KubernetesClient, RightsServer("create events", "list topics")), rights))
    error = caught.value
    assert error.reason is Reason.NO_PERMISSION
    assert "list topics.topiarist.dev in all namespaces; create events in all namespaces" in str(error)


@virtual_time
async def test_rights_are_checked_after_a_refusal_and_from_time_to_time() -> None:
    """A lost right is named within seconds of the first refused request, and without one within ten minutes; it is
    asked for every 15 seconds until it is back. Requests that no right of these allows cause one check a minute.
    """
    server, told = RightsServer(), list[Sequence[str]]()
    rights = [AccessRight("topiarist.dev", "topics/status", ("patch",))]
    lost = [str(rights[0])]
    task = asyncio.create_task(monitor_rights(cast(KubernetesClient, server), rights, told.append))
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
