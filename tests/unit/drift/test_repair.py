"""The ways from findings to their repair: a plan for exactly these, an edit of manifests, an acceptance."""

from __future__ import annotations

import codecs
import io
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cli.runs import document
from support.drift.small_fleet import (
    cluster_state,
    owned_topic,
    read_rows,
    read_summary,
    run_drift,
    topic_document,
    write_manifests,
    write_snapshot,
)
from topiarist.cli.main import run
from topiarist.drift.findings import FindingSelection, finding_id
from topiarist.drift.repair import make_exceptions
from topiarist.errors import Exit
from topiarist.model.state import OwnershipRecord
from topiarist.text import printable_path

WEEK, MONTH = "604800000", "2592000000"
BOTH = ["eu", "us"]


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Return manifests of four topics on two clusters, with a report beside them."""
    state = {
        "eu": [
            owned_topic("clicks", config={"retention.ms": MONTH}),
            owned_topic("orders", config={"retention.ms": "60000", "min.insync.replicas": "1"}),
            owned_topic("users", config={"retention.ms": MONTH}),
        ],
        "us": [
            owned_topic("clicks", config={"retention.ms": MONTH}),
            owned_topic("orders", config={"retention.ms": WEEK, "min.insync.replicas": "2"}),
            owned_topic("users", config={"retention.ms": WEEK}),
        ],
    }
    for name, topics in state.items():
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, *topics))
    config = {"retention.ms": int(WEEK)}
    documents = [
        topic_document("clicks", BOTH, config=config),
        topic_document("orders", BOTH, config={**config, "min.insync.replicas": 2}),
        topic_document("payments", BOTH),
        topic_document("users", BOTH, config=config),
    ]
    manifests = write_manifests(tmp_path / "manifests", BOTH, *documents)
    assert run_drift(manifests, tmp_path / "report", "-q") == 0
    return manifests


def fix(fleet: Path, *words: str) -> int:
    """Run ``topiarist drift --fix`` on the report of the fleet; return its exit code."""
    return run(["drift", str(fleet), "--from", str(fleet.parent / "report"), "-q", "--fix", *words])


def keys_after(fleet: Path) -> list[tuple[str, str, str]]:
    """Return cluster, topic and field of the findings of a new report."""
    out = fleet.parent / "again"
    run_drift(fleet, out, "-q")
    return [(row["cluster"], row["topic"], row["field"] or row["class"]) for row in read_rows(out)]


ALL = [
    ("eu", "clicks", "config.retention.ms"),
    ("eu", "orders", "config.min.insync.replicas"),
    ("eu", "orders", "config.retention.ms"),
    ("eu", "payments", "missing"),
    ("eu", "users", "config.retention.ms"),
    ("us", "clicks", "config.retention.ms"),
    ("us", "payments", "missing"),
]


def test_the_manifests_get_what_the_clusters_have(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A value that all clusters have is edited in its place, another one becomes an override for its cluster."""
    assert keys_after(fleet) == ALL
    capsys.readouterr()
    assert fix(fleet, "manifest", "--field", "config.*", "--write") == 0
    assert keys_after(fleet) == [key for key in ALL if key[2] == "missing"]
    text = (fleet / "all.yaml").read_text()
    specs = {each["metadata"]["name"]: each["spec"] for each in yaml.safe_load_all(text)}
    assert specs["clicks"]["config"] == {"retention.ms": "30d"}
    assert "overrides" not in specs["clicks"]
    assert specs["orders"]["overrides"] == [
        {"clusters": ["eu"], "config": {"min.insync.replicas": 1, "retention.ms": "1m"}}
    ]
    assert specs["users"]["config"] == {"retention.ms": int(WEEK)}
    assert specs["users"]["overrides"] == [{"clusters": ["eu"], "config": {"retention.ms": "30d"}}]


