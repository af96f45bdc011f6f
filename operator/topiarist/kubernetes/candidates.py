"""Candidates: the Topic resources that declare the topics of a cluster, and the refusals of the rest.

``cluster_worker`` calls ``select_candidates`` before each reconciliation. A Topic must be readable, and its namespace
must be allowed to declare the name on the cluster. If several Topics declare one topic, the oldest counts, readable or
not. A Topic that is being deleted yields its claim to any other Topic.

``SpecCache``, which ``cache`` uses, keeps the merged spec of each Topic until the Topic or the Cluster changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from topiarist.desired.rules import spec_errors
from topiarist.desired.shared_specs import merge
from topiarist.errors import Reason
from topiarist.kafka.types import matches_any, metric_name
from topiarist.kubernetes.api.resources import Resource
from topiarist.model.plan import Issue
from topiarist.model.spec import AllowedTopics, ClusterSpec, LabelSelector, NamespacesFrom, TopicSpec, has_labels

Labels = Mapping[str, str]

_REASONS = {reason.value: reason for reason in Reason}


class Candidate(NamedTuple):
    """A Topic resource and its spec on one cluster; nothing is done there for a candidate with ``refusals``."""

    resource: Resource
    spec: TopicSpec
    refusals: tuple[Issue, ...] = ()


def build_candidate(resource: Resource, spec: TopicSpec) -> Candidate:
    """Return the candidate of one Topic on a cluster.

    The candidate has a refusal for each error of its spec. Neither the other Topics nor the state of the cluster are
    considered.
    """
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
    """Return all candidates for a cluster, sorted by topic.

    A candidate that may not declare its topic, or conflicts with an older claim, has a refusal. ``unranked`` has the
    candidates from ``build_candidate``. A Topic that is being deleted without topiarist's finalizer is left out. Topics
    that cannot be read (``unreadable``) are no candidates, but their claims count.

    ``cluster_namespace`` is the namespace of the Cluster. ``namespaces`` has the labels of the known namespaces.
    """
    may = partial(may_declare, cluster.allowed_topics, cluster_namespace=cluster_namespace, namespaces=namespaces)
    claims: dict[str, list[Candidate]] = defaultdict(list)
    found = []
    for each in unranked:
        resource, spec, _ = each
        if resource.is_released:
            continue
        # A namespace that may not declare a topic must not be able to block it either: its claim does not count.
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
    """Yield the candidates that claim one topic, with a conflict refusal for all but the first.

    The first claim may be that of an ``unreadable`` Topic; every candidate is then refused.
    """
    # Without an order both Topics would be applied in turn, and the topic would change at every pass.
    first = min((*unreadable, *(each.resource for each in rivals)), key=partial(_precedence, cluster))
    for each in rivals:
        yield each if each.resource is first else each._replace(refusals=(_conflict_issue(first, each),))


def _precedence(cluster: str, resource: Resource) -> tuple[bool, str, bool, str]:
    """Return the sort key of a claim: the oldest first, and those being deleted last.

    Creation times are in seconds. Within one second, a Topic that was already applied on the cluster comes first.
    """
    return resource.deleting, resource.created, cluster not in resource.applied_clusters, resource.uid


def may_declare(
    rules: Sequence[AllowedTopics],
    namespace: str,
    topic: str,
    *,
    cluster_namespace: str,
    namespaces: Mapping[str, Labels],
) -> bool:
    """Return whether a namespace may declare a topic; an unknown namespace has no labels."""
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
    return has_labels(labels, selector.match_labels) and all(
        requirement.is_met_by(labels) for requirement in selector.match_expressions
    )


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
    """A candidate and the ``ClusterSpec`` that it was merged with."""

    cluster: ClusterSpec
    candidate: Candidate


class SpecCache:
    """A cache of the candidates of each cluster, as of its last reconciliation."""

    def __init__(self) -> None:
        self._cached: dict[str, dict[tuple[str, str], _CachedCandidate]] = {}

    def candidates(self, cluster: ClusterSpec, topics: Iterable[Resource]) -> list[Candidate]:
        """Return the candidate of each readable Topic.

        Cached entries that are not in ``topics`` are removed.
        """
        known, merged = self._cached.get(cluster.name, {}), {}
        for topic in topics:
            if topic.manifest is None:
                continue
            key = topic.key
            found = known.get(key)
            # Identity is enough, and cheap: the informer replaces a manifest, and never changes one.
            if found is None or found.cluster is not cluster or found.candidate.resource.manifest is not topic.manifest:
                found = _CachedCandidate(cluster, build_candidate(topic, merge(topic.manifest, cluster)))
            elif found.candidate.resource is not topic:
                found = _CachedCandidate(cluster, found.candidate._replace(resource=topic))
            merged[key] = found
        self._cached[cluster.name] = merged
        return [found.candidate for found in merged.values()]

    def remove_cluster(self, cluster: str) -> None:
        """Remove the entries of a cluster."""
        self._cached.pop(cluster, None)
