"""The chunks of a plan: topics that share their intents, their Admin requests and their final records.

A KRaft controller carries out a request in one batch of at most 10,000 records, and refuses the whole request if it
needs more. Chunks stay well below this, and small enough for the lease of a chunk. Deletions have chunks of their own,
before all others, because a late request must not delete a topic together with another change.

Topics that get new partitions wait until the ``Throttle`` accepts them; all other topics are sent first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from topiarist.adapters.size_limits import REQUEST_LIMITS, REQUEST_WEIGHTS
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import DeleteTopic, TopicPlan
from topiarist.model.progress import partitions_to_initialize
from topiarist.planning.size_limits import enforce_size_limits, measure_change
from topiarist.ports import Throttle

MAX_TOPICS = 200
"""Maximum number of topics of a chunk."""

MAX_DELETIONS = 50
"""Maximum number of topics of a chunk that deletes."""

MAX_RECORDS = 5_000
"""Maximum number of metadata records of a chunk; a larger topic is a chunk of its own."""


def is_deletion(plan: TopicPlan) -> bool:
    """Return whether the plan deletes the topic."""
    return any(isinstance(change, DeleteTopic) for change in plan.changes)


def count_records(plan: TopicPlan) -> int:
    """Return an upper bound of the metadata records that the controller writes for a topic.

    One record for the topic, one for each config key, one for each new partition.
    """
    return 1 + sum(measure_change(REQUEST_WEIGHTS, plan.topic, change) for change in plan.changes)


def too_large_outcome(plan: TopicPlan) -> Outcome | None:
    """Return the refusal of a topic that needs more records than one request may have; None if the topic fits."""
    (limited,), _ = enforce_size_limits([plan], REQUEST_LIMITS)
    if limited.changes == plan.changes:
        return None
    refused = limited.refusals[-1]
    return Outcome(plan.topic, Result.REFUSED, refused.reason, refused.message)


def split_chunks(plans: Iterable[TopicPlan]) -> Iterator[tuple[TopicPlan, ...]]:
    """Yield the chunks of a plan without a throttle, in the order in which a run sends them."""
    queue = ChunkQueue(None, lambda: False)
    for plan in plans:
        queue.add(plan)
    while chunk := queue.take():
        yield chunk


class ChunkQueue:
    """The topics of one run that are not sent yet."""

    def __init__(self, throttle: Throttle | None, stop: Callable[[], bool]) -> None:
        self._throttle = throttle
        self._stop = stop
        self._deletions: deque[TopicPlan] = deque()
        self._ready: deque[TopicPlan] = deque()
        self._throttled: deque[TopicPlan] = deque()

    def add(self, plan: TopicPlan) -> None:
        """Add a topic that was not sent before."""
        if is_deletion(plan):
            self._deletions.append(plan)
        elif self._throttle is not None and partitions_to_initialize(plan):
            self._throttled.append(plan)
        else:
            self._ready.append(plan)

    def requeue(self, plans: Iterable[TopicPlan]) -> None:
        """Return topics that ``take`` returned and that were not changed; they are the next ones."""
        for plan in reversed(tuple(plans)):
            (self._deletions if is_deletion(plan) else self._ready).appendleft(plan)

    def take(self) -> tuple[TopicPlan, ...]:
        """Remove and return the next chunk.

        Empty if nothing is left, or if all topics left must wait for the throttle.
        """
        if self._deletions:
            return tuple(self._deletions.popleft() for _ in range(min(MAX_DELETIONS, len(self._deletions))))
        chunk: list[TopicPlan] = []
        records = 0
        while len(chunk) < MAX_TOPICS and (source := self._next_source()):
            records += count_records(source[0])
            if chunk and records > MAX_RECORDS:
                break
            if source is self._throttled and not self._try_acquire(source[0]):
                break
            chunk.append(source.popleft())
        return tuple(chunk)

    def wait(self) -> None:
        """Return when ``take`` is worth another call. Raises the errors of ``Throttle.wait``."""
        if self._throttle is not None and self._throttled and not self._stop():
            self._throttle.wait()

    @property
    def is_empty(self) -> bool:
        """Return whether no topic is left."""
        return not (self._deletions or self._ready or self._throttled)

    def remaining(self) -> Iterator[TopicPlan]:
        """Yield all topics that were not sent."""
        yield from (*self._deletions, *self._ready, *self._throttled)

    def _next_source(self) -> deque[TopicPlan] | None:
        return self._ready or self._throttled or None

    def _try_acquire(self, plan: TopicPlan) -> bool:
        return self._throttle is None or self._throttle.try_acquire(plan)
