"""When a cluster is looked at: what calls for a pass, and the pauses between passes, by a clock that jumps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

import pytest

from support.clock import now, played
from topiarist.kubernetes.loop import GATHER, LONGEST_PAUSE, Ending, Loop

PERIOD = 60.0


@pytest.fixture(autouse=True)
def longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """No chance: every pause is as long as it may be."""
    monkeypatch.setattr("topiarist.kubernetes.loop.random.uniform", lambda _least, most: most)


class Passes:
    """A loop whose passes end one after the other as told, and the times at which they began; then it ends."""

    def __init__(self, endings: Iterable[Ending | Exception]) -> None:
        self.begun: list[float] = []
        self.endings = iter(endings)
        self.during: Callable[[int], None] = lambda number: None
        self.loop = Loop(self._work, PERIOD)

    async def _work(self) -> Ending:
        self.begun.append(now())
        ending = next(self.endings, None)
        if ending is None:
            self.loop.end()
            return Ending.WELL
        self.during(len(self.begun))
        if isinstance(ending, Exception):
            raise ending
        return ending

    def pauses(self) -> list[float]:
        """Run to the end: the seconds between the passes."""
        played(self.loop.run)
        return [later - before for before, later in zip(self.begun, self.begun[1:], strict=False)]


def test_a_cluster_is_looked_at_once_a_period() -> None:
    """Even if nothing calls for it; a tenth of chance keeps clusters apart."""
    assert Passes([Ending.WELL] * 3).pauses() == pytest.approx([PERIOD * 1.1] * 3)


def test_the_first_pass_comes_at_once() -> None:
    """Nobody has to call for it."""
    passes = Passes([])
    passes.pauses()
    assert passes.begun == [0.0]


def test_what_comes_together_is_one_pass() -> None:
    """Gathered for a moment, however often somebody calls."""
    passes = Passes([Ending.WELL, Ending.WELL])

    async def calls() -> None:
        running = asyncio.create_task(passes.loop.run())
        await asyncio.sleep(10)
        for _ in range(5):
            passes.loop.mark()
            await asyncio.sleep(GATHER / 10)
        assert passes.loop.marked
        await asyncio.sleep(PERIOD / 2)
        assert not passes.loop.marked
        await running

    played(calls)
    assert passes.begun[:2] == pytest.approx([0.0, 10 + GATHER])
    assert passes.loop.marks == 5


def test_what_comes_during_a_pass_is_looked_at_after_it() -> None:
    """It may have come too late for that one."""
    passes = Passes([Ending.WELL, Ending.WELL])
    passes.during = lambda number: passes.loop.mark() if number == 1 else None
    assert passes.pauses() == pytest.approx([GATHER, PERIOD * 1.1])


def test_failures_are_followed_by_growing_pauses() -> None:
    """Doubled up to the longest; a success begins anew."""
    passes = Passes([*[Ending.FAILED] * 9, Ending.WELL, Ending.FAILED])
    assert passes.pauses() == pytest.approx([1, 2, 4, 8, 16, 32, *[LONGEST_PAUSE] * 3, PERIOD * 1.1, 1])
    assert passes.loop.retries == 10


def test_nobody_hastens_a_pass_after_a_failure() -> None:
    """Ten thousand Topics that change must not hammer a ZooKeeper that is down."""
    passes = Passes([Ending.FAILED] * 3)
    passes.during = lambda _number: passes.loop.mark()
    assert passes.pauses() == pytest.approx([1, 2, 4])


def test_what_is_under_way_is_looked_at_soon() -> None:
    """With growing pauses, up to the period; anything else begins anew."""
    passes = Passes([*[Ending.SOON] * 40, Ending.WELL, Ending.SOON])
    found = passes.pauses()
    assert found[:4] == pytest.approx([GATHER, GATHER * 1.25, GATHER * 1.25**2, GATHER * 1.25**3])
    assert found[:30] == sorted(found[:30])
    assert found[39] == pytest.approx(PERIOD)
    assert found[41] == pytest.approx(GATHER)


def test_a_change_hastens_what_is_looked_at_soon() -> None:
    """It does not wait for the pause that has grown."""
    passes = Passes([Ending.SOON] * 30)
    passes.during = lambda number: passes.loop.mark() if number == 29 else None
    assert passes.pauses()[28] == pytest.approx(GATHER)


def test_a_mistake_of_ours_ends_no_loop(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with all that is known of it, and counts as a failure."""
    passes = Passes([ValueError("one"), ValueError("two"), Ending.WELL])
    with caplog.at_level(logging.ERROR):
        assert passes.pauses() == pytest.approx([1, 2, PERIOD * 1.1])
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    assert passes.loop.retries == 2


def test_an_end_finishes_what_is_under_way() -> None:
    """And wakes a loop that rests."""
    done: list[float] = []

    async def slow() -> Ending:
        await asyncio.sleep(5)
        done.append(now())
        return Ending.WELL

    async def ends() -> tuple[float, float]:
        loop = Loop(slow, PERIOD)
        running = asyncio.create_task(loop.run())
        await asyncio.sleep(1)
        loop.end()
        await running
        first = now()
        loop = Loop(slow, PERIOD)
        running = asyncio.create_task(loop.run())
        await asyncio.sleep(20)  # it rests
        loop.end()
        await running
        return first, now()

    assert played(ends) == (5.0, 25.0)
    assert done == [5.0, 10.0]


def test_a_failing_cluster_delays_no_other() -> None:
    """Each has a loop of its own."""
    bad, good = Passes([Ending.FAILED] * 7), Passes([Ending.WELL] * 2)

    async def both() -> None:
        await asyncio.gather(bad.loop.run(), good.loop.run())

    played(both)
    assert good.begun == pytest.approx([0.0, PERIOD * 1.1, PERIOD * 2.2])
