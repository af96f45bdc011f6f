"""Resources of Kubernetes and Jikkou: ``KafkaTopic``, single or in lists, as topics.

``_take_metadata`` counts the fields that servers and other tools set. The ``KafkaTopic`` of another operator is a row
here, and one of ``IMPORTERS``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from topiarist.importers.topic import Fields, ForeignDocument, ImportedTopic, LeftOut, build_document
from topiarist.model.spec import Source
from topiarist.schema.identity import IMPORTERS
from topiarist.schema.load import API_GROUP
from topiarist.text import LOOKS_LIKE_TEMPLATE

_TOPIC_KIND = "KafkaTopic"

_SERVER_SET = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
_LIST_SET = (*_SERVER_SET, "continue", "remainingItemCount")
_BOOKKEEPING = (
    "argocd.argoproj.io/instance",
    "argocd.argoproj.io/tracking-id",
    "helm.toolkit.fluxcd.io/*",
    "jikkou.io/changes-count",
    "jikkou.io/generated",
    "jikkou.io/items-count",
    "jikkou.io/managed-by-location",
    "kafka.jikkou.io/cluster-id",
    "kafka.jikkou.io/topic-id",
    "kubectl.kubernetes.io/last-applied-configuration",
    "kustomize.toolkit.fluxcd.io/name",
    "kustomize.toolkit.fluxcd.io/namespace",
    "meta.helm.sh/*",
)
"""Labels and annotations that a tool sets by itself; on another resource they would be wrong."""

_DOMAINS = ("strimzi.io", "jikkou.io", "confluent.io", "banzaicloud.io")
"""Domains of labels and annotations with a meaning for the tool that topics come from."""


class _Metadata(NamedTuple):
    """The metadata of a resource; ``marks`` are the labels and annotations with a meaning for the importer."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    marks: Mapping[str, str]
    is_deleted: bool


def _find_resources(
    documents: Iterable[ForeignDocument], left_out: list[LeftOut], group: str
) -> Iterator[tuple[str, Fields]]:
    """Yield the kind and the fields of each resource; items of lists are resources as documents are.

    Topics of another API group than ``group`` are left out and named.
    """
    for document in documents:
        if isinstance(document.body, list):
            for index, body in enumerate(document.body):
                yield from _unwrap(Fields(document, left_out, body, (index,)), group)
        else:
            yield from _unwrap(Fields(document, left_out), group)


def _unwrap(top: Fields, group: str) -> Iterator[tuple[str, Fields]]:
    kind, version = top.take_text("kind"), top.take_text("apiVersion")
    if not (kind.endswith("List") and "items" in top):
        if not _refuse_other(top, kind, version, group):
            yield kind, top
        return
    for item in top.take_list("items"):
        own = item.take_text("kind") or kind.removesuffix("List")
        if not _refuse_other(item, own, item.take_text("apiVersion") or version, group):
            yield own, item
    metadata = top.take_fields("metadata")
    metadata.pass_over(*_LIST_SET)
    metadata.finish("the metadata of a list have no effect on its topics")
    top.finish()


def _refuse_other(top: Fields, kind: str, version: str, group: str) -> bool:
    reason = describe_other(kind, version, group)
    if reason:
        top.refuse(reason)
    return bool(reason)


def describe_other(kind: str, version: str, group: str = "") -> str:
    """Return what a resource is if it is no topic of API group ``group`` but one of another; else empty text."""
    found = version.partition("/")[0]
    if kind == "Template":
        return f"{LOOKS_LIKE_TEMPLATE} (kind Template): render it first (oc process)"
    if "Topic" not in kind or not found or found == group:
        return ""
    if found == API_GROUP:
        return f"a {kind} of {found}, which needs no import"
    if found in IMPORTERS:
        return f"a {kind} of {found}: import it as {IMPORTERS[found]}"
    return f"a {kind} of {found}, which is not imported"


def _take_metadata(top: Fields, honoured: Iterable[str]) -> _Metadata:
    """Return the metadata of a resource; count what servers set, name marks that are not ``honoured``."""
    top.pass_over("status")
    metadata = top.take_fields("metadata")
    metadata.pass_over(*_SERVER_SET)
    sections: dict[str, dict[str, str]] = {}
    marks: dict[str, str] = {}
    for section in ("labels", "annotations"):
        texts = sections[section] = metadata.take_texts(section)
        inner = metadata.take_fields(section)
        for key, text in [*texts.items()]:
            if any(fnmatchcase(key, pattern) for pattern in _BOOKKEEPING):
                inner.pass_over(key)
            elif key in honoured:
                marks[key] = text
            elif key.partition("/")[0].endswith(_DOMAINS):
                inner.leave_out(key, "a mark of another tool, which topiarist does not know")
            else:
                continue
            del texts[key]
        if section == "labels":
            sections[section] = inner.select_labels(texts)
    is_deleted = metadata.take("deletionTimestamp") is not None
    if is_deleted:
        metadata.leave_out("deletionTimestamp", "the resource is being deleted, so its topic is not imported")
    found = _Metadata(
        metadata.take_text("name"),
        metadata.take_text("namespace"),
        **sections,
        marks=marks,
        is_deleted=is_deleted,
    )
    metadata.finish()
    return found


