"""What a policy's rule may know: the names that its expression can use, and their values for a topic or a change.

The tables are the single source of truth: an adapter declares exactly these names to the language that evaluates the
expressions, and the reference lists them. A name that is not here does not compile.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from topiarist.core.change import AddPartitions, Change, CreateTopic, DeleteTopic, TopicPlan, UpdateConfig
from topiarist.core.differences import config_after
from topiarist.core.rules import version
from topiarist.core.spec import ClusterSpec, TopicSpec
from topiarist.core.state import TopicState

Facts = Mapping[str, Any]
"""Values by name: text, numbers, truth values, lists of text, and maps of text to text."""


class Kind(str, Enum):
    """What a fact is."""

    TEXT = "text"
    NUMBER = "number"
    TRUTH = "true or false"
    LIST = "list of text"
    MAP = "map of text to text"


class Fact(NamedTuple):
    """What stands behind a name, for the reference."""

    kind: Kind
    meaning: str


TOPIC: dict[str, Fact] = {
    "topic.name": Fact(Kind.TEXT, "The topic's name in Kafka."),
    "topic.document": Fact(Kind.TEXT, "`metadata.name` of its document."),
    "topic.namespace": Fact(Kind.TEXT, "`metadata.namespace`; empty if there is none."),
    "topic.labels": Fact(Kind.MAP, "`metadata.labels`."),
    "topic.annotations": Fact(Kind.MAP, "`metadata.annotations`."),
    "topic.partitions": Fact(Kind.NUMBER, "Partitions asked for; the cluster's default where the topic names none."),
    "topic.replicationFactor": Fact(Kind.NUMBER, "Replicas of each partition asked for, or the cluster's default."),
    "topic.config": Fact(Kind.MAP, "Configs that are set, the cluster's defaults among them, as Kafka's text."),
    "topic.observed": Fact(Kind.TRUTH, "Whether the topic is only reported (`mode: Observe`)."),
    "cluster.name": Fact(Kind.TEXT, "Name of the `Cluster`; empty for the one of `--zookeeper` alone."),
    "cluster.labels": Fact(Kind.MAP, "Labels of the `Cluster`."),
    "cluster.kafkaVersion": Fact(Kind.TEXT, "Its release as declared, `3.9`; empty if it is not."),
}
"""What rules about topics may name."""

CHANGE: dict[str, Fact] = TOPIC | {
    "cluster.brokers": Fact(Kind.NUMBER, "Brokers that are registered."),
    "change.kind": Fact(Kind.TEXT, "`CreateTopic`, `AddPartitions`, `UpdateConfig`, `DeleteTopic` or `Adopt`."),
    "change.risk": Fact(Kind.TEXT, "`Safe`, `Disruptive` or `DataLoss`."),
    "change.because": Fact(Kind.TEXT, "Why the risk is not `Safe`; empty if it is."),
    "change.keys": Fact(Kind.LIST, "Config keys that are set, changed or removed."),
    "change.before.partitions": Fact(Kind.NUMBER, "Partitions on the cluster; 0 if the topic does not exist."),
    "change.before.replicationFactor": Fact(Kind.NUMBER, "Replicas of partition 0; 0 if the topic does not exist."),
    "change.before.config": Fact(Kind.MAP, "Overrides on the cluster, unmanaged ones among them."),
    "change.after.partitions": Fact(Kind.NUMBER, "Partitions once this change is done; 0 after a deletion."),
    "change.after.replicationFactor": Fact(Kind.NUMBER, "Replicas of partition 0 once this change is done."),
    "change.after.config": Fact(Kind.MAP, "Overrides once this change is done."),
}
"""What rules about changes may name."""


def of_cluster(cluster: ClusterSpec) -> Facts:
    """The facts that all topics of a cluster share."""
    return {
        "cluster.name": cluster.name,
        "cluster.labels": cluster.labels,
        "cluster.kafkaVersion": version(cluster.release) if cluster.release else "",
    }


def of_topic(spec: TopicSpec, cluster: Facts, annotations: Mapping[str, str]) -> Facts:
    """Everything in ``TOPIC``; ``cluster`` is what ``of_cluster`` gives for the topic's cluster.

    ``annotations`` are those of its document, which a manifest does not carry along.
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
        "topic.observed": spec.observe,
        **cluster,
    }


def of_change(plan: TopicPlan, change: Change, brokers: int) -> Facts:
    """What ``CHANGE`` has beyond ``TOPIC``, for one change of a topic; ``brokers`` are registered."""
    before = _sizes(plan.before) if plan.before else _NOTHING
    after = _after(plan, change, before)
    return {
        "cluster.brokers": brokers,
        "change.kind": type(change).__name__,
        "change.risk": change.verdict.risk.word,
        "change.because": change.verdict.because,
        "change.keys": _keys(change),
        **{f"change.before.{name}": value for name, value in before.items()},
        **{f"change.after.{name}": value for name, value in after.items()},
    }


_NOTHING: Facts = {"partitions": 0, "replicationFactor": 0, "config": {}}


def _sizes(topic: TopicState) -> Facts:
    factor = len(topic.replicas[0]) if topic.replicas else 0
    return {"partitions": len(topic.replicas), "replicationFactor": factor, "config": topic.config}


def _after(plan: TopicPlan, change: Change, before: Facts) -> Facts:
    match change:
        case CreateTopic(replicas, config):
            return {"partitions": len(replicas), "replicationFactor": len(replicas[0]), "config": config}
        case AddPartitions():
            return {**before, "partitions": change.total}
        case UpdateConfig():
            return {**before, "config": config_after(plan.before.config if plan.before else {}, (change,))}
        case DeleteTopic():
            return _NOTHING
    return before


def _keys(change: Change) -> list[str]:
    if isinstance(change, UpdateConfig):
        return [item.key for item in change.items]
    return sorted(change.config) if isinstance(change, CreateTopic) else []
