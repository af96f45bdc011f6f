"""Topics of the Terraform provider Mongey/kafka: ``kafka_topic`` in the output of ``terraform show -json``.

The output may have the secrets of other resources. Only ``kafka_topic`` is read; of all others their number is named,
never a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from topiarist.importers.fields import Fields, ForeignDocument, LeftOut
from topiarist.importers.topic import ImportedTopic

_TOPIC = "kafka_topic"


def import_topics(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
    """Yield the topics of a state or plan; add to ``left_out`` what has no counterpart."""
    for document in documents:
        top = Fields(document, left_out)
        values = top.take_fields("values" if "values" in top else "planned_values")
        if "root_module" not in values:
            top.refuse("found no state: give the output of terraform show -json")
            continue
        counts: dict[str, int] = {}
        yield from _import_module(values.take_fields("root_module"), counts)
        for kind, count in sorted(counts.items()):
            left_out.append(LeftOut(document.file, 0, kind, f"({count})", "is no topic"))


def _import_module(module: Fields, counts: dict[str, int]) -> Iterator[ImportedTopic]:
    for resource in module.take_list("resources"):
        kind = resource.take_text("type")
        if kind != _TOPIC or resource.take_text("mode") == "data":
            counts[kind] = counts.get(kind, 0) + 1
            continue
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
