"""HTTP client for the API server, and what the process asks of it: times, its Lease, its rights.

kopf watches the Clusters and posts Events; every other request of the operator uses this client. It has one HTTP
session of its own, with kopf's login. Every failure is an ``ApiError``, which has the server's message and says whether
to retry.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Self

import aiohttp
import kopf
from msgspec import Struct

from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import resources
from topiarist.schema import load

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

    async def __aexit__(self, *_: object) -> None:
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


# Leader election among replicas of the operator, by a Lease and the rules of controller-runtime.
#
# ``main`` acquires and renews the Lease. Only the leader reconciles; the other replicas wait and hold no watches. Time
# is measured locally from the moment a change of the Lease is observed, so clocks need not agree. A leader that cannot
# renew in time must stop: ``renew_until_lost`` returns, and the process exits. The Lease does not prevent writes of a
# leader that was suspended for longer: the lock of the Kafka cluster does.


class LeaseTimings(Struct, frozen=True):
    """The timings of a Lease, in seconds.

    ``duration``: validity of the Lease. ``renew_deadline``: time the holder has to renew it. ``retry_period``: interval
    between two attempts.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class Lease:
    """A Lease that this process acquires and renews; ``identity`` is unique to the process."""

    def __init__(
        self, api: KubernetesClient, namespace: str, name: str, identity: str, timings: LeaseTimings = LeaseTimings()
    ) -> None:
        self._api = api
        self._collection_path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection_path}/{name}"
        self._name = name
        self._identity = identity
        self._timings = timings
        self._observed_spec: Any = None
        self._observed_at = 0.0

    async def acquire(self, on_waiting: Callable[[str], None]) -> None:
        """Wait until this process holds the Lease.

        ``on_waiting`` is called with the holder's identity each time that the holder changes.
        """
        told = None
        while not await self._try_acquire():
            holder = (self._observed_spec or {}).get("holderIdentity") or ""
            if holder != told:
                on_waiting(holder)
                told = holder
            await asyncio.sleep(self._timings.retry_period * random.uniform(1.0, 1.2))

    async def renew_until_lost(self) -> None:
        """Renew the Lease until it is lost, or was not renewed within ``renew_deadline``."""
        renewed = time.monotonic()
        while time.monotonic() - renewed < self._timings.renew_deadline:
            await asyncio.sleep(self._timings.retry_period)
            left = self._timings.renew_deadline - (time.monotonic() - renewed)
            if left <= 0.0:  # the process was suspended: end before any pending write is sent
                return
            try:
                async with asyncio.timeout(left):
                    if await self._try_acquire():
                        renewed = time.monotonic()
                    elif self._observed_spec["holderIdentity"] != self._identity:
                        return
            except TimeoutError:
                return

    async def release(self) -> None:
        """Release the Lease if this process holds it.

        Without this, another replica would wait for its expiry. Errors of the API server are ignored.
        """
        try:
            found = await self._api.get(self._path)
            if found["spec"].get("holderIdentity") == self._identity:
                found["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                found["spec"]["renewTime"] = format_micro_time_now()
                await self._api.replace(self._path, found)
        except ApiError:
            return  # the Lease expires by itself

    async def _try_acquire(self) -> bool:
        """Acquire or renew the Lease, unless another replica holds it.

        Return whether this process holds the Lease now; False also if a request to the API server failed.
        """
        try:
            found = await self._api.get(self._path)
        except ApiError as error:
            if not error.not_found:
                return False
            found = {}
        spec = found.get("spec") or {}
        self._observe(spec)
        holder = spec.get("holderIdentity")
        expires_at = self._observed_at + float(spec.get("leaseDurationSeconds") or 0)
        if holder and holder != self._identity and time.monotonic() < expires_at:
            return False
        is_renewal, now = holder == self._identity, format_micro_time_now()
        new = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._timings.duration),
            "acquireTime": spec["acquireTime"] if is_renewal else now,
            "renewTime": now,
            "leaseTransitions": spec.get("leaseTransitions", 0) + (0 if is_renewal or not spec else 1),
        }
        try:
            if found:
                answer = await self._api.replace(self._path, {**found, "spec": new})
            else:
                body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
                answer = await self._api.create(self._collection_path, {**body, "spec": new})
        except ApiError:
            return False
        self._observe(answer["spec"])
        return True

    def _observe(self, spec: dict[str, Any]) -> None:
        if spec != self._observed_spec:
            self._observed_spec, self._observed_at = spec, time.monotonic()


# The RBAC rights that the operator needs, and the check for missing rights, at the start and later.
#
# ``main`` checks the rights without which the operator cannot work, and runs ``monitor_rights``. ``informer`` checks
# the rights in each other watched namespace, so a right that is missing in one namespace does not affect the others.

REFUSAL_CHECK_S = 5.0
"""Seconds between two looks at the number of refused requests."""

MISSING_CHECK_S, REPEATED_CHECK_S, SILENT_CHECK_S = 15.0, 60.0, 600.0
"""Least seconds between two checks of all rights: while one is missing, after a refusal, and without any.

kopf posts Events, so a refusal of an Event is not counted.
"""


