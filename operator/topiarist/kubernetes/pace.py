"""How fast the operator creates and grows: no faster than the controller takes over, as ``apply --wait`` does it."""

from __future__ import annotations

import time
from collections.abc import Callable

from topiarist.core.backlog import AHEAD, Backlog
from topiarist.core.change import TopicPlan
from topiarist.errors import Reason, TopiaristError
from topiarist.patience import Patience
from topiarist.reconcile import Outcome, Result, Watched

PATIENCE = 60.0
"""Seconds without any progress after which the pass ends; the next one goes on from there."""


SLICE = 10.0
"""Seconds of holding back after which a pass has sent enough: then statuses are written, and the next one goes on."""


class Digestion:
    """The pace of one pass over one cluster; ``stop`` ends every rest. ``enough``: the rest is for the next pass."""

    def __init__(self, cluster: Watched, stop: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._backlog = Backlog(AHEAD)
        self._patience = Patience(PATIENCE, stop)
        self._began: float | None = None

    @property
    def enough(self) -> bool:
        """Whether this pass has been held back for long."""
        return self._began is not None and time.monotonic() - self._began > SLICE

    def take(self, topic: TopicPlan) -> bool:
        """Whether the topic's new partitions may be written now."""
        return self._backlog.take(topic)

    def settled(self, topic: TopicPlan, outcome: Outcome) -> None:
        """What became of a topic."""
        self._backlog.settle(topic, written=outcome.result in (Result.DONE, Result.ALREADY))
        self._patience.renew()

    def rest(self) -> None:
        """Wait a little, and look. Raises ``NotTakenOver`` if the controller has done nothing for too long."""
        if self._began is None:
            self._began = time.monotonic()
        if self._patience.worn(lambda: self._backlog.see(self._cluster.look(self._backlog.asked())).progress):
            message = f"the controller has finished nothing for {PATIENCE:g} s: nothing more is sent in this pass"
            raise TopiaristError(Reason.NOT_TAKEN_OVER, message)
