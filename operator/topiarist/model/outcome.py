"""Freezing and thawing: one set of our gate, without the lock, so that it works while another run holds that.

Every transaction of ours checks the gate's version as its run has read it: from the set on no transaction begun before
goes through. The set itself is made at the version just read, so that of two people who freeze at once the second is
told of the first.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.model.plan import Plan
from topiarist.model.state import Freeze


class FreezeResult(NamedTuple):
    """What became of the gate: done, already so, or refused since ``before`` is somebody else's freeze.

    ``before`` is what it said until then: None if it was open, or could not be read.
    """

    result: Result
    before: Freeze | None


class Result(str, Enum):
    """What became of one topic of a plan."""

    DONE = "done"
    UNCHANGED = "already so"
    CONFLICT = "moved"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"
    PENDING = "not finished"
    SKIPPED = "not sent"


_EXIT_CODES = {
    Result.DONE: Exit.DONE,
    Result.UNCHANGED: Exit.DONE,
    Result.SKIPPED: Exit.DONE,  # whatever kept it from being sent has a code of its own
    Result.CONFLICT: Exit.CONFLICT,
    Result.REFUSED: Exit.REFUSED,
    Result.FAILED: Exit.ERROR,
    Result.UNKNOWN: Exit.ERROR,
    Result.PENDING: Exit.ERROR,
}


def worst_exit_code(codes: Collection[Exit]) -> Exit:
    """The code to end with: an error before all, else the highest."""
    return Exit.ERROR if Exit.ERROR in codes else max(codes, default=Exit.DONE)


class Outcome(NamedTuple):
    """The result for one topic; ``message`` says what was found and what it means (empty where all is well).

    ``topic_id`` is Kafka's id of the topic where the waiting has shown it: the controller gives it after a creation.
    """

    topic: str
    result: Result
    reason: Reason | None = None
    message: str = ""
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """What a pass did: its plan as decided, and one outcome for each topic that was to be touched."""

    plan: Plan
    outcomes: tuple[Outcome, ...] = ()
    error: TopiaristError | None = None

    def outcomes_with(self, result: Result) -> tuple[Outcome, ...]:
        """The outcomes with this result."""
        return tuple(outcome for outcome in self.outcomes if outcome.result is result)

    @property
    def exit_code(self) -> Exit:
        """Failures before all, then what moved, then what was refused; an error that ended the run is one of them."""
        codes = {
            refusal.reason.exit_code
            for topic in self.plan.topics
            if not topic.observe_only
            for refusal in topic.refusals
        }
        codes |= {_EXIT_CODES[outcome.result] for outcome in self.outcomes}
        if self.error:
            codes.add(self.error.reason.exit_code)
        return worst_exit_code(codes)
