"""``topiarist drift`` over snapshots: rows, numbers, exit codes and the report folder."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from support.drift import drifted_fleet, hard_fleets
from support.drift.small_fleet import (
    BROKERS,
    REPLICA_LISTS,
    check_schema,
    cluster_state,
    owned_topic,
    read_rows,
    read_summary,
    row_keys,
    run_drift,
    topic_document,
    write_manifests,
    write_snapshot,
)
from topiarist.adapters.manifests.loader import InvalidDocument
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot, load_snapshot
from topiarist.cli.main import run
from topiarist.desired.resolve import Desired
from topiarist.drift.findings import DriftClass
from topiarist.drift.history import EndedFinding, PreviousReport
from topiarist.drift.report import ReportJob, make_parts
from topiarist.drift.snapshots import ClusterInput, UnusedInput
from topiarist.drift.task import Shipped
from topiarist.errors import Location, Reason
from topiarist.model.plan import RunOptions
from topiarist.model.state import OwnershipRecord, TopicState, WriteBlock


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Return the manifests of two clusters: one matches them, the other has many kinds of differences."""
    us = cluster_state(
        "us",
        owned_topic("clicks", {"retention.ms": "5"}, modified_externally=True),
        owned_topic("old"),
        owned_topic("orders", replicas=REPLICA_LISTS[:2]),
        TopicState("guest", "9", REPLICA_LISTS),
        TopicState("connect-offsets", "9", REPLICA_LISTS),
        TopicState("__consumer_offsets", "9", REPLICA_LISTS),
    )
    write_snapshot(tmp_path / "snapshots", "us", us)
    write_snapshot(
        tmp_path / "snapshots",
        "eu",
        cluster_state("eu", *(owned_topic(name) for name in ("clicks", "orders", "users"))),
    )
    both = ["eu", "us"]
    topics = (topic_document(name, both) for name in ("clicks", "orders", "users"))
    return write_manifests(tmp_path / "manifests", both, *topics)


def test_every_difference_is_a_row_and_nothing_else_is(fleet: Path, tmp_path: Path) -> None:
    """Each difference is one row that matches the schema, ordered by cluster, topic, class and field."""
    out = tmp_path / "report"
    assert run_drift(fleet, out, "-q") == 0
    rows = read_rows(out)
    assert row_keys(rows) == [
        ("us", "clicks", "config", "config.retention.ms"),
        ("us", "guest", "unexpected", ""),
        ("us", "old", "orphaned", ""),
        ("us", "orders", "partitions", "partitions"),
        ("us", "users", "missing", ""),
    ]
    check_schema("finding", *rows)
    assert rows[0] == {
        "cluster": "us",
        "topic": "clicks",
        "class": "config",
        "field": "config.retention.ms",
        "expected": None,
        "actual": "5",
        "effect": "DataLoss",
        "effectReason": "messages older than 5 ms will be deleted",
        "planned": "Change",
        "risk": "DataLoss",
        "explanation": rows[0]["explanation"],
        "reasons": [],
        "message": "",
        "hint": "",
        "owner": "default",
        "modifiedExternally": True,
        "takenAt": "2025-01-31T12:00:00Z",
        "firstSeen": "2025-01-31T12:00:00Z",
        "seenSince": "2025-01-31T12:00:00Z",
        "episodes": 1,
        "ageSeconds": 0,
        "acceptedSeconds": 0,
        "status": "New",
        "manifest": "clicks",
        "file": str(fleet / "all.yaml"),
        "line": 5,
        "link": None,
        "responsible": "default",
        "severity": "Critical",
        "severityRule": None,
        "command": rows[0]["command"],
        "id": rows[0]["id"],
    }
    assert rows[0]["explanation"]
    assert [row["owner"] for row in rows] == ["default", None, "default", "default", None]


