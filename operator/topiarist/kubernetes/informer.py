"""List and watch calls that keep the ``Store`` equal to the API server.

``main`` runs ``watch``, and lists everything through ``namespaces`` before the first reconciliation and periodically.
A reconciliation must not start with a part of the Topics: the younger of two claims would win until the older Topic is
read. Lists are repeated because an interrupted watch may miss a deletion.

kopf does the watches. Its handlers only put events into the store, so a failure of later work cannot lose an event. The
operator uses no change-detecting handlers, timers or daemons of kopf: each would need a write and a finalizer for every
Topic. kopf cancels all tasks of its event loop when it ends, so it runs in its own thread and event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import kopf

from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api.client import ApiError, KubernetesClient
from topiarist.kubernetes.api.resources import PLURALS, collection_path, parse_resource
from topiarist.kubernetes.cache import Store
from topiarist.schema import load

WATCH_TIMEOUT_S = 600
"""Seconds after which the server ends a watch; kopf then starts a new one."""


SHUTDOWN_TIMEOUT_S = 5.0
"""Seconds to wait for kopf to end its watches."""

LoginCallback = Callable[[], kopf.ConnectionInfo]


async def watch(store: Store, login: LoginCallback, namespaces: Sequence[str]) -> None:
    """Watch the API server and update ``store`` until cancelled.

    ``namespaces`` are the watched namespaces; empty: all. Raises ``Unreachable`` if kopf ends by itself.
    """
    loop, ended, stop = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    found: list[str] = []

    def seen(take: Callable[[str | None, Mapping[str, Any]], None], type: str | None, body: kopf.Body) -> None:
        loop.call_soon_threadsafe(take, type, dict(body))

    async def work() -> None:
        await kopf.operator(
            registry=_build_registry(login, seen, store, namespaces=not namespaces),
            settings=build_kopf_settings(),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
            stop_flag=stop,
        )

    def run() -> None:
        try:
            asyncio.run(work())
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
        with contextlib.suppress(RuntimeError):  # the main event loop is closed already
            loop.call_soon_threadsafe(ended.set)

    thread = threading.Thread(target=run, name="kopf", daemon=True)
    thread.start()
    try:
        await ended.wait()
        raise TopiaristError(Reason.UNREACHABLE, f"watching the API server has ended: {'; '.join(found)}")
    finally:
        stop.set()
        await asyncio.to_thread(thread.join, SHUTDOWN_TIMEOUT_S)


def _build_registry(
    login: LoginCallback, dispatch: Callable[..., None], store: Store, *, namespaces: bool
) -> kopf.OperatorRegistry:
    """Return kopf handlers that call ``dispatch`` for every event.

    Its first argument puts the event into the store. ``dispatch`` calls that function in the store's thread. Namespace
    labels are watched only if ``namespaces``.
    """
    made = kopf.OperatorRegistry()

    def logged_in(**_: Any) -> kopf.ConnectionInfo:
        return login()

    kopf.on.login(registry=made)(logged_in)

    def take(type: str | None, body: Mapping[str, Any]) -> None:
        found = parse_resource(body, store.find(body["kind"], body["metadata"]))
        (store.remove if type == "DELETED" else store.on_watch_event)(found)

    def take_namespace(type: str | None, body: Mapping[str, Any]) -> None:
        metadata = body["metadata"]
        labels = None if type == "DELETED" else dict(metadata.get("labels") or {})
        store.update_namespace(metadata["name"], labels, leaving="deletionTimestamp" in metadata)

    async def ours(type: str | None, body: kopf.Body, **_: Any) -> None:
        dispatch(take, type, body)

    async def namespace(type: str | None, body: kopf.Body, **_: Any) -> None:
        dispatch(take_namespace, type, body)

    for plural in PLURALS.values():
        kopf.on.event(load.API_GROUP, "v1", plural, registry=made)(ours)
    if namespaces:
        kopf.on.event("", "v1", "namespaces", registry=made)(namespace)
    return made


def build_kopf_settings() -> kopf.OperatorSettings:
    """Return the kopf settings for watches only: no peering, Events, scans or stored state."""
    made = kopf.OperatorSettings()
    made.queueing.idle_timeout = 0.1  # seconds that a worker and its object stay in memory after the last event
    made.watching.chunk_size = PAGE_SIZE
    made.watching.server_timeout = WATCH_TIMEOUT_S
    made.networking.request_timeout = 30
    made.networking.connect_timeout = 10
    made.peering.standalone = True
    made.scanning.disabled = True  # the kinds are fixed, and the operator has no right to list definitions
    made.posting.enabled = False
    made.persistence.diffbase_storage = _NullDiffBaseStorage()
    made.persistence.finalizer = (
        f"{load.API_GROUP}/kopf"  # not topiarist's finalizer: kopf removes its finalizer where it has no use
    )
    return made


class _NullDiffBaseStorage(kopf.DiffBaseStorage):
    """A storage that disables kopf's comparison of objects with their previous state.

    Only change-detecting handlers need the comparison. There are none, and it takes a sixth of kopf's time.
    """

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:
        """Return an empty essence, so that no comparison finds a difference."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> None:
        """Return None: no previous state is stored."""

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Store nothing."""


PAGE_SIZE = 500


async def refresh_clusters_and_policies(store: Store, api: KubernetesClient) -> None:
    """List the Clusters and Policies of the operator's namespace into the store."""
    for kind in ("Cluster", "Policy"):
        await _refresh_kind(store, api, kind, store.operator_namespace)


