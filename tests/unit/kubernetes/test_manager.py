"""What follows from passes: who is told, that nothing is told twice, and what becomes of clusters that go."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import generate_latest

from support import builders
from support.kubernetes import resource_bodies
from support.kubernetes.passes import make_result
from support.virtual_time import run_in_virtual_time, virtual_time
from support.waiting import wait_until
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import manager as module
from topiarist.kubernetes.cache import Store
from topiarist.kubernetes.client import ApiError
from topiarist.kubernetes.cluster_worker import ClusterSession, ClusterWorker
from topiarist.kubernetes.identity import Requeue
from topiarist.kubernetes.informer import Definition
from topiarist.kubernetes.manager import Manager
from topiarist.kubernetes.moves import ClusterMoves, TopicMoves
from topiarist.kubernetes.reconciler import ReconcileResult, SyncState, TopicResult
from topiarist.kubernetes.resources import FINALIZER, Resource, parse_resource
from topiarist.kubernetes.status_writer import Event
from topiarist.model.moves import ReplicaMove
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import SAFE_ASSESSMENT, AddPartitions, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.output.groups import describe_changes


class Server:
    """An API server that keeps what is written; ``broken`` is the error of everything else."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.written: list[str] = []
        self.events: list[str] = []
        self.broken: ApiError | None = None
        self.refusals = 0
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
            raise self.broken or ApiError(404, "not found")
        return self.kept[f"Cluster/{path.rpartition('/')[2]}"]

    async def apply(self, path: str, body: Mapping[str, Any], _field_manager: str) -> dict[str, Any]:
        """Take a status, or the finalizer."""
        if self.broken:
            self.refusals += 1
            raise self.broken
        *_before, plural, name = path.removesuffix("/status").split("/")
        kept = self.kept[f"{plural.removesuffix('s').replace('policie', 'policy').capitalize()}/{name}"]
        self.version += 1
        metadata = {**kept["metadata"], "resourceVersion": str(self.version)}
        if path.endswith("/status"):
            kept["status"] = body["status"]
        else:
            metadata["finalizers"] = body["metadata"]["finalizers"]
            metadata["annotations"] = {
                **kept["metadata"].get("annotations", {}),
                **body["metadata"].get("annotations", {}),
            }
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
    """In place of the passes of one cluster: what each of them sees, and when it began."""

    def __init__(self) -> None:
        self.seen: Callable[[], ReconcileResult] = lambda: ReconcileResult([], builders.state())
        self.begun: list[float] = []
        self.closed = 0

    async def reconcile(self, *_: Any) -> ReconcileResult:
        """One pass."""
        self.begun.append(asyncio.get_running_loop().time())
        return self.seen()

    def new_requests(self) -> dict[tuple[str, str], int]:
        """Nothing is asked."""
        return {}

    async def close(self) -> None:
        """End the session."""
        self.closed += 1


class World:
    """A controller, its API server, and passes that a test plays."""

    last: World

    def __init__(self, *found: Resource) -> None:
        World.last = self
        self.server = Server()
        self.controller = Manager(self.server, "shop", "", 60.0, self.server.record)  # type: ignore[arg-type]
        self.controller.store.owner = "k8s/shop/topiarist"
        self.rounds = Rounds()
        for each in found:
            self.controller.store.upsert(self.server.give(each))

    @property
    def store(self) -> Store:
        """The resources that the controller knows."""
        return self.controller.store

    def add(self, found: Resource) -> None:
        """Create a resource, as another client."""
        self.store.upsert(self.server.give(found))

    async def start(self, seconds: float) -> None:
        """Start the loops and let them work for so long."""
        self.controller.start()
        await asyncio.sleep(seconds)

    async def stop(self) -> None:
        """End the loops."""
        await self.controller.stop()

    def topic(self, name: str) -> Resource:
        """A Topic as it is known now."""
        return self.controller.store.topics["shop", name]

    def see_in_step(self, name: str) -> None:
        """Have each pass see a Topic that is as declared."""
        self.rounds.seen = lambda: ReconcileResult([make_result(self.topic(name), SyncState.SYNCED)], builders.state())

    def conditions(self) -> dict[str, Any]:
        """The conditions of ``prod`` by their type."""
        return {each["type"]: each for each in self.server.kept["Cluster/prod"]["status"]["conditions"]}

    async def passes(self, *views: TopicResult, error: TopiaristError | None = None) -> Requeue:
        """One pass over ``prod`` that sees this."""
        self.rounds.seen = lambda: ReconcileResult(views, None if error else builders.state(), None, error)
        return await self.controller._reconcile("prod", self.rounds)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _plays_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the controller take the passes of the test in place of workers."""
    monkeypatch.setattr(module, "ClusterWorker", lambda *_: World.last.rounds)


AWAY = TopiaristError(Reason.UNREACHABLE, "no answer")


def exported(world: World) -> str:
    """What Prometheus gets."""
    return generate_latest(world.controller.metrics.registry).decode()


def run(work: Callable[[], Awaitable[Any]]) -> None:
    """Play it."""
    run_in_virtual_time(work)


@virtual_time
async def test_a_second_pass_over_the_same_writes_nothing() -> None:
    """No status, no finalizer, no Event; a status that could not be written is tried again."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders"))
    world.server.broken = ApiError(503, "no")
    await world.passes(make_result(world.topic("orders"), SyncState.SYNCED))
    world.server.broken = None
    await world.passes(make_result(world.topic("orders"), SyncState.SYNCED))
    assert world.server.taken() == ["orders finalizers", "orders status", "prod status"]
    assert world.topic("orders").applied_clusters == ["prod"]
    for _ in range(3):
        assert await world.passes(make_result(world.topic("orders"), SyncState.SYNCED)) is Requeue.AFTER_PERIOD
    assert world.server.taken() == []


