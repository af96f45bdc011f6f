"""Explanations of schema errors: the field, the value found, the value wanted, and a hint.

jsonschema-rs finds the errors, and this module turns each into a ``SchemaError``. ``check`` calls it only for an
invalid document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain, count, islice
from typing import Any, NamedTuple
from unicodedata import normalize

from jsonschema_rs import Draft7Validator, ValidationErrorKind
from msgspec.structs import replace

from topiarist.errors import FieldKey, FieldPath, SchemaError
from topiarist.kafka.config_rules import ConfigRules, field_of_size, suggest_config_name
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.config_values import is_kept_number, to_config_text
from topiarist.kafka.types import topic_name_problem
from topiarist.schema import check, load
from topiarist.text import find_lookalike, format_count, printable, quote, template_reason

# Other names of fields: those of Kafka's tools, of other tools, and other spellings.
#
# The errors of unknown fields, here and in ``identity``, name the field that is meant.

_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "topicName": ("topic", "topicnames", "fullname"),
    "replicaAssignment": (
        "assignment", "assignments", "replicaassignments", "replicasassignment", "partitionassignment", "replicalists",
        "partitionreplicas", "replicasassignments", "placement",
    ),
    "config": (
        "configs", "configuration", "configurations", "settings", "topicconfig", "topicconfigs", "properties",
        "options", "params", "parameters", "overrideconfig", "topicconfiguration",
    ),
    "clusters": ("cluster", "clustername", "clusternames", "clusterref", "environments", "environment"),
    "clusterSelector": ("selector", "clusterlabels"),
    "profiles": ("profile", "template"),
    "ensure": ("state", "delete", "deleted", "absent", "present"),
    "deletionPolicy": ("reclaimpolicy", "ondelete", "preventdestroy", "retainondelete"),
    "mode": ("managementpolicy", "managementstate"),
    "overrides": ("override", "perclusteroverrides"),
    "bootstrapServers": (
        "bootstrap", "bootstrapserver", "brokers", "brokerlist", "servers", "addresses", "address", "bootstrapaddrs",
    ),
    "connect": ("connectstring", "connectionstring", "zookeeperconnect", "zkconnect", "hosts", "url", "zkaddr"),
    "kafka": ("kafkacluster",),
    "zookeeper": ("zk", "zookeepers"),
    "kafkaVersion": ("version", "kafkaversions"),
    "clusterId": ("kafkaclusterid", "id", "uuid"),
    "protected": ("protectedtopics", "protection"),
    "username": ("user", "login"),
}  # fmt: skip
_BY_SYNONYM = {synonym: field for field, synonyms in _SYNONYMS.items() for synonym in synonyms}


def fold(name: str) -> str:
    """Return a name in lower case and without the characters that separate words."""
    return re.sub(r"[\s._-]+", "", name[:64]).lower()


def find_field(name: str, known: Collection[str]) -> str:
    """Return the known field that a name means: another spelling or a synonym; empty if there is none."""
    folded = fold(name)
    meant = _BY_SYNONYM.get(folded) or field_of_size(name)
    return next((field for field in known if field.lower() == folded), meant if meant in known else "")


# Hints for unquoted text that YAML versions read differently: only what the field of the text accepts.
#
# ``adapters.manifests.loader`` replaces the hint of a syntax error by this one, because quotes around a number are the
# next error of a field that takes numbers only.

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
    values = [check.format_value(value) for value in readings if accepts(value)]
    options = [f"write {check.join_with_or(values)}"] if values else []
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
    return check.describe_expected(schema) if {"type", "enum"} & schema.keys() else "a value"


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


MAX_ERRORS = 100
"""Errors of one document that are explained."""

_PATTERN_CHOICE = re.compile(r"(?<=[(|])[a-zA-Z]+(?=[|)])")
"""Literal words that a schema pattern allows: ``partitions`` in ``^(partitions|config[.].+)$``."""


_FIELD_WITHOUT_COLON = re.compile(r"([a-zA-Z][\w.-]*)(?:\s*[:=]\s*|\s+)(\S+)", re.ASCII)

_NAME = ("metadata", "name")
_MAX_NAME_LENGTH = 253

_NUMBER = re.compile(r"[+]?[0-9]+")
_PLAIN = re.compile(r"(?!(?i:y|n|yes|no|on|off|true|false|null)$)[A-Za-z_][\w./*-]*", re.ASCII)
"""Text that needs no quotes in a list."""

_validators: dict[int, tuple[Mapping[str, Any], Draft7Validator]] = {}
"""Validators by the identity of their schema, which is kept so that its identity is not reused."""


class Violation(NamedTuple):
    """A value that violates a keyword of a part of a schema; ``limit`` is the value of the keyword.

    ``fields`` are the schemas of the fields of the innermost mapping that the part is of.
    """

    path: FieldPath
    instance: Any
    schema: Mapping[str, Any]
    keyword: str
    limit: Any
    definitions: Mapping[str, Any]
    fields: Mapping[str, Any]


def explain_errors(schema: Mapping[str, Any], body: Mapping[str, Any]) -> list[SchemaError]:
    """Return all errors of an invalid document, at most one per path and mistake; never empty."""
    errors: dict[FieldPath, SchemaError] = {}
    dependent: set[FieldPath] = set()
    violations = (found for found in find_violations(schema, body) if not _follows(found))
    explained = ((found, each) for found in violations for each in _EXPLAINERS[found.keyword](found))
    try:
        for found, error in islice(explained, MAX_ERRORS):
            # A value of the wrong type violates other keywords too; versions of jsonschema-rs differ in the order. The
            # pattern of a text says more than its length.
            says_more = found.keyword == "type" or (found.keyword == "pattern" and found.instance)
            if says_more or error.path not in errors:
                errors[error.path] = _name_strange_text(found, error)
                (dependent.add if found.keyword == "dependencies" else dependent.discard)(error.path)
    except ValueError:  # a lone surrogate in a key or in a config, which JSON can hold
        pass
    for path in dependent:
        if path[:-1] in errors:
            del errors[path]  # the error of the mapping says which fields are wanted together
    if (named := errors.get(_NAME)) and not named.hint:
        errors[_NAME] = replace(named, hint=_name_hint(body))
    return list(errors.values()) or [SchemaError((), "found text that is not valid Unicode")]


def _follows(error: Violation) -> bool:
    """Return whether fields are missing only because one is misspelt, or are wrong because another value decides so."""
    if error.keyword not in ("anyOf", "dependencies", "required") or not isinstance(error.instance, Mapping):
        return False
    limit = error.limit if error.keyword == "anyOf" else {"required": _flatten(error.limit)}
    missing = {*_named(limit, "required")} - error.instance.keys()
    if any(_closest_field(name, error) in missing for name in error.instance.keys() - error.fields.keys()):
        return True
    deciding = error.fields.keys() & {*_named(limit, "properties")} & error.instance.keys()
    values = _make_strict({name: error.instance[name] for name in deciding}, count())
    return not all(Draft7Validator(error.fields[name]).is_valid(value) for name, value in values.items())


def _flatten(limit: Any) -> list[str]:
    """Return the fields of a list of required ones, or of dependencies."""
    return limit if isinstance(limit, list) else [*limit, *chain.from_iterable(limit.values())]


def _named(limit: Any, keyword: str) -> Iterator[str]:
    """Yield the fields that a part of a schema has below a keyword, at any depth."""
    if isinstance(limit, Mapping):
        yield from limit.get(keyword, ())
        limit = [*limit.values()]
    for part in limit if isinstance(limit, list) else ():
        yield from _named(part, keyword)


def _name_strange_text(found: Violation, error: SchemaError) -> SchemaError:
    """Return the error with a hint at a template, or a character like a space, in the field's name or its value."""
    text = error.path[-1] if error.path and type(error.path[-1]) is FieldKey else found.instance
    if not isinstance(text, str) or check.may_be_secret(found):
        return error
    lookalike = find_lookalike(text) if error.path != _NAME else None
    hint = f"it has {lookalike[1]}: write a plain one, or none" if lookalike else error.hint
    return replace(error, hint=template_reason(text) or hint)


