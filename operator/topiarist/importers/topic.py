"""Parts of all importers: the account of fields, an imported topic with its document, resources of Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from msgspec import Struct, field

from topiarist.desired.export import assign_document_names, to_scalars
from topiarist.errors import FieldPath
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.config_table import MAX_BY_TYPE, THROTTLE_CONFIGS, TOPIC_CONFIGS
from topiarist.model.spec import Source
from topiarist.schema import check
from topiarist.schema.explain import IMPORTERS
from topiarist.schema.load import API_GROUP, API_VERSION
from topiarist.text import LOOKS_LIKE_TEMPLATE, RENDER_HINT, TEMPLATE_MARKER

# The account of the fields of foreign documents: a field is taken by an importer, or it is left out and named.
#
# Each importer wraps its documents in ``Fields``, takes what it understands, and calls ``finish``: whatever was not
# taken becomes a ``LeftOut``, so that no field is dropped in silence, not even one that the importer does not know.
# Scalars are texts as the file has them. The account converts them only where Kafka has a number: counts and numeric
# configs.

NO_COUNTERPART = "topiarist has no counterpart"

_MAX_SHOWN = 60
_CONFIG_RULES = ConfigRules(mode=None, allow_unknown_configs=("*",))

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,30})?(?:[eE][-+]?[0-9]{1,2})?")
_FREE_TEXT = {"annotations", "description"}
"""Fields with text for people, in which braces are no template."""


class ForeignDocument(NamedTuple):
    """A document of another tool: mappings, lists, texts and None; its file, and the source with its positions."""

    body: Any
    file: str
    source: Source

    def line_of(self, path: FieldPath) -> int:
        """Return the line of the value at a path, or of its nearest ancestor with a place, from 1."""
        return self.source.locate(path).line


class LeftOut(NamedTuple):
    """A field, or a whole topic, that is not part of the result; ``field`` is empty for a document as a whole.

    ``is_expected`` is a field that no user has written, such as the status of a resource.
    """

    file: str
    line: int
    field: str
    value: str
    reason: str
    is_expected: bool = False

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        found = f"{self.field} {self.value}".strip() or "the document"
        return f"{place}: {found}: {self.reason}"


class Fields:
    """One mapping of a document. ``left_out`` collects what has no counterpart; all mappings of a run share it."""

    def __init__(
        self, document: ForeignDocument, left_out: list[LeftOut], body: Any = None, path: FieldPath = ()
    ) -> None:
        self._document = document
        self._left_out = left_out
        self._path = path
        found = document.body if body is None and not path else body
        self._body: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
        self._taken: set[str] = set()
        if found is not None and not isinstance(found, Mapping):
            self._add((), found, "found no mapping here")

    def __contains__(self, name: str) -> bool:
        return name in self._body

    def __iter__(self) -> Iterator[str]:
        return iter(self._body)

    @property
    def place(self) -> str:
        """The file and the line of the mapping."""
        return f"{self._document.file}:{self._document.line_of(self._path)}"

    def take(self, name: str) -> Any:
        """Return the value of a field as it is, and count it as mapped; None if it is absent or null."""
        self._taken.add(name)
        return self._body.get(name)

    def take_text(self, name: str) -> str:
        """Return a text; empty if it is absent. Other values are named as left out."""
        value = self.take(name)
        if isinstance(value, list | Mapping):
            self.leave_out(name, "found no text here")
            return ""
        return value or ""

    def take_count(self, name: str) -> int | None:
        """Return a number of partitions or replicas; None if it is absent or -1, which stands for the default."""
        value = self.take(name)
        count = read_whole_number(value) if isinstance(value, str) else None
        if value is None or count == -1:
            return None
        if count is None or count < 1:
            self.leave_out(name, "found no positive number here")
            return None
        return count

    def take_texts(self, name: str) -> dict[str, str]:
        """Return a mapping of texts, such as labels; null and nested values in it are named as left out."""
        inner = self.take_fields(name)
        found = {}
        for key in inner:
            value = inner._body[key]
            if isinstance(value, list) and all(isinstance(each, str) for each in value):
                found[key] = ",".join(value)
            elif not isinstance(value, str):
                inner.leave_out(key, "found no value here")
            else:
                found[key] = value
            inner._taken.add(key)
        return found

    def take_config(self, name: str) -> dict[str, str]:
        """Return the configs of a topic as Kafka's texts; whole numbers that a renderer printed as floats are such.

        Named are configs that a reassignment sets for a time, and values that every version of Kafka refuses.
        """
        found = self.take_texts(name)
        inner = self.take_fields(name)
        for key, text in [*found.items()]:
            if key in TOPIC_CONFIGS and TOPIC_CONFIGS[key].type in MAX_BY_TYPE:
                number = read_whole_number(text)
                found[key] = text if number is None else str(number)
            problem = _CONFIG_RULES.config_problem(key, found[key])
            if key in THROTTLE_CONFIGS:
                inner.leave_out(key, "a reassignment sets it for a time")
                del found[key]
            elif problem:
                inner.leave_out(key, problem[0].removeprefix(f"{key}: "))
                del found[key]
        return found

    def take_fields(self, name: str) -> Fields:
        """Return the mapping of a field; it is empty if it is absent."""
        value = self.take(name)
        return Fields(self._document, self._left_out, {} if value is None else value, (*self._path, name))

    def take_list(self, name: str) -> list[Fields]:
        """Return the mappings in a list."""
        value = self.take(name)
        if value is None:
            return []
        if not isinstance(value, Sequence) or isinstance(value, str):
            self.leave_out(name, "found no list here")
            return []
        return [
            Fields(self._document, self._left_out, {} if each is None else each, (*self._path, name, index))
            for index, each in enumerate(value)
        ]

    def leave_out(self, name: str, reason: str = NO_COUNTERPART) -> None:
        """Name a field as left out, if it is there."""
        self._taken.add(name)
        if name in self._body:
            self._add((name,), self._body[name], reason)

    def pass_over(self, *names: str) -> None:
        """Count fields that no user has written, such as the status of a resource, without a line for each."""
        for name in names:
            if name in self._body and name not in self._taken:
                self._taken.add(name)
                self._add((name,), None, "", is_expected=True)

    def refuse(self, reason: str) -> None:
        """Name the mapping as a whole as left out, such as a topic that no document can describe."""
        self._taken.update(self._body)
        self._add((), None, reason)

    def refuse_template(self) -> bool:
        """Name the first text in the mapping that a renderer would replace; return whether there is one."""
        for path, text in _find_texts(self._body):
            if reason := template_reason(text):
                self._add(path, text, reason)
                return True
        return False

    def finish(self, reason: str = NO_COUNTERPART) -> None:
        """Name all fields that were not taken."""
        for name in self._body:
            if name not in self._taken:
                self.leave_out(name, reason)

    def _add(self, below: FieldPath, value: Any, reason: str, *, is_expected: bool = False) -> None:
        path = (*self._path, *below)
        field = ".".join(map(str, path))
        shown = "" if value is None else _shorten(value)
        line = self._document.line_of(path)
        self._left_out.append(LeftOut(self._document.file, line, field, shown, reason, is_expected))


def read_whole_number(text: str) -> int | None:
    """Return a whole number, also one that a renderer printed as a float: ``6.048e+08``; None if the text is none.

    Numbers that YAML versions read differently, such as ``010`` and ``1_000``, are none.
    """
    if not _NUMBER.fullmatch(text):
        return None
    value = Decimal(text)
    return int(value) if value == value.to_integral_value() else None


def template_reason(text: str) -> str:
    """Return why a text is not imported if it has a marker of a template; else empty text."""
    found = TEMPLATE_MARKER.search(text)
    return f"{LOOKS_LIKE_TEMPLATE} ({found[0]}): {RENDER_HINT}" if found else ""


def _find_texts(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, str]]:
    """Yield each text of a value with its path; fields with text for people are left out."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if key not in _FREE_TEXT:
                yield from _find_texts(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _find_texts(each, (*path, index))


def _shorten(value: Any) -> str:
    text = value if isinstance(value, str) else f"({len(value)} entries)"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


DESCRIPTION = "description"
"""The annotation for a description."""


class ImportedTopic(Struct):
    """A topic as another tool describes it; ``fields`` is the mapping that it comes from.

    Sizes are None where the tool takes the brokers' default. ``config`` has Kafka's texts.
    """

    name: str
    fields: Fields
    partitions: int | None = None
    replication_factor: int | None = None
    assignment: Sequence[Sequence[int]] | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    is_absent: bool = False
    is_observed: bool = False


def build_documents(topics: Iterable[ImportedTopic], cluster: str) -> list[dict[str, Any]]:
    """Return the documents of topics, sorted by name; ``cluster`` is that of topics that name none.

    Topics that a document cannot describe, templates, and all but the first of several with one name on a cluster, are
    left out and named.
    """
    found: dict[tuple[str, str], ImportedTopic] = {}
    for topic in topics:
        topic.cluster = topic.cluster or cluster
        if topic.fields.refuse_template():
            continue
        if reason := template_reason(topic.name):
            topic.fields.refuse(f"topic {topic.name}: {reason}")
            continue
        first = found.setdefault((topic.cluster, topic.name), topic)
        if first is not topic:
            topic.fields.refuse(f"topic {topic.name} is declared twice, first in {first.fields.place}")
    documents = []
    for on in sorted({cluster for cluster, _ in found}):
        members = {name: topic for (where, name), topic in sorted(found.items()) if where == on}
        names = assign_document_names(members, on)
        for name, topic in members.items():
            document = build_document(topic, names[name])
            if problem := next(iter(check.check(document)), None):
                topic.fields.refuse(f"topic {name}: {problem.message}")
            else:
                documents.append(document)
    return documents


def build_document(topic: ImportedTopic, name: str) -> dict[str, Any]:
    """Return the document of a topic, with this name as that of the resource."""
    metadata = {
        "name": name,
        "namespace": topic.namespace,
        "labels": dict(sorted(topic.labels.items())),
        "annotations": dict(sorted(topic.annotations.items())),
    }
    spec = {
        "topicName": topic.name if topic.name != name else "",
        "clusters": [topic.cluster] if topic.cluster else [],
        "partitions": topic.partitions if topic.assignment is None else None,
        "replicationFactor": topic.replication_factor if topic.assignment is None else None,
        "replicaAssignment": [list(replicas) for replicas in topic.assignment] if topic.assignment else None,
        "config": to_scalars(dict(sorted(topic.config.items()))),
        "ensure": "Absent" if topic.is_absent else "",
        "mode": "Observe" if topic.is_observed else "",
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "Topic",
        "metadata": {key: value for key, value in metadata.items() if value},
        "spec": {key: value for key, value in spec.items() if value},
    }


# Resources of Kubernetes and Jikkou: single, in lists, with the fields that servers and other tools set in them.

TOPIC_KIND = "KafkaTopic"

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

_DOMAINS = ("strimzi.io", "jikkou.io")
"""Domains of labels and annotations with a meaning for the tool that topics come from."""


class Metadata(NamedTuple):
    """The metadata of a resource; ``marks`` are the labels and annotations with a meaning for the importer."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    marks: Mapping[str, str]
    is_deleted: bool


def find_resources(
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


def take_metadata(top: Fields, honoured: Iterable[str]) -> Metadata:
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
    metadata.leave_out("deletionTimestamp", "the resource is being deleted, so its topic is not imported")
    found = Metadata(
        metadata.take_text("name"),
        metadata.take_text("namespace"),
        **sections,
        marks=marks,
        is_deleted="deletionTimestamp" in metadata,
    )
    metadata.finish()
    return found
