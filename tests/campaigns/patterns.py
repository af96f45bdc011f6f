"""The three patterns of Sieve, enumerated over every position of a workload.

Sieve (a paper of OSDI 2022) perturbs the view that an operator has of its cluster. *Intermediate state*: the operator
is killed after a single write, or does not learn that the write was made. *Stale view*: the operator acts on an old
view, because a watch lags, or because it got an old list after a restart or reconnection. *Unobserved state*: the
operator misses the states between two views.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from campaigns.api_server import View
from campaigns.interruptions import Fault
from campaigns.oracle import FinalState, compare, finish
from campaigns.workloads import Workload
from campaigns.world import STEP_S, World, run_world


class Pattern(str, Enum):
    """A kind of perturbation."""

    KILLED = "intermediate state: killed after a write"
    UNANSWERED = "intermediate state: the answer to a write is lost"
    LAGGING = "stale view: the watches lag"
    RESTARTED = "stale view: restarted with an old view"
    RECONNECTED = "stale view: lists an old view again"
    UNOBSERVED = "unobserved state: disconnected, then a new list"


class Case(NamedTuple):
    """One perturbation of a workload.

    ``position`` is the number of a write, or the last resource version that the operator sees. The view is old from the
    step ``begin`` (RESTARTED, RECONNECTED) or from the position on, until the step ``end`` has been done.
    """

    workload: Workload
    pattern: Pattern
    position: int
    begin: int = 0
    end: int = 0

    def __str__(self) -> str:
        return f"{self.workload.name}: {self.pattern.value}, position {self.position}, steps {self.begin} to {self.end}"


class Reference(NamedTuple):
    """An unperturbed run: its end, its writes, and the resource version after each step."""

    final: FinalState
    writes: tuple[str, ...]
    versions: tuple[int, ...]


LAGS = (0, 1, 2)
"""Steps after that of the position until a lagging or disconnected operator sees the present."""


def run_reference(workload: Workload) -> Reference:
    """Run a workload without a perturbation."""

    async def work(world: World) -> Reference:
        await world.start_operator()
        versions = [world.server.history[-1].version]
        for step in workload.steps:
            await world.perform(step)
            versions.append(world.server.history[-1].version)
        final = await finish(world)
        return Reference(final, tuple(world.interruptions.writes), tuple(versions))

    return run_world(work)


def enumerate_cases(workload: Workload, reference: Reference) -> Iterator[Case]:
    """Yield a case for each position of a workload."""
    for position in range(1, len(reference.writes) + 1):
        yield Case(workload, Pattern.KILLED, position)
        yield Case(workload, Pattern.UNANSWERED, position)
    last = len(workload.steps)
    for step in range(1, last + 1):
        for position in range(reference.versions[step - 1], reference.versions[step]):
            for end in sorted({min(step + lag, last) for lag in LAGS}):
                yield Case(workload, Pattern.LAGGING, position, step, end)
                yield Case(workload, Pattern.UNOBSERVED, position, step, end)
    for step in range(1, last + 1):
        for position in range(1, reference.versions[step]):
            yield Case(workload, Pattern.RESTARTED, position, step, step)
            yield Case(workload, Pattern.RECONNECTED, position, step, step)


def run_case(case: Case, reference: Reference) -> list[str]:
    """Run a case and return its alarms."""
    if case.pattern in (Pattern.KILLED, Pattern.UNANSWERED):
        fault = Fault.KILL if case.pattern is Pattern.KILLED else Fault.LOST_ANSWER
        final = run_world(lambda world: _run_interrupted(world, case), fault=(case.position, fault))
    elif case.pattern in (Pattern.LAGGING, Pattern.UNOBSERVED):
        final = run_world(lambda world: _run_lagging(world, case))
    else:
        final = run_world(lambda world: _run_time_travel(world, case))
    return [*compare(final, reference.final, repeats_nothing=case.pattern is Pattern.KILLED)]


async def _run_interrupted(world: World, case: Case) -> FinalState:
    await world.start_operator()
    for step in case.workload.steps:
        await world.perform(step)
    final = await finish(world)
    assert world.interruptions.injected, f"{case}: the position was not reached"
    return final


async def _run_lagging(world: World, case: Case) -> FinalState:
    await world.start_operator(View(limit=case.position))
    for number, step in enumerate(case.workload.steps, start=1):
        await world.perform(step)
        if number == case.end:
            if case.pattern is Pattern.UNOBSERVED:
                world.set_view(case.position, connected=False)
                await world.advance(STEP_S)
                world.expire_watches()
            world.set_view(None)
            await world.advance(STEP_S)
    return await finish(world)


async def _run_time_travel(world: World, case: Case) -> FinalState:
    await world.start_operator()
    for number, step in enumerate(case.workload.steps, start=1):
        await world.perform(step)
        if number == case.end:
            if case.pattern is Pattern.RESTARTED:
                await world.kill_operator()
                await world.start_operator(View(limit=case.position, lists_are_old=True))
            else:
                world.view.lists_are_old = True
                world.set_view(case.position)
                world.expire_watches()
            await world.advance(STEP_S)
            world.set_view(None)
            await world.advance(STEP_S)
    return await finish(world)
