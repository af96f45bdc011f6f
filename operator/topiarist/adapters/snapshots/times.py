"""Times in snapshot rows: UTC, in whole seconds, in one form of text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
"""The format of a time in a row, always UTC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=256)
def parse_time(text: str) -> datetime:
    """Parse a time of a row; raise ``ValueError`` for other text. The snapshots of a fleet have few different times."""
    return datetime.strptime(text, TIME_FORMAT).replace(tzinfo=UTC)


def format_time(time: datetime) -> str:
    """Format a time for a row, in whole seconds.

    Uses ``isoformat``, because ``strftime`` does not guarantee four digits for the year.
    """
    return f"{time.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat()}Z"


def format_ms(ms: int | None) -> str | None:
    """Format a time in ms since the epoch for a row, in whole seconds; None if it is unknown or after the year 9999."""
    try:
        return None if ms is None else format_time(_EPOCH + timedelta(milliseconds=ms))
    except OverflowError:
        return None


def to_ms(text: str | None) -> int | None:
    """Return a time of a row in ms since the epoch; None for None."""
    return None if text is None else (parse_time(text) - _EPOCH) // timedelta(milliseconds=1)


def format_seconds(seconds: int | None) -> str | None:
    """Format a time in seconds since the epoch for a row; None for None."""
    return format_ms(None if seconds is None else seconds * 1000)


def to_seconds(text: str) -> int:
    """Return a time of a row in seconds since the epoch."""
    return (parse_time(text) - _EPOCH) // timedelta(seconds=1)
