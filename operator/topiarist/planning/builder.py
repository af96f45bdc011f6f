"""The context of a plan and the builder of one topic plan.

``planner`` makes one ``PlanContext`` for a cluster and one ``TopicPlanBuilder`` for each topic; ``create``, ``diff``
and ``existing_problems`` add changes, refusals and notices to the builder.
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
"""The hint for a manifest of one of Kafka's own topics."""


@dataclass(frozen=True, slots=True)
class PlanContext:
    """The facts that all topics of a plan share.

    ``settings`` are the known broker settings. ``topics_by_metric_name`` has the existing topics by the name that
    Kafka's metrics give them.
    """

    state: ClusterState
    cluster: ClusterSpec
    options: RunOptions
    placer: ReplicaPlacer
    settings: Mapping[str, str]
    topics_by_metric_name: Mapping[str, str] = field(default_factory=dict)

    @property
    def config_rules(self) -> ConfigRules:
        """Return the rules for the configs that the cluster accepts."""
        return self.cluster.config_rules

    @property
    def version(self) -> KafkaVersion:
        """Return the Kafka version that decides which configs may be written.

        It is the declared version, otherwise the minimum version that the cluster shows.
        """
        return self.cluster.version or self.state.min_version

    @property
    def versions_to_check(self) -> tuple[KafkaVersion, ...]:
        """Return the Kafka versions that values are validated for."""
        return self.config_rules.versions_to_check(self.state.min_version)

    def is_protected(self, topic: str) -> bool:
        """Return whether a topic belongs to other software.

        Such a topic gets no growth, no deletion and no change of its cleanup policy.
        """
        return self.cluster.is_protected(topic)


@dataclass(slots=True)
class TopicPlanBuilder:
    """A topic plan under construction."""

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
        """Add a refusal; ``held`` are the changes that it withholds."""
        self.refusals.append(Issue(reason, message, path, instead, tuple(held)))

    def add_notice(self, reason: Reason, message: str, path: tuple[str, ...] = ()) -> None:
        """Add a notice, which withholds no change."""
        self.notices.append(Issue(reason, message, path))

    def refuse_other_owner(self, record: OwnershipRecord) -> None:
        """Refuse the topic because its ownership record names another owner."""
        self.add_refusal(
            Reason.NOT_OWNED,
            f"belongs to owner {record.owner}, this run is {self.context.options.owner}",
            instead=f"leave it to its owner, or run with --take-ownership={self.spec.topic}",
        )

    def has_refusal(self, reason: Reason) -> bool:
        """Return whether the topic has a refusal with this reason."""
        return any(refusal.reason is reason for refusal in self.refusals)


HINT_DECLARE_VERSION = "set kafkaVersion in the Cluster, or give --kafka-version"
"""The hint for a config that an undeclared Kafka version may not know."""


def version_warning(rules: ConfigRules, key: str, min_version: KafkaVersion) -> str:
    """Return why the cluster may not know ``key``; empty if it does.

    The result is also empty if the Kafka version is declared, or if ``key`` is not one of Kafka's. ``min_version`` is
    the minimum version that the cluster shows.
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
    """Return the hint for errors in a complete map of overrides.

    ``manifest_keys`` are the keys of the manifest.
    """
    keys = sorted({fault.key for fault in faults})
    unknown = [key for key in keys if key not in config_table.TOPIC_CONFIGS]
    ways = []
    if unknown:
        patterns = ", ".join(map(quote, unknown))
        ways.append(
            f"if the brokers know {', '.join(unknown)}, set allowUnknownConfigs: [{patterns}] in the Cluster; "
            "if not, delete what they do not know with kafka-configs"
        )
    if in_manifest := [key for key in keys if key in config_table.TOPIC_CONFIGS and key in manifest_keys]:
        ways.append(f"change {', '.join(in_manifest)} in the manifest")
    if outside_manifest := [key for key in keys if key in config_table.TOPIC_CONFIGS and key not in manifest_keys]:
        ways.append(f"give {', '.join(outside_manifest)} in the manifest too, with a value that fits")
    return "; ".join(ways)


def min_replica_count(topic: TopicState) -> int:
    """Return the smallest replica count of a partition; 0 without partitions."""
    return min(map(len, topic.replicas), default=0)
