"""The checks that a controller in KRaft mode makes of an Admin request before it changes a topic.

Each returns an error code with its message, or ``ACCEPTED``. Brokers in memory and the model of ``interleavings`` use
them, and ``records_suite`` compares them with real brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from topiarist.kafka.config_rules import find_conflicts, is_supported
from topiarist.kafka.config_values import check_value
from topiarist.kafka.types import (
    MAX_KAFKA_VERSION,
    ClusterMode,
    KafkaVersion,
    Replicas,
    has_collision_chars,
    metric_name,
    topic_name_problem,
)

UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS = 3, 17, 36, 37
INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST = 38, 39, 40, 42
POLICY_VIOLATION = 44
THROTTLING_QUOTA_EXCEEDED, UNKNOWN_TOPIC_ID = 89, 100

MAX_PARTITIONS = 10_000
"""The most partitions that one request may create."""

Verdict = tuple[int, str]
ACCEPTED: Verdict = 0, ""


def check_name(name: str, names: Collection[str]) -> Verdict:
    """Check the name of a new topic against the topics that exist."""
    if name in names:
        return TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists."
    if problem := topic_name_problem(name):
        return INVALID_TOPIC, f"Topic name is invalid: {problem}"
    other = next((each for each in names if metric_name(each) == metric_name(name)), None)
    if has_collision_chars(name) and other:
        return INVALID_TOPIC, f"Topic '{name}' collides with existing topic: {other}"
    return ACCEPTED


def check_configs(config: Mapping[str, str | None], version: KafkaVersion = MAX_KAFKA_VERSION) -> Verdict:
    """Check all overrides that a topic is to have."""
    for key, value in config.items():
        if value is None:
            return INVALID_CONFIG, f"Null value not supported for topic configs: {key}"
        if not is_supported(key, version):
            return INVALID_CONFIG, f"Unknown topic config name: {key}"
        if problem := check_value(key, value, version):
            return INVALID_CONFIG, f"Invalid value {value} for configuration {key}: {problem}"
        if key == "remote.storage.enable" and value == "true" and version >= (3, 6):
            return INVALID_CONFIG, "Tiered Storage functionality is disabled in the broker."
    known = {key: value for key, value in config.items() if value is not None}
    conflicts = find_conflicts(known, version, mode=ClusterMode.KRAFT)
    return (INVALID_CONFIG, conflicts[0][1]) if conflicts else ACCEPTED


def check_lists(
    lists: Sequence[Replicas], brokers: Collection[int], *, width: int, fenced: Collection[int] = ()
) -> Verdict:
    """Check new replica lists against the registered brokers, and the width that all lists of the topic have."""
    for replicas in lists:
        message = ""
        if not replicas:
            message = "an empty replica list."
        elif len({*replicas}) < len(replicas):
            message = "a broker more than once."
        elif unknown := {*replicas}.difference(brokers):
            message = f"broker {min(unknown)}, but no such broker is registered."
        elif len(replicas) != width:
            message = (
                f"a partition with {len(replicas)} replica(s), but this is not consistent with {width} replica(s)."
            )
        elif {*replicas} <= {*fenced}:
            message = "only brokers that are fenced or in controlled shutdown."
        if message:
            return INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {message}"
    return ACCEPTED


def check_counts(partitions: int, factor: int, brokers: int) -> Verdict:
    """Check the counts of a topic that the brokers place."""
    if partitions < 1:
        return INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
    if factor < 1:
        return INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."
    if factor > brokers:
        message = f"Unable to replicate the partition {factor} time(s): only {brokers} broker(s) are registered."
        return INVALID_REPLICATION_FACTOR, message
    return ACCEPTED


def check_growth(name: str, existing: Sequence[Replicas] | None, total: int, lists: Sequence[Replicas]) -> Verdict:
    """Check the new total against the partitions of a topic; ``existing`` is None without the topic."""
    if existing is None:
        return UNKNOWN_TOPIC_OR_PARTITION, ""
    added = total - len(existing)
    if added <= 0:
        message = f"The topic {name} currently has {len(existing)} partition(s); {total} would not be an increase."
        return INVALID_PARTITIONS, message
    if added != len(lists):
        message = (
            f"Attempted to add {added} additional partition(s), but only {len(lists)} assignment(s) were specified."
        )
        return INVALID_REPLICA_ASSIGNMENT, message
    return ACCEPTED