@pytest.mark.parametrize("refused", [(429, 20.0), (500, 0.0), (0, 0.0), (409, 0.0)])
@virtual_time
async def test_a_refused_write_is_repeated_soon(refused: tuple[int, float]) -> None:
    """Statuses and finalizers are repeated without another pass and without waiting for the next period, but not before
    the time that the API server asks for.
    """
    topic = resource_bodies.topic("orders", deletionPolicy="Delete")
    unreadable = resource_bodies.policy("law", color="red")  # no rule of it is compiled, which takes a thread
    world = World(resource_bodies.cluster(), topic)
    world.server.kept["Policy/law"] = resource_bodies.body(
        "Policy", "law", dict(unreadable.declared_spec), uid=unreadable.uid
    )
    world.store.upsert(unreadable)
    world.see_in_step("orders")
    world.server.broken = ApiError(refused[0], "no", refused[1])
    await world.start(0.05)
    world.server.broken = None
    if refused[1]:
        await asyncio.sleep(refused[1] - 1.0)
        assert world.server.taken() == []
    await asyncio.sleep(2.0)
    written = world.server.written
    assert written.index("prod status") < written.index("orders finalizers")  # no cluster waits for all of its topics
    assert world.server.taken() == ["law status", "orders finalizers", "orders status", "prod status"]
    assert world.server.reason("orders") == "Synced"
    assert world.rounds.begun == [0.0]
    assert world.controller._repeat_loop.retries == 0  # the first attempt succeeds
    await world.stop()


@virtual_time
async def test_a_refused_write_is_repeated_less_and_less_often() -> None:
    """While the API server refuses all writes, the delay between two attempts grows to a minute."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders"))
    world.server.broken = ApiError(500, "no")
    await world.start(50)
    assert 10 <= world.server.refusals <= 16
    before = world.server.refusals
    await asyncio.sleep(600)
    assert 30 <= world.server.refusals - before <= 70
    await world.stop()


@virtual_time
async def test_a_topic_that_may_declare_nothing_drives_no_passes() -> None:
    """The namespace is not allowed: its first change is seen at once, 600 changes in a minute cause a few passes, and a
    change of an allowed Topic still causes one at once.
    """
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders"))
    passes = world.rounds.begun
    foreign = resource_bodies.topic("intruder", meta={"namespace": "other"})
    await world.start(1)
    for number in range(600):
        changed = resource_bodies.updated_body(foreign, generation=number + 2)
        (world.store.remove if number % 10 == 9 else world.store.upsert)(changed)
        await asyncio.sleep(0.1)
    assert len(passes) <= 9
    assert [begun for begun in passes if 1.0 <= begun <= 1.2] != []
    await asyncio.sleep(30)
    before = len(passes)
    world.store.upsert(resource_bodies.updated_body(world.topic("orders"), generation=2, resourceVersion="2000000"))
    await asyncio.sleep(0.2)
    assert len(passes) == before + 1
    for generation in (3, 4):
        version = f"200000{generation}"
        world.store.upsert(
            resource_bodies.updated_body(world.topic("orders"), generation=generation, resourceVersion=version)
        )
        await asyncio.sleep(0.2)
    assert len(passes) == before + 3
    await world.stop()


@virtual_time
async def test_a_status_is_not_that_of_an_older_spec() -> None:
    """A Topic that was changed during a pass is not ready with the result of its earlier spec, on no cluster."""
    topic = resource_bodies.topic("orders")
    world = World(resource_bodies.cluster(), topic)
    world.server.kept["Topic/orders"]["metadata"]["generation"] = 2
    world.store.upsert(resource_bodies.updated_body(topic, generation=2))
    await world.passes(make_result(topic, SyncState.SYNCED))
    assert world.server.reason("orders") == "NotSent"
    await world.passes(make_result(world.topic("orders"), SyncState.SYNCED))
    assert world.server.reason("orders") == "Synced"


@virtual_time
async def test_a_refusal_is_told_once_and_again_when_it_comes_back() -> None:
    """However many passes find it; also if no pass between the two finds the status as it was written."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders"))
    for state in (*[SyncState.REFUSED] * 3, SyncState.SYNCED, SyncState.REFUSED):
        await world.passes(make_result(world.topic("orders"), state))
    assert world.server.events == ["orders DataLoss"] * 2


@virtual_time
async def test_a_cluster_tells_of_its_topic_of_records() -> None:
    """An Event of the Cluster has what the topic of records lacks."""
    world = World(resource_bodies.cluster())
    world.rounds.seen = lambda: ReconcileResult((), builders.state(), notices=("made without a config",))
    await world.controller._reconcile("prod", world.rounds)  # type: ignore[arg-type]
    assert world.server.events == ["prod RecordsTopicDiffers"]


