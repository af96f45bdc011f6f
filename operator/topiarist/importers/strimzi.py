"""Topics of Strimzi's topic operator: ``KafkaTopic`` resources, single or in lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from topiarist.importers.fields import ForeignDocument, LeftOut
from topiarist.importers.resources import TOPIC_KIND, find_resources, take_metadata
from topiarist.importers.topic import ImportedTopic

_CLUSTER_LABEL = "strimzi.io/cluster"
_MANAGED, _PAUSED = "strimzi.io/managed", "strimzi.io/pause-reconciliation"


def import_topics(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
    """Yield the topics of KafkaTopic resources; add to ``left_out`` what has no counterpart.

    A topic outlives its ``Topic`` unless ``deletionPolicy: Delete`` is set; Strimzi deletes it with its resource.
    """
    for kind, top in find_resources(documents, left_out, "kafka.strimzi.io"):
        if kind != TOPIC_KIND:
            top.refuse(f"kind {kind or 'of no name'} is no topic")
            continue
        metadata = take_metadata(top, (_CLUSTER_LABEL, _MANAGED, _PAUSED))
        if metadata.is_deleted:
            continue
        spec = top.take_fields("spec")
        marks = metadata.marks
        yield ImportedTopic(
            spec.take_text("topicName") or metadata.name,
            top,
            partitions=spec.take_count("partitions"),
            replication_factor=spec.take_count("replicas"),
            config=spec.take_config("config"),
            cluster=marks.get(_CLUSTER_LABEL, ""),
            namespace=metadata.namespace,
            labels=metadata.labels,
            annotations=metadata.annotations,
            is_observed=marks.get(_PAUSED, "").lower() == "true" or marks.get(_MANAGED, "").lower() == "false",
        )
        spec.finish()
        top.finish()
