"""A cluster in memory: the ``Cluster`` port over a ``ClusterState``, for tests and snapshots.

It passes the same contract tests as the adapters of real clusters. ``apply`` checks preconditions by
``planning.preconditions`` and changes the state by ``planning.preconditions``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec.structs import replace

from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import ClearedMoves, MoveProgress
from topiarist.model.outcome import Outcome, Result, TopicProgress, build_topic_progress, partitions_to_initialize
from topiarist.model.plan import Plan, TopicPlan
from topiarist.model.state import ClusterState, TopicInspection, TopicState
from topiarist.planning.moves.throttles import update_throttles
from topiarist.planning.preconditions import Validity, check_plan, simulate
from topiarist.ports import NO_CONTROL, FoundRefusals, MoveOptions, WriteControl, WriteGuard, write_all


class MemoryCluster:
    """A cluster that holds a state and applies plans to it; ``writes`` counts the topics written."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.writes = 0

    def read(self) -> ClusterState:
        """Return the current state."""
        return self.state

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
        return {name: build_topic_progress(self.state, name, partitions) for name, partitions in topics.items()}

    def inspect(self, topic: str) -> None:
        """Return None: a state holds no partition states."""

    def inspect_all(self, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
        """Return nothing, as ``inspect`` does."""
        return {}

    def find_refusals(self, plan: Plan) -> FoundRefusals:
        """Return no refusal: no broker is there to refuse."""
        return FoundRefusals({}, plan.capabilities)

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
