"""How fast the operator creates and grows: no faster than the controller takes over, as ``apply --wait`` does it."""

from __future__ import annotations

import time
from collections.abc import Callable

from topiarist.core.backlog import AHEAD, Backlog
from topiarist.core.change import TopicPlan
from topiarist.errors import Reason, TopiaristError
from topiarist.reconcile import Outcome, Result, Watched

PATIENCE = 60.0
"""Seconds without any progress after which the pass ends; the next one goes on from there."""

_SHORTEST, _LONGEST = 0.05, 1.0


class Digestion:
    """The pace of one pass over one cluster; ``stop`` ends every rest."""

    def __init__(self, cluster: Watched, stop: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._stop = stop
        self._backlog = Backlog(AHEAD)
        self._pause = _SHORTEST
        self._progress = time.monotonic()

    def take(self, topic: TopicPlan) -> bool:
        """Whether the topic's new partitions may be written now."""
        return self._backlog.take(topic)

    def settled(self, topic: TopicPlan, outcome: Outcome) -> None:
        """What became of a topic."""
        self._backlog.settle(topic, written=outcome.result in (Result.DONE, Result.ALREADY))
        self._progress = time.monotonic()

    def rest(self) -> None:
        """Wait a little, and look. Raises ``NotTakenOver`` if the controller has done nothing for too long."""
        time.sleep(self._pause)
        if self._stop():
            return
        seen = self._backlog.see(self._cluster.look(self._backlog.asked()))
        if seen.progress:
            self._progress, self._pause = time.monotonic(), _SHORTEST
        elif time.monotonic() - self._progress > PATIENCE:
            message = f"the controller has finished nothing for {PATIENCE:g} s: nothing more is sent in this pass"
            raise TopiaristError(Reason.NOT_TAKEN_OVER, message)
        else:
            self._pause = min(2 * self._pause, _LONGEST)
