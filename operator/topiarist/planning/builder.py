"""The context of a plan, the builder of one topic plan, places for replicas, and problems from before the run.

``planner`` makes one ``PlanContext`` for a cluster and one ``TopicPlanBuilder`` for each topic; ``diff`` and
``find_problems`` add changes, refusals and notices to the builder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from msgspec import Struct, field

from topiarist.errors import Reason
from topiarist.kafka import config_rules, config_table, placement
from topiarist.kafka.config_rules import (
    DEPRECATED_CONFIGS,
    ConfigError,
    ConfigRules,
    is_min_isr_above,
    small_segment_message,
)
from topiarist.kafka.placement import AssignmentError
from topiarist.kafka.types import MIN_KAFKA_VERSION, UNPLACED, KafkaVersion, Replicas, count_replicas, format_version
from topiarist.model.access import Placement
from topiarist.model.moves import UNLIMITED
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Issue,
    Load,
    MoveReplicas,
    RunOptions,
    TopicPlan,
    UpdateConfig,
    compute_broker_load,
    config_after,
)
from topiarist.model.spec import ClusterSpec, RackAwareness, TopicSpec, ValueOrigin
from topiarist.model.state import (
    Capabilities,
    ClusterState,
    OwnershipRecord,
    Support,
    TopicState,
    describe_malformed_partitions,
    describe_unequal_replication_factors,
)
from topiarist.planning.moves.planner import MovePlanner
from topiarist.text import format_count, printable, quote, shorten_list

# Places new replicas on one cluster: Kafka's placement over the eligible brokers, or an issue.
#
# ``planner`` makes one ``ReplicaPlacer`` for all topics of a plan, so that eligible and missing brokers are computed
# once. ``diff`` calls it; ``kafka.placement`` has the algorithm.

_REASON_BY_ERROR_KIND = {
    "invalid_replication_factor": Reason.TOO_FEW_BROKERS,
    "admin_operation": Reason.RACKS_INCOMPLETE,
}
_HINT_BY_REASON = {
    Reason.TOO_FEW_BROKERS: "set a lower replicationFactor, or add brokers",
    Reason.RACKS_INCOMPLETE: "configure a rack on all brokers or on none; or, for new topics, set rackAwareness: Safe "
    "or Disabled in the Cluster",
    Reason.PARTITIONS_MALFORMED: "fix the topic with Kafka's own tools; it cannot grow until then",
}


class PlacedByBrokers(NamedTuple):
    """Why the cluster chooses the brokers of new topics, and of new partitions; empty if the plan lists them."""

    creations: str = ""
    growth: str = ""


def find_placed_by_brokers(cluster: ClusterSpec, capabilities: Capabilities) -> PlacedByBrokers:
    """Return who chooses brokers: as the Cluster declares it, else as the cluster can carry it out.

    A cluster that does not carry out the lists of a creation is not asked to carry out those of new partitions, unless
    it is known to do so.
    """
    if cluster.placement is not None:
        why = "spec.kafka.placement is Brokers" if cluster.placement is Placement.BROKERS else ""
        return PlacedByBrokers(why, why)
    return _find_denied_lists(capabilities)


def _find_denied_lists(capabilities: Capabilities) -> PlacedByBrokers:
    creations, growth = _describe_denied(capabilities.replica_lists), _describe_denied(capabilities.growth_lists)
    return PlacedByBrokers(creations, growth or ("" if capabilities.growth_lists.is_given else creations))


def _describe_denied(support: Support) -> str:
    return (support.why or "the cluster ignores replica lists") if support.is_denied else ""


def find_unkept_placement(cluster: ClusterSpec, excluded: Collection[int], why: str) -> Issue | None:
    """Return the refusal of new replicas with demands that only the plan can meet, since the cluster chooses brokers.

    ``excluded`` are the brokers that may not get replicas.
    """
    if excluded:
        message = f"broker {_join_ids(sorted(excluded))} may get no new replicas, which the plan cannot ensure: {why}"
        hint = "without excludeBrokers, drainBrokers and --without-brokers new replicas may be on any broker"
        return Issue(Reason.PLACED_BY_BROKERS, message, hint=hint)
    if cluster.rack_awareness is RackAwareness.ENFORCED:
        message = f"rackAwareness is Enforced, which the plan cannot ensure: {why}"
        hint = "leave rackAwareness out of the Cluster: the brokers then spread replicas over racks in their own way"
        return Issue(Reason.PLACED_BY_BROKERS, message, hint=hint)
    return None


def make_move_refusal(why: str) -> Issue:
    """Return the refusal of moves where the cluster chooses the brokers of replicas."""
    message = f"a move lists the brokers of replicas, which the plan cannot ensure: {why}"
    hint = "leave the move to the service; or set placement to Explicit, if the brokers carry out lists"
    return Issue(Reason.PLACED_BY_BROKERS, message, hint=hint)


class ReplicaPlacer:
    """A placer for the partitions of one plan.

    ``without_brokers`` get no replicas, in addition to the cluster's ``excludeBrokers`` and ``drainBrokers``.
    ``replica_holders`` are the brokers that hold replicas of remaining topics; it is given if the state does not have
    all topics.
    """

    def __init__(
        self,
        state: ClusterState,
        cluster: ClusterSpec,
        without_brokers: frozenset[int],
        allow_unknown_brokers: bool,
        replica_holders: frozenset[int] | None = None,
    ) -> None:
        self._state = state
        self._cluster = cluster
        self.by_brokers = find_placed_by_brokers(cluster, state.capabilities)
        self._denied_lists = _find_denied_lists(state.capabilities)
        self.excluded_brokers = cluster.exclude_brokers | cluster.drain_brokers | without_brokers
        self._allow_unknown_brokers = allow_unknown_brokers
        self._replica_holders = replica_holders
        self._registered_brokers = frozenset(broker.id for broker in state.brokers)
        self.eligible_brokers = tuple(broker for broker in state.brokers if broker.id not in self.excluded_brokers)

    @cached_property
    def replica_list_counts(self) -> Counter[Replicas]:
        """Return the number of each replica list of the cluster."""
        # Few lists of a cluster are distinct, so sums over the counts are fast.
        return Counter(chain.from_iterable(topic.replicas for topic in self._state.topics.values()))

    @cached_property
    def missing_brokers(self) -> tuple[int, ...]:
        """Return the unregistered brokers that hold replicas, without excluded brokers.

        A broker that holds only topics marked for deletion is not missing, because it will hold nothing.
        """
        holders = self._replica_holders
        if holders is None:
            deleted = self._state.pending_deletions
            remaining: Iterable[Replicas] = self.replica_list_counts
            if deleted:
                topics = self._state.topics.items()
                remaining = chain.from_iterable(topic.replicas for name, topic in topics if name not in deleted)
            holders = frozenset(chain.from_iterable(remaining))
        return tuple(sorted(holders - self._registered_brokers - self.excluded_brokers - {UNPLACED}))

    def current_load(self) -> dict[int, Load]:
        """Return leaders and replicas of every broker, idle brokers included."""
        return compute_broker_load(self.replica_list_counts, self._registered_brokers)

    def place_topic(self, spec: TopicSpec) -> tuple[Replicas, ...] | Issue:
        """Return the replica lists of a new topic, or an issue.

        The lists are the explicit ones of the spec. Otherwise they are Kafka's, with a start and a shift derived from
        the name, or those of a cluster that chooses the brokers.
        """
        if why := self.by_brokers.creations:
            return self._leave_to_brokers(spec, why, spec.create_partitions, spec.create_replication_factor)
        if why := self._denied_lists.creations:
            return _explicit_issue(why)
        if spec.assignment is not None:
            return self._check_explicit_lists(spec.assignment, self._allow_unknown_brokers)
        if finding := self._missing_brokers_issue():
            return finding
        try:
            brokers = placement.prepare_brokers(self.eligible_brokers, self._cluster.rack_mode)
            start, shift = placement.derive_start_and_shift(spec.topic, brokers)
            return placement.assign_replicas(
                brokers,
                spec.create_partitions,
                replication_factor=spec.create_replication_factor,
                start=start,
                shift=shift,
            )
        except AssignmentError as error:
            return self._make_issue(error, ("replicationFactor",))

    def place_new_partitions(self, spec: TopicSpec, topic: TopicState, total: int) -> tuple[Replicas, ...] | Issue:
        """Return the replica lists for growth to ``total`` partitions, or an issue.

        Only the new partitions have lists. Kafka's expansion is always rack-aware.
        """
        if why := self.by_brokers.growth:
            return self._leave_to_brokers(spec, why, total - len(topic.replicas), len(topic.replicas[0]))
        if why := self._denied_lists.growth:
            return _explicit_issue(why)
        # Explicit lists name their brokers, so a missing broker cannot distort the placement.
        if spec.assignment is None and (finding := self._missing_brokers_issue()):
            return finding
        try:
            # Kafka checks the racks of all brokers before a growth by explicit lists, too.
            brokers = placement.prepare_brokers(self.eligible_brokers, RackAwareness.ENFORCED.value.lower())
            if spec.assignment is None:
                existing = dict(zip(topic.partition_ids, topic.replicas, strict=True))
                return placement.expand_assignment(brokers, existing, total)
        except AssignmentError as error:
            return self._make_issue(error, ("partitions",) if spec.assignment is None else ("replicaAssignment",))
        added, replica_count = spec.assignment[len(topic.replicas) :], len(topic.replicas[0])
        if any(len(replicas) != replica_count for replicas in added):
            return Issue(
                Reason.REPLICATION_FACTOR_DIFFERS,
                f"partition 0 has {format_count(replica_count, 'replica')}, new partitions must have the same number",
                ("replicaAssignment",),
                f"list {format_count(replica_count, 'broker')} for each new partition",
            )
        return self._check_explicit_lists(added, allow_unknown=False)

    def _leave_to_brokers(self, spec: TopicSpec, why: str, partitions: int, width: int) -> tuple[Replicas, ...] | Issue:
        if spec.assignment is not None:
            hint = "set partitions and replicationFactor in place of it"
            message = f"replicaAssignment lists brokers, which the plan cannot ensure: {why}"
            return Issue(Reason.PLACED_BY_BROKERS, message, ("replicaAssignment",), hint)
        return find_unkept_placement(self._cluster, self.excluded_brokers, why) or ((UNPLACED,) * width,) * partitions

    def _check_explicit_lists(self, lists: tuple[Replicas, ...], allow_unknown: bool) -> tuple[Replicas, ...] | Issue:
        # Kafka accepts unregistered brokers at creation only.
        named, path = {broker for replicas in lists for broker in replicas}, ("replicaAssignment",)
        if excluded := sorted(named & self.excluded_brokers):
            ids = _join_ids(excluded)
            message = f"excludeBrokers, drainBrokers or --without-brokers excludes broker {ids} from new replicas"
            return Issue(Reason.EXCLUDED_BROKERS, message, path, "list other brokers, or change the exclusion")
        if (unknown := sorted(named - self._registered_brokers)) and not allow_unknown:
            registered = _join_ids(sorted(self._registered_brokers)) or "none"
            message = f"broker {_join_ids(unknown)} is not registered; registered: {registered}"
            hint = "list registered brokers; or, for a new topic, pass --allow-unknown-brokers"
            return Issue(Reason.UNKNOWN_BROKERS, message, path, hint)
        return lists

    def _missing_brokers_issue(self) -> Issue | None:
        if not self.missing_brokers:
            return None
        ids = _join_ids(self.missing_brokers)
        subject, verb = (
            (f"broker {ids} holds", "is") if len(self.missing_brokers) == 1 else (f"brokers {ids} hold", "are")
        )
        return Issue(
            Reason.BROKERS_MISSING,
            f"{subject} replicas but {verb} not registered; new replicas would all be placed on the other brokers",
            hint="wait until all are registered again, pass --without-brokers, or set excludeBrokers",
        )

    def _make_issue(self, error: AssignmentError, path: tuple[str, ...]) -> Issue:
        reason = _REASON_BY_ERROR_KIND.get(error.kind, Reason.PARTITIONS_MALFORMED)
        return Issue(reason, str(error), path, _HINT_BY_REASON[reason])


def _explicit_issue(why: str) -> Issue:
    message = f"spec.kafka.placement is Explicit, and the cluster ignores replica lists: {why}"
    return Issue(Reason.PLACED_BY_BROKERS, message, hint="leave placement out, or set it to Brokers")


def _join_ids(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers))


HINT_PROTECTED_TOPIC = "ask its owner; Cluster.spec.protected lists the names"
HINT_MIN_ISR = "set it to the replica count at most: before Kafka 3.7 every write with acks=all fails otherwise"
HINT_DECLARE_VERSION = "set kafkaVersion in the Cluster, or pass --kafka-version"
HINT_LEAVE_OUT = "leave it out until the brokers have it"


class PlanContext(Struct, frozen=True):
    """The facts that all topics of a plan share.

    ``rules`` are the config rules of the cluster with the facts that it shows, and ``settings`` the known broker
    settings. ``topics_by_metric_name`` has the existing topics by the name that
    Kafka's metrics give them.
    """

    state: ClusterState
    cluster: ClusterSpec
    options: RunOptions
    placer: ReplicaPlacer
    moves: MovePlanner
    rules: ConfigRules
    settings: Mapping[str, str]
    topics_by_metric_name: Mapping[str, str] = field(default_factory=dict)

    @property
    def versions_to_check(self) -> tuple[KafkaVersion, ...]:
        """Return the Kafka versions that values are validated for."""
        return self.rules.versions_to_check(self.state.min_version)

    @property
    def oldest_version(self) -> KafkaVersion:
        """Return the oldest version that the brokers may have."""
        return self.versions_to_check[-1]

    def cluster_origin(self, *path: str) -> ValueOrigin | None:
        """Return the origin of a field below ``spec`` of the Cluster; None if the run has no document of it."""
        return ValueOrigin(self.cluster.source, ("spec", *path)) if self.cluster.source else None

    def find_config_errors(self, config: Mapping[str, str]) -> Sequence[ConfigError]:
        """Return the errors of a complete map of overrides.

        Kafka validates the whole map, unmanaged keys included, so this check does the same.
        """
        return self.rules.find_errors(config, self.versions_to_check, self.settings)

    def is_ignored(self, key: str) -> bool:
        """Return whether the Kafka version of the cluster has dropped a config that a manifest may still have."""
        return self.rules.is_ignored(key, self.state.min_version)


class TopicPlanBuilder(Struct):
    """A topic plan under construction."""

    spec: TopicSpec
    context: PlanContext
    changes: list[Change] = field(default_factory=list)
    refusals: list[Issue] = field(default_factory=list)
    notices: list[Issue] = field(default_factory=list)

    def add_refusal(
        self,
        reason: Reason,
        message: str,
        path: tuple[str, ...] = (),
        *,
        hint: str = "",
        withheld: Sequence[Change] = (),
        origin: ValueOrigin | None = None,
    ) -> None:
        """Add a refusal; ``withheld`` are the changes that it withholds, ``origin`` its cause in another document."""
        self.refusals.append(Issue(reason, message, path, hint, tuple(withheld), origin))

    def add_notice(self, reason: Reason, message: str, path: tuple[str, ...] = ()) -> None:
        """Add a notice, which withholds no change."""
        self.notices.append(Issue(reason, message, path))

    def refuse_internal(self, message: str, path: tuple[str, ...] = (), *, withheld: Sequence[Change] = ()) -> None:
        """Refuse a change of a topic that Kafka or topiarist keeps its own data in."""
        self.add_refusal(Reason.INTERNAL_TOPIC, message, path, hint=self.internal_hint, withheld=withheld)

    @property
    def internal_owner(self) -> str:
        """Return the software that keeps its own data in the topic; empty if none does."""
        return self.context.cluster.internal_owner(self.spec.topic)

    @property
    def internal_hint(self) -> str:
        """Return what to do with the manifest of an internal topic; empty for other topics."""
        return self.context.cluster.internal_hint(self.spec.topic)

    def refuse_other_owner(self, record: OwnershipRecord) -> None:
        """Refuse the topic because its ownership record names another owner."""
        self.add_refusal(
            Reason.NOT_OWNED,
            f"belongs to owner {record.owner}, this run is {self.context.options.owner}",
            hint=f"leave it to its owner, or pass --take-ownership={self.spec.topic}",
        )

    def refuse_invalid_config(self, config: Mapping[str, str], change: Change) -> bool:
        """Refuse ``change`` if ``config``, all overrides after it, is invalid; return whether it is."""
        # The brokers validate the whole map when they load it, so one invalid key makes them ignore all others.
        errors = self.context.find_config_errors(config)
        if errors:
            message = "the config after the change would be invalid: " + "; ".join(error.message for error in errors)
            hint = config_hint(errors, self.spec.config)
            self.add_refusal(Reason.CONFIG_INVALID, message, ("config",), hint=hint, withheld=(change,))
        return bool(errors)

    def notice_ignored_configs(self) -> None:
        """Add a notice for each config of the spec that the Kafka version of the cluster has dropped.

        None for one that the manifest ignores: that notice would say that the values differ.
        """
        if DEPRECATED_CONFIGS.isdisjoint(self.spec.config):
            return  # only a deprecated config can be dropped
        for key, text in self.spec.config.items():
            if self.context.is_ignored(key) and f"config.{key}" not in self.spec.ignored_fields:
                message = f"{key} {text}: {config_rules.dropped_message(key)}"
                self.add_notice(Reason.IGNORED, message, ("config", key))

    @property
    def moves_replicas(self) -> bool:
        """Return whether the plan moves replicas of the topic."""
        return any(isinstance(change, MoveReplicas) for change in self.changes)

    def has_refusal(self, reason: Reason) -> bool:
        """Return whether the topic has a refusal with this reason."""
        return any(refusal.reason is reason for refusal in self.refusals)


def version_warning(rules: ConfigRules, key: str, min_version: KafkaVersion) -> str:
    """Return why the cluster may not know ``key``; empty if it does.

    The result is also empty if the Kafka version is declared and the brokers were not asked, if ``key`` is not one of
    Kafka's, or if the cluster ignores it. ``min_version`` is the minimum version that the cluster shows.
    """
    if key not in config_table.TOPIC_CONFIGS or rules.is_ignored(key, min_version):
        return ""
    if rules.known_configs is not None:
        since = format_version(config_table.TOPIC_CONFIGS[key].since)
        absent = f"{key}: the brokers do not have it; Apache Kafka has it from {since} on"
        return "" if key in rules.known_configs else absent
    if rules.version is not None or config_rules.is_supported(key, min_version):
        return ""
    since, seen = format_version(config_table.TOPIC_CONFIGS[key].since), format_version(min_version)
    return f"{key}: needs Kafka {since}; the cluster is certain to have only {seen} or later"


def version_hint(rules: ConfigRules) -> str:
    """Return the hint for a config that the cluster may not know."""
    return HINT_DECLARE_VERSION if rules.known_configs is None else HINT_LEAVE_OUT


def config_hint(errors: Sequence[ConfigError], manifest_keys: Collection[str]) -> str:
    """Return the hint for errors in a complete map of overrides.

    ``manifest_keys`` are the keys of the manifest.
    """
    keys = sorted({error.key for error in errors})
    hints = []
    if unknown := [key for key in keys if key not in config_table.TOPIC_CONFIGS]:
        hints.append(
            f"if the brokers know {', '.join(unknown)}, set allowUnknownConfigs: [{', '.join(map(quote, unknown))}] "
            "in the Cluster; if not, delete the unknown configs with kafka-configs"
        )
    # Two keys may contradict each other and only one be in the manifest: the hint names what its author can change.
    known = [key for key in keys if key in config_table.TOPIC_CONFIGS]
    if in_manifest := [key for key in known if key in manifest_keys]:
        hints.append(f"change {', '.join(in_manifest)} in the manifest")
    if outside_manifest := [key for key in known if key not in manifest_keys]:
        hints.append(f"add {', '.join(outside_manifest)} to the manifest, with a valid value")
    return "; ".join(hints)


def min_replica_count(topic: TopicState) -> int:
    """Return the smallest replica count of a partition; 0 without partitions."""
    return min(map(count_replicas, topic.replicas), default=0)


# Reports problems from before the run: of a topic, and stale entries of the reassignment request.
#
# ``planner`` calls ``find_problems`` after ``diff``. A problem that a change fixes, or that is already a refusal, is
# not reported again.
#
# If a topic is deleted during a reassignment, a controller in ZooKeeper mode keeps the topic's entry in the request.
# The entry has no effect until another broker becomes controller; then it moves any topic of that name. The adapter
# finds such entries; through the brokers there are none. Every plan, ``describe`` and ``drift`` report the entries, and
# a creation or deletion of such a topic is refused.

_MAX_SHOWN_ENTRIES = 8

NAMED_BY_REQUEST = "a reassignment request names it"


def find_problems(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Add a notice for each existing problem that no change fixes."""
    if (
        topic.config == builder.spec.config
        and topic.has_contiguous_partitions
        and not may_have_problems(topic.config, {*map(count_replicas, topic.replicas)}, builder.context.oldest_version)
    ):
        return  # the usual case
    is_validated = builder.has_refusal(Reason.CONFIG_INVALID) or any(
        isinstance(change, UpdateConfig) for change in builder.changes
    )
    # A config equal to the manifest was validated when the manifest was loaded.
    if not is_validated and topic.config != builder.spec.config:
        for error in builder.context.find_config_errors(topic.config):
            builder.add_notice(Reason.EXISTING_PROBLEM, f"on the cluster is {error.message}", ("config",))
    malformed = builder.has_refusal(Reason.PARTITIONS_MALFORMED)
    if (found := describe_malformed_partitions(topic)) and not malformed:
        builder.add_notice(Reason.EXISTING_PROBLEM, f"{found}: it cannot grow", ("partitions",))
    if () in topic.replicas:
        pairs = zip(topic.partition_ids, topic.replicas, strict=True)
        # A refusal of a malformed topic already reports partition 0.
        if empty := [number for number, replicas in pairs if not replicas and not (malformed and number == 0)]:
            message = f"no replicas on the cluster for partition {shorten_list(empty)}"
            builder.add_notice(Reason.EXISTING_PROBLEM, message, ("partitions",))
    # If the manifest has a replication factor, ``diff`` refuses or ignores every other one.
    if builder.spec.replication_factor is None and (unequal := describe_unequal_replication_factors(topic)):
        builder.add_notice(Reason.EXISTING_PROBLEM, unequal, ("replicationFactor",))
    config = config_after(topic.config, builder.changes)
    if message := small_segment_message(config):
        builder.add_notice(Reason.EXISTING_PROBLEM, message, ("config", "segment.bytes"))
    fewest = min_replica_count(topic)
    if is_min_isr_above(config, fewest, builder.context.oldest_version):
        min_isr, replicas = config["min.insync.replicas"], format_count(fewest, "replica")
        message = f"min.insync.replicas {min_isr}: a partition has only {replicas}: writes with acks=all fail"
        builder.add_notice(Reason.EXISTING_PROBLEM, message, ("config", "min.insync.replicas"))


