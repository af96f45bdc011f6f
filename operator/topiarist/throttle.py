"""The controller's backlog: what was written to a cluster and is not finished, and how much more may be written.

A controller that is handed thousands of topics at once answers nobody else meanwhile, and its brokers make log folders
far more slowly than it takes partitions over. So whoever waits also holds back: never more than so many replicas per
broker are ahead of what the controller has taken over (seen by the partitions' states, ``waiting``). Config changes,
records and deletions are no such load. Time is the caller's: this is told what was sent and what was seen.

How fast the operator creates and grows: no faster than the controller takes over, as ``apply --wait`` does it.

When to look again at what a controller does by itself, and when to give up.

Used by whoever waits for one: ``apply --wait`` and the operator's passes. The longer nothing has come, the longer are
the pauses between two looks; time is up when nothing has moved on for so long, however much there is to do.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Replicas
from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.model.plan import TopicPlan
from topiarist.model.progress import (
    FINISHED,
    ProgressState,
    TopicProgress,
    evaluate_progress,
    is_deletion_pending,
    needs_controller,
    partitions_to_initialize,
)
from topiarist.model.run_options import MAX_INFLIGHT_REPLICAS_PER_BROKER
from topiarist.ports import ProgressSource


class PollResult(NamedTuple):
    """What a look has brought: whether anything moved on, and the topics for which the waiting is over."""

    progress: bool
    finished: tuple[str, ...] = ()


@dataclass(slots=True)
class _InFlight:
    """A topic that has been sent: its new partitions, ``left`` until they are ``seen`` taken over; is it written?"""

    plan: TopicPlan
    remaining: dict[int, Replicas]
    initialized: set[int] = field(default_factory=set)
    is_written: bool = False


class InFlightLimit:
    """The account of one cluster: ``most`` replicas per broker may be ahead.

    ``stages`` is how far each topic was when it was last looked at. One topic that is larger by itself is let through
    when nothing else is ahead on its brokers.
    """

    def __init__(self, max_replicas: int = MAX_INFLIGHT_REPLICAS_PER_BROKER) -> None:
        self._max_replicas = max_replicas
        self._replicas_in_flight: Counter[int] = Counter()
        self._entries: dict[str, _InFlight] = {}
        self.progress_states: dict[str, ProgressState] = {}

    def try_acquire(self, plan: TopicPlan) -> bool:
        """Whether this topic may be sent now; if so it is ahead from here on."""
        load = _replicas_per_broker(partitions_to_initialize(plan).values())
        if any(
            self._replicas_in_flight[broker] and self._replicas_in_flight[broker] + more > self._max_replicas
            for broker, more in load.items()
        ):
            return False
        self._add(plan)
        return True

    def complete(self, plan: TopicPlan, *, written: bool) -> None:
        """What became of a topic, whether or not it was ``take``n: it is waited for if it is ``written``, or marked
        for deletion from before; else forgotten.
        """
        if written and (needs_controller(plan) or is_deletion_pending(plan)):
            self._add(plan).is_written = True
        else:
            self._remove(plan.topic)

    def topics_to_poll(self) -> Mapping[str, Collection[int]]:
        """The topics to look at, each with the partitions that have not been seen taken over."""
        return {name: tuple(entry.remaining) for name, entry in self._entries.items() if entry.is_written}

    def update(self, sights: Mapping[str, TopicProgress]) -> PollResult:
        """Take in a look at all that was ``asked``."""
        progress, finished = False, []
        for name, now in sights.items():
            entry = self._entries[name]
            found = evaluate_progress(entry.plan, now, entry.initialized)
            for number in now.initialized & entry.remaining.keys():
                self._replicas_in_flight.subtract(entry.remaining.pop(number))
                entry.initialized.add(number)
                progress = True
            self.progress_states[name] = found
            if found.final:
                self._remove(name)
                finished.append(name)
        return PollResult(progress or bool(finished), tuple(finished))

    def _add(self, plan: TopicPlan) -> _InFlight:
        self._remove(plan.topic)
        entry = self._entries[plan.topic] = _InFlight(plan, dict(partitions_to_initialize(plan)))
        self._replicas_in_flight.update(_replicas_per_broker(entry.remaining.values()))
        return entry

    def _remove(self, name: str) -> None:
        if entry := self._entries.pop(name, None):
            self._replicas_in_flight.subtract(_replicas_per_broker(entry.remaining.values()))


def _replicas_per_broker(lists: Iterable[Replicas]) -> Counter[int]:
    """How many replicas each broker gets."""
    return Counter(chain.from_iterable(lists))


_STOP_CHECK_INTERVAL_S, _MIN_POLL_INTERVAL_S, _MAX_POLL_INTERVAL_S = 0.1, 0.02, 2.0
_BACKOFF_FACTOR = 1.25
"""So many times as long as the last is a pause: an end is noticed at most a quarter later than it came."""
_POLL_COST_FACTOR = 4
"""So many times as long as a look takes nobody looks again: ZooKeeper has others to answer."""


class ProgressDeadline:
    """``timeout`` seconds from the last thing that moved on; ``stop`` cuts every pause short."""

    def __init__(self, timeout: float, stop: Callable[[], bool]) -> None:
        self._timeout = timeout
        self._stop = stop
        self._interval = _MIN_POLL_INTERVAL_S
        self.reset()

    def reset(self) -> None:
        """Something has moved on."""
        self._deadline = time.monotonic() + self._timeout

    def wait_and_poll(self, look: Callable[[], bool]) -> bool:
        """Pause and look once, and say whether to give up; ``look`` gives whether anything has moved on. Nobody looks
        if somebody wants to stop.
        """
        self.wait()
        if self._stop():
            return False
        since = time.monotonic()
        progress = look()
        self.record_poll(progress=progress, since=since)
        return self.is_expired and not progress

    def record_poll(self, *, progress: bool, since: float) -> None:
        """A look that began at ``since`` is over."""
        pause, took = _BACKOFF_FACTOR * self._interval, time.monotonic() - since
        if progress:
            self.reset()
            pause = _MIN_POLL_INTERVAL_S
        self._interval = min(max(pause, _POLL_COST_FACTOR * took), _MAX_POLL_INTERVAL_S)

    @property
    def is_expired(self) -> bool:
        """Whether to give up."""
        return time.monotonic() >= self._deadline

    def wait(self) -> None:
        """Until it is worth looking again: longer each time, not beyond the end, and not if somebody wants to stop."""
        until = min(time.monotonic() + self._interval, self._deadline)
        while not self._stop() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _STOP_CHECK_INTERVAL_S))


NO_PROGRESS_TIMEOUT_S = 60.0
"""Seconds without any progress after which the pass of an operator ends; the next one goes on from there."""

MAX_THROTTLED_S = 10.0
"""Seconds of holding back after which a pass has sent enough: then statuses are written, and the next one goes on."""


class ControllerThrottle:
    """The pace of one run over one cluster: ``most`` replicas per broker ahead of its controller, ``timeout`` seconds
    without progress; ``stop`` ends every rest. ``held`` is called when the run is held back for the first time.
    """

    def __init__(
        self,
        cluster: ProgressSource,
        stop: Callable[[], bool],
        *,
        max_replicas: int = MAX_INFLIGHT_REPLICAS_PER_BROKER,
        timeout: float = NO_PROGRESS_TIMEOUT_S,
        on_throttled: Callable[[], None] = lambda: None,
    ) -> None:
        self._cluster = cluster
        self._limit = InFlightLimit(max_replicas)
        self._timeout = timeout
        self._deadline = ProgressDeadline(timeout, stop)
        self._on_throttled = on_throttled
        self._throttled_since: float | None = None

    @property
    def is_throttled_too_long(self) -> bool:
        """Whether this pass has been held back for long: the rest is for the next one."""
        return self._throttled_since is not None and time.monotonic() - self._throttled_since > MAX_THROTTLED_S

    def try_acquire(self, topic: TopicPlan) -> bool:
        """Whether the topic's new partitions may be written now."""
        return self._limit.try_acquire(topic)

    def on_outcome(self, topic: TopicPlan, outcome: Outcome) -> None:
        """What became of a topic: if it is there, the controller has to go on with it."""
        self._limit.complete(topic, written=outcome.result in (Result.DONE, Result.UNCHANGED))
        self._deadline.reset()

    def wait(self) -> None:
        """Wait a little, and look. Raises ``NotInitialized`` if the controller has done nothing for too long."""
        if self._throttled_since is None:
            self._throttled_since = time.monotonic()
            self._on_throttled()
        if self._deadline.wait_and_poll(lambda: self._poll().progress):
            raise self._no_progress_error()

    def _poll(self) -> PollResult:
        return self._limit.update(self._cluster.poll(self._limit.topics_to_poll()))

    def _no_progress_error(self) -> TopiaristError:
        return TopiaristError(
            Reason.NOT_INITIALIZED,
            f"the controller has finished nothing for {self._timeout:g} s: nothing more is sent",
            "see that there is a controller and what its log says; the next run goes on from here",
        )


