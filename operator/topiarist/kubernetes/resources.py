"""Custom resources of the API server, parsed into the same manifests as documents in git.

``informer`` and ``status.writer`` call ``parse_resource`` for each body that the API server returns. The API server has
validated the body against its definition, but kubectl has parsed the YAML as YAML 1.1 with floats, so numbers that may
have lost digits are refused here. The schema is checked again, because an older definition may accept more, above all
references to files and environment variables. A body is parsed once per generation: most events only change a status.

A ``KafkaTopic`` of Strimzi becomes the manifest of a ``Topic`` by the mapping of ``importers``.

KafkaTopics of Strimzi: whether its own operator still reconciles them, or topiarist may.

``cluster_worker`` calls ``judge`` at the start of each reconciliation. Two operators with the same KafkaTopics would
undo the changes of each other, and no lock keeps them apart. Strimzi runs one topic operator for the KafkaTopics of one
namespace and one cluster, so these are judged together:

- A ``Kafka`` resource that declares a topic operator for them is the end of it: Strimzi starts it again whenever it
  ends.
- A topic operator without such a resource is noticed by its writes. Strimzi's operator answers each change of a
  KafkaTopic, also one of its status, within seconds: it writes its status and its finalizer again. So a KafkaTopic has
  no other operator if topiarist wrote its status, or a user created it, ``ANSWER_S`` ago and no other client wrote it
  since. One KafkaTopic of the group is written first; the others wait for it. After a foreign write, topiarist is
  silent for ``QUIET_S`` before it writes again.

What is found comes from the resources alone, so a restart forgets nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from msgspec import Struct

from topiarist.errors import FieldPath, Location, Reason, SchemaError
from topiarist.importers.resources import read_kafka_topic
from topiarist.model import spec
from topiarist.model.plan import Issue
from topiarist.model.spec import Manifest, TopicSource
from topiarist.schema import check, load

PLURALS = {"Topic": "topics", "Cluster": "clusters", "Policy": "policies"}

KAFKA_TOPIC = TopicSource.KAFKA_TOPIC.value

KAFKA_TOPIC_GROUP, KAFKA_TOPIC_PLURAL = "kafka.strimzi.io", "kafkatopics"

TOPIC_KINDS = frozenset(kind.value for kind in TopicSource)
"""The kinds of resources that declare topics."""

STRIMZI_FINALIZER = "strimzi.io/topic-operator"
"""The finalizer of Strimzi's operator, which deletes the topic before the resource goes."""

STRIMZI_CLUSTER = "strimzi.io/cluster"
"""The label of a KafkaTopic with the name of its cluster."""

STATUS_MANAGER = "topiarist"
"""The field manager of statuses, so that other writers of ``status`` keep their own fields."""

FINALIZER_MANAGER = "topiarist-finalizer"
"""The field manager of the finalizer alone: it is removed by applying none, and the others need not be known."""

KAFKA_TOPIC_STATUS_FIELDS = ("conditions", "observedGeneration", "topicName", "topicId")
"""The fields that topiarist writes to the status of a KafkaTopic."""


def collection_path(kind: str, namespace: str = "", api_version: str = load.API_VERSION) -> str:
    """Return the API path of a kind, in one namespace or (empty) in all."""
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{api_version}{where}/{KAFKA_TOPIC_PLURAL if kind == KAFKA_TOPIC else PLURALS[kind]}"


DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
"""The API path of the definitions of all kinds."""


def definition_name(kind: str) -> str:
    """Return the name of the definition of a kind."""
    return f"{KAFKA_TOPIC_PLURAL}.{KAFKA_TOPIC_GROUP}" if kind == KAFKA_TOPIC else f"{PLURALS[kind]}.{load.API_GROUP}"


def definition_path(kind: str) -> str:
    """Return the API path of the definition of a kind."""
    return f"{DEFINITIONS_PATH}/{definition_name(kind)}"


APPLIED_TO = "applied-to"
"""The annotation with the clusters on which a Topic that selects none was applied."""

DELETION_POLICY = "deletion-policy"
"""The annotation of a KafkaTopic with its deletion policy, for which Strimzi has no field."""

