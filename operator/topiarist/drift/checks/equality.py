"""Fast equality check: decides, without planning, that a topic matches its spec.

Most topics of a fleet match. ``drift.snapshots`` applies the check while it reads a snapshot: matching topics are
counted and dropped, the rest is planned by ``plan_topic``. Results are cached by shared spec and snapshot text, so that
clusters with shared specs need only a few look-ups per topic.

The check returns true only if equality is certain. A condition that is too strict costs time; a condition that is too
lax loses findings. Two texts with the same meaning (0.5 and 0.50) are not equal here. A test compares this module with
plans.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from topiarist.adapters.snapshots.lenient_reader import ReplicaLists, RowRemainder, TopicSize
from topiarist.desired.shared_specs import ClusterTopicSpecs, SpecGroup
from topiarist.drift.checks.cross_cluster import Deviation, SpecGroups, make_deviation_of_size
from topiarist.drift.checks.placement import PlacementChecker
from topiarist.kafka.config_rules import small_segment_message
from topiarist.kafka.types import Replicas
from topiarist.model.moves import MoveKind
from topiarist.model.spec import TopicSpec

_MAX_CACHED_PER_SPEC = 8
"""Cached comparisons per shared spec, on average: where rows differ more, memory would grow with the fleet."""


class _SharedSpec:
    """A spec that clusters share. Caches use the identity of this object as key, not the value of the spec.

    ``group`` is the number of its group in ``SpecGroups``; None if the manifest is for one cluster only: then nothing
    is cached. ``is_open`` is true if topics of several sizes can be equal to the spec.
    """

    __slots__ = ("_deviations", "group", "is_open", "spec")

    def __init__(self, spec: TopicSpec, group: int | None = None) -> None:
        self.spec = spec
        self.group = group
        self.is_open = group is not None and (spec.partitions is None or spec.replication_factor is None)
        self._deviations: dict[TopicSize, Deviation] = {}

    def deviation_of_size(self, size: TopicSize) -> Deviation:
        """Return the deviation of a topic that is equal to the spec and has this size: the same object each time."""
        if size not in self._deviations:
            self._deviations[size] = make_deviation_of_size(self.group or 0, self.spec, *size)
        return self._deviations[size]


class _SpecEquality:
    """The cached comparison of a spec with all of a row but its replica lists.

    ``sizes`` has the result for each size compared so far.
    """

    __slots__ = ("_min_replicas", "_spec", "differs", "has_expected_record", "sizes")

    def __init__(self, spec: TopicSpec, row: Mapping[str, Any], owner: str) -> None:
        self.differs = not _is_equal_except_replicas(spec, row, owner)
        self.has_expected_record = _has_expected_record(spec, row)
        self.sizes: dict[TopicSize, bool] = {}
        self._spec, self._min_replicas = spec, _min_insync_replicas(row)

    def is_equal_with_size(self, size: TopicSize) -> bool:
        """Return whether the topic is equal with this size."""
        if size not in self.sizes:
            spec, factors, min_replicas = self._spec, size.replication_factors, self._min_replicas
            self.sizes[size] = (
                min_replicas is not None
                and size.partitions > 0
                and len(factors) == 1
                and min(factors) >= max(min_replicas, 1)
                and (spec.partitions is None or spec.partitions == size.partitions)
                and (spec.replication_factor is None or factors == {spec.replication_factor})
            )
        return self.sizes[size]


class EqualityIndex:
    """The comparisons of one fleet and one owner, shared by the ``EqualTopics`` of its clusters.

    ``cached_count`` is the number of cached comparisons, at most ``_MAX_CACHED_PER_SPEC`` for each shared spec.
    """

    def __init__(self, owner: str, groups: SpecGroups) -> None:
        self._owner = owner
        self._groups = groups
        self._shared_specs: dict[SpecGroup, dict[str, _SharedSpec]] = {}
        self._equalities: dict[RowRemainder, dict[_SharedSpec, _SpecEquality]] = {}
        self.cached_count = 0
        self._max_cached = 0

    def for_cluster(self, specs: Sequence[TopicSpec]) -> EqualTopics:
        """Return an empty ``EqualTopics`` for one cluster with these specs."""
        if not isinstance(specs, ClusterTopicSpecs):
            return EqualTopics(self, {spec.topic: _SharedSpec(spec) for spec in specs})
        parts = [*map(self.share_specs, specs.groups)]
        if len(parts) == 1:
            return EqualTopics(self, parts[0])
        shared_specs: dict[str, _SharedSpec] = {}
        for part in parts:
            shared_specs.update(part)
        return EqualTopics(self, shared_specs)

    def share_specs(self, group: SpecGroup) -> dict[str, _SharedSpec]:
        """Return the specs of a group by topic: the same objects for each cluster."""
        number = self._groups.number_of(group)
        if number is None:
            return {spec.topic: _SharedSpec(spec) for spec in group.specs}
        if group not in self._shared_specs:
            self._shared_specs[group] = {spec.topic: _SharedSpec(spec, number) for spec in group.specs}
            self._max_cached += _MAX_CACHED_PER_SPEC * len(group.specs)
        return self._shared_specs[group]

    def compare(self, shared_spec: _SharedSpec, rest: RowRemainder) -> _SpecEquality:
        """Return the comparison of a spec with a row; it is cached if other clusters have the spec."""
        equalities = self._equalities.get(rest)
        equality = equalities and equalities.get(shared_spec)
        if equality:
            return equality
        equality = _SpecEquality(shared_spec.spec, rest.row, self._owner)
        if shared_spec.group is not None:
            if self.cached_count >= self._max_cached:
                self._equalities.clear()
                self.cached_count = 0
            self._equalities.setdefault(rest, {})[shared_spec] = equality
            self.cached_count += 1
        return equality


class EqualTopics:
    """The topics of one cluster that are equal to their specs: their names and the counts for the report.

    ``checker`` must be set first, when the brokers of the cluster are known: without it no topic is equal.
    ``deviations`` has the topics with a size that their spec leaves open.
    """

    __slots__ = ("_index", "_shared_specs", "checker", "deviations", "missing_record", "names", "replica_lists")

    def __init__(
        self, index: EqualityIndex | None = None, shared_specs: Mapping[str, _SharedSpec] | None = None
    ) -> None:
        self._index = index or EqualityIndex("", SpecGroups({}))
        self._shared_specs = {} if shared_specs is None else shared_specs
        self.checker: PlacementChecker | None = None
        self.names: set[str] = set()
        self.replica_lists: list[ReplicaLists] = []
        self.deviations: list[Deviation] = []
        self.missing_record = 0

    def add_if_equal(self, topic: str, lists: ReplicaLists, rest: RowRemainder) -> bool:
        """Count the topic and return true if it is equal to its spec; else return false."""
        shared_spec, checker = self._shared_specs.get(topic), self.checker
        if shared_spec is None or checker is None:
            return False
        equality = self._index.compare(shared_spec, rest)
        assignment = shared_spec.spec.assignment
        if equality.differs or not checker.drained.isdisjoint(lists.brokers):
            return False
        if assignment != lists.replicas if assignment is not None else not checker.is_cached_regular(lists):
            return False
        if not (equality.sizes.get(lists.size) or equality.is_equal_with_size(lists.size)):
            return False
        self.names.add(topic)
        self.replica_lists.append(lists)
        if shared_spec.is_open:
            self.deviations.append(shared_spec.deviation_of_size(lists.size))
        self.missing_record += not equality.has_expected_record
        return True

    def group_of(self, topic: str) -> int | None:
        """Return the number of the group of a topic's spec; None if its manifest is for this cluster only."""
        shared_spec = self._shared_specs.get(topic)
        return shared_spec.group if shared_spec else None

    def remaining_specs(self, specs: Sequence[TopicSpec]) -> Sequence[TopicSpec]:
        """Return the specs of topics that are not known to be equal, in their order."""
        if not self.names:
            return specs
        names = sorted(self._shared_specs.keys() - self.names)
        remaining = (self._shared_specs[name].spec for name in names)
        return [*map(specs.for_cluster, remaining)] if isinstance(specs, ClusterTopicSpecs) else [*remaining]

    def replica_holders(self) -> frozenset[int]:
        """Return the ids of the brokers that hold replicas of these topics."""
        return frozenset(chain.from_iterable(each.brokers for each in set(self.replica_lists)))

    def count_replica_lists(self) -> Counter[Replicas]:
        """Return the number of occurrences of each replica list."""
        counts: Counter[Replicas] = Counter()
        for lists, times in Counter(self.replica_lists).items():
            for ids in lists.replicas:
                counts[ids] += times
        return counts


