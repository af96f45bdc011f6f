"""Binds the variables that the expression of a policy rule can use to their values.

``policies`` calls the functions for each topic and each change. ``model.policy`` declares the names and types of the
variables; a name that is not declared there does not compile.
"""

from __future__ import annotations

from collections.abc import Mapping

from topiarist.kafka.types import format_version
from topiarist.model.moves import MoveKind
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    MoveReplicas,
    TopicPlan,
    UpdateConfig,
    config_after,
)
from topiarist.model.policy import CelBindings
from topiarist.model.spec import ClusterSpec, TopicSpec

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


def bind_change(plan: TopicPlan, change: Change, broker_count: int) -> CelBindings:
    """Return the variables of a change, without those of its topic.

    ``broker_count`` is the number of registered brokers.
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
    }
