"""Wall-clock time in the formats of Kubernetes.

Times in statuses, Events and Leases are for display, with one exception. The budget of deletions covers one day and
has to survive a restart, so it uses wall-clock time: if the clock of the operator jumps ahead by a day, the cluster
gets one more budget. All other timeouts and intervals use the monotonic clock.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

DAY = timedelta(days=1)


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def from_milliseconds(milliseconds: int) -> datetime:
    """Return the time for ms since the epoch, the unit of ZooKeeper."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def format_milliseconds(milliseconds: int) -> str:
    """Return the time for ms since the epoch in the format of conditions."""
    return format_time(from_milliseconds(milliseconds))


def format_time(time: datetime) -> str:
    """Return a time in the format of conditions: ``2026-01-31T12:00:00Z``."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time_now() -> str:
    """Return the current time in the format of Events and Leases, with microseconds."""
    return now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def is_within_a_day(text: str, time: datetime) -> bool:
    """Return whether the RFC 3339 time ``text`` is less than a day before ``time``."""
    return time - datetime.fromisoformat(text) < DAY
