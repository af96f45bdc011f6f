"""What follows from passes: who is told, that nothing is told twice, and what becomes of clusters that go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from prometheus_client import generate_latest

from support import states
from support.kubernetes import resource_bodies
from support.virtual_time import run_in_virtual_time
from support.waiting import wait_until
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import manager as module
from topiarist.kubernetes.api.client import ApiError
from topiarist.kubernetes.api.resources import FINALIZER, Resource, parse_resource
from topiarist.kubernetes.cluster_worker import ClusterSession
from topiarist.kubernetes.manager import Manager
from topiarist.kubernetes.reconciler import ReconcileResult, SyncState, TopicResult
from topiarist.kubernetes.status.events import Event
from topiarist.kubernetes.work_loop import Requeue
from topiarist.model.spec import ClusterSpec
from unit.kubernetes.topic_results import make_result


class Server:
    """An API server that keeps what is written; ``broken`` refuses everything."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.written: list[str] = []
        self.events: list[str] = []
        self.broken = False
        self.version = 1_000_000
        self.requests: dict[tuple[str, str], int] = {}

    def give(self, of: Resource) -> Resource:
        """Give the manager a resource that another client has created."""
        assert of.manifest is not None
        made = resource_bodies.body(of.kind, of.name, of.manifest.spec, uid=of.uid, finalizers=[*of.finalizers])
        self.kept[f"{of.kind}/{of.name}"] = made
        return of

    async def get(self, path: str) -> dict[str, Any]:
        """A Cluster."""
        if self.broken or f"Cluster/{path.rpartition('/')[2]}" not in self.kept:
            raise ApiError(*((503, "no") if self.broken else (404, "not found")))
        return self.kept[f"Cluster/{path.rpartition('/')[2]}"]

    async def apply(self, path: str, body: Mapping[str, Any], _field_manager: str) -> dict[str, Any]:
        """Take a status, or the finalizer."""
        if self.broken:
            raise ApiError(503, "no")
        *_before, plural, name = path.removesuffix("/status").split("/")
        kept = self.kept[f"{plural.removesuffix('s').replace('policie', 'policy').capitalize()}/{name}"]
        self.version += 1
        metadata = {**kept["metadata"], "resourceVersion": str(self.version)}
        if path.endswith("/status"):
            kept["status"] = body["status"]
        else:
            metadata["finalizers"] = body["metadata"]["finalizers"]
        kept["metadata"] = metadata
        self.written.append(f"{name} {'status' if path.endswith('/status') else 'finalizers'}")
        return kept

    def record(self, about: Resource, event: Event) -> None:
        """Take an Event."""
        self.events.append(f"{about.name} {event.reason}")

    def taken(self) -> list[str]:
        """What was written since the last call, sorted."""
        found, self.written = sorted(self.written), []
        return found

    def reason(self, name: str, kind: str = "Topic") -> str:
        """Why a resource is ready or not."""
        found: str = self.kept[f"{kind}/{name}"]["status"]["conditions"][0]["reason"]
        return found


class Rounds:
    """In place of the passes of one cluster: what each of them sees."""

    def __init__(self) -> None:
        self.seen: Callable[[], ReconcileResult] = lambda: ReconcileResult([], states.cluster())
        self.closed = 0

    async def reconcile(self, *_: Any) -> ReconcileResult:
        """One pass."""
        return self.seen()

    def new_requests(self) -> dict[tuple[str, str], int]:
        """Nothing is asked."""
        return {}

    async def close(self) -> None:
        """End the session."""
        self.closed += 1


class World:
    """A controller, its API server, and passes that a test plays."""

    def __init__(self, *found: Resource) -> None:
        self.server = Server()
        self.controller = Manager(self.server, "shop", "", 60.0, self.server.record)  # type: ignore[arg-type]
        self.controller.set_owner("k8s/shop/topiarist")
        self.rounds = Rounds()
        for each in found:
            self.controller.store.upsert(self.server.give(each))

    def topic(self, name: str) -> Resource:
        """A Topic as it is known now."""
        return self.controller.store.topics["shop", name]

    async def passes(self, *views: TopicResult, error: TopiaristError | None = None) -> Requeue:
        """One pass over ``prod`` that sees this."""
        self.rounds.seen = lambda: ReconcileResult(views, None if error else states.cluster(), None, error)
        return await self.controller._reconcile("prod", self.rounds)  # type: ignore[arg-type]


