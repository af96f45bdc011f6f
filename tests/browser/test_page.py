"""The page of a drift report as a user sees it: search, filters, order, links, keyboard."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Browser, expect

from support.drift import drifted_fleet, generated_reports
from support.drift.browser import ROW_SELECTOR, OpenedPage, open_page
from support.drift.small_fleet import read_rows, read_summary, run_drift
from topiarist.drift.outputs import html


def address(made: OpenedPage) -> dict[str, list[str]]:
    """Return the search in the page's address."""
    return parse_qs(made.page.url.partition("#")[2], keep_blank_values=True)


@pytest.mark.parametrize("name", ["fleet", "large", "hostile", "clean"])
def test_a_page_needs_no_network_and_has_no_error(browser: Browser, name: str, request: pytest.FixtureRequest) -> None:
    """The page requests only itself, and neither its script nor the browser logs a message."""
    path = generated_reports.page_path(request.getfixturevalue(name))
    with open_page(browser, path) as made:
        expect(made.page.locator("#count")).not_to_be_empty()
        made.page.locator("#findings").scroll_into_view_if_needed()
        assert made.requested_urls == [path.as_uri()]
        assert made.console_messages == []


def test_totals_and_heat_map_are_those_of_the_summary(browser: Browser, fleet: Path) -> None:
    """The heat map has every number of every cluster and class once all clusters are shown, the worst first."""
    found = read_summary(fleet)
    with open_page(browser, generated_reports.page_path(fleet)) as made:
        totals = dict(
            zip(
                made.page.locator("#totals dt").all_inner_texts(),
                made.page.locator("#totals .big").all_inner_texts(),
                strict=True,
            )
        )
        assert totals["Findings"] == "600"
        assert totals["Clusters compared"] == "59"
        assert made.page.locator("#heat tbody tr").count() == 16
        drifted_ones = sum(one["findings"] > 0 for one in found["byCluster"])
        made.page.get_by_role("button", name=f"Show all {drifted_ones}").click()
        rows = made.page.locator("#heat tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
        )
        heads = made.page.locator("#heat thead th").all_inner_texts()[2:]
    assert rows[0][1:] == [f"{number:,}" for number in (600, *(found["findings"]["byClass"][kind] for kind in heads))]
    shown = {name: dict(zip(heads, numbers, strict=True)) for name, _, *numbers in rows[1:]}
    assert shown == {
        one["cluster"]: {kind: str(one["byClass"].get(kind, "")) for kind in heads}
        for one in found["byCluster"]
        if one["findings"]
    }
    assert [int(row[1]) for row in rows[1:]] == sorted((int(row[1]) for row in rows[1:]), reverse=True)


def test_a_column_sorts_up_then_down_then_not(browser: Browser, fleet: Path) -> None:
    """A column sorts all rows, not only visible rows, and its header announces the order to screen readers."""
    topics = sorted(row["topic"] for row in read_rows(fleet))
    with open_page(browser, generated_reports.page_path(fleet)) as made:
        head = made.page.locator("#table th.c-topic")
        before = made.cells("topic")[:20]  # row heights determine the number of further rows
        assert len(before) == 20
        for said, wanted in (("ascending", topics[1:3]), ("descending", topics[:-3:-1])):
            head.get_by_role("button").click()
            expect(head).to_have_attribute("aria-sort", said)
            assert [name for name in made.cells("topic") if name != "the whole cluster"][:2] == wanted
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", "none")
        assert made.cells("topic")[:20] == before


def test_search_leaves_what_has_every_word(browser: Browser, fleet: Path) -> None:
    """The search keeps findings with every word in any field and any case; its address reproduces the result."""
    rows = read_rows(fleet)
    wanted = [row for row in rows if "retention" in row["field"] and "team03" in row["topic"]]
    assert wanted
    with open_page(browser, generated_reports.page_path(fleet)) as made:
        made.page.locator("#search").press_sequentially("TEAM03 retention")
        assert made.cells("topic") == [row["topic"] for row in wanted]
        assert made.count_text().startswith(f"{len(wanted)} of 600 findings")
        made.page.wait_for_url(re.compile("#q="))
        assert address(made) == {"q": ["TEAM03 retention"]}
        made.page.reload()
        expect(made.page.locator("#search")).to_have_value("TEAM03 retention")
        assert made.cells("topic") == [row["topic"] for row in wanted]
        made.page.get_by_role("button", name="Clear filters").click()
        assert made.count_text() == "600 findings"
        made.page.locator("#search").fill("no such topic")
        assert made.count_text().startswith("0 of 600")
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(0)
        assert made.console_messages == []


def test_a_link_carries_search_filters_and_order(browser: Browser, fleet: Path) -> None:
    """A link carries search, filters and order together; a foreign value finds nothing and is shown as selected."""
    wanted = [
        row
        for row in read_rows(fleet)
        if row["class"] == "config" and row["owner"] == "payments" and row["risk"] == "DataLoss"
    ]
    link = "#q=retention&class=config&owner=payments&risk=DataLoss&sort=-topic"
    with open_page(browser, generated_reports.page_path(fleet), link) as made:
        assert made.cells("topic") == sorted((row["topic"] for row in wanted), reverse=True)
        expect(made.page.get_by_label("Class", exact=True)).to_have_value("=config")
        made.evaluate("location.hash = '#cluster=gone'")
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(0)
        expect(made.page.get_by_label("Cluster", exact=True)).to_have_value("=gone")
        made.page.go_back()
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(len(wanted))