def _name_hint(body: Mapping[str, Any]) -> str:
    """Return a DNS name like the one of the document, and how a topic keeps its name in Kafka; empty without one."""
    name, spec = body["metadata"].get("name"), body.get("spec")
    if not isinstance(name, str) or len(name) > _MAX_NAME_LENGTH:
        return ""
    plain = normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    labels = (re.sub("[^a-z0-9]+", "-", part).strip("-") for part in plain.split("."))
    resource = ".".join(filter(None, labels))
    if not resource or resource == name:
        return ""
    names_topic = body.get("kind") == load.KINDS[0] and not (isinstance(spec, Mapping) and "topicName" in spec)
    if names_topic and not topic_name_problem(name):
        return f"for the topic {name} in Kafka write metadata.name: {resource} and spec.topicName: {name}"
    return f"write metadata.name: {resource}"


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
        fields: Mapping[str, Any] = schema.get("properties", {})
        for step in steps:
            # Old versions of jsonschema-rs have references in the path, new versions do not.
            part = schema["definitions"][part["$ref"].rpartition("/")[2]] if step == "$ref" else part[step]
            if "properties" in part and step != "properties":
                fields = part["properties"]
        if isinstance(error.kind, ValidationErrorKind.PropertyNames):
            instance = error.kind.error.instance
            path = (*path, FieldKey(instance))
        yield Violation(path, instance, part, str(keyword), part[keyword], schema.get("definitions", {}), fields)


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
    for name in error.instance:
        if name not in error.schema["properties"]:
            yield _error((*error.path, FieldKey(name)), "found an unknown field", _unknown_field_hint(name, error))


