"""The findings that an HTML page shows: all of them, or a sample per cluster and class.

``drift.outputs.html`` calls it. A browser cannot open a page of a million findings. Rare combinations of cluster and
class are shown completely, and the rest is limited evenly, so that each combination has at least one example as long as
there is room.
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
    "explanation",
    "reasons",
    "message",
    "hint",
    "owner",
    "changedOutside",
    "takenAt",
    "firstSeen",
    "status",
)
"""Fields of a finding in a page, in this order; the page computes the age from the times."""

ClusterClass = tuple[bytes, bytes]
"""Cluster and class as JSON text, as in a line of ``findings.jsonl``."""

_CLUSTER_CLASS = re.compile(rb'\{"cluster":("(?:[^"\\]|\\.)*"),"topic":"(?:[^"\\]|\\.)*","class":("[A-Za-z]+"),')

_MAX_TEXT_LENGTH = 1000
"""Number of characters of a text; a config value may have a million."""


def sample_rows(lines: Iterable[bytes], by_cluster: Sequence[Mapping[str, Any]], max_rows: int) -> Iterator[FindingRow]:
    """Yield the rows of a page in the order of ``lines``: the first rows of each cluster and class.

    ``by_cluster`` has the clusters of the summary. Only selected lines are parsed as JSON. Raises ``ValueError`` for a
    line that does not begin with cluster, topic and class.
    """
    remaining = allocate(
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
        if remaining[cell]:
            remaining[cell] -= 1
            yield json.loads(line)


def _encode_text(text: str) -> bytes:
    return json.dumps(text).encode()


def allocate(counts: Mapping[ClusterClass, int], max_rows: int) -> dict[ClusterClass, int]:
    """Return the number of rows for each cluster and class; the sum is at most ``max_rows``.

    Small counts are taken completely, and the other entries share the rest evenly.
    """
    ordered = sorted(counts, key=lambda cell: (counts[cell], cell))
    allocation: dict[ClusterClass, int] = {}
    for index, cell in enumerate(ordered):
        allocation[cell] = min(counts[cell], max_rows // (len(ordered) - index))
        max_rows -= allocation[cell]
    return allocation


class StringTable:
    """An encoder of rows as lists of ``COLUMNS`` that replaces a repeated text with its index.

    Indexes count distinct texts from 0 in order of first use.
    """

    def __init__(self) -> None:
        self._indexes: dict[str, int] = {}

    def encode_row(self, row: FindingRow) -> list[str | int | bool | None]:
        """Return one row as a list."""
        return [self._encode_value(row[name]) for name in COLUMNS]

    def _encode_value(self, value: Any) -> str | int | bool | None:
        if value is None or isinstance(value, bool):
            return value
        text = ", ".join(value) if isinstance(value, list) else value
        # Look up the raw text first: nearly every text is printable and repeated, and sanitizing is slower.
        if (index := self._indexes.get(text)) is not None:
            return index
        text = sanitize_text(text)
        if (index := self._indexes.get(text)) is None:
            self._indexes[text] = len(self._indexes)
            return text
        return index


def sanitize_text(text: str) -> str:
    """Return ``text`` with unprintable characters made visible, cut to 1,000 characters.

    Unprintable characters include direction marks.
    """
    text = sanitize(text[: _MAX_TEXT_LENGTH + 1])
    return text if len(text) <= _MAX_TEXT_LENGTH else f"{text[: _MAX_TEXT_LENGTH - 3]}..."


def sample_file(
    path: Path, by_cluster: Sequence[Mapping[str, Any]], max_rows: int
) -> Iterator[list[str | int | bool | None]]:
    """Yield the encoded rows of a page from ``findings.jsonl``, reading one line at a time."""
    texts = StringTable()
    with path.open("rb") as file:
        for row in sample_rows(file, by_cluster, max_rows):
            yield texts.encode_row(row)
