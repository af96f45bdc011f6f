"""The summary of a real drift report, with every field that an output may use."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from topiarist.cli.main import run

FIELDS_OF_ROWS: dict[str, Any] = {
    "bySeverity": {"Critical": 3, "High": 5, "Low": 7},
    "byResponsible": [
        {
            "responsible": "billing",
            "findings": 9,
            "byClass": {},
            "bySeverity": {"Critical": 3, "Low": 6},
            "new": 2,
            "worse": 0,
        },
        {"responsible": None, "findings": 6, "byClass": {}, "bySeverity": {"High": 5, "Low": 1}, "new": 0, "worse": 1},
    ],
    "accepted": {"total": 4, "byClass": {"unmanaged": 3, "spread": 1}},
    "incomplete": [
        {"cluster": "eu", "file": "eu.jsonl", "rows": 2, "message": "2 invalid rows"},
        {"cluster": "eu", "file": "eu.parquet", "rows": 1, "message": "1 invalid row"},
    ],
    "oldestFinding": {"firstSeen": "2026-01-01T00:00:00Z", "cluster": "eu", "topic": "orders", "class": "config"},
}
"""Fields that the rows of findings decide, with numbers that no two fields share by accident."""


def full_summary() -> dict[str, Any]:
    """Return the summary of the demo's report with the fields above."""
    with TemporaryDirectory() as folder:
        assert run(["drift", "--demo", f"{folder}/fleet", "-q"]) == 1
        summary: dict[str, Any] = json.loads(Path(folder, "fleet", "report", "summary.json").read_text())
    return summary | FIELDS_OF_ROWS
