"""The claims of Clusters to Kafka clusters where two passes cross, or the API server refuses the annotation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from support.builders import CLUSTER_ID
from support.kubernetes import resource_bodies
from support.virtual_time import virtual_time
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.cache import Store
from topiarist.kubernetes.client import ApiError
from topiarist.kubernetes.identity import IDENTITY_MANAGER, ClusterIdentities, known_records_id
from topiarist.kubernetes.resources import Resource, parse_resource

OTHER_ID = "8sYkR0b2QIu1nT4mXc9pAw"
PIN = "topiarist.dev/cluster-id"


class Server:
    """An API server that adds annotations to the Clusters of a store, or answers with an error."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.error: ApiError | None = None
        self.bodies: list[Mapping[str, Any]] = []

    async def apply(self, path: str, body: Mapping[str, Any], manager: str) -> dict[str, Any]:
        """Add the annotations, after other tasks had their turn."""
        await asyncio.sleep(0)
        assert manager == IDENTITY_MANAGER
        self.bodies.append(body)
        if self.error:
            raise self.error
        known = self.store.clusters[path.rpartition("/")[2]]
        return resource_bodies.body_of(known, annotations=body["metadata"]["annotations"])


class World:
    """Two Clusters ``a`` and ``b`` with their claims; ``a`` is older."""

    def __init__(self, **specs: Mapping[str, Any]) -> None:
        self.enqueued: list[str] = []
        self.store = Store("shop", lambda name, *_: self.enqueued.append(name))
        self.store.owner = "k8s/shop/topiarist"
        self.server = Server(self.store)
        self.identities = ClusterIdentities(self.server, self.store)  # type: ignore[arg-type]
        for number, name in enumerate("ab"):
            meta = {"creationTimestamp": f"2026-01-01T00:00:0{number}Z"}
            self.store.upsert(resource_bodies.cluster(name, meta=meta, **specs.get(name, {})))
        self.enqueued.clear()

    @property
    def pins(self) -> list[str]:
        """Return the ids in the annotations of ``a`` and ``b``."""
        return [self.store.clusters[name].annotation("cluster-id") for name in "ab"]

    async def claim(self, name: str, cluster_id: str = CLUSTER_ID) -> str:
        """Begin the pass of a Cluster; return the reason of the error, empty for none."""
        try:
            await self.identities.claim(self.store.clusters[name], cluster_id)
        except TopiaristError as error:
            return error.reason
        return ""

    def end(self, name: str) -> None:
        """End the pass of a Cluster."""
        self.identities.release(self.store.clusters[name])


def test_the_older_of_two_first_passes_at_a_time_is_served() -> None:
    """Two claims that cross never begin two passes; the older Cluster has the Kafka cluster from the next one on."""

    async def together(first: str, second: str) -> tuple[list[str], list[str]]:
        world = World()
        found = await asyncio.gather(world.claim(first), world.claim(second))
        return [*found], world.pins

    assert asyncio.run(together("a", "b")) == (["", Reason.CLUSTER_CONFLICT], [CLUSTER_ID, ""])
    assert asyncio.run(together("b", "a")) == (["", Reason.LOCKED], [CLUSTER_ID, CLUSTER_ID])


@pytest.mark.parametrize(
    ("older", "younger", "words"),
    [
        ({"creationTimestamp": "2025-01-01T00:00:00Z"}, {}, "Cluster a has the same Kafka cluster"),
        ({}, {}, "Cluster a has the same Kafka cluster"),
        ({"namespace": "blue"}, {}, "Cluster blue/a has the same Kafka cluster"),
        ({}, {"deletionTimestamp": "2026-02-01T00:00:00Z"}, "and is not being deleted: "),
        ({}, {}, "and came first: "),
        (
            {"deletionTimestamp": "2026-02-01T00:00:00Z"},
            {"deletionTimestamp": "2026-02-01T00:00:00Z"},
            "and came first: ",
        ),
    ],
)
@virtual_time
async def test_the_message_names_the_cluster_that_came_first(
    older: dict[str, Any], younger: dict[str, Any], words: str
) -> None:
    """Of two Clusters of one second the names decide, and in another namespace the name has its namespace."""
    world = World()
    annotations = {"annotations": {PIN: CLUSTER_ID}}
    known = {"creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/f"], **annotations}
    for name, meta in (("a", older), ("b", younger)):
        world.store.remove(world.store.clusters[name])
        spec = resource_bodies.cluster().declared_spec
        found = parse_resource(
            {
                **resource_bodies.body("Cluster", name, spec, **{**known, **meta}),
                "status": {"operator": world.store.owner},
            }
        )
        world.store.upsert(found)
    with pytest.raises(TopiaristError) as raised:
        await world.identities.claim(world.store.clusters["b"], CLUSTER_ID)
    assert raised.value.reason is Reason.CLUSTER_CONFLICT
    assert words in raised.value.message