@virtual_time
async def test_a_topic_that_comes_while_its_cluster_is_away_is_told() -> None:
    """The Topic gets a status in the first pass, although its cluster cannot be read."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders"))
    assert await world.passes(error=AWAY) is Requeue.AFTER_BACKOFF
    assert world.server.reason("orders") == "Unreachable"
    assert world.server.reason("prod", "Cluster") == "Unreachable"
    world.add(resource_bodies.topic("later"))
    await world.passes(error=AWAY)
    assert world.server.reason("later") == "Unreachable"
    world.server.taken()
    await world.passes(error=AWAY)
    assert world.server.taken() == []


@virtual_time
async def test_the_end_of_an_outage_is_reported_by_the_topics_that_a_pass_has_planned() -> None:
    """A Topic that was changed since it was planned keeps its reason until a pass has planned it as it is now."""
    orders, clicks = resource_bodies.topic("orders"), resource_bodies.topic("clicks")
    world = World(resource_bodies.cluster(), orders, clicks)
    world.server.kept["Topic/orders"]["metadata"]["generation"] = 2
    world.store.upsert(resource_bodies.updated_body(orders, generation=2))
    for _ in range(2):
        await world.passes(make_result(orders, SyncState.SYNCED), error=AWAY)
        assert (world.server.reason("orders"), world.server.reason("clicks")) == ("Unreachable", "Unreachable")
    for seen, reason in ((orders, "Unreachable"), (world.topic("orders"), "Synced")):
        await world.passes(make_result(seen, SyncState.SYNCED), make_result(clicks, SyncState.SYNCED))
        assert (world.server.reason("orders"), world.server.reason("clicks")) == (reason, "Synced")


@virtual_time
async def test_an_outage_takes_nothing_back() -> None:
    """Topics that are ready stay ready; the Cluster reports that it cannot be read."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders", deletionPolicy="Delete"))
    await world.passes(make_result(world.topic("orders"), SyncState.SYNCED))
    assert world.server.taken() == ["orders finalizers", "orders status", "prod status"]
    await world.passes(error=AWAY)
    assert world.server.taken() == ["prod status"]
    assert world.server.reason("orders") == "Synced"


@pytest.mark.parametrize(
    ("states_", "ending"),
    [
        ([SyncState.SYNCED, SyncState.REFUSED, SyncState.DRIFTED, SyncState.WAITING], Requeue.AFTER_PERIOD),
        ([SyncState.SYNCED, SyncState.CHANGED], Requeue.SOON),
    ],
)
@virtual_time
async def test_what_was_written_is_looked_at_soon(states_: list[SyncState], ending: Requeue) -> None:
    """Until the controller has taken it over; what stands still is not."""
    topics = [resource_bodies.topic(f"t{number}") for number in range(len(states_))]
    world = World(resource_bodies.cluster(), *topics)
    found = [make_result(topic, state) for topic, state in zip(topics, states_, strict=True)]
    assert await world.passes(*found) is ending


@virtual_time
async def test_a_cluster_that_is_gone_lets_its_topics_go() -> None:
    """Its loop and its session end, finalizers go, and its Topics say that there is none; one that comes back begins
    anew.
    """
    home = resource_bodies.cluster()
    world = World(home, resource_bodies.topic("orders", deletionPolicy="Delete", clusters=["prod"]))
    world.see_in_step("orders")
    await world.start(5)
    assert world.topic("orders").finalizers == (FINALIZER,)
    assert [name for name, _ in world.controller.last_completed()] == ["", "prod"]
    world.store.remove(parse_resource(world.server.kept["Cluster/prod"]))
    await asyncio.sleep(5)
    assert world.topic("orders").finalizers == ()
    assert world.server.reason("orders") == "UnknownCluster"
    assert world.rounds.closed == 1
    assert world.controller._cluster_inventory == {}  # else a Cluster of this name would seem to be known
    assert [name for name, _ in world.controller.last_completed()] == [""]
    world.add(resource_bodies.cluster())
    await asyncio.sleep(5)
    assert world.topic("orders").finalizers == (FINALIZER,)
    await world.stop()
    assert world.rounds.closed == 2


@virtual_time
async def test_a_removed_cluster_is_refused_in_the_statuses_of_topics_that_have_another_one() -> None:
    """Such a Topic shows that the Cluster does not exist, without another event, and without a pass over the other
    one, which may take long.
    """
    orders = resource_bodies.topic("orders", clusters=["prod", "test"])
    world = World(resource_bodies.cluster(), resource_bodies.cluster("test"), orders)
    world.see_in_step("orders")
    await world.start(5)
    assert [each["name"] for each in world.topic("orders").status["clusters"]] == ["prod", "test"]
    answered = asyncio.Event()

    async def reconcile(*_: Any) -> ReconcileResult:
        await answered.wait()
        return world.rounds.seen()

    world.rounds.reconcile = reconcile  # type: ignore[method-assign]
    del world.server.kept["Cluster/prod"]
    world.store.remove(world.store.clusters["prod"])
    await asyncio.sleep(5)
    assert [each["name"] for each in world.topic("orders").status["clusters"]] == ["test", "prod"]
    assert world.server.reason("orders") == "UnknownCluster"
    answered.set()
    await world.stop()


