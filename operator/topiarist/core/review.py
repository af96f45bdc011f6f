"""What a review allows: plans in, plans out, without what was not reviewed or needs another word.

What was reviewed on a branch and what was merged may differ, and a file from a branch is not trusted: a plan is made
anew, and of it only that is done which the reviewed plan has too, with the reviewed replica lists as long as they can
be had. A plan that is applied from its file alone is looked at with the eyes of the cluster's own document once more.
Like a policy, a review never adds a change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from topiarist.core.change import (
    AddPartitions,
    Adopt,
    Change,
    CreateTopic,
    DeleteTopic,
    Finding,
    Plan,
    TopicPlan,
    UpdateConfig,
    Verdict,
)
from topiarist.core.ground import Ground
from topiarist.core.holding import hold
from topiarist.core.policy import Allowance, allow_risk, restrict
from topiarist.core.rules import DECLARE, config_problem, too_new
from topiarist.core.spec import ClusterSpec
from topiarist.core.state import Broker, Release, Replicas, TopicRecord
from topiarist.errors import Reason

Placed = TypeVar("Placed", CreateTopic, AddPartitions)

_AGAIN = "make a plan of what is merged, have it reviewed, and apply again"


class _Part(NamedTuple):
    """A part of a change: to be done as it stands here, or (``why``) not to be done."""

    change: Change
    why: str = ""


def review(plan: Plan, reviewed: Plan, without_brokers: Collection[int] = ()) -> Plan:
    """``plan`` with only what ``reviewed``, a plan for the same cluster, has too: topic, kind, before and after.

    Of a config update each key counts by itself. Reviewed replica lists are used if they differ from the planned ones
    in nothing but their brokers, and these stand as they did; brokers of ``without_brokers`` and of the cluster's
    ``excludeBrokers`` get none. A change that may cost more than its review showed was not reviewed.
    """
    known = {topic.topic: topic for topic in reviewed.to_do()}
    seen, there = ({broker.id: broker for broker in each.brokers} for each in (reviewed, plan))
    topics = []
    for topic in plan.topics:
        if topic.to_do:
            excluded = {*without_brokers, *(topic.spec.cluster.exclude_brokers if topic.spec else ())}
            topic = _review_topic(topic, known.get(topic.topic), Ground(seen, there, excluded))
        topics.append(topic)
    return replace(plan, topics=tuple(topics))


def unneeded(plan: Plan, reviewed: Plan) -> tuple[str, ...]:
    """Topics that ``reviewed`` would change and about which ``plan`` finds nothing to do or to refuse."""
    found = {topic.topic for topic in plan.topics if topic.changes or topic.refusals}
    return tuple(topic.topic for topic in reviewed.to_do() if topic.topic not in found)


def allow_deletions(plan: Plan, allowances: tuple[Allowance, ...]) -> Plan:
    """``plan`` with only those deletions that the run allows; no plan, however reviewed, allows one by itself."""
    deleting = tuple(topic for topic in plan.topics if any(isinstance(change, DeleteTopic) for change in topic.changes))
    allowed = {topic.topic: topic for topic in allow_risk(replace(plan, topics=deleting), allowances).topics}
    return replace(plan, topics=tuple(allowed.get(topic.topic, topic) for topic in plan.topics))


def guard(plan: Plan, cluster: ClusterSpec, *, seen: Iterable[Broker], allow_unknown_brokers: bool = False) -> Plan:
    """A plan without specs, without what the cluster as the run knows it forbids: who gets replicas, what is protected,
    which configs its release and its vendor know; and without replicas on brokers that were not ``seen`` when the plan
    was made. The brokers and the oldest release that ``plan`` itself has may be those of the cluster as it is now.
    """
    then = {broker.id for broker in seen}

    def judge(topic: TopicPlan, change: Change) -> Finding | None:
        if isinstance(change, CreateTopic | AddPartitions):
            named = {broker for replicas in change.replicas for broker in replicas}
            if excluded := sorted(named & cluster.exclude_brokers):
                message = f"no new replicas in this run for broker {', '.join(map(str, excluded))}"
                return Finding(Reason.EXCLUDED_BROKERS, message, instead="make the plan anew")
            if not allow_unknown_brokers and (unknown := sorted(named - then)):
                message = f"broker {', '.join(map(str, unknown))} was not registered when the plan was made"
                return Finding(Reason.UNKNOWN_BROKERS, message, instead="if it is meant: --allow-unknown-brokers")
        if _spoils(change) and cluster.protects(topic.topic):
            message = "belongs to other software, which relies on it as it is"
            instead = "ask its owner; Cluster.spec.protected lists the names (--clusters gives the document)"
            return Finding(Reason.PROTECTED_TOPIC, message, instead=instead)
        return _unknown_here(change, cluster, plan.release_at_least)

    return restrict(plan, judge)


def _unknown_here(change: Change, cluster: ClusterSpec, at_least: Release) -> Finding | None:
    """What speaks against the configs that a change sets: what the run knows of the cluster, and nothing else."""
    sets = list(_sets(change))
    if wrong := [problem for key, text, _ in sets if (problem := config_problem(cluster, key, text))]:
        message = "; ".join(found for found, _ in wrong)
        instead = "make the plan anew, by the Cluster as it is"
        if cluster.source is None:
            instead += ", or give its Cluster document with --clusters"
        return Finding(Reason.CONFIG_INVALID, message, ("config",), instead)
    if new := [message for key, _, new in sets if new and (message := too_new(cluster, key, at_least))]:
        return Finding(Reason.CONFIG_TOO_NEW, "; ".join(new), ("config",), DECLARE)
    return None


def _sets(change: Change) -> Iterator[tuple[str, str, bool]]:
    """The configs that a change sets, and whether each was not there before."""
    if isinstance(change, CreateTopic):
        yield from ((key, text, True) for key, text in change.config.items())
    elif isinstance(change, UpdateConfig):
        yield from ((item.key, item.after, item.before is None) for item in change.items if item.after is not None)


def _spoils(change: Change) -> bool:
    """Whether a change is one that protected topics never get."""
    if isinstance(change, UpdateConfig):
        return any(item.key == "cleanup.policy" for item in change.items)
    return isinstance(change, AddPartitions | DeleteTopic)


def _review_topic(topic: TopicPlan, reviewed: TopicPlan | None, ground: Ground) -> TopicPlan:
    if reviewed is None:
        return _held(topic, topic.changes, "the reviewed plan has no change of it")
    if why := _another(topic, reviewed):
        return _held(topic, topic.changes, why)
    parts = [part for change in topic.changes for part in _parts(topic, change, reviewed, ground)]
    topic = replace(topic, changes=tuple(part.change for part in parts))
    for part in parts:
        if part.why:
            topic = _held(topic, (part.change,), part.why)
    return topic


def _held(topic: TopicPlan, changes: Sequence[Change], why: str) -> TopicPlan:
    return hold(topic, changes, Finding(Reason.NOT_REVIEWED, why, instead=_AGAIN))


def _another(topic: TopicPlan, reviewed: TopicPlan) -> str:
    """Why a topic as a whole is not the one that was reviewed; empty if it is."""
    if topic.before is None or reviewed.before is None:
        both = topic.before is reviewed.before
        return "" if both else "was there when it was reviewed, or is there now: not both"
    if topic.before.identity != reviewed.before.identity:
        return "another topic of this name was reviewed: it was deleted and made again"
    if _owner(topic) != _owner(reviewed):
        return f"was reviewed as that of {_owner(reviewed)}, and is that of {_owner(topic)}"
    return ""


def _owner(topic: TopicPlan) -> str:
    record = topic.before.valid_record if topic.before else None
    return f"owner {record.owner}" if record else "nobody"


def _parts(topic: TopicPlan, change: Change, reviewed: TopicPlan, ground: Ground) -> list[_Part]:
    was = next((other for other in reviewed.changes if type(other) is type(change)), None)
    match change, was:
        case _, None:
            return [_Part(change, "the reviewed plan has no such change of it")]
        case UpdateConfig(), UpdateConfig():
            return _split(change, was)
        case CreateTopic(), CreateTopic():
            why = "was reviewed with another config" if change.config != was.config else ""
            return [_placed(topic, change, was, ground, why)]
        case AddPartitions(), AddPartitions():
            found, seen = (change.before, change.model), (was.before, was.model)
            why = "was reviewed with other partitions than there are" if found != seen else ""
            return [_placed(topic, change, was, ground, why)]
    same = change == was and (not isinstance(change, Adopt) or _records(topic) == _records(reviewed))
    return [_Part(change, "" if same else "was reviewed otherwise")]


def _records(topic: TopicPlan) -> tuple[TopicRecord | None, TopicRecord | None]:
    return topic.record_before, topic.record_after


def _split(change: UpdateConfig, was: UpdateConfig) -> list[_Part]:
    """The keys that were reviewed and the others, each as a change of its own; either may be missing."""
    befores = {(item.key, item.before, item.after): item.verdict for item in was.items}
    why = {item: _item_differs(befores.get(item[:3]), item.verdict) for item in change.items}
    parts = []
    if agreed := tuple(item for item in change.items if not why[item]):
        parts.append(_Part(UpdateConfig(agreed)))
    if others := tuple(item for item in change.items if why[item]):
        words = "; ".join(f"{item.key}: {why[item]}" for item in others)
        parts.append(_Part(UpdateConfig(others), words))
    return parts


def _item_differs(was: Verdict | None, verdict: Verdict) -> str:
    return "not in the reviewed plan, or not from and to these values" if was is None else _riskier(was, verdict)


def _riskier(was: Verdict, verdict: Verdict) -> str:
    if verdict.risk <= was.risk:
        return ""
    return f"was reviewed as {was.risk.word}, and is {verdict.risk.word} now: {verdict.because}"


def _placed(topic: TopicPlan, change: Placed, was: Placed, ground: Ground, why: str) -> _Part:
    """``change`` with the reviewed replica lists, unless something speaks against it."""
    why = why or _riskier(was.verdict, change.verdict) or _lists_differ(topic, change.replicas, was.replicas, ground)
    return _Part(change, why) if why else _Part(replace(change, replicas=was.replicas))


def _lists_differ(topic: TopicPlan, lists: tuple[Replicas, ...], was: tuple[Replicas, ...], ground: Ground) -> str:
    if lists == was:
        return ""
    if list(map(len, lists)) != list(map(len, was)):
        return "was reviewed with another number of partitions or replicas"
    if topic.spec and topic.spec.assignment is not None:
        return "was reviewed with other replica lists than the manifest gives"
    return ground.objection(was) or ground.oddity(lists, was)
