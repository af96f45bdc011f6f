"""jsonschema with the semantics of jsonschema-rs, which skips valid parts of a document.

jsonschema is many times slower than jsonschema-rs per item of a list or mapping, and it compares the items of some
lists pairwise. So each item is first checked by jsonschema-rs, and jsonschema only walks the invalid items. ``explain``
calls ``iter_errors``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import jsonschema_rs
from jsonschema import Draft7Validator, ValidationError
from jsonschema.validators import extend

from topiarist.schema import load

Schema = Mapping[str, Any]
Errors = Iterator[ValidationError]

_validators: dict[int, tuple[Schema, Any]] = {}
"""Validators by the identity of their schema, at most one per schema.

The schema is kept with its validator, so that its identity is not reused.
"""


def iter_errors(schema: Schema, body: Any) -> Errors:
    """Return an iterator over the errors of a document by its schema, as jsonschema finds them."""
    if id(schema) not in _validators:
        _validators[id(schema)] = schema, _build_validator(schema.get("definitions", {}))(schema)
    errors: Errors = _validators[id(schema)][1].iter_errors(body)
    return errors


def first_duplicate_index(items: Sequence[Any]) -> int | None:
    """Return the index of the first repeated item; None if all items differ."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        text = json.dumps(item, sort_keys=True, default=repr)
        if text in seen:
            return index
        seen.add(text)
    return None


def _build_validator(definitions: Schema) -> Any:
    """Build a validator class that checks lists and mappings by jsonschema-rs first.

    A ``$`` in a pattern does not match before a final newline. An integer is an ``int``: neither 12.0 nor a boolean.
    """
    validity_checks: dict[int, Callable[[Any], bool]] = {}

    def wrong(schema: Schema, value: Any) -> bool:
        """Return whether a value is invalid by ``schema``, a part of the whole schema."""
        if id(schema) not in validity_checks:
            validity_checks[id(schema)] = jsonschema_rs.Draft7Validator({**schema, "definitions": definitions}).is_valid
        try:
            return not validity_checks[id(schema)](value) or any(load.non_integer_paths(value))
        except ValueError:  # text that is not valid Unicode
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
        type_checker=Draft7Validator.TYPE_CHECKER.redefine("integer", lambda _checker, value: type(value) is int),
    )


@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("$", r"\Z"))


def _check_pattern(_validator: Any, pattern: str, value: object, _schema: object) -> Errors:
    if isinstance(value, str) and not _compile_pattern(pattern).search(value):
        yield ValidationError("does not match")


def _check_required(_validator: Any, required: list[str], value: object, _schema: object) -> Errors:
    """Check as jsonschema does, but with only the name of the missing field as message."""
    if isinstance(value, dict):
        for name in required:
            if name not in value:
                yield ValidationError(name)


def _check_unique(_validator: Any, unique: bool, value: object, _schema: object) -> Errors:
    """Check as jsonschema does, but in linear time instead of pairwise."""
    if unique and isinstance(value, list) and first_duplicate_index(value) is not None:
        yield ValidationError("has an item twice")
