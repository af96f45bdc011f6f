"""What a plan consists of, as values: changes with their risk, findings, one ``TopicPlan`` per topic, and the ``Plan``.

``plan`` makes these, ``policy`` filters them, ``render`` shows them, an adapter carries them out. Every change holds
its before and after, so that it can be shown, checked against a cluster that may have moved, and undone by a person.

Taking changes out of a plan so that what remains still fits together: its record, its refusals.

Used wherever something speaks against a change that was found: a cluster's gate, its limits of size, a policy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

from topiarist.errors import Reason
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.config_values import has_equivalent_value
from topiarist.kafka.types import MIN_KAFKA_VERSION, Broker, KafkaVersion, Replicas
from topiarist.model.ownership_record import build_applied_spec
from topiarist.model.spec import TopicSpec, ValueOrigin
from topiarist.model.state import OwnershipRecord, TopicState, WriteBlock


class Risk(IntEnum):
    """What a change may cost. Ordered: the highest of a plan is what a reviewer looks for."""

    SAFE = 0
    DISRUPTIVE = 1
    DATA_LOSS = 2

    @property
    def label(self) -> str:
        """The name used in every output and in ``--allow-risk``."""
        return ("Safe", "Disruptive", "DataLoss")[self]


class RiskAssessment(NamedTuple):
    """A risk and its reason, in words that finish the sentence "because ..."; empty for ``SAFE``."""

    risk: Risk
    explanation: str = ""


SAFE_ASSESSMENT = RiskAssessment(Risk.SAFE)


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic with these replica lists (partition 0 first) and config overrides."""

    replicas: tuple[Replicas, ...]
    config: Mapping[str, str]
    assessment: RiskAssessment = SAFE_ASSESSMENT


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Grow from ``before`` partitions by ``replicas``, one list for each new one; ``model`` is partition 0's list."""

    before: int
    first_replicas: Replicas
    replicas: tuple[Replicas, ...]
    assessment: RiskAssessment

    @property
    def total(self) -> int:
        """Partitions afterwards."""
        return self.before + len(self.replicas)


class ConfigItem(NamedTuple):
    """One config key, set, changed or removed (``after`` None); ``inherited``: only the cluster's defaults have it."""

    key: str
    before: str | None
    after: str | None
    assessment: RiskAssessment
    inherited: bool = False


@dataclass(frozen=True, slots=True)
class UpdateConfig:
    """Change config overrides of an existing topic; sorted by key, never empty."""

    items: tuple[ConfigItem, ...]

    @property
    def assessment(self) -> RiskAssessment:
        """The highest risk among the keys, with its reason."""
        return max((item.assessment for item in self.items), key=lambda verdict: verdict.risk)


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete a topic of ours, with all its messages."""

    partitions: int
    replicas: int
    assessment: RiskAssessment


@dataclass(frozen=True, slots=True)
class TakeOwnership:
    """Write our record and nothing else: nothing of Kafka's changes."""

    assessment: RiskAssessment = SAFE_ASSESSMENT


@dataclass(frozen=True, slots=True)
class ReleaseOwnership:
    """Take our record away and nothing else: the topic, if there is one, is nobody's again."""

    assessment: RiskAssessment = SAFE_ASSESSMENT


@dataclass(frozen=True, slots=True)
class Nudge:
    """Set a topic's node again as it is, so that the controller takes over ``partitions``, which have no state."""

    partitions: tuple[int, ...]
    assessment: RiskAssessment = SAFE_ASSESSMENT


Change = CreateTopic | AddPartitions | UpdateConfig | DeleteTopic | TakeOwnership | ReleaseOwnership | Nudge


class Issue(NamedTuple):
    """Something to say about a topic: a refusal (of ``held`` changes, if any) or a notice; ``reason.exit`` tells which.

    ``field`` is the path below the spec that it is about (empty: the topic as a whole), ``instead`` is what to do.
    ``rule`` is where the policy's rule stands that decided it: a place, so no part of a plan's meaning.
    """

    reason: Reason
    message: str
    field: tuple[str, ...] = ()
    hint: str = ""
    withheld: tuple[Change, ...] = ()
    rule_origin: ValueOrigin | None = None


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """Everything about one topic of one cluster; done in one transaction.

    ``before`` is the topic as planned from (None: absent), ``record_before`` our record, valid or not (also one
    without a topic), ``record_after`` what it will be. ``observed`` topics are reported only: their changes are never
    sent.
    """

    topic: str
    before: TopicState | None = None
    record_before: OwnershipRecord | None = None
    record_after: OwnershipRecord | None = None
    changes: tuple[Change, ...] = ()
    refusals: tuple[Issue, ...] = ()
    notices: tuple[Issue, ...] = ()
    observe_only: bool = False
    spec: TopicSpec | None = None

    @property
    def risk(self) -> Risk:
        """The highest risk among the changes."""
        return max((change.assessment.risk for change in self.changes), default=Risk.SAFE)

    @property
    def is_actionable(self) -> bool:
        """Whether applying the plan touches this topic."""
        return bool(self.changes) and not self.observe_only

    @property
    def is_empty(self) -> bool:
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


class PlanAssumptions(NamedTuple):
    """What all topics of a plan rest on: the brokers that it saw, and by what it judged configs and risks
    (``ConfigRules.relevant``).
    """

    brokers: Mapping[int, Broker]
    config_rules: ConfigRules
    min_version: KafkaVersion


