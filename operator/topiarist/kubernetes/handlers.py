"""kopf's part: it watches, and every event goes into the store. Nothing is done in a handler, so nothing can be lost.

No handler of kopf's that keeps notes on objects, no timers, no daemons: each would cost a write for every Topic, and a
finalizer. kopf takes every task of its event loop for its own and ends it when it ends, so it has a loop, and a thread,
to itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kopf

from topiarist import schema
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.listing import PAGE, PLURALS
from topiarist.kubernetes.resources import resource
from topiarist.kubernetes.store import Store

LONGEST_WATCH = 600
"""Seconds of a watch; then it is asked for anew."""


FAREWELL = 5.0
"""Seconds that kopf has to end its watches."""

Login = Callable[[], kopf.ConnectionInfo]


async def watch(store: Store, login: Login, namespaces: Sequence[str]) -> None:
    """Feed ``store`` until cancelled; ``namespaces`` are those that count (none: all). Raises if kopf ends before."""
    loop, ended, stop = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    found: list[str] = []

    def seen(take: Callable[[str | None, Mapping[str, Any]], None], type: str | None, body: kopf.Body) -> None:
        loop.call_soon_threadsafe(take, type, dict(body))

    async def work() -> None:
        await kopf.operator(
            registry=_registry(login, seen, store, namespaces=not namespaces),
            settings=settings(),
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
        await asyncio.to_thread(thread.join, FAREWELL)


def _registry(login: Login, seen: Callable[..., None], store: Store, *, namespaces: bool) -> kopf.OperatorRegistry:
    """Handlers that hand every event to ``seen``, with what takes it into the store in the thread that the store is in;
    the labels of ``namespaces`` are watched where the operator may.
    """
    made = kopf.OperatorRegistry()

    def logged_in(**_: Any) -> kopf.ConnectionInfo:
        return login()

    kopf.on.login(registry=made)(logged_in)

    def take(type: str | None, body: Mapping[str, Any]) -> None:
        found = resource(body, store.find(body["kind"], body["metadata"]))
        (store.drop if type == "DELETED" else store.heard)(found)

    def take_namespace(type: str | None, body: Mapping[str, Any]) -> None:
        metadata = body["metadata"]
        labels = None if type == "DELETED" else dict(metadata.get("labels") or {})
        store.namespace(metadata["name"], labels, leaving="deletionTimestamp" in metadata)

    async def ours(type: str | None, body: kopf.Body, **_: Any) -> None:
        seen(take, type, body)

    async def namespace(type: str | None, body: kopf.Body, **_: Any) -> None:
        seen(take_namespace, type, body)

    for plural in PLURALS.values():
        kopf.on.event(schema.GROUP, "v1", plural, registry=made)(ours)
    if namespaces:
        kopf.on.event("", "v1", "namespaces", registry=made)(namespace)
    return made


def settings() -> kopf.OperatorSettings:
    """How kopf watches."""
    made = kopf.OperatorSettings()
    made.queueing.idle_timeout = 0.1  # a worker keeps its place, and an object, for so long after its last event
    made.watching.chunk_size = PAGE
    made.watching.server_timeout = LONGEST_WATCH
    made.networking.request_timeout = 30
    made.networking.connect_timeout = 10
    made.peering.standalone = True
    made.scanning.disabled = True  # our kinds are known, and nobody gives us the right to list definitions
    made.posting.enabled = False
    made.persistence.diffbase_storage = _NoDifferences()
    made.persistence.finalizer = f"{schema.GROUP}/kopf"  # none of ours: kopf takes its own off wherever it sees no use
    return made


class _NoDifferences(kopf.DiffBaseStorage):
    """kopf compares an object with what it was before for handlers that we do not have: a sixth of its time."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:
        """Nothing of an object is compared."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> None:
        """There is nothing from before."""

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Nothing is written."""