@virtual_time
async def test_a_cluster_that_goes_before_its_first_pass_is_removed() -> None:
    """It has no results; a Cluster of its name that comes later is served."""
    world = World(resource_bodies.cluster())
    del world.server.kept["Cluster/prod"]
    world.controller._policy_cache.rule_errors["prod"] = ["policy law, rule r0: does not compile"]
    await world.start(5)
    assert [name for name, _ in world.controller.last_completed()] == [""]
    assert world.controller._policy_cache.rule_errors == {}  # or the status of its Policies would keep them
    world.add(resource_bodies.cluster())
    await asyncio.sleep(5)
    assert world.server.taken() == ["prod status"]
    await world.stop()


@virtual_time
async def test_a_cluster_whose_deletion_was_missed_is_removed() -> None:
    """kopf reports no deletion from an interruption of its watch: each reconciliation reads its Cluster again."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders", clusters=["prod"]))
    await world.start(5)
    del world.server.kept["Cluster/prod"]
    world.controller.enqueue_all()
    await asyncio.sleep(5)
    assert [name for name, _ in world.controller.last_completed()] == [""]
    assert world.server.reason("orders") == "UnknownCluster"
    await world.stop()


@virtual_time
async def test_a_cluster_that_comes_back_waits_for_the_end_of_its_old_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted and created again within one reconciliation: never two loops at a time."""
    home = resource_bodies.cluster()
    world = World(home)
    release, running = asyncio.Event(), [0]

    async def slow(*_: Any) -> ReconcileResult:
        running[0] += 1
        assert running[0] == 1
        await release.wait()
        running[0] -= 1
        return ReconcileResult([], builders.state())

    monkeypatch.setattr(world.rounds, "reconcile", slow)
    await world.start(5)
    world.store.remove(parse_resource(world.server.kept["Cluster/prod"]))
    world.server.give(resource_bodies.cluster())
    world.store.upsert(parse_resource(world.server.kept["Cluster/prod"]))
    await asyncio.sleep(5)
    assert (running, world.rounds.closed) == ([1], 0)
    release.set()
    await asyncio.sleep(5)
    assert world.rounds.closed == 1
    assert [name for name, _ in world.controller.last_completed()] == ["", "prod"]
    await world.stop()


