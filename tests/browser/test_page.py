"""The page of a drift report as a user sees it: search, filters, order, links, keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Browser, expect

from support.drift import drifted_fleet, generated_reports
from support.drift.browser import ROW_SELECTOR, OpenedPage, open_page
from support.drift.small_fleet import read_rows, read_summary, run_drift
from topiarist.drift.causes import Causes
from topiarist.drift.outputs import html

pytestmark = pytest.mark.core

SEVERITIES = ("Critical", "High", "Medium", "Low")


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows in the order of the page."""
    return sorted(rows, key=lambda row: (SEVERITIES.index(row["severity"]), row["firstSeen"]))


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
                made.page.locator("#urgent dt, #totals dt").all_inner_texts(),
                made.page.locator("#urgent .big, #totals dd").all_inner_texts(),
                strict=True,
            )
        )
        findings = found["findings"]
        assert totals["Data loss"] == str(findings["byEffect"]["DataLoss"])
        assert totals["Refused"] == str(findings["byPlanned"]["Refused"])
        assert totals["New"] == str(findings["new"])
        assert totals["Oldest"] == "39 days"
        assert totals["Findings"] == "600; 50 of 59 compared clusters differ"
        assert totals["Clusters compared"] == "59, 1 unknown"
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
        before = made.topics()[:10]  # row heights determine the number of further rows
        assert len(before) == 10
        for said, wanted in (("ascending", topics[1:3]), ("descending", topics[:-3:-1])):
            head.get_by_role("button").click()
            expect(head).to_have_attribute("aria-sort", said)
            assert [name for name in made.topics() if name != "the whole cluster"][:2] == wanted
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", "none")
        expect(made.page.locator("#table th.c-severity")).to_have_attribute("aria-sort", "descending")
        assert made.topics()[:10] == before


def test_search_leaves_what_has_every_word(browser: Browser, fleet: Path) -> None:
    """The search keeps findings with every word in any field and any case; its address reproduces the result."""
    rows = read_rows(fleet)
    wanted = in_order(row for row in rows if "retention" in row["field"] and "team03" in row["topic"])
    assert wanted
    with open_page(browser, generated_reports.page_path(fleet)) as made:
        made.page.locator("#search").press_sequentially("TEAM03 retention")
        assert made.topics() == [row["topic"] for row in wanted]
        assert made.count_text().startswith(f"{len(wanted)} of 600 findings")
        made.page.wait_for_url(re.compile("#q="))
        assert address(made) == {"q": ["TEAM03 retention"]}
        made.page.reload()
        expect(made.page.locator("#search")).to_have_value("TEAM03 retention")
        assert made.topics() == [row["topic"] for row in wanted]
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
        if row["class"] == "config" and row["responsible"] == "payments" and row["risk"] == "DataLoss"
    ]
    link = "#q=retention&class=config&responsible=payments&risk=DataLoss&sort=-topic"
    with open_page(browser, generated_reports.page_path(fleet), link) as made:
        assert made.topics() == sorted((row["topic"] for row in wanted), reverse=True)
        expect(made.page.get_by_label("Class", exact=True)).to_have_value("=config")
        made.evaluate("location.hash = '#cluster=gone'")
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(0)
        expect(made.page.get_by_label("Cluster", exact=True)).to_have_value("=gone")
        made.page.go_back()
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(len(wanted))


def test_a_choice_is_in_the_address(browser: Browser, fleet: Path) -> None:
    """The address contains a selection, including the selection of findings without a responsible."""
    with open_page(browser, generated_reports.page_path(fleet)) as made:
        made.page.get_by_label("Responsible", exact=True).select_option(label="none")
        made.page.get_by_label("Status", exact=True).select_option(label="New")
        made.page.wait_for_url(re.compile("status=New"))
        assert address(made) == {"responsible": [""], "status": ["New"]}
        assert [text.strip() for text in made.cells("class")] == ["unknown"]


def test_a_number_of_the_heat_map_leads_to_its_findings(browser: Browser, fleet: Path) -> None:
    """A number of the heat map is a copyable link to its findings and moves the focus there."""
    worst = max(read_summary(fleet)["byCluster"], key=lambda one: one["findings"])
    kind, number = max(worst["byClass"].items(), key=lambda item: item[1])
    with open_page(browser, generated_reports.page_path(fleet)) as made:
        made.page.get_by_role("link", name=f"{number} {kind} on {worst['cluster']}", exact=True).click()
        assert address(made) == {"cluster": [worst["cluster"]], "class": [kind]}
        expect(made.page.locator("#count")).to_contain_text(f"{number} of")
        assert {text.split()[0] for text in made.cells("class")} == {kind}
        expect(made.page.locator("#findings")).to_be_focused()


