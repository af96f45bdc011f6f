"""Topics of Jikkou: ``KafkaTopic`` and ``KafkaTopicList``, with the configs of ``ConfigMap`` documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from topiarist.importers.fields import Fields, ForeignDocument, LeftOut
from topiarist.importers.resources import TOPIC_KIND, find_resources, take_metadata
from topiarist.importers.topic import ImportedTopic

_DELETE, _IGNORE = "jikkou.io/delete", "jikkou.io/ignore"


def import_topics(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
    """Yield the topics of Jikkou's files; add to ``left_out`` what has no counterpart.

    As in Jikkou, a ConfigMap wins over the configs of a topic that refers to it, and a later reference over an earlier
    one. A topic that Jikkou ignores is only observed.
    """
    maps: dict[str, Mapping[str, str]] = {}
    topics = []
    for kind, top in find_resources(documents, left_out, "kafka.jikkou.io"):
        if kind == TOPIC_KIND:
            topics.append(top)
        elif kind == "ConfigMap":
            _add_map(top, maps)
        else:
            top.refuse(f"kind {kind or 'of no name'} is no topic")
    for top in topics:
        yield from _import_topic(top, maps)


def _add_map(top: Fields, maps: dict[str, Mapping[str, str]]) -> None:
    metadata = top.take_fields("metadata")
    name = metadata.take_text("name")
    if name in maps:
        top.refuse(f"ConfigMap {name} is declared twice")
        return
    maps[name] = top.take_config("data")
    metadata.finish()
    top.finish()


def _import_topic(top: Fields, maps: Mapping[str, Mapping[str, str]]) -> Iterator[ImportedTopic]:
    metadata, spec = take_metadata(top, (_DELETE, _IGNORE)), top.take_fields("spec")
    config = spec.take_config("configs")
    references = spec.take("configMapRefs") or []
    for reference in references if isinstance(references, list) else [references]:
        if isinstance(reference, str) and reference in maps:
            config |= maps[reference]
        else:
            spec.leave_out("configMapRefs", f"there is no ConfigMap {reference} in the given files")
    is_observed = metadata.marks.get(_IGNORE, "false").lower() != "false"
    topic = ImportedTopic(
        metadata.name,
        top,
        partitions=spec.take_count("partitions"),
        replication_factor=spec.take_count("replicas"),
        config=config,
        labels=metadata.labels,
        annotations=metadata.annotations,
        is_absent=_is_absent(top, metadata.marks, is_observed=is_observed),
        is_observed=is_observed,
    )
    spec.finish()
    top.finish()
    if metadata.name:
        yield topic
    else:
        top.refuse("found no name")


def _is_absent(top: Fields, marks: Mapping[str, str], *, is_observed: bool) -> bool:
    """Return whether Jikkou would delete the topic; name a mark that is not carried out."""
    mark = marks.get(_DELETE, "false").lower()
    if mark != "false" and (is_observed or mark != "true"):
        reason = "Jikkou ignores the topic" if is_observed else "found neither true nor false"
        top.take_fields("metadata").take_fields("annotations").leave_out(_DELETE, reason)
        return False
    return mark == "true"
