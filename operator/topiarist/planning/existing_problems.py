"""Reports problems from before the run: of a topic, and stale entries of the reassignment request.

``planner`` calls ``find_problems`` after ``diff``. A problem that a change fixes, or that is already a refusal, is not
reported again.

If a topic is deleted during a reassignment, a controller in ZooKeeper mode keeps the topic's entry in the request. The
entry has no effect until another broker becomes controller; then it moves any topic of that name. The adapter finds
such entries; through the brokers there are none. Every plan, ``describe`` and ``drift`` report the entries, and a
creation or deletion of such a topic is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from topiarist.errors import Reason
from topiarist.kafka.config_rules import is_min_isr_above, small_segment_message
from topiarist.kafka.types import MIN_KAFKA_VERSION, KafkaVersion, count_replicas
from topiarist.model.plan import UpdateConfig, config_after
from topiarist.model.state import TopicState, describe_malformed_partitions, describe_unequal_replication_factors
from topiarist.planning.builder import TopicPlanBuilder, min_replica_count
from topiarist.text import format_count, printable, shorten_list

_MAX_SHOWN_ENTRIES = 8

NAMED_BY_REQUEST = "a reassignment request names it"


def find_problems(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Add a notice for each existing problem that no change fixes."""
    if (
        topic.config == builder.spec.config
        and topic.has_contiguous_partitions
        and not may_have_problems(topic.config, {*map(count_replicas, topic.replicas)}, builder.context.oldest_version)
    ):
        return  # the usual case
    is_validated = builder.has_refusal(Reason.CONFIG_INVALID) or any(
        isinstance(change, UpdateConfig) for change in builder.changes
    )
    # A config equal to the manifest was validated when the manifest was loaded.
    if not is_validated and topic.config != builder.spec.config:
        for error in builder.context.find_config_errors(topic.config):
            builder.add_notice(Reason.EXISTING_PROBLEM, f"on the cluster is {error.message}", ("config",))
    malformed = builder.has_refusal(Reason.PARTITIONS_MALFORMED)
    if (found := describe_malformed_partitions(topic)) and not malformed:
        builder.add_notice(Reason.EXISTING_PROBLEM, f"{found}: it cannot grow", ("partitions",))
    if () in topic.replicas:
        pairs = zip(topic.partition_ids, topic.replicas, strict=True)
        # A refusal of a malformed topic already reports partition 0.
        if empty := [number for number, replicas in pairs if not replicas and not (malformed and number == 0)]:
            message = f"no replicas on the cluster for partition {shorten_list(empty)}"
            builder.add_notice(Reason.EXISTING_PROBLEM, message, ("partitions",))
    # If the manifest has a replication factor, ``diff`` refuses or ignores every other one.
    if builder.spec.replication_factor is None and (unequal := describe_unequal_replication_factors(topic)):
        builder.add_notice(Reason.EXISTING_PROBLEM, unequal, ("replicationFactor",))
    config = config_after(topic.config, builder.changes)
    if message := small_segment_message(config):
        builder.add_notice(Reason.EXISTING_PROBLEM, message, ("config", "segment.bytes"))
    fewest = min_replica_count(topic)
    if is_min_isr_above(config, fewest, builder.context.oldest_version):
        min_isr, replicas = config["min.insync.replicas"], format_count(fewest, "replica")
        message = f"min.insync.replicas {min_isr}: a partition has only {replicas}: writes with acks=all fail"
        builder.add_notice(Reason.EXISTING_PROBLEM, message, ("config", "min.insync.replicas"))


def may_have_problems(
    config: Mapping[str, str], replica_counts: Collection[int], oldest: KafkaVersion = MIN_KAFKA_VERSION
) -> bool:
    """Return whether ``find_problems`` may find one: its cheap half, which drift reports share.

    It is for topics with the config of their manifest and without holes in their partition ids. ``replica_counts`` are
    those of all partitions, and ``oldest`` is the oldest version that the brokers may have.
    """
    return (
        len(replica_counts) != 1
        or 0 in replica_counts
        or is_min_isr_above(config, min(replica_counts), oldest)
        or bool(small_segment_message(config))
    )


class StaleEntry(NamedTuple):
    """The effect of a stale entry, and the hint how to remove it."""

    message: str
    hint: str


_HINT_IF_ABSENT = (
    "let another broker become controller before the topic is created, which drops the entry; or request a"
    " reassignment of that partition through Kafka's Admin API"
)
_HINT_IF_PRESENT = (
    "before that, request the present replicas of the topic, with kafka-reassign-partitions --bootstrap-server"
)


def explain_stale_entry(topic_exists: bool | None = None) -> StaleEntry:
    """Return the effect of a stale entry and a hint.

    ``topic_exists`` is whether a topic of that name exists now; None if that is not known.
    """
    if topic_exists:
        cause, moved, hint = "and is older than the topic", "the topic", _HINT_IF_PRESENT
    elif topic_exists is None:
        cause, moved = "from an earlier topic of this name", "the present or a later topic"
        hint = f"if the topic exists, {_HINT_IF_PRESENT}; if not, {_HINT_IF_ABSENT}"
    else:
        cause, moved, hint = "from an earlier topic of this name", "a new topic", _HINT_IF_ABSENT
    return StaleEntry(f"{NAMED_BY_REQUEST}, {cause}: the next controller will move {moved} accordingly", hint)


def stale_entry_warnings(names: Collection[str], topics: Collection[str]) -> Iterator[str]:
    """Yield a warning for each stale entry of a cluster, with its hint."""
    sorted_names = sorted(names)
    for name in sorted_names[:_MAX_SHOWN_ENTRIES]:
        stale_entry = explain_stale_entry(name in topics)
        yield f"{printable(name)}: {stale_entry.message}. {stale_entry.hint[0].upper()}{stale_entry.hint[1:]}"
    if len(sorted_names) > _MAX_SHOWN_ENTRIES:
        yield f"the reassignment request has stale entries of {len(sorted_names) - _MAX_SHOWN_ENTRIES:,} more topics"
