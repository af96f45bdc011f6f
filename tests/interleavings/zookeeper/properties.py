"""What must hold in every state: README's first two promises, asked of each transaction that commits and each report.

``model`` calls ``check_commit`` with the tree before and after a transaction, the plan that was shown, and a plan that
topiarist's own planner makes of the tree directly before. ``check_report`` compares a report with what was committed.
Each violation is a sentence; equal sentences count as one find.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from interleavings.zookeeper.actors import Step
from interleavings.zookeeper.tree import Tree, TreeOperation, topic_of
from interleavings.zookeeper.world import World, Written, config_of, partitions_of, topic_id_of
from topiarist.adapters import own_values
from topiarist.adapters.own_values import decode_batch
from topiarist.adapters.zookeeper.codec import paths, values
from topiarist.errors import Reason
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import AddPartitions, CreateTopic, DeleteTopic, MoveReplicas, Plan, TopicPlan, UpdateConfig

COMMITTED_RESULTS = frozenset({Result.DONE, Result.UNKNOWN})


BATCH = Written("(a batch of moves)", was_planned=True, czxid=0, partitions=0)
"""The mark of a run that has sent a batch of moves."""


class Commit(NamedTuple):
    """A transaction that was committed, with its topic and the trees before and after."""

    topic: str
    operations: Sequence[TreeOperation]
    before: Tree
    after: Tree
    lock_path: str


def topic_of_transaction(operations: Sequence[TreeOperation]) -> str:
    """Return the topic that a transaction writes: its last operation is the topic's record, or the topic."""
    return topic_of(operations[-1].path)


def is_of_planned_topic(commit: Commit, planned: TopicPlan) -> bool:
    """Return whether the transaction changed the topic that was planned, and not a recreated one."""
    entry = commit.before.nodes.get(paths.topic_path(commit.topic))
    if planned.before is None:
        return entry is None
    return entry is not None and planned.before.identity == str(entry.czxid)


def check_commit(commit: Commit, planned: TopicPlan, fresh: Plan) -> Iterator[str]:
    """Yield a sentence for each property that a committed transaction violates."""
    yield from _check_fence(commit, planned)
    yield from _check_identity(commit, planned)
    yield from _check_assignment(commit, planned)
    yield from _check_config(commit, planned)
    yield from _check_fresh(planned, next((each for each in fresh.topics if each.topic == commit.topic), None), fresh)


def _check_fence(commit: Commit, planned: TopicPlan) -> Iterator[str]:
    yield from _check_lock(commit)
    nodes = commit.before.nodes
    offline = {broker for broker in planned.placed_brokers() if paths.broker_path(broker) not in nodes}
    if offline:
        yield "a replica is placed on an offline broker"
    request = nodes.get(paths.REASSIGNMENT_REQUEST)
    restricted = any(isinstance(each, CreateTopic | AddPartitions | DeleteTopic) for each in planned.changes)
    if request and restricted and f'"topic":"{commit.topic}"'.encode() in request.data:
        yield "a topic is created, grown or deleted that a reassignment request names"


def _check_identity(commit: Commit, planned: TopicPlan) -> Iterator[str]:
    kinds = "+".join(type(change).__name__ for change in planned.changes) or "record"
    if not is_of_planned_topic(commit, planned):
        yield f"the topic was recreated: {kinds} is written to another topic of the name"
    if planned.before is not None and paths.topic_path(commit.topic) not in commit.before.nodes:
        yield f"{kinds} is written for a topic that was deleted"
    before, after = topic_id_of(commit.before, commit.topic), topic_id_of(commit.after, commit.topic)
    if before != after and commit.topic in partitions_of_both(commit):
        yield "a topic id changes"
    record = commit.before.nodes.get(paths.record_path(commit.topic))
    planned_record = planned.record_before
    if record and (planned_record is None or own_values.decode_record(record.data) != planned_record):
        yield "an ownership record is overwritten that is not the planned one"


def partitions_of_both(commit: Commit) -> tuple[str, ...]:
    """Return the topic if it exists before and after the transaction."""
    path = paths.topic_path(commit.topic)
    return (commit.topic,) if path in commit.before.nodes and path in commit.after.nodes else ()


