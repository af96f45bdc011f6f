"""Says in plain words why a document is not valid: what was found, what was wanted, what to do.

``walking`` finds the errors by jsonschema; this module turns each into a ``Problem``. Imported only when there is
something to explain, since jsonschema takes longer to import than ten thousand documents take to check.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from topiarist import schema as door
from topiarist.core.units import count
from topiarist.core.values import shown
from topiarist.errors import Key, Path, Problem
from topiarist.schema import words
from topiarist.schema.walking import errors, second

MOST = 100
"""Problems of one document that are explained."""

_CHOICE = re.compile(r"(?<=[(|])[a-zA-Z]+(?=[|)])")
"""Whole words that a pattern of ours allows among other text: ``partitions`` in ``^(partitions|config[.].+)$``."""


def identity(body: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with ``apiVersion`` and ``kind``; as long as they are, there is no schema to judge the rest by."""
    version, kind = body.get("apiVersion"), body.get("kind")
    if version != door.VERSION:
        return [Problem(("apiVersion",), f"apiVersion: {words.found(version)}, wanted {door.VERSION}")]
    if kind is None:
        return [Problem((), "found no kind, wanted one", f"add kind: {' or kind: '.join(door.KINDS)}")]
    if kind not in door.KINDS:
        return [
            Problem(
                ("kind",),
                f"kind: {words.found(kind)}, wanted {words.one_of(door.KINDS)}",
                words.guess(kind, door.KINDS),
            )
        ]
    return []


def problems(schema: Mapping[str, Any], body: Mapping[str, Any]) -> list[Problem]:
    """Everything wrong with a document that its schema does not accept, one problem a path; never empty."""
    found: dict[Path, Problem] = {}
    for problem in islice((problem for error in errors(schema, body) for problem in _problems(error)), MOST):
        found.setdefault(problem.path, problem)
    return list(found.values()) or [Problem((), "found text that is no Unicode, wanted a plain document")]


def field_name(path: Path) -> str:
    """A path as people write it: ``spec.overrides[0].partitions``; empty for the document itself."""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{shown(step)}" for step in path)
    return steps.removeprefix(".")


def _problems(error: Any) -> Iterable[Problem]:
    path: Path = tuple(error.absolute_path)
    if "propertyNames" in error.absolute_schema_path:
        path = (*path, Key(error.instance))
    return _WORDS[str(error.validator)](error, path)


def _unknown(error: Any, path: Path) -> Iterator[Problem]:
    known = list(error.schema["properties"])
    for name in error.instance:
        if name not in known:
            here = (*path, Key(name))
            yield Problem(here, f"{field_name(here)}: found an unknown field", _place_for(name, known, path))


def _place_for(name: str, known: list[str], path: Path) -> str:
    """Where an unknown field may have been meant to go."""
    if guess := words.guess(name, known):
        return guess
    inside = door.schema(door.KINDS[0])["properties"]["spec"]["properties"]
    if path == () and name in inside:
        return "move it below spec:"
    if path[:2] == ("spec", "overrides") and name in inside:
        return "move it below spec: it is the same on all clusters"
    return _known(known)


def _known(fields: Iterable[str]) -> str:
    return f"known here: {', '.join(fields)}"


def _missing(error: Any, path: Path) -> Iterator[Problem]:
    here = (*path, error.message)
    yield Problem(here, f"{field_name(here)}: found no such field, wanted one")


def _type(error: Any, path: Path) -> Iterator[Problem]:
    hint = "" if words.hidden(error) else _type_hint(error.schema, error.instance)
    if words.hidden(error) and "properties" in error.schema:
        hint = _known(error.schema["properties"])
    yield Problem(path, f"{field_name(path)}: {words.found_by(error)}, wanted {words.wanted(error.schema)}", hint)


