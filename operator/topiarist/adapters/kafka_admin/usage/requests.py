"""The requests of one read of usage: each to one broker, within one time limit, and with what was not answered noted.

``groups``, ``offsets`` and ``sizes`` send through ``UsageRequests``. A broker that is away, or lacks a right, must not
end a snapshot: what it would have said is not known then, and ``problems`` names the request.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from topiarist.adapters.kafka_admin.connection.connection import (
    Connection,
    Disconnected,
    Message,
)
from topiarist.adapters.kafka_admin.connection.error_codes import LOOKUP_CODES
from topiarist.adapters.kafka_admin.connection.offered import UnsupportedRequest
from topiarist.model.usage import UsageProblem

TIME_LIMIT_S = 60.0
"""Seconds for all requests of one read; 1,000 topics and 10,000 groups took 3 s on three brokers of one machine."""

ATTEMPTS, RETRY_INTERVAL_S = 3, 0.3
"""Attempts for a coordinator that is still loading, and for a group that rebalances."""

MAX_PROBLEMS = 100

_TIMED_OUT, _NETWORK = 7, 13

T = TypeVar("T")


class BrokerSession(Protocol):
    """A session that opens a connection to each broker."""

    def broker(self, broker_id: int) -> Connection:
        """Return the connection to one broker. Raises ``Disconnected``."""


class UsageRequests:
    """Sends the requests of one read. ``problems`` has those that were not answered, at most ``MAX_PROBLEMS``."""

    def __init__(self, session: BrokerSession, time_limit: float = TIME_LIMIT_S) -> None:
        self._session = session
        self._deadline = time.monotonic() + time_limit
        self.problems: list[UsageProblem] = []
        self.more_problems = 0

    def ask(self, what: str, broker: int, request: Message, at_most: int | None = None) -> Message | None:
        """Return the answer of a broker; None, with a problem noted, if there is none.

        ``at_most`` is the highest version to send. A throttled answer is returned when the broker takes the next one.
        """
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            self.note(what, broker, _TIMED_OUT)
            return None
        try:
            connection = self._session.broker(broker)
            answer = connection.call(request, version=connection.version_of(request, at_most), timeout=remaining)
        except Disconnected:
            self.note(what, broker, _NETWORK)
            return None
        except UnsupportedRequest:
            self.note(what, broker, 35)
            return None
        if throttled := getattr(answer, "throttle_time_ms", 0):
            time.sleep(min(throttled / 1000, max(self._deadline - time.monotonic(), 0)))
        return answer

    def version_of(self, broker: int, request: Message) -> int:
        """Return the highest version of a request that both sides know; -1 if there is none, or no connection."""
        try:
            return self._session.broker(broker).version_of(request)
        except (Disconnected, UnsupportedRequest):
            return -1

    def note(self, what: str, broker: int | None, error: int) -> None:
        """Add a problem."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(UsageProblem(what, broker, error))
        else:
            self.more_problems += 1

    def attempts(self) -> Iterator[bool]:
        """Yield up to ``ATTEMPTS`` times, with a pause between them; the value is true for the last one."""
        for number in range(1, ATTEMPTS + 1):
            if number > 1:
                time.sleep(RETRY_INTERVAL_S)
            yield number == ATTEMPTS


def is_temporary(code: int) -> bool:
    """Return whether an error code may be gone after some time: a coordinator or a leader that is not there yet."""
    return code in LOOKUP_CODES


def chunks(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the values in parts of at most ``size``."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