AWAY = TopiaristError(Reason.UNREACHABLE, "no answer")


def exported(world: World) -> str:
    """What Prometheus gets."""
    return generate_latest(world.controller.metrics.registry).decode()


def run(work: Callable[[], Awaitable[Any]]) -> None:
    """Play it."""
    run_in_virtual_time(work)


def test_a_second_pass_over_the_same_writes_nothing() -> None:
    """No status, no finalizer, no Event; a status that could not be written is tried again."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders"))

    async def work() -> None:
        world.server.broken = True
        await world.passes(make_result(world.topic("orders"), SyncState.SYNCED))
        world.server.broken = False
        await world.passes(make_result(world.topic("orders"), SyncState.SYNCED))
        assert world.server.taken() == ["orders status", "prod status"]
        for _ in range(3):
            assert await world.passes(make_result(world.topic("orders"), SyncState.SYNCED)) is Requeue.AFTER_PERIOD
        assert world.server.taken() == []

    run(work)


def test_refusals_are_told_once_by_an_event() -> None:
    """However many passes find them."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders"))

    async def work() -> None:
        for _ in range(3):
            await world.passes(make_result(world.topic("orders"), SyncState.REFUSED))
        assert world.server.events == ["orders DataLoss"]

    run(work)


def test_a_topic_that_comes_while_its_cluster_is_away_is_told() -> None:
    """The Topic gets a status in the first pass, although its cluster cannot be read."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders"))

    async def work() -> None:
        assert await world.passes(error=AWAY) is Requeue.AFTER_BACKOFF
        assert world.server.reason("orders") == "Unreachable"
        assert world.server.reason("prod", "Cluster") == "Unreachable"
        world.controller.store.upsert(world.server.give(resource_bodies.topic("later")))
        await world.passes(error=AWAY)
        assert world.server.reason("later") == "Unreachable"
        world.server.taken()
        await world.passes(error=AWAY)
        assert world.server.taken() == []

    run(work)


def test_an_outage_takes_nothing_back() -> None:
    """Topics that are ready stay ready; the Cluster reports that it cannot be read."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders", deletionPolicy="Delete"))

    async def work() -> None:
        await world.passes(make_result(world.topic("orders"), SyncState.SYNCED))
        assert world.server.taken() == ["orders finalizers", "orders status", "prod status"]
        await world.passes(error=AWAY)
        assert world.server.taken() == ["prod status"]
        assert world.server.reason("orders") == "Synced"

    run(work)


@pytest.mark.parametrize(
    ("states_", "ending"),
    [
        ([SyncState.SYNCED, SyncState.REFUSED, SyncState.DRIFTED, SyncState.WAITING], Requeue.AFTER_PERIOD),
        ([SyncState.SYNCED, SyncState.CHANGED], Requeue.SOON),
    ],
)
def test_what_was_written_is_looked_at_soon(states_: list[SyncState], ending: Requeue) -> None:
    """Until the controller has taken it over; what stands still is not."""
    topics = [resource_bodies.topic(f"t{number}") for number in range(len(states_))]
    world = World(resource_bodies.cluster(), *topics)

    async def work() -> None:
        found = [make_result(topic, state) for topic, state in zip(topics, states_, strict=True)]
        assert await world.passes(*found) is ending

    run(work)


def test_a_cluster_that_is_gone_lets_its_topics_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loop and its session end, finalizers go, and its Topics say that there is none; one that comes back begins
    anew.
    """
    home = resource_bodies.cluster()
    world = World(home, resource_bodies.topic("orders", deletionPolicy="Delete", clusters=["prod"]))
    monkeypatch.setattr(module, "ClusterWorker", lambda *_: world.rounds)
    world.rounds.seen = lambda: ReconcileResult(
        [make_result(world.topic("orders"), SyncState.SYNCED)], states.cluster()
    )

    async def work() -> None:
        world.controller.start()
        await asyncio.sleep(5)
        assert world.topic("orders").finalizers == (FINALIZER,)
        assert [name for name, _ in world.controller.last_completed()] == ["", "prod"]
        world.controller.on_cluster_event(world.server.kept["Cluster/prod"], deleted=True)
        await asyncio.sleep(5)
        assert world.topic("orders").finalizers == ()
        assert world.server.reason("orders") == "UnknownCluster"
        assert world.rounds.closed == 1
        assert [name for name, _ in world.controller.last_completed()] == [""]
        world.controller.store.upsert(world.server.give(resource_bodies.cluster()))
        await asyncio.sleep(5)
        assert world.topic("orders").finalizers == (FINALIZER,)
        await world.controller.stop()
        assert world.rounds.closed == 2

    run(work)


def test_a_cluster_whose_deletion_was_missed_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """kopf reports no deletion from an interruption of its watch: each reconciliation reads its Cluster again."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders", clusters=["prod"]))
    monkeypatch.setattr(module, "ClusterWorker", lambda *_: world.rounds)

    async def work() -> None:
        world.controller.start()
        await asyncio.sleep(5)
        del world.server.kept["Cluster/prod"]
        world.controller.enqueue_all()
        await asyncio.sleep(5)
        assert [name for name, _ in world.controller.last_completed()] == [""]
        assert world.server.reason("orders") == "UnknownCluster"
        await world.controller.stop()

    run(work)


