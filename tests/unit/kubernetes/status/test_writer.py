"""Finalizers by server-side apply, and Events by kopf: the requests, and finalizers of other managers unchanged."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, cast

import kopf
import pytest

from support.kubernetes import resource_bodies
from support.virtual_time import run_in_virtual_time
from topiarist.kubernetes.api.client import ApiError, KubernetesClient
from topiarist.kubernetes.api.resources import FINALIZER, Resource
from topiarist.kubernetes.status.writer import Event, EventRecorder, StatusWriter

MAX_PENDING_EVENTS = 1000
PATH = "/apis/topiarist.dev/v1/namespaces/shop/topics/orders"


class Server:
    """An API server with one Topic and finalizers that field managers own."""

    def __init__(self, topic: Resource, **owners: str) -> None:
        self.sent: list[tuple[str, str, Mapping[str, Any]]] = []
        self.topic = topic
        self.owners: dict[str, set[str]] = {name: {manager} for manager, name in owners.items()}
        self.error: ApiError | None = None
        self.refused_path = ""

    async def apply(self, path: str, body: Mapping[str, Any], field_manager: str) -> dict[str, Any]:
        """Set the manager's finalizers to those of ``body``; remove a finalizer without an owner."""
        if self.error and path.endswith(self.refused_path):
            raise self.error
        self.sent.append((path, field_manager, body))
        if not path.endswith("/status"):
            for managers in self.owners.values():
                managers.discard(field_manager)
            for name in body["metadata"]["finalizers"]:
                self.owners.setdefault(name, set()).add(field_manager)
        return self._body()

    async def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the list of finalizers."""
        self.sent.append((path, "merge", body))
        self.owners = {name: {"merge"} for name in body["metadata"]["finalizers"]}
        return self._body()

    def _body(self) -> dict[str, Any]:
        self.owners = {name: managers for name, managers in self.owners.items() if managers}
        assert self.topic.manifest is not None
        metadata: dict[str, Any] = {"uid": self.topic.uid, "resourceVersion": "77", "finalizers": [*self.owners]}
        return resource_bodies.body("Topic", "orders", self.topic.manifest.spec, **metadata)


def written(
    server: Server,
    of: Resource,
    *,
    finalizer: bool,
    status: Mapping[str, Any] | None = None,
    refused: list[Resource] | None = None,
    applied_to: Sequence[str] = (),
) -> Resource:
    """Write, and return the Topic as known afterwards."""
    found, new = [of], of.status if status is None else status
    writer = StatusWriter(cast(KubernetesClient, server), found.append, ([] if refused is None else refused).append)
    asyncio.run(writer.write_topic(of, new, finalizer=finalizer, applied_to=[*applied_to]))
    return found[-1]


def test_a_finalizer_is_applied_alone() -> None:
    """topiarist applies its finalizer with its own field manager and the uid; other finalizers remain."""
    topic = resource_bodies.topic("orders", meta={"finalizers": ["another"]})
    server = Server(topic, somebody="another")
    after = written(server, topic, finalizer=True)
    assert {*after.finalizers} == {"another", FINALIZER}
    assert after.manifest is topic.manifest  # a spec that has not changed is not parsed again
    metadata = {"name": "orders", "namespace": "shop", "uid": topic.uid, "finalizers": [FINALIZER]}
    body = {"apiVersion": "topiarist.dev/v1", "kind": "Topic", "metadata": metadata}
    assert server.sent == [(PATH, "topiarist-finalizer", body)]
    assert written(server, after, finalizer=False).finalizers == ("another",)
    assert len(server.sent) == 2


def test_the_clusters_of_a_topic_are_applied_with_its_finalizer() -> None:
    """The annotation and the finalizer are one request, both in it; a Topic that is deleted keeps its own."""
    topic = resource_bodies.topic("orders")
    for held in (True, False):
        server = Server(topic)
        written(server, topic, finalizer=held, applied_to=["a", "b"])
        ((_, manager, body),) = server.sent
        assert manager == "topiarist-finalizer"
        assert body["metadata"]["annotations"] == {"topiarist.dev/applied-to": "a,b"}
        assert body["metadata"]["finalizers"] == ([FINALIZER] if held else [])
    for meta, clusters in (
        ({"annotations": {"topiarist.dev/applied-to": "a"}}, ["a"]),
        ({"deletionTimestamp": "2026-02-01T00:00:00Z"}, ["b"]),
    ):
        server = Server(topic)
        written(server, resource_bodies.topic("orders", meta=meta), finalizer=False, applied_to=clusters)
        assert server.sent == []


def test_a_finalizer_that_another_manager_owns_too_is_removed() -> None:
    """topiarist removes its finalizer also if an earlier version or a user owns it too. The rest of the list remains,
    at the version as read.
    """
    topic = resource_bodies.topic("orders", meta={"finalizers": ["another", FINALIZER]})
    server = Server(topic, somebody="another", topiarist=FINALIZER)
    assert written(server, topic, finalizer=False).finalizers == ("another",)
    assert server.sent[1:] == [(PATH, "merge", {"metadata": {"finalizers": ["another"], "resourceVersion": "77"}})]


def test_what_is_as_it_should_be_is_not_written() -> None:
    """topiarist writes neither an unchanged finalizer nor an unchanged status, and no status after it removes the last
    finalizer.
    """
    held: dict[str, Any] = {"finalizers": [FINALIZER]}
    topic = resource_bodies.topic("orders", meta=held, status={"observedGeneration": 1})
    server = Server(topic, topiarist=FINALIZER)
    written(server, topic, finalizer=True)
    assert server.sent == []
    going = resource_bodies.topic("orders", meta={**held, "deletionTimestamp": "2026-02-01T00:00:00Z"})
    written(server, going, finalizer=False, status={"observedGeneration": 2})
    assert [path for path, _, _ in server.sent if path.endswith("/status")] == []


@pytest.mark.parametrize(
    ("code", "logged", "reported"), [(404, False, 0), (409, False, 1), (403, True, 1), (500, True, 1), (0, True, 1)]
)
def test_a_refused_write_is_reported(code: int, logged: bool, reported: int, caplog: pytest.LogCaptureFixture) -> None:
    """A refused write is reported for its repetition, with a log line unless another client was faster; a Topic that
    was deleted needs none.
    """
    topic, refused = resource_bodies.topic("orders"), list[Resource]()
    server = Server(topic)
    server.error = ApiError(code, "why")
    assert written(server, topic, finalizer=True, refused=refused) is topic
    assert ("the finalizer could not be written: why" in caplog.text) is logged
    assert len(refused) >= reported
    assert set(map(id, refused)) == ({id(topic)} if reported else set())


@pytest.mark.parametrize(("code", "reason"), [(403, "NoPermission"), (500, "Unreachable")])
def test_a_topic_without_its_finalizer_is_not_ready(code: int, reason: str) -> None:
    """Until the finalizer is written the status is not Ready and has the error of the API server: a deletion would
    keep the topic.
    """
    topic = resource_bodies.topic("orders")
    server = Server(topic)
    server.error, server.refused_path = ApiError(code, "the server's words"), "/orders"
    wanted = {"conditions": [{"type": "Ready", "status": "True"}], "topicName": "orders"}
    written(server, topic, finalizer=True, status=wanted)
    ((path, _, body),) = server.sent
    ready = body["status"]["conditions"][0]
    assert path.endswith("/status")
    assert body["status"]["topicName"] == "orders"
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", reason)
    assert ready["message"] == "the finalizer that holds a deletion cannot be written: the server's words"


@pytest.mark.parametrize(("error", "pause"), [(ApiError(429, "slow", 7.0), 7.0), (ApiError(0, "no answer"), 1.0)])
def test_no_write_is_sent_before_the_api_server_wants_one(error: ApiError, pause: float) -> None:
    """After ``Retry-After``, and for a second without an answer, every write is left to its repetition unsent."""
    topic, refused = resource_bodies.topic("orders"), list[Resource]()
    server = Server(topic)
    writer = StatusWriter(cast(KubernetesClient, server), lambda _: None, refused.append)

    async def work() -> None:
        server.error = error
        await writer.write_status(topic, {"observedGeneration": 1})
        server.error = None
        for _ in range(3):
            await writer.write_topic(topic, {"observedGeneration": 1}, finalizer=True, applied_to=[])
        assert server.sent == []
        assert len(refused) == 7
        before = asyncio.get_running_loop().time()
        await writer.wait_for_pause()
        assert asyncio.get_running_loop().time() - before == pytest.approx(pause)
        await writer.write_status(topic, {"observedGeneration": 1})
        assert len(server.sent) == 1

    run_in_virtual_time(work)


def test_events_wait_for_the_context_of_a_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events wait for the context of a kopf handler, up to a limit; afterwards the operator posts each at once."""
    queue: contextvars.ContextVar[list[str]] = contextvars.ContextVar("queue")

    def event(body: Mapping[str, Any], *, type: str, reason: str, message: str) -> None:
        queue.get().append(f"{type} {reason} {message} {body['metadata']['name']}")

    monkeypatch.setattr(kopf, "event", event)
    recorder, topic, posted = EventRecorder(), resource_bodies.topic("orders"), list[str]()
    for number in range(MAX_PENDING_EVENTS + 1):
        recorder.record(topic, Event("TopicCreated", str(number)))

    def handler() -> None:
        queue.set(posted)
        recorder.attach()
        recorder.attach()

    contextvars.copy_context().run(handler)
    assert (len(posted), posted[0]) == (MAX_PENDING_EVENTS, "Normal TopicCreated 1 orders")
    recorder.record(topic, Event("DataLoss", "é" * 1000, warning=True))
    assert posted[-1] == f"Warning DataLoss {'é' * 510}... orders"


