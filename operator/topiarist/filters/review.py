"""Whether replica lists that were reviewed can still be had, and whether they are such as a planner makes.

A file from a branch is not trusted: with lists of its own it could put a cluster's load, or all replicas of a
partition, where it likes. Used by ``review``.

What a review allows: plans in, plans out, without what was not reviewed or needs another word.

What was reviewed on a branch and what was merged may differ, and a file from a branch is not trusted: a plan is made
anew, and of it only that is done which the reviewed plan has too, with the reviewed replica lists as long as they can
be had. A plan that is applied from its file alone is looked at with the eyes of the cluster's own document once more.
Like a policy, a review never adds a change.
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
"""How many times as much as planned now a broker may get by reviewed lists: it was planned among fewer brokers."""


@dataclass(frozen=True, slots=True)
class BrokerSets:
    """The brokers as the review saw them, as they are, and those that get no new replicas."""

    reviewed: Mapping[int, Broker]
    current: Mapping[int, Broker]
    excluded: Collection[int]

    def unavailable_reason(self, replicas: Iterable[Replicas]) -> str:
        """Why reviewed replica lists cannot be had any more; empty if they can."""
        for broker in sorted({broker for brokers in replicas for broker in brokers}):
            if broker in self.excluded:
                return f"its replica lists name broker {broker}, which gets no new replicas"
            if broker not in self.current:
                return f"its replica lists name broker {broker}, which is not registered"
            if self.reviewed.get(broker) != self.current[broker]:
                return f"its replica lists name broker {broker}, which was reviewed in another rack or not at all"
        return ""

    def implausible_reason(self, planned: Sequence[Replicas], reviewed: Sequence[Replicas]) -> str:
        """Why reviewed replica lists are not such as a planner makes, seen from those it makes now; empty if they are.

        Neither has an empty list. Among fewer brokers each got more, but not a multiple of it.
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
    """The broker that stands most often in the lists, or at their heads, and how often."""
    return Counter(broker for replicas in lists for broker in replicas[:first]).most_common(1)[0]


ReplicaChange = TypeVar("ReplicaChange", CreateTopic, AddPartitions)

_HINT_REVIEW_AGAIN = "make a plan of what is merged, have it reviewed, and apply again"


class _ReviewedChange(NamedTuple):
    """A part of a change: to be done as it stands here, or (``why``) not to be done."""

    change: Change
    message: str = ""


def filter_unreviewed(plan: Plan, reviewed: Plan, without_brokers: Collection[int] = ()) -> Plan:
    """``plan`` with only what ``reviewed``, a plan for the same cluster, has too: topic, kind, before and after.

    Of a config update each key counts by itself. Reviewed replica lists are used if they differ from the planned ones
    in nothing but their brokers, and these stand as they did; brokers of ``without_brokers`` and of the cluster's
    ``excludeBrokers`` get none. A change that may cost more than its review showed was not reviewed.
    """
    known = {topic.topic: topic for topic in reviewed.actionable_topics()}
    seen, there = ({broker.id: broker for broker in each.brokers} for each in (reviewed, plan))
    topics = []
    for topic in plan.topics:
        if topic.is_actionable:
            excluded = {*without_brokers, *(topic.spec.cluster.exclude_brokers if topic.spec else ())}
            topic = _review_topic(topic, known.get(topic.topic), BrokerSets(seen, there, excluded))
        topics.append(topic)
    return replace(plan, topics=tuple(topics))


def already_satisfied(plan: Plan, reviewed: Plan) -> tuple[str, ...]:
    """Topics that ``reviewed`` would change and about which ``plan`` finds nothing to do or to refuse."""
    found = {topic.topic for topic in plan.topics if topic.changes or topic.refusals}
    return tuple(topic.topic for topic in reviewed.actionable_topics() if topic.topic not in found)


def filter_unapproved_deletions(plan: Plan, approvals: tuple[RiskApproval, ...]) -> Plan:
    """``plan`` with only those deletions that the run allows; no plan, however reviewed, allows one by itself."""
    deleting = tuple(topic for topic in plan.topics if any(isinstance(change, DeleteTopic) for change in topic.changes))
    allowed = {topic.topic: topic for topic in filter_unapproved(replace(plan, topics=deleting), approvals).topics}
    return replace(plan, topics=tuple(allowed.get(topic.topic, topic) for topic in plan.topics))


