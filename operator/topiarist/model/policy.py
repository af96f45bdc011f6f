"""Policies as values: a ``Policy`` with its rules, and the variables that a rule's expression can use.

The tables of variables are the single source of truth: ``adapters/cel.py`` declares exactly these names to CEL, and the
reference documentation lists them. An expression with any other name does not compile. ``desired/parse.py`` builds the
policies from documents and ``filters/policies.py`` evaluates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, get_args

from msgspec import Struct, field

from topiarist.errors import FieldPath, Location, Reason
from topiarist.kafka.types import matches_any
from topiarist.model.moves import MoveKind
from topiarist.model.plan import Change, Issue, Nudge, ReleaseOwnership, Risk
from topiarist.model.spec import ClusterSpec, Limit, Source, TopicSpec, ValueOrigin, has_labels
from topiarist.model.usage import UsageState


class RuleError(Struct, frozen=True):
    """An error of a rule that does not compile or cannot be evaluated; ``hint`` is the advice."""

    message: str
    hint: str = ""


CelBindings = Mapping[str, Any]
"""Values by variable name: text, numbers, booleans, lists of text, and maps of text to text."""


class CelType(str, Enum):
    """The type of a CEL variable, as the reference documentation names it."""

    STRING = "text"
    INT = "number"
    BOOL = "true or false"
    LIST = "list of text"
    MAP = "map of text to text"


class CelVariable(Struct, frozen=True):
    """A variable's type and its description in the reference documentation; ``values`` are all its values, if few."""

    type: CelType
    description: str
    values: tuple[str, ...] = ()


TOPIC_VARIABLES: dict[str, CelVariable] = {
    "topic.name": CelVariable(CelType.STRING, "The topic's name in Kafka."),
    "topic.document": CelVariable(CelType.STRING, "`metadata.name` of its document."),
    "topic.namespace": CelVariable(CelType.STRING, "`metadata.namespace`; empty if there is none."),
    "topic.labels": CelVariable(CelType.MAP, "`metadata.labels`, and the labels of the topic's profiles."),
    "topic.annotations": CelVariable(CelType.MAP, "`metadata.annotations`."),
    "topic.partitions": CelVariable(CelType.INT, "Declared partitions, or the cluster's default."),
    "topic.replicationFactor": CelVariable(
        CelType.INT, "Declared replicas of each partition, or the cluster's default."
    ),
    "topic.config": CelVariable(
        CelType.MAP, "Configs that are set, including the cluster's defaults, as Kafka's text."
    ),
    "topic.observed": CelVariable(CelType.BOOL, "Whether the topic is only reported (`mode: Observe`)."),
    "topic.profiles": CelVariable(CelType.LIST, "Names of the topic's profiles, as in `spec.profiles`."),
    "topic.coPartitionGroup": CelVariable(CelType.STRING, "Its `coPartitionGroup`; empty if it is in none."),
    "topic.keyed": CelVariable(CelType.BOOL, "False if the manifest says `keyed: false`."),
    "cluster.name": CelVariable(
        CelType.STRING, "Name of the `Cluster`; empty for a cluster that is given only by an address option."
    ),
    "cluster.labels": CelVariable(CelType.MAP, "Labels of the `Cluster`."),
    "cluster.kafkaVersion": CelVariable(CelType.STRING, "Its declared release, such as `3.9`; empty if not declared."),
}
"""The variables of rules about topics."""

SHORT_MOVE = "move"
"""A short name of ``MoveReplicas`` in comparisons."""

_KINDS_WITHOUT_SPEC = ReleaseOwnership, Nudge  # no rule applies to a topic without a spec
_USAGE_STATES = tuple(state.value for state in UsageState)