def test_the_summary_counts_what_the_rows_have(fleet: Path, tmp_path: Path) -> None:
    """The summary counts the rows by class, cluster and owner, and the topics by state."""
    out = tmp_path / "report"
    run_drift(fleet, out, "-q")
    found = read_summary(out)
    check_schema("summary", found)
    assert found["topics"] == {
        "declared": 6,
        "compared": 6,
        "present": 9,
        "inSync": 3,
        "missingRecord": 0,
        "ignored": 2,
        "notJudged": 0,
    }
    kinds = {"config": 1, "missing": 1, "orphaned": 1, "partitions": 1, "unexpected": 1}
    assert found["findings"] == {
        "total": 5,
        "new": 5,
        "worse": 0,
        "unchanged": 0,
        "resolved": 0,
        "notEvaluated": 0,
        "dropped": 0,
        "byClass": kinds,
        "byEffect": {"Availability": 1, "DataLoss": 1, "None": 2, "Order": 1},
        "byPlanned": {"Change": 3, "Reported": 2},
        "byRisk": {"DataLoss": 1, "Disruptive": 1, "Safe": 1},
        "byReason": {},
    }
    assert [(one["cluster"], one["findings"], one["byClass"]) for one in found["byCluster"]] == [
        ("eu", 0, {}),
        ("us", 5, kinds),
    ]
    assert [(one["owner"], one["findings"]) for one in found["byOwner"]] == [("default", 3), (None, 2)]
    assert found["trend"] == [
        {"asOf": "2025-01-31T12:00:00Z", "unknown": 0, "findings": 5, "new": 5, "resolved": 0, "byClass": kinds}
    ]


def test_parts_are_in_order_of_name_with_what_is_known_of_their_cluster() -> None:
    """Clusters outside the run have a part if manifests name them; findings of all others stay in the previous report.

    The report is written part by part, so that its rows have this order.
    """
    names, findings = ("", "a", "m", "z", "zz"), ("a", "k", "m", "unnamed")
    documents = [InvalidDocument(Location(f"{name}.yaml", 1), 9, "Cluster", name) for name in names[::-1]]
    rows: Any = {name: {(name, "t"): {"cluster": name}} for name in findings}
    accepted: Any = {name: {(name, "accepted"): {"cluster": name}} for name in findings}
    ended: Any = {(name, "t", "config", "x"): EndedFinding("then", "then", 1, is_resolved=True) for name in findings}
    previous = PreviousReport(rows=dict(rows), accepted=dict(accepted), ended=ended)
    shipped = Shipped(Desired({}, {}), RunOptions(), "2026-01-31T12:00:00Z")
    job = ReportJob(shipped, previous, UnusedInput(), documents)
    sources = {name: ClusterInput(name) for name in ("k", "m")}
    parts = [*make_parts(job, sources.items())]
    assert [part.cluster for part in parts] == ["", "a", "k", "m", "z", "zz"]
    for part in parts:
        name = part.cluster
        assert part.source is sources.get(name)
        assert [row["file"] for row in part.manifest_rows] == ([f"{name}.yaml"] if name in names else [])
        assert (part.previous, part.accepted) == (rows.get(name, {}), accepted.get(name, {}))
        assert [key[0] for key in part.ended] == ([name] if name in findings else [])
    assert [*previous.rows] == [*previous.accepted] == ["unnamed"]