def test_charts_are_drawn_and_lead_to_findings(browser: Browser, fleet: Path) -> None:
    """The bars are as long as their numbers, which are links; the trend has a name, a description and a table."""
    found = read_summary(fleet)
    with open_page(browser, generated_reports.page_path(fleet)) as made:
        most = max(found["bySeverity"].values())
        for row, severity in zip(made.page.locator(".bars tbody tr").all(), SEVERITIES, strict=True):
            many = found["bySeverity"].get(severity, 0)
            assert row.locator(".many").inner_text() == str(many)
            assert row.locator("a").count() == (1 if many else 0)
            widths = row.locator("svg").evaluate(
                "svg => [svg.firstChild, svg].map(one => one.getBoundingClientRect().width)"
            )
            assert widths[0] == pytest.approx(widths[1] * many / most, abs=1)
        chart = made.page.get_by_role("img", name="Findings by report")
        assert chart.locator("desc").text_content() == (
            f"21 reports. First: {moment(found['trend'][0])}. Last: {moment(found['trend'][-1])}."
        )
        assert chart.locator(".spot title").all_text_contents() == [moment(one) for one in found["trend"]]
        top = chart.locator("path.all").evaluate("line => line.getBoundingClientRect().height")
        assert top > 10
        made.page.locator("#trend-rows summary").click()
        assert made.page.locator("#trend-rows tbody tr").count() == 21
        made.page.get_by_role("link", name=re.compile("^[0-9]+ Critical$")).click()
        made.page.wait_for_url(re.compile("severity=Critical"))
        assert {text.strip() for text in made.cells("severity")} == {"Critical"}


def moment(one: Mapping[str, Any]) -> str:
    """Return the description of a report of a trend."""
    at = f"{one['asOf'][:10]} {one['asOf'][11:16]} UTC"
    return f"{at}: {one['findings']} findings, {one['new']} new, {one['resolved']} resolved" + (
        ", 1 cluster not read" if one["unknown"] else ""
    )


def test_critical_findings_are_first_and_then_the_oldest(browser: Browser, fleet: Path) -> None:
    """Without a chosen order the most severe findings are first, and of these the oldest; each says its reason."""
    wanted = in_order(read_rows(fleet))[:10]
    assert {row["severity"] for row in wanted} == {"Critical"}
    with open_page(browser, generated_reports.page_path(fleet)) as made:
        assert made.topics()[:10] == [row["topic"] for row in wanted]
        made.page.get_by_label("Order").select_option(label="newest first")
        made.page.wait_for_url(re.compile("sort=since"))
        made.page.get_by_label("Class", exact=True).select_option(label="partitions")
        refused = made.page.locator(ROW_SELECTOR, has_text="refuse").first.locator(".c-planned")
        expect(refused).to_have_text(
            "order changes"
            "refuse: 12 partitions cannot become 6: Kafka removes none; set partitions: 12, or create a new topic"
        )
        assert refused.locator(".clamp").evaluate("cell => cell.scrollHeight <= cell.clientHeight + 1")


def test_an_empty_table_says_why(browser: Browser, fleet: Path, clean: Path) -> None:
    """Without a match the page names each condition and the number of findings without it, as links."""
    with open_page(browser, generated_reports.page_path(fleet), "#q=zzz&class=config") as made:
        expect(made.page.locator("#empty")).to_contain_text(
            'No finding in this page matches the search "zzz", class config.'
        )
        number = read_summary(fleet)["findings"]["byClass"]["config"]
        made.page.get_by_role("link", name=f'Without the search "zzz": {number} findings').click()
        assert address(made) == {"class": ["config"]}
        expect(made.page.locator("#empty")).to_be_hidden()
        made.evaluate("location.hash = '#cluster=edge-sa-0059&class=config'")
        expect(made.page.locator("#empty")).to_contain_text("The cluster was not compared: could not be read")
    with open_page(browser, generated_reports.page_path(clean)) as made:
        expect(made.page.locator("#empty")).to_contain_text("1,000 topics on 1 cluster were compared, and all match")


