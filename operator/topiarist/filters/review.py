"""Filters a plan by a reviewed plan, and checks a saved plan again before it is applied.

A plan file from a branch is not trusted: its replica lists could put the load of a cluster, or all replicas of a
partition, on chosen brokers. Therefore ``apply`` makes a new plan and keeps only the changes that the reviewed plan has
too. The reviewed replica lists are used as long as they are possible and plausible (``BrokerSets``). A plan that is
applied from its file alone is checked against the current ``Cluster`` document. A review never adds a change.
``runs.modes`` calls this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.filters.chain import filter_changes
from topiarist.kafka.types import Broker, Replicas, are_unplaced
from topiarist.model.moves import MoveKind, ReplicaMove
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Issue,
    MoveReplicas,
    Plan,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    config_after,
    withhold,
)
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState
from topiarist.planning.builder import (
    HINT_PROTECTED_TOPIC,
    find_placed_by_brokers,
    find_unkept_placement,
    make_move_refusal,
    version_hint,
    version_warning,
)
from topiarist.planning.moves.topic import KINDS_OF_PROTECTED_TOPICS, find_low_replica_count, find_missing_throttle
from topiarist.planning.risk import assess_elections, assess_moves

# Decides whether reviewed replica lists can be used in place of those of a new plan.
#
# A plan file from a branch is not trusted, so its lists must be possible and plausible: the brokers are those of the
# review, and no broker gets far more than a new plan would give it.

_MAX_LOAD_FACTOR = 2
"""Maximum load of a broker, as a multiple of the load planned now.

