"""Validation of single documents by their JSON Schema.

``adapters.manifests.loader`` and the operator call ``check`` for every document before it becomes a ``Manifest``.
jsonschema-rs decides whether a document is valid; ``explain`` is imported only for an invalid one. ``desired.parse``
then checks what no schema can express: other documents, Kafka versions, defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from topiarist.errors import FieldKey, FieldPath, SchemaError
from topiarist.kafka import config_rules, config_table
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.config_values import to_config_text
from topiarist.schema import load
from topiarist.text import printable, quote

# Phrases for error messages: values found, values wanted, and suggestions.
#
# ``explain`` and ``identity`` build their messages from them; ``desired.resolve`` uses the suggestions.

MAX_COMPARED_CHARS = 64
"""Characters of an unknown word that are compared with the known words."""

_TYPE_NAMES = {
    "string": "text",
    "array": "a list",
    "object": "a mapping",
    "integer": "a whole number",
    "boolean": "true or false",
}


def describe_expected(schema: Mapping[str, Any]) -> str:
    """Describe the values that a field accepts."""
    if "enum" in schema:
        return join_with_or(schema["enum"])
    bounds = f" from {schema['minimum']}" if "minimum" in schema else ""
    bounds += f" to {schema['maximum']}" if "maximum" in schema else ""
    if isinstance(schema["type"], list):
        kind, *others = schema["type"]
        if others == ["null"]:
            return f"{_TYPE_NAMES[kind]}{bounds} or null"
        if kind == "object":
            return f"{_TYPE_NAMES[kind]} or {schema['pattern'].strip('^$')}"
        return (
            f"{_TYPE_NAMES[kind]} or {_TYPE_NAMES[others[0]]}" if kind == "array" else "text, a number, true or false"
        )
    return _TYPE_NAMES[schema["type"]] + bounds


def join_with_or(words: Iterable[str]) -> str:
    """Join words as ``a, b or c``."""
    *rest, last = words
    return f"{', '.join(rest)} or {last}" if rest else last


def did_you_mean(name: object, choices: Iterable[str]) -> str:
    """Return a hint with the choice most like ``name``, ignoring case; empty if there is none."""
    closest = find_closest(str(name), choices)
    return f"did you mean {closest}?" if closest else ""


def find_closest(name: str, choices: Iterable[str]) -> str:
    """Return the choice most like ``name``, ignoring case; empty if there is none."""
    return _find_closest(name[:MAX_COMPARED_CHARS].lower(), tuple(choices))


@lru_cache(maxsize=1000)
def _find_closest(name: str, choices: tuple[str, ...]) -> str:
    """Return the choice; cached, because one mistake often repeats in many files."""
    folded = {word.lower(): word for word in choices}
    from difflib import get_close_matches  # only for an error

    matches = get_close_matches(name, folded, n=1, cutoff=0.7)
    return folded[matches[0]] if matches else ""


def may_be_secret(error: Any) -> bool:
    """Return whether a value may be a secret that was written into a manifest by mistake."""
    return "writeOnly" in error.schema and not isinstance(error.instance, dict | list | None)


def describe_instance(error: Any) -> str:
    """Describe the value of a schema error, without showing a possible secret."""
    return "found a value (not shown: it may be secret)" if may_be_secret(error) else describe_found(error.instance)


def describe_found(value: object) -> str:
    """Describe a value that was found."""
    if value is None:
        return "found nothing"
    if isinstance(value, dict):
        return "found a mapping"
    return "found a list" if isinstance(value, list) else f"found {format_value(value)}"


def format_value(value: object) -> str:
    """Format a value on one line, text in quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return quote(value) if isinstance(value, str) else printable(str(value))


def key_step(key: str) -> str:
    """Return the last step of the path to a config error.

    For a known key it leads to the value, for an unknown key to the key itself.
    """
    return key if key in config_table.TOPIC_CONFIGS else FieldKey(key)


_FRACTION_FREE_TYPES = {str, int, bool}


