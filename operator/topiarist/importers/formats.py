"""The formats of other tools: one importer each, and the import of files by the name of the format.

An importer yields the topics of documents, and adds to ``left_out`` what has no counterpart. To add a format, write an
importer with a section of its own, add it to ``FORMATS``, describe it in docs/comparison.md, and add a folder to
``tests/examples/import``. Name it in the help of ``cli/commands/init.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from topiarist.importers.topic import (
    DESCRIPTION,
    TOPIC_KIND,
    Fields,
    ForeignDocument,
    ImportedTopic,
    LeftOut,
    build_document,
    build_documents,
    describe_other,
    find_resources,
    read_whole_number,
    take_metadata,
)
from topiarist.model.spec import Source

# Topics of Strimzi's topic operator: ``KafkaTopic`` resources, single or in lists.

_CLUSTER_LABEL = "strimzi.io/cluster"
_MANAGED, _PAUSED = "strimzi.io/managed", "strimzi.io/pause-reconciliation"


def _import_strimzi(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
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


def read_kafka_topic(body: Mapping[str, Any], source: Source) -> tuple[dict[str, Any], list[LeftOut]]:
    """Return the document of one ``KafkaTopic``, and the fields of its spec that have no counterpart.

    The scalars of ``body`` are texts, as in files. The document keeps the name of the resource. Fields of the metadata
    that have no counterpart have no effect on the topic.
    """
    account: list[LeftOut] = []
    (topic,) = _import_strimzi([ForeignDocument(body, "", source)], account)
    document = build_document(topic, body["metadata"]["name"])
    return document, [each for each in account if each.field.startswith("spec")]


# Topics of kafka-gitops: one state file, which may name a second file with the topics.


def _import_kafka_gitops(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
    """Yield the topics of state files; add to ``left_out`` what has no counterpart.

    The default of the replication factor holds for the topics of all given files, because the settings may be in
    another file than the topics.
    """
    tops = [Fields(document, left_out) for document in documents]
    default: int | None = None
    for top in tops:
        settings = top.take_fields("settings")
        topics, files = settings.take_fields("topics"), settings.take_fields("files")
        defaults = topics.take_fields("defaults")
        factor = defaults.take_count("replication")
        if default is not None and factor not in (None, default):
            defaults.leave_out("replication", f"another file has {default}")
        default = factor if default is None else default
        if "topics" in files:
            files.leave_out("topics", "give this file to the importer too, if it is not among the given ones")
        for fields in (defaults, topics, files, settings):
            fields.finish()
    for top in tops:
        topics = top.take_fields("topics")
        for name in topics:
            spec = topics.take_fields(name)
            factor = spec.take_count("replication")
            yield ImportedTopic(
                name,
                spec,
                partitions=spec.take_count("partitions"),
                replication_factor=factor if factor is not None else default,
                config=spec.take_config("configs"),
            )
            spec.finish()
        top.finish()


# Topics of the Terraform provider Mongey/kafka: ``kafka_topic`` in the output of ``terraform show -json``.
#
# The output may have the secrets of other resources. Only ``kafka_topic`` is read; of all others their number is named,
# never a value.

_TOPIC = "kafka_topic"
_TOPIC_OF_OTHERS = re.compile(
    r".*kafka.*_topics?(_v[0-9]+)?|redpanda_topic|conduktor_.*topic.*|ibm_event_streams_topic"
)
_WANTED = "give the output of terraform show -json"


def _import_terraform(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
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


# Topics of topicctl: one topic a document, beside documents of clusters.

_CLUSTER_FIELDS = {"bootstrapAddrs", "zkAddrs"}
_STATIC = "static"


def _import_topicctl(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
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


# Topics of Jikkou: ``KafkaTopic`` and ``KafkaTopicList``, with the configs of ``ConfigMap`` documents.

_DELETE, _IGNORE = "jikkou.io/delete", "jikkou.io/ignore"


def _import_jikkou(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
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
        yield from _import_jikkou_topic(top, maps)


def _add_map(top: Fields, maps: dict[str, Mapping[str, str]]) -> None:
    metadata = top.take_fields("metadata")
    name = metadata.take_text("name")
    if name in maps:
        top.refuse(f"ConfigMap {name} is declared twice")
        return
    maps[name] = top.take_config("data")
    metadata.finish()
    top.finish()


def _import_jikkou_topic(top: Fields, maps: Mapping[str, Mapping[str, str]]) -> Iterator[ImportedTopic]:
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


# Topics of JulieOps (Kafka Topology Builder): descriptors with a context, projects and their topics.

_PARTITIONS, _FACTOR = "num.partitions", "replication.factor"
_PLANS, _SPECIAL = "plans", "special_topics"
_NOT_IN_NAMES = ("context", "projects", "platform", _SPECIAL)


class _Settings(NamedTuple):
    config: dict[str, str]
    sizes: dict[str, int | None]


def _import_julie(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
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
            yield from _import_julie_topic(item, plans, (*names, item.take_text("name"), item.take_text("dataType")))
        project.finish()
    for item in top.take_list(_SPECIAL):
        item.leave_out("dataType", "the name of a special topic is without it")
        yield from _import_julie_topic(item, plans, (item.take_text("name"),))
    top.finish()


def _import_julie_topic(item: Fields, plans: Mapping[str, _Settings], names: Iterable[str]) -> Iterator[ImportedTopic]:
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


Importer = Callable[[Iterable[ForeignDocument], list[LeftOut]], Iterator[ImportedTopic]]

FORMATS: Mapping[str, Importer] = {
    "jikkou": _import_jikkou,
    "julie": _import_julie,
    "kafka-gitops": _import_kafka_gitops,
    "strimzi": _import_strimzi,
    "terraform": _import_terraform,
    "topicctl": _import_topicctl,
}

_RESOURCES = ("jikkou", "strimzi")


class ImportResult(NamedTuple):
    """The documents of all topics, sorted by cluster and name, and what is left out, by place.

    ``passed_over`` are fields that no user has written: servers and tools set them.
    """

    documents: list[dict[str, Any]]
    left_out: list[LeftOut]
    passed_over: list[LeftOut]


def import_documents(name: str, documents: Iterable[ForeignDocument], cluster: str = "") -> ImportResult:
    """Import the documents of a format; ``cluster`` is that of topics that name none."""
    account: list[LeftOut] = []
    topics = [*FORMATS[name]([*_select_own(name, documents, account)], account)]
    built = build_documents(topics, cluster)
    named = sorted({*account})
    return ImportResult(
        built, [each for each in named if not each.is_expected], [each for each in named if each.is_expected]
    )


def _select_own(name: str, documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ForeignDocument]:
    """Yield documents without those that are topics of Kubernetes, where the format has another form."""
    for document in documents:
        body = document.body if isinstance(document.body, Mapping) and name not in _RESOURCES else {}
        if reason := describe_other(*(str(body.get(field, "")) for field in ("kind", "apiVersion"))):
            Fields(document, left_out).refuse(reason)
        else:
            yield document