@virtual_time
async def test_no_cluster_waits_for_what_a_gone_one_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand statuses are still to be written, and a new Cluster is looked at all the same."""
    home = resource_bodies.cluster("old")
    world = World(home, *(resource_bodies.topic(f"t{number}", clusters=["old"]) for number in range(1000)))
    slow, looked = asyncio.Event(), asyncio.Event()
    apply = world.server.apply

    async def waiting(*words: Any, **more: Any) -> dict[str, Any]:
        if "old" not in world.store.clusters:
            await slow.wait()
        return await apply(*words, **more)

    monkeypatch.setattr(world.server, "apply", waiting)
    topics = [*world.store.topics.values()]
    world.rounds.seen = lambda: ReconcileResult(
        [make_result(topic, SyncState.SYNCED, cluster_resource=home) for topic in topics], builders.state()
    )

    def seen() -> ReconcileResult:
        looked.set()
        return ReconcileResult([], builders.state())

    await world.start(3)
    world.rounds.seen = seen
    world.store.remove(world.store.clusters[home.name])
    await asyncio.sleep(3)
    world.add(resource_bodies.cluster("new"))
    async with asyncio.timeout(10):
        await looked.wait()
    slow.set()
    await asyncio.sleep(3)
    assert world.server.reason("t999") == "UnknownCluster"
    await world.stop()


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
    monkeypatch.setattr(module, "ClusterWorker", ClusterWorker)
    clusters = [resource_bodies.cluster(f"bad{number:02}") for number in range(40)]

    async def work() -> None:
        world = World(*clusters)
        world.controller.start()
        try:
            await asyncio.sleep(0)
            world.add(resource_bodies.cluster("good"))
            await asyncio.to_thread(wait_until, done.is_set, "the good one is looked at")
        finally:
            release.set()
            await world.stop()

    asyncio.run(work())


@virtual_time
async def test_the_rest_is_told_by_itself() -> None:
    """Policies first, then Topics that are meant for no cluster: there may be many."""
    world = World(
        resource_bodies.topic("orders", clusters=["nowhere"]), resource_bodies.policy("law", {"expression": "true"})
    )
    for _ in range(2):
        assert await world.controller._reconcile_unassigned() is Requeue.AFTER_PERIOD
    assert world.server.written == ["law status", "orders status"]
    assert 'topiarist_topics{cluster="",state="UnknownCluster"} 1.0' in exported(world)
    assert (world.server.reason("orders"), world.server.reason("law", "Policy")) == ("UnknownCluster", "Active")


async def in_step(world: World, name: str) -> Requeue:
    """One pass over ``prod`` in which this topic is as asked."""
    return await world.passes(make_result(world.topic(name), SyncState.SYNCED))


@virtual_time
async def test_a_second_cluster_stalls_only_topics_that_were_applied_nowhere() -> None:
    """Topics in step stay so, and their message names the Clusters; others keep their finalizer and get an Event."""
    new = resource_bodies.topic("new", deletionPolicy="Delete", meta={"finalizers": [FINALIZER]})
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders", deletionPolicy="Delete"))
    await in_step(world, "orders")
    world.add(resource_bodies.cluster("other"))
    world.add(new)
    world.server.taken()
    for _ in range(3):
        await in_step(world, "orders")
        await world.controller._reconcile_unassigned()
    assert world.server.taken() == ["new status", "orders status"]
    assert (world.server.reason("orders"), world.server.reason("new")) == ("Synced", "UnknownCluster")
    assert "stays on prod" in world.server.kept["Topic/orders"]["status"]["conditions"][0]["message"]
    assert world.topic("orders").finalizers == world.topic("new").finalizers == (FINALIZER,)
    assert world.server.events == ["new UnknownCluster"]


@virtual_time
async def test_a_topic_that_leaves_a_cluster_is_told() -> None:
    """Its topic stays on the cluster: one Event says so, also if the operator was restarted since."""
    part = {"name": "prod", "state": "Synced", "generation": 1}
    topic = resource_bodies.topic("orders", clusters=["test"], status={"clusters": [part]})
    world = World(resource_bodies.cluster(), resource_bodies.cluster("test"), topic)
    world.store.upsert(resource_bodies.updated_body(topic, status={"clusters": [part]}))
    for _ in range(2):
        await world.passes()
        await world.controller._reconcile_unassigned()
        world.see_in_step("orders")
        await world.controller._reconcile("test", world.rounds)  # type: ignore[arg-type]
    assert [each for each in world.server.events if "LeftCluster" in each] == ["orders LeftCluster"]


@virtual_time
async def test_a_topic_that_no_pass_looks_at_is_told_by_one_event() -> None:
    """Unknown cluster, or unreadable; for each new reason once, also while its status cannot be written."""
    world = World(
        resource_bodies.topic("lost", clusters=["nowhere"]), resource_bodies.topic("orders", clusters=["prod"])
    )
    world.add(resource_bodies.cluster())
    broken = resource_bodies.body("Topic", "wrong", {"partitions": 0, "clusters": ["prod"]})
    world.server.kept["Topic/wrong"] = broken
    world.store.upsert(parse_resource(broken))
    for _ in range(2):
        await asyncio.gather(world.controller._reconcile_unassigned(), world.passes(error=AWAY))
    assert sorted(event for event in world.server.events if "prod" not in event) == [
        "lost UnknownCluster",
        "wrong ValidationFailed",
    ]


@pytest.mark.parametrize("is_refused", [True, False])
@virtual_time
async def test_a_topic_that_was_refused_gets_few_passes(is_refused: bool) -> None:
    """As it is it cannot change its cluster, however often it changes; another one causes a pass with each change."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders"))

    def see() -> ReconcileResult:
        found = make_result(world.topic("orders"), SyncState.REFUSED)
        candidate = found.candidate._replace(refusals=found.refusals if is_refused else ())
        return ReconcileResult([found._replace(candidate=candidate)], builders.state())

    world.rounds.seen = see
    await world.start(1)
    before = world.controller._loops["prod"].enqueue_count
    for number in range(5):
        later: dict[str, Any] = {"generation": number + 2, "resourceVersion": str(world.server.version + number + 1)}
        world.store.upsert(resource_bodies.updated_body(world.topic("orders"), **later))
    assert world.controller._loops["prod"].enqueue_count - before == (1 if is_refused else 5)
    await world.stop()


@virtual_time
async def test_a_topic_that_loses_its_cluster_again_is_told_again() -> None:
    """The same Event follows if the same problem comes back after it was gone."""
    world = World(resource_bodies.topic("orders", clusters=["prod"]))
    for number in (1, 2):
        for _ in range(2):
            await world.controller._reconcile_unassigned()
        assert world.server.events.count("orders UnknownCluster") == number
        world.add(resource_bodies.cluster())
        await in_step(world, "orders")
        world.store.remove(world.store.clusters["prod"])


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


def replicas_left(left: int, *, is_sent: bool = False) -> ClusterMoves:
    """Return the moves of a pass after which so many partitions are left."""
    return ClusterMoves(tuple(ReplicaMove("orders", number, (1,), (2,)) for number in range(left)), is_sent=is_sent)


@virtual_time
async def test_moves_call_for_the_next_pass() -> None:
    """A batch that was sent and a move that ended are progress; without progress the pauses grow. Moves that come are
    progress too, also a single one.
    """
    world = World(resource_bodies.cluster())
    for moves, ending in (
        (replicas_left(1), Requeue.MOVED),
        (replicas_left(3, is_sent=True), Requeue.MOVED),
        (replicas_left(3), Requeue.MOVING),
        (replicas_left(2), Requeue.MOVED),
        (replicas_left(2), Requeue.MOVING),
        (replicas_left(2, is_sent=True), Requeue.MOVED),
        (replicas_left(0), Requeue.AFTER_PERIOD),
        (None, Requeue.AFTER_PERIOD),
    ):
        world.rounds.seen = lambda moves=moves: ReconcileResult([], builders.state(), moves=moves)  # type: ignore[misc]
        assert await world.controller._reconcile("prod", world.rounds) is ending  # type: ignore[arg-type]


