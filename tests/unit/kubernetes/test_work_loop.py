"""When the operator starts a pass: events and pauses between passes, with a virtual clock."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

import pytest

from support.virtual_time import loop_time, run_in_virtual_time
from topiarist.kubernetes.identity import Requeue, WorkLoop

PERIOD, DEBOUNCE_S, MAX_BACKOFF_S, FIRST_MOVE_PAUSE_S, MAX_MOVE_PAUSE_S = 60.0, 0.1, 60.0, 0.5, 15.0
"""Seconds, as documented."""


@pytest.fixture(autouse=True)
def longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the jitter: every pause has its maximum length."""
    monkeypatch.setattr("topiarist.kubernetes.identity.random.uniform", lambda _least, most: most)


class Passes:
    """A loop with the given results of its passes, which records their start times and then ends."""

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
        """Run to the end, and return the seconds between the passes."""
        run_in_virtual_time(self.loop.run)
        return [later - before for before, later in zip(self.begun, self.begun[1:], strict=False)]


def test_a_cluster_is_looked_at_once_a_period() -> None:
    """A pass starts at once and then once a period without any event, with up to a tenth of jitter."""
    passes = Passes([Requeue.AFTER_PERIOD] * 3)
    assert passes.pauses() == pytest.approx([PERIOD * 1.1] * 3)
    assert passes.begun[0] == 0.0


def test_what_comes_together_is_one_pass() -> None:
    """Events within a short interval start one pass."""
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
    """An event during a pass starts another pass."""
    passes = Passes([Requeue.AFTER_PERIOD, Requeue.AFTER_PERIOD])
    passes.during = lambda number: passes.loop.enqueue() if number == 1 else None
    assert passes.pauses() == pytest.approx([DEBOUNCE_S, PERIOD * 1.1])


def test_failures_are_followed_by_growing_pauses() -> None:
    """Pauses after failures double up to a maximum; a success resets them."""
    passes = Passes([*[Requeue.AFTER_BACKOFF] * 9, Requeue.AFTER_PERIOD, Requeue.AFTER_BACKOFF])
    assert passes.pauses() == pytest.approx([1, 2, 4, 8, 16, 32, *[MAX_BACKOFF_S] * 3, PERIOD * 1.1, 1])
    assert passes.loop.retries == 10


@pytest.mark.parametrize(
    ("ending", "most"),
    [(Requeue.AFTER_BACKOFF, MAX_BACKOFF_S), (Requeue.SOON, PERIOD), (Requeue.MOVING, MAX_MOVE_PAUSE_S)],
)
def test_pauses_stay_at_their_maximum(ending: Requeue, most: float) -> None:
    """A cluster may be away, or move replicas, for days: no power of a pause becomes too large to compute."""
    assert Passes([ending] * 3300).pauses()[-1] == most


def test_nobody_hastens_a_pass_after_a_failure() -> None:
    """Events do not shorten the pause after a failure, so 10,000 changing Topics do not overload a failed ZooKeeper."""
    passes = Passes([Requeue.AFTER_BACKOFF] * 3)
    passes.during = lambda _number: passes.loop.enqueue()
    assert passes.pauses() == pytest.approx([1, 2, 4])


def test_what_is_under_way_is_looked_at_soon() -> None:
    """Work in progress is polled with growing pauses up to the period; any other result resets them."""
    passes = Passes([*[Requeue.SOON] * 40, Requeue.AFTER_PERIOD, Requeue.SOON])
    found = passes.pauses()
    assert found[:4] == pytest.approx([DEBOUNCE_S, DEBOUNCE_S * 1.25, DEBOUNCE_S * 1.25**2, DEBOUNCE_S * 1.25**3])
    assert found[:30] == sorted(found[:30])
    assert found[39] == pytest.approx(PERIOD)
    assert found[41] == pytest.approx(DEBOUNCE_S)


