"""A parser of the project pages: fenced blocks with their marks, code, links, headings, tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from support.checkout import ROOT

CHART = ROOT / "charts" / "topiarist" / "README.md"
PAGES = (
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "internals").glob("*.md")),
    CHART,
)

_BLOCK = re.compile(r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block: its language, text and position, and the comment directly before it."""

    marker: str
    language: str
    text: str
    start: int


def blocks(page: str) -> list[Block]:
    """Return all fenced blocks of a page."""
    return [Block(m["mark"] or "", m["kind"], m["text"], m.start("text")) for m in _BLOCK.finditer(page)]


def code(page: str) -> Iterator[str]:
    """Return every line of code on a page: in fenced blocks and in backquotes."""
    for block in blocks(page):
        yield from block.text.splitlines()
    yield from _SPAN.findall(_BLOCK.sub("", page))


def links(page: str) -> list[str]:
    """Return the targets of all links."""
    return _LINK.findall(_BLOCK.sub("", page))


def anchors(page: str) -> set[str]:
    """Return the link targets of a page: headings as GitHub names them."""
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(_BLOCK.sub("", page))
    }


def tables(page: str, heading: str) -> list[list[str]]:
    """Return the rows of all tables with a header that begins with ``heading``: their cells without backquotes."""
    parts = page.split(f"\n| {heading} |")[1:]
    lines = [line for part in parts for line in part.split("\n\n")[0].splitlines()[2:]]
    return [[cell.strip().strip("`") for cell in line.strip("| ").split(" | ")] for line in lines]


def table(page: str, heading: str) -> list[list[str]]:
    """Return the rows of the first table with a header that begins with ``heading``, as ``tables`` does."""
    _, found, rest = page.partition(f"\n| {heading} |")
    return tables(found + rest.split("\n\n")[0], heading)


_JOINED_ITEM = re.compile(r"(?<=[.:;)]) (?:-|[2-9]\.)(?: |$)(?=[A-Z*\[]|$)")
_CELL_BORDER = re.compile(r"(?<!\\)\|")


def joined_lines(page: str) -> Iterator[str]:
    """Yield each line with a list item or a table row that begins within it, as after a careless reflow."""
    cells = 0
    for line in _BLOCK.sub("", page).splitlines():
        plain = _SPAN.sub("", line)
        if not plain.startswith("|"):
            cells = 0
            if _JOINED_ITEM.search(plain):
                yield line
            continue
        found = len(_CELL_BORDER.findall(plain))
        cells = cells or found
        if found != cells:
            yield line
