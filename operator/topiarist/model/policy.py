"""What a policy's rule may know: the names that its expression can use, and their values for a topic or a change.

The tables are the single source of truth: an adapter declares exactly these names to the language that evaluates the
expressions, and the reference lists them. A name that is not here does not compile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from topiarist.errors import FieldPath, Location, Reason
from topiarist.kafka.names import matches_any
from topiarist.model.plan import Issue
from topiarist.model.spec import ClusterSpec, Source, TopicSpec, ValueOrigin, has_labels


class RuleError(NamedTuple):
    """Why a rule does not compile or cannot be evaluated; ``hint`` is what to do about it."""

    message: str
    hint: str = ""


CelBindings = Mapping[str, Any]
"""Values by name: text, numbers, truth values, lists of text, and maps of text to text."""


class CelType(str, Enum):
    """What a fact is."""

    STRING = "text"
    INT = "number"
    BOOL = "true or false"
    LIST = "list of text"
    MAP = "map of text to text"


class CelVariable(NamedTuple):
    """What stands behind a name, for the reference."""

    type: CelType
    description: str


TOPIC_VARIABLES: dict[str, CelVariable] = {
    "topic.name": CelVariable(CelType.STRING, "The topic's name in Kafka."),
    "topic.document": CelVariable(CelType.STRING, "`metadata.name` of its document."),
    "topic.namespace": CelVariable(CelType.STRING, "`metadata.namespace`; empty if there is none."),
    "topic.labels": CelVariable(CelType.MAP, "`metadata.labels`."),
    "topic.annotations": CelVariable(CelType.MAP, "`metadata.annotations`."),
    "topic.partitions": CelVariable(
        CelType.INT, "Partitions asked for; the cluster's default where the topic names none."
    ),
    "topic.replicationFactor": CelVariable(
        CelType.INT, "Replicas of each partition asked for, or the cluster's default."
    ),
    "topic.config": CelVariable(
        CelType.MAP, "Configs that are set, the cluster's defaults among them, as Kafka's text."
    ),
    "topic.observed": CelVariable(CelType.BOOL, "Whether the topic is only reported (`mode: Observe`)."),
    "cluster.name": CelVariable(CelType.STRING, "Name of the `Cluster`; empty for the one of `--zookeeper` alone."),
    "cluster.labels": CelVariable(CelType.MAP, "Labels of the `Cluster`."),
    "cluster.kafkaVersion": CelVariable(CelType.STRING, "Its release as declared, `3.9`; empty if it is not."),
}
"""What rules about topics may name."""


CHANGE_VARIABLES: dict[str, CelVariable] = TOPIC_VARIABLES | {
    "cluster.brokers": CelVariable(CelType.INT, "Brokers that are registered."),
    "change.kind": CelVariable(
        CelType.STRING, "`CreateTopic`, `AddPartitions`, `UpdateConfig`, `DeleteTopic` or `TakeOwnership`."
    ),
    "change.risk": CelVariable(CelType.STRING, "`Safe`, `Disruptive` or `DataLoss`."),
    "change.because": CelVariable(CelType.STRING, "Why the risk is not `Safe`; empty if it is."),
    "change.keys": CelVariable(CelType.LIST, "Config keys that are set, changed or removed."),
    "change.before.partitions": CelVariable(CelType.INT, "Partitions on the cluster; 0 if the topic does not exist."),
    "change.before.replicationFactor": CelVariable(
        CelType.INT, "Replicas of partition 0; 0 if the topic does not exist."
    ),
    "change.before.config": CelVariable(CelType.MAP, "Overrides on the cluster, unmanaged ones among them."),
    "change.after.partitions": CelVariable(CelType.INT, "Partitions once this change is done; 0 after a deletion."),
    "change.after.replicationFactor": CelVariable(CelType.INT, "Replicas of partition 0 once this change is done."),
    "change.after.config": CelVariable(CelType.MAP, "Overrides once this change is done."),
}
"""What rules about changes may name."""


class RuleSubject(str, Enum):
    """What a rule is about."""

    TOPIC = "Topic"
    CHANGE = "Change"


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One rule. ``field`` is the path below the spec at which findings stand (empty: the topic's name).

    ``path`` leads to the rule in its document, ``source``.
    """

    policy: str
    name: str
    expression: str
    message: str
    subject: RuleSubject
    deny: bool
    field: tuple[str, ...]
    source: Source
    path: FieldPath

    @property
    def title(self) -> str:
        """The rule by its names."""
        return f"policy {self.policy}, rule {self.name}"

    @property
    def reason(self) -> Reason:
        """What becomes of what does not keep it: refused, or only said."""
        return Reason.POLICY_DENIED if self.deny else Reason.POLICY_WARNING

    def locate(self, *path: str) -> Location:
        """Where the rule stands, or a field of it."""
        return self.source.locate((*self.path, *path))

    def make_issue(self, spec: TopicSpec) -> Issue:
        """What to say where a topic, or a change of it, does not keep the rule; explicit replica lists are its size."""
        sized = self.field in (("partitions",), ("replicationFactor",)) and spec.assignment is not None
        return Issue(
            self.reason,
            f"{self.message} ({self.title})",
            ("replicaAssignment",) if sized else self.field,
            rule_origin=ValueOrigin(self.source, self.path),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """A ``Policy`` manifest. What its selector leaves open is empty and fits everything."""

    name: str
    namespace: str
    source: Source
    rules: tuple[Rule, ...]
    topic_patterns: tuple[str, ...] = ()
    topic_labels: Mapping[str, str] = field(default_factory=dict)
    cluster_names: tuple[str, ...] = ()
    cluster_labels: Mapping[str, str] = field(default_factory=dict)

    def applies_to_cluster(self, cluster: ClusterSpec) -> bool:
        """Whether the policy is for topics of this cluster."""
        named = not self.cluster_names or cluster.name in self.cluster_names
        return named and has_labels(cluster.labels, self.cluster_labels)

    def applies_to_topic(self, spec: TopicSpec) -> bool:
        """Whether the policy is for a topic of a cluster that it means."""
        named = not self.topic_patterns or matches_any(spec.topic, self.topic_patterns)
        return named and has_labels(spec.manifest.labels, self.topic_labels)
