"""A cluster in memory: the port over a ``ClusterState``, for tests and for planning without a cluster.

It is trusted because it passes the same suite of tests as the real adapter, and because applying is ``evolve`` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from topiarist.core.change import Plan, TopicPlan
from topiarist.core.evolve import Now, Position, evolve, standing
from topiarist.core.names import unify
from topiarist.core.state import ClusterState
from topiarist.errors import Reason
from topiarist.reconcile import Outcome, Result


class MemoryCluster:
    """Holds a state and changes it as a plan says. ``writes`` counts topics written."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.writes = 0

    def read(self) -> ClusterState:
        """The state as it is."""
        return self.state

    def apply(self, plan: Plan, stop: Callable[[], bool]) -> Iterator[Outcome]:
        """Evolve topic by topic, with the same comparison by value as the real cluster."""
        for topic in plan.to_do():
            yield Outcome(topic.topic, Result.NOT_SENT) if stop() else self._apply(plan, topic)

    def _apply(self, plan: Plan, topic: TopicPlan) -> Outcome:
        if self.state.gate.reason:
            return Outcome(topic.topic, Result.REFUSED, self.state.gate.reason, self.state.gate.message)
        stands = standing(topic, {broker.id: broker for broker in plan.brokers}, self._now(topic.topic))
        if stands.position is Position.MOVED:
            return Outcome(topic.topic, Result.MOVED, Reason.STATE_CONFLICT, stands.message)
        if stands.position is Position.AFTER:
            return Outcome(topic.topic, Result.ALREADY)
        self.state = evolve(self.state, [topic])
        self.writes += 1
        return Outcome(topic.topic, Result.DONE)

    def _now(self, name: str) -> Now:
        topic = self.state.topics.get(name)
        return Now(
            topic=topic,
            record=topic.record if topic else self.state.records.get(name),
            marked=name in self.state.deleting,
            reassigning=name in self.state.reassigning,
            brokers={broker.id: broker for broker in self.state.brokers},
            broker_defaults=self.state.broker_defaults,
            release_at_least=self.state.release_at_least,
            unified=unify(chain(self.state.topics, self.state.faults)),
        )
