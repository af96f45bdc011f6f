"""What the API server holds of ours, as last seen, and which clusters are to be looked at because of what came.

Fed by ``handlers`` and ``listing`` with one resource after the other, asked by ``rounds`` when a cluster's pass begins;
all in one thread. What a Cluster or a Policy says is read once, ``merging`` does so for Topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from topiarist import schema
from topiarist.core.guardrails import Policy
from topiarist.core.spec import ClusterSpec, has_labels, selects
from topiarist.kubernetes.candidates import Candidate, Labels
from topiarist.kubernetes.merging import Merging
from topiarist.kubernetes.resources import Resource

Key = tuple[str, str]
Held = tuple[str, str, str]
"""Kind, namespace and name of a resource."""

REST = ""
"""In place of a cluster's name: what no cluster's pass looks at, as Policies, and Topics that are meant for none."""


class Store:
    """Topics of all watched namespaces; Clusters and Policies of the operator's own, ``home``; of one class.

    What another release serves is not ours, as its status says, which only operators write: it is as if it were not
    there. ``owner`` is what is written there of ourselves. ``mark`` is told the name of each cluster that has to be
    looked at, or ``REST``.
    """

    def __init__(self, home: str, mark: Callable[[str], None], operator_class: str = "", owner: str = "") -> None:
        self.home = home
        self.owner = owner
        self._class = operator_class
        self._held: dict[Held, Resource] = {}
        self._elsewhere: dict[Key, Resource] = {}
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
        if self._abroad(found):
            self._see_abroad(found)
            return
        known = self._known(found)
        if known and found.version < known.version:
            return  # a page of a list that was begun before what we know came
        if not self._is_ours(found):
            if known:
                self._forget(known)
            self._hold(found)
            return
        self._hold(found, ours=True)
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
        if self._abroad(found):
            if self._elsewhere.pop(found.key, None):
                self._tell({REST})
            return
        known = self._known(found)
        if known and known.version > found.version:
            return
        self._hold(found, ours=True)
        self._forget(found)

    def _forget(self, found: Resource) -> None:
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

    def undecided(self, topic: Resource) -> bool:
        """Return whether a Topic may be meant for any of several clusters, and does not say for which."""
        return len(self.clusters) > 1 and not topic.names_clusters and not topic.applied_on

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
        return (
            topic
            for topic in self.topics.values()
            if (topic.manifest is None or not self.meant(topic)) and not self.is_others(topic)
        )

    def is_others(self, topic: Resource) -> bool:
        """Whether a Topic that is meant for none of our Clusters is another release's to speak of: that has done so, or
        has the Cluster that the Topic is meant for.
        """
        if self.meant(topic):
            return False
        return topic.holder not in ("", self.owner) or any(
            _named(topic.declared, cluster) for cluster in self._elsewhere.values()
        )

    def held_by_others(self) -> dict[Held, str]:
        """What another release serves although we would, and the owner in its records."""
        return {key: found.holder for key, found in self._held.items() if found.kind != "Topic" or self.meant(found)}

    def find(self, kind: str, metadata: Mapping[str, str]) -> Resource | None:
        """The resource of this namespace and name, as it was seen last."""
        if kind == "Topic":
            return self.topics.get((metadata["namespace"], metadata["name"]))
        return (self.clusters if kind == "Cluster" else self.policies).get(metadata["name"])

    def all(self, kind: str) -> list[Resource]:
        """All resources of a kind."""
        if kind == "Topic":
            ours = [*self.topics.values()]
        else:
            ours = [*(self.clusters if kind == "Cluster" else self.policies).values()]
        return [*ours, *(found for found in self._held.values() if found.kind == kind)]

    def _abroad(self, found: Resource) -> bool:
        """Whether it is a Cluster or a Policy of another namespace."""
        return found.kind != "Topic" and found.namespace != self.home

    def _is_ours(self, found: Resource) -> bool:
        """Whether it has our class, and no other release serves it. A Topic is served by who has a Cluster for it."""
        if found.operator_class != self._class:
            return False
        served = found.kind != "Topic" or bool(found.status.get("clusters"))
        return found.holder in ("", self.owner) or not served

    def _hold(self, found: Resource, *, ours: bool = False) -> None:
        """Note that another release serves what has our class, or that it does so no more."""
        key = (found.kind, found.namespace, found.name)
        was = self._held.pop(key, None)
        if not ours and found.operator_class == self._class:
            self._held[key] = found
            if was is None or was.holder != found.holder:
                self._tell({REST})

    def _see_abroad(self, found: Resource) -> None:
        """A Cluster of another namespace: a Topic that is meant for it is another release's, if there is one."""
        served = found.kind == "Cluster" and found.operator_class == self._class
        if served and found.holder not in ("", self.owner):
            self._elsewhere[found.key] = found
        elif self._elsewhere.pop(found.key, None):
            self._tell({REST})

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
        """Return whether a Topic is meant for a cluster.

        A Topic that selects no cluster stays on those where it was applied: neither a second Cluster nor the loss of
        the first one moves it. Before it was applied anywhere, it is meant for the only Cluster.
        """
        if topic.names_clusters:
            return selects(topic.declared, cluster)
        applied = topic.applied_on
        return cluster.name in applied if applied else len(self.clusters) == 1

    def _tell(self, clusters: set[str]) -> None:
        for name in sorted(clusters):
            self._mark(name)


def _named(spec: Mapping[str, Any], cluster: Resource) -> bool:
    """Whether a Topic may be meant for the Cluster of another release: by name, by label, or because it names none."""
    if not {"clusters", "clusterSelector"} & spec.keys():
        return True
    wanted = spec.get("clusterSelector", {}).get("matchLabels", {})
    return cluster.name in spec.get("clusters", ()) or (bool(wanted) and has_labels(cluster.labels, wanted))


def _same(known: Resource, found: Resource) -> bool:
    """Whether nothing has changed that a pass asks for: only the status, or what others note in the metadata."""
    kept = ("uid", "generation", "labels", "source", "finalizers", "deleting")
    return all(getattr(known, field) == getattr(found, field) for field in kept)
