"""Times in the formats of Kubernetes, and the day of a budget."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from topiarist.kubernetes.api import client

NOON = datetime(2026, 1, 31, 12, 0, 0, 250, UTC)


def test_times_are_written_as_kubernetes_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions have whole seconds, Events and Leases microseconds; both are in UTC."""
    assert client.format_time(NOON) == "2026-01-31T12:00:00Z"
    monkeypatch.setattr(client, "utc_now", lambda: NOON)
    assert client.format_micro_time_now() == "2026-01-31T12:00:00.000250Z"


def test_the_clock_is_in_utc() -> None:
    """A time of the clock can be compared with one that the API server wrote."""
    assert client.utc_now().utcoffset() == timedelta(0)


def test_zookeeper_counts_milliseconds() -> None:
    """A time of ZooKeeper is in milliseconds, and keeps them."""
    assert client.from_milliseconds(1_769_860_800_250) == datetime(2026, 1, 31, 12, 0, 0, 250_000, UTC)


@pytest.mark.parametrize(
    ("text", "within"),
    [
        ("2026-01-31T12:00:00Z", True),
        ("2026-01-30T12:00:01Z", True),
        ("2026-01-30T12:00:00Z", False),
        ("2026-01-29T13:00:00Z", False),
    ],
)
def test_a_day_has_24_hours(text: str, within: bool) -> None:
    """A deletion leaves the budget exactly 24 hours after it was made."""
    assert client.is_within_a_day(text, NOON.replace(microsecond=0)) is within