def test_a_second_run_gives_the_same_bytes(fleet: Path, tmp_path: Path) -> None:
    """A second run gives the same bytes in all files, because no file contains the time of the run."""
    for name in ("one", "two"):
        run_drift(fleet, tmp_path / name, "-q")
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "two").iterdir())
    assert names == [
        "accepted.jsonl",
        "broken.jsonl",
        "findings.jsonl",
        "metrics.prom",
        "not-evaluated.jsonl",
        "report.html",
        "resolved.jsonl",
        "summary.json",
        "summary.md",
    ]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 0),
        (("--exit-code",), 3),
        (("--fail-on", "missing"), 4),
        (("--fail-on", "fault"), 0),
        (("--fail-on", "fault", "--fail-on", "Config", "--exit-code"), 4),
        (("--fail-on", "fault", "--exit-code"), 3),
        (("--cluster", "eu", "--exit-code", "--fail-on", "missing"), 0),
        (("--fail-on", "nothing"), 2),
        (("--live",), 2),
    ],
)
def test_the_exit_code_says_what_was_asked_for(fleet: Path, tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """Findings exit with 0 unless an option sets another code. ``--fail-on`` overrides ``--exit-code``."""
    snapshots = ("--snapshots", str(tmp_path / "snapshots")) if "--live" in words else ()
    assert run_drift(fleet, tmp_path / "report", *words, *snapshots) == code


def test_a_gate_changes_no_row_and_is_told(fleet: Path, tmp_path: Path) -> None:
    """A frozen cluster has the same findings, and the summary reports its write block."""
    run_drift(fleet, tmp_path / "open", "-q")
    shut = cluster_state(
        "eu",
        *(owned_topic(name) for name in ("clicks", "orders")),
        write_block=WriteBlock(Reason.FROZEN, "frozen: moving"),
    )
    write_snapshot(tmp_path / "snapshots", "eu", shut)
    run_drift(fleet, tmp_path / "report", "-q")
    assert row_keys(read_rows(tmp_path / "report"))[0] == ("eu", "users", "missing", "")
    assert read_rows(tmp_path / "report")[0]["planned"] == "Change"
    assert read_summary(tmp_path / "report")["byCluster"][0]["writeBlock"] == "Frozen"


def test_a_topic_without_our_record_is_no_finding(tmp_path: Path) -> None:
    """A matching topic without an ownership record is counted, and gives no finding."""
    write_snapshot(
        tmp_path / "snapshots", "eu", cluster_state("eu", owned_topic("orders", record=None, record_valid=False))
    )
    manifests = write_manifests(tmp_path / "manifests", ["eu"], topic_document("orders", ["eu"]))
    assert run_drift(manifests, tmp_path / "report", "--exit-code") == 0
    assert read_summary(tmp_path / "report")["topics"]["missingRecord"] == 1


def test_another_owners_run_sees_other_orphans(fleet: Path, tmp_path: Path) -> None:
    """``--owner`` determines the orphaned topics. Topics of another owner are refused with its name."""
    run_drift(fleet, tmp_path / "report", "-q", "--owner", "other", "--cluster", "us")
    rows = {row["topic"]: row for row in read_rows(tmp_path / "report")}
    assert (rows["old"]["class"], rows["old"]["owner"]) == ("unexpected", "default")
    assert (rows["orders"]["class"], rows["orders"]["reasons"]) == ("refused", ["NotOwned"])


def test_uneven_topics_are_those_that_nobody_asked_to_be_so(tmp_path: Path) -> None:
    """Undeclared sizes and unmanaged keys are cross-cluster differences, and the values of an override are not."""
    for name, (retention, lists) in {
        "a": ("5", REPLICA_LISTS),
        "b": ("6", REPLICA_LISTS),
        "c": ("5", REPLICA_LISTS[:1]),
    }.items():
        config = {"retention.ms": "9" if name == "c" else "8", "segment.ms": retention}
        topic = owned_topic("orders", config, record=OwnershipRecord("default", ("retention.ms",)), replicas=lists)
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, topic))
    overrides = [{"clusters": ["c"], "config": {"retention.ms": 9}}]
    wanted = topic_document("orders", "abc", replicationFactor=2, config={"retention.ms": 8}, overrides=overrides)
    body = json.loads(wanted)
    del body["spec"]["partitions"]
    manifests = write_manifests(tmp_path / "manifests", "abc", json.dumps(body))
    clusters = (manifests / "all.yaml").read_text().replace('"3.9"', '"3.9", "defaults": {"partitions": 3}')
    (manifests / "all.yaml").write_text(clusters)
    assert run_drift(manifests, tmp_path / "report", "-q") == 0
    assert read_summary(tmp_path / "report")["crossClusterDifferences"] == {
        "total": 2,
        "topics": [
            {
                "topic": "orders",
                "manifest": "orders",
                "field": "config.segment.ms",
                "values": [
                    {"value": "5", "number": 2, "clusters": ["a", "c"]},
                    {"value": "6", "number": 1, "clusters": ["b"]},
                ],
            },
            {
                "topic": "orders",
                "manifest": "orders",
                "field": "partitions",
                "values": [
                    {"value": "3", "number": 2, "clusters": ["a", "b"]},
                    {"value": "1", "number": 1, "clusters": ["c"]},
                ],
            },
        ],
    }


def test_a_broker_with_far_too_much_is_told(tmp_path: Path) -> None:
    """The summary reports a broker with far too many leaders or replicas, without unregistered brokers."""
    heavy = owned_topic("orders", replicas=(*((1, 9),) * 12, (2, 3), (3, 2)))
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu", heavy))
    manifests = write_manifests(tmp_path / "manifests", ["eu"], topic_document("orders", ["eu"], partitions=14))
    run_drift(manifests, tmp_path / "report", "-q")
    assert read_summary(tmp_path / "report")["unbalanced"] == [
        {
            "cluster": "eu",
            "load": kind,
            "mean": mean,
            "most": {"broker": 1, "partitions": 12},
            "least": {"broker": 2, "partitions": least},
        }
        for kind, mean, least in (("leaders", 4.7, 1), ("replicas", 5.3, 2))
    ]
    assert len(BROKERS) == 3


