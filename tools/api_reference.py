"""The generated part of ``docs/internals/python-reference.md``: the public names of ``topiarist.api``, by docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any

from msgspec import Struct

from topiarist import api

_RUNS = ("topiarist.api", "topiarist.runs")

_GROUPS: Mapping[str, Callable[[Any], bool]] = {
    "Functions": inspect.isfunction,
    "What functions take and return": lambda value: inspect.isclass(value) and value.__module__.startswith(_RUNS),
    "Errors": lambda value: inspect.isclass(value) and issubclass(value, Exception),
    "Values of plans and states": inspect.isclass,
}
"""The groups of the page: a name belongs to the first one that accepts its value."""


def api_part() -> str:
    """Return a heading, the signature and the docstring of each public name, in groups."""
    remaining = {name: getattr(api, name) for name in api.__all__ if name != "PLAN_FORMAT_VERSION"}
    text = ""
    for title, belongs in _GROUPS.items():
        group = {name: value for name, value in remaining.items() if belongs(value)}
        remaining = {name: value for name, value in remaining.items() if name not in group}
        text += f"\n## {title}\n"
        for name, value in sorted(group.items(), key=lambda item: item[0].lower()):
            text += f"\n### {name}\n\n" + "".join(_describe(name, value))
    assert not remaining
    return text + "\n"


def _describe(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield _docstring(value)
        yield from _members(value)
    else:
        yield f"```python\n{_signature(name, value)}\n```\n\n{_docstring(value)}"


def _docstring(value: Any) -> str:
    """Return a docstring as Markdown."""
    return re.sub("``([^`]+)``", r"`\1`", inspect.getdoc(value) or "") + "\n"


def _signature(name: str, value: Any) -> str:
    parameters, result = [], inspect.signature(value)
    for each in result.parameters.values():
        if each.name == "self":
            continue
        kind = f": {_type(each.annotation)}" if each.annotation is not each.empty else ""
        default = "" if each.default is each.empty else f" = {_default(each.default)}"
        star = "*" if each.kind is each.VAR_POSITIONAL else ""
        if each.kind is each.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        parameters.append(f"{star}{each.name}{kind}{default}")
    return f"{name}({', '.join(parameters)}) -> {_type(result.return_annotation)}"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: Any) -> str:
    """Return a default as text; values without a readable text are left out."""
    text = f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)
    return "..." if " at 0x" in text or text.startswith("<") or len(text) > 40 else text


def _members(kind: type) -> Iterator[str]:
    if issubclass(kind, Enum):
        yield "\n" + ", ".join(f"`{member.name}`" for member in kind) + "\n"
    elif rows := [*_fields(kind)]:
        yield "\n| field | type | default |\n| --- | --- | --- |\n"
        yield from ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)
    for name, member in sorted(vars(kind).items()):
        if name.startswith("_") or (isinstance(kind, type) and issubclass(kind, Enum)):
            continue
        if isinstance(member, property) and member.fget:
            result = inspect.signature(member.fget).return_annotation
            yield f"\n`{name}` → `{_type(result)}`: {_first_sentence(member)}\n"
        elif inspect.isfunction(member):
            yield f"\n`{_signature(name, member)}`: {_first_sentence(member)}\n"


def _fields(kind: type) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and default of each field of a struct or a named tuple."""
    if issubclass(kind, Struct | tuple):
        annotations = {name: kind for base in kind.__mro__ for name, kind in inspect.get_annotations(base).items()}
        for each in inspect.signature(kind).parameters.values():
            default = "" if each.default is each.empty else _default(each.default)
            shown = f"`{default}`" if default not in ("", "...") else default
            yield f"`{each.name}`", f"`{_type(annotations[each.name])}`", shown


def _first_sentence(member: Any) -> str:
    return " ".join(_docstring(member).split("\n\n")[0].split())
