"""HTTP client for the API server: requests, lists and watches.

kopf watches the Clusters and posts Events; every other request of the operator uses this client. It has one HTTP
session of its own, with kopf's login. Every failure is an ``ApiError``, which has the server's message and says whether
to retry.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

import aiohttp
import kopf

from topiarist.errors import Reason, TopiaristError

# Wall-clock time in the formats of Kubernetes.
#
# Times in statuses, Events and Leases are for display, with one exception. The budget of deletions covers one day and
# has to survive a restart, so it uses wall-clock time: if the clock of the operator jumps ahead by a day, the cluster
# gets one more budget. All other timeouts and intervals use the monotonic clock.

DAY = timedelta(days=1)


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def from_milliseconds(milliseconds: int) -> datetime:
    """Return the time for ms since the epoch, the unit of ZooKeeper."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def format_milliseconds(milliseconds: int) -> str:
    """Return the time for ms since the epoch in the format of conditions."""
    return format_time(from_milliseconds(milliseconds))


def format_time(time: datetime) -> str:
    """Return a time in the format of conditions: ``2026-01-31T12:00:00Z``."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time_now() -> str:
    """Return the current time in the format of Events and Leases, with microseconds."""
    return utc_now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def is_within_a_day(text: str, time: datetime) -> bool:
    """Return whether the RFC 3339 time ``text`` is less than a day before ``time``."""
    return time - datetime.fromisoformat(text) < DAY


REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=10)

WATCH_DURATION_S = 600
"""Seconds after which the server ends a watch, so that watches move to another server now and then."""

WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=90)
"""Bookmarks arrive about once a minute, so a watch without any data for 90 seconds is a dead connection."""

MAX_LINE_BYTES = 2**22
"""Limit of one line of a watch: the largest object of etcd (1.5 MiB) fits. aiohttp's default is 128 KiB."""

PAGE_SIZE = 500

LOGIN_INTERVAL_S = 60.0
"""Seconds after which the token is read again: kubelet replaces the file of a ServiceAccount's token hourly."""

MAX_RETRY_AFTER_S = 60.0
"""Maximum seconds that a server can ask the operator to wait: more would look like an operator that has stopped."""

MAX_IN_FLIGHT_REQUESTS = 16
"""Maximum number of concurrent requests: more would only queue in the server."""

_JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class ApiError(Exception):
    """An error of the API server; ``code`` is the HTTP status, 0 if there was no answer.

    ``retry_after`` are the seconds that the server asks clients to wait, 0 if it asks for none.
    """

    def __init__(self, code: int, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after

    @property
    def not_found(self) -> bool:
        """Return whether the object does not exist."""
        return self.code == 404

    @property
    def forbidden(self) -> bool:
        """Return whether the operator lacks the right for the request."""
        return self.code == 403

    @property
    def reason(self) -> Reason:
        """Return the reason of a pass that ends because of this error."""
        return Reason.NO_PERMISSION if self.forbidden else Reason.UNREACHABLE

    @property
    def conflict(self) -> bool:
        """Return whether another client changed the object first, or the object exists already."""
        return self.code == 409

    @property
    def gone(self) -> bool:
        """Return whether the server no longer has the events after the resource version of a watch."""
        return self.code == 410

    @property
    def retryable(self) -> bool:
        """Return whether the same request may succeed later."""
        return self.code in (0, 429) or self.code >= 500


class KubernetesClient:
    """A client for the API server, used as an async context manager.

    ``login`` is called at the start, and again once a minute. ``requests`` counts the answers by method and HTTP
    status, without watches; no answer counts as ``<error>``, as in client-go. ``forbidden`` counts the answers 403,
    also to watches. Every method raises ``ApiError``.
    """

    def __init__(self, login: Callable[[], kopf.ConnectionInfo]) -> None:
        self._login = login
        self._request_slots = asyncio.Semaphore(MAX_IN_FLIGHT_REQUESTS)
        self._session: aiohttp.ClientSession
        self._auth_headers: Mapping[str, str] = {}
        self._login_at = 0.0
        self.requests: Counter[tuple[str, str]] = Counter()
        self.forbidden = 0

    async def __aenter__(self) -> Self:
        info = self._login()
        self._auth_headers, self._login_at = info.as_http_headers(), time.monotonic()
        connector = aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context())
        headers = {"User-Agent": "topiarist", "Accept": _JSON}
        self._session = aiohttp.ClientSession(info.server, headers=headers, connector=connector)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, path: str, **params: str) -> dict[str, Any]:
        """Return an object, or a list of objects."""
        return await self._request("GET", path, params=params)

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object in the collection at ``path``; return it."""
        return await self._request("POST", path, body)

    async def replace(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Replace an object; return it.

        Raises a conflict if the object no longer has the resource version in ``body``.
        """
        return await self._request("PUT", path, body)

    async def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Merge ``body`` into an object; return the whole object."""
        return await self._request("PATCH", path, body, content_type=MERGE_PATCH)

    async def apply(self, path: str, body: Mapping[str, Any], field_manager: str) -> dict[str, Any]:
        """Apply the fields of ``field_manager`` on the server; return the whole object."""
        params = {"fieldManager": field_manager, "force": "true"}
        return await self._request("PATCH", path, body, content_type=APPLY_PATCH, params=params)

    async def list_pages(self, path: str, **params: str) -> AsyncIterator[dict[str, Any]]:
        """Yield a list of objects page by page; all pages are of one resource version."""
        following: Mapping[str, str] = {}
        while True:
            page = await self.get(path, limit=str(PAGE_SIZE), **params, **following)
            yield page
            if not (token := page["metadata"].get("continue")):
                return
            following = {"continue": token}

    async def watch(self, path: str, resource_version: str, **params: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the events after a resource version, including bookmarks, until the server ends the watch."""
        params |= {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": resource_version}
        params |= {"timeoutSeconds": str(WATCH_DURATION_S)}
        try:
            async with self._session.get(
                path, params=params, headers=self._headers(_JSON), timeout=WATCH_TIMEOUT, read_bufsize=MAX_LINE_BYTES
            ) as answer:
                if not answer.ok:
                    raise await self._read_error(answer)
                async for line in answer.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise ApiError(event["object"].get("code", 0), event["object"].get("message", ""))
                    yield event
        # ValueError: the connection broke within a line, or a line is too long.
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise ApiError(0, f"the watch broke: {str(error) or type(error).__name__}") from error

    async def _request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = _JSON,
        params: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        async with self._request_slots:
            code = "<error>"
            try:
                async with self._session.request(
                    method, path, json=body, params=params, headers=self._headers(content_type), timeout=REQUEST_TIMEOUT
                ) as answer:
                    code = str(answer.status)
                    if not answer.ok:
                        raise await self._read_error(answer)
                    found: dict[str, Any] = await answer.json()
                    return found
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                code = "<error>"
                raise ApiError(0, f"no answer from the API server: {str(error) or type(error).__name__}") from error
            finally:
                self.requests[method, code] += 1

    async def _read_error(self, answer: aiohttp.ClientResponse) -> ApiError:
        """Return the error of an answer. ``Retry-After`` counts in seconds, the only form that API servers send."""
        seconds = answer.headers.get("Retry-After", "")
        retry_after = min(float(seconds), MAX_RETRY_AFTER_S) if seconds.isascii() and seconds.isdigit() else 0.0
        error = ApiError(answer.status, await _error_message(answer), retry_after)
        self.forbidden += error.forbidden
        return error

    def _headers(self, content_type: str) -> Mapping[str, str]:
        if time.monotonic() - self._login_at > LOGIN_INTERVAL_S:
            self._login_at = time.monotonic()
            with contextlib.suppress(TopiaristError):  # the present token may still be valid
                self._auth_headers = self._login().as_http_headers()
        return {**self._auth_headers, "Content-Type": content_type}


async def _error_message(answer: aiohttp.ClientResponse) -> str:
    """Return the message of a ``Status``; for any other answer, the HTTP status line."""
    try:
        status = await answer.json()
        return str(status["message"])
    except (aiohttp.ContentTypeError, ValueError, KeyError, TypeError):
        return f"HTTP {answer.status} {answer.reason}"
