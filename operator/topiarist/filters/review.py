"""Filters a plan by a reviewed plan, and checks a saved plan again before it is applied.

A plan file from a branch is not trusted: its replica lists could put the load of a cluster, or all replicas of a
partition, on chosen brokers. Therefore ``apply`` makes a new plan and keeps only the changes that the reviewed plan has
too. The reviewed replica lists are used as long as they are possible and plausible. A plan that is applied from its
file alone is checked against the current ``Cluster`` document. A review never adds a change. ``cli.apply.modes`` calls
this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from topiarist.errors import Reason
from topiarist.filters.permissions import filter_changes, filter_unapproved
from topiarist.kafka.types import Broker, KafkaVersion, Replicas
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    Issue,
    Plan,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    withhold,
)
from topiarist.model.run_options import RiskApproval
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import OwnershipRecord
from topiarist.planning.builder import HINT_DECLARE_VERSION, version_warning

_MAX_LOAD_FACTOR = 2
"""Maximum load of a broker, as a multiple of the load planned now.

The reviewed lists may have been planned with fewer brokers.
"""


@dataclass(frozen=True, slots=True)
class BrokerSets:
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
                return f"its replica lists name broker {broker}, which gets no new replicas"
            if broker not in self.current:
                return f"its replica lists name broker {broker}, which is not registered"
            if self.reviewed.get(broker) != self.current[broker]:
                return f"its replica lists name broker {broker}, which was reviewed in another rack or not at all"
        return ""

    def implausible_reason(self, planned: Sequence[Replicas], reviewed: Sequence[Replicas]) -> str:
        """Return why no planner would make the reviewed lists; empty if one would.

        The reviewed lists are compared with the lists that the planner makes now; neither may have an empty list. With
        fewer brokers each broker gets more replicas, but not a multiple.
        """
        if min(map(self._count_racks, reviewed)) < min(map(self._count_racks, planned)):
            return "its replica lists keep a partition in fewer racks than it would get now"
        for verb, first in (("leads", 1), ("holds", None)):
            (broker, number), (_, usual) = (_most_loaded_broker(lists, first) for lists in (reviewed, planned))
            if number > _MAX_LOAD_FACTOR * usual:
                return (
                    f"with its replica lists broker {broker} {verb} {number:,} of its partitions, at most {usual:,} now"
                )
        return ""

    def _count_racks(self, replicas: Replicas) -> int:
        return len({self.current[broker].rack for broker in replicas})


def _most_loaded_broker(lists: Sequence[Replicas], first: int | None) -> tuple[int, int]:
    """Return the most frequent broker and its count.

    ``first`` is the number of replicas to count from the head of each list; None counts all.
    """
    return Counter(broker for replicas in lists for broker in replicas[:first]).most_common(1)[0]


ReplicaChange = TypeVar("ReplicaChange", CreateTopic, AddPartitions)

_HINT_REVIEW_AGAIN = "make a plan of what is merged, have it reviewed, and apply again"


class _ReviewedChange(NamedTuple):
    """A part of a change; ``message`` is the reason not to apply it."""

    change: Change
    message: str = ""


def filter_unreviewed(plan: Plan, reviewed: Plan, without_brokers: Collection[int] = ()) -> Plan:
    """Return ``plan`` with only the changes that ``reviewed`` has too.

    Both plans are for the same cluster. Topic, kind, before and after must be equal; of a config update each key counts
    by itself. Reviewed replica lists are used if they differ from the planned ones only in their brokers, and these
    brokers are still registered in the same racks. The brokers of ``without_brokers`` and of the cluster's
    ``excludeBrokers`` get no replicas. A change that is riskier than its review showed is withheld.
    """
    reviewed_topics = {topic.topic: topic for topic in reviewed.actionable_topics()}
    reviewed_brokers, current_brokers = ({broker.id: broker for broker in each.brokers} for each in (reviewed, plan))
    topics = []
    for topic in plan.topics:
        if topic.is_actionable:
            excluded = {*without_brokers, *(topic.spec.cluster.exclude_brokers if topic.spec else ())}
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


def filter_unapproved_deletions(plan: Plan, approvals: tuple[RiskApproval, ...]) -> Plan:
    """Return ``plan`` with only the deletions that the run allows.

    A reviewed plan alone never allows a deletion.
    """
    deleting = tuple(topic for topic in plan.topics if any(isinstance(change, DeleteTopic) for change in topic.changes))
    allowed = {topic.topic: topic for topic in filter_unapproved(replace(plan, topics=deleting), approvals).topics}
    return replace(plan, topics=tuple(allowed.get(topic.topic, topic) for topic in plan.topics))


def recheck_saved_plan(
    plan: Plan, cluster: ClusterSpec, *, planned_brokers: Iterable[Broker], allow_unknown_brokers: bool = False
) -> Plan:
    """Return a saved plan without the changes that ``cluster`` forbids now.

    A saved plan has no specs. The check covers excluded brokers, protected topics, and configs that the Kafka version
    or the vendor does not know. New replicas are allowed only on ``planned_brokers``, the brokers registered when the
    plan was made, unless ``allow_unknown_brokers``. The brokers and the minimum Kafka version of ``plan`` itself may be
    the current ones of the cluster.
    """
    planned_ids = {broker.id for broker in planned_brokers}

    def judge(topic: TopicPlan, change: Change) -> Issue | None:
        if isinstance(change, CreateTopic | AddPartitions):
            named = {broker for replicas in change.replicas for broker in replicas}
            if excluded := sorted(named & cluster.exclude_brokers):
                message = f"no new replicas in this run for broker {', '.join(map(str, excluded))}"
                return Issue(Reason.EXCLUDED_BROKERS, message, hint="make the plan anew")
            if not allow_unknown_brokers and (unknown := sorted(named - planned_ids)):
                message = f"broker {', '.join(map(str, unknown))} was not registered when the plan was made"
                return Issue(Reason.UNKNOWN_BROKERS, message, hint="if it is meant: --allow-unknown-brokers")
        if _is_denied_if_protected(change) and cluster.is_protected(topic.topic):
            message = "belongs to other software, which relies on it as it is"
            instead = "ask its owner; Cluster.spec.protected lists the names (--clusters gives the document)"
            return Issue(Reason.PROTECTED_TOPIC, message, hint=instead)
        return _find_config_issue(change, cluster, plan.min_version)

    return filter_changes(plan, judge)


def _find_config_issue(change: Change, cluster: ClusterSpec, min_version: KafkaVersion) -> Issue | None:
    """Return the issue with the configs that a change sets, if any.

    Only the configuration of the cluster that the run knows is used.
    """
    sets = list(_configs_to_set(change))
    if problems := [problem for key, text, _ in sets if (problem := cluster.config_rules.config_problem(key, text))]:
        message = "; ".join(found for found, _ in problems)
        instead = "make the plan anew, by the Cluster as it is"
        if cluster.source is None:
            instead += ", or give its Cluster document with --clusters"
        return Issue(Reason.CONFIG_INVALID, message, ("config",), instead)
    if new := [
        message for key, _, new in sets if new and (message := version_warning(cluster.config_rules, key, min_version))
    ]:
        return Issue(Reason.CONFIG_TOO_NEW, "; ".join(new), ("config",), HINT_DECLARE_VERSION)
    return None


def _configs_to_set(change: Change) -> Iterator[tuple[str, str, bool]]:
    """Yield key, value, and whether the key is new, for each config set."""
    if isinstance(change, CreateTopic):
        yield from ((key, text, True) for key, text in change.config.items())
    elif isinstance(change, UpdateConfig):
        yield from ((item.key, item.after, item.before is None) for item in change.items if item.after is not None)


def _is_denied_if_protected(change: Change) -> bool:
    """Return whether a change is never made to protected topics."""
    if isinstance(change, UpdateConfig):
        return any(item.key == "cleanup.policy" for item in change.items)
    return isinstance(change, AddPartitions | DeleteTopic)


def _review_topic(topic: TopicPlan, reviewed: TopicPlan | None, broker_sets: BrokerSets) -> TopicPlan:
    if reviewed is None:
        return _withhold(topic, topic.changes, "the reviewed plan has no change of it")
    if why := _identity_conflict(topic, reviewed):
        return _withhold(topic, topic.changes, why)
    parts = [part for change in topic.changes for part in _review_change(topic, change, reviewed, broker_sets)]
    topic = replace(topic, changes=tuple(part.change for part in parts))
    for part in parts:
        if part.message:
            topic = _withhold(topic, (part.change,), part.message)
    return topic


def _withhold(topic: TopicPlan, changes: Sequence[Change], message: str) -> TopicPlan:
    return withhold(topic, changes, Issue(Reason.NOT_REVIEWED, message, hint=_HINT_REVIEW_AGAIN))


def _identity_conflict(topic: TopicPlan, reviewed: TopicPlan) -> str:
    """Return why a topic is not the reviewed one; empty if it is."""
    if topic.before is None or reviewed.before is None:
        both = topic.before is reviewed.before
        return "" if both else "was there when it was reviewed, or is there now: not both"
    if topic.before.identity != reviewed.before.identity:
        return "another topic of this name was reviewed: it was deleted and made again"
    if _describe_owner(topic) != _describe_owner(reviewed):
        return f"was reviewed as that of {_describe_owner(reviewed)}, and is that of {_describe_owner(topic)}"
    return ""


def _describe_owner(topic: TopicPlan) -> str:
    record = topic.before.valid_record if topic.before else None
    return f"owner {record.owner}" if record else "nobody"


def _review_change(
    topic: TopicPlan, change: Change, reviewed: TopicPlan, broker_sets: BrokerSets
) -> list[_ReviewedChange]:
    reviewed_change = next((other for other in reviewed.changes if type(other) is type(change)), None)
    match change, reviewed_change:
        case _, None:
            return [_ReviewedChange(change, "the reviewed plan has no such change of it")]
        case UpdateConfig(), UpdateConfig():
            return _review_update(change, reviewed_change)
        case CreateTopic(), CreateTopic():
            why = "was reviewed with another config" if change.config != reviewed_change.config else ""
            return [_review_replicas(topic, change, reviewed_change, broker_sets, why)]
        case AddPartitions(), AddPartitions():
            planned_partitions, reviewed_partitions = (
                (change.before, change.first_replicas),
                (reviewed_change.before, reviewed_change.first_replicas),
            )
            why = (
                "was reviewed with other partitions than there are" if planned_partitions != reviewed_partitions else ""
            )
            return [_review_replicas(topic, change, reviewed_change, broker_sets, why)]
    # A ``TakeOwnership`` has no fields: its content is the ownership record before and after.
    same = change == reviewed_change and (
        not isinstance(change, TakeOwnership) or _record_change(topic) == _record_change(reviewed)
    )
    return [_ReviewedChange(change, "" if same else "was reviewed otherwise")]


def _record_change(topic: TopicPlan) -> tuple[OwnershipRecord | None, OwnershipRecord | None]:
    return topic.record_before, topic.record_after


def _review_update(change: UpdateConfig, reviewed: UpdateConfig) -> list[_ReviewedChange]:
    """Return the reviewed keys and the other keys, each as one change.

    Either change may be missing.
    """
    befores = {(item.key, item.before, item.after): item.assessment for item in reviewed.items}
    why = {item: _item_difference(befores.get(item[:3]), item.assessment) for item in change.items}
    parts = []
    if agreed := tuple(item for item in change.items if not why[item]):
        parts.append(_ReviewedChange(UpdateConfig(agreed)))
    if others := tuple(item for item in change.items if why[item]):
        words = "; ".join(f"{item.key}: {why[item]}" for item in others)
        parts.append(_ReviewedChange(UpdateConfig(others), words))
    return parts


def _item_difference(reviewed: RiskAssessment | None, planned: RiskAssessment) -> str:
    return (
        "not in the reviewed plan, or not from and to these values"
        if reviewed is None
        else _risk_increase(reviewed, planned)
    )


def _risk_increase(reviewed: RiskAssessment, planned: RiskAssessment) -> str:
    if planned.risk <= reviewed.risk:
        return ""
    return f"was reviewed as {reviewed.risk.label}, and is {planned.risk.label} now: {planned.explanation}"


def _review_replicas(
    topic: TopicPlan, change: ReplicaChange, reviewed: ReplicaChange, broker_sets: BrokerSets, message: str
) -> _ReviewedChange:
    """Return ``change`` with the reviewed replica lists, or with a reason against it."""
    message = (
        message
        or _risk_increase(reviewed.assessment, change.assessment)
        or _replica_difference(topic, change.replicas, reviewed.replicas, broker_sets)
    )
    return _ReviewedChange(change, message) if message else _ReviewedChange(replace(change, replicas=reviewed.replicas))


def _replica_difference(
    topic: TopicPlan, planned: tuple[Replicas, ...], reviewed: tuple[Replicas, ...], broker_sets: BrokerSets
) -> str:
    if planned == reviewed:
        return ""
    if list(map(len, planned)) != list(map(len, reviewed)):
        return "was reviewed with another number of partitions or replicas"
    if topic.spec and topic.spec.assignment is not None:
        return "was reviewed with other replica lists than the manifest gives"
    return broker_sets.unavailable_reason(reviewed) or broker_sets.implausible_reason(planned, reviewed)
