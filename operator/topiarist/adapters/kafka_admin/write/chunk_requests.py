"""Send the Admin requests of one chunk, and keep what each answer says about each topic.

The order is: deletions (always alone), creations, configs, growth. A topic that grows and changes configs therefore has
its configs first; without them it does not grow. The fence is checked directly before each request, because Kafka does
not fence Admin requests. Nothing is sent twice, but for what an answer says was not made: a quota that is exceeded, a
broker that is not the controller, or a connection that broke before the request was sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from topiarist.adapters.kafka_admin.connection.connection import (
    Disconnected,
    Message,
)
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.write import requests
from topiarist.adapters.kafka_admin.write.answers import (
    Answer,
    Certainty,
    Element,
    Right,
    read_config_answer,
    read_create_answer,
    read_delete_answer,
    read_growth_answer,
)
from topiarist.adapters.kafka_admin.write.chunks import is_deletion
from topiarist.errors import Reason, TopiaristError
from topiarist.model.plan import TopicPlan
from topiarist.throttle import sleep_unless_stopped

ANSWER_TIMEOUT_S = 70.0
"""Seconds to wait for an answer, and for a request without an answer to be made. Brokers may take 60 s."""

QUOTA_WAIT_S = 10.0
"""Seconds of one chunk to wait for a quota; topics that are not accepted until then join a later chunk."""

OLD_LOOK_S = 5.0
"""Seconds for which a confirmed change that a look does not show counts as not yet visible."""

_MIN_QUOTA_WAIT_MS = 100


class Kind(Enum):
    """A kind of Admin request, with the right that it needs."""

    DELETE = Right.DELETE
    CREATE = Right.CREATE
    CONFIGURE = Right.CONFIGURE
    GROW = Right.GROW


class TopicWrite(Struct):
    """One topic of a chunk while its requests are sent.

    ``topic_id`` is the id before the chunk, None for a creation. ``problem`` is the first element that was not
    accepted, with its kind. ``is_touched`` is true as soon as a request may have changed the topic, ``late_until`` is
    the time until which such a request may still be carried out (None: it is over). Confirmed changes are visible at
    ``visible_by`` at the latest. ``created_id`` is the id with which the controller confirmed a creation.
    """

    plan: TopicPlan
    topic_id: str | None
    problem: tuple[Element, Kind] | None = None
    is_touched: bool = False
    late_until: float | None = None
    visible_by: float = 0.0
    created_id: str = ""

    @property
    def is_throttled(self) -> bool:
        """Return whether the quota of the brokers left out the topic."""
        return self.problem is not None and self.problem[0].certainty is Certainty.THROTTLED

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
        for kind in (Kind.DELETE, Kind.CREATE, Kind.CONFIGURE, Kind.GROW):
            needing = [write for write in writes if write.needs(kind)]
            if needing:
                self._send_kind(kind, needing)

    def _send_kind(self, kind: Kind, needing: Sequence[TopicWrite]) -> None:
        controllers_asked = 0
        while needing:
            answer = self._send_once(kind, {_key(kind, write): write for write in needing})
            if answer is None:
                return
            by_certainty: dict[Certainty, list[TopicWrite]] = {}
            for write in needing:
                element = answer.elements[_key(kind, write)]
                by_certainty.setdefault(element.certainty, []).append(write)
                _record(write, kind, element)
            not_taken = by_certainty.get(Certainty.NOT_CONTROLLER, [])
            throttled = by_certainty.get(Certainty.THROTTLED, [])
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

    def _send_once(self, kind: Kind, writes: Mapping[str, TopicWrite]) -> Answer | None:
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
            self._require_fence()
            touched = {name: write.is_touched for name, write in writes.items()}
            for write in writes.values():
                write.is_touched = True
            sent_at = time.monotonic()
            try:
                return read_answer(kind, connection.call(request, version=version, timeout=ANSWER_TIMEOUT_S), writes)
            except Disconnected as error:
                if error.was_sent:
                    for write in writes.values():
                        write.problem = Element(None, str(error)), kind
                        write.late_until = sent_at + ANSWER_TIMEOUT_S
                    return None
                for name, write in writes.items():
                    write.is_touched = touched[name]
                if is_last:
                    raise _unreachable(error) from error
                self._session.forget_controller()
        return None

    def _wait_for_quota(self, milliseconds: int) -> bool:
        """Wait as long as the broker asks; return False if there is no time for it in this chunk."""
        self.quota_reset_at = until = time.monotonic() + max(milliseconds, _MIN_QUOTA_WAIT_MS) / 1000
        if until > self._quota_deadline:
            return False
        sleep_unless_stopped(until - time.monotonic(), self._stop)
        return not self._stop()


def _record(write: TopicWrite, kind: Kind, element: Element) -> None:
    """Record one element. A change that certainly was not made leaves the topic as untouched as it was before."""
    match element.certainty:
        case Certainty.ACCEPTED:
            write.visible_by = time.monotonic() + OLD_LOOK_S
            write.created_id = element.created_id
            return
        case Certainty.LATE:
            write.late_until = time.monotonic() + ANSWER_TIMEOUT_S
        case Certainty.NOT_MADE | Certainty.THROTTLED | Certainty.NOT_CONTROLLER:
            # Growth is the only second request of a topic: its configs were accepted before.
            write.is_touched = kind is Kind.GROW and bool(requests.config_items_of(write.plan))
    write.problem = element, kind


def build_request(kind: Kind, plans: Mapping[str, TopicPlan], *, validate_only: bool = False) -> Message:
    """Return the request of one kind for topics by name, for deletions by id; deletions cannot be validated only."""
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


def read_answer(kind: Kind, answer: Message, asked: Iterable[str]) -> Answer:
    """Return the elements of an answer to a request of this kind for the names, or ids, that were asked for."""
    return _READERS[kind](answer, asked)


_READERS: Mapping[Kind, Callable[[Message, Iterable[str]], Answer]] = {
    Kind.DELETE: read_delete_answer,
    Kind.CREATE: read_create_answer,
    Kind.CONFIGURE: read_config_answer,
    Kind.GROW: read_growth_answer,
}


def _key(kind: Kind, write: TopicWrite) -> str:
    return (write.topic_id or "") if kind is Kind.DELETE else write.plan.topic


def _unreachable(error: Disconnected) -> TopiaristError:
    return TopiaristError(Reason.UNREACHABLE, f"cannot send to the controller: {error}", "run the same command again")