@virtual_time
async def test_a_cluster_is_a_queue_by_its_name() -> None:
    """The queue of Policies and of Topics without a cluster is named ``rest``; answers of the API server count too."""
    world = World(resource_bodies.cluster())
    world.server.requests = {("GET", "200"): 7}
    await world.start(1)
    world.controller.enqueue_all()
    found = exported(world)
    for name in ("rest", "prod"):
        assert f'workqueue_adds_total{{name="{name}"}} 1.0' in found
    assert 'rest_client_requests_total{code="200",method="GET"} 7.0' in found
    await world.stop()


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return the levels of the records of the manager and what they are about, and clear them."""
    found = [
        (record.levelname, vars(record).get("namespace", "") or vars(record).get("topic", ""))
        for record in caplog.records
        if record.name == module.__name__
    ]
    caplog.clear()
    return found


def test_a_namespace_that_is_away_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Each new reason is a warning and its end a remark; the Cluster has the reason in its next pass."""
    world = World(resource_bodies.cluster())

    async def work() -> None:
        for away, wanted in (
            ({"team": "gone"}, [("WARNING", "team")]),
            ({"team": "gone"}, []),
            ({"team": "forbidden", "pay": "gone"}, [("WARNING", "team"), ("WARNING", "pay")]),
            ({"team": "forbidden"}, [("INFO", "pay")]),
        ):
            world.controller.set_unavailable_namespaces(away)
            assert logged(caplog) == wanted
        assert 'topiarist_namespace_away{watched_namespace="team"} 1.0' in exported(world)
        assert 'watched_namespace="pay"' not in exported(world)
        world.controller.set_unavailable_namespaces({"team": "forbidden", "crew": "gone"})
        await world.passes()
        assert world.conditions()["NamespaceAway"]["message"] == "crew: gone; team: forbidden"
        assert logged(caplog) == [("WARNING", "crew")]
        world.controller.set_unavailable_namespaces({})
        assert sorted(logged(caplog)) == [("INFO", "crew"), ("INFO", "team")]
        await world.passes()
        assert "NamespaceAway" not in world.conditions()

    with caplog.at_level(logging.INFO):
        run(work)


def test_lost_rights_are_a_condition_and_a_metric(caplog: pytest.LogCaptureFixture) -> None:
    """Each Cluster names the rights that the operator lost, until they are back; the log has each change once."""
    world = World(resource_bodies.cluster())

    async def work() -> None:
        for _ in range(2):
            world.controller.set_missing_rights(["patch topics", "create events"])
            await world.passes()
        found = world.conditions()["RightsMissing"]
        message = "the operator's ServiceAccount may not: patch topics; create events"
        assert (found["status"], found["message"]) == ("True", message)
        assert "\ntopiarist_missing_rights 2.0\n" in exported(world)
        assert [*world.controller.problems()] == ["missing rights: patch topics; create events"]
        world.controller.set_missing_rights([])
        await world.passes()
        assert "RightsMissing" not in str(world.server.kept["Cluster/prod"])
        assert "\ntopiarist_missing_rights 0.0\n" in exported(world)
        assert [*world.controller.problems()] == []
        assert [record.levelname for record in caplog.records if "permissions" in record.message] == ["ERROR", "INFO"]

    caplog.set_level(logging.INFO)
    run(work)


@virtual_time
async def test_definitions_of_another_release_stop_all_passes(caplog: pytest.LogCaptureFixture) -> None:
    """Kafka is neither read nor changed while a definition lacks a field; the Cluster says so with the fields that the
    definition has, and the next pass follows at once when it is whole.
    """
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders"))
    world.see_in_step("orders")
    fields: dict[str, Any] = {"properties": {"conditions": {}, "observedGeneration": {}}}
    lacking = {kind: Definition(f"{kind}s", ("status.operator",), fields) for kind in ("Cluster", "Topic")}
    caplog.set_level(logging.INFO, "topiarist.kubernetes.manager")
    world.controller.set_definitions(lacking)
    await world.start(200)
    assert world.rounds.begun == []
    status = world.server.kept["Cluster/prod"]["status"]
    assert (world.server.reason("prod", "Cluster"), world.server.reason("orders")) == ("PrerequisiteMissing",) * 2
    assert status.keys() == world.server.kept["Topic/orders"]["status"].keys() == fields["properties"].keys()
    assert "Clusters does not have status.operator" in status["conditions"][0]["message"]
    assert len(world.server.taken()) == 2
    assert len([*world.controller.problems()]) == 1
    world.controller.set_definitions({})
    await asyncio.sleep(1)
    assert len(world.rounds.begun) == 1
    assert world.server.reason("orders") == "Synced"
    assert [*world.controller.problems()] == []
    levels = {record.message: record.levelname for record in caplog.records}
    assert levels["nothing is written to Kafka"] == "ERROR"
    assert levels["the CRDs have all fields of this release again"] == "INFO"
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    await world.stop()


