"""A pass with what it needs of the API server: what is being deleted with whom, Secrets, policies; and a session."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from support import states
from support.kubernetes import resource_bodies
from topiarist.adapters.memory import MemoryCluster
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import cluster_worker
from topiarist.kubernetes.api import client
from topiarist.kubernetes.api.client import ApiError
from topiarist.kubernetes.api.resources import FINALIZER, Resource, parse_resource
from topiarist.kubernetes.cache import Store
from topiarist.kubernetes.cluster_worker import (
    CRD_TERMINATING,
    NAMESPACE_TERMINATING,
    TOPIC_CRD_PATH,
    ClusterWorker,
    PolicyCache,
)
from topiarist.kubernetes.identity import ClusterIdentities
from topiarist.kubernetes.reconciler import ReconcileRequest, ReconcileResult
from topiarist.model.credentials import SecretKeyRef
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, OperatorMemory, OwnershipRecord

OWNER = "k8s/shop/topiarist"
TOPICS = "/apis/topiarist.dev/v1/namespaces/shop/topics"
PIN = "topiarist.dev/cluster-id"
SHOP, PAY, SECRET = "/api/v1/namespaces/shop", "/api/v1/namespaces/pay", "/api/v1/namespaces/shop/secrets/zookeeper"
GOING: dict[str, Any] = {"deletionTimestamp": "2026-02-01T00:00:00Z", "finalizers": [FINALIZER]}
STAYS: Mapping[str, Any] = {"metadata": {}}
GOES: Mapping[str, Any] = {"metadata": {"deletionTimestamp": "2026-02-01T00:00:00Z"}}
GONE, FORBIDDEN, BROKEN = 404, 403, 503


class Server:
    """An API server that has these objects, or answers with these codes."""

    def __init__(self, objects: Mapping[str, Mapping[str, Any] | int]) -> None:
        self.hangs = False
        self.objects = {TOPIC_CRD_PATH: STAYS, SHOP: STAYS, PAY: STAYS, **objects}
        self.topics: dict[str, Mapping[str, Any]] = {}
        self.topics_answer = 200
        self.asked: list[str] = []

    async def get(self, path: str, **params: str) -> Mapping[str, Any]:
        """One of them, or the list of the Topics with a name."""
        if name := params.get("fieldSelector", "").removeprefix("metadata.name="):
            self.asked.append(f"{path} {name}")
            if self.hangs:
                await asyncio.Event().wait()
            if self.topics_answer != 200:
                raise ApiError(self.topics_answer, "no answer")
            return {"items": [self.topics[name]] if name in self.topics else []}
        self.asked.append(path)
        found = self.objects.get(path, GONE)
        if isinstance(found, int):
            raise ApiError(found, f"{path}: {found}")
        return found


class Session:
    """A cluster in memory in place of a session. Opening it raises ``error``."""

    def __init__(self, state: ClusterState) -> None:
        self.port = MemoryCluster(state)
        self.secrets: Mapping[SecretKeyRef, str] | None = None
        self.error: TopiaristError | None = None
        self.closed = 0
        self.usage_reads = 0
        self.cluster_id = ""

    def cluster(self, _spec: ClusterSpec, secrets: Mapping[SecretKeyRef, str], _records_id: str) -> MemoryCluster:
        """The cluster."""
        if self.error:
            raise self.error
        self.secrets = secrets
        return self.port

    def open_usage_reader(self, _spec: ClusterSpec, _secrets: Mapping[SecretKeyRef, str]) -> None:
        """Return no reader: no broker can be asked who uses a topic."""
        self.usage_reads += 1

    def close(self) -> None:
        """End it."""
        self.closed += 1

    def requests(self) -> dict[tuple[str, str], int]:
        """Nothing was asked."""
        return {}


class World(NamedTuple):
    """A Cluster, its Topics and all that they need."""

    store: Store
    server: Server
    session: Session

    def look(self) -> ReconcileResult:
        """One pass over ``prod``."""

        async def work() -> ReconcileResult:
            round_ = make_worker(self)
            seen = await round_.reconcile(self.store, self.store.clusters["prod"], OWNER)
            await round_.close()
            return seen

        return asyncio.run(work())

    @property
    def topics(self) -> set[str]:
        """What the cluster has."""
        return {*self.session.port.state.topics}


def make_worker(world: World, *, stop: bool = False) -> ClusterWorker:
    """Return the worker of the Cluster in a world."""
    server: Any = world.server
    session: Any = world.session
    return ClusterWorker(server, PolicyCache(), session, lambda: stop, ClusterIdentities(server, world.store))


def world(*found: Resource, home: Resource | None = None, state: ClusterState | None = None, **objects: Any) -> World:
    """What is declared, and what the API server answers otherwise: of ``shop``, ``pay``, ``definition``, ``secret``."""
    paths = {"shop": SHOP, "pay": PAY, "definition": TOPIC_CRD_PATH, "secret": SECRET}
    store = Store("shop", lambda *_: None)
    for each in (
        home or resource_bodies.cluster(allowDeletion=True, allowedTopics=[{"namespaces": {"from": "All"}}]),
        *found,
    ):
        store.upsert(each)
    held = states.cluster(*(states.topic(each.name, owner=OWNER) for each in found if each.kind == "Topic"))
    server = Server({paths[name]: body for name, body in objects.items()})
    server.topics = {
        each.name: resource_bodies.body_of(each) for each in found if each.kind == "Topic" and each.manifest
    }
    return World(store, server, Session(state or held))


def leaving(name: str = "orders", namespace: str = "shop") -> Resource:
    """A Topic that is being deleted, with its topic."""
    return resource_bodies.topic(name, deletionPolicy="Delete", meta={**GOING, "namespace": namespace})


def told(seen: ReconcileResult) -> dict[str, list[tuple[Reason, str]]]:
    """What stands against each topic."""
    return {
        view.candidate.spec.topic: [(each.reason, each.message) for each in view.refusals]
        for view in seen.topic_results
    }


def test_a_topic_goes_with_its_resource() -> None:
    """A topic is deleted if neither its namespace nor its kind is; without a deletion the API server is not asked."""
    found = world(leaving(), resource_bodies.topic("stays"))
    assert told(found.look()) == {"orders": [], "stays": []}
    assert found.topics == {"stays"}
    assert found.server.asked == [TOPIC_CRD_PATH, SHOP, f"{TOPICS} orders"]
    quiet = world(resource_bodies.topic("stays"))
    quiet.look()
    assert quiet.server.asked == []
    assert (found.session.usage_reads, quiet.session.usage_reads) == (2, 0)  # planned, and again before the write


def without_topic(server: Server) -> None:
    """Remove the Topic: a user has removed its finalizer."""
    server.topics.clear()


def recreated_topic(server: Server) -> None:
    """Replace the Topic by another one of its name."""
    server.topics["orders"] = resource_bodies.body_of(resource_bodies.topic("orders", deletionPolicy="Delete"))


def unanswered_topic(server: Server) -> None:
    """Let the API server answer no list of Topics."""
    server.topics_answer = BROKEN


@pytest.mark.parametrize("change", [without_topic, recreated_topic, unanswered_topic])
def test_no_topic_is_deleted_because_of_an_old_view(change: Callable[[Server], None]) -> None:
    """A Topic that was deleted or recreated since it was watched, or that cannot be read, deletes no topic."""
    found = world(leaving())
    change(found.server)
    seen = found.look()
    assert [reason for reason, _ in told(seen)["orders"]] == [Reason.STATE_CONFLICT]
    assert [view.is_in_progress for view in seen.topic_results] == [True]
    assert found.topics == {"orders"}


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"definition": GOES}, CRD_TERMINATING),
        ({"definition": GONE}, CRD_TERMINATING),
        ({"shop": GOES}, NAMESPACE_TERMINATING),
        ({"shop": GONE}, NAMESPACE_TERMINATING),
    ],
)
def test_no_topic_goes_because_something_larger_does(answers: dict[str, Any], why: str) -> None:
    """A deletion of the namespace or of the kind deletes no topic: it is held, with the remedy in the message."""
    found = world(leaving(), resource_bodies.topic("stays"), **answers)
    assert told(found.look()) == {"orders": [(Reason.DELETION_HELD, why)], "stays": []}
    assert found.topics == {"orders", "stays"}


def test_a_namespace_that_is_known_to_go_is_not_asked_about() -> None:
    """What was watched is enough."""
    found = world(leaving())
    found.store.update_namespace("shop", {}, leaving=True)
    assert told(found.look()) == {"orders": [(Reason.DELETION_HELD, NAMESPACE_TERMINATING)]}
    assert SHOP not in found.server.asked


def test_other_namespaces_go_on() -> None:
    """Each holds its own Topics."""
    found = world(leaving("ours"), leaving("theirs", "pay"), pay=GOES)
    assert told(found.look()) == {"ours": [], "theirs": [(Reason.DELETION_HELD, NAMESPACE_TERMINATING)]}
    assert found.topics == {"theirs"}


@pytest.mark.parametrize("asked", ["definition", "shop"])
@pytest.mark.parametrize(("code", "reason"), [(BROKEN, Reason.UNREACHABLE), (FORBIDDEN, Reason.NO_PERMISSION)])
def test_who_cannot_be_told_deletes_nothing(asked: str, code: int, reason: Reason) -> None:
    """The pass ends before it begins, and the Cluster says why."""
    answers: dict[str, Any] = {asked: code}
    found = world(leaving(), **answers)
    error = found.look().error
    assert error is not None
    assert error.reason is reason
    assert found.topics == {"orders"}
    assert found.session.secrets is None


LOGIN = {"username": "kafka", "password": {"secretKeyRef": {"name": "zookeeper", "key": "password"}}}


def test_a_session_gets_the_secrets_that_are_there() -> None:
    """As of now; one that is missing is left out, which the session then says."""
    home = resource_bodies.cluster(zookeeper={"connect": "zk:2181", "digest": LOGIN})
    data = base64.b64encode(b"hush").decode()
    for answer, wanted in (({"data": {"password": data}}, {SecretKeyRef("zookeeper", "password"): data}), (GONE, {})):
        found = world(home=home, secret=answer)
        assert found.look().error is None
        assert found.session.secrets == wanted
        assert found.server.asked == [SECRET]


def test_a_secret_that_may_not_be_read_is_named() -> None:
    """Nothing is opened without it."""
    found = world(home=resource_bodies.cluster(zookeeper={"connect": "zk:2181", "digest": LOGIN}), secret=FORBIDDEN)
    error = found.look().error
    assert error is not None
    assert (error.reason, SECRET in str(error)) == (Reason.NO_PERMISSION, True)
    assert found.session.secrets is None


def test_a_cluster_that_cannot_be_read_is_let_alone() -> None:
    """The address of the cluster is unknown, so an open session ends."""
    found = world(resource_bodies.topic("orders"))
    home = found.store.clusters["prod"]
    found.store.upsert(
        parse_resource(
            resource_bodies.body("Cluster", "prod", {"kafkaVersion": "never"}, uid=home.uid, generation=2), home
        )
    )
    error = found.look().error
    assert error is not None
    assert error.reason is Reason.INVALID_MANIFEST
    assert found.session.secrets is None
    assert found.session.closed == 2  # by the pass, and by its end


def test_a_cluster_that_is_not_served_names_the_kafka_cluster_of_another_one() -> None:
    """Its result has the id, which its status shows; a Cluster that fails for another reason has none."""
    first = resource_bodies.cluster(
        "first", meta={"creationTimestamp": "2025-01-01T00:00:00Z", "annotations": {PIN: states.CLUSTER_ID}}
    )

    async def refuse(_path: str, _body: Mapping[str, Any], _manager: str) -> dict[str, Any]:
        raise ApiError(403, "the annotation is not allowed")

    found = {}
    for name, others in (("second", (first,)), ("only", ())):
        place = world(*others)
        place.session.cluster_id = states.CLUSTER_ID
        place.server.apply = refuse  # type: ignore[attr-defined]
        seen = place.look()
        found[name] = seen.error and seen.error.reason, seen.cluster_id
    assert found == {"second": (Reason.CLUSTER_CONFLICT, states.CLUSTER_ID), "only": (Reason.NO_PERMISSION, "")}


def test_a_session_that_failed_is_not_used_again() -> None:
    """One that did well is."""
    found = world(resource_bodies.topic("orders"))
    found.look()
    assert found.session.closed == 1  # by the end of all passes
    found.session.error = TopiaristError(Reason.UNREACHABLE, "no answer")
    error = found.look().error
    assert error is found.session.error
    assert found.session.closed == 3


def test_policies_hold_what_they_deny() -> None:
    """All of it if one cannot be read."""
    law = resource_bodies.policy("law", {"expression": "topic.partitions < 3"})
    broken = parse_resource(resource_bodies.body("Policy", "broken", {"rules": []}))
    for policy, reason in ((law, Reason.POLICY_DENIED), (broken, Reason.INVALID_MANIFEST)):
        found = world(resource_bodies.topic("orders"), policy, state=states.cluster())
        assert [each for each, _ in told(found.look())["orders"]] == [reason]
        assert found.topics == set()


def test_deletions_of_the_day_are_counted() -> None:
    """Deletions count that the cluster has recorded; those of a status alone do not."""
    now, day = client.utc_now(), timedelta(days=1)
    home = resource_bodies.cluster(allowDeletion=True, budgets={"deletions": 1})
    forged = resource_bodies.updated_body(home, status={"deletions": [{"topic": "a", "time": client.format_time(now)}]})
    for owner, time, room in ((OWNER, now, False), ("default", now, True), (OWNER, now - day, True)):
        for status in (home, forged):
            memory = OperatorMemory(deletions_ms=(int(time.timestamp() * 1000),))
            record = OwnershipRecord(owner, deleted=True, memory=memory)
            state = states.cluster(states.topic("orders", owner=OWNER), dangling_records={"b": record})
            found = world(leaving(), home=status, state=state)
            seen = found.look()
            assert found.topics == (set() if room else {"orders"})
            assert seen.deletions is not None
            assert [each.topic for each in seen.deletions] == ([] if room else ["b"])


def test_a_topic_that_cannot_be_read_is_in_the_way_of_others() -> None:
    """No other Topic adopts or deletes the topic that it declares."""
    older = resource_bodies.topic("older", topicName="orders", partitions=0)
    found = world(older, resource_bodies.topic("younger", topicName="orders", partitions=6))
    assert [each for each, _ in told(found.look())["orders"]] == [Reason.RESOURCE_CONFLICT]


def test_a_topic_that_cannot_be_read_in_time_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass does not wait for an API server that does not answer; the refusal has the cause."""
    monkeypatch.setattr(cluster_worker, "TOPIC_READ_TIMEOUT_S", 0.05)
    found = world(leaving())
    found.server.hangs = True
    ((reason, message),) = told(found.look())["orders"]
    assert reason is Reason.STATE_CONFLICT
    assert message.endswith("the API server: no answer in time")
    assert found.topics == {"orders"}


