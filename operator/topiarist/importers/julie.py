"""Topics of JulieOps (Kafka Topology Builder): descriptors with a context, projects and their topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from topiarist.importers.fields import Fields, ForeignDocument, LeftOut, to_text
from topiarist.importers.topic import ImportedTopic

_PARTITIONS, _FACTOR = "num.partitions", "replication.factor"
_PLANS = "plans"


def import_topics(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
    """Yield the topics of descriptors; add to ``left_out`` what has no counterpart.

    Names are built by the tool's default pattern: the context, every attribute before ``projects`` in order, the
    project, the topic and its data type, with dots. A file of plans gives configs that a topic's own win over.
    """
    tops = [Fields(document, left_out) for document in documents]
    plans: dict[str, Mapping[str, str]] = {}
    for top in tops:
        if _PLANS in top:
            found = top.take_fields(_PLANS)
            for name in found:
                plan = found.take_fields(name)
                plans[name] = plan.take_config("config")
                for field in ("alias", "description"):
                    plan.take(field)
                plan.finish()
            top.finish()
    for top in tops:
        if _PLANS not in top:
            yield from _import_descriptor(top, plans)


def _import_descriptor(top: Fields, plans: Mapping[str, Mapping[str, str]]) -> Iterator[ImportedTopic]:
    prefix = []
    for name in top:
        if name == "projects":
            break
        value = top.take(name)
        if isinstance(value, Mapping | list):
            top.leave_out(name)
        elif value is not None:
            prefix.append(to_text(value))
    for project in top.take_list("projects"):
        names = [*prefix, project.take_text("name")]
        for item in project.take_list("topics"):
            topic = _import_topic(item, names, plans)
            if topic:
                yield topic
        project.finish()
    top.finish()


def _import_topic(item: Fields, names: list[str], plans: Mapping[str, Mapping[str, str]]) -> ImportedTopic | None:
    own, data_type = item.take_text("name"), item.take_text("dataType")
    if not own:
        item.refuse("found no name")
        return None
    config = item.take_config("config")
    if plan := item.take_text("plan"):
        if plan in plans:
            config = {**plans[plan], **config}
        else:
            item.leave_out("plan", "there is no such plan in the given files")
    topic = ImportedTopic(
        ".".join(filter(None, (*names, own, data_type))),
        item,
        partitions=_pop_count(config, _PARTITIONS, item),
        replication_factor=_pop_count(config, _FACTOR, item),
        config=config,
        annotations=item.take_texts("metadata"),
    )
    item.finish()
    return topic


def _pop_count(config: dict[str, str], key: str, item: Fields) -> int | None:
    text = config.pop(key, "")
    if text and not text.isdigit():
        item.take_fields("config").leave_out(key, "found no positive number here")
    return int(text) if text.isdigit() and int(text) > 0 else None
