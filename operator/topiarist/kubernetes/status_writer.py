"""The statuses of Clusters and Policies, finalizers and Events of resources, and the writer that sends them with the
statuses to the API server.

``manager`` hands the writes of a reconciliation to ``StatusWriter.run_all``, which runs several at a time. A refused
write is logged and reported to ``manager``, which computes it anew and repeats it soon, without another reconciliation.
While the API server asks clients to wait, or does not answer, no write is sent.

The statuses of Clusters and Policies have conditions, topic counts and recent deletions. ``manager`` calls
``cluster_status`` after each reconciliation, and ``policy_status`` for each Policy. As with ``status.topic``, a
reconciliation without changes yields an equal status.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

import kopf

from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import client, topic_status
from topiarist.kubernetes.approval import PAUSED, RETAIN, describe_issue, format_issue, is_paused
from topiarist.kubernetes.client import MAX_IN_FLIGHT_REQUESTS, ApiError, KubernetesClient
from topiarist.kubernetes.moves import ClusterMoves
from topiarist.kubernetes.reconciler import ReconcileResult, SyncState, TopicResult
from topiarist.kubernetes.resources import (
    APPLIED_TO,
    FINALIZER,
    FINALIZER_MANAGER,
    KAFKA_TOPIC,
    STATUS_MANAGER,
    STRIMZI_FINALIZER,
    Resource,
    error_texts,
    identity_body,
    parse_resource,
    resource_path,
)
from topiarist.model.plan import (
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Issue,
    MoveReplicas,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.state import ClusterState
from topiarist.output.groups import describe_changes
from topiarist.output.report import list_made
from topiarist.output.view import describe_implied
from topiarist.schema import load
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
) -> topic_status.Status:
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
    paused = [f"nothing is written while {load.API_GROUP}/{PAUSED} is set"] if is_paused(resource) else []
    standing = _cluster_condition(resource, result.state, result.error, counts, [*withheld, *paused])
    moves: topic_status.Status = {key: resource.status[key] for key in _MOVE_FIELDS if key in resource.status}
    if result.moves is not None:
        moves = _moves_status(result.moves)
    if left := moves.get("moves"):
        standing = standing._replace(moving=topic_status.MovingCondition(left["message"], left["reason"]))
    return {
        **{key: resource.status[key] for key in _STATE_FIELDS if key in resource.status},
        **(_state_status(result.state) if result.state else {}),
        **({"clusterId": result.cluster_id} if result.cluster_id else {}),
        **topic_status.common_status(resource, standing, client.format_time(now), alarms),
        "topics": counts,
        **moves,
        "deletions": _deletion_entries(resource, result, now),
    }


def _deletion_entries(resource: Resource, result: ReconcileResult, now: datetime) -> list[Mapping[str, str]]:
    if result.deletions is not None:
        return [deletion.status_entry for deletion in result.deletions[-_MAX_DELETIONS:]]
    return [each for each in resource.status.get("deletions", ()) if client.is_within_a_day(each["time"], now)]


def _state_status(state: ClusterState) -> topic_status.Status:
    """Return the fields of a status that come from the state of the cluster."""
    found: dict[str, Any] = {"clusterId": state.cluster_id, "brokers": len(state.brokers)}
    return {**found, "recordsTopicId": state.records_topic_id} if state.records_topic_id else found


def _moves_status(moves: ClusterMoves) -> topic_status.Status:
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
            "reason": moves.problem.reason.value if moves.problem else topic_status.MOVING,
            "message": topic_status.truncate_message(_moves_message(moves)),
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


def policy_status(resource: Resource, rule_errors: Sequence[str], now: datetime) -> topic_status.Status:
    """Return the status of a Policy; ``rule_errors`` has one text for each error in its rules."""
    standing = topic_status.ReadyCondition(True, "Active", "its rules are active")
    if resource.errors:
        standing = topic_status.invalid_condition(error_texts(resource))
    elif rule_errors:
        standing = topic_status.ReadyCondition(False, INVALID_RULE, "\n".join(rule_errors), stalled=True)
    return topic_status.common_status(resource, standing, client.format_time(now))


def _topic_counts(results: Iterable[TopicResult]) -> Mapping[str, int]:
    states = Counter(view.state for view in results)
    return {
        "total": states.total(),
        "ready": sum(states[state] for state in topic_status.READY_STATES),
        "drifted": states[SyncState.DRIFTED],
        "refused": states[SyncState.REFUSED],
    }


def _cluster_condition(
    resource: Resource,
    state: ClusterState | None,
    error: TopiaristError | None,
    counts: Mapping[str, int],
    withheld: Sequence[str],
) -> topic_status.ReadyCondition:
    """Return the condition of a Cluster; ``withheld`` are the budgets, limits and pauses that hold topics."""
    if resource.errors:
        return topic_status.invalid_condition(error_texts(resource))
    problem = error or (state.write_block if state else None)
    if problem and problem.reason:
        retryable = problem.reason.retryable
        return topic_status.ReadyCondition(
            False,
            problem.reason.value,
            problem.message,
            reconciling=retryable and problem is error,  # a write block ends without the operator
            stalled=not retryable,
        )
    words = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number or name == "total")
    drift = f"{format_count(counts['drifted'], 'topic')} changed on the cluster" if counts["drifted"] else ""
    message = "; ".join((f"topics: {words}", *withheld))
    return topic_status.ReadyCondition(True, "Reachable", message, drift=drift)


# The finalizer of Topics: keeps a resource until its topic is deleted, and no longer.
#
# ``manager`` calls ``needs_finalizer`` for each Topic. Only ``deletionPolicy: Delete`` needs a finalizer. It is removed
# when the topic is deleted from every target cluster of the Topic. A cluster without a topic that the operator may
# delete does not count: another Topic claims the topic, the topic was never owned by the operator or is only observed,
# or the Cluster no longer exists. ``topiarist.dev/retain: "true"`` removes the finalizer at once.

_NOT_DELETABLE_REASONS = {Reason.NOT_OWNED, Reason.NOT_ADOPTED, Reason.RESOURCE_CONFLICT, Reason.NOT_ALLOWED}


def needs_finalizer(resource: Resource, results: Mapping[str, TopicResult | None], *, all_clusters_known: bool) -> bool:
    """Return whether a Topic should have topiarist's finalizer.

    ``results`` maps each target cluster of the Topic to its result, None if the cluster has not been read.
    ``all_clusters_known`` is False if the target clusters cannot be determined: the finalizer is then left as it is.
    """
    if resource.annotation(RETAIN) == "true":
        return False
    there = FINALIZER in resource.finalizers
    if resource.deleting and not there:
        return False  # the API server accepts no new finalizer on a resource that is being deleted
    if resource.manifest is None or not all_clusters_known:
        return there
    if resource.manifest.spec.get("deletionPolicy") != "Delete":
        return False
    settled = [_is_final(view) if view else None for view in results.values()]
    return False in settled or (there and None in settled)


def _is_final(result: TopicResult) -> bool:
    """Return whether the operator has nothing (left) to delete on a cluster."""
    return result.state in (SyncState.ABSENT, SyncState.OBSERVED) or any(
        refusal.reason in _NOT_DELETABLE_REASONS for refusal in result.refusals
    )


# Kubernetes Events for the user: one when a change happens, none on later reconciliations.
#
# ``manager`` calls these functions after each reconciliation. They compare a Topic on one cluster, a Cluster or a
# Policy before and after. The state before is taken from the resource's status, which survives a restart.


class Event(NamedTuple):
    """A Kubernetes Event; ``warning`` if the user has to act."""

    reason: str
    message: str
    warning: bool = False


_CHANGE_REASONS = {
    CreateTopic: "TopicCreated",
    AddPartitions: "PartitionsIncreased",
    MoveReplicas: "ReplicasMoved",
    ElectLeaders: "LeadersElected",
    UpdateConfig: "ConfigUpdated",
    DeleteTopic: "TopicDeleted",
    TakeOwnership: "Adopted",
}

_EVENT_REASONS = {
    Reason.FEWER_PARTITIONS.value: "PartitionDecreaseRefused",
    Reason.INVALID_MANIFEST.value: "ValidationFailed",
    Reason.CONFIG_INVALID.value: "ValidationFailed",
    Reason.UNREACHABLE.value: "ClusterUnavailable",
    Reason.SESSION_LOST.value: "ClusterUnavailable",
}
"""Event reasons that other operators use too; several reasons share one, every other reason is used unchanged."""


_DRIFT_CORRECTED = "DriftCorrected"
"""The reason of the Event for each reversion of an external change, and for the end of a reported drift."""

_UNUSABLE_REASONS = (Reason.INVALID_MANIFEST.value, Reason.UNKNOWN_CLUSTER.value, INVALID_RULE)
"""Reasons for which no cluster's reconciliation includes a Topic, or a Policy withholds changes."""


