"""The words for values, types and guesses: what was found, what was wanted, what may have been meant.

``explain`` makes sentences of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from topiarist.core.values import quoted, shown

LONGEST_GUESS = 64
"""Characters of an unknown word that are compared with the known ones."""

_TYPES = {
    "string": "text",
    "array": "a list",
    "object": "a mapping",
    "integer": "a whole number",
    "boolean": "true or false",
}


def wanted(schema: Mapping[str, Any]) -> str:
    """What a field takes, in words."""
    if "enum" in schema:
        return one_of(schema["enum"])
    bounds = f" from {schema['minimum']} to {schema['maximum']}" if "minimum" in schema else ""
    if isinstance(schema["type"], list):
        kind, *others = schema["type"]
        if others == ["null"]:
            return f"{_TYPES[kind]}{bounds} or null"
        return f"{_TYPES[kind]} or {_TYPES[others[0]]}" if kind == "array" else "text, a number, true or false"
    return _TYPES[schema["type"]] + bounds


def one_of(words: Iterable[str]) -> str:
    *rest, last = words
    return f"{', '.join(rest)} or {last}" if rest else last


def guess(name: object, known: Iterable[str]) -> str:
    """A hint if ``name`` looks like one of the known words, whatever its case."""
    return _closest(str(name)[:LONGEST_GUESS].lower(), tuple(known))


@lru_cache(maxsize=1000)
def _closest(name: str, known: tuple[str, ...]) -> str:
    """Remembered, since one slip is often made in many files."""
    folded = {word.lower(): word for word in known}
    matches = get_close_matches(name, folded, n=1, cutoff=0.7)
    return f"did you mean {folded[matches[0]]}?" if matches else ""


def hidden(error: Any) -> bool:
    """Whether what was found may be a secret that was written there by mistake."""
    return "writeOnly" in error.schema and not isinstance(error.instance, dict | list | None)


def found_by(error: Any) -> str:
    return "found a value (not shown: it may be secret)" if hidden(error) else found(error.instance)


def found(value: object) -> str:
    if value is None:
        return "found nothing"
    if isinstance(value, dict):
        return "found a mapping"
    return "found a list" if isinstance(value, list) else f"found {text_of(value)}"


def text_of(value: object) -> str:
    """A value on one line, text in quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else shown(str(value))
