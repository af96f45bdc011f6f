"""The appearance of a drift report page: light, dark, on paper, at any width, and for screen readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from support.drift import generated_reports
from support.drift.browser import ROW_SELECTOR, OpenedPage, open_page

LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 23, 28)"


CLIPPED = """selector => [...document.querySelectorAll(selector)].filter((one) => one.scrollWidth > one.clientWidth + 1
    && getComputedStyle(one).display !== "inline" && getComputedStyle(one).overflowX !== "visible")
    .map((one) => one.outerHTML)"""
"""Elements that do not show all of their text."""


def background(made: OpenedPage) -> str:
    """Return the page's background colour."""
    return str(made.evaluate("getComputedStyle(document.body).backgroundColor"))


def ink(made: OpenedPage) -> str:
    """Return the colour of the line of the trend."""
    return str(made.evaluate("getComputedStyle(document.querySelector('#trend-chart .all')).stroke"))


def faults(made: OpenedPage) -> list[tuple[str, Any]]:
    """Return the violations that axe reports, each with the element."""
    found = Axe().run(made.page).response["violations"]
    return [(one["id"], node["target"]) for one in found for node in one["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("name", ["notes", "demo"])
def test_axe_finds_no_fault(
    browser: Browser, name: str, scheme: str, width: int, request: pytest.FixtureRequest
) -> None:
    """axe, the engine of browser audits, reports no violation of contrast, names, roles and order, with an open finding
    too.
    """
    report = request.getfixturevalue(name)
    with open_page(
        browser, generated_reports.page_path(report), "#class=config", width=width, color_scheme=scheme, bypass_csp=True
    ) as made:
        made.page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
        assert faults(made) == []
        made.page.locator("#table table").focus()
        made.page.keyboard.press("Enter")
        expect(made.page.get_by_role("dialog")).to_be_visible()
        assert faults(made) == []
        made.page.keyboard.press("Escape")
        made.page.locator("#search").fill("no such topic")
        expect(made.page.locator("#empty")).to_be_visible()
        assert faults(made) == []


def test_colours_are_those_of_the_system_until_one_chooses(browser: Browser, fleet: Path) -> None:
    """Page and charts use the system colours until a user selects a theme; the page stores the selection and can reset
    it.
    """
    with open_page(browser, generated_reports.page_path(fleet), color_scheme="light") as made:
        assert background(made) == LIGHT
        light = ink(made)
        made.page.emulate_media(color_scheme="dark")
        made.page.wait_for_function("dark => getComputedStyle(document.body).backgroundColor === dark", arg=DARK)
        dark = ink(made)
        assert dark != light
        made.page.get_by_role("button", name="Light").click()
        assert (background(made), ink(made)) == (LIGHT, light)
        expect(made.page.get_by_role("button", name="Light")).to_have_attribute("aria-pressed", "true")
        made.page.reload()
        assert background(made) == LIGHT
        made.page.get_by_role("button", name="Auto").click()
        assert (background(made), ink(made)) == (DARK, dark)


@pytest.mark.parametrize("width", [360, 400, 600, 1000, 1400, 2200])
def test_no_width_needs_scrolling_sideways(
    browser: Browser, hostile: Path, notes: Path, demo: Path, width: int
) -> None:
    """Only wide tables scroll sideways, at any width and with names of 249 characters."""
    for report in (hostile, notes, demo):
        with open_page(browser, generated_reports.page_path(report), width=width) as made:
            assert made.evaluate("document.documentElement.scrollWidth") <= width


def test_on_paper_there_are_rows_and_no_controls(browser: Browser, large: Path) -> None:
    """A print has light colours, the first rows with a note about the rest, and no controls; then the page is
    restored.
    """
    with open_page(browser, generated_reports.page_path(large), color_scheme="dark") as made:
        before = made.page.locator(ROW_SELECTOR).count()
        assert made.page.pdf(format="A4").count(b"/Type /Page\n") > 5
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(before)
        made.page.emulate_media(media="print")
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(200)
        assert background(made) == LIGHT
        expect(made.page.locator("#paper")).to_have_text("The first 200 of 20,000 findings.")
        assert made.page.evaluate(CLIPPED, "#table td *, #heat td, #heat th, .panel td") == []
        for hidden in ("#filters", ".switch", "#heat-more", "#keys"):
            expect(made.page.locator(hidden)).to_be_hidden()
        made.page.emulate_media(media="screen")
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(before)
        assert background(made) == DARK


def test_a_narrow_screen_has_cards_with_every_field(browser: Browser, notes: Path) -> None:
    """At 400 pixels a finding is a card with all cells, none of them cut, and the table needs no sideways scroll."""
    with open_page(browser, generated_reports.page_path(notes), "#class=config", width=400) as made:
        card = made.page.locator(ROW_SELECTOR).first
        boxes = [cell.bounding_box() for cell in card.locator("td").all()]
        assert len(boxes) == 8
        assert all(box and box["width"] > 60 and box["x"] + box["width"] <= 400 for box in boxes)
        outer = card.bounding_box()
        assert outer is not None
        assert all(box and box["y"] + box["height"] <= outer["y"] + outer["height"] for box in boxes)
        assert made.evaluate("table.scrollWidth <= table.clientWidth")
        assert made.page.get_by_role("gridcell").count() == 8 * made.page.locator(ROW_SELECTOR).count()
        made.page.locator("#table table").focus()
        for _ in range(30):
            made.page.keyboard.press("ArrowDown")
        expect(made.page.locator("#row-30")).to_be_in_viewport()


def test_nothing_moves_where_nothing_has_to(browser: Browser, fleet: Path) -> None:
    """Two openings of one page are identical to the pixel: no animation and no randomness."""
    pictures = set()
    for _ in range(2):
        with open_page(browser, generated_reports.page_path(fleet)) as made:
            expect(made.page.locator(ROW_SELECTOR).first).to_be_visible()
            pictures.add(made.page.screenshot())
    assert len(pictures) == 1
