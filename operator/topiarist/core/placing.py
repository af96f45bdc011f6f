"""Where new replicas go on one cluster: Kafka's placement over the brokers that may take them, or the reason why not.

Everything that is the same for all topics of a plan (which brokers count, which are missing) is found once, here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import chain

from topiarist.core import assignment
from topiarist.core.assignment import AssignmentError
from topiarist.core.change import Finding, Load, Plan
from topiarist.core.spec import ClusterSpec, RackAwareness, TopicSpec
from topiarist.core.state import ClusterState, Replicas, TopicState
from topiarist.core.units import count
from topiarist.errors import Reason

_REASONS = {
    "invalid_replication_factor": Reason.TOO_FEW_BROKERS,
    "admin_operation": Reason.RACKS_INCOMPLETE,
}
_INSTEAD = {
    Reason.TOO_FEW_BROKERS: "ask for fewer replicas, or add brokers",
    Reason.RACKS_INCOMPLETE: "give all brokers a rack or none; for new topics also rackAwareness: Safe or Disabled",
    Reason.PARTITIONS_MALFORMED: "mend the topic with Kafka's own tools; as it is it cannot grow",
}


class Placing:
    """Places the partitions of one plan. ``without`` are brokers that get no replicas, beside the cluster's list.

    ``holders`` are the brokers that hold replicas of topics that stay, where the state does not have all topics.
    """

    def __init__(
        self,
        state: ClusterState,
        cluster: ClusterSpec,
        without: frozenset[int],
        allow_unknown: bool,
        holders: frozenset[int] | None = None,
    ) -> None:
        self._state = state
        self._mode = cluster.rack_awareness
        self._excluded = cluster.exclude_brokers | without
        self._allow_unknown = allow_unknown
        self._holders = holders
        self.brokers = tuple(broker for broker in state.brokers if broker.id not in self._excluded)

    @cached_property
    def _lists(self) -> Counter[Replicas]:
        """How often each replica list occurs on the cluster: few are distinct, so loads are quickly summed."""
        return Counter(chain.from_iterable(topic.replicas for topic in self._state.topics.values()))

    @cached_property
    def missing(self) -> tuple[int, ...]:
        """Brokers that hold replicas but are not registered, unless they are left out on purpose.

        What only holds topics that are being deleted is not missed: nothing of it will be left to hold.
        """
        holders = frozenset(chain.from_iterable(self._staying())) if self._holders is None else self._holders
        return tuple(sorted(holders - {broker.id for broker in self._state.brokers} - self._excluded))

    def _staying(self) -> Iterable[Replicas]:
        """Replica lists of the topics that are not marked for deletion, each once or more often."""
        if not self._state.deleting:
            return self._lists
        topics = self._state.topics.items()
        return chain.from_iterable(topic.replicas for name, topic in topics if name not in self._state.deleting)

    def load(self) -> dict[int, Load]:
        """Leaders and replicas of every broker now; brokers without any are there too."""
        return loads(self._lists, [broker.id for broker in self._state.brokers])

    def create(self, spec: TopicSpec) -> tuple[Replicas, ...] | Finding:
        """Replica lists for a new topic: the explicit ones, else Kafka's from a start that the name decides."""
        if spec.assignment is not None:
            return self._explicit(spec.assignment, self._allow_unknown)
        if finding := self._unavailable():
            return finding
        try:
            brokers = assignment.placement_brokers(self.brokers, self._mode.value.lower())
            start, shift = assignment.starting_point(spec.topic, brokers)
            return assignment.assign(
                brokers,
                spec.create_partitions,
                replication_factor=spec.create_replication_factor,
                start=start,
                shift=shift,
            )
        except AssignmentError as error:
            return self._refused(error, ("replicationFactor",))

    def grow(self, spec: TopicSpec, topic: TopicState, total: int) -> tuple[Replicas, ...] | Finding:
        """Replica lists for the partitions from ``topic``'s count to ``total``; expansion is always rack-aware."""
        explicit = spec.assignment is not None
        if finding := None if explicit else self._unavailable():
            return finding
        try:
            brokers = assignment.placement_brokers(self.brokers, RackAwareness.ENFORCED.value.lower())
            if spec.assignment is not None:
                return self._explicit_growth(spec.assignment[len(topic.replicas) :], len(topic.replicas[0]))
            return assignment.expand(brokers, dict(zip(topic.partition_ids, topic.replicas, strict=True)), total)
        except AssignmentError as error:
            return self._refused(error, ("replicaAssignment",) if explicit else ("partitions",))

    def _explicit_growth(self, more: tuple[Replicas, ...], width: int) -> tuple[Replicas, ...] | Finding:
        if any(len(replicas) != width for replicas in more):
            return Finding(
                Reason.REPLICATION_FACTOR_DIFFERS,
                f"partition 0 has {count(width, 'replica')}, new partitions must have as many",
                ("replicaAssignment",),
                f"name {count(width, 'broker')} for each new partition",
            )
        return self._explicit(more, allow_unknown=False)

    def _explicit(self, lists: tuple[Replicas, ...], allow_unknown: bool) -> tuple[Replicas, ...] | Finding:
        """The lists, if their brokers are registered and may take replicas. Kafka lets others pass at creation only."""
        named = {broker for replicas in lists for broker in replicas}
        known = {broker.id for broker in self._state.brokers}
        path = ("replicaAssignment",)
        if left_out := sorted(named & self._excluded):
            message = f"no new replicas in this run for broker {_ids(left_out)}"
            return Finding(
                Reason.EXCLUDED_BROKERS,
                message,
                path,
                "name other brokers; excludeBrokers and --without-brokers say so",
            )
        if (unknown := sorted(named - known)) and not allow_unknown:
            message = f"no such broker is registered: {_ids(unknown)}; registered: {_ids(sorted(known)) or 'none'}"
            return Finding(
                Reason.UNKNOWN_BROKERS,
                message,
                path,
                "name registered brokers (a new topic: or --allow-unknown-brokers)",
            )
        return lists

    def _unavailable(self) -> Finding | None:
        if not self.missing:
            return None
        one = len(self.missing) == 1
        who = f"broker {self.missing[0]} holds" if one else f"brokers {_ids(self.missing)} hold"
        return Finding(
            Reason.BROKERS_MISSING,
            f"{who} replicas but {'is' if one else 'are'} not registered; a placement made now would leave "
            f"{'it' if one else 'them'} out",
            instead="wait until it is back, or say that it is meant: --without-brokers or excludeBrokers",
        )

    def _refused(self, error: AssignmentError, field: tuple[str, ...]) -> Finding:
        reason = _REASONS.get(error.kind, Reason.PARTITIONS_MALFORMED)
        return Finding(reason, str(error), field, _INSTEAD.get(reason, ""))


def loads(lists: Mapping[Replicas, int], brokers: Iterable[int]) -> dict[int, Load]:
    """Leaders and replicas of every broker, by how often each list occurs; ``brokers`` are there in any case."""
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter(dict.fromkeys(brokers, 0))
    for ids, times in lists.items():
        if ids:
            leaders[ids[0]] += times
        for broker in ids:
            replicas[broker] += times
    return {broker: Load(leaders[broker], replicas[broker]) for broker in sorted(replicas)}


def load_after(plan: Plan) -> dict[int, Load]:
    """What each broker carries once the plan is done."""
    leaders = Counter({broker: load.leaders for broker, load in plan.load.items()})
    replicas = Counter({broker: load.replicas for broker, load in plan.load.items()})
    for topic in plan.to_do():
        for brokers in topic.new_replicas():
            leaders[brokers[0]] += 1
            replicas.update(brokers)
    return {broker: Load(leaders[broker], replicas[broker]) for broker in sorted(replicas)}


def _ids(brokers: list[int] | tuple[int, ...]) -> str:
    return ", ".join(map(str, brokers))
