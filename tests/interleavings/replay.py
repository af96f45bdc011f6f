"""One run of topiarist as an automaton, learned by replay: what it asks next follows from what it was answered.

A replay calls the product with a history of events, in place of a network. When the history is used up, the replaced
client raises ``Blocked``, which is no ``Exception``, so that no handler of the product catches it: what the run has
asked and has no answer to is what it waits for. Each history is replayed once.

A local state is a number: a node in a tree of histories. Histories merge where only a part of the past counts: after
the plan only the plan, for example, and after the end only the report.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from topiarist.errors import TopiaristError
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec

_QUIET_RESULTS = frozenset({Result.DONE, Result.UNCHANGED, Result.REFUSED})


class Blocked(BaseException):
    """The run waits for an answer that its history does not have."""


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """What a run was started with."""

    topics: tuple[TopicSpec, ...]
    options: RunOptions = dataclasses.field(default_factory=RunOptions)
    cluster: ClusterSpec = dataclasses.field(default_factory=ClusterSpec)


class Asking(NamedTuple):
    """The run waits for the answers to ``requests``, in this order. ``plan`` is the plan that it writes."""

    requests: tuple[Any, ...]
    plan: Plan | None


class Reached(NamedTuple):
    """The run has reached a point at which only ``value`` counts of its past, which ``key`` identifies."""

    key: Hashable
    value: Any


class Ended(NamedTuple):
    """The run is over; ``error`` ended it early."""

    outcomes: tuple[Outcome, ...]
    error: TopiaristError | None

    @property
    def failure(self) -> str:
        """What went wrong: the error, or else the topics that are neither changed nor refused; empty if nothing."""
        if self.error:
            return f"{type(self.error).__name__}: {self.error}"
        failed = (outcome for outcome in self.outcomes if outcome.result not in _QUIET_RESULTS)
        return "; ".join(f"{each.topic}: {each.reason and each.reason.value}: {each.message}" for each in failed)


Situation = Asking | Reached | Ended

Replay = Callable[[Any, Sequence[Any]], Situation]
"""Runs the product from a reached value (None: from the beginning) with these events, and returns where it stands."""


class _Link(NamedTuple):
    """An event in a local state: the parent of another local state."""

    state: int
    event: Hashable


class Automaton:
    """The local states of a run. ``replays`` counts how often the product's code was run."""

    def __init__(self, replay: Replay) -> None:
        self.replays = 0
        self._replay = replay
        self._children: dict[_Link, int] = {}
        self._parents: list[_Link | Reached | Ended | None] = [None]
        self._roots: dict[Hashable, int] = {}
        self._situations: dict[int, Situation] = {}
        self.start = 0

    def after(self, state: int, event: Hashable) -> int:
        """Return the local state after an event."""
        key = _Link(state, event)
        if key not in self._children:
            self._parents.append(key)
            self._children[key] = self._merge(len(self._parents) - 1)
        return self._children[key]

    def look(self, state: int) -> Asking | Ended:
        """Return the situation of the run: what it waits for, or how it ended."""
        situation = self._situation(state)
        assert isinstance(situation, Asking | Ended)
        return situation

    def _merge(self, state: int) -> int:
        """Return the state that stands for all histories that lead to the same point or end."""
        while not isinstance(situation := self._situation(state), Asking):
            ended = isinstance(situation, Ended)
            key = (situation.outcomes, str(situation.error)) if isinstance(situation, Ended) else situation.key
            if key not in self._roots:
                self._parents.append(situation)
                self._roots[key] = len(self._parents) - 1
            state = self._roots[key]
            if ended:
                return state
        return state

    def _situation(self, state: int) -> Situation:
        if state not in self._situations:
            self._situations[state] = self._find_situation(state)
        return self._situations[state]

    def _find_situation(self, state: int) -> Situation:
        events: list[Any] = []
        parent = self._parents[state]
        while isinstance(parent, _Link):
            events.append(parent.event)
            parent = self._parents[parent.state]
        if isinstance(parent, Ended):
            return parent
        self.replays += 1
        return self._replay(parent.value if isinstance(parent, Reached) else None, events[::-1])
