"""A cluster in memory: the port over a ``ClusterState``, for tests and for planning without a cluster.

It is trusted because it passes the same suite of tests as the real adapter, and because applying is ``evolve`` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from topiarist.core.change import Plan, TopicPlan
from topiarist.core.evolve import Position, evolve
from topiarist.core.inspection import Inspection
from topiarist.core.standings import standings
from topiarist.core.state import ClusterState, TopicState
from topiarist.core.waiting import Sight, brings, sight
from topiarist.errors import Reason
from topiarist.reconcile import Outcome, Pace, Result


class MemoryCluster:
    """Holds a state and changes it as a plan says. ``writes`` counts topics written."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.writes = 0

    def read(self) -> ClusterState:
        """The state as it is."""
        return self.state

    def apply(self, plan: Plan, stop: Callable[[], bool], pace: Pace | None = None) -> Iterator[Outcome]:
        """Evolve topic by topic, with the same comparison by value as the real cluster."""
        topics = sorted(plan.to_do(), key=lambda topic: bool(brings(topic))) if pace else plan.to_do()
        for topic in topics:
            while pace and brings(topic) and not stop() and not pace.take(topic):
                pace.rest()
            yield Outcome(topic.topic, Result.NOT_SENT) if stop() else self._apply(plan, topic)

    def look(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, Sight]:
        """The topics as they are; the controller is as fast as we are."""
        return {name: sight(self.state, name, partitions) for name, partitions in topics.items()}

    def inspect(self, topic: str) -> None:
        """Nothing: a state does not hold what a controller has made of its topics."""

    def inspect_all(self, topics: Collection[TopicState]) -> Mapping[str, Inspection]:
        """Return nothing, as ``inspect`` does."""
        return {}

    def _apply(self, plan: Plan, topic: TopicPlan) -> Outcome:
        if self.state.gate.reason:
            return Outcome(topic.topic, Result.REFUSED, self.state.gate.reason, self.state.gate.message)
        ((_, stands),) = standings(replace(plan, topics=(topic,)), self.state)
        if stands.position is Position.MOVED:
            return Outcome(topic.topic, Result.MOVED, Reason.STATE_CONFLICT, stands.message)
        if stands.position is Position.AFTER:
            return Outcome(topic.topic, Result.ALREADY)
        self.state = evolve(self.state, [topic])
        self.writes += 1
        return Outcome(topic.topic, Result.DONE)