def test_moves_are_looked_at_soon_and_sooner_after_progress() -> None:
    """While replicas are moved, pauses grow from half a second to a maximum; progress begins anew."""
    passes = Passes([Requeue.MOVED, *[Requeue.MOVING] * 30, Requeue.MOVED, Requeue.MOVING])
    found = passes.pauses()
    assert found[:3] == pytest.approx([FIRST_MOVE_PAUSE_S, FIRST_MOVE_PAUSE_S * 1.25, FIRST_MOVE_PAUSE_S * 1.25**2])
    assert found[:31] == sorted(found[:31])
    assert found[30] == MAX_MOVE_PAUSE_S
    assert found[31:33] == pytest.approx([FIRST_MOVE_PAUSE_S, FIRST_MOVE_PAUSE_S * 1.25])


def test_a_short_period_limits_every_pause() -> None:
    """A cluster with moves or writes in progress is not reconciled less often than any other one."""
    for ending in (Requeue.MOVING, Requeue.SOON):
        passes = Passes([ending] * 60)
        passes.loop = WorkLoop(passes._work, 2.0)
        assert max(passes.pauses()) == pytest.approx(2.0)


@pytest.mark.parametrize("ending", [Requeue.MOVING, Requeue.SOON])
def test_a_change_does_not_wait_for_what_is_under_way(ending: Requeue) -> None:
    """An event starts a pass at once, however long the pause between two passes over a batch or a write is."""
    passes = Passes([ending] * 30)
    passes.during = lambda number: passes.loop.enqueue() if number == 29 else None
    assert passes.pauses()[28] == pytest.approx(DEBOUNCE_S)


@pytest.mark.parametrize(("is_met", "begun"), [(False, [0.0, 20.0, 30.0]), (True, [0.0, 20.0, 23.0, 40.0])])
def test_rare_requests_are_ten_seconds_apart(is_met: bool, begun: list[float]) -> None:
    """The first one counts at once, and one that comes too early later, unless another pass has met it."""
    passes = Passes([Requeue.AFTER_PERIOD] * len(begun))

    async def calls() -> None:
        running = asyncio.create_task(passes.loop.run())
        await asyncio.sleep(20)
        passes.loop.enqueue_rarely()
        await asyncio.sleep(1)
        for _ in range(3):
            passes.loop.enqueue_rarely()
        await asyncio.sleep(2)
        if is_met:
            passes.loop.enqueue()
            await asyncio.sleep(17)
            passes.loop.enqueue_rarely()
        await running

    run_in_virtual_time(calls)
    assert passes.begun[:-1] == pytest.approx([each and each + DEBOUNCE_S for each in begun])


def test_a_mistake_of_ours_ends_no_loop(caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected exception does not end the loop; it is logged in full and counts as a failure."""
    passes = Passes([ValueError("one"), ValueError("two"), Requeue.AFTER_PERIOD])
    with caplog.at_level(logging.ERROR):
        assert passes.pauses() == pytest.approx([1, 2, PERIOD * 1.1])
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    assert passes.loop.retries == 2


def test_an_end_finishes_what_is_under_way() -> None:
    """A stop lets the pass in progress finish, and wakes a waiting loop."""
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


@pytest.mark.parametrize(
    ("ending", "least", "most"),
    [(Requeue.AFTER_PERIOD, 54.0, 66.0), (Requeue.AFTER_BACKOFF, 0.5, 1.0), (Requeue.SOON, 0.1, 0.1)],
)
def test_clusters_do_not_start_at_the_same_moment(
    ending: Requeue, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A period has a tenth of jitter in each direction, and a pause after a failure is up to a half shorter."""
    assert Passes([ending]).pauses() == pytest.approx([most])
    monkeypatch.setattr("topiarist.kubernetes.identity.random.uniform", lambda lowest, _highest: lowest)
    assert Passes([ending]).pauses() == pytest.approx([least])


def test_a_loop_is_alive_before_its_first_pass() -> None:
    """Its age counts from its creation, and then from the end of each pass."""
    before = time.monotonic()
    passes = Passes([Requeue.AFTER_PERIOD])
    created = passes.loop.last_completed_at
    assert before <= created <= time.monotonic()
    passes.pauses()
    assert passes.loop.last_completed_at > created
    assert (passes.loop.retries, passes.loop.enqueue_count, passes.loop.is_queued) == (0, 0, True)
