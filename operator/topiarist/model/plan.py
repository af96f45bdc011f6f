"""The plan of a run as values: changes with their risk, issues, topic plans, the ``Plan``.

``planning`` builds these values, ``filters`` remove changes from them, ``output`` shows them and an adapter applies
them. Every change holds its values before and after, so that it can be shown, compared with a cluster that may have
changed since, and undone by a user.

Options and permissions of one run: owner, adoption, approved risks, limit of writes in flight.

The command line and the operator build these values; ``planning`` and ``filters`` read them. ``throttle.py`` enforces
the limit: a controller that receives thousands of topics at once answers no other request meanwhile, and brokers create
log directories far more slowly than the controller initializes partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import chain
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.kafka import config_values
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.config_values import has_equivalent_value
from topiarist.kafka.types import MIN_KAFKA_VERSION, UNPLACED, Broker, KafkaVersion, Replicas, are_unplaced, matches_any
from topiarist.model.moves import NO_MOVES, BatchRecord, LeaderChange, MoveSettings, ReplicaMove
from topiarist.model.spec import LimitUsage, TopicSize, TopicSpec, ValueOrigin
from topiarist.model.state import (
    APACHE_KAFKA,
    NO_MEMORY,
    AppliedSpec,
    Capabilities,
    OwnershipRecord,
    TopicState,
    WriteBlock,
)
from topiarist.model.usage import Evidence, TopicUsage

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


# The applied spec in an ownership record: build it, compare it, describe external changes.
#
# Only the record distinguishes external changes from changes of the spec: it is written together with the spec, and it
# outlives the data of a run and of the API server. ``filters/limits.py`` and ``planning/planner.py`` read it.
# Its size is bounded: a long value is stored as its digest.

MAX_VALUE_LENGTH = 200
"""The maximum length in characters of a config value that a record stores as text."""


def encode_value(text: str) -> str:
    """Return a config value as a record stores it: the text itself, or its SHA-256 digest if it is long."""
    if len(text) <= MAX_VALUE_LENGTH:
        return text
    import hashlib  # not above: it costs the help of each command 3 ms, and few values are so long

    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def matches_recorded_value(key: str, value: str, text: str) -> bool:
    """Return whether ``value``, as a record stores it, means the same to Kafka as ``text``."""
    return value == encode_value(text) or config_values.is_equivalent(key, value, text)


def build_applied_spec(
    spec: TopicSpec, satisfied_keys: Iterable[str], keys: Iterable[str], partitions: int, before: AppliedSpec | None
) -> AppliedSpec:
    """Build the applied spec for the record of a topic after its plan is applied.

    The topic then has ``partitions``, and the spec's values for ``satisfied_keys``. ``keys`` are all keys that the
    record lists; for the other keys the values of ``before`` are kept. A value that means the same as before keeps its
    old text, so that the record is not rewritten for it.
    """
    was, holds = dict(before.config) if before else {}, frozenset(satisfied_keys)
    values = []
    for key in keys:
        if key in holds and not (key in was and matches_recorded_value(key, was[key], spec.config[key])):
            values.append((key, encode_value(spec.config[key])))
        elif key in was:
            values.append((key, was[key]))
    size = partitions if partitions == spec.partitions else before.partitions if before else None
    return AppliedSpec(size, tuple(values), spec.remove_unmanaged)


def changed_configs(
    record: OwnershipRecord | None, config: Mapping[str, str], is_invisible: Callable[[str], bool] = lambda key: False
) -> Sequence[tuple[str, str]]:
    """Return the keys with another value than the record has, each with the recorded value.

    Brokers do not show a config that their Kafka version has dropped: ``is_invisible`` says which keys not to compare.
    """
    return [
        (key, value)
        for key, value in (record.applied.config if record and record.applied else ())
        if (not is_invisible(key) if key not in config else not matches_recorded_value(key, value, config[key]))
    ]


def describe_external_changes(
    record: OwnershipRecord | None, config: Mapping[str, str], is_invisible: Callable[[str], bool] = lambda key: False
) -> str:
    """Return a message about external changes to a topic's config, with the keys of ``changed_configs``."""
    changed = [
        f"{key} was {value}, and is {config.get(key, 'not set')} now"
        for key, value in changed_configs(record, config, is_invisible)
    ]
    message = "its config has changed since topiarist recorded it"
    return f"{message}: {', '.join(changed)}" if changed else message


