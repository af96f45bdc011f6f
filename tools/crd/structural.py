"""Conversion of JSON Schema (draft-07) to the structural schema of a CustomResourceDefinition.

Every keyword is copied, translated to something that an API server knows, or dropped by name. A keyword that is in none
of the tables below is an error, so that the author of a schema must decide. The translations:

| JSON Schema | becomes |
| --- | --- |
| `$ref` | the referenced schema |
| `allOf`, `anyOf`, `not`, `dependencies` on fields | a CEL rule with a message |
| `uniqueItems` | list type `set`; other lists are `atomic`, or `map` by a key |
| `additionalProperties: false` | nothing: an API server warns of unknown fields and drops them |
| a list or text | a list: see ``_restrict_to_list`` |
| a map of config values | any scalars: see ``config_schema`` |
| a map of known fields, or one word | either: see ``_word_or_map`` |
| `propertyNames` | nothing: CEL cannot see config keys, an admission policy can (``crd.configs``) |
| `enumDescriptions`, `patternErrorMessage`, `examples`, `default` in lists | a sentence in the description |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

Schema = Mapping[str, Any]
JsonObject = dict[str, Any]

_COPIED_KEYWORDS = (
    *("type", "format", "enum", "default", "required", "pattern", "minimum", "maximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
)
_DESCRIPTION_KEYWORDS = {"description", "enumDescriptions", "patternErrorMessage", "examples"}
_TRANSLATED_KEYWORDS = {"$ref", "properties", "items", "additionalProperties", "allOf", "anyOf", "not", "dependencies"}
_TRANSLATED_KEYWORDS |= {"uniqueItems", "propertyNames"}
_DROPPED_KEYWORDS = {"title", "deprecationMessage", "errorMessage", "writeOnly", "$schema", "$id", "definitions"}
_DROPPED_KEYWORDS |= {"defaultSnippets"}

MAX_ITEMS = {
    "adopt": 1000,
    "allowRisk": 2,
    "allowUnknownConfigs": 1000,
    "allowedTopics": 250,
    "brokerConfig": 500,
    "clusters": 1000,
    "config": 500,
    "drainBrokers": 1000,
    "excludeBrokers": 1000,
    "extensions": 16,
    "ignore": 500,
    "labels": 64,
    "matchExpressions": 64,
    "matchLabels": 64,
    "names": 1000,
    "overrides": 250,
    "protected": 1000,
    "replicaAssignment": 10_000,
    "replicaAssignment[]": 100,
    "topics": 1000,
    "values": 64,
    "withoutConfig": 500,
}
"""Maximum items of lists and maps without a limit in the schema.

The API server estimates the cost of CEL rules from the largest possible object.
"""

_LIST_MAP_KEYS = {"rules": "name", "conditions": "type", "status.clusters": "name"}
"""The unique key of lists of objects, by the field's name or path."""

CONFIG_KEYS_DESCRIPTION = "Keys and values are those of a Topic (kubectl explain topics.topiarist.dev.spec.config)."


def structural_schema(schema: Schema, definitions: Schema, path: str = "") -> JsonObject:
    """Return the structural schema of a field at ``path``, such as ``spec.overrides[].partitions``.

    Raises ``ValueError`` for an unknown keyword, an untranslatable condition, or a list without a limit.
    """
    schema = _restrict_to_list(resolve_reference(schema, definitions))
    unknown = schema.keys() - {*_COPIED_KEYWORDS} - _DESCRIPTION_KEYWORDS - _TRANSLATED_KEYWORDS - _DROPPED_KEYWORDS
    if unknown:
        raise ValueError(f"{path}: no API server knows {', '.join(sorted(unknown))}; add it to one of the tables")
    if _is_config(schema, definitions):
        return config_schema(schema, definitions, path)
    if isinstance(schema.get("type"), list) and "object" in schema["type"]:
        return _word_or_map(schema, definitions, path)
    result: JsonObject = {"description": description(schema)}
    result |= {keyword: schema[keyword] for keyword in _COPIED_KEYWORDS if keyword in schema}
    if "[]" in path:
        # A default that an API server fills in looks like a change to clients that compare lists as a whole (kubectl,
        # Argo CD). In an override it would even replace the topic's own value for all its clusters.
        _describe_default(result, path)
    if rules := list(validation_rules(schema)):
        result["x-kubernetes-validations"] = rules
    if schema.get("type") == "array":
        result |= _list_schema(schema, definitions, path)
    if schema.get("type") == "object":
        result |= _object_schema(schema, definitions, path)
    return result