def cluster_events(cluster_resource: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the Events of a Cluster; ``status`` is its next status."""
    yield from _usability_events(cluster_resource, status)
    yield from stall_events(cluster_resource, status)
    yield from annotation_events(cluster_resource, status)
    yield from _alarm_events(cluster_resource, status)


def _usability_events(cluster_resource: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """Yield an Event if a Cluster became unusable, or usable again."""
    before, after = _find_ready_condition(cluster_resource.status), _find_ready_condition(status)
    if after is None or (before and _event_reason(after["reason"]) == _event_reason(before["reason"])):
        return
    if after["status"] == "False":
        yield Event(_event_reason(after["reason"]), after["message"], warning=True)
    elif before:
        yield Event("Reachable", "can be used again")


def stall_events(cluster_resource: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """Yield a warning if the moves of a Cluster are newly stalled; ``status`` is its next status."""
    before, after = cluster_resource.status.get("moves", {}), status.get("moves", {})
    reason = after.get("reason", topic_status.MOVING)
    if reason not in (topic_status.MOVING, before.get("reason")):
        yield Event(reason, after["message"], warning=True)


def annotation_events(resource: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """Yield a warning for each annotation error that the previous status did not have."""
    known = resource.status.get("annotations", ())
    for wrong in status.get("annotations", ()):
        if wrong not in known:
            yield Event("InvalidAnnotation", wrong, warning=True)


def unusable_events(resource: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """Yield warnings for a newly unusable Topic or Policy, and for annotation errors.

    ``status`` is the next status. No cluster's reconciliation includes an unusable Topic, so ``topic_events`` is never
    called for it.
    """
    yield from annotation_events(resource, status)
    before, after = _find_ready_condition(resource.status), _find_ready_condition(status)
    reason = after.get("reason") if after else None  # Strimzi's conditions may have none
    # A pass has the Events of a Topic that can be read, and an invalid Cluster has its own.
    if after is None or reason not in _UNUSABLE_REASONS or (reason == Reason.INVALID_MANIFEST and not resource.errors):
        return
    compared = ("reason",) if after["reason"] == Reason.UNKNOWN_CLUSTER else ("reason", "message")
    # The message of an unknown cluster names all Clusters: each new one would yield an Event for every such Topic.
    if before is None or any(before.get(key) != after[key] for key in compared):
        yield Event(_event_reason(after["reason"]), after["message"], warning=True)


def left_events(resource: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """Yield a warning for each cluster that a Topic was applied on and does not declare any more.

    ``status`` is the next status.
    """
    names = {part["name"] for part in status.get("clusters", ())}
    for part in resource.status.get("clusters", ()):
        if "generation" in part and part["name"] not in names:
            message = f"{part['name']}: the Topic selects no Cluster of this name now; its topic and record stay there"
            yield Event("LeftCluster", message, warning=True)


def _alarm_events(cluster_resource: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """Yield a warning if KafkaTopics of a Cluster are newly refused because Strimzi's operator has them."""
    known = {each["type"] for each in cluster_resource.status.get("conditions", ())}
    for each in status["conditions"]:
        if each["type"] == Reason.STRIMZI_ACTIVE.value and each["type"] not in known:
            yield Event(each["reason"], each["message"], warning=True)


def records_events(result: ReconcileResult) -> Iterator[Event]:
    """Yield an Event for each topic that the first write of a pass made beside its Topics, and for its differences."""
    for topic in list_made(result.report) if result.report else ():
        yield Event("TopicCreated", f"{topic.name}: {', by '.join(describe_implied(topic))}")
    for notice in result.notices:
        yield Event("RecordsTopicDiffers", notice, warning=True)


def told_part(resource: Resource, cluster: str) -> Mapping[str, Any]:
    """Return the previous status of a topic on a cluster, as ``topic_events`` needs it.

    The status of a KafkaTopic has it as a whole: the refusal in its condition.
    """
    ready = _find_ready_condition(resource.status)
    if resource.kind != KAFKA_TOPIC or ready is None or ready.get("status") == "True":
        return resource.status_on(cluster)
    message = ready.get("message", "").removeprefix(f"{cluster}: ")
    return {"refusals": [{"reason": ready.get("reason"), "message": message}]}


def topic_events(cluster: str, previous: Mapping[str, Any], result: TopicResult) -> Iterator[Event]:
    """Yield the Events of a Topic on a cluster.

    ``previous`` is the cluster's part of the Topic's previous status.
    """
    yield from _move_events(cluster, previous, result)
    made, reverted = result.written_changes
    for change in made:
        if isinstance(change, MoveReplicas) and result.moves:
            continue  # later passes continue it
        if type(change) in _CHANGE_REASONS and not (
            isinstance(change, TakeOwnership) and _is_already_owned(result.plan)
        ):
            yield Event(_CHANGE_REASONS[type(change)], f"{cluster}: {describe_changes([change])}")
    if reverted:
        yield Event(_DRIFT_CORRECTED, f"{cluster}: {describe_changes(reverted)}")
    elif previous.get("state") == SyncState.DRIFTED.value and result.state in (SyncState.SYNCED, SyncState.CHANGED):
        yield Event(_DRIFT_CORRECTED, f"{cluster}: as declared again")
    for refusal in result.refusals:
        if not refusal.reason.retryable and not _is_reported(refusal, previous.get("refusals", ())):
            yield Event(_event_reason(refusal.reason.value), f"{cluster}: {format_issue(refusal)}", warning=True)


def _move_events(cluster: str, previous: Mapping[str, Any], result: TopicResult) -> Iterator[Event]:
    """Yield an Event when the first moves of a topic are sent, and when the last ones are done."""
    before, after = previous.get("moves"), result.moves
    had_begun = before is not None and (before["inFlight"] > 0 or before["left"] < before["total"])
    if after and after.in_flight and not had_begun:
        yield Event("MovesStarted", f"{cluster}: {format_count(after.left, 'partition')} to move")
    # The rest of the moves may also be refused, or not wanted any more; then they are not done.
    if before and had_begun and not after and before["left"] == before["inFlight"]:
        yield Event(_CHANGE_REASONS[MoveReplicas], f"{cluster}: {format_count(before['total'], 'partition')} moved")


def _is_already_owned(plan: TopicPlan | None) -> bool:
    before = plan.before.valid_record if plan and plan.before else None
    after = plan.record_after if plan else None
    return before is not None and after is not None and before.owner == after.owner


def _is_reported(refusal: Issue, before: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a status has this refusal already; hints are not compared."""
    found = describe_issue(refusal)
    return any(known["reason"] == refusal.reason and known["message"].startswith(found) for known in before)


def _find_ready_condition(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), None)


def _event_reason(reason: str) -> str:
    return _EVENT_REASONS.get(reason, reason)


OUTAGE_PAUSE_S = 1.0
"""Seconds without writes after a write that got no answer: each of ten thousand would wait for its time-out."""

MAX_PENDING_EVENTS = 1000
"""Maximum number of Events that wait for the first Cluster; older ones are dropped."""

log = logging.getLogger(__name__)


class EventRecorder:
    """A recorder of Events, which kopf posts in the background and retries for a while.

    kopf knows its queue of Events only in the context of a handler. Until ``attach`` is called in one, Events wait.
    """

    def __init__(self) -> None:
        self._context: contextvars.Context | None = None
        self._pending: deque[tuple[Resource, Event]] = deque(maxlen=MAX_PENDING_EVENTS)

    def attach(self) -> None:
        """Post all Events in the context of the present handler from now on."""
        if self._context is None:
            self._context = contextvars.copy_context()
            for about, event in self._pending:
                self.record(about, event)
            self._pending.clear()

    def record(self, about: Resource, event: Event) -> None:
        """Post a Kubernetes Event about a resource."""
        if self._context is None:
            self._pending.append((about, event))
            return
        kind = "Warning" if event.warning else "Normal"
        self._context.run(
            kopf.event,
            cast(kopf.Body, identity_body(about)),
            type=kind,
            reason=event.reason,
            message=topic_status.truncate_message(event.message),
        )


class StatusWriter:
    """A writer of statuses and finalizers.

    ``on_written`` receives each resource as the API server returned it, ``on_refused`` each resource with a write that
    has to be repeated.
    """

    def __init__(
        self, api: KubernetesClient, on_written: Callable[[Resource], None], on_refused: Callable[[Resource], None]
    ) -> None:
        self._api = api
        self._on_written = on_written
        self._on_refused = on_refused
        self._paused_until = 0.0
        self._pause = ApiError(0, "")

    async def wait_for_pause(self) -> None:
        """Wait until the API server accepts writes again, as far as it has said when."""
        await asyncio.sleep(max(0.0, self._paused_until - asyncio.get_running_loop().time()))

    async def run_all(self, works: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Run all writes, at most ``2 * MAX_IN_FLIGHT_REQUESTS`` at a time.

        ``works`` is read lazily: each coroutine is created only when there is room for it.
        """
        tasks: set[asyncio.Task[None]] = set()
        for work in works:
            tasks.add(asyncio.create_task(work))
            if len(tasks) >= 2 * MAX_IN_FLIGHT_REQUESTS:
                done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        await asyncio.gather(*tasks)

    async def write_topic(
        self,
        of: Resource,
        status: topic_status.Status,
        *,
        finalizer: bool,
        applied_to: Sequence[str],
        release: bool = False,
    ) -> None:
        """Write the finalizer and clusters of a Topic, and its status, each only if it has changed.

        The finalizer comes first: no status says that a topic exists before the deletion of its Topic is held. If the
        finalizer is refused, the status says so instead. ``release`` removes Strimzi's finalizer from a KafkaTopic.
        """
        held = FINALIZER in of.finalizers
        release = release and of.is_held_by_strimzi
        if release or finalizer != held or applied_to != of.applied_clusters:
            error = await self._write_metadata(of, applied_to, wanted=finalizer, release=release)
            if error and finalizer and not held:
                if of.kind == KAFKA_TOPIC:
                    return  # its status is of another form; both are written when the finalizer is accepted
                status = topic_status.unheld_topic_status(of, status, error, client.format_time(client.utc_now()))
        stays = finalizer or not of.deleting or (of.is_held_by_strimzi and not release)
        if status != of.status and stays:
            await self.write_status(of, status)

    async def write_status(self, of: Resource, status: topic_status.Status) -> None:
        """Write a whole status by server-side apply."""
        path = f"{resource_path(of)}/status"
        body = {**identity_body(of), "status": status}
        await self._write(of, "the status", lambda: self._api.apply(path, body, STATUS_MANAGER))

    async def _write_metadata(
        self, of: Resource, applied_to: Sequence[str], *, wanted: bool, release: bool
    ) -> ApiError | None:
        """Write the finalizer, or remove it, and the clusters of a Topic; return the error, None if there is none."""
        left, version = list(of.finalizers), str(of.resource_version)
        if wanted != (FINALIZER in left) or applied_to != of.applied_clusters:
            body = identity_body(of)
            body["metadata"]["finalizers"] = [FINALIZER] if wanted else []
            if applied_to:
                body["metadata"]["annotations"] = {f"{load.API_GROUP}/{APPLIED_TO}": ",".join(applied_to)}
            answer = await self._write(
                of, "the finalizer", lambda: self._api.apply(resource_path(of), body, FINALIZER_MANAGER)
            )
            if isinstance(answer, ApiError):
                return answer
            left, version = answer["metadata"].get("finalizers", []), answer["metadata"]["resourceVersion"]
        # Another field manager may own topiarist's finalizer too: an earlier version of topiarist, or the user. Remove
        # it from the list. The resource version protects the finalizers that other controllers add meanwhile.
        unwanted = {*((STRIMZI_FINALIZER,) if release else ()), *(() if wanted else (FINALIZER,))}
        if unwanted.isdisjoint(left):
            return None
        metadata = {"finalizers": [each for each in left if each not in unwanted], "resourceVersion": version}
        answer = await self._write(
            of, "the finalizer", lambda: self._api.patch(resource_path(of), {"metadata": metadata})
        )
        return answer if isinstance(answer, ApiError) else None

    async def _write(
        self, of: Resource, what: str, request: Callable[[], Coroutine[Any, Any, dict[str, Any]]]
    ) -> Mapping[str, Any] | ApiError:
        """Send a request and return the answer, or the error, which is logged."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._paused_until:
            self._on_refused(of)
            return self._pause
        try:
            answer = await request()
        except ApiError as error:
            if error.not_found:
                return error
            self._on_refused(of)
            if pause := error.retry_after or (OUTAGE_PAUSE_S if error.code == 0 else 0.0):
                self._pause, self._paused_until = error, loop.time() + pause
            if not error.conflict:
                log.warning("%s could not be written: %s", what, error, extra={"of": of.key})
            return error
        self._on_written(parse_resource(answer, of))
        return answer
