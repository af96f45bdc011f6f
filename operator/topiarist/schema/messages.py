"""Phrases for error messages: values found, values wanted, and suggestions.

``explain`` builds its messages from them; ``desired.resolve`` uses the suggestions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from topiarist.text import printable, quote

MAX_COMPARED_CHARS = 64
"""Characters of an unknown word that are compared with the known words."""

_TYPE_NAMES = {
    "string": "text",
    "array": "a list",
    "object": "a mapping",
    "integer": "a whole number",
    "boolean": "true or false",
}


def describe_expected(schema: Mapping[str, Any]) -> str:
    """Describe the values that a field accepts."""
    if "enum" in schema:
        return join_with_or(schema["enum"])
    bounds = f" from {schema['minimum']}" if "minimum" in schema else ""
    bounds += f" to {schema['maximum']}" if "maximum" in schema else ""
    if isinstance(schema["type"], list):
        kind, *others = schema["type"]
        if others == ["null"]:
            return f"{_TYPE_NAMES[kind]}{bounds} or null"
        return (
            f"{_TYPE_NAMES[kind]} or {_TYPE_NAMES[others[0]]}" if kind == "array" else "text, a number, true or false"
        )
    return _TYPE_NAMES[schema["type"]] + bounds


def join_with_or(words: Iterable[str]) -> str:
    """Join words as ``a, b or c``."""
    *rest, last = words
    return f"{', '.join(rest)} or {last}" if rest else last


def did_you_mean(name: object, choices: Iterable[str]) -> str:
    """Return a hint with the choice most like ``name``, ignoring case; empty if there is none."""
    return _closest_match_hint(str(name)[:MAX_COMPARED_CHARS].lower(), tuple(choices))


@lru_cache(maxsize=1000)
def _closest_match_hint(name: str, choices: tuple[str, ...]) -> str:
    """Return the hint; cached, because one mistake often repeats in many files."""
    folded = {word.lower(): word for word in choices}
    from difflib import get_close_matches  # only for an error

    matches = get_close_matches(name, folded, n=1, cutoff=0.7)
    return f"did you mean {folded[matches[0]]}?" if matches else ""


def may_be_secret(error: Any) -> bool:
    """Return whether a value may be a secret that was written into a manifest by mistake."""
    return "writeOnly" in error.schema and not isinstance(error.instance, dict | list | None)


def describe_instance(error: Any) -> str:
    """Describe the value of a schema error, without showing a possible secret."""
    return "found a value (not shown: it may be secret)" if may_be_secret(error) else describe_found(error.instance)


def describe_found(value: object) -> str:
    """Describe a value that was found."""
    if value is None:
        return "found nothing"
    if isinstance(value, dict):
        return "found a mapping"
    return "found a list" if isinstance(value, list) else f"found {format_value(value)}"


def format_value(value: object) -> str:
    """Format a value on one line, text in quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return quote(value) if isinstance(value, str) else printable(str(value))
