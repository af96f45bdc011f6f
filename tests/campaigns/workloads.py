"""The reference workloads: sequences of steps of users and of other clients of Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from campaigns.kafka_clusters import ADDRESS
from campaigns.world import OWNER, World
from topiarist.kubernetes.approval import ALLOW_RISK, PAUSED
from topiarist.kubernetes.resources import FINALIZER
from topiarist.model.state import OwnershipRecord
from topiarist.schema import load

OTHER_FINALIZER = "example.com/other"

Step = Callable[[World], None]


class Workload(NamedTuple):
    """A named sequence of steps; the operator has started before the first one."""

    name: str
    steps: Sequence[Step]


def cluster_spec(**spec: Any) -> Mapping[str, Any]:
    """Return the spec of a Cluster that allows adoption, deletion and correction."""
    permissive = {"adopt": ["*"], "allowDeletion": True, "driftPolicy": "Correct"}
    return {"zookeeper": {"connect": ADDRESS}, "kafkaVersion": "3.9", **permissive, **spec}


def topic_spec(**spec: Any) -> Mapping[str, Any]:
    """Return the spec of a Topic with three partitions and two replicas each."""
    return {"partitions": 3, "replicationFactor": 2, **spec}


def create_cluster(name: str = "prod", **spec: Any) -> Step:
    """Create a Cluster."""
    return lambda world: world.server.create("clusters", name, cluster_spec(**spec))


def update_cluster(**spec: Any) -> Step:
    """Replace the spec of the Cluster ``prod``."""
    return lambda world: world.server.update("clusters", "prod", cluster_spec(**spec))


def create_topic(name: str, **spec: Any) -> Step:
    """Create a Topic."""
    return lambda world: world.server.create("topics", name, topic_spec(**spec))


def update_topic(name: str, **spec: Any) -> Step:
    """Replace the spec of a Topic."""
    return lambda world: world.server.update("topics", name, topic_spec(**spec))


def annotate(plural: str, name: str, **annotations: str) -> Step:
    """Replace the annotations of a resource, if it exists."""
    found = {f"{load.API_GROUP}/{key}": value for key, value in annotations.items()}

    def step(world: World) -> None:
        if world.server.find(plural, name):
            world.server.update(plural, name, annotations=found)

    return step


def delete(plural: str, name: str) -> Step:
    """Request the deletion of a resource, if it exists."""

    def step(world: World) -> None:
        if world.server.find(plural, name):
            world.server.delete(plural, name)

    return step


def remove_finalizers(name: str, *removed: str) -> Step:
    """Remove finalizers of a Topic, as a user or a controller that does not wait for the operator."""

    def step(world: World) -> None:
        if body := world.server.find("topics", name):
            present = body["metadata"].get("finalizers", ())
            world.server.update("topics", name, finalizers=[each for each in present if each not in removed])

    return step


def change_kafka(name: str, **fields: Any) -> Step:
    """Change a topic by another client of Kafka, directly before a periodic pass."""

    def step(world: World) -> None:
        world.kafka.change_topic(name, **fields)
        world.request_full_pass()

    return step


def consent(name: str) -> Step:
    """Annotate a Topic with the digest that its status asks for; nothing if the status asks for none."""

    def step(world: World) -> None:
        body = world.server.find("topics", name)
        marker = f"{load.API_GROUP}/{ALLOW_RISK}="
        texts = str(body.get("status") if body else "")
        if marker in texts:
            digest = texts.partition(marker)[2][:23]
            annotate("topics", name, **{ALLOW_RISK: digest})(world)

    return step


def all_of(*steps: Step) -> Step:
    """Return one step of several, between which the operator does not run."""

    def step(world: World) -> None:
        for each in steps:
            each(world)

    return step


_WEEK, _DAY = 604_800_000, 86_400_000
_KEPT = {"retention.ms": _WEEK}

WORKLOADS = (
    Workload(
        "create",
        (
            create_cluster(),
            create_topic("orders", config={"retention.ms": _WEEK}, deletionPolicy="Delete"),
            all_of(create_topic("payments"), create_topic("events", deletionPolicy="Delete")),
        ),
    ),
    Workload(
        "change",
        (
            all_of(create_cluster(), create_topic("orders", deletionPolicy="Delete"), create_topic("payments")),
            update_topic("orders", partitions=6, deletionPolicy="Delete"),
            all_of(update_topic("orders", partitions=6, config={"flush.ms": 7}), update_topic("payments", keyed=False)),
            update_topic("orders", partitions=6, config={"flush.ms": 9}, deletionPolicy="Delete"),
            update_topic("orders", partitions=6, deletionPolicy="Delete"),
        ),
    ),
    Workload(
        "delete",
        (
            all_of(
                create_cluster(),
                create_topic("orders", deletionPolicy="Delete"),
                create_topic("payments"),
                create_topic("events"),
            ),
            all_of(delete("topics", "orders"), delete("topics", "payments")),
            update_topic("events", ensure="Absent"),
        ),
    ),
    Workload(
        "adopt",
        (
            change_kafka("orders"),
            change_kafka("payments", config={"flush.ms": "5"}),
            all_of(create_cluster(adopt=[]), create_topic("orders"), create_topic("payments", config={"flush.ms": 7})),
            update_cluster(),
            update_topic("payments", config={"flush.ms": 9}),
        ),
    ),
    Workload(
        "pause",
        (
            all_of(create_cluster(), create_topic("orders"), create_topic("payments", deletionPolicy="Delete")),
            annotate("topics", "orders", **{PAUSED: "true"}),
            update_topic("orders", partitions=6, config={"flush.ms": 7}),
            annotate("topics", "orders"),
            annotate("clusters", "prod", **{PAUSED: "true"}),
            all_of(delete("topics", "payments"), update_topic("orders", partitions=9)),
            annotate("clusters", "prod"),
        ),
    ),
    Workload(
        "drift policy",
        (
            all_of(create_cluster(driftPolicy="Report"), create_topic("orders", config={"flush.ms": 7})),
            change_kafka("orders", config={"flush.ms": "8"}),
            update_cluster(driftPolicy="Correct"),
            change_kafka("orders", config={"flush.ms": "10"}),
            update_cluster(driftPolicy="Report"),
        ),
    ),
    Workload(
        "recreate the resource",
        (
            all_of(create_cluster(), create_topic("orders", deletionPolicy="Delete"), create_topic("payments")),
            all_of(delete("topics", "orders"), delete("topics", "payments")),
            all_of(
                create_topic("orders", partitions=6, deletionPolicy="Delete"), create_topic("payments", partitions=6)
            ),
            update_topic("payments", partitions=6, ensure="Absent"),
            update_topic("payments", partitions=6),
        ),
    ),
    Workload(
        "recreate without waiting",
        (
            all_of(create_cluster(), create_topic("orders", deletionPolicy="Delete")),
            all_of(annotate("clusters", "prod", **{PAUSED: "true"})),
            delete("topics", "orders"),
            all_of(remove_finalizers("orders", FINALIZER), create_topic("orders", deletionPolicy="Delete")),
            annotate("clusters", "prod"),
            update_topic("orders", deletionPolicy="Delete", config={"flush.ms": 7}),
        ),
    ),
    Workload(
        "cluster deletion",
        (
            all_of(create_cluster(), create_topic("orders", deletionPolicy="Delete"), create_topic("payments")),
            delete("clusters", "prod"),
            all_of(delete("topics", "payments"), create_topic("events", clusters=["prod"])),
            create_cluster(),
            all_of(delete("clusters", "prod"), create_cluster(rackAwareness="Disabled")),
            update_topic("orders", partitions=6, deletionPolicy="Delete"),
        ),
    ),
    Workload(
        "moves",
        (
            all_of(create_cluster(), create_topic("orders"), create_topic("payments")),
            update_cluster(moves={"allow": ["Factor", "Drain"], "throttle": "Unlimited"}),
            update_topic("orders", replicationFactor=3, moves={"allow": ["Factor", "Drain"]}),
            update_cluster(moves={"allow": ["Factor", "Drain"], "throttle": "Unlimited"}, drainBrokers=[1]),
        ),
    ),
    Workload(
        "competing resources",
        (
            all_of(create_cluster(), create_topic("orders", deletionPolicy="Delete")),
            create_topic("rival", topicName="orders", partitions=6),
            delete("topics", "orders"),
            update_topic("rival", topicName="orders", partitions=6, config={"flush.ms": 7}),
        ),
    ),
    Workload(
        "consent to data loss",
        (
            all_of(create_cluster(allowRisk=["Disruptive", "DataLoss"]), create_topic("orders", config=_KEPT)),
            update_topic("orders", config={"retention.ms": _DAY}),
            consent("orders"),
            update_topic("orders", config=_KEPT),
            update_topic("orders", config={"retention.ms": _DAY}),
            update_topic("orders", config=_KEPT),
        ),
    ),
    Workload(
        "policies",
        (
            all_of(create_cluster(), create_topic("orders")),
            lambda world: world.server.create(
                "policies",
                "sizes",
                {
                    "rules": [
                        {"name": "most", "expression": "topic.partitions <= 6", "message": "At most 6 partitions."}
                    ]
                },
            ),
            update_topic("orders", partitions=9),
            create_topic("payments", partitions=12),
            delete("policies", "sizes"),
        ),
    ),
    Workload(
        "namespace deletion",
        (
            all_of(create_cluster(), create_topic("orders", deletionPolicy="Delete"), create_topic("payments")),
            all_of(
                lambda world: world.server.update("namespaces", "shop", deletionTimestamp="2026-01-01T00:00:59Z"),
                delete("topics", "orders"),
                delete("topics", "payments"),
            ),
            annotate("topics", "orders", retain="true"),
        ),
    ),
    Workload(
        "ownership",
        (
            lambda world: world.kafka.change_topic("orders", record=OwnershipRecord(OWNER), record_valid=True),
            lambda world: world.kafka.change_topic("payments", record=OwnershipRecord("another"), record_valid=True),
            lambda world: world.server.create(
                "topics", "orders", topic_spec(deletionPolicy="Delete"), finalizers=[FINALIZER, OTHER_FINALIZER]
            ),
            all_of(create_cluster(), create_topic("payments", deletionPolicy="Delete", partitions=6)),
            all_of(delete("topics", "orders"), delete("topics", "payments")),
            remove_finalizers("orders", OTHER_FINALIZER),
        ),
    ),
)
"""All reference workloads."""