class RiskAssessment(NamedTuple):
    """A risk and its reason: text that completes the sentence "because ..."; empty for ``SAFE``."""

    risk: Risk
    explanation: str = ""


SAFE_ASSESSMENT = RiskAssessment(Risk.SAFE)


class CreateTopic(Struct, frozen=True):
    """A creation of a topic with these replica lists (partition 0 first) and config overrides.

    The lists are all of brokers, or all of ``UNPLACED``: then the cluster chooses the brokers.
    """

    replicas: tuple[Replicas, ...]
    config: Mapping[str, str]
    assessment: RiskAssessment = SAFE_ASSESSMENT


class AddPartitions(Struct, frozen=True):
    """An increase of the partition count.

    ``before`` is the number of existing partitions, ``first_replicas`` the replica list of partition 0, and
    ``replicas`` has one list for each new partition. If the cluster chooses the brokers, all of these lists are of
    ``UNPLACED``. ``keyed`` is false if the manifest says that no message has a key.
    """

    before: int
    first_replicas: Replicas
    replicas: tuple[Replicas, ...]
    assessment: RiskAssessment
    keyed: bool = True

    @property
    def total(self) -> int:
        """Return the number of partitions after the change."""
        return self.before + len(self.replicas)


class MoveReplicas(Struct, frozen=True):
    """A move of existing replicas: other brokers, more, fewer, or another order.

    ``moves`` are sorted by partition, never empty. They are applied in batches, after all other changes of the plan.
    """

    moves: tuple[ReplicaMove, ...]
    assessment: RiskAssessment

    @property
    def copies(self) -> int:
        """Return the number of replicas that brokers copy."""
        return sum(len(move.added) for move in self.moves)


class ElectLeaders(Struct, frozen=True):
    """An election of the preferred leaders of partitions that another broker leads.

    ``partitions`` are sorted by partition, never empty. The election follows all other changes of the plan.
    """

    partitions: tuple[LeaderChange, ...]
    assessment: RiskAssessment


class ConfigItem(NamedTuple):
    """One config key that is set, changed or removed (``after`` None).

    ``before`` is None if the key is not set. ``inherited`` is true if only the cluster's defaults ask for the key.
    """

    key: str
    before: str | None
    after: str | None
    assessment: RiskAssessment
    inherited: bool = False


class UpdateConfig(Struct, frozen=True):
    """A change of config overrides of an existing topic; ``items`` are sorted by key, never empty."""

    items: tuple[ConfigItem, ...]

    @property
    def assessment(self) -> RiskAssessment:
        """Return the highest risk among the keys, with its reason."""
        return max((item.assessment for item in self.items), key=lambda verdict: verdict.risk)


class DeleteTopic(Struct, frozen=True):
    """A deletion of an owned topic with all its messages; ``partitions`` and ``replicas`` are counts."""

    partitions: int
    replicas: int
    assessment: RiskAssessment


class TakeOwnership(Struct, frozen=True):
    """A write of the ownership record alone."""

    assessment: RiskAssessment = SAFE_ASSESSMENT


class ReleaseOwnership(Struct, frozen=True):
    """A removal of the ownership record alone: the topic, if it exists, then has no owner."""

    assessment: RiskAssessment = SAFE_ASSESSMENT


class Nudge(Struct, frozen=True):
    """A rewrite of a topic's entry with its present data, so that the controller initializes ``partitions``."""

    partitions: tuple[int, ...]
    assessment: RiskAssessment = SAFE_ASSESSMENT


Change = (
    CreateTopic
    | AddPartitions
    | MoveReplicas
    | ElectLeaders
    | UpdateConfig
    | DeleteTopic
    | TakeOwnership
    | ReleaseOwnership
    | Nudge
)

_GROWTHS = (CreateTopic, AddPartitions)

LastChange = MoveReplicas | ElectLeaders
"""The changes that follow all other changes of a plan; a topic has at most one of them."""


class Issue(NamedTuple):
    """A refusal or a notice about a topic; ``reason.exit_code`` distinguishes the two.

    ``field`` is the path below the spec (empty: the topic as a whole), ``hint`` the advice, ``withheld`` the refused
    changes, if any. ``cause_origin`` is the location of the policy rule, or of the field of the Cluster, that caused
    the issue; it is not part of a plan's meaning. ``own_message`` is the message without numbers and names of other
    topics and without measured values, so that it only changes with the topic's own state; empty if ``message`` is so.
    """

    reason: Reason
    message: str
    field: tuple[str, ...] = ()
    hint: str = ""
    withheld: tuple[Change, ...] = ()
    cause_origin: ValueOrigin | None = None
    own_message: str = ""