With fewer brokers at the review each broker got more replicas, but not a multiple.
"""


class BrokerSets(Struct, frozen=True):
    """The reviewed, the current and the excluded brokers.

    ``excluded`` brokers get no new replicas.
    """

    reviewed: Mapping[int, Broker]
    current: Mapping[int, Broker]
    excluded: Collection[int]

    def unavailable_reason(self, replicas: Iterable[Replicas]) -> str:
        """Return why reviewed replica lists cannot be used; empty if they can."""
        for broker in sorted({broker for brokers in replicas for broker in brokers}):
            if broker in self.excluded:
                return f"its reviewed replica lists name broker {broker}, which this run excludes from new replicas"
            if broker not in self.current:
                return f"its reviewed replica lists name broker {broker}, which is not registered"
            if self.reviewed.get(broker) != self.current[broker]:
                return (
                    f"its reviewed replica lists name broker {broker}, which was in another rack or not registered then"
                )
        return ""

    def implausible_reason(self, planned: Sequence[Replicas], reviewed: Sequence[Replicas]) -> str:
        """Return why no planner would make the reviewed lists; empty if one would.

        The reviewed lists are compared with the lists that the planner makes now; neither may have an empty list.
        """
        planned_racks, reviewed_racks = (
            min(len(set(map(self._find_rack, replicas))) for replicas in lists) for lists in (planned, reviewed)
        )
        if reviewed_racks < planned_racks:
            return "its reviewed replica lists keep a partition in fewer racks than the lists of a new plan"
        for verb, length in (("leads", 1), ("holds", None)):  # the first replica is the preferred leader
            (broker, count), (_, planned_count) = (
                Counter(broker for replicas in lists for broker in replicas[:length]).most_common(1)[0]
                for lists in (reviewed, planned)
            )
            if count > _MAX_LOAD_FACTOR * planned_count:
                return (
                    f"with its reviewed replica lists broker {broker} {verb} {count:,} of its partitions, "
                    f"with the lists of a new plan at most {planned_count:,}"
                )
        return ""

    def _find_rack(self, broker: int) -> object:
        # A replica that stays may be on a broker that is not registered, which counts as a rack of its own.
        return self.current[broker].rack if broker in self.current else broker


ReviewedChange = tuple[Change, str]
"""A part of a change, and the reason not to apply it; empty if it may be applied."""


def describe_risk_increase(reviewed: RiskAssessment, planned: RiskAssessment) -> str:
    """Return how a change is riskier than it was at the review; empty if it is not."""
    if planned.risk <= reviewed.risk:
        return ""
    return f"was reviewed as {reviewed.risk.label}, and is {planned.risk.label} now: {planned.explanation}"


# Reviews the moves of a topic partition by partition, and checks those of a saved plan against the cluster.
#
# Where a replica goes depends on the counts of all brokers, so a new plan may choose other brokers than the reviewed
# one, although it moves the same replicas for the same reason. The reviewed lists are then used: they are what people
# agreed to, and an interrupted run goes on with the same targets. ::
#
#     partition, list before and list after are equal        applied
#     another list after, possible and plausible             applied with the reviewed list
#     not in the reviewed plan, or another list before       withheld
#     reviewed, and not planned any more                     done already, or not needed: nothing to apply


class _Part(NamedTuple):
    """A move to apply, or the planned move with the reason against it."""

    move: ReplicaMove
    why: str = ""


def review_moves(
    topic: TopicPlan, change: MoveReplicas, reviewed: MoveReplicas, brokers: BrokerSets
) -> list[ReviewedChange]:
    """Return the moves with their reviewed lists as one change, and for each reason those that are withheld."""
    whole = _continue_spread(topic, change, reviewed, brokers)
    parts = [_Part(move) for move in whole] if whole else _review_partitions(change, reviewed, brokers)
    kept = tuple(part.move for part in parts if not part.why)
    withheld: dict[str, list[ReplicaMove]] = {}
    for part in parts:
        if part.why:
            withheld.setdefault(part.why, []).append(part.move)
    found: list[ReviewedChange] = []
    if kept:
        assessment = assess_moves(kept)
        found.append((MoveReplicas(kept, assessment), describe_risk_increase(reviewed.assessment, assessment)))
    for why, moves in withheld.items():
        ids = _join(move.partition for move in moves)
        found.append((MoveReplicas(tuple(moves), assess_moves(moves)), f"partition {ids}: {why}"))
    return found


def _review_partitions(change: MoveReplicas, reviewed: MoveReplicas, brokers: BrokerSets) -> list[_Part]:
    reviewed_moves = {move.partition: move for move in reviewed.moves}
    parts = [_review_move(move, reviewed_moves.get(move.partition), brokers) for move in change.moves]
    pairs = list(zip(change.moves, (part.move for part in parts), strict=True))
    # A withheld move counts with its planned list on both sides.
    why = brokers.implausible_reason([planned.after for planned, _ in pairs], [used.after for _, used in pairs])
    return [
        _Part(planned, why) if why and planned != part.move else part
        for (planned, _), part in zip(pairs, parts, strict=True)
    ]


def _review_move(planned: ReplicaMove, reviewed: ReplicaMove | None, brokers: BrokerSets) -> _Part:
    if reviewed is None:
        return _Part(planned, "the reviewed plan does not move it")
    if planned.before != reviewed.before:
        was, now = list(reviewed.before), list(planned.before)
        return _Part(planned, f"was on {was} at the review, and is on {now} now")
    if planned.after == reviewed.after:
        return _Part(planned)
    why = _find_list_difference(planned, reviewed) or brokers.unavailable_reason([reviewed.added])
    return _Part(planned, why) if why else _Part(reviewed)


def _find_list_difference(planned: ReplicaMove, reviewed: ReplicaMove) -> str:
    """Return why two lists differ in more than the brokers that get a replica; empty if they do not."""
    if planned.kinds != reviewed.kinds:
        then, now = (" and ".join(kind.value for kind in move.kinds) for move in (reviewed, planned))
        return f"was reviewed for {then}, and is moved for {now} now"
    if MoveKind.ASSIGNMENT in planned.kinds:
        return "was reviewed with another list than that of the manifest"
    if len(planned.after) != len(reviewed.after) or len(planned.added) < len(reviewed.added):
        return "was reviewed with another number of replicas, or of copies"
    if MoveKind.SPREAD in planned.kinds:
        return ""  # which replicas stay is the result of the whole topic
    kept = [broker if broker in planned.before else None for broker in planned.after]
    if kept != [broker if broker in reviewed.before else None for broker in reviewed.after]:
        return "was reviewed with other replicas that stay"
    return ""


def _continue_spread(
    topic: TopicPlan, change: MoveReplicas, reviewed: MoveReplicas, brokers: BrokerSets
) -> Sequence[ReplicaMove]:
    """Return the reviewed moves that are left of a topic that is only spread; empty if they cannot be used.

    A new plan of a topic that is spread in part may move other partitions to the same end. The reviewed rest is used if
    it copies no more than the new plan.
    """
    if any(move.kinds != (MoveKind.SPREAD,) for move in (*change.moves, *reviewed.moves)) or topic.before is None:
        return ()
    lists = dict(zip(topic.before.partition_ids, topic.before.replicas, strict=True))
    in_flight = topic.before.reassigning_partitions
    rest = [
        move for move in reviewed.moves if lists.get(move.partition) == move.before and move.partition not in in_flight
    ]
    after, planned_after = dict(lists), dict(lists)
    after.update((move.partition, move.after) for move in rest)
    planned_after.update((move.partition, move.after) for move in change.moves)
    if sum(len(move.added) for move in rest) > change.copies or any(
        len(move.before) != len(move.after) for move in rest
    ):
        return ()
    why = brokers.unavailable_reason([move.added for move in rest]) or brokers.implausible_reason(
        tuple(filter(None, planned_after.values())), tuple(filter(None, after.values()))
    )
    return () if why else rest


def find_move_issue(
    topic: TopicPlan, change: MoveReplicas, cluster: ClusterSpec, state: ClusterState, planned: Collection[int]
) -> Issue | None:
    """Return why ``cluster`` does not permit the moves of a saved plan now; None if it does.

    ``planned`` are the brokers that were registered when the plan was made. A broker that went offline since is a
    conflict, which ``planning.preconditions`` finds.
    """
    kinds = {kind for move in change.moves for kind in move.kinds}
    if forbidden := sorted(kind.value for kind in kinds - cluster.moves.allow):
        names = ", ".join(forbidden)
        message = f"spec.moves of the Cluster does not allow {names} moves"
        return Issue(Reason.MOVE_NOT_ALLOWED, message, hint=f"allow {names} in spec.moves of the Cluster")
    if cluster.internal_owner(topic.topic) or cluster.is_protected(topic.topic):
        if not cluster.moves.protected:
            message = "belongs to other software, and spec.moves.protected of the Cluster is not true"
            return Issue(Reason.PROTECTED_TOPIC, message, hint="set spec.moves.protected: true in the Cluster")
        if not kinds <= KINDS_OF_PROTECTED_TOPICS:
            message = "belongs to other software, which relies on its replicas: only Drain and Racks may move them"
            return Issue(Reason.PROTECTED_TOPIC, message, hint="make a new plan")
    added = {broker for move in change.moves for broker in move.added}
    if excluded := added & (cluster.exclude_brokers | cluster.drain_brokers):
        message = f"broker {_join(excluded)} takes no replicas (drainBrokers or excludeBrokers)"
        return Issue(Reason.EXCLUDED_BROKERS, message, hint="make a new plan")
    if unknown := added.difference(planned):
        message = f"broker {_join(unknown)} was not registered when the plan was made"
        return Issue(Reason.UNKNOWN_BROKERS, message, hint="make a new plan")
    if (issue := find_missing_throttle(change, cluster.moves.throttle)) or topic.topic not in state.topics:
        return issue
    config: Mapping[str, str] = config_after(state.topics[topic.topic].config, topic.changes)
    rules = cluster.config_rules.for_cluster(state.mode, state.known_configs)
    return find_low_replica_count(change, config, rules.merge_dynamic_settings(state.broker_defaults))


def _join(numbers: Collection[int] | Iterator[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


ReplicaChange = TypeVar("ReplicaChange", CreateTopic, AddPartitions)

_HINT_REVIEW_AGAIN = "make a plan of the merged manifests, have it reviewed, and apply again"


def filter_unreviewed(plan: Plan, reviewed: Plan, without_brokers: Collection[int] = ()) -> Plan:
    """Return ``plan`` with only the changes that ``reviewed`` has too.

    Both plans are for the same cluster. Topic, kind, before and after must be equal; of a config update each key counts
    by itself, of a move each partition. Reviewed replica lists are used if they differ from the planned ones only in
    their brokers, and these brokers are still registered in the same racks. The brokers of ``without_brokers`` and of
    the cluster's ``excludeBrokers`` and ``drainBrokers`` get no replicas. A change that is riskier than its review
    showed is withheld.
    """
    reviewed_topics = {topic.topic: topic for topic in reviewed.actionable_topics()}
    reviewed_brokers, current_brokers = ({broker.id: broker for broker in each.brokers} for each in (reviewed, plan))
    topics = []
    for topic in plan.topics:
        if topic.is_actionable:
            of_cluster = topic.spec.cluster.exclude_brokers if topic.spec else frozenset()
            excluded = {*without_brokers, *of_cluster, *plan.drain_brokers}
            topic = _review_topic(
                topic, reviewed_topics.get(topic.topic), BrokerSets(reviewed_brokers, current_brokers, excluded)
            )
        topics.append(topic)
    return replace(plan, topics=tuple(topics))


def already_satisfied(plan: Plan, reviewed: Plan) -> tuple[str, ...]:
    """Return the topics of ``reviewed`` that need no change in ``plan``.

    ``plan`` has neither a change nor a refusal of such a topic.
    """
    open_topics = {topic.topic for topic in plan.topics if topic.changes or topic.refusals}
    return tuple(topic.topic for topic in reviewed.actionable_topics() if topic.topic not in open_topics)


def recheck_saved_plan(
    plan: Plan,
    cluster: ClusterSpec,
    state: ClusterState,
    *,
    planned_brokers: Iterable[Broker],
    allow_unknown_brokers: bool = False,
) -> Plan:
    """Return a saved plan without the changes that ``cluster`` forbids now.

    A saved plan has no specs. The check covers excluded and drained brokers, protected topics, configs that the Kafka
    version or the vendor does not know, and the permissions of moves. New replicas are allowed only on
    ``planned_brokers``, the brokers registered when the plan was made, unless ``allow_unknown_brokers``; moved replicas
    never elsewhere. ``state`` is that of the cluster, and the brokers and the minimum Kafka version of ``plan``
    itself may be its current ones.
    """
    planned_ids = {broker.id for broker in planned_brokers}
    without_replicas = cluster.exclude_brokers | cluster.drain_brokers
    placed_by_brokers = find_placed_by_brokers(cluster, state.capabilities).creations

    def find_issue(topic: TopicPlan, change: Change) -> Issue | None:
        if isinstance(change, CreateTopic | AddPartitions):
            if are_unplaced(change.replicas):
                return find_unkept_placement(cluster, without_replicas, plan.placed_by_brokers)
            named = {broker for replicas in change.replicas for broker in replicas}
            if excluded := sorted(named & without_replicas):
                ids = ", ".join(map(str, excluded))
                message = f"excludeBrokers or drainBrokers excludes broker {ids} from new replicas"
                return Issue(Reason.EXCLUDED_BROKERS, message, hint="make a new plan")
            if not allow_unknown_brokers and (unknown := sorted(named - planned_ids)):
                message = f"broker {', '.join(map(str, unknown))} was not registered when the plan was made"
                return Issue(Reason.UNKNOWN_BROKERS, message, hint="to allow this, pass --allow-unknown-brokers")
        if isinstance(change, MoveReplicas) and placed_by_brokers:
            return make_move_refusal(placed_by_brokers)
        if isinstance(change, ElectLeaders) and MoveKind.LEADERS not in cluster.moves.allow:
            message = "spec.moves of the Cluster does not allow the election of preferred leaders"
            return Issue(Reason.MOVE_NOT_ALLOWED, message, hint="allow Leaders in spec.moves of the Cluster")
        if _is_denied_if_protected(change) and (
            cluster.is_protected(topic.topic) or cluster.internal_owner(topic.topic)
        ):
            message = "belongs to other software, which relies on its present state"
            hint = f"{HINT_PROTECTED_TOPIC} (--clusters gives the document)"
            return Issue(Reason.PROTECTED_TOPIC, message, hint=hint)
        if isinstance(change, MoveReplicas):
            return find_move_issue(topic, change, cluster, state, planned_ids)
        return _find_config_issue(change, cluster, state)

    return filter_changes(plan, find_issue)


def _find_config_issue(change: Change, cluster: ClusterSpec, state: ClusterState) -> Issue | None:
    values: Mapping[str, str] = {}
    new_keys: Collection[str] = ()
    if isinstance(change, CreateTopic):
        values = new_keys = change.config
    elif isinstance(change, UpdateConfig):
        values = {item.key: item.after for item in change.items if item.after is not None}
        new_keys = {item.key for item in change.items if item.before is None}
    rules = cluster.config_rules.for_cluster(state.mode, state.known_configs)
    if problems := [problem for key, text in values.items() if (problem := rules.config_problem(key, text))]:
        hint = "make a new plan with the present Cluster"
        if cluster.source is None:
            hint += ", or pass its Cluster document with --clusters"
        return Issue(Reason.CONFIG_INVALID, "; ".join(message for message, _ in problems), ("config",), hint)
    messages = (version_warning(rules, key, state.min_version) for key in values if key in new_keys)
    too_new = [*filter(None, messages)]
    return Issue(Reason.CONFIG_TOO_NEW, "; ".join(too_new), ("config",), version_hint(rules)) if too_new else None


def _is_denied_if_protected(change: Change) -> bool:
    if isinstance(change, UpdateConfig):
        return any(item.key == "cleanup.policy" for item in change.items)
    return isinstance(change, AddPartitions | DeleteTopic)


def _review_topic(topic: TopicPlan, reviewed: TopicPlan | None, broker_sets: BrokerSets) -> TopicPlan:
    if reviewed is None:
        return _withhold(topic, topic.changes, "the reviewed plan does not change this topic")
    if why := _identity_conflict(topic, reviewed):
        return _withhold(topic, topic.changes, why)
    parts = [part for change in topic.changes for part in _review_change(topic, change, reviewed, broker_sets)]
    topic = replace(topic, changes=tuple(change for change, _ in parts))
    for change, why in parts:
        if why:
            topic = _withhold(topic, (change,), why)
    return topic


def _withhold(topic: TopicPlan, changes: Sequence[Change], message: str) -> TopicPlan:
    return withhold(topic, changes, Issue(Reason.NOT_REVIEWED, message, hint=_HINT_REVIEW_AGAIN))


def _identity_conflict(topic: TopicPlan, reviewed: TopicPlan) -> str:
    """Return why a topic is not the reviewed one; empty if it is."""
    now, then = topic.before, reviewed.before
    if now is None or then is None:
        if now is then:
            return ""
        return "did not exist at the review, and exists now" if now else "existed at the review, and does not exist now"
    if now.identity != then.identity:
        return "was deleted and recreated after the review, so it is a different topic"
    owner_now, owner_then, owner_after = (
        f"owner {record.owner}" if record else "no owner"
        for record in (now.valid_record, then.valid_record, reviewed.record_after)
    )
    # An interrupted run has written the record of a topic that it adopts before it moves the first replica.
    is_begun = bool(reviewed.moves()) and owner_now == owner_after
    return "" if owner_now == owner_then or is_begun else f"had {owner_then} at the review, and has {owner_now} now"


def _review_change(
    topic: TopicPlan, change: Change, reviewed: TopicPlan, broker_sets: BrokerSets
) -> list[ReviewedChange]:
    reviewed_change = next((other for other in reviewed.changes if type(other) is type(change)), None)
    match change, reviewed_change:
        case _, None:
            return [(change, "the reviewed plan has no change of this kind for the topic")]
        case UpdateConfig(), UpdateConfig():
            return _review_update(change, reviewed_change)
        case ElectLeaders(), ElectLeaders():
            return _review_election(change, reviewed_change)
        case CreateTopic(), CreateTopic():
            why = "was reviewed with another config" if change.config != reviewed_change.config else ""
            return [_review_replicas(topic, change, reviewed_change, broker_sets, why)]
        case AddPartitions(before=before, first_replicas=first), AddPartitions():
            is_same = (before, first) == (reviewed_change.before, reviewed_change.first_replicas)
            why = "" if is_same else "had other partitions at the review"
            return [_review_replicas(topic, change, reviewed_change, broker_sets, why)]
        case MoveReplicas(), MoveReplicas():
            return review_moves(topic, change, reviewed_change, broker_sets)
    is_same = change == reviewed_change
    if isinstance(change, TakeOwnership):  # has no fields: its content is the ownership record before and after
        is_same = (topic.record_before, topic.record_after) == (reviewed.record_before, reviewed.record_after)
    return [(change, "" if is_same else "was reviewed with other values")]


def _review_update(change: UpdateConfig, reviewed: UpdateConfig) -> list[ReviewedChange]:
    """Return the reviewed keys and the other keys, each as one change; either change may be missing."""
    reviewed_risks = {(item.key, item.before, item.after): item.assessment for item in reviewed.items}
    differences = {}
    for item in change.items:
        risk = reviewed_risks.get((item.key, item.before, item.after))
        why = describe_risk_increase(risk, item.assessment) if risk else "the reviewed plan does not have this change"
        if why:
            differences[item] = f"{item.key}: {why}"
    parts: list[ReviewedChange] = []
    if agreed := tuple(item for item in change.items if item not in differences):
        parts.append((UpdateConfig(agreed), ""))
    if differences:
        parts.append((UpdateConfig(tuple(differences)), "; ".join(differences.values())))
    return parts


def _review_election(change: ElectLeaders, reviewed: ElectLeaders) -> list[ReviewedChange]:
    """Return the reviewed elections and the others, each as one change; either change may be missing.

    Which broker leads a partition before its election may have changed since the review.
    """
    agreed = {(each.partition, each.after) for each in reviewed.partitions}
    parts: list[ReviewedChange] = []
    for is_reviewed, why in ((True, ""), (False, "the reviewed plan does not elect these leaders")):
        if found := tuple(
            each for each in change.partitions if ((each.partition, each.after) in agreed) is is_reviewed
        ):
            parts.append((ElectLeaders(found, assess_elections(found)), why))
    return parts


def _review_replicas(
    topic: TopicPlan, change: ReplicaChange, reviewed: ReplicaChange, broker_sets: BrokerSets, why: str
) -> ReviewedChange:
    """Return ``change`` with the reviewed replica lists, or with a reason against it."""
    why = (
        why
        or describe_risk_increase(reviewed.assessment, change.assessment)
        or _replica_difference(topic, change.replicas, reviewed.replicas, broker_sets)
    )
    return (change, why) if why else (replace(change, replicas=reviewed.replicas), "")


def _replica_difference(
    topic: TopicPlan, planned: tuple[Replicas, ...], reviewed: tuple[Replicas, ...], broker_sets: BrokerSets
) -> str:
    if planned == reviewed:
        return ""
    if list(map(len, planned)) != list(map(len, reviewed)):
        return "was reviewed with another number of partitions or replicas"
    if are_unplaced(planned) or are_unplaced(reviewed):
        return "was reviewed with another choice of brokers: one plan lists them, the other leaves them to the cluster"
    if topic.spec and topic.spec.assignment is not None:
        return "was reviewed with other replica lists than those of the manifest"
    return broker_sets.unavailable_reason(reviewed) or broker_sets.implausible_reason(planned, reviewed)
