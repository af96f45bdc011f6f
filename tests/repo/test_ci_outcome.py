"""The outcome of an apply as Markdown: its rows, its omissions, and the escaping of all text."""

from __future__ import annotations

import importlib.util
import json
import re
from typing import Any

import pytest

from support.checkout import ROOT

SPEC = importlib.util.spec_from_file_location("outcome", ROOT / "tools" / "ci" / "outcome.py")
assert SPEC is not None
assert SPEC.loader is not None
OUTCOME = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(OUTCOME)


def topic(name: str, result: str = "done", reason: str | None = None, message: str = "") -> dict[str, Any]:
    """Return the line of a topic."""
    return {"row": "topic", "cluster": "shop", "topic": name, "result": result, "reason": reason, "message": message}


def report(*rows: dict[str, Any], errors: tuple[str, ...] = (), ended: bool = True) -> str:
    """Return a report with a header, these topics, and a summary unless the report is truncated."""
    lines = [{"row": "header"}, *rows, *([{"row": "summary", "errors": [*errors]}] if ended else [])]
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_what_is_left_to_do_has_a_row_and_the_rest_a_name() -> None:
    """Unfinished topics have visible rows, and the names of all other topics are folded."""
    found = report(topic("a"), topic("b", "refused", "DataLoss", "retention.ms is lowered"), topic("c", "unchanged"))
    assert OUTCOME.outcome(found, "4").splitlines() == [
        "<!-- topiarist apply -->",
        "### Not all applied: 1 done, 1 refused, 1 unchanged.",
        "",
        "| topic | cluster | result | reason | message |",
        "| --- | --- | --- | --- | --- |",
        "| `b` | `shop` | `refused` | `DataLoss` | `retention.ms is lowered` |",
        "",
        "<details><summary>Topics that are as declared</summary>",
        "",
        "- `a` `shop`",
        "- `c` `shop`",
        "",
        "</details>",
    ]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (report(topic("a")), "0", "Applied: 1 done."),
        (report(), "0", "Applied: nothing to do."),
        (
            report(topic("a"), errors=("SessionLost",)),
            "1",
            "Not all applied: 1 done. topiarist ended with 1; see the log",
        ),
        (
            report(topic("a"), ended=False) + '{"row": "top',
            "143",
            "Interrupted, or not started: 1 done. topiarist ended with 143",
        ),
        ("", "2", "Interrupted, or not started: no topic. topiarist ended with 2"),
    ],
)
def test_the_title_says_how_it_ended(text: str, code: str, words: str) -> None:
    """The title gives the result; a truncated or missing report does not count as complete."""
    assert OUTCOME.outcome(text, code).splitlines()[1].startswith(f"### {words}")


@pytest.mark.parametrize(
    "message", ["`a` @team #1 <b> | x", "``", "two\nlines\x1b[0m", "a`", "<!-- topiarist plan -->"]
)
def test_no_text_becomes_markup(message: str) -> None:
    """Any message becomes a code span of one line in one cell."""
    lines = OUTCOME.outcome(report(topic("a", "failed", "Unwritable", message)), "1").splitlines()
    (row,) = [line for line in lines if line.startswith("| `a`")]
    cells = row.replace("\\|", "").split("|")
    assert len(cells) == 7
    span = cells[5].strip()
    fence = span[: len(span) - len(span.lstrip("`"))]
    assert fence
    assert span.endswith(fence)
    assert fence not in span[len(fence) : -len(fence)].strip()
    assert span.isprintable()


def test_there_is_room_for_it_under_a_pull_request() -> None:
    """The comment has rows and then names up to the size limit, and the count of the omitted topics."""
    refused = [topic(f"r{number}", "refused", "DataLoss", "é" * 400) for number in range(100)]
    done = [topic(f"d{number}") for number in range(9000)]
    for rows, words in (
        (refused, "more unfinished topics"),
        (done, "more: see the report"),
        (refused + done, ""),
    ):
        text = OUTCOME.outcome(report(*rows), "4")
        assert len(text.encode()) < 65_536
        assert words in text
        named = re.findall(r"^(?:[|]|-) `[rd][0-9]+`", text, re.MULTILINE)
        left = re.findall(r"([0-9]+) more", text)
        assert len(named) + sum(map(int, left)) == len(rows)