class TopicPlan(Struct, frozen=True):
    """The plan for one topic of one cluster. An adapter says whether its changes are one write or several.

    ``before`` is the topic when the plan was made (None: absent). ``record_before`` is the ownership record, valid or
    not (also a record without a topic), and ``record_after`` the record after the plan is applied. If ``observe_only``
    is true, the topic is reported only and its changes are never sent. Topics of one ``co_partition_group`` have equal
    numbers of partitions; empty: the topic is in no group. ``usage`` says what the changes mean for data and users, as
    far as it is known; it is not part of a plan's meaning.
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
    co_partition_group: str = ""
    usage: tuple[str, ...] = ()

    @property
    def risk(self) -> Risk:
        return max((change.assessment.risk for change in self.changes), default=Risk.SAFE)

    @property
    def is_actionable(self) -> bool:
        """Return whether applying the plan writes to this topic."""
        return bool(self.changes) and not self.observe_only

    @property
    def is_empty(self) -> bool:
        """Return whether there are no changes, refusals or notices."""
        return not (self.changes or self.refusals or self.notices)

    def new_replicas(self) -> tuple[Replicas, ...]:
        """Return the replica lists that the changes add, with ``UNPLACED`` where the cluster chooses the broker."""
        growths = [change.replicas for change in self.changes if isinstance(change, _GROWTHS)]
        return growths[0] if len(growths) == 1 else tuple(chain.from_iterable(growths))

    def moves(self) -> tuple[ReplicaMove, ...]:
        """Return the moves of existing replicas."""
        return tuple(move for change in self.changes if isinstance(change, MoveReplicas) for move in change.moves)

    def elections(self) -> tuple[LeaderChange, ...]:
        """Return the elections of preferred leaders."""
        return tuple(each for change in self.changes if isinstance(change, ElectLeaders) for each in change.partitions)

    def placed_brokers(self) -> set[int]:
        """Return the brokers that get a replica by the plan, and not by the choice of the cluster."""
        added = {broker for move in self.moves() for broker in move.added}
        return added.union(*self.new_replicas()) - {UNPLACED}


class ImpliedTopic(NamedTuple):
    """A topic without a manifest that the first write to a cluster makes; ``maker`` makes it for ``purpose``."""

    name: str
    partitions: int
    replicas: int
    maker: str
    purpose: str


class Load(NamedTuple):
    """The load of one broker: number of partitions with it as preferred leader, and number of replicas."""

    leaders: int = 0
    replicas: int = 0


class PlanAssumptions(Struct, frozen=True):
    """The brokers by id, and the rules used to check configs and to assess risks, when a plan was made."""

    brokers: Mapping[int, Broker]
    config_rules: ConfigRules
    min_version: KafkaVersion


class Plan(Struct, frozen=True):
    """The difference between the desired and the actual state of one cluster, sorted by topic.

    ``topics`` has only the topics with a change, refusal or notice; ``unchanged`` counts the other topics.
    ``unselected`` counts the existing topics with manifests that the run does not select. ``orphans``
    are topics with an ownership record that no manifest of the run names: manifests in other paths may name them.
    ``sizes`` are those of the topics before the plan, of all that have manifests or belong to the owner, and
    ``default_retention_bytes`` is the brokers' ``retention.bytes`` (None: unknown). ``limits`` is what is used of each
    limit by the groups of planned topics. ``load`` is the load of each broker before the plan; it is empty if no
    replica is placed. ``config_rules`` (with the relevant settings only) and ``min_version`` are the rules used to
    check configs. ``controller`` and ``controller_epoch`` are information for people and not part of a plan's meaning.
    ``batch`` is the record of the last batch of moves on the cluster: a run that moves waits for it first.
    ``bypasses_brokers`` is that of the state, ``keeps_records`` that of the cluster.
    ``drain_brokers`` and ``move_settings`` are for the texts about moves,
    and not part of a plan's meaning either: they are their cause and their pace. Nor is ``usage``, the usage of planned
    topics by name, with its ``evidence``; None if it was not read. ``implied`` are the topics that a
    first write would make. ``placed_by_brokers`` says why the cluster chooses the brokers of new replicas; empty if the
    plan names them all. ``capabilities`` are those of the cluster.
    """

    cluster: str
    cluster_id: str
    chroot: str = ""
    owner: str = "default"
    brokers: tuple[Broker, ...] = ()
    topics: tuple[TopicPlan, ...] = ()
    unchanged: int = 0
    unselected: int = 0
    orphans: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    sizes: Mapping[str, TopicSize] = field(default_factory=dict)
    default_retention_bytes: str | None = None
    limits: tuple[LimitUsage, ...] = ()
    load: Mapping[int, Load] = field(default_factory=dict)
    write_block: WriteBlock = WriteBlock()
    config_rules: ConfigRules = field(default_factory=ConfigRules)
    min_version: KafkaVersion = MIN_KAFKA_VERSION
    controller: int | None = None
    controller_epoch: int = 0
    batch: BatchRecord | None = None
    bypasses_brokers: bool = True
    keeps_records: bool = True
    drain_brokers: frozenset[int] = frozenset()
    move_settings: MoveSettings = NO_MOVES
    evidence: Evidence | None = None
    implied: tuple[ImpliedTopic, ...] = ()
    usage: Mapping[str, TopicUsage] = field(default_factory=dict)
    placed_by_brokers: str = ""
    capabilities: Capabilities = APACHE_KAFKA

    def actionable_topics(self) -> Iterator[TopicPlan]:
        """Iterate over the topics that applying the plan writes to."""
        return (topic for topic in self.topics if topic.is_actionable)

    def assumptions(self) -> PlanAssumptions:
        """Return the values that ``check_preconditions`` needs in addition to a topic's own plan."""
        return PlanAssumptions({broker.id: broker for broker in self.brokers}, self.config_rules, self.min_version)

    @property
    def has_changes(self) -> bool:
        return any(True for _ in self.actionable_topics())

    @property
    def places_replicas(self) -> bool:
        """Return whether applying the plan puts a replica on a broker that the plan names."""
        return any(topic.placed_brokers() or topic.moves() for topic in self.actionable_topics())

    @property
    def implied_topics(self) -> tuple[ImpliedTopic, ...]:
        """Return the topics that applying the plan makes beside its own."""
        return self.implied if self.has_changes else ()

    @property
    def deletes_topics(self) -> bool:
        """Return whether applying the plan deletes a topic."""
        return any(isinstance(change, DeleteTopic) for topic in self.actionable_topics() for change in topic.changes)

    @property
    def has_refusals(self) -> bool:
        """Return whether anything was refused; topics that are observed only do not count."""
        return any(topic.refusals and not topic.observe_only for topic in self.topics)


