"""Limits the work in flight at the Kafka controller, and waits until the controller finishes it.

A controller that receives thousands of topics at once answers no other request meanwhile, and its brokers create log
directories far more slowly than the controller initializes partitions. Therefore a run keeps at most a fixed number of
replicas per broker in flight: written, but not yet initialized, as the partition states show. Config changes, ownership
records and deletions do not count. The operator passes a ``ControllerThrottle`` to ``Cluster.apply``, and ``--wait`` a
``ControllerWait``. Both poll a ``ProgressSource``, with longer pauses while nothing changes, and give up after a time
without any progress.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Replicas
from topiarist.model.outcome import (
    FINISHED,
    Outcome,
    ProgressState,
    ReconcileReport,
    Result,
    TopicProgress,
    evaluate_progress,
    is_deletion_pending,
    needs_controller,
    partitions_to_initialize,
)
from topiarist.model.plan import MAX_INFLIGHT_REPLICAS_PER_BROKER, TopicPlan
from topiarist.ports import ProgressSource


class PollResult(NamedTuple):
    """The result of one poll: progress since the last poll, and finished topics."""

    progress: bool
    finished: tuple[str, ...] = ()


class _InFlight(Struct):
    """A topic that was sent to the cluster.

    ``remaining`` has the replica lists of the new partitions that are not yet initialized, by partition;
    ``initialized`` has the partitions that are. ``is_written`` is false until the write has an outcome.
    """

    plan: TopicPlan
    remaining: dict[int, Replicas]
    initialized: set[int] = field(default_factory=set)
    is_written: bool = False


class InFlightLimit:
    """A limit of ``max_replicas`` replicas in flight per broker of one cluster.

    ``progress_states`` has the state of each topic at its last poll. A single topic that exceeds the limit is accepted
    if no other replicas are in flight on its brokers. This class has no clock: the caller reports writes and polls.
    """

    def __init__(self, max_replicas: int = MAX_INFLIGHT_REPLICAS_PER_BROKER) -> None:
        self._max_replicas = max_replicas
        self._replicas_in_flight: Counter[int] = Counter()
        self._entries: dict[str, _InFlight] = {}
        self.progress_states: dict[str, ProgressState] = {}

    def try_acquire(self, plan: TopicPlan) -> bool:
        """Count the topic as in flight if it may be sent now.

        Returns false if it must wait.
        """
        # Brokers without replicas in flight are ignored, or a topic larger than the limit would wait forever.
        load = _replicas_per_broker(partitions_to_initialize(plan).values())
        if any(
            self._replicas_in_flight[broker] and self._replicas_in_flight[broker] + more > self._max_replicas
            for broker, more in load.items()
        ):
            return False
        self._add(plan)
        return True

    def complete(self, plan: TopicPlan, *, written: bool) -> None:
        """Record the outcome of a topic, with or without a previous ``try_acquire``.

        The topic is polled if it is ``written`` and the controller has work to do, or if it was marked for deletion
        before the run. Otherwise it is removed.
        """
        if written and (needs_controller(plan) or is_deletion_pending(plan)):
            self._add(plan).is_written = True
        else:
            self._remove(plan.topic)

    def topics_to_poll(self) -> Mapping[str, Collection[int]]:
        """Return the written topics, each with its partitions that are not yet initialized."""
        return {name: tuple(entry.remaining) for name, entry in self._entries.items() if entry.is_written}

    def update(self, sights: Mapping[str, TopicProgress]) -> PollResult:
        """Record the progress of all topics of ``topics_to_poll``."""
        progress, finished = False, []
        for name, topic_progress in sights.items():
            entry = self._entries[name]
            state = evaluate_progress(entry.plan, topic_progress, entry.initialized)
            for number in topic_progress.initialized & entry.remaining.keys():
                self._replicas_in_flight.subtract(entry.remaining.pop(number))
                entry.initialized.add(number)
                progress = True
            self.progress_states[name] = state
            if state.final:
                self._remove(name)
                finished.append(name)
        return PollResult(progress or bool(finished), tuple(finished))

    def _add(self, plan: TopicPlan) -> _InFlight:
        self._remove(plan.topic)  # ``try_acquire`` may have counted the topic already
        entry = self._entries[plan.topic] = _InFlight(plan, dict(partitions_to_initialize(plan)))
        self._replicas_in_flight.update(_replicas_per_broker(entry.remaining.values()))
        return entry

    def _remove(self, name: str) -> None:
        if entry := self._entries.pop(name, None):
            self._replicas_in_flight.subtract(_replicas_per_broker(entry.remaining.values()))


def _replicas_per_broker(lists: Iterable[Replicas]) -> Counter[int]:
    # Replicas that the cluster places count as on one broker: it may choose one for all of them.
    return Counter(chain.from_iterable(lists))


_STOP_CHECK_INTERVAL_S, _MIN_POLL_INTERVAL_S, _MAX_POLL_INTERVAL_S = 0.1, 0.02, 2.0
_BACKOFF_FACTOR = 1.25
"""The growth of each pause; the end is noticed at most a quarter too late."""
_POLL_COST_FACTOR = 4
"""The minimum pause as a multiple of the last poll's duration.

