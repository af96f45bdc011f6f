"""The outcome of an apply as Markdown, for the summary of the CI run and for the pull request.

Run as ``outcome.py REPORT CODE``: the report of ``topiarist apply --report``, and its exit code. A run without a
report, or with an incomplete one, has an outcome too. The report holds no addresses; the errors of clusters are in the
log, which fewer people may read. Uses only the standard library.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

MARKER = "<!-- topiarist apply -->"

MAX_BYTES = 60_000
"""Maximum bytes of the text.

GitHub accepts 65,536 characters for a comment, and this leaves room for a key in the marker.
"""

MAX_MESSAGE_CHARACTERS = 500
"""Maximum characters of one message."""

SUCCESS_RESULTS = ("done", "unchanged")
"""Results that leave nothing to do."""

EXPLAINED_EXIT_CODES = ("4", "5")
"""Exit codes that the rows of the topics explain: a refusal, or a conflict."""

Row = dict[str, Any]


def parse_rows(text: str) -> Iterator[Row]:
    """Yield the lines of a report; skip a line that is cut off."""
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def code_span(text: object) -> str:
    """Return text as a code span in a table: no mention, no link, no other markup, one line."""
    plain = "".join(character if character.isprintable() else " " for character in str(text))
    plain = " ".join(plain.split())
    if len(plain) > MAX_MESSAGE_CHARACTERS:
        plain = f"{plain[:MAX_MESSAGE_CHARACTERS]} ..."
    longest = max((len(run) for run in re.findall("`+", plain)), default=0)
    fence = "`" * (longest + 1)
    space = " " if plain[:1] == "`" or plain[-1:] == "`" else ""
    return f"{fence}{space}{plain}{space}{fence}".replace("|", "\\|") if plain else ""


def title(summary: Row | None, topics: Sequence[Row], exit_code: str) -> str:
    """Return the title: the number of topics by result, and how the run ended."""
    counts: dict[str, int] = {}
    for topic in topics:
        counts[str(topic.get("result"))] = counts.get(str(topic.get("result")), 0) + 1
    counts_text = ", ".join(f"{number} {result}" for result, number in counts.items())
    log = f"topiarist ended with {exit_code}; see the log of the run."
    if summary is None:
        return f"### Interrupted, or not started: {counts_text or 'no topic'}. {log}"
    if exit_code == "0":
        return f"### Applied: {counts_text or 'nothing to do'}."
    return f"### Not all applied: {counts_text or 'no topic'}." + (
        "" if exit_code in EXPLAINED_EXIT_CODES else f" {log}"
    )


def table(topics: Iterable[Row]) -> list[str]:
    """Return one table row for each topic: result, reason and message."""
    return [
        f"| {code_span(topic.get('topic'))} | {code_span(topic.get('cluster') or '')} "
        f"| {code_span(topic.get('result'))} | {code_span(topic.get('reason') or '')} "
        f"| {code_span(topic.get('message') or '')} |"
        for topic in topics
    ]


def outcome(text: str, exit_code: str) -> str:
    """Return the Markdown: unfinished topics as rows, finished topics by name as far as there is room."""
    found = list(parse_rows(text))
    topics = [row for row in found if row.get("row") == "topic"]
    summary = next((row for row in found if row.get("row") == "summary"), None)
    left = [topic for topic in topics if topic.get("result") not in SUCCESS_RESULTS]
    done = [topic for topic in topics if topic.get("result") in SUCCESS_RESULTS]
    lines = [MARKER, title(summary, topics, exit_code), ""]
    room = MAX_BYTES - sum(len(line.encode()) + 1 for line in lines) - 500
    if left:
        head = ["| topic | cluster | result | reason | message |", "| --- | --- | --- | --- | --- |"]
        kept = fit_lines(table(left), room)
        room -= sum(len(line.encode()) + 1 for line in kept)
        lines += [*head, *kept, ""]
        if len(kept) < len(left):
            lines += [f"{len(left) - len(kept)} more unfinished topics: see the report of the run.", ""]
    if done:
        names = fit_lines(
            [f"- {code_span(topic.get('topic'))} {code_span(topic.get('cluster') or '')}".rstrip() for topic in done],
            room,
        )
        more = [f"- and {len(done) - len(names)} more: see the report of the run"] if len(names) < len(done) else []
        lines += ["<details><summary>Topics that are as declared</summary>", "", *names, *more, "", "</details>", ""]
    return "\n".join(lines)


def fit_lines(lines: Sequence[str], max_bytes: int) -> list[str]:
    """Return the first lines that fit into ``max_bytes``, line ends included."""
    kept = []
    for line in lines:
        max_bytes -= len(line.encode()) + 1
        if max_bytes < 0:
            break
        kept.append(line)
    return kept


def main(report: str, exit_code: str) -> None:
    """Print the outcome."""
    path = Path(report)
    print(outcome(path.read_text(encoding="utf-8") if path.exists() else "", exit_code), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
