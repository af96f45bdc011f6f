"""Plans the moves of one topic after the other: which kinds apply, in which order, and their sum.

Each kind starts with the lists that the one before it leaves; a plan shows only the lists before and after the sum. ::

    explicit lists (Assignment)                     replace all others
    drain -> factor -> racks -> spread              otherwise

The factor precedes the racks: a replica that a list gets, or loses, brings a rack that it lacks without another copy.
``topic`` beside this module calls it for each topic with its allowed kinds. The counts of replicas on each broker
contain the topics planned so far, so brokers get new replicas evenly over the whole plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cached_property

from topiarist.kafka.placement import AssignmentError, derive_start_and_shift, prepare_brokers
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import MoveKind, ReplicaMove
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.planning.moves.lists.drain import drain
from topiarist.planning.moves.lists.factor import lower_factor, raise_factor
from topiarist.planning.moves.lists.racks import repair_racks
from topiarist.planning.moves.lists.replica_picker import ReplicaPicker
from topiarist.planning.moves.lists.spread import spread

_Step = Callable[[tuple[Replicas, ...]], tuple[Replicas, ...]]


class MovePlanner:
    """The moves of one plan.

    ``without`` are the brokers that take no replicas, drained ones included; ``count_lists`` returns the number of each
    replica list of the cluster; None if not all topics are known: each topic is then planned by itself.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        brokers: Sequence[Broker],
        without: Collection[int],
        count_lists: Callable[[], Counter[Replicas]] | None,
    ) -> None:
        self.drained = cluster.drain_brokers
        self._rack_mode = cluster.rack_awareness.value.lower()
        self._brokers = brokers
        self._without = without
        self._count_lists = count_lists

    @cached_property
    def _shared_picker(self) -> ReplicaPicker | None:
        return ReplicaPicker(self._brokers, self._without, self._count_lists()) if self._count_lists else None

    def plan_moves(
        self, spec: TopicSpec, partitions: Sequence[int], lists: tuple[Replicas, ...], kinds: Collection[MoveKind]
    ) -> tuple[ReplicaMove, ...]:
        """Return the moves of a topic, sorted by partition; empty if its lists are as they should be.

        ``lists`` are the present replicas of ``partitions``. Raises ``AssignmentError`` if a list cannot be made.
        """
        after, reasons = lists, dict[int, tuple[MoveKind, ...]]()
        for kind, step in self._steps(spec, partitions, lists, kinds):
            before, after = after, step(after)
            if after is before or after == before:
                continue
            for at, (old, new) in enumerate(zip(before, after, strict=True)):
                if old != new:
                    reasons[at] = (*reasons.get(at, ()), kind)
        return tuple(
            ReplicaMove(spec.topic, partitions[at], lists[at], after[at], reasons[at])
            for at in sorted(reasons)
            if lists[at] != after[at]
        )

    def _steps(
        self, spec: TopicSpec, partitions: Sequence[int], lists: tuple[Replicas, ...], kinds: Collection[MoveKind]
    ) -> Sequence[tuple[MoveKind, _Step]]:
        if spec.assignment is not None:
            wanted = spec.assignment
            return [
                (kind, lambda lists: tuple(map(_listed(wanted), partitions, lists)))
                for kind in kinds
                if kind is MoveKind.ASSIGNMENT
            ]
        picker = self._shared_picker or ReplicaPicker(self._brokers, self._without, Counter(lists))
        factor = spec.replication_factor
        picker.begin_topic(lists)
        steps: dict[MoveKind, _Step] = {
            MoveKind.DRAIN: lambda lists: drain(lists, self.drained, picker),
            MoveKind.RACKS: lambda lists: repair_racks(lists, picker),
            MoveKind.SPREAD: lambda lists: spread(lists, picker, within_one=spec.spread_within_one),
        }
        if factor is not None:
            steps[MoveKind.FACTOR] = lambda lists: self._change_factor(spec, lists, factor, picker)
        if not self.drained:
            del steps[MoveKind.DRAIN]
        return [(kind, steps[kind]) for kind in MoveKind if kind in kinds and kind in steps]

    def _change_factor(
        self, spec: TopicSpec, lists: tuple[Replicas, ...], factor: int, picker: ReplicaPicker
    ) -> tuple[Replicas, ...]:
        if any(len(replicas) < factor for replicas in lists):
            start_and_shift = self._derive_start_and_shift(spec.topic, picker)
            lists, _ = raise_factor(lists, factor, picker, rack_mode=self._rack_mode, start_and_shift=start_and_shift)
        return lower_factor(lists, factor, picker)

    def _derive_start_and_shift(self, topic: str, picker: ReplicaPicker) -> tuple[int, int] | None:
        try:
            return derive_start_and_shift(topic, prepare_brokers(picker.takers, self._rack_mode))
        except AssignmentError:
            return None


def _listed(wanted: Sequence[Replicas]) -> Callable[[int, Replicas], Replicas]:
    """Return the function from a partition and its present replicas to the list of the manifest, if it has one."""
    return lambda partition, present: wanted[partition] if partition < len(wanted) else present