FINALIZER = f"{load.API_GROUP}/finalizer"

_EMPTY: Mapping[str, Any] = {}

_INT64_RANGE = range(-(2**63), 2**63)
"""The integers of the API. An integer outside of this range was a float in transit, so its digits are not exact."""

_MAX_EXACT_INTEGER = 2**53
"""The limit up to which a float holds every integer exactly."""

_MAX_EXACT_DIGITS = 15
"""The number of significant decimal digits that a float always keeps."""


class ResourceSource(Struct, frozen=True):
    """The source of a resource's manifest; locations are field paths, because there is no file."""

    annotations: Mapping[str, str]

    def locate(self, path: FieldPath = ()) -> Location:
        """Return the location of a field: its path."""
        return Location(format_path(path))


def format_path(path: FieldPath) -> str:
    """Return a path as text, such as ``spec.overrides[0].config[retention.ms]``."""
    steps = (f".{step}" if isinstance(step, str) and step.isalnum() else f"[{step}]" for step in path)
    return "".join(steps).removeprefix(".") or "metadata.name"


class Resource(Struct, frozen=True):
    """A custom resource as last read from the API server.

    ``manifest`` is None if the resource cannot be read; ``errors`` then has the reasons and ``raw_spec`` the spec as
    received, which a KafkaTopic always has. ``resource_version`` only increases. ``created`` is an RFC 3339 time.
    ``deleting``: the resource has a deletion timestamp. ``status`` is the status in the API server.

    Only a KafkaTopic has ``told_at`` and ``foreign_at``, RFC 3339 times or empty: when topiarist, and when any other
    client, last wrote its status; Strimzi's finalizer counts as a status.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int
    created: str
    labels: Mapping[str, str]
    source: ResourceSource
    finalizers: tuple[str, ...]
    deleting: bool
    manifest: Manifest | None
    errors: tuple[SchemaError, ...]
    raw_spec: Mapping[str, Any]
    status: Mapping[str, Any]
    api_version: str = load.API_VERSION
    told_at: str = ""
    foreign_at: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Return the namespace and the name; see ``resource_key``."""
        return resource_key(self.kind, self.namespace, self.name)

    @property
    def strimzi_cluster(self) -> str:
        """The name of the cluster that a KafkaTopic is for; empty if it has none."""
        return self.labels.get(STRIMZI_CLUSTER, "")

    @property
    def is_held_by_strimzi(self) -> bool:
        """Return whether the resource has Strimzi's finalizer, so that its deletion waits."""
        return self.kind == KAFKA_TOPIC and STRIMZI_FINALIZER in self.finalizers

    @property
    def age_key(self) -> tuple[str, str]:
        """The sort key that puts older resources first."""
        return self.created, self.uid

    def status_on(self, cluster: str) -> Mapping[str, Any]:
        """Return the part of a Topic's status for a cluster; empty if there is none."""
        return next((each for each in self.status.get("clusters", ()) if each["name"] == cluster), _EMPTY)

    @property
    def declared_spec(self) -> Mapping[str, Any]:
        """The spec of the manifest, or the raw spec if the resource cannot be read."""
        return self.manifest.spec if self.manifest else self.raw_spec

    @property
    def topic_name(self) -> str:
        """The name in Kafka that a Topic claims."""
        return str(self.declared_spec.get("topicName", self.name))

    @property
    def operator_class(self) -> str:
        """The class of the operator that serves the resource; empty for an operator without a class."""
        return str(self.declared_spec.get("class", ""))

    @property
    def serving_owner(self) -> str:
        """The owner name of the serving release, from the status; empty if not set."""
        return str(self.status.get("operator", ""))

    @property
    def has_cluster_selection(self) -> bool:
        """Return whether a Topic selects its clusters, by name or by label, as every KafkaTopic does."""
        return self.kind == KAFKA_TOPIC or not {"clusters", "clusterSelector"}.isdisjoint(self.declared_spec)

    @property
    def applied_clusters(self) -> Sequence[str]:
        """The clusters on which a Topic that selects none was applied, sorted; the operator writes this annotation."""
        return [name for name in self.annotation(APPLIED_TO).split(",") if name]

    @property
    def is_released(self) -> bool:
        """Return whether the resource is being deleted without topiarist's finalizer, so its spec no longer counts."""
        return self.deleting and FINALIZER not in self.finalizers

    def annotation(self, name: str) -> str:
        """Return the value of one of topiarist's annotations; empty if it is not set."""
        return self.source.annotations.get(f"{load.API_GROUP}/{name}", "")


