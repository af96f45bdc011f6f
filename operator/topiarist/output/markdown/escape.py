"""Text from outside as Markdown that holds it as text and nothing else, on GitHub and wherever else Markdown is shown.

Escaping alone does not do: mentions, references to other work (``#12``, ``GH-12``, commit ids) and addresses are made
into links after the Markdown has been read. They are left alone in code only, so whatever is not a plain word of ours
stands in a code span or a fence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from posixpath import join, normpath

from topiarist.output.text.layout import sanitize

_MAX_CODE_LENGTH = 250
_MAX_PROSE_LENGTH = 1000

_TOKEN = re.compile(r'[^\s"]*"(?:\\.|[^"\\])*"\S*|\S+')
_PARTS = re.compile(r"([(]*)(.*?)([),.;:]*)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+(?:['-][a-z]+)*'?")
_NUMBER = re.compile(r"~?[0-9]{1,3}(?:,[0-9]{3})*(?:\.[0-9]{1,2})?%?")
_COMMIT = re.compile(r"[0-9A-Fa-f]{7,}")


def format_code(text: str) -> str:
    """A code span that shows ``text`` on one line; empty text is shown as two quotes, very long text is cut."""
    text = _truncate(sanitize(text), _MAX_CODE_LENGTH) or '""'
    runs = {len(run) for run in re.findall("`+", text)}
    ticks = "`" * next(length for length in range(1, len(runs) + 2) if length not in runs)
    stripped = text.strip(" ")
    pad = " " if text.strip("`") != text or (stripped and text[0] == text[-1] == " ") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def format_table_cell(text: str) -> str:
    """``code`` for a table, where a bar would end the cell even within a code span: it stands between two of them."""
    return "&#124;".join(
        format_code(part) if part else "" for part in _truncate(sanitize(text), _MAX_CODE_LENGTH).split("|")
    ) or format_code("")


def format_code_list(texts: Sequence[str], max_items: int) -> str:
    """Return texts as code with commas between them; of more than ``max_items`` the first ones and how many more."""
    shown = texts if len(texts) <= max_items else texts[: max_items - 1]
    more = f" and {len(texts) - len(shown):,} more" if len(shown) < len(texts) else ""
    return ", ".join(map(format_code, shown)) + more


def format_html_code(text: str) -> str:
    """``text`` as code within a line of HTML, where Markdown is not read."""
    return f"<code>{escape(_truncate(sanitize(text), _MAX_CODE_LENGTH)) or '&quot;&quot;'}</code>"


def escape_prose(text: str) -> str:
    """A sentence in which plain words stay as they are and everything else is code: keys, values, names, paths."""
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
        core = core.replace("~", "\\~")  # two of them would strike through what stands between
        # At the beginning of a line "1." and "1)" would begin a list.
        return f"{before}{core}\\{after}" if after[:1] in (".", ")") and after else f"{before}{core}{after}"
    return f"{before}{format_code(core)}{after}"


def _truncate(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."


def format_code_block(lines: Iterable[str], language: str = "") -> str:
    """A fenced block of ``lines``, which have to be plain; ``diff`` colours those that begin with a sign."""
    text = "\n".join(lines)
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}{language}\n{text}\n{ticks}"


def relative_path(file: str, root: str) -> str:
    """``file`` as git names it from the folder ``root``; as it is where it does not lie below."""
    path = normpath(join(root, file))
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else file
