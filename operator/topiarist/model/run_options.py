"""The controller's backlog: what was written to a cluster and is not finished, and how much more may be written.

A controller that is handed thousands of topics at once answers nobody else meanwhile, and its brokers make log folders
far more slowly than it takes partitions over. So whoever waits also holds back: never more than so many replicas per
broker are ahead of what the controller has taken over (seen by the partitions' states, ``waiting``). Config changes,
records and deletions are no such load. Time is the caller's: this is told what was sent and what was seen.
"""

from __future__ import annotations

from dataclasses import dataclass

from topiarist.kafka.names import matches_any
from topiarist.model.plan import Risk

MAX_INFLIGHT_REPLICAS_PER_BROKER = 250
"""Replicas per broker that may be ahead of the controller."""


ALL_TOPICS = ("*",)
"""The pattern that fits every topic."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run may do, and as whom.

    ``adopt`` are glob patterns of topics that may be taken over with differences, ``take_ownership`` of topics that may
    be taken from their owners, ``recreate`` of topics that may be created again after somebody else deleted them.
    """

    owner: str = "default"
    take_ownership: tuple[str, ...] = ()
    adopt: tuple[str, ...] = ()
    recreate: tuple[str, ...] = ()
    without_brokers: frozenset[int] = frozenset()
    allow_unknown_brokers: bool = False

    def may_adopt(self, topic: str) -> bool:
        """Whether the run was told to take this topic over although it differs."""
        return matches_any(topic, self.adopt)

    def may_take_ownership(self, topic: str) -> bool:
        """Whether the run was told to take this topic from whoever owns it."""
        return matches_any(topic, self.take_ownership)

    def may_recreate(self, topic: str) -> bool:
        """Whether the run was told to create this topic again although somebody else deleted it."""
        return matches_any(topic, self.recreate)


@dataclass(frozen=True, slots=True)
class RiskApproval:
    """A risk that a run may take, for the topics that fit one of the patterns; ``EVERY`` is all of them.

    Without patterns the allowance covers no topic.
    """

    risk: Risk
    topic_patterns: tuple[str, ...]

    def covers(self, topic: str) -> bool:
        """Return whether the allowance covers this topic."""
        return matches_any(topic, self.topic_patterns)
