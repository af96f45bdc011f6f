"""Fast equality check: decides, without planning, that a topic matches its spec.

Most topics of a fleet match. ``drift.snapshots`` applies the check while it reads a snapshot: matching topics are
counted and dropped, the rest is planned by ``plan_topic``. Results are cached by spec and snapshot text, so that
clusters with shared specs need only a few look-ups per topic.

The check returns true only if equality is certain. A condition that is too strict costs time; a condition that is too
lax loses findings. Two texts with the same meaning (0.5 and 0.50) are not equal here. ``drift.spark.equality``
has the same conditions for Spark. One test holds both modules to the same result on every row; another test compares
this module with plans.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from topiarist.adapters.snapshots.caching_reader import ReplicaLists, RowRemainder, TopicSize
from topiarist.desired.shared_specs import ClusterTopicSpecs
from topiarist.drift.cross_cluster import TopicVariant, make_variant_of_size
from topiarist.drift.placement import PlacementChecker
from topiarist.kafka.types import Replicas
from topiarist.model.moves import MoveKind
from topiarist.model.spec import TopicSpec


class _SharedSpec:
    """A spec that clusters share. Caches use the identity of this object as key, not the value of the spec."""

    __slots__ = ("spec",)

    def __init__(self, spec: TopicSpec) -> None:
        self.spec = spec


class _SpecEquality:
    """The cached comparison of a spec with all of a row but its replica lists.

    ``variants`` maps each size compared so far to the topic's variant, or to None if the size differs.
    """

    __slots__ = ("_min_replicas", "_spec", "differs", "has_expected_record", "variants")

    def __init__(self, spec: TopicSpec, row: Mapping[str, Any], owner: str) -> None:
        self.differs = not _is_equal_except_replicas(spec, row, owner)
        self.has_expected_record = _has_expected_record(spec, row)
        self.variants: dict[TopicSize, TopicVariant | None] = {}
        self._spec, self._min_replicas = spec, _min_insync_replicas(row)

    def variant_of_size(self, size: TopicSize) -> TopicVariant | None:
        """Return the variant for cross-cluster comparison if the topic is equal with this size; else None."""
        if size not in self.variants:
            spec, factors, min_replicas = self._spec, size.replication_factors, self._min_replicas
            is_equal = (
                min_replicas is not None
                and size.partitions > 0
                and len(factors) == 1
                and min(factors) >= max(min_replicas, 1)
                and (spec.partitions is None or spec.partitions == size.partitions)
                and (spec.replication_factor is None or factors == {spec.replication_factor})
            )
            self.variants[size] = make_variant_of_size(spec, *size) if is_equal else None
        return self.variants[size]


class EqualityIndex:
    """A factory of ``EqualTopics`` for the clusters of one fleet and one owner."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._shared_specs: dict[int, tuple[Sequence[TopicSpec], dict[str, _SharedSpec]]] = {}

    def for_cluster(self, specs: Sequence[TopicSpec]) -> EqualTopics:
        """Return an empty ``EqualTopics`` for one cluster with these specs."""
        shared = specs.shared_specs if isinstance(specs, ClusterTopicSpecs) else tuple(specs)
        # The entry keeps the specs alive, so that no other object can get the same id().
        specs_by_topic = self._shared_specs.setdefault(id(shared), (shared, {}))[1]
        if not specs_by_topic:
            specs_by_topic.update((spec.topic, _SharedSpec(spec)) for spec in shared)
        return EqualTopics(self.owner, specs_by_topic)


class EqualTopics:
    """The topics of one cluster that are equal to their specs: their names and the counts for the report.

    ``checker`` must be set first, when the brokers of the cluster are known: without it no topic is equal.
    """

    __slots__ = ("_owner", "_shared_specs", "checker", "missing_record", "names", "replica_lists", "variants")

    def __init__(self, owner: str = "", shared_specs: Mapping[str, _SharedSpec] | None = None) -> None:
        self._owner = owner
        self._shared_specs = {} if shared_specs is None else shared_specs
        self.checker: PlacementChecker | None = None
        self.names: set[str] = set()
        self.replica_lists: list[ReplicaLists] = []
        self.variants: list[TopicVariant] = []
        self.missing_record = 0

    def add_if_equal(self, topic: str, lists: ReplicaLists, rest: RowRemainder) -> bool:
        """Count the topic and return true if it is equal to its spec; else return false."""
        shared_spec, checker = self._shared_specs.get(topic), self.checker
        if shared_spec is None or checker is None:
            return False
        equality: _SpecEquality | None = rest.cache.get(shared_spec)
        if equality is None:
            equality = rest.cache[shared_spec] = _SpecEquality(shared_spec.spec, rest.row, self._owner)
        assignment = shared_spec.spec.assignment
        if equality.differs or not checker.drained.isdisjoint(lists.brokers):
            return False
        if assignment != lists.replicas if assignment is not None else not checker.is_cached_regular(lists):
            return False
        variant = equality.variants.get(lists.size) or equality.variant_of_size(lists.size)
        if variant is None:
            return False
        self.names.add(topic)
        self.replica_lists.append(lists)
        self.variants.append(variant)
        self.missing_record += not equality.has_expected_record
        return True

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
    return not spec.absent and not spec.ignored_fields and spec.allowed_moves <= _KINDS_OF_PLACEMENT


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
