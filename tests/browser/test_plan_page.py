"""The page of a plan in a real browser: what a reviewer sees, finds and prints, and hostile text that stays text."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from browser.test_page_appearance import CLIPPED, DARK, LIGHT, background
from browser.test_page_hostile import TRIED
from support import plan_pages
from support.drift.browser import ROW_SELECTOR, OpenedPage, open_page
from support.drift.generated_reports import HOSTILE_TEXTS
from topiarist.output.html import plan as page_of_plan
from topiarist.text import sanitize

pytestmark = pytest.mark.core


@pytest.fixture(scope="session")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of three clusters with every kind of change, and of one that could not be planned."""
    return plan_pages.write_page(tmp_path_factory.mktemp("plans") / "p.html", plan_pages.make_plans(), ["away"])


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of 20,000 topics on 300 brokers."""
    plan = plan_pages.make_plan(20_000, brokers=300)
    return plan_pages.write_page(tmp_path_factory.mktemp("large") / "p.html", [plan])


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page with hostile text in every place."""
    plan = plan_pages.make_hostile_plan(HOSTILE_TEXTS)
    return plan_pages.write_page(tmp_path_factory.mktemp("hostile") / "p.html", [plan], HOSTILE_TEXTS)


@pytest.fixture
def made(browser: Browser, plans: Path) -> Iterator[OpenedPage]:
    """Return the opened page of the plans; it must log nothing and request nothing but itself."""
    with open_page(browser, plans) as found:
        yield found
        assert found.console_messages == []
        assert {url.partition("#")[0] for url in found.requested_urls} == {plans.as_uri()}


def levels(made: OpenedPage) -> list[str]:
    return made.cells("level")


def choose(made: OpenedPage, name: str, value: str) -> None:
    made.page.locator(f"#choose-{name}").select_option(f"={value}")


def test_the_riskiest_changes_come_first(made: OpenedPage) -> None:
    """The totals count each level, and the table begins with data loss; a link in the totals filters."""
    assert made.page.locator("#urgent .big").all_inner_texts() == ["10", "23", "30"]
    assert levels(made)[:10] == ["DataLoss"] * 10
    made.expect_count("^88 rows$")
    made.page.locator("#urgent a").nth(1).click()
    made.expect_count("^23 of 88 rows in this page$")
    assert set(levels(made)) == {"Refused"}


def test_refusals_warnings_and_blocks_are_visible(made: OpenedPage) -> None:
    """What a reviewer must not miss stands above the table, with the clusters that it concerns."""
    notes = made.page.locator("#gaps").inner_text()
    for words in (
        "Not planned: see the log of the run\naway",
        "Write block\nprod-us: Frozen: frozen by ada: moving racks; nothing is written",
        "Warnings\nprod-eu, prod-us: written to ZooKeeper directly",
        "prod-eu, prod-us: team=shop: 96 -> 108 of 200 partitions (team-limits)",
        "Moves\nprod-eu: 18 partitions, 18 copies, 2 batches, at most 50 MiB/s a broker",
    ):
        assert words in notes


def test_search_and_filters_narrow_the_rows(made: OpenedPage) -> None:
    """Risk, kind, cluster and words count together, and the address shows them to another reader."""
    choose(made, "kind", "configure")
    choose(made, "level", "Safe")
    choose(made, "cluster", "prod-eu")
    made.expect_count("^6 of 88 rows in this page$")
    made.page.locator("#search").fill("00017 flush.ms")
    made.expect_count("^1 of 88 rows in this page$")
    made.page.wait_for_function("() => location.hash.includes('kind=configure')")
    made.page.reload()
    made.expect_count("^1 of 88 rows in this page$")
    made.page.locator("#search").fill("no such topic")
    said = 'No row in this page matches the search "no such topic", risk Safe, kind configure, cluster prod-eu.'
    expect(made.page.locator("#empty")).to_contain_text(said)
    made.page.get_by_role("button", name="Clear filters").click()
    made.expect_count("^88 rows$")


def test_a_row_shows_both_units_and_opens(made: OpenedPage) -> None:
    """Values have Kafka's unit and units for people; the dialog has each key, and the topic's other rows."""
    choose(made, "cluster", "prod-eu")
    made.page.locator("#search").fill("shop.audit.00003")
    made.expect_count("^2 of 88")
    assert made.cells("before")[0] == "retention.ms = 86400000 (1 day)\nsegment.bytes = brokers' default"
    assert made.cells("after")[0] == "retention.ms = 3600000 (1 hour)\nsegment.bytes = 1073741824 (1 GiB)"
    made.page.locator(f"{ROW_SELECTOR} .c-level").first.click()
    dialog = made.page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", level=2)).to_have_text("shop.audit.00003 on prod-eu")
    cells = dialog.locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells == [
        "retention.ms", "86400000 (1 day)", "3600000 (1 hour)", "DataLoss: messages older than 1 hour will be deleted",
    ]  # fmt: skip
    expect(dialog).to_contain_text("Also for this topic")
    expect(dialog).to_contain_text("Notice unmanaged")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()


