"""The topics of a cluster that are equal to their specs as stored: counted while its snapshot is read, and dropped.

They are nearly all. What is found of one spec and one text of a snapshot is known on every cluster that shares the
spec, so that most topics cost a few look-ups.

What can be told of a topic and its spec without a plan: that they are equal as stored, so that no plan has a word.

Only what is certain: whatever is not equal here goes to ``plan_topic``, which decides. A condition that is too strict
costs time, one that is too lax would lose findings. Two texts that mean the same (``0.5`` and ``0.50``) are not equal
here. ``sameness`` says the same to Spark, condition by condition, and a test holds the two to the same verdict on every
row; another holds this one to what plans say.
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
from topiarist.kafka.types import Replicas
from topiarist.model.spec import TopicSpec


class _SharedSpec:
    """A spec that clusters share; what else is found of it is kept by the object, not by its value."""

    __slots__ = ("spec",)

    def __init__(self, spec: TopicSpec) -> None:
        self.spec = spec


class _SpecEquality:
    """What is known of a spec and all of a topic but its replicas; ``sizes`` has what is equal of those seen so far."""

    __slots__ = ("_min_replicas", "_spec", "differs", "has_expected_record", "variants")

    def __init__(self, spec: TopicSpec, rest: RowRemainder, owner: str) -> None:
        self.differs = not is_equal_except_replicas(spec, rest.row, owner)
        self.has_expected_record = has_expected_record(spec, rest.row)
        self.variants: dict[TopicSize, TopicVariant | None] = {}
        self._spec, self._min_replicas = spec, min_insync_replicas(rest.row)

    def variant_of_size(self, size: TopicSize) -> TopicVariant | None:
        """The topic as it is compared between clusters, if it is equal with this size; else None."""
        if size not in self.variants:
            same = has_equal_size(self._spec, size, self._min_replicas)
            self.variants[size] = (
                make_variant_of_size(self._spec, size.partitions, size.replication_factors) if same else None
            )
        return self.variants[size]


class EqualityIndex:
    """Settles topics for the clusters of one fleet and one owner."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._shared_specs: dict[int, tuple[Sequence[TopicSpec], dict[str, _SharedSpec]]] = {}

    def for_cluster(self, specs: Sequence[TopicSpec]) -> EqualTopics:
        """For one cluster, of which nothing is known yet."""
        shared = specs.shared_specs if isinstance(specs, ClusterTopicSpecs) else tuple(specs)
        # Kept beside what is made of them, so that no others can have their number.
        known = self._shared_specs.setdefault(id(shared), (shared, {}))[1]
        if not known:
            known.update((spec.topic, _SharedSpec(spec)) for spec in shared)
        return EqualTopics(self.owner, known)


class EqualTopics:
    """The topics of one cluster that are equal as stored: their names, and what a report counts of them."""

    __slots__ = ("_owner", "_shared_specs", "missing_record", "names", "replica_lists", "variants")

    def __init__(self, owner: str = "", shared_specs: Mapping[str, _SharedSpec] | None = None) -> None:
        self._owner = owner
        self._shared_specs = {} if shared_specs is None else shared_specs
        self.names: set[str] = set()
        self.replica_lists: list[ReplicaLists] = []
        self.variants: list[TopicVariant] = []
        self.missing_record = 0

    def add_if_equal(self, topic: str, lists: ReplicaLists, rest: RowRemainder) -> bool:
        """Whether a topic is equal to its spec as stored: it is counted then."""
        wanted = self._shared_specs.get(topic)
        if wanted is None:
            return False
        verdict: _SpecEquality | None = rest.cache.get(wanted)
        if verdict is None:
            verdict = rest.cache[wanted] = _SpecEquality(wanted.spec, rest, self._owner)
        if verdict.differs or not (found := verdict.variants.get(lists.size) or verdict.variant_of_size(lists.size)):
            return False
        if wanted.spec.assignment is not None and not has_equal_assignment(wanted.spec, lists):
            return False
        self.names.add(topic)
        self.replica_lists.append(lists)
        self.variants.append(found)
        self.missing_record += not verdict.has_expected_record
        return True

    def remaining_specs(self, specs: Sequence[TopicSpec]) -> Sequence[TopicSpec]:
        """Those of the specs whose topics are not settled, in their order."""
        if not self.names:
            return specs
        names = sorted(self._shared_specs.keys() - self.names)
        left = (self._shared_specs[name].spec for name in names)
        return [*map(specs.for_cluster, left)] if isinstance(specs, ClusterTopicSpecs) else [*left]

    def replica_holders(self) -> frozenset[int]:
        """The brokers that hold any of these topics."""
        return frozenset(chain.from_iterable(each.brokers for each in set(self.replica_lists)))

    def count_replica_lists(self) -> Counter[Replicas]:
        """How often each replica list occurs."""
        found: Counter[Replicas] = Counter()
        for lists, times in Counter(self.replica_lists).items():
            for ids in lists.replicas:
                found[ids] += times
        return found


