"""What nearly all exported topics share: it is said once, among the defaults of their cluster.

Sizes are for topics to come, since defaults of size count at creation only: every exported topic still names its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from topiarist.core.spec import ClusterSpec
from topiarist.export.topics import Kept

FEWEST = 3
"""Topics that must share a value: for fewer, a default is one place more to look at."""

NEARLY_ALL = 90
"""Per cent of the topics that must share it; the others say what they have, or that they do not want it."""


def with_defaults(cluster: ClusterSpec, topics: Sequence[Kept]) -> ClusterSpec:
    """``cluster`` with defaults that fit these topics best; as it is if there are none."""
    if not topics:
        return cluster
    return replace(
        cluster,
        default_partitions=_most_common(Counter(topic.partitions for topic in topics)),
        default_replication_factor=_most_common(Counter(topic.replication_factor for topic in topics)),
        default_config=_shared(topics),
    )


def _most_common(sizes: Counter[int]) -> int:
    """The size that most have; the smaller one of two, which can still be made larger."""
    return min(sizes, key=lambda size: (-sizes[size], size))


def _shared(topics: Sequence[Kept]) -> Mapping[str, str]:
    found = Counter(item for topic in topics for item in topic.config.items())
    shared = (item for item, times in found.items() if times >= FEWEST and times * 100 >= NEARLY_ALL * len(topics))
    return dict(sorted(shared))
