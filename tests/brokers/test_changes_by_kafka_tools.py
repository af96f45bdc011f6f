"""Changes by Kafka's own tools: topiarist reads their results correctly and detects their changes.

The cluster has automatic topic creation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from brokers.topiarist_runs import (
    ADOPT_ONLY,
    LEADER_THROTTLE,
    PlannedTopic,
    is_reassigning,
    manifest_folder,
    plan_topics,
    run_tool,
    snapshot_rows,
)
from support.kafka.kafka_fixture import KafkaFixture
from topiarist.errors import Exit
from topiarist.kafka.config_values import canonical_text

LISTS = ((1, 2), (2, 3), (3, 1))

OURS = {"flush.ms": "1000", "file.delete.delay.ms": "70000"}
"""Configs with changes of risk Safe, which an apply may revert without approval."""


def test_what_kafka_makes_is_read_as_what_it_is(automatic: KafkaFixture) -> None:
    """topiarist reads topics that Kafka's tools, the Admin client or a producer wrote as the brokers show them.

    The topics are created, grown, changed or moved. Manifests with the same values need only adoption.
    """
    bed, clients = automatic, automatic.clients
    tool = ("--create", "--topic", "made-by-tool", "--replica-assignment", "1:2,2:3,3:1")
    run_tool(bed, "kafka-topics", *tool, "--config", "cleanup.policy=compact,delete", "--config", "flush.ms=1000")
    assert clients.create({"made-by-admin": LISTS}, {"min.cleanable.dirty.ratio": "0.50"}) == {}
    assert clients.create_unassigned({"made-anywhere": (4, 2)}) == {}
    assert clients.produce({"made-by-producer": 1}, "first") == {"made-by-producer": [0]}
    assert clients.create({"made-changed": LISTS}, {"flush.ms": "5", "segment.ms": "70000"}) == {}
    assert clients.create({"made-grown": LISTS[:2], "made-moved": LISTS}) == {}
    assert clients.alter({"made-changed": {"flush.ms": "1000", "segment.ms": None, "retention.ms": "-1"}}) == {}
    assert clients.grow({"made-grown": 5}) == {}
    moved = ((3, 2), *LISTS[1:])
    assert clients.reassign({"made-moved": {0: moved[0]}}) == {}
    bed.kafka.wait(
        lambda: bed.describe_in_sync(["made-moved"])["made-moved"].replicas == moved, "the partition to move"
    )
    wanted: dict[str, dict[str, Any]] = {
        "made-by-tool": {"replicaAssignment": LISTS, "config": {"cleanup.policy": "delete,compact", "flush.ms": 1000}},
        "made-by-admin": {"replicaAssignment": LISTS, "config": {"min.cleanable.dirty.ratio": 0.5}},
        "made-anywhere": {"partitions": 4, "replicationFactor": 2},
        "made-by-producer": {"partitions": 3, "replicationFactor": 2},
        "made-changed": {"replicaAssignment": LISTS, "config": {"flush.ms": 1000, "retention.ms": -1}},
        "made-grown": {"partitions": 5, "replicationFactor": 2},
        "made-moved": {"replicaAssignment": moved},
    }
    bed.declare(wanted)
    assert plan_topics(manifest_folder(bed)) == dict.fromkeys(sorted(wanted), ADOPT_ONLY)
    check_rows(bed, wanted)


def check_rows(bed: KafkaFixture, names: Mapping[str, object]) -> None:
    """Assert that topiarist reads topics as the brokers show them."""
    shown, overrides, found = bed.describe_in_sync(names), bed.clients.overrides(names), snapshot_rows(bed)
    for name, topic in shown.items():
        row = found[name]
        assert tuple(map(tuple, row["replicas"])) == topic.replicas
        assert row["topicId"] == topic.id
        assert {key: canonical_text(key, text) for key, text in row["config"].items()} == overrides[name]
        assert (row["reassigningPartitions"], row["unknownFields"], row["readError"]) == ([], [], None)


DRIFT = {
    "drift-kept": None,
    "drift-set": PlannedTopic(("flush.ms 2000 -> 1000",), (), ("ModifiedExternally",)),
    "drift-set-by-tool": PlannedTopic(("flush.ms 3000 -> 1000",), (), ("ModifiedExternally",)),
    "drift-removed": PlannedTopic(("flush.ms None -> 1000",), (), ("ModifiedExternally",)),
    "drift-added": PlannedTopic((), (), ("ModifiedExternally", "Unmanaged")),
    "drift-in-another-form": PlannedTopic((), (), ("ModifiedExternally",)),
    "drift-grown": PlannedTopic((), ("FewerPartitions",)),
    "drift-moved-by-tool": PlannedTopic((), (), ("ModifiedExternally", "ReplicasDiffer")),
    "drift-wider": PlannedTopic((), ("ReplicationFactorDiffers",), ("ReplicasDiffer",)),
    "drift-deleted": PlannedTopic((), ("DeletedExternally",)),
    "drift-made-again": PlannedTopic(("TakeOwnership",), (), ("StaleOwnershipRecord",)),
    "drift-made-anew": PlannedTopic((), ("NotAdopted",), ("StaleOwnershipRecord",)),
}
"""The expected plan of each topic after the changes by Kafka's tools. A move by the tool leaves throttle configs."""


