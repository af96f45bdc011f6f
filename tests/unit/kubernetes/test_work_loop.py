"""When a cluster is looked at: what calls for a pass, and the pauses between passes, by a clock that jumps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

import pytest

from support.virtual_time import loop_time, run_in_virtual_time
from topiarist.kubernetes.work_loop import DEBOUNCE_S, MAX_BACKOFF_S, Requeue, WorkLoop

PERIOD = 60.0


@pytest.fixture(autouse=True)
def longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """No chance: every pause is as long as it may be."""
    monkeypatch.setattr("topiarist.kubernetes.work_loop.random.uniform", lambda _least, most: most)


class Passes:
    """A loop whose passes end one after the other as told, and the times at which they began; then it ends."""

    def __init__(self, endings: Iterable[Requeue | Exception]) -> None:
        self.begun: list[float] = []
        self.endings = iter(endings)
        self.during: Callable[[int], None] = lambda number: None
        self.loop = WorkLoop(self._work, PERIOD)

    async def _work(self) -> Requeue:
        self.begun.append(loop_time())
        ending = next(self.endings, None)
        if ending is None:
            self.loop.stop()
            return Requeue.AFTER_PERIOD
        self.during(len(self.begun))
        if isinstance(ending, Exception):
            raise ending
        return ending

    def pauses(self) -> list[float]:
        """Run to the end: the seconds between the passes."""
        run_in_virtual_time(self.loop.run)
        return [later - before for before, later in zip(self.begun, self.begun[1:], strict=False)]


def test_a_cluster_is_looked_at_once_a_period() -> None:
    """Even if nothing calls for it; a tenth of chance keeps clusters apart."""
    assert Passes([Requeue.AFTER_PERIOD] * 3).pauses() == pytest.approx([PERIOD * 1.1] * 3)


def test_the_first_pass_comes_at_once() -> None:
    """Nobody has to call for it."""
    passes = Passes([])
    passes.pauses()
    assert passes.begun == [0.0]


def test_what_comes_together_is_one_pass() -> None:
    """Gathered for a moment, however often somebody calls."""
    passes = Passes([Requeue.AFTER_PERIOD, Requeue.AFTER_PERIOD])

    async def calls() -> None:
        running = asyncio.create_task(passes.loop.run())
        await asyncio.sleep(10)
        for _ in range(5):
            passes.loop.enqueue()
            await asyncio.sleep(DEBOUNCE_S / 10)
        assert passes.loop.is_queued
        await asyncio.sleep(PERIOD / 2)
        assert not passes.loop.is_queued
        await running

    run_in_virtual_time(calls)
    assert passes.begun[:2] == pytest.approx([0.0, 10 + DEBOUNCE_S])
    assert passes.loop.enqueue_count == 5


def test_what_comes_during_a_pass_is_looked_at_after_it() -> None:
    """It may have come too late for that one."""
    passes = Passes([Requeue.AFTER_PERIOD, Requeue.AFTER_PERIOD])
    passes.during = lambda number: passes.loop.enqueue() if number == 1 else None
    assert passes.pauses() == pytest.approx([DEBOUNCE_S, PERIOD * 1.1])


def test_failures_are_followed_by_growing_pauses() -> None:
    """Doubled up to the longest; a success begins anew."""
    passes = Passes([*[Requeue.AFTER_BACKOFF] * 9, Requeue.AFTER_PERIOD, Requeue.AFTER_BACKOFF])
    assert passes.pauses() == pytest.approx([1, 2, 4, 8, 16, 32, *[MAX_BACKOFF_S] * 3, PERIOD * 1.1, 1])
    assert passes.loop.retries == 10


def test_nobody_hastens_a_pass_after_a_failure() -> None:
    """Ten thousand Topics that change must not hammer a ZooKeeper that is down."""
    passes = Passes([Requeue.AFTER_BACKOFF] * 3)
    passes.during = lambda _number: passes.loop.enqueue()
    assert passes.pauses() == pytest.approx([1, 2, 4])


def test_what_is_under_way_is_looked_at_soon() -> None:
    """With growing pauses, up to the period; anything else begins anew."""
    passes = Passes([*[Requeue.SOON] * 40, Requeue.AFTER_PERIOD, Requeue.SOON])
    found = passes.pauses()
    assert found[:4] == pytest.approx([DEBOUNCE_S, DEBOUNCE_S * 1.25, DEBOUNCE_S * 1.25**2, DEBOUNCE_S * 1.25**3])
    assert found[:30] == sorted(found[:30])
    assert found[39] == pytest.approx(PERIOD)
    assert found[41] == pytest.approx(DEBOUNCE_S)


def test_a_change_hastens_what_is_looked_at_soon() -> None:
    """It does not wait for the pause that has grown."""
    passes = Passes([Requeue.SOON] * 30)
    passes.during = lambda number: passes.loop.enqueue() if number == 29 else None
    assert passes.pauses()[28] == pytest.approx(DEBOUNCE_S)


def test_a_mistake_of_ours_ends_no_loop(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with all that is known of it, and counts as a failure."""
    passes = Passes([ValueError("one"), ValueError("two"), Requeue.AFTER_PERIOD])
    with caplog.at_level(logging.ERROR):
        assert passes.pauses() == pytest.approx([1, 2, PERIOD * 1.1])
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    assert passes.loop.retries == 2


def test_an_end_finishes_what_is_under_way() -> None:
    """And wakes a loop that rests."""
    done: list[float] = []

    async def slow() -> Requeue:
        await asyncio.sleep(5)
        done.append(loop_time())
        return Requeue.AFTER_PERIOD

    async def ends() -> tuple[float, float]:
        loop = WorkLoop(slow, PERIOD)
        running = asyncio.create_task(loop.run())
        await asyncio.sleep(1)
        loop.stop()
        await running
        first = loop_time()
        loop = WorkLoop(slow, PERIOD)
        running = asyncio.create_task(loop.run())
        await asyncio.sleep(20)  # it rests
        loop.stop()
        await running
        return first, loop_time()

    assert run_in_virtual_time(ends) == (5.0, 25.0)
    assert done == [5.0, 10.0]


def test_a_failing_cluster_delays_no_other() -> None:
    """Each has a loop of its own."""
    bad, good = Passes([Requeue.AFTER_BACKOFF] * 7), Passes([Requeue.AFTER_PERIOD] * 2)

    async def both() -> None:
        await asyncio.gather(bad.loop.run(), good.loop.run())

    run_in_virtual_time(both)
    assert good.begun == pytest.approx([0.0, PERIOD * 1.1, PERIOD * 2.2])
