"""The chunks of a plan: topics that share their intents, their Admin requests and their final records.

A KRaft controller carries out a request in one batch of at most 10,000 records, and refuses the whole request if it
needs more. Chunks stay below this, and small enough for the lease of a chunk. Deletions have chunks of their own,
before all others, because a late request must not delete a topic together with another change. Creations have theirs,
after changes, because the logs that they need keep the brokers busy.

Topics that get new partitions wait until the ``Throttle`` accepts them; all other topics are sent first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from topiarist.adapters.kafka_admin.write.requests import creation_of
from topiarist.adapters.size_limits import REQUEST_LIMITS, REQUEST_WEIGHTS
from topiarist.model.outcome import Outcome, Result, partitions_to_initialize
from topiarist.model.plan import DeleteTopic, TopicPlan
from topiarist.planning.size_limits import enforce_size_limits, measure_change
from topiarist.ports import Throttle

MAX_TOPICS = 200
"""Maximum number of topics of a chunk that changes topics: all of them are read once more before its lease ends."""

MAX_CREATIONS = 1_000
"""Maximum number of topics of a chunk that creates, which ends with the answers of the controller."""

MAX_DELETIONS = 50
"""Maximum number of topics of a chunk that deletes."""

MAX_RECORDS = 9_000
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
        self._changes: deque[TopicPlan] = deque()
        self._creations: deque[TopicPlan] = deque()
        self._throttled: deque[TopicPlan] = deque()

    def add(self, plan: TopicPlan) -> None:
        """Add a topic that was not sent before."""
        is_throttled = self._throttle is not None and not is_deletion(plan) and partitions_to_initialize(plan)
        (self._throttled if is_throttled else self._queue_of(plan)).append(plan)

    def requeue(self, plans: Iterable[TopicPlan]) -> None:
        """Return topics that ``take`` returned and that were not changed; they are the next ones."""
        for plan in reversed(tuple(plans)):
            self._queue_of(plan).appendleft(plan)

    def take(self) -> tuple[TopicPlan, ...]:
        """Remove and return the next chunk.

        Empty if nothing is left, or if all topics left must wait for the throttle.
        """
        if self._deletions:
            return _take_from(self._deletions, MAX_DELETIONS)
        if self._changes:
            return _take_from(self._changes, MAX_TOPICS)
        if self._creations:
            return _take_from(self._creations, MAX_CREATIONS)
        return _take_from(self._throttled, MAX_TOPICS, self._throttle)

    def wait(self) -> None:
        """Return when ``take`` is worth another call. Raises the errors of ``Throttle.wait``."""
        if self._throttle is not None and self._throttled and not self._stop():
            self._throttle.wait()

    @property
    def is_empty(self) -> bool:
        """Return whether no topic is left."""
        return not any(self.remaining())

    def remaining(self) -> Iterator[TopicPlan]:
        """Yield all topics that were not sent."""
        yield from (*self._deletions, *self._changes, *self._creations, *self._throttled)

    def _queue_of(self, plan: TopicPlan) -> deque[TopicPlan]:
        if is_deletion(plan):
            return self._deletions
        return self._creations if creation_of(plan) else self._changes


def _take_from(queue: deque[TopicPlan], limit: int, throttle: Throttle | None = None) -> tuple[TopicPlan, ...]:
    """Remove and return the first topics: at most ``limit``, ``MAX_RECORDS``, and what the throttle accepts."""
    chunk: list[TopicPlan] = []
    records = 0
    while queue and len(chunk) < limit:
        records += count_records(queue[0])
        if chunk and records > MAX_RECORDS:
            break
        if throttle is not None and not throttle.try_acquire(queue[0]):
            break
        chunk.append(queue.popleft())
    return tuple(chunk)