class ControllerWait(ControllerThrottle):
    """One cluster whose controller is waited for: the pace of its run, and what is seen of it afterwards.

    ``tell`` hears of each topic as soon as the waiting for it is over and has shown something new of it.
    """

    def __init__(
        self,
        cluster: ProgressSource,
        stop: Callable[[], bool],
        *,
        max_replicas: int,
        timeout: float,
        on_update: Callable[[TopicPlan, Outcome], None],
        on_throttled: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(cluster, stop, max_replicas=max_replicas, timeout=timeout, on_throttled=on_throttled)
        self._on_update = on_update
        self._plans: dict[str, TopicPlan] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._topic_ids: dict[str, str] = {}
        self._is_over = self._is_stalled = False
        self._error: TopiaristError | None = None

    def on_outcome(self, topic: TopicPlan, outcome: Outcome) -> None:
        """What became of a topic: if it is there, the controller has to go on with it."""
        self._plans[topic.topic], self._outcomes[topic.topic] = topic, outcome
        super().on_outcome(topic, outcome)

    def add_report(self, report: ReconcileReport) -> None:
        """Take in what else of a run that has ended is to be waited for; nothing, if it ended early."""
        self._is_over = self._is_over or report.error is not None
        outcomes = {outcome.topic: outcome for outcome in report.outcomes}
        for topic in report.plan.topics:
            outcome = outcomes.get(topic.topic)
            if topic.topic not in self._outcomes and (outcome or is_deletion_pending(topic)):
                self.on_outcome(topic, outcome or Outcome(topic.topic, Result.UNCHANGED))

    @property
    def remaining(self) -> Mapping[str, bool]:
        """The topics that are still waited for, each with whether it is for new partitions."""
        return {} if self._is_over else {name: bool(asked) for name, asked in self._limit.topics_to_poll().items()}

    def poll(self) -> PollResult:
        """Look once; an error is the report's, and the end of the waiting."""
        try:
            return self._poll() if self.remaining else PollResult(progress=False)
        except TopiaristError as error:
            self._error, self._is_over = error, True
            return PollResult(progress=False)

    def _poll(self) -> PollResult:
        sights = self._cluster.poll(self._limit.topics_to_poll())
        for name, sight in sights.items():
            before = self._plans[name].before
            if sight.topic_id and (before is None or before.topic_id is None):
                self._topic_ids[name] = sight.topic_id
        seen = self._limit.update(sights)
        for name in seen.finished:
            outcome = self._outcome_after_wait(name, self._limit.progress_states[name])
            if outcome != self._outcomes[name]:
                self._on_update(self._plans[name], outcome)
        return seen

    def _outcome_after_wait(self, name: str, stage: ProgressState) -> Outcome:
        """The outcome of a topic by what was seen of it, with the id that it has got, if it still is that topic."""
        found = outcome_after_wait(self._outcomes[name], stage)
        return found if stage.reason is Reason.STATE_CONFLICT else found._replace(topic_id=self._topic_ids.get(name))

    def count_finished(self, *, grown: bool) -> int:
        """How many topics the controller has taken over, or (not ``grown``) deleted."""
        stages = self._limit.progress_states
        return sum(
            stages[name] == FINISHED and bool(partitions_to_initialize(plan)) is grown
            for name, plan in self._plans.items()
            if name in stages
        )

    def update_report(self, report: ReconcileReport, *, stopped: bool) -> ReconcileReport:
        """The report with what was seen at last; if the waiting was not to the end, what is left stays as it was."""
        cut = stopped or (report.error is not None and not self._is_stalled)
        stages = {name: found for name, found in self._limit.progress_states.items() if found.final or not cut}
        seen = {name: self._outcome_after_wait(name, found) for name, found in stages.items()}
        known = {outcome.topic for outcome in report.outcomes}
        outcomes = [seen.get(outcome.topic, outcome) for outcome in report.outcomes]
        outcomes += [outcome for name, outcome in seen.items() if name not in known]
        return replace(report, outcomes=tuple(outcomes), error=report.error or self._error)

    def _no_progress_error(self) -> TopiaristError:
        self._is_over = self._is_stalled = True
        return super()._no_progress_error()


def outcome_after_wait(outcome: Outcome, state: ProgressState) -> Outcome:
    """The outcome of a topic that was written, once it is known how far the cluster has come with it.

    What nobody waits for is as it was, with a word on it.
    """
    topic, result, *_ = outcome
    if not state.final:
        return Outcome(topic, Result.PENDING, state.reason, state.message)
    if state.reason in (None, Reason.NOT_INITIALIZED):
        return Outcome(topic, result, state.reason, state.message)
    refused = state.reason is Reason.DELETION_DISABLED
    return Outcome(topic, Result.REFUSED if refused else Result.FAILED, state.reason, state.message)
