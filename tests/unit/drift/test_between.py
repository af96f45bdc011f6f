"""Clusters compared with each other, without manifests: the matrix of their values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.cli.runs import document
from support.drift.small_fleet import (
    NO_TIMES,
    check_schema,
    cluster_state,
    owned_topic,
    read_rows,
    read_summary,
    topic_document,
    write_manifests,
    write_snapshot,
)
from support.memory_cluster import MemoryCluster
from topiarist.adapters.snapshots.files import file_name, load_snapshot
from topiarist.cli.main import run
from topiarist.drift import task as task_module
from topiarist.drift.cross_cluster import TOPIC_FIELD, ValueRow, compare_values
from topiarist.drift.outputs import html
from topiarist.errors import Reason, TopiaristError
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ReadError, TopicState
from topiarist.ports import Closable
from topiarist.runs import sessions as sessions_module

WEEK = "604800000"


@pytest.fixture
def snapshots(tmp_path: Path) -> Path:
    """Return a folder with snapshots of three clusters."""
    states = {
        "dev": [
            owned_topic("orders", config={"retention.ms": "86400000"}),
            owned_topic("users", replicas=((1,), (2,))),
        ],
        "prod": [
            owned_topic("orders", config={"retention.ms": WEEK, "cleanup.policy": "delete"}),
            owned_topic("payments"),
            owned_topic("users"),
            TopicState("__consumer_offsets", "1", ((1, 2),)),
        ],
        "stage": [
            owned_topic("orders", config={"retention.ms": f" {WEEK}", "cleanup.policy": "delete"}),
            owned_topic("payments"),
            owned_topic("users"),
        ],
    }
    for name, topics in states.items():
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, *topics))
    return tmp_path / "snapshots"


def between(snapshots: Path, names: str, *words: str | Path) -> int:
    """Run ``topiarist drift --between`` over snapshots; return its exit code."""
    return run([*map(str, ("drift", *words, "--snapshots", snapshots)), "--between", names, "-q"])


def test_each_field_is_a_row_and_equal_texts_do_not_differ() -> None:
    """A topic that only some clusters have is in a row of its own; only clusters that have it have values."""
    states = {
        "a": cluster_state("a", owned_topic("t", config={"retention.ms": WEEK, "x.y": "1"}), owned_topic("only")),
        "b": cluster_state(
            "b",
            owned_topic("t", config={"retention.ms": f"{WEEK} "}),
            topic_errors={"only": ReadError("/brokers/topics/only", "is no JSON")},
        ),
    }
    rows = [*compare_values(states, lambda topic: True)]
    assert [row for row in rows if row.topic == "only"] == [
        ValueRow("only", TOPIC_FIELD, {"a": "present", "b": "unreadable"}, True),
        ValueRow("only", "partitions", {"a": "3"}, False),
        ValueRow("only", "replicationFactor", {"a": "2"}, False),
    ]
    assert [(row.field, row.differs) for row in rows if row.topic == "t"] == [
        ("partitions", False),
        ("replicationFactor", False),
        ("config.retention.ms", False),
        ("config.x.y", True),
    ]
    assert [*compare_values(states, lambda topic: topic == "none")] == []


def test_two_clusters_are_compared_without_a_manifest(snapshots: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The text has what differs with units, in the order of the names, and the exit code tells of differences."""
    assert between(snapshots, "prod,dev", "--exit-code") == 3
    assert (
        capsys.readouterr().out
        == """\
3 topics on prod, dev: 3 differ in 5 values

   topic     field                  prod                dev
*  orders    config.cleanup.policy  delete              not set
*  orders    config.retention.ms    604800000 (7 days)  86400000 (1 day)
*  payments  topic                  present             missing
*  users     partitions             3                   2
*  users     replicationFactor      2                   1
"""
    )
    assert between(snapshots, "prod,stage", "--exit-code") == 0
    assert capsys.readouterr().out == "3 topics on prod, stage: all values are the same\n"


