"""What must hold in every state through Kafka's own API: asked of each commit, each Admin request and each report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from interleavings.kafka import moves
from interleavings.kafka.world import AdminRequest, Run, Scenario, Topic, World, topic_id
from interleavings.replay import Ended
from topiarist.adapters.kafka_admin.records import transactions
from topiarist.adapters.kafka_admin.write.chunks import needs_request
from topiarist.adapters.kafka_admin.write.requests import Kind
from topiarist.errors import Reason
from topiarist.model.outcome import Result
from topiarist.model.plan import AddPartitions, CreateTopic, DeleteTopic, Plan, TopicPlan, UpdateConfig

_SENDING_S = transactions.LEASE_S - transactions.MARGIN_S
_COMMITTED_RESULTS = frozenset({Result.DONE, Result.UNKNOWN, Result.PENDING})


def check_commit(before: World, after: World, index: int) -> Iterator[str]:
    """Yield a sentence for each property that a commit of a run violates."""
    old, new = before.records, after.records
    if new.number != old.number + 1:
        yield "two commits have one number: a run has not seen the commit before its own"
    if old.gate is not None and new.gate == old.gate:
        yield "a run writes records while the cluster is frozen"
    if new.lock.run != f"run-{index}":
        return
    for other in (run for number, run in enumerate(before.runs) if number != index):
        if other.leased_at is not None and before.clock < other.leased_at + transactions.LEASE_S:
            yield "a run begins a chunk while the lease of another run lasts"


def check_admin_request(
    world: World, index: int, request: AdminRequest, plan: Plan | None, *, keeps_records: bool = True
) -> Iterator[str]:
    """Yield a sentence for each property that an Admin request violates where it is carried out.

    ``plan`` is None if the request was delayed. Without records there is no lock, no freeze and no intent.
    """
    records, run = world.records, world.runs[index]
    if not keeps_records:
        yield from _check_changes(world, run, request, plan) if plan else ()
        return
    if world.newest != index:
        yield f"{request.kind} is carried out after another run has taken over"
    elif records.gate is not None:
        yield f"{request.kind} is carried out on a frozen cluster"
    is_in_time = run.leased_at is not None and run.asked_at < run.leased_at + _SENDING_S
    if plan is None:
        return
    if not is_in_time:
        yield f"{request.kind} is sent after the time of the lease"
    if request.kind in moves.KINDS:
        yield from moves.check_request(world, request, run, plan)
        return
    names = {topic_id(topic): name for name, topic in world.topics}
    for key, _ in request.items:
        name = names.get(key, key) if request.kind == "delete" else key
        record = records.topics.get(name)
        if world.topic(name) and (record is None or record.intent is None) and world.newest == index:
            yield f"{request.kind} is sent without an intent"
    yield from _check_changes(world, run, request, plan)


def _check_changes(world: World, run: Run, request: AdminRequest, plan: Plan) -> Iterator[str]:
    """Yield a sentence for each topic of a request that has another value than planned, or another topic before it."""
    names = {topic_id(topic): name for name, topic in world.topics}
    for key, wanted in request.items:
        name = names.get(key, key) if request.kind == "delete" else key
        planned = next((each for each in plan.topics if each.topic == name), None)
        topic = world.topic(name)
        if planned and not _is_planned(request.kind, wanted, planned):
            yield f"{request.kind} is sent with other values than those of the plan"
        if planned is None or topic is None:
            continue
        yield from _check_change(request.kind, planned, topic, "carried out on")
        seen = dict(run.seen).get(name)
        if seen is not None:
            yield from _check_change(request.kind, planned, seen, "sent although the run has seen")


def _is_planned(kind: str, wanted: Any, planned: TopicPlan) -> bool:
    """Return whether the plan of a topic has what a request asks for."""
    for change in planned.changes:
        match change:
            case CreateTopic(replicas, config) if kind == "create":
                return bool(wanted == (replicas, tuple(config.items())))
            case AddPartitions(replicas=replicas) if kind == "grow":
                return bool(wanted == (change.total, replicas))
            case UpdateConfig(items) if kind == "configure":
                return dict(wanted) == {item.key: item.after for item in items}
            case DeleteTopic() if kind == "delete":
                return True
    return False


def _check_change(kind: str, planned: TopicPlan, topic: Topic, how: str) -> Iterator[str]:
    """Yield a sentence if a topic is not as the plan of a change shows it."""
    if kind == "create":
        return
    if planned.before is None or planned.before.identity != topic_id(topic):
        yield f"{kind} is {how} another topic of the name"
        return
    shown = {
        item.key: item.before for change in planned.changes if isinstance(change, UpdateConfig) for item in change.items
    }
    config = dict(topic.config)
    if kind == "configure" and any(config.get(key) != value for key, value in shown.items()):
        yield f"{kind} is {how} another config than that of the plan"


def check_report(ended: Ended, plan: Plan | None, run: Run) -> Iterator[str]:
    """Yield a sentence for each outcome that contradicts what the run has changed."""
    for outcome in ended.outcomes:
        planned = next((each for each in plan.topics if each.topic == outcome.topic), None) if plan else None
        needs_requests = planned is not None and any(needs_request(planned, kind) for kind in Kind)
        if outcome.result is Result.DONE and needs_requests and outcome.topic not in run.touched:
            yield "a change is reported as done, and was not made by the run"
        elif outcome.topic in run.touched and outcome.result not in _COMMITTED_RESULTS:
            yield f"a change was made, and is reported as {outcome.result.value}"


def check_end(ended: Ended, world: World, scenario: Scenario) -> Iterator[str]:
    """Yield a sentence if another run has taken over, though this one has not stood still: one of two runs waits.

    A freeze takes over by design. A run that misses the answer to its last commit has given up the lock by it: the next
    run begins rightly, and the first one cannot tell whether its commit was made.
    """
    is_taken_over = ended.error is not None and ended.error.reason is Reason.SESSION_LOST
    left, given = world.budget, scenario.budget
    is_undisturbed = (left.stops, left.losses) == (given.stops, given.losses)
    if is_taken_over and is_undisturbed and world.newest not in scenario.freezes:
        yield "a run that has not stood still is taken over"


def check_records(world: World) -> Iterator[str]:
    """Yield a sentence for each record that says other values than its topic has, after all runs and without others."""
    for name, record in world.records.topics.items():
        topic = world.topic(name)
        applied = record.record.applied if record.record else None
        if record.intent or topic is None or applied is None or record.topic_id != topic_id(topic):
            continue
        if any(dict(topic.config).get(key) != value for key, value in applied.config):
            yield "the record of a topic says other values than the topic has"