def test_a_cluster_that_comes_back_waits_for_the_end_of_its_old_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted and created again within one reconciliation: never two loops at a time."""
    home = resource_bodies.cluster()
    world = World(home)
    monkeypatch.setattr(module, "ClusterWorker", lambda *_: world.rounds)
    release, running = asyncio.Event(), [0]

    async def slow(*_: Any) -> ReconcileResult:
        running[0] += 1
        assert running[0] == 1
        await release.wait()
        running[0] -= 1
        return ReconcileResult([], states.cluster())

    monkeypatch.setattr(world.rounds, "reconcile", slow)

    async def work() -> None:
        world.controller.start()
        await asyncio.sleep(5)
        world.controller.on_cluster_event(world.server.kept["Cluster/prod"], deleted=True)
        world.server.give(resource_bodies.cluster())
        world.controller.on_cluster_event(world.server.kept["Cluster/prod"], deleted=False)
        await asyncio.sleep(5)
        assert (running, world.rounds.closed) == ([1], 0)
        release.set()
        await asyncio.sleep(5)
        assert world.rounds.closed == 1
        assert [name for name, _ in world.controller.last_completed()] == ["", "prod"]
        await world.controller.stop()

    run(work)


@pytest.mark.parametrize("error", [ApiError(503, "no"), TimeoutError()])
def test_without_the_api_server_the_last_known_cluster_counts(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known is still done."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders"))

    async def away(_path: str) -> dict[str, Any]:
        raise error

    monkeypatch.setattr(world.server, "get", away)

    async def work() -> None:
        assert await world.passes(make_result(world.topic("orders"), SyncState.SYNCED)) is Requeue.AFTER_PERIOD
        assert world.server.reason("orders") == "Synced"

    run(work)


def test_no_cluster_waits_for_what_a_gone_one_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand statuses are still to be written, and a new Cluster is looked at all the same."""
    home = resource_bodies.cluster("old")
    world = World(home, *(resource_bodies.topic(f"t{number}", clusters=["old"]) for number in range(1000)))
    slow, looked = asyncio.Event(), asyncio.Event()
    apply = world.server.apply

    async def waiting(*words: Any, **more: Any) -> dict[str, Any]:
        if "old" not in world.controller.store.clusters:
            await slow.wait()
        return await apply(*words, **more)

    monkeypatch.setattr(world.server, "apply", waiting)
    monkeypatch.setattr(module, "ClusterWorker", lambda *_: world.rounds)
    topics = [*world.controller.store.topics.values()]
    world.rounds.seen = lambda: ReconcileResult(
        [make_result(topic, SyncState.SYNCED, cluster_resource=home) for topic in topics], states.cluster()
    )

    def seen() -> ReconcileResult:
        looked.set()
        return ReconcileResult([], states.cluster())

    async def work() -> None:
        world.controller.start()
        await asyncio.sleep(3)
        world.rounds.seen = seen
        world.controller.store.remove(world.controller.store.clusters[home.name])
        await asyncio.sleep(3)
        world.controller.store.upsert(world.server.give(resource_bodies.cluster("new")))
        async with asyncio.timeout(10):
            await looked.wait()
        slow.set()
        await asyncio.sleep(3)
        assert world.server.reason("t999") == "UnknownCluster"
        await world.controller.stop()

    run(work)


