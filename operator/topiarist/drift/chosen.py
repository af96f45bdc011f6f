"""Which findings a page holds: all, or as many of each cluster and class as there is room for.

A page of a million findings would open in no browser. What is rare is held whole, and the rest is cut evenly: whatever
a report counts has at least an example in the page, as long as there is room for one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from topiarist.drift.findings import Row
from topiarist.render.page import plain

COLUMNS = (
    "cluster",
    "topic",
    "class",
    "field",
    "expected",
    "actual",
    "planned",
    "risk",
    "because",
    "reasons",
    "message",
    "instead",
    "owner",
    "changedOutside",
    "takenAt",
    "firstSeen",
    "status",
)
"""The fields of a finding that a page holds, in this order; the age follows from the times."""

Cell = tuple[bytes, bytes]
"""Cluster and class, as they stand in a line of ``findings.jsonl``."""

_CELL = re.compile(rb'\{"cluster":("(?:[^"\\]|\\.)*"),"topic":"(?:[^"\\]|\\.)*","class":("[A-Za-z]+"),')

_LONGEST = 1000
"""Characters of a text; a config value may have a million."""


def choose(lines: Iterable[bytes], by_cluster: Sequence[Mapping[str, Any]], most: int) -> Iterator[Row]:
    """The rows of a page in the order of ``lines``, of each cluster and class the first ones.

    ``by_cluster`` are the clusters of the summary. Only what is chosen is read as JSON.
    """
    left = shares(
        {(_word(one["cluster"]), _word(kind)): n for one in by_cluster for kind, n in one["byClass"].items()}, most
    )
    for line in lines:
        match = _CELL.match(line)
        if match is None:
            raise ValueError("a line of findings does not begin with cluster, topic and class")
        cell = (match[1], match[2])
        if left[cell]:
            left[cell] -= 1
            yield json.loads(line)


def _word(text: str) -> bytes:
    return json.dumps(text).encode()


def shares(wanted: Mapping[Cell, int], most: int) -> dict[Cell, int]:
    """How many of each: all of what is small, the same number of all else; together all, or ``most``."""
    ordered = sorted(wanted, key=lambda cell: (wanted[cell], cell))
    made: dict[Cell, int] = {}
    for done, cell in enumerate(ordered):
        made[cell] = min(wanted[cell], most // (len(ordered) - done))
        most -= made[cell]
    return made


class Texts:
    """Rows as lists of ``COLUMNS``, in which a text that was there before is its number, from 0 in order of coming."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def listed(self, row: Row) -> list[str | int | bool | None]:
        """One row."""
        return [self._short(row[name]) for name in COLUMNS]

    def _short(self, value: Any) -> str | int | bool | None:
        if value is None or isinstance(value, bool):
            return value
        text = ", ".join(value) if isinstance(value, list) else value
        # Nearly every text is as it is shown, and was there before.
        if (at := self._known.get(text)) is not None:
            return at
        text = visible(text)
        if (at := self._known.get(text)) is None:
            self._known[text] = len(self._known)
            return text
        return at


def visible(text: str) -> str:
    """``text`` with everything shown that does not print, as direction marks; cut if it is very long."""
    text = plain(text[: _LONGEST + 1])
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def of_file(path: Path, by_cluster: Sequence[Mapping[str, Any]], most: int) -> Iterator[list[str | int | bool | None]]:
    """The rows of a page, made short, from a report's ``findings.jsonl``; no more than one is read at a time."""
    texts = Texts()
    with path.open("rb") as file:
        for row in choose(file, by_cluster, most):
            yield texts.listed(row)