def resource_key(kind: str, namespace: str, name: str) -> tuple[str, str]:
    """Return the key of a resource: namespace and name.

    The kind is before the name of a KafkaTopic: a Topic may have the same name.
    """
    return namespace, f"{kind}/{name}" if kind == KAFKA_TOPIC else name


def resource_path(of: Resource) -> str:
    """Return the API path of a resource."""
    return f"{collection_path(of.kind, of.namespace, of.api_version)}/{of.name}"


def identity_body(of: Resource) -> dict[str, Any]:
    """Return a body with the uid: the API server then refuses to create a resource that was deleted."""
    metadata = {"name": of.name, "namespace": of.namespace, "uid": of.uid}
    return {"apiVersion": of.api_version, "kind": of.kind, "metadata": metadata}


def parse_resource(body: Mapping[str, Any], previous: Resource | None = None) -> Resource:
    """Parse a body of the API server into a ``Resource``.

    The parsed manifest of ``previous``, the same resource as read before, is reused if uid, generation, labels,
    annotations and spec are equal. The generation alone does not suffice: a restore of etcd sets it back. An invalid
    body raises nothing: its problems are the resource's ``errors``.
    """
    metadata, is_foreign = body["metadata"], body["kind"] == KAFKA_TOPIC
    uid, generation, labels = metadata["uid"], metadata["generation"], metadata.get("labels") or {}
    source = ResourceSource(metadata.get("annotations") or {})
    declared = body.get("spec") or _EMPTY
    identity = (uid, generation, labels, source, declared)
    if previous and identity == (
        previous.uid,
        previous.generation,
        previous.labels,
        previous.source,
        previous.raw_spec if is_foreign else previous.declared_spec,
    ):
        source, labels, manifest, problems = previous.source, previous.labels, previous.manifest, previous.errors
    elif is_foreign:
        manifest, problems = _parse_kafka_topic(body, source)
    else:
        manifest, problems = _parse_manifest(body, source)
    unread = _EMPTY if manifest and not is_foreign else declared
    status = body.get("status") or {}
    if is_foreign:
        status = {key: status[key] for key in KAFKA_TOPIC_STATUS_FIELDS if key in status}
    told_at, foreign_at = _last_writes(metadata) if is_foreign else ("", "")
    return Resource(
        kind=body["kind"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=uid,
        resource_version=int(metadata["resourceVersion"]),
        generation=generation,
        created=metadata["creationTimestamp"],
        labels=labels,
        source=source,
        finalizers=tuple(metadata.get("finalizers") or ()),
        deleting="deletionTimestamp" in metadata,
        manifest=manifest,
        errors=problems,
        raw_spec=unread,
        status=status,
        api_version=body["apiVersion"],
        told_at=told_at,
        foreign_at=foreign_at,
    )


def _last_writes(metadata: Mapping[str, Any]) -> tuple[str, str]:
    """Return when topiarist last wrote the status of a KafkaTopic, and when another client wrote it or the finalizer.

    Any other client counts: the name of Strimzi's operator in ``managedFields`` differs between its releases.
    """
    told_at = foreign_at = ""
    for entry in metadata.get("managedFields") or ():
        fields, time = entry.get("fieldsV1") or {}, entry.get("time", "")
        if entry.get("manager") in (STATUS_MANAGER, FINALIZER_MANAGER):
            told_at = max(told_at, time) if "f:status" in fields else told_at
        elif "f:status" in fields or f'v:"{STRIMZI_FINALIZER}"' in fields.get("f:metadata", {}).get("f:finalizers", {}):
            foreign_at = max(foreign_at, time)
    return told_at, foreign_at


def parse_item(
    kind: str, body: Mapping[str, Any], previous: Resource | None = None, *, api_version: str = load.API_VERSION
) -> Resource:
    """Parse an item of a list or watch, which may lack its kind; see ``parse_resource``."""
    return parse_resource({**body, "kind": kind, "apiVersion": api_version}, previous)


def manifest_annotations(manifest: Manifest) -> Mapping[str, str]:
    """Return all annotations of the resource that a manifest was read from."""
    assert isinstance(manifest.source, ResourceSource)
    return manifest.source.annotations


def _parse_manifest(body: Mapping[str, Any], source: ResourceSource) -> tuple[Manifest | None, tuple[SchemaError, ...]]:
    """Return the manifest in a body, or None and the errors."""
    lost: list[SchemaError] = []
    plain = {**body, "spec": _restore_decimals(body.get("spec", {}), ("spec",), lost)}
    if found := (*lost, *check.check(plain, custom_resource=True)):
        return None, found
    return spec.make_manifest(plain, source), ()


def _parse_kafka_topic(
    body: Mapping[str, Any], source: ResourceSource
) -> tuple[Manifest | None, tuple[SchemaError, ...]]:
    """Return the manifest of the Topic that a KafkaTopic describes, or None and the errors.

    A field that topiarist cannot map is an error: the topic would otherwise not be as declared.
    """
    lost: list[SchemaError] = []
    metadata = body["metadata"]
    plain = {
        "apiVersion": body["apiVersion"],
        "kind": KAFKA_TOPIC,
        "metadata": {key: metadata[key] for key in ("name", "namespace", "labels", "annotations") if key in metadata},
        "spec": _to_texts(_restore_decimals(body.get("spec"), ("spec",), lost)),
    }
    document, left_out = read_kafka_topic(plain, source)
    if source.annotations.get(f"{load.API_GROUP}/{DELETION_POLICY}") == "Delete":
        document["spec"]["deletionPolicy"] = "Delete"
    unmapped = [SchemaError(("spec",), f"{each.field}: {each.reason}") for each in left_out]
    if found := (*lost, *unmapped, *check.check(document, custom_resource=True)):
        return None, found
    return spec.make_manifest(document, source), ()


def _to_texts(value: Any) -> Any:
    """Return ``value`` with each number and boolean as Kafka's text, as a file has it."""
    if isinstance(value, dict):
        return {key: _to_texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_to_texts(each) for each in value]
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | Decimal) else value


