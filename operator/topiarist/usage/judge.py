"""Judges usage: may a topic be deleted, and is it dormant?

``filters.observed`` and drift reports call it. What is not known never counts as not used. The time of a judgement is
that of the read, not of a clock.
"""

from __future__ import annotations

from enum import Enum

from topiarist.model.usage import DeletionCheck, Side, TopicUsage, UsageSettings, UsageState


class DeletionVerdict(Enum):
    """The verdict on a deletion: nothing speaks against it, the topic is in use, or too little is known of its use."""

    ALLOWED = "Allowed"
    IN_USE = "InUse"
    UNKNOWN = "Unknown"


def judge_deletion(usage: TopicUsage | None, read_at: int, settings: UsageSettings) -> DeletionVerdict:
    """Return the verdict on a deletion, from usage that was read at ``read_at``; None: it could not be read.

    ``UNKNOWN`` is a refusal only if the cluster requires proof (``DeletionCheck.REQUIRE_NOT_SEEN``).
    """
    if settings.deletion is DeletionCheck.IGNORE:
        return DeletionVerdict.ALLOWED
    if usage is None:
        return DeletionVerdict.UNKNOWN
    if usage.sample.member_count or any(_is_recent(side, read_at, settings) for side in (usage.written, usage.read)):
        return DeletionVerdict.IN_USE
    if settings.deletion is DeletionCheck.REQUIRE_NOT_SEEN:
        return DeletionVerdict.ALLOWED if is_dormant(usage, read_at, settings.window) else DeletionVerdict.UNKNOWN
    known = UsageState.UNKNOWN not in (usage.written.state, usage.read.state)
    return DeletionVerdict.ALLOWED if known else DeletionVerdict.UNKNOWN


def is_dormant(usage: TopicUsage, read_at: int, window: int) -> bool:
    """Return whether neither a write nor a reader was seen for ``window`` seconds before ``read_at``."""
    return all(is_unseen(side, read_at, window) for side in (usage.written, usage.read))


def is_unseen(side: Side, read_at: int, window: int) -> bool:
    """Return whether a side was observed for ``window`` seconds before ``read_at``, without a use."""
    since = side.unseen_since
    return since is not None and since <= read_at - window


def worse_state(usage: TopicUsage) -> UsageState:
    """Return the state of a topic as a whole: used on one side at least, not seen on both, or not known."""
    states = {usage.written.state, usage.read.state}
    if UsageState.USED in states:
        return UsageState.USED
    return UsageState.UNKNOWN if UsageState.UNKNOWN in states else UsageState.NOT_SEEN


def _is_recent(side: Side, read_at: int, settings: UsageSettings) -> bool:
    return side.before is not None and side.before >= read_at - settings.quiet_for
