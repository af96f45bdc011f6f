"""Duplicate names: documents with one name, and topics or metric names that collide on one cluster.

``runs/inputs.py`` checks the clusters and ``resolve`` the topics, when all manifests of a run are loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from topiarist.errors import Diagnostic, Location, Reason
from topiarist.kafka.types import metric_name
from topiarist.model.spec import ClusterSpec, Manifest, Source, TopicSpec, name_path


def index_clusters(specs: Iterable[ClusterSpec]) -> tuple[dict[str, ClusterSpec], list[Diagnostic]]:
    """Return clusters by name, and an error with both locations for each duplicate name."""
    clusters: dict[str, ClusterSpec] = {}
    errors = []
    for spec in specs:
        first = clusters.setdefault(spec.name, spec)
        if first is not spec and spec.source and first.source:
            errors.append(_duplicate_error("Cluster", spec.name, spec.source, first.source))
    return clusters, errors


def duplicate_document_errors(manifests: Sequence[Manifest]) -> list[Diagnostic]:
    """Return an error for each document with a namespace and name used before; all documents are of one kind."""
    first: dict[tuple[str, str], Manifest] = {}
    return [
        _duplicate_error(manifest.kind, manifest.name, manifest.source, earlier.source)
        for manifest in manifests
        if (earlier := first.setdefault((manifest.namespace, manifest.name), manifest)) is not manifest
    ]


def _duplicate_error(kind: str, name: str, source: Source, first: Source) -> Diagnostic:
    path = ("metadata", "name")
    message = f"{kind} {name}: another {kind} has the same name, at {first.locate(path)}"
    return _collision(source.locate(path), message, "rename one of them, or remove it")


def topic_collision_errors(specs: Iterable[TopicSpec]) -> list[Diagnostic]:
    """Return the errors of topics that collide on one cluster.

    Two documents declare the same topic, or two topic names have the same metric name in Kafka.
    """
    first: dict[str, TopicSpec] = {}
    errors = []
    for spec in specs:
        earlier = first.setdefault(metric_name(spec.topic), spec)
        if _document_name(earlier) == _document_name(spec):
            continue  # the spec itself, or a duplicate document name, which is a separate error
        place, first_place = (each.manifest.source.locate(name_path(each.manifest)) for each in (spec, earlier))
        cluster = f"on cluster {spec.cluster.name}" if spec.cluster.name else "on the cluster"
        if earlier.topic == spec.topic:
            message, hint = f"{spec.topic}: also declared {cluster} at {first_place}", "keep one of the two documents"
        else:
            message = f"{spec.topic}: collides {cluster} with {earlier.topic} at {first_place}"
            hint = "rename one: Kafka does not distinguish . and _ in metric names, and refuses the second topic"
        errors.append(_collision(place, message, hint))
    return errors


def _document_name(spec: TopicSpec) -> tuple[str, str]:
    return spec.manifest.namespace, spec.manifest.name


def _collision(place: Location, message: str, hint: str) -> Diagnostic:
    return Diagnostic(place, message, hint, Reason.NAME_COLLISION.value)
