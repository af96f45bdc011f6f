"""Kafka's admin checks for a create, an expansion or a deletion, composed of the product's own functions.

The product plans with more rules than Kafka has. This module calls its functions in Kafka's order, so that vectors
about the order can run. It makes no decision that the product makes itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from topiarist.kafka import config_rules, config_values, types
from topiarist.kafka.placement import (
    assign_replicas,
    derive_start_and_shift,
    expand_assignment,
    expansion_start,
    prepare_brokers,
)
from topiarist.kafka.types import Broker, KafkaVersion, Replicas
from vectors import explicit_lists

Input = Mapping[str, Any]
VectorResult = dict[str, object]

CLUSTER_METADATA = "__cluster_metadata"


class RefusedError(Exception):
    """An error for a refusal by Kafka; ``kind`` is Kafka's name for it."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def create(given: Input, release: KafkaVersion) -> VectorResult:
    """Create a topic, placed by Kafka or with explicit lists (which Kafka checks after the name)."""
    topic = given.get("topic", "t")
    lists = _explicit_lists(given)
    if lists is not None and any(given.get(name, -1) != -1 for name in ("n_partitions", "replication_factor")):
        raise RefusedError("illegal_argument" if "cli" in given else "invalid_request")
    if topic == CLUSTER_METADATA and release >= (3, 3):
        raise RefusedError("invalid_request")
    placed = _place_topic(given, topic) if lists is None else lists
    _check_name(given, topic, release)
    if lists is not None:
        explicit_lists.check_create(lists)
    stored = config_texts(given.get("configs", {}))
    check_configs(stored, release, {})
    widths = {len(replicas) for replicas in placed.values()}
    return {
        "valid": True,
        "kafka_accepts": True,
        "assignment": {str(partition): list(replicas) for partition, replicas in placed.items()},
        "partition_count": len(placed),
        "replicas_per_partition": widths.pop(),
        "configs": stored,
        "we_should": "reject" if any(types.find_assignment_errors(placed)) else "accept",
    }


def grow(given: Input) -> VectorResult:
    """Add partitions to a topic, placed by Kafka or explicitly."""
    if given.get("topic") in types.INTERNAL_TOPICS:
        raise RefusedError("illegal_argument")
    brokers = prepare_brokers(brokers_of(given), "enforced")
    existing = _existing_assignment(given)
    if not existing:
        raise RefusedError("unknown_topic_or_partition")
    lists = [tuple(replicas) for replicas in given["assignments"]] if "assignments" in given else None
    if "cli" in given:
        lists = list(explicit_lists.parse_cli_assignment(given["cli"]))[len(existing) :]
    total = int(given["n_partitions"]) if "n_partitions" in given else len(existing) + len(lists or ())
    if lists is not None:
        return expansion_result(existing, explicit_lists.check_expand(brokers, existing, lists, total))
    return expansion(brokers, existing, total)


def expansion(brokers: Sequence[Broker], existing: Mapping[int, Replicas], total: int) -> VectorResult:
    """Return Kafka's own expansion with its start."""
    added = expand_assignment(brokers, existing, total)
    leader = existing[0][0]
    start = expansion_start(prepare_brokers(brokers, "enforced"), leader)
    assert len(added) == total - len(existing)
    return {**expansion_result(existing, added), "start_index": start, "start_partition_id": len(existing)}


def expansion_result(existing: Mapping[int, Replicas], added: Sequence[Replicas]) -> VectorResult:
    """Return the result of an expansion in the format of the vectors."""
    fresh = {str(partition): list(replicas) for partition, replicas in enumerate(added, len(existing))}
    return {
        "valid": True,
        "new_partitions": fresh,
        "leaders": {partition: replicas[0] for partition, replicas in fresh.items()},
        "replica_sets": {partition: sorted(replicas) for partition, replicas in fresh.items()},
        "partition_count": len(existing) + len(added),
    }


