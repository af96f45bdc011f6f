"""Parts of all importers: the account of fields, an imported topic with its document, and its differences."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import unquote

from msgspec import Struct, field
from msgspec.structs import replace

from topiarist.desired.export import assign_document_names, to_scalars
from topiarist.errors import Diagnostic, FieldPath, Location
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.config_table import MAX_BY_TYPE, THROTTLE_CONFIGS, TOPIC_CONFIGS
from topiarist.kafka.config_values import is_equivalent
from topiarist.model.spec import Source, TopicSpec, find_origin
from topiarist.schema import check
from topiarist.schema.load import API_VERSION
from topiarist.text import format_count, template_reason

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
_FREE_TEXT = {"annotations", "credentials", "description"}
"""Fields with text for people or with secrets, in which braces are no template."""

_SECRET = re.compile("password|passphrase|secret|token|credential|jaas|api_?key|private", re.IGNORECASE)
"""Part of the name of a field with a value that is not shown."""

_REFERENCE = "$ref"


class ForeignDocument(NamedTuple):
    """A document of another tool: mappings, lists, texts and None; its file, and the source with its positions."""

    body: Any
    file: str
    source: Source

    def line_of(self, path: FieldPath) -> int:
        """Return the line of the value at a path, or of its nearest ancestor with a place, from 1."""
        return self.source.locate(path).line

    def resolve(self, reference: str) -> tuple[FieldPath, Any]:
        """Return the path and the value that a JSON reference such as ``#/components/channels/orders`` points to.

        Raises ``LookupError`` with the reason if it points to another document, or to no value.
        """
        target, _, pointer = reference.partition("#")
        if target:
            raise LookupError("in another file: bundle the files first (asyncapi bundle)")
        path: FieldPath = ()
        value = self.body
        for part in unquote(pointer).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(value, Mapping) or key not in value:
                raise LookupError("it points to nothing in this document")
            path, value = (*path, key), value[key]
        return path, value


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
        self._is_named = found is not None and not isinstance(found, Mapping)
        if self._is_named:
            self._add((), found, "found no mapping here")

    def __contains__(self, name: str) -> bool:
        return name in self._body

    def __iter__(self) -> Iterator[str]:
        return iter(self._body)

    @property
    def place(self) -> str:
        """The file and the line of the mapping."""
        return f"{self._document.file}:{self._document.line_of(self._path)}"

    @property
    def location(self) -> Location:
        """The location of the mapping, or of its nearest ancestor with one."""
        return self._document.source.locate(self._path)

    def locate(self, name: str) -> Location:
        """Return the location of the value of a field."""
        return self._document.source.locate((*self._path, name))

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
        return self.take_fields(name).read_texts()

    def take_config(self, name: str) -> dict[str, str]:
        """Return the configs of a topic, as ``read_config`` does."""
        return self.take_fields(name).read_config()

    def read_texts(self) -> dict[str, str]:
        """Return the fields as texts; null and nested values are named as left out."""
        found = {}
        for key, value in self._body.items():
            if isinstance(value, list) and all(isinstance(each, str) for each in value):
                found[key] = ",".join(value)
            elif not isinstance(value, str):
                self.leave_out(key, "found no value here")
            else:
                found[key] = value
            self._taken.add(key)
        return found

    def select_labels(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return the texts that are labels of a manifest; others are named as left out. Templates are kept."""
        document = {"apiVersion": API_VERSION, "kind": "Topic", "metadata": {"name": "a", "labels": texts}, "spec": {}}
        problems = {str(each.path[-1]): each.message.partition(": ")[2] for each in check.check(document)}
        refused = {key for key in problems if not template_reason(texts[key])}
        for key in refused:
            self.leave_out(key, problems[key])
        return {key: text for key, text in texts.items() if key not in refused}

    def read_config(self) -> dict[str, str]:
        """Return the fields as Kafka's texts; whole numbers that a renderer printed as floats are such.

        Named are configs that a reassignment sets for a time, and values that every version of Kafka refuses.
        """
        found = self.read_texts()
        for key, text in [*found.items()]:
            if key in TOPIC_CONFIGS and TOPIC_CONFIGS[key].type in MAX_BY_TYPE:
                number = read_whole_number(text)
                found[key] = text if number is None else str(number)
            reason = "a reassignment sets it for a time" if key in THROTTLE_CONFIGS else config_reason(key, found[key])
            if reason:
                self.leave_out(key, reason)
                del found[key]
        return found

    def take_fields(self, name: str) -> Fields:
        """Return the mapping of a field; it is empty if it is absent."""
        value = self.take(name)
        return Fields(self._document, self._left_out, {} if value is None else value, (*self._path, name))

    def take_json(self, name: str) -> Fields:
        """Return the mapping in a text of JSON, with scalars as texts; it is empty if there is no text or no JSON."""
        text = self.take_text(name)
        body: Any = {}
        try:
            body = _parse_json(text) if text else {}
        except ValueError as error:
            self.leave_out(name, f"found no mapping of JSON here: {error}")
        return Fields(self._document, self._left_out, body, (*self._path, name))

    def take_referenced(self, name: str) -> Fields | None:
        """Return the mapping of a field, or the mapping of the document that its ``$ref`` points to.

        Fields beside a reference are named as left out. So is a reference that leads nowhere, and the result is None.
        """
        found, seen = self.take_fields(name), set[FieldPath]()
        while _REFERENCE in found:
            reference = found.take_text(_REFERENCE)
            found.finish(f"{_REFERENCE} replaces it")
            try:
                path, body = self._document.resolve(reference)
                if path in seen:
                    raise LookupError("it leads back to itself")
            except LookupError as error:
                found.leave_out(_REFERENCE, str(error))
                return None
            seen.add(path)
            found = Fields(self._document, self._left_out, {} if body is None else body, path)
        return found

    def take_unset(self) -> None:
        """Count fields without a value as mapped: a state of Terraform has every attribute of a resource."""
        self._taken.update(name for name, value in self._body.items() if value is None or value in ([], {}))

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

    def leave_out_unknown(self, but: Collection[str]) -> None:
        """Name the values that a plan of Terraform does not know: those with a true in them. ``but`` do not count."""
        for name, value in self._body.items():
            if name not in but and any(text == "true" for _, text in _find_texts(value)):
                self.leave_out(name, "known only after terraform apply")

    def refuse(self, reason: str) -> None:
        """Name the mapping as a whole as left out, such as a topic that no document can describe."""
        self._taken.update(self._body)
        if not self._is_named:
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
        is_secret = isinstance(value, str) and _SECRET.search(field)
        shown = "" if value is None or is_secret else _shorten(value)
        line = self._document.line_of(path)
        self._left_out.append(LeftOut(self._document.file, line, field, shown, reason, is_expected))


