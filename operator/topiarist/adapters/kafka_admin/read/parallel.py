"""Read many parts of the same kind over several connections at once.

A broker answers the requests of one connection one after the other, and describes the configs of a topic in a tenth of
a millisecond: several connections are the only way to keep more than one of its processors busy. Each further
connection is opened in its own thread, so that nothing waits for it: what it does not read, the first one reads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TypeVar

from topiarist.adapters.kafka_admin.connection.connection import Connection, Disconnected

MAX_MORE_CONNECTIONS = 2
"""Maximum number of further connections: a broker has three network threads and eight request handlers by default."""

MIN_PARTS = 3
"""The number of parts from which on further connections pay."""

OpenMore = Callable[[], Connection | None]
"""Opens one more connection, in a thread of its own; None: there is none."""

P = TypeVar("P")
T = TypeVar("T")


def no_more() -> Connection | None:
    """Open no further connection."""
    return None


def read_in_parallel(
    connection: Connection, parts: Sequence[P], read: Callable[[Connection, P], T], more: OpenMore
) -> list[T]:
    """Return the result of ``read`` for each part, in order.

    The part of a further connection that breaks is read over ``connection``. Raises the first other error of ``read``.
    """
    waiting = deque(enumerate(parts))
    results: dict[int, T] = {}
    errors: list[BaseException] = []
    changed: SimpleQueue[None] = SimpleQueue()

    def work(reader: Connection) -> None:
        while waiting and not errors:
            try:
                index, part = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                results[index] = read(reader, part)
            except BaseException:
                waiting.append((index, part))
                raise
            changed.put(None)

    def help_reading() -> None:
        try:
            if (another := more()) is not None:
                work(another)
        except Disconnected:
            changed.put(None)
        except BaseException as error:  # reraised in the calling thread
            errors.append(error)
            changed.put(None)

    for _ in range(min(MAX_MORE_CONNECTIONS, len(parts) // MIN_PARTS) if more is not no_more else 0):
        threading.Thread(target=help_reading, name="reading", daemon=True).start()
    try:
        while len(results) < len(parts):
            work(connection)
            if errors:
                raise errors[0]
            if not waiting and len(results) < len(parts):
                changed.get()  # another thread reads the last parts
    finally:
        waiting.clear()
    return [results[index] for index in range(len(parts))]
