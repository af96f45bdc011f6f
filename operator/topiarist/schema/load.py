"""The JSON Schemas in ``schemas/*.json``: their compiled validators, and their fields as a table.

The schemas define the fields of manifests, plans and snapshots. Editors, the custom resource definitions and topiarist
read the same files. ``check`` validates manifests with them; ``first_error`` is for documents that a program wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pkgutil import get_data
from typing import TYPE_CHECKING, Any, NamedTuple

from topiarist.errors import FieldPath
from topiarist.text import printable

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator


API_GROUP = "topiarist.dev"
API_VERSION = f"{API_GROUP}/v1"
KINDS = ("Topic", "Cluster", "Policy")
"""The kinds of documents that are custom resources too."""

MANIFEST_KINDS = (*KINDS, "DriftException", "DriftPolicy")
"""The kinds of documents in files."""

FRACTION_FIELDS = frozenset({"config", "brokerConfig"})
"""Fields with values that may be fractions; in all other fields a number is an integer."""


@cache
def load_schema(kind: str) -> Mapping[str, Any]:
    """Return the JSON Schema (draft-07) of a kind."""
    text = get_data("topiarist", f"schemas/{kind.lower()}.json")
    assert text is not None
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def first_error(kind: str, body: Any) -> str:
    """Return the location of the first schema error; empty if there is none.

    For documents that a program wrote: the message does not explain the error.
    """
    try:
        error = next(iter(build_validator(kind).iter_errors(body)), None)
    except ValueError:
        return "it has text that is not valid Unicode"
    if error is None:
        return ""
    where = "".join(
        f"[{step}]" if isinstance(step, int) else f".{printable(str(step))}" for step in error.instance_path
    )
    return f"{where.removeprefix('.') or 'it'} does not match schemas/{kind}.json"


def non_integer_paths(spec: Any, path: FieldPath = ("spec",)) -> Iterable[FieldPath]:
    """Yield the paths of all fractions where only integers are allowed.

    In JSON Schema, 12.0 is an integer. Here it is not, because the code that reads specs expects ``int``.
    """
    if isinstance(spec, dict):
        for key, value in spec.items():
            if key not in FRACTION_FIELDS:
                yield from non_integer_paths(value, (*path, key))
    elif isinstance(spec, list):
        for index, item in enumerate(spec):
            if not isinstance(item, str | int):  # a list may have thousands of numbers or names
                yield from non_integer_paths(item, (*path, index))
    elif not isinstance(spec, str | int | None):
        yield path


@cache
def build_validator(kind: str, custom_resource: bool = False) -> Draft7Validator:
    """Return the compiled validator of a kind, cached."""
    from jsonschema_rs import Draft7Validator

    return Draft7Validator(dict(document_schema(kind, custom_resource)))


def document_schema(kind: str, custom_resource: bool) -> Mapping[str, Any]:
    """Return the schema of a kind, as a custom resource or as a manifest."""
    return resource_schema(kind) if custom_resource else load_schema(kind)


TOKENS_FOLDER = "/var/run/secrets/topiarist.dev/tokens"
"""The only folder of the operator's pod with files that a ``Cluster`` resource may name: tokens for Kafka."""

TOKEN_FILE = rf"^{re.escape(TOKENS_FOLDER)}/[A-Za-z0-9][A-Za-z0-9_-]{{0,62}}$"
"""The pattern of the path of such a file."""


@cache
def resource_schema(kind: str) -> Mapping[str, Any]:
    """Return the JSON Schema of a custom resource: its references to secrets allow only ``secretKeyRef``.

    A file or environment variable in a ``Cluster`` resource would be one of the operator's own pod, such as its
    ServiceAccount token, and its content would be sent to the address in that resource. A token may also be a file of
    ``TOKENS_FOLDER``, where only tokens for Kafka are mounted. ``tools/crd`` generates the definitions from this
    schema. The operator checks resources by it too, because an API server may lack these definitions.
    """
    schema: Mapping[str, Any] = _restrict_secret_references(load_schema(kind))
    return schema


def _restrict_secret_references(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_restrict_secret_references(value) for value in schema]
    if not isinstance(schema, Mapping):
        return schema
    restricted = {name: _restrict_secret_references(value) for name, value in schema.items()}
    fields = restricted.get("properties")
    if not isinstance(fields, dict) or "secretKeyRef" not in fields:
        return restricted
    allowed, words = {"secretKeyRef": fields["secretKeyRef"]}, "no file, variable or command"
    if "command" in fields:  # of a token
        allowed["file"] = {
            "title": "Projected token",
            "description": "A projected token of the operator's pod, read again at each login.",
            "type": "string",
            "maxLength": 4096,
            "pattern": TOKEN_FILE,
            "patternErrorMessage": f"wanted a file directly in {TOKENS_FOLDER}",
        }
        words = f"no variable or command, and no file but a projected token in {TOKENS_FOLDER}"
    # Without additionalProperties, so that only the error with the hint is reported, not the unknown field too.
    return {
        **{name: restricted[name] for name in ("title", "description", "type", "writeOnly")},
        "properties": allowed,
        "maxProperties": 1,
        "anyOf": [{"required": [name]} for name in allowed],
        "errorMessage": f"wanted secretKeyRef: in a custom resource a reference names a key of a Secret, and {words}",
    }


