"""Binds the variables that the expression of a policy rule can use to their values.

``policies`` calls the functions for each topic and each change. ``model.policy`` declares the names and types of the
variables; a name that is not declared there does not compile.
"""

from __future__ import annotations

from collections.abc import Mapping

from topiarist.kafka.types import format_version
from topiarist.model.plan import AddPartitions, Change, CreateTopic, DeleteTopic, TopicPlan, UpdateConfig, config_after
from topiarist.model.policy import CelBindings
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import TopicState


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
        "topic.labels": manifest.labels,
        "topic.annotations": annotations,
        "topic.partitions": spec.create_partitions,
        "topic.replicationFactor": spec.create_replication_factor,
        "topic.config": spec.config,
        "topic.observed": spec.observe_only,
        **cluster_bindings,
    }


def bind_change(plan: TopicPlan, change: Change, broker_count: int) -> CelBindings:
    """Return the variables of a change, without those of its topic.

    ``broker_count`` is the number of registered brokers.
    """
    before = _bind_topic_state(plan.before) if plan.before else _NO_TOPIC
    after = _bind_topic_after(plan, change, before)
    return {
        "cluster.brokers": broker_count,
        "change.kind": type(change).__name__,
        "change.risk": change.assessment.risk.label,
        "change.explanation": change.assessment.explanation,
        "change.keys": _changed_keys(change),
        **{f"change.before.{name}": value for name, value in before.items()},
        **{f"change.after.{name}": value for name, value in after.items()},
    }


_NO_TOPIC: CelBindings = {"partitions": 0, "replicationFactor": 0, "config": {}}


def _bind_topic_state(topic: TopicState) -> CelBindings:
    factor = len(topic.replicas[0]) if topic.replicas else 0
    return {"partitions": len(topic.replicas), "replicationFactor": factor, "config": topic.config}


def _bind_topic_after(plan: TopicPlan, change: Change, before: CelBindings) -> CelBindings:
    match change:
        case CreateTopic(replicas, config):
            return {"partitions": len(replicas), "replicationFactor": len(replicas[0]), "config": config}
        case AddPartitions():
            return {**before, "partitions": change.total}
        case UpdateConfig():
            return {**before, "config": config_after(plan.before.config if plan.before else {}, (change,))}
        case DeleteTopic():
            return _NO_TOPIC
    return before


def _changed_keys(change: Change) -> list[str]:
    if isinstance(change, UpdateConfig):
        return [item.key for item in change.items]
    return sorted(change.config) if isinstance(change, CreateTopic) else []
