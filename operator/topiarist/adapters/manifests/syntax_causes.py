"""Causes of syntax errors: the line where the text goes wrong, which is often above the one where libyaml stops.

``diagnose`` asks for a cause when the structure of the text is not that of YAML.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from topiarist.text import format_count

LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""A line break as libyaml defines it."""

_MAX_CHARACTERS_ABOVE, _MAX_CHARACTERS_BELOW = 4096, 1024
_MAX_LINES = 4
_CONTENT = re.compile(r"\s*[^\s#]")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|(?:^|\s)#.*")

_CONFLICT = re.compile(r"(<{7}|={7}|>{7}|\|{7})(?: |$)")
_LOOKALIKE = re.compile("[\u00a0\u1680\u2000-\u200d\u202f\u205f\u2060\u3000\uff1a]")
_FIELD = re.compile(r"""[ ]*(?:- +)*(?:"[^"]*"|'[^']*'|[^\s#"'\ufeff][^#"']*?):(?:\s|$)""")
_ASSIGNMENT = re.compile(r"([ ]*)((?:- +)*)([A-Za-z][\w./-]*)(?:(:)(?=\S)|\s*(=)\s*|\s+|$)(|[\[{\"'].*|\S+)(?:\s+#.*)?")


class Cause(NamedTuple):
    """A place (line and column from 0) where a text goes wrong, why, and what to do."""

    line: int
    column: int
    message: str
    hint: str


def find_cause(text: str, index: int, line: int) -> Cause | None:
    """Return why the parser stopped at an index of a text, which is in ``line``; None if no cause is plain.

    Only the lines around the index are read, so that the time does not grow with the file.
    """
    start = max(index - _MAX_CHARACTERS_ABOVE, 0)
    lines = LINE_BREAK.split(text[start : index + _MAX_CHARACTERS_BELOW])
    at = len(LINE_BREAK.split(text[start:index])) - 1
    first = 1 if start else 0  # the beginning of the first line may be missing
    nearby = [number for number in range(at, first - 1, -1) if _CONTENT.match(lines[number])][:_MAX_LINES]
    cause = _find_cause([lines[number] for number in nearby])
    if cause is None:
        return None
    return cause._replace(line=line - at + nearby[cause.line])


def _find_cause(lines: Sequence[str]) -> Cause | None:
    """Return the cause in the lines around an error, the last line first; its line is an index of ``lines``."""
    for number, line in enumerate(lines):
        if found := _find_strange_text(_QUOTED.sub(lambda match: "x" * len(match[0]), line)):
            return Cause(number, *found)
    for number, line in enumerate(lines[:2]):
        if not _FIELD.match(line) and (found := _find_missing_colon(line)):
            return Cause(number, *found)
    return _compare_indentation(*lines[:2]) if len(lines) > 1 else None


def _find_strange_text(line: str) -> tuple[int, str, str] | None:
    if _CONFLICT.match(line):
        return 0, "found a conflict marker of git", "resolve the conflict, and remove the lines of the markers"
    if lookalike := _LOOKALIKE.search(line):
        code = f"U+{ord(lookalike[0]):04X}"
        if lookalike[0] == "\uff1a":
            return lookalike.start(), f"found the character {code}, which looks like a colon", "write : and a space"
        name = "a non-breaking space" if lookalike[0] in "\u00a0\u202f" else "a character that looks like a space"
        return lookalike.start(), f"found {name} ({code})", "replace it by a plain space"
    return None


def _find_missing_colon(line: str) -> tuple[int, str, str] | None:
    match = _ASSIGNMENT.fullmatch(line.rstrip())
    if match is None:
        return None
    indent, dashes, key, colon, equals, value = match.groups()
    if dashes and not value:
        return None  # an item of a list
    written = f"write {key}: {value}".rstrip()
    if colon:
        return match.start(4), f'found no space after ":" in {key}', written
    if equals:
        return match.start(5), 'found "=", wanted ":"', written
    return len(indent + dashes), f'found no ":" after {key}', written


def _compare_indentation(line: str, above: str) -> Cause | None:
    """Return the cause if a field is indented otherwise than the line above it allows."""
    width, before = (len(each) - len(each.lstrip(" ")) for each in (line, above))
    has_value = not above.split(" #")[0].rstrip().endswith((":", "|", ">"))
    if width == before or not _FIELD.match(line) or (width > before and not has_value):
        return None
    spaces = format_count(width, "space")
    message = f"found {spaces} before the field, and {before} in the line above it"
    hint = "give the fields of one mapping the same indentation"
    is_nested = width > before + 1 and has_value
    return Cause(0, width, message, hint + (", or remove the value in the line above" if is_nested else ""))