# The fields of a document as a table, from its JSON Schema: path, values, meaning.
#
# ``topiarist explain`` shows one field of a manifest, and ``tools/reference.py`` writes the tables of the pages.

DOCUMENTED_ELSEWHERE = frozenset({"config"})
"""Definitions with a separate table of their keys."""

Schema = Mapping[str, Any]

_MAX_INT32 = 2**31 - 1


class Field(NamedTuple):
    """A row of the table: the path of a field, the values it takes, its meaning."""

    path: str
    kind: str
    meaning: str


class FieldTable:
    """A table of the fields of one schema; a definition that was shown before is only referred to."""

    def __init__(self, document: Schema, linked: bool) -> None:
        self._definitions: Mapping[str, Schema] = document.get("definitions", {})
        self._linked = linked
        self._shown: dict[str, str] = {}

    def list_fields(self, schema: Schema, prefix: str = "") -> Iterator[Field]:
        """Yield the fields of an object, depth first."""
        for name, inner in schema.get("properties", {}).items():
            path = f"{prefix}{name}"
            required = name in schema.get("required", ())
            yield from self._field(path, inner, ", required" if required and not self._linked else "")

    def _field(self, path: str, schema: Schema, suffix: str) -> Iterator[Field]:
        name = reference_name(schema)
        if name in self._shown:
            yield Field(path, self._type_text(schema) + suffix, f"As `{self._shown[name]}`.")
            return
        if name and not self._linked:
            self._shown[name] = path
            schema = self._definitions[name]
        yield Field(path, self._type_text(schema) + suffix, self._meaning(schema))
        if name in DOCUMENTED_ELSEWHERE:
            return
        items = schema.get("items", {})
        yield from self.list_fields(items if self._linked else self._resolved(items), f"{path}[].")
        for option in (schema, *schema.get("oneOf", ())):
            yield from self.list_fields(option, f"{path}.")

    def _resolved(self, schema: Schema) -> Schema:
        name = reference_name(schema)
        return self._definitions[name] if name else schema

    def _meaning(self, schema: Schema) -> str:
        schema = self._resolved(schema)
        words = zip(schema.get("enum", ()), schema.get("enumDescriptions", ()), strict=False)
        parts = [schema.get("description", ""), *(f"`{word}`: {meaning}" for word, meaning in words)]
        if schema.get("default", "") != "":
            parts.append(f"Default: `{plain(schema['default'])}`.")
        return " ".join(filter(None, parts))

    def _type_text(self, schema: Schema) -> str:
        """Return the values that a field takes, as text."""
        name = reference_name(schema)
        if name and self._linked:
            return f"[{name}](#{name.lower()})"
        schema = self._resolved(schema)
        options = schema.get("oneOf", ())
        if options:
            return " or ".join(sorted(map(self._type_text, options), key="null".__eq__))
        if "enum" in schema and len(schema["enum"]) <= 8:
            return " or ".join(f"`{word}`" for word in schema["enum"])
        if "enum" in schema:
            return f"`{schema['enum'][0]}` to `{schema['enum'][-1]}`"
        return self._basic_type_text(schema)

    def _basic_type_text(self, schema: Schema) -> str:
        kind = schema.get("type", "")
        if isinstance(kind, list):
            lists = {"array": self._basic_type_text({**schema, "type": "array"})} if "array" in kind else {}
            return " or ".join(dict.fromkeys({**TYPE_NAMES, **lists}[name] for name in kind))
        if kind == "array":
            return f"list of {self._type_text(schema['items'])}"
        values = schema.get("additionalProperties")
        if kind == "object" and isinstance(values, Mapping):
            return f"map to {self._type_text(values)}"
        return TYPE_NAMES[kind] + bounds(schema)


TYPE_NAMES = {
    "string": "text",
    "object": "map",
    "integer": "number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
}


def reference_name(schema: Schema) -> str:
    """Return the name of the definition that a schema refers to, or an empty string."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


def plain(value: Any) -> str:
    """Return a value as it is written in a manifest."""
    return value if isinstance(value, str) else json.dumps(value)


def bounds(schema: Schema) -> str:
    """Return the bounds of a number as text.

    Returns an empty string if there are none; the maximum of a 32-bit integer counts as none.
    """
    low, high = schema.get("minimum"), schema.get("maximum")
    if high is not None and high != _MAX_INT32:
        return f", {low} to {high}"
    return f", from {low}" if low is not None else ""