def test_requests_to_the_cluster_are_counted_once() -> None:
    """Each pass adds only its own requests to the metrics; none is subtracted."""
    found = world()
    counts: dict[tuple[str, str], int] = {}
    found.session.requests = lambda: counts  # type: ignore[method-assign]
    worker = make_worker(found)
    read, multi = ("read", "ok"), ("multi", "failed")
    for now, new in (({read: 3}, {read: 3}), ({read: 3}, {}), ({read: 5, multi: 1}, {read: 2, multi: 1})):
        counts = now
        assert worker.new_requests() == new


def test_an_operator_that_ends_writes_nothing_more() -> None:
    """A pass in progress sends no further topic, and reports it as not sent."""
    found = world(resource_bodies.topic("orders"), state=states.cluster())

    async def work() -> ReconcileResult:
        worker = make_worker(found, stop=True)
        seen = await worker.reconcile(found.store, found.store.clusters["prod"], OWNER)
        await worker.close()
        return seen

    assert [reason for reason, _ in told(asyncio.run(work()))["orders"]] == [Reason.NOT_SENT]
    assert found.topics == set()


def test_a_pass_that_ends_early_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The log names the cluster and the error."""
    found = world()
    found.session.error = TopiaristError(Reason.UNREACHABLE, "no answer")
    found.look()
    (record,) = (each for each in caplog.records if each.name == cluster_worker.__name__)
    assert (vars(record)["cluster"], vars(record)["error"]) == ("prod", "no answer")


def test_a_second_pass_plans_only_what_is_new() -> None:
    """The worker keeps the plans and the moves from one pass to the next."""
    found = world(resource_bodies.topic("orders"))
    requests = []

    def keep(_cluster: object, request: ReconcileRequest, *_: object) -> ReconcileResult:
        requests.append(request)
        return ReconcileResult([])

    async def work() -> None:
        worker = make_worker(found)
        for _ in range(2):
            await worker.reconcile(found.store, found.store.clusters["prod"], OWNER)
        await worker.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_worker, "reconcile_cluster", keep)
        asyncio.run(work())
    first, second = requests
    assert (first.plan_cache, first.move_tracker) == (second.plan_cache, second.move_tracker)
    assert first.owner == OWNER
