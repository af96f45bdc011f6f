"""A real browser with an open report page, and a log of its console messages and requests."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

TIMEOUT_MS = 60_000
"""Milliseconds for anything that is waited for: a browser on a busy machine."""

ROW_SELECTOR = "#table tr[data-at]"


@dataclass(slots=True)
class OpenedPage:
    """An open page: ``said`` has the console messages and script errors, ``asked`` every requested address."""

    page: Page
    console_messages: list[str] = field(default_factory=list)
    requested_urls: list[str] = field(default_factory=list)

    def cells(self, column: str) -> list[str]:
        """Return the text of one column in all rows of the document."""
        found: list[str] = self.page.locator(f"{ROW_SELECTOR} .c-{column}").all_inner_texts()
        return found

    def topics(self) -> list[str]:
        """Return the topics of all rows of the document, or their replacement in a row without a topic."""
        found: list[str] = self.page.locator(f"{ROW_SELECTOR} .c-topic .name").all_inner_texts()
        return found

    def expect_count(self, pattern: str) -> None:
        """Wait until the displayed number of findings matches a pattern: a link changes it after its click."""
        expect(self.page.locator("#count")).to_have_text(re.compile(pattern))

    def count_text(self) -> str:
        """Return the displayed number of findings that match the search."""
        said: str = self.page.locator("#count").inner_text()
        return said

    def evaluate(self, script: str) -> Any:
        """Return the value of a script expression."""
        return self.page.evaluate(script)


@contextmanager
def launch_browser() -> Iterator[Browser]:
    """Start a headless Chromium.

    Without an installed browser the test fails, with instructions for its installation.
    """
    path = os.environ.get("TOPIARIST_CHROMIUM") or shutil.which("chromium")
    if not path:
        pytest.fail("there is no Chromium: run these tests by make test-browser, which gets one")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, timeout=TIMEOUT_MS)
        yield browser
        browser.close()


@contextmanager
def open_page(browser: Browser, path: Path, link: str = "", **options: Any) -> Iterator[OpenedPage]:
    """Open a page in its own context; ``options`` belong to the context, ``link`` begins with ``#``."""
    width = options.pop("width", 1400)
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    context.set_default_timeout(TIMEOUT_MS)
    made = OpenedPage(context.new_page())
    made.page.on("console", lambda message: made.console_messages.append(message.text))
    made.page.on("pageerror", lambda error: made.console_messages.append(str(error)))
    made.page.on("request", lambda request: made.requested_urls.append(request.url))
    made.page.goto(f"{path.as_uri()}{link}")
    try:
        yield made
    finally:
        context.close()