def test_a_move_lists_each_partition(made: OpenedPage) -> None:
    """The dialog of a move has the list from which, and the list to which, each partition moves, and why."""
    choose(made, "kind", "move")
    made.page.locator("#table table").focus()
    made.page.keyboard.press("Enter")
    rows = made.page.locator("dialog tbody tr")
    assert rows.first.locator("td").all_inner_texts() == ["0", "[1, 2, 3]", "[2, 3, 4]", "Racks, Spread"]
    assert rows.count() == 3


def test_brokers_have_bars_as_long_as_their_numbers(made: OpenedPage) -> None:
    """Leaders and replicas of each broker and rack, before and after, as numbers and as bars of one scale."""
    tables = made.page.locator(".loads")
    assert tables.count() == 2
    assert tables.nth(0).locator("tbody th").all_inner_texts() == ["a 2 brokers", "b 2 brokers", "c 2 brokers"]
    first = tables.nth(1).locator("tbody tr").first
    assert first.locator("th").inner_text() == "1 a, draining"
    assert first.locator("td").all_inner_texts() == ["107 \u2192 119 (+12)", "320 \u2192 356 (+36)", "", "6"]
    widths = (
        made.page.locator(".loads")
        .nth(1)
        .locator("rect")
        .evaluate_all(
            "all => all.map((one) => one.getBoundingClientRect().width / one.parentNode.getBoundingClientRect().width)"
        )
    )
    loads = [(107, 119, 320, 356), (114, 132, 340, 382), (121, 139, 360, 408)]
    loads += [(128, 146, 380, 434), (135, 147, 400, 448), (142, 154, 420, 462)]
    expected = [many / most for load in loads for many, most in zip(load, (154, 154, 462, 462), strict=True)]
    assert widths == pytest.approx(expected, abs=0.01)


def test_permissions_name_the_options(made: OpenedPage) -> None:
    """Data loss and refusals each have the option or the step that permits them."""
    rows = [row.inner_text() for row in made.page.locator("#permissions tbody tr").all()]
    assert "changes that may lose data: 10 topics" in rows[0]
    assert "--allow-risk DataLoss=shop." in rows[0]
    assert "also with --plan or --reviewed" in rows[0]
    assert "pass --adopt=TOPIC, or --adopt='*' for all topics" in rows[1]
    assert len(rows) == 2


def test_few_rows_leave_no_empty_space(browser: Browser, tmp_path: Path) -> None:
    """The table of a small plan is as high as its rows."""
    path = plan_pages.write_page(tmp_path / "p.html", [plan_pages.make_plan(3)])
    with open_page(browser, path) as made:
        assert made.page.locator(ROW_SELECTOR).count() == 3
        table, last = (made.page.locator(each).last.bounding_box() for each in ("#table", ROW_SELECTOR))
        assert table is not None
        assert last is not None
        assert table["y"] + table["height"] - last["y"] - last["height"] < 5


def test_an_empty_plan_says_so(browser: Browser, tmp_path: Path) -> None:
    """A plan without changes is a page without a table, chart and permissions."""
    path = plan_pages.write_page(tmp_path / "p.html", plan_pages.make_plans()[2:])
    with open_page(browser, path) as made:
        expect(made.page.locator("#about")).to_have_text("No changes: 3 topics match their manifests.")
        expect(made.page.locator("#empty")).to_contain_text("There is nothing to review")
        for hidden in ("#table", "#permissions", "#brokers", "#sampled"):
            expect(made.page.locator(hidden)).to_be_hidden()
        assert made.console_messages == []