@dataclass(frozen=True, slots=True)
class Plan:
    """The difference between what one cluster should be and what it is; sorted by topic.

    ``topics`` has only those with something to say; ``unchanged`` counts the rest. ``orphans`` are topics with a
    record of ours that no manifest of the run names: other paths may have theirs. ``load`` is what each broker carried
    before; it is empty if no replica is placed. ``config_rules`` and ``release_at_least`` are what
    configs were checked by.
    ``controller`` and ``controller_epoch`` are for people: they are no part of a plan's meaning.
    """

    cluster: str
    cluster_id: str
    chroot: str = ""
    owner: str = "default"
    brokers: tuple[Broker, ...] = ()
    topics: tuple[TopicPlan, ...] = ()
    unchanged: int = 0
    orphans: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    load: Mapping[int, Load] = field(default_factory=dict)
    write_block: WriteBlock = WriteBlock()
    config_rules: ConfigRules = field(default_factory=ConfigRules)
    min_version: KafkaVersion = MIN_KAFKA_VERSION
    controller: int | None = None
    controller_epoch: int = 0

    def actionable_topics(self) -> Iterator[TopicPlan]:
        """The topics that applying the plan touches."""
        return (topic for topic in self.topics if topic.is_actionable)

    def assumptions(self) -> PlanAssumptions:
        """What ``evolve.standing`` has to know of the plan beside a topic's own part."""
        return PlanAssumptions({broker.id: broker for broker in self.brokers}, self.config_rules, self.min_version)

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to apply."""
        return any(True for _ in self.actionable_topics())

    @property
    def has_refusals(self) -> bool:
        """Whether anything was refused; topics that are only observed ask for nothing."""
        return any(topic.refusals and not topic.observe_only for topic in self.topics)


def config_after(config: Mapping[str, str], changes: Sequence[Change]) -> Mapping[str, str]:
    """The overrides once ``changes`` are done."""
    items = list(_config_items(changes))
    if not items:
        return config
    after = {**config, **{item.key: item.after for item in items if item.after is not None}}
    for item in items:
        if item.after is None:
            after.pop(item.key, None)
    return after


def _config_items(changes: Sequence[Change]) -> Iterator[ConfigItem]:
    for change in changes:
        if isinstance(change, UpdateConfig):
            yield from change.items


def record_after(
    owner: str, spec: TopicSpec, config: Mapping[str, str], partitions: int, before: OwnershipRecord | None
) -> OwnershipRecord:
    """Our record beside a topic that then has the overrides ``config`` and so many ``partitions``; ``before`` is the
    valid record, if any.

    It lists the spec's keys that hold the spec's value, and what we set earlier and have not removed yet, or others
    have and the spec still asks for.
    """
    met = {
        key for key, text in spec.config.items() if config.get(key) == text or has_equivalent_value(config, key, text)
    }
    if spec.ignored_fields:
        met -= {key for key in met if f"config.{key}" in spec.ignored_fields}
    kept = (key for key in before.config_keys if key in config or key in spec.config) if before else ()
    keys = tuple(sorted(met.union(kept)))
    applied = build_applied_spec(spec, met, keys, partitions, before.applied if before else None)
    after = OwnershipRecord(owner, keys, applied=applied)
    return before if before == after else after


def releases_ownership(plan: TopicPlan) -> bool:
    """Whether the plan takes our record away: then the record is all that it is about."""
    return any(isinstance(change, ReleaseOwnership) for change in plan.changes)


def retained_managed_keys(plan: TopicPlan) -> Iterator[str]:
    """Config keys of our record that ``plan`` leaves alone on a topic, set or not: to stay as they are."""
    changed = {item.key for change in plan.changes if isinstance(change, UpdateConfig) for item in change.items}
    if plan.changes and plan.record_after:
        yield from (key for key in plan.record_after.config_keys if key not in changed)


def withhold(plan: TopicPlan, changes: Sequence[Change], issue: Issue) -> TopicPlan:
    """``plan`` without ``changes``, which ``issue`` holds back; what remains of it still fits together."""
    if not changes:
        return plan
    left = tuple(change for change in plan.changes if change not in changes)
    refusals = (*plan.refusals, issue._replace(withheld=tuple(changes)))
    if not left or plan.before is None or plan.spec is None:
        return replace(plan, changes=(), refusals=refusals, record_after=plan.record_before)
    owner = plan.record_after.owner if plan.record_after else ""
    config = config_after(plan.before.config, left)
    partitions = partitions_after(len(plan.before.replicas), left)
    after = record_after(owner, plan.spec, config, partitions, plan.before.valid_record)
    return replace(plan, changes=left, refusals=refusals, record_after=after)


def compute_broker_load(lists: Mapping[Replicas, int], brokers: Iterable[int]) -> dict[int, Load]:
    """Leaders and replicas of every broker, by how often each list occurs; ``brokers`` are there in any case."""
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter(dict.fromkeys(brokers, 0))
    for ids, times in lists.items():
        if ids:
            leaders[ids[0]] += times
        for broker in ids:
            replicas[broker] += times
    return {broker: Load(leaders[broker], replicas[broker]) for broker in sorted(replicas)}


def compute_broker_load_after(plan: Plan) -> dict[int, Load]:
    """What each broker carries once the plan is done."""
    leaders = Counter({broker: load.leaders for broker, load in plan.load.items()})
    replicas = Counter({broker: load.replicas for broker, load in plan.load.items()})
    for topic in plan.actionable_topics():
        for brokers in topic.new_replicas():
            leaders[brokers[0]] += 1
            replicas.update(brokers)
    return {broker: Load(leaders[broker], replicas[broker]) for broker in sorted(replicas)}


def partitions_after(before: int, changes: Sequence[Change]) -> int:
    """Partitions of an existing topic once ``changes`` are done."""
    return before + sum(len(change.replicas) for change in changes if isinstance(change, AddPartitions))
