"""Usage as text: what a change of a topic means for its data and for those who use it, and estimates of its bytes.

Plans, refusals and drift reports show it. A text names what it rests on, and never says that a topic is unused: a
reader without a group leaves no trace in any answer of a broker. Numbers are rounded, so that equal plans stay equal.

Sizes are those of ``.log`` files: without indexes and without what is in remote storage. Kafka deletes whole segments,
so that a cut of retention may free one segment of each partition less than its estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import pairwise

from msgspec import Struct

from topiarist.kafka.config_values import parse_integer
from topiarist.kafka.types import LONG_MAX
from topiarist.model.moves import ReplicaMove
from topiarist.model.plan import AddPartitions, Change, ConfigItem, DeleteTopic, MoveReplicas, UpdateConfig
from topiarist.model.usage import DAY_S, CurvePoint, Evidence, GroupUsage, Side, TopicSample, TopicUsage, UsageState
from topiarist.text import format_count, humanize_bytes, printable

_DEFAULT_SEGMENT_BYTES = 1 << 30


class ByteBounds(Struct, frozen=True):
    """The smallest and the largest number of bytes of one replica of each partition."""

    low: int
    high: int


def estimate_copied_bytes(moves: Iterable[ReplicaMove], sample: TopicSample) -> int | None:
    """Return the bytes that moves copy now; None if the size of a partition is not known."""
    total = 0
    for move in moves:
        size = sample.sizes[move.partition] if move.partition < len(sample.sizes) else None
        if size is None and move.added:
            return None
        total += len(move.added) * (size or 0)
    return total


def estimate_cut(item: ConfigItem, usage: TopicUsage, read_at: int, segment_bytes: str | None) -> ByteBounds | None:
    """Return the bytes that a new ``retention.bytes`` or ``retention.ms`` deletes; None for other keys and values.

    ``read_at`` is the time of the usage, ``segment_bytes`` the topic's ``segment.bytes``, None for the default.
    """
    after, segment = _number(item.after), _number(segment_bytes) or _DEFAULT_SEGMENT_BYTES
    if after is None:
        return None
    if item.key == "retention.bytes":
        return estimate_freed_by_size(usage.sample, after, segment)
    return estimate_freed_by_age(usage, after, read_at, segment) if item.key == "retention.ms" else None


def estimate_freed_by_size(sample: TopicSample, retention_bytes: int, segment_bytes: int) -> ByteBounds | None:
    """Return the bytes that a lower ``retention.bytes`` deletes; None if a size is not known."""
    if retention_bytes < 0:
        return ByteBounds(0, 0)
    known = [size for size in sample.sizes if size is not None]
    if not known or len(known) < len(sample.sizes):
        return None
    return ByteBounds(
        sum(max(size - retention_bytes - segment_bytes, 0) for size in known),
        sum(max(size - retention_bytes, 0) for size in known),
    )


def estimate_freed_by_age(usage: TopicUsage, retention_ms: int, read_at: int, segment_bytes: int) -> ByteBounds | None:
    """Return the bytes that a lower ``retention.ms`` deletes; None if the size of the topic is not known.

    What was there at an earlier time is older than that time. So the bounds are the sizes of the curve before and after
    the time limit, as long as nothing was deleted since; without such points nothing better than 0 and all is known.
    """
    size = usage.sample.size
    if size is None:
        return None
    if retention_ms < 0:
        return ByteBounds(0, 0)
    limit = read_at - retention_ms // 1000
    kept = _points_at_rest(usage.curve)
    before = [point.size for point in kept if point.taken_at <= limit]
    after = [point.size for point in kept if point.taken_at >= limit]
    low = max(before[-1] - len(usage.sample.sizes) * segment_bytes, 0) if before else 0
    return ByteBounds(low, min(after[0], size) if after else size)


def _points_at_rest(curve: tuple[CurvePoint, ...]) -> list[CurvePoint]:
    """Return the last points between which nothing was deleted from the log."""
    start = 0
    for index, (one, other) in enumerate(pairwise(curve)):
        if one.begins != other.begins:
            start = index + 1
    return list(curve[start:])


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else parse_integer(text.strip(), limit=LONG_MAX)
    except ValueError:
        return None


MAX_SHOWN_GROUPS = 4

_MAX_GROUP_ID = 60
_UNSEEN_READERS = "readers without a group cannot be seen"
_WHY_UNKNOWN = {
    "FirstSample": "this is the first look",
    "Incomplete": "not all groups or offsets could be read",
    "Opaque": "a group does not say what it reads",
    "Compacted": "a compacted topic is often read at a start only, without a group",
    "OtherSoftware": "it belongs to other software",
    "OldCommits": "offsets of a group are there, and do not move",
    "Recreated": "it was recreated since the look before",
}


def describe_change(change: Change, usage: TopicUsage, read_at: int, segment_bytes: str | None = None) -> str:
    """Return what a change means for data and users; empty if there is nothing to say.

    ``read_at`` is the time of the usage, ``segment_bytes`` the topic's ``segment.bytes``.
    """
    sample = usage.sample
    match change:
        case DeleteTopic():
            return "; ".join([f"deletes {_describe_data(sample)}", describe_users(usage, read_at)])
        case MoveReplicas(moves) if change.copies:
            copied = estimate_copied_bytes(moves, sample)
            return "" if copied is None else _with_groups(f"copies about {_size(copied)}", usage)
        case AddPartitions():
            size = "" if sample.size is None else f"{_size(sample.size)} stay in the old partitions; "
            return f"{size}{describe_users(usage, read_at)}"
        case UpdateConfig(items):
            cuts = [*filter(None, (_describe_cut(item, usage, read_at, segment_bytes) for item in items))]
            return _with_groups("; ".join(cuts), usage) if cuts else ""
    return ""


def describe_users(usage: TopicUsage, read_at: int) -> str:
    """Return who writes and who reads a topic, as far as brokers tell."""
    return f"{_describe_writes(usage.written, read_at)}; {_describe_readers(usage, read_at)}"


def name_groups(usage: TopicUsage) -> str:
    """Return the number of groups with offsets of a topic, and the first names: a text without measured values."""
    sample = usage.sample
    names = ", ".join(printable(group.group, _MAX_GROUP_ID) for group in sample.groups[:MAX_SHOWN_GROUPS])
    return format_count(sample.committing_groups, "group") + (f": {names}" if names else "")


def describe_missing(evidence: Evidence) -> str:
    """Return why the readers of topics may be incomplete; empty if they are not."""
    parts = []
    if evidence.brokers_answered < evidence.brokers_asked:
        away = evidence.brokers_asked - evidence.brokers_answered
        parts.append(f"{away} of {format_count(evidence.brokers_asked, 'broker')} did not list their groups")
    if evidence.groups_unread:
        parts.append(f"{evidence.groups_unread:,} of {format_count(evidence.groups, 'group')} could not be read")
    if evidence.groups_opaque:
        parts.append(f"{format_count(evidence.groups_opaque, 'group')} without a readable subscription")
    if not parts and not evidence.groups_complete:
        parts.append("groups may be missing: Describe on the cluster is needed, and every coordinator must be there")
    return ", ".join(parts)


def _describe_data(sample: TopicSample) -> str:
    size, records = sample.size, _count_offsets(sample)
    if records == 0:
        return "no records"
    if sample.all_bytes is None and size is None:
        return "data of unknown size"
    parts = [] if size is None else [f"{_size(size)} of data"]
    if records is not None:
        parts.append(f"{_round(records):,} offsets")
    oldest = [time for time in sample.oldest if time is not None]
    if oldest:
        parts.append(f"the oldest record claims {_day(min(oldest) // 1000)}")
    listed = ", ".join(parts)
    return f"{_size(sample.all_bytes)} in all replicas ({listed})" if sample.all_bytes is not None else listed


def _count_offsets(sample: TopicSample) -> int | None:
    pairs = list(zip(sample.begins, sample.ends, strict=True))
    if not pairs or any(begin is None or end is None for begin, end in pairs):
        return None
    return sum((end or 0) - (begin or 0) for begin, end in pairs)


def _describe_writes(side: Side, read_at: int) -> str:
    if side.state is UsageState.USED and side.after is not None and side.before is not None:
        return f"written between {_time(side.after)} and {_time(side.before)}"
    if side.state is UsageState.NOT_SEEN:
        return f"no write seen since {_since(side, read_at)}"
    return f"it is not known whether it is written{_because(side)}"


def _with_groups(text: str, usage: TopicUsage) -> str:
    return f"{text}; {_describe_groups(usage)}" if usage.sample.committing_groups else text


def _describe_groups(usage: TopicUsage) -> str:
    sample = usage.sample
    named = [_describe_group(group) for group in sample.groups[:MAX_SHOWN_GROUPS]]
    left = sample.committing_groups - len(named)
    if named and left:
        named.append(f"and {left:,} more")
    names = f": {', '.join(named)}" if named else ""
    verb = "read by" if usage.read.state is UsageState.USED else "perhaps read by"
    return f"{verb} {format_count(sample.committing_groups, 'group')}{names}"


def _describe_readers(usage: TopicUsage, read_at: int) -> str:
    side = usage.read
    if usage.sample.committing_groups:
        return _describe_groups(usage)
    if side.state is UsageState.USED and side.after is not None and side.before is not None:
        return f"read between {_time(side.after)} and {_time(side.before)}"
    if side.state is UsageState.NOT_SEEN:
        return f"no reading group since {_since(side, read_at)}; {_UNSEEN_READERS}"
    return f"it is not known who reads it{_because(side)}"


def _describe_group(group: GroupUsage) -> str:
    members = format_count(group.members, "member") if group.members else "no members, commits stand"
    lag = f", {_round(group.lag):,} behind" if group.lag else ""
    return f"{printable(group.group, _MAX_GROUP_ID)} ({members}{lag})"


def _describe_cut(item: ConfigItem, usage: TopicUsage, read_at: int, segment_bytes: str | None) -> str:
    bounds, size = estimate_cut(item, usage, read_at, segment_bytes), usage.sample.size
    if bounds is None or size is None or bounds.high == 0:
        return ""
    low = f"between {_size(bounds.low)} and" if bounds.low else "up to"
    return f"{item.key} deletes {low} {_size(bounds.high)} of {_size(size)}"


def _because(side: Side) -> str:
    known: Iterator[str] = (_WHY_UNKNOWN[why] for why in side.why if why in _WHY_UNKNOWN)
    reasons = ", ".join(known)
    return f" ({reasons})" if reasons else ""


def _since(side: Side, read_at: int) -> str:
    since = side.unseen_since or 0
    return f"{_day(since)} ({format_count(max(read_at - since, 0) // DAY_S, 'day')})"


def _size(count: int) -> str:
    return humanize_bytes(count).removeprefix("~")


def _round(number: int) -> int:
    """Return a number with two significant digits, if it has more than three."""
    digits = max(len(str(number)) - 2, 0)
    return number if number < 1000 else round(number, -digits)


def _time(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def _day(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"
