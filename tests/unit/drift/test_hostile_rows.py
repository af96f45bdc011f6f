"""Hostile rows of every kind: each is named, and never becomes a finding; a pool of processes says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.drift.hostile_rows import HOSTILE_ROWS, HostileRow, cluster_name, write_hostile_fleet
from support.drift.runners import run_each
from support.drift.small_fleet import read_rows, read_summary, row_keys, run_drift


@pytest.mark.parametrize("kind", HOSTILE_ROWS)
def test_a_hostile_row_is_named_and_never_a_finding(kind: str, tmp_path: Path) -> None:
    """An invalid row is in ``broken.jsonl`` with its line and reason, and the exit code is 1; an odd row is in sync."""
    row = HOSTILE_ROWS[kind]
    manifests, _ = write_hostile_fleet(tmp_path, {kind: row})
    out = tmp_path / "report"
    assert run_drift(manifests, out, "-q", "--exit-code", "--jobs", "1") == bool(row.error)
    assert {key[2] for key in row_keys(read_rows(out))} <= {"unknown"}
    broken = read_rows(out, "broken.jsonl")
    assert bool(broken) == bool(row.error)
    if broken:
        assert row.error in broken[0]["message"]
        assert broken[0]["line"] == row.line
    else:
        assert read_summary(out)["topics"]["inSync"] == 3


def test_all_kinds_are_the_same_in_a_pool(tmp_path: Path) -> None:
    """A fleet of all kinds gives the same report, messages and exit code in one process and in two."""
    manifests, snapshots = write_hostile_fleet(tmp_path)
    reports = run_each(manifests, snapshots, tmp_path, {"one": ("--jobs", "1"), "two": ("--jobs", "2")})
    assert reports["one"] == reports["two"]
    assert reports["one"].code == 1
    incomplete = {entry["cluster"] for entry in read_summary(tmp_path / "one")["incomplete"]}
    assert incomplete == {cluster_name(kind) for kind, row in HOSTILE_ROWS.items() if _is_incomplete(row)}


def _is_incomplete(row: HostileRow) -> bool:
    """Return whether the first row of the snapshot is valid, and another part is not."""
    return bool(row.error) and (row.line > 0 or "rows" in row.error)