def resolve_reference(schema: Schema, definitions: Schema) -> Schema:
    """Return the definition that a schema refers to, or the schema itself."""
    return definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _restrict_to_list(schema: Schema) -> Schema:
    """Return a field that takes lists or text as one that takes lists.

    A structural schema has one type for a field. With any type allowed, an API server would check neither the items nor
    the CEL rules that count them.
    """
    if not (isinstance(schema.get("type"), list) and "array" in schema["type"]):
        return schema
    text = {"minLength", "maxLength", "pattern", "patternErrorMessage"}
    return {keyword: value for keyword, value in schema.items() if keyword not in text} | {"type": "array"}


def _word_or_map(schema: Schema, definitions: Schema, path: str) -> JsonObject:
    """Return the schema of a field that takes a map of known fields, or one word.

    A structural schema has one type for a field. Without a type, each limit applies to values of its own type: the
    pattern to text, fields to maps, and the others to numbers, lists and booleans, which no value can meet. An API
    server keeps unknown fields of such a map, so ``anyOf`` has each choice of known fields with its size.
    """
    fields = _fields(schema, definitions, path)
    for name, field in fields.items():
        _describe_default(field, f"{path}.{name}")
        if field.pop("x-kubernetes-validations", None):  # CEL cannot see what is below a field without a type
            field["not"] = schema["properties"][name]["not"]
    choices = [chosen for size in range(len(fields) + 1) for chosen in combinations(fields, size)]
    return {
        "description": description(schema),
        "x-kubernetes-preserve-unknown-fields": True,
        "minimum": 1,
        "maximum": 0,
        "minItems": 1,
        "maxItems": 0,
        "not": {"enum": [True, False]},
        "pattern": schema["pattern"],
        "properties": fields,
        "anyOf": [
            {"required": list(chosen), "maxProperties": len(chosen)} if chosen else {"maxProperties": 0}
            for chosen in choices
        ],
    }


def _list_schema(schema: Schema, definitions: Schema, path: str) -> JsonObject:
    name = path.rpartition(".")[2]
    result: JsonObject = {"x-kubernetes-list-type": "set" if schema.get("uniqueItems") else "atomic"}
    key = _LIST_MAP_KEYS.get(path, _LIST_MAP_KEYS.get(name))
    if key and resolve_reference(schema["items"], definitions)["type"] == "object":
        result = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    result |= _limit(schema, "maxItems", path)
    return {**result, "items": structural_schema(schema["items"], definitions, f"{path}[]")}


def _object_schema(schema: Schema, definitions: Schema, path: str) -> JsonObject:
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        limit = _limit(schema, "maxProperties", path)
        return {**limit, "additionalProperties": structural_schema(values, definitions, f"{path}.*")}
    if "properties" not in schema:
        raise ValueError(f"{path}: an object of unknown fields; an API server would drop them")
    result: JsonObject = {"properties": _fields(schema, definitions, path)}
    for name in schema.get("dependencies", {}):
        # An API server fills defaults in before it asks the rules: the field would always be there, and what it depends
        # on would be required.
        _describe_default(result["properties"][name], f"{path}.{name}")
    if "matchLabels" in result["properties"] or path.endswith("secretKeyRef"):
        result["x-kubernetes-map-type"] = "atomic"
    return result


def _fields(schema: Schema, definitions: Schema, path: str) -> JsonObject:
    fields = schema["properties"].items()
    return {name: structural_schema(field, definitions, f"{path}.{name}") for name, field in fields}


def _limit(schema: Schema, keyword: str, path: str) -> JsonObject:
    name = path.rpartition(".")[2]
    if keyword not in schema and name not in MAX_ITEMS:
        raise ValueError(f"{path}: no {keyword}, which prices the CEL rules; give one in the schema or in MAX_ITEMS")
    return {keyword: schema.get(keyword, MAX_ITEMS.get(name))}


def _is_config(schema: Schema, definitions: Schema) -> bool:
    values = schema.get("additionalProperties")
    return isinstance(values, Mapping) and isinstance(resolve_reference(values, definitions).get("type"), list)


