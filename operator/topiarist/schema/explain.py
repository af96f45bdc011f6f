"""Explanations of schema errors: the field, the value found, the value wanted, and a hint.

jsonschema-rs finds the errors, and this module turns each into a ``SchemaError``. ``check`` calls it only for an
invalid document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any, NamedTuple

from jsonschema_rs import Draft7Validator, ValidationErrorKind

from topiarist.errors import FieldKey, FieldPath, SchemaError
from topiarist.schema import load, messages
from topiarist.text import format_count, printable

MAX_ERRORS = 100
"""Errors of one document that are explained."""

_PATTERN_CHOICE = re.compile(r"(?<=[(|])[a-zA-Z]+(?=[|)])")
"""Literal words that a schema pattern allows: ``partitions`` in ``^(partitions|config[.].+)$``."""


_NUMBER = re.compile(r"[+]?[0-9]+")

_validators: dict[int, tuple[Mapping[str, Any], Draft7Validator]] = {}
"""Validators by the identity of their schema, which is kept so that its identity is not reused."""


class Violation(NamedTuple):
    """A value that violates a keyword of a part of a schema; ``limit`` is the value of the keyword."""

    path: FieldPath
    instance: Any
    schema: Mapping[str, Any]
    keyword: str
    limit: Any


def identity_errors(body: Mapping[str, Any]) -> list[SchemaError]:
    """Return the errors of ``apiVersion`` and ``kind``; without them there is no schema for the rest."""
    version, kind = body.get("apiVersion"), body.get("kind")
    if version != load.API_VERSION:
        return [_error(("apiVersion",), f"{messages.describe_found(version)}, wanted {load.API_VERSION}")]
    if kind is None:
        return [SchemaError((), "found no kind, wanted one", f"add kind: {' or kind: '.join(load.MANIFEST_KINDS)}")]
    if kind not in load.MANIFEST_KINDS:
        message = f"{messages.describe_found(kind)}, wanted {messages.join_with_or(load.MANIFEST_KINDS)}"
        return [_error(("kind",), message, messages.did_you_mean(kind, load.MANIFEST_KINDS))]
    return []


def explain_errors(schema: Mapping[str, Any], body: Mapping[str, Any]) -> list[SchemaError]:
    """Return all errors of an invalid document, at most one per path; never empty."""
    errors: dict[FieldPath, SchemaError] = {}
    explained = ((found, each) for found in find_violations(schema, body) for each in _EXPLAINERS[found.keyword](found))
    try:
        for found, error in islice(explained, MAX_ERRORS):
            # A value of the wrong type violates other keywords too; versions of jsonschema-rs differ in the order.
            if found.keyword == "type" or error.path not in errors:
                errors[error.path] = error
    except ValueError:  # a lone surrogate in a key or in a config, which JSON can hold
        pass
    return list(errors.values()) or [SchemaError((), "found text that is not valid Unicode")]


def find_violations(schema: Mapping[str, Any], body: Any) -> Iterator[Violation]:
    """Yield the errors of a document as jsonschema-rs finds them; an integer such as 12.0 is an error too."""
    if id(schema) not in _validators:
        _validators[id(schema)] = schema, Draft7Validator(dict(schema))
    fractions = (number + 0.5 for number in count())
    for error in _validators[id(schema)][1].iter_errors(_make_strict(body, fractions)):
        path: FieldPath = ()
        instance: Any = body
        for found in error.instance_path:
            step = _find_key(instance, found) if isinstance(instance, Mapping) else found
            path, instance = (*path, step), instance[step]
        *steps, keyword = error.schema_path
        part: Any = schema
        for step in steps:
            # Old versions of jsonschema-rs have references in the path, new versions do not.
            part = schema["definitions"][part["$ref"].rpartition("/")[2]] if step == "$ref" else part[step]
        if isinstance(error.kind, ValidationErrorKind.PropertyNames):
            instance = error.kind.error.instance
            path = (*path, FieldKey(instance))
        yield Violation(path, instance, part, str(keyword), part[keyword])


def _find_key(mapping: Mapping[str, Any], step: str | int) -> str:
    """Return the key of a step in a path of jsonschema-rs, which gives the keys ``0``, ``00`` and ``+0`` as 0."""
    if step in mapping or str(step) in mapping:
        return str(step)
    return next(key for key in mapping if _NUMBER.fullmatch(key) and int(key) == step)


def _make_strict(value: Any, fractions: Iterator[float]) -> Any:
    """Return a copy for jsonschema-rs, which takes 12.0 for an integer and raises an error for a lone surrogate.

    Every fraction, except for values of configs, is replaced by one of ``fractions``, and a surrogate by a question
    mark.
    """
    if isinstance(value, dict):
        return {
            key: item if key in load.FRACTION_FIELDS else _make_strict(item, fractions) for key, item in value.items()
        }
    if isinstance(value, list):
        return [item if type(item) is int else _make_strict(item, fractions) for item in value]
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    return value if isinstance(value, int | None) else next(fractions)


def first_duplicate_index(items: Sequence[Any]) -> int | None:
    """Return the index of the first repeated item; None if all items differ."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        text = json.dumps(item, sort_keys=True, default=repr)
        if text in seen:
            return index
        seen.add(text)
    return None


