"""The statuses of Clusters and Policies: conditions, topic counts, recent deletions.

``manager`` calls ``cluster_status`` after each reconciliation, and ``policy_status`` for each Policy. As with
``status.topic``, a reconciliation without changes yields an equal status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import client
from topiarist.kubernetes.approval import format_issue
from topiarist.kubernetes.moves import ClusterMoves
from topiarist.kubernetes.reconciler import ReconcileResult, SyncState, TopicResult
from topiarist.kubernetes.resources import Resource, error_texts
from topiarist.kubernetes.topic_status import (
    MOVING,
    READY_STATES,
    MovingCondition,
    ReadyCondition,
    Status,
    common_status,
    invalid_condition,
    truncate_message,
)
from topiarist.model.state import ClusterState
from topiarist.text import format_count

INVALID_RULE = "InvalidRule"
"""The reason of a Policy that can be read but has a rule that cannot be evaluated."""

_STATE_FIELDS = ("clusterId", "brokers", "recordsTopicId")
"""Fields that keep their last value while the cluster cannot be read."""

_MOVE_FIELDS = ("moves", "draining", "drainingLeft")

_SHARED_REASONS = frozenset({Reason.BUDGET_EXCEEDED, Reason.LIMIT_EXCEEDED, Reason.TOO_LARGE})
"""Reasons that hold several topics with one message, which has the numbers of all."""

_MAX_BROKERS = 1000
"""Maximum number of brokers that a list in a status has."""

_MAX_DELETIONS = 1000
"""Maximum number of deletions in a status; the latest are kept."""


def cluster_status(
    resource: Resource, result: ReconcileResult, now: datetime, alarms: Mapping[str, str] = {}
) -> Status:
    """Return the status of a Cluster after a reconciliation.

    If an error ended the reconciliation, topic counts and moves are kept from the previous status, and so are the
    deletions of the last day if the cluster was not read. ``alarms`` maps further conditions, which are True, to their
    messages.
    """
    counts = (
        {**_topic_counts(result.topic_results), **({"undeclared": result.undeclared} if result.undeclared else {})}
        if result.error is None
        else resource.status.get("topics", _topic_counts(()))
    )
    withheld = dict.fromkeys(
        refusal.message
        for view in result.topic_results
        for refusal in view.refusals
        if refusal.own_message and refusal.reason in _SHARED_REASONS
    )
    standing = _cluster_condition(resource, result.state, result.error, counts, [*withheld])
    moves: Status = {key: resource.status[key] for key in _MOVE_FIELDS if key in resource.status}
    if result.moves is not None:
        moves = _moves_status(result.moves)
    if left := moves.get("moves"):
        standing = standing._replace(moving=MovingCondition(left["message"], left["reason"]))
    return {
        **{key: resource.status[key] for key in _STATE_FIELDS if key in resource.status},
        **(_state_status(result.state) if result.state else {}),
        **({"clusterId": result.cluster_id} if result.cluster_id else {}),
        **common_status(resource, standing, client.format_time(now), alarms),
        "topics": counts,
        **moves,
        "deletions": _deletion_entries(resource, result, now),
    }


def _deletion_entries(resource: Resource, result: ReconcileResult, now: datetime) -> list[Mapping[str, str]]:
    if result.deletions is not None:
        return [deletion.status_entry for deletion in result.deletions[-_MAX_DELETIONS:]]
    return [each for each in resource.status.get("deletions", ()) if client.is_within_a_day(each["time"], now)]


def _state_status(state: ClusterState) -> Status:
    """Return the fields of a status that come from the state of the cluster."""
    found: dict[str, Any] = {"clusterId": state.cluster_id, "brokers": len(state.brokers)}
    return {**found, "recordsTopicId": state.records_topic_id} if state.records_topic_id else found


def _moves_status(moves: ClusterMoves) -> Status:
    """Return the fields of a status about moves; no field if nothing is left to move and no broker is drained."""
    status: dict[str, Any] = {}
    if moves.left or moves.problem or moves.throttle_left:
        status["moves"] = {
            **({"batch": moves.batch, "batches": moves.batches} if moves.in_flight else {}),
            "partitionsLeft": moves.left,
            "partitionsInFlight": len(moves.in_flight),
            "copiesLeft": moves.copies_left,
            "copyingBrokers": list(moves.copying_brokers[:_MAX_BROKERS]),
            **({"since": client.format_milliseconds(moves.sent_at_ms)} if moves.sent_at_ms is not None else {}),
            "reason": moves.problem.reason.value if moves.problem else MOVING,
            "message": truncate_message(_moves_message(moves)),
        }
    if moves.draining:
        brokers = [*moves.draining.items()][:_MAX_BROKERS]
        status["draining"] = [{"broker": broker, "replicas": replicas} for broker, replicas in brokers]
        left = sum(moves.draining.values())
        status["drainingLeft"] = f"{left:,} left" if left else "done"
    return status


def _moves_message(moves: ClusterMoves) -> str:
    parts = []
    if moves.left:
        parts.append(f"{format_count(moves.left, 'partition')} left")
    if moves.in_flight:
        parts[-1] += f", {len(moves.in_flight):,} of them in batch {moves.batch:,} of {moves.batches:,}"
    if moves.throttle_left:
        parts.append("throttles of the last batch are still set")
    if moves.problem:
        parts.append(format_issue(moves.problem))
    elif moves.waiting_for:
        parts.append(f"waiting for: {moves.waiting_for}")
    return "; ".join(parts)


def policy_status(resource: Resource, rule_errors: Sequence[str], now: datetime) -> Status:
    """Return the status of a Policy; ``rule_errors`` has one text for each error in its rules."""
    standing = ReadyCondition(True, "Active", "its rules are in force")
    if resource.errors:
        standing = invalid_condition(error_texts(resource))
    elif rule_errors:
        standing = ReadyCondition(False, INVALID_RULE, "\n".join(rule_errors), stalled=True)
    return common_status(resource, standing, client.format_time(now))


def _topic_counts(results: Iterable[TopicResult]) -> Mapping[str, int]:
    states = Counter(view.state for view in results)
    return {
        "total": states.total(),
        "ready": sum(states[state] for state in READY_STATES),
        "drifted": states[SyncState.DRIFTED],
        "refused": states[SyncState.REFUSED],
    }


def _cluster_condition(
    resource: Resource,
    state: ClusterState | None,
    error: TopiaristError | None,
    counts: Mapping[str, int],
    withheld: Sequence[str],
) -> ReadyCondition:
    """Return the condition of a Cluster; ``withheld`` are the budgets and limits that hold topics, with numbers."""
    if resource.errors:
        return invalid_condition(error_texts(resource))
    if error is None and state is not None and state.write_block.reason:
        return ReadyCondition(
            False,
            state.write_block.reason.value,
            state.write_block.message,
            stalled=not state.write_block.reason.retryable,
        )
    if error:
        retryable = error.reason.retryable
        return ReadyCondition(
            False, error.reason.value, str(error.args[0]), reconciling=retryable, stalled=not retryable
        )
    words = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number or name == "total")
    drift = f"{format_count(counts['drifted'], 'topic')} changed on the cluster" if counts["drifted"] else ""
    message = "; ".join((f"topics: {words}", *withheld))
    return ReadyCondition(True, "Reachable", message, drift=drift)
