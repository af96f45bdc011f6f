"""Lists the topics of a cluster: size, owner, manifest, configs and state of each topic.

A row has a part of the data that ``describe`` shows, without a plan: ten thousand rows need one bulk read and the
states of the partitions. ``cli.commands.list`` reads and filters; ``output.list`` prints the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from topiarist.inspection.health import IssueType, build_partitions, count_issues
from topiarist.kafka import config_rules, config_values
from topiarist.kafka.types import KafkaVersion, matches_any
from topiarist.model.spec import ClusterSpec, TopicSpec, has_labels
from topiarist.model.state import ClusterState, TopicInspection, describe_malformed_partitions
from topiarist.model.usage import TopicUsage
from topiarist.usage import is_dormant


class TopicFlag(str, Enum):
    """A state of a topic as a whole, unlike an issue of a partition."""

    MISSING = "Missing"
    UNREADABLE = "Unreadable"
    MARKED_FOR_DELETION = "MarkedForDeletion"
    UNEQUAL_REPLICAS = "UnequalReplicas"
    MALFORMED_PARTITIONS = "MalformedPartitions"
    UNKNOWN = "Unknown"
    HEALTHY = "Well"
    UNOWNED = "Unowned"
    UNDECLARED = "Undeclared"
    DORMANT = "Dormant"


STATE_NAMES = tuple(dict.fromkeys([*(mark.value for mark in TopicFlag), *(condition.value for condition in IssueType)]))
"""The names of all states of a row.

``Unreadable`` is a state of topics and of partitions.
"""

_NOT_HEALTH = frozenset({TopicFlag.UNOWNED, TopicFlag.UNDECLARED, TopicFlag.DORMANT})
"""Flags that are independent of the topic's health."""


class TopicRow(Struct, frozen=True):
    """A topic of a list.

    ``partitions`` is None if the topic does not exist or cannot be read. ``partitions_by_replicas`` has the number of
    partitions by their number of replicas, without replicas that a reassignment adds. ``owner`` is that of a valid
    ownership record, empty if there is none. ``config`` are the overrides that differ from the known broker settings.
    ``flags`` and ``issues`` (the number of partitions by issue) show the health of the topic; ``states_known`` is true
    if the states of its partitions are known. ``usage`` is None if it is not known.
    """

    topic: str
    spec: TopicSpec | None = None
    partitions: int | None = None
    partitions_by_replicas: Mapping[int, int] = field(default_factory=dict)
    owner: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[TopicFlag, ...] = ()
    issues: Mapping[IssueType, int] = field(default_factory=dict)
    states_known: bool = False
    usage: TopicUsage | None = None

    @property
    def states(self) -> frozenset[str]:
        """Return the names of all flags and issues."""
        return frozenset({flag.value for flag in self.flags} | {issue.value for issue in self.issues})


class _KnownSettings(NamedTuple):
    """The broker settings that are known, and the oldest version that the brokers may have."""

    settings: Mapping[str, str]
    oldest: KafkaVersion


class RowFilter(Struct, frozen=True):
    """A filter of rows by name patterns, owners, manifest labels, and states.

    A row must match one value of each kind that is given, and all labels. ``dormant_for`` is the time without use in
    seconds after which a topic is dormant; None: that of the cluster.
    """

    patterns: tuple[str, ...] = ()
    owners: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    states: frozenset[str] = frozenset()
    dormant_for: int | None = None

    def matches_name(self, topic: str) -> bool:
        """Return whether a topic name matches, which needs no other data."""
        return not self.patterns or matches_any(topic, self.patterns)

    def matches(self, row: TopicRow) -> bool:
        """Return whether a row matches."""
        return (
            self.matches_name(row.topic)
            and (not self.owners or row.owner in self.owners)
            and (not self.labels or (row.spec is not None and has_labels(row.spec.labels, self.labels)))
            and (not self.states or not self.states.isdisjoint(row.states))
        )


