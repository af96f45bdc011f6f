"""What the API server holds of ours, as last seen, and which clusters are to be looked at because of what came.

Fed by ``handlers`` with one event after the other, asked by ``loop`` when a cluster's pass begins; all in one thread.
Specs are merged again only when the Topic or the Cluster has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from topiarist import schema
from topiarist.core.guardrails import Policy
from topiarist.core.spec import ClusterSpec, TopicSpec, merge, selects
from topiarist.kubernetes.candidates import Labels
from topiarist.kubernetes.resources import Resource

Key = tuple[str, str]


class _Merged(NamedTuple):
    resource: Resource
    cluster: ClusterSpec
    spec: TopicSpec


class Store:
    """Topics of all watched namespaces; Clusters and Policies of the operator's own, ``home``.

    ``mark`` is told the name of each cluster that has to be looked at.
    """

    def __init__(self, home: str, mark: Callable[[str], None]) -> None:
        self.home = home
        self.topics: dict[Key, Resource] = {}
        self.clusters: dict[str, Resource] = {}
        self.policies: dict[str, Resource] = {}
        self.namespaces: dict[str, Labels] = {}
        self.leaving: set[str] = set()
        self._mark = mark
        self._specs: dict[str, ClusterSpec] = {}
        self._merged: dict[tuple[str, Key], _Merged] = {}

    def put(self, found: Resource) -> None:
        """A resource that is new, or has changed. Nothing is marked if only its status has."""
        known = self.find(found.kind, {"namespace": found.namespace, "name": found.name})
        if known is not None and found.version < known.version:
            return  # a page of a list that was begun before what we know came
        if known is not None and _same(known, found):
            self._keep(found)
            return
        affected = set(self._affected(known)) if known else set()
        self._keep(found)
        self._tell(affected | set(self._affected(found)))

    def drop(self, found: Resource) -> None:
        """A resource that is gone."""
        affected = set(self._affected(found))
        if found.kind == "Topic":
            self.topics.pop(found.key, None)
            for cluster in self.clusters:
                self._merged.pop((cluster, found.key), None)
        elif found.namespace == self.home:
            (self.clusters if found.kind == "Cluster" else self.policies).pop(found.name, None)
            self._specs.pop(found.name, None)
            self._merged = {key: kept for key, kept in self._merged.items() if key[0] != found.name}
        self._tell(affected)

    def namespace(self, name: str, labels: Labels | None, *, leaving: bool = False) -> None:
        """A namespace's labels, None if it is gone; ``leaving``: it is being deleted, with all that is in it."""
        if labels == self.namespaces.get(name) and leaving == (name in self.leaving):
            return
        (self.leaving.add if leaving else self.leaving.discard)(name)
        if labels is None:
            del self.namespaces[name]
        else:
            self.namespaces[name] = labels
        self._tell(
            cluster
            for (namespace, _), topic in self.topics.items()
            if namespace == name
            for cluster in self._affected(topic)
        )

    def cluster(self, name: str) -> ClusterSpec | None:
        """What a Cluster says; None if there is none, or none that can be read."""
        return self._specs.get(name)

    def specs(self, name: str) -> Iterator[tuple[Resource, TopicSpec]]:
        """The Topics that are meant for a cluster, with what they ask for there."""
        cluster = self._specs[name]
        alone = len(self.clusters) == 1
        for key, topic in self.topics.items():
            if topic.manifest is None or not _means(topic, cluster, alone):
                self._merged.pop((name, key), None)
                continue
            known = self._merged.get((name, key))
            if known is None or known.resource.manifest is not topic.manifest or known.cluster is not cluster:
                known = self._merged[name, key] = _Merged(topic, cluster, merge(topic.manifest, cluster))
            yield topic, known.spec

    def rules(self) -> list[Policy]:
        """The policies that can be read."""
        return [schema.policy(found.manifest) for found in self.policies.values() if found.manifest is not None]

    def homeless(self) -> Iterator[Resource]:
        """Topics that are meant for no cluster that there is."""
        alone = len(self.clusters) == 1
        for topic in self.topics.values():
            if topic.manifest is None or not any(_means(topic, each, alone) for each in self._specs.values()):
                yield topic

    def find(self, kind: str, metadata: Mapping[str, str]) -> Resource | None:
        """The resource of this namespace and name, as it was seen last."""
        if kind == "Topic":
            return self.topics.get((metadata["namespace"], metadata["name"]))
        return (self.clusters if kind == "Cluster" else self.policies).get(metadata["name"])

    def all(self, kind: str) -> list[Resource]:
        """All resources of a kind."""
        if kind == "Topic":
            return [*self.topics.values()]
        return [*(self.clusters if kind == "Cluster" else self.policies).values()]

    def _keep(self, found: Resource) -> None:
        if found.kind == "Topic":
            self.topics[found.key] = found
        elif found.namespace == self.home and found.kind == "Policy":
            self.policies[found.name] = found
        elif found.namespace == self.home:
            known = self.clusters.get(found.name)
            self.clusters[found.name] = found
            if found.manifest is None:
                self._specs.pop(found.name, None)
            elif known is None or known.manifest is not found.manifest:
                self._specs[found.name] = schema.cluster_spec(found.manifest)

    def _affected(self, found: Resource) -> Iterator[str]:
        """The clusters to look at because of a resource."""
        if found.kind == "Policy":
            yield from self.clusters
        elif found.kind == "Cluster":
            yield found.name
        else:
            alone = len(self.clusters) == 1
            for name, cluster in self._specs.items():
                if found.manifest is not None and _means(found, cluster, alone):
                    yield name

    def _tell(self, clusters: Iterator[str] | set[str]) -> None:
        for name in sorted(set(clusters)):
            self._mark(name)


def _means(topic: Resource, cluster: ClusterSpec, alone: bool) -> bool:
    """Whether a Topic is meant for a cluster: by name, by label, or because there is only one."""
    assert topic.manifest is not None
    spec: Mapping[str, object] = topic.manifest.spec
    if "clusters" in spec or "clusterSelector" in spec:
        return selects(topic.manifest.spec, cluster)
    return alone


def _same(known: Resource, found: Resource) -> bool:
    """Whether nothing has changed that a pass asks for: only the status, or what others note in the metadata."""
    kept = ("uid", "generation", "labels", "source", "finalizers", "deleting")
    return all(getattr(known, field) == getattr(found, field) for field in kept)
