"""Topics of topicctl: one topic a document, beside documents of clusters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from topiarist.importers.fields import Fields, ForeignDocument, LeftOut, read_whole_number
from topiarist.importers.topic import DESCRIPTION, ImportedTopic

_CLUSTER_FIELDS = {"bootstrapAddrs", "zkAddrs"}
_STATIC = "static"


def import_topics(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
    """Yield the topics of topicctl's files; add to ``left_out`` what has no counterpart."""
    for document in documents:
        top = Fields(document, left_out)
        meta, spec = top.take_fields("meta"), top.take_fields("spec")
        if not _CLUSTER_FIELDS.isdisjoint(spec):
            top.refuse("a cluster of topicctl: write a Cluster document for it")
            continue
        name = meta.take_text("name")
        if not name:
            top.refuse("found no name")
            continue
        config = spec.take_config("settings")
        minutes = spec.take_count("retentionMinutes")
        if minutes is not None and "retention.ms" in config:
            spec.leave_out("retentionMinutes", f"settings have retention.ms {config['retention.ms']} already")
        elif minutes is not None:
            config["retention.ms"] = str(minutes * 60_000)
        placement = spec.take_fields("placement")
        topic = ImportedTopic(
            name,
            top,
            partitions=spec.take_count("partitions"),
            replication_factor=spec.take_count("replicationFactor"),
            config=config,
            cluster=meta.take_text("cluster"),
            labels=meta.take_texts("labels"),
            annotations={DESCRIPTION: text} if (text := meta.take_text("description")) else {},
        )
        if placement.take_text("strategy") == _STATIC:
            topic.assignment = _take_assignment(placement)
            _name_other_sizes(topic, spec)
        else:
            placement.leave_out("strategy", "replicas are placed by Kafka's own algorithm, with racks")
        for fields in (placement, spec, meta, top):
            fields.finish()
        yield topic


def _take_assignment(placement: Fields) -> list[list[int]] | None:
    """Return the replica lists of a topic; None if there are none, or if one has another value than a broker id."""
    found = placement.take("staticAssignments")
    if found is None:
        return None
    assignment: list[list[int]] = []
    for replicas in found if isinstance(found, list) else [None]:
        ids = [read_whole_number(str(each)) for each in replicas] if isinstance(replicas, list) else []
        known = [each for each in ids if each is not None and each >= 0]
        if not known or known != ids:
            placement.leave_out("staticAssignments", "found no lists of broker ids here")
            return None
        assignment.append(known)
    return assignment


def _name_other_sizes(topic: ImportedTopic, spec: Fields) -> None:
    """Name the counts that the replica lists of a topic contradict; a list says both."""
    lists = topic.assignment or []
    sizes = {len(each) for each in lists}
    for name, count, found in (
        ("partitions", topic.partitions, {len(lists)}),
        ("replicationFactor", topic.replication_factor, sizes),
    ):
        if lists and count is not None and found != {count}:
            spec.leave_out(name, "staticAssignments have another number")
