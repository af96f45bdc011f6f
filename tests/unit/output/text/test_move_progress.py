"""The progress of moves as one line."""

from __future__ import annotations

import pytest

from topiarist.model.moves import MoveProgress, ReplicaMove
from topiarist.output.moves import format_elapsed, format_move_progress

COPYING = (
    ReplicaMove("orders", 0, (1, 2), (4, 2)),
    ReplicaMove("orders", 1, (1, 3), (4, 3)),
    ReplicaMove("orders", 2, (2, 3), (6, 3)),
)


def test_the_line_of_a_batch() -> None:
    """The line has the batch, the partitions, each pair of brokers with its number of copies, and both durations."""
    line = format_move_progress(MoveProgress(2, 3, 9, 12, COPYING), 200.0, 100.0)
    assert line == ("batch 2 of 3: 9 of 12 partitions, 3 copying (4 <- 1: 2, 6 <- 2: 1), 3m 20s, about 1m 40s left")


def test_many_pairs_are_counted() -> None:
    """Of more than four pairs of brokers the busiest are listed."""
    moves = tuple(ReplicaMove("orders", broker, (broker, 2), (9, 2)) for broker in range(10, 17))
    line = format_move_progress(MoveProgress(1, 1, 0, 7, moves), 0.0, None)
    assert "7 copying (9 <- 10: 1, 9 <- 11: 1, 9 <- 12: 1, 9 <- 13: 1, 3 more), 0s" in line


def test_a_cause_of_waiting_replaces_the_brokers() -> None:
    """The cause is at the end; the brokers that copy would push it out of the terminal."""
    progress = MoveProgress(1, 1, 0, 3, COPYING, waiting_for="broker 4 is not registered\x1b[2J")
    line = format_move_progress(progress, 61.0, None)
    assert line == "batch 1 of 1: 0 of 3 partitions, 3 copying, 1m 1s; waiting: broker 4 is not registered\\x1b[2J"


def test_moves_without_copies_and_a_batch_of_an_earlier_run() -> None:
    """A reorder copies nothing; before the first batch of this run no batch is named."""
    reorder = ReplicaMove("orders", 0, (1, 2), (2, 1))
    assert format_move_progress(MoveProgress(0, 2, 0, 4, (reorder,)), 1.0, None) == (
        "moves: 0 of 4 partitions, 1 in progress, 1s"
    )


def test_a_run_without_moves_of_its_own() -> None:
    """A run that only waits for an earlier batch has no count of partitions."""
    progress = MoveProgress(0, 0, 0, 0, waiting_for="batch 1 of 3 of an earlier run: 2 partitions left")
    assert format_move_progress(progress, 5.0, None) == (
        "moves: 5s; waiting: batch 1 of 3 of an earlier run: 2 partitions left"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.9, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (200, "3m 20s"),
        (3_600, "1h"),
        (7500, "2h 5m"),
        (86_400, "1d"),
        (90_061, "1d 1h"),
    ],
)
def test_durations_have_their_two_largest_units(seconds: float, text: str) -> None:
    """A duration is rounded down."""
    assert format_elapsed(seconds) == text
