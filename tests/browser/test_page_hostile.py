"""Hostile data from znodes and manifests, which the page of a drift report only shows as text."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, expect

from support.drift import generated_reports
from support.drift.browser import ROW_SELECTOR, open_page
from support.drift.small_fleet import read_rows
from topiarist.drift.causes import Causes
from topiarist.drift.outputs import html
from topiarist.text import sanitize


def test_every_name_is_shown_as_text(browser: Browser, hostile: Path) -> None:
    """The page shows every name letter by letter, with visible direction marks, and no name becomes an element."""
    with open_page(browser, generated_reports.page_path(hostile)) as made:
        assert sorted(made.page.locator(f"{ROW_SELECTOR} .c-topic .name").all_text_contents()) == sorted(
            map(sanitize, generated_reports.HOSTILE_TEXTS)
        )
        assert made.page.locator("img").count() == 0
        assert made.page.locator("script").count() == 3
        assert made.page.title() == "Drift report"
        assert made.page.locator(f"{ROW_SELECTOR} bdi").count() >= 4 * len(generated_reports.HOSTILE_TEXTS)
        assert made.console_messages == []


@pytest.mark.parametrize("name", generated_reports.HOSTILE_TEXTS)
def test_every_name_can_be_looked_for_and_opened(browser: Browser, hostile: Path, name: str) -> None:
    """A link finds every name as topic, field, value, owner and message, and a link has no more effect than a name."""
    with open_page(browser, generated_reports.page_path(hostile), f"#{urlencode({'q': sanitize(name)})}") as made:
        expect(made.page.locator(ROW_SELECTOR)).not_to_have_count(0)
        made.page.locator(ROW_SELECTOR, has=made.page.get_by_text(sanitize(name), exact=True)).first.locator(
            ".c-severity"
        ).click()
        shown = made.page.locator("dialog bdi").all_text_contents()
        assert shown.count(sanitize(name)) >= 5
        assert made.page.title() == "Drift report"
    with open_page(
        browser,
        generated_reports.page_path(hostile),
        f"#{urlencode({'responsible': name, 'class': name, 'sort': name})}",
    ) as made:
        expect(made.page.locator("#count")).to_contain_text("0 of")
        assert made.page.title() == "Drift report"
        assert made.console_messages == []


LINKS = (
    "javascript:document.title='run'",
    " javascript:document.title='run'",
    "JAVASCRIPT:document.title='run'",
    "data:text/html,<script>alert(1)</script>",
    "file:///etc/passwd",
    "//github.com/x",
    "https://github.com/a b",
    "https://github.com/" + "x" * 2000,
    "vbscript:x",
)


@pytest.mark.parametrize("link", LINKS)
def test_only_a_web_address_becomes_a_link(browser: Browser, tmp_path: Path, link: str) -> None:
    """The link of a finding is a link only if it is a complete http or https address; otherwise it is text."""
    out = tmp_path / "report"
    found = generated_reports.write_report(out, generated_reports.make_findings(3, 9))
    changed = {"file": "a.yaml", "line": 1, "link": link}
    lines = [row | changed for row in read_rows(out)]
    lines[0]["link"] = "https://github.com/a.yaml?x=1&y=2#L1"
    (out / "findings.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    path = tmp_path / "page.html"
    path.write_bytes(b"".join(html.render_chunks(found, out / "findings.jsonl", out / "accepted.jsonl", Causes(), {})))
    with open_page(browser, path) as made:
        links = made.page.locator(f"{ROW_SELECTOR} a")
        assert [one.get_attribute("href") for one in links.all()] == [lines[0]["link"]]
        assert made.page.locator(f"{ROW_SELECTOR} .c-topic").filter(has_text="a.yaml:1").count() == 9
        assert made.console_messages == []


TRIED = """(address) => {
    window.blocked = [];
    const note = (event) => window.blocked.push(event.violatedDirective);
    document.addEventListener("securitypolicyviolation", note);
    const script = document.createElement("script");
    script.textContent = "document.title = 'run'";
    document.body.append(script);
    const made = document.createElement("div");
    made.innerHTML = `<img src="${address}"><p style="color: red"></p>`
        + "<button id='evil' onclick=\\"document.title = 'run'\\">x</button>";
    document.body.append(made);
    document.getElementById("evil").click();
    fetch(address).catch(() => {});
}"""
"""What text could do that had become elements."""


def test_the_browser_runs_and_loads_nothing_else(browser: Browser, hostile: Path) -> None:
    """The content policy blocks any injected script, handler, style, picture and connection."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        open_page(browser, generated_reports.page_path(hostile)) as made,
    ):
        made.page.evaluate(TRIED, f"http://127.0.0.1:{server.getsockname()[1]}/")
        made.page.wait_for_function("() => window.blocked.length >= 5")
        kinds = set(made.evaluate("window.blocked"))
        assert kinds == {"script-src-elem", "script-src-attr", "style-src-attr", "img-src", "connect-src"}
        assert made.page.title() == "Drift report"
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
