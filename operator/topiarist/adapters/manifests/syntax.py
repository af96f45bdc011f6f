"""What is wrong with a file as YAML, in our words: bytes that are no text, and everything that libyaml stops at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from yaml import MarkedYAMLError, YAMLError

from topiarist.adapters.manifests.limits import MAX_TAG_DIRECTIVES
from topiarist.adapters.manifests.strict import BREAKING
from topiarist.adapters.manifests.tree import LimitExceeded
from topiarist.core.values import quoted

LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""What libyaml counts as the end of a line."""

_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")


_TAG_DIRECTIVE = re.compile("%TAG")

_ENCLOSED = ("flow sequence", "flow mapping", "quoted scalar")
"""What has an end of its own: where it began matters when that end is missing."""


class Flaw(NamedTuple):
    """Something wrong at a line and column (from 0) of a text; ``since`` is the line where it began, if another."""

    line: int
    column: int
    message: str
    hint: str = ""
    since: int | None = None


_WORDS: dict[str, tuple[str, str]] = {
    "mapping values are not allowed in this context": (
        'found a ":" where none can be',
        "quote the text if the colon belongs to it; otherwise check the indentation",
    ),
    "could not find expected ':'": ('found text without ":", wanted a field', "check the indentation"),
    "did not find expected key": ("found something else, wanted a field", "check the indentation and the quotes"),
    "did not find expected '-' indicator": ('found something else, wanted "- " and an item', "check the indentation"),
    "did not find expected ',' or ']'": ('found no "," or "]" after an item', "close the list with ]"),
    "did not find expected ',' or '}'": ('found no "," or "}" after a field', "close the mapping with }"),
    "found unexpected end of stream": ("found quotes that are not closed", "close them, or escape them in the text"),
    "found unexpected document indicator": (
        "found quotes that are not closed",
        "close them, or escape them in the text",
    ),
    "found unknown escape character": (
        "found an unknown escape in double quotes",
        r"write \\ for a backslash, or use single quotes",
    ),
    "found invalid Unicode character escape code": (
        "found an escape that is no character",
        "write the character itself",
    ),
    "did not find expected hexdecimal number": ("found an escape without its digits", r"write \\ for a backslash"),
    "did not find expected alphabetic or numeric character": (
        "found & or * without a name behind it",
        'quote the text if the & or * belongs to it: "*"',
    ),
    "block sequence entries are not allowed in this context": (
        'found "- " where no list can begin',
        "begin the list on a line of its own, or write [...]",
    ),
    "did not find expected <document start>": ("found more text, wanted --- or the end", "check the indentation"),
    "did not find expected node content": ("found no value, wanted one", "check the brackets and commas"),
    "did not find expected comment or line break": ("found more text behind | or >", "begin the text on the next line"),
    "found a tab character where an indentation space is expected": (
        "found a tab as indentation",
        "indent with blanks",
    ),
    "found a tab character that violates indentation": ("found a tab as indentation", "indent with blanks"),
    "found undefined tag handle": ("found a tag", "leave it out; quote the value if the ! belongs to it"),
    "found unknown directive name": ("found a % directive", "leave it out"),
    "found incompatible YAML document": ("found a % directive", "leave it out"),
}


def position(text: str, index: int) -> tuple[int, int]:
    """Line and column, from 0, of the character at ``index``."""
    line, start = 0, 0
    for match in LINE_BREAK.finditer(text, 0, index):
        line, start = line + 1, match.end()
    return line, index - start


def _positions(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int, str]]:
    """Line and column, from 0, and text of each match; no line is counted twice, however many matches there are."""
    line = start = seen = 0
    for match in pattern.finditer(text):
        for end in LINE_BREAK.finditer(text, seen, match.start()):
            line, start = line + 1, end.end()
        seen = match.start()
        yield line, seen - start, match[0]


def undecodable(error: UnicodeDecodeError) -> Flaw:
    """Why the bytes of a file are not UTF-8."""
    data = error.object  # without a byte order mark, and counted without it
    before = data[: error.start].decode()
    line, column = position(before, len(before))
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return Flaw(0, 0, "found UTF-16, wanted UTF-8", "save the file as UTF-8")
    return Flaw(line, column, f"found the byte 0x{data[error.start]:02x}, which is not UTF-8", "save the file as UTF-8")


def unreadable(text: str) -> Iterator[Flaw]:
    """Control characters, which no YAML file may hold; libyaml gives up such a file whole."""
    for line, column, found in _positions(_UNREADABLE, text):
        yield Flaw(line, column, f"found the control character U+{ord(found):04X}", "take it out")


def breaking(text: str) -> Iterator[Flaw]:
    """Characters that end a line or vanish in some YAML versions only: a comment could end where no editor shows it."""
    for line, column, found in _positions(BREAKING, text):
        message = f"found the character U+{ord(found):04X}, which YAML versions read differently"
        yield Flaw(line, column, message, "take it out")


def directives(text: str) -> Iterator[Flaw]:
    """The first %TAG directive beyond as many as a file may have; what only looks like one is counted too."""
    found = next(islice(_positions(_TAG_DIRECTIVE, text), MAX_TAG_DIRECTIVES, None), None)
    if found:
        message = f"found more than {MAX_TAG_DIRECTIVES} %TAG directives in one file"
        yield Flaw(found[0], found[1], message, "leave them out, or split the file up")


def flaw(error: YAMLError | LimitExceeded, text: str) -> tuple[Flaw, int]:
    """What made the reader stop in ``text``, and the index of the character it stopped at."""
    if isinstance(error, LimitExceeded):
        return Flaw(error.line, error.column, error.message, "split it up"), len(text)
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return Flaw(0, 0, f"not valid YAML: {error}"), len(text)
    mark, problem = error.problem_mark, str(error.problem)
    if problem == "found character that cannot start any token":
        message, hint = _no_token(text[mark.index : mark.index + 1])
    else:
        message, hint = _WORDS.get(problem, (f"not valid YAML: {problem}", ""))
    opened = error.context_mark if str(error.context).endswith(_ENCLOSED) else None
    if opened is not None and problem.startswith("found unexpected"):
        return Flaw(opened.line, opened.column, message, hint), mark.index
    since = opened.line if opened is not None and opened.line != mark.line else None
    return Flaw(mark.line, mark.column, message, hint, since), mark.index


def _no_token(character: str) -> tuple[str, str]:
    if character == "\t":
        return "found a tab as indentation", "indent with blanks"
    return f"found {quoted(character)}, which no value can begin with", "quote the value"
