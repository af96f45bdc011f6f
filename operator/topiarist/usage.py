"""The usage of topics: folded from samples, as text beside changes, and with estimates of bytes.

Plans, refusals and drift reports show it. A text names what it rests on, and never says that a topic is unused: a
reader without a group leaves no trace in any answer of a broker. Numbers are rounded, so that equal plans stay equal.

Sizes are those of ``.log`` files: without indexes and without what is in remote storage. Kafka deletes whole segments,
so that a cut of retention may free one segment of each partition less than its estimate.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from itertools import pairwise, zip_longest
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from topiarist.kafka.config_rules import server_default
from topiarist.kafka.config_values import parse_integer
from topiarist.kafka.types import LONG_MAX
from topiarist.model.moves import ReplicaMove
from topiarist.model.plan import AddPartitions, Change, ConfigItem, DeleteTopic, MoveReplicas, UpdateConfig
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, TopicState
from topiarist.model.usage import (
    DAY_S,
    CurvePoint,
    DeletionCheck,
    Evidence,
    GroupNames,
    GroupType,
    GroupUsage,
    Side,
    TopicSample,
    TopicUsage,
    UsageRead,
    UsageSettings,
    UsageState,
    add_known,
)
from topiarist.text import format_count, humanize_bytes, printable

# The usage of topics: samples of their groups, folded over time into usage, and what it says about a topic.
#
# ``snapshot --evidence`` folds each topic with the usage of the snapshot before, and a run that looks at topics again
# before a deletion does the same. All functions are pure and have no clock: times are those of the reads. What is not
# known never counts as not used.
#
# Writes need only two complete samples, however far apart: end offsets add up. Commits of a reader stay for
# ``offsets.retention.minutes`` after its last member has left, so a gap of up to half of that misses none, and one
# sample alone looks that far back. A group that never commits is seen only while it runs.
#
# Tools make a new id for each run: such ids are folded into one entry, so that they do not crowd out the others.

MAX_GROUPS = 50
"""Groups of one topic that a sample names."""

_CONSOLE = re.compile(r"console-consumer-[0-9]+")
_UUID_END = re.compile(r"(.*?)[._-]?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class TopicGroup(NamedTuple):
    """One group of a topic: the number of its members that read it, and its offset of each partition."""

    group: str
    type: GroupType
    members: int
    offsets: Mapping[int, int]


def add_groups(sample: TopicSample, groups: Iterable[TopicGroup]) -> TopicSample:
    """Return the sample with what its groups say."""
    found = [*groups]
    if not found:
        return sample
    merged: dict[tuple[str, GroupType], GroupUsage] = {}
    for each in found:
        usage = _summarize(sample, each)
        key = usage.group, usage.type
        merged[key] = _merge(merged[key], usage) if key in merged else usage
    ordered = sorted(merged.values(), key=lambda usage: (-usage.members, usage.group, usage.type.value))
    offsets = sorted(tuple(sorted(each.offsets.items())) for each in found)
    digest = hashlib.sha256(repr((len(found), offsets)).encode()).hexdigest()
    return replace(
        sample, groups=tuple(ordered[:MAX_GROUPS]), more_groups=len(ordered[MAX_GROUPS:]), groups_digest=digest
    )


def count_groups(sample: TopicSample) -> TopicSample:
    """Return the sample without the ids of groups: only their number, and the digest of their offsets."""
    return replace(sample, groups=(), more_groups=sample.committing_groups)


def fold_group_id(group: str) -> str:
    """Return the id of a group; ids with a new part for each run are folded into one with ``*`` at its end."""
    if _CONSOLE.fullmatch(group):
        return "console-consumer-*"
    if made := _UUID_END.fullmatch(group):
        return f"{made[1]}-*" if made[1] else "*"
    return group


def _summarize(sample: TopicSample, group: TopicGroup) -> GroupUsage:
    ends = {partition: end for partition, end in enumerate(sample.ends) if partition in group.offsets}
    lag = None
    if ends and None not in ends.values():
        lag = sum(max((end or 0) - group.offsets[partition], 0) for partition, end in ends.items())
    return GroupUsage(
        fold_group_id(group.group), group.type, group.members, len(group.offsets), sum(group.offsets.values()), lag
    )


def _merge(one: GroupUsage, other: GroupUsage) -> GroupUsage:
    lags = [each for each in (one.lag, other.lag) if each is not None]
    return one._replace(
        members=one.members + other.members,
        partitions=max(one.partitions, other.partitions),
        committed=one.committed + other.committed,
        lag=max(lags) if lags else None,
    )


MAX_CURVE_POINTS = 32
"""Points of the curve of a topic; the curve is thinned by halves, so that its age stays."""

NO_BASIS, OFFSETS_LOWER, RECREATED = "FirstSample", "OffsetsLower", "Recreated"
INCOMPLETE, OPAQUE, COMPACTED, OTHER_SOFTWARE, TRACE = (
    "Incomplete",
    "Opaque",
    "Compacted",
    "OtherSoftware",
    "OldCommits",
)
GREW, MEMBERS, COMMITTED, UNCHANGED, NO_GROUP = "Grew", "Members", "Committed", "Unchanged", "NoGroup"


class TopicFacts(NamedTuple):
    """The facts of a topic from metadata: is it the topic of the last sample, is it compacted, is it protected?"""

    is_same: bool = True
    is_compacted: bool = False
    is_protected: bool = False


def fold_usage(
    before: TopicUsage | None,
    before_at: int | None,
    sample: TopicSample,
    evidence: Evidence,
    facts: TopicFacts,
    settings: UsageSettings,
) -> TopicUsage:
    """Return the usage of a topic after one more sample, which was read at ``evidence.read_at``.

    ``before`` is the usage at ``before_at``; None: there is none.
    """
    recreated = before is not None and not facts.is_same
    if recreated or before_at is None:
        before = None
    now = evidence.read_at
    written = _fold_writes(before, before_at or 0, sample, now)
    read = _fold_reads(before, before_at or 0, sample, evidence, facts)
    if recreated:
        written = written._replace(why=(*written.why, RECREATED))
    curve = _extend_curve(before.curve if before else (), sample, now)
    return TopicUsage(
        sample,
        _judge(written, now, settings.window),
        _judge(read, now, settings.window),
        curve,
        _bytes_per_day(curve),
    )


def _judge(side: Side, now: int, window: int) -> Side:
    """Return the side with its state: a use within the window, an observation without one, or neither."""
    if side.before is not None and side.before >= now - window:
        return side._replace(state=UsageState.USED)
    observed = side.observed_since is not None and NO_BASIS not in side.why
    return side._replace(state=UsageState.NOT_SEEN if observed else UsageState.UNKNOWN)


def _fold_writes(before: TopicUsage | None, before_at: int, sample: TopicSample, now: int) -> Side:
    is_complete = bool(sample.ends) and None not in sample.ends
    if before is None:
        return Side(observed_since=now if is_complete else None, why=(NO_BASIS,) if is_complete else (INCOMPLETE,))
    last = before.written
    pairs = list(zip_longest(before.sample.ends, sample.ends, fillvalue=0))
    if any(old is not None and new is not None and new < old for old, new in pairs):
        return Side(after=before_at, before=now, observed_since=last.observed_since or now, why=(OFFSETS_LOWER,))
    if any(old is not None and new is not None and new > old for old, new in pairs):
        return Side(after=before_at, before=now, observed_since=last.observed_since or now, why=(GREW,))
    if not is_complete:
        return Side(after=last.after, before=last.before, why=(INCOMPLETE,))
    if None in before.sample.ends or last.observed_since is None:
        return Side(after=last.after, before=last.before, observed_since=now, why=(NO_BASIS,))
    return last._replace(why=(UNCHANGED,))


def _fold_reads(
    before: TopicUsage | None, before_at: int, sample: TopicSample, evidence: Evidence, facts: TopicFacts
) -> Side:
    now, last = evidence.read_at, before.read if before else Side()
    if sample.member_count:
        return Side(after=now, before=now, observed_since=last.observed_since or now, why=(MEMBERS,))
    if before and before.sample.groups_digest != sample.groups_digest and _has_progress(before.sample, sample):
        return Side(after=before_at, before=now, observed_since=last.observed_since or now, why=(COMMITTED,))
    seen = Side(after=last.after, before=last.before)
    if not evidence.knows_readers:
        return seen._replace(why=(OPAQUE if evidence.groups_complete and evidence.groups_opaque else INCOMPLETE,))
    if facts.is_compacted:
        return seen._replace(why=(COMPACTED,))
    if facts.is_protected:
        return seen._replace(why=(OTHER_SOFTWARE,))
    if sample.committing_groups:
        return seen._replace(why=(TRACE,))  # a reader that stands at the end of an idle topic looks like this
    look_back = (evidence.retention_minutes or 0) * 60
    is_unbroken = last.observed_since is not None and now - before_at <= look_back // 2
    return seen._replace(observed_since=last.observed_since if is_unbroken else now - look_back, why=(NO_GROUP,))


def _has_progress(before: TopicSample, after: TopicSample) -> bool:
    """Return whether a group has committed between two samples; a group that no longer exists is no sign."""
    if before.more_groups or after.more_groups:
        return after.committing_groups > 0  # the digest of all groups differs
    old = {(group.group, group.type): _offsets_of(group) for group in before.groups}
    return any(old.get((group.group, group.type)) != _offsets_of(group) for group in after.groups if group.partitions)


def _offsets_of(group: GroupUsage) -> tuple[int, int]:
    return group.partitions, group.committed


def _extend_curve(curve: Sequence[CurvePoint], sample: TopicSample, now: int) -> tuple[CurvePoint, ...]:
    begins, ends, size = add_known(sample.begins), add_known(sample.ends), sample.size
    if begins is None or ends is None or size is None:
        return tuple(curve)
    points = [*curve, CurvePoint(now, begins, ends, size)]
    while len(points) > MAX_CURVE_POINTS:
        points = [*points[:1], *points[1:-1:2], points[-1]]
    return tuple(points)


def _bytes_per_day(curve: Sequence[CurvePoint]) -> int | None:
    """Return the median growth of the log a day, deleted data included; None below one day of observation."""
    if len(curve) < 2 or curve[-1].taken_at - curve[0].taken_at < DAY_S:
        return None
    rates: list[float] = []
    for one, other in pairwise(curve):
        kept = other.ends - other.begins
        per_record = other.size / kept if kept > 0 else 0.0
        rates.append((other.ends - one.ends) * per_record * DAY_S / max(other.taken_at - one.taken_at, 1))
    rates.sort()
    return max(int((rates[(len(rates) - 1) // 2] + rates[len(rates) // 2]) / 2), 0)


class DeletionVerdict(Enum):
    """The verdict on a deletion: nothing speaks against it, the topic is in use, or too little is known of its use."""

    ALLOWED = "Allowed"
    IN_USE = "InUse"
    UNKNOWN = "Unknown"


def judge_deletion(usage: TopicUsage | None, read_at: int, settings: UsageSettings) -> DeletionVerdict:
    """Return the verdict on a deletion, from usage that was read at ``read_at``; None: it could not be read.

    ``UNKNOWN`` is a refusal only if the cluster requires proof (``DeletionCheck.REQUIRE_NOT_SEEN``).
    """
    if settings.deletion is DeletionCheck.IGNORE:
        return DeletionVerdict.ALLOWED
    if usage is None:
        return DeletionVerdict.UNKNOWN
    if usage.sample.member_count or any(_is_recent(side, read_at, settings) for side in (usage.written, usage.read)):
        return DeletionVerdict.IN_USE
    if settings.deletion is DeletionCheck.REQUIRE_NOT_SEEN:
        return DeletionVerdict.ALLOWED if is_dormant(usage, read_at, settings.window) else DeletionVerdict.UNKNOWN
    known = UsageState.UNKNOWN not in (usage.written.state, usage.read.state)
    return DeletionVerdict.ALLOWED if known else DeletionVerdict.UNKNOWN


def is_dormant(usage: TopicUsage, read_at: int, window: int) -> bool:
    """Return whether neither a write nor a reader was seen for ``window`` seconds before ``read_at``."""
    return all(is_unseen(side, read_at, window) for side in (usage.written, usage.read))


def is_unseen(side: Side, read_at: int, window: int) -> bool:
    """Return whether a side was observed for ``window`` seconds before ``read_at``, without a use."""
    since = side.unseen_since
    return since is not None and since <= read_at - window


def worse_state(usage: TopicUsage) -> UsageState:
    """Return the state of a topic as a whole: used on one side at least, not seen on both, or not known."""
    states = {usage.written.state, usage.read.state}
    if UsageState.USED in states:
        return UsageState.USED
    return UsageState.UNKNOWN if UsageState.UNKNOWN in states else UsageState.NOT_SEEN


def _is_recent(side: Side, read_at: int, settings: UsageSettings) -> bool:
    return side.before is not None and side.before >= read_at - settings.quiet_for


_CLEANUP_POLICY, _COMPACT = "cleanup.policy", "compact"
_STREAMS_SUFFIXES = ("-changelog", "-repartition")
"""The names of topics that belong to an application of Kafka Streams, and live and die with its group."""


def add_usage(state: ClusterState, read: UsageRead, previous: ClusterState | None, spec: ClusterSpec) -> ClusterState:
    """Return the state with the usage of its topics; ``previous`` is an earlier state of the same cluster.

    Usage is read after the topics: of a topic that was deleted and recreated between the two reads nothing is known.
    """
    settings = spec.config_rules.for_cluster(state.mode, state.known_configs).merge_dynamic_settings(
        state.broker_defaults
    )
    before_at = previous.evidence.read_at if previous and previous.evidence else None
    usage: dict[str, TopicUsage] = {}
    for name, sample in read.topics.items():
        topic = state.topics.get(name)
        if topic is None or not _is_of_topic(sample, topic):
            continue
        before = previous.usage.get(name) if previous else None
        facts = TopicFacts(
            is_same=before is None or _is_same(previous, topic, before),
            is_compacted=_COMPACT
            in (topic.config.get(_CLEANUP_POLICY) or server_default(_CLEANUP_POLICY, settings) or ""),
            is_protected=spec.is_protected(name) or bool(spec.internal_owner(name)) or name.endswith(_STREAMS_SUFFIXES),
        )
        if spec.evidence.groups is GroupNames.COUNTED:
            sample = count_groups(sample)
        usage[name] = fold_usage(before, before_at, sample, read.evidence, facts, spec.evidence)
    return replace(state, evidence=read.evidence, usage=usage)


def _is_of_topic(sample: TopicSample, topic: TopicState) -> bool:
    return not sample.topic_id or not topic.topic_id or sample.topic_id == topic.topic_id


def _is_same(previous: ClusterState | None, topic: TopicState, before: TopicUsage) -> bool:
    """Return whether a topic is the one of an earlier usage: by its id, and without ids by its identity."""
    if before.sample.topic_id and topic.topic_id:
        return before.sample.topic_id == topic.topic_id
    earlier = previous.topics.get(topic.name) if previous else None
    return earlier is not None and earlier.identity == topic.identity


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
    "FirstSample": "this is the first observation",
    "Incomplete": "not all groups or offsets could be read",
    "Opaque": "a group does not say what it reads",
    "Compacted": "a compacted topic is often read only at startup, without a group",
    "OtherSoftware": "it belongs to other software",
    "OldCommits": "a group has committed offsets that do not move",
    "Recreated": "it was recreated since the last observation",
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
        parts.append("groups may be missing: Describe on the cluster is needed, and every coordinator must be online")
    return ", ".join(parts)


def _describe_data(sample: TopicSample) -> str:
    size, records = sample.size, _count_offsets(sample)
    if records == 0:
        return "no records"
    if sample.all_bytes is None and size is None:
        return "data of unknown size"
    parts = [] if size is None else [f"{_size(size)} of data"]
    if records is not None:
        parts.append(format_count(_round(records), "offset"))
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
    return f"whether it is written is unknown{_because(side)}"


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
    return f"its readers are unknown{_because(side)}"


def _describe_group(group: GroupUsage) -> str:
    members = format_count(group.members, "member") if group.members else "no members, offsets committed"
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
