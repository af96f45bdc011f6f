"""Hints for unquoted text that YAML versions read differently: only what the field of the text accepts.

``adapters.manifests.loader`` replaces the hint of a syntax error by this one, because quotes around a number are the
next error of a field that takes numbers only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from jsonschema_rs import Draft7Validator

from topiarist.errors import FieldKey, FieldPath
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.config_values import is_kept_number, to_config_text
from topiarist.schema import load, messages
from topiarist.text import quote

_TRUE, _FALSE = frozenset({"y", "yes", "on", "true"}), frozenset({"n", "no", "off", "false"})
_NULL = frozenset({"", "~", "null"})
_OTHERS = "additionalProperties"
_MAX_LENGTH = 64
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,2})?")


def scalar_hint(kind: object, path: FieldPath, text: str, general: str) -> str:
    """Return what to write instead of ``text`` at ``path`` of a document; ``general`` if the field is not known."""
    schema = find_schema(kind, path) if kind in load.MANIFEST_KINDS and len(text) <= _MAX_LENGTH else None
    if schema is None:
        return general
    *parents, name = path or ("",)
    config_key = str(name) if parents[-1:] == ["config"] else ""
    if type(name) is FieldKey:
        alone = "write the fields out" if text == "<<" else "remove it: Kafka has no such topic config"
        return alone if config_key else general
    validator = Draft7Validator({**schema, "definitions": load.load_schema(str(kind)).get("definitions", {})})

    def accepts(value: str | int | Decimal) -> bool:
        is_valid = validator.is_valid(float(value) if isinstance(value, Decimal) else value)
        return is_valid and not (config_key and _config_problem(config_key, value))

    readings = dict.fromkeys(value for value in _readings(text) if is_kept_number(value))
    values = [messages.format_value(value) for value in readings if accepts(value)]
    options = [f"write {messages.join_with_or(values)}"] if values else []
    if accepts(text):
        options.append(f"quote it: {quote(text)}" if text else 'write "" for empty text')
    if not options:
        options.append(f"write {_describe_expected(schema, config_key, text)}")
    if text.lower() in _NULL and name not in (find_schema(kind, tuple(parents)) or {}).get("required", ()):
        options.append("remove the line")
    return ", or ".join(options)


def _config_problem(key: str, value: str | int | Decimal) -> str:
    """Return why no Kafka version accepts a config value; empty if one does, and for a key that may be a vendor's."""
    problem = ConfigRules(mode=None).config_problem(key, to_config_text(key, value)) if key in TOPIC_CONFIGS else None
    return problem[0] if problem else ""


def _describe_expected(schema: Mapping[str, Any], config_key: str, text: str) -> str:
    if "patternErrorMessage" in schema and not config_key:
        return str(schema["patternErrorMessage"]).removeprefix("wanted ")
    if config_key:
        return _config_problem(config_key, text).partition("wanted ")[2] or "a value"
    return messages.describe_expected(schema) if {"type", "enum"} & schema.keys() else "a value"


def find_schema(kind: object, path: FieldPath) -> Mapping[str, Any] | None:
    """Return the schema of the value at a path of a kind; None if the schema of the kind has no such field."""
    schema: Any = load.load_schema(str(kind))
    for step in path:
        inner = [
            each.get("items") if isinstance(step, int) else each.get("properties", {}).get(step, each.get(_OTHERS))
            for each in (schema, *schema.get("oneOf", ()))
        ]
        schema = next((each for each in inner if isinstance(each, Mapping)), None)
        if schema is None:
            return None
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        schema = load.load_schema(str(kind))["definitions"][name] if name else schema
    return schema if isinstance(schema, Mapping) else None


def _readings(text: str) -> Iterator[int | Decimal | bool]:
    """Yield the values that YAML versions read an unquoted text as, without none and without dates."""
    folded, number = text.lower(), text.replace("_", "")
    if folded in _TRUE | _FALSE:
        yield folded in _TRUE
    for pattern, base in (
        (r"[-+]?[0-9]+", 10),
        (r"[-+]?0o?[0-7]+", 8),
        (r"[-+]?0x[0-9a-f]+", 16),
        (r"[-+]?0b[01]+", 2),
    ):
        if re.fullmatch(pattern, number, re.IGNORECASE):
            yield int(number, base) if base != 8 else int(re.sub("[oO]", "", number), 8)
    if not re.fullmatch(r"[-+]?[0-9]+", number) and _FLOAT.fullmatch(number):
        value = Decimal(number)
        yield int(value) if value == value.to_integral_value() else value