def faults(made: OpenedPage) -> list[tuple[str, Any]]:
    found = Axe().run(made.page).response["violations"]
    return [(one["id"], node["target"]) for one in found for node in one["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_axe_finds_no_fault(browser: Browser, plans: Path, scheme: str, width: int) -> None:
    """axe reports no violation of contrast, names, roles and order: page, open row, empty table."""
    with open_page(browser, plans, "#level=Refused", width=width, color_scheme=scheme, bypass_csp=True) as made:
        made.page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
        assert faults(made) == []
        for kind in ("refused", "move"):
            made.page.evaluate(f"location.hash = '#kind={kind}'")
            made.expect_count("of 88")
            made.page.locator("#table table").focus()
            made.page.keyboard.press("Enter")
            expect(made.page.get_by_role("dialog")).to_be_visible()
            assert faults(made) == []
            made.page.keyboard.press("Escape")
        made.page.locator("#search").fill("no such topic")
        expect(made.page.locator("#empty")).to_be_visible()
        assert faults(made) == []


@pytest.mark.parametrize("width", [360, 400, 600, 1000, 1400, 2200])
def test_no_width_needs_scrolling_sideways(browser: Browser, plans: Path, hostile: Path, width: int) -> None:
    """Only wide tables scroll sideways, at any width and with names of 249 characters."""
    for path in (plans, hostile):
        with open_page(browser, path, width=width) as made:
            assert made.evaluate("document.documentElement.scrollWidth") <= width


def test_a_narrow_screen_has_cards(browser: Browser, plans: Path) -> None:
    """At 400 pixels a row is a card with all its cells inside."""
    with open_page(browser, plans, "#kind=configure", width=400) as made:
        card = made.page.locator(ROW_SELECTOR).first
        expect(card).to_be_visible()
        # At once: the page may show its rows anew between two questions.
        outer, *boxes = card.evaluate(
            "row => [row, ...row.querySelectorAll('td')].map(each => each.getBoundingClientRect().toJSON())"
        )
        assert len(boxes) == 6
        assert all(box["width"] > 60 and box["right"] <= 400 for box in boxes)
        assert all(box["bottom"] <= outer["bottom"] for box in boxes)


def test_on_paper_there_are_rows_and_bars_and_no_controls(browser: Browser, large: Path) -> None:
    """A print has light colours, the first 200 rows with a note about the rest, the chart, and no controls."""
    with open_page(browser, large, color_scheme="dark") as made:
        made.page.emulate_media(media="print")
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(200)
        assert background(made) == LIGHT
        expect(made.page.locator("#paper")).to_have_text("The first 200 of 23,000 rows.")
        assert made.page.evaluate(CLIPPED, "#table td *, .loads td, #permissions td") == []
        for hidden in ("#filters", ".switch", "#keys"):
            expect(made.page.locator(hidden)).to_be_hidden()
        expect(made.page.locator(".loads rect").first).to_be_visible()
        assert made.page.pdf(format="A4").count(b"/Type /Page\n") > 5
        made.page.emulate_media(media="screen")
        assert background(made) == DARK


def test_twenty_thousand_topics_stay_few_elements(browser: Browser, large: Path) -> None:
    """Every row is found and can be reached, and only those in sight are elements."""
    with open_page(browser, large) as made:
        made.expect_count("^23,000 rows$")
        assert made.page.locator(ROW_SELECTOR).count() < 40
        made.page.locator("#search").fill("shop.payments.19998")
        made.expect_count("^2 of 23,000")
        made.page.locator("#search").fill("")
        made.page.locator("#table table").focus()
        made.page.keyboard.press("End")
        expect(made.page.locator(f"{ROW_SELECTOR}[aria-selected='true'] .c-level")).to_have_text("Notice")
        assert made.console_messages == []


def test_of_too_many_rows_the_riskiest_are_shown(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says what it lacks, and counts all rows in its totals."""
    monkeypatch.setattr(page_of_plan, "MAX_ROWS", 20)
    path = plan_pages.write_page(tmp_path / "p.html", plan_pages.make_plans())
    with open_page(browser, path) as made:
        made.expect_count("^20 of 20 rows in this page$")
        expect(made.page.locator("#sampled")).to_contain_text("This page has 20 of 88 rows: the riskiest.")
        assert made.page.locator("#urgent .big").all_inner_texts() == ["10", "23", "30"]
        assert set(levels(made)) <= {"DataLoss", "Refused"}


def test_every_hostile_text_is_shown_as_text(browser: Browser, hostile: Path) -> None:
    """Names, values, messages and warnings appear letter by letter, and none becomes an element."""
    with open_page(browser, hostile) as made:
        assert made.page.locator("img").count() == 0
        assert made.page.locator("script").count() == 3
        assert made.page.title() == "Plan of topics"
        for text in HOSTILE_TEXTS:
            made.page.locator("#search").fill(sanitize(text))
            made.page.locator(ROW_SELECTOR, has=made.page.get_by_text(sanitize(text), exact=True)).first.locator(
                ".c-level"
            ).click()
            assert sanitize(text) in made.page.locator("dialog bdi").all_text_contents()
            made.page.keyboard.press("Escape")
        assert made.page.title() == "Plan of topics"
        assert made.console_messages == []


def test_the_browser_runs_and_loads_nothing_else(browser: Browser, hostile: Path) -> None:
    """The content policy blocks any injected script, handler, style, picture and connection."""
    with socket.create_server(("127.0.0.1", 0)) as server, open_page(browser, hostile) as made:
        made.page.evaluate(TRIED, f"http://127.0.0.1:{server.getsockname()[1]}/")
        made.page.wait_for_function("() => window.blocked.length >= 5")
        kinds = set(made.evaluate("window.blocked"))
        assert kinds == {"script-src-elem", "script-src-attr", "style-src-attr", "img-src", "connect-src"}
        assert made.page.title() == "Plan of topics"
