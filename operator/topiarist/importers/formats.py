"""The formats of other tools: one importer each, and the import of files by the name of the format.

An importer yields the topics of documents, and adds to ``left_out`` what has no counterpart. To add a format, write an
importer with a section of its own, add it to ``FORMATS``, describe it in docs/comparison.md, and add a folder to
``tests/examples/import``. Name it in the help of ``cli/commands/import_.py``. A type of Terraform's resources is a row
of ``_TOPIC_TYPES``; ``resources`` has the topics of operators.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from topiarist.errors import Location
from topiarist.importers.resources import CONFLUENT, KOPERATOR, STRIMZI, describe_other, import_jikkou, import_operator
from topiarist.importers.topic import (
    DESCRIPTION,
    Fields,
    ForeignDocument,
    ImportedTopic,
    LeftOut,
    build_documents,
    config_reason,
    read_whole_number,
)
from topiarist.schema.identity import IMPORTERS, find_form
from topiarist.text import template_reason

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


# Topics of Terraform's providers Mongey/kafka, Confluent and AWS, in the output of ``terraform show -json``.
#
# The output may have the secrets of other resources. Only topics are read; of all others their number is named, never a
# value.


class _TopicType(NamedTuple):
    """A type of resources that are topics: its attributes, and those that repeat others or that the service sets.

    ``replicas`` is empty if the service chooses the replication factor.
    """

    name: str
    partitions: str
    replicas: str
    config: str
    derived: tuple[str, ...] = ("id",)


_TOPIC_TYPES = {
    "kafka_topic": _TopicType("name", "partitions", "replication_factor", "config"),
    "confluent_kafka_topic": _TopicType("topic_name", "partitions_count", "", "config"),
    "aws_msk_topic": _TopicType(
        "name", "partition_count", "replication_factor", "configs", ("arn", "configs_actual", "id", "region")
    ),
}
_TOPIC_OF_OTHERS = re.compile(
    r".*kafka.*_topics?(_v[0-9]+)?|redpanda_topic|conduktor_.*topic.*|ibm_event_streams_topic"
)
_MSK_CLUSTER = re.compile(r"arn:[^:]*:kafka:[^:]*:[^:]*:cluster/(?P<name>[^/]+)/.*")
_WANTED = "give the output of terraform show -json"


class _State(NamedTuple):
    """The account of a state: resources that are no topics by type, unknown values of a plan by address.

    ``arns`` has the first cluster of MSK of each name.
    """

    counts: Counter[str]
    unknown: Mapping[str, Fields]
    arns: dict[str, str]


def _import_terraform(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
    """Yield the topics of a state or plan; add to ``left_out`` what has no counterpart."""
    arns: dict[str, str] = {}
    for document in documents:
        if not isinstance(document.body, Mapping):
            left_out.append(LeftOut(document.file, document.line_of(()), "", "", f"found no state: {_WANTED}"))
            continue
        top = Fields(document, left_out)
        values = top.take_fields("values" if "values" in top else "planned_values")
        if "root_module" not in values:
            top.refuse(_describe_other(top))
            continue
        state = _State(Counter(), _find_unknown(top), arns)
        yield from _import_module(values.take_fields("root_module"), state)
        for kind, count in sorted(state.counts.items()):
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
    if kind.removeprefix("data.") in _TOPIC_TYPES:
        return "a data source, which Terraform only reads"
    return "a topic of another provider, which is not imported" if _TOPIC_OF_OTHERS.fullmatch(kind) else "is no topic"


def _find_unknown(top: Fields) -> dict[str, Fields]:
    """Return the attributes of topics that a plan does not know, by the address of the resource."""
    changes = [each for each in top.take_list("resource_changes") if each.take_text("type") in _TOPIC_TYPES]
    return {each.take_text("address"): each.take_fields("change").take_fields("after_unknown") for each in changes}


def _import_module(module: Fields, state: _State) -> Iterator[ImportedTopic]:
    for resource in module.take_list("resources"):
        is_data = resource.take_text("mode") == "data"
        kind = ("data." if is_data else "") + resource.take_text("type")
        if kind not in _TOPIC_TYPES:
            state.counts[kind] += 1
            continue
        resource.leave_out("tainted", "Terraform would recreate the topic, topiarist does not")
        names, values = _TOPIC_TYPES[kind], resource.take_fields("values")
        if unknown := state.unknown.get(resource.take_text("address")):
            unknown.leave_out_unknown(names.derived)
        topic = ImportedTopic(
            values.take_text(names.name),
            values,
            partitions=values.take_count(names.partitions),
            replication_factor=values.take_count(names.replicas),
            config=values.take_json(names.config).read_config()
            if isinstance(values.take(names.config), str)
            else values.take_config(names.config),
            cluster=_take_cluster(values, state.arns),
        )
        for name in names.derived:
            values.take(name)
        values.take_unset()
        values.finish()
        yield topic
    for child in module.take_list("child_modules"):
        yield from _import_module(child, state)


def _take_cluster(values: Fields, arns: dict[str, str]) -> str:
    """Return the id of a cluster of Confluent Cloud, or the name in the ARN of one of MSK; else empty text.

    If another cluster of MSK has the same name, the result is the ARN.
    """
    found = ""
    for block in values.take_list("kafka_cluster"):
        found = block.take_text("id")
        block.finish()
    arn = values.take_text("cluster_arn")
    match = _MSK_CLUSTER.fullmatch(arn)
    name = match["name"].lower() if match else found or arn
    return name if arns.setdefault(name, arn) == arn else arn


# Topics of topicctl: one topic a document, beside documents of clusters, ACLs and users.

_CLUSTER, _USER = "a cluster of topicctl: write a Cluster document for it", "a user of topicctl, which is not imported"
_NO_TOPICS = {
    "acls": "ACLs of topicctl, which are not imported",
    "bootstrapAddrs": _CLUSTER,
    "mechanism": _USER,
    "password": _USER,
    "zkAddrs": _CLUSTER,
}
"""Reasons to leave out a document, by a field of its spec."""

_STATIC = "static"


def _import_topicctl(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
    """Yield the topics of topicctl's files; add to ``left_out`` what has no counterpart."""
    for document in documents:
        top = Fields(document, left_out)
        meta, spec = top.take_fields("meta"), top.take_fields("spec")
        if other := next((reason for field, reason in _NO_TOPICS.items() if field in spec), ""):
            top.refuse(other)
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
            retention = str(minutes * 60_000)
            if reason := config_reason("retention.ms", retention):
                spec.leave_out("retentionMinutes", f"in milliseconds: {reason}")
            else:
                config["retention.ms"] = retention
        placement = spec.take_fields("placement")
        topic = ImportedTopic(
            name,
            top,
            partitions=spec.take_count("partitions"),
            replication_factor=spec.take_count("replicationFactor"),
            config=config,
            cluster=meta.take_text("cluster"),
            labels=meta.take_fields("labels").select_labels(meta.take_texts("labels")),
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
    return assignment or None


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


# Topics of AsyncAPI 2 and 3: channels on servers of Kafka, with their Kafka bindings.

_KAFKA_PROTOCOLS = ("kafka", "kafka-secure")
_OF_APPLICATIONS = ("components", "defaultContentType", "externalDocs", "id", "info", "operations", "servers", "tags")
_OF_MESSAGES = (
    "deprecated",
    "externalDocs",
    "messages",
    "parameters",
    "publish",
    "subscribe",
    "summary",
    "tags",
    "title",
)
"""Fields of a document, and of a channel, that describe no topic."""


def _import_asyncapi(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
    """Yield a topic for each channel and server of Kafka; add to ``left_out`` what has no counterpart.

    References in a document are followed. The name of a server is that of a cluster.
    """
    for document in documents:
        top = Fields(document, left_out)
        version = top.take_text("asyncapi").partition(".")[0]
        if version not in ("2", "3"):
            top.refuse("found no document of AsyncAPI 2 or 3")
            continue
        top.pass_over(*_OF_APPLICATIONS)
        servers = top.take_fields("servers")
        protocols = {}
        for name in servers:
            server = servers.take_referenced(name)
            protocols[name] = server.take_text("protocol") if server else ""
        channels = top.take_fields("channels")
        for name in channels:
            if channel := channels.take_referenced(name):
                yield from _import_channel(channel, name if version == "2" else "", protocols)
        top.finish()


class _Binding(NamedTuple):
    """The Kafka binding of a channel, or the part of one that a server has instead; ``topic`` is empty without one."""

    topic: str
    partitions: int | None
    replicas: int | None
    config: Mapping[str, str]
    places: Mapping[str, Location]

    @classmethod
    def take(cls, fields: Fields) -> _Binding | None:
        """Return the binding in a mapping; None if a reference in it leads nowhere, which is named."""
        partitions, replicas = fields.take_count("partitions"), fields.take_count("replicas")
        configs = fields.take_referenced("topicConfiguration")
        if configs is None:
            return None
        config = configs.read_config()
        places = {key: configs.locate(key) for key in config}
        if partitions:
            places["partitions"] = fields.locate("partitions")
        if replicas:
            places["replicationFactor"] = fields.locate("replicas")
        return cls(fields.take_text("topic"), partitions, replicas, config, places)


def _import_channel(channel: Fields, name: str, protocols: Mapping[str, str]) -> Iterator[ImportedTopic]:
    """Yield a channel as a topic of each of its clusters; ``name`` is empty if the channel has an address instead."""
    bindings = channel.take_referenced("bindings")
    fields = bindings and bindings.take_referenced("kafka")
    binding = fields and _Binding.take(fields)
    if not (bindings and fields and binding):
        return
    servers = _take_servers(channel, protocols)
    if "kafka" not in bindings and not servers:
        channel.refuse("found neither a binding nor a server of Kafka")
        return
    name = name or channel.take_text("address")
    description = channel.take_text("description")
    overrides = fields.take_fields("envServerOverrides")
    for server in servers or [""]:
        part = overrides.take_fields(server)
        own = _Binding.take(part) or binding
        topic = own.topic or binding.topic or name
        if not topic or ("{" in topic and not template_reason(topic)):
            channel.refuse(f"the topic {topic} has parameters" if topic else "found neither an address nor a topic")
            return
        yield ImportedTopic(
            topic,
            fields,
            partitions=own.partitions or binding.partitions,
            replication_factor=own.replicas or binding.replicas,
            config={**binding.config, **own.config},
            cluster=server,
            annotations={DESCRIPTION: description} if description else {},
            places={**binding.places, **own.places},
        )
        part.finish()
    fields.pass_over("bindingVersion")
    channel.pass_over(*_OF_MESSAGES)
    for each in (overrides, fields, bindings, channel):
        each.finish()


def _take_servers(channel: Fields, protocols: Mapping[str, str]) -> list[str]:
    """Return the names of the servers of Kafka that a channel is on: all of the document if it names none."""
    found = channel.take("servers") or [*protocols]
    if isinstance(found, list) and all(isinstance(each, str) for each in found):
        names = found
    else:
        references = channel.take_list("servers")
        names = [each.take_text("$ref").removeprefix("#/servers/") for each in references]
        for each in references:
            each.finish("$ref replaces it")
    if unknown := [each for each in names if each not in protocols]:
        channel.leave_out("servers", f"there is no server {unknown[0]} in this document")
    return [each for each in names if protocols.get(each) in _KAFKA_PROTOCOLS]


Importer = Callable[[Iterable[ForeignDocument], list[LeftOut]], Iterator[ImportedTopic]]

FORMATS: Mapping[str, Importer] = {
    "asyncapi": _import_asyncapi,
    "cfk": partial(import_operator, CONFLUENT),
    "jikkou": import_jikkou,
    "julie": _import_julie,
    "kafka-gitops": _import_kafka_gitops,
    "koperator": partial(import_operator, KOPERATOR),
    "strimzi": partial(import_operator, STRIMZI),
    "terraform": _import_terraform,
    "topicctl": _import_topicctl,
}


class ImportResult(NamedTuple):
    """The topics with their documents, sorted by cluster and name, and what is left out, by place.

    ``passed_over`` are fields that describe no topic, such as those that servers and tools set. ``unused`` are the
    given names of clusters that no topic has; empty text is that of topics that name none.
    """

    topics: list[tuple[ImportedTopic, dict[str, Any]]]
    left_out: list[LeftOut]
    passed_over: list[LeftOut]
    unused: list[str]

    @property
    def documents(self) -> list[dict[str, Any]]:
        """The documents of all topics."""
        return [document for _, document in self.topics]


def import_documents(
    name: str,
    documents: Iterable[ForeignDocument],
    clusters: Mapping[str, str] = MappingProxyType({}),
    *,
    may_repeat: bool = False,
) -> ImportResult:
    """Import the documents of a format. See ``build_documents`` for ``clusters`` and ``may_repeat``."""
    account: list[LeftOut] = []
    topics = [*FORMATS[name]([*_select_own(name, documents, account)], account)]
    unused = sorted({*clusters} - {topic.cluster for topic in topics})
    built = build_documents(topics, clusters, may_repeat=may_repeat)
    named = sorted({*account})
    left_out = [each for each in named if not each.is_expected]
    return ImportResult(built, left_out, [each for each in named if each.is_expected], unused)


def _select_own(name: str, documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ForeignDocument]:
    """Yield documents without those of another format, which are left out and named."""
    for document in documents:
        body = document.body if isinstance(document.body, Mapping) else {}
        items = body.get("items")
        if body.get("kind") == "List" and isinstance(items, list) and items and isinstance(items[0], Mapping):
            body = items[0]
        kind, version = (str(body.get(field) or "") for field in ("kind", "apiVersion"))
        form = "" if version else find_form(body)
        if form not in ("", name):
            reason = f"a document of {form}: import it as {form}"
        elif kind and version and name not in IMPORTERS.values():
            reason = describe_other(kind, version) or f"a {kind} of {version}, which is not imported"
        else:
            yield document
            continue
        Fields(document, left_out).refuse(reason)
