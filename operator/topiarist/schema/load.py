"""The JSON Schemas in ``schemas/*.json`` and their compiled validators.

The schemas define the fields of manifests, plans and snapshots. Editors, the custom resource definitions and topiarist
read the same files. ``check`` validates manifests with them; ``first_error`` is for documents that a program wrote.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pkgutil import get_data
from typing import TYPE_CHECKING, Any

from topiarist.errors import FieldPath
from topiarist.text import printable

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator


API_GROUP = "topiarist.dev"
API_VERSION = f"{API_GROUP}/v1"
KINDS = ("Topic", "Cluster", "Policy")
"""The kinds of documents that are custom resources too."""

MANIFEST_KINDS = (*KINDS, "DriftException")
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
            if type(item) is not int:
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


@cache
def resource_schema(kind: str) -> Mapping[str, Any]:
    """Return the JSON Schema of a custom resource: its references to secrets allow only ``secretKeyRef``.

    A file or environment variable in a ``Cluster`` resource would be one of the operator's own pod, such as its
    ServiceAccount token, and its content would be sent to the address in that resource. ``tools/crd`` generates the
    definitions from this schema. The operator checks resources by it too, because an API server may lack these
    definitions.
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
    # Without additionalProperties, so that only the error with the hint is reported, not the unknown field too.
    return {
        **{name: restricted[name] for name in ("title", "description", "type", "writeOnly")},
        "properties": {"secretKeyRef": fields["secretKeyRef"]},
        "maxProperties": 1,
        "anyOf": [{"required": ["secretKeyRef"]}],
        "errorMessage": "wanted secretKeyRef: in a custom resource a reference names a key of a Secret, and no file or "
        "variable",
    }