def test_the_diff_is_one_that_git_applies(
    fleet: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --write the command prints a diff, and the files are as before until git applies it."""
    monkeypatch.chdir(fleet.parent)
    (row,) = [each for each in read_rows(fleet.parent / "report") if each["topic"] == "users"]
    capsys.readouterr()
    assert fix(fleet, "manifest", "--cluster", "eu", "--topic", "users") == 0
    for_cluster = capsys.readouterr().out
    assert fix(fleet, "manifest", "--id", row["id"]) == 0
    diff = capsys.readouterr().out
    assert for_cluster == diff  # an override, because the topic has another cluster
    assert keys_after(fleet) == ALL
    done = subprocess.run(["git", "apply", "-"], input=diff, text=True, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert keys_after(fleet) == [key for key in ALL if key[1] != "users"]


def test_a_byte_order_mark_stays(fleet: Path) -> None:
    """A file with a byte order mark is edited as one without, and keeps the mark."""
    file = fleet / "all.yaml"
    before = file.read_bytes()
    words = ("manifest", "--field", "config.*", "--topic", "clicks", "--write")
    assert fix(fleet, *words) == 0
    edited = file.read_bytes()
    assert edited != before
    file.write_bytes(codecs.BOM_UTF8 + before)
    assert fix(fleet, *words) == 0
    assert file.read_bytes() == codecs.BOM_UTF8 + edited


def test_an_acceptance_is_for_exactly_these_findings(fleet: Path) -> None:
    """The documents accept the selected findings until their day, and no other one."""
    words = ("--author", "ops", "--until", "2999-01-31", "--reason", "PLAT-7", "--out", str(fleet / "accepted.yaml"))
    assert fix(fleet, "accept", "--field", "config.retention.ms", *words) == 0
    assert keys_after(fleet) == [key for key in ALL if key[2] != "config.retention.ms"]


def test_an_acceptance_that_has_already_ended_is_refused(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A last day before the report accepts nothing: it is a usage error; the day of the report is the first one."""
    day = max(row["takenAt"] for row in read_rows(fleet.parent / "report"))[:10]
    words = ("--author", "ops", "--reason", "PLAT-7", "--out", str(fleet / "accepted"))
    for way in ("accept", "baseline"):
        assert fix(fleet, way, *words, "--until", "1999-01-31") == Exit.USAGE
        assert f"--until: found 1999-01-31, and the report is of {day}: give a later day" in capsys.readouterr().err
        assert fix(fleet, way, *words, "--until", day) == Exit.DONE


def test_names_that_the_report_does_not_have_are_said(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error in an id is no success, and it is named also beside an id that is right."""
    known = read_rows(fleet.parent / "report")[0]["id"]
    words = ("--author", "ops", "--until", "2999-01-31", "--reason", "PLAT-7", "--out", str(fleet / "accepted.yaml"))
    assert fix(fleet, "accept", *words, "--id", "typo") == Exit.ERROR
    assert "--id typo: the report has no such finding\n" in capsys.readouterr().err
    assert fix(fleet, "accept", *words, "--id", f"{known},typo") == Exit.DONE
    assert "--id typo: the report has no such finding\n" in capsys.readouterr().err
    assert fix(fleet, "accept", *words, "--cause", "typo") == Exit.ERROR
    assert "--cause typo: the report has no such cause\n" in capsys.readouterr().err


def test_a_plan_has_the_selected_findings_alone(fleet: Path, tmp_path: Path) -> None:
    """The saved plan changes what was selected: not another key of the same topic, and no other topic or cluster."""
    saved = tmp_path / "plan.json"
    words = ("--severity", "critical", "--topic", "orders", "--field", "config.min.*", "--out", str(saved))
    assert fix(fleet, "plan", *words, "--snapshots", str(fleet.parent / "snapshots")) == 0
    (cluster,) = json.loads(saved.read_text())["clusters"]
    (topic,) = cluster["topics"]
    assert (cluster["name"], topic["topic"]) == ("eu", "orders")
    assert json.dumps(topic["changes"]).count("min.insync.replicas") == 1
    assert "retention.ms" not in json.dumps(topic["changes"])


def test_a_plan_may_change_a_key_that_was_unmanaged_in_the_report(tmp_path: Path) -> None:
    """The id of the finding still selects the key if the manifests have decided about it since the report."""
    topics = [owned_topic("orders", {"flush.ms": "5", "segment.ms": "7"}, record=OwnershipRecord("default"))]
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu", *topics))
    manifests = write_manifests(tmp_path / "manifests", ["eu"], topic_document("orders", ["eu"]))
    run_drift(manifests, tmp_path / "report", "-q")
    rows = {row["field"]: row for row in read_rows(tmp_path / "report")}
    assert {row["class"] for row in rows.values()} == {"unmanaged"}
    write_manifests(manifests, ["eu"], topic_document("orders", ["eu"], unmanagedConfig="Remove"))
    saved = tmp_path / "plan.json"
    words = ("--id", rows["config.segment.ms"]["id"], "--out", str(saved))
    assert fix(manifests, "plan", *words, "--snapshots", str(tmp_path / "snapshots")) == 0
    (topic,) = json.loads(saved.read_text())["clusters"][0]["topics"]
    assert "segment.ms" in json.dumps(topic["changes"])
    assert "flush.ms" not in json.dumps(topic["changes"])


@pytest.mark.parametrize(
    "case",
    [
        (
            {"cleanup.policy": "compact", "min.compaction.lag.ms": "1", "max.compaction.lag.ms": "2"},
            {"config": {"cleanup.policy": "compact", "min.compaction.lag.ms": "3", "max.compaction.lag.ms": "4"}},
            "config.min.compaction.lag.ms",
            "min.compaction.lag.ms is 3, more than max.compaction.lag.ms, which is 2",
        ),
        (
            {"min.insync.replicas": "2"},
            {"config": {"min.insync.replicas": "1"}, "replicationFactor": 1},
            "replicationFactor",
            "the moves leave 1 replica for a partition, and min.insync.replicas is 2",
        ),
    ],
)
def test_a_change_that_needs_another_one_is_not_planned_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: tuple[dict[str, str], dict[str, Any], str, str]
) -> None:
    """Half of the changes of a topic may be a config that brokers refuse, or too few replicas for its writers."""
    before, wanted, field, problem = case
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu", owned_topic("orders", before)))
    manifests = write_manifests(tmp_path / "manifests", [], topic_document("orders", ["eu"], **wanted))
    cluster = document("Cluster", "eu", kafkaVersion="3.9", moves={"allow": ["Factor"]})
    (manifests / "cluster.yaml").write_text(cluster)
    run_drift(manifests, tmp_path / "report", "-q")
    capsys.readouterr()
    snapshots = ("--snapshots", str(tmp_path / "snapshots"))
    assert fix(manifests, "plan", "--field", field, *snapshots) == 0
    said = capsys.readouterr()
    assert "No changes" in said.out
    assert f"orders on eu: {field}: select the other findings of the topic too: {problem}\n" in said.err
    assert fix(manifests, "plan", *snapshots) == 0
    assert "not repaired" not in capsys.readouterr().err


def test_a_diff_that_git_refuses_is_said(
    fleet: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git takes no path above its folder; a file is written from any folder."""
    other = fleet.parent / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    assert fix(fleet, "manifest", "--topic", "clicks") == 0
    said = (
        f"{printable_path(fleet / 'all.yaml')}: not below this folder, so git apply refuses the diff: run in a folder"
    )
    assert said in capsys.readouterr().err
    assert fix(fleet, "manifest", "--topic", "clicks", "--write") == 0
    assert "git apply" not in capsys.readouterr().err
    monkeypatch.chdir(fleet)
    assert fix(fleet, "manifest", "--field", "config.min.*") == 0
    assert "git apply" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("way", "text"),
    [("plan", '"clusters": []'), ("manifest", ""), ("accept", ""), ("baseline", '"kind": "DriftBaseline"')],
)
def test_a_file_of_an_earlier_run_does_not_stay_if_nothing_is_selected(fleet: Path, way: str, text: str) -> None:
    """Scripts use the file of ``--out`` after a run that succeeds, also without a finding."""
    out = fleet.parent / "out"
    out.write_text("of yesterday")
    words: tuple[str, ...] = ("--snapshots", str(fleet.parent / "snapshots")) if way == "plan" else ()
    if way in ("accept", "baseline"):
        words = ("--author", "ops", "--until", "2999-01-31", "--reason", "PLAT-7")
    assert fix(fleet, way, "--responsible", "none", "--out", str(out), *words) == 0
    assert "of yesterday" not in out.read_text()
    assert text in out.read_text()


def test_a_cause_of_the_report_is_repaired_alone(fleet: Path) -> None:
    """The id of a cause in the summary selects its findings, together with the other options."""
    (cause,) = [
        each for each in read_summary(fleet.parent / "report")["causes"]["first"] if each["topics"] == ["clicks"]
    ]
    assert (cause["findings"], cause["clusters"]) == (2, BOTH)
    words = ("--author", "ops", "--until", "2999-01-31", "--reason", "PLAT-7", "--out", str(fleet / "accepted.yaml"))
    assert fix(fleet, "accept", "--cause", cause["id"], *words) == 0
    assert keys_after(fleet) == [key for key in ALL if key[1] != "clicks"]


def test_a_plan_names_each_finding_that_it_does_not_repair(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A finding that is over is named, also if another one of its topic is planned."""
    (gone,) = [
        row["id"]
        for row in read_rows(fleet.parent / "report")
        if (row["cluster"], row["topic"], row["field"]) == ("eu", "orders", "config.retention.ms")
    ]
    orders = owned_topic("orders", config={"retention.ms": WEEK, "min.insync.replicas": "1"})
    write_snapshot(fleet.parent / "snapshots", "eu", cluster_state("eu", orders))
    capsys.readouterr()
    words = ("--topic", "orders", "--cluster", "eu", "--snapshots", str(fleet.parent / "snapshots"))
    assert fix(fleet, "plan", *words) == 0
    said = capsys.readouterr()
    assert "Plan: 1 to configure." in said.out
    assert [line for line in said.err.splitlines() if line.startswith("not repaired")] == [
        f"not repaired: {gone} orders on eu: config.retention.ms:"
        " a plan cannot change it now: it is only reported, or no longer exists"
    ]


def test_ids_are_those_of_the_key_alone(fleet: Path) -> None:
    """The id of a finding is the same in all reports, whatever its values are, and no two findings share one."""
    rows = read_rows(fleet.parent / "report")
    assert all(row["id"] == finding_id({**row, "actual": "other"}) for row in rows)
    assert len({row["id"] for row in rows}) == len(rows)


@pytest.mark.parametrize("given", [(), ("--owner", "other", "--kafka-version", "3.9")])
def test_every_command_runs_as_it_is_printed(
    fleet: Path, capsys: pytest.CaptureFixture[str], given: tuple[str, ...]
) -> None:
    """The command of each finding shows it without another word: it has the paths and the options of the run."""
    write_manifests(fleet, [*BOTH, "unread"], *fleet.joinpath("all.yaml").read_text().split("\n---\n")[2:])
    run_drift(fleet, fleet.parent / "report", "-q", *given)
    capsys.readouterr()
    rows = read_rows(fleet.parent / "report")
    assert any(row["class"] == "unknown" for row in rows)
    for row in rows:
        program, *words = shlex.split(row["command"])
        assert program == "topiarist"
        assert "3.9" in words or not given
        assert run(words) == (row["class"] == "unknown"), row["command"]
        said = capsys.readouterr()
        assert (
            "has no snapshot of cluster unread" in said.err if row["class"] == "unknown" else row["topic"] in said.out
        )


def test_a_command_uses_the_project_file_and_owner_of_the_run(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project file here does not change what a command of a run with another one, or with its own owner, does."""
    monkeypatch.chdir(fleet)
    Path("topiarist.yaml").write_text("owner: other\n")
    report = fleet.parent / "report"
    run_drift(fleet, report, "-q", "--project", "none")
    commands = {row["command"] for row in read_rows(report)}
    assert {words[words.index("--project") + 1] for words in map(shlex.split, commands)} == {"none"}
    run_drift(fleet, report, "-q", "--owner", "default")
    commands = {row["command"] for row in read_rows(report) if row["topic"]}
    assert {words[words.index("--owner") + 1] for words in map(shlex.split, commands)} == {"default"}


def test_a_command_names_what_came_from_standard_input(
    fleet: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard input has ended when a command is run, and is no file that a repair could write."""
    text = fleet.joinpath("all.yaml").read_text()
    report = fleet.parent / "report"
    for words, code in (
        (("--snapshots", str(fleet.parent / "snapshots"), "--out", str(report), "-q"), 0),
        (("--from", str(report), "--fix", "manifest"), 2),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert run(["drift", "-", *words]) == code
    assert "--fix manifest edits files: give the files or folders" in capsys.readouterr().err
    commands = [shlex.split(row["command"]) for row in read_rows(report)]
    assert commands
    assert all("MANIFESTS" in words and "-" not in words for words in commands)
    assert '"topiarist drift MANIFESTS ' in (report / "report.html").read_text()


def test_an_invalid_manifest_does_not_stop_the_commands_of_other_findings(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands that show, and the edit of the manifests, leave an invalid document out, name it, and end with 1."""
    broken = topic_document("payments", BOTH, partitions="three")
    (fleet / "broken.yaml").write_text(broken)
    assert run_drift(fleet, fleet.parent / "report", "-q") == 1
    row = next(row for row in read_rows(fleet.parent / "report") if row["topic"] == "clicks")
    capsys.readouterr()
    snapshots = str(fleet.parent / "snapshots")
    for words in (
        shlex.split(row["command"])[1:],
        ["list", str(fleet), "--snapshot", snapshots, "--topic", "clicks"],
        ["drift", str(fleet), "--between", "eu,us", "--topic", "clicks", "--snapshots", snapshots],
        ["drift", str(fleet), "--from", str(fleet.parent / "report"), "--fix", "manifest", "--id", row["id"]],
    ):
        assert run(words) == 1, words
        said = capsys.readouterr()
        assert "clicks" in said.out, words
        assert said.err.startswith(f"{fleet / 'broken.yaml'}:"), words
    assert fix(fleet, "plan", "--id", row["id"], "--snapshots", snapshots) == 1
    assert "clicks" not in capsys.readouterr().out


def test_an_invalid_document_that_may_be_a_cluster_stops_an_edit(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value is set for all clusters of a topic only if all are known."""
    place = fleet / "cluster.yaml"
    place.write_text('{"apiVersion": "topiarist.dev/v1", "kind": "Cluster", "metadata": {"name": "ap"}, "spec": 1}')
    assert fix(fleet, "manifest", "--topic", "clicks") == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert f"error: {printable_path(place)}: an invalid document may be a Cluster" in said.err


def test_a_finding_about_an_invalid_manifest_says_so(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A manifest that has become invalid since the report has no place for a value."""
    place = fleet / "all.yaml"
    place.write_text(place.read_text().replace('"name": "clicks"', '"name": "clicks", "labels": 1', 1))
    assert fix(fleet, "manifest", "--topic", "clicks", "--cluster", "eu") == 1
    why = "clicks on eu: config.retention.ms: its manifest is invalid: correct its errors first\n"
    assert why in capsys.readouterr().err


def test_a_plan_names_findings_that_are_on_none_of_its_clusters(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Findings about a document, or a cluster without a topic in the manifests, are named as well."""
    report = fleet.parent / "report" / "findings.jsonl"
    rows = [json.loads(line) for line in report.read_text().splitlines()][:2]
    for row, cluster in zip(rows, ("", "gone"), strict=True):
        row["cluster"] = cluster
    report.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert fix(fleet, "plan", "--snapshots", str(fleet.parent / "snapshots")) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("not repaired")]
    assert len(said) == 2
    assert all(line.endswith("a cluster for which the manifests have no topic") for line in said)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--severity", "High"), "--severity is for --fix, which repairs findings of a report"),
        (("--from", "report"), "--from is for --fix,"),
        (("--from", "report", "--fix", "plan", "--webhook", "env:HOOK"), "--webhook is for a report,"),
        (("--from", "report", "--fix", "plan", "--exit-code"), "--exit-code is not for --fix"),
        (("--from", "report", "--fix", "plan", "--selector", "team=a"), "--selector is not for --fix"),
        (("--from", "report", "--fix", "plan", "--owner-label", "team"), "--owner-label is not for --fix"),
        (
            ("--from", "report", "--fix", "plan", "--out", "report/plan.json"),
            '--out: found "report/plan.json", which is',
        ),
        (
            ("--between", "eu,us", "--snapshots", "snapshots", "--split-by", "responsible"),
            "--split-by is for a report,",
        ),
        (("--from", "report", "--fix", "manifest", "--write", "--out", "x"), "pass either --write,"),
        (("--from", "report", "--fix", "manifest", "--author", "ops"), "--author is for --fix accept and"),
        (("--between", "eu,us", "--snapshots", "snapshots", "--cluster", "eu"), "--cluster selects one cluster, and"),
        (("--between", "eu,us", "--live", "--out", "x", "--cluster", "eu"), "--cluster selects one cluster, and"),
    ],
)
def test_an_option_of_another_task_is_refused(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No option is ignored: a report has all findings, and a repair sends and counts none."""
    assert run(["drift", "topics", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plan",), "pass --from with the report that contains the findings"),
        (
            ("accept", "--from", "report", "--author", "a"),
            "give --until, --reason: an acceptance has an author, a last",
        ),
        (("accept", "--from", "report", "--author", "a", "--until", "soon", "--reason", "b"), "--until: found soon"),
        (("accept", "--from", "report", "--author", "a", "--until", "29990131", "--reason", "b"), "found 29990131"),
        (("accept", "--from", "report", "--author", "a", "--until", "2999-W01-1", "--reason", "b"), "found 2999-W01-1"),
        (("plan", "--from", "report", "--write"), "--write is for --fix manifest\n"),
        (("plan", "--from", "report", "--live"), "give no --live"),
        (("plan", "--from", "s3://fleet/report"), '--from: found "s3://fleet/report", wanted a path on this machine'),
        (("plan", "--from", "report", "--snapshots", "s3://fleet"), '--snapshots: found "s3://fleet", wanted a path'),
    ],
)
def test_what_a_repair_needs_is_said(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong use is an error with what to give, before anything is read."""
    assert run(["drift", "topics", "--fix", *words]) == 2
    assert message in capsys.readouterr().err


def test_only_values_of_a_manifest_are_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sizes become those of the clusters; a throttle, several widths and topics without a manifest do not."""
    monkeypatch.chdir(tmp_path)
    throttle = {"leader.replication.throttled.replicas": "5"}
    topics = {
        "sizes": owned_topic("sizes", replicas=((1,),) * 5),
        "slow": owned_topic("slow", throttle),
        "uneven": owned_topic("uneven", replicas=((1,), (1, 2), (2, 3))),
    }
    for name, others in (("eu", [owned_topic("guest", record=None)]), ("us", [owned_topic("old")])):
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, *topics.values(), *others))
    write_manifests(tmp_path / "fleet", BOTH, *(topic_document(name, BOTH) for name in topics))
    run_drift(Path("fleet"), Path("report").resolve(), "-q")
    capsys.readouterr()
    assert run(["drift", "fleet", "--from", "report", "-q", "--cluster", "us", "--fix", "manifest", "--write"]) == 0
    no_value, no_manifest = (
        "no value in its manifest would repair it",
        "it has no manifest: topiarist export writes",
    )
    assert [line.split(" ", 3)[3] for line in capsys.readouterr().err.splitlines() if line[:3] == "not"] == [
        f"old on us: orphaned: {no_manifest} those of a cluster",
        f"sizes on us: spread: {no_value}",
        f"slow on us: config: {no_value}",
        f"slow on us: config.leader.replication.throttled.replicas: {no_value}",
        f"uneven on us: replicationFactor: {no_value}",
        f"uneven on us: spread: {no_value}",
        f"uneven on us: widths: {no_value}",
    ]
    sizes = next(each for each in yaml.safe_load_all(Path("fleet/all.yaml").read_text()) if "sizes" in str(each))
    override = {"clusters": ["us"], "partitions": 5, "replicationFactor": 1}
    assert sizes["spec"] == {"partitions": 3, "replicationFactor": 2, "clusters": BOTH, "overrides": [override]}


def test_a_value_that_an_override_replaces_elsewhere_is_set_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other cluster has its own value; a topic without a manifest since the report needs a person."""
    monkeypatch.chdir(tmp_path)
    for name, retention in (("eu", MONTH), ("us", "60000")):
        topics = (owned_topic(topic, config={"retention.ms": retention}) for topic in ("orders", "gone"))
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, *topics))
    override = {"clusters": ["us"], "config": {"retention.ms": 60000}}
    orders, gone = (
        topic_document(topic, BOTH, config={"retention.ms": int(WEEK)}, overrides=[override])
        for topic in ("orders", "gone")
    )
    write_manifests(tmp_path / "fleet", BOTH, orders, gone)
    run_drift(Path("fleet"), Path("report").resolve(), "-q")
    text = write_manifests(tmp_path / "fleet", BOTH, orders).joinpath("all.yaml").read_text()
    capsys.readouterr()
    assert run(["drift", "fleet", "--from", "report", "-q", "--fix", "manifest", "--write"]) == 0
    assert "gone on eu: config.retention.ms: no value in its manifest would repair it" in capsys.readouterr().err
    edited = text.replace(f'"config": {{"retention.ms": {WEEK}}}', '"config": {"retention.ms": 30d}')
    assert Path("fleet/all.yaml").read_text() == edited != text


def test_clusters_with_different_values_get_an_override_each(tmp_path: Path) -> None:
    """The new overrides follow those of the manifest, and each has all values of its clusters."""
    for name, retention in (("ap", "60000"), ("eu", MONTH), ("us", "120000")):
        topic = owned_topic("orders", config={"retention.ms": retention, "min.insync.replicas": "1"})
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, topic))
    own = {"clusters": ["ap"], "config": {"retention.ms": 60000, "min.insync.replicas": 1}}
    config = {"retention.ms": int(WEEK), "min.insync.replicas": 2}
    orders = topic_document("orders", ["ap", *BOTH], config=config, overrides=[own])
    manifests = write_manifests(tmp_path / "manifests", ["ap", *BOTH], orders)
    run_drift(manifests, tmp_path / "report", "-q")
    assert fix(manifests, "manifest", "--write") == 0
    assert keys_after(manifests) == []
    documents = yaml.safe_load_all((manifests / "all.yaml").read_text())
    (spec,) = (each["spec"] for each in documents if each["kind"] == "Topic")
    assert spec["config"] == config | {"min.insync.replicas": 1}
    assert spec["overrides"][0] == own
    assert [(each["clusters"], each["config"]) for each in spec["overrides"][1:]] == [
        (["eu"], {"retention.ms": "30d"}),
        (["us"], {"retention.ms": "2m"}),
    ]


def test_a_value_that_only_some_clusters_lack_is_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No override takes a value away: the message says why, and who decides."""
    monkeypatch.chdir(tmp_path)
    for name, config in (("eu", {}), ("us", {"retention.ms": WEEK})):
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, owned_topic("orders", config=config)))
    write_manifests(tmp_path / "fleet", BOTH, topic_document("orders", BOTH, config={"retention.ms": int(WEEK)}))
    run_drift(Path("fleet"), Path("report").resolve(), "-q")
    (row,) = read_rows(Path("report"))
    capsys.readouterr()
    assert run(["drift", "fleet", "--from", "report", "-q", "--fix", "manifest"]) == 0
    why = "the clusters do not have it, and defaults, a profile or other clusters do"
    why += "; decide by hand which value these clusters get"
    said = f"not repaired: {row['id']} orders on eu: config.retention.ms: {why}\n1 finding not repaired\n"
    assert capsys.readouterr().err == said


def test_a_path_may_be_a_file_uri(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report, the snapshots and the baseline of a repair may be URIs of this machine, as those of a report."""
    report, snapshots, known = (fleet.parent / name for name in ("report", "snapshots", "known.jsonl"))
    words = ["drift", str(fleet), "--from", report.as_uri(), "-q", "--fix"]
    assert run([*words, "plan", "--topic", "clicks", "--snapshots", snapshots.as_uri()]) == 0
    assert "Plan: 1 to configure" in capsys.readouterr().out
    given_by = ("--author", "ops", "--until", "2099-01-31", "--reason", "known")
    assert run([*words, "baseline", *given_by, "--out", known.as_uri()]) == 0
    assert run_drift(fleet, fleet.parent / "again", "-q", "--baseline", known.as_uri()) == 0
    assert read_rows(fleet.parent / "again") == []


def test_a_line_that_is_no_finding_is_named(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A repair names the line of a report that is none, and changes nothing."""
    path = fleet.parent / "report" / "findings.jsonl"
    path.write_text(f"{path.read_text()}{{}}\n")
    assert fix(fleet, "manifest", "--write") == 1
    assert capsys.readouterr().err.startswith(f"error: {path}:{len(ALL) + 1}: found no finding of a drift report\n")


ROW: dict[str, Any] = {
    **{"id": "0" * 12, "cluster": "eu", "topic": "orders", "class": "config", "field": "config.x"},
    **{"severity": "High", "responsible": "shop", "manifest": "orders"},
}


@pytest.mark.parametrize(
    ("selection", "others"),
    [
        (FindingSelection(ids=("0" * 12,)), {"id": "1" * 12}),
        (FindingSelection(severities=("High",)), {"severity": "Low"}),
        (FindingSelection(classes=("config",)), {"class": "racks"}),
        (FindingSelection(fields=("config.*",)), {"field": "partitions"}),
        (FindingSelection(topics=("ord*",)), {"topic": "users"}),
        (FindingSelection(clusters=("eu",)), {"cluster": "us"}),
        (FindingSelection(responsible=("shop",)), {"responsible": None}),
        (FindingSelection(manifests=("orders",)), {"manifest": "users"}),
    ],
)
def test_a_selection_is_by_each_of_its_fields(selection: FindingSelection, others: dict[str, Any]) -> None:
    """Each given field restricts the selection, and an empty one does not."""
    assert FindingSelection().matches(ROW)
    assert selection.matches(ROW)
    assert not selection.matches(ROW | others)


def test_an_exception_never_covers_more_than_was_selected() -> None:
    """Topics share a document only if they have the same clusters: its patterns are a product."""
    rows = [ROW | {"topic": topic, "cluster": cluster} for topic, cluster in (("a", "eu"), ("a", "us"), ("b", "eu"))]
    others = ("unknown", ""), ("stuck", ""), ("invalid", "a")
    rows += [ROW | {"class": drift_class, "topic": topic} for drift_class, topic in others]
    documents, unfixed = make_exceptions(rows, author="ops", until="2027-01-31", reason="why")
    assert [(each["spec"]["clusters"], each["spec"]["topics"]) for each in documents] == [
        (["eu"], ["b"]),
        (["eu", "us"], ["a"]),
    ]
    assert len({each["metadata"]["name"] for each in documents}) == 2
    assert [each.row["class"] for each in unfixed] == ["unknown", "stuck", "invalid"]