_MIN_ISR = "min.insync.replicas"
_PLAIN_INTEGER = re.compile("[0-9]{1,9}")


def is_equal_to_spec(spec: TopicSpec, row: Mapping[str, Any], lists: ReplicaLists, owner: str) -> bool:
    """Whether the plan of a topic of which ``row`` and ``lists`` are has neither change nor refusal nor notice about a
    difference.

    What its record lacks is no difference, but that it is somebody else's is.
    """
    return (
        is_equal_except_replicas(spec, row, owner)
        and has_equal_size(spec, lists.size, min_insync_replicas(row))
        and has_equal_assignment(spec, lists)
    )


def is_equal_except_replicas(spec: TopicSpec, row: Mapping[str, Any], owner: str) -> bool:
    """What of ``equal`` the replica lists have no part in."""
    return (
        row["fault"] is None
        and not row["deleting"]
        and not spec.absent
        and not spec.ignored_fields
        and row["partitionIds"] is None
        and not row["movingPartitions"]
        and spec.config == row["config"]
        and (row["record"] is None or not row["recordValid"] or _has_expected_last_applied(spec, row["record"], owner))
    )


def _has_expected_last_applied(spec: TopicSpec, record: Mapping[str, Any], owner: str) -> bool:
    """Whether a record is ours, and remembers what the spec asks for, in the same words, or nothing."""
    applied = record.get("applied")
    return record["owner"] == owner and (
        applied is None
        or (
            applied["config"] == spec.config
            and (spec.partitions is None or applied["partitions"] == spec.partitions)
            and applied["removeUnmanaged"] == spec.remove_unmanaged
        )
    )


def has_equal_size(spec: TopicSpec, size: TopicSize, min_replicas: int | None) -> bool:
    """What of ``equal`` the numbers of partitions and replicas decide; each partition must have ``min_replicas`` of
    these.
    """
    return (
        min_replicas is not None
        and size.partitions > 0
        and min(size.replication_factors) >= max(min_replicas, 1)
        and (spec.partitions is None or spec.partitions == size.partitions)
        and len(size.replication_factors) == 1
        and (spec.replication_factor is None or size.replication_factors == {spec.replication_factor})
    )


def has_equal_assignment(spec: TopicSpec, lists: ReplicaLists) -> bool:
    """What of ``equal`` explicit replica lists decide."""
    return spec.assignment is None or spec.assignment == lists.replicas


def min_insync_replicas(row: Mapping[str, Any]) -> int | None:
    """The in-sync replicas that a topic wants (0: it does not say); None for a text of another form than usual."""
    text = row["config"].get(_MIN_ISR)
    if text is None:
        return 0
    return int(text) if _PLAIN_INTEGER.fullmatch(text) else None


def has_expected_record(spec: TopicSpec, row: Mapping[str, Any]) -> bool:
    """Whether an equal topic has the record that a plan would leave there; a valid one is not another owner's."""
    record = row["record"]
    return bool(
        record and row["recordValid"] and not record["absent"] and list(record["config"]) == sorted(spec.config)
    )