def delete(given: Input) -> VectorResult:
    """Delete a topic under the checks of Kafka's ZooKeeper command line."""
    topic = given.get("topic", "t")
    if topic in types.INTERNAL_TOPICS:
        raise RefusedError("admin_operation")
    if "existing_topics" in given and topic not in given["existing_topics"]:
        raise RefusedError("unknown_topic_or_partition")
    return {"valid": True}


def broker_metadatas(given: Input) -> VectorResult:
    """Return the brokers that a placement uses in a rack mode."""
    wanted = given.get("broker_list")
    brokers = [broker for broker in brokers_of(given) if wanted is None or broker.id in wanted]
    chosen = prepare_brokers(brokers, given.get("mode", "enforced"))
    return {"valid": True, "brokers": [{"id": broker.id, "rack": broker.rack} for broker in chosen]}


def check_configs(config: Mapping[str, str], release: KafkaVersion, settings: Mapping[str, str]) -> None:
    """Check every value by itself, then all of them together."""
    if any(config_values.check_value(name, text, release) for name, text in config.items()):
        raise RefusedError("invalid_config")
    if config_rules.find_conflicts(config, release, settings):
        raise RefusedError("invalid_config")


def brokers_of(given: Input) -> list[Broker]:
    """Return the brokers of a vector, or default ones if the vector names none."""
    if "brokers" in given:
        return [Broker(int(broker["id"]), broker.get("rack")) for broker in given["brokers"]]
    count = max(3, int(given.get("replication_factor", 1)) if int(given.get("replication_factor", 1)) < 100 else 3)
    racked = given.get("some_brokers_without_rack", False)
    return [Broker(number, "a" if racked and number else None) for number in range(count)]


def config_texts(config: Mapping[str, object]) -> dict[str, str]:
    """Return config values as the text that Kafka gets."""
    return {name: value if isinstance(value, str) else str(value).lower() for name, value in config.items()}


def _explicit_lists(given: Input) -> dict[int, Replicas] | None:
    if "cli" in given:
        return dict(enumerate(explicit_lists.parse_cli_assignment(given["cli"])))
    if "assignment_entries" in given:
        return {int(partition): tuple(replicas) for partition, replicas in given["assignment_entries"]}
    if "assignment" in given:
        return {int(partition): tuple(replicas) for partition, replicas in given["assignment"].items()}
    return None


def _place_topic(given: Input, topic: str) -> dict[int, Replicas]:
    brokers, mode = brokers_of(given), given.get("mode", "enforced")
    # The placement itself detects incomplete racks, as the last check.
    chosen = sorted(brokers, key=lambda broker: broker.id) if mode == "enforced" else prepare_brokers(brokers, mode)
    start, shift = derive_start_and_shift(topic, chosen)
    factor = int(given.get("replication_factor", 1))
    count = int(given.get("n_partitions", 1))
    return dict(enumerate(assign_replicas(chosen, count, replication_factor=factor, start=start, shift=shift)))


def _check_name(given: Input, topic: str, release: KafkaVersion) -> None:
    existing: Collection[str] = given.get("existing_topics", ())
    if types.topic_name_problem(topic):
        raise RefusedError("invalid_topic")
    if topic in given.get("marked_for_deletion", ()) and release >= (3, 1):
        raise RefusedError("topic_exists")
    if topic in existing and given.get("exists_check_said", True):
        raise RefusedError("topic_exists")
    if types.has_collision_chars(topic):
        if topic in existing:
            raise RefusedError("topic_exists")
        if any(types.metric_name(topic) == types.metric_name(other) for other in existing):
            raise RefusedError("invalid_topic")


def _existing_assignment(given: Input) -> dict[int, Replicas]:
    if "existing" in given:
        return {int(partition): tuple(replicas) for partition, replicas in given["existing"].items()}
    width = int(given.get("replication_factor", 1))
    return {partition: tuple(range(width)) for partition in range(int(given.get("existing_count", 0)))}
