"""Topics of JulieOps (Kafka Topology Builder): descriptors with a context, projects and their topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from topiarist.importers.fields import Fields, ForeignDocument, LeftOut
from topiarist.importers.topic import ImportedTopic

_PARTITIONS, _FACTOR = "num.partitions", "replication.factor"
_PLANS, _SPECIAL = "plans", "special_topics"
_NOT_IN_NAMES = ("context", "projects", "platform", _SPECIAL)


class _Settings(NamedTuple):
    config: dict[str, str]
    sizes: dict[str, int | None]


def import_topics(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
    """Yield the topics of descriptors; add to ``left_out`` what has no counterpart.

    Names are built by the tool's default pattern: the context, every other attribute in order, the project, the topic
    and its data type, with dots. Special topics have their own name alone. A file of plans gives configs that win
    over a topic's own.
    """
    tops = [Fields(document, left_out) for document in documents]
    plans: dict[str, _Settings] = {}
    for top in tops:
        if _PLANS in top:
            found = top.take_fields(_PLANS)
            for name in found:
                plan = found.take_fields(name)
                if name in plans:
                    plan.refuse("declared twice")
                    continue
                plans[name] = _take_settings(plan)
                for field in ("alias", "description"):
                    plan.take(field)
                plan.finish()
            top.finish()
    for top in tops:
        if _PLANS not in top:
            yield from _import_descriptor(top, plans)


def _import_descriptor(top: Fields, plans: Mapping[str, _Settings]) -> Iterator[ImportedTopic]:
    prefix = [top.take_text("context")]
    prefix += [top.take_text(name) for name in top if name not in _NOT_IN_NAMES]
    for project in top.take_list("projects"):
        names = [*prefix, project.take_text("name")]
        for item in project.take_list("topics"):
            yield from _import_topic(item, plans, (*names, item.take_text("name"), item.take_text("dataType")))
        project.finish()
    for item in top.take_list(_SPECIAL):
        item.leave_out("dataType", "the name of a special topic is without it")
        yield from _import_topic(item, plans, (item.take_text("name"),))
    top.finish()


def _import_topic(item: Fields, plans: Mapping[str, _Settings], names: Iterable[str]) -> Iterator[ImportedTopic]:
    if not item.take_text("name"):
        item.refuse("found no name")
        return
    config, sizes = _take_settings(item)
    if plan := item.take_text("plan"):
        if plan in plans:
            config, sizes = {**config, **plans[plan].config}, {**sizes, **plans[plan].sizes}
        else:
            item.leave_out("plan", "there is no such plan in the given files")
    yield ImportedTopic(
        ".".join(filter(None, names)),
        item,
        partitions=sizes.get(_PARTITIONS),
        replication_factor=sizes.get(_FACTOR),
        config=config,
        annotations=item.take_texts("metadata"),
    )
    item.finish()


def _take_settings(fields: Fields) -> _Settings:
    """Return the configs and the sizes of a topic or a plan, which are in one mapping."""
    config, inner = fields.take_config("config"), fields.take_fields("config")
    sizes = {key: inner.take_count(key) for key in (_PARTITIONS, _FACTOR) if config.pop(key, None) is not None}
    return _Settings(config, sizes)