def config_reason(key: str, text: str) -> str:
    """Return why every version of Kafka refuses a config value; empty text if one accepts it."""
    problem = _CONFIG_RULES.config_problem(key, text)
    return problem[0].removeprefix(f"{key}: ") if problem else ""


def read_whole_number(text: str) -> int | None:
    """Return a whole number, also one that a renderer printed as a float: ``6.048e+08``; None if the text is none.

    Numbers that YAML versions read differently, such as ``010`` and ``1_000``, are none.
    """
    if not _NUMBER.fullmatch(text):
        return None
    value = Decimal(text)
    return int(value) if value == value.to_integral_value() else None


def _parse_json(text: str) -> Any:
    """Return a value of JSON with scalars as texts; raise ``ValueError`` if it is none, or has a field twice."""

    def read_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        name, count = Counter(name for name, _ in pairs).most_common(1)[0] if pairs else ("", 0)
        if count > 1:
            raise ValueError(f"found the field {name} twice")
        words = {True: "true", False: "false"}
        return {name: words[value] if isinstance(value, bool) else value for name, value in pairs}

    try:
        return json.loads(text, object_pairs_hook=read_pairs, parse_int=str, parse_float=str, parse_constant=str)
    except RecursionError:
        raise ValueError("too many levels") from None


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
    text = value if isinstance(value, str) else f"({format_count(len(value), 'value')})"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


DESCRIPTION = "description"
"""The annotation for a description."""


