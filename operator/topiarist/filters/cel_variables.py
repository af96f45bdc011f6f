"""Binds the variables that the expression of a policy rule can use to their values.

``policies`` calls the functions for each topic and each change. ``model.policy`` declares the names and types of the
variables; a name that is not declared there does not compile.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from topiarist.kafka.types import format_version
from topiarist.model.moves import MoveKind
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    MoveReplicas,
    Risk,
    TopicPlan,
    UpdateConfig,
    config_after,
)
from topiarist.model.policy import CelBindings
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.usage import DAY_S, TopicSample, TopicUsage
from topiarist.usage.describe import estimate_copied_bytes, estimate_cut


class UsageAt(Struct, frozen=True):
    """The usage of a topic, and the time of its read."""

    usage: TopicUsage
    read_at: int


_NO_TOPIC: CelBindings = {"partitions": 0, "replicationFactor": 0, "config": {}}


def bind_cluster(cluster: ClusterSpec) -> CelBindings:
    """Return the variables that all topics of a cluster share."""
    return {
        "cluster.name": cluster.name,
        "cluster.labels": cluster.labels,
        "cluster.kafkaVersion": format_version(cluster.version) if cluster.version else "",
    }


def bind_topic(spec: TopicSpec, cluster_bindings: CelBindings, annotations: Mapping[str, str]) -> CelBindings:
    """Return the variables of a topic.

    ``cluster_bindings`` is the result of ``bind_cluster`` for the topic's cluster. ``annotations`` are those of the
    topic's document; a ``Manifest`` does not have them.
    """
    manifest = spec.manifest
    return {
        "topic.name": spec.topic,
        "topic.document": manifest.name,
        "topic.namespace": manifest.namespace,
        "topic.labels": spec.labels,
        "topic.annotations": annotations,
        "topic.partitions": spec.create_partitions,
        "topic.replicationFactor": spec.create_replication_factor,
        "topic.config": spec.config,
        "topic.observed": spec.observe_only,
        "topic.profiles": list(manifest.spec.get("profiles", ())),
        "topic.coPartitionGroup": spec.co_partition_group,
        "topic.keyed": spec.keyed,
        **cluster_bindings,
    }


def bind_change(plan: TopicPlan, change: Change, broker_count: int, usage: UsageAt | None = None) -> CelBindings:
    """Return the variables of a change, without those of its topic.

    ``broker_count`` is the number of registered brokers, ``usage`` the usage of the topic with the time of its read.
    """
    topic, before, keys = plan.before, _NO_TOPIC, list[str]()
    if topic:
        factor = len(topic.replicas[0]) if topic.replicas else 0
        before = {"partitions": len(topic.replicas), "replicationFactor": factor, "config": topic.config}
    after = before
    match change:
        case CreateTopic(replicas, config):
            after = {"partitions": len(replicas), "replicationFactor": len(replicas[0]), "config": config}
            keys = sorted(config)
        case AddPartitions():
            after = {**before, "partitions": change.total}
        case MoveReplicas(moves):
            first = moves[0]
            after = {**before, "replicationFactor": len(first.after)} if first.partition == 0 else before
        case UpdateConfig(items):
            after = {**before, "config": config_after(topic.config if topic else {}, (change,))}
            keys = [item.key for item in items]
        case DeleteTopic():
            after = _NO_TOPIC
    moves = change.moves if isinstance(change, MoveReplicas) else ()
    return {
        "cluster.brokers": broker_count,
        "change.kind": type(change).__name__,
        "change.risk": change.assessment.risk.label,
        "change.explanation": change.assessment.explanation,
        "change.keys": keys,
        "change.copies": sum(len(move.added) for move in moves),
        "change.movedPartitions": len(moves),
        "change.reasons": [kind.value for kind in MoveKind if any(kind in move.kinds for move in moves)],
        **{f"change.before.{name}": value for name, value in before.items()},
        **{f"change.after.{name}": value for name, value in after.items()},
        "change.bytesLost": _bytes_lost(change, usage),
        "change.bytesCopied": _bytes_copied(change, usage),
        **_bind_usage(usage),
    }


def _bind_usage(usage: UsageAt | None) -> CelBindings:
    """Return the variables of usage; numbers that are not known are -1, since a missing one would end the rule."""
    found = usage.usage if usage else TopicUsage(TopicSample())
    at = usage.read_at if usage else 0
    sides = (found.written, found.read)
    since = [side.observed_since for side in sides if side.observed_since is not None]
    ends, begins = found.sample.ends, found.sample.begins
    return {
        "topic.usage.known": usage is not None,
        "topic.usage.written": found.written.state.value,
        "topic.usage.read": found.read.state.value,
        "topic.usage.readers": found.sample.member_count,
        "topic.usage.groups": found.sample.committing_groups,
        "topic.usage.daysSinceWritten": _days(found.written.before, at),
        "topic.usage.daysSinceRead": _days(found.read.before, at),
        "topic.usage.daysObserved": _days(max(since), at) if len(since) == len(sides) else -1,
        "topic.usage.bytes": _or_unknown(found.sample.size),
        "topic.usage.bytesPerDay": _or_unknown(found.bytes_per_day),
        "topic.usage.empty": bool(ends) and None not in ends and ends == begins,
    }


def _bytes_lost(change: Change, usage: UsageAt | None) -> int:
    match change:
        case DeleteTopic():
            return _or_unknown(usage.usage.sample.size if usage else None)
        case UpdateConfig(items):
            # The segment size matters for the lower bounds only.
            bounds = [estimate_cut(item, usage.usage, usage.read_at, None) for item in items] if usage else []
            if any(item.assessment.risk is Risk.DATA_LOSS for item in items):
                known = [each.high for each in bounds if each]
                return max(known) if known else -1
    return 0


def _bytes_copied(change: Change, usage: UsageAt | None) -> int:
    if not isinstance(change, MoveReplicas) or not change.copies:
        return 0
    return _or_unknown(estimate_copied_bytes(change.moves, usage.usage.sample) if usage else None)


def _days(time: int | None, at: int) -> int:
    return -1 if time is None else max(at - time, 0) // DAY_S


def _or_unknown(number: int | None) -> int:
    return -1 if number is None else number