def may_have_problems(
    config: Mapping[str, str], replica_counts: Collection[int], oldest: KafkaVersion = MIN_KAFKA_VERSION
) -> bool:
    """Return whether ``find_problems`` may find one: its cheap half, which drift reports share.

    It is for topics with the config of their manifest and without holes in their partition ids. ``replica_counts`` are
    those of all partitions, and ``oldest`` is the oldest version that the brokers may have.
    """
    return (
        len(replica_counts) != 1
        or 0 in replica_counts
        or is_min_isr_above(config, min(replica_counts), oldest)
        or bool(small_segment_message(config))
    )


class StaleEntry(NamedTuple):
    """The effect of a stale entry, and the hint how to remove it."""

    message: str
    hint: str


_HINT_IF_ABSENT = (
    "let another broker become controller before the topic is created, which drops the entry; or request a"
    " reassignment of that partition through Kafka's Admin API"
)
_HINT_IF_PRESENT = (
    "before that, request the present replicas of the topic, with kafka-reassign-partitions --bootstrap-server"
)


def explain_stale_entry(topic_exists: bool | None = None) -> StaleEntry:
    """Return the effect of a stale entry and a hint.

    ``topic_exists`` is whether a topic of that name exists now; None if that is not known.
    """
    if topic_exists:
        cause, moved, hint = "and is older than the topic", "the topic", _HINT_IF_PRESENT
    elif topic_exists is None:
        cause, moved = "from an earlier topic of this name", "the present or a later topic"
        hint = f"if the topic exists, {_HINT_IF_PRESENT}; if not, {_HINT_IF_ABSENT}"
    else:
        cause, moved, hint = "from an earlier topic of this name", "a new topic", _HINT_IF_ABSENT
    return StaleEntry(f"{NAMED_BY_REQUEST}, {cause}: the next controller will move {moved} accordingly", hint)