def _unknown_field_hint(name: str, error: Violation) -> str:
    """Return the field that is meant, else the right place, else the closest name, else the known fields."""
    known = error.schema["properties"]
    if guess := find_field(name, known):
        return f"remove it: {guess} has the value" if guess in error.instance else f"did you mean {guess}?"
    if place := _right_place(name, known, error.path):
        return place
    return check.did_you_mean(name, known.keys() - error.instance.keys()) or _known_fields_hint(known)


def _closest_field(name: str, error: Violation) -> str:
    """Return the absent field that an unknown one means or is most like; empty if there is none."""
    return find_field(name, error.fields) or check.find_closest(name, error.fields.keys() - error.instance.keys())


def _right_place(name: str, known_fields: Mapping[str, Any], path: FieldPath) -> str:
    """Return where a field belongs that is right elsewhere: in metadata, in the spec or in config; empty if nowhere."""
    topic = load.load_schema(load.KINDS[0])["properties"]
    inner = find_field(name, topic["spec"]["properties"])
    if path in ((), ("spec",)) and name in topic["metadata"]["properties"] and (not path or name != "name"):
        return f"move it below metadata: {name}" if path else "move it below metadata:"
    if path == () and inner:
        return "move it below spec:" if name == inner else f"did you mean spec.{inner}?"
    if path[:2] == ("spec", "overrides") and name == inner:
        return "move it below spec: it is the same on all clusters"
    if "config" in known_fields:
        dotted = re.sub(r"(?<=[a-z])(?=[A-Z])", ".", name).replace("_", ".").replace("-", ".").lower()
        config = next((key for key in (dotted, f"{dotted}.ms") if key in TOPIC_CONFIGS), None)
        config = config or (suggest_config_name(dotted) if "." in dotted else None)
        if config:
            return f"write it below config: as {config}"
    for below, schema in known_fields.items():
        if inner := find_field(name, schema.get("properties", ())):
            return f"move it below {below}:" + ("" if inner == name else f" as {inner}")
    return ""


def _known_fields_hint(fields: Iterable[str]) -> str:
    return f"known here: {', '.join(fields)}"


def _explain_missing_field(error: Violation) -> Iterator[SchemaError]:
    for name in error.limit:
        if name not in error.instance:
            yield _error((*error.path, name), "this required field is missing")


def _explain_type(error: Violation) -> Iterator[SchemaError]:
    if not check.may_be_secret(error):
        hint = _type_hint(error)
    else:
        hint = _known_fields_hint(error.schema["properties"]) if "properties" in error.schema else ""
    yield _error(error.path, f"{check.describe_instance(error)}, wanted {check.describe_expected(error.schema)}", hint)