def recheck_saved_plan(
    plan: Plan, cluster: ClusterSpec, *, planned_brokers: Iterable[Broker], allow_unknown_brokers: bool = False
) -> Plan:
    """A plan without specs, without what the cluster as the run knows it forbids: who gets replicas, what is protected,
    which configs its release and its vendor know; and without replicas on brokers that were not ``planned_brokers``
    when the plan was made. The brokers and the oldest release that ``plan`` itself has may be those of the cluster as
    it is now.
    """
    then = {broker.id for broker in planned_brokers}

    def judge(topic: TopicPlan, change: Change) -> Issue | None:
        if isinstance(change, CreateTopic | AddPartitions):
            named = {broker for replicas in change.replicas for broker in replicas}
            if excluded := sorted(named & cluster.exclude_brokers):
                message = f"no new replicas in this run for broker {', '.join(map(str, excluded))}"
                return Issue(Reason.EXCLUDED_BROKERS, message, hint="make the plan anew")
            if not allow_unknown_brokers and (unknown := sorted(named - then)):
                message = f"broker {', '.join(map(str, unknown))} was not registered when the plan was made"
                return Issue(Reason.UNKNOWN_BROKERS, message, hint="if it is meant: --allow-unknown-brokers")
        if _is_denied_if_protected(change) and cluster.is_protected(topic.topic):
            message = "belongs to other software, which relies on it as it is"
            instead = "ask its owner; Cluster.spec.protected lists the names (--clusters gives the document)"
            return Issue(Reason.PROTECTED_TOPIC, message, hint=instead)
        return _find_config_issue(change, cluster, plan.min_version)

    return filter_changes(plan, judge)


def _find_config_issue(change: Change, cluster: ClusterSpec, min_version: KafkaVersion) -> Issue | None:
    """What speaks against the configs that a change sets: what the run knows of the cluster, and nothing else."""
    sets = list(_configs_to_set(change))
    if wrong := [problem for key, text, _ in sets if (problem := cluster.config_rules.config_problem(key, text))]:
        message = "; ".join(found for found, _ in wrong)
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
    """The configs that a change sets, and whether each was not there before."""
    if isinstance(change, CreateTopic):
        yield from ((key, text, True) for key, text in change.config.items())
    elif isinstance(change, UpdateConfig):
        yield from ((item.key, item.after, item.before is None) for item in change.items if item.after is not None)


def _is_denied_if_protected(change: Change) -> bool:
    """Whether a change is one that protected topics never get."""
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
    """Why a topic as a whole is not the one that was reviewed; empty if it is."""
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
    was = next((other for other in reviewed.changes if type(other) is type(change)), None)
    match change, was:
        case _, None:
            return [_ReviewedChange(change, "the reviewed plan has no such change of it")]
        case UpdateConfig(), UpdateConfig():
            return _review_update(change, was)
        case CreateTopic(), CreateTopic():
            why = "was reviewed with another config" if change.config != was.config else ""
            return [_review_replicas(topic, change, was, broker_sets, why)]
        case AddPartitions(), AddPartitions():
            found, seen = (change.before, change.first_replicas), (was.before, was.first_replicas)
            why = "was reviewed with other partitions than there are" if found != seen else ""
            return [_review_replicas(topic, change, was, broker_sets, why)]
    same = change == was and (
        not isinstance(change, TakeOwnership) or _record_change(topic) == _record_change(reviewed)
    )
    return [_ReviewedChange(change, "" if same else "was reviewed otherwise")]


def _record_change(topic: TopicPlan) -> tuple[OwnershipRecord | None, OwnershipRecord | None]:
    return topic.record_before, topic.record_after


def _review_update(change: UpdateConfig, reviewed: UpdateConfig) -> list[_ReviewedChange]:
    """The keys that were reviewed and the others, each as a change of its own; either may be missing."""
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
    """``change`` with the reviewed replica lists, unless something speaks against it."""
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
