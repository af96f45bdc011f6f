"""The time after which moves without progress end a run."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from topiarist.errors import Reason, TopiaristError
from topiarist.planning.moves.execution.stall import PartitionInFlight, explain_stall, find_blocker
from topiarist.text import format_count

HINT_RUN_AGAIN = "what is in flight continues at the controller; run again to wait for it"


class Progress:
    """The progress of what is in flight; ``rate`` is the throttle of its copies, None if that is not known."""

    def __init__(self, stall_after: float, rate: int | None) -> None:
        self._stall_after = stall_after
        self._rate = rate
        self._least: tuple[int, int] | None = None
        self._deadline = 0.0

    def reset(self) -> None:
        """Begin anew: other moves are in flight."""
        self._least = None

    def check(self, in_flight: Sequence[PartitionInFlight], registered: Collection[int], now: float) -> str:
        """Return what keeps partitions from ending, empty if nothing is known; ``now`` is the time in seconds.

        Raises MovesStalled if neither partitions nor replicas in sync changed for ``stall_after`` seconds.
        """
        found = len(in_flight), sum(len(each.lagging) for each in in_flight)
        if self._least is None or found < self._least:
            self._least, self._deadline = found, now + self._stall_after
        elif now >= self._deadline:
            cause = explain_stall(in_flight, registered, self._rate)
            message = f"no progress for {self._stall_after:g} s: {cause}"
            if len(in_flight) > 1:
                message += f"; {format_count(len(in_flight), 'partition')} in flight"
            raise TopiaristError(Reason.MOVES_STALLED, message, HINT_RUN_AGAIN)
        return find_blocker(in_flight, registered)
