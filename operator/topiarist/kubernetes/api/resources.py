"""Custom resources as manifests: the same documents as in git, as the API server gives them.

It has checked them against their definitions, but kubectl has read their YAML before: as YAML 1.1, with floats. What
has lost digits there is refused here. So is what an older definition, or none, let through: a reference to a file or a
variable above all. A body is read once for each generation: most events change only a status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from topiarist.errors import FieldPath, Location, SchemaError
from topiarist.model import spec
from topiarist.model.spec import Manifest
from topiarist.schema import check, load

PLURALS = {"Topic": "topics", "Cluster": "clusters", "Policy": "policies"}


def collection_path(kind: str, namespace: str = "") -> str:
    """The path of the collection of a kind, in one namespace or in all."""
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{load.API_VERSION}{where}/{PLURALS[kind]}"


FINALIZER = f"{load.API_GROUP}/finalizer"

_EMPTY: Mapping[str, Any] = {}

_INT64_RANGE = range(-(2**63), 2**63)
"""A whole number outside has been a float on its way here: nobody takes it as an integer."""

_MAX_EXACT_INTEGER = 2**53
"""Up to here a float holds every whole number."""

_MAX_EXACT_DIGITS = 15
"""So many digits of a fraction a float keeps, whatever they are."""


@dataclass(frozen=True, slots=True)
class ResourceSource:
    """The source of a resource's manifest: places are paths in it, since it has no file."""

    annotations: Mapping[str, str]

    def locate(self, path: FieldPath = ()) -> Location:
        """The path itself."""
        return Location(format_path(path))


def format_path(path: FieldPath) -> str:
    """A path as people write it: ``spec.overrides[0].config[retention.ms]``."""
    steps = (f".{step}" if isinstance(step, str) and step.isalnum() else f"[{step}]" for step in path)
    return "".join(steps).removeprefix(".") or "metadata.name"


@dataclass(frozen=True, slots=True)
class Resource:
    """One custom resource as last seen. ``manifest`` is None if there are ``problems``, which then say why; ``unread``
    has its spec then.

    ``version`` is the resource version, which grows; ``created`` is an RFC 3339 time. ``deleting``: somebody has asked
    for its deletion. ``status`` is what the API server has. ``key``, namespace and name, is what all passes look up
    every resource by.
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
    key: tuple[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (self.namespace, self.name))

    @property
    def age_key(self) -> tuple[str, str]:
        """Sorts the older before the younger."""
        return self.created, self.uid

    def status_on(self, cluster: str) -> Mapping[str, Any]:
        """What the status of a Topic says of a cluster; empty if it says nothing."""
        return next((each for each in self.status.get("clusters", ()) if each["name"] == cluster), _EMPTY)

    @property
    def declared_spec(self) -> Mapping[str, Any]:
        """Its spec: as the API server has it where it cannot be read, which still tells names from one another."""
        return self.manifest.spec if self.manifest else self.raw_spec

    @property
    def topic_name(self) -> str:
        """Of a Topic, the name in Kafka that it claims."""
        return str(self.declared_spec.get("topicName", self.name))

    @property
    def operator_class(self) -> str:
        """The class of the operator that serves it; empty: one without a class."""
        return str(self.declared_spec.get("class", ""))

    @property
    def serving_owner(self) -> str:
        """The release that serves it, by the owner in its records; empty if none has yet."""
        return str(self.status.get("operator", ""))

    @property
    def has_cluster_selection(self) -> bool:
        """Whether a Topic says for which clusters it is meant."""
        return not {"clusters", "clusterSelector"}.isdisjoint(self.declared_spec)

    @property
    def applied_clusters(self) -> Sequence[str]:
        """Of a Topic, the clusters on which it was applied, by its status: those that name the generation."""
        return [part["name"] for part in self.status.get("clusters", ()) if "generation" in part]

    @property
    def is_released(self) -> bool:
        """Whether it is being deleted, and no longer by us: whatever it asked for, it asks no more."""
        return self.deleting and FINALIZER not in self.finalizers

    def annotation(self, name: str) -> str:
        """The value of one of our annotations; empty if it is not there."""
        return self.source.annotations.get(f"{load.API_GROUP}/{name}", "")


def parse_resource(body: Mapping[str, Any], previous: Resource | None = None) -> Resource:
    """A body as a resource; of ``previous``, an earlier sight of it, is kept what has not changed."""
    metadata = body["metadata"]
    uid, generation, labels = metadata["uid"], metadata["generation"], metadata.get("labels") or {}
    source = ResourceSource(metadata.get("annotations") or {})
    if previous and (previous.uid, previous.generation, previous.labels, previous.source) == (
        uid,
        generation,
        labels,
        source,
    ):
        source, labels, manifest, problems = previous.source, previous.labels, previous.manifest, previous.errors
    else:
        manifest, problems = _parse_manifest(body, source)
    unread = _EMPTY if manifest else body.get("spec") or _EMPTY
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
        status=body.get("status") or {},
    )


def manifest_annotations(manifest: Manifest) -> Mapping[str, str]:
    """All annotations of the resource that a manifest was read from."""
    assert isinstance(manifest.source, ResourceSource)
    return manifest.source.annotations


def _parse_manifest(body: Mapping[str, Any], source: ResourceSource) -> tuple[Manifest | None, tuple[SchemaError, ...]]:
    """The manifest in a body, or what is wrong with it."""
    lost: list[SchemaError] = []
    plain = {**body, "spec": _restore_decimals(body.get("spec", {}), ("spec",), lost)}
    if found := (*lost, *check.check(plain, custom_resource=True)):
        return None, found
    return spec.make_manifest(plain, source), ()


def _restore_decimals(value: Any, path: FieldPath, errors: list[SchemaError]) -> Any:
    """``value`` with fractions as decimals; what has lost digits on its way here is added to ``errors``."""
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
    """What is wrong with a resource, one text for each problem."""
    for problem in resource.errors:
        yield problem.message + (f": {problem.hint}" if problem.hint else "")
