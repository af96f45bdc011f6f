"""The writer of statuses, finalizers and Events to the API server.

``manager`` hands the writes of a reconciliation to ``StatusWriter.run_all``, which runs several at a time. A write that
fails is logged and not repeated here: the next reconciliation computes again what has to be written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from topiarist.kubernetes.api import clock
from topiarist.kubernetes.api.client import APPLY_PATCH, MAX_IN_FLIGHT_REQUESTS, ApiError, KubernetesClient
from topiarist.kubernetes.api.resources import FINALIZER, Resource, collection_path, parse_resource
from topiarist.kubernetes.status.conditions import truncate_message
from topiarist.kubernetes.status.events import Event
from topiarist.kubernetes.status.topic import Status
from topiarist.schema import load

FIELD_MANAGER = "topiarist"
"""The field manager of server-side apply, so that other writers of ``status`` keep their own fields."""

log = logging.getLogger(__name__)


class StatusWriter:
    """A writer of statuses, finalizers and Events.

    ``on_written`` receives each resource as the API server returned it. ``instance`` names this process in Events.
    """

    def __init__(self, api: KubernetesClient, on_written: Callable[[Resource], None], instance: str) -> None:
        self._api = api
        self._on_written = on_written
        self._instance = instance

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

    async def write_topic(self, of: Resource, status: Status, wanted: Sequence[str]) -> None:
        """Write the finalizers and the status of a Topic, each only if it has changed.

        Finalizers come first: a status write changes the resource version that the write of finalizers requires.
        """
        if wanted != of.finalizers:
            await self.write_finalizers(of, wanted)
        if status != of.status and (FINALIZER in wanted or not of.deleting):
            await self.write_status(of, status)

    async def write_status(self, of: Resource, status: Status) -> None:
        """Write a whole status by server-side apply."""
        metadata = {"name": of.name, "namespace": of.namespace, "uid": of.uid}
        body = {"apiVersion": load.API_VERSION, "kind": of.kind, "metadata": metadata, "status": status}
        path = f"{collection_path(of.kind, of.namespace)}/{of.name}/status"
        await self._patch(of, "the status", path, body, APPLY_PATCH, fieldManager=FIELD_MANAGER, force="true")

    async def write_finalizers(self, of: Resource, wanted: Sequence[str]) -> None:
        """Write the finalizers, unless the resource has changed meanwhile.

        A changed resource triggers a reconciliation anyway, so the conflict is ignored.
        """
        metadata = {"finalizers": [*wanted], "resourceVersion": str(of.resource_version)}
        path = f"{collection_path(of.kind, of.namespace)}/{of.name}"
        await self._patch(of, "the finalizers", path, {"metadata": metadata}, fieldManager=FIELD_MANAGER)

    async def create_event(self, about: Resource, event: Event) -> None:
        """Create a Kubernetes Event about a resource; a failure is only logged."""
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": f"{about.name}-", "namespace": about.namespace},
            "eventTime": clock.format_micro_time_now(),
            "type": "Warning" if event.warning else "Normal",
            "reason": event.reason,
            "action": event.reason,
            "note": truncate_message(event.message),
            "reportingController": f"{load.API_GROUP}/operator",
            "reportingInstance": self._instance,
            "regarding": {
                "apiVersion": load.API_VERSION,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
        }
        try:
            await self._api.create(f"/apis/events.k8s.io/v1/namespaces/{about.namespace}/events", body)
        except ApiError as error:
            log.warning("an event could not be written: %s", error, extra={"about": about.key})

    async def _patch(self, of: Resource, what: str, path: str, body: Any, content: str = "", **params: str) -> None:
        try:
            answer = await self._api.patch(path, body, *([content] if content else []), **params)
        except ApiError as error:
            if not (error.not_found or error.conflict):
                log.warning("%s could not be written: %s", what, error, extra={"of": of.key})
            return
        self._on_written(parse_resource(answer, of))
