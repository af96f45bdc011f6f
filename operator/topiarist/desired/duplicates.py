"""Duplicate names: documents with one name, and topics or metric names that collide on one cluster.

``resolve`` calls these checks when all manifests of a run are loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from topiarist.errors import Diagnostic, Location, Reason
from topiarist.kafka.names import metric_name
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec, name_path

_NAME_COLLISION = Reason.NAME_COLLISION.value


def index_clusters(specs: Iterable[ClusterSpec]) -> tuple[dict[str, ClusterSpec], list[Diagnostic]]:
    """Return clusters by name, and an error with both locations for each duplicate name."""
    clusters: dict[str, ClusterSpec] = {}
    errors = []
    for spec in specs:
        first = clusters.setdefault(spec.name, spec)
        if first is not spec and spec.source and first.source:
            place, first_place = (source.locate(("metadata", "name")) for source in (spec.source, first.source))
            errors.append(
                Diagnostic(
                    place,
                    f"Cluster {spec.name}: there is one of this name at {first_place} already",
                    reason=_NAME_COLLISION,
                )
            )
    return clusters, errors


def duplicate_document_errors(topics: Sequence[Manifest]) -> list[Diagnostic]:
    """Return an error for each Topic document with a namespace and name used before."""
    first: dict[tuple[str, str], Manifest] = {}
    errors = []
    for manifest in topics:
        earlier = first.setdefault((manifest.namespace, manifest.name), manifest)
        if earlier is not manifest:
            place = manifest.source.locate(("metadata", "name"))
            earlier_place = earlier.source.locate(("metadata", "name"))
            errors.append(
                Diagnostic(
                    place,
                    f"Topic {manifest.name}: there is one of this name at {earlier_place} already",
                    reason=_NAME_COLLISION,
                )
            )
    return errors


def topic_collision_errors(specs: Sequence[TopicSpec]) -> list[Diagnostic]:
    """Return the errors of topics that collide on one cluster.

    Two documents declare the same topic, or two topic names have the same metric name in Kafka.
    """
    first: dict[str, TopicSpec] = {}
    errors = []
    for spec in specs:
        earlier = first.setdefault(metric_name(spec.topic), spec)
        if earlier is spec or _is_same_document(earlier, spec):
            continue
        place, other = _name_location(spec), _name_location(earlier)
        where = f"on cluster {spec.cluster.name}" if spec.cluster.name else "on the cluster"
        if earlier.topic == spec.topic:
            errors.append(
                Diagnostic(
                    place, f"{spec.topic}: claimed {where} by {other} too", "one topic, one document", _NAME_COLLISION
                )
            )
        else:
            errors.append(
                Diagnostic(
                    place,
                    f"{spec.topic}: collides {where} with {earlier.topic} at {other}",
                    "Kafka takes . and _ for the same letter in metric names and refuses the second topic",
                    _NAME_COLLISION,
                )
            )
    return errors


def _is_same_document(one: TopicSpec, other: TopicSpec) -> bool:
    """Return whether two specs have the same document name, which is reported separately."""
    return (one.manifest.namespace, one.manifest.name) == (other.manifest.namespace, other.manifest.name)


def _name_location(spec: TopicSpec) -> Location:
    return spec.manifest.source.locate(name_path(spec.manifest))
