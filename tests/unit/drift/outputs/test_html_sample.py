"""A fleet with drift of every kind, the counts of which are known: a report finds exactly that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from support.drift import drifted_fleet, skewed_fleet
from support.drift.small_fleet import read_rows, read_summary, row_keys
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot, load_snapshot
from topiarist.cli.main import run
from topiarist.drift.findings import DriftClass


def test_a_report_finds_what_was_made_to_differ_and_nothing_else(tmp_path: Path) -> None:
    """Every class there is; what means the same, lacks only a record or has been touched is no finding."""
    sample = drifted_fleet.make_fleet(tmp_path, clusters=9, topics=50, per_kind=4)
    out = tmp_path / "report"
    words = ["drift", str(sample.manifests), "--snapshots", str(sample.snapshots), "--out", str(out), "-q"]
    assert run(words) == 1  # one of the clusters has no snapshot
    found = row_keys(read_rows(out))
    assert len(found) == len(set(found))
    assert set(found) == sample.expected
    assert {row[2] for row in found} == {kind.value for kind in DriftClass}
    assert read_summary(out)["findings"]["byClass"] == Counter(row[2] for row in found)
    assert read_summary(out)["topics"]["missingRecord"] == 4
    assert read_summary(out)["topics"]["ignored"] == 4


def test_two_makings_are_equal(tmp_path: Path) -> None:
    """To the byte; a fleet that has no room for its drift is not made."""
    one, two = (drifted_fleet.make_fleet(tmp_path / name, clusters=5, topics=100, per_kind=4) for name in ("a", "b"))
    assert one.expected == two.expected
    for path in one.snapshots.iterdir():
        assert path.read_bytes() == (two.snapshots / path.name).read_bytes()
    with pytest.raises(ValueError, match="no room"):
        drifted_fleet.make_fleet(tmp_path / "c", clusters=5, topics=50, per_kind=4)


def test_a_line_is_what_a_snapshot_has(tmp_path: Path) -> None:
    """Lines are written without a state, and are the same to the byte."""
    for topic in range(100):
        _, row = dump_snapshot(
            Snapshot(
                drifted_fleet.cluster_name(3),
                drifted_fleet.SNAPSHOT_TIME,
                drifted_fleet.cluster_state(3, [drifted_fleet.matching_topic(3, topic)]),
            )
        )
        assert drifted_fleet.snapshot_line(3, topic) == row
    drifted_fleet.make_fleet(tmp_path, clusters=3, topics=60, per_kind=1)
    assert load_snapshot(tmp_path / "snapshots" / "cluster-0001.jsonl").state.topics.keys() >= {
        drifted_fleet.topic_name(59)
    }


@pytest.mark.parametrize("make", [skewed_fleet.make_skewed_fleet, skewed_fleet.make_even_fleet])
def test_a_lopsided_fleet_is_as_large_as_an_even_one(
    make: Callable[..., drifted_fleet.DriftedFleet], tmp_path: Path
) -> None:
    """Two fleets to be compared in nothing but how their topics are spread; nothing in them differs."""
    sample = make(tmp_path, 10, 6)
    words = ["drift", str(sample.manifests), "--snapshots", str(sample.snapshots), "--out", str(tmp_path / "out"), "-q"]
    assert run([*words, "--exit-code"]) == 0
    found = read_summary(tmp_path / "out")
    assert (found["topics"]["declared"], found["topics"]["inSync"], found["topics"]["present"]) == (120, 120, 120)
    assert (tmp_path / "manifests" / "0000.yaml").read_text().count('"Topic"') == 60
    sizes = {len(path.read_text().splitlines()) - 1 for path in sample.snapshots.iterdir()}
    assert sizes == ({60, 6} if make is skewed_fleet.make_skewed_fleet else {12})
