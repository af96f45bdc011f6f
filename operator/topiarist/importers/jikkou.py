"""Topics of Jikkou: ``KafkaTopic`` and ``KafkaTopicList``, with the configs of ``ConfigMap`` documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from topiarist.importers.fields import Fields, ForeignDocument, LeftOut
from topiarist.importers.topic import ImportedTopic

_DELETE = "jikkou.io/delete"


def import_topics(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
    """Yield the topics of Jikkou's files; add to ``left_out`` what has no counterpart.

    As in Jikkou, a ConfigMap wins over the configs of a topic that refers to it, and a later one over an earlier one.
    """
    tops = [Fields(document, left_out) for document in documents]
    kinds = [top.take_text("kind") for top in tops]
    maps: dict[str, Mapping[str, str]] = {}
    for top, kind in zip(tops, kinds, strict=True):
        top.take("apiVersion")
        if kind == "ConfigMap":
            metadata = top.take_fields("metadata")
            maps[metadata.take_text("name")] = top.take_config("data")
            metadata.finish()
            top.finish()
    for top, kind in zip(tops, kinds, strict=True):
        match kind:
            case "KafkaTopic":
                yield from _import_topic(top, maps)
            case "KafkaTopicList":
                for item in top.take_list("items"):
                    yield from _import_topic(item, maps)
                top.leave_out("metadata", "the metadata of a list have no effect on its topics")
                top.finish()
            case "ConfigMap":
                pass
            case _:
                top.refuse(f"kind {kind or 'of no name'} is no topic")


def _import_topic(top: Fields, maps: Mapping[str, Mapping[str, str]]) -> Iterator[ImportedTopic]:
    for name in ("apiVersion", "kind"):
        top.take(name)
    metadata, spec = top.take_fields("metadata"), top.take_fields("spec")
    annotations = metadata.take_texts("annotations")
    config = spec.take_config("configs")
    references = spec.take("configMapRefs") or []
    for reference in references if isinstance(references, list) else [references]:
        if reference not in maps:
            spec.leave_out("configMapRefs", f"there is no ConfigMap {reference} in the given files")
        else:
            config |= maps[reference]
    name = metadata.take_text("name")
    is_absent = annotations.pop(_DELETE, "false") == "true"
    topic = ImportedTopic(
        name,
        top,
        partitions=spec.take_count("partitions"),
        replication_factor=spec.take_count("replicas"),
        config=config,
        labels=metadata.take_texts("labels"),
        annotations=annotations,
        is_absent=is_absent,
    )
    for fields in (metadata, spec, top):
        fields.finish()
    if name:
        yield topic
    else:
        top.refuse("found no name")