def _restore_decimals(value: Any, path: FieldPath, errors: list[SchemaError]) -> Any:
    """Return ``value`` with floats as decimals.

    An error is added to ``errors`` for each number that may have lost digits.
    """
    if isinstance(value, dict):
        return {key: _restore_decimals(each, (*path, key), errors) for key, each in value.items()}
    if isinstance(value, list):
        return [_restore_decimals(each, (*path, index), errors) for index, each in enumerate(value)]
    if isinstance(value, float):
        fraction = Decimal(repr(value))
        if abs(value) >= _MAX_EXACT_INTEGER or len(fraction.as_tuple().digits) > _MAX_EXACT_DIGITS:
            errors.append(_lost_digits_error(path, repr(value)))
        return fraction
    if isinstance(value, int) and value not in _INT64_RANGE:
        errors.append(_lost_digits_error(path, str(value)))
    return value


def _lost_digits_error(path: FieldPath, number: str) -> SchemaError:
    message = (
        f"{format_path(path)}: found the number {number}, which may have lost digits: on its way here it was a float"
    )
    return SchemaError(path, message, "put the value in quotes")


def error_texts(resource: Resource) -> Iterator[str]:
    """Yield one text for each error of a resource, with its hint."""
    for problem in resource.errors:
        yield problem.message + (f": {problem.hint}" if problem.hint else "")


ANSWER_S = 30.0
"""Seconds in which another operator would answer a change of a KafkaTopic."""

QUIET_S = 60.0
"""Seconds without a write after the last one of another operator."""

