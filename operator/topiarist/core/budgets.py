"""How much one run may do to a cluster, as its manifest says: the numbers. ``spending`` counts a plan against them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most that one run may do to one cluster; None is no limit.

    ``topics`` that change, ``new_partitions`` of creations and growth together, ``partitions_per_topic`` that a topic
    may then have, ``deletions``, ``changed_share`` in per cent of the existing topics, config ``notifications``.
    """

    topics: int | None = None
    new_partitions: int | None = None
    partitions_per_topic: int = 1000
    deletions: int = 5
    changed_share: int | None = None
    notifications: int = 1000
