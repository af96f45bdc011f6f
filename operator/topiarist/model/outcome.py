"""The results of a reconciliation and of a freeze, and their exit codes.

``reconcile.py`` and the adapters build the outcomes; ``output``, the command line and the operator's status report
them.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.model.plan import Plan
from topiarist.model.state import Freeze


class Result(str, Enum):
    """The result for one topic of a plan."""

    DONE = "done"
    UNCHANGED = "unchanged"
    CONFLICT = "conflict"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"
    PENDING = "pending"
    SKIPPED = "skipped"


_EXIT_CODES = {
    Result.DONE: Exit.DONE,
    Result.UNCHANGED: Exit.DONE,
    Result.SKIPPED: Exit.DONE,  # the error that prevented the write has its own exit code
    Result.CONFLICT: Exit.CONFLICT,
    Result.REFUSED: Exit.REFUSED,
    Result.FAILED: Exit.ERROR,
    Result.UNKNOWN: Exit.ERROR,
    Result.PENDING: Exit.ERROR,
}


def worst_exit_code(codes: Collection[Exit]) -> Exit:
    """Return the exit code of a run: ``ERROR`` if any code is, else the highest; ``DONE`` if there are none."""
    return Exit.ERROR if Exit.ERROR in codes else max(codes, default=Exit.DONE)


class Outcome(NamedTuple):
    """The outcome for one topic; ``message`` explains the result (empty if there is no problem).

    ``topic_id`` is Kafka's id of the topic if the run waited for it: the controller assigns it after a creation.
    """

    topic: str
    result: Result
    reason: Reason | None = None
    message: str = ""
    topic_id: str | None = None


class FreezeResult(Struct, frozen=True):
    """The result of a freeze or unfreeze: done, unchanged, or refused because ``before`` is another user's freeze.

    ``before`` is None if the cluster was not frozen, or if the freeze could not be read.
    """

    result: Result
    before: Freeze | None


class ReconcileReport(Struct, frozen=True):
    """A filtered plan, one outcome for each actionable topic, and the error that ended the reconciliation early."""

    plan: Plan
    outcomes: tuple[Outcome, ...] = ()
    error: TopiaristError | None = None

    def outcomes_with(self, result: Result) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.result is result)

    @property
    def exit_code(self) -> Exit:
        """Return the exit code: failures first, then conflicts, then refusals; ``error`` counts as one of them."""
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