_HINT = "end Strimzi's topic operator for these KafkaTopics, or remove KafkaTopic from spec.sources of the Cluster"

TopicOperators = Collection[tuple[str, str]]
"""Namespace and cluster of the KafkaTopics of each topic operator that a ``Kafka`` resource declares."""


class Verdict(NamedTuple):
    """The rights of topiarist to a KafkaTopic: none to its topic if there is an ``issue``.

    ``may_tell``: its status may be written. ``is_ours``: no other operator reconciles it.
    """

    issue: Issue | None
    may_tell: bool
    is_ours: bool = False


NOT_JUDGED = Verdict(None, may_tell=False)


def judge(
    kafka_topics: Iterable[Resource], operators: TopicOperators, now: datetime
) -> Mapping[tuple[str, str], Verdict]:
    """Return the verdict of each KafkaTopic, by its key."""
    groups: dict[tuple[str, str], list[Resource]] = defaultdict(list)
    for each in kafka_topics:
        groups[each.namespace, each.strimzi_cluster].append(each)
    found: dict[tuple[str, str], Verdict] = {}
    for group, members in groups.items():
        issue = _declared_issue(*group) if group in operators else _foreign_issue(members, now)
        if issue:
            found |= {each.key: Verdict(issue, may_tell=False) for each in members}
        elif any(_has_no_answer(each, now) for each in members):
            found |= {each.key: Verdict(_renamed_issue(each), may_tell=True, is_ours=True) for each in members}
        else:
            # The KafkaTopic that is asked is one that was asked already, or the oldest.
            first = min(members, key=lambda each: (_is_foreign(each), each.age_key))
            issue = _taking_over_issue(first)
            found |= {each.key: Verdict(issue, may_tell=each is first) for each in members}
    return found


def _declared_issue(namespace: str, cluster: str) -> Issue:
    message = f"Kafka {cluster} has a topic operator of Strimzi for the KafkaTopics of namespace {namespace}"
    hint = (
        f"remove spec.entityOperator.topicOperator from Kafka {cluster}, or KafkaTopic from spec.sources of the Cluster"
    )
    return Issue(Reason.STRIMZI_ACTIVE, message, hint=hint)


def _foreign_issue(members: Sequence[Resource], now: datetime) -> Issue | None:
    """Return the issue of a group that another operator wrote a short time ago; None if it did not."""
    for each in members:
        if _is_foreign(each) and _seconds_since(each.foreign_at, now) < QUIET_S:
            message = f"another operator writes the status or the finalizer of KafkaTopic {each.namespace}/{each.name}"
            return Issue(Reason.STRIMZI_ACTIVE, message, hint=_HINT)
    return None


def _taking_over_issue(first: Resource) -> Issue:
    # With the time, each question differs from the one before: otherwise its status would not be written.
    last = f" (the last one was at {first.foreign_at})" if first.foreign_at else ""
    message = (
        f"topiarist takes over after {ANSWER_S:.0f} seconds without a write of another operator{last}: KafkaTopic "
        f"{first.namespace}/{first.name} shows it"
    )
    return Issue(Reason.TAKING_OVER, message)


def _renamed_issue(resource: Resource) -> Issue | None:
    """Return the issue of a KafkaTopic that asks for another topic than before, as Strimzi refuses it."""
    before = resource.status.get("topicName")
    if not before or before == resource.topic_name:
        return None
    message = f"spec.topicName: found {resource.topic_name}, and the KafkaTopic is for topic {before}"
    return Issue(Reason.INVALID_MANIFEST, message, hint="set it back, and create another KafkaTopic for the new name")


def _is_foreign(resource: Resource) -> bool:
    """Return whether another client was the last to write; within one second it counts as the last."""
    return bool(resource.foreign_at) and resource.foreign_at >= resource.told_at


def _has_no_answer(resource: Resource, now: datetime) -> bool:
    asked_at = resource.told_at if resource.foreign_at else resource.created
    return not _is_foreign(resource) and _seconds_since(asked_at, now) >= ANSWER_S


def _seconds_since(time: str, now: datetime) -> float:
    return (now - datetime.fromisoformat(time)).total_seconds()
