"""The limits on what a cluster takes, as values: an adapter counts, ``planning`` compares.

How much a cluster takes depends on the way to it, and so does what a change adds. A ``SizeLimit`` therefore has both,
and the texts of its warning and its refusal. It is a plain value, so that a plan from a snapshot is that of the
cluster. ``adapters.size_limits`` has the limits of each way, ``planning.size_limits`` enforces them.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from topiarist.errors import Reason


class SizeScope(Enum):
    """The changes that share a limit."""

    CLUSTER = auto()
    """All changes of a plan, and what the cluster has already: ``SizeLimit.used``."""
    TOPIC = auto()
    """One topic: its partitions before a change, and those that the change adds."""
    CHANGE = auto()
    """One change alone."""


class SizeWeights(Struct, frozen=True):
    """The size that each part of a change adds, in the unit of the limit; 0 for a part that does not count."""

    new_topic: int = 0
    """Each topic that is created."""
    name_character: int = 0
    """Each character of the name of such a topic."""
    config_update: int = 0
    """Each update of the config of a topic that exists."""
    config: int = 0
    """Each config of a creation or an update."""
    partition: int = 0
    """Each new partition."""
    digit: int = 0
    """Each digit of the ids of a new partition and of its brokers."""
    separator: int = 0
    """Each broker of a new partition but the first."""


class SizeLimit(Struct, frozen=True):
    """A limit on a size that changes increase.

    ``what`` names the size, and ``maximum`` is the largest one that the cluster takes, in a unit that the texts name.
    A change that would use more than ``refused_share`` of it is refused with ``reason``, ``refusal`` and ``hint``.
    There is a ``warning`` above ``warned_share``; None if there is none. ``{used}`` and ``{maximum}`` in the texts
    stand for the numbers.
    """

    what: str
    maximum: int
    weights: SizeWeights
    refusal: str
    hint: str
    scope: SizeScope = SizeScope.CLUSTER
    used: int = 0
    refused_share: float = 1.0
    warned_share: float | None = None
    warning: str = ""
    reason: Reason = Reason.TOO_LARGE