class AccessRight(NamedTuple):
    """A right to use verbs on a resource type.

    ``namespace`` is empty for all namespaces. With a ``name``, the right is for that object only.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        what = f"{'/'.join(self.verbs)} {self.resource}{'.' * bool(self.group)}{self.group}"
        named = f" {self.name}" if self.name else ""
        return f"{what}{named} in {f'namespace {self.namespace}' if self.namespace else 'all namespaces'}"


IDENTITY_RIGHT = AccessRight("", "namespaces", ("get",), "kube-system", "kube-system")
"""The right that the operator needs to identify its Kubernetes cluster, by the uid of ``kube-system``."""


def required_rights(operator_namespace: str, namespaces: Sequence[str], *, lease: str) -> Iterator[AccessRight]:
    """Yield the rights without which the operator cannot work, except for Secrets that Clusters name.

    ``namespaces`` are the watched namespaces including ``operator_namespace``; empty: all. The rights in each other
    namespace come from ``namespace_rights``. ``lease`` is the name of the Lease; empty without leader election.
    """
    yield AccessRight(load.API_GROUP, "clusters", ("get", "patch"), operator_namespace)
    yield AccessRight(load.API_GROUP, "clusters/status", ("patch",), operator_namespace)
    yield AccessRight(load.API_GROUP, "policies", ("list", "watch"), operator_namespace)
    yield AccessRight(load.API_GROUP, "policies/status", ("patch",), operator_namespace)
    if lease:
        yield AccessRight(
            "coordination.k8s.io", "leases", ("create",), operator_namespace
        )  # RBAC cannot limit "create" by name
        yield AccessRight("coordination.k8s.io", "leases", ("get", "update"), operator_namespace, lease)
    for kind in resources.PLURALS:
        verbs = ("get", "list", "watch")
        yield AccessRight(
            "apiextensions.k8s.io", "customresourcedefinitions", verbs, name=resources.definition_name(kind)
        )
    yield from namespace_rights(operator_namespace if namespaces else "")


def namespace_rights(name: str) -> Iterator[AccessRight]:
    """Yield the rights that the operator needs in a watched namespace; empty: in all."""
    yield (
        AccessRight("", "namespaces", ("get",), name, name)
        if name
        else AccessRight("", "namespaces", ("get", "list", "watch"))
    )
    yield AccessRight(load.API_GROUP, "topics", ("list", "watch", "patch"), name)
    yield AccessRight(load.API_GROUP, "topics/status", ("patch",), name)
    # Those of other namespaces are read for the Topics that another release serves.
    yield AccessRight(load.API_GROUP, "clusters", ("list", "watch"), name)
    yield AccessRight("", "events", ("create",), name)


def kafka_topic_rights(namespaces: Sequence[str]) -> Iterator[AccessRight]:
    """Yield the rights that the operator needs for KafkaTopics in the watched namespaces; empty: in all."""
    name = resources.definition_name(resources.KAFKA_TOPIC)
    yield AccessRight("apiextensions.k8s.io", "customresourcedefinitions", ("get", "list", "watch"), name=name)
    for namespace in namespaces or ("",):
        yield AccessRight(
            resources.KAFKA_TOPIC_GROUP, resources.KAFKA_TOPIC_PLURAL, ("list", "watch", "patch"), namespace
        )
        yield AccessRight(resources.KAFKA_TOPIC_GROUP, f"{resources.KAFKA_TOPIC_PLURAL}/status", ("patch",), namespace)
        yield AccessRight(resources.KAFKA_TOPIC_GROUP, "kafkas", ("list",), namespace)


async def require_rights(api: KubernetesClient, rights: Sequence[AccessRight]) -> None:
    """Raise ``NoPermission`` with every right that is missing."""
    if missing := await missing_rights(api, rights):
        raise TopiaristError(
            Reason.NO_PERMISSION,
            f"the operator's ServiceAccount may not: {'; '.join(missing)}",
            "the chart's Roles and bindings grant these permissions",
        )


async def missing_rights(api: KubernetesClient, rights: Sequence[AccessRight]) -> list[str]:
    """Return each missing right as text, one per verb."""
    single = [right._replace(verbs=(verb,)) for right in rights for verb in right.verbs]
    answers = await asyncio.gather(*(_is_allowed(api, right) for right in single))
    return [str(right) for right, there in zip(single, answers, strict=True) if not there]


async def monitor_rights(
    api: KubernetesClient, rights: Sequence[AccessRight], on_checked: Callable[[Sequence[str]], None]
) -> None:
    """Check ``rights`` after a refused request, and from time to time, until cancelled.

    An administrator may remove them at any time. ``on_checked`` is called after each check with the missing rights.
    """
    loop, missing = asyncio.get_running_loop(), list[str]()
    checked_at, forbidden = loop.time(), api.forbidden
    refused_at = float("-inf")
    while True:
        await asyncio.sleep(REFUSAL_CHECK_S)
        since, is_refused = loop.time() - checked_at, api.forbidden != forbidden
        due = since >= (MISSING_CHECK_S if missing else SILENT_CHECK_S)
        due |= is_refused and loop.time() - refused_at >= REPEATED_CHECK_S
        if not due:
            continue
        forbidden = api.forbidden
        try:
            missing = await missing_rights(api, rights)
        except ApiError:
            continue
        checked_at = loop.time()
        refused_at = checked_at if is_refused else refused_at
        on_checked(missing)


async def _is_allowed(api: KubernetesClient, right: AccessRight) -> bool:
    resource, _, part = right.resource.partition("/")
    asked = {"group": right.group, "resource": resource, "subresource": part, "verb": right.verbs[0]}
    asked |= {"namespace": right.namespace, "name": right.name}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = await api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return bool(answer["status"]["allowed"])
