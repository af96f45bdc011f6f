"""Generator of ``manifests/monitoring/``: the alert rules and the dashboard of drift reports without the chart.

The chart's files are the source. A rule file of Prometheus has groups, and no place for the labels that a release
selects. ``generate.py`` calls ``build_files``.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "charts" / "topiarist" / "files"
TARGET = ROOT / "manifests" / "monitoring"

_HEAD = """\
# Made by tools/generate.py from charts/topiarist/files/drift-alerts.yaml; to change it, change that and run:
# make generate
# Alert rules for the metrics of drift reports (metrics.prom), for rule_files of Prometheus. docs/alerts.md has the
# response to each alert.
groups:
  - name: topiarist-drift
    rules:
"""


def build_files() -> dict[Path, str]:
    """Return the files with their text."""
    return {
        TARGET / "drift-alerts.yaml": rule_file((SOURCES / "drift-alerts.yaml").read_text(encoding="utf-8")),
        TARGET / "drift-dashboard.json": (SOURCES / "drift-dashboard.json").read_text(encoding="utf-8"),
    }


def rule_file(text: str) -> str:
    """Return the chart's rules as a rule file that selects the metrics of all reports."""
    _, _, rules = text.partition("\nrules:\n")
    return _HEAD + textwrap.indent(rules.replace(",$DRIFT", "").replace("{$DRIFT}", ""), " " * 4)
