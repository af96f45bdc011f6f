"""How the page of a drift report looks: light, dark, on paper, on any width, and to those who do not see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from support.drift import generated_reports
from support.drift.browser import ROW_SELECTOR, OpenedPage, open_page

LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 23, 28)"


def background(made: OpenedPage) -> str:
    """The colour that the page stands on."""
    return str(made.evaluate("getComputedStyle(document.body).backgroundColor"))


def ink(made: OpenedPage) -> str:
    """All pixels of the charts."""
    return str(made.evaluate("[...document.querySelectorAll('canvas')].map(one => one.toDataURL()).join()"))


def faults(made: OpenedPage) -> list[tuple[str, Any]]:
    """What axe finds wrong, each with the element."""
    found = Axe().run(made.page).response["violations"]
    return [(one["id"], node["target"]) for one in found for node in one["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [600, 1400])
def test_axe_finds_no_fault(browser: Browser, fleet: Path, scheme: str, width: int) -> None:
    """Contrast, names, roles and order, by the engine that browsers' own checks use; with a finding open too."""
    with open_page(
        browser, generated_reports.page_path(fleet), "#class=config", width=width, color_scheme=scheme, bypass_csp=True
    ) as made:
        made.page.locator("details summary").click()
        assert faults(made) == []
        made.page.locator("#table table").focus()
        made.page.keyboard.press("Enter")
        expect(made.page.get_by_role("dialog")).to_be_visible()
        assert faults(made) == []


def test_colours_are_those_of_the_system_until_one_chooses(browser: Browser, fleet: Path) -> None:
    """Also those of the charts; what is chosen is kept, and can be given up again."""
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


@pytest.mark.parametrize("width", [360, 600, 1000, 1400, 2200])
def test_no_width_needs_scrolling_sideways(browser: Browser, hostile: Path, fleet: Path, width: int) -> None:
    """Tables that are too wide scroll by themselves; also with names of 249 characters."""
    for report in (hostile, fleet):
        with open_page(browser, generated_reports.page_path(report), width=width) as made:
            assert made.evaluate("document.documentElement.scrollWidth") <= width


def test_on_paper_there_are_rows_and_no_controls(browser: Browser, large: Path) -> None:
    """In light colours, whatever the screen has; the first ones of many, which is said; then all is as it was."""
    with open_page(browser, generated_reports.page_path(large), color_scheme="dark") as made:
        before = made.page.locator(ROW_SELECTOR).count()
        assert made.page.pdf(format="A4").count(b"/Type /Page\n") > 5
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(before)
        made.page.emulate_media(media="print")
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(500)
        assert background(made) == LIGHT
        expect(made.page.locator("#paper")).to_have_text("The first 500 of 20,000 findings.")
        for hidden in ("#filters", ".switch", "#heat-more", "#keys"):
            expect(made.page.locator(hidden)).to_be_hidden()
        made.page.emulate_media(media="screen")
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(before)
        assert background(made) == DARK


def test_nothing_moves_where_nothing_has_to(browser: Browser, fleet: Path) -> None:
    """Two openings of one page look the same to the pixel: no animation, no chance."""
    pictures = set()
    for _ in range(2):
        with open_page(browser, generated_reports.page_path(fleet)) as made:
            expect(made.page.locator(ROW_SELECTOR).first).to_be_visible()
            pictures.add(made.page.screenshot())
    assert len(pictures) == 1