CHANGE_VARIABLES: dict[str, CelVariable] = TOPIC_VARIABLES | {
    "cluster.brokers": CelVariable(CelType.INT, "Brokers that are registered."),
    "change.kind": CelVariable(
        CelType.STRING,
        "`CreateTopic`, `AddPartitions`, `MoveReplicas`, `UpdateConfig`, `ElectLeaders`, `DeleteTopic` or "
        "`TakeOwnership`; in a comparison, `move` is short for `MoveReplicas`.",
        (*(kind.__name__ for kind in get_args(Change) if kind not in _KINDS_WITHOUT_SPEC), SHORT_MOVE),
    ),
    "change.risk": CelVariable(
        CelType.STRING, "`Safe`, `Disruptive` or `DataLoss`.", tuple(risk.label for risk in Risk)
    ),
    "change.explanation": CelVariable(CelType.STRING, "Why the risk is not `Safe`; empty if it is."),
    "change.keys": CelVariable(CelType.LIST, "Config keys that are set, changed or removed."),
    "change.copies": CelVariable(CelType.INT, "Replicas that a move copies; 0 for other changes."),
    "change.movedPartitions": CelVariable(
        CelType.INT, "Partitions that a move gives another list; 0 for other changes."
    ),
    "change.reasons": CelVariable(
        CelType.LIST,
        "Reasons of a move, as in `spec.moves.allow` of the `Cluster`; empty for other changes.",
        tuple(kind.value for kind in MoveKind),
    ),
    "change.before.partitions": CelVariable(CelType.INT, "Partitions on the cluster; 0 if the topic does not exist."),
    "change.before.replicationFactor": CelVariable(
        CelType.INT, "Replicas of partition 0; 0 if the topic does not exist."
    ),
    "change.before.config": CelVariable(CelType.MAP, "Overrides on the cluster, including unmanaged ones."),
    "change.after.partitions": CelVariable(CelType.INT, "Partitions once this change is done; 0 after a deletion."),
    "change.after.replicationFactor": CelVariable(CelType.INT, "Replicas of partition 0 once this change is done."),
    "change.after.config": CelVariable(CelType.MAP, "Overrides once this change is done."),
    "change.bytesLost": CelVariable(
        CelType.INT, "Largest number of bytes, counting one replica, that the change deletes; -1 if unknown."
    ),
    "change.bytesCopied": CelVariable(CelType.INT, "Bytes that the change copies now; -1 if unknown."),
    "topic.usage.known": CelVariable(CelType.BOOL, "Whether the usage of the topic was read."),
    "topic.usage.written": CelVariable(
        CelType.STRING, "`Used`, `NotSeen` or `Unknown`: whether it is written.", _USAGE_STATES
    ),
    "topic.usage.read": CelVariable(
        CelType.STRING, "`Used`, `NotSeen` or `Unknown`: whether a group reads it.", _USAGE_STATES
    ),
    "topic.usage.readers": CelVariable(CelType.INT, "Members of groups that read it now."),
    "topic.usage.groups": CelVariable(CelType.INT, "Groups with members or committed offsets."),
    "topic.usage.daysSinceWritten": CelVariable(CelType.INT, "Days since the last observed write; -1 if none."),
    "topic.usage.daysSinceRead": CelVariable(CelType.INT, "Days since the last observed read by a group; -1 if none."),
    "topic.usage.daysObserved": CelVariable(
        CelType.INT, "Days of observation of writes and reads without a gap; -1 if none."
    ),
    "topic.usage.bytes": CelVariable(CelType.INT, "Bytes of data, counting one replica; -1 if unknown."),
    "topic.usage.bytesPerDay": CelVariable(
        CelType.INT, "Median growth in bytes per day; -1 if observed for less than a day."
    ),
    "topic.usage.empty": CelVariable(CelType.BOOL, "Whether no partition has a record; false if unknown."),
}
"""The variables of rules about changes."""


class RuleSubject(str, Enum):
    """The subject of a rule: a topic's spec or a change of a plan."""

    TOPIC = "Topic"
    CHANGE = "Change"


class Rule(Struct, frozen=True, eq=False):
    """A rule of a policy.

    ``deny`` is true if a violation is refused, false if it is only reported. ``field`` is the path below the spec at
    which issues are located (empty: the topic's name). ``path`` is the path of the rule in its document ``source``.
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
        return f"policy {self.policy}, rule {self.name}"

    @property
    def reason(self) -> Reason:
        return Reason.POLICY_DENIED if self.deny else Reason.POLICY_WARNING

    def locate(self, *path: str) -> Location:
        """Return the location of the rule, or of the field at ``path`` below it."""
        return self.source.locate((*self.path, *path))

    def make_issue(self, spec: TopicSpec) -> Issue:
        """Return the issue for a topic or change that violates the rule.

        For a topic with explicit replica lists, an issue about its size is located at ``replicaAssignment``.
        """
        sized = self.field in (("partitions",), ("replicationFactor",)) and spec.assignment is not None
        return Issue(
            self.reason,
            f"{self.message} ({self.title})",
            ("replicaAssignment",) if sized else self.field,
            cause_origin=ValueOrigin(self.source, self.path),
        )


class Policy(Struct, frozen=True, eq=False):
    """A ``Policy`` manifest; empty parts of its selector match everything."""

    name: str
    namespace: str
    source: Source
    rules: tuple[Rule, ...]
    limits: tuple[Limit, ...] = ()
    topic_patterns: tuple[str, ...] = ()
    topic_labels: Mapping[str, str] = field(default_factory=dict)
    cluster_names: tuple[str, ...] = ()
    cluster_labels: Mapping[str, str] = field(default_factory=dict)

    def applies_to_cluster(self, cluster: ClusterSpec) -> bool:
        named = not self.cluster_names or cluster.name in self.cluster_names
        return named and has_labels(cluster.labels, self.cluster_labels)

    def applies_to_topic(self, spec: TopicSpec) -> bool:
        """Return whether the policy applies to a topic, given that it applies to the topic's cluster."""
        named = not self.topic_patterns or matches_any(spec.topic, self.topic_patterns)
        return named and has_labels(spec.labels, self.topic_labels)
