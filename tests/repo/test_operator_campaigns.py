"""The figures of the campaigns on the operator: complete, without unknown alarms, and taken from a record only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from campaigns.patterns import Pattern
from campaigns.remaining import REMAINING
from campaigns.workloads import WORKLOADS
from support.checkout import ROOT

TOOL = ROOT / "tools" / "operator_campaigns.py"
RECORD = json.loads((ROOT / "docs" / "internals" / "operator-campaigns.json").read_text())


def test_the_record_is_complete() -> None:
    """The committed figures have all workloads, patterns and kinds; each alarm is one that is named."""
    assert RECORD["unknownAlarms"] == 0
    assert RECORD["workloads"] == [workload.name for workload in WORKLOADS]
    assert RECORD["patterns"].keys() == {pattern.value for pattern in Pattern}
    assert all(each["cases"] > 0 for each in RECORD["patterns"].values())
    assert RECORD["sequences"].keys() == {"topics", "clusters"}
    assert RECORD["remaining"].keys() == {*REMAINING.values()}
    assert sum(RECORD["remaining"].values()) == sum(each["alarms"] for each in RECORD["patterns"].values())


def test_a_record_with_unknown_alarms_is_not_taken(tmp_path: Path) -> None:
    """The tool says how many there are and leaves the figures unchanged."""
    record = tmp_path / "campaigns.json"
    record.write_text(json.dumps({**RECORD, "unknownAlarms": 2}))
    before = (ROOT / "docs" / "internals" / "operator-campaigns.json").read_bytes()
    done = subprocess.run([sys.executable, TOOL, record], capture_output=True, text=True, check=False)
    assert (done.returncode, "2 alarms" in done.stderr) == (1, True)
    assert (ROOT / "docs" / "internals" / "operator-campaigns.json").read_bytes() == before