def test_a_topic_that_no_cluster_has_is_not_the_same(snapshots: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name with a typing error compares nothing, and the result says so."""
    assert between(snapshots, "prod,stage", "--topic", "paymnets") == 0
    assert capsys.readouterr().out == "0 topics on prod, stage: no topic to compare\n"


def test_the_matrix_of_a_topic_has_all_its_values(snapshots: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A selected topic is shown as a whole, on any number of clusters; a mark tells what differs."""
    assert between(snapshots, "dev,stage,prod", "--topic", "users") == 0
    assert (
        capsys.readouterr().out
        == """\
1 topic on dev, stage, prod: 1 differs in 2 values

   topic  field              dev  stage  prod
*  users  partitions         2    3      3
*  users  replicationFactor  1    2      2
"""
    )
    assert between(snapshots, "stage,prod", "--topic", "pay*") == 0
    assert (
        capsys.readouterr().out
        == """\
1 topic on stage, prod: all values are the same

   topic     field              stage  prod
   payments  partitions         3      3
   payments  replicationFactor  2      2
"""
    )


def test_the_matrix_of_a_team_has_its_topics(
    snapshots: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Labels of manifests select topics on all compared clusters."""
    text = topic_document("users", ["dev"]).replace(
        '{"name": "users"}', '{"name": "users", "labels": {"team": "shop"}}'
    )
    manifests = write_manifests(tmp_path / "manifests", ["dev", "prod"], text)
    assert between(snapshots, "dev,prod", manifests, "--selector", "team=shop", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    check_schema("comparison", found)
    assert {row["topic"] for row in found["values"]} == {"users"}
    assert (found["clusters"], found["topics"], found["topicsThatDiffer"], found["valuesThatDiffer"]) == (
        ["dev", "prod"],
        1,
        1,
        2,
    )
    assert found["values"][0] == {
        "topic": "users",
        "field": "partitions",
        "values": {"dev": "2", "prod": "3"},
        "differs": True,
        "responsible": None,
    }
    assert between(snapshots, "dev,prod", manifests, "--owner-label", "team", "--topic", "*", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["topic"]: row["responsible"] for row in found["values"]} == {
        "orders": None,
        "payments": None,
        "users": "shop",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--between", "prod", "--snapshots", "x"), "wanted two or more clusters"),
        (("--between", "prod,prod", "--snapshots", "x"), "each once"),
        (("--between", "prod,", "--snapshots", "x"), "wanted two or more clusters"),
        (("--between", "a,b"), "pass either --live or --snapshots"),
        (("--between", "a,b", "--snapshots", "x", "--snapshots", "y"), "--snapshots, once"),
        (("--between", "a,b", "--snapshots", "x", "--fail-on", "High"), "without --out prints a comparison"),
        (("m", "--between", "a,a", "--snapshots", "x", "--out", "r"), "each once"),
        (("--between", "a,b", "--snapshots", "x", "--selector", "team=shop"), "labels of manifests"),
        (("--snapshots", "x", "--out", "r", "--format", "json"), "--format is for --between"),
    ],
)
def test_a_wrong_use_is_refused(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong use is an error with what to give, before anything is read."""
    assert run(["drift", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_cluster_that_is_not_there_ends_the_comparison(
    snapshots: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cluster without a document or a snapshot is an error that names it, and nothing is compared."""
    assert between(snapshots, "prod,moon") == 1
    captured = capsys.readouterr()
    assert (captured.out, "moon" in captured.err) == ("", True)
    manifests = write_manifests(tmp_path / "manifests", ["dev", "prod"])
    assert between(snapshots, "prod,moon", manifests) == 2
    assert 'found no Cluster document named "moon"' in capsys.readouterr().err


def report(snapshots: Path, manifests: Path, names: str, *words: str) -> Path:
    """Report with the matrix of some clusters; return the report."""
    out = snapshots.with_name("report")
    given = f"drift {manifests} --snapshots {snapshots} --out {out} --between {names} --owner-label team -q"
    run([*given.split(), *words])
    return out


def matrix_of_page(out: Path) -> Any:
    """Return the matrix that the page of a report shows."""
    text = (out / "report.html").read_text()
    return json.loads(text.partition('id="report-data">')[2].partition("</script>")[0])["between"]


def test_a_report_has_the_matrix_in_a_file_and_in_the_page(snapshots: Path, tmp_path: Path) -> None:
    """The file has all values; the page has whole topics, those that differ first, with units and in order of name."""
    text = topic_document("users", ["dev", "prod"]).replace(
        '{"name": "users"}', '{"name": "users", "labels": {"team": "shop"}}'
    )
    manifests = write_manifests(tmp_path / "manifests", ["dev", "prod", "moon"], text)
    out = report(snapshots, manifests, "prod,moon,dev")
    found = json.loads((out / "between.json").read_text())
    check_schema("comparison", found)
    assert (found["clusters"], found["unread"], found["topicsThatDiffer"]) == (["prod", "moon", "dev"], ["moon"], 3)
    assert {row["topic"] for row in found["values"]} == {"orders", "payments", "users"}
    shown = matrix_of_page(out)
    assert (shown["unread"], shown["total"]) == ([False, True, False], len(shown["rows"]))
    assert {(row["topic"], row["field"]): (row["responsible"], row["differs"], row["values"]) for row in shown["rows"]}[
        "orders", "config.retention.ms"
    ] == (None, True, ["604800000 (7 days)", False, "86400000 (1 day)"])
    (row,) = (row for row in shown["rows"] if row["field"] == "topic")
    assert (row["topic"], row["values"]) == ("payments", ["present", False, None])
    assert {row["responsible"] for row in shown["rows"] if row["topic"] == "users"} == {"shop"}
    out = report(snapshots, manifests, "prod,dev", "--topic", "users")
    assert {row["topic"] for row in matrix_of_page(out)["rows"]} == {"users"}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_report_with_a_matrix_reads_each_cluster_once(
    snapshots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], jobs: int
) -> None:
    """Live clusters of the matrix are read for it alone, in any process; findings and errors are those without it."""
    reads = tmp_path / "reads"

    class Opened(MemoryCluster, Closable):
        def __init__(self, spec: ClusterSpec, **_given: Any) -> None:
            with reads.open("a") as file:  # pool processes read too
                file.write(f"{spec.name}\n")
            if spec.name == "moon":
                raise TopiaristError(Reason.UNREACHABLE, "no broker answers")
            super().__init__(load_snapshot(snapshots / file_name(spec.name)).state)

        def close(self) -> None:
            """Do nothing."""

    for module in (task_module, sessions_module):
        monkeypatch.setattr(module, "open_cluster", Opened)
    clusters = [document("Cluster", name, zookeeper={"connect": "h:2181"}) for name in ("dev", "moon", "prod", "stage")]
    manifests = write_manifests(tmp_path / "manifests", [], *clusters, topic_document("users", ["dev"]))
    findings = []
    for words in ([], ["--between", "prod,moon"]):
        out = tmp_path / f"report-{len(words)}"
        run(["drift", str(manifests), "--live", "--out", str(out), "--jobs", str(jobs), "-q", *words])
        assert "error: cluster moon: no broker answers" in capsys.readouterr().err
        findings.append([{**row, **NO_TIMES} for row in read_rows(out)])
        clusters_read = [(each["cluster"], bool(each["problem"])) for each in read_summary(out)["byCluster"]]
        assert clusters_read == [("dev", False), ("moon", True), ("prod", False), ("stage", False)]
        assert sorted(reads.read_text().split()) == ["dev", "moon", "prod", "stage"]
        reads.unlink()
    assert findings[0] == findings[1]


def test_a_page_has_a_limited_matrix_of_whole_topics(
    snapshots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics that differ come first; a topic that would not fit is left out with all of its values."""
    monkeypatch.setattr(html, "MAX_MATRIX_ROWS", 5)
    shown = matrix_of_page(report(snapshots, write_manifests(tmp_path / "m", ["stage", "prod", "dev"]), "prod,dev"))
    assert [(row["topic"], row["field"]) for row in shown["rows"]] == [
        ("orders", "partitions"),
        ("orders", "replicationFactor"),
        ("orders", "config.cleanup.policy"),
        ("orders", "config.retention.ms"),
    ]
    assert shown["total"] > 5


def test_rows_that_a_snapshot_lacks_are_not_missing_topics(snapshots: Path, tmp_path: Path) -> None:
    """Of a snapshot with an invalid row, a topic that is not in it is unreadable and not missing."""
    (path,) = snapshots.glob("dev*")
    path.write_text(path.read_text().replace('"partitions":2', '"partitions":"?"', 1) + "no row\n")
    out = report(snapshots, write_manifests(tmp_path / "m", ["dev", "prod"]), "prod,dev")
    rows = json.loads((out / "between.json").read_text())["values"]
    assert [row["values"] for row in rows if (row["topic"], row["field"]) == ("payments", "topic")] == [
        {"prod": "present", "dev": "unreadable"}
    ]
