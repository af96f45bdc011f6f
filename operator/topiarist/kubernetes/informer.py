"""kopf's part: it watches, and every event goes into the store. Nothing is done in a handler, so nothing can be lost.

No handler of kopf's that keeps notes on objects, no timers, no daemons: each would cost a write for every Topic, and a
finalizer. kopf takes every task of its event loop for its own and ends it when it ends, so it has a loop, and a thread,
to itself.

All that the API server holds of ours, page by page: before the first pass, and again from time to time.

A pass must never begin with only a part of the Topics: the younger of two claims would win for as long as the older has
not been seen. And a watch that is interrupted may miss that something was deleted.
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
"""Seconds of a watch; then it is asked for anew."""


SHUTDOWN_TIMEOUT_S = 5.0
"""Seconds that kopf has to end its watches."""

LoginCallback = Callable[[], kopf.ConnectionInfo]


async def watch(store: Store, login: LoginCallback, namespaces: Sequence[str]) -> None:
    """Feed ``store`` until cancelled; ``namespaces`` are those that count (none: all). Raises if kopf ends before."""
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
        with contextlib.suppress(RuntimeError):  # nobody is there any more who could hear of it
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
    """Handlers that hand every event to ``dispatch``, with what takes it into the store in the thread that the store is
    in; the labels of ``namespaces`` are watched where the operator may.
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
    """How kopf watches."""
    made = kopf.OperatorSettings()
    made.queueing.idle_timeout = 0.1  # a worker keeps its place, and an object, for so long after its last event
    made.watching.chunk_size = PAGE_SIZE
    made.watching.server_timeout = WATCH_TIMEOUT_S
    made.networking.request_timeout = 30
    made.networking.connect_timeout = 10
    made.peering.standalone = True
    made.scanning.disabled = True  # our kinds are known, and nobody gives us the right to list definitions
    made.posting.enabled = False
    made.persistence.diffbase_storage = _NullDiffBaseStorage()
    made.persistence.finalizer = (
        f"{load.API_GROUP}/kopf"  # none of ours: kopf takes its own off wherever it sees no use
    )
    return made


class _NullDiffBaseStorage(kopf.DiffBaseStorage):
    """kopf compares an object with what it was before for handlers that we do not have: a sixth of its time."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:
        """Nothing of an object is compared."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> None:
        """There is nothing from before."""

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Nothing is written."""


PAGE_SIZE = 500


async def refresh_clusters_and_policies(store: Store, api: KubernetesClient) -> None:
    """Bring the Clusters and Policies of the operator's namespace up to date."""
    for kind in ("Cluster", "Policy"):
        await _refresh_kind(store, api, kind, store.operator_namespace)


async def refresh_topics(store: Store, api: KubernetesClient, namespace: str = "") -> None:
    """Bring the Topics of one namespace, or of all, up to date."""
    await _refresh_kind(store, api, "Topic", namespace)


async def _refresh_kind(store: Store, api: KubernetesClient, kind: str, namespace: str) -> None:
    """All resources of a kind, in one namespace or (empty) in all."""
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
    """Bring the labels of all namespaces up to date."""
    bodies = [body async for page in _list_pages(api, "/api/v1/namespaces") for body in page["items"]]
    found = {body["metadata"]["name"]: body["metadata"] for body in bodies}
    for name in {*store.namespaces} - {*found}:
        store.update_namespace(name, None)
    for metadata in found.values():
        _update_namespace(store, metadata)


async def refresh_namespace(store: Store, api: KubernetesClient, name: str) -> bool:
    """Bring the labels of one namespace up to date; gives whether it is there. With it all in it has gone."""
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
