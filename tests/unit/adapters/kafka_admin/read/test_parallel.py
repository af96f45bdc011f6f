"""Reading over several connections: everything is read once, whatever becomes of the further connections."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from topiarist.adapters.kafka_admin.connection.connection import Disconnected
from topiarist.adapters.kafka_admin.read.configs import MAX_MORE_CONNECTIONS, no_more, read_in_parallel

FIRST: Any = "first"
PARTS = list(range(40))


def test_one_connection_reads_all_parts_in_order() -> None:
    """Without further connections no thread is started."""
    threads = threading.active_count()
    assert read_in_parallel(FIRST, PARTS, lambda _, part: (part, threading.active_count()), no_more) == [
        (part, threads) for part in PARTS
    ]


def test_nothing_to_read() -> None:
    """No part: no result, and no wait."""
    assert read_in_parallel(FIRST, [], lambda _, part: part, no_more) == []


def test_further_connections_read_at_the_same_time() -> None:
    """Each reader waits until all have a part: that ends only if all of them read at once."""
    meeting, seen = threading.Barrier(1 + MAX_MORE_CONNECTIONS, timeout=20), set()

    def read(connection: Any, part: int) -> int:
        if connection not in seen:
            seen.add(connection)
            meeting.wait()
        return part

    assert read_in_parallel(FIRST, PARTS, read, object) == PARTS  # type: ignore[arg-type]
    assert len(seen) == 1 + MAX_MORE_CONNECTIONS


def test_the_part_of_a_broken_connection_is_read_by_the_first() -> None:
    """Both further connections break with a part in hand, the second while nothing else is left to read."""
    begun, first_is_done = threading.Barrier(1 + MAX_MORE_CONNECTIONS, timeout=20), threading.Event()
    parts, waited = [0, 1, 2, 3, 4, 5], set()

    def read(connection: Any, part: int) -> tuple[Any, int]:
        if connection not in waited:
            waited.add(connection)
            begun.wait()
        if connection is not FIRST:
            first_is_done.wait(0.2)
            raise Disconnected("gone", was_sent=True)
        return connection, part

    assert read_in_parallel(FIRST, parts, read, object) == [(FIRST, part) for part in parts]  # type: ignore[arg-type]


def test_a_connection_that_cannot_be_opened_is_not_needed() -> None:
    """Neither a refusal nor a connection that breaks while it is opened shows."""

    def breaks() -> None:
        raise Disconnected("no", was_sent=False)

    for more in (lambda: None, breaks):
        assert read_in_parallel(FIRST, PARTS, lambda _, part: part, more) == PARTS


def test_a_connection_that_is_late_is_not_awaited() -> None:
    """All parts are read while another connection is still being opened."""
    opened = threading.Event()

    def more() -> None:
        opened.wait(20)

    assert read_in_parallel(FIRST, PARTS, lambda _, part: part, more) == PARTS
    opened.set()


@pytest.mark.parametrize("reader", ["first", "other"])
def test_an_error_of_any_reader_is_raised(reader: str) -> None:
    """A refusal ends the read, whichever connection has met it."""
    met = threading.Event()

    def read(connection: Any, part: int) -> int:
        if (connection is FIRST) == (reader == "first"):
            met.set()
            raise PermissionError("refused")
        met.wait(20)
        for thread in threading.enumerate():  # after the event, its thread has yet to report the error
            if connection is FIRST and thread.name == "reading":
                thread.join(20)
        return part

    with pytest.raises(PermissionError):
        read_in_parallel(FIRST, PARTS, read, object)  # type: ignore[arg-type]


def test_the_error_of_the_first_connection_is_raised() -> None:
    """The caller begins its whole read anew then."""

    def read(_: Any, part: int) -> int:
        raise Disconnected(f"part {part}", was_sent=True)

    with pytest.raises(Disconnected):
        read_in_parallel(FIRST, PARTS, read, no_more)
