"""Which Topic resource may say what a topic of a cluster is to be, and why the others may not.

A resource has to be readable, its namespace has to be allowed to declare that name there, and of several the oldest
counts, readable or not. One that is being deleted gives way to any other: the claim passes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from topiarist.core.allowed import AllowedTopics, From, LabelSelector, Operator
from topiarist.core.change import Finding
from topiarist.core.names import collision_key, fits
from topiarist.core.rules import complaints
from topiarist.core.spec import ClusterSpec, TopicSpec, has_labels
from topiarist.errors import Reason
from topiarist.kubernetes.resources import Resource

Labels = Mapping[str, str]

_REASONS = {reason.value: reason for reason in Reason}


class Candidate(NamedTuple):
    """A Topic resource and what it asks for on one cluster; with ``objections`` nothing is done for it there."""

    resource: Resource
    spec: TopicSpec
    objections: tuple[Finding, ...] = ()


def candidate(resource: Resource, spec: TopicSpec) -> Candidate:
    """A Topic by itself: what is wrong with its spec on this cluster, whatever the cluster holds."""
    wrong = (
        Finding(_REASONS[found.reason], f"{found.place}: {found.message}", instead=found.hint)
        for found in complaints(spec)
    )
    return Candidate(resource, spec, tuple(wrong))


def candidates(
    cluster: ClusterSpec,
    home: str,
    single: Iterable[Candidate],
    namespaces: Mapping[str, Labels],
    silent: Iterable[Resource] = (),
) -> list[Candidate]:
    """All that are meant for a cluster, in the order of their topics; ``single`` has each by itself.

    One that is being deleted without our finalizer asks for nothing any more: it is left out. Those that cannot be
    read, ``silent``, are no candidates, but their claims count.

    ``home`` is the namespace of the ``Cluster``, ``namespaces`` has the labels of those that are known.
    """
    may = partial(allowed, cluster.allowed_topics, home=home, namespaces=namespaces)
    claims: dict[str, list[Candidate]] = defaultdict(list)
    found = []
    for each in single:
        resource, spec, _ = each
        if resource.let_go:
            continue
        if may(resource.namespace, spec.topic):
            claims[collision_key(spec.topic)].append(each)
        else:
            found.append(each._replace(objections=(_not_allowed(resource, spec),)))
    unread: dict[str, list[Resource]] = defaultdict(list)
    for topic in silent:
        if not topic.let_go and may(topic.namespace, topic.topic):
            unread[collision_key(topic.topic)].append(topic)
    for key, rivals in claims.items():
        alone = len(rivals) == 1 and key not in unread
        found.extend(rivals if alone else _ranked(cluster.name, rivals, unread.get(key, ())))
    return sorted(found, key=lambda each: (each.spec.topic, each.resource.age))


def _ranked(cluster: str, rivals: Sequence[Candidate], silent: Sequence[Resource]) -> Iterator[Candidate]:
    """Those that claim one topic, all but the first with what stands against them; that may be a ``silent`` one."""
    first = min((*silent, *(each.resource for each in rivals)), key=partial(_precedence, cluster))
    for each in rivals:
        yield each if each.resource is first else each._replace(objections=(_conflict(first, each),))


def _precedence(cluster: str, resource: Resource) -> tuple[bool, str, bool, str]:
    """The older one first; of two that were made in one second the one that has had the topic already."""
    return resource.deleting, resource.created, "generation" not in resource.on(cluster), resource.uid


def allowed(
    rules: Sequence[AllowedTopics], namespace: str, topic: str, *, home: str, namespaces: Mapping[str, Labels]
) -> bool:
    """Whether a namespace may declare a topic of this name; one that is not known has no labels."""
    return any(
        _means(rule, namespace, home, namespaces.get(namespace, {})) and fits(topic, rule.names) for rule in rules
    )


def _means(rule: AllowedTopics, namespace: str, home: str, labels: Labels) -> bool:
    if rule.namespaces is From.ALL:
        return True
    if rule.namespaces is From.SAME:
        return namespace == home
    return rule.selector is not None and _selected(rule.selector, labels)


def _selected(selector: LabelSelector, labels: Labels) -> bool:
    if not has_labels(labels, selector.labels):
        return False
    for key, operator, values in selector.requirements:
        there = key in labels
        kept = {
            Operator.IN: labels.get(key) in values,
            Operator.NOT_IN: labels.get(key) not in values,
            Operator.EXISTS: there,
            Operator.DOES_NOT_EXIST: not there,
        }[operator]
        if not kept:
            return False
    return True


def _not_allowed(resource: Resource, spec: TopicSpec) -> Finding:
    message = f"namespace {resource.namespace} may not declare topic {spec.topic} on cluster {spec.cluster.name}"
    return Finding(Reason.NOT_ALLOWED, message, instead="spec.allowedTopics of the Cluster says who may")


def _conflict(first: Resource, other: Candidate) -> Finding:
    where = f"Topic {first.namespace}/{first.name}"
    why = "is not being deleted" if other.resource.deleting and not first.deleting else "came first"
    if first.topic == other.spec.topic:
        message = f"{where} declares topic {first.topic} too, and {why}"
    else:
        message = f"topic {other.spec.topic} collides with {first.topic} of {where}, which {why}"
    return Finding(Reason.RESOURCE_CONFLICT, message, instead="delete one of the two, or give it another topicName")
