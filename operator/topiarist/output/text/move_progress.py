"""The progress of moves as one line of text, for a terminal or a log.

``cli.execute`` has the clock and decides when a line is printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from topiarist.model.moves import MoveProgress, ReplicaMove
from topiarist.output.text.layout import sanitize
from topiarist.text import format_count

_MAX_SHOWN_PAIRS = 4


def format_move_progress(progress: MoveProgress, elapsed_s: float, left_s: float | None) -> str:
    """Return the progress of moves as one line, with the time since the first batch and an estimate of the rest.

    ``left_s`` is None if there is no estimate. The brokers that copy are not listed if something else is waited for.
    """
    where = f"batch {progress.batch} of {progress.batches}" if progress.batch else "moves"
    parts = [f"{progress.done:,} of {format_count(progress.total, 'partition')}" if progress.total else ""]
    parts.append(_format_copying(progress.copying, with_brokers=not progress.waiting_for))
    parts.append(format_elapsed(elapsed_s))
    parts.append("" if left_s is None else f"about {format_elapsed(left_s)} left")
    text = f"{where}: {', '.join(filter(None, parts))}"
    return sanitize(f"{text}; waiting: {progress.waiting_for}" if progress.waiting_for else text)


def format_elapsed(seconds: float) -> str:
    """Return a duration as its two largest units: ``45s``, ``3m 20s``, ``2h 5m``, ``3d 4h``."""
    left = int(seconds)
    parts: list[tuple[int, str]] = []
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")):
        amount, left = divmod(left, unit)
        if amount or parts or unit == 1:
            parts.append((amount, name))
    return " ".join(f"{amount}{name}" for index, (amount, name) in enumerate(parts[:2]) if amount or not index)


def _format_copying(moves: Sequence[ReplicaMove], *, with_brokers: bool) -> str:
    """Return ``3 copying (4 <- 1: 2, 6 <- 2: 1)``: broker 4 copies two partitions that broker 1 leads by preference."""
    copying = [move for move in moves if move.added]
    if not copying:
        return f"{len(moves):,} in progress" if moves else ""
    pairs = Counter((added, move.before[0]) for move in copying for added in move.added)
    text = f"{len(copying):,} copying"
    if not with_brokers:
        return text
    shown = sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0]))[:_MAX_SHOWN_PAIRS]
    listed = [f"{added} <- {leader}: {count}" for (added, leader), count in shown]
    if len(pairs) > len(shown):
        listed.append(f"{len(pairs) - len(shown)} more")
    return f"{text} ({', '.join(listed)})"
