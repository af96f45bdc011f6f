"""Topics of Strimzi's topic operator: ``KafkaTopic`` resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from topiarist.importers.fields import Fields, ForeignDocument, LeftOut
from topiarist.importers.topic import ImportedTopic

_CLUSTER_LABEL = "strimzi.io/cluster"
_MANAGED, _PAUSED = "strimzi.io/managed", "strimzi.io/pause-reconciliation"


def import_topics(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
    """Yield the topics of KafkaTopic resources; add to ``left_out`` what has no counterpart.

    A topic outlives its ``Topic`` unless ``deletionPolicy: Delete`` is set; Strimzi deletes it with its resource.
    """
    for document in documents:
        top = Fields(document, left_out)
        kind = top.take_text("kind")
        if kind != "KafkaTopic":
            top.refuse(f"kind {kind or 'of no name'} is no topic")
            continue
        top.take("apiVersion")
        metadata, spec = top.take_fields("metadata"), top.take_fields("spec")
        labels, annotations = metadata.take_texts("labels"), metadata.take_texts("annotations")
        name = metadata.take_text("name")
        cluster = labels.pop(_CLUSTER_LABEL, "")
        is_managed = annotations.pop(_MANAGED, "true") != "false"
        is_paused = annotations.pop(_PAUSED, "false") == "true"
        topic = ImportedTopic(
            spec.take_text("topicName") or name,
            top,
            partitions=spec.take_count("partitions"),
            replication_factor=spec.take_count("replicas"),
            config=spec.take_config("config"),
            cluster=cluster,
            namespace=metadata.take_text("namespace"),
            labels=labels,
            annotations=annotations,
            is_observed=is_paused or not is_managed,
        )
        for fields in (metadata, spec, top):
            fields.finish()
        yield topic
