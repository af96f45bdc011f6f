"""References to secrets in custom resources: keys of Secrets only.

A file or a variable that a ``Cluster`` resource names is one of the operator's own pod, such as its ServiceAccount
token, and its content is sent to the address that the same resource names. ``crd`` makes the definitions of the schema
that is made here, and the operator checks by it what an API server without these definitions has let through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FORM = "secretKeyRef"

_WANTED = f"wanted {_FORM}: in a custom resource a reference names a key of a Secret, and no file or variable"


def from_secrets_only(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with every reference to a secret narrowed down to ``secretKeyRef``."""
    made = {name: _narrowed(value) for name, value in schema.items()}
    fields = made.get("properties")
    if isinstance(fields, dict) and _FORM in fields:
        # No additionalProperties: an unknown field would be named beside the error that says what to do.
        kept = {name: made[name] for name in ("title", "description", "type", "writeOnly")}
        form = {"properties": {_FORM: fields[_FORM]}, "maxProperties": 1}
        return {**kept, **form, "anyOf": [{"required": [_FORM]}], "errorMessage": _WANTED}
    return made


def _narrowed(value: Any) -> Any:
    if isinstance(value, list):
        return [_narrowed(item) for item in value]
    return from_secrets_only(value) if isinstance(value, Mapping) else value
