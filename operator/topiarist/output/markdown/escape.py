"""Escaping of untrusted text for Markdown, so that it is shown as plain text on GitHub and elsewhere.

Escaping alone is not sufficient: mentions, references (``#12``, ``GH-12``, commit ids) and URLs become links after the
Markdown was parsed, except in code. Therefore everything but plain words is put into a code span or a fence.
``markdown.plan`` and ``markdown.sections`` call this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from topiarist.output.text.layout import sanitize

_MAX_CODE_LENGTH = 250
_MAX_PROSE_LENGTH = 1000

_TOKEN = re.compile(r'[^\s"]*"(?:\\.|[^"\\])*"\S*|\S+')
_PARTS = re.compile(r"([(]*)(.*?)([),.;:]*)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+(?:['-][a-z]+)*'?")
_NUMBER = re.compile(r"~?[0-9]{1,3}(?:,[0-9]{3})*(?:\.[0-9]{1,2})?%?")
_COMMIT = re.compile(r"[0-9A-Fa-f]{7,}")


def format_code(text: str) -> str:
    """Return a code span that shows ``text`` on one line.

    Empty text is shown as two quotes; very long text is cut.
    """
    text = _truncate(sanitize(text), _MAX_CODE_LENGTH) or '""'
    runs = {len(run) for run in re.findall("`+", text)}
    ticks = "`" * next(length for length in range(1, len(runs) + 2) if length not in runs)
    stripped = text.strip(" ")
    pad = " " if text.strip("`") != text or (stripped and text[0] == text[-1] == " ") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def format_table_cell(text: str) -> str:
    """Return ``text`` as code for a table cell.

    A bar ends a cell even within a code span, so each bar is put between two code spans.
    """
    return "&#124;".join(
        format_code(part) if part else "" for part in _truncate(sanitize(text), _MAX_CODE_LENGTH).split("|")
    ) or format_code("")


def format_code_list(texts: Sequence[str], max_items: int) -> str:
    """Return texts as code with commas between them.

    Of more than ``max_items`` texts the first are listed and the rest counted.
    """
    shown = texts if len(texts) <= max_items else texts[: max_items - 1]
    more = f" and {len(texts) - len(shown):,} more" if len(shown) < len(texts) else ""
    return ", ".join(map(format_code, shown)) + more


def format_html_code(text: str) -> str:
    """Return ``text`` as code within a line of HTML, where Markdown is not parsed."""
    return f"<code>{escape(_truncate(sanitize(text), _MAX_CODE_LENGTH)) or '&quot;&quot;'}</code>"


def escape_prose(text: str) -> str:
    """Return a sentence with its plain words unchanged and everything else as code.

    Keys, values, names and paths become code.
    """
    return " ".join(map(_escape_token, _TOKEN.findall(_truncate(sanitize(text), _MAX_PROSE_LENGTH))))


def _escape_token(token: str) -> str:
    if token == "->":
        return "-&gt;"
    match = _PARTS.fullmatch(token)
    assert match
    before, core, after = match.groups()
    if not core:
        return format_code(token)
    if _WORD.fullmatch(core) and not _COMMIT.fullmatch(core):
        return f"{before}{core}{after}"
    if _NUMBER.fullmatch(core):
        core = core.replace("~", "\\~")  # two tildes strike through the text between them
        # At the start of a line "1." and "1)" begin a list.
        return f"{before}{core}\\{after}" if after[:1] in (".", ")") and after else f"{before}{core}{after}"
    return f"{before}{format_code(core)}{after}"


def _truncate(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."


def format_code_block(lines: Iterable[str], language: str = "") -> str:
    """Return a fenced block of ``lines``, which must be sanitized.

    The language ``diff`` colours the lines that start with a sign.
    """
    text = "\n".join(lines)
    # A fence must be longer than any run of backticks within it.
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}{language}\n{text}\n{ticks}"
