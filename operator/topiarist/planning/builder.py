"""The context of a plan and the builder of one topic plan.

``planner`` makes one ``PlanContext`` for a cluster and one ``TopicPlanBuilder`` for each topic; ``create``, ``diff``
and ``existing_problems`` add changes, refusals and notices to the builder.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, field

from topiarist.errors import Reason
from topiarist.kafka import config_rules, config_table
from topiarist.kafka.config_rules import DEPRECATED_CONFIGS, ConfigError, ConfigRules
from topiarist.kafka.types import KafkaVersion, count_replicas, format_version
from topiarist.model.outcome import RunOptions
from topiarist.model.plan import Change, Issue, MoveReplicas
from topiarist.model.spec import ClusterSpec, TopicSpec, ValueOrigin
from topiarist.model.state import ClusterState, OwnershipRecord, TopicState
from topiarist.planning.moves.planner import MovePlanner
from topiarist.planning.placement import ReplicaPlacer
from topiarist.text import quote

HINT_PROTECTED_TOPIC = "ask its owner; Cluster.spec.protected lists the names"
HINT_MIN_ISR = "set it to the replica count at most: before Kafka 3.7 every write with acks=all fails otherwise"
HINT_DECLARE_VERSION = "set kafkaVersion in the Cluster, or pass --kafka-version"
HINT_LEAVE_OUT = "leave it out until the brokers are upgraded"


class PlanContext(Struct, frozen=True):
    """The facts that all topics of a plan share.

    ``rules`` are the config rules of the cluster with the facts that it shows, and ``settings`` the known broker
    settings. ``topics_by_metric_name`` has the existing topics by the name that
    Kafka's metrics give them.
    """

    state: ClusterState
    cluster: ClusterSpec
    options: RunOptions
    placer: ReplicaPlacer
    moves: MovePlanner
    rules: ConfigRules
    settings: Mapping[str, str]
    topics_by_metric_name: Mapping[str, str] = field(default_factory=dict)

    @property
    def versions_to_check(self) -> tuple[KafkaVersion, ...]:
        """Return the Kafka versions that values are validated for."""
        return self.rules.versions_to_check(self.state.min_version)

    @property
    def oldest_version(self) -> KafkaVersion:
        """Return the oldest version that the brokers may have."""
        return self.versions_to_check[-1]

    def cluster_origin(self, *path: str) -> ValueOrigin | None:
        """Return the origin of a field below ``spec`` of the Cluster; None if the run has no document of it."""
        return ValueOrigin(self.cluster.source, ("spec", *path)) if self.cluster.source else None

    def find_config_errors(self, config: Mapping[str, str]) -> Sequence[ConfigError]:
        """Return the errors of a complete map of overrides.

        Kafka validates the whole map, unmanaged keys included, so this check does the same.
        """
        return self.rules.find_errors(config, self.versions_to_check, self.settings)

    def is_ignored(self, key: str) -> bool:
        """Return whether the Kafka version of the cluster has dropped a config that a manifest may still have."""
        return self.rules.is_ignored(key, self.state.min_version)


class TopicPlanBuilder(Struct):
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
        hint: str = "",
        withheld: Sequence[Change] = (),
        origin: ValueOrigin | None = None,
    ) -> None:
        """Add a refusal; ``withheld`` are the changes that it withholds, ``origin`` its cause in another document."""
        self.refusals.append(Issue(reason, message, path, hint, tuple(withheld), origin))

    def add_notice(self, reason: Reason, message: str, path: tuple[str, ...] = ()) -> None:
        """Add a notice, which withholds no change."""
        self.notices.append(Issue(reason, message, path))

    def refuse_internal(self, message: str, path: tuple[str, ...] = (), *, withheld: Sequence[Change] = ()) -> None:
        """Refuse a change of a topic that Kafka or topiarist keeps its own data in."""
        self.add_refusal(Reason.INTERNAL_TOPIC, message, path, hint=self.internal_hint, withheld=withheld)

    @property
    def internal_owner(self) -> str:
        """Return the software that keeps its own data in the topic; empty if none does."""
        return self.context.cluster.internal_owner(self.spec.topic)

    @property
    def internal_hint(self) -> str:
        """Return what to do with the manifest of an internal topic; empty for other topics."""
        return f"leave it to {owner}: remove it from the manifests" if (owner := self.internal_owner) else ""

    def refuse_other_owner(self, record: OwnershipRecord) -> None:
        """Refuse the topic because its ownership record names another owner."""
        self.add_refusal(
            Reason.NOT_OWNED,
            f"belongs to owner {record.owner}, this run is {self.context.options.owner}",
            hint=f"leave it to its owner, or pass --take-ownership={self.spec.topic}",
        )

    def refuse_invalid_config(self, config: Mapping[str, str], change: Change) -> bool:
        """Refuse ``change`` if ``config``, all overrides after it, is invalid; return whether it is."""
        # The brokers validate the whole map when they load it, so one invalid key makes them ignore all others.
        errors = self.context.find_config_errors(config)
        if errors:
            message = "the config after the change would be invalid: " + "; ".join(error.message for error in errors)
            hint = config_hint(errors, self.spec.config)
            self.add_refusal(Reason.CONFIG_INVALID, message, ("config",), hint=hint, withheld=(change,))
        return bool(errors)

    def notice_ignored_configs(self) -> None:
        """Add a notice for each config of the spec that the Kafka version of the cluster has dropped."""
        if DEPRECATED_CONFIGS.isdisjoint(self.spec.config):
            return  # only a deprecated config can be dropped
        for key, text in self.spec.config.items():
            if self.context.is_ignored(key):
                message = f"{key} {text}: {config_rules.dropped_message(key)}"
                self.add_notice(Reason.IGNORED, message, ("config", key))

    @property
    def moves_replicas(self) -> bool:
        """Return whether the plan moves replicas of the topic."""
        return any(isinstance(change, MoveReplicas) for change in self.changes)

    def has_refusal(self, reason: Reason) -> bool:
        """Return whether the topic has a refusal with this reason."""
        return any(refusal.reason is reason for refusal in self.refusals)


def version_warning(rules: ConfigRules, key: str, min_version: KafkaVersion) -> str:
    """Return why the cluster may not know ``key``; empty if it does.

    The result is also empty if the Kafka version is declared and the brokers were not asked, if ``key`` is not one of
    Kafka's, or if the cluster ignores it. ``min_version`` is the minimum version that the cluster shows.
    """
    if key not in config_table.TOPIC_CONFIGS or rules.is_ignored(key, min_version):
        return ""
    if rules.known_configs is not None:
        since = format_version(config_table.TOPIC_CONFIGS[key].since)
        return "" if key in rules.known_configs else f"{key}: needs Kafka {since}; the brokers do not have it"
    if rules.version is not None or config_rules.is_supported(key, min_version):
        return ""
    since, seen = format_version(config_table.TOPIC_CONFIGS[key].since), format_version(min_version)
    return f"{key}: needs Kafka {since}; the cluster is certain to have only {seen} or later"


def version_hint(rules: ConfigRules) -> str:
    """Return the hint for a config that the cluster may not know."""
    return HINT_DECLARE_VERSION if rules.known_configs is None else HINT_LEAVE_OUT


def config_hint(errors: Sequence[ConfigError], manifest_keys: Collection[str]) -> str:
    """Return the hint for errors in a complete map of overrides.

    ``manifest_keys`` are the keys of the manifest.
    """
    keys = sorted({error.key for error in errors})
    hints = []
    if unknown := [key for key in keys if key not in config_table.TOPIC_CONFIGS]:
        hints.append(
            f"if the brokers know {', '.join(unknown)}, set allowUnknownConfigs: [{', '.join(map(quote, unknown))}] "
            "in the Cluster; if not, delete the unknown configs with kafka-configs"
        )
    # Two keys may contradict each other and only one be in the manifest: the hint names what its author can change.
    known = [key for key in keys if key in config_table.TOPIC_CONFIGS]
    if in_manifest := [key for key in known if key in manifest_keys]:
        hints.append(f"change {', '.join(in_manifest)} in the manifest")
    if outside_manifest := [key for key in known if key not in manifest_keys]:
        hints.append(f"add {', '.join(outside_manifest)} to the manifest, with a valid value")
    return "; ".join(hints)


def min_replica_count(topic: TopicState) -> int:
    """Return the smallest replica count of a partition; 0 without partitions."""
    return min(map(count_replicas, topic.replicas), default=0)