def config_schema(schema: Schema, definitions: Schema, path: str) -> JsonObject:
    """Return the schema of a map of scalars: numbers, booleans and text as in git, no lists, no objects.

    A structural schema cannot hold ``anyOf`` with types. So a value may be anything, with limits that no list or object
    can meet: no list has at least one and at most zero items. CEL in a definition cannot see such values; CEL in an
    admission policy can (``crd.configs``).
    """
    value = resolve_reference(schema["additionalProperties"], definitions)
    about = [description(schema)]
    if path == "spec.config":
        fields = schema["properties"].values()
        about += [f"{field['title']}: {field['description']}" for field in fields]
    elif schema.get("properties"):
        about.append(CONFIG_KEYS_DESCRIPTION)
    return {
        "description": "\n".join(about),
        "type": "object",
        "maxProperties": MAX_ITEMS[path.rpartition(".")[2]],
        "additionalProperties": {
            "description": value["description"],
            "x-kubernetes-preserve-unknown-fields": True,
            "minItems": 1,
            "maxItems": 0,
            "minProperties": 1,
            "maxProperties": 0,
            "maxLength": value["maxLength"],
            "pattern": value["pattern"],
        },
    }


def description(schema: Schema) -> str:
    """Return the text of ``kubectl explain``.

    It is the description, and the content of keywords that are dropped.
    """
    words = zip(schema.get("enum", ()), schema.get("enumDescriptions", ()), strict=False)
    parts = [schema["description"], *(f"{word}: {meaning}" for word, meaning in words)]
    if "patternErrorMessage" in schema:
        wanted = schema["patternErrorMessage"].removeprefix("wanted ")
        parts.append(f"{wanted[:1].upper()}{wanted[1:]}.")
    if schema.get("examples"):
        example = schema["examples"][0]
        parts.append(f"Example: {example if isinstance(example, str) else json.dumps(example)}")
    return " ".join(parts)


def _describe_default(field: JsonObject, path: str) -> None:
    """Say a field's default in its description, so that no API server fills it in."""
    if "default" in field:
        value = "the value of the topic" if path.startswith("spec.overrides[]") else field.pop("default")
        field.pop("default", None)
        field["description"] += f" Default: {value}."


def validation_rules(schema: Schema) -> Iterator[dict[str, str]]:
    """Yield CEL rules for ``allOf``, ``anyOf``, ``not`` and ``dependencies`` of an object's fields."""
    for part in schema.get("allOf", ()):
        if "anyOf" in part:
            yield from validation_rules(part)
            continue
        fields = " and ".join(part["not"]["required"])
        yield {"rule": to_cel(part), "message": f"{fields} exclude each other: give only one of them"}
    if "anyOf" in schema:
        names = ", ".join(option.get("required", ["?"])[0] for option in schema["anyOf"])
        rule = " || ".join(f"({to_cel(option)})" for option in schema["anyOf"])
        yield {"rule": rule, "message": schema.get("errorMessage", f"one of these is required: {names}")}
    if "not" in schema:
        taken = schema["not"]["enum"]
        yield {"rule": f"!(self in {_cel_list(taken)})", "message": f"reserved: {' and '.join(taken)}"}
    for name, others in schema.get("dependencies", {}).items():
        rule = " && ".join(f"has(self.{other})" for other in others)
        yield {"rule": f"!has(self.{name}) || {rule}", "message": f"{name} requires {' and '.join(others)}"}


def to_cel(schema: Schema) -> str:
    """Return a schema as a CEL expression over ``self``.

    Raises ``ValueError`` for a schema that tests more than the presence of fields and their allowed values.
    """
    if schema.keys() - {"required", "properties", "not"}:
        raise ValueError(f"cannot be expressed in CEL: {json.dumps(schema)}")
    parts = [f"has(self.{name})" for name in schema.get("required", ())]
    for name, field in schema.get("properties", {}).items():
        parts.append(f"(!has(self.{name}) || self.{name} in {_cel_list(field['enum'])})")
    if "not" in schema:
        parts.append(f"!({to_cel(schema['not'])})")
    return " && ".join(parts)


def _cel_list(values: list[str]) -> str:
    quoted = ", ".join(f"'{word}'" for word in values)
    return f"[{quoted}]"
