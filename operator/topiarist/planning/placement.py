"""Places new replicas on one cluster: Kafka's placement over the eligible brokers, or an issue.

``planner`` makes one ``ReplicaPlacer`` for all topics of a plan, so that eligible and missing brokers are computed
once. ``create`` and ``diff`` call it; ``kafka.placement`` has the algorithm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from itertools import chain

from topiarist.errors import Reason
from topiarist.kafka import placement
from topiarist.kafka.placement import AssignmentError
from topiarist.kafka.types import Replicas
from topiarist.model.plan import Issue, Load, compute_broker_load
from topiarist.model.spec import ClusterSpec, RackAwareness, TopicSpec
from topiarist.model.state import ClusterState, TopicState
from topiarist.text import format_count

_REASON_BY_ERROR_KIND = {
    "invalid_replication_factor": Reason.TOO_FEW_BROKERS,
    "admin_operation": Reason.RACKS_INCOMPLETE,
}
_HINT_BY_REASON = {
    Reason.TOO_FEW_BROKERS: "ask for fewer replicas, or add brokers",
    Reason.RACKS_INCOMPLETE: "give all brokers a rack or none; for new topics also rackAwareness: Safe or Disabled",
    Reason.PARTITIONS_MALFORMED: "mend the topic with Kafka's own tools; as it is it cannot grow",
}


class ReplicaPlacer:
    """A placer for the partitions of one plan.

    ``without_brokers`` get no replicas, in addition to the cluster's ``excludeBrokers``. ``replica_holders`` are the
    brokers that hold replicas of remaining topics; it is given if the state does not have all topics.
    """

    def __init__(
        self,
        state: ClusterState,
        cluster: ClusterSpec,
        without_brokers: frozenset[int],
        allow_unknown_brokers: bool,
        replica_holders: frozenset[int] | None = None,
    ) -> None:
        self._state = state
        self._rack_awareness = cluster.rack_awareness
        self._excluded_brokers = cluster.exclude_brokers | without_brokers
        self._allow_unknown_brokers = allow_unknown_brokers
        self._replica_holders = replica_holders
        self.eligible_brokers = tuple(broker for broker in state.brokers if broker.id not in self._excluded_brokers)

    @cached_property
    def _replica_list_counts(self) -> Counter[Replicas]:
        """Count how often each replica list occurs on the cluster.

        Few lists are distinct, so the sums of loads are fast.
        """
        return Counter(chain.from_iterable(topic.replicas for topic in self._state.topics.values()))

    @cached_property
    def missing_brokers(self) -> tuple[int, ...]:
        """Return the unregistered brokers that hold replicas, without excluded brokers.

        A broker that holds only topics marked for deletion is not missing, because it will hold nothing.
        """
        holders = (
            frozenset(chain.from_iterable(self._remaining_replica_lists()))
            if self._replica_holders is None
            else self._replica_holders
        )
        return tuple(sorted(holders - {broker.id for broker in self._state.brokers} - self._excluded_brokers))

    def _remaining_replica_lists(self) -> Iterable[Replicas]:
        """Return the replica lists of the topics that are not marked for deletion.

        A list may occur more than once.
        """
        if not self._state.pending_deletions:
            return self._replica_list_counts
        topics = self._state.topics.items()
        return chain.from_iterable(
            topic.replicas for name, topic in topics if name not in self._state.pending_deletions
        )

    def current_load(self) -> dict[int, Load]:
        """Return leaders and replicas of every broker, idle brokers included."""
        return compute_broker_load(self._replica_list_counts, [broker.id for broker in self._state.brokers])

    def place_topic(self, spec: TopicSpec) -> tuple[Replicas, ...] | Issue:
        """Return the replica lists of a new topic, or an issue.

        The lists are the explicit ones of the spec. Otherwise they are Kafka's, with a start and a shift derived from
        the name.
        """
        if spec.assignment is not None:
            return self._check_explicit_lists(spec.assignment, self._allow_unknown_brokers)
        if finding := self._missing_brokers_issue():
            return finding
        try:
            brokers = placement.prepare_brokers(self.eligible_brokers, self._rack_awareness.value.lower())
            start, shift = placement.derive_start_and_shift(spec.topic, brokers)
            return placement.assign_replicas(
                brokers,
                spec.create_partitions,
                replication_factor=spec.create_replication_factor,
                start=start,
                shift=shift,
            )
        except AssignmentError as error:
            return self._make_issue(error, ("replicationFactor",))

    def place_new_partitions(self, spec: TopicSpec, topic: TopicState, total: int) -> tuple[Replicas, ...] | Issue:
        """Return the replica lists for growth to ``total`` partitions, or an issue.

        Only the new partitions have lists. Kafka's expansion is always rack-aware.
        """
        explicit = spec.assignment is not None
        # Explicit lists name their brokers, so a missing broker cannot distort the placement.
        if finding := None if explicit else self._missing_brokers_issue():
            return finding
        try:
            brokers = placement.prepare_brokers(self.eligible_brokers, RackAwareness.ENFORCED.value.lower())
            if spec.assignment is not None:
                return self._check_explicit_growth(spec.assignment[len(topic.replicas) :], len(topic.replicas[0]))
            return placement.expand_assignment(
                brokers, dict(zip(topic.partition_ids, topic.replicas, strict=True)), total
            )
        except AssignmentError as error:
            return self._make_issue(error, ("replicaAssignment",) if explicit else ("partitions",))

    def _check_explicit_growth(self, more: tuple[Replicas, ...], width: int) -> tuple[Replicas, ...] | Issue:
        if any(len(replicas) != width for replicas in more):
            return Issue(
                Reason.REPLICATION_FACTOR_DIFFERS,
                f"partition 0 has {format_count(width, 'replica')}, new partitions must have as many",
                ("replicaAssignment",),
                f"name {format_count(width, 'broker')} for each new partition",
            )
        return self._check_explicit_lists(more, allow_unknown=False)

    def _check_explicit_lists(self, lists: tuple[Replicas, ...], allow_unknown: bool) -> tuple[Replicas, ...] | Issue:
        """Return the lists, or an issue if a broker is unregistered or excluded.

        Kafka accepts unregistered brokers at creation only.
        """
        named = {broker for replicas in lists for broker in replicas}
        known = {broker.id for broker in self._state.brokers}
        path = ("replicaAssignment",)
        if left_out := sorted(named & self._excluded_brokers):
            message = f"no new replicas in this run for broker {_join_ids(left_out)}"
            return Issue(
                Reason.EXCLUDED_BROKERS,
                message,
                path,
                "name other brokers; excludeBrokers and --without-brokers say so",
            )
        if (unknown := sorted(named - known)) and not allow_unknown:
            message = (
                f"no such broker is registered: {_join_ids(unknown)}; registered: {_join_ids(sorted(known)) or 'none'}"
            )
            return Issue(
                Reason.UNKNOWN_BROKERS,
                message,
                path,
                "name registered brokers (a new topic: or --allow-unknown-brokers)",
            )
        return lists

    def _missing_brokers_issue(self) -> Issue | None:
        if not self.missing_brokers:
            return None
        is_single = len(self.missing_brokers) == 1
        who = (
            f"broker {self.missing_brokers[0]} holds"
            if is_single
            else f"brokers {_join_ids(self.missing_brokers)} hold"
        )
        return Issue(
            Reason.BROKERS_MISSING,
            f"{who} replicas but {'is' if is_single else 'are'} not registered; a placement made now would leave "
            f"{'it' if is_single else 'them'} out",
            hint="wait until it is back, or say that it is meant: --without-brokers or excludeBrokers",
        )

    def _make_issue(self, error: AssignmentError, field: tuple[str, ...]) -> Issue:
        reason = _REASON_BY_ERROR_KIND.get(error.kind, Reason.PARTITIONS_MALFORMED)
        return Issue(reason, str(error), field, _HINT_BY_REASON.get(reason, ""))


def _join_ids(brokers: list[int] | tuple[int, ...]) -> str:
    return ", ".join(map(str, brokers))