def _check_assignment(commit: Commit, planned: TopicPlan) -> Iterator[str]:
    before, after = partitions_of(commit.before, commit.topic), partitions_of(commit.after, commit.topic)
    if any(after.get(partition) != replicas for partition, replicas in before.items()):
        yield "a transaction removes or moves a partition"
    added = [tuple(after[each]) for each in sorted(after.keys() - before.keys(), key=int)]
    if added != list(planned.new_replicas()):
        yield "partitions are added that are not those of the plan"
    requested = paths.deletion_request_path(commit.topic) in commit.before.nodes
    deleting = any(isinstance(change, CreateTopic | AddPartitions) for change in planned.changes)
    if requested and deleting:
        yield "a topic is created or grown during its deletion"


def _check_config(commit: Commit, planned: TopicPlan) -> Iterator[str]:
    before, after = config_of(commit.before, commit.topic), config_of(commit.after, commit.topic)
    shown: dict[str, str | None] = {}
    for change in planned.changes:
        if isinstance(change, CreateTopic):
            if after != dict(change.config):
                yield "a topic is created with a config that is not that of the plan"
            if before:
                yield "a creation replaces the config that another client left"
            return
        if isinstance(change, UpdateConfig):
            if any(before.get(item.key) != item.before for item in change.items):
                yield "a config is overwritten that is not the one of the plan"
            shown |= {item.key: item.after for item in change.items}
    changed = {key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    if any(key not in shown or shown[key] != value for key, value in changed.items()):
        yield "a config is written that is not in the plan"
    path = paths.config_path(commit.topic)
    announced = any(f'topics/{commit.topic}"'.encode() in each.data for each in commit.operations if each.flags)
    if commit.before.nodes.get(path) != commit.after.nodes.get(path) and not announced:
        yield "a config change is not announced"


def _check_fresh(planned: TopicPlan, fresh: TopicPlan | None, plan: Plan) -> Iterator[str]:
    """Compare with the planner's opinion of the state directly before: would it write this, at this risk?"""
    if plan.write_block.reason:
        return  # ``_check_fence`` names it
    written = [change for change in planned.changes if not isinstance(change, MoveReplicas)]
    if planned.changes and not written:
        return  # the record alone: the moves have transactions of their own
    kinds = "+".join(type(change).__name__ for change in written) or "record"
    changes: Mapping[type, object] = {type(change): change for change in fresh.changes} if fresh else {}
    for change in written:
        now = changes.get(type(change))
        if now is not None and now.assessment.risk > change.assessment.risk:  # type: ignore[attr-defined]
            yield f"the risk of {type(change).__name__} rose between plan and write"
    if fresh is None or not fresh.is_actionable:
        reasons = sorted({issue.reason.value for issue in fresh.refusals}) if fresh else []
        yield f"a plan of this moment would not write {kinds}: {', '.join(reasons) or 'it is unchanged'}"


def check_report(outcomes: Sequence[Outcome], written: Sequence[Written]) -> Iterator[str]:
    """Yield a sentence for each outcome that contradicts what the run wrote."""
    was_planned = {each.topic: each.was_planned for each in written}
    for outcome in outcomes:
        if outcome.result is Result.DONE and outcome.topic not in was_planned:
            yield "a change is reported as done, and was not made"
        elif outcome.result is Result.DONE and not was_planned[outcome.topic]:
            yield "a change of another topic of the name is reported as done"
        elif was_planned.get(outcome.topic) and outcome.result not in COMMITTED_RESULTS:
            yield f"a change was made, and is reported as {outcome.result.value}"


def check_other_writer(world: World, step: Step) -> Iterator[str]:
    """Yield a sentence if another actor's step undoes what a run has written."""
    actor = step.label.partition(":")[0]
    for written in (each for run in world.runs for each in run.written):
        entry, after = (tree.nodes.get(paths.topic_path(written.topic)) for tree in (world.tree, step.world.tree))
        if entry is None or after is None or entry.czxid != written.czxid:
            continue
        count = len(partitions_of(step.world.tree, written.topic))
        if count < min(written.partitions, len(partitions_of(world.tree, written.topic))):
            yield f"partitions that a run added are lost: the {actor} sets the topic as it was before"
        if world.client[:1] == ("set config",) and step.world.client[:1] == ("create",):
            yield "another creator of a topic sets its config after a run has created it"


def is_of_batch(operations: Sequence[TreeOperation]) -> bool:
    """Return whether a transaction sends a batch of moves, or puts its throttles back."""
    return any(each.path == paths.MOVES for each in operations)


def check_batch(commit: Commit, plan: Plan) -> Iterator[str]:
    """Yield a sentence for each property that a batch of moves, or its end, violates."""
    yield from _check_lock(commit)
    before, after = commit.before.nodes, commit.after.nodes
    if paths.MOVES not in after:
        record, request = decode_batch(before[paths.MOVES].data), before.get(paths.REASSIGNMENT_REQUEST)
        own = {(move.topic, move.partition, move.after) for move in record.moves}
        if request is not None:
            whose = "the batch" if own & _entries(request.data) else "a request of another client"
            yield f"throttles are put back while {whose} is in flight"
        return
    record = decode_batch(after[paths.MOVES].data)
    requested = _entries(after[paths.REASSIGNMENT_REQUEST].data)
    if requested != {(move.topic, move.partition, move.after) for move in record.moves}:
        yield "the record of a batch has other moves than its request"
    planned = {(move.topic, move.partition): move for topic in plan.topics for move in topic.moves()}
    states = {topic.topic: topic.before for topic in plan.topics}
    for move in record.moves:
        shown, node = planned.get((move.topic, move.partition)), before.get(paths.topic_path(move.topic))
        if shown is None or (shown.before, shown.after) != (move.before, move.after):
            yield "a partition is moved that the plan does not move so"
        if node is None:
            yield "a batch names a topic that does not exist"
            continue
        state, fields = states.get(move.topic), json.loads(node.data)
        if state is not None and state.identity != str(node.czxid):
            yield "a batch moves another topic of the name"
        if tuple(fields["partitions"].get(str(move.partition), ())) != move.before:
            yield "a partition is moved that is not on its brokers of before"
        if paths.deletion_request_path(move.topic) in before:
            yield "a partition is moved during the deletion of its topic"
        if paths.partition_state_path(move.topic, move.partition) not in before:
            yield "a partition without a state is moved"
        for broker in move.added:
            if paths.broker_path(broker) not in before:
                yield "a partition is moved to an offline broker"
            config = after.get(paths.entity_config_path(f"brokers/{broker}"))
            if config is None or "follower.replication.throttled.rate" not in json.loads(config.data)["config"]:
                yield "a replica is copied without a throttle"


def _entries(request: bytes) -> set[tuple[str, int, tuple[int, ...]]]:
    """Return topic, partition and target of each entry of a reassignment request."""
    entries = json.loads(request)["partitions"]
    return {(each["topic"], each["partition"], tuple(each["replicas"])) for each in entries}


def check_moves_report(
    outcomes: Sequence[Outcome], plan: Plan, tree: Tree, written: Sequence[Written]
) -> Iterator[str]:
    """Yield a sentence for each topic that is reported as moved and is not on its brokers of after."""
    moves = {topic.topic: topic.moves() for topic in plan.topics}
    for outcome in outcomes:
        if outcome.result is Result.DONE:
            lists = partitions_of(tree, outcome.topic)
            if any(tuple(lists.get(str(move.partition), ())) != move.after for move in moves.get(outcome.topic, ())):
                yield "a move is reported as done, and the partition is elsewhere"
        if outcome.reason is Reason.MOVE_DROPPED and BATCH not in written:
            yield "a move is reported as dropped, and was never sent"


def check_left_throttles(tree: Tree) -> Iterator[str]:
    """Yield a sentence for what moves leave, after undisturbed runs."""
    if paths.MOVES in tree.nodes:
        yield "the record of a batch is left"
    if any(
        "throttled" in key
        for path, entry in tree.nodes.items()
        if path.startswith((f"{paths.TOPIC_CONFIGS}/", f"{paths.BROKER_CONFIGS}/"))
        for key in json.loads(entry.data)["config"]
    ):
        yield "throttles are left"


def _check_lock(commit: Commit) -> Iterator[str]:
    nodes = commit.before.nodes
    waiting = [f"{paths.LOCK}/{name}" for name in commit.before.children(paths.LOCK)]
    if commit.lock_path not in waiting:
        yield "a run writes without its lock"
    elif min(waiting, key=lambda path: path[-10:]) != commit.lock_path:
        yield "a run writes while another run holds the lock"
    if paths.CONTROLLER not in nodes:
        yield "a run writes while there is no controller"
    elif b'"kraftControllerEpoch":-1' not in nodes[paths.CONTROLLER].data:
        yield "a run writes after a KRaft controller took over"
    elif paths.MIGRATION in nodes:
        yield "a run writes during a migration to KRaft"
    if values.decode_freeze_fail_closed(nodes[paths.FREEZE].data):
        yield "a run writes on a frozen cluster"
