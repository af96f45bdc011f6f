"""The fields of a document as a table, from its JSON Schema: path, values, meaning.

``topiarist explain`` shows one field of a manifest, and ``tools/reference.py`` writes the tables of the pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

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
