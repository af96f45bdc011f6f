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

from topiarist import schema
from topiarist.core.spec import Manifest
from topiarist.errors import Path, Place, Problem

FINALIZER = f"{schema.GROUP}/finalizer"

_NOTHING: Mapping[str, Any] = {}

_WHOLE = range(-(2**63), 2**63)
"""A whole number outside has been a float on its way here: nobody takes it as an integer."""

_EXACT = 2**53
"""Up to here a float holds every whole number."""

_DIGITS = 15
"""So many digits of a fraction a float keeps, whatever they are."""


@dataclass(frozen=True, slots=True)
class Body:
    """The source of a resource's manifest: places are paths in it, since it has no file."""

    annotations: Mapping[str, str]

    def place(self, path: Path = ()) -> Place:
        """The path itself."""
        return Place(dotted(path))


def dotted(path: Path) -> str:
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
    version: int
    generation: int
    created: str
    labels: Mapping[str, str]
    source: Body
    finalizers: tuple[str, ...]
    deleting: bool
    manifest: Manifest | None
    problems: tuple[Problem, ...]
    unread: Mapping[str, Any]
    status: Mapping[str, Any]
    key: tuple[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (self.namespace, self.name))

    @property
    def age(self) -> tuple[str, str]:
        """Sorts the older before the younger."""
        return self.created, self.uid

    def on(self, cluster: str) -> Mapping[str, Any]:
        """What the status of a Topic says of a cluster; empty if it says nothing."""
        return next((each for each in self.status.get("clusters", ()) if each["name"] == cluster), _NOTHING)

    @property
    def declared(self) -> Mapping[str, Any]:
        """Its spec: as the API server has it where it cannot be read, which still tells names from one another."""
        return self.manifest.spec if self.manifest else self.unread

    @property
    def topic(self) -> str:
        """Of a Topic, the name in Kafka that it claims."""
        return str(self.declared.get("topicName", self.name))

    @property
    def operator_class(self) -> str:
        """The class of the operator that serves it; empty: one without a class."""
        return str(self.declared.get("class", ""))

    @property
    def holder(self) -> str:
        """The release that serves it, by the owner in its records; empty if none has yet."""
        return str(self.status.get("operator", ""))

    @property
    def names_clusters(self) -> bool:
        """Whether a Topic says for which clusters it is meant."""
        return not {"clusters", "clusterSelector"}.isdisjoint(self.declared)

    @property
    def applied_on(self) -> Sequence[str]:
        """Of a Topic, the clusters on which it was applied, by its status: those that name the generation."""
        return [part["name"] for part in self.status.get("clusters", ()) if "generation" in part]

    @property
    def let_go(self) -> bool:
        """Whether it is being deleted, and no longer by us: whatever it asked for, it asks no more."""
        return self.deleting and FINALIZER not in self.finalizers

    def annotation(self, name: str) -> str:
        """The value of one of our annotations; empty if it is not there."""
        return self.source.annotations.get(f"{schema.GROUP}/{name}", "")


def resource(body: Mapping[str, Any], known: Resource | None = None) -> Resource:
    """A body as a resource; of ``known``, an earlier sight of it, is kept what has not changed."""
    metadata = body["metadata"]
    uid, generation, labels = metadata["uid"], metadata["generation"], metadata.get("labels") or {}
    source = Body(metadata.get("annotations") or {})
    if known and (known.uid, known.generation, known.labels, known.source) == (uid, generation, labels, source):
        source, labels, manifest, problems = known.source, known.labels, known.manifest, known.problems
    else:
        manifest, problems = _read(body, source)
    unread = _NOTHING if manifest else body.get("spec") or _NOTHING
    return Resource(
        kind=body["kind"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=uid,
        version=int(metadata["resourceVersion"]),
        generation=generation,
        created=metadata["creationTimestamp"],
        labels=labels,
        source=source,
        finalizers=tuple(metadata.get("finalizers") or ()),
        deleting="deletionTimestamp" in metadata,
        manifest=manifest,
        problems=problems,
        unread=unread,
        status=body.get("status") or {},
    )


def annotations_of(manifest: Manifest) -> Mapping[str, str]:
    """All annotations of the resource that a manifest was read from."""
    assert isinstance(manifest.source, Body)
    return manifest.source.annotations


def _read(body: Mapping[str, Any], source: Body) -> tuple[Manifest | None, tuple[Problem, ...]]:
    """The manifest in a body, or what is wrong with it."""
    lost: list[Problem] = []
    plain = {**body, "spec": _exact(body.get("spec", {}), ("spec",), lost)}
    if found := (*lost, *schema.check(plain, custom_resource=True)):
        return None, found
    return schema.manifest(plain, source), ()


def _exact(value: Any, path: Path, lost: list[Problem]) -> Any:
    """``value`` with fractions as decimals; what has lost digits on its way here is added to ``lost``."""
    if isinstance(value, dict):
        return {key: _exact(each, (*path, key), lost) for key, each in value.items()}
    if isinstance(value, list):
        return [_exact(each, (*path, index), lost) for index, each in enumerate(value)]
    if isinstance(value, float):
        fraction = Decimal(repr(value))
        if abs(value) >= _EXACT or len(fraction.as_tuple().digits) > _DIGITS:
            lost.append(_lost(path, repr(value)))
        return fraction
    if isinstance(value, int) and value not in _WHOLE:
        lost.append(_lost(path, str(value)))
    return value


def _lost(path: Path, found: str) -> Problem:
    message = f"{dotted(path)}: found the number {found}, which may have lost digits: on its way here it was a float"
    return Problem(path, message, "put the value in quotes")


def complaints(found: Resource) -> Iterator[str]:
    """What is wrong with a resource, one text for each problem."""
    for problem in found.problems:
        yield problem.message + (f": {problem.hint}" if problem.hint else "")
