"""The time of day, as Kubernetes writes it down. It is for people, with one exception.

That is the budget of deletions, which is for a day and has to outlive a restart: a clock that jumps ahead by a day,
ours or that of a ZooKeeper server, gives a cluster one more budget. Whatever else waits or ends by time is measured by
the clock that never jumps.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

DAY = timedelta(days=1)


def now() -> datetime:
    """The time now."""
    return datetime.now(UTC)


def from_milliseconds(milliseconds: int) -> datetime:
    """A time that is given in ms since the epoch, as ZooKeeper gives it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def format_time(time: datetime) -> str:
    """As in conditions: ``2026-01-31T12:00:00Z``."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time_now() -> str:
    """The time now, as in Events and Leases: with microseconds."""
    return now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def is_within_a_day(text: str, time: datetime) -> bool:
    """Whether a time that was written down is less than a day before ``time``."""
    return time - datetime.fromisoformat(text) < DAY