async def refresh_topics(store: Store, api: KubernetesClient, namespace: str = "") -> None:
    """List the Topics of one namespace or (empty) of all into the store."""
    await _refresh_kind(store, api, "Topic", namespace)


async def _refresh_kind(store: Store, api: KubernetesClient, kind: str, namespace: str) -> None:
    """List all resources of a kind, in one namespace or (empty) in all, into the store.

    Cached resources that the list does not have are removed, unless they are newer than the list.
    """
    there, version = set(), 0
    async for page in _list_pages(api, collection_path(kind, namespace)):
        version = version or int(page["metadata"]["resourceVersion"])
        for body in page["items"]:
            known = store.find(kind, body["metadata"])
            found = parse_resource({**body, "kind": kind, "apiVersion": load.API_VERSION}, known)
            there.add(found.uid)
            store.upsert(found)
    for known in store.list_resources(kind):
        gone = known.uid not in there and known.resource_version <= version
        if gone and namespace in ("", known.namespace):
            store.remove(known)
    store.record_list_version(kind, namespace, version)


async def refresh_all_namespaces(store: Store, api: KubernetesClient) -> None:
    """List the labels of all namespaces into the store."""
    bodies = [body async for page in _list_pages(api, "/api/v1/namespaces") for body in page["items"]]
    found = {body["metadata"]["name"]: body["metadata"] for body in bodies}
    for name in {*store.namespaces} - {*found}:
        store.update_namespace(name, None)
    for metadata in found.values():
        _update_namespace(store, metadata)


async def refresh_namespace(store: Store, api: KubernetesClient, name: str) -> bool:
    """Read the labels of one namespace into the store; return whether the namespace exists.

    If it does not exist, all its Topics are removed from the store.
    """
    try:
        _update_namespace(store, (await api.get(f"/api/v1/namespaces/{name}"))["metadata"])
    except ApiError as error:
        if not error.not_found:
            raise
        store.update_namespace(name, None)
        for topic in store.list_resources("Topic"):
            if topic.namespace == name:
                store.remove(topic)
        return False
    return True


def _update_namespace(store: Store, metadata: Mapping[str, Any]) -> None:
    store.update_namespace(metadata["name"], metadata.get("labels") or {}, leaving="deletionTimestamp" in metadata)


async def _list_pages(api: KubernetesClient, path: str) -> AsyncIterator[Mapping[str, Any]]:
    following = ""
    while True:
        words = {"limit": str(PAGE_SIZE), **({"continue": following} if following else {})}
        page = await api.get(path, **words)
        yield page
        following = page["metadata"].get("continue", "")
        if not following:
            return