def test_a_run_that_fails_leaves_the_earlier_report(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that fails, also at its last step, leaves the earlier report unchanged and no part of the new one."""
    out = tmp_path / "report"
    run_drift(fleet, out, "-q")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    monkeypatch.setattr("topiarist.drift.outputs.folder.os.fsync", _full)
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu"))
    assert run_drift(fleet, out, "-q") == 1
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifests", "report", "snapshots"]


def _full(_descriptor: int) -> None:
    raise OSError(28, "No space left on device")


def test_without_java_there_is_no_spark(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Java, the error names the missing program and the alternative, and no file is left behind."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert run_drift(fleet, tmp_path / "report", "--engine", "spark") == 1
    said = capsys.readouterr().err
    assert said.startswith("error: Java 17 or later is needed to compare by Spark, ")
    assert said.endswith(" or set JAVA_HOME\n    or compare without Spark: --engine python\n")
    assert not (tmp_path / "report").exists()


def test_without_pyspark_there_is_no_spark(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without pyspark, the error names the missing package. A small report needs no Spark."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyspark" else find(name))
    assert run_drift(fleet, tmp_path / "report", "--engine", "spark") == 1
    said = capsys.readouterr().err
    assert said.startswith("error: comparing by Spark needs packages that are not installed: pip install ")
    assert "'pyspark>=4.1'" in said
    assert said.endswith(" (extra drift)\n    or compare without Spark: --engine python\n")
    assert run_drift(fleet, tmp_path / "report") == 0


def test_two_clusters_with_one_id_are_not_both_compared(fleet: Path, tmp_path: Path) -> None:
    """Of two clusters with one cluster id, the later by name is unknown: one document has the wrong address."""
    write_snapshot(tmp_path / "snapshots", "us", replace(cluster_state("us"), cluster_id="eu"))
    assert run_drift(fleet, tmp_path / "report", "-q") == 1
    assert row_keys(read_rows(tmp_path / "report")) == [("us", "", "unknown", "")]
    assert read_summary(tmp_path / "report")["byCluster"][1]["problem"] == "its cluster id, eu, is that of cluster eu"


def test_a_report_finds_what_was_made_to_differ_and_nothing_else(tmp_path: Path) -> None:
    """The report finds exactly the generated differences, of every class. Equivalent values, missing records and
    modified but equal topics give no finding.
    """
    sample = drifted_fleet.make_fleet(tmp_path, clusters=9, topics=50, per_kind=4)
    out = tmp_path / "report"
    words = ["drift", str(sample.manifests), "--snapshots", str(sample.snapshots), "--out", str(out), "-q"]
    assert run(words) == 1  # one of the clusters has no snapshot
    found = row_keys(read_rows(out))
    assert len(found) == len(set(found))
    assert set(found) == sample.expected
    # No cluster of the fleet drains brokers, has a reassignment request or usage, and no manifest is invalid.
    others = {DriftClass.DRAINED, DriftClass.STUCK, DriftClass.INVALID, DriftClass.EXPIRED}
    others |= {DriftClass.DORMANT, DriftClass.OVERSIZED}
    assert {row[2] for row in found} == {kind.value for kind in DriftClass if kind not in others}
    assert read_summary(out)["findings"]["byClass"] == Counter(row[2] for row in found)
    assert read_summary(out)["topics"]["missingRecord"] == 4
    assert read_summary(out)["topics"]["ignored"] == 4


def test_a_line_is_what_a_snapshot_has(tmp_path: Path) -> None:
    """Lines that are generated without a cluster state equal the lines of a snapshot byte for byte."""
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


@pytest.mark.parametrize("kind", hard_fleets.MAKERS)
def test_a_hard_fleet_is_what_it_says(kind: str, tmp_path: Path) -> None:
    """A fleet of the benchmarks has the findings that it expects, on clusters of the asked size."""
    sample = hard_fleets.MAKERS[kind](tmp_path, 20, 30)
    words = ["drift", str(sample.manifests), "--snapshots", str(sample.snapshots), "--out", str(tmp_path / "out"), "-q"]
    assert run(words) == 0
    found = frozenset(row_keys(read_rows(tmp_path / "out")))
    assert found == sample.expected if sample.expected is not None else {row[2] for row in found} >= {"racks", "spread"}
    topics = read_summary(tmp_path / "out")["topics"]
    assert (topics["declared"], topics["present"]) == (sample.topics, sample.topics)
    assert (sample.clusters, sample.topics) == (20, 600)
    assert sample.documents == {"own": 49, "lists": 200}.get(kind, 30)
    assert bool(found) == (kind in ("random", "differ"))