@virtual_time
async def test_what_the_operator_lacks_calls_for_passes() -> None:
    """Every cluster is reconciled at once when a namespace or a right is lost, or is back, and not again while nothing
    has changed.
    """
    world = World(resource_bodies.cluster())
    await world.start(5)
    controller = world.controller
    for change, lacking, count in (
        (controller.set_unavailable_namespaces, {"team": "gone"}, 2),
        (controller.set_missing_rights, ["patch topics"], 3),
        (controller.set_missing_rights, [], 4),
    ):
        for _ in range(3):
            change(lacking)  # type: ignore[arg-type]
            await asyncio.sleep(5)
        assert len(world.rounds.begun) == count
    await world.stop()


@virtual_time
async def test_a_resource_of_another_release_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Each new holder is one warning; the metric has the resources of now."""
    world = World(resource_bodies.cluster())
    law = resource_bodies.policy("law")
    found: list[str] = []
    for holder in ("green", "green", "red", "k8s/shop/topiarist", "red"):
        world.server.version += 1
        version = str(world.server.version)
        held = resource_bodies.updated_body(law, status={"operator": holder}, resourceVersion=version)
        world.server.give(held)
        world.store.upsert(held)
        await world.controller._reconcile_unassigned()
        records = [vars(record) for record in caplog.records if "holder" in vars(record)]
        found += [record["holder"] for record in records]
        about = {(each["kind"], each["namespace"], each["resource"]) for each in records}
        assert about <= {("Policy", "shop", "law")}
        caplog.clear()
    assert found == ["green", "red", "red"]
    assert 'topiarist_resources_held_by_others{holder="red",kind="Policy"} 1.0' in exported(world)
    assert 'holder="green"' not in exported(world)


def test_a_change_is_logged_when_it_is_made(caplog: pytest.LogCaptureFixture) -> None:
    """Each written topic has a line; one with moves has a line only when something about it is new."""
    topics = [resource_bodies.topic(name) for name in ("moved", "plain")]
    world = World(resource_bodies.cluster(), *topics)
    plan = TopicPlan("", changes=(AddPartitions(3, (3,), ((1, 2, 3),), SAFE_ASSESSMENT),))

    async def work() -> None:
        for left, wanted in ((2, ["moved", "plain"]), (2, ["plain"]), (1, ["moved", "plain"])):
            outcomes = [Outcome(each.name, Result.DONE) for each in topics]
            moved, plain = (
                make_result(topic, SyncState.SYNCED)._replace(plan=plan, outcome=outcome)
                for topic, outcome in zip(topics, outcomes, strict=True)
            )
            await world.passes(moved._replace(moves=TopicMoves(left)), plain)
            found = [record for record in caplog.records if "changes" in vars(record)]
            assert [vars(record)["topic"] for record in found] == wanted
            assert {record.message for record in found} == {"done"}
            assert {vars(record)["cluster"] for record in found} == {"prod"}
            assert {vars(record)["changes"] for record in found} == {describe_changes(plan.changes)}
            caplog.clear()
        unknown = Outcome("plain", Result.UNKNOWN, Reason.SESSION_LOST, "no answer")
        await world.passes(make_result(topics[1], SyncState.WAITING)._replace(plan=plan, outcome=unknown))
        assert [record.message for record in caplog.records if "changes" in vars(record)] == ["no answer"]
        caplog.clear()
        await world.passes(make_result(topics[1], SyncState.OBSERVED)._replace(plan=plan))
        assert [record for record in caplog.records if "changes" in vars(record)] == []

    with caplog.at_level(logging.INFO):
        run(work)


@virtual_time
async def test_a_cluster_does_not_wait_for_its_topics() -> None:
    """The status of the Cluster is written first, and its Event is the first: ten thousand statuses take minutes."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders"))
    await world.passes(make_result(world.topic("orders"), SyncState.SYNCED))
    await world.passes(error=TopiaristError(Reason.WRONG_CLUSTER, "another"))
    world.server.written.clear()
    world.server.events.clear()
    await world.passes(make_result(world.topic("orders"), SyncState.REFUSED))
    assert world.server.written == ["prod status", "orders status"]
    assert world.server.events == ["prod Reachable", "orders DataLoss"]


@virtual_time
async def test_no_loop_is_started_while_the_operator_ends() -> None:
    """A Cluster that comes while the operator stops is left to the next process; so is the status of any Topic."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders", clusters=["prod"]))
    await world.start(1)
    await world.stop()
    world.add(resource_bodies.cluster("late"))
    assert [name for name, _ in world.controller.last_completed()] == ["", "prod"]
    assert world.rounds.closed == 1


@virtual_time
async def test_a_pass_waits_five_seconds_for_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that hangs delays a pass a little, and does not stop it."""
    world = World(resource_bodies.cluster())

    async def hang(_path: str) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    monkeypatch.setattr(world.server, "get", hang)
    await world.passes()
    assert asyncio.get_running_loop().time() == 5.0
    assert world.server.taken() == ["prod status"]


@virtual_time
async def test_an_annotation_of_a_cluster_that_is_wrong_has_an_event() -> None:
    """A mistyped pause of a Cluster is told once, as is that of a Topic."""
    note = {"annotations": {"topiarist.dev/pasued": "true"}}
    world = World()
    home = resource_bodies.cluster(meta=note)
    world.server.give(home)
    world.server.kept["Cluster/prod"]["metadata"]["annotations"] = note["annotations"]
    world.store.upsert(home)
    for _ in range(2):
        await world.passes()
    assert world.server.events == ["prod InvalidAnnotation"]


