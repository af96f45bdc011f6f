"""Topics of the Terraform provider Mongey/kafka: ``kafka_topic`` in the output of ``terraform show -json``.

The output may have the secrets of other resources. Only ``kafka_topic`` is read; of all others their number is named,
never a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from topiarist.importers.fields import Fields, ForeignDocument, LeftOut
from topiarist.importers.topic import ImportedTopic

_TOPIC = "kafka_topic"
_TOPIC_OF_OTHERS = re.compile(
    r".*kafka.*_topics?(_v[0-9]+)?|redpanda_topic|conduktor_.*topic.*|ibm_event_streams_topic"
)
_WANTED = "give the output of terraform show -json"


def import_topics(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
    """Yield the topics of a state or plan; add to ``left_out`` what has no counterpart."""
    for document in documents:
        if not isinstance(document.body, Mapping):
            left_out.append(LeftOut(document.file, document.line_of(()), "", "", f"found no state: {_WANTED}"))
            continue
        top = Fields(document, left_out)
        values = top.take_fields("values" if "values" in top else "planned_values")
        if "root_module" not in values:
            top.refuse(_describe_other(top))
            continue
        counts: dict[str, int] = {}
        yield from _import_module(values.take_fields("root_module"), counts)
        for kind, count in sorted(counts.items()):
            left_out.append(LeftOut(document.file, 0, kind, f"({count})", _describe_type(kind)))


def _describe_other(top: Fields) -> str:
    """Return what a document is that has no values."""
    if "lineage" in top or ("version" in top and "resources" in top):
        return f"a raw state file: {_WANTED}"
    if "resource" in top or "terraform" in top:
        return f"a configuration: {_WANTED}"
    return "an empty state" if "format_version" in top else f"found no state: {_WANTED}"


def _describe_type(kind: str) -> str:
    """Return what resources of a type are that is not imported."""
    if kind == f"data.{_TOPIC}":
        return "a data source, which Terraform only reads"
    return "a topic of another provider, which is not imported" if _TOPIC_OF_OTHERS.fullmatch(kind) else "is no topic"


def _import_module(module: Fields, counts: dict[str, int]) -> Iterator[ImportedTopic]:
    for resource in module.take_list("resources"):
        is_data = resource.take_text("mode") == "data"
        kind = ("data." if is_data else "") + resource.take_text("type")
        if kind != _TOPIC:
            counts[kind] = counts.get(kind, 0) + 1
            continue
        resource.leave_out("tainted", "Terraform would recreate the topic, topiarist does not")
        values = resource.take_fields("values")
        values.take("id")
        topic = ImportedTopic(
            values.take_text("name"),
            values,
            partitions=values.take_count("partitions"),
            replication_factor=values.take_count("replication_factor"),
            config=values.take_config("config"),
        )
        values.finish()
        if topic.name:
            yield topic
        else:
            values.refuse("found no name")
    for child in module.take_list("child_modules"):
        yield from _import_module(child, counts)
