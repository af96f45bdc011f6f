"""``apply --wait``: hold back while the controllers are behind, then look until they have finished, or time is up.

``core.backlog`` says how much may be ahead and what each look means; here are the clock, the sleeping, and what a
person is told. While a cluster is written to, its ``Watch`` is the ``Pace`` of that run, under its lock; afterwards
nothing is written and no lock is held. Time is up when nothing has moved on for ``--wait-timeout`` seconds: that does
not depend on how much there is to do. Ctrl-C ends the waiting, not the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from topiarist.cli import terminal
from topiarist.core.backlog import Backlog, Seen
from topiarist.core.change import TopicPlan
from topiarist.core.units import count
from topiarist.core.waiting import FINISHED, Stage, brings, under_way
from topiarist.errors import Reason, TopiaristError
from topiarist.patience import Patience
from topiarist.reconcile import Outcome, Report, Result, Watched, waited
from topiarist.settings import Settings


class Watch:
    """One cluster whose controller is waited for: the pace of its run, and what is seen of it afterwards.

    ``tell`` hears of each topic as soon as the waiting for it is over and has shown something new of it.
    """

    def __init__(
        self,
        cluster: Watched,
        settings: Settings,
        stop: Callable[[], bool],
        tell: Callable[[TopicPlan, Outcome], None],
    ) -> None:
        self._cluster = cluster
        self._tell = tell
        self._settings = settings
        self._backlog = Backlog(settings.wait_ahead)
        self._patience = Patience(settings.wait_timeout, stop)
        self._plans: dict[str, TopicPlan] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._ids: dict[str, str] = {}
        self._said = self._over = self._stalled = False
        self._error: TopiaristError | None = None

    def take(self, topic: TopicPlan) -> bool:
        """Whether the topic's new partitions may be written now."""
        return self._backlog.take(topic)

    def settled(self, topic: TopicPlan, outcome: Outcome) -> None:
        """What became of a topic: if it is there, the controller has to go on with it."""
        self._plans[topic.topic], self._outcomes[topic.topic] = topic, outcome
        self._backlog.settle(topic, written=outcome.result in (Result.DONE, Result.ALREADY))
        self._patience.renew()

    def rest(self) -> None:
        """Wait a little, and look. Raises ``NotTakenOver`` if the controller has done nothing for too long."""
        if not self._said and self._settings.verbosity >= 0:
            most = count(self._settings.wait_ahead, "replica")
            terminal.aside(f"held back until the controller has taken over what was sent: {most} per broker at a time")
        self._said = True
        if self._patience.worn(lambda: self._see().progress):
            raise self._give_up()

    def begin(self, report: Report) -> None:
        """Take in what else of a run that has ended is to be waited for; nothing, if it ended early."""
        self._over = self._over or report.error is not None
        outcomes = {outcome.topic: outcome for outcome in report.outcomes}
        for topic in report.plan.topics:
            outcome = outcomes.get(topic.topic)
            if topic.topic not in self._outcomes and (outcome or under_way(topic)):
                self.settled(topic, outcome or Outcome(topic.topic, Result.ALREADY))

    @property
    def left(self) -> Mapping[str, bool]:
        """The topics that are still waited for, each with whether it is for new partitions."""
        return {} if self._over else {name: bool(asked) for name, asked in self._backlog.asked().items()}

    def look(self) -> Seen:
        """Look once; an error is the report's, and the end of the waiting."""
        try:
            return self._see() if self.left else Seen(progress=False)
        except TopiaristError as error:
            self._error, self._over = error, True
            return Seen(progress=False)

    def _see(self) -> Seen:
        sights = self._cluster.look(self._backlog.asked())
        for name, sight in sights.items():
            before = self._plans[name].before
            if sight.topic_id and (before is None or before.topic_id is None):
                self._ids[name] = sight.topic_id
        seen = self._backlog.see(sights)
        for name in seen.finished:
            outcome = self._waited(name, self._backlog.stages[name])
            if outcome != self._outcomes[name]:
                self._tell(self._plans[name], outcome)
        return seen

    def _waited(self, name: str, stage: Stage) -> Outcome:
        """The outcome of a topic by what was seen of it, with the id that it has got, if it still is that topic."""
        found = waited(self._outcomes[name], stage)
        return found if stage.reason is Reason.STATE_CONFLICT else found._replace(topic_id=self._ids.get(name))

    def finished(self, *, grown: bool) -> int:
        """How many topics the controller has taken over, or (not ``grown``) deleted."""
        stages = self._backlog.stages
        return sum(
            stages[name] == FINISHED and bool(brings(plan)) is grown
            for name, plan in self._plans.items()
            if name in stages
        )

    def report(self, report: Report, *, stopped: bool) -> Report:
        """The report with what was seen at last; if the waiting was not to the end, what is left stays as it was."""
        cut = stopped or (report.error is not None and not self._stalled)
        stages = {name: found for name, found in self._backlog.stages.items() if found.final or not cut}
        seen = {name: self._waited(name, found) for name, found in stages.items()}
        known = {outcome.topic for outcome in report.outcomes}
        outcomes = [seen.get(outcome.topic, outcome) for outcome in report.outcomes]
        outcomes += [outcome for name, outcome in seen.items() if name not in known]
        return replace(report, outcomes=tuple(outcomes), error=report.error or self._error)

    def _give_up(self) -> TopiaristError:
        self._over = self._stalled = True
        return TopiaristError(
            Reason.NOT_TAKEN_OVER,
            f"the controller has finished nothing for {self._settings.wait_timeout:g} s: nothing more is sent",
            "see that there is a controller and what its log says; the next run goes on from here",
        )


