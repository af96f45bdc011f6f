"""Text for terminals and comments about the limits of groups of topics, and what is used of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from topiarist.model.spec import LimitedResource, LimitUsage
from topiarist.text import humanize_bytes

_NOUNS = {
    LimitedResource.TOPICS: "topics",
    LimitedResource.PARTITIONS: "partitions",
    LimitedResource.RETAINED_BYTES: "retained",
}


def describe_usage(usages: Iterable[LimitUsage]) -> Iterator[str]:
    """Yield one text for each group of each limit: ``team=shop: 3 of 50 topics, 96 -> 108 of 200 partitions (...)``."""
    for (limit, group), found in groupby(usages, key=lambda usage: (usage.limit, usage.group)):
        yield f"{group}: {', '.join(map(_describe, found))} ({limit})"


def _describe(usage: LimitUsage) -> str:
    before, after, allowed = (_format(usage.resource, total) for total in (usage.before, usage.after, usage.allowed))
    change = after if before == after else f"{before} -> {after}"
    return f"{change} of {allowed} {_NOUNS[usage.resource]}"


def _format(resource: LimitedResource, total: int | None) -> str:
    if total is None:
        return "unbounded"
    return humanize_bytes(total) if resource is LimitedResource.RETAINED_BYTES else f"{total:,}"