def test_gaps_are_said_before_findings_and_accepted_drift_after_them(browser: Browser, notes: Path) -> None:
    """Incomplete clusters and broken manifests are above the findings; accepted drift is apart, with its exception."""
    found = read_summary(notes)
    with open_page(browser, generated_reports.page_path(notes)) as made:
        gaps = made.page.locator("#gaps").inner_text()
        for wanted in (
            "Incomplete clusters (2)",
            "edge-ap-0002: 5 topics not judged, 3 invalid rows in snapshots/edge-ap-0002.jsonl: line 17: topic: found",
            "Invalid manifests (2)",
            "topics/broken.yaml:3: spec.partitions: found a text, wanted an integer",
            "Clusters not compared (1)",
        ):
            assert wanted in gaps, wanted
        accepted = made.page.locator("#accepted")
        expect(accepted).to_contain_text(f"Accepted drift ({found['accepted']['total']})")
        for wanted in (
            "payments-freeze",
            "exceptions.yaml:12",
            "jo@example.com",
            "2025-03-31",
            "audit of March",
        ):
            expect(accepted.locator("tbody tr").first).to_contain_text(wanted)
        expect(accepted).to_contain_text("old-clicks (exceptions.yaml:24)")
        made.page.get_by_role("link", name="among the findings").click()
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(2)
        places = [made.page.locator(f"#{name}").bounding_box() for name in ("gaps", "findings", "accepted")]
        tops = [place["y"] for place in places if place]
        assert tops == sorted(tops)
        made.page.locator("#totals a.inside").click()
        expect(accepted).to_be_focused()


def test_upgrade_risks_are_named_with_their_topics(browser: Browser, demo: Path, fleet: Path) -> None:
    """The totals lead to the risks, the worst effect first with its topic, value, line and remedy; clusters follow."""
    found = read_summary(demo)["upgrade"]
    worst = found["risks"][0]
    with open_page(browser, generated_reports.page_path(demo)) as made:
        made.page.get_by_role("link", name="some brokers would not start").click()
        section = made.page.locator("#upgrade")
        expect(section).to_be_focused()
        first = section.locator("tbody tr").first
        example = worst["examples"][0]
        for wanted in (
            "brokers do not start",
            worst["config"],
            worst["message"],
            worst["hint"],
            f"{example['topic']} on {example['cluster']}: {example['value']}",
            f"topics/web.yaml:{example['line']}",
        ):
            expect(first).to_contain_text(wanted)
        rows = made.page.get_by_role("region", name="Upgrade risks by cluster").locator("tbody tr").all_inner_texts()
        assert rows[0].split("\t")[0].strip() == example["cluster"]
        assert len(rows) == len(found["byCluster"]) == 3
        assert made.console_messages == []
    with open_page(browser, generated_reports.page_path(fleet)) as made:
        expect(made.page.locator("#upgrade")).to_be_hidden()
        expect(made.page.locator("#totals")).not_to_contain_text("Upgrade")


def test_the_scoreboard_and_placement_lead_to_findings(browser: Browser, fleet: Path) -> None:
    """Each number of the scoreboard and of replica placement is a link to its findings."""
    score = next(one for one in read_summary(fleet)["byResponsible"] if one["responsible"] == "payments")
    critical = score["bySeverity"]["Critical"]
    with open_page(browser, generated_reports.page_path(fleet)) as made:
        made.page.get_by_role("link", name=f"{critical} Critical of payments").click()
        assert address(made) == {"severity": ["Critical"], "responsible": ["payments"]}
        made.expect_count(f"^{critical} of")
        cluster, number = next(
            (one["cluster"], one["byClass"]["racks"])
            for one in read_summary(fleet)["byCluster"]
            if "racks" in one["byClass"]
        )
        made.page.locator("#others").get_by_role("link", name=f"{number} racks on {cluster}", exact=True).click()
        assert address(made) == {"class": ["racks"], "cluster": [cluster]}
        made.expect_count(f"^{number} of")


def test_a_command_is_copied_and_a_manifest_is_a_link(browser: Browser, fleet: Path) -> None:
    """A finding has the command that shows it, which a click copies, and the address of its manifest."""
    row = next(row for row in read_rows(fleet) if row["class"] == "config")
    options = {"permissions": ["clipboard-read", "clipboard-write"]}
    with open_page(browser, generated_reports.page_path(fleet), f"#q={row['topic']}", **options) as made:
        made.page.locator(f"{ROW_SELECTOR} .c-class").click()
        dialog = made.page.get_by_role("dialog")
        expect(dialog.locator(".command")).to_have_text(row["command"])
        dialog.get_by_role("button", name="Copy").click()
        expect(dialog.get_by_role("button", name=re.compile("Copied|Selected"))).to_be_visible()
        assert made.evaluate("getSelection().toString()") == row["command"]
        manifest = dialog.get_by_role("link", name=f"{row['file']}:{row['line']}")
        expect(manifest).to_have_attribute("href", row["link"])
        expect(manifest).to_have_attribute("rel", "noopener noreferrer")