def _type_hint(error: Violation) -> str:
    """Return how to write a value with another type, or the form of the wanted text; empty if there is none."""
    *parents, name = error.path or ("",)
    key = str(name) if parents[-1:] == ["config"] else ""
    for hint, value in _rewritten(error.schema["type"], error.instance):
        pairs = value.items() if isinstance(value, dict) and name == "config" else [(key, value)] if key else []
        if _is_accepted(error, value) and not any(_config_problem(str(each), text) for each, text in pairs):
            return hint
    if error.schema["type"] == "string" and "patternErrorMessage" in error.schema:
        return f"write {_describe_expected(error.schema, '', '')}"
    return ""


def _is_accepted(error: Violation, value: Any) -> bool:
    schema = {**error.schema, "definitions": error.definitions}
    return Draft7Validator(schema).is_valid(float(value) if isinstance(value, Decimal) else value)


def _rewritten(wanted: str | list[str], value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what to write for a value of another type than ``wanted``, and the value that it then is."""
    text = check.format_value(value)
    if wanted == "string" and not isinstance(value, dict | list | None):
        yield f'quote it: "{text}"', text
    elif wanted == "integer" and isinstance(value, str) and re.fullmatch(r"-?[1-9][0-9]{0,18}", value):
        yield f"leave the quotes out: {value}", int(value)
    elif wanted == "object" and isinstance(value, str) and (written := _FIELD_WITHOUT_COLON.fullmatch(value)):
        for reading in (*_readings(written[2]), written[2]):
            yield f"write {written[1]}: {written[2]}", {written[1]: reading}
    elif wanted == "array" and isinstance(value, str):
        for parts in (value.split(","), value.split()):
            items = [part.strip().removeprefix("-") for part in parts]
            yield f"write [{', '.join(each if _PLAIN.fullmatch(each) else quote(each) for each in items)}]", items
            if all(map(str.isdigit, items)):
                yield f"write [{', '.join(items)}]", [int(each) for each in items]
    elif wanted == "array" and type(value) is int:
        yield f"write [{text}]", [value]
        yield f'write ["{text}"]', [text]
    elif isinstance(wanted, list) and "array" in wanted and isinstance(value, int):
        yield f"write [[{text}]]", [[value]]
    elif isinstance(wanted, list) and isinstance(value, list) and all(isinstance(item, str) for item in value):
        yield f'write "{printable(",".join(value))}"', ",".join(value)


def _explain_not_allowed(error: Violation) -> Iterator[SchemaError]:
    wanted = check.describe_expected(error.schema)
    hint = check.did_you_mean(error.instance, error.schema["enum"]) if "enum" in error.schema else ""
    yield _error(error.path, f"{check.describe_found(error.instance)}, wanted {wanted}", hint)


def _explain_pattern(error: Violation) -> Iterator[SchemaError]:
    message = f"{check.describe_instance(error)}, {error.schema['patternErrorMessage']}"
    choices = _PATTERN_CHOICE.findall(error.limit)
    yield _error(error.path, message, check.did_you_mean(error.instance, choices))


def _explain_length(error: Violation) -> Iterator[SchemaError]:
    limit, length = error.limit, len(error.instance)
    unit = "character" if isinstance(error.instance, str) else "item"
    found = format_count(length, unit) if length else "nothing in it"
    bound = f"at most {limit}" if error.keyword.startswith("max") else f"at least {format_count(limit, unit)}"
    yield _error(error.path, f"found {found}, wanted {bound}")


def _explain_duplicate_item(error: Violation) -> Iterator[SchemaError]:
    index = first_duplicate_index(error.instance) or 0
    value = check.format_value(error.instance[index])
    yield _error((*error.path, index), f"found {value} a second time, wanted each item once")


def _explain_forbidden(error: Violation) -> Iterator[SchemaError]:
    if "required" not in error.limit:
        yield _error(error.path, f"{check.describe_found(error.instance)}, wanted any other name")
        return
    if not isinstance(error.instance, Mapping):
        return  # the error of its type says all
    field, other = error.limit["required"]
    yield _error((*error.path, FieldKey(field)), f"found together with {other}, wanted only one of the two")


def _explain_single_field(error: Violation) -> Iterator[SchemaError]:
    names = [printable(str(name)) for name in error.instance]
    wanted = "only one of them" if names else check.join_with_or(error.schema["properties"])
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