def config_after(config: Mapping[str, str], changes: Sequence[Change]) -> Mapping[str, str]:
    """Return the config overrides after ``changes`` are applied."""
    items = [item for change in changes if isinstance(change, UpdateConfig) for item in change.items]
    if not items:
        return config
    changed = {item.key: item.after for item in items}
    return {key: text for key, text in {**config, **changed}.items() if text is not None}


def record_after(
    owner: str, spec: TopicSpec, config: Mapping[str, str], partitions: int, before: OwnershipRecord | None
) -> OwnershipRecord:
    """Return the ownership record of a topic after its plan is applied.

    ``config`` and ``partitions`` are the overrides and the partition count after the plan; ``before`` is the valid
    record, if there is one. The record lists the spec's keys that hold the spec's value. It also keeps each key of
    ``before`` that is still set or that the spec still asks for. Returns ``before`` itself if nothing changes.
    """
    if before and before.applied and is_recorded(before, owner, spec, config, partitions):
        return before
    met = {
        key for key, text in spec.config.items() if config.get(key) == text or has_equivalent_value(config, key, text)
    }
    if spec.ignored_fields:
        met -= {key for key in met if f"config.{key}" in spec.ignored_fields}
    kept = (key for key in before.config_keys if key in config or key in spec.config) if before else ()
    keys = tuple(sorted(met.union(kept)))
    applied = build_applied_spec(spec, met, keys, partitions, before.applied if before else None)
    after = OwnershipRecord(owner, keys, applied=applied, memory=before.memory if before else NO_MEMORY)
    return before if before == after else after


