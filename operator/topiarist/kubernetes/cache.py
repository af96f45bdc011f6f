"""The cache of the API server's resources, and the Topics among them that declare the topics of a cluster.

The cache requests reconciliations when its resources change. Informers fill the ``Store``, one resource after the
other. ``manager`` and ``cluster_worker`` read it; all in one thread. Clusters and Policies are parsed once per change;
``SpecCache`` does the same for Topics.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from topiarist.desired import parse
from topiarist.desired.parse import spec_errors
from topiarist.desired.shared_specs import merge
from topiarist.errors import REASONS, Reason
from topiarist.kafka.types import matches_any, metric_name
from topiarist.kubernetes.approval import is_own_annotation, is_unmanaged
from topiarist.kubernetes.resources import (
    APPLIED_TO,
    FINALIZER,
    KAFKA_TOPIC,
    NOT_JUDGED,
    STRIMZI_CLUSTER,
    TOPIC_KINDS,
    Resource,
    Verdict,
    resource_key,
)
from topiarist.model.plan import Issue
from topiarist.model.policy import Policy
from topiarist.model.spec import (
    AllowedTopics,
    ClusterSpec,
    LabelSelector,
    NamespacesFrom,
    TopicSource,
    TopicSpec,
    has_labels,
    selects_cluster,
)
from topiarist.schema import load

# Candidates: the Topic resources that declare the topics of a cluster, and the refusals of the rest.
#
# ``cluster_worker`` calls ``select_candidates`` before each reconciliation. A Topic must be readable, and its namespace
# must be allowed to declare the name on the cluster. If several Topics declare one topic, the oldest counts, readable
# or not. A Topic that is being deleted yields its claim to any other Topic.
#
# ``SpecCache``, which ``Store`` uses, keeps the merged spec of each Topic until the Topic or the Cluster changes.

Labels = Mapping[str, str]


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
        Issue(REASONS[found.reason], f"{found.location}: {found.message}", hint=found.hint)
        for found in spec_errors(spec)
    )
    return Candidate(resource, spec, tuple(wrong))


def select_candidates(
    cluster: ClusterSpec,
    cluster_namespace: str,
    unranked: Iterable[Candidate],
    namespaces: Mapping[str, Labels],
    unreadable: Iterable[Resource] = (),
    holders: Collection[str] = (),
) -> list[Candidate]:
    """Return all candidates for a cluster, sorted by topic.

    A candidate that may not declare its topic, or conflicts with an older claim, has a refusal. ``unranked`` has the
    candidates from ``build_candidate``. A Topic that is being deleted without topiarist's finalizer is left out. Topics
    that cannot be read (``unreadable``) are no candidates, but their claims count.

    ``cluster_namespace`` is the namespace of the Cluster. ``namespaces`` has the labels of the known namespaces.
    ``holders`` are the uids of the Topics that came first in the pass before.
    """
    may = partial(may_declare, cluster.allowed_topics, cluster_namespace=cluster_namespace, namespaces=namespaces)
    claims: dict[str, list[Candidate]] = defaultdict(list)
    found = []
    for each in unranked:
        resource, spec, _ = each
        if resource.is_released:
            continue
        if resource.kind not in cluster.sources:
            found.append(each._replace(refusals=(_not_a_source_issue(resource, cluster),)))
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
        found.extend(rivals if alone else _resolve_conflicts(cluster.name, rivals, unread.get(key, ()), holders))
    return sorted(found, key=lambda each: (each.spec.topic, each.resource.age_key))


def find_holders(candidates: Iterable[Candidate], unreadable: Iterable[Resource], before: Collection[str]) -> set[str]:
    """Return the uids of the Topics that came first; an unreadable Topic keeps the claim that it had."""
    found = {each.uid for each in unreadable if each.uid in before}
    lost = (Reason.RESOURCE_CONFLICT, Reason.NOT_ALLOWED)
    return found | {
        each.resource.uid for each in candidates if not any(issue.reason in lost for issue in each.refusals)
    }


def _resolve_conflicts(
    cluster: str, rivals: Sequence[Candidate], unreadable: Sequence[Resource], holders: Collection[str]
) -> Iterator[Candidate]:
    """Yield the candidates that claim one topic, with a conflict refusal for all but the first.

    The first claim may be that of an ``unreadable`` Topic; every candidate is then refused.
    """
    # Without an order both Topics would be applied in turn, and the topic would change at every pass.
    first = min((*unreadable, *(each.resource for each in rivals)), key=partial(_precedence, cluster, holders))
    for each in rivals:
        yield each if each.resource is first else each._replace(refusals=(_conflict_issue(first, each),))


def _precedence(cluster: str, holders: Collection[str], resource: Resource) -> tuple[bool, str, bool, bool, str]:
    """Return the sort key of a claim: the oldest first, and those being deleted, or unmanaged by Strimzi's mark, last.

    Creation times are in seconds. Within one second, the Topic that came first in the pass before comes first;
    directly after a start of the operator, one that its annotation says was applied on the cluster.
    """
    is_rival, is_new = resource.uid not in holders, cluster not in resource.applied_clusters
    return resource.deleting or is_unmanaged(resource), resource.created, is_rival, is_new, resource.uid


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


def _not_a_source_issue(resource: Resource, cluster: ClusterSpec) -> Issue:
    sources = ", ".join(sorted(cluster.sources))
    message = f"Cluster {cluster.name} takes no topics from a {resource.kind}: spec.sources has {sources}"
    return Issue(Reason.NOT_ALLOWED, message, hint=f"declare a {sources}, or add {resource.kind} to spec.sources")


def _not_allowed_issue(resource: Resource, spec: TopicSpec) -> Issue:
    message = f"namespace {resource.namespace} may not declare topic {spec.topic} on cluster {spec.cluster.name}"
    return Issue(Reason.NOT_ALLOWED, message, hint="spec.allowedTopics of the Cluster lists the namespaces that may")


def _conflict_issue(first: Resource, other: Candidate) -> Issue:
    where = f"{first.kind} {first.namespace}/{first.name}"
    why = "is not being deleted" if other.resource.deleting and not first.deleting else "came first"
    if first.topic_name == other.spec.topic:
        message = f"{where} declares topic {first.topic_name} too, and {why}"
    else:
        message = f"topic {other.spec.topic} collides with {first.topic_name} of {where}, which {why}"
    return Issue(Reason.RESOURCE_CONFLICT, message, hint="delete one of the two, or give it another topicName")


class SpecCache:
    """A cache of the candidates of each cluster, as of its last reconciliation."""

    def __init__(self) -> None:
        self._cached: dict[str, dict[tuple[str, str], Candidate]] = {}

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
            if found is None or found.spec.cluster is not cluster or found.resource.manifest is not topic.manifest:
                found = build_candidate(topic, merge(topic.manifest, cluster))
            elif found.resource is not topic:
                found = found._replace(resource=topic)
            merged[key] = found
        self._cached[cluster.name] = merged
        return [*merged.values()]

    def remove_cluster(self, cluster: str) -> None:
        """Remove the entries of a cluster."""
        self._cached.pop(cluster, None)


ResourceKey = tuple[str, str]
ResourceId = tuple[str, str, str]
"""Kind, namespace and name of a resource."""

UNASSIGNED = ""
"""The queue name, in place of a cluster's, of Policies and of Topics without a target cluster."""

