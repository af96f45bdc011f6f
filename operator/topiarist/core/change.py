"""What a plan consists of, as values: changes with their risk, findings, one ``TopicPlan`` per topic, and the ``Plan``.

``plan`` makes these, ``policy`` filters them, ``render`` shows them, an adapter carries them out. Every change holds
its before and after, so that it can be shown, checked against a cluster that may have moved, and undone by a person.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from topiarist.core.spec import OLDEST, ClusterSpec, Origin, TopicSpec
from topiarist.core.state import Broker, Gate, Release, Replicas, TopicRecord, TopicState
from topiarist.errors import Reason


class Risk(IntEnum):
    """What a change may cost. Ordered: the highest of a plan is what a reviewer looks for."""

    SAFE = 0
    DISRUPTIVE = 1
    DATA_LOSS = 2

    @property
    def word(self) -> str:
        """The name used in every output and in ``--allow-risk``."""
        return ("Safe", "Disruptive", "DataLoss")[self]


class Verdict(NamedTuple):
    """A risk and its reason, in words that finish the sentence "because ..."; empty for ``SAFE``."""

    risk: Risk
    because: str = ""


SAFE = Verdict(Risk.SAFE)


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic with these replica lists (partition 0 first) and config overrides."""

    replicas: tuple[Replicas, ...]
    config: Mapping[str, str]
    verdict: Verdict = SAFE


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Grow from ``before`` partitions by ``replicas``, one list for each new one; ``model`` is partition 0's list."""

    before: int
    model: Replicas
    replicas: tuple[Replicas, ...]
    verdict: Verdict

    @property
    def total(self) -> int:
        """Partitions afterwards."""
        return self.before + len(self.replicas)


class ConfigItem(NamedTuple):
    """One config key, set, changed or removed (``after`` None); ``inherited``: only the cluster's defaults have it."""

    key: str
    before: str | None
    after: str | None
    verdict: Verdict
    inherited: bool = False


@dataclass(frozen=True, slots=True)
class UpdateConfig:
    """Change config overrides of an existing topic; sorted by key, never empty."""

    items: tuple[ConfigItem, ...]

    @property
    def verdict(self) -> Verdict:
        """The highest risk among the keys, with its reason."""
        return max((item.verdict for item in self.items), key=lambda verdict: verdict.risk)


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete a topic of ours, with all its messages."""

    partitions: int
    replicas: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Adopt:
    """Write our record and nothing else: nothing of Kafka's changes."""

    verdict: Verdict = SAFE


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Take our record away and nothing else: the topic, if there is one, is nobody's again."""

    verdict: Verdict = SAFE


@dataclass(frozen=True, slots=True)
class Nudge:
    """Set a topic's node again as it is, so that the controller takes over ``partitions``, which have no state."""

    partitions: tuple[int, ...]
    verdict: Verdict = SAFE


Change = CreateTopic | AddPartitions | UpdateConfig | DeleteTopic | Adopt | GiveUp | Nudge


class Finding(NamedTuple):
    """Something to say about a topic: a refusal (of ``held`` changes, if any) or a notice; ``reason.exit`` tells which.

    ``field`` is the path below the spec that it is about (empty: the topic as a whole), ``instead`` is what to do.
    ``rule`` is where the policy's rule stands that decided it: a place, so no part of a plan's meaning.
    """

    reason: Reason
    message: str
    field: tuple[str, ...] = ()
    instead: str = ""
    held: tuple[Change, ...] = ()
    rule: Origin | None = None


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """Everything about one topic of one cluster; done in one transaction.

    ``before`` is the topic as planned from (None: absent), ``record_before`` our record, valid or not (also one
    without a topic), ``record_after`` what it will be. ``observed`` topics are reported only: their changes are never
    sent.
    """

    topic: str
    before: TopicState | None = None
    record_before: TopicRecord | None = None
    record_after: TopicRecord | None = None
    changes: tuple[Change, ...] = ()
    refusals: tuple[Finding, ...] = ()
    notices: tuple[Finding, ...] = ()
    observed: bool = False
    spec: TopicSpec | None = None

    @property
    def risk(self) -> Risk:
        """The highest risk among the changes."""
        return max((change.verdict.risk for change in self.changes), default=Risk.SAFE)

    @property
    def to_do(self) -> bool:
        """Whether applying the plan touches this topic."""
        return bool(self.changes) and not self.observed

    @property
    def silent(self) -> bool:
        """Whether there is nothing to say."""
        return not (self.changes or self.refusals or self.notices)

    def new_replicas(self) -> tuple[Replicas, ...]:
        """Replica lists that the changes would bring."""
        return tuple(
            replicas
            for change in self.changes
            if isinstance(change, CreateTopic | AddPartitions)
            for replicas in change.replicas
        )


class Load(NamedTuple):
    """What one broker carries: partitions it leads by preference, and replicas."""

    leaders: int = 0
    replicas: int = 0


class Basis(NamedTuple):
    """What all topics of a plan rest on: the brokers that it saw, and by what it judged configs and risks
    (``rules.judging``).
    """

    brokers: Mapping[int, Broker]
    judging: ClusterSpec
    release_at_least: Release


@dataclass(frozen=True, slots=True)
class Plan:
    """The difference between what one cluster should be and what it is; sorted by topic.

    ``topics`` has only those with something to say; ``unchanged`` counts the rest. ``orphans`` are topics with a
    record of ours that no manifest of the run names: other paths may have theirs. ``load`` is what each broker carried
    before; it is empty if no replica is placed. ``judging`` and ``release_at_least`` are by what it judged configs.
    ``controller`` and ``controller_epoch`` are for people: they are no part of a plan's meaning.
    """

    cluster: str
    cluster_id: str
    location: str = ""
    owner: str = "default"
    brokers: tuple[Broker, ...] = ()
    topics: tuple[TopicPlan, ...] = ()
    unchanged: int = 0
    orphans: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    load: Mapping[int, Load] = field(default_factory=dict)
    gate: Gate = Gate()
    judging: ClusterSpec = field(default_factory=ClusterSpec)
    release_at_least: Release = OLDEST
    controller: int | None = None
    controller_epoch: int = 0

    def to_do(self) -> Iterator[TopicPlan]:
        """The topics that applying the plan touches."""
        return (topic for topic in self.topics if topic.to_do)

    def basis(self) -> Basis:
        """What ``evolve.standing`` has to know of the plan beside a topic's own part."""
        return Basis({broker.id: broker for broker in self.brokers}, self.judging, self.release_at_least)

    @property
    def pending(self) -> bool:
        """Whether there is anything to apply."""
        return any(True for _ in self.to_do())

    @property
    def refused(self) -> bool:
        """Whether anything was refused; topics that are only observed ask for nothing."""
        return any(topic.refusals and not topic.observed for topic in self.topics)