_KINDS_OF_PLACEMENT = frozenset({MoveKind.ASSIGNMENT, MoveKind.DRAIN, MoveKind.RACKS, MoveKind.FACTOR})
"""The kinds of moves that a topic with equal and regular replica lists does not need; only a plan knows of others."""

MIN_ISR = "min.insync.replicas"
_PLAIN_INTEGER = re.compile("[0-9]{1,9}")


def may_be_equal(spec: TopicSpec) -> bool:
    """Return whether topics can be equal to a spec; else a plan must decide."""
    return (
        not spec.absent
        and not spec.ignored_fields
        and spec.allowed_moves <= _KINDS_OF_PLACEMENT
        and not small_segment_message(spec.config)  # a plan reports it also for a topic that matches
    )


def _is_equal_except_replicas(spec: TopicSpec, row: Mapping[str, Any], owner: str) -> bool:
    """Return whether a topic meets all conditions of equality that need no replica lists.

    A plan for an equal topic has no change, refusal or notice about a difference. Missing parts of the ownership record
    are not a difference; another owner in it is.
    """
    return (
        row["readError"] is None
        and not row["deleting"]
        and may_be_equal(spec)
        and row["partitionIds"] is None
        and not row["reassigningPartitions"]
        and not row["reassigning"]
        and spec.config == row["config"]
        and (row["record"] is None or not row["recordValid"] or _has_expected_last_applied(spec, row["record"], owner))
    )


def _has_expected_last_applied(spec: TopicSpec, record: Mapping[str, Any], owner: str) -> bool:
    applied = record.get("applied")
    return record["owner"] == owner and (
        applied is None
        or (
            applied["config"] == spec.config
            and (spec.partitions is None or applied["partitions"] == spec.partitions)
            and applied["removeUnmanaged"] == spec.remove_unmanaged
        )
    )


def _min_insync_replicas(row: Mapping[str, Any]) -> int | None:
    """Return the topic's ``min.insync.replicas``: 0 if not set, None for a text that is not a plain integer."""
    text = row["config"].get(MIN_ISR)
    if text is None:
        return 0
    return int(text) if _PLAIN_INTEGER.fullmatch(text) else None


def _has_expected_record(spec: TopicSpec, row: Mapping[str, Any]) -> bool:
    """Return whether an equal topic has the ownership record that a plan would write.

    The owner is not compared: a valid record of another owner makes a topic unequal before.
    """
    record, keys = row["record"], sorted(spec.config)
    return bool(record and row["recordValid"] and not record["absent"] and list(record["config"]) == keys)
