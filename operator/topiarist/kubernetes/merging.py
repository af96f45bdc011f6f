"""What Topics ask for on clusters: merged once for each state of the Topic and of the Cluster, in whatever passes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from topiarist.core.spec import ClusterSpec, merge
from topiarist.kubernetes.candidates import Candidate, candidate
from topiarist.kubernetes.resources import Resource


class _Merged(NamedTuple):
    """A Topic on a cluster, made for one state of both."""

    cluster: ClusterSpec
    candidate: Candidate


class Merging:
    """Remembers of each cluster what its last pass asked for."""

    def __init__(self) -> None:
        self._known: dict[str, dict[tuple[str, str], _Merged]] = {}

    def candidates(self, cluster: ClusterSpec, topics: Iterable[Resource]) -> list[Candidate]:
        """Each Topic by itself, but for those that cannot be read; what is not among ``topics`` is forgotten."""
        known, merged = self._known.get(cluster.name, {}), {}
        for topic in topics:
            if topic.manifest is None:
                continue
            key = topic.key
            found = known.get(key)
            if found is None or found.cluster is not cluster or found.candidate.resource.manifest is not topic.manifest:
                found = _Merged(cluster, candidate(topic, merge(topic.manifest, cluster)))
            elif found.candidate.resource is not topic:
                found = _Merged(cluster, found.candidate._replace(resource=topic))
            merged[key] = found
        self._known[cluster.name] = merged
        return [found.candidate for found in merged.values()]

    def forget(self, cluster: str) -> None:
        """A cluster that is gone."""
        self._known.pop(cluster, None)