@virtual_time
async def test_a_topic_that_was_deleted_meanwhile_gets_no_status() -> None:
    """A Topic that is deleted during a pass needs neither a status nor an Event."""
    world = World(resource_bodies.cluster(), resource_bodies.topic("orders"))
    found = make_result(world.topic("orders"), SyncState.REFUSED)
    world.store.remove(world.topic("orders"))
    await world.passes(found)
    assert (world.server.taken(), world.server.events) == (["prod status"], [])


@virtual_time
async def test_each_cluster_has_a_session_of_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every ownership record names the owner; the secrets of all clusters are in the folder of the process."""
    world = World(resource_bodies.cluster())
    opened: list[tuple[str, Path]] = []
    monkeypatch.setattr(module, "ClusterSession", lambda owner, folder: opened.append((owner, folder)))
    await world.start(1)
    ((owner, folder),) = opened
    assert (owner, folder.is_dir(), folder.name[:10]) == ("k8s/shop/topiarist", True, "topiarist-")
    await world.stop()


@virtual_time
async def test_a_pass_does_not_read_its_cluster_anew() -> None:
    """The Cluster is read in each pass, and comes by events; as long as it is unchanged, its spec is the same object.

    Otherwise all of its Topics would be merged again in each pass.
    """
    world = World(resource_bodies.cluster())
    store = world.store
    first = store.cluster_spec("prod")
    for _ in range(2):
        await world.passes()
        store.upsert(parse_resource(world.server.kept["Cluster/prod"], store.clusters["prod"]))
        assert store.cluster_spec("prod") is first
    world.server.kept["Cluster/prod"]["metadata"]["generation"] = 2
    await world.passes()
    assert store.cluster_spec("prod") is not first


@virtual_time
async def test_the_duration_of_a_pass_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the read and the writes of the cluster, and not those of the API server after it."""
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time()))
    world = World(resource_bodies.cluster())

    async def slow(*_: Any) -> ReconcileResult:
        await asyncio.sleep(3)
        return world.rounds.seen()

    monkeypatch.setattr(world.rounds, "reconcile", slow)
    await asyncio.sleep(100)
    await world.controller._reconcile("prod", world.rounds)  # type: ignore[arg-type]
    assert 'topiarist_pass_duration_seconds_sum{cluster="prod"} 3.0' in exported(world)


@virtual_time
async def test_a_warning_is_not_repeated_while_no_status_can_be_written() -> None:
    """The Event is posted once, although the status does not have its reason; another reason is told again."""
    topic = resource_bodies.topic("lost", clusters=["nowhere"])
    world = World(topic)
    world.server.broken = ApiError(503, "no")
    for _ in range(3):
        await world.controller._reconcile_unassigned()
    assert world.server.events == ["lost UnknownCluster"]
    note = {"topiarist.dev/pasued": "true"}
    world.store.upsert(resource_bodies.updated_body(topic, annotations=note))
    for _ in range(3):
        await world.controller._reconcile_unassigned()
    assert world.server.events[1:] == ["lost InvalidAnnotation", "lost UnknownCluster"]


@virtual_time
async def test_topics_of_a_removed_cluster_may_be_those_of_another_release() -> None:
    """A Topic that targets a Cluster of another release then gets its status from that release alone."""
    orders = resource_bodies.topic("orders", clusters=["prod"])
    world = World(resource_bodies.cluster(), orders)
    world.see_in_step("orders")
    theirs = resource_bodies.updated_body(
        resource_bodies.cluster(meta={"namespace": "other"}), status={"operator": "green"}
    )
    await world.start(5)
    world.store.upsert(theirs)
    world.server.taken()
    world.store.remove(parse_resource(world.server.kept["Cluster/prod"]))
    await asyncio.sleep(5)
    assert world.server.taken() == []
    assert world.server.reason("orders") == "Synced"
    assert world.controller._topics_of_removed_clusters == set()  # else it would grow with each removed Cluster
    await world.stop()


@virtual_time
async def test_secrets_are_removed_although_a_session_cannot_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their folder is there for the process alone while the loops run; a defect at the end of one cluster leaves no
    secret of the others behind.
    """
    world = World(resource_bodies.cluster())

    async def fail() -> None:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr(world.rounds, "close", fail)
    await world.start(1)
    assert world.controller._secrets_folder is not None
    folder = Path(world.controller._secrets_folder.name)
    assert (folder.is_dir(), folder.stat().st_mode & 0o077) == (True, 0)
    await world.stop()
    assert not folder.exists()


def test_only_resources_of_the_class_are_served() -> None:
    """A Cluster of another class, or of none, is left to its own operator."""
    server = Server()
    manager = Manager(server, "shop", "blue", 60.0, server.record)  # type: ignore[arg-type]
    of_class: dict[str, Any] = {"class": "blue"}
    for found in (resource_bodies.cluster("plain"), resource_bodies.cluster("own", **of_class)):
        manager.store.upsert(found)
    assert [*manager.store.clusters] == ["own"]
