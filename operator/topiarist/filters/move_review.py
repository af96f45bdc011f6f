"""Reviews the moves of a topic partition by partition, and checks those of a saved plan against the cluster.

Where a replica goes depends on the counts of all brokers, so a new plan may choose other brokers than the reviewed one,
although it moves the same replicas for the same reason. The reviewed lists are then used: they are what people agreed
to, and an interrupted run goes on with the same targets. ``review`` calls this module. ::

    partition, list before and list after are equal        applied
    another list after, possible and plausible             applied with the reviewed list
    not in the reviewed plan, or another list before       withheld
    reviewed, and not planned any more                     done already, or not needed: nothing to apply
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from topiarist.errors import Reason
from topiarist.filters.reviewed_lists import BrokerSets, ReviewedChange, describe_risk_increase
from topiarist.model.moves import MoveKind, ReplicaMove
from topiarist.model.plan import Issue, MoveReplicas, TopicPlan, config_after
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState
from topiarist.planning.moves.topic import KINDS_OF_PROTECTED_TOPICS, find_low_replica_count, find_missing_throttle
from topiarist.planning.risk import assess_moves


class _Part(NamedTuple):
    """A move to apply, or the planned move with the reason against it."""

    move: ReplicaMove
    why: str = ""


def review_moves(
    topic: TopicPlan, change: MoveReplicas, reviewed: MoveReplicas, brokers: BrokerSets
) -> list[ReviewedChange]:
    """Return the moves with their reviewed lists as one change, and for each reason those that are withheld."""
    whole = _continue_spread(topic, change, reviewed, brokers)
    parts = [_Part(move) for move in whole] if whole else _review_partitions(change, reviewed, brokers)
    kept = tuple(part.move for part in parts if not part.why)
    withheld: dict[str, list[ReplicaMove]] = {}
    for part in parts:
        if part.why:
            withheld.setdefault(part.why, []).append(part.move)
    found: list[ReviewedChange] = []
    if kept:
        assessment = assess_moves(kept)
        found.append((MoveReplicas(kept, assessment), describe_risk_increase(reviewed.assessment, assessment)))
    for why, moves in withheld.items():
        ids = _join(move.partition for move in moves)
        found.append((MoveReplicas(tuple(moves), assess_moves(moves)), f"partition {ids}: {why}"))
    return found


def _review_partitions(change: MoveReplicas, reviewed: MoveReplicas, brokers: BrokerSets) -> list[_Part]:
    reviewed_moves = {move.partition: move for move in reviewed.moves}
    parts = [_review_move(move, reviewed_moves.get(move.partition), brokers) for move in change.moves]
    pairs = list(zip(change.moves, (part.move for part in parts), strict=True))
    # A withheld move counts with its planned list on both sides.
    why = brokers.implausible_reason([planned.after for planned, _ in pairs], [used.after for _, used in pairs])
    return [
        _Part(planned, why) if why and planned != part.move else part
        for (planned, _), part in zip(pairs, parts, strict=True)
    ]


def _review_move(planned: ReplicaMove, reviewed: ReplicaMove | None, brokers: BrokerSets) -> _Part:
    if reviewed is None:
        return _Part(planned, "the reviewed plan does not move it")
    if planned.before != reviewed.before:
        was, now = list(reviewed.before), list(planned.before)
        return _Part(planned, f"was on {was} at the review, and is on {now} now")
    if planned.after == reviewed.after:
        return _Part(planned)
    why = _find_list_difference(planned, reviewed) or brokers.unavailable_reason([reviewed.added])
    return _Part(planned, why) if why else _Part(reviewed)


def _find_list_difference(planned: ReplicaMove, reviewed: ReplicaMove) -> str:
    """Return why two lists differ in more than the brokers that get a replica; empty if they do not."""
    if planned.kinds != reviewed.kinds:
        then, now = (" and ".join(kind.value for kind in move.kinds) for move in (reviewed, planned))
        return f"was reviewed for {then}, and is moved for {now} now"
    if MoveKind.ASSIGNMENT in planned.kinds:
        return "was reviewed with another list than that of the manifest"
    if len(planned.after) != len(reviewed.after) or len(planned.added) < len(reviewed.added):
        return "was reviewed with another number of replicas, or of copies"
    if MoveKind.SPREAD in planned.kinds:
        return ""  # which replicas stay is the result of the whole topic
    kept = [broker if broker in planned.before else None for broker in planned.after]
    if kept != [broker if broker in reviewed.before else None for broker in reviewed.after]:
        return "was reviewed with other replicas that stay"
    return ""


def _continue_spread(
    topic: TopicPlan, change: MoveReplicas, reviewed: MoveReplicas, brokers: BrokerSets
) -> Sequence[ReplicaMove]:
    """Return the reviewed moves that are left of a topic that is only spread; empty if they cannot be used.

    A new plan of a topic that is spread in part may move other partitions to the same end. The reviewed rest is used if
    it copies no more than the new plan.
    """
    if any(move.kinds != (MoveKind.SPREAD,) for move in (*change.moves, *reviewed.moves)) or topic.before is None:
        return ()
    lists = dict(zip(topic.before.partition_ids, topic.before.replicas, strict=True))
    in_flight = topic.before.reassigning_partitions
    rest = [
        move for move in reviewed.moves if lists.get(move.partition) == move.before and move.partition not in in_flight
    ]
    after, planned_after = dict(lists), dict(lists)
    after.update((move.partition, move.after) for move in rest)
    planned_after.update((move.partition, move.after) for move in change.moves)
    if sum(len(move.added) for move in rest) > change.copies or any(
        len(move.before) != len(move.after) for move in rest
    ):
        return ()
    why = brokers.unavailable_reason([move.added for move in rest]) or brokers.implausible_reason(
        tuple(filter(None, planned_after.values())), tuple(filter(None, after.values()))
    )
    return () if why else rest


def find_move_issue(
    topic: TopicPlan, change: MoveReplicas, cluster: ClusterSpec, state: ClusterState, planned: Collection[int]
) -> Issue | None:
    """Return why ``cluster`` does not permit the moves of a saved plan now; None if it does.

    ``planned`` are the brokers that were registered when the plan was made. A broker that went offline since is a
    conflict, which ``planning.preconditions`` finds.
    """
    return next(_find_move_issues(topic, change, cluster, state, planned), None)


def _find_move_issues(
    topic: TopicPlan, change: MoveReplicas, cluster: ClusterSpec, state: ClusterState, planned: Collection[int]
) -> Iterator[Issue]:
    kinds = {kind for move in change.moves for kind in move.kinds}
    if forbidden := sorted(kind.value for kind in kinds - cluster.moves.allow):
        names = ", ".join(forbidden)
        message = f"spec.moves of the Cluster does not allow {names} moves"
        yield Issue(Reason.MOVE_NOT_ALLOWED, message, hint=f"allow {names} in spec.moves of the Cluster")
    if cluster.internal_owner(topic.topic) or cluster.is_protected(topic.topic):
        if not cluster.moves.protected:
            message = "belongs to other software, and spec.moves.protected of the Cluster is not true"
            yield Issue(Reason.PROTECTED_TOPIC, message, hint="set spec.moves.protected: true in the Cluster")
        elif not kinds <= KINDS_OF_PROTECTED_TOPICS:
            message = "belongs to other software, which relies on its replicas: only Drain and Racks may move them"
            yield Issue(Reason.PROTECTED_TOPIC, message, hint="make a new plan")
    added = {broker for move in change.moves for broker in move.added}
    if excluded := added & (cluster.exclude_brokers | cluster.drain_brokers):
        message = f"broker {_join(excluded)} takes no replicas (drainBrokers or excludeBrokers)"
        yield Issue(Reason.EXCLUDED_BROKERS, message, hint="make a new plan")
    if unknown := added.difference(planned):
        message = f"broker {_join(unknown)} was not registered when the plan was made"
        yield Issue(Reason.UNKNOWN_BROKERS, message, hint="make a new plan")
    if issue := find_missing_throttle(change, cluster.moves.throttle):
        yield issue
    if actual := state.topics.get(topic.topic):
        config: Mapping[str, str] = config_after(actual.config, topic.changes)
        rules = cluster.config_rules.for_cluster(state.mode, state.known_configs)
        settings = rules.merge_dynamic_settings(state.broker_defaults)
        if issue := find_low_replica_count(change, config, settings):
            yield issue


def _join(numbers: Collection[int] | Iterator[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
