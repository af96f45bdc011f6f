"""HTTP client for the API server: get, create, replace and patch objects.

kopf does the watches; every other request of the operator uses this client: lists, statuses, finalizers, Leases,
Events, Secrets and access reviews. It has one HTTP session with kopf's login. Every failure is an ``ApiError``, which
has the server's message and says whether to retry.
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
"""Maximum number of concurrent requests: more would only queue in the server."""

_JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class ApiError(Exception):
    """An error of the API server; ``code`` is the HTTP status, 0 if there was no answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def not_found(self) -> bool:
        """Return whether the object does not exist."""
        return self.code == 404

    @property
    def forbidden(self) -> bool:
        """Return whether the operator lacks the right for the request."""
        return self.code == 403

    @property
    def conflict(self) -> bool:
        """Return whether another client changed the object first, or the object exists already."""
        return self.code == 409

    @property
    def retryable(self) -> bool:
        """Return whether the same request may succeed later."""
        return self.code in (0, 429) or self.code >= 500


class KubernetesClient:
    """A client for the API server, used as an async context manager.

    ``login`` is called again when the server answers 401. ``requests`` counts the answers by method and HTTP status;
    no answer counts as ``<error>``, as in client-go. Every method raises ``ApiError``.
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

    async def patch(self, path: str, body: Any, content_type: str = MERGE_PATCH, **params: str) -> dict[str, Any]:
        """Patch an object; return the whole object."""
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
        """Send one request and count its answer in ``requests``."""
        try:
            code, found = await _send(session, method, path, words)
        except ApiError as error:
            self.requests[method, str(error.code or "<error>")] += 1
            raise
        self.requests[method, str(code)] += 1
        return found

    async def _refresh_login(self, stale: aiohttp.ClientSession) -> None:
        """Log in again, once for all concurrent requests that were answered 401."""
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
    """Return the message of a ``Status``; for any other answer, the HTTP status line."""
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
    """Return the TLS context: the trusted CA and the client certificate, if there is one."""
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
    """Decode a base64 value of a kubeconfig; return empty text for none."""
    return base64.b64decode(data).decode() if data else ""
