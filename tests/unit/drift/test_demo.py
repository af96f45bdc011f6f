"""The sample fleet of ``topiarist drift --demo``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.drift.small_fleet import read_rows, read_summary
from topiarist.cli.main import run
from topiarist.drift.demo import INVALID_TEAM, READ_CLUSTERS, UNREAD_CLUSTER, write_demo
from topiarist.drift.findings import DriftClass
from topiarist.errors import TopiaristError

EMPTY_PATH = {"PATH": "/nonexistent", "JAVA_HOME": "/nonexistent"}
"""An environment in which no Java can be started."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of a demo that ran in this process."""
    fleet = tmp_path_factory.mktemp("demo") / "fleet"
    assert run(["drift", "--demo", str(fleet), "-q"]) == 1
    return fleet / "report"


def demo(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the demo in a process without Java."""
    command = [sys.executable, "-P", "-m", "topiarist", "drift", "--demo", str(folder), *words]
    return subprocess.run(command, env=EMPTY_PATH, capture_output=True, text=True, check=False)


def test_every_class_is_found_without_java(tmp_path: Path) -> None:
    """The report has every class of drift, and is incomplete by one cluster; no Java is needed."""
    done = demo(tmp_path / "fleet")
    assert done.returncode == 1, done.stderr
    report = tmp_path / "fleet" / "report"
    assert {row["class"] for row in read_rows(report)} == {kind.value for kind in DriftClass}
    assert read_summary(report)["clusters"] == {"declared": 4, "compared": 3, "unknown": 1}
    assert f"cluster {UNREAD_CLUSTER}: not compared" in done.stderr
    assert (report / "report.html").exists()
    assert str(report / "report.html") in done.stdout


def test_the_printed_command_makes_the_same_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command that the demo prints makes the same findings and the same summary, by the normal code path."""
    assert run(["drift", "--demo", str(tmp_path / "fleet")]) == 1
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  topiarist drift "))
    report = tmp_path / "fleet" / "report"
    before = {path.name: path.read_bytes() for path in report.iterdir() if path.is_file()}
    assert run(line.split()[1:]) == 1
    assert {path.name: path.read_bytes() for path in report.iterdir() if path.is_file()} == before


SHOWN = [
    ("", "logins", "expired", "login-repair", None, "web"),
    ("", "quotes", "invalid", "", None, INVALID_TEAM),
    (UNREAD_CLUSTER, "", "unknown", "", None, "platform"),
    ("prod-eu", "beacons", "oversized", "partitions", "3 partitions of 682 bytes a day", "web"),
    ("prod-eu", "carts", "racks", "", "1 partition; for example partition 0 on [1, 4, 2]", "shop"),
    ("prod-eu", "clicks", "config", "config.retention.ms", "2592000000", "web"),
    ("prod-eu", "invoices", "partitions", "partitions", "2", "billing"),
    ("prod-eu", "ledger", "assignment", "replicaAssignment", '{"2":[4,5,3]}', "billing"),
    ("prod-eu", "logins", "fault", "partitions", None, "web"),
    ("prod-eu", "orders-copy", "unexpected", "", "3 partitions, replication factor 3", "platform"),
    ("prod-eu", "prices", "spread", "", "0 (broker 4) to 12 (broker 1) replicas; 0 (broker 2) to 12 ", "shop"),
    ("prod-eu", "returns", "replicationFactor", "replicationFactor", "2, 3", "logistics"),
    ("prod-eu", "returns", "widths", "", "2, 3", "logistics"),
    ("prod-us", "payments", "missing", "", None, "billing"),
    ("prod-us", "refunds", "stuck", "", "1 partition; for example partition 0, to [1, 1, 2]", "billing"),
    ("prod-us", "routes", "throttle", "config.follower.replication.throttled.replicas", "0:1", "logistics"),
    ("prod-us", "sessions", "drained", "", "1 replica on broker 6; for example partition 0 on [1, 2, 6]", "web"),
    ("prod-us", "stock", "moving", "", "1 partition; for example partition 1 on [2, 3, 4]", "logistics"),
    ("prod-us", "vouchers", "refused", "", None, "shop"),
    ("test", "coupons-2024", "orphaned", "", "3 partitions, replication factor 3", "platform"),
    (
        "test",
        "newsletters",
        "dormant",
        "",
        "no write seen since 2025-12-02 (60 days); no reading group since 20",
        "web",
    ),
    ("test", "searches", "fault", "config.segment.bytes", None, "web"),
    ("test", "searches", "unmanaged", "config.segment.bytes", "1000", "web"),
    ("test", "shipments", "replicationFactor", "replicationFactor", "2", "logistics"),
]
"""Cluster, topic, class, field, beginning of the actual value, and team of each finding of the demo."""


def test_each_sample_topic_shows_its_class_of_drift(report: Path) -> None:
    """Each topic has the drift for which it is in the fleet, with its value and its team, and no other."""
    rows = read_rows(report)
    names = ("cluster", "topic", "class", "field", "actual", "responsible")
    found = [tuple(row[name] for name in names) for row in rows]
    for one, shown in zip(found, SHOWN, strict=True):
        assert (*one[:4], one[4] and one[4][: len(shown[4] or "")], one[5]) == shown
    refused, dormant = (next(row for row in rows if row["class"] == each) for each in ("refused", "dormant"))
    assert "another-repository" in refused["message"]
    assert dormant["actual"].count("2025-12-02 (60 days)") == 2


def test_the_rest_of_the_sample_fleet_is_in_sync(report: Path) -> None:
    """All other topics match their manifests, one difference is accepted, and one value stops brokers of Kafka 4.4."""
    summary = read_summary(report)
    (accepted,) = read_rows(report, "accepted.jsonl")
    keys = ("cluster", "topic", "field", "actual")
    assert [accepted[key] for key in keys] == ["prod-us", "banners", "config.retention.ms", str(90 * 86_400_000)]
    assert accepted["exception"]["until"] == "2026-03-31"
    topics, differing = summary["topics"], {row[:2] for row in SHOWN if row[1] and row[0] in READ_CLUSTERS}
    undeclared = {row[:2] for row in SHOWN if row[2] in ("unexpected", "orphaned")}
    assert topics["declared"] == topics["compared"] == 55
    assert topics["inSync"] == 55 - len(differing - undeclared) - 1  # the accepted difference is none of the findings
    assert topics["missingRecord"] == topics["ignored"] == topics["notJudged"] == 0
    stopping, *_ = summary["upgrade"]["risks"]
    assert (stopping["effect"], [one["topic"] for one in stopping["examples"]]) == ("stopsBrokers", ["searches"])
    assert summary["exceptions"]["unmatched"] == []
    assert summary["asOf"] == summary["oldest"] == "2026-01-31T12:00:00Z"


def test_every_snapshot_and_manifest_is_valid(tmp_path: Path) -> None:
    """The manifests are valid for every command, but for that of one team; each Cluster has its version, each team its
    label.
    """
    folders = write_demo(tmp_path / "fleet")
    assert run(["validate", str(folders.manifests)]) == 1
    valid = [path for path in (folders.manifests / "topics").iterdir() if path.stem != INVALID_TEAM]
    assert run(["validate", str(folders.manifests / "clusters.yaml"), *map(str, valid)]) == 0
    clusters = (folders.manifests / "clusters.yaml").read_text()
    assert clusters.count("kafkaVersion: ") == clusters.count("kind: Cluster\n") == len(READ_CLUSTERS) + 1
    assert {path.stem for path in folders.snapshots.iterdir()} == set(READ_CLUSTERS)
    for path in (folders.manifests / "topics").iterdir():
        assert f"team: {path.stem}\n" in path.read_text()


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    """The fleet depends on no time and no random number."""
    fleets = [tmp_path / name for name in ("one", "two")]
    written = []
    for fleet in fleets:
        write_demo(fleet)
        written.append({path.relative_to(fleet): path.read_bytes() for path in fleet.rglob("*") if path.is_file()})
    assert written[0] == written[1]


def test_a_folder_with_content_is_left_alone(tmp_path: Path) -> None:
    """The demo never writes into a folder that has content, also not into its own."""
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(TopiaristError, match="not empty"):
        write_demo(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
    fleet = tmp_path / "fleet"
    write_demo(fleet)
    assert run(["drift", "--demo", str(fleet)]) == 1
    assert not (fleet / "report").exists()


@pytest.mark.parametrize("words", [["--live"], ["--snapshots", "s"], ["--out", "r"], ["--previous", "r"], ["topics"]])
def test_the_demo_takes_no_other_input(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any other input or output is a usage error, and nothing is written."""
    assert run(["drift", "--demo", str(tmp_path / "fleet"), *words]) == 2
    assert "--demo makes its own" in capsys.readouterr().err
    assert not (tmp_path / "fleet").exists()


def test_out_is_required_without_a_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a demo the folder of the report must be given."""
    assert run(["drift", str(tmp_path), "--live"]) == 2
    assert "--out" in capsys.readouterr().err