def test_a_choice_is_in_the_address(browser: Browser, fleet: Path) -> None:
    """The address contains a selection, including the selection of no owner, which differs from any owner."""
    with open_page(browser, generated_reports.page_path(fleet)) as made:
        made.page.get_by_label("Owner", exact=True).select_option(label="none")
        made.page.get_by_label("Status", exact=True).select_option(label="New")
        made.page.wait_for_url(re.compile("status=New"))
        assert address(made) == {"owner": [""], "status": ["New"]}
        assert made.cells("class") == ["unknown"]


def test_a_number_of_the_heat_map_leads_to_its_findings(browser: Browser, fleet: Path) -> None:
    """A number of the heat map is a copyable link to its findings and moves the focus there."""
    worst = max(read_summary(fleet)["byCluster"], key=lambda one: one["findings"])
    kind, number = max(worst["byClass"].items(), key=lambda item: item[1])
    with open_page(browser, generated_reports.page_path(fleet)) as made:
        made.page.get_by_role("link", name=f"{number} {kind} on {worst['cluster']}", exact=True).click()
        assert address(made) == {"cluster": [worst["cluster"]], "class": [kind]}
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(number)
        assert set(made.cells("class")) == {kind}
        expect(made.page.locator("#findings")).to_be_focused()


def test_charts_are_drawn_and_lead_to_findings(browser: Browser, fleet: Path) -> None:
    """Both charts have pixels and a text description; a click on a bar selects its class."""
    with open_page(browser, generated_reports.page_path(fleet)) as made:
        for name in ("classes", "trend"):
            canvas = made.page.locator(f"#{name}")
            canvas.scroll_into_view_if_needed()
            drawn_on = (
                "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"
            )
            assert canvas.evaluate(drawn_on)
            assert re.search(r"\d", canvas.get_attribute("aria-label") or "")
        bars = made.page.locator("#classes").bounding_box()
        assert bars is not None
        made.page.locator("#classes").click(position={"x": bars["width"] * 0.3, "y": 20})
        made.page.wait_for_url(re.compile("class=missing"))
        assert set(made.cells("class")) == {"missing"}


def test_it_is_used_by_keyboard_alone(browser: Browser, fleet: Path) -> None:
    """The skip link is first, then the search; arrows select rows, Enter opens a finding, Escape returns to its row."""
    last = read_rows(fleet)[-1]
    with open_page(browser, generated_reports.page_path(fleet)) as made:
        press = made.page.keyboard.press
        press("Tab")
        expect(made.page.get_by_text("Skip to the findings")).to_be_focused()
        press("Enter")
        press("Tab")
        expect(made.page.locator("#search")).to_be_focused()
        grid = made.page.get_by_role("grid", name="Findings")
        for _ in range(20):
            if grid.evaluate("grid => grid === document.activeElement"):
                break
            press("Tab")
        for key, active in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("End", 599), ("PageDown", 599)):
            press(key)
            expect(grid).to_have_attribute("aria-activedescendant", f"row-{active}")
            expect(made.page.locator(f"#row-{active}")).to_be_in_viewport()
        press("Enter")
        dialog = made.page.get_by_role("dialog")
        expect(dialog).to_contain_text(last["topic"])
        press("Escape")
        expect(dialog).to_have_count(0)
        expect(grid).to_be_focused()
        press("Home")
        expect(grid).to_have_attribute("aria-activedescendant", "row-0")
        press("Tab")
        press("Enter")
        expect(made.page.locator("#table th.c-cluster")).to_have_attribute("aria-sort", "ascending")


def test_a_finding_is_shown_whole(browser: Browser, fleet: Path) -> None:
    """A click on a row shows every non-empty field of the finding, with the meaning of its class."""
    row = next(row for row in read_rows(fleet) if row["reasons"])
    with open_page(browser, generated_reports.page_path(fleet), f"#q={row['topic']}") as made:
        made.page.locator(f"{ROW_SELECTOR} .c-topic").click()
        text = made.page.get_by_role("dialog").inner_text()
        for name in ("topic", "cluster", "class", "field", "expected", "actual", "message", "hint", "owner"):
            assert row[name] in text, name
        assert row["reasons"][0] in text
        assert "2025-01-31 12:" in text or "2025-01-31 11:" in text or "2025-01-31 10:" in text
        made.page.get_by_role("button", name="Close").click()
        expect(made.page.get_by_role("dialog")).to_have_count(0)


