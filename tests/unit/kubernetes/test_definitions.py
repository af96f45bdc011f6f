"""The definitions in the API server, compared with the fields that this release needs."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import pytest

from support.checkout import ROOT
from support.kubernetes.schemas import read_definition
from support.virtual_time import virtual_time
from topiarist.kubernetes import definitions as module
from topiarist.kubernetes.api.client import KubernetesClient
from topiarist.kubernetes.definitions import Definition, Definitions, Schema, describe_missing, parse_definition, prune

OLD = json.loads((ROOT / "tests" / "integration" / "files-of-0.1.0" / "definitions.json").read_text())
NAMES = {"Topic": "topics.topiarist.dev", "Cluster": "clusters.topiarist.dev", "Policy": "policies.topiarist.dev"}
NEW = {name: read_definition(name) for name in NAMES.values()}


def changed(name: str, *path: str | int, value: Any = None) -> dict[str, Any]:
    """Return a definition of this release with one field replaced, or without it."""
    body = copy.deepcopy(NEW[name])
    *above, last = path
    found: Any = body["spec"]["versions"][0]
    for step in above:
        found = found[step]
    if value is None:
        del found[last]
    else:
        found[last] = value
    return body


SCHEMA = ("schema", "openAPIV3Schema", "properties")


@pytest.mark.parametrize("kind", NAMES)
def test_the_definitions_of_this_release_have_every_field(kind: str) -> None:
    """The generated definitions lack nothing, and a later release with more fields and values lacks nothing either."""
    name = NAMES[kind]
    found = parse_definition(kind, NEW[name])
    assert (found.name, found.missing) == (name, ())
    assert prune({"observedGeneration": 1, "later": 2}, found.status) == {"observedGeneration": 1}
    more = changed(name, *SCHEMA, "status", "properties", "later", value={"type": "string"})
    assert parse_definition(kind, more).missing == ()


@pytest.mark.parametrize(
    ("kind", "body", "missing"),
    [
        ("Topic", changed(NAMES["Topic"], *SCHEMA, "spec", "properties", "topicName"), "spec.topicName"),
        (
            "Topic",
            changed(NAMES["Topic"], *SCHEMA, "spec", "properties", "mode", "enum", value=["Enforce"]),
            "spec.mode: Observe",
        ),
        (
            "Topic",
            changed(NAMES["Topic"], *SCHEMA, "status", "properties", "clusters", "items", "properties", "consent"),
            "status.clusters[].consent",
        ),
        (
            "Cluster",
            changed(NAMES["Cluster"], *SCHEMA, "status", "properties", "recordsTopicId"),
            "status.recordsTopicId",
        ),
        ("Cluster", changed(NAMES["Cluster"], "served", value=0), "the version v1"),
        ("Policy", changed(NAMES["Policy"], "subresources", "status"), "the subresource status"),
    ],
)
def test_what_a_definition_lacks_is_named(kind: str, body: dict[str, Any], missing: str) -> None:
    """A field of a spec or a status, a value, the version, the subresource."""
    assert parse_definition(kind, body).missing == (missing,)


@pytest.mark.parametrize(
    ("wanted", "found", "missing"),
    [
        ({"properties": {"a": {}, "b": {}}}, {"properties": {"b": {}, "c": {}}}, ["x.a"]),
        ({"properties": {"a": {"properties": {"b": {}}}}}, {"properties": {"a": {"properties": {}}}}, ["x.a.b"]),
        ({"properties": {"a": {"properties": {"b": {}}}}}, {"additionalProperties": {}}, ["x.a.b"]),
        ({"properties": {"a": {}}}, {"x-kubernetes-preserve-unknown-fields": True}, []),
        ({"items": {"properties": {"a": {}}}}, {"items": {"properties": {}}}, ["x[].a"]),
        ({"items": {"properties": {"a": {}}}}, {}, []),
        ({"additionalProperties": {"properties": {"a": {}}}}, {"additionalProperties": {"properties": {}}}, ["x.*.a"]),
        ({"additionalProperties": False}, {"additionalProperties": {"properties": {}}}, []),
        ({"enum": ["A", "B", "C"]}, {"enum": ["B"]}, ["x: A", "x: C"]),
        ({"enum": ["A"]}, {"type": "string"}, []),
        ({}, {"enum": ["A"]}, []),
        ({"$ref": "#/definitions/size"}, {"properties": {}}, ["x.small"]),
    ],
)
def test_a_schema_is_compared_field_by_field(wanted: Schema, found: Schema, missing: list[str]) -> None:
    """What a definition lacks has its path; more fields, more values and free fields lack nothing."""
    references: Schema = {"size": {"properties": {"small": {}}}}
    assert [*module._find_missing(wanted, references, found, "x")] == missing


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        (["spec.a"], "n does not have spec.a"),
        ([f"spec.{letter}" for letter in "abcde"], "n does not have spec.a, spec.b, spec.c, spec.d, spec.e"),
        (
            [f"spec.{letter}" for letter in "abcdefg"],
            "n does not have spec.a, spec.b, spec.c, spec.d, spec.e and 2 more",
        ),
    ],
)
def test_a_message_names_some_of_the_fields(missing: list[str], text: str) -> None:
    """The rest is counted: a definition of another release may lack hundreds."""
    assert describe_missing({"Topic": Definition("n", tuple(missing), {})}) == text


def test_the_definitions_of_an_earlier_release_lack_fields() -> None:
    """Those of 0.1.0, which a rollback or a chart without definitions leaves, are named with some of the fields."""
    lacking = {kind: parse_definition(kind, OLD[name]) for kind, name in NAMES.items()}
    assert lacking["Topic"].missing
    assert lacking["Cluster"].missing
    text = describe_missing({kind: each for kind, each in lacking.items() if each.missing})
    assert "topics.topiarist.dev does not have " in text
    assert len(text) < 1000


def test_a_status_is_cut_to_what_a_definition_has() -> None:
    """Fields in lists and objects go, maps and values stay."""
    schema = {
        "properties": {
            "list": {"items": {"properties": {"name": {}}}},
            "object": {"properties": {"in": {}}},
            "map": {"additionalProperties": {}},
        }
    }
    status = {"list": [{"name": 1, "other": 2}], "object": {"in": 1, "out": 2}, "map": {"any": 1}, "new": 3}
    assert prune(status, schema) == {"list": [{"name": 1}], "object": {"in": 1}, "map": {"any": 1}}


class Server:
    """An API server with definitions, and events that a test adds before the watch."""

    def __init__(self) -> None:
        self.bodies = dict(NEW)
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.selectors: list[str] = []

    async def list_pages(self, path: str, **params: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the definition that the selector names."""
        assert path == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        name = params["fieldSelector"].removeprefix("metadata.name=")
        self.selectors.append(name)
        items = [{**self.bodies[name], "metadata": {"name": name}}] if name in self.bodies else []
        yield {"metadata": {"resourceVersion": "1"}, "items": items}

    async def watch(self, _path: str, _version: str, **params: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of one definition."""
        for event in self.events.pop(params["fieldSelector"].removeprefix("metadata.name="), ()):
            yield event


@virtual_time
async def test_a_change_of_a_definition_is_told() -> None:
    """Each is read by its name at the start, all before the first report; a change and a deletion are reported."""

    server, told = Server(), list[Mapping[str, Definition]]()
    del server.bodies[NAMES["Policy"]]
    name = NAMES["Topic"]
    old = {**OLD[name], "metadata": {"name": name, "resourceVersion": "2"}}
    new = {**NEW[name], "metadata": {"name": name, "resourceVersion": "3"}}
    definitions = Definitions(cast(KubernetesClient, server), told.append)
    await definitions.refresh()
    assert sorted(server.selectors) == sorted(NAMES.values())
    assert [[*each] for each in told] == [["Policy"]]
    server.events[name] = [{"type": "MODIFIED", "object": old}, {"type": "MODIFIED", "object": new}]
    server.events[name].append({"type": "DELETED", "object": new})
    task = asyncio.create_task(definitions.run())
    await asyncio.sleep(1)
    assert [[*each] for each in told[1:]] == [["Topic", "Policy"], ["Policy"], ["Topic", "Policy"]]
    task.cancel()
