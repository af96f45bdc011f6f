"""The checks of an API server for custom resources, from topiarist's definitions: structure, sets, CEL rules, defaults.

``tests/kubernetes/campaigns`` compares the verdicts with those of a real API server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import jsonschema
from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from support.kubernetes.schemas import read_definition

Schema = Mapping[str, Any]
Body = dict[str, Any]

_ENVIRONMENT = cel.NewEnv(
    variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN}, extensions=[ext_strings.ExtStrings()]
)


@cache
def spec_schema(plural: str) -> Schema:
    """Return the schema of the spec of a kind."""
    version = read_definition(f"{plural}.topiarist.dev")["spec"]["versions"][0]
    schema: Schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def validate_spec(plural: str, spec: Body, old: Body | None) -> list[str]:
    """Add the defaults of the schema to ``spec`` and return its errors; ``old`` is the spec before a change."""
    if plural not in ("topics", "clusters", "policies"):
        return []
    schema = spec_schema(plural)
    _add_defaults(schema, spec)
    validator = jsonschema.Draft202012Validator(schema)
    errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(spec)]
    return errors or [*_rule_errors(schema, spec, old, "spec")]


def _add_defaults(schema: Schema, value: Any) -> None:
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if "default" in inner and name not in value:
                value[name] = inner["default"]
            if name in value:
                _add_defaults(inner, value[name])
        if isinstance(others := schema.get("additionalProperties"), dict):
            for name in value.keys() - schema.get("properties", {}).keys():
                _add_defaults(others, value[name])
    elif isinstance(value, list):
        for each in value:
            _add_defaults(schema.get("items", {}), each)


def _rule_errors(schema: Schema, value: Any, old: Any, path: str) -> Iterator[str]:
    """Yield the violated CEL rules and duplicates in sets, at this value and below it.

    A rule that names ``oldSelf`` holds if there is no earlier value.
    """
    for rule in schema.get("x-kubernetes-validations", ()):
        if ("oldSelf" not in rule["rule"] or old is not None) and not _evaluate(rule["rule"], value, old):
            yield f"{path}: {rule['message']}"
    if isinstance(value, list):
        if schema.get("x-kubernetes-list-type") == "set" and len({repr(each) for each in value}) < len(value):
            yield f"{path}: duplicate value"
        for index, each in enumerate(value):
            yield from _rule_errors(schema.get("items", {}), each, None, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, each in value.items():
            inner = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            before = old.get(name) if isinstance(old, dict) else None
            yield from _rule_errors(inner or {}, each, before, f"{path}.{name}")


@cache
def _compile(rule: str) -> Any:
    return _ENVIRONMENT.compile(rule)


def _evaluate(rule: str, value: Any, old: Any) -> bool:
    data = {"self": value, "oldSelf": value if old is None else old}
    return _compile(rule).eval(data=data).value() is True
