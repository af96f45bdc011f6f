"""The outcome of an apply as Markdown: what it names, what it leaves out, and that no text becomes markup."""

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
    """The line of a topic."""
    return {"row": "topic", "cluster": "shop", "topic": name, "result": result, "reason": reason, "message": message}


def report(*rows: dict[str, Any], errors: tuple[str, ...] = (), ended: bool = True) -> str:
    """A report with a header, these topics, and, unless it was cut off, a summary."""
    lines = [{"row": "header"}, *rows, *([{"row": "summary", "errors": [*errors]}] if ended else [])]
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_what_is_left_to_do_has_a_row_and_the_rest_a_name() -> None:
    """The rows stand open, the names are folded."""
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
    """Whether all was applied, by result; a report that was cut off, or never begun, is not taken for a whole one."""
    assert OUTCOME.outcome(text, code).splitlines()[1].startswith(f"### {words}")


@pytest.mark.parametrize(
    "message", ["`a` @team #1 <b> | x", "``", "two\nlines\x1b[0m", "a`", "<!-- topiarist plan -->"]
)
def test_no_text_becomes_markup(message: str) -> None:
    """A message is a code span of one line, in one cell, whatever it holds."""
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
    """Rows, then names, as far as they go; what is left out is counted."""
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
