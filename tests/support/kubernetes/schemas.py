"""The definitions of topiarist's resources as ``manifests/crds`` has them, and the schema of their statuses."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml
from jsonschema_rs import Draft7Validator

from support.checkout import ROOT
from topiarist.schema import load


@cache
def read_definition(name: str) -> dict[str, Any]:
    """Return a definition by its name, such as ``topics.topiarist.dev``; every caller gets the same object.

    The reader is that of libyaml where there is one: the other one takes half a second for these files.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with (ROOT / "manifests" / "crds" / f"{name}.yaml").open(encoding="utf-8") as file:
        definition: dict[str, Any] = yaml.load(file, loader)
    return definition


def validate_status(kind: str, status: Mapping[str, Any]) -> None:
    """Raise ``ValidationError`` unless this is a status of the kind, such as ``topic``."""
    _validator(kind).validate(dict(status))


@cache
def _validator(kind: str) -> Draft7Validator:
    definitions = load.load_schema("status")["definitions"]
    return Draft7Validator({**definitions[kind], "definitions": definitions})
