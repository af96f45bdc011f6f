"""Fast equality check: decides, without planning, that a topic matches its spec.

Most topics of a fleet match. ``drift.snapshots`` applies the check while it reads a snapshot: matching topics are
counted and dropped, the rest is planned by ``plan_topic``. Results are cached by shared spec and snapshot text, so that
clusters with shared specs need only a few look-ups per topic.

The planner's own functions decide what is equal: ``COMPARED_FIELDS`` of ``planning.diff``, ``may_have_problems`` and
``is_recorded``. This module calls them once for parts that many topics share, and returns true only if equality is
certain. A condition that is too strict costs time; a condition that is too lax loses findings. Two texts with the same
meaning (0.5 and 0.50) are not equal here. A test compares this module with plans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain

from topiarist.adapters.own_values import record_of
from topiarist.adapters.snapshots.lenient_reader import ReplicaLists, RowRemainder, TopicSize
from topiarist.desired.shared_specs import ClusterTopicSpecs, SpecGroup
from topiarist.drift.cross_cluster import Deviation, SpecGroups, make_deviation_of_size
from topiarist.drift.placement import PlacementChecker
from topiarist.kafka.types import Replicas
from topiarist.model.moves import MoveKind
from topiarist.model.plan import is_recorded
from topiarist.model.spec import TopicSpec
from topiarist.model.state import OwnershipRecord
from topiarist.planning.builder import may_have_problems
from topiarist.planning.diff import TopicPart, is_part_equal

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

    __slots__ = ("_config", "_spec", "differs", "has_record", "sizes")

    def __init__(self, spec: TopicSpec, rest: RowRemainder, owner: str) -> None:
        record = _find_valid_record(rest)
        self.differs = not _is_equal_except_replicas(spec, rest, record, owner)
        self.has_record = record is not None
        self.sizes: dict[TopicSize, bool] = {}
        self._spec, self._config = spec, rest.row["config"]

    def is_equal_with_size(self, size: TopicSize) -> bool:
        """Return whether the topic is equal with this size."""
        if size not in self.sizes:
            is_equal = is_part_equal(self._spec, TopicPart.SIZE, size)
            self.sizes[size] = is_equal and not may_have_problems(self._config, size.replication_factors)
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
        shared_specs = self._shared_specs.get(group)
        if shared_specs is None:
            number = self._groups.number_of(group)
            shared_specs = {spec.topic: _SharedSpec(spec, number) for spec in group.specs}
            if number is not None:
                self._shared_specs[group] = shared_specs
                self._max_cached += _MAX_CACHED_PER_SPEC * len(group.specs)
        return shared_specs

    def compare(self, shared_spec: _SharedSpec, rest: RowRemainder) -> _SpecEquality:
        """Return the comparison of a spec with a row; it is cached if other clusters have the spec."""
        equalities = self._equalities.get(rest)
        equality = equalities and equalities.get(shared_spec)
        if equality:
            return equality
        equality = _SpecEquality(shared_spec.spec, rest, self._owner)
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
        spec = shared_spec.spec
        if equality.differs or not checker.drained.isdisjoint(lists.brokers):
            return False
        if not is_part_equal(spec, TopicPart.REPLICAS, lists.replicas):
            return False
        if spec.assignment is None and not checker.is_cached_regular(lists):
            return False
        if not (equality.sizes.get(lists.size) or equality.is_equal_with_size(lists.size)):
            return False
        self.names.add(topic)
        self.replica_lists.append(lists)
        if shared_spec.is_open:
            self.deviations.append(shared_spec.deviation_of_size(lists.size))
        self.missing_record += not equality.has_record
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

_MAX_CACHED_RECORDS = 1 << 12


def may_be_equal(spec: TopicSpec) -> bool:
    """Return whether topics can be equal to a spec; else a plan must decide."""
    return not spec.absent and not spec.ignored_fields and spec.allowed_moves <= _KINDS_OF_PLACEMENT


@lru_cache(_MAX_CACHED_RECORDS)
def _find_valid_record(rest: RowRemainder) -> OwnershipRecord | None:
    """Return the valid ownership record of a row; rows share their remainder, so that few are decoded."""
    record = rest.row["record"]
    return record_of(record) if record is not None and rest.row["recordValid"] else None


def _is_equal_except_replicas(spec: TopicSpec, rest: RowRemainder, record: OwnershipRecord | None, owner: str) -> bool:
    """Return whether a topic meets all conditions of equality that need no replica lists.

    A plan for an equal topic has no change, refusal or notice about a difference. A missing ownership record is not a
    difference; a record that says something else is for a plan.
    """
    row = rest.row
    return (
        row["readError"] is None
        and not row["deleting"]
        and may_be_equal(spec)
        and row["partitionIds"] is None
        and not row["reassigningPartitions"]
        and not row["reassigning"]
        and is_part_equal(spec, TopicPart.CONFIG, row["config"])
        and (record is None or is_recorded(record, owner, spec, row["config"], spec.partitions))
    )
