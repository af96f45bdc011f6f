"""One imported topic, and its ``Topic`` document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from topiarist.desired.export import assign_document_names, to_scalars
from topiarist.importers.fields import Fields, template_reason
from topiarist.schema import check
from topiarist.schema.load import API_VERSION

DESCRIPTION = "description"
"""The annotation for a description."""


class ImportedTopic(Struct):
    """A topic as another tool describes it; ``fields`` is the mapping that it comes from.

    Sizes are None where the tool takes the brokers' default. ``config`` has Kafka's texts.
    """

    name: str
    fields: Fields
    partitions: int | None = None
    replication_factor: int | None = None
    assignment: Sequence[Sequence[int]] | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    is_absent: bool = False
    is_observed: bool = False


def build_documents(topics: Iterable[ImportedTopic], cluster: str) -> list[dict[str, Any]]:
    """Return the documents of topics, sorted by name; ``cluster`` is that of topics that name none.

    Topics that a document cannot describe, templates, and all but the first of several with one name on a cluster, are
    left out and named.
    """
    found: dict[tuple[str, str], ImportedTopic] = {}
    for topic in topics:
        topic.cluster = topic.cluster or cluster
        if topic.fields.refuse_template():
            continue
        if reason := template_reason(topic.name):
            topic.fields.refuse(f"topic {topic.name}: {reason}")
            continue
        first = found.setdefault((topic.cluster, topic.name), topic)
        if first is not topic:
            topic.fields.refuse(f"topic {topic.name} is declared twice, first in {first.fields.place}")
    documents = []
    for on in sorted({cluster for cluster, _ in found}):
        members = {name: topic for (where, name), topic in sorted(found.items()) if where == on}
        names = assign_document_names(members, on)
        for name, topic in members.items():
            document = _build_document(topic, names[name])
            if problem := next(iter(check.check(document)), None):
                topic.fields.refuse(f"topic {name}: {problem.message}")
            else:
                documents.append(document)
    return documents


def _build_document(topic: ImportedTopic, name: str) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": topic.namespace,
        "labels": dict(sorted(topic.labels.items())),
        "annotations": dict(sorted(topic.annotations.items())),
    }
    spec = {
        "topicName": topic.name if topic.name != name else "",
        "clusters": [topic.cluster] if topic.cluster else [],
        "partitions": topic.partitions if topic.assignment is None else None,
        "replicationFactor": topic.replication_factor if topic.assignment is None else None,
        "replicaAssignment": [list(replicas) for replicas in topic.assignment] if topic.assignment else None,
        "config": to_scalars(dict(sorted(topic.config.items()))),
        "ensure": "Absent" if topic.is_absent else "",
        "mode": "Observe" if topic.is_observed else "",
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "Topic",
        "metadata": {key: value for key, value in metadata.items() if value},
        "spec": {key: value for key, value in spec.items() if value},
    }
