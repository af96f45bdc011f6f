"""KafkaTopics of Strimzi: whether its own operator still reconciles them, or topiarist may.

``cluster_worker`` calls ``judge`` at the start of each reconciliation. Two operators with the same KafkaTopics would
undo the changes of each other, and no lock keeps them apart. Strimzi runs one topic operator for the KafkaTopics of one
namespace and one cluster, so these are judged together:

- A ``Kafka`` resource that declares a topic operator for them is the end of it: Strimzi starts it again whenever it
  ends.
- A topic operator without such a resource is noticed by its writes. Strimzi's operator answers each change of a
  KafkaTopic, also one of its status, within seconds: it writes its status and its finalizer again. So a KafkaTopic has
  no other operator if topiarist wrote its status, or a user created it, ``ANSWER_S`` ago and no other client wrote it
  since. One KafkaTopic of the group is written first; the others wait for it. After a foreign write, topiarist is
  silent for ``QUIET_S`` before it writes again.

What is found comes from the resources alone, so a restart forgets nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from topiarist.errors import Reason
from topiarist.kubernetes.resources import Resource
from topiarist.model.plan import Issue

ANSWER_S = 30.0
"""Seconds in which another operator would answer a change of a KafkaTopic."""

QUIET_S = 60.0
"""Seconds without a write after the last one of another operator."""

_HINT = "end Strimzi's topic operator for these KafkaTopics, or remove KafkaTopic from spec.sources of the Cluster"

TopicOperators = Collection[tuple[str, str]]
"""Namespace and cluster of the KafkaTopics of each topic operator that a ``Kafka`` resource declares."""


class Verdict(NamedTuple):
    """The rights of topiarist to a KafkaTopic: none to its topic if there is an ``issue``.

    ``may_tell``: its status may be written. ``is_ours``: no other operator reconciles it.
    """

    issue: Issue | None
    may_tell: bool
    is_ours: bool = False


NOT_JUDGED = Verdict(None, may_tell=False)


def judge(
    kafka_topics: Iterable[Resource], operators: TopicOperators, now: datetime
) -> Mapping[tuple[str, str], Verdict]:
    """Return the verdict of each KafkaTopic, by its key."""
    groups: dict[tuple[str, str], list[Resource]] = defaultdict(list)
    for each in kafka_topics:
        groups[each.namespace, each.strimzi_cluster].append(each)
    found: dict[tuple[str, str], Verdict] = {}
    for group, members in groups.items():
        issue = _declared_issue(*group) if group in operators else _foreign_issue(members, now)
        if issue:
            found |= {each.key: Verdict(issue, may_tell=False) for each in members}
        elif any(_has_no_answer(each, now) for each in members):
            found |= {each.key: Verdict(_renamed_issue(each), may_tell=True, is_ours=True) for each in members}
        else:
            first = _choose_first(members)
            issue = _taking_over_issue(first)
            found |= {each.key: Verdict(issue, may_tell=each is first) for each in members}
    return found


def _declared_issue(namespace: str, cluster: str) -> Issue:
    message = f"Kafka {cluster} has a topic operator of Strimzi for the KafkaTopics of namespace {namespace}"
    hint = (
        f"remove spec.entityOperator.topicOperator from Kafka {cluster}, or KafkaTopic from spec.sources of the Cluster"
    )
    return Issue(Reason.STRIMZI_ACTIVE, message, hint=hint)


def _foreign_issue(members: Sequence[Resource], now: datetime) -> Issue | None:
    """Return the issue of a group that another operator wrote a short time ago; None if it did not."""
    for each in members:
        if _is_foreign(each) and _seconds_since(each.foreign_at, now) < QUIET_S:
            message = f"another operator writes the status or the finalizer of KafkaTopic {each.namespace}/{each.name}"
            return Issue(Reason.STRIMZI_ACTIVE, message, hint=_HINT)
    return None


def _taking_over_issue(first: Resource) -> Issue:
    # With the time, each question differs from the one before: otherwise its status would not be written.
    last = f" (the last one was at {first.foreign_at})" if first.foreign_at else ""
    message = (
        f"topiarist takes over after {ANSWER_S:.0f} seconds without a write of another operator{last}: KafkaTopic "
        f"{first.namespace}/{first.name} shows it"
    )
    return Issue(Reason.TAKING_OVER, message)


def _renamed_issue(resource: Resource) -> Issue | None:
    """Return the issue of a KafkaTopic that asks for another topic than before, as Strimzi refuses it."""
    before = resource.status.get("topicName")
    if not before or before == resource.topic_name:
        return None
    message = f"spec.topicName: found {resource.topic_name}, and the KafkaTopic is for topic {before}"
    return Issue(Reason.INVALID_MANIFEST, message, hint="set it back, and create another KafkaTopic for the new name")


def _is_foreign(resource: Resource) -> bool:
    """Return whether another client was the last to write; within one second it counts as the last."""
    return bool(resource.foreign_at) and resource.foreign_at >= resource.told_at


def _has_no_answer(resource: Resource, now: datetime) -> bool:
    asked_at = resource.told_at if resource.foreign_at else resource.created
    return not _is_foreign(resource) and _seconds_since(asked_at, now) >= ANSWER_S


def _choose_first(members: Sequence[Resource]) -> Resource:
    """Return the KafkaTopic that is asked: one that was asked already, or the oldest."""
    return min(members, key=lambda each: (_is_foreign(each), each.age_key))


def _seconds_since(time: str, now: datetime) -> float:
    return (now - datetime.fromisoformat(time)).total_seconds()
