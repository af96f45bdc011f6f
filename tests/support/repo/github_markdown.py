"""Markdown as GitHub shows it: parsed by GitHub's own parser, with a list of all possible links."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser

import cmarkgfm
from cmarkgfm.cmark import Options

_VOID = {"br", "hr", "img", "input"}
_REFERENCE = re.compile(r"@[\w-]|#[0-9]|\bGH-[0-9]|\b[0-9a-f]{7,40}\b|://|www[.]|\w@\w|:\w+:", re.IGNORECASE)
"""What GitHub makes a link or picture of once it has read the Markdown, but for code: people, work, commits, sites."""


@dataclass
class Page(HTMLParser):
    """A page: the count of each element, its text inside and outside of code, and unclosed elements."""

    tags: Counter[str] = field(default_factory=Counter)
    code: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Handle the start of an element."""
        self.tags[tag] += 1
        self.errors += [f"{tag} {name}" for name, _ in attrs if name not in ("align", "open", "lang")]
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "code":
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        """Handle the end of an element."""
        if not self.open or self.open.pop() != tag:
            self.errors.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        """Handle text."""
        if "code" in self.open:
            self.code[-1] += data
        else:
            self.prose.append(data)

    @property
    def text(self) -> str:
        """Return all text outside of code."""
        return "".join(self.prose)

    @property
    def references(self) -> list[str]:
        """Return the text that GitHub converts to links or images."""
        return _REFERENCE.findall(self.text)


def parse_page(markdown: str) -> Page:
    """Return ``markdown`` as GitHub shows it."""
    html = cmarkgfm.github_flavored_markdown_to_html(markdown, options=Options.CMARK_OPT_UNSAFE)
    found = Page()
    found.feed(html)
    found.close()
    return found
