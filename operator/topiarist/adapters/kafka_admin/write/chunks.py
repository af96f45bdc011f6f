"""The chunks of a plan: topics that share intents, Admin requests and final records; and how these are sent.

A KRaft controller carries out a request in one batch of at most 10,000 records, and refuses the whole request if it
needs more. Chunks stay below this, and small enough for the lease of a chunk. Deletions have chunks of their own,
before all others, because a late request must not delete a topic together with another change. Creations have theirs,
after changes, because the logs that they need keep the brokers busy.

Topics that get new partitions wait until the ``Throttle`` accepts them; all other topics are sent first.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from topiarist.adapters.kafka_admin.connection.connection import Connection, Disconnected, Message
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read.capabilities import find_capabilities
from topiarist.adapters.kafka_admin.read.metadata import read_metadata
from topiarist.adapters.kafka_admin.write import requests
from topiarist.adapters.kafka_admin.write.requests import Kind
from topiarist.adapters.size_limits import REQUEST_LIMITS, REQUEST_WEIGHTS
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import Outcome, Result, partitions_to_initialize
from topiarist.model.plan import DeleteTopic, TopicPlan
from topiarist.planning.planner import enforce_size_limits, measure_change
from topiarist.ports import Throttle
from topiarist.throttle import sleep_unless_stopped

MAX_TOPICS = 200
"""Maximum number of topics of a chunk that changes topics: all of them are read once more before its lease ends."""

MAX_CREATIONS = 1_000
"""Maximum number of topics of a chunk that creates, if it ends with the answers of the controller."""

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
    """The topics of one run that are not sent yet.

    ``reads_creations`` is true if new topics are read before the lease of their chunk ends, as changed ones are.
    """

    def __init__(self, throttle: Throttle | None, stop: Callable[[], bool]) -> None:
        self.reads_creations = False
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
            return _take_from(self._creations, MAX_TOPICS if self.reads_creations else MAX_CREATIONS)
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
        return self._creations if requests.creation_of(plan) else self._changes


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


# Send the Admin requests of one chunk, and keep what each answer says about each topic.
#
# The order is: deletions (always alone), creations, configs, growth. A topic that grows and changes configs therefore
# has its configs first; without them it does not grow. The fence is checked directly before each request, because Kafka
# does not fence Admin requests. Nothing is sent twice, but for what an answer says was not made: a quota that is
# exceeded, a broker that is not the controller, or a connection that broke before the request was sent.

ANSWER_TIMEOUT_S = 70.0
"""Seconds to wait for an answer, and for a request without an answer to be made. Brokers may take 60 s."""

QUOTA_WAIT_S = 10.0
"""Seconds of one chunk to wait for a quota; topics that are not accepted until then join a later chunk."""

OLD_LOOK_S = 5.0
"""Seconds for which a confirmed change that a look does not show counts as not yet visible."""

_MIN_QUOTA_WAIT_MS = 100


class TopicWrite(Struct):
    """One topic of a chunk while its requests are sent.

    ``topic_id`` is the id before the chunk, None for a creation. ``problem`` is the first element that was not
    accepted, with its kind. ``is_touched`` is true as soon as a request may have changed the topic, ``late_until`` is
    the time until which such a request may still be carried out (None: it is over). Confirmed changes are visible at
    ``visible_by`` at the latest. ``created`` is the topic with which the controller confirmed a creation.
    """

    plan: TopicPlan
    topic_id: str | None
    problem: tuple[requests.Element, Kind] | None = None
    is_touched: bool = False
    late_until: float | None = None
    visible_by: float = 0.0
    created: requests.CreatedTopic | None = None

    @property
    def known_id(self) -> str | None:
        """Return the id of the topic, from before the chunk or from its creation; None if it is not known."""
        return self.created.topic_id if self.created else self.topic_id

    @property
    def is_throttled(self) -> bool:
        """Return whether the quota of the brokers left out the topic."""
        return self.problem is not None and self.problem[0].certainty is requests.Certainty.THROTTLED

    def needs(self, kind: Kind) -> bool:
        """Return whether a request of this kind is to be sent; growth waits for the configs of its topic."""
        return self.problem is None and needs_request(self.plan, kind)


def needs_request(plan: TopicPlan, kind: Kind) -> bool:
    """Return whether a plan needs a request of this kind."""
    match kind:
        case Kind.DELETE:
            return is_deletion(plan)
        case Kind.CREATE:
            return requests.creation_of(plan) is not None
        case Kind.CONFIGURE:
            return bool(requests.config_items_of(plan))
        case Kind.GROW:
            return requests.growth_of(plan) is not None


class ChunkRequests:
    """The requests of one chunk. ``require_fence`` raises ``TopiaristError`` if this run may send nothing any more.

    ``quota_reset_at`` is the time of the monotonic clock when a quota that left out topics accepts more.
    """

    def __init__(self, session: Session, require_fence: Callable[[], None], stop: Callable[[], bool]) -> None:
        self._session = session
        self._require_fence = require_fence
        self._stop = stop
        self.quota_reset_at = 0.0
        self._quota_deadline = time.monotonic() + QUOTA_WAIT_S

    def send(self, writes: Sequence[TopicWrite]) -> None:
        """Send one request of each kind that the topics need, and record the answers in ``writes``.

        Raises the error of ``require_fence``, and ``Unreachable`` if nothing can be sent.
        """
        for kind in Kind:
            needing = [write for write in writes if write.needs(kind)]
            if needing:
                self._send_kind(kind, needing)

    def _send_kind(self, kind: Kind, needing: Sequence[TopicWrite]) -> None:
        controllers_asked = 0
        while needing:
            answer = self._send_once(kind, {_key(kind, write): write for write in needing})
            if answer is None:
                return
            by_certainty: dict[requests.Certainty, list[TopicWrite]] = {}
            for write in needing:
                element = answer.elements[_key(kind, write)]
                by_certainty.setdefault(element.certainty, []).append(write)
                _record(write, kind, element)
            not_taken = by_certainty.get(requests.Certainty.NOT_CONTROLLER, [])
            throttled = by_certainty.get(requests.Certainty.THROTTLED, [])
            if not_taken:
                controllers_asked += 1
                if controllers_asked > 1:
                    break
                self._session.forget_controller()
            if throttled and not self._wait_for_quota(answer.throttle_time_ms):
                throttled = []
            needing = [*not_taken, *throttled]
            for write in needing:
                write.problem = None

    def _send_once(self, kind: Kind, writes: Mapping[str, TopicWrite]) -> requests.Answer | None:
        """Send one request; return its answer, or None if it may have been sent and has no answer."""
        for is_last in (False, True):
            try:
                connection = self._session.controller()
            except Disconnected as error:
                if is_last:
                    raise _unreachable(error) from error
                self._session.forget_controller()
                continue
            request = build_request(kind, {name: write.plan for name, write in writes.items()})
            version = connection.version_of(request)
            is_by_name = kind is Kind.DELETE and find_capabilities(connection).deletion_by_id.is_denied
            self._require_fence()
            touched = {name: write.is_touched for name, write in writes.items()}
            for write in writes.values():
                write.is_touched = True
            sent_at = time.monotonic()
            try:
                if is_by_name:
                    return _delete_by_name(connection, writes)
                answer = connection.call(request, version=version, timeout=ANSWER_TIMEOUT_S)
                return requests.read_answer(kind, answer, writes)
            except Disconnected as error:
                if error.was_sent:
                    for write in writes.values():
                        write.problem = requests.Element(None, str(error)), kind
                        write.late_until = sent_at + ANSWER_TIMEOUT_S
                    return None
                for name, write in writes.items():
                    write.is_touched = touched[name]
                if is_last:
                    raise _unreachable(error) from error
                self._session.forget_controller()
            finally:
                self._session.changed_at = time.monotonic()
        return None

    def _wait_for_quota(self, milliseconds: int) -> bool:
        """Wait as long as the broker asks; return False if there is no time for it in this chunk."""
        self.quota_reset_at = until = time.monotonic() + max(milliseconds, _MIN_QUOTA_WAIT_MS) / 1000
        if until > self._quota_deadline:
            return False
        sleep_unless_stopped(until - time.monotonic(), self._stop)
        return not self._stop()


def _delete_by_name(connection: Connection, writes: Mapping[str, TopicWrite]) -> requests.Answer:
    """Delete topics by name, each only if it has the id of ``writes`` now; return the elements of the answer by id.

    For brokers with a request without ids. The last look goes over the same connection, directly before: only a topic
    that is deleted and recreated between the two requests, or before a late request, is deleted in place of the planned
    one.
    """
    names = {write.plan.topic: topic_id for topic_id, write in writes.items()}
    try:
        found = read_metadata(connection, names)
    except Disconnected as error:
        raise Disconnected(str(error), was_sent=False) from error  # the deletion was not
    same = [name for name, topic in found.topics.items() if topic.topic_id == names.get(name)]
    other = {name: requests.Element(found.errors.get(name, requests.UNKNOWN_ID)) for name in names if name not in same}
    elements: Mapping[str, requests.Element] = {}
    throttle_time_ms = 0
    if same:
        request = requests.build_delete_by_name(same)
        answer = connection.call(request, timeout=ANSWER_TIMEOUT_S)
        elements = requests.collect_elements(((each.name, each) for each in answer.responses), same)
        throttle_time_ms = answer.throttle_time_ms
    return requests.Answer({names[name]: each for name, each in {**elements, **other}.items()}, throttle_time_ms)


def _record(write: TopicWrite, kind: Kind, element: requests.Element) -> None:
    """Record one element. A change that certainly was not made leaves the topic as untouched as it was before."""
    match element.certainty:
        case requests.Certainty.ACCEPTED:
            write.visible_by = time.monotonic() + OLD_LOOK_S
            write.created = element.created
            return
        case requests.Certainty.LATE:
            write.late_until = time.monotonic() + ANSWER_TIMEOUT_S
        case requests.Certainty.NOT_MADE | requests.Certainty.THROTTLED | requests.Certainty.NOT_CONTROLLER:
            # Growth is the only second request of a topic: its configs were accepted before.
            write.is_touched = kind is Kind.GROW and bool(requests.config_items_of(write.plan))
    write.problem = element, kind


def build_request(kind: Kind, plans: Mapping[str, TopicPlan], *, validate_only: bool = False) -> Message:
    """Return the request of one kind for topics by name, for deletions by id; deletions cannot be validated only.

    Brokers that delete by name alone get another request.
    """
    match kind:
        case Kind.DELETE:
            return requests.build_delete_topics(plans)
        case Kind.CREATE:
            creations = {name: create for name, plan in plans.items() if (create := requests.creation_of(plan))}
            return requests.build_create_topics(creations, validate_only=validate_only)
        case Kind.CONFIGURE:
            changes = {
                name: {item.key: item.after for item in requests.config_items_of(plan)} for name, plan in plans.items()
            }
            return requests.build_alter_configs(changes, validate_only=validate_only)
        case Kind.GROW:
            growths = {name: growth for name, plan in plans.items() if (growth := requests.growth_of(plan))}
            return requests.build_create_partitions(growths, validate_only=validate_only)


def _key(kind: Kind, write: TopicWrite) -> str:
    return str(write.topic_id) if kind is Kind.DELETE else write.plan.topic


def _unreachable(error: Disconnected) -> TopiaristError:
    return TopiaristError(Reason.UNREACHABLE, f"cannot send to the controller: {error}", "run the same command again")
