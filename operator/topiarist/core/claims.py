"""What may be there only once: documents of one name, and topics and metric names of one cluster.

``desired`` asks when all manifests of a run are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from topiarist.core.names import collision_key
from topiarist.core.spec import ClusterSpec, Manifest, TopicSpec, name_path
from topiarist.errors import Complaint, Place, Reason

_TWICE = Reason.NAME_COLLISION.value


def cluster_map(specs: Iterable[ClusterSpec]) -> tuple[dict[str, ClusterSpec], list[Complaint]]:
    """Clusters by name; two of one name are a complaint that has both places."""
    clusters: dict[str, ClusterSpec] = {}
    found = []
    for spec in specs:
        first = clusters.setdefault(spec.name, spec)
        if first is not spec and spec.source and first.source:
            place, at = (source.place(("metadata", "name")) for source in (spec.source, first.source))
            found.append(
                Complaint(place, f"Cluster {spec.name}: there is one of this name at {at} already", reason=_TWICE)
            )
    return clusters, found


def duplicates(topics: Sequence[Manifest]) -> list[Complaint]:
    first: dict[tuple[str, str], Manifest] = {}
    found = []
    for manifest in topics:
        earlier = first.setdefault((manifest.namespace, manifest.name), manifest)
        if earlier is not manifest:
            place = manifest.source.place(("metadata", "name"))
            at = earlier.source.place(("metadata", "name"))
            found.append(
                Complaint(place, f"Topic {manifest.name}: there is one of this name at {at} already", reason=_TWICE)
            )
    return found


def claims(specs: Sequence[TopicSpec]) -> list[Complaint]:
    """Topics that two documents claim on one cluster, and names that Kafka cannot tell apart in its metrics."""
    first: dict[str, TopicSpec] = {}
    found = []
    for spec in specs:
        earlier = first.setdefault(collision_key(spec.topic), spec)
        if earlier is spec or _same_document(earlier, spec):
            continue
        place, other = _name_place(spec), _name_place(earlier)
        where = f"on cluster {spec.cluster.name}" if spec.cluster.name else "on the cluster"
        if earlier.topic == spec.topic:
            found.append(
                Complaint(place, f"{spec.topic}: claimed {where} by {other} too", "one topic, one document", _TWICE)
            )
        else:
            found.append(
                Complaint(
                    place,
                    f"{spec.topic}: collides {where} with {earlier.topic} at {other}",
                    "Kafka takes . and _ for the same letter in metric names and refuses the second topic",
                    _TWICE,
                )
            )
    return found


def _same_document(one: TopicSpec, other: TopicSpec) -> bool:
    """Two documents of one name are reported as such already."""
    return (one.manifest.namespace, one.manifest.name) == (other.manifest.namespace, other.manifest.name)


def _name_place(spec: TopicSpec) -> Place:
    return spec.manifest.source.place(name_path(spec.manifest))
