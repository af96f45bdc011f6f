"""The search itself, on graphs of numbers: counts, shortest schedules, ends, circles."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from interleavings.search import Transition, explore


class _Graph:
    """A model: states are numbers, 0 is the first one; a step to ``bad`` is a find."""

    def __init__(self, edges: Mapping[int, Sequence[int]], bad: int = -1) -> None:
        self.edges = edges
        self.bad = bad

    def first(self) -> int:
        return 0

    def transitions(self, state: int) -> Iterator[Transition[int]]:
        for target in self.edges.get(state, ()):
            yield Transition(f"{state} to {target}", target, ("bad",) if target == self.bad else ())

    def digest(self, state: int) -> int:
        return state

    def settle(self, state: int) -> Collection[str]:
        return [name for name, holds in (("odd", state % 2), ("large", state > 8)) if holds]


def test_each_state_is_visited_once_and_each_step_counted() -> None:
    """Two ways to one state are two transitions."""
    found = explore(_Graph({0: [1, 2], 1: [4], 2: [4], 4: [6]}))
    assert (found.states, found.transitions, found.ends) == (5, 5, 1)
    assert found.is_complete
    assert found.is_acyclic


def test_a_find_has_its_shortest_schedule() -> None:
    """The long way is explored too, and not kept."""
    found = explore(_Graph({0: [1, 3], 1: [2], 2: [3]}, bad=3))
    assert found.finds["bad"] == ("0 to 3",)
    assert found.finds["end: odd"] == ("0 to 3", "(all is over; undisturbed runs follow)")


def test_each_ending_is_a_find_of_its_own() -> None:
    """Two endings of one state are two finds with one schedule, and are counted apart."""
    found = explore(_Graph({0: [1, 9, 10], 1: [2]}))
    assert found.ends == 3
    assert found.endings == {"in step": 1, "odd": 1, "large": 2}
    assert found.finds["end: odd"] == found.finds["end: large"] == ("0 to 9", "(all is over; undisturbed runs follow)")


def test_a_circle_is_seen() -> None:
    """A schedule without an end would make the question about its end meaningless."""
    assert not explore(_Graph({0: [1], 1: [2], 2: [1]})).is_acyclic


def test_a_search_that_stops_says_so() -> None:
    """Stopped by a find or by the number of states, it is not complete."""
    edges = {number: [number + 1] for number in range(20)}
    assert not explore(_Graph(edges, bad=3), stop_at=lambda find: find == "bad").is_complete
    assert not explore(_Graph(edges), max_states=5).is_complete