def test_of_many_findings_few_are_in_the_document(browser: Browser, large: Path) -> None:
    """The document holds few rows for any number of findings, any position and any key, so it stays fast."""
    with open_page(browser, generated_reports.page_path(large)) as made:
        grid = made.page.get_by_role("grid", name="Findings")
        expect(grid).to_have_attribute("aria-rowcount", "20001")
        numbers = [made.page.locator(ROW_SELECTOR).count()]
        for share in (0.3, 0.6, 1):
            made.page.evaluate("share => { table.scrollTop = share * table.scrollHeight; }", share)
            there = "least => Number(document.querySelector('#table tr[data-at]').dataset.at) > least"
            made.page.wait_for_function(there, arg=share * 20_000 - 200)
            numbers.append(made.page.locator(ROW_SELECTOR).count())
        made.page.locator("#search").focus()
        for key in "team01":
            made.page.keyboard.press(key)
            numbers.append(made.page.locator(ROW_SELECTOR).count())
        assert all(0 < number <= 60 for number in numbers), numbers
        assert made.console_messages == []


def test_a_page_that_does_not_hold_all_says_so(browser: Browser, large: Path) -> None:
    """A partial page shows the number of its findings, the path of all findings, and the rest by cluster and class."""
    found = read_summary(large)
    worst = max(found["byCluster"], key=lambda one: one["findings"])
    kind, number = max(worst["byClass"].items(), key=lambda item: item[1])
    data = re.search(r'id="findings-data">(.*?)</script>', generated_reports.page_path(large).read_text(), re.DOTALL)
    assert data is not None
    assert len(json.loads(data[1])) == 20_000
    with open_page(browser, generated_reports.page_path(large)) as made:
        expect(made.page.locator("#sampled")).to_contain_text("has 20,000 of 24,000 findings")
        assert made.count_text() == "20,000 of 20,000 findings in this page; 4,000 more are in findings.jsonl only"
        made.evaluate(f"location.hash = '#cluster={worst['cluster']}&class={kind}'")
        expect(made.page.locator("#count")).to_contain_text("more are in findings.jsonl only")
        here, more = (int(text.replace(",", "")) for text in re.findall(r"([\d,]+) (?:of|more)", made.count_text()))
        assert here + more == number


def test_a_report_without_findings_says_so(browser: Browser, clean: Path) -> None:
    """A page without findings has no empty charts and tables."""
    with open_page(browser, generated_reports.page_path(clean)) as made:
        assert made.count_text() == "0 findings"
        expect(made.page.get_by_text("No cluster has findings.")).to_be_visible()
        expect(made.page.get_by_text("There are no findings.")).to_be_visible()
        expect(made.page.locator("canvas")).to_have_count(0)


def test_what_only_a_fleet_shows_is_there(browser: Browser, fleet: Path, tmp_path: Path) -> None:
    """The page of a fleet shows owners, uneven topics, overloaded brokers and input notes, and counts the omitted
    ones.
    """
    found = read_summary(fleet)
    evil = generated_reports.HOSTILE_TEXTS[0]
    values = [{"value": None, "number": 2, "clusters": ["a", "b"]}, {"value": evil, "number": 1, "clusters": ["c"]}]
    found["crossClusterDifferences"] = {
        "total": 120,
        "topics": [{"topic": evil, "manifest": "t", "field": "config.x", "values": values}] * 120,
    }
    ends = {"most": {"broker": 7, "partitions": 1200}, "least": {"broker": 2, "partitions": 3}}
    found["unbalanced"] = [{"cluster": "a", "load": "leaders", "mean": 4.7, **ends}]
    found["inputs"] = {"broken": 3, "superseded": [{}], "unknownClusters": [{}, {}]}
    path = tmp_path / "report.html"
    path.write_bytes(b"".join(html.render_chunks(found, fleet / "findings.jsonl")))
    with open_page(browser, path) as made:
        text = made.page.locator("#others").inner_text()
        assert made.console_messages == []
        for wanted in (
            "Clusters not compared (1)",
            "could not be read (Unreachable)",
            "Owners (3)",
            "Cross-cluster differences (120)",
            "20 more are in summary.json",
            f"{evil} on 1 cluster",
            "not set on 2 clusters",
            "1,200 on broker 7",
            "3 invalid rows (see broken.jsonl)",
            "1 snapshot replaced by a newer one",
            "2 snapshots of clusters that are not part of this run",
        ):
            assert wanted in text, wanted
        made.page.get_by_role("link", name="payments", exact=True).click()
        assert address(made) == {"owner": ["payments"]}


def test_a_report_of_the_command_opens(browser: Browser, tmp_path: Path) -> None:
    """A page from snapshots by the command shows exactly the prepared differences."""
    sample = drifted_fleet.make_fleet(tmp_path, 5, 100, 1)
    assert run_drift(sample.manifests, tmp_path / "report", "-q") == 1
    with open_page(browser, generated_reports.page_path(tmp_path / "report")) as made:
        assert made.count_text() == f"{len(sample.expected)} findings"
        columns = [
            [("" if text == "the whole cluster" else text) for text in made.cells(name)]
            for name in ("cluster", "topic", "class", "field")
        ]
        assert set(zip(*columns, strict=True)) == sample.expected
        assert made.console_messages == []