@virtual_time
async def test_an_older_cluster_waits_for_the_end_of_a_pass() -> None:
    """The pass of a younger Cluster ends before the older one begins, and the younger one is told to look again."""
    world = World()
    assert await world.claim("b") == ""
    assert await world.claim("a") == Reason.LOCKED
    assert world.enqueued.count("b") > 0
    world.end("b")
    assert await world.claim("b") == Reason.CLUSTER_CONFLICT
    world.enqueued.clear()
    assert await world.claim("a") == ""
    assert world.enqueued == []


@pytest.mark.parametrize(
    ("code", "reason"), [(503, Reason.UNREACHABLE), (0, Reason.UNREACHABLE), (403, Reason.NO_PERMISSION)]
)
@virtual_time
async def test_without_the_annotation_no_pass_begins(code: int, reason: Reason) -> None:
    """The id is stored before a pass writes to Kafka. The write names the uid, and the next pass repeats it."""
    world = World()
    world.server.error = ApiError(code, "no")
    assert await world.claim("a") == reason
    world.server.error = None
    assert await world.claim("a") == ""
    assert world.pins == [CLUSTER_ID, ""]
    uid = world.store.clusters["a"].uid
    assert [body["metadata"]["uid"] for body in world.server.bodies] == [uid, uid]
    assert await world.claim("a") == ""
    assert len(world.server.bodies) == 2


@pytest.mark.parametrize(
    ("pinned", "spec", "found", "reason"),
    [
        ("", {}, CLUSTER_ID, ""),
        (CLUSTER_ID, {}, CLUSTER_ID, ""),
        (CLUSTER_ID, {}, OTHER_ID, Reason.WRONG_CLUSTER),
        (CLUSTER_ID, {"clusterId": OTHER_ID}, OTHER_ID, ""),
        (CLUSTER_ID, {"clusterId": OTHER_ID}, CLUSTER_ID, Reason.WRONG_CLUSTER),
        ("", {"clusterId": OTHER_ID}, CLUSTER_ID, Reason.WRONG_CLUSTER),
        (CLUSTER_ID, {}, "", ""),
    ],
)
@virtual_time
async def test_the_spec_comes_before_the_annotation(
    pinned: str, spec: Mapping[str, Any], found: str, reason: str
) -> None:
    """The declared id counts, else that of the first use; a Kafka cluster without an id is accepted."""
    world = World(a=spec)
    pin(world, "a", pinned)
    assert await world.claim("a", found) == reason
    assert world.pins[0] == (found if found and not reason else pinned)


@virtual_time
async def test_a_cluster_that_names_another_id_gives_its_kafka_cluster_up() -> None:
    """The annotation of a Cluster with another ``clusterId`` holds nothing, and neither does a Cluster in deletion."""
    world = World(a={"clusterId": OTHER_ID})
    pin(world, "a", CLUSTER_ID)
    assert await world.claim("b") == ""
    leaving = World()
    pin(leaving, "a", CLUSTER_ID)
    known = leaving.store.clusters["a"]
    leaving.store.upsert(
        resource_bodies.updated_body(known, deletionTimestamp="2026-02-01T00:00:00Z", finalizers=["example.com/f"])
    )
    assert await leaving.claim("b") == ""
    assert await leaving.claim("a") == Reason.CLUSTER_CONFLICT


def pin(world: World, name: str, cluster_id: str) -> Resource:
    """Store an id in the annotation of a Cluster."""
    found = resource_bodies.updated_body(
        world.store.clusters[name], annotations={PIN: cluster_id} if cluster_id else {}
    )
    world.store.upsert(found)
    return found


RECORDS = "topiarist.dev/records-topic-id"


