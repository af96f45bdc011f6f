"""Restriction of secret references in custom resources to ``secretKeyRef``.

A file or environment variable in a ``Cluster`` resource would be one of the operator's own pod, such as its
ServiceAccount token, and its content would be sent to the address in that resource. ``tools/crd`` generates the
definitions from the restricted schema. The operator checks resources by it too, because an API server may lack these
definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SECRET_KEY_REF = "secretKeyRef"

_ERROR_MESSAGE = (
    f"wanted {_SECRET_KEY_REF}: in a custom resource a reference names a key of a Secret, and no file or variable"
)


def restrict_to_secret_key_refs(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with every secret reference restricted to ``secretKeyRef``."""
    restricted = {name: _restrict_value(value) for name, value in schema.items()}
    fields = restricted.get("properties")
    if isinstance(fields, dict) and _SECRET_KEY_REF in fields:
        # Without additionalProperties, so that only the error with the hint is reported, not the unknown field too.
        kept = {name: restricted[name] for name in ("title", "description", "type", "writeOnly")}
        form = {"properties": {_SECRET_KEY_REF: fields[_SECRET_KEY_REF]}, "maxProperties": 1}
        return {**kept, **form, "anyOf": [{"required": [_SECRET_KEY_REF]}], "errorMessage": _ERROR_MESSAGE}
    return restricted


def _restrict_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_restrict_value(item) for item in value]
    return restrict_to_secret_key_refs(value) if isinstance(value, Mapping) else value
