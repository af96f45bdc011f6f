"""The definitions of topiarist's kinds in the API server, compared with the fields that this release reads and writes.

``main`` starts ``Definitions``; ``manager`` changes no Kafka cluster while a definition lacks a field. An API server
with the definitions of an earlier release drops fields of specs in silence, and refuses whole statuses. A definition
with more fields is no problem.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from topiarist.kubernetes.api.client import KubernetesClient
from topiarist.kubernetes.api.resources import DEFINITIONS_PATH, PLURALS, definition_name
from topiarist.kubernetes.informer import Informer
from topiarist.schema import load

_MAX_FIELDS = 5
"""Maximum number of fields that a message names."""

_KINDS = {definition_name(kind): kind for kind in PLURALS}
"""The kinds by the names of their definitions."""

_EVERYTHING = ("everything",)
"""The fields that a definition lacks that does not exist."""

Schema = Mapping[str, Any]


class Definition(NamedTuple):
    """A definition: its name, the fields that it lacks, and its schema of a status."""

    name: str
    missing: tuple[str, ...]
    status: Schema


def parse_definition(kind: str, body: Mapping[str, Any]) -> Definition:
    """Return the definition in a body of the API server, compared with the schemas of this release."""
    name, wanted = body["metadata"]["name"], load.API_VERSION.partition("/")[2]
    versions = [each for each in body["spec"]["versions"] if each["name"] == wanted and each["served"]]
    if not versions:
        return Definition(name, (f"the version {wanted}",), {})
    schema = versions[0].get("schema", {}).get("openAPIV3Schema", {})
    fields = schema.get("properties", {})
    document, status = load.resource_schema(kind), load.load_schema("status")
    missing = [
        *_find_missing(document["properties"]["spec"], document["definitions"], fields.get("spec", {}), "spec"),
        *_find_missing(status["definitions"][kind.lower()], status["definitions"], fields.get("status", {}), "status"),
    ]
    if "status" not in versions[0].get("subresources", {}):
        missing.append("the subresource status")
    return Definition(name, tuple(missing), fields.get("status", {}))


def _find_missing(wanted: Schema, references: Schema, found: Schema, path: str) -> Iterator[str]:
    """Yield the path of each field, and each value of an enumeration, that a definition does not accept."""
    wanted = references[wanted["$ref"].rpartition("/")[2]] if "$ref" in wanted else wanted
    if found.get("x-kubernetes-preserve-unknown-fields"):
        return
    if "enum" in found:
        yield from (f"{path}: {value}" for value in wanted.get("enum", ()) if value not in found["enum"])
    for name, field in wanted.get("properties", {}).items():
        # In a definition, config keys are a map, since their values may be text or numbers.
        below = found.get("properties", {}).get(name, found.get("additionalProperties"))
        if below is None:
            yield f"{path}.{name}"
        else:
            yield from _find_missing(field, references, below, f"{path}.{name}")
    for keyword, step in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(wanted.get(keyword), Mapping) and isinstance(found.get(keyword), Mapping):
            yield from _find_missing(wanted[keyword], references, found[keyword], f"{path}{step}")


def prune(value: Any, schema: Schema) -> Any:
    """Return ``value`` without the fields that a schema does not have: the API server refuses a status with any."""
    if isinstance(value, list | tuple):
        return [prune(each, schema.get("items", {})) for each in value]
    if not isinstance(value, Mapping) or "properties" not in schema:
        return value
    fields = schema["properties"]
    return {name: prune(each, fields[name]) for name, each in value.items() if name in fields}


class Definitions:
    """The definitions of all kinds, watched; ``on_change`` receives those that lack something, by kind."""

    def __init__(self, api: KubernetesClient, on_change: Callable[[Mapping[str, Definition]], None]) -> None:
        self._on_change = on_change
        self._is_read = False
        self._found = {name: Definition(name, _EVERYTHING, {}) for name in _KINDS}
        # One each: the operator may read these definitions and no other.
        self._informers = [
            Informer(
                *(api, DEFINITIONS_PATH, _parse, lambda found, _: self._update(found), self._remove),
                fieldSelector=f"metadata.name={name}",
            )
            for name in _KINDS
        ]

    async def refresh(self) -> None:
        """Read all definitions. Raises ``ApiError``."""
        for each in self._informers:
            await each.refresh()
        self._is_read = True
        self._report()

    async def run(self) -> None:
        """Watch the definitions until cancelled; call ``refresh`` before."""
        async with asyncio.TaskGroup() as tasks:
            for each in self._informers:
                tasks.create_task(each.run())

    def _update(self, found: Definition) -> None:
        self._found[found.name] = found
        self._report()

    def _remove(self, found: Definition) -> None:
        self._update(found._replace(missing=_EVERYTHING))

    def _report(self) -> None:
        if self._is_read:
            self._on_change({_KINDS[name]: each for name, each in self._found.items() if each.missing})


def _parse(body: dict[str, Any], _: Definition | None) -> Definition:
    return parse_definition(_KINDS[body["metadata"]["name"]], body)


def describe_missing(definitions: Mapping[str, Definition]) -> str:
    """Return what the definitions lack; empty if they lack nothing."""
    parts = []
    for each in definitions.values():
        more = f" and {len(each.missing) - _MAX_FIELDS:,} more" if len(each.missing) > _MAX_FIELDS else ""
        parts.append(f"{each.name} does not have {', '.join(each.missing[:_MAX_FIELDS])}{more}")
    return "; ".join(parts)
