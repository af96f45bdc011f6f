"""The API server, as much of it as kopf leaves to us: statuses, finalizers, Leases, Events, Secrets, our own rights.

One HTTP session, logged in as kopf is. Errors are ``ApiError``: what the server said, and whether to try again.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import kopf

REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=10)

MAX_IN_FLIGHT_REQUESTS = 16
"""Requests under way at any time: more only wait at the server."""

_JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class ApiError(Exception):
    """What the API server answered in place of an object; ``code`` is the HTTP status, 0 if there was no answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def not_found(self) -> bool:
        """Whether the object is not there."""
        return self.code == 404

    @property
    def forbidden(self) -> bool:
        """Whether we have no right to it."""
        return self.code == 403

    @property
    def conflict(self) -> bool:
        """Whether somebody was faster, or the object is there already."""
        return self.code == 409

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code in (0, 429) or self.code >= 500


class KubernetesClient:
    """The API server. Use as an async context manager; ``login`` is asked again when a token has expired.

    ``requests`` counts the answers by method and HTTP status; ``<error>`` stands for no answer, as in client-go.
    """

    def __init__(self, login: Callable[[], kopf.ConnectionInfo]) -> None:
        self._login = login
        self._request_slots = asyncio.Semaphore(MAX_IN_FLIGHT_REQUESTS)
        self._session: aiohttp.ClientSession | None = None
        self._login_lock = asyncio.Lock()
        self.requests: Counter[tuple[str, str]] = Counter()

    async def __aenter__(self) -> Self:
        self._session = _open_session(self._login())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session:
            await self._session.close()

    async def get(self, path: str, **params: str) -> dict[str, Any]:
        """An object, or a list of them."""
        return await self._request("GET", path, params=params)

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """A new object below the collection at ``path``."""
        return await self._request("POST", path, body)

    async def replace(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """An object as a whole, if it still has the resource version that ``body`` names."""
        return await self._request("PUT", path, body)

    async def patch(self, path: str, body: Any, content_type: str = MERGE_PATCH, **params: str) -> dict[str, Any]:
        """A part of an object."""
        return await self._request("PATCH", path, body, content_type=content_type, params=params)

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
            session = self._session
            assert session is not None
            words = {"json": body, "params": params, "headers": {"Content-Type": content_type}}
            try:
                return await self._send_and_count(session, method, path, words)
            except ApiError as error:
                if error.code != 401:
                    raise
            await self._refresh_login(session)
            return await self._send_and_count(self._session, method, path, words)

    async def _send_and_count(
        self, session: aiohttp.ClientSession | None, method: str, path: str, words: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Send one request and count its answer."""
        try:
            code, found = await _send(session, method, path, words)
        except ApiError as error:
            self.requests[method, str(error.code or "<error>")] += 1
            raise
        self.requests[method, str(code)] += 1
        return found

    async def _refresh_login(self, stale: aiohttp.ClientSession) -> None:
        """Log in again, once for all who found the token expired."""
        async with self._login_lock:
            if self._session is stale:
                self._session = _open_session(self._login())
                await stale.close()


async def _send(
    session: aiohttp.ClientSession | None, method: str, path: str, arguments: Mapping[str, Any]
) -> tuple[int, dict[str, Any]]:
    assert session is not None
    try:
        async with session.request(method, path, **arguments) as answer:
            if answer.ok:
                found: dict[str, Any] = await answer.json()
                return answer.status, found
            raise ApiError(answer.status, await _error_message(answer))
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise ApiError(0, f"no answer from the API server: {error or type(error).__name__}") from error


async def _error_message(answer: aiohttp.ClientResponse) -> str:
    """The message of a ``Status``, or whatever there was in its place."""
    try:
        status = await answer.json()
        return str(status["message"])
    except (aiohttp.ContentTypeError, ValueError, KeyError, TypeError):
        return f"HTTP {answer.status} {answer.reason}"


def _open_session(info: kopf.ConnectionInfo) -> aiohttp.ClientSession:
    headers = {"User-Agent": "topiarist", "Accept": _JSON}
    if info.token:
        headers["Authorization"] = f"{info.scheme or 'Bearer'} {info.token}"
    connector = aiohttp.TCPConnector(limit=MAX_IN_FLIGHT_REQUESTS, ssl=_tls_context(info))
    return aiohttp.ClientSession(info.server, headers=headers, connector=connector, timeout=REQUEST_TIMEOUT)


def _tls_context(info: kopf.ConnectionInfo) -> ssl.SSLContext:
    """Whom we trust, and with what we prove who we are."""
    data = _decode_base64(info.ca_data)
    context = ssl.create_default_context(cafile=info.ca_path or None, cadata=data or None)
    if info.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key = _decode_base64(info.certificate_data), _decode_base64(info.private_key_data)
    if certificate and key:
        with tempfile.TemporaryDirectory() as folder:  # the ssl module reads certificates from files only
            paths = Path(folder, "certificate"), Path(folder, "key")
            for path, text in zip(paths, (certificate, key), strict=True):
                path.touch(0o600)
                path.write_text(text)
            context.load_cert_chain(*paths)
    elif info.certificate_path:
        context.load_cert_chain(info.certificate_path, info.private_key_path)
    return context


def _decode_base64(data: bytes | str | None) -> str:
    """What a kubeconfig has in base64."""
    return base64.b64decode(data).decode() if data else ""
