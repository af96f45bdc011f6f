"""What may be there only once: documents of one name, and topics and metric names of one cluster.

``desired`` asks when all manifests of a run are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from topiarist.errors import Diagnostic, Location, Reason
from topiarist.kafka.names import metric_name
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec, name_path

_NAME_COLLISION = Reason.NAME_COLLISION.value


def index_clusters(specs: Iterable[ClusterSpec]) -> tuple[dict[str, ClusterSpec], list[Diagnostic]]:
    """Clusters by name; two of one name are a complaint that has both places."""
    clusters: dict[str, ClusterSpec] = {}
    found = []
    for spec in specs:
        first = clusters.setdefault(spec.name, spec)
        if first is not spec and spec.source and first.source:
            place, at = (source.locate(("metadata", "name")) for source in (spec.source, first.source))
            found.append(
                Diagnostic(
                    place, f"Cluster {spec.name}: there is one of this name at {at} already", reason=_NAME_COLLISION
                )
            )
    return clusters, found


def duplicate_document_errors(topics: Sequence[Manifest]) -> list[Diagnostic]:
    first: dict[tuple[str, str], Manifest] = {}
    found = []
    for manifest in topics:
        earlier = first.setdefault((manifest.namespace, manifest.name), manifest)
        if earlier is not manifest:
            place = manifest.source.locate(("metadata", "name"))
            at = earlier.source.locate(("metadata", "name"))
            found.append(
                Diagnostic(
                    place, f"Topic {manifest.name}: there is one of this name at {at} already", reason=_NAME_COLLISION
                )
            )
    return found


def topic_collision_errors(specs: Sequence[TopicSpec]) -> list[Diagnostic]:
    """Topics that two documents claim on one cluster, and names that Kafka cannot tell apart in its metrics."""
    first: dict[str, TopicSpec] = {}
    found = []
    for spec in specs:
        earlier = first.setdefault(metric_name(spec.topic), spec)
        if earlier is spec or _is_same_document(earlier, spec):
            continue
        place, other = _name_location(spec), _name_location(earlier)
        where = f"on cluster {spec.cluster.name}" if spec.cluster.name else "on the cluster"
        if earlier.topic == spec.topic:
            found.append(
                Diagnostic(
                    place, f"{spec.topic}: claimed {where} by {other} too", "one topic, one document", _NAME_COLLISION
                )
            )
        else:
            found.append(
                Diagnostic(
                    place,
                    f"{spec.topic}: collides {where} with {earlier.topic} at {other}",
                    "Kafka takes . and _ for the same letter in metric names and refuses the second topic",
                    _NAME_COLLISION,
                )
            )
    return found


def _is_same_document(one: TopicSpec, other: TopicSpec) -> bool:
    """Two documents of one name are reported as such already."""
    return (one.manifest.namespace, one.manifest.name) == (other.manifest.namespace, other.manifest.name)


def _name_location(spec: TopicSpec) -> Location:
    return spec.manifest.source.locate(name_path(spec.manifest))