# Topics of operators for Kubernetes: ``KafkaTopic`` resources, single or in lists.


class Operator(NamedTuple):
    """The ``KafkaTopic`` of an operator: its API group and the fields of its spec.

    The cluster is the name in the field ``reference``, or a label. ``observed`` has the annotations that make the
    operator leave a topic alone, with a pattern of their values in lower case.
    """

    group: str
    name: str
    partitions: str
    replicas: str
    config: str
    observed: Mapping[str, str]
    reference: str = ""
    label: str = ""


STRIMZI = Operator(
    group="kafka.strimzi.io",
    name="topicName",
    partitions="partitions",
    replicas="replicas",
    config="config",
    observed={"strimzi.io/managed": "false", "strimzi.io/pause-reconciliation": "true"},
    label="strimzi.io/cluster",
)
CONFLUENT = Operator(
    group="platform.confluent.io",
    name="name",
    partitions="partitionCount",
    replicas="replicas",
    config="configs",
    observed={"platform.confluent.io/block-reconcile": "true"},
    reference="kafkaClusterRef",
)
KOPERATOR = Operator(
    group="kafka.banzaicloud.io",
    name="name",
    partitions="partitions",
    replicas="replicationFactor",
    config="config",
    observed={"managedBy": "(?!koperator$).*"},
    reference="clusterRef",
)


def import_operator(
    operator: Operator, documents: Iterable[ForeignDocument], left_out: list[LeftOut]
) -> Iterator[ImportedTopic]:
    """Yield the topics of KafkaTopic resources; add to ``left_out`` what has no counterpart.

    A topic outlives its ``Topic`` unless ``deletionPolicy: Delete`` is set; operators delete it with its resource.
    """
    for kind, top in _find_resources(documents, left_out, operator.group):
        if kind != _TOPIC_KIND:
            top.refuse(f"kind {kind or 'of no name'} is no topic")
            continue
        metadata = _take_metadata(top, (operator.label, *operator.observed))
        if metadata.is_deleted:
            continue
        spec, marks = top.take_fields("spec"), metadata.marks
        reference = spec.take_fields(operator.reference) if operator.reference in spec else None
        yield ImportedTopic(
            spec.take_text(operator.name) or metadata.name,
            top,
            partitions=spec.take_count(operator.partitions),
            replication_factor=spec.take_count(operator.replicas),
            config=spec.take_config(operator.config),
            cluster=reference.take_text("name") if reference else marks.get(operator.label, ""),
            namespace=metadata.namespace,
            labels=metadata.labels,
            annotations=metadata.annotations,
            is_observed=any(
                re.fullmatch(pattern, marks[mark].lower())
                for mark, pattern in operator.observed.items()
                if mark in marks
            ),
        )
        for fields in filter(None, (reference, spec, top)):
            fields.finish()


def read_kafka_topic(body: Mapping[str, Any], source: Source) -> tuple[dict[str, Any], list[LeftOut]]:
    """Return the document of one ``KafkaTopic`` of Strimzi, and the fields of its spec that have no counterpart.

    The scalars of ``body`` are texts, as in files. The document keeps the name of the resource. Fields of the metadata
    that have no counterpart have no effect on the topic.
    """
    account: list[LeftOut] = []
    (topic,) = import_operator(STRIMZI, [ForeignDocument(body, "", source)], account)
    document = build_document(topic, body["metadata"]["name"])
    return document, [each for each in account if each.field.startswith("spec")]


# Topics of Jikkou: ``KafkaTopic`` and ``KafkaTopicList``, with the configs of ``ConfigMap`` documents.

_DELETE, _IGNORE = "jikkou.io/delete", "jikkou.io/ignore"


def import_jikkou(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
    """Yield the topics of Jikkou's files; add to ``left_out`` what has no counterpart.

    As in Jikkou, a ConfigMap wins over the configs of a topic that refers to it, and a later reference over an earlier
    one. A topic that Jikkou ignores is only observed.
    """
    maps: dict[str, Mapping[str, str]] = {}
    topics = []
    for kind, top in _find_resources(documents, left_out, "kafka.jikkou.io"):
        if kind == _TOPIC_KIND:
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
    metadata, spec = _take_metadata(top, (_DELETE, _IGNORE)), top.take_fields("spec")
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
    yield topic


def _is_absent(top: Fields, marks: Mapping[str, str], *, is_observed: bool) -> bool:
    """Return whether Jikkou would delete the topic; name a mark that is not carried out."""
    mark = marks.get(_DELETE, "false").lower()
    if mark != "false" and (is_observed or mark != "true"):
        reason = "Jikkou ignores the topic" if is_observed else "found neither true nor false"
        top.take_fields("metadata").take_fields("annotations").leave_out(_DELETE, reason)
        return False
    return mark == "true"
