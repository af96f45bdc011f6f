"""A cluster in memory: the ``Cluster`` port over a ``ClusterState``.

It passes the same contract tests as the adapters of real clusters. ``apply`` checks preconditions as they do, by
``planning.preconditions``, and changes the state by ``simulate``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from topiarist.adapters.snapshots.files import SnapshotCluster
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka import types
from topiarist.model.moves import ClearedMoves, MoveProgress
from topiarist.model.outcome import Outcome, Result, TopicProgress, build_topic_progress, partitions_to_initialize
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    MoveReplicas,
    Plan,
    TopicPlan,
    config_after,
    releases_ownership,
)
from topiarist.model.state import ClusterState, TopicState
from topiarist.planning.moves.throttles import update_throttles
from topiarist.planning.preconditions import Validity, check_plan, is_nudge
from topiarist.ports import NO_CONTROL, MoveOptions, WriteControl, WriteGuard, write_all


class MemoryCluster(SnapshotCluster):
    """A cluster that holds a state and applies plans to it; ``writes`` counts the topics written."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state)
        self.writes = 0

    def apply(
        self,
        plan: Plan,
        stop: Callable[[], bool],
        control: WriteControl = NO_CONTROL,
    ) -> Iterator[Outcome]:
        """Apply a plan topic by topic, with the same preconditions by value as the other adapters."""
        throttle = control.throttle
        topics = (
            sorted(plan.actionable_topics(), key=lambda topic: bool(partitions_to_initialize(topic)))
            if throttle
            else plan.actionable_topics()
        )
        for topic in topics:
            while throttle and partitions_to_initialize(topic) and not stop() and not throttle.try_acquire(topic):
                throttle.wait()
            yield Outcome(topic.topic, Result.SKIPPED) if stop() else self._apply_topic(plan, topic, control.guard)

    def move(
        self,
        plan: Plan,
        options: MoveOptions,
        stop: Callable[[], bool],
    ) -> Iterator[Outcome]:
        """Carry out the moves topic by topic; each is done at once, whatever the options.

        A state holds no leaders. The first replica of each partition counts as its leader, so no election is needed.
        """
        topics = [topic for topic in plan.actionable_topics() if topic.moves() or topic.elections()]
        done, total = 0, sum(len(topic.moves()) for topic in topics)
        for number, topic in enumerate(topics, start=1):
            if stop():
                yield Outcome(topic.topic, Result.SKIPPED)
                continue
            outcome = self._apply_topic(plan, topic)
            finished = topic.moves() if outcome.result is Result.DONE else ()
            done += len(finished)
            options.on_progress(MoveProgress(number, len(topics), done, total, finished=finished))
            yield outcome

    def clear_moves(self) -> ClearedMoves | None:
        """Put the throttles of the last batch back in the configs of its topics; a state has no configs of brokers."""
        state, record = self.state, self.state.batch
        if record is None:
            return None
        if state.requested_at_ms is not None or state.reassigning_topics:
            raise TopiaristError(Reason.REASSIGNMENT_IN_PROGRESS, "there is a reassignment request")
        own = {entity: values for entity, values in record.throttles.items() if entity.startswith("topics/")}
        current = {
            entity: state.topics[name].config
            for entity in own
            if (name := entity.removeprefix("topics/")) in state.topics
        }
        update = update_throttles({}, current, own, final=True)
        topics = dict(state.topics)
        for entity, config in update.configs.items():
            name = entity.removeprefix("topics/")
            topics[name] = replace(topics[name], config=config)
        self.state = replace(state, topics=topics, batch=None, batch_at_ms=None)
        return ClearedMoves(record, update.remarks)

    def poll(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
        """Return the progress of the topics; an applied change is complete at once."""
        return {name: poll_topic(self.state, name, partitions) for name, partitions in topics.items()}

    def _apply_topic(self, plan: Plan, topic: TopicPlan, guard: WriteGuard = write_all) -> Outcome:
        if self.state.write_block.reason:
            return Outcome(topic.topic, Result.REFUSED, self.state.write_block.reason, self.state.write_block.message)
        ((_, check),) = check_plan(replace(plan, topics=(topic,)), self.state)
        if check.validity is Validity.CONFLICT:
            return Outcome(topic.topic, Result.CONFLICT, Reason.STATE_CONFLICT, check.message)
        if check.validity is Validity.ALREADY_APPLIED or topic.elections():
            return Outcome(topic.topic, Result.UNCHANGED)
        if outcome := guard(topic):
            return outcome
        self.state = simulate(self.state, [topic])
        self.writes += 1
        return Outcome(topic.topic, Result.DONE)


def simulate(state: ClusterState, plans: Iterable[TopicPlan]) -> ClusterState:
    """Return the state after every change of ``plans``.

    Tests prove plans by it: plan, simulate, plan again, and the second plan must be empty. Changed values are new
    objects; all other values are shared with ``state``.
    """
    topics, records, identity = dict(state.topics), dict(state.dangling_records), state.next_identity
    for plan in plans:
        if not plan.is_actionable or is_nudge(plan):
            continue  # a nudge writes the same data again
        records.pop(plan.topic, None)
        if any(isinstance(change, DeleteTopic) for change in plan.changes):
            topics.pop(plan.topic, None)
            if plan.record_after:
                records[plan.topic] = plan.record_after
        elif releases_ownership(plan):
            if topic := topics.get(plan.topic):
                topics[plan.topic] = replace(topic, record=None, record_valid=False, modified_externally=False)
        else:
            before = topics.get(plan.topic) or TopicState(plan.topic, str(identity), ())
            topics[plan.topic] = _topic_after(plan, before, state.brokers)
            identity += plan.before is None
    return replace(state, topics=topics, dangling_records=records, next_identity=identity)


def _topic_after(plan: TopicPlan, before: TopicState, brokers: Sequence[types.Broker]) -> TopicState:
    # For a creation ``before`` is a topic without partitions.
    replicas, config = _replicas_after(before, plan.changes), config_after(before.config, plan.changes)
    for change in plan.changes:
        if isinstance(change, CreateTopic):
            replicas, config = change.replicas, dict(change.config)
    replicas = tuple(_choose_brokers(number, each, brokers) for number, each in enumerate(replicas))
    return replace(
        before,
        replicas=replicas,
        partition_ids=range(len(replicas)) if before.has_contiguous_partitions else before.partition_ids,
        config=config,
        record=plan.record_after,
        record_valid=True,
        modified_externally=False,
    )


def _choose_brokers(partition: int, replicas: types.Replicas, brokers: Sequence[types.Broker]) -> types.Replicas:
    """Return the replicas of a partition on any brokers, if the plan leaves them to the cluster."""
    if not brokers or types.UNPLACED not in replicas:
        return replicas
    first = partition % len(brokers)
    ids = [broker.id for broker in (*brokers[first:], *brokers[:first])]
    return (*ids, *replicas)[: len(replicas)]


def _replicas_after(topic: TopicState, changes: Sequence[Change]) -> tuple[types.Replicas, ...]:
    """Return the replica lists of an existing topic after ``changes`` are applied, in the order of ``topic``."""
    changed = [change for change in changes if isinstance(change, MoveReplicas)]
    moved = {move.partition: move.after for change in changed for move in change.moves}
    lists = zip(topic.partition_ids, topic.replicas, strict=True)
    kept = tuple(moved.get(partition, replicas) for partition, replicas in lists) if moved else topic.replicas
    return kept + tuple(
        replicas for change in changes if isinstance(change, AddPartitions) for replicas in change.replicas
    )


class Gate:
    """A throttle that lets ``room`` topics through after each wait, and counts the waits."""

    def __init__(self, room: int) -> None:
        self.room, self.left, self.waits = room, room, 0

    def try_acquire(self, topic: TopicPlan) -> bool:
        """Return whether there is room."""
        self.left -= 1
        return self.left >= 0

    def wait(self) -> None:
        """Make room."""
        self.left, self.waits = self.room, self.waits + 1

    def on_outcome(self, topic: TopicPlan, outcome: Outcome) -> None:
        """Ignore the outcome."""


def poll_topic(state: ClusterState, name: str, partitions: Collection[int]) -> TopicProgress:
    """Return the progress of a topic on a cluster with a controller that never lags.

    A requested partition counts as initialized if at least one of its brokers is registered.
    """
    found, topic = build_topic_progress(state, name), state.topics.get(name)
    if topic is None or not partitions:
        return found
    replicas = dict(zip(topic.partition_ids, topic.replicas, strict=True))
    registered = {broker.id for broker in state.brokers}
    return found._replace(
        replicas=replicas,
        initialized=frozenset(each for each in partitions if registered.intersection(replicas.get(each, ()))),
        record_stale=topic.record is not None and not topic.record_valid,
        has_controller=state.controller is not None,
        topic_id=topic.topic_id,
    )