def stale_entry_warnings(names: Collection[str], topics: Collection[str]) -> Iterator[str]:
    """Yield a warning for each stale entry of a cluster, with its hint."""
    sorted_names = sorted(names)
    for name in sorted_names[:_MAX_SHOWN_ENTRIES]:
        stale_entry = explain_stale_entry(name in topics)
        yield f"{printable(name)}: {stale_entry.message}. {stale_entry.hint[0].upper()}{stale_entry.hint[1:]}"
    if (left := len(sorted_names) - _MAX_SHOWN_ENTRIES) > 0:
        yield f"the reassignment request has stale entries of {format_count(left, 'more topic')}"


# Changes that the cluster can make for no user. A plan is made first, so that it shows what it would do; ``reconcile``
# then withholds these changes, and a writer asks again directly before it writes.

_NEEDED: Mapping[type[Change], Sequence[str]] = {
    CreateTopic: ("creation",),
    AddPartitions: ("growth",),
    UpdateConfig: ("config_changes",),
    DeleteTopic: ("deletion",),
    MoveReplicas: ("moves",),
    ElectLeaders: ("elections",),
}
"""The capabilities that each kind of change needs, by name; throttled moves need throttles too."""


def find_impossible(capabilities: Capabilities, topics: Iterable[TopicPlan]) -> dict[str, list[Issue]]:
    """Return by topic the changes that the cluster cannot make for any user, one refusal for each kind of change."""
    found: dict[str, list[Issue]] = {}
    if not any(each.is_missing for _, each in capabilities.items()):
        return found
    for topic in topics:
        for kind, names in _NEEDED.items():
            changes = [change for change in topic.changes if isinstance(change, kind)]
            if changes and is_throttled(topic, changes):
                names = (*names, "throttles")
            supports = [getattr(capabilities, name) for name in names] if changes else []
            if why := next((each.why for each in supports if each.is_missing), ""):
                issue = Issue(Reason.NOT_OFFERED, why, withheld=tuple(changes))
                found.setdefault(topic.topic, []).append(issue)
    return found


def is_throttled(topic: TopicPlan, changes: Sequence[Change]) -> bool:
    """Return whether these changes copy replicas at a limited rate."""
    copies = sum(change.copies for change in changes if isinstance(change, MoveReplicas))
    return bool(copies and topic.spec and topic.spec.cluster.moves.throttle != UNLIMITED)