def _type_hint(schema: Mapping[str, Any], value: object) -> str:
    wanted, text = schema["type"], words.text_of(value)
    if wanted == "string" and not isinstance(value, dict | list | None):
        return f'quote it: "{text}"' if text in schema.get("enum", (text,)) else ""
    if wanted == "integer" and isinstance(value, str) and re.fullmatch(r"-?[1-9][0-9]{0,18}", value):
        return f"leave the quotes out: {value}"
    if wanted == "array" and not isinstance(value, dict | None):
        return f"write [{shown(str(value))}]"
    if isinstance(wanted, list) and "array" in wanted and isinstance(value, int):
        return f"write [[{text}]]"
    if isinstance(wanted, list) and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return f'write "{shown(",".join(value))}"' if value else ""
    return ""


def _not_allowed(error: Any, path: Path) -> Iterator[Problem]:
    wanted = words.wanted(error.schema)
    hint = words.guess(error.instance, error.schema["enum"]) if "enum" in error.schema else ""
    yield Problem(path, f"{field_name(path)}: {words.found(error.instance)}, wanted {wanted}", hint)


def _pattern(error: Any, path: Path) -> Iterator[Problem]:
    wanted, choices = error.schema["patternErrorMessage"], _CHOICE.findall(error.validator_value)
    yield Problem(path, f"{field_name(path)}: {words.found_by(error)}, {wanted}", words.guess(error.instance, choices))


def _length(error: Any, path: Path) -> Iterator[Problem]:
    limit, length = error.validator_value, len(error.instance)
    unit = "character" if isinstance(error.instance, str) else "item"
    found = count(length, unit) if length else "nothing in it"
    bound = f"at most {limit}" if str(error.validator).startswith("max") else f"at least {count(limit, unit)}"
    yield Problem(path, f"{field_name(path)}: found {found}, wanted {bound}")


def _twice(error: Any, path: Path) -> Iterator[Problem]:
    items = error.instance
    index = second(items) or 0
    here = (*path, index)
    yield Problem(here, f"{field_name(here)}: found {words.text_of(items[index])} a second time, wanted each item once")


def _forbidden(error: Any, path: Path) -> Iterator[Problem]:
    if "required" not in error.validator_value:
        yield Problem(path, f"{field_name(path)}: {words.found(error.instance)}, wanted any other name")
        return
    one, other = error.validator_value["required"]
    here = (*path, Key(one))
    yield Problem(here, f"{field_name(here)}: found together with {other}, wanted only one of the two")


def _one_field(error: Any, path: Path) -> Iterator[Problem]:
    names = [shown(str(name)) for name in error.instance]
    wanted = "only one of them" if names else words.one_of(error.schema["properties"])
    yield Problem(path, f"{field_name(path)}: found {' and '.join(names) or 'nothing in it'}, wanted {wanted}")


def _too_few_fields(error: Any, path: Path) -> Iterator[Problem]:
    return _one_field(error, path) if "maxProperties" in error.schema else _length(error, path)


def _alone(error: Any, path: Path) -> Iterator[Problem]:
    for name, others in error.validator_value.items():
        if name in error.instance and not error.instance.keys() >= set(others):
            here = (*path, Key(name))
            yield Problem(here, f"{field_name(here)}: found without {', '.join(others)}, wanted both")


def _none_of(error: Any, path: Path) -> Iterator[Problem]:
    if "errorMessage" in error.schema:
        found = " and ".join(shown(str(name)) for name in error.instance)
        yield Problem(path, f"{field_name(path)}: found {found or 'nothing in it'}, {error.schema['errorMessage']}")
        return
    names = [option["required"][0] for option in error.validator_value]
    yield Problem(path, f"{field_name(path)}: found neither {' nor '.join(names)}, wanted one of them")


_WORDS: dict[str, Callable[[Any, Path], Iterable[Problem]]] = {
    "additionalProperties": _unknown,
    "required": _missing,
    "type": _type,
    "enum": _not_allowed,
    "minimum": _not_allowed,
    "maximum": _not_allowed,
    "pattern": _pattern,
    "minLength": _length,
    "maxLength": _length,
    "minItems": _length,
    "maxItems": _length,
    "minProperties": _too_few_fields,
    "maxProperties": _one_field,
    "uniqueItems": _twice,
    "not": _forbidden,
    "anyOf": _none_of,
    "dependencies": _alone,
}
"""What to say for each keyword of the schemas; a test holds this table to the keywords that they use."""
