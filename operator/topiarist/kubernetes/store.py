"""What the API server holds of ours, as last seen, and which clusters are to be looked at because of what came.

Fed by ``handlers`` and ``listing`` with one resource after the other, asked by ``rounds`` when a cluster's pass begins;
all in one thread. What a Cluster or a Policy says is read once, ``merging`` does so for Topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from topiarist import schema
from topiarist.core.guardrails import Policy
from topiarist.core.spec import ClusterSpec, selects
from topiarist.kubernetes.candidates import Candidate, Labels
from topiarist.kubernetes.merging import Merging
from topiarist.kubernetes.resources import Resource

Key = tuple[str, str]

REST = ""
"""In place of a cluster's name: what no cluster's pass looks at, as Policies, and Topics that are meant for none."""


class Store:
    """Topics of all watched namespaces; Clusters and Policies of the operator's own, ``home``.

    ``mark`` is told the name of each cluster that has to be looked at, or ``REST``.
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
        self._rules: dict[str, Policy] = {}
        self._merging = Merging()
        self._listed: dict[tuple[str, str], int] = {}

    def put(self, found: Resource) -> None:
        """A resource that is new, or has changed. Nothing is marked if only its status has."""
        known = self._known(found)
        if self._nobodys(found) or (known and found.version < known.version):
            return  # of another namespace; or a page of a list that was begun before what we know came
        if known and _same(known, found):
            self._keep(found, known)
            return
        affected = {*self._affected(known)} if known else set()
        self._keep(found, known)
        self._tell({*affected, *self._affected(found, comes_or_goes=known is None)})

    def heard(self, found: Resource) -> None:
        """What a watch has told, maybe late: what a listing since then has not seen is gone, and does not come back."""
        listed = max(self._listed.get((found.kind, place), 0) for place in ("", found.namespace))
        if self._known(found) or found.version > listed:
            self.put(found)

    def answered(self, found: Resource) -> None:
        """What the API server has made of something that we wrote; deleted meanwhile, it does not come back."""
        known = self._known(found)
        if known and known.uid == found.uid:
            self.put(found)

    def listed(self, kind: str, namespace: str, version: int) -> None:
        """All of a kind, in a namespace or (empty) in all, are as they were at this version of everything."""
        self._listed[kind, namespace] = version

    def drop(self, found: Resource) -> None:
        """A resource that is gone; one of its name that has come since stays."""
        known = self._known(found)
        if self._nobodys(found) or (known and known.version > found.version):
            return
        affected = {*self._affected(found, comes_or_goes=True)}
        if found.kind == "Topic":
            self.topics.pop(found.key, None)
        elif found.kind == "Policy":
            self.policies.pop(found.name, None)
            self._rules.pop(found.name, None)
        else:
            self.clusters.pop(found.name, None)
            self._specs.pop(found.name, None)
            self._merging.forget(found.name)
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
        topics = [topic for (namespace, _), topic in self.topics.items() if namespace == name]
        self._tell({cluster for topic in topics for cluster in self._affected(topic)})

    def cluster(self, name: str) -> ClusterSpec | None:
        """What a Cluster says; None if there is none, or none that can be read."""
        found = self.clusters.get(name)
        return self._specs[name] if found and found.manifest is not None else None

    def meant(self, topic: Resource) -> list[str]:
        """The clusters that a Topic is meant for, as far as their Clusters can be read, or could before."""
        return [name for name, cluster in self._specs.items() if self._means(topic, cluster)]

    def keys(self, name: str) -> Iterator[Key]:
        """The Topics that are meant for a cluster, as ``meant`` says."""
        return (topic.key for topic in self._meant_for(name))

    @property
    def unread(self) -> list[str]:
        """Clusters that cannot be read: nobody knows what is meant for them."""
        return [name for name, found in self.clusters.items() if found.manifest is None]

    def candidates(self, name: str) -> list[Candidate]:
        """The Topics that are meant for a cluster and can be read, each by itself, with what it asks for there."""
        return self._merging.candidates(self._specs[name], self._meant_for(name))

    def silent(self, name: str) -> list[Resource]:
        """The Topics that are meant for a cluster and cannot be read."""
        broken = (topic for topic in self.topics.values() if topic.manifest is None)
        return [topic for topic in broken if self._means(topic, self._specs[name])]

    def rules(self) -> list[Policy]:
        """The policies that can be read; each stays the same object until its Policy changes."""
        return [*self._rules.values()]

    def homeless(self) -> Iterator[Resource]:
        """Topics that no cluster's pass looks at: they are meant for none that there is, or cannot be read."""
        return (topic for topic in self.topics.values() if topic.manifest is None or not self.meant(topic))

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

    def _nobodys(self, found: Resource) -> bool:
        """Whether it is a Cluster or a Policy of another namespace."""
        return found.kind != "Topic" and found.namespace != self.home

    def _known(self, found: Resource) -> Resource | None:
        return self.find(found.kind, {"namespace": found.namespace, "name": found.name})

    def _keep(self, found: Resource, known: Resource | None) -> None:
        new = found.manifest if known is None or known.manifest is not found.manifest else None
        if found.kind == "Topic":
            self.topics[found.key] = found
        elif found.kind == "Policy":
            self.policies[found.name] = found
            if new:
                self._rules[found.name] = schema.policy(new)
            elif found.manifest is None:
                self._rules.pop(found.name, None)
        else:
            self.clusters[found.name] = found
            if new:
                self._specs[found.name] = schema.cluster_spec(new)

    def _affected(self, found: Resource, *, comes_or_goes: bool = False) -> Iterator[str]:
        """The clusters to look at because of a resource.

        All of them if it is a Cluster that comes or goes: the only one is meant by whoever names none.
        """
        if found.kind == "Topic":
            clusters = self.meant(found)
            yield from clusters
            if not clusters or found.manifest is None:
                yield REST
        else:
            yield from (REST, found.name) if found.kind == "Cluster" else (REST,)
            yield from self.clusters if found.kind == "Policy" or comes_or_goes else ()

    def _meant_for(self, name: str) -> Iterator[Resource]:
        cluster = self._specs.get(name)
        return (topic for topic in self.topics.values() if cluster and self._means(topic, cluster))

    def _means(self, topic: Resource, cluster: ClusterSpec) -> bool:
        """Whether a Topic is meant for a cluster: by name, by label, or because there is only one."""
        spec = topic.declared
        named = "clusters" in spec or "clusterSelector" in spec
        return selects(spec, cluster) if named else len(self.clusters) == 1

    def _tell(self, clusters: set[str]) -> None:
        for name in sorted(clusters):
            self._mark(name)


def _same(known: Resource, found: Resource) -> bool:
    """Whether nothing has changed that a pass asks for: only the status, or what others note in the metadata."""
    kept = ("uid", "generation", "labels", "source", "finalizers", "deleting")
    return all(getattr(known, field) == getattr(found, field) for field in kept)
