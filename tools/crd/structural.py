"""JSON Schema (draft-07) to the structural schema that a CustomResourceDefinition wants.

Every keyword is kept, turned into something that an API server knows, or dropped by name: one that stands in none of
the tables below is an error, so that whoever adds it to a schema decides. What is turned:

| JSON Schema | becomes |
| --- | --- |
| `$ref` | what it refers to |
| `allOf`, `anyOf`, `not`, `dependencies` on fields | a CEL rule, with a message |
| `uniqueItems` | list type `set`; other lists are `atomic`, or `map` by a key |
| `additionalProperties: false` | nothing: an API server warns of unknown fields and drops them |
| a list or text | a list: see ``_lists_only`` |
| a map of config values | any scalars: see ``config_block`` |
| `propertyNames` | nothing: CEL cannot see config keys, an admission policy can (``configs``) |
| `enumDescriptions`, `patternErrorMessage`, `examples`, `default` in lists | a sentence in the description |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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

MAX_ITEMS = {
    "adopt": 1000,
    "allowRisk": 2,
    "allowUnknownConfigs": 1000,
    "allowedTopics": 250,
    "brokerConfig": 500,
    "clusters": 1000,
    "config": 500,
    "excludeBrokers": 1000,
    "ignore": 500,
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
"""Items of lists and maps for which the schema has no limit. CEL rules are priced by the largest possible object."""

_LIST_MAP_KEYS = {"rules": "name", "conditions": "type", "status.clusters": "name"}
"""Lists of objects of which each key stands once."""

CONFIG_KEYS_DESCRIPTION = "Keys and values are those of a Topic (kubectl explain topics.topiarist.dev.spec.config)."


def structural_schema(schema: Schema, definitions: Schema, path: str = "") -> JsonObject:
    """The structural schema of a field; ``path`` is where it stands, as ``spec.overrides[].partitions``.

    Raises ``ValueError`` for a keyword, a condition or a list without limit that nobody has thought about.
    """
    schema = _restrict_to_list(resolve_reference(schema, definitions))
    unknown = schema.keys() - {*_COPIED_KEYWORDS} - _DESCRIPTION_KEYWORDS - _TRANSLATED_KEYWORDS - _DROPPED_KEYWORDS
    if unknown:
        raise ValueError(f"{path}: no API server knows {', '.join(sorted(unknown))}; decide what becomes of it")
    if _is_config(schema, definitions):
        return config_schema(schema, definitions, path)
    made: JsonObject = {"description": description(schema, path)}
    made |= {keyword: schema[keyword] for keyword in _COPIED_KEYWORDS if keyword in schema}
    if "[]" in path:
        # In a list, what an API server fills in looks changed to everybody who compares lists as a whole (kubectl, Argo
        # CD); in an override it would even win over what the topic says for all its clusters.
        made.pop("default", None)
    if rules := list(validation_rules(schema)):
        made["x-kubernetes-validations"] = rules
    if schema.get("type") == "array":
        made |= _list_schema(schema, definitions, path)
    if schema.get("type") == "object":
        made |= _object_schema(schema, definitions, path)
    return made


def resolve_reference(schema: Schema, definitions: Schema) -> Schema:
    """A schema, or the definition that it refers to."""
    return definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _restrict_to_list(schema: Schema) -> Schema:
    """Return a field that takes lists or text as one that takes lists: a structural schema has one type for a field.

    With any type allowed, an API server would check neither the items nor the CEL rules that count them.
    """
    if not (isinstance(schema.get("type"), list) and "array" in schema["type"]):
        return schema
    text = {"minLength", "maxLength", "pattern", "patternErrorMessage"}
    return {keyword: value for keyword, value in schema.items() if keyword not in text} | {"type": "array"}


def _list_schema(schema: Schema, definitions: Schema, path: str) -> JsonObject:
    name = path.rpartition(".")[2]
    made: JsonObject = {"x-kubernetes-list-type": "set" if schema.get("uniqueItems") else "atomic"}
    key = _LIST_MAP_KEYS.get(path, _LIST_MAP_KEYS.get(name))
    if key and resolve_reference(schema["items"], definitions)["type"] == "object":
        made = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    made |= _limit(schema, "maxItems", path)
    return {**made, "items": structural_schema(schema["items"], definitions, f"{path}[]")}


def _object_schema(schema: Schema, definitions: Schema, path: str) -> JsonObject:
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        limit = _limit(schema, "maxProperties", path)
        return {**limit, "additionalProperties": structural_schema(values, definitions, f"{path}.*")}
    if "properties" not in schema:
        raise ValueError(f"{path}: an object of unknown fields; an API server would drop them")
    fields = schema["properties"].items()
    made: JsonObject = {
        "properties": {name: structural_schema(field, definitions, f"{path}.{name}") for name, field in fields}
    }
    if "matchLabels" in made["properties"] or path.endswith("secretKeyRef"):
        made["x-kubernetes-map-type"] = "atomic"
    return made


def _limit(schema: Schema, keyword: str, path: str) -> JsonObject:
    name = path.rpartition(".")[2]
    if keyword not in schema and name not in MAX_ITEMS:
        raise ValueError(f"{path}: no {keyword}, which prices the CEL rules; give one in the schema or in MOST")
    return {keyword: schema.get(keyword, MAX_ITEMS.get(name))}


def _is_config(schema: Schema, definitions: Schema) -> bool:
    values = schema.get("additionalProperties")
    return isinstance(values, Mapping) and isinstance(resolve_reference(values, definitions).get("type"), list)


def config_schema(schema: Schema, definitions: Schema, path: str) -> JsonObject:
    """A map of scalars of any kind: numbers, truth values and text are as welcome as in git, lists and objects are not.

    ``anyOf`` with types is no structural schema. So a value may be anything, with limits that only what is no list and
    no object keeps: nothing has at least one and at most no items. CEL in a definition cannot see such values; in an
    admission policy it can (``configs``).
    """
    value = resolve_reference(schema["additionalProperties"], definitions)
    about = [description(schema, path)]
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


def description(schema: Schema, path: str) -> str:
    """What ``kubectl explain`` shows: the description, and what the schema says in keywords that are dropped."""
    words = zip(schema.get("enum", ()), schema.get("enumDescriptions", ()), strict=False)
    parts = [schema["description"], *(f"{word}: {meaning}" for word, meaning in words)]
    if "patternErrorMessage" in schema:
        wanted = schema["patternErrorMessage"].removeprefix("wanted ")
        parts.append(f"{wanted[:1].upper()}{wanted[1:]}.")
    if "default" in schema and "[]" in path:
        inherited = path.startswith("spec.overrides[]")
        parts.append("Without it, what the topic says." if inherited else f"Default: {schema['default']}.")
    if schema.get("examples"):
        example = schema["examples"][0]
        parts.append(f"Example: {example if isinstance(example, str) else json.dumps(example)}")
    return " ".join(parts)


def validation_rules(schema: Schema) -> Iterator[dict[str, str]]:
    """The CEL rules that say what ``allOf``, ``anyOf``, ``not`` and ``dependencies`` say of an object's fields."""
    for part in schema.get("allOf", ()):
        fields = " and ".join(part["not"]["required"])
        yield {"rule": to_cel(part), "message": f"{fields} exclude each other: give only one of the two"}
    if "anyOf" in schema:
        names = ", ".join(option.get("required", ["?"])[0] for option in schema["anyOf"])
        rule = " || ".join(f"({to_cel(option)})" for option in schema["anyOf"])
        yield {"rule": rule, "message": schema.get("errorMessage", f"one of these is needed: {names}")}
    if "not" in schema:
        taken = schema["not"]["enum"]
        yield {"rule": f"!(self in {_cel_list(taken)})", "message": f"reserved: {' and '.join(taken)}"}
    for name, others in schema.get("dependencies", {}).items():
        rule = " && ".join(f"has(self.{other})" for other in others)
        yield {"rule": f"!has(self.{name}) || {rule}", "message": f"{name} needs {' and '.join(others)} beside it"}


def to_cel(schema: Schema) -> str:
    """A schema that only asks which fields there are, and which words they hold, as a CEL expression over ``self``."""
    if schema.keys() - {"required", "properties", "not"}:
        raise ValueError(f"cannot be said in CEL: {json.dumps(schema)}")
    parts = [f"has(self.{name})" for name in schema.get("required", ())]
    for name, field in schema.get("properties", {}).items():
        parts.append(f"(!has(self.{name}) || self.{name} in {_cel_list(field['enum'])})")
    if "not" in schema:
        parts.append(f"!({to_cel(schema['not'])})")
    return " && ".join(parts)


def _cel_list(values: list[str]) -> str:
    quoted = ", ".join(f"'{word}'" for word in values)
    return f"[{quoted}]"
