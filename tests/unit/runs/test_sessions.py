"""Parallel work on many clusters: complete, ordered results without a wait for hanging work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakSet

import pytest

from support.waiting import DEFAULT_TIMEOUT_S, wait_until
from topiarist.errors import Reason, TopiaristError
from topiarist.runs.sessions import map_parallel, run_all, stream_parallel

NAMES = [f"cluster-{number:02}" for number in range(40, 0, -1)]


def test_every_name_has_a_result_or_an_error_in_order() -> None:
    """Each name has one result or one error, sorted by name, in any order of completion."""

    def work(name: str) -> int:
        if name.endswith("3"):
            raise TopiaristError(Reason.UNREACHABLE, name)
        return int(name[-2:])

    found, failed = map_parallel(NAMES, work, 8)
    assert list(found.items()) == [(name, int(name[-2:])) for name in sorted(NAMES) if not name.endswith("3")]
    assert [(name, str(error)) for name, error in failed.items()] == [
        (name, name) for name in sorted(NAMES) if name.endswith("3")
    ]
    assert map_parallel([], work, 8) == ({}, {})


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_than_asked_for_are_worked_on_at_a_time(most: int) -> None:
    """The given number of calls runs at the same time, and never more: the first calls wait for each other."""
    lock, meeting, at_work, highest = threading.Lock(), threading.Barrier(most), 0, 0

    def work(name: str) -> None:
        nonlocal at_work, highest
        with lock:
            at_work += 1
            highest = max(highest, at_work)
        if name in NAMES[:most]:
            meeting.wait(DEFAULT_TIMEOUT_S)
        with lock:
            at_work -= 1

    assert len(map_parallel(NAMES, work, most)[0]) == len(NAMES)
    assert highest == most


def test_a_stream_has_every_result_or_error_in_the_given_order() -> None:
    """Each name has its result or error in its place, also if later names are done first."""
    last_done = threading.Event()

    def work(name: str) -> int:
        if name == NAMES[0]:
            last_done.wait(DEFAULT_TIMEOUT_S)
        if name == NAMES[2]:
            last_done.set()
        if name.endswith("3"):
            raise TopiaristError(Reason.UNREACHABLE, name)
        return int(name[-2:])

    found = [(name, str(made)) for name, made in stream_parallel(NAMES, work, 4)]
    assert found == [(name, name if name.endswith("3") else str(int(name[-2:]))) for name in NAMES]
    assert list(stream_parallel([], work, 4)) == []


class _State:
    """A result that a test can count while it exists."""


@pytest.mark.parametrize("most", [2, 5])
def test_a_stream_holds_no_more_results_than_asked_for(most: int) -> None:
    """Results in work, waiting and in use are never more than allowed, and all but one may be in work."""
    lock, existing, highest = threading.Lock(), WeakSet[_State](), 0
    begun, meeting = [0], threading.Barrier(most - 1)

    def work(_: str) -> _State:
        nonlocal highest
        with lock:
            state, begun[0] = _State(), begun[0] + 1
            existing.add(state)
            highest = max(highest, len(existing))
            is_first = begun[0] < most
        if is_first:
            meeting.wait(DEFAULT_TIMEOUT_S)
        return state

    used: list[str] = []
    for name, state in stream_parallel(NAMES, work, most):
        assert type(state) is _State
        used.append(name)
        wait_until(lambda: begun[0] >= min(len(used) + most - 2, len(NAMES)), "the next work")
    assert used == NAMES
    assert begun[0] == len(NAMES)
    assert most - 1 <= highest <= most


def test_a_stream_raises_what_nobody_expected() -> None:
    """An unexpected exception is raised in its place, and later names are never started."""
    begun: list[str] = []

    def work(name: str) -> str:
        begun.append(name)
        if name == NAMES[3]:
            raise KeyError(name)
        return name

    with pytest.raises(KeyError, match=NAMES[3]):
        list(stream_parallel(NAMES, work, 3))
    assert len(begun) <= 5


def test_what_nobody_expected_ends_it_at_once() -> None:
    """An unexpected exception is raised at once, without a wait for hanging calls, and most names are never started."""
    begun: list[str] = []
    hanging, end = threading.Event(), threading.Event()

    def work(name: str) -> None:
        begun.append(name)
        if name == NAMES[0]:
            hanging.wait(DEFAULT_TIMEOUT_S)
            raise KeyError(name)
        hanging.set()
        end.wait(DEFAULT_TIMEOUT_S)

    with pytest.raises(KeyError, match=NAMES[0]):
        map_parallel(NAMES, work, 2)
    end.set()
    assert len(begun) <= 3


def test_what_hangs_is_not_waited_for() -> None:
    """All close calls start at the same time, and calls that are unfinished after the timeout are abandoned."""
    end, met = threading.Event(), threading.Barrier(3)
    done: list[int] = []

    def closing(number: int) -> Callable[[], None]:
        def close() -> None:
            met.wait(DEFAULT_TIMEOUT_S)
            if number == 0:
                end.wait(DEFAULT_TIMEOUT_S)
            done.append(number)

        return close

    run_all([closing(number) for number in range(3)], 0.5)
    assert sorted(done) == [1, 2]
    end.set()