def check(body: Mapping[str, Any], *, custom_resource: bool = False) -> list[SchemaError]:
    """Return all errors of a document by itself; empty if it is valid.

    At most ``explain.MAX_ERRORS`` errors. ``body`` is plain: dict, list, str, int, bool, and ``Decimal`` or float for
    fractions. With ``custom_resource`` the document comes from an API server and not from a file.
    """
    if is_valid(body, custom_resource=custom_resource):
        return []
    from topiarist.schema import explain, identity

    errors = identity.identity_errors(body)
    if not errors:
        return explain.explain_errors(load.document_schema(body["kind"], custom_resource), body)
    if not identity.is_meant_for_topiarist(body) or has_own_group(body):
        return errors
    # The rest of a document with a wrong group is checked too: otherwise the next run reports more errors.
    kind = identity.close_kind(body.get("kind"))
    corrected = {**body, "apiVersion": load.API_VERSION, "kind": kind}
    if kind and not is_valid(corrected, custom_resource=custom_resource):
        errors += explain.explain_errors(load.document_schema(kind, custom_resource), corrected)
    return errors


def has_own_group(body: Mapping[str, Any]) -> bool:
    """Return whether ``apiVersion`` is of topiarist's API group, in any version."""
    version = body.get("apiVersion")
    return isinstance(version, str) and (version == load.API_GROUP or version.startswith(f"{load.API_GROUP}/"))


def is_topiarist_document(body: Any) -> bool:
    """Return whether a document is meant for topiarist, also if its ``apiVersion`` is wrong."""
    if not isinstance(body, dict):
        return False
    if has_own_group(body):
        return True
    from topiarist.schema import identity

    return identity.is_meant_for_topiarist(body)


def is_valid(body: Mapping[str, Any], *, custom_resource: bool = False) -> bool:
    """Return whether ``check`` would return no errors."""
    if body.get("apiVersion") != load.API_VERSION:
        return False
    return body.get("kind") in (load.KINDS if custom_resource else load.MANIFEST_KINDS) and _matches_schema(
        body, custom_resource
    )


def check_project(body: Any) -> list[SchemaError]:
    """Return all errors of a project file; empty if it is valid."""
    schema = load.load_schema("Project")
    if load.build_validator("Project").is_valid(body):
        return []
    from topiarist.schema import explain

    return explain.explain_errors(schema, body)


def config_value_errors(body: Mapping[str, Any], remaining_guesses: Iterator[object]) -> Iterator[SchemaError]:
    """Yield config values that no Kafka version accepts, in a document that is already invalid.

    This reports all errors of the document at once. A valid document is checked by ``desired.parse``, which knows its
    cluster. This function reports only errors that no cluster could solve. An unknown key gets a suggestion only while
    ``remaining_guesses`` yields items, because a suggestion is slow to find.
    """
    for path, holder in _config_sections(body.get("spec")):
        config = holder.get("config") if isinstance(holder, Mapping) else None
        for key, value in config.items() if isinstance(config, Mapping) else ():
            if not isinstance(value, str | int | Decimal):
                continue
            is_known = key in config_table.TOPIC_CONFIGS or config_rules.field_of_size(key)
            if not is_known and (
                next(remaining_guesses, None) is None or config_rules.suggest_config_name(key) is None
            ):
                continue
            if problem := ConfigRules(mode=None).config_problem(key, to_config_text(key, value)):
                yield SchemaError((*path, "config", key_step(key)), *problem)


def _config_sections(spec: Any) -> Iterator[tuple[FieldPath, Any]]:
    """Yield path and content of each part of a spec that may have a ``config``; the spec may be invalid."""
    if not isinstance(spec, Mapping):
        return
    overrides = spec.get("overrides")
    yield ("spec",), spec
    yield ("spec", "defaults"), spec.get("defaults")
    for index, override in enumerate(overrides if isinstance(overrides, list) else ()):
        yield ("spec", "overrides", index), override


def _matches_schema(body: Mapping[str, Any], custom_resource: bool = False) -> bool:
    try:
        accepted = load.build_validator(body["kind"], custom_resource).is_valid(body)
    except ValueError:
        # Text that is not valid Unicode: JSON can hold a lone surrogate.
        return False
    if not accepted:
        return False
    # A fast check first, which passes almost all specs.
    types = {type(value) for key, value in body["spec"].items() if key not in load.FRACTION_FIELDS}
    return types <= _FRACTION_FREE_TYPES or not any(load.non_integer_paths(body["spec"]))
