"""Summarizes the groups of one topic for a sample: the first ones by members, and a digest of all.

``adapters.kafka_admin.usage.reader`` calls it. Tools make a new id for each run: such
ids are folded into one entry, so that they do not crowd out the others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from topiarist.model.usage import GroupType, GroupUsage, TopicSample

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
