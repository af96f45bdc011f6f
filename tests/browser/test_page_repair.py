"""From the page of a drift report to the repair: causes, the selected findings, and the commands that are copied."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from support.drift.browser import ROW_SELECTOR, OpenedPage, open_page
from support.drift.generated_reports import page_path
from support.drift.small_fleet import read_rows, read_summary
from topiarist.cli.main import run

pytestmark = pytest.mark.core

CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a space in its name, and the demo and its report in it."""
    folder = tmp_path / "a fleet"
    assert run(["drift", "--demo", str(folder), "-q"]) == 1
    return folder


def copy_command(made: OpenedPage, way: str) -> str:
    """Return the command of a way that its button has copied."""
    if not made.evaluate("document.getElementById('repair').open"):
        made.page.locator("#repair-title").click()
    made.page.locator(f"[data-way={way}]").get_by_role("button").click()
    expect(made.page.locator(f"[data-way={way}]").get_by_role("button")).to_have_text("Copied")
    copied: str = made.evaluate("navigator.clipboard.readText()")
    assert copied == made.page.locator(f"[data-way={way}] .command").inner_text()
    return copied


def run_in_shell(command: str, folder: Path) -> str:
    """Run a copied command in a shell, in this folder; return what it prints."""
    env = os.environ | {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("link", "wanted"),
    [
        ("#responsible=logistics&class=replicationFactor", {"responsible": "logistics", "class": "replicationFactor"}),
        ("#q=refunds", {"topic": "refunds"}),
        ("#cluster=prod-us&status=New", {"cluster": "prod-us"}),
        ("#manifest=payments", {"manifest": "payments"}),
        ("#severity=Medium&field=config.retention.ms", {"severity": "Medium", "field": "config.retention.ms"}),
    ],
)
def test_a_copied_command_accepts_exactly_the_selected_findings(
    browser: Browser, folder: Path, link: str, wanted: dict[str, str]
) -> None:
    """The copied command runs as it is, and the next report has all findings but the selected ones."""
    report = folder / "report"
    before = read_rows(report)
    selected = {row["id"] for row in before if all(row[name] == value for name, value in wanted.items())}
    assert selected
    with open_page(browser, page_path(report), link, **CLIPBOARD) as made:
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(len(selected))
        run_in_shell(copy_command(made, "accept"), folder / "manifests")
    assert run(again(folder)) == 1
    assert {row["id"] for row in before} - {row["id"] for row in read_rows(folder / "again")} == selected


def again(folder: Path) -> list[str]:
    """Return the words of a new report."""
    inputs = (str(folder / "manifests"), "--snapshots", str(folder / "snapshots"))
    return ["drift", *inputs, "--out", str(folder / "again"), "--owner-label", "team", "-q"]


def test_copied_commands_plan_and_edit_exactly_the_selected_findings(browser: Browser, folder: Path) -> None:
    """The plan has the changes of the selected findings alone, and the diff is one that git applies."""
    (folder / "manifests" / "topics" / "marketing.yaml").unlink()  # no manifest may be invalid for a plan
    (folder / "manifests" / "exceptions.yaml").unlink()
    (clicks,) = [row for row in read_rows(folder / "report") if row["field"] == "config.retention.ms"]
    with open_page(browser, page_path(folder / "report"), f"#id={clicks['id']}", **CLIPBOARD) as made:
        run_in_shell(copy_command(made, "plan"), folder)
        diff = run_in_shell(copy_command(made, "manifest"), folder)
    (cluster,) = json.loads((folder / "plan.json").read_text())["clusters"]
    assert [(cluster["name"], topic["topic"]) for topic in cluster["topics"]] == [("prod-eu", clicks["topic"])]
    subprocess.run(["git", "apply", "-"], cwd=folder, input=diff, text=True, check=True)
    assert run(again(folder)) == 1
    assert clicks["id"] not in {row["id"] for row in read_rows(folder / "again")}


def test_a_finding_has_its_own_commands(browser: Browser, folder: Path) -> None:
    """The dialog of a finding has the three commands for this finding alone."""
    with open_page(browser, page_path(folder / "report"), "#q=shipments") as made:
        made.page.locator(ROW_SELECTOR).first.click()
        commands = made.page.get_by_role("dialog").locator("[data-way] .command").all_inner_texts()
    (row,) = [each for each in read_rows(folder / "report") if each["topic"] == "shipments"]
    assert [re.findall(r"--fix (\w+) .*--id (\w+)", text) for text in commands] == [
        [(way, row["id"])] for way in ("plan", "manifest", "accept")
    ]


