"""Places new replicas on one cluster: Kafka's placement over the eligible brokers, or an issue.

``planner`` makes one ``ReplicaPlacer`` for all topics of a plan, so that eligible and missing brokers are computed
once. ``diff`` calls it; ``kafka.placement`` has the algorithm.
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
    Reason.TOO_FEW_BROKERS: "set a lower replicationFactor, or add brokers",
    Reason.RACKS_INCOMPLETE: "configure a rack on all brokers or on none; or, for new topics, set rackAwareness: Safe "
    "or Disabled in the Cluster",
    Reason.PARTITIONS_MALFORMED: "fix the topic with Kafka's own tools; it cannot grow until then",
}


class ReplicaPlacer:
    """A placer for the partitions of one plan.

    ``without_brokers`` get no replicas, in addition to the cluster's ``excludeBrokers`` and ``drainBrokers``.
    ``replica_holders`` are the brokers that hold replicas of remaining topics; it is given if the state does not have
    all topics.
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
        self.excluded_brokers = cluster.exclude_brokers | cluster.drain_brokers | without_brokers
        self._allow_unknown_brokers = allow_unknown_brokers
        self._replica_holders = replica_holders
        self._registered_brokers = frozenset(broker.id for broker in state.brokers)
        self.eligible_brokers = tuple(broker for broker in state.brokers if broker.id not in self.excluded_brokers)

    @cached_property
    def replica_list_counts(self) -> Counter[Replicas]:
        """Return the number of each replica list of the cluster."""
        # Few lists of a cluster are distinct, so sums over the counts are fast.
        return Counter(chain.from_iterable(topic.replicas for topic in self._state.topics.values()))

    @cached_property
    def missing_brokers(self) -> tuple[int, ...]:
        """Return the unregistered brokers that hold replicas, without excluded brokers.

        A broker that holds only topics marked for deletion is not missing, because it will hold nothing.
        """
        holders = self._replica_holders
        if holders is None:
            deleted = self._state.pending_deletions
            remaining: Iterable[Replicas] = self.replica_list_counts
            if deleted:
                topics = self._state.topics.items()
                remaining = chain.from_iterable(topic.replicas for name, topic in topics if name not in deleted)
            holders = frozenset(chain.from_iterable(remaining))
        return tuple(sorted(holders - self._registered_brokers - self.excluded_brokers))

    def current_load(self) -> dict[int, Load]:
        """Return leaders and replicas of every broker, idle brokers included."""
        return compute_broker_load(self.replica_list_counts, self._registered_brokers)

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
        # Explicit lists name their brokers, so a missing broker cannot distort the placement.
        if spec.assignment is None and (finding := self._missing_brokers_issue()):
            return finding
        try:
            # Kafka checks the racks of all brokers before a growth by explicit lists, too.
            brokers = placement.prepare_brokers(self.eligible_brokers, RackAwareness.ENFORCED.value.lower())
            if spec.assignment is None:
                existing = dict(zip(topic.partition_ids, topic.replicas, strict=True))
                return placement.expand_assignment(brokers, existing, total)
        except AssignmentError as error:
            return self._make_issue(error, ("partitions",) if spec.assignment is None else ("replicaAssignment",))
        added, replica_count = spec.assignment[len(topic.replicas) :], len(topic.replicas[0])
        if any(len(replicas) != replica_count for replicas in added):
            return Issue(
                Reason.REPLICATION_FACTOR_DIFFERS,
                f"partition 0 has {format_count(replica_count, 'replica')}, new partitions must have the same number",
                ("replicaAssignment",),
                f"list {format_count(replica_count, 'broker')} for each new partition",
            )
        return self._check_explicit_lists(added, allow_unknown=False)

    def _check_explicit_lists(self, lists: tuple[Replicas, ...], allow_unknown: bool) -> tuple[Replicas, ...] | Issue:
        # Kafka accepts unregistered brokers at creation only.
        named, path = {broker for replicas in lists for broker in replicas}, ("replicaAssignment",)
        if excluded := sorted(named & self.excluded_brokers):
            ids = _join_ids(excluded)
            message = f"excludeBrokers, drainBrokers or --without-brokers excludes broker {ids} from new replicas"
            return Issue(Reason.EXCLUDED_BROKERS, message, path, "list other brokers, or change the exclusion")
        if (unknown := sorted(named - self._registered_brokers)) and not allow_unknown:
            registered = _join_ids(sorted(self._registered_brokers)) or "none"
            message = f"broker {_join_ids(unknown)} is not registered; registered: {registered}"
            hint = "list registered brokers; or, for a new topic, pass --allow-unknown-brokers"
            return Issue(Reason.UNKNOWN_BROKERS, message, path, hint)
        return lists

    def _missing_brokers_issue(self) -> Issue | None:
        if not self.missing_brokers:
            return None
        ids = _join_ids(self.missing_brokers)
        subject, verb = (
            (f"broker {ids} holds", "is") if len(self.missing_brokers) == 1 else (f"brokers {ids} hold", "are")
        )
        return Issue(
            Reason.BROKERS_MISSING,
            f"{subject} replicas but {verb} not registered; new replicas would all be placed on the other brokers",
            hint="wait until all are registered again, pass --without-brokers, or set excludeBrokers",
        )

    def _make_issue(self, error: AssignmentError, path: tuple[str, ...]) -> Issue:
        reason = _REASON_BY_ERROR_KIND.get(error.kind, Reason.PARTITIONS_MALFORMED)
        return Issue(reason, str(error), path, _HINT_BY_REASON[reason])


def _join_ids(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers))
