"""A cluster in memory: the port over a ``ClusterState``, for tests and for planning without a cluster.

It is trusted because it passes the same suite of tests as the real adapter, and because applying is ``evolve`` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from topiarist.core.change import Plan, TopicPlan
from topiarist.core.evolve import Position, evolve
from topiarist.core.standings import standings
from topiarist.core.state import ClusterState
from topiarist.core.waiting import Sight, sight
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

    def look(self, topics: Sequence[str]) -> Mapping[str, Sight]:
        """The topics as they are; deletions are over as soon as they are asked for."""
        return {name: sight(self.state, name) for name in topics}

    def inspect(self, topic: str) -> None:
        """Nothing: a state does not hold what a controller has made of its topics."""

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