def test_a_search_for_too_many_findings_has_no_command(browser: Browser, large: Path, folder: Path) -> None:
    """Filters select any number of findings, a search as many as a command line can have."""
    page = page_path(folder / "report")
    text = page_path(large).read_text().replace('"repairs":{}', '"repairs":{"plan":"topiarist drift"}')
    page.write_text(text)
    with open_page(browser, page, "#class=config", **CLIPBOARD) as made:
        assert copy_command(made, "plan").endswith(" --class config --out plan.json")
        made.page.locator("#search").fill("team")
        expect(made.page.locator("#commands")).to_contain_text("A search for more than 2,000 findings has no command")


@pytest.mark.parametrize("topic", ["-payments", "pay ments", "$(id)"])
def test_a_topic_that_no_option_takes_is_selected_by_ids(browser: Browser, folder: Path, topic: str) -> None:
    """Kafka allows a topic ``-payments``, and ZooKeeper any name; ``--topic`` takes neither."""
    page = page_path(folder / "report")
    page.write_text(page.read_text().replace('"payments"', json.dumps(topic)))
    (row,) = [row for row in read_rows(folder / "report") if row["topic"] == "payments"]
    with open_page(browser, page, f"#topic={quote(topic)}", **CLIPBOARD) as made:
        expect(made.page.locator(ROW_SELECTOR)).to_have_count(1)
        command = copy_command(made, "accept")
    assert f" --id {row['id']} " in command
    run_in_shell(command, folder)


def test_causes_lead_to_their_findings(browser: Browser, fleet: Path) -> None:
    """The first three causes are above all else, and each cause links to its findings."""
    found = read_summary(fleet)["causes"]
    several: list[dict[str, Any]] = [one for one in found["first"] if one["findings"] > 1]
    with open_page(browser, page_path(fleet)) as made:
        first = made.page.locator("#first li")
        expect(first).to_have_count(3)
        for one, shown in zip(found["first"], first.all_inner_texts(), strict=False):
            assert one["severity"] in shown
            assert one["topics"][0] in shown
        expect(made.page.locator("#causes h2")).to_have_text(f"Causes ({len(several)})")
        rows = made.page.locator("#causes tbody tr")
        assert [text.split("\t")[-1] for text in rows.all_inner_texts()] == [
            str(one["findings"]) for one in several[:25]
        ]
        rows.first.get_by_role("link").click()
        made.expect_count(f"^{several[0]['findings']} of ")
        expect(made.page.get_by_label("Cause", exact=True)).to_have_value(f"={several[0]['id']}")
        assert {*made.topics()} <= {*several[0]["topics"]}
        made.page.get_by_role("button", name="Clear filters").click()
        expect(made.page.get_by_label("Cause", exact=True)).to_be_hidden()


@pytest.mark.parametrize("width", [400, 1400])
def test_the_first_screen_names_the_topics_to_begin_with(browser: Browser, folder: Path, width: int) -> None:
    """Without a scroll a reader sees the first three causes as a whole."""
    with open_page(browser, page_path(folder / "report"), width=width) as made:
        for item in made.page.locator("#first li").all():
            box = item.bounding_box()
            assert box
            assert box["y"] + box["height"] < 600


def test_a_cross_cluster_difference_leads_to_its_findings(browser: Browser, folder: Path) -> None:
    """The table of cross-cluster differences links each topic to the findings of its field."""
    (one, *_) = read_summary(folder / "report")["crossClusterDifferences"]["topics"]
    rows = [row for row in read_rows(folder / "report") if (row["topic"], row["field"]) == (one["topic"], one["field"])]
    with open_page(browser, page_path(folder / "report")) as made:
        made.page.locator("#others").get_by_role("link", name=one["topic"], exact=True).first.click()
        made.expect_count(f"^{len(rows)} of ")


def test_a_run_with_an_unread_cluster_is_marked_in_the_trend(browser: Browser, fleet: Path) -> None:
    """The chart has a mark for each such run, a legend for it, and the number in its table."""
    unknown = [one["unknown"] for one in read_summary(fleet)["trend"]]
    assert 1 < sum(map(bool, unknown)) < len(unknown)
    with open_page(browser, page_path(fleet)) as made:
        marks = made.page.locator("#trend-chart .unread").get_attribute("d") or ""
        assert marks.count("M") == sum(map(bool, unknown))
        assert [", 1 cluster not read" in text for text in made.page.locator(".spot title").all_text_contents()] == [
            bool(number) for number in unknown
        ]
        expect(made.page.locator("#trend-days")).to_contain_text("a cluster was not read")
        made.page.locator("#trend-rows summary").click()
        cells = made.page.locator("#trend-rows td:last-child").all_inner_texts()
        assert cells == [str(number) for number in reversed(unknown)]
