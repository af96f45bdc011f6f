"""``apply --wait``: look again and again until the controllers have finished what the run began, or time is up.

``core.waiting`` says what is waited for and what each look means; nothing is written here, and no lock is held. Ctrl-C
ends the waiting, not the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from topiarist.cli import terminal
from topiarist.core.change import TopicPlan
from topiarist.core.units import count
from topiarist.core.waiting import Stage, awaited, stage
from topiarist.errors import TopiaristError
from topiarist.reconcile import Outcome, Report, Result, Watched
from topiarist.settings import Settings

_SLICE, _FIRST, _LONGEST = 0.1, 0.1, 2.0


class _Watch:
    """The topics of one cluster that are waited for: ``left`` with their plans, ``stages`` as last seen."""

    def __init__(self, cluster: Watched, report: Report) -> None:
        self._cluster = cluster
        self._report = report
        self._error: TopiaristError | None = None
        self.left = dict(_awaited(report))
        self.stages: dict[str, Stage] = {}

    def look(self) -> Iterator[Outcome]:
        """Look once; the outcomes of topics for which the waiting is over."""
        if not self.left:
            return
        try:
            sights = self._cluster.look(list(self.left))
        except TopiaristError as error:
            self._error, self.left = error, {}
            return
        self.stages.update((name, stage(plan, sights[name])) for name, plan in self.left.items())
        for name in [name for name in self.left if self.stages[name].final]:
            del self.left[name]
            yield self._outcome(name)

    def report(self, stopped: bool) -> Report:
        """The report with what was seen at last; if somebody ``stopped`` the waiting, what is left stays as it was."""
        seen = {name: self._outcome(name) for name in self.stages if not (stopped and name in self.left)}
        known = {outcome.topic for outcome in self._report.outcomes}
        outcomes = [seen.get(outcome.topic, outcome) for outcome in self._report.outcomes]
        outcomes += [outcome for name, outcome in seen.items() if name not in known]
        return replace(self._report, outcomes=tuple(outcomes), error=self._report.error or self._error)

    def _outcome(self, name: str) -> Outcome:
        found = self.stages[name]
        if not found.final:
            return Outcome(name, Result.UNFINISHED, found.reason, found.message)
        if found.reason:
            return Outcome(name, Result.REFUSED, found.reason, found.message)
        return next((o for o in self._report.outcomes if o.topic == name), Outcome(name, Result.ALREADY))


def wait(
    clusters: Mapping[str, Watched], reports: Sequence[Report], settings: Settings, stop: Callable[[], bool]
) -> list[Report]:
    """The reports of a run, once all that its controllers have to do is done, or ``--wait-timeout`` is over."""
    watches = [_Watch(clusters[report.plan.cluster], report) for report in reports]
    total = sum(len(watch.left) for watch in watches)
    deadline, pause, gone = time.monotonic() + settings.wait_timeout, _FIRST, 0
    if total and settings.verbosity >= 0:
        terminal.say(
            f"waiting for the controller to delete {count(total, 'topic')}, {settings.wait_timeout:g} s at most"
        )
    with terminal.Progress(total, settings) as progress:
        while not stop():
            for watch in watches:
                for outcome in watch.look():
                    gone += outcome.result is not Result.REFUSED
                    progress.step(outcome)
            if not any(watch.left for watch in watches) or time.monotonic() >= deadline:
                break
            _sleep(min(pause, deadline - time.monotonic()), stop)
            pause = min(2 * pause, _LONGEST)
    stopped = stop()
    if stopped and (left := sum(len(watch.left) for watch in watches)):
        terminal.say(f"no longer waiting for {count(left, 'topic')}: the controller goes on by itself")
    elif gone and settings.verbosity >= 0:
        terminal.say(f"{count(gone, 'topic')} gone")
    return [watch.report(stopped) for watch in watches]


def _awaited(report: Report) -> Iterator[tuple[str, TopicPlan]]:
    """The topics to wait for: whose deletion was written, or was under way before; none if the run ended early."""
    results = {outcome.topic: outcome.result for outcome in report.outcomes}
    for plan in report.plan.topics if report.error is None else ():
        if awaited(plan) and results.get(plan.topic, Result.ALREADY) in (Result.DONE, Result.ALREADY):
            yield plan.topic, plan


def _sleep(seconds: float, stop: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while not stop() and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _SLICE))