It limits the load on the cluster, which also serves other clients.
"""


class ProgressDeadline:
    """A deadline ``timeout`` seconds after the last progress.

    ``stop`` is checked during every pause and ends it early.
    """

    def __init__(self, timeout: float, stop: Callable[[], bool]) -> None:
        self._timeout = timeout
        self._stop = stop
        self._interval = _MIN_POLL_INTERVAL_S
        self.reset()

    def reset(self) -> None:
        """Restart the timeout after progress."""
        self._deadline = time.monotonic() + self._timeout

    def record_poll(self, *, progress: bool, since: float) -> None:
        """Record a finished poll that started at ``since``, and compute the next pause."""
        pause, duration = _BACKOFF_FACTOR * self._interval, time.monotonic() - since
        if progress:
            self.reset()
            pause = _MIN_POLL_INTERVAL_S
        self._interval = min(max(pause, _POLL_COST_FACTOR * duration), _MAX_POLL_INTERVAL_S)

    @property
    def is_expired(self) -> bool:
        """Return whether the timeout has passed without progress."""
        return time.monotonic() >= self._deadline

    def wait(self) -> None:
        """Sleep until the next poll is due.

        Each pause is longer than the previous one. A pause ends at the deadline, or as soon as ``stop`` returns true.
        """
        sleep_unless_stopped(min(self._interval, self._deadline - time.monotonic()), self._stop)


def sleep_unless_stopped(seconds: float, stop: Callable[[], bool]) -> None:
    """Sleep for ``seconds``, or until ``stop()`` is true."""
    until = time.monotonic() + seconds
    while not stop() and (remaining := until - time.monotonic()) > 0:
        time.sleep(min(remaining, _STOP_CHECK_INTERVAL_S))


NO_PROGRESS_TIMEOUT_S = 60.0
"""Seconds without progress after which a reconciliation ends.

The next reconciliation continues.
"""

MAX_THROTTLED_S = 10.0
"""Seconds of throttling after which a reconciliation sends no more topics.

The operator then writes statuses, and the next reconciliation continues.
"""


class ControllerThrottle:
    """A throttle for one run over one cluster.

    At most ``max_replicas`` replicas per broker are in flight. The run ends after ``timeout`` seconds without progress;
    ``stop`` ends every pause. ``on_throttled`` is called when the run is throttled for the first time.
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
        self._stop = stop
        self._timeout = timeout
        self._deadline = ProgressDeadline(timeout, stop)
        self._on_throttled = on_throttled
        self._is_stalled = False
        self._throttled_since: float | None = None

    @property
    def is_throttled_too_long(self) -> bool:
        """Return whether the run has been throttled for more than ``MAX_THROTTLED_S`` seconds.

        The remaining topics are left to the next reconciliation.
        """
        return self._throttled_since is not None and time.monotonic() - self._throttled_since > MAX_THROTTLED_S

    def try_acquire(self, topic: TopicPlan) -> bool:
        """Return whether the topic's new partitions may be written now."""
        return self._limit.try_acquire(topic)

    def on_outcome(self, topic: TopicPlan, outcome: Outcome) -> None:
        """Record the outcome of a topic and restart the timeout.

        A topic that exists as planned is work for the controller.
        """
        self._limit.complete(topic, written=outcome.result in (Result.DONE, Result.UNCHANGED))
        self._deadline.reset()

    def wait(self) -> None:
        """Pause, then poll the controller once.

        Raises ``NotInitialized`` if the controller made no progress for ``timeout`` seconds.
        """
        if self._throttled_since is None:
            self._throttled_since = time.monotonic()
            self._on_throttled()
        self._deadline.wait()
        if self._stop():
            return
        since = time.monotonic()
        progress = self._poll().progress
        self._deadline.record_poll(progress=progress, since=since)
        if self._deadline.is_expired and not progress:
            self._is_stalled = True
            raise TopiaristError(
                Reason.NOT_INITIALIZED,
                f"the controller has made no progress for {self._timeout:g} s: nothing more is sent",
                "check that the cluster has a controller, and read its log; the next run continues",
            )

    def _poll(self) -> PollResult:
        return self._limit.update(self._cluster.poll(self._limit.topics_to_poll()))


