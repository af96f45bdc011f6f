"""A topic plan in the making: what a run may do, what all topics of a plan share, and the draft that collects findings.

``plan`` makes one ``Context`` for a cluster and one ``Draft`` a topic; ``differences`` fills the draft field by field.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from topiarist.errors import Reason
from topiarist.kafka import config_rules, config_table
from topiarist.kafka.config_rules import ConfigError, ConfigRules
from topiarist.kafka.types import KafkaVersion, format_version
from topiarist.model.plan import Change, Issue
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState, OwnershipRecord, TopicState
from topiarist.planning.placement import ReplicaPlacer
from topiarist.text import quote

HINT_INTERNAL_TOPIC = "leave it to Kafka: take it out of the manifests"
"""What to do about a manifest for one of Kafka's own topics."""


@dataclass(frozen=True, slots=True)
class PlanContext:
    """What is the same for every topic of a plan. ``settings`` is what is known of the brokers' own settings.

    ``unified`` has the existing topics under the name that Kafka's metrics give them.
    """

    state: ClusterState
    cluster: ClusterSpec
    options: RunOptions
    placer: ReplicaPlacer
    settings: Mapping[str, str]
    topics_by_metric_name: Mapping[str, str] = field(default_factory=dict)

    @property
    def config_rules(self) -> ConfigRules:
        """The configs that the cluster takes."""
        return self.cluster.config_rules

    @property
    def version(self) -> KafkaVersion:
        """The release whose configs may be written: as declared, else what the cluster is known to have at least."""
        return self.cluster.version or self.state.min_version

    @property
    def versions_to_check(self) -> tuple[KafkaVersion, ...]:
        """The releases by which values are judged."""
        return self.config_rules.versions_to_check(self.state.min_version)

    def is_protected(self, topic: str) -> bool:
        """Whether a topic belongs to other software: no growth, deletion or change of cleanup."""
        return self.cluster.is_protected(topic)


@dataclass(slots=True)
class TopicPlanBuilder:
    """A topic plan in the making."""

    spec: TopicSpec
    context: PlanContext
    changes: list[Change] = field(default_factory=list)
    refusals: list[Issue] = field(default_factory=list)
    notices: list[Issue] = field(default_factory=list)

    def add_refusal(
        self,
        reason: Reason,
        message: str,
        path: tuple[str, ...] = (),
        *,
        instead: str = "",
        held: Sequence[Change] = (),
    ) -> None:
        """Add a refusal; ``held`` are the changes that it keeps from being done."""
        self.refusals.append(Issue(reason, message, path, instead, tuple(held)))

    def add_notice(self, reason: Reason, message: str, path: tuple[str, ...] = ()) -> None:
        """Add something that is only said."""
        self.notices.append(Issue(reason, message, path))

    def refuse_other_owner(self, record: OwnershipRecord) -> None:
        """Refuse the topic because its record says that it is somebody else's."""
        self.add_refusal(
            Reason.NOT_OWNED,
            f"belongs to owner {record.owner}, this run is {self.context.options.owner}",
            instead=f"leave it to its owner, or run with --take-ownership={self.spec.topic}",
        )

    def has_refusal(self, reason: Reason) -> bool:
        """Whether something was refused for this reason."""
        return any(refusal.reason is reason for refusal in self.refusals)


HINT_DECLARE_VERSION = "set kafkaVersion in the Cluster, or give --kafka-version"
"""What to do where a config may be unknown to a cluster whose release nobody declared."""


def version_warning(rules: ConfigRules, key: str, min_version: KafkaVersion) -> str:
    """Why ``key`` may be unknown to a cluster whose release nobody declared, and which is certain to be ``min_version``
    one; empty if it is not.
    """
    if (
        rules.version is not None
        or key not in config_table.TOPIC_CONFIGS
        or config_rules.is_supported(key, min_version)
    ):
        return ""
    since, seen = format_version(config_table.TOPIC_CONFIGS[key].since), format_version(min_version)
    return f"{key}: Kafka knows it since {since}; of this cluster only {seen} or later is certain"


def config_hint(faults: Sequence[ConfigError], manifest_keys: Collection[str]) -> str:
    """Return the hint for errors in a map of overrides as it would be written; ``manifest_keys`` are the manifest's."""
    keys = sorted({fault.key for fault in faults})
    unknown = [key for key in keys if key not in config_table.TOPIC_CONFIGS]
    ways = []
    if unknown:
        patterns = ", ".join(map(quote, unknown))
        ways.append(
            f"if the brokers know {', '.join(unknown)}, set allowUnknownConfigs: [{patterns}] in the Cluster; "
            "if not, delete what they do not know with kafka-configs"
        )
    if mine := [key for key in keys if key in config_table.TOPIC_CONFIGS and key in manifest_keys]:
        ways.append(f"change {', '.join(mine)} in the manifest")
    if others := [key for key in keys if key in config_table.TOPIC_CONFIGS and key not in manifest_keys]:
        ways.append(f"give {', '.join(others)} in the manifest too, with a value that fits")
    return "; ".join(ways)


def min_replica_count(topic: TopicState) -> int:
    """Replicas of the partition that has the fewest; 0 if there is no partition."""
    return min(map(len, topic.replicas), default=0)
