"""The HTML page of a drift report, without a browser: its content, the escaping of its data, and its policy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.drift import generated_reports
from support.drift.small_fleet import read_rows, read_summary
from topiarist.drift.findings import DriftClass, DriftFinding
from topiarist.drift.outputs import html
from topiarist.output.html import plan
from topiarist.output.text.layout import humanize_config_value
from topiarist.text import sanitize
from unit.output.html.test_plan import PIECES, data

ASSETS = Path(html.__file__).parent / "assets"
SHARED = Path(plan.__file__).parent / "assets"


def rows(text: str) -> Iterator[dict[str, Any]]:
    """Yield the findings of a page, restored as its script restores them."""
    texts: list[str] = []
    for short in data(text, "findings"):
        row = {}
        for name, value in zip(data(text, "report")["columns"], short, strict=True):
            if isinstance(value, str):
                texts.append(value)
            row[name] = texts[value] if type(value) is int else value
        yield row


def held(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line of ``findings.jsonl`` in the form of the page."""
    texts = {"reasons": ", ".join(row["reasons"]), "line": None if row["line"] is None else str(row["line"])}
    texts["episodes"] = str(row["episodes"])
    texts["severityRule"] = row["severityRule"] and html.describe_rule(row["severityRule"])
    key = row["field"].removeprefix("config.")
    for name in ("expected", "actual"):
        words = "" if row[name] is None else humanize_config_value(key, row[name])
        texts[name] = f"{row[name]} ({words})" if words else row[name]
    return {name: texts.get(name, row[name]) for name in html.COLUMNS if name != "cause"}


