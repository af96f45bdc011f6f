"""Explains what the partitions of a reassignment request wait for, in the order in which an operator should look.

1. A broker of the target is not registered: nothing can be copied to it, and the move waits until it returns.
2. A replica that stays is not in sync: the controller ends a move only when all of the target is in sync.
3. Otherwise brokers copy, or a throttle below the rate of production holds them back.

Entries that the controller never removes by itself are a separate case: ``find_stuck_entry``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Replicas
from topiarist.model.moves import UNLIMITED, RequestedReassignment
from topiarist.model.state import Reassignment
from topiarist.planning.builder import StaleEntry, explain_stale_entry
from topiarist.text import format_count, printable

_HINT_RUN_AGAIN = "what is in flight continues at the controller; run again to wait for it"
_HINT_DUPLICATE = "request the present replicas of the partition, with kafka-reassign-partitions --bootstrap-server"
_HINT_NEGATIVE = (
    "request the replicas that it had before, with kafka-reassign-partitions --bootstrap-server; or end it with"
    " --cancel, which may change their order"
)


class PartitionInFlight(NamedTuple):
    """A partition that a request names: its target, the added brokers among it, and its in-sync replicas."""

    topic: str
    partition: int
    target: Replicas
    adding: Replicas
    isr: Replicas

    @property
    def lagging(self) -> Replicas:
        """Return the brokers of the target that are not in sync."""
        return tuple(broker for broker in self.target if broker not in self.isr)


class StallWatch:
    """The progress of what is in flight; ``rate`` is the throttle of its copies, None if that is not known.

    ``stall_after`` is in seconds; ``deadline`` is the time at which moves without progress end the run.
    """

    def __init__(self, stall_after: float, rate: int | None) -> None:
        self._stall_after = stall_after
        self._rate = rate
        self._least: tuple[int, int] | None = None
        self.deadline = 0.0

    def reset(self) -> None:
        """Begin anew: other moves are in flight."""
        self._least = None

    def is_stalled(self, left: int, in_flight: Iterable[PartitionInFlight], now: float) -> bool:
        """Return whether neither partitions (``left``) nor replicas in sync changed until ``deadline``.

        ``now`` is the time in seconds.
        """
        found = left, sum(len(each.lagging) for each in in_flight)
        if self._least is None or found < self._least:
            self._least, self.deadline = found, now + self._stall_after
            return False
        return now >= self.deadline

    def error(self, in_flight: Sequence[PartitionInFlight], registered: Collection[int]) -> TopiaristError:
        """Return the error that ends the run, with what the partitions wait for."""
        message = f"no progress for {self._stall_after:g} s: {explain_stall(in_flight, registered, self._rate)}"
        if len(in_flight) > 1:
            message += f"; {format_count(len(in_flight), 'partition')} in flight"
        return TopiaristError(Reason.MOVES_STALLED, message, _HINT_RUN_AGAIN)


def find_added(target: Replicas, present: Replicas, reassignment: Reassignment | None) -> Replicas:
    """Return the brokers of ``target`` that copy the partition, given its list and its reassignment.

    Until the controller begins with a partition, it has the list of before and no reassignment.
    """
    if reassignment:
        return reassignment.adding
    return tuple(broker for broker in target if broker not in present)


def find_blocker(partitions: Sequence[PartitionInFlight], registered: Collection[int]) -> str:
    """Return what keeps partitions from ending however fast brokers copy; empty if nothing is known."""
    offline: dict[int, list[PartitionInFlight]] = {}
    unsynced: dict[int, list[PartitionInFlight]] = {}
    for each in partitions:
        for broker in each.lagging:
            if broker not in registered:
                offline.setdefault(broker, []).append(each)
            elif broker not in each.adding:
                unsynced.setdefault(broker, []).append(each)
    if offline:
        broker = min(offline)
        return f"broker {broker} is not registered: {_name(offline[broker])}"
    if unsynced:
        broker = min(unsynced)
        return f"broker {broker} keeps a replica that is not in sync: {_name(unsynced[broker])}"
    return ""


def explain_stall(partitions: Sequence[PartitionInFlight], registered: Collection[int], rate: int | None) -> str:
    """Return what the partitions wait for; ``rate`` is the throttle in bytes a second, None if it is not known."""
    if blocker := find_blocker(partitions, registered):
        return blocker
    copying = [each for each in partitions if each.lagging]
    if not copying:
        return "all replicas are in sync, and the controller has not ended the reassignment: read its log"
    held = "" if rate in (None, UNLIMITED) else f", or a throttle of {rate:,} bytes/s is below what is produced"
    brokers = sorted({broker for each in copying for broker in each.lagging})
    count = format_count(len(copying), "partition")
    return f"broker {', '.join(map(str, brokers))} has not copied all of {count} yet{held}"


def find_stuck_entry(entry: RequestedReassignment, *, exists: bool, is_younger: bool) -> str:
    """Return why the controller never removes an entry by itself, and what removes it; empty if it can be removed.

    ``exists`` is whether its topic does, ``is_younger`` whether the topic was created after the request.
    """
    where = f"{printable(entry.topic)}, partition {entry.partition}"
    if not exists or is_younger:
        stale = explain_stale_entry(topic_exists=exists)
        return f"{where}: {stale.message}; {stale.hint}"
    if invalid := explain_invalid_entry(entry):
        return f"{where}: {invalid.message}; {invalid.hint}"
    return ""


def explain_invalid_entry(entry: RequestedReassignment) -> StaleEntry | None:
    """Return why the controller never removes an entry with such a target, and a hint; None for a valid target."""
    target = list(entry.replicas)
    if any(broker < 0 for broker in target):
        message = f"the target {target} has a negative broker id, and the controller waits for that broker without end"
        return StaleEntry(message, _HINT_NEGATIVE)
    if len(set(target)) < len(target):
        message = f"the target {target} has a broker twice, and the controller ignores it"
        return StaleEntry(message, _HINT_DUPLICATE)
    return None


def _name(partitions: Sequence[PartitionInFlight]) -> str:
    first, count = partitions[0], len(partitions)
    named = f"{printable(first.topic)} {first.partition}"
    if count == 1:
        return f"partition {named} waits for it"
    return f"{format_count(count, 'partition')} wait for it ({named} is the first)"