def test_each_change_by_kafkas_tools_is_found(automatic: KafkaFixture) -> None:
    """A plan shows each change that Kafka's tools made to managed topics.

    An apply reverts the reversible changes, and the brokers follow.
    """
    bed, clients = automatic, automatic.clients
    bed.declare({name: {"replicaAssignment": LISTS, "config": OURS} for name in DRIFT})
    bed.apply()
    bed.describe_in_sync(DRIFT)
    assert plan_topics(manifest_folder(bed)) == {}
    run_tool(bed, "kafka-configs", *topic_config("drift-set-by-tool"), "--add-config", "flush.ms=3000")
    changes: dict[str, dict[str, str | None]] = {
        "drift-set": {"flush.ms": "2000"},
        "drift-removed": {"flush.ms": None},
        "drift-added": {"segment.ms": "70000"},
        "drift-in-another-form": {"flush.ms": "01000"},
    }
    assert clients.alter(changes) == {}
    assert clients.grow({"drift-grown": 5}) == {}
    assert clients.reassign({"drift-wider": {number: [1, 2, 3] for number in range(3)}}) == {}
    bed.kafka.wait(lambda: not is_reassigning(bed, "drift-wider"), "the new replicas to be taken over")
    move_by_tool(bed, "drift-moved-by-tool", {0: (3, 2)})  # the tool refuses to start during another reassignment
    gone = [
        name
        for name, found in DRIFT.items()
        if found and {"DeletedExternally", "StaleOwnershipRecord"} & {*sum(found, ())}
    ]
    assert clients.delete(gone) == {}
    bed.kafka.wait(lambda: deleted(bed, gone), "the topics to be deleted")
    assert clients.create({"drift-made-again": LISTS}, OURS) == {}
    assert clients.create({"drift-made-anew": LISTS}, OURS | {"flush.ms": "5"}) == {}
    bed.describe_in_sync([name for name in DRIFT if name != "drift-deleted"])
    assert plan_topics(manifest_folder(bed)) == {name: found for name, found in sorted(DRIFT.items()) if found}
    assert bed.run("apply", "--yes", "--recreate=*", "--adopt=drift-made-anew").code == Exit.REFUSED
    bed.describe_in_sync(DRIFT)
    refused = {name: found for name, found in DRIFT.items() if found and found.refusals}
    left = plan_topics(manifest_folder(bed))
    assert {name: found.changes for name, found in left.items() if found.changes} == {}
    assert {name for name, found in left.items() if found.refusals} == {"drift-grown", "drift-wider"} < set(refused)
    overrides = clients.overrides(DRIFT)
    assert {name: {key: overrides[name].get(key) for key in OURS} for name in DRIFT} == dict.fromkeys(DRIFT, OURS)
    assert overrides["drift-added"]["segment.ms"] == "70000"


def topic_config(name: str) -> tuple[str, ...]:
    """Return the arguments of ``kafka-configs`` for a change of a topic."""
    return ("--alter", "--entity-type", "topics", "--entity-name", name)


def deleted(bed: KafkaFixture, names: list[str]) -> bool:
    """Return True if the controller has deleted these topics."""
    left = {*bed.kafka.client.get_children("/brokers/topics"), *bed.kafka.client.get_children("/admin/delete_topics")}
    return left.isdisjoint(names)


def move_by_tool(bed: KafkaFixture, name: str, targets: Mapping[int, tuple[int, ...]]) -> None:
    """Reassign partitions with ``kafka-reassign-partitions`` at a high throttle, and leave the throttle configs."""
    entries = [{"topic": name, "partition": number, "replicas": list(ids)} for number, ids in targets.items()]
    path = bed.folder / "reassign.json"
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    words = ("--reassignment-json-file", str(path), "--execute", "--throttle", "100000000")
    run_tool(bed, "kafka-reassign-partitions", *words, since=(2, 6))

    def done() -> bool:
        found = bed.describe_in_sync([name])[name].replicas
        return all(found[number] == ids for number, ids in targets.items())

    bed.kafka.wait(done, f"the move of {name} to be done")
    assert f"{LEADER_THROTTLE}.replicas" in bed.clients.overrides([name])[name]
