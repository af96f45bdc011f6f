"""The status of moves: as a JSON document (``moves --format json``), and as text with the next step where there is one.

``schemas/moves.json`` describes each field. Times in the document are those of the cluster's own clock.
``cli.execute`` prints the progress of a run's moves as lines; it has the clock and decides when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from topiarist.inspection.moves import MoveStatus, MovingPartition, RecordedThrottle
from topiarist.model.moves import BatchRecord, MoveProgress, ReplicaMove
from topiarist.output.text.layout import BOLD, BOLD_RED, YELLOW, TextLayout, join_sections
from topiarist.output.view import encode_fields
from topiarist.text import format_count, sanitize, shorten_list

FORMAT_VERSION = 1


def encode_statuses(statuses: Iterable[MoveStatus]) -> dict[str, Any]:
    """Return the document ``{formatVersion, clusters}``, as plain values."""
    return {"formatVersion": FORMAT_VERSION, "clusters": [_encode_status(status) for status in statuses]}


def _encode_status(status: MoveStatus) -> dict[str, Any]:
    batch = status.batch
    return {
        "name": status.cluster,
        "clusterId": status.cluster_id,
        "warnings": list(status.warnings),
        "batch": None
        if batch is None
        else {
            **encode_fields(batch, "owner", "batch", "batches"),
            "partitions": len(batch.moves),
            "sentAt": _encode_time(status.batch_at_ms),
        },
        "requestChangedAt": _encode_time(status.changed_at_ms),
        "partitions": [
            *(_encode_partition(each, is_own=True) for each in status.own),
            *(_encode_partition(each, is_own=False) for each in status.foreign),
        ],
        "blocker": status.blocker,
        "stuck": list(status.stuck),
        "throttles": [each._asdict() for each in status.throttles],
        "unexplainedThrottles": [each._asdict() for each in status.unexplained],
    }


def _encode_partition(partition: MovingPartition, *, is_own: bool) -> dict[str, Any]:
    fields = encode_fields(partition, "topic", "partition", "target", "adding", "lagging")
    return {**fields, "own": is_own, "requested": partition.is_requested}


def _encode_time(ms: int | None) -> str | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


_MAX_SHOWN = 20
_MAX_SHOWN_PAIRS = 4


def format_statuses(statuses: Sequence[MoveStatus], now_ms: int, layout: TextLayout) -> str:
    """Return the status of each cluster; ``now_ms`` is the present time, in ms since the epoch."""
    return join_sections(_format_status(status, now_ms, layout) for status in statuses)


def format_recorded_throttles(record: BatchRecord, layout: TextLayout) -> str:
    """Return the throttle values of a record, each with the value that it replaced."""
    values = [
        RecordedThrottle(entity, config, value.before, value.ours, value.ours)
        for entity, configs in sorted(record.throttles.items())
        for config, value in sorted(configs.items())
    ]
    texts = [f"{_name(each)}  {each.ours} -> {'not set' if each.before is None else each.before}" for each in values]
    return "\n".join(f"  {line}" for text in texts for line in layout.wrap(text, layout.width - 2))


def _format_status(status: MoveStatus, now_ms: int, layout: TextLayout) -> Iterator[str]:
    name = f"{sanitize(status.cluster)}   " if status.cluster else ""
    yield layout.colorize(f"{name}cluster {sanitize(status.cluster_id)}", BOLD)
    yield from layout.format_warnings(status.warnings)
    yield from _format_batch(status, now_ms, layout)
    yield from _format_partitions(f"{len(status.own):,} left", status.own, layout)
    yield from _format_partitions("foreign", status.foreign, layout)
    if status.changed_at_ms is not None:
        yield from layout.format_text_section("last change", _format_time(status.changed_at_ms, now_ms))
    yield from layout.format_text_section("waits", status.blocker, YELLOW) if status.blocker else ()
    for stuck in status.stuck:
        yield from layout.format_text_section("! stuck", stuck, BOLD_RED)
    yield from _format_throttles(status, layout)
    yield from (layout.colorize(line, BOLD) for line in layout.wrap(_format_conclusion(status), layout.width))


def _format_batch(status: MoveStatus, now_ms: int, layout: TextLayout) -> Iterator[str]:
    batch = status.batch
    if batch is None:
        return
    text = f"{batch.batch} of {batch.batches} by owner {batch.owner}, {format_count(len(batch.moves), 'partition')}"
    sent = "" if status.batch_at_ms is None else f", sent {_format_time(status.batch_at_ms, now_ms)}"
    yield from layout.format_text_section("batch", text + sent)


def _format_partitions(label: str, partitions: Sequence[MovingPartition], layout: TextLayout) -> Iterator[str]:
    shown = layout.limit(partitions, _MAX_SHOWN)
    lines = [line for each in shown for line in layout.wrap(_format_partition(each))]
    if len(shown) < len(partitions):
        lines.append(f"{len(partitions) - len(shown):,} more (-v shows them)")
    yield from layout.format_section(label, lines)


def _format_partition(partition: MovingPartition) -> str:
    text = f"{partition.topic} {partition.partition}  to {list(partition.target)}"
    if not partition.is_requested:
        text += " (Admin API)"
    if partition.lagging is None or partition.adding is None:
        return f"{text}: no partition state"
    copying = [broker for broker in partition.lagging if broker in partition.adding]
    unsynced = [broker for broker in partition.lagging if broker not in partition.adding]
    parts = [
        f"not yet copied to {_format_brokers(copying)}" if copying else "",
        f"{_format_brokers(unsynced)} not in sync" if unsynced else "",
    ]
    return f"{text}: {', '.join(filter(None, parts)) or 'all in sync'}"


def _format_brokers(brokers: Sequence[int]) -> str:
    return f"broker{'s' if len(brokers) > 1 else ''} {shorten_list(brokers)}"


def _format_throttles(status: MoveStatus, layout: TextLayout) -> Iterator[str]:
    kept = [each for each in status.throttles if each.now == each.ours]
    changed = [each for each in status.throttles if each.now != each.ours]
    if kept:
        count = sum(each.before is not None for each in kept)
        before = f"{count} with a value of another client, which is put back" if count else "none"
        text = f"{format_count(len(kept), 'value')} of the batch set; before: {before}"
        lines = layout.wrap(text)
        lines += [line for each in kept if layout.verbose for line in layout.wrap(f"{_name(each)}  {each.ours}")]
        yield from layout.format_section("throttle", lines)
    for each in changed:
        text = f"{_name(each)}: topiarist set {each.ours}"
        if each.entity in status.unread:
            text += "; its broker is offline, so its present value is unknown"
            yield from layout.format_text_section("throttle", text, YELLOW)
        else:
            text += f", and it is {each.now or 'not set'} now; it stays"
            yield from layout.format_text_section("changed", text, YELLOW)
    for other in status.unexplained:
        if not any((other.entity, other.config) == (each.entity, each.config) for each in changed):
            text = f"{other.entity} {other.config} = {other.value}: not set by a batch of topiarist"
            yield from layout.format_text_section("throttle", text, YELLOW)


def _format_conclusion(status: MoveStatus) -> str:
    """Return the state in one sentence, and the next step."""
    if status.stuck:
        return "Stuck: the controller never ends the request, and nothing can be moved until its entries are removed."
    if status.own:
        return f"Moving: {format_count(len(status.own), 'partition')} left of the batch; apply waits for it."
    if status.changed_at_ms is not None or status.foreign:
        return "Another client moves replicas: apply waits for it."
    if status.batch is not None:
        owner = sanitize(status.batch.owner)
        left = "its throttles are" if status.throttles else "its record is"
        steps = f"unless an apply is running, run it as owner {owner}, or topiarist moves clear"
        return f"The batch is done, and {left} left: {steps}."
    return "Nothing moves."


def _format_time(ms: int, now_ms: int) -> str:
    # The clock of the server may be ahead of that of this machine.
    age = format_elapsed(max(now_ms - ms, 0) / 1000)
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}, {age} ago"


def _name(throttle: RecordedThrottle) -> str:
    return f"{throttle.entity} {throttle.config}"


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
