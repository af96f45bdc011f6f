"""The SQL queries of ``docs/drift/history.sql``, a history for them, and their answers over this history."""

from __future__ import annotations

import json
import re
from pathlib import Path

from support.checkout import ROOT
from support.drift.small_fleet import (
    cluster_state,
    owned_topic,
    run_drift,
    topic_document,
    write_manifests,
    write_snapshot,
)

QUERIES = ROOT / "docs" / "drift" / "history.sql"
REFERENCE = ROOT / "docs" / "drift-reference.md"

_HOURS_OF_DAY = 24

_RUNS = {
    0: "eu:orders us:users",
    10: "eu:orders us:users",
    20: "eu:orders",
    25: "eu:orders us:users",
    45: "eu:orders -us",
}
"""The missing topics by day, from 31 January 2025; in the last run ``us`` has no snapshot."""

ANSWERS: dict[str, list[tuple[object, ...]]] = {
    "old": [("shop", 1, 45.0)],
    "repair": [("missing", 2025, 2, 1, 480.0)],
    "flapping": [("us", "users", "missing", "", 2)],
    "slo": [
        *(("shop", year, month, share) for year, month, share in ((2025, 1, 50.0), (2025, 2, 50.0), (2025, 3, 0.0))),
        *(
            ("web", year, month, share)
            for year, month, share in ((2025, 1, 50.0), (2025, 2, 200 / 3), (2025, 3, 100.0))
        ),
    ],
    "unjudged": [
        *((day, 0.0) for day in ("2025-01-31", "2025-02-10", "2025-02-20", "2025-02-25")),
        ("2025-03-17", 50.0),
    ],
}
"""The rows of each query."""


def read_queries() -> dict[str, str]:
    """Return the queries of the file by name, without the semicolon."""
    return dict(re.findall(r"-- query: (\w+)\n(.*?);", QUERIES.read_text(), re.DOTALL))


def read_views(tool: str) -> str:
    """Return the statements of the reference that open a history in a tool."""
    (found,) = re.findall(rf"<!-- views for {tool} -->\n```sql\n(.*?)```", REFERENCE.read_text(), re.DOTALL)
    return str(found)


def write_history(folder: Path, *last_words: str) -> None:
    """Write the folder ``history`` by real runs over two clusters and two topics, each of one team.

    ``last_words`` are further options of the last run.
    """
    teams, both = {"orders": "shop", "users": "web"}, ["eu", "us"]
    topics = [json.loads(topic_document(name, both)) for name in teams]
    for topic in topics:
        topic["metadata"]["labels"] = {"team": teams[topic["metadata"]["name"]]}
    manifests = write_manifests(folder / "manifests", both, *map(json.dumps, topics))
    for day, drifted in _RUNS.items():
        for name in both:
            present = [owned_topic(topic) for topic in teams if f"{name}:{topic}" not in drifted.split()]
            path = write_snapshot(folder / "snapshots", name, cluster_state(name, *present), hours=day * _HOURS_OF_DAY)
            if f"-{name}" in drifted.split():
                path.unlink()
        words = ["--history", str(folder / "history"), "--owner-label", "team"]
        run_drift(manifests, folder / "report", "-q", *words, *(last_words if day == max(_RUNS) else ()))
