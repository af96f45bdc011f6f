"""The report before this one: since when a finding is known, which have gone, and how many there were each time.

A finding of a cluster that cannot be compared now is neither gone nor there: it is kept in ``unseen.jsonl``, so that
the next report still knows since when it is known.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topiarist import schema
from topiarist.adapters.snapshot import time_of
from topiarist.adapters.textfiles import read
from topiarist.core.discrepancy import Kind
from topiarist.core.values import shown
from topiarist.drift.findings import STANDING, Identity, Row, identity
from topiarist.errors import Reason, TopiaristError

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator

FINDINGS, UNSEEN, SUMMARY = "findings.jsonl", "unseen.jsonl", "summary.json"

MOST_REPORTS = 400
"""Reports that a trend has: more than a year of days."""


@dataclass(slots=True)
class Previous:
    """The findings of an earlier report by cluster; empty if there is none. ``settle`` is called once a cluster."""

    as_of: str | None = None
    trend: list[dict[str, Any]] = field(default_factory=list)
    rows: dict[str, dict[Identity, Row]] = field(default_factory=dict)
    resolved: int = 0
    unseen: list[Row] = field(default_factory=list)

    @property
    def dropped(self) -> int:
        """Findings on clusters that were not asked for."""
        return sum(map(len, self.rows.values()))

    def settle(self, cluster: str, found: Collection[Row]) -> None:
        """Give the findings of a cluster their first time, and settle what the earlier report had beyond them."""
        before = self.rows.pop(cluster, {})
        for row in found:
            if old := before.pop(identity(row), None):
                # A snapshot that is older than that of the report before is no reason to be younger than nothing.
                row["firstSeen"] = min(old["firstSeen"], row["takenAt"])
                row["ageSeconds"] = _seconds(row["firstSeen"], row["takenAt"])
                row["status"] = STANDING
        blind = {row["topic"] for row in found if row["class"] == Kind.UNKNOWN.value}
        for old in before.values():
            if "" in blind or old["topic"] in blind:
                self.unseen.append(old)
            else:
                self.resolved += 1


def load(folder: str) -> Previous:
    """The report in ``folder``. Raises ``Unreadable`` if there is none, or if it is not whole."""
    where = Path(folder)
    summary = _json(where / SUMMARY, read(str(where / SUMMARY)), "summary")
    rows: defaultdict[str, dict[Identity, Row]] = defaultdict(dict)
    for name in (UNSEEN, FINDINGS):  # what is seen counts, should both have it
        for row in _rows(where / name):
            rows[row["cluster"]][identity(row)] = row
    return Previous(summary["asOf"], summary["trend"], dict(rows))


def _rows(path: Path) -> Iterator[Row]:
    for number, line in enumerate(read(str(path)).splitlines(), start=1):
        yield _json(path, line, "finding", f":{number}")


def _json(path: Path, data: bytes, kind: str, at: str = "") -> dict[str, Any]:
    """A part of a report, by its schema. Raises ``Unreadable``."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not _is_valid(kind, value):
        message = f"{shown(str(path), 4096)}{at}: found no {kind} of a drift report"
        raise TopiaristError(Reason.UNREADABLE, message, "give --previous the folder that an earlier run wrote")
    return value


def _is_valid(kind: str, value: dict[str, Any]) -> bool:
    try:
        return _validator(kind).is_valid(value)
    except ValueError:  # a number that is out of all bounds, or text that is no Unicode
        return False


@cache
def _validator(kind: str) -> Draft7Validator:
    """By one definition of the schema: jsonschema-rs would not say which of several choices was meant."""
    from jsonschema_rs import Draft7Validator

    definitions = schema.schema("drift")["definitions"]
    return Draft7Validator({**definitions[kind], "definitions": definitions})


def trend(before: Iterable[dict[str, Any]], now: dict[str, Any]) -> list[dict[str, Any]]:
    """The earlier reports and this one; one of the same moment is replaced, so that a second run changes nothing."""
    return [*(one for one in before if one["asOf"] < now["asOf"]), now][-MOST_REPORTS:]


def _seconds(first: str, last: str) -> int:
    return int((time_of(last) - time_of(first)).total_seconds())
