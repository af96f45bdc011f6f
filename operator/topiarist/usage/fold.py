"""Folds one sample of a topic into its usage so far.

``snapshot --evidence`` calls it for each topic with the usage of the snapshot before, and a run that looks at topics
again before a deletion does the same. The function is pure and has no clock: times are those of the reads.

Writes need only two complete samples, however far apart: end offsets add up. Commits of a reader stay for
``offsets.retention.minutes`` after its last member has left, so a gap of up to half of that misses none, and one
sample alone looks that far back. A group that never commits is seen only while it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

from topiarist.model.usage import (
    DAY_S,
    CurvePoint,
    Evidence,
    GroupUsage,
    Side,
    TopicSample,
    TopicUsage,
    UsageSettings,
    UsageState,
    add_known,
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
