"""kopf's part: it watches, and every event goes into the store. Nothing is done in a handler, so nothing can be lost.

No handler of kopf's that keeps notes on objects, no timers, no daemons: each would cost a write for every Topic, and a
finalizer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import kopf

from topiarist import schema
from topiarist.kubernetes.listing import PLURALS
from topiarist.kubernetes.resources import FINALIZER, resource
from topiarist.kubernetes.store import Store

LONGEST_WATCH = 600
"""Seconds of a watch; then it is asked for anew."""


def registry(store: Store, login: Callable[[], kopf.ConnectionInfo], *, namespaces: bool) -> kopf.OperatorRegistry:
    """Handlers that feed ``store``; the labels of ``namespaces`` are watched where the operator may."""
    made = kopf.OperatorRegistry()

    def logged_in(**_: Any) -> kopf.ConnectionInfo:
        return login()

    kopf.on.login(registry=made)(logged_in)

    async def seen(type: str | None, body: kopf.Body, **_: Any) -> None:
        found = resource(body, store.find(body["kind"], body["metadata"]))
        if type == "DELETED":
            store.drop(found)
        else:
            store.put(found)

    for plural in PLURALS.values():
        kopf.on.event(schema.GROUP, "v1", plural, registry=made)(seen)

    async def namespace(type: str | None, body: kopf.Body, **_: Any) -> None:
        metadata = body["metadata"]
        labels = None if type == "DELETED" else dict(metadata.get("labels") or {})
        store.namespace(metadata["name"], labels, leaving="deletionTimestamp" in metadata)

    if namespaces:
        kopf.on.event("", "v1", "namespaces", registry=made)(namespace)
    return made


def settings() -> kopf.OperatorSettings:
    """How kopf watches."""
    made = kopf.OperatorSettings()
    made.queueing.idle_timeout = 0.5  # a worker keeps its place for so long after its last event
    made.watching.server_timeout = LONGEST_WATCH
    made.networking.request_timeout = 30
    made.networking.connect_timeout = 10
    made.peering.standalone = True
    made.scanning.disabled = True  # our kinds are known, and nobody gives us the right to list definitions
    made.posting.enabled = False
    made.persistence.finalizer = FINALIZER
    made.process.ultimate_exiting_timeout = 25
    return made


def quiet() -> None:
    """Of kopf's log only what a person has to know: it tells each attempt of a watch twice while there is no server."""
    logging.getLogger("kopf").setLevel(logging.ERROR)
    logging.getLogger("kopf._cogs.clients.errors").setLevel(logging.CRITICAL)
