"""Which Topic resource may say what a topic of a cluster is to be, and why the others may not.

A resource has to be readable, its namespace has to be allowed to declare that name there, and of several the oldest
counts, readable or not. One that is being deleted gives way to any other: the claim passes on.

What Topics ask for on clusters: merged once for each state of the Topic and of the Cluster, in whatever passes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from topiarist.desired.merge import merge
from topiarist.desired.rules import spec_errors
from topiarist.errors import Reason
from topiarist.kafka.names import matches_any, metric_name
from topiarist.kubernetes.api.resources import Resource
from topiarist.model.plan import Issue
from topiarist.model.spec import ClusterSpec, TopicSpec, has_labels
from topiarist.model.tenancy import AllowedTopics, LabelSelector, NamespacesFrom, SelectorOperator

Labels = Mapping[str, str]

_REASONS = {reason.value: reason for reason in Reason}


class Candidate(NamedTuple):
    """A Topic resource and what it asks for on one cluster; with ``objections`` nothing is done for it there."""

    resource: Resource
    spec: TopicSpec
    refusals: tuple[Issue, ...] = ()


def build_candidate(resource: Resource, spec: TopicSpec) -> Candidate:
    """A Topic by itself: what is wrong with its spec on this cluster, whatever the cluster holds."""
    wrong = (
        Issue(_REASONS[found.reason], f"{found.location}: {found.message}", hint=found.hint)
        for found in spec_errors(spec)
    )
    return Candidate(resource, spec, tuple(wrong))


def select_candidates(
    cluster: ClusterSpec,
    cluster_namespace: str,
    unranked: Iterable[Candidate],
    namespaces: Mapping[str, Labels],
    unreadable: Iterable[Resource] = (),
) -> list[Candidate]:
    """All that are meant for a cluster, in the order of their topics; ``unranked`` has each by itself.

    One that is being deleted without our finalizer asks for nothing any more: it is left out. Those that cannot be
    read, ``unreadable``, are no candidates, but their claims count.

    ``cluster_namespace`` is the namespace of the ``Cluster``, ``namespaces`` has the labels of those that are known.
    """
    may = partial(may_declare, cluster.allowed_topics, cluster_namespace=cluster_namespace, namespaces=namespaces)
    claims: dict[str, list[Candidate]] = defaultdict(list)
    found = []
    for each in unranked:
        resource, spec, _ = each
        if resource.is_released:
            continue
        if may(resource.namespace, spec.topic):
            claims[metric_name(spec.topic)].append(each)
        else:
            found.append(each._replace(refusals=(_not_allowed_issue(resource, spec),)))
    unread: dict[str, list[Resource]] = defaultdict(list)
    for topic in unreadable:
        if not topic.is_released and may(topic.namespace, topic.topic_name):
            unread[metric_name(topic.topic_name)].append(topic)
    for key, rivals in claims.items():
        alone = len(rivals) == 1 and key not in unread
        found.extend(rivals if alone else _resolve_conflicts(cluster.name, rivals, unread.get(key, ())))
    return sorted(found, key=lambda each: (each.spec.topic, each.resource.age_key))


def _resolve_conflicts(
    cluster: str, rivals: Sequence[Candidate], unreadable: Sequence[Resource]
) -> Iterator[Candidate]:
    """Those that claim one topic, all but the first with what stands against them; that may be a ``unreadable`` one."""
    first = min((*unreadable, *(each.resource for each in rivals)), key=partial(_precedence, cluster))
    for each in rivals:
        yield each if each.resource is first else each._replace(refusals=(_conflict_issue(first, each),))


def _precedence(cluster: str, resource: Resource) -> tuple[bool, str, bool, str]:
    """The older one first; of two that were made in one second the one that has had the topic already."""
    return resource.deleting, resource.created, "generation" not in resource.status_on(cluster), resource.uid


def may_declare(
    rules: Sequence[AllowedTopics],
    namespace: str,
    topic: str,
    *,
    cluster_namespace: str,
    namespaces: Mapping[str, Labels],
) -> bool:
    """Whether a namespace may declare a topic of this name; one that is not known has no labels."""
    return any(
        _matches_namespace(rule, namespace, cluster_namespace, namespaces.get(namespace, {}))
        and matches_any(topic, rule.name_patterns)
        for rule in rules
    )


def _matches_namespace(rule: AllowedTopics, namespace: str, cluster_namespace: str, labels: Labels) -> bool:
    if rule.namespaces is NamespacesFrom.ALL:
        return True
    if rule.namespaces is NamespacesFrom.SAME:
        return namespace == cluster_namespace
    return rule.selector is not None and _matches_labels(rule.selector, labels)


def _matches_labels(selector: LabelSelector, labels: Labels) -> bool:
    if not has_labels(labels, selector.match_labels):
        return False
    for key, operator, values in selector.match_expressions:
        there = key in labels
        kept = {
            SelectorOperator.IN: labels.get(key) in values,
            SelectorOperator.NOT_IN: labels.get(key) not in values,
            SelectorOperator.EXISTS: there,
            SelectorOperator.DOES_NOT_EXIST: not there,
        }[operator]
        if not kept:
            return False
    return True


def _not_allowed_issue(resource: Resource, spec: TopicSpec) -> Issue:
    message = f"namespace {resource.namespace} may not declare topic {spec.topic} on cluster {spec.cluster.name}"
    return Issue(Reason.NOT_ALLOWED, message, hint="spec.allowedTopics of the Cluster says who may")


def _conflict_issue(first: Resource, other: Candidate) -> Issue:
    where = f"Topic {first.namespace}/{first.name}"
    why = "is not being deleted" if other.resource.deleting and not first.deleting else "came first"
    if first.topic_name == other.spec.topic:
        message = f"{where} declares topic {first.topic_name} too, and {why}"
    else:
        message = f"topic {other.spec.topic} collides with {first.topic_name} of {where}, which {why}"
    return Issue(Reason.RESOURCE_CONFLICT, message, hint="delete one of the two, or give it another topicName")


class _CachedCandidate(NamedTuple):
    """A Topic on a cluster, made for one state of both."""

    cluster: ClusterSpec
    candidate: Candidate


class SpecCache:
    """Remembers of each cluster what its last pass asked for."""

    def __init__(self) -> None:
        self._cached: dict[str, dict[tuple[str, str], _CachedCandidate]] = {}

    def candidates(self, cluster: ClusterSpec, topics: Iterable[Resource]) -> list[Candidate]:
        """Each Topic by itself, but for those that cannot be read; what is not among ``topics`` is forgotten."""
        known, merged = self._cached.get(cluster.name, {}), {}
        for topic in topics:
            if topic.manifest is None:
                continue
            key = topic.key
            found = known.get(key)
            if found is None or found.cluster is not cluster or found.candidate.resource.manifest is not topic.manifest:
                found = _CachedCandidate(cluster, build_candidate(topic, merge(topic.manifest, cluster)))
            elif found.candidate.resource is not topic:
                found = _CachedCandidate(cluster, found.candidate._replace(resource=topic))
            merged[key] = found
        self._cached[cluster.name] = merged
        return [found.candidate for found in merged.values()]

    def remove_cluster(self, cluster: str) -> None:
        """A cluster that is gone."""
        self._cached.pop(cluster, None)
