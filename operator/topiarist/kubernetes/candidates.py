"""Which Topic resource may say what a topic of a cluster is to be, and why the others may not.

A resource has to be readable, its namespace has to be allowed to declare that name there, and of several the oldest
counts. One that is being deleted gives way to any other: the claim passes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
    cluster: ClusterSpec, home: str, single: Iterable[Candidate], namespaces: Mapping[str, Labels]
) -> list[Candidate]:
    """All that are meant for a cluster, in the order of their topics; ``single`` has each by itself.

    One that is being deleted without our finalizer asks for nothing any more: it is left out.

    ``home`` is the namespace of the ``Cluster``, ``namespaces`` has the labels of those that are known.
    """
    claims: dict[str, list[Candidate]] = defaultdict(list)
    found = []
    for each in single:
        resource, spec, _ = each
        if resource.let_go:
            continue
        if allowed(cluster.allowed_topics, resource.namespace, spec.topic, home=home, namespaces=namespaces):
            claims[collision_key(spec.topic)].append(each)
        else:
            found.append(each._replace(objections=(_not_allowed(resource, spec),)))
    for rivals in claims.values():
        first, *others = sorted(rivals, key=partial(_precedence, cluster.name)) if len(rivals) > 1 else rivals
        found.append(first)
        found.extend(other._replace(objections=(_conflict(first, other),)) for other in others)
    return sorted(found, key=lambda each: (each.spec.topic, each.resource.age))


def _precedence(cluster: str, rival: Candidate) -> tuple[bool, str, bool, str]:
    """The older one first; of two that were made in one second the one that has had the topic already."""
    resource = rival.resource
    return resource.deleting, resource.created, "applied" not in resource.on(cluster), resource.uid


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


def _conflict(first: Candidate, other: Candidate) -> Finding:
    where = f"Topic {first.resource.namespace}/{first.resource.name}"
    if first.spec.topic == other.spec.topic:
        message = f"{where} declares topic {first.spec.topic} too, and came first"
    else:
        message = f"topic {other.spec.topic} collides with {first.spec.topic} of {where}, which came first"
    return Finding(Reason.RESOURCE_CONFLICT, message, instead="delete one of the two, or give it another topicName")