def wait(
    watches: Mapping[str, Watch], reports: Sequence[Report], settings: Settings, stop: Callable[[], bool]
) -> list[Report]:
    """The reports of a run, once all that its controllers have to do is done, or nothing moves any more."""
    found = [watches[report.plan.cluster] for report in reports]
    for watch, report in zip(found, reports, strict=True):
        watch.begin(report)
    left = [brought for watch in found for brought in watch.left.values()]
    if left and settings.verbosity >= 0:
        terminal.say(
            f"waiting for the controller to {_work(left)}, at most {settings.wait_timeout:g} s without progress"
        )
    patience = Patience(settings.wait_timeout, stop)
    with terminal.Progress(len(left), settings) as progress:
        while not stop():
            since = time.monotonic()
            looks = [watch.look() for watch in found]
            patience.looked(progress=any(seen.progress for seen in looks), since=since)
            for _ in chain.from_iterable(seen.finished for seen in looks):
                progress.step()
            if not any(watch.left for watch in found) or patience.over:
                break
            patience.pause()
    stopped = stop()
    if stopped and (more := sum(len(watch.left) for watch in found)):
        terminal.say(f"no longer waiting for {count(more, 'topic')}: the controller goes on by itself")
    elif (words := _finished(found)) and settings.verbosity >= 0:
        terminal.say(words)
    return [watch.report(report, stopped=stopped) for watch, report in zip(found, reports, strict=True)]


def _work(left: Sequence[bool]) -> str:
    """What a controller has to do: ``take over 2 topics and delete 1 topic``; for each topic, whether it is grown."""
    grown = sum(left)
    words = (("take over", grown), ("delete", len(left) - grown))
    return " and ".join(f"{verb} {count(number, 'topic')}" for verb, number in words if number)


def _finished(watches: Sequence[Watch]) -> str:
    """``2 topics taken over by the controller, 1 topic gone``; empty if there is none."""
    words = ((True, "taken over by the controller"), (False, "gone"))
    numbers = [(sum(watch.finished(grown=grown) for watch in watches), verb) for grown, verb in words]
    return ", ".join(f"{count(number, 'topic')} {verb}" for number, verb in numbers if number)