class ImportedTopic(Struct):
    """A topic as another tool describes it; ``fields`` is the mapping that it comes from.

    Sizes are None where the tool takes the brokers' default. ``config`` has Kafka's texts. ``places`` has locations of
    values, by the field of a spec or the key of a config; a value that is not in it has the location of ``fields``.
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
    places: Mapping[str, Location] = field(default_factory=dict)


def build_documents(
    topics: Iterable[ImportedTopic], clusters: Mapping[str, str], *, may_repeat: bool = False
) -> list[tuple[ImportedTopic, dict[str, Any]]]:
    """Return the topics with their documents, sorted by name.

    ``clusters`` has the names of clusters by those of the input; the key of topics that name none is empty. Topics that
    a document cannot describe, templates, and topics without a name are left out and named. So are all but the first of
    several with one name on a cluster, unless topics ``may_repeat``.
    """
    found: defaultdict[tuple[str, str], list[ImportedTopic]] = defaultdict(list)
    for topic in topics:
        topic.cluster = clusters.get(topic.cluster, topic.cluster)
        if topic.fields.refuse_template():
            continue
        if not topic.name:
            topic.fields.refuse("found no name")
            continue
        if reason := template_reason(topic.name):
            topic.fields.refuse(f"topic {topic.name}: {reason}")
            continue
        same = found[topic.cluster, topic.name]
        if may_repeat or not same:
            same.append(topic)
        elif same[0] != replace(topic, places=same[0].places):
            topic.fields.refuse(f"topic {topic.name} is declared twice, first in {same[0].fields.place}")
    documents = []
    assigned: set[str] = set()
    for on in sorted({cluster for cluster, _ in found}):
        members = {name: same for (where, name), same in sorted(found.items()) if where == on}
        names = assign_document_names(members, on, others=assigned)
        assigned.update(names.values())
        for topic in chain.from_iterable(members.values()):
            document = build_document(topic, names[topic.name])
            problems = check.check(document)
            of_cluster = [each for each in problems if each.path[:2] == ("spec", "clusters")]
            for problem in (of_cluster or problems)[:1]:
                hint = f": give --cluster {topic.cluster}=NAME" if of_cluster else ""
                topic.fields.refuse(f"topic {topic.name}: {problem.message}{hint}")
            if not problems:
                documents.append((topic, document))
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
        "config": to_scalars(dict(sorted(topic.config.items())), use_units=False),
        "ensure": "Absent" if topic.is_absent else "",
        "mode": "Observe" if topic.is_observed else "",
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "Topic",
        "metadata": {key: value for key, value in metadata.items() if value},
        "spec": {key: value for key, value in spec.items() if value},
    }


# Comparison with manifests: the values that another tool's files have, with the specs of the same topics.


def find_differences(
    topics: Iterable[ImportedTopic], specs: Mapping[str, Sequence[TopicSpec]]
) -> Iterator[tuple[ImportedTopic, Diagnostic]]:
    """Yield each difference between a topic and its specs, at the place of the value, or of the topic.

    ``specs`` are those of each cluster. A topic that names no cluster is compared on all that declare it. Only values
    of the topic count: a config that the files of the other tool leave open may have any value in the manifests.
    """
    by_name: defaultdict[str, dict[str, TopicSpec]] = defaultdict(dict)
    for cluster, declared in specs.items():
        for spec in declared:
            by_name[spec.topic][cluster] = spec
    for topic in topics:
        cluster = topic.cluster if {*specs} != {""} else ""
        found = [spec for name, spec in by_name[topic.name].items() if cluster in ("", name)]
        for name, message in [*chain.from_iterable(_compare(topic, spec) for spec in found)]:
            yield topic, Diagnostic(topic.places.get(name) or topic.fields.location, message)
        if not found:
            hint = "" if cluster in ("", *specs) else f"for a Cluster of another name: --cluster {cluster}=NAME"
            where = f" on {cluster}" if cluster else ""
            yield topic, Diagnostic(topic.fields.location, f"{topic.name}: found no manifest{where}", hint)


def _compare(topic: ImportedTopic, spec: TopicSpec) -> Iterator[tuple[str, str]]:
    """Yield the field or config key of each difference, with the message."""
    where = f"{topic.name} on {spec.cluster.name}" if spec.cluster.name else topic.name
    if spec.absent != topic.is_absent:
        yield "ensure", f"{where}: {_describe_origin(spec, 'ensure')} {'deletes' if spec.absent else 'keeps'} the topic"
        return
    lists = topic.assignment
    sizes = (
        ("partitions", len(lists) if lists else topic.partitions, spec.create_partitions),
        ("replicationFactor", len(lists[0]) if lists else topic.replication_factor, spec.create_replication_factor),
    )
    for name, found, wanted in sizes:
        if found is not None and found != wanted:
            yield name, f"{where}: {name} is {found}, {_describe_origin(spec, name)} has {wanted or 'none'}"
    for key, text in sorted(topic.config.items()):
        declared = spec.config.get(key)
        if declared is None or not is_equivalent(key, text, declared):
            has = "does not set it" if declared is None else f"has {declared}"
            yield key, f"{where}: {key} is {text}, {_describe_origin(spec, 'config', key)} {has}"


def _describe_origin(spec: TopicSpec, *path: str) -> str:
    return str(find_origin(spec, *path).locate() or "the manifest")
