"""The check of a built site: every link leads to a file of the site, and every anchor to an element."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The links of a page, and the anchors that others may lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors.update(filter(None, (found.get("id"), found.get("name") if tag == "a" else None)))
        if "href" in found and tag == "a":
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload", "modulepreload"):
            self.loaded.append(found.get("href", ""))
        elif tag in ("script", "img", "iframe", "source") and found.get("src"):
            self.loaded.append(found["src"])


@cache
def _read(path: Path) -> _Page:
    return _Page(path.read_text())


def find_broken_links(site: Path) -> Iterator[str]:
    """Yield each link of the site that leads nowhere, and each thing that a page loads from another host."""
    for path in sorted(site.rglob("*.html")):
        page, name = _read(path), path.relative_to(site).as_posix()
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{name}: loads {address}"
            elif not _target(site, path, address).is_file():
                yield f"{name}: loads {address}, which is not there"
        for address in page.links:
            link = urlsplit(address)
            if link.scheme or link.netloc or path.name == "404.html":
                continue
            target = _target(site, path, address) if link.path else path
            if not target.is_file():
                yield f"{name}: {address} is not there"
            elif link.fragment and target.suffix == ".html" and unquote(link.fragment) not in _read(target).anchors:
                yield f"{name}: {address}: no such anchor"


def _target(site: Path, page: Path, address: str) -> Path:
    path = unquote(urlsplit(address).path)
    found = site / path.lstrip("/") if path.startswith("/") else page.parent / path
    return found / "index.html" if path.endswith("/") or found.is_dir() else found