def without_causes(found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the findings of a page as those of ``held``."""
    return [{name: value for name, value in row.items() if name != "cause"} for row in found]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the page of a report with hostile names."""
    out = tmp_path_factory.mktemp("hostile") / "report"
    generated_reports.write_report(out, generated_reports.hostile_findings(), owners=generated_reports.HOSTILE_TEXTS)
    return generated_reports.page_path(out).read_text(encoding="ascii", errors="surrogateescape")


def test_every_finding_is_in_the_page(tmp_path: Path) -> None:
    """The page has every finding in the order of ``findings.jsonl``, with all fields except the age, which the page
    computes from the times.
    """
    out = tmp_path / "report"
    generated_reports.write_report(
        out, generated_reports.make_findings(20, 200), owners=("default", "payments"), days=2
    )
    text = generated_reports.page_path(out).read_text()
    assert without_causes(rows(text)) == [held(row) for row in read_rows(out)]
    assert {*html.COLUMNS, "ageSeconds", "acceptedSeconds"} == {*read_rows(out)[0], "cause"}


def test_findings_lead_to_the_causes_of_the_page(tmp_path: Path) -> None:
    """The page has the causes with several findings, and each of these findings has the id of its cause."""
    out = tmp_path / "report"
    generated_reports.write_report(out, generated_reports.make_findings(20, 200))
    text = generated_reports.page_path(out).read_text()
    causes = data(text, "report")["causes"]
    found = read_summary(out)["causes"]
    several = {one["id"]: one["findings"] for one in [one for one in found["first"] if one["findings"] > 1][:25]}
    assert causes["all"] == found["total"]
    assert {one["id"]: one["findings"] for one in causes["rows"]} == several
    assert several
    first = {one["id"]: one["findings"] for one in found["first"][:3]}
    assert [one["id"] for one in data(text, "report")["first"]] == [*first]
    counts = Counter(row["cause"] for row in rows(text))
    assert counts.pop("") == 200 - sum((several | first).values())
    assert counts == several | first
    names = ("severity", "effect", "effectReason", "manifest", "topicCount", "clusterCount")
    given = {one["id"]: [one[name] for name in names] for one in found["first"]}
    shown = [*causes["rows"], *data(text, "report")["first"]]
    assert all([one[name] for name in names] == given[one["id"]] for one in shown)


def test_nothing_gets_out_of_its_data(hostile: str) -> None:
    """For any name, the page has three scripts, and its data blocks contain no HTML metacharacter."""
    assert len(re.findall(r"<script\b", hostile)) == len(re.findall(r"</script\b", hostile)) == 3
    for name in ("report", "findings"):
        (inner,) = (text for _, attributes, text in PIECES.findall(hostile) if f'id="{name}-data"' in attributes)
        assert inner.isascii()
    assert sorted(row["topic"] for row in rows(hostile)) == sorted(map(sanitize, generated_reports.HOSTILE_TEXTS))
    assert {one["responsible"] for one in data(hostile, "report")["responsible"]["rows"]} == set(
        map(sanitize, generated_reports.HOSTILE_TEXTS)
    )


def test_the_script_never_reads_text_as_html() -> None:
    """No asset of topiarist uses an API that turns text into elements, code or style."""
    words = (
        r"(inner|outer|Adjacent)HTML|document\.write|DOMParser|\beval\b|new Function|srcdoc|cssText|\bon\w+=\"|style="
    )
    for path in [*ASSETS.glob("*.js"), *SHARED.glob("*.js"), *ASSETS.glob("*.html"), *SHARED.glob("*.html")]:
        assert re.search(words, path.read_text()) is None, path.name


def test_the_script_reads_only_names_that_its_data_has(hostile: str) -> None:
    """The data has every name that the script reads: a missing name would omit content without an error."""
    found = data(hostile, "report")
    script = "".join(path.read_text() for path in (*ASSETS.glob("*.js"), *SHARED.glob("[!p]*.js")))
    assert set(re.findall(r"\breport\.(\w+)", script)) <= set(found)
    assert set(re.findall(r"\breport\.inputs\.(\w+)", script)) <= set(found["inputs"])
    for names, path in re.findall(r"const \{ ([^{}]+) \} = report\.?(\w*);", script):
        part = found[path] if path else found
        assert {name.partition(":")[0].strip() for name in names.split(",")} <= set(part)


def test_every_severity_has_its_colour_and_there_are_few() -> None:
    """Every severity has a colour in the style; besides greys, the style has three, each in light and dark."""
    style = (SHARED / "page.css").read_text() + (ASSETS / "report.css").read_text()
    for severity in ("Critical", "High", "Medium", "Low"):
        assert f".bar-{severity} {{ fill: var(--" in style
    colours = set(re.findall(r"--([\w-]+): light-dark\(", style))
    greys = {"back", "panel", "ink", "dim", "line"}
    assert colours - greys == {"accent", "mark", "loss", "high"}  # mark is a tint of accent


def test_a_text_that_is_far_too_long_is_cut(tmp_path: Path) -> None:
    """The page cuts a very long config value, and ``findings.jsonl`` has the full value."""
    ((topic, one),) = generated_reports.make_findings(2, 2)["prod-eu-0000"] or ()
    generated_reports.write_report(tmp_path / "report", {"eu": [(topic, one._replace(actual="x" * 100_000))]})
    (row,) = rows(generated_reports.page_path(tmp_path / "report").read_text())
    assert row["actual"] == "x" * 997 + "..."
    assert read_rows(tmp_path / "report")[0]["actual"] == "x" * 100_000


def test_a_config_value_has_its_unit_beside_it(tmp_path: Path) -> None:
    """The unit depends on the key, which a field has after ``config.``; a missing value stays so."""
    ((topic, one),) = generated_reports.make_findings(2, 2)["prod-eu-0000"] or ()
    finding = one._replace(
        drift_class=DriftClass.CONFIG, field="config.local.retention.ms", expected="-2", actual="604800000"
    )
    absent = finding._replace(field="config.segment.bytes", expected="1024", actual=None)
    generated_reports.write_report(tmp_path / "report", {"eu": [(topic, finding), (topic, absent)]})
    page = generated_reports.page_path(tmp_path / "report").read_text()
    found = [(row["expected"], row["actual"]) for row in rows(page)]
    assert sorted(found) == [("-2 (as retention.ms)", "604800000 (7 days)"), ("1024 (1 KiB)", None)]


@pytest.mark.slow
def test_of_too_many_findings_what_is_rare_is_held_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many findings, the page has all critical findings, all of the small groups, and an equal number of each
    larger group, in the order of the file.
    """
    monkeypatch.setattr("topiarist.drift.outputs.html.MAX_FINDINGS", 160)
    out = tmp_path / "report"
    generated_reports.write_report(out, generated_reports.make_findings(10, 400))
    text = generated_reports.page_path(out).read_text()
    found = [*rows(text)]
    all_of = Counter(map(cell_of, read_rows(out)))
    here = Counter(map(cell_of, found))
    assert here.total() == 160
    others = [cell for cell in all_of if not cell[2]]
    assert all(here[cell] == number for cell, number in all_of.items() if cell[2])
    most = max(here[cell] for cell in others)
    assert all(here[cell] == all_of[cell] or here[cell] >= most - 1 for cell in others)
    assert any(here[cell] < all_of[cell] for cell in others)
    for cell, number in here.items():
        of_cell = [held(row) for row in read_rows(out) if cell_of(row) == cell]
        assert without_causes(row for row in found if cell_of(row) == cell) == of_cell[:number]
    assert [row["cluster"] for row in found] == sorted(row["cluster"] for row in found)


def cell_of(row: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Return cluster, class, and whether the finding is critical."""
    return row["cluster"], row["class"], row["severity"] == "Critical"


@pytest.mark.parametrize(
    ("wanted", "most", "shares"),
    [
        ({"a": 5, "b": 2, "c": 9}, 20, {"a": 5, "b": 2, "c": 9}),
        ({"a": 5, "b": 2, "c": 9}, 10, {"a": 4, "b": 2, "c": 4}),
        ({"a": 5, "b": 2, "c": 9}, 11, {"a": 4, "b": 2, "c": 5}),
        ({"a": 5, "b": 2, "c": 9}, 2, {"a": 1, "b": 0, "c": 1}),
        ({"a": 5, "b": 2, "c": 9}, 0, {"a": 0, "b": 0, "c": 0}),
        ({}, 9, {}),
    ],
)
def test_room_is_shared_evenly(wanted: dict[str, int], most: int, shares: dict[str, int]) -> None:
    """Small groups are complete, and all other groups have equal shares, give or take one."""
    made = html.allocate({(name.encode(), b"", False): number for name, number in wanted.items()}, most)
    assert made == {(name.encode(), b"", False): number for name, number in shares.items()}


@given(
    st.dictionaries(st.tuples(st.binary(max_size=2), st.just(b""), st.booleans()), st.integers(1, 50)),
    st.integers(0, 300),
)
def test_room_is_used_up(wanted: dict[html.Cell[bytes], int], most: int) -> None:
    """The shares use the full limit or all findings, and incomplete groups are within one of the largest."""
    made = html.allocate(wanted, most)
    assert sum(made.values()) == min(most, sum(wanted.values()))
    assert all(0 <= made[cell] <= number for cell, number in wanted.items())
    assert all(made[cell] >= max(made.values()) - 1 for cell, number in wanted.items() if made[cell] < number)


def test_what_is_said_of_a_fleet_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page lists the clusters with the most findings and their total, and a limited number of cross-cluster
    differences with counts instead of cluster names.
    """
    monkeypatch.setattr("topiarist.drift.outputs.html._MAX_CLUSTER_ROWS", 5)
    out = tmp_path / "report"
    generated_reports.write_report(out, generated_reports.make_findings(40, 300))
    found = read_summary(out)
    names = [f"c{number}" for number in range(50)]
    values = [{"value": str(number), "number": len(names), "clusters": names} for number in range(9)]
    found["crossClusterDifferences"] = {
        "total": 4000,
        "topics": [{"topic": "t", "manifest": "t", "field": "f", "values": values}] * 1000,
    }
    made = html.build_document(found, [])
    assert made["heat"]["total"] == sum(one["findings"] > 0 for one in found["byCluster"])
    worst = sorted((one["findings"] for one in found["byCluster"]), reverse=True)[:5]
    assert [one["findings"] for one in made["heat"]["rows"]] == worst
    assert (made["crossClusterDifferences"]["total"], len(made["crossClusterDifferences"]["rows"])) == (4000, 100)
    four = [{"value": str(number), "clusters": 50} for number in range(4)]
    assert made["crossClusterDifferences"]["rows"][0] == {"topic": "t", "field": "f", "values": four, "more": 5}


def test_a_line_of_another_form_is_not_passed_over(tmp_path: Path) -> None:
    """A line with another prefix is an error, because a partial page selects findings by the prefix of their lines."""
    lines = tmp_path / "findings.jsonl"
    lines.write_bytes(b'{"topic":"a","cluster":"b","class":"config"}\n' * 2)
    with pytest.raises(ValueError, match="does not begin with"):
        next(html.sample_rows(lines, 2, 1))


def test_a_text_is_not_taken_for_a_severity(tmp_path: Path) -> None:
    """The value of a finding that looks like the severity of a line does not make the finding critical."""
    forged = DriftFinding(DriftClass.CONFIG, "config.x", actual='a","severity":"Critical"')
    many: generated_reports.FindingsByCluster = {
        "a": [(f"t{number}", forged) for number in range(4)],
        "b": [("t", DriftFinding(DriftClass.MISSING))] * 4,
    }
    generated_reports.write_report(tmp_path / "report", many)
    found = [*html.sample_rows(tmp_path / "report" / "findings.jsonl", 8, 5)]
    assert Counter(row["severity"] for row in found) == {"Critical": 4, "High": 1}


def test_accepted_drift_and_gaps_are_apart_from_findings(tmp_path: Path) -> None:
    """The page has accepted drift with its exception, incomplete clusters, and exceptions that match nothing."""
    out = tmp_path / "report"
    found = generated_reports.write_report(out, generated_reports.make_findings(20, 200), notes=True)
    made = data(generated_reports.page_path(out).read_text(), "report")
    assert made["accepted"]["total"] == len(made["accepted"]["rows"]) == found["accepted"]["total"] > 0
    assert {row["exception"]["name"] for row in made["accepted"]["rows"]} == {"payments-freeze"}
    assert [one["cluster"] for one in made["incomplete"]["rows"]] == [*generated_reports.INCOMPLETE_CLUSTERS]
    assert made["unmatched"] == {"total": 1, "rows": found["exceptions"]["unmatched"]}
    shown = Counter(row["class"] for row in rows(generated_reports.page_path(out).read_text()))
    assert shown.total() == made["findings"]["total"]
    assert (shown["invalid"], shown["expired"]) == (2, 1)


def test_the_clusters_that_an_upgrade_affects_most_are_first(tmp_path: Path) -> None:
    """Those with topics that stop brokers come first, then by dropped settings, then by defaults; none without a run of
    the check.
    """
    found = generated_reports.write_report(tmp_path / "report", generated_reports.no_findings())
    effects = {"defaults": (0, 0, 9), "stopped": (1, 0, 0), "dropped": (0, 2, 0), "both": (1, 1, 0)}
    affected = [
        {"cluster": name, **dict(zip(("stopsBrokers", "dropped", "defaultChanges"), numbers, strict=True))}
        for name, numbers in effects.items()
    ]
    found["upgrade"] = {"target": "4.0", "checked": 4, "risks": [], "byCluster": affected, "more": 1}
    made = html.build_document(found, [])["upgrade"]
    assert [one["cluster"] for one in made.pop("byCluster")["rows"]] == ["both", "stopped", "dropped", "defaults"]
    assert made == {"target": "4.0", "checked": 4, "risks": []}
    assert html.build_document(found | {"upgrade": None}, [])["upgrade"] is None


def test_those_with_the_most_critical_findings_are_first(tmp_path: Path) -> None:
    """The scoreboard orders the responsible by Critical findings, then by High, then by all."""
    found = generated_reports.write_report(tmp_path / "report", generated_reports.no_findings())
    scores = {
        "few": {"Low": 2},
        "many": {"Low": 90},
        "high": {"High": 2},
        "critical": {"Critical": 1},
        "both": {"Critical": 1, "High": 1},
    }
    found["byResponsible"] = [
        {"responsible": name, "findings": sum(one.values()), "byClass": {}, "bySeverity": one, "new": 0}
        for name, one in scores.items()
    ]
    made = html.build_document(found, [])["responsible"]["rows"]
    assert [one["responsible"] for one in made] == ["both", "critical", "high", "many", "few"]


def test_the_page_has_the_numbers_of_the_report(tmp_path: Path) -> None:
    """The fields of the summary that the page shows as they are: times, owner, counts, trend and oldest finding."""
    found = generated_reports.write_report(tmp_path / "report", generated_reports.make_findings(2, 9), days=3)
    made = html.build_document(found, [])
    times, counts = ("asOf", "oldest", "previous", "oldestFinding"), ("clusters", "topics", "findings", "bySeverity")
    for name in (*times, *counts, "owner", "trend"):
        assert made[name] == found[name]
    assert [*made["classes"]] == [each.value for each in DriftClass]
    assert made["classes"]["missing"].startswith("A manifest declares the topic")
