"""The JSON Schemas, and the one door into specs: a document is valid by its schema or becomes a list of problems.

``schemas/*.json`` say what fields there are; editors, the Kubernetes definitions and this module read the same files.
jsonschema-rs decides, jsonschema explains (``explain``, imported only for a document that is not valid). After this
door ``model.spec`` and ``desired.rules`` take over, which know what no schema can: other documents, releases, defaults.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from topiarist.errors import FieldPath
from topiarist.schema import secrets
from topiarist.text import printable

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator


API_GROUP = "topiarist.dev"
API_VERSION = f"{API_GROUP}/v1"
KINDS = ("Topic", "Cluster", "Policy")

FRACTION_FIELDS = frozenset({"config", "brokerConfig"})
"""Fields whose values may be fractions; everywhere else a number is a whole number."""


@cache
def load_schema(kind: str) -> Mapping[str, Any]:
    """The JSON Schema (draft-07) of a kind."""
    text = (files("topiarist") / "schemas" / f"{kind.lower()}.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def first_error(kind: str, body: Any) -> str:
    """Where a document that no person writes first departs from its schema; empty if it is valid."""
    try:
        error = next(iter(build_validator(kind).iter_errors(body)), None)
    except ValueError:
        return "it holds text that is no Unicode"
    if error is None:
        return ""
    where = "".join(
        f"[{step}]" if isinstance(step, int) else f".{printable(str(step))}" for step in error.instance_path
    )
    return f"{where.removeprefix('.') or 'it'} is not what schemas/{kind}.json says"


def non_integer_paths(spec: Any, path: FieldPath = ("spec",)) -> Iterable[FieldPath]:
    """The paths of all fractions where only whole numbers can stand.

    To JSON Schema 12.0 is a whole number. Here it is not: what reads the specs counts with ``int``.
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
    from jsonschema_rs import Draft7Validator

    return Draft7Validator(dict(document_schema(kind, custom_resource)))


def document_schema(kind: str, custom_resource: bool) -> Mapping[str, Any]:
    return resource_schema(kind) if custom_resource else load_schema(kind)


@cache
def resource_schema(kind: str) -> Mapping[str, Any]:
    """Return the JSON Schema of a custom resource: that of the kind, with secrets from Secrets only."""
    return secrets.restrict_to_secret_key_refs(load_schema(kind))
