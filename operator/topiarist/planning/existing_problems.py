"""Reports problems that a topic already has; they do not refuse any change.

``planner`` calls ``find_problems`` after ``diff``. A problem that a change fixes, or that is already a refusal, is not
reported again.
"""

from __future__ import annotations

from collections.abc import Sequence

from topiarist.errors import Reason
from topiarist.kafka.config_rules import is_min_isr_above
from topiarist.model.plan import UpdateConfig, config_after
from topiarist.model.state import TopicState, describe_unequal_replication_factors
from topiarist.planning.builder import TopicPlanBuilder, min_replica_count
from topiarist.text import format_count, shorten_list


def find_problems(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Add a notice for each existing problem that no change fixes."""
    context = builder.context
    is_validated = builder.has_refusal(Reason.CONFIG_INVALID) or any(
        isinstance(change, UpdateConfig) for change in builder.changes
    )
    # A config equal to the manifest was validated when the manifest was loaded.
    if not is_validated and topic.config != builder.spec.config:
        for error in context.config_rules.find_errors(topic.config, context.versions_to_check, context.settings):
            builder.add_notice(Reason.EXISTING_PROBLEM, f"on the cluster is {error.message}", ("config",))
    malformed = builder.has_refusal(Reason.PARTITIONS_MALFORMED)
    if not topic.has_contiguous_partitions and not malformed:
        message = f"found partition ids {shorten_list(topic.partition_ids)}, wanted 0 to n-1: it cannot grow"
        builder.add_notice(Reason.EXISTING_PROBLEM, message, ("partitions",))
    if () in topic.replicas and (empty := _partitions_without_replicas(topic, first=1 if malformed else 0)):
        builder.add_notice(
            Reason.EXISTING_PROBLEM, f"no replicas on the cluster for partition {shorten_list(empty)}", ("partitions",)
        )
    # If the manifest has a replication factor, ``diff`` refuses or ignores every other one.
    if builder.spec.replication_factor is None and (unequal := describe_unequal_replication_factors(topic)):
        builder.add_notice(Reason.EXISTING_PROBLEM, unequal, ("replicationFactor",))
    config = config_after(topic.config, builder.changes)
    if "min.insync.replicas" in config and is_min_isr_above(config, narrowest := min_replica_count(topic)):
        min_isr, replicas = config["min.insync.replicas"], format_count(narrowest, "replica")
        message = f"min.insync.replicas {min_isr}: the narrowest partition has {replicas}: writes with acks=all fail"
        builder.add_notice(Reason.EXISTING_PROBLEM, message, ("config", "min.insync.replicas"))


def _partitions_without_replicas(topic: TopicState, first: int) -> Sequence[int]:
    """Return the partitions from ``first`` on that have no replicas."""
    pairs = zip(topic.partition_ids, topic.replicas, strict=True)
    return [partition for partition, replicas in pairs if not replicas and partition >= first]
