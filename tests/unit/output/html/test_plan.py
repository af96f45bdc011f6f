"""The page of a plan without a browser: its rows, its data, its policy and its limits."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from support import plan_pages
from support.drift.generated_reports import HOSTILE_TEXTS
from topiarist.output.html import page, plan
from topiarist.output.html.plan_rows import KINDS, LEVELS, list_rows
from topiarist.output.text.layout import sanitize

ASSETS = Path(page.__file__).parent / "assets"
PIECES = re.compile(r"<(style|script)([^>]*)>(.*?)</\1>", re.DOTALL)


def data(text: str, name: str) -> Any:
    """Return the content of a data block of the page, parsed as its script parses it."""
    (found,) = (inner for _, attributes, inner in PIECES.findall(text) if f'id="{name}-data"' in attributes)
    assert not set("<>&") & set(found)
    return json.loads(found)


def rows(text: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a page, restored as its script restores them."""
    texts: list[str] = []

    def whole(value: Any) -> Any:
        if isinstance(value, str):
            texts.append(value)
        return texts[value] if type(value) is int else [whole(each) for each in value] if type(value) is list else value

    for short in data(text, "rows"):
        yield {name: whole(value) for name, value in zip(data(text, "plan")["columns"], short, strict=True)}


def test_every_change_refusal_and_notice_is_a_row_riskiest_first() -> None:
    """The page restores each row as it was listed, ordered by level, topic and cluster."""
    plans = plan_pages.make_plans()
    found = [*rows(plan.format_plans(plans, [], "/repo"))]
    listed = sorted((row for each in plans for row in list_rows(each, "/repo")), key=lambda row: row.sort_key())
    assert found == [json.loads(json.dumps(row._asdict())) for row in listed]
    ranks = [LEVELS.index(row["level"]) for row in found]
    assert ranks == sorted(ranks)
    changes = sum(
        len(topic.changes) + len(topic.refusals) + len(topic.notices) for each in plans for topic in each.topics
    )
    assert len(found) == changes
    assert {row["kind"] for row in found} <= set(KINDS)


def test_a_value_has_both_units_and_a_list_its_partition() -> None:
    """A config row has each key with units, risk and origin; a created topic has its replica lists."""
    by_topic: dict[str, Any] = {}
    for row in list_rows(plan_pages.make_plan(10), "/repo"):
        by_topic.setdefault(row.topic[-1], row)
    assert by_topic["3"].config[0][:4] == ["retention.ms", "86400000 (1 day)", "3600000 (1 hour)", "DataLoss"]
    assert by_topic["3"].config[0][4:] == ["messages older than 1 hour will be deleted", ""]
    assert by_topic["7"].config[0] == ["min.insync.replicas", "1", "2", "Safe", "", "from the cluster's defaults"]
    assert by_topic["7"].config[1][2] == "brokers' default"
    assert by_topic["0"].lists[0] == ["0", "", "[1, 2, 3]", ""]
    assert by_topic["0"].after[1:] == ["cleanup.policy = compact", "retention.ms = 604800000 (7 days)"]
    assert by_topic["2"].lists[0] == ["0", "[1, 2, 3]", "[2, 3, 4]", "Racks, Spread"]
    assert by_topic["5"].after == ["no topic, no messages"]
    assert (by_topic["9"].level, by_topic["9"].summary) == ("Refused", "held back: configure")
    assert by_topic["1"].place == "topics/shop.clicks.00001.yaml:9:15"


def test_the_same_plan_is_the_same_page() -> None:
    """The page is deterministic ASCII, without an address or a time."""
    one, two = (plan.format_plans(plan_pages.make_plans(), ["away"], "/repo") for _ in range(2))
    assert one == two
    assert one.isascii()


def test_hostile_text_stays_data_and_is_printable() -> None:
    """No text leaves its data block, and each is shown with visible control characters."""
    text = plan.format_plans([plan_pages.make_hostile_plan(HOSTILE_TEXTS)], HOSTILE_TEXTS, "/repo")
    assert len(re.findall(r"<script\b", text)) == len(re.findall(r"</script\b", text)) == 3
    assert {row["topic"] for row in rows(text)} == set(map(sanitize, HOSTILE_TEXTS))
    assert data(text, "plan")["failed"]["rows"] == [sanitize(each) for each in HOSTILE_TEXTS]


def test_the_policy_allows_only_its_script_and_style() -> None:
    """The policy has the hashes of the one script and the one style, and no other source."""
    text = plan.format_plans([], [], "/repo")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    ran = {kind: inner for kind, attributes, inner in PIECES.findall(text) if not attributes}
    sums = {kind: f"'sha256-{b64encode(sha256(inner.encode()).digest()).decode()}'" for kind, inner in ran.items()}
    assert policy.split("; ")[:3] == [
        "default-src 'none'",
        f"script-src {sums['script']}",
        f"style-src {sums['style']}",
    ]


def test_the_script_reads_only_names_that_its_data_has() -> None:
    """A missing name would omit content without an error."""
    text = plan.format_plans(plan_pages.make_plans(), ["away"], "/repo")
    found = data(text, "plan")
    script = "".join(path.read_text() for path in ASSETS.glob("plan-*.js"))
    assert set(re.findall(r"\bplan\.(\w+)", script)) <= {*found, "columns"}
    assert set(re.findall(r"\brow\.(\w+)", script)) <= {*found["columns"], "at", "searched"}
    assert set(re.findall(r"\bcluster\.(\w+)", script)) <= set(found["clusters"]["rows"][0])


def test_a_plan_with_too_many_rows_and_lists_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The riskiest rows are in the page, all are counted; the lists of one change are limited and counted."""
    monkeypatch.setattr(plan, "MAX_ROWS", 5)
    monkeypatch.setattr("topiarist.output.html.plan_rows._MAX_LISTS", 2)
    text = plan.format_plans([plan_pages.make_plan(20)], [], "/repo")
    found = data(text, "plan")
    assert ([row["level"] for row in rows(text)], found["total"]) == (["DataLoss"] * 3 + ["Refused"] * 2, 23)
    assert sum(found["levels"].values()) == 23
    grown = next(row for row in list_rows(plan_pages.make_plan(2), "/repo") if row.kind == "grow")
    assert (len(grown.lists), grown.more) == (2, "and 4 other partitions")


def test_loads_add_up_over_racks() -> None:
    """The sums of racks are those of their brokers; a plan that places nothing has no load."""
    (cluster,) = plan.build_document([plan_pages.make_plan(40)], [], [])["clusters"]["rows"]
    assert [sum(column) for column in zip(*(one["load"] for one in cluster["racks"]), strict=True)] == [
        sum(column) for column in zip(*(one["load"] for one in cluster["loads"]["rows"]), strict=True)
    ]
    assert sum(one["brokers"] for one in cluster["racks"]) == 6
    (idle,) = plan.build_document(plan_pages.make_plans()[2:], [], [])["clusters"]["rows"]
    assert (idle["loads"], idle["racks"]) == ({"total": 0, "rows": []}, [])
