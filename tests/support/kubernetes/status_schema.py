"""The schema of the statuses of custom resources."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonschema_rs import Draft7Validator

from topiarist.schema import load


def validate_status(kind: str, status: Mapping[str, Any]) -> None:
    """Raise ``ValidationError`` unless this is a status of the kind, such as ``topic``."""
    _validator(kind).validate(dict(status))


@cache
def _validator(kind: str) -> Draft7Validator:
    definitions = load.load_schema("status")["definitions"]
    return Draft7Validator({**definitions[kind], "definitions": definitions})
