"""Which part of a difference the manifest brought about, and which part somebody else did on the cluster.

A pass that comes again and again remembers of each topic what its spec asked for when the topic last was as asked. What
the spec asks for still, and the cluster had by then, somebody has changed since: that is drift. Whoever only reports
drift calls ``report_only`` on each plan; ``reconcile`` then does what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from topiarist.core.change import AddPartitions, Change, CreateTopic, Finding, Plan, TopicPlan, UpdateConfig
from topiarist.core.holding import hold
from topiarist.core.spec import TopicSpec
from topiarist.errors import Reason


@dataclass(frozen=True, slots=True)
class Asked:
    """What a spec asked for at a moment when the topic was as asked. ``partitions`` None: no number."""

    partitions: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    remove_unmanaged: bool = False


def asked(spec: TopicSpec) -> Asked:
    """What a spec asks for now."""
    return Asked(spec.partitions, spec.config, spec.remove_unmanaged)


def report_only(plan: Plan, known: Mapping[str, Asked]) -> Plan:
    """``plan`` without the changes that would undo what others did; each topic's become one refusal.

    ``known`` is what specs asked for when their topics last were as asked; without it everything is the spec's doing.
    """
    topics = [_reported(topic, known[topic.topic]) if topic.topic in known else topic for topic in plan.topics]
    return replace(plan, topics=tuple(topics))


def _reported(topic: TopicPlan, was: Asked) -> TopicPlan:
    if topic.spec is None or topic.observed:
        return topic
    wanted, left, drifted = asked(topic.spec), list[Change](), list[Change]()
    for change in topic.changes:
        for part, outside in _parts(change, wanted, was):
            (drifted if outside else left).append(part)
    if not drifted:
        return topic
    finding = Finding(
        Reason.DRIFT_DETECTED,
        "changed on the cluster since it was as asked",
        instead="put it right there, change the spec, or set driftPolicy: Correct in the Cluster",
    )
    return hold(replace(topic, changes=(*left, *drifted)), drifted, finding)


def _parts(change: Change, wanted: Asked, was: Asked) -> Iterator[tuple[Change, bool]]:
    """A change, or its config keys apart, and whether what it would undo was done outside."""
    if isinstance(change, CreateTopic):
        yield change, True
    elif isinstance(change, AddPartitions):
        yield change, wanted.partitions == was.partitions
    elif isinstance(change, UpdateConfig):
        switched = wanted.remove_unmanaged and not was.remove_unmanaged
        outside = {
            item: was.config.get(item.key) == item.after and not (item.after is None and switched)
            for item in change.items
        }
        for verdict in (False, True):
            if items := tuple(item for item in change.items if outside[item] is verdict):
                yield UpdateConfig(items), verdict
    else:
        yield change, False
