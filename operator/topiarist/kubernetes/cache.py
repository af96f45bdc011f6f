"""What the API server holds of ours, as last seen, and which clusters are to be looked at because of what came.

Fed by ``handlers`` and ``listing`` with one resource after the other, asked by ``rounds`` when a cluster's pass begins;
all in one thread. What a Cluster or a Policy says is read once, ``merging`` does so for Topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from topiarist.desired import parse
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.candidates import Candidate, Labels, SpecCache
from topiarist.model.policy import Policy
from topiarist.model.spec import ClusterSpec, has_labels, selects_cluster

ResourceKey = tuple[str, str]
ResourceId = tuple[str, str, str]
"""Kind, namespace and name of a resource."""

UNASSIGNED = ""
"""In place of a cluster's name: what no cluster's pass looks at, as Policies, and Topics that are meant for none."""


class Store:
    """Topics of all watched namespaces; Clusters and Policies of the operator's own, ``home``; of one class.

    What another release serves is not ours, as its status says, which only operators write: it is as if it were not
    there. ``owner`` is what is written there of ourselves. ``mark`` is told the name of each cluster that has to be
    looked at, or ``REST``.
    """

    def __init__(
        self, operator_namespace: str, enqueue: Callable[[str], None], operator_class: str = "", owner: str = ""
    ) -> None:
        self.operator_namespace = operator_namespace
        self.owner = owner
        self._operator_class = operator_class
        self._other_release_resources: dict[ResourceId, Resource] = {}
        self._other_release_clusters: dict[ResourceKey, Resource] = {}
        self.topics: dict[ResourceKey, Resource] = {}
        self.clusters: dict[str, Resource] = {}
        self.policies: dict[str, Resource] = {}
        self.namespaces: dict[str, Labels] = {}
        self.terminating_namespaces: set[str] = set()
        self._enqueue = enqueue
        self._cluster_specs: dict[str, ClusterSpec] = {}
        self._parsed_policies: dict[str, Policy] = {}
        self._spec_cache = SpecCache()
        self._list_versions: dict[tuple[str, str], int] = {}

    def upsert(self, found: Resource) -> None:
        """A resource that is new, or has changed. Nothing is marked if only its status has."""
        if self._is_outside_namespace(found):
            self._track_other_release_cluster(found)
            return
        known = self._cached(found)
        if known and found.resource_version < known.resource_version:
            return  # a page of a list that was begun before what we know came
        if not self._is_served_here(found):
            if known:
                self._evict(known)
            self._track_other_release(found)
            return
        self._track_other_release(found, ours=True)
        if known and _is_unchanged(known, found):
            self._insert(found, known)
            return
        affected = {*self._affected_clusters(known)} if known else set()
        self._insert(found, known)
        self._enqueue_all({*affected, *self._affected_clusters(found, comes_or_goes=known is None)})

    def on_watch_event(self, found: Resource) -> None:
        """What a watch has told, maybe late: what a listing since then has not seen is gone, and does not come back."""
        listed = max(self._list_versions.get((found.kind, place), 0) for place in ("", found.namespace))
        if self._cached(found) or found.resource_version > listed:
            self.upsert(found)

    def on_write_response(self, found: Resource) -> None:
        """What the API server has made of something that we wrote; deleted meanwhile, it does not come back."""
        known = self._cached(found)
        if known and known.uid == found.uid:
            self.upsert(found)

    def record_list_version(self, kind: str, namespace: str, version: int) -> None:
        """All of a kind, in a namespace or (empty) in all, are as they were at this version of everything."""
        self._list_versions[kind, namespace] = version

    def remove(self, found: Resource) -> None:
        """A resource that is gone; one of its name that has come since stays."""
        if self._is_outside_namespace(found):
            if self._other_release_clusters.pop(found.key, None):
                self._enqueue_all({UNASSIGNED})
            return
        known = self._cached(found)
        if known and known.resource_version > found.resource_version:
            return
        self._track_other_release(found, ours=True)
        self._evict(found)

    def _evict(self, found: Resource) -> None:
        affected = {*self._affected_clusters(found, comes_or_goes=True)}
        if found.kind == "Topic":
            self.topics.pop(found.key, None)
        elif found.kind == "Policy":
            self.policies.pop(found.name, None)
            self._parsed_policies.pop(found.name, None)
        else:
            self.clusters.pop(found.name, None)
            self._cluster_specs.pop(found.name, None)
            self._spec_cache.remove_cluster(found.name)
        self._enqueue_all(affected)

    def update_namespace(self, name: str, labels: Labels | None, *, leaving: bool = False) -> None:
        """A namespace's labels, None if it is gone; ``leaving``: it is being deleted, with all that is in it."""
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
        """What a Cluster says; None if there is none, or none that can be read."""
        found = self.clusters.get(name)
        return self._cluster_specs[name] if found and found.manifest is not None else None

    def target_clusters(self, topic: Resource) -> list[str]:
        """The clusters that a Topic is meant for, as far as their Clusters can be read, or could before."""
        return [name for name, cluster in self._cluster_specs.items() if self._is_target(topic, cluster)]

    def has_ambiguous_target(self, topic: Resource) -> bool:
        """Return whether a Topic may be meant for any of several clusters, and does not say for which."""
        return len(self.clusters) > 1 and not topic.has_cluster_selection and not topic.applied_clusters

    def topic_keys(self, name: str) -> Iterator[ResourceKey]:
        """The Topics that are meant for a cluster, as ``meant`` says."""
        return (topic.key for topic in self._topics_targeting(name))

    @property
    def unreadable_clusters(self) -> list[str]:
        """Clusters that cannot be read: nobody knows what is meant for them."""
        return [name for name, found in self.clusters.items() if found.manifest is None]

    def candidates(self, name: str) -> list[Candidate]:
        """The Topics that are meant for a cluster and can be read, each by itself, with what it asks for there."""
        return self._spec_cache.candidates(self._cluster_specs[name], self._topics_targeting(name))

    def unreadable_topics(self, name: str) -> list[Resource]:
        """The Topics that are meant for a cluster and cannot be read."""
        broken = (topic for topic in self.topics.values() if topic.manifest is None)
        return [topic for topic in broken if self._is_target(topic, self._cluster_specs[name])]

    def parsed_policies(self) -> list[Policy]:
        """The policies that can be read; each stays the same object until its Policy changes."""
        return [*self._parsed_policies.values()]

    def untargeted_topics(self) -> Iterator[Resource]:
        """Topics that no cluster's pass looks at: they are meant for none that there is, or cannot be read."""
        return (
            topic
            for topic in self.topics.values()
            if (topic.manifest is None or not self.target_clusters(topic)) and not self.is_of_other_release(topic)
        )

    def is_of_other_release(self, topic: Resource) -> bool:
        """Whether a Topic that is meant for none of our Clusters is another release's to speak of: that has done so, or
        has the Cluster that the Topic is meant for.
        """
        if self.target_clusters(topic):
            return False
        return topic.serving_owner not in ("", self.owner) or any(
            _may_target(topic.declared_spec, cluster) for cluster in self._other_release_clusters.values()
        )

    def other_release_owners(self) -> dict[ResourceId, str]:
        """What another release serves although we would, and the owner in its records."""
        return {
            key: found.serving_owner
            for key, found in self._other_release_resources.items()
            if found.kind != "Topic" or self.target_clusters(found)
        }

    def find(self, kind: str, metadata: Mapping[str, str]) -> Resource | None:
        """The resource of this namespace and name, as it was seen last."""
        if kind == "Topic":
            return self.topics.get((metadata["namespace"], metadata["name"]))
        return (self.clusters if kind == "Cluster" else self.policies).get(metadata["name"])

    def list_resources(self, kind: str) -> list[Resource]:
        """All resources of a kind."""
        if kind == "Topic":
            ours = [*self.topics.values()]
        else:
            ours = [*(self.clusters if kind == "Cluster" else self.policies).values()]
        return [*ours, *(found for found in self._other_release_resources.values() if found.kind == kind)]

    def _is_outside_namespace(self, found: Resource) -> bool:
        """Whether it is a Cluster or a Policy of another namespace."""
        return found.kind != "Topic" and found.namespace != self.operator_namespace

    def _is_served_here(self, found: Resource) -> bool:
        """Whether it has our class, and no other release serves it. A Topic is served by who has a Cluster for it."""
        if found.operator_class != self._operator_class:
            return False
        served = found.kind != "Topic" or bool(found.status.get("clusters"))
        return found.serving_owner in ("", self.owner) or not served

    def _track_other_release(self, found: Resource, *, ours: bool = False) -> None:
        """Note that another release serves what has our class, or that it does so no more."""
        key = (found.kind, found.namespace, found.name)
        was = self._other_release_resources.pop(key, None)
        if not ours and found.operator_class == self._operator_class:
            self._other_release_resources[key] = found
            if was is None or was.serving_owner != found.serving_owner:
                self._enqueue_all({UNASSIGNED})

    def _track_other_release_cluster(self, found: Resource) -> None:
        """A Cluster of another namespace: a Topic that is meant for it is another release's, if there is one."""
        served = found.kind == "Cluster" and found.operator_class == self._operator_class
        if served and found.serving_owner not in ("", self.owner):
            self._other_release_clusters[found.key] = found
        elif self._other_release_clusters.pop(found.key, None):
            self._enqueue_all({UNASSIGNED})

    def _cached(self, found: Resource) -> Resource | None:
        return self.find(found.kind, {"namespace": found.namespace, "name": found.name})

    def _insert(self, found: Resource, known: Resource | None) -> None:
        new = found.manifest if known is None or known.manifest is not found.manifest else None
        if found.kind == "Topic":
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
                self._cluster_specs[found.name] = parse.parse_cluster_spec(new)

    def _affected_clusters(self, found: Resource, *, comes_or_goes: bool = False) -> Iterator[str]:
        """The clusters to look at because of a resource.

        All of them if it is a Cluster that comes or goes: the only one is meant by whoever names none.
        """
        if found.kind == "Topic":
            clusters = self.target_clusters(found)
            yield from clusters
            if not clusters or found.manifest is None:
                yield UNASSIGNED
        else:
            yield from (UNASSIGNED, found.name) if found.kind == "Cluster" else (UNASSIGNED,)
            yield from self.clusters if found.kind == "Policy" or comes_or_goes else ()

    def _topics_targeting(self, name: str) -> Iterator[Resource]:
        cluster = self._cluster_specs.get(name)
        return (topic for topic in self.topics.values() if cluster and self._is_target(topic, cluster))

    def _is_target(self, topic: Resource, cluster: ClusterSpec) -> bool:
        """Return whether a Topic is meant for a cluster.

        A Topic that selects no cluster stays on those where it was applied: neither a second Cluster nor the loss of
        the first one moves it. Before it was applied anywhere, it is meant for the only Cluster.
        """
        if topic.has_cluster_selection:
            return selects_cluster(topic.declared_spec, cluster)
        applied = topic.applied_clusters
        return cluster.name in applied if applied else len(self.clusters) == 1

    def _enqueue_all(self, clusters: set[str]) -> None:
        for name in sorted(clusters):
            self._enqueue(name)


def _may_target(spec: Mapping[str, Any], cluster: Resource) -> bool:
    """Whether a Topic may be meant for the Cluster of another release: by name, by label, or because it names none."""
    if not {"clusters", "clusterSelector"} & spec.keys():
        return True
    wanted = spec.get("clusterSelector", {}).get("matchLabels", {})
    return cluster.name in spec.get("clusters", ()) or (bool(wanted) and has_labels(cluster.labels, wanted))


def _is_unchanged(previous: Resource, resource: Resource) -> bool:
    """Whether nothing has changed that a pass asks for: only the status, or what others note in the metadata."""
    kept = ("uid", "generation", "labels", "source", "finalizers", "deleting")
    return all(getattr(previous, field) == getattr(resource, field) for field in kept)