def test_few_writes_are_in_progress_at_a_time() -> None:
    """A request is created only when there is room, so ten thousand statuses are not in memory at once."""
    running, most, made = [0], [0], [0]

    async def write() -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        await asyncio.sleep(0)
        running[0] -= 1

    def writes() -> Iterator[Coroutine[Any, Any, None]]:
        for _ in range(200):
            made[0] += 1
            assert made[0] - finished[0] <= 32
            yield count(write())

    finished = [0]

    async def count(work: Coroutine[Any, Any, None]) -> None:
        await work
        finished[0] += 1

    server = Server(resource_bodies.topic("orders"))
    asyncio.run(StatusWriter(cast(KubernetesClient, server), lambda _: None, lambda _: None).run_all(writes()))
    assert (finished, running, most) == ([200], [0], [32])


def test_a_defect_of_a_write_ends_the_pass() -> None:
    """An error that is none of the API server is a defect, and is not passed over in silence."""

    async def fail() -> None:
        raise ValueError("a mistake of ours")

    for number in (1, 40):
        writer = StatusWriter(
            cast(KubernetesClient, Server(resource_bodies.topic("orders"))), lambda _: None, lambda _: None
        )
        with pytest.raises(ValueError, match="a mistake of ours"):
            asyncio.run(writer.run_all(fail() for _ in range(number)))
