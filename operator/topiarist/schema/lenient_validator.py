"""jsonschema, made to agree with jsonschema-rs and with us, and to pass over whatever is valid.

It takes many times as long as jsonschema-rs for each item of a list or a mapping, and compares the items of some lists
each with each. So jsonschema-rs is asked first, and jsonschema walks only those items that are wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import jsonschema_rs
from jsonschema import Draft7Validator, TypeChecker, ValidationError
from jsonschema.validators import extend

from topiarist.schema import load

Schema = Mapping[str, Any]
Errors = Iterator[ValidationError]

_validators: dict[int, tuple[Schema, Any]] = {}
"""What walks a schema, by the identity of the schema, which is kept with it: there are as many as there are kinds."""


def iter_errors(schema: Schema, body: Any) -> Errors:
    """What is wrong with a document by its schema, as jsonschema finds it, as far as it is asked for."""
    if id(schema) not in _validators:
        _validators[id(schema)] = schema, _build_validator(schema.get("definitions", {}))(schema)
    found: Errors = _validators[id(schema)][1].iter_errors(body)
    return found


def first_duplicate_index(items: Sequence[Any]) -> int | None:
    """The index of the first item that stands before it already; None if each stands once."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        text = json.dumps(item, sort_keys=True, default=repr)
        if text in seen:
            return index
        seen.add(text)
    return None


def _build_validator(definitions: Schema) -> Any:
    """A validator whose lists and mappings are asked about first.

    A ``$`` does not match before a final newline, and a whole number is an ``int``: not 12.0, and no boolean.
    """
    judges: dict[int, Callable[[Any], bool]] = {}

    def wrong(schema: Schema, value: Any) -> bool:
        """Whether there is anything to be found in a value; ``schema`` is a part of the whole one."""
        if id(schema) not in judges:
            judges[id(schema)] = jsonschema_rs.Draft7Validator({**schema, "definitions": definitions}).is_valid
        try:
            return not judges[id(schema)](value) or any(load.non_integer_paths(value))
        except ValueError:  # text that is no Unicode
            return True

    def items(validator: Any, schema: Schema, value: object, _whole: Schema) -> Errors:
        for index, item in enumerate(value if isinstance(value, list | tuple) else ()):
            if wrong(schema, item):
                yield from validator.descend(item, schema, path=index)

    def names(validator: Any, schema: Schema, value: object, _whole: Schema) -> Errors:
        for name in value if isinstance(value, dict) else ():
            if wrong(schema, name):
                yield from validator.descend(name, schema)

    def others(validator: Any, schema: Any, value: object, whole: Schema) -> Errors:
        if not isinstance(schema, dict):
            yield from Draft7Validator.VALIDATORS["additionalProperties"](validator, schema, value, whole)
            return
        for name, item in value.items() if isinstance(value, dict) else ():
            if name not in whole.get("properties", {}) and wrong(schema, item):
                yield from validator.descend(item, schema, path=name)

    return extend(  # type: ignore[no-untyped-call]
        Draft7Validator,
        validators={
            "items": items,
            "propertyNames": names,
            "additionalProperties": others,
            "uniqueItems": _check_unique,
            "pattern": _check_pattern,
            "required": _check_required,
        },
        type_checker=Draft7Validator.TYPE_CHECKER.redefine("integer", _is_integer),
    )


def _is_integer(_checker: TypeChecker, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("$", r"\Z"))


def _check_pattern(_validator: Any, pattern: str, value: object, _schema: object) -> Errors:
    if isinstance(value, str) and not _compile_pattern(pattern).search(value):
        yield ValidationError("does not match")


def _check_required(_validator: Any, required: list[str], value: object, _schema: object) -> Errors:
    """As jsonschema's own, but with the name of the missing field where a program can read it."""
    if isinstance(value, dict):
        for name in required:
            if name not in value:
                yield ValidationError(name)


def _check_unique(_validator: Any, unique: bool, value: object, _schema: object) -> Errors:
    """As jsonschema's own, but never each item with each."""
    if unique and isinstance(value, list) and first_duplicate_index(value) is not None:
        yield ValidationError("has an item twice")
