"""Markdown as GitHub shows it: read by GitHub's own parser, then taken apart, with what would become a link found."""

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
    """A page: how often each element occurs, its text in code and outside, and elements that are not closed."""

    tags: Counter[str] = field(default_factory=Counter)
    code: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        self.tags[tag] += 1
        self.errors += [f"{tag} {name}" for name, _ in attrs if name not in ("align", "open", "lang")]
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "code":
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        if not self.open or self.open.pop() != tag:
            self.errors.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        """Text."""
        if "code" in self.open:
            self.code[-1] += data
        else:
            self.prose.append(data)

    @property
    def text(self) -> str:
        """All text outside of code."""
        return "".join(self.prose)

    @property
    def references(self) -> list[str]:
        """What GitHub would make links or pictures of."""
        return _REFERENCE.findall(self.text)


def parse_page(markdown: str) -> Page:
    """``markdown`` as GitHub shows it."""
    html = cmarkgfm.github_flavored_markdown_to_html(markdown, options=Options.CMARK_OPT_UNSAFE)
    found = Page()
    found.feed(html)
    found.close()
    return found
