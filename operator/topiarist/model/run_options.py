"""Options and permissions of one run: owner, adoption, approved risks, limit of writes in flight.

The command line and the operator build these values; ``planning`` and ``filters`` read them. ``throttle.py`` enforces
the limit: a controller that receives thousands of topics at once answers no other request meanwhile, and brokers create
log directories far more slowly than the controller initializes partitions.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from topiarist.kafka.types import matches_any

MAX_INFLIGHT_REPLICAS_PER_BROKER = 250
"""The default limit of replicas per broker that are written and not yet initialized by the controller."""


ALL_TOPICS = ("*",)
"""The patterns that match every topic."""


class Permissions(Struct, frozen=True, kw_only=True):
    """The owner and the permissions of a run.

    ``adopt`` are glob patterns of existing topics that may be adopted even if they differ from their specs.
    ``take_ownership`` are patterns of topics that may be taken from their owners, and ``recreate`` of topics that may
    be recreated after another client deleted them. ``without_brokers`` get no new replicas. ``allow_unknown_brokers``
    permits explicit replica lists with brokers that are not registered. ``drain_brokers`` are drained in addition to
    those of the cluster. ``max_moves`` is the largest number of replicas that moves may copy; None is no limit.
    """

    owner: str = "default"
    take_ownership: tuple[str, ...] = ()
    adopt: tuple[str, ...] = ()
    recreate: tuple[str, ...] = ()
    without_brokers: frozenset[int] = frozenset()
    allow_unknown_brokers: bool = False
    drain_brokers: frozenset[int] = frozenset()
    max_moves: int | None = None

    def may_adopt(self, topic: str) -> bool:
        return matches_any(topic, self.adopt)

    def may_take_ownership(self, topic: str) -> bool:
        return matches_any(topic, self.take_ownership)

    def may_recreate(self, topic: str) -> bool:
        return matches_any(topic, self.recreate)


class RunOptions(Permissions, frozen=True, kw_only=True):
    """The permissions of a run, and the topics of one cluster that it selects.

    ``selection`` is the selection of topics as the user wrote it. ``unselected`` are the topics of the cluster that
    have manifests and are not selected.
    """

    selection: str = ""
    unselected: frozenset[str] = frozenset()


class Risk(IntEnum):
    """The risk of a change, ordered: reviewers look for the highest risk of a plan."""

    SAFE = 0
    DISRUPTIVE = 1
    DATA_LOSS = 2

    @property
    def label(self) -> str:
        """Return the name used in every output and in ``--allow-risk``."""
        return ("Safe", "Disruptive", "DataLoss")[self]


class RiskApproval(Struct, frozen=True):
    """An approval of a risk for the topics that match one of the patterns; without patterns it covers no topic."""

    risk: Risk
    topic_patterns: tuple[str, ...]

    def covers(self, topic: str) -> bool:
        return matches_any(topic, self.topic_patterns)
