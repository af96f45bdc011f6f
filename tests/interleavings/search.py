"""A breadth-first search of every state that a model can reach, with the shortest schedule to each find.

A model is a first state, the steps from a state, a digest for each state, and a question to ask where no step is left.
The search also shows that the graph has no cycle: every schedule then ends, and the ends are all there is to ask about.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

State = TypeVar("State")

_PROGRESS_INTERVAL = 20_000
_AFTERWARDS = "(all is over; undisturbed runs follow)"


class Transition(NamedTuple, Generic[State]):
    """One step: its description, the next state, and a sentence for each property that the step violates."""

    label: str
    state: State
    finds: tuple[str, ...] = ()


class Model(Protocol[State]):
    """What the search explores."""

    def first(self) -> State:
        """Return the first state."""

    def transitions(self, state: State) -> Iterator[Transition[State]]:
        """Yield everything that may happen next."""

    def digest(self, state: State) -> int:
        """Return a number of 64 bits that identifies the state."""

    def settle(self, state: State) -> Collection[str]:
        """Return how a state without transitions ends when runs follow undisturbed; empty if it ends in step.

        Each ending is a find of its own: what explains one of them does not explain the others.
        """


@dataclass(slots=True)
class Exploration:
    """What a search found. ``finds`` has the shortest schedule to each find; ``is_complete`` is False if it stopped."""

    states: int = 0
    transitions: int = 0
    ends: int = 0
    seconds: float = 0.0
    is_complete: bool = True
    is_acyclic: bool = True
    finds: dict[str, tuple[str, ...]] = field(default_factory=dict)
    endings: Counter[str] = field(default_factory=Counter)


def explore(
    model: Model[State],
    *,
    max_states: int = sys.maxsize,
    stop_at: Callable[[str], bool] = lambda find: False,
    progress: Callable[[Exploration], None] = lambda exploration: None,
) -> Exploration:
    """Explore every state, at most ``max_states``, until ``stop_at`` accepts a find; return what was found."""
    result = Exploration()
    begun = time.monotonic()
    first = model.first()
    numbers = {model.digest(first): 0}
    labels: dict[str, int] = {"": 0}
    parents, parent_labels, sources, targets = array("q", [-1]), array("I", [0]), array("I"), array("I")
    queue = deque([(0, first)])

    def add_find(find: str, number: int, label: str) -> bool:
        if find not in result.finds:
            schedule = [label]
            names = list(labels)
            while number > 0:
                schedule.append(names[parent_labels[number]])
                number = parents[number]
            result.finds[find] = tuple(reversed(schedule))
        return stop_at(find)

    stopped = False
    while queue and not stopped:
        number, state = queue.popleft()
        is_end = True
        for label, following, finds in model.transitions(state):
            is_end = False
            digest = model.digest(following)
            target = numbers.get(digest)
            if target is None:
                target = numbers[digest] = len(numbers)
                parents.append(number)
                parent_labels.append(labels.setdefault(label, len(labels)))
                queue.append((target, following))
            sources.append(number)
            targets.append(target)
            for find in finds:
                stopped = add_find(find, number, label) or stopped
        if is_end:
            result.ends += 1
            endings = model.settle(state)
            result.endings.update(endings or ["in step"])
            for ending in endings:
                stopped = add_find(f"end: {ending}", number, _AFTERWARDS) or stopped
        if number % _PROGRESS_INTERVAL == 0:
            result.states, result.seconds = len(numbers), time.monotonic() - begun
            progress(result)
        stopped = stopped or len(numbers) > max_states
    result.states, result.transitions = len(numbers), len(sources)
    result.is_complete = not queue
    result.is_acyclic = not result.is_complete or _is_acyclic(len(numbers), sources, targets)
    result.seconds = time.monotonic() - begun
    return result


def _is_acyclic(count: int, sources: array[int], targets: array[int]) -> bool:
    """Return whether the states can be sorted so that every transition leads forward (Kahn's algorithm)."""
    incoming = array("I", bytes(4 * count))
    starts = array("I", bytes(4 * (count + 1)))
    for source, target in zip(sources, targets, strict=True):
        starts[source + 1] += 1
        incoming[target] += 1
    for index in range(count):
        starts[index + 1] += starts[index]
    # The search visits the states in the order of their numbers, so the transitions are sorted by source.
    ready = [index for index in range(count) if not incoming[index]]
    sorted_count = 0
    while ready:
        state = ready.pop()
        sorted_count += 1
        for position in range(starts[state], starts[state + 1]):
            incoming[targets[position]] -= 1
            if not incoming[targets[position]]:
                ready.append(targets[position])
    return sorted_count == count