def build_rows(
    state: ClusterState,
    cluster: ClusterSpec,
    specs: Iterable[TopicSpec] | None,
    inspections: Mapping[str, TopicInspection],
    names: Collection[str],
    dormant_for: int | None = None,
) -> Iterator[TopicRow]:
    """Yield a row for each of ``names``, sorted by name.

    Names that neither the cluster nor a manifest has are left out. ``specs`` is None if no manifests were given: then
    no topic is undeclared. A topic that is not among ``inspections`` has partitions of unknown state.
    """
    specs_by_topic = {spec.topic: spec for spec in specs or ()}
    rules = cluster.config_rules.for_cluster(state.mode, state.known_configs)
    known = _KnownSettings(rules.merge_dynamic_settings(state.broker_defaults), rules.oldest_version(state.min_version))
    for name in sorted(names):
        spec = specs_by_topic.get(name)
        if name in state.topics or name in state.topic_errors:
            # Protected and internal topics need no manifest.
            internal_owner = cluster.internal_owner(name)
            needs_manifest = not cluster.is_protected(name) and not internal_owner
            undeclared = specs is not None and spec is None and needs_manifest
            row = _build_row(state, name, spec, inspections.get(name), known, undeclared=undeclared)
            if internal_owner == "topiarist":  # the topic of the records needs no record itself
                row = replace(row, flags=tuple(flag for flag in row.flags if flag is not TopicFlag.UNOWNED))
            yield _add_usage(row, state, cluster.evidence.window if dormant_for is None else dormant_for)
        elif spec and not spec.absent:
            yield TopicRow(name, spec, flags=(TopicFlag.MISSING,))


def _add_usage(row: TopicRow, state: ClusterState, window: int) -> TopicRow:
    usage = state.usage.get(row.topic)
    if usage is None or state.evidence is None:
        return row
    is_unused = is_dormant(usage, state.evidence.read_at, window)
    return replace(row, usage=usage, flags=(*row.flags, TopicFlag.DORMANT) if is_unused else row.flags)


def all_topic_names(state: ClusterState, specs: Iterable[TopicSpec] | None) -> frozenset[str]:
    """Return all names that a list may have.

    These are the topics of the cluster, readable or not, and of the manifests.
    """
    return frozenset((*state.topics, *state.topic_errors, *(spec.topic for spec in specs or ())))


def _build_row(
    state: ClusterState,
    name: str,
    spec: TopicSpec | None,
    inspection: TopicInspection | None,
    known: _KnownSettings,
    *,
    undeclared: bool,
) -> TopicRow:
    """Return the row of a topic that the cluster has, readable or not."""
    topic = state.topics.get(name)
    partitions = build_partitions(state, name, inspection, known.oldest) if topic else ()
    states_known = inspection is not None and inspection.states_readable
    record = topic.valid_record if topic else state.dangling_records.get(name)
    owner = record.owner if record and not record.deleted else ""
    # Partitions under reassignment have a temporary number of replicas.
    replica_counts = {
        partition.replica_count
        for partition in partitions
        if partition.listed and partition.replicas and not partition.has_issue(IssueType.REASSIGNING)
    }
    is_set = {
        TopicFlag.UNREADABLE: topic is None,
        TopicFlag.MARKED_FOR_DELETION: name in state.pending_deletions,
        TopicFlag.UNEQUAL_REPLICAS: len(replica_counts) > 1,
        TopicFlag.MALFORMED_PARTITIONS: topic is not None and bool(describe_malformed_partitions(topic)),
        TopicFlag.UNOWNED: not owner,
        TopicFlag.UNDECLARED: undeclared,
    }
    flags = [flag for flag, value in is_set.items() if value]
    issues = count_issues(partitions)
    if not issues and _NOT_HEALTH.issuperset(flags):
        flags.insert(0, TopicFlag.HEALTHY if states_known else TopicFlag.UNKNOWN)
    overrides = {}
    for key, text in sorted(topic.config.items()) if topic else ():
        default = config_rules.server_default(key, known.settings)
        if default is None or not config_values.is_equivalent(key, text, default):
            overrides[key] = text
    return TopicRow(
        topic=name,
        spec=spec,
        partitions=len(topic.replicas) if topic else None,
        partitions_by_replicas=Counter(partition.replica_count for partition in partitions if partition.listed),
        owner=owner,
        config=overrides,
        flags=tuple(flags),
        issues=issues,
        states_known=states_known,
    )


class TopicList(NamedTuple):
    """The rows of one cluster.

    ``topic_count`` counts all topics of the cluster, also those that a filter removed.
    """

    cluster: ClusterSpec
    state: ClusterState
    rows: tuple[TopicRow, ...]
    topic_count: int
    manifests_given: bool
