"""Explanations of schema errors: the field, the value found, the value wanted, and a hint.

``lenient_validator`` finds the errors by jsonschema, and this module turns each into a ``SchemaError``. ``check``
imports it only for an invalid document, because importing jsonschema takes longer than checking ten thousand documents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from topiarist.errors import FieldKey, FieldPath, SchemaError
from topiarist.schema import load, messages
from topiarist.schema.lenient_validator import first_duplicate_index, iter_errors
from topiarist.text import format_count, printable

MAX_ERRORS = 100
"""Errors of one document that are explained."""

_PATTERN_CHOICE = re.compile(r"(?<=[(|])[a-zA-Z]+(?=[|)])")
"""Literal words that a schema pattern allows: ``partitions`` in ``^(partitions|config[.].+)$``."""


def identity_errors(body: Mapping[str, Any]) -> list[SchemaError]:
    """Return the errors of ``apiVersion`` and ``kind``; without them there is no schema for the rest."""
    version, kind = body.get("apiVersion"), body.get("kind")
    if version != load.API_VERSION:
        return [_error(("apiVersion",), f"{messages.describe_found(version)}, wanted {load.API_VERSION}")]
    if kind is None:
        return [SchemaError((), "found no kind, wanted one", f"add kind: {' or kind: '.join(load.KINDS)}")]
    if kind not in load.KINDS:
        message = f"{messages.describe_found(kind)}, wanted {messages.join_with_or(load.KINDS)}"
        return [_error(("kind",), message, messages.did_you_mean(kind, load.KINDS))]
    return []


def explain_errors(schema: Mapping[str, Any], body: Mapping[str, Any]) -> list[SchemaError]:
    """Return all errors of an invalid document, at most one per path; never empty."""
    errors: dict[FieldPath, SchemaError] = {}
    explained = (problem for error in iter_errors(schema, body) for problem in _explain_error(error))
    for problem in islice(explained, MAX_ERRORS):
        errors.setdefault(problem.path, problem)
    return list(errors.values()) or [SchemaError((), "found text that is not valid Unicode")]


def format_path(path: FieldPath) -> str:
    """Format a path as ``spec.overrides[0].partitions``; empty for the document itself."""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{printable(step)}" for step in path)
    return steps.removeprefix(".")


def _error(path: FieldPath, message: str, hint: str = "") -> SchemaError:
    return SchemaError(path, f"{format_path(path)}: {message}", hint)


def _explain_error(error: Any) -> Iterable[SchemaError]:
    path: FieldPath = tuple(error.absolute_path)
    if "propertyNames" in error.absolute_schema_path:
        path = (*path, FieldKey(error.instance))
    return _EXPLAINERS[str(error.validator)](error, path)


def _explain_unknown_fields(error: Any, path: FieldPath) -> Iterator[SchemaError]:
    known = list(error.schema["properties"])
    for name in error.instance:
        if name not in known:
            yield _error((*path, FieldKey(name)), "found an unknown field", _unknown_field_hint(name, known, path))


def _unknown_field_hint(name: str, known_fields: list[str], path: FieldPath) -> str:
    """Return the closest name, else the right place, else the known fields."""
    if guess := messages.did_you_mean(name, known_fields):
        return guess
    if name in load.load_schema(load.KINDS[0])["properties"]["spec"]["properties"]:
        if path == ():
            return "move it below spec:"
        if path[:2] == ("spec", "overrides"):
            return "move it below spec: it is the same on all clusters"
    return _known_fields_hint(known_fields)


def _known_fields_hint(fields: Iterable[str]) -> str:
    return f"known here: {', '.join(fields)}"


def _explain_missing_field(error: Any, path: FieldPath) -> Iterator[SchemaError]:
    # The lenient validator has only the name of the field as message.
    yield _error((*path, error.message), "this required field is missing")


def _explain_type(error: Any, path: FieldPath) -> Iterator[SchemaError]:
    if not messages.may_be_secret(error):
        hint = _type_hint(error.schema, error.instance)
    else:
        hint = _known_fields_hint(error.schema["properties"]) if "properties" in error.schema else ""
    yield _error(path, f"{messages.describe_instance(error)}, wanted {messages.describe_expected(error.schema)}", hint)


def _type_hint(schema: Mapping[str, Any], value: object) -> str:
    wanted, text = schema["type"], messages.format_value(value)
    if wanted == "string" and not isinstance(value, dict | list | None):
        return f'quote it: "{text}"' if text in schema.get("enum", (text,)) else ""
    if wanted == "integer" and isinstance(value, str) and re.fullmatch(r"-?[1-9][0-9]{0,18}", value):
        return f"leave the quotes out: {value}"
    if wanted == "array" and not isinstance(value, dict | None):
        return f"write [{printable(str(value))}]"
    if isinstance(wanted, list) and "array" in wanted and isinstance(value, int):
        return f"write [[{text}]]"
    if isinstance(wanted, list) and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return f'write "{printable(",".join(value))}"' if value else ""
    return ""


def _explain_not_allowed(error: Any, path: FieldPath) -> Iterator[SchemaError]:
    wanted = messages.describe_expected(error.schema)
    hint = messages.did_you_mean(error.instance, error.schema["enum"]) if "enum" in error.schema else ""
    yield _error(path, f"{messages.describe_found(error.instance)}, wanted {wanted}", hint)


def _explain_pattern(error: Any, path: FieldPath) -> Iterator[SchemaError]:
    message = f"{messages.describe_instance(error)}, {error.schema['patternErrorMessage']}"
    choices = _PATTERN_CHOICE.findall(error.validator_value)
    yield _error(path, message, messages.did_you_mean(error.instance, choices))


def _explain_length(error: Any, path: FieldPath) -> Iterator[SchemaError]:
    limit, length = error.validator_value, len(error.instance)
    unit = "character" if isinstance(error.instance, str) else "item"
    found = format_count(length, unit) if length else "nothing in it"
    bound = f"at most {limit}" if str(error.validator).startswith("max") else f"at least {format_count(limit, unit)}"
    yield _error(path, f"found {found}, wanted {bound}")


def _explain_duplicate_item(error: Any, path: FieldPath) -> Iterator[SchemaError]:
    index = first_duplicate_index(error.instance) or 0
    value = messages.format_value(error.instance[index])
    yield _error((*path, index), f"found {value} a second time, wanted each item once")


def _explain_forbidden(error: Any, path: FieldPath) -> Iterator[SchemaError]:
    if "required" not in error.validator_value:
        yield _error(path, f"{messages.describe_found(error.instance)}, wanted any other name")
        return
    field, other = error.validator_value["required"]
    yield _error((*path, FieldKey(field)), f"found together with {other}, wanted only one of the two")


def _explain_single_field(error: Any, path: FieldPath) -> Iterator[SchemaError]:
    names = [printable(str(name)) for name in error.instance]
    wanted = "only one of them" if names else messages.join_with_or(error.schema["properties"])
    yield _error(path, f"found {' and '.join(names) or 'nothing in it'}, wanted {wanted}")


def _explain_too_few_fields(error: Any, path: FieldPath) -> Iterator[SchemaError]:
    return _explain_single_field(error, path) if "maxProperties" in error.schema else _explain_length(error, path)


def _explain_missing_dependency(error: Any, path: FieldPath) -> Iterator[SchemaError]:
    for name, others in error.validator_value.items():
        if name in error.instance and not error.instance.keys() >= set(others):
            yield _error((*path, FieldKey(name)), f"found without {', '.join(others)}, wanted both")


def _explain_no_alternative(error: Any, path: FieldPath) -> Iterator[SchemaError]:
    if "errorMessage" in error.schema:
        found = " and ".join(printable(str(name)) for name in error.instance)
        yield _error(path, f"found {found or 'nothing in it'}, {error.schema['errorMessage']}")
    else:
        names = [option["required"][0] for option in error.validator_value]
        yield _error(path, f"found neither {' nor '.join(names)}, wanted one of them")


_EXPLAINERS: dict[str, Callable[[Any, FieldPath], Iterable[SchemaError]]] = {
    "additionalProperties": _explain_unknown_fields,
    "required": _explain_missing_field,
    "type": _explain_type,
    "enum": _explain_not_allowed,
    "minimum": _explain_not_allowed,
    "maximum": _explain_not_allowed,
    "pattern": _explain_pattern,
    "minLength": _explain_length,
    "maxLength": _explain_length,
    "minItems": _explain_length,
    "maxItems": _explain_length,
    "minProperties": _explain_too_few_fields,
    "maxProperties": _explain_single_field,
    "uniqueItems": _explain_duplicate_item,
    "not": _explain_forbidden,
    "anyOf": _explain_no_alternative,
    "dependencies": _explain_missing_dependency,
}
"""Explainer functions by schema keyword; a test compares this table with the keywords in the schemas."""