def format_path(path: FieldPath) -> str:
    """Format a path as ``spec.overrides[0].partitions``; empty for the document itself."""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{printable(step)}" for step in path)
    return steps.removeprefix(".")


def _error(path: FieldPath, message: str, hint: str = "") -> SchemaError:
    return SchemaError(path, f"{format_path(path)}: {message}", hint)


def _explain_unknown_fields(error: Violation) -> Iterator[SchemaError]:
    known = list(error.schema["properties"])
    for name in error.instance:
        if name not in known:
            yield _error(
                (*error.path, FieldKey(name)), "found an unknown field", _unknown_field_hint(name, known, error.path)
            )


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


def _explain_missing_field(error: Violation) -> Iterator[SchemaError]:
    for name in error.limit:
        if name not in error.instance:
            yield _error((*error.path, name), "this required field is missing")


def _explain_type(error: Violation) -> Iterator[SchemaError]:
    if not messages.may_be_secret(error):
        hint = _type_hint(error.schema, error.instance)
    else:
        hint = _known_fields_hint(error.schema["properties"]) if "properties" in error.schema else ""
    yield _error(
        error.path, f"{messages.describe_instance(error)}, wanted {messages.describe_expected(error.schema)}", hint
    )


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


def _explain_not_allowed(error: Violation) -> Iterator[SchemaError]:
    wanted = messages.describe_expected(error.schema)
    hint = messages.did_you_mean(error.instance, error.schema["enum"]) if "enum" in error.schema else ""
    yield _error(error.path, f"{messages.describe_found(error.instance)}, wanted {wanted}", hint)


def _explain_pattern(error: Violation) -> Iterator[SchemaError]:
    message = f"{messages.describe_instance(error)}, {error.schema['patternErrorMessage']}"
    choices = _PATTERN_CHOICE.findall(error.limit)
    yield _error(error.path, message, messages.did_you_mean(error.instance, choices))


def _explain_length(error: Violation) -> Iterator[SchemaError]:
    limit, length = error.limit, len(error.instance)
    unit = "character" if isinstance(error.instance, str) else "item"
    found = format_count(length, unit) if length else "nothing in it"
    bound = f"at most {limit}" if error.keyword.startswith("max") else f"at least {format_count(limit, unit)}"
    yield _error(error.path, f"found {found}, wanted {bound}")


def _explain_duplicate_item(error: Violation) -> Iterator[SchemaError]:
    index = first_duplicate_index(error.instance) or 0
    value = messages.format_value(error.instance[index])
    yield _error((*error.path, index), f"found {value} a second time, wanted each item once")


def _explain_forbidden(error: Violation) -> Iterator[SchemaError]:
    if "required" not in error.limit:
        yield _error(error.path, f"{messages.describe_found(error.instance)}, wanted any other name")
        return
    field, other = error.limit["required"]
    yield _error((*error.path, FieldKey(field)), f"found together with {other}, wanted only one of the two")


def _explain_single_field(error: Violation) -> Iterator[SchemaError]:
    names = [printable(str(name)) for name in error.instance]
    wanted = "only one of them" if names else messages.join_with_or(error.schema["properties"])
    yield _error(error.path, f"found {' and '.join(names) or 'nothing in it'}, wanted {wanted}")


def _explain_too_few_fields(error: Violation) -> Iterator[SchemaError]:
    return _explain_single_field(error) if "maxProperties" in error.schema else _explain_length(error)


def _explain_missing_dependency(error: Violation) -> Iterator[SchemaError]:
    for name, others in error.limit.items():
        if name in error.instance and not error.instance.keys() >= set(others):
            yield _error((*error.path, FieldKey(name)), f"found without {', '.join(others)}, wanted both")


def _explain_no_alternative(error: Violation) -> Iterator[SchemaError]:
    if error.schema.get("errorMessage", "").startswith("found "):
        yield _error(error.path, error.schema["errorMessage"])
    elif "errorMessage" in error.schema:
        found = " and ".join(printable(str(name)) for name in error.instance)
        yield _error(error.path, f"found {found or 'nothing in it'}, {error.schema['errorMessage']}")
    else:
        names = [option["required"][0] for option in error.limit]
        yield _error(error.path, f"found neither {' nor '.join(names)}, wanted one of them")


_EXPLAINERS: dict[str, Callable[[Violation], Iterable[SchemaError]]] = {
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
