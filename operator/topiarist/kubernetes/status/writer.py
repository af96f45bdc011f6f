"""The writer of statuses, finalizers and Events to the API server.

``manager`` hands the writes of a reconciliation to ``StatusWriter.run_all``, which runs several at a time. A refused
write is logged and reported to ``manager``, which computes it anew and repeats it soon, without another reconciliation.
While the API server asks clients to wait, or does not answer, no write is sent.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, cast

import kopf

from topiarist.kubernetes.api import clock
from topiarist.kubernetes.api.client import MAX_IN_FLIGHT_REQUESTS, ApiError, KubernetesClient
from topiarist.kubernetes.api.resources import (
    APPLIED_TO,
    FINALIZER,
    Resource,
    identity_body,
    parse_resource,
    resource_path,
)
from topiarist.kubernetes.status.conditions import truncate_message
from topiarist.kubernetes.status.events import Event
from topiarist.kubernetes.status.topic import Status, unheld_topic_status
from topiarist.schema import load

STATUS_MANAGER = "topiarist"
"""The field manager of statuses, so that other writers of ``status`` keep their own fields."""

FINALIZER_MANAGER = "topiarist-finalizer"
"""The field manager of the finalizer alone: it is removed by applying none, and the others need not be known."""

OUTAGE_PAUSE_S = 1.0
"""Seconds without writes after a write that got no answer: each of ten thousand would wait for its time-out."""

MAX_PENDING_EVENTS = 1000
"""Maximum number of Events that wait for the first Cluster; older ones are dropped."""

log = logging.getLogger(__name__)


class EventRecorder:
    """A recorder of Events, which kopf posts in the background and retries for a while.

    kopf knows its queue of Events only in the context of a handler. Until ``attach`` is called in one, Events wait.
    """

    def __init__(self) -> None:
        self._context: contextvars.Context | None = None
        self._pending: deque[tuple[Resource, Event]] = deque(maxlen=MAX_PENDING_EVENTS)

    def attach(self) -> None:
        """Post all Events in the context of the present handler from now on."""
        if self._context is None:
            self._context = contextvars.copy_context()
            for about, event in self._pending:
                self.record(about, event)
            self._pending.clear()

    def record(self, about: Resource, event: Event) -> None:
        """Post a Kubernetes Event about a resource."""
        if self._context is None:
            self._pending.append((about, event))
            return
        kind = "Warning" if event.warning else "Normal"
        self._context.run(
            kopf.event,
            cast(kopf.Body, identity_body(about)),
            type=kind,
            reason=event.reason,
            message=truncate_message(event.message),
        )


class StatusWriter:
    """A writer of statuses and finalizers.

    ``on_written`` receives each resource as the API server returned it, ``on_refused`` each resource with a write that
    has to be repeated.
    """

    def __init__(
        self,
        api: KubernetesClient,
        on_written: Callable[[Resource], None],
        on_refused: Callable[[Resource], None],
    ) -> None:
        self._api = api
        self._on_written = on_written
        self._on_refused = on_refused
        self._paused_until = 0.0
        self._pause = ApiError(0, "")

    async def wait_for_pause(self) -> None:
        """Wait until the API server accepts writes again, as far as it has said when."""
        await asyncio.sleep(max(0.0, self._paused_until - asyncio.get_running_loop().time()))

    async def run_all(self, works: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Run all writes, at most ``2 * MAX_IN_FLIGHT_REQUESTS`` at a time.

        ``works`` is read lazily: each coroutine is created only when there is room for it.
        """
        tasks: set[asyncio.Task[None]] = set()
        for work in works:
            tasks.add(asyncio.create_task(work))
            if len(tasks) >= 2 * MAX_IN_FLIGHT_REQUESTS:
                done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        await asyncio.gather(*tasks)

    async def write_topic(self, of: Resource, status: Status, *, finalizer: bool, applied_to: Sequence[str]) -> None:
        """Write the finalizer and clusters of a Topic, and its status, each only if it has changed.

        The finalizer comes first: no status says that a topic exists before the deletion of its Topic is held. If the
        finalizer is refused, the status says so instead.
        """
        held = FINALIZER in of.finalizers
        if finalizer != held or (applied_to != of.applied_clusters and not of.deleting):
            error = await self._write_metadata(of, applied_to, wanted=finalizer)
            if error and finalizer and not held:
                status = unheld_topic_status(of, status, error, clock.format_time(clock.now()))
        if status != of.status and (finalizer or not of.deleting):
            await self.write_status(of, status)

    async def write_status(self, of: Resource, status: Status) -> None:
        """Write a whole status by server-side apply."""
        path = f"{resource_path(of)}/status"
        body = {**identity_body(of), "status": status}
        await self._write(of, "the status", lambda: self._api.apply(path, body, STATUS_MANAGER))

    async def _write_metadata(self, of: Resource, applied_to: Sequence[str], *, wanted: bool) -> ApiError | None:
        """Write the finalizer, or remove it, and the clusters of a Topic; return the error, None if there is none."""
        body = identity_body(of)
        body["metadata"]["finalizers"] = [FINALIZER] if wanted else []
        if applied_to:
            body["metadata"]["annotations"] = {f"{load.API_GROUP}/{APPLIED_TO}": ",".join(applied_to)}
        answer = await self._write(
            of, "the finalizer", lambda: self._api.apply(resource_path(of), body, FINALIZER_MANAGER)
        )
        if isinstance(answer, ApiError):
            return answer
        if wanted or FINALIZER not in (left := answer["metadata"].get("finalizers", ())):
            return None
        # Another field manager owns it too: an earlier version of topiarist, or the user. Remove it from the list. The
        # resource version protects the finalizers of other controllers that are added meanwhile.
        metadata = {
            "finalizers": [each for each in left if each != FINALIZER],
            "resourceVersion": answer["metadata"]["resourceVersion"],
        }
        answer = await self._write(
            of, "the finalizer", lambda: self._api.patch(resource_path(of), {"metadata": metadata})
        )
        return answer if isinstance(answer, ApiError) else None

    async def _write(
        self, of: Resource, what: str, request: Callable[[], Coroutine[Any, Any, dict[str, Any]]]
    ) -> Mapping[str, Any] | ApiError:
        """Send a request and return the answer, or the error, which is logged."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._paused_until:
            self._on_refused(of)
            return self._pause
        try:
            answer = await request()
        except ApiError as error:
            if error.not_found:
                return error
            self._on_refused(of)
            if pause := error.retry_after or (OUTAGE_PAUSE_S if error.code == 0 else 0.0):
                self._pause, self._paused_until = error, loop.time() + pause
            if not error.conflict:
                log.warning("%s could not be written: %s", what, error, extra={"of": of.key})
            return error
        self._on_written(parse_resource(answer, of))
        return answer
