"""An API server in memory with the history of all events, and the operator's client of it.

It has the parts of the Kubernetes API that the operator uses: resource versions, generations, finalizers with their
field managers, deletion timestamps, conflicts of uids, server-side apply of statuses and finalizers, lists and watches.
A ``View`` limits the part of the history that lists and watches return. A GET of one object always returns the present.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from campaigns.interruptions import Fault, Interruptions
from topiarist.kubernetes.client import ApiError
from topiarist.kubernetes.identity import IDENTITY_MANAGER
from topiarist.kubernetes.resources import APPLIED_TO, FINALIZER_MANAGER, PLURALS, definition_path
from topiarist.schema import load

HOME = "shop"
"""The namespace of the operator, of its Clusters and of all Topics."""

CREATED_AT = "2026-01-01T00:00:{:02}Z"

_KINDS = {plural: kind for kind, plural in PLURALS.items()}
_APPLIED_TO = f"{load.API_GROUP}/{APPLIED_TO}"

Body = dict[str, Any]
Key = tuple[str, str, str]
"""The plural of a kind, the namespace and the name."""


class Event(NamedTuple):
    """A change of an object, with its body as JSON text."""

    version: int
    type: str
    key: Key
    text: str


@dataclass
class View:
    """The part of the history that an operator receives.

    ``limit`` is the last resource version that watches return, None for the present, and with ``lists_are_old`` that
    lists return too. While ``connected`` is false, every list and watch
    fails. ``expired`` watches fail once with 410, so that the operator lists again.
    """

    limit: int | None = None
    lists_are_old: bool = False
    connected: bool = True
    expired: set[str] = field(default_factory=set)

    def shows(self, version: int) -> bool:
        """Return whether an event is visible."""
        return self.connected and (self.limit is None or version <= self.limit)


class MemoryApiServer:
    """The objects of an API server, changed by users directly and by the operator through ``MemoryApiClient``.

    ``validate`` returns the errors of a new or changed spec, and adds the defaults of the schema to it.
    """

    def __init__(self, validate: Callable[[str, Body, Body | None], list[str]] | None = None) -> None:
        self.history: list[Event] = []
        self.objects: dict[Key, Body] = {}
        self._finalizer_managers: dict[Key, dict[str, set[str]]] = {}
        self._validate = validate or (lambda plural, spec, old: [])
        self._version = 0
        self._uids = 0
        self._waiters: set[asyncio.Future[None]] = set()
        self.create("namespaces", HOME, None, namespace="")

    def create(
        self,
        plural: str,
        name: str,
        spec: Mapping[str, Any] | None,
        *,
        namespace: str = HOME,
        data: Mapping[str, str] | None = None,
        **metadata: Any,
    ) -> None:
        """Create an object as a user; ``data`` is that of a Secret.

        Raises ``ApiError`` if the object exists, or with 422 for an invalid spec.
        """
        key = (plural, namespace, name)
        if key in self.objects:
            raise ApiError(409, f"{name} already exists")
        self._uids += 1
        kind = _KINDS.get(plural, "Namespace")
        version = load.API_VERSION if plural in _KINDS else "v1"
        body: Body = {"apiVersion": version, "kind": kind}
        body["metadata"] = {"name": name, "uid": f"uid-{self._uids:06}", "generation": 1, **metadata}
        body["metadata"]["creationTimestamp"] = CREATED_AT.format(self._uids % 60)
        if namespace:
            body["metadata"]["namespace"] = namespace
        if data is not None:
            body["data"] = dict(data)
        if spec is not None:
            body["spec"] = self._check_spec(plural, spec, None)
        self._finalizer_managers[key] = {each: {"user"} for each in metadata.get("finalizers", ())}
        self._store(key, body, "ADDED")

    def update(self, plural: str, name: str, spec: Mapping[str, Any] | None = None, **metadata: Any) -> None:
        """Replace the spec of an object and set fields of its metadata, as a user."""
        key = (plural, HOME if plural != "namespaces" else "", name)
        body = copy.deepcopy(self.objects[key])
        if spec is not None:
            checked = self._check_spec(plural, spec, body["spec"])
            body["metadata"]["generation"] += checked != body["spec"]
            body["spec"] = checked
        body["metadata"] |= metadata
        if "finalizers" in metadata:
            self._finalizer_managers[key] = {each: {"user"} for each in metadata["finalizers"]}
        self._store(key, body)

    def delete(self, plural: str, name: str) -> None:
        """Request the deletion of an object, as a user."""
        key = (plural, HOME, name)
        body = copy.deepcopy(self.objects[key])
        if "deletionTimestamp" not in body["metadata"]:
            body["metadata"]["deletionTimestamp"] = CREATED_AT.format(59)
            body["metadata"]["generation"] += 1
        self._store(key, body)

    def find(self, plural: str, name: str) -> Body | None:
        """Return an object of ``HOME``, None if it does not exist."""
        return self.objects.get((plural, HOME, name))

    def list_at(self, matches: Callable[[Key], bool], limit: int | None) -> tuple[int, list[Body]]:
        """Return the resource version and the objects as of ``limit``, None for the present."""
        if limit is None:
            return self._version, [json.loads(json.dumps(each)) for key, each in self.objects.items() if matches(key)]
        found: dict[Key, str] = {}
        for event in self.history:
            if event.version <= limit and matches(event.key):
                found.pop(event.key, None)
                if event.type != "DELETED":
                    found[event.key] = event.text
        return min(limit, self._version), [json.loads(text) for text in found.values()]

    def snapshot(self) -> Callable[[int], None]:
        """Return the restore of the present objects, with the versions that etcd then adds to the present one."""
        kept = copy.deepcopy((self.objects, self._finalizer_managers)), self._version

        def restore(bump: int) -> None:
            (self.objects, self._finalizer_managers), self._version = copy.deepcopy(kept[0]), kept[1] + bump
            self.history = [event for event in self.history if event.version <= kept[1]]
            self.notify()

        return restore

    def notify(self) -> None:
        """Wake all watches, after a change of the history or of a view."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def wait_for_news(self) -> None:
        """Wait until ``notify`` is called."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        await waiter

    def apply(self, path: str, body: Mapping[str, Any], manager: str) -> Body:
        """Apply a status, or finalizers or annotations of ``manager``. Raises ``ApiError`` as the API server does."""
        key, is_status = _parse_path(path)
        stored = self.objects.get(key)
        if stored is None or stored["metadata"]["uid"] != body["metadata"].get("uid"):
            raise ApiError(409, "the uid in the body is not that of the object")
        updated = copy.deepcopy(stored)
        if is_status:
            updated["status"] = json.loads(json.dumps(body["status"]))
        elif manager == IDENTITY_MANAGER:
            updated["metadata"]["annotations"] = {
                **updated["metadata"].get("annotations", {}),
                **body["metadata"]["annotations"],
            }
        else:
            assert manager == FINALIZER_MANAGER, "the operator applies nothing else"
            self._apply_finalizers(key, updated, body["metadata"]["finalizers"], manager)
            # Server-side apply removes an annotation that its manager no longer names.
            kept = {
                name: text for name, text in updated["metadata"].get("annotations", {}).items() if name != _APPLIED_TO
            }
            updated["metadata"]["annotations"] = {**kept, **body["metadata"].get("annotations", {})}
        return self._store(key, updated)

    def patch_finalizers(self, path: str, body: Mapping[str, Any]) -> Body:
        """Replace the list of finalizers if the object has the resource version in ``body``."""
        key, _ = _parse_path(path)
        stored = self.objects.get(key)
        if stored is None:
            raise ApiError(404, "not found")
        if stored["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise ApiError(409, "the object has been modified")
        updated = copy.deepcopy(stored)
        updated["metadata"]["finalizers"] = body["metadata"]["finalizers"]
        managers = self._finalizer_managers[key]
        self._finalizer_managers[key] = {each: managers.get(each, {"patch"}) for each in body["metadata"]["finalizers"]}
        return self._store(key, updated)

    def _apply_finalizers(self, key: Key, body: Body, wanted: list[str], manager: str) -> None:
        managers = self._finalizer_managers[key]
        for each in wanted:
            if "deletionTimestamp" in body["metadata"] and each not in managers:
                raise ApiError(422, "no new finalizers can be added if the object is being deleted")
            managers.setdefault(each, set()).add(manager)
        for each in [*managers]:
            if each not in wanted:
                managers[each].discard(manager)
            if not managers[each]:
                del managers[each]
        body["metadata"]["finalizers"] = [*managers]

    def _check_spec(self, plural: str, spec: Mapping[str, Any], old: Body | None) -> Body:
        checked: Body = json.loads(json.dumps(spec))
        if errors := self._validate(plural, checked, old):
            raise ApiError(422, "; ".join(errors))
        return checked

    def _store(self, key: Key, body: Body, kind: str = "MODIFIED") -> Body:
        """Store a changed object and add the event; an object that is deleted and has no finalizers is removed."""
        metadata = body["metadata"]
        if not metadata.get("finalizers"):
            metadata.pop("finalizers", None)
        if body == self.objects.get(key) and kind == "MODIFIED":
            return body
        self._version += 1
        metadata["resourceVersion"] = str(self._version)
        if "deletionTimestamp" in metadata and "finalizers" not in metadata and key[0] != "namespaces":
            kind = "DELETED"
            del self.objects[key]
        else:
            self.objects[key] = body
        self.history.append(Event(self._version, kind, key, json.dumps(body)))
        self.notify()
        return body


class MemoryApiClient:
    """The operator's client: the methods of ``KubernetesClient`` over a ``MemoryApiServer``."""

    def __init__(self, server: MemoryApiServer, view: View, interruptions: Interruptions) -> None:
        self._server = server
        self._view = view
        self._interruptions = interruptions
        self.dead = False
        self.requests: Counter[tuple[str, str]] = Counter()
        self.forbidden = 0

    async def get(self, path: str, **params: str) -> Body:
        """Return the present object, or a list of the present objects with the name in ``fieldSelector``."""
        if self.dead:
            raise ApiError(0, "the process was killed")
        await self._begin("GET")
        if path == definition_path("Topic"):
            return {"metadata": {"name": path}}
        if name := params.get("fieldSelector", "").removeprefix("metadata.name="):
            _, items = self._server.list_at(_matcher(path, {}), None)
            return {"items": [each for each in items if each["metadata"]["name"] == name]}
        key, _ = _parse_path(path)
        if key not in self._server.objects:
            raise ApiError(404, f"{key} not found")
        found: Body = json.loads(json.dumps(self._server.objects[key]))
        return found

    async def list_pages(self, path: str, **params: str) -> AsyncIterator[Body]:
        """Yield one page with the objects that the view shows."""
        await self._begin("LIST")
        if not self._view.connected:
            raise ApiError(0, "no answer")
        limit = self._view.limit if self._view.lists_are_old else None
        version, items = self._server.list_at(_matcher(path, params), limit)
        yield {"metadata": {"resourceVersion": str(version)}, "items": items}

    async def watch(self, path: str, resource_version: str, **params: str) -> AsyncIterator[Body]:
        """Yield the visible events after a resource version."""
        await self._begin("WATCH")
        matches, version = _matcher(path, params), int(resource_version)
        position = 0
        while True:
            if not self._view.connected:
                raise ApiError(0, "the watch broke")
            if path in self._view.expired:
                self._view.expired.discard(path)
                raise ApiError(410, "too old resource version")
            for event in _following(self._server.history, position):
                if not self._view.shows(event.version):
                    break
                position += 1
                if event.version > version and matches(event.key):
                    yield {"type": event.type, "object": json.loads(event.text)}
            await self._server.wait_for_news()

    async def apply(self, path: str, body: Mapping[str, Any], field_manager: str) -> Body:
        """Apply a status, the operator's finalizer, or the annotation with a cluster id."""
        await self._begin("PATCH")
        return await self._end_write(path, self._server.apply(path, body, field_manager))

    async def patch(self, path: str, body: Mapping[str, Any]) -> Body:
        """Replace the finalizers of an object."""
        await self._begin("PATCH")
        return await self._end_write(path, self._server.patch_finalizers(path, body))

    async def _begin(self, method: str) -> None:
        if self.dead:
            await asyncio.Future()  # a process that was killed sends nothing and learns nothing
        self.requests[method, "200"] += 1
        await asyncio.sleep(0)

    async def _end_write(self, path: str, body: Body) -> Body:
        fault = self._interruptions.record("/".join(path.split("/")[6:]))
        if fault is Fault.KILL:
            self.dead = True
            self._interruptions.killed.set()
            await asyncio.Future()
        if fault is Fault.LOST_ANSWER:
            raise ApiError(0, "no answer from the API server")
        answer: Body = json.loads(json.dumps(body))
        return answer


def _following(history: list[Event], position: int) -> Iterator[Event]:
    """Yield events from a position on, also those that are added meanwhile."""
    while position < len(history):
        yield history[position]
        position += 1


def _parse_path(path: str) -> tuple[Key, bool]:
    """Return the key of the object at a path, and whether the path is that of its status."""
    words = path.removesuffix("/status").split("/")
    if words[1] == "api" and words[3] == "namespaces" and len(words) == 5:
        return ("namespaces", "", words[4]), False
    if words[1] == "api":
        return (words[5], words[4], words[6]), False
    return (words[6], words[5], words[7]), path.endswith("/status")


def _matcher(path: str, params: Mapping[str, str]) -> Callable[[Key], bool]:
    """Return whether an object is in the collection at a path."""
    words = path.split("/")
    plural, namespace = words[-1], words[5] if "namespaces" in words[:-1] else ""
    excluded = params.get("fieldSelector", "").removeprefix("metadata.namespace!=")
    return lambda key: key[0] == plural and key[1] != (excluded or None) and namespace in ("", key[1])
