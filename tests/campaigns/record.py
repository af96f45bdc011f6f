"""The figures of a campaign as a file, from which ``tools/operator_campaigns.py`` makes the tables of a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def write_record(figures: Mapping[str, Any], seconds: float, paths: Iterable[str]) -> None:
    """Print the figures with the date and the seconds that the campaign took, and write them to each file."""
    record = {"date": datetime.now(UTC).date().isoformat(), "seconds": round(seconds), **figures}
    text = json.dumps(record, indent=2) + "\n"
    for path in map(Path, paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(text, end="")