def test_any_number_of_clusters_may_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a thread of its own: the one that answers is looked at while forty others are waited for."""
    release, done = threading.Event(), threading.Event()

    class Hanging(ClusterSession):
        def cluster(self, spec: ClusterSpec, *_: Any, **__: Any) -> Any:
            if spec.name == "good":
                done.set()
            else:
                release.wait()
            raise AWAY

    monkeypatch.setattr(module, "ClusterSession", Hanging)
    clusters = [resource_bodies.cluster(f"bad{number:02}") for number in range(40)]

    async def work() -> None:
        world = World(*clusters)
        world.controller.start()
        try:
            await asyncio.sleep(0)
            world.controller.store.upsert(world.server.give(resource_bodies.cluster("good")))
            await asyncio.to_thread(wait_until, done.is_set, "the good one is looked at")
        finally:
            release.set()
            await world.controller.stop()

    asyncio.run(work())


def test_the_rest_is_told_by_itself() -> None:
    """Policies, and Topics that are meant for no cluster."""
    world = World(
        resource_bodies.topic("orders", clusters=["nowhere"]), resource_bodies.policy("law", {"expression": "true"})
    )

    async def work() -> None:
        for _ in range(2):
            assert await world.controller._reconcile_unassigned() is Requeue.AFTER_PERIOD
        assert world.server.taken() == ["law status", "orders status"]
        assert 'topiarist_topics{cluster="",state="UnknownCluster"} 1.0' in exported(world)
        assert (world.server.reason("orders"), world.server.reason("law", "Policy")) == ("UnknownCluster", "Active")

    run(work)


async def in_step(world: World, name: str) -> Requeue:
    """One pass over ``prod`` in which this topic is as asked."""
    return await world.passes(make_result(world.topic(name), SyncState.SYNCED))


def test_a_second_cluster_stalls_only_topics_that_were_applied_nowhere() -> None:
    """Topics in step stay so, and their message names the Clusters; others keep their finalizer and get an Event."""
    new = resource_bodies.topic("new", deletionPolicy="Delete", meta={"finalizers": [FINALIZER]})
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders", deletionPolicy="Delete"))

    async def work() -> None:
        await in_step(world, "orders")
        world.controller.store.upsert(world.server.give(resource_bodies.cluster("other")))
        world.controller.store.upsert(world.server.give(new))
        world.server.taken()
        for _ in range(3):
            await in_step(world, "orders")
            await world.controller._reconcile_unassigned()
        assert world.server.taken() == ["new status", "orders status"]
        assert (world.server.reason("orders"), world.server.reason("new")) == ("Synced", "UnknownCluster")
        assert "stays on prod" in world.server.kept["Topic/orders"]["status"]["conditions"][0]["message"]
        assert world.topic("orders").finalizers == world.topic("new").finalizers == (FINALIZER,)
        assert world.server.events == ["new UnknownCluster"]

    run(work)


def test_a_topic_that_no_pass_looks_at_is_told_by_one_event() -> None:
    """Unknown cluster, or unreadable; for each new reason once, also while its status cannot be written."""
    world = World(
        resource_bodies.topic("lost", clusters=["nowhere"]), resource_bodies.topic("orders", clusters=["prod"])
    )
    world.controller.store.upsert(world.server.give(resource_bodies.cluster()))
    broken = resource_bodies.body("Topic", "wrong", {"partitions": 0, "clusters": ["prod"]})
    world.server.kept["Topic/wrong"] = broken

    async def work() -> None:
        world.controller.store.upsert(parse_resource(broken))
        for _ in range(2):
            await asyncio.gather(world.controller._reconcile_unassigned(), world.passes(error=AWAY))
        assert sorted(event for event in world.server.events if "prod" not in event) == [
            "lost UnknownCluster",
            "wrong ValidationFailed",
        ]

    run(work)


def test_a_policy_with_an_invalid_rule_says_so_by_itself() -> None:
    """Its own condition and one Event, whether a Cluster is there or not."""
    world = World(resource_bodies.policy("law", {"expression": "topic.partitons < 3"}), resource_bodies.policy("fine"))

    async def work() -> None:
        for _ in range(2):
            await world.controller._reconcile_unassigned()
        ready = world.server.kept["Policy/law"]["status"]["conditions"][0]
        assert (ready["status"], ready["reason"]) == ("False", "InvalidRule")
        assert ready["message"].startswith("policy law, rule r0: does not compile")
        assert world.server.reason("fine", "Policy") == "Active"
        assert world.server.events == ["law InvalidRule"]

    asyncio.run(work())
