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

from topiarist.drift.rows import FindingRow
from topiarist.output.text.layout import sanitize

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

ClusterClass = tuple[bytes, bytes]
"""Cluster and class, as they stand in a line of ``findings.jsonl``."""

_CLUSTER_CLASS = re.compile(rb'\{"cluster":("(?:[^"\\]|\\.)*"),"topic":"(?:[^"\\]|\\.)*","class":("[A-Za-z]+"),')

_MAX_TEXT_LENGTH = 1000
"""Characters of a text; a config value may have a million."""


def sample_rows(lines: Iterable[bytes], by_cluster: Sequence[Mapping[str, Any]], max_rows: int) -> Iterator[FindingRow]:
    """The rows of a page in the order of ``lines``, of each cluster and class the first ones.

    ``by_cluster`` are the clusters of the summary. Only what is chosen is read as JSON.
    """
    left = allocate(
        {
            (_encode_text(one["cluster"]), _encode_text(kind)): n
            for one in by_cluster
            for kind, n in one["byClass"].items()
        },
        max_rows,
    )
    for line in lines:
        match = _CLUSTER_CLASS.match(line)
        if match is None:
            raise ValueError("a line of findings does not begin with cluster, topic and class")
        cell = (match[1], match[2])
        if left[cell]:
            left[cell] -= 1
            yield json.loads(line)


def _encode_text(text: str) -> bytes:
    return json.dumps(text).encode()


def allocate(counts: Mapping[ClusterClass, int], max_rows: int) -> dict[ClusterClass, int]:
    """How many of each: all of what is small, the same number of all else; together all, or ``max_rows``."""
    ordered = sorted(counts, key=lambda cell: (counts[cell], cell))
    made: dict[ClusterClass, int] = {}
    for done, cell in enumerate(ordered):
        made[cell] = min(counts[cell], max_rows // (len(ordered) - done))
        max_rows -= made[cell]
    return made


class StringTable:
    """Rows as lists of ``COLUMNS``, in which a text that was there before is its number, from 0 in order of coming."""

    def __init__(self) -> None:
        self._indexes: dict[str, int] = {}

    def encode_row(self, row: FindingRow) -> list[str | int | bool | None]:
        """One row."""
        return [self._encode_value(row[name]) for name in COLUMNS]

    def _encode_value(self, value: Any) -> str | int | bool | None:
        if value is None or isinstance(value, bool):
            return value
        text = ", ".join(value) if isinstance(value, list) else value
        # Nearly every text is as it is shown, and was there before.
        if (at := self._indexes.get(text)) is not None:
            return at
        text = sanitize_text(text)
        if (at := self._indexes.get(text)) is None:
            self._indexes[text] = len(self._indexes)
            return text
        return at


def sanitize_text(text: str) -> str:
    """``text`` with everything shown that does not print, as direction marks; cut if it is very long."""
    text = sanitize(text[: _MAX_TEXT_LENGTH + 1])
    return text if len(text) <= _MAX_TEXT_LENGTH else f"{text[: _MAX_TEXT_LENGTH - 3]}..."


def sample_file(
    path: Path, by_cluster: Sequence[Mapping[str, Any]], max_rows: int
) -> Iterator[list[str | int | bool | None]]:
    """The rows of a page, made short, from a report's ``findings.jsonl``; no more than one is read at a time."""
    texts = StringTable()
    with path.open("rb") as file:
        for row in sample_rows(file, by_cluster, max_rows):
            yield texts.encode_row(row)