def test_it_is_used_by_keyboard_alone(browser: Browser, fleet: Path) -> None:
    """The skip link is first, then the search; arrows select rows, Enter opens a finding, Escape returns to its row."""
    last = in_order(read_rows(fleet))[-1]
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
        expect(made.page.locator("#table th.c-topic")).to_have_attribute("aria-sort", "ascending")


def test_a_finding_is_shown_whole(browser: Browser, fleet: Path) -> None:
    """A click on a row shows every non-empty field of the finding, with the meaning of its class."""
    row = next(row for row in read_rows(fleet) if row["reasons"])
    with open_page(browser, generated_reports.page_path(fleet), f"#q={row['topic']}") as made:
        made.page.locator(f"{ROW_SELECTOR} .c-class").click()
        text = made.page.get_by_role("dialog").inner_text()
        for name in (
            "topic",
            "cluster",
            "class",
            "field",
            "expected",
            "actual",
            "message",
            "hint",
            "owner",
            "severity",
            "responsible",
            "command",
        ):
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
        expect(made.page.get_by_text("There is no previous report.")).to_be_visible()
        expect(made.page.locator("#trend-chart")).to_have_count(0)


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
    path.write_bytes(
        b"".join(html.render_chunks(found, fleet / "findings.jsonl", fleet / "accepted.jsonl", Causes(), {}))
    )
    with open_page(browser, path) as made:
        text = made.page.locator("#others").inner_text()
        assert made.console_messages == []
        for wanted in (
            "By responsible (4)",
            "Replica placement (",
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
        assert address(made) == {"responsible": ["payments"]}


def test_a_report_of_the_command_opens(browser: Browser, tmp_path: Path) -> None:
    """A page from snapshots by the command shows exactly the prepared differences."""
    sample = drifted_fleet.make_fleet(tmp_path, 5, 100, 1)
    assert run_drift(sample.manifests, tmp_path / "report", "-q") == 1
    with open_page(browser, generated_reports.page_path(tmp_path / "report")) as made:
        assert made.count_text() == f"{len(sample.expected)} findings"
        made.evaluate("table.style.height = '9000px'")
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(len(sample.expected))
        parts = (
            ".c-topic .clamp > :nth-child(2)",
            ".name",
            ".c-class .clamp > :nth-child(1)",
            ".c-class .clamp > :nth-child(2)",
        )
        columns = [
            [
                ("" if text == "the whole cluster" else text)
                for text in made.page.locator(f"{ROW_SELECTOR} {part}").all_inner_texts()
            ]
            for part in parts
        ]
        assert set(zip(*columns, strict=True)) == sample.expected
        assert made.console_messages == []


def test_clusters_stand_side_by_side_for_a_topic_or_a_team(browser: Browser, demo: Path) -> None:
    """The matrix has the values that differ; a topic and a team select, and all their values can be shown."""
    with open_page(browser, generated_reports.page_path(demo)) as made:
        section = made.page.locator("#between")
        rows = section.locator("tbody tr")
        assert section.locator("thead th").all_text_contents() == ["Topic", "Field", "prod-eu", "prod-us", "test"]
        expect(rows).to_have_count(10)
        section.get_by_label("Topic").fill("CLICK")
        expect(rows).to_have_count(1)
        assert rows.first.locator("td").all_inner_texts()[2:] == [
            "2592000000 (30 days)",
            "604800000 (7 days)",
            "604800000 (7 days)",
        ]
        section.get_by_label("Show").select_option("all values")
        assert len({row.partition("\n")[0] for row in rows.all_inner_texts()}) == 1
        assert rows.count() > 2
        section.get_by_label("Topic").fill("")
        section.get_by_label("Responsible").select_option("billing")
        assert {text.split("\n")[1] for text in rows.locator("td:first-child").all_inner_texts()} == {"billing"}
        section.get_by_label("Topic").fill("no such topic")
        expect(section.get_by_role("status")).to_have_text("0 values selected.")