def record_without_changes(
    owner: str, spec: TopicSpec, config: Mapping[str, str], partitions: int, before: OwnershipRecord | None
) -> OwnershipRecord:
    """Return the record of a topic if its plan changes nothing else, as ``record_after`` does.

    A record that lacks only the applied values stays as it is: it gets them with the next write.
    """
    if before and is_recorded(before, owner, spec, config, partitions):
        return before
    after = record_after(owner, spec, config, partitions, before)
    return before if before and before == replace(after, applied=None) else after


def is_recorded(
    record: OwnershipRecord, owner: str, spec: TopicSpec, config: Mapping[str, str], partitions: int | None
) -> bool:
    """Return whether a topic without changes keeps its record, because everything is as recorded.

    This is the usual case, and cheap to find; returns False if only a closer look can tell.
    """
    applied = record.applied
    return (
        record.owner == owner
        and not record.deleted
        and not spec.ignored_fields
        and spec.config == config
        and (
            record.config_keys == tuple(sorted(config))
            if applied is None
            else config == dict(applied.config)
            and record.config_keys == tuple(key for key, _ in applied.config)
            and (spec.partitions is None or applied.partitions == partitions == spec.partitions)
            and applied.remove_unmanaged == spec.remove_unmanaged
        )
    )


def releases_ownership(plan: TopicPlan) -> bool:
    """Return whether the plan removes the ownership record; such a plan changes nothing else."""
    return any(isinstance(change, ReleaseOwnership) for change in plan.changes)


def retained_managed_keys(plan: TopicPlan) -> Iterator[str]:
    """Yield the managed config keys that ``plan`` does not change, set or not: their values must stay as they are."""
    changed = {item.key for change in plan.changes if isinstance(change, UpdateConfig) for item in change.items}
    if plan.changes and plan.record_after:
        yield from (key for key in plan.record_after.config_keys if key not in changed)


def withhold(plan: TopicPlan, changes: Sequence[Change], issue: Issue) -> TopicPlan:
    """Return ``plan`` without ``changes``, with ``issue`` as the refusal.

    ``record_after`` is computed anew for the remaining changes. If no change remains, the record stays as it is. The
    same applies to a topic that is absent or has no spec: all its changes are then withheld.
    """
    if not changes:
        return plan
    left = tuple(change for change in plan.changes if change not in changes)
    if not left or plan.before is None or plan.spec is None:
        refusals = (*plan.refusals, issue._replace(withheld=plan.changes))
        return replace(plan, changes=(), refusals=refusals, record_after=plan.record_before)
    refusals = (*plan.refusals, issue._replace(withheld=tuple(changes)))
    owner = plan.record_after.owner if plan.record_after else ""
    config = config_after(plan.before.config, left)
    partitions = partitions_after(len(plan.before.replicas), left)
    after = record_after(owner, plan.spec, config, partitions, plan.before.valid_record)
    return replace(plan, changes=left, refusals=refusals, record_after=after)


def compute_broker_load(lists: Mapping[Replicas, int], brokers: Iterable[int]) -> dict[int, Load]:
    """Return the load of each of ``brokers`` and of each broker in a list, from the number of each replica list."""
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter(dict.fromkeys(brokers, 0))
    for ids, times in lists.items():
        if ids:
            leaders[ids[0]] += times
        for broker in ids:
            replicas[broker] += times
    return {broker: Load(leaders[broker], replicas[broker]) for broker in sorted(replicas)}


def compute_broker_load_after(plan: Plan) -> dict[int, Load]:
    """Return the load of each broker after the plan is applied."""
    leaders = Counter({broker: load.leaders for broker, load in plan.load.items()})
    replicas = Counter({broker: load.replicas for broker, load in plan.load.items()})
    for topic in plan.actionable_topics():
        for brokers in () if are_unplaced(topic.new_replicas()) else topic.new_replicas():
            leaders[brokers[0]] += 1
            replicas.update(brokers)
        for move in topic.moves():
            leaders[move.before[0]] -= 1
            leaders[move.after[0]] += 1
            replicas.subtract(move.before)
            replicas.update(move.after)
    return {broker: Load(leaders[broker], replicas[broker]) for broker in sorted(replicas)}


def partitions_after(before: int, changes: Sequence[Change]) -> int:
    """Return the partition count of an existing topic after ``changes`` are applied."""
    return before + sum(len(change.replicas) for change in changes if isinstance(change, AddPartitions))