@pytest.mark.parametrize(
    ("wanted", "annotations", "found"),
    [
        ({}, {}, ""),
        ({}, {PIN: "c", RECORDS: "t"}, "t"),
        ({"clusterId": "c"}, {PIN: "c", RECORDS: "t"}, "t"),
        ({"clusterId": "other"}, {PIN: "c", RECORDS: "t"}, ""),
    ],
)
def test_the_records_of_another_cluster_are_not_expected(
    wanted: dict[str, Any], annotations: dict[str, str], found: str
) -> None:
    """The annotation counts unless the Cluster names another Kafka cluster; no status is read."""
    home = resource_bodies.cluster(meta={"annotations": annotations}, **wanted)
    for status in ({}, {"clusterId": "other", "recordsTopicId": "forged"}):
        assert known_records_id(resource_bodies.updated_body(home, status=status)) == found


@virtual_time
async def test_the_topic_of_records_is_kept_beside_the_cluster_id() -> None:
    """The id of the topic is written once, with the cluster id, and another Kafka cluster removes it."""
    world = World(a={"clusterId": CLUSTER_ID})
    home = world.store.clusters["a"]
    await world.identities.bind_records(home, "t")
    assert world.server.bodies == []
    assert await world.claim("a") == ""
    for topic_id in ("", "t", "t"):
        await world.identities.bind_records(home, topic_id)
    kept = {PIN: CLUSTER_ID, RECORDS: "t"}
    assert [body["metadata"]["annotations"] for body in world.server.bodies[1:]] == [kept]
    assert known_records_id(world.store.clusters["a"]) == "t"
    meta = {"annotations": kept, "uid": world.store.clusters["a"].uid, "generation": 2}
    world.store.upsert(resource_bodies.cluster("a", meta=meta, clusterId=OTHER_ID))
    assert await world.claim("a", OTHER_ID) == ""
    assert world.server.bodies[-1]["metadata"]["annotations"] == {PIN: OTHER_ID}
    written = len(world.server.bodies)
    world.store.remove(world.store.clusters["a"])
    await world.identities.bind_records(home, "u")
    assert len(world.server.bodies) == written  # the Cluster was deleted during the pass


@pytest.mark.parametrize(
    ("pin", "spec", "status", "is_same"),
    [
        (CLUSTER_ID, {}, {}, True),
        ("", {"clusterId": CLUSTER_ID}, {}, True),
        ("", {}, {"clusterId": CLUSTER_ID}, True),
        ("", {"clusterId": OTHER_ID}, {"clusterId": CLUSTER_ID}, True),
        (OTHER_ID, {"clusterId": CLUSTER_ID}, {}, True),
        (OTHER_ID, {}, {"clusterId": CLUSTER_ID}, False),
        ("", {"clusterId": OTHER_ID}, {}, False),
        ("", {}, {}, False),
    ],
)
def test_topics_of_another_cluster_with_the_same_id_are_declared(
    pin: str, spec: dict[str, Any], status: dict[str, Any], is_same: bool
) -> None:
    """Whatever suggests the same Kafka cluster holds deletions, unless the Cluster is bound to another one."""
    world = World()
    home = resource_bodies.cluster("a", meta={"annotations": {PIN: CLUSTER_ID}})
    rival = resource_bodies.cluster("b", meta={"annotations": {PIN: pin} if pin else {}}, **spec)
    for resource in (home, resource_bodies.updated_body(rival, status=status)):
        world.store.upsert(resource)
    world.store.upsert(resource_bodies.topic("orders", clusters=["b"]))
    world.store.upsert(resource_bodies.topic("clicks", clusters=["a"]))
    world.store.upsert(resource_bodies.topic("gone", clusters=["b"], ensure="Absent"))
    found = world.identities.declared_by_others(home)
    assert found == ({"orders": "Topic shop/orders of Cluster b"} if is_same else {})


def test_a_cluster_that_cannot_be_read_any_more_still_has_its_topics() -> None:
    """A mistake in a Cluster lets no other Cluster delete what its Topics declare."""
    world = World()
    home, rival = (pin(world, name, CLUSTER_ID) for name in "ab")
    world.store.upsert(resource_bodies.topic("clicks", clusters=["a"]))
    world.store.upsert(resource_bodies.topic("orders", clusters=["b"]))
    meta = {"annotations": {PIN: CLUSTER_ID}, "uid": rival.uid, "generation": 2}
    world.store.upsert(resource_bodies.cluster("b", meta=meta, kafkaVersion="never"))
    assert world.store.unreadable_clusters == ["b"]
    assert world.identities.declared_by_others(home) == {"orders": "Topic shop/orders of Cluster b"}
