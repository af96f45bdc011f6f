"""The parts that every page shares: style, scripts, content policy, and data that no browser runs.

A page is one file that makes no network requests. Text from clusters and manifests is in JSON data blocks that
browsers do not run; the script of the page inserts it as text nodes only. As a second defense, a
Content-Security-Policy in the page allows no script, style or request but those written here.

``html.plan`` and ``drift.outputs.html`` describe their pages by a ``PageParts``.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from typing import Any

from topiarist.output.text.layout import sanitize

MAX_TEXT_LENGTH = 1000
"""Number of characters of a text; a config value may have a million."""

_SHARED = "output/html/assets"
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_encode_json = json.JSONEncoder(separators=(",", ":")).encode


class PageParts:
    """The files of one kind of page: ``template``, ``styles`` and ``scripts`` in ``folder`` or among the shared ones.

    ``folder`` is a path below the package. A name that begins with ``shared/`` is a shared file. Scripts are
    concatenated in their order into one script, and styles into one style.
    """

    def __init__(self, folder: str, template: str, styles: Sequence[str], scripts: Sequence[str]) -> None:
        self._folder = folder
        self._template, self._styles, self._scripts = template, tuple(styles), tuple(scripts)

    @cached_property
    def template(self) -> str:
        """Return the page with placeholders such as ``{{style}}``."""
        return self._read(self._template)

    @cached_property
    def style(self) -> str:
        """Return the style of the page."""
        return "\n".join(map(self._read, self._styles))

    @cached_property
    def script(self) -> str:
        """Return the script of the page."""
        return f'(function () {{\n"use strict";\n{"".join(map(self._read, self._scripts))}}})();\n'

    @cached_property
    def policy(self) -> str:
        """Return the Content-Security-Policy, which allows this script and this style by hash, and data images."""
        hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in (self.script, self.style)]
        script, style = (f"'sha256-{each}'" for each in hashes)
        rules = (f"script-src {script}", f"style-src {style}", "img-src data:", "base-uri 'none'", "form-action 'none'")
        return "; ".join(("default-src 'none'", *rules))

    def _read(self, name: str) -> str:
        folder = _SHARED if name.startswith("shared/") else self._folder
        path = files("topiarist").joinpath(*folder.split("/"), name.removeprefix("shared/"))
        return path.read_text(encoding="utf-8")


def render_chunks(parts: PageParts, data: Mapping[str, Iterator[bytes] | str]) -> Iterator[bytes]:
    """Yield a page in chunks; ``data`` has the text of each placeholder that is not style, script or policy."""
    fixed = {"policy": parts.policy, "style": parts.style, "script": parts.script}
    for index, part in enumerate(_PLACEHOLDER.split(parts.template)):
        if index % 2 == 0:
            yield part.encode()
        elif part in fixed:
            yield fixed[part].encode()
        elif isinstance(text := data[part], str):
            yield text.encode()
        else:
            yield from text


def encode_rows(rows: Iterator[Sequence[Any]]) -> Iterator[bytes]:
    """Yield the data of rows as a list in JSON, one row a line."""
    separator = "[\n"
    for row in rows:
        yield f"{separator}{encode_data(row)}".encode()
        separator = ",\n"
    yield b"[]" if separator == "[\n" else b"\n]"


def encode_data(value: Any) -> str:
    """Return ASCII JSON without ``<``, ``>`` and ``&``, so that an HTML parser reads it as text only."""
    return _encode_json(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class TextTable:
    """An encoder of texts that replaces a repeated text with its index.

    Indexes count distinct texts from 0 in order of first use.
    """

    def __init__(self) -> None:
        self._indexes: dict[str, int] = {}

    def encode(self, text: str) -> str | int:
        """Return a text made printable, or the index of an equal one."""
        # Look up the raw text first: nearly every text is printable and repeated, and sanitizing is slower.
        if (index := self._indexes.get(text)) is not None:
            return index
        text = sanitize_text(text)
        if (index := self._indexes.get(text)) is None:
            self._indexes[text] = len(self._indexes)
            return text
        return index


def sanitize_text(text: str) -> str:
    """Return ``text`` with unprintable characters made visible, cut to 1,000 characters.

    Unprintable characters include direction marks.
    """
    text = sanitize(text[: MAX_TEXT_LENGTH + 1])
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[: MAX_TEXT_LENGTH - 3]}..."


def sanitize_texts(value: Any) -> Any:
    """Return the value with all text made printable; keys are kept, because they are field names and classes."""
    if isinstance(value, str):
        return sanitize_text(value)
    if isinstance(value, Mapping):
        return {name: sanitize_texts(inner) for name, inner in value.items()}
    return [sanitize_texts(inner) for inner in value] if isinstance(value, list) else value
