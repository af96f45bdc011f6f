"""Lists the topics of a cluster: a row for each, with its size, owner, manifest, configs and the state it is in.

A row is made from what ``describe`` shows of one topic, but without a plan: ten thousand rows need one bulk read and
the states of the partitions. ``cli.commands.list`` reads and filters, ``output.text.list`` and ``output.json.list``
show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from topiarist.inspection.partition_health import IssueType, Partition, build_partitions
from topiarist.inspection.topic_phase import count_issues
from topiarist.kafka import config_rules, config_values
from topiarist.kafka.names import INTERNAL_TOPICS, matches_any
from topiarist.model.spec import ClusterSpec, TopicSpec, has_labels
from topiarist.model.state import ClusterState, TopicInspection, TopicState


class TopicFlag(str, Enum):
    """A state of a topic as a whole, beside the conditions of its partitions."""

    MISSING = "Missing"
    UNREADABLE = "Unreadable"
    MARKED_FOR_DELETION = "MarkedForDeletion"
    UNEQUAL_REPLICAS = "UnequalReplicas"
    UNKNOWN = "Unknown"
    HEALTHY = "Well"
    UNOWNED = "Unowned"
    UNDECLARED = "Undeclared"


STATE_NAMES = tuple(dict.fromkeys([*(mark.value for mark in TopicFlag), *(condition.value for condition in IssueType)]))
"""The words that a state of a row may have: ``Unreadable`` is one of a topic and of a partition."""

_NOT_HEALTH = frozenset({TopicFlag.UNOWNED, TopicFlag.UNDECLARED})
"""Marks that say nothing about how well a topic is."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic of a list.

    ``partitions`` is None where there is no topic, or none that can be read. ``widths`` has the number of partitions by
    their number of replicas, without those that a reassignment only adds. ``owner`` is that of a valid record, empty if
    there is none. ``config`` are the overrides that differ from the brokers' settings as far as these are known.
    ``marks`` and ``conditions`` (how many partitions are in each) say how well the topic is; ``known`` is whether the
    states of its partitions are.
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

    @property
    def states(self) -> frozenset[str]:
        """The words of all marks and conditions."""
        return frozenset({mark.value for mark in self.flags} | {condition.value for condition in self.issues})


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Chooses rows: by glob patterns of names, owners, labels of the manifest, and states.

    A row has to fit one of each kind that is given, and all of the labels.
    """

    patterns: tuple[str, ...] = ()
    owners: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    states: frozenset[str] = frozenset()

    def matches_name(self, topic: str) -> bool:
        """Return whether the name of a topic fits, which is known before anything else is."""
        return not self.patterns or matches_any(topic, self.patterns)

    def matches(self, row: TopicRow) -> bool:
        """Return whether a row fits."""
        return (
            self.matches_name(row.topic)
            and (not self.owners or row.owner in self.owners)
            and (not self.labels or (row.spec is not None and has_labels(row.spec.manifest.labels, self.labels)))
            and (not self.states or not self.states.isdisjoint(row.states))
        )


def build_rows(
    state: ClusterState,
    cluster: ClusterSpec,
    specs: Iterable[TopicSpec] | None,
    inspections: Mapping[str, TopicInspection],
    names: Collection[str],
) -> Iterator[TopicRow]:
    """Yield a row for each of ``names`` that the cluster has or a manifest wants, in order of name.

    ``specs`` is None if no manifests were given: then no topic is undeclared. A topic that is not among
    ``inspections`` has partitions of unknown state.
    """
    wanted = {spec.topic: spec for spec in specs or ()}
    settings = cluster.config_rules.merge_dynamic_settings(state.broker_defaults)
    for name in sorted(names):
        spec, topic = wanted.get(name), state.topics.get(name)
        undeclared = (
            specs is not None and spec is None and not cluster.is_protected(name) and name not in INTERNAL_TOPICS
        )
        if topic is None and name not in state.topic_errors:
            if spec and not spec.absent:
                yield TopicRow(name, spec, flags=(TopicFlag.MISSING,))
            continue
        found = inspections.get(name)
        listed = build_partitions(state, name, found) if topic else ()
        row = _build_row(state, name, listed, settings, states_known=found is not None and found.states_readable)
        yield _add_manifest(row, spec, undeclared=undeclared)


def all_topic_names(state: ClusterState, specs: Iterable[TopicSpec] | None) -> frozenset[str]:
    """Return the names that a list may have: topics of the cluster, readable or not, and of the manifests."""
    return frozenset((*state.topics, *state.topic_errors, *(spec.topic for spec in specs or ())))


def _build_row(
    state: ClusterState,
    name: str,
    partitions: tuple[Partition, ...],
    settings: Mapping[str, str],
    *,
    states_known: bool,
) -> TopicRow:
    """Return the row of a topic of the cluster, without what manifests have to do with it."""
    topic = state.topics.get(name)
    record = topic.valid_record if topic else state.dangling_records.get(name)
    owner = record.owner if record and not record.deleted else ""
    found = {
        TopicFlag.UNREADABLE: topic is None,
        TopicFlag.MARKED_FOR_DELETION: name in state.pending_deletions,
        TopicFlag.UNEQUAL_REPLICAS: len(_replication_factors(partitions)) > 1,
        TopicFlag.UNOWNED: not owner,
    }
    return TopicRow(
        topic=name,
        partitions=len(topic.replicas) if topic else None,
        partitions_by_replicas=Counter(one.replica_count for one in partitions if one.listed),
        owner=owner,
        config=_effective_overrides(topic, settings) if topic else {},
        flags=tuple(mark for mark, holds in found.items() if holds),
        issues=count_issues(partitions),
        states_known=states_known,
    )


def _add_manifest(row: TopicRow, spec: TopicSpec | None, *, undeclared: bool) -> TopicRow:
    """Return a row with its manifest, and with the mark that nothing is wrong with the topic if nothing is."""
    marks = (*row.flags, TopicFlag.UNDECLARED) if undeclared else row.flags
    if not row.issues and _NOT_HEALTH.issuperset(marks):
        marks = (TopicFlag.HEALTHY if row.states_known else TopicFlag.UNKNOWN, *marks)
    return replace(row, spec=spec, flags=marks)


def _replication_factors(partitions: Iterable[Partition]) -> frozenset[int]:
    """Return the numbers of replicas of partitions that are not being moved and have any."""
    return frozenset(
        one.replica_count
        for one in partitions
        if one.listed and one.replicas and not one.has_issue(IssueType.REASSIGNING)
    )


def _effective_overrides(topic: TopicState, settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return the overrides of a topic that are not what the brokers would use anyway, by key."""
    found = {}
    for key, text in sorted(topic.config.items()):
        default = config_rules.server_default(key, settings)
        if default is None or not config_values.is_equivalent(key, text, default):
            found[key] = text
    return found


class TopicList(NamedTuple):
    """The rows of one cluster. ``present`` counts all its topics, chosen or not; ``declared``: manifests were given."""

    cluster: ClusterSpec
    state: ClusterState
    rows: tuple[TopicRow, ...]
    topic_count: int
    manifests_given: bool