class ControllerWait(ControllerThrottle):
    """A throttle that also waits for the controller after the run.

    ``on_update`` is called for each topic as soon as waiting for the topic is over, if the outcome changed.
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
        self._is_over = False
        self._error: TopiaristError | None = None

    def on_outcome(self, topic: TopicPlan, outcome: Outcome) -> None:
        """Record the outcome of a topic and restart the timeout."""
        self._plans[topic.topic], self._outcomes[topic.topic] = topic, outcome
        super().on_outcome(topic, outcome)

    def add_report(self, report: ReconcileReport) -> None:
        """Add the topics of a finished run that are not yet waited for.

        If the run ended with an error, waiting is over.
        """
        self._is_over = self._is_over or report.error is not None
        # ``on_outcome`` has recorded the topics of the run; deletions requested before the run have no outcome.
        outcomes = {outcome.topic: outcome for outcome in report.outcomes}
        for topic in report.plan.topics:
            outcome = outcomes.get(topic.topic)
            if topic.topic not in self._outcomes and (outcome or is_deletion_pending(topic)):
                self.on_outcome(topic, outcome or Outcome(topic.topic, Result.UNCHANGED))

    @property
    def remaining(self) -> Mapping[str, bool]:
        """Return the topics still waited for, each with whether it has new partitions."""
        return {} if self._is_over else {name: bool(asked) for name, asked in self._limit.topics_to_poll().items()}

    def poll(self) -> PollResult:
        """Poll once. An error ends the waiting and is added to the report."""
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
        result = self._limit.update(sights)
        for name in result.finished:
            outcome = self._outcome_after_wait(name, self._limit.progress_states[name])
            if outcome != self._outcomes[name]:
                self._on_update(self._plans[name], outcome)
        return result

    def _outcome_after_wait(self, name: str, state: ProgressState) -> Outcome:
        """Return the outcome of a written topic for the progress of its controller.

        A state that is not final gives ``PENDING``. A topic that is finished, or that waits for unregistered brokers,
        keeps its result and gets the reason and message of ``state``. Any other final state gives ``REFUSED`` (deletion
        disabled) or ``FAILED``.
        """
        if not state.final:
            result = Result.PENDING
        elif state.reason in (None, Reason.NOT_INITIALIZED):
            result = self._outcomes[name].result
        else:
            result = Result.REFUSED if state.reason is Reason.DELETION_DISABLED else Result.FAILED
        # After a conflict, the id may be that of a recreated topic.
        topic_id = None if state.reason is Reason.STATE_CONFLICT else self._topic_ids.get(name)
        return Outcome(name, result, state.reason, state.message, topic_id=topic_id)

    def count_finished(self, *, grown: bool) -> int:
        """Return how many topics the controller initialized, or deleted if not ``grown``."""
        stages = self._limit.progress_states
        return sum(
            stages[name] == FINISHED and bool(partitions_to_initialize(plan)) is grown
            for name, plan in self._plans.items()
            if name in stages
        )

    def update_report(self, report: ReconcileReport, *, stopped: bool) -> ReconcileReport:
        """Return the report with the outcomes of the last poll.

        If waiting ended early, the outcomes of unfinished topics are not changed.
        """
        ended_early = stopped or (report.error is not None and not self._is_stalled)
        # After an early end, a state that is not final says nothing about the result of the topic.
        stages = {name: state for name, state in self._limit.progress_states.items() if state.final or not ended_early}
        polled_outcomes = {name: self._outcome_after_wait(name, state) for name, state in stages.items()}
        reported = {outcome.topic for outcome in report.outcomes}
        outcomes = [polled_outcomes.get(outcome.topic, outcome) for outcome in report.outcomes]
        outcomes += [outcome for name, outcome in polled_outcomes.items() if name not in reported]
        return replace(report, outcomes=tuple(outcomes), error=report.error or self._error)
