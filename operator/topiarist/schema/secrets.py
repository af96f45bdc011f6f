"""References to secrets in custom resources: keys of Secrets only.

A file or a variable that a ``Cluster`` resource names is one of the operator's own pod, such as its ServiceAccount
token, and its content is sent to the address that the same resource names. ``crd`` makes the definitions of the schema
that is made here, and the operator checks by it what an API server without these definitions has let through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SECRET_KEY_REF = "secretKeyRef"

_ERROR_MESSAGE = (
    f"wanted {_SECRET_KEY_REF}: in a custom resource a reference names a key of a Secret, and no file or variable"
)


def restrict_to_secret_key_refs(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with every reference to a secret narrowed down to ``secretKeyRef``."""
    made = {name: _restrict_value(value) for name, value in schema.items()}
    fields = made.get("properties")
    if isinstance(fields, dict) and _SECRET_KEY_REF in fields:
        # No additionalProperties: an unknown field would be named beside the error that says what to do.
        kept = {name: made[name] for name in ("title", "description", "type", "writeOnly")}
        form = {"properties": {_SECRET_KEY_REF: fields[_SECRET_KEY_REF]}, "maxProperties": 1}
        return {**kept, **form, "anyOf": [{"required": [_SECRET_KEY_REF]}], "errorMessage": _ERROR_MESSAGE}
    return made


def _restrict_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_restrict_value(item) for item in value]
    return restrict_to_secret_key_refs(value) if isinstance(value, Mapping) else value