_INPUT_FIELDS = ("uid", "generation", "deleting", "declared_spec", "foreign_at")
"""The fields that each reconciliation reads.

A status is not among them: each reconciliation would request the next. ``Store`` knows which labels and annotations are
read; a user may change all others at any rate. The generation alone does not identify a spec: after a restore of etcd
it is counted anew.
"""


_APPLIED_TO_KEY = f"{load.API_GROUP}/{APPLIED_TO}"


class Store:
    """A cache of the resources of one operator class.

    It has the Topics of all watched namespaces, and the Clusters and Policies of ``operator_namespace``. A resource
    that another release serves, according to the owner in its status, is left out. ``owner`` is the name that this
    release writes to statuses. ``enqueue`` is called with the name of each cluster that needs a reconciliation, or
    with ``UNASSIGNED``, and with the resource that has changed; None if it is no single resource.

    KafkaTopics are among the ``topics``, also those of no Cluster. ``kafka_topics_wanted`` is set from the first
    Cluster on that has them among its sources. ``verdicts`` has what the last pass of each cluster found about them.
    """

    def __init__(
        self, operator_namespace: str, enqueue: Callable[[str, Resource | None], None], operator_class: str = ""
    ) -> None:
        self.operator_namespace = operator_namespace
        self.owner = ""
        self._operator_class = operator_class
        self._unserved: dict[ResourceId, Resource] = {}
        self.topics: dict[ResourceKey, Resource] = {}
        self.clusters: dict[str, Resource] = {}
        self.policies: dict[str, Resource] = {}
        self.namespaces: dict[str, Labels] = {}
        self.terminating_namespaces: set[str] = set()
        self.kafka_topics_wanted = asyncio.Event()
        self._enqueue = enqueue
        self._cluster_specs: dict[str, ClusterSpec] = {}
        self._parsed_policies: dict[str, Policy] = {}
        self._spec_cache = SpecCache()
        self.verdicts: dict[str, Mapping[ResourceKey, Verdict]] = {}

    def upsert(self, found: Resource, listed_at: int = 0) -> None:
        """Add or update a resource; enqueue the affected clusters unless only the status has changed.

        ``listed_at`` is the version of the list that has the resource. A list of a later version than the known
        resource replaces it also by an older one: etcd was restored, and the known resource is of a lost history.
        """
        if self._is_outside_namespace(found):
            self._track_unserved(found)
            return
        known = self.find(found.kind, found.namespace, found.name)
        if known and found.resource_version < known.resource_version and listed_at < known.resource_version:
            return  # an older answer or event, received after a newer one
        # Another release that writes the status of a Topic serves it only if it has a cluster for it.
        is_served = found.kind not in TOPIC_KINDS or bool(found.status.get("clusters"))
        of_other_release = is_served and found.serving_owner not in ("", self.owner)
        of_other_class = found.kind != KAFKA_TOPIC and found.operator_class != self._operator_class
        if of_other_class or of_other_release:
            if known:
                self._evict(known)
            self._track_unserved(found)
            return
        self._track_unserved(found, ended=True)
        if known and not self._has_news(known, found):
            self._insert(found, known)
            return
        affected = {*self._affected_clusters(known)} if known else set()
        self._insert(found, known)
        self._enqueue_all({*affected, *self._affected_clusters(found, comes_or_goes=known is None)}, found)

    def _has_news(self, known: Resource, found: Resource) -> bool:
        """Return whether a reconciliation reads anything that differs between two versions of a resource.

        The finalizer and the clusters of the Topic count when they are removed: the operator itself adds them.
        """
        if any(getattr(known, field) != getattr(found, field) for field in _INPUT_FIELDS):
            return True
        if FINALIZER in known.finalizers and FINALIZER not in found.finalizers:
            return True
        policies = self._parsed_policies.values()
        if known.labels != found.labels and (found.kind == "Cluster" or (found.kind in TOPIC_KINDS and policies)):
            return True
        reads_all = found.kind in TOPIC_KINDS and any(
            "annotations" in rule.expression for policy in policies for rule in policy.rules
        )
        before, after = known.source.annotations, found.source.annotations
        return any(
            before.get(key) != after.get(key)
            for key in {*before, *after}
            if (reads_all or is_own_annotation(key)) and (key != _APPLIED_TO_KEY or key in before)
        )

    def on_write_response(self, found: Resource) -> None:
        """Update a resource from a write's answer, unless it was deleted meanwhile."""
        known = self.find(found.kind, found.namespace, found.name)
        if known and known.uid == found.uid:
            self.upsert(found)

    def remove(self, found: Resource) -> None:
        """Remove a deleted resource; keep another resource of the same name, which was created since."""
        self._track_unserved(found, ended=True)
        known = self.find(found.kind, found.namespace, found.name)
        if not self._is_outside_namespace(found) and (known is None or known.uid == found.uid):
            self._evict(found)

    def _evict(self, found: Resource) -> None:
        affected = {*self._affected_clusters(found, comes_or_goes=True)}
        if found.kind in TOPIC_KINDS:
            self.topics.pop(found.key, None)
        elif found.kind == "Policy":
            self.policies.pop(found.name, None)
            self._parsed_policies.pop(found.name, None)
        else:
            self.clusters.pop(found.name, None)
            self._cluster_specs.pop(found.name, None)
            self._spec_cache.remove_cluster(found.name)
            self.verdicts.pop(found.name, None)
        self._enqueue_all(affected, found)

    def update_namespace(self, name: str, labels: Labels | None, *, leaving: bool = False) -> None:
        """Update a namespace's labels, None if it was deleted; ``leaving`` if it is being deleted."""
        if labels == self.namespaces.get(name) and leaving == (name in self.terminating_namespaces):
            return
        (self.terminating_namespaces.add if leaving else self.terminating_namespaces.discard)(name)
        if labels is None:
            del self.namespaces[name]
        else:
            self.namespaces[name] = labels
        topics = [topic for (namespace, _), topic in self.topics.items() if namespace == name]
        self._enqueue_all({cluster for topic in topics for cluster in self._affected_clusters(topic)})

    def cluster_spec(self, name: str) -> ClusterSpec | None:
        """Return the spec of a Cluster; None if it does not exist or cannot be read."""
        found = self.clusters.get(name)
        return self._cluster_specs[name] if found and found.manifest is not None else None

    def last_cluster_spec(self, name: str) -> ClusterSpec | None:
        """Return the last spec of a Cluster that could be read; None if it does not exist or never could."""
        return self._cluster_specs.get(name)

    def target_clusters(self, topic: Resource) -> list[str]:
        """Return the target clusters of a Topic.

        A Cluster that cannot be read any more counts with its last readable spec; without one it is left out.
        """
        return [name for name, cluster in self._cluster_specs.items() if self._is_target(topic, cluster)]

    def has_ambiguous_target(self, topic: Resource) -> bool:
        """Return whether there are several Clusters and a Topic neither selects nor was applied to any."""
        return len(self.clusters) > 1 and not topic.has_cluster_selection and not topic.applied_clusters

    def other_clusters(self, home: Resource) -> Iterator[Resource]:
        """Yield the other Clusters with the owner of this release in Kafka, also those that it does not serve."""
        yield from (each for each in self.clusters.values() if each.name != home.name)
        yield from (each for each in self._unserved.values() if each.serving_owner == self.owner)

    def enqueue(self, cluster: Resource) -> None:
        """Request a reconciliation of a Cluster that this release serves."""
        if cluster.namespace == self.operator_namespace and cluster.name in self.clusters:
            self._enqueue_all({cluster.name})

    def may_declare(self, topic: Resource, cluster: ClusterSpec) -> bool:
        """Return whether the namespace of a Topic may declare its topic on a Cluster of the operator's namespace."""
        home, labels = self.operator_namespace, self.namespaces
        return may_declare(
            cluster.allowed_topics, topic.namespace, topic.topic_name, cluster_namespace=home, namespaces=labels
        )

    def topic_keys(self, name: str) -> Iterator[ResourceKey]:
        """Yield the keys of the Topics that target a cluster, readable or not."""
        return (topic.key for topic in self._topics_targeting(name))

    def verdict(self, topic: Resource) -> Verdict:
        """Return what the last pass of its Cluster has found about a KafkaTopic."""
        found = (self.verdicts[name].get(topic.key) for name in self.target_clusters(topic) if name in self.verdicts)
        return next(filter(None, found), NOT_JUDGED)

    def kafka_topics(self, name: str) -> list[Resource]:
        """Return the KafkaTopics that target a cluster, readable or not."""
        return [topic for topic in self._topics_targeting(name) if topic.kind == KAFKA_TOPIC]

    @property
    def unreadable_clusters(self) -> list[str]:
        """Clusters that cannot be read, so their Topics cannot be determined."""
        return [name for name, found in self.clusters.items() if found.manifest is None]

    def candidates(self, name: str) -> list[Candidate]:
        """Return the candidates of the readable Topics that target a cluster."""
        return self._spec_cache.candidates(self._cluster_specs[name], self._topics_targeting(name))

    def unreadable_topics(self, name: str) -> list[Resource]:
        """Return the Topics that target a cluster and cannot be read."""
        broken = (topic for topic in self.topics.values() if topic.manifest is None)
        return [topic for topic in broken if self._is_target(topic, self._cluster_specs[name])]

    def parsed_policies(self) -> list[Policy]:
        """Return the readable policies; each is the same object until its Policy changes."""
        return [*self._parsed_policies.values()]

    def untargeted_topics(self) -> Iterator[Resource]:
        """Yield the Topics without a target cluster, and those that cannot be read; no KafkaTopic is among them."""
        return (
            topic
            for topic in self.topics.values()
            if (topic.manifest is None or not self.target_clusters(topic)) and not self.is_of_other_release(topic)
            if topic.kind != KAFKA_TOPIC
        )

    def is_of_other_release(self, topic: Resource) -> bool:
        """Return whether another release writes the status of a Topic.

        That is so if the Topic targets no Cluster of this release, and another release has written its status or has a
        Cluster that the Topic may target.
        """
        if self.target_clusters(topic):
            return False
        return topic.serving_owner not in ("", self.owner) or any(
            self._is_outside_namespace(each)
            and each.serving_owner != self.owner
            and _may_target(topic.declared_spec, each)
            for each in self._unserved.values()
        )

    def other_release_owners(self) -> dict[ResourceId, str]:
        """Return the resources in this release's scope that another release serves, with that release's owner."""
        return {
            key: found.serving_owner
            for key, found in self._unserved.items()
            if found.serving_owner != self.owner and not self._is_outside_namespace(found)
            if found.kind not in TOPIC_KINDS or self.target_clusters(found)
        }

    def find(self, kind: str, namespace: str, name: str) -> Resource | None:
        """Return the cached resource of this namespace and name; None if there is none."""
        if kind in TOPIC_KINDS:
            return self.topics.get(resource_key(kind, namespace, name))
        return (self.clusters if kind == "Cluster" else self.policies).get(name)

    def _is_outside_namespace(self, found: Resource) -> bool:
        return found.kind not in TOPIC_KINDS and found.namespace != self.operator_namespace

    def _track_unserved(self, found: Resource, *, ended: bool = False) -> None:
        """Keep a resource of this class that another release serves, and a Cluster that one with this owner serves.

        Ownership records do not keep two releases with one owner apart. The resource is forgotten if that has
        ``ended``: this release serves it now, or it was deleted.
        """
        key, owner = (found.kind, found.namespace, found.name), found.serving_owner
        was = self._unserved.pop(key, None)
        counts = found.kind == "Cluster" if owner == self.owner else found.operator_class == self._operator_class
        if owner and counts and not ended:
            self._unserved[key] = found
        if (was and was.serving_owner) != (owner if key in self._unserved else None):
            self._enqueue_all({UNASSIGNED})

    def _insert(self, found: Resource, known: Resource | None) -> None:
        new = found.manifest if known is None or known.manifest is not found.manifest else None
        if found.kind in TOPIC_KINDS:
            self.topics[found.key] = found
        elif found.kind == "Policy":
            self.policies[found.name] = found
            if new:
                self._parsed_policies[found.name] = parse.parse_policy(new)
            elif found.manifest is None:
                self._parsed_policies.pop(found.name, None)
        else:
            self.clusters[found.name] = found
            if new:
                self._cluster_specs[found.name] = spec = parse.parse_cluster_spec(new)
                if TopicSource.KAFKA_TOPIC in spec.sources:
                    self.kafka_topics_wanted.set()

    def _affected_clusters(self, found: Resource, *, comes_or_goes: bool = False) -> Iterator[str]:
        """Yield the clusters to reconcile after a change of a resource.

        All clusters are affected if a Cluster is added or removed, because a Topic that names no cluster targets the
        only one. A Policy affects all clusters too.
        """
        if found.kind in TOPIC_KINDS:
            clusters = self.target_clusters(found)
            yield from clusters
            if found.kind != KAFKA_TOPIC and (not clusters or found.manifest is None):
                yield UNASSIGNED
        else:
            yield from (UNASSIGNED, found.name) if found.kind == "Cluster" else (UNASSIGNED,)
            yield from self.clusters if found.kind == "Policy" or comes_or_goes else ()

    def _topics_targeting(self, name: str) -> Iterator[Resource]:
        cluster = self.last_cluster_spec(name)
        return (topic for topic in self.topics.values() if cluster and self._is_target(topic, cluster))

    def _is_target(self, topic: Resource, cluster: ClusterSpec) -> bool:
        """Return whether a Topic targets a cluster.

        A Topic that selects no cluster keeps the clusters where it was applied, even if a Cluster is added or removed.
        Before it is applied anywhere, it targets the only Cluster. A KafkaTopic targets the Cluster of its label.
        """
        if topic.kind == KAFKA_TOPIC:
            wanted = cluster.labels.get(STRIMZI_CLUSTER, cluster.name)
            return TopicSource.KAFKA_TOPIC in cluster.sources and topic.strimzi_cluster == wanted
        if topic.has_cluster_selection:
            return selects_cluster(topic.declared_spec, cluster)
        applied = topic.applied_clusters
        return cluster.name in applied if applied else len(self.clusters) == 1

    def _enqueue_all(self, clusters: set[str], source: Resource | None = None) -> None:
        for name in sorted(clusters):
            self._enqueue(name, source)


def _may_target(spec: Mapping[str, Any], cluster: Resource) -> bool:
    """Return whether a Topic may target another release's Cluster.

    A Topic may target it by name, by label, or because the Topic has no selection.
    """
    if not {"clusters", "clusterSelector"} & spec.keys():
        return True
    wanted = spec.get("clusterSelector", {}).get("matchLabels")
    return cluster.name in spec.get("clusters", ()) or (bool(wanted) and has_labels(cluster.labels, wanted))
