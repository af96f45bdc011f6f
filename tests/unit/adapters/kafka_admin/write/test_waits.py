"""The waits of the writer in virtual time: how long a quota is waited for, and what ends a wait."""

from __future__ import annotations

from typing import Any

import pytest

from support.kafka.write_bench import Bench
from topiarist import throttle
from topiarist.adapters.kafka_admin.write import writer as module
from topiarist.adapters.kafka_admin.write.writer import Writer
from topiarist.errors import Reason, TopiaristError
from topiarist.ports import NO_CONTROL
from unit.adapters.kafka_admin.scripted_session import FakeTime


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Replace the time of the writer."""
    clock = FakeTime()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(throttle, "time", clock)
    return clock


def new_writer(clock: FakeTime, stop_after: float = float("inf")) -> Writer:
    """Return a writer of an empty plan that is stopped some seconds from now."""
    bench, until = Bench(), clock.current + stop_after
    unused: Any = None
    return Writer(unused, unused, unused, bench.plan(), lambda: clock.current >= until, NO_CONTROL)


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.7, 3.3])
def test_a_wait_ends_in_time(clock: FakeTime, seconds: float) -> None:
    """Neither a quota nor the next look is waited for any longer than asked."""
    waiting, began = new_writer(clock), clock.current
    throttle.sleep_unless_stopped(seconds, waiting._stop)
    assert clock.current - began == pytest.approx(seconds)
    waiting._wait_for_quota(clock.current + seconds, is_progress=True)
    assert clock.current - began == pytest.approx(2 * seconds)


def test_a_wait_ends_soon_after_a_stop(clock: FakeTime) -> None:
    """A user who stops the run need not wait for the quota."""
    began = clock.current
    new_writer(clock, stop_after=2)._wait_for_quota(began + 60, is_progress=True)
    assert 2 <= clock.current - began <= 2 + throttle._STOP_CHECK_INTERVAL_S
    began = clock.current
    throttle.sleep_unless_stopped(60, new_writer(clock, stop_after=2)._stop)
    assert 2 <= clock.current - began <= 2 + throttle._STOP_CHECK_INTERVAL_S


def test_a_quota_that_accepts_nothing(clock: FakeTime) -> None:
    """It ends the run when no topic was accepted for too long; each accepted topic begins the time anew."""
    waiting, began = new_writer(clock), clock.current
    limit = module.QUOTA_TIMEOUT_S
    for is_progress in (False, True, False):
        waiting._wait_for_quota(clock.current + limit / 2, is_progress=is_progress)
    waiting._wait_for_quota(began + limit * 1.5, is_progress=False)
    with pytest.raises(TopiaristError, match="accepted no topic for") as caught:
        waiting._wait_for_quota(clock.current + 1, is_progress=False)
    assert caught.value.reason is Reason.THROTTLED
