"""Usage on the command line: plans, lists and drift reports from a snapshot with usage, and their errors."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.cli.runs import document
from support.junit import read_junit
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot
from topiarist.cli.main import run
from topiarist.errors import Exit
from topiarist.kafka.types import Broker
from topiarist.model.state import ClusterState, OwnershipRecord, TopicState
from topiarist.model.usage import DAY_S, CurvePoint, Evidence, GroupType, Side, TopicSample, TopicUsage, UsageState
from topiarist.usage import TopicGroup, add_groups

NOW = 1_763_800_000
MIB = 1 << 20
UNSEEN = Side(UsageState.NOT_SEEN, observed_since=NOW - 40 * DAY_S, why=("NoGroup",))
SAMPLE = TopicSample(None, (10, 10), (0, 0), (3 * MIB, 5 * MIB), 16 * MIB, (None, None), (None, None))
USED = Side(UsageState.USED, NOW, NOW, NOW - 40 * DAY_S, ("Members",))
READ_NOW = add_groups(SAMPLE, [TopicGroup("billing", GroupType.CLASSIC, 2, {0: 4})])
CURVE = (CurvePoint(NOW - 9 * DAY_S, 0, 8, 6 * MIB), CurvePoint(NOW, 0, 20, 8 * MIB))


def state() -> ClusterState:
    """Return a cluster with a dormant topic, one in use, and one that nothing is known of."""
    topics = {
        name: TopicState(name, name, ((1, 2), (2, 1)), record=OwnershipRecord("default"), record_valid=True)
        for name in ("dormant", "unknown", "used")
    }
    usage = {
        "dormant": TopicUsage(SAMPLE, UNSEEN, UNSEEN, CURVE, MIB),
        "unknown": TopicUsage(SAMPLE),
        "used": TopicUsage(READ_NOW, UNSEEN, USED, CURVE, MIB),
    }
    evidence = Evidence(NOW, 2, 2, 1, groups_complete=True, retention_minutes=10_080)
    return ClusterState("7sYk", (Broker(1), Broker(2), Broker(3)), topics, evidence=evidence, usage=usage)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder with a Cluster and its snapshot."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.yaml").write_text(document("Cluster", "prod", clusterId="7sYk"))
    write(tmp_path, state())
    return tmp_path


def write(folder: Path, found: ClusterState) -> None:
    """Write the snapshot of the cluster."""
    rows = dump_snapshot(Snapshot("prod", datetime.fromtimestamp(NOW, UTC), found))
    (folder / "prod.jsonl").write_bytes(b"".join(rows))


def declare(folder: Path, **topics: dict[str, object]) -> None:
    """Write manifests of topics."""
    (folder / "topics.yaml").write_text(
        "\n---\n".join(document("Topic", name, **spec) for name, spec in topics.items())
    )


SOURCES = ("--clusters", "cluster.yaml", "--snapshot", "prod.jsonl")


@pytest.mark.usefixtures("folder")
def test_dormant_topics_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """With a shorter observation than the days no topic is listed; JSON has the usage."""
    assert run(["list", *SOURCES, "--dormant", "35d", "--format", "json"]) == Exit.DONE
    (cluster,) = json.loads(capsys.readouterr().out)["clusters"]
    (topic,) = cluster["topics"]
    assert (topic["topic"], topic["states"]) == ("dormant", ["Dormant", "Unknown"])
    assert topic["usage"]["bytes"] == 8 * MIB
    assert run(["list", *SOURCES, "--dormant", "41d", "--format", "json"]) == Exit.DONE
    assert json.loads(capsys.readouterr().out)["clusters"][0]["topics"] == []
    assert run(["list", *SOURCES]) == Exit.DONE
    assert "1 dormant" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (
            ["list", "--clusters", "cluster.yaml", "--dormant", "35d"],
            Exit.USAGE,
            "dormant topics are found in snapshots",
        ),
        (["list", *SOURCES, "--dormant", "5w"], Exit.USAGE, "wanted a number of days such as 35d"),
        (["snapshot", "cluster.yaml", "--previous", "x"], Exit.USAGE, "--previous is for --evidence"),
        (["plan", "topics.yaml", *SOURCES, "--evidence", "prod.jsonl"], Exit.USAGE, "--evidence cannot be combined"),
        (["plan", "topics.yaml", *SOURCES, "--allow-in-use", "a*"], Exit.USAGE, "wanted the exact name of a topic"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, text: str
) -> None:
    """Options without an effect are usage errors, and an exact name is no pattern."""
    declare(folder, used={"ensure": "Absent"})
    assert run(words) == code
    assert text in capsys.readouterr().err


def test_a_consent_for_no_topic_of_the_manifests_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name with a typing error allows nothing, and the next line of the plan does not say why."""
    declare(folder, used={"ensure": "Absent"})
    assert run(["plan", "topics.yaml", *SOURCES, "--allow-in-use", "usde"]) == Exit.DONE
    assert "--allow-in-use: no topic of the manifests matches usde\n" in capsys.readouterr().err
    assert run(["plan", "topics.yaml", *SOURCES, "--allow-in-use", "used"]) == Exit.DONE
    assert "no topic of the manifests" not in capsys.readouterr().err


def test_a_snapshot_without_usage_says_how_to_take_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without usage no topic is called dormant."""
    write(folder, replace(state(), evidence=None, usage={}))
    assert run(["list", *SOURCES, "--dormant", "35d"]) == Exit.ERROR
    assert "has no usage of topics" in capsys.readouterr().err


def test_a_plan_says_what_its_changes_mean(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A deletion, a growth and a cut have their usage in text, Markdown, HTML and JSON; a topic in use is refused."""
    declare(
        folder,
        used={"ensure": "Absent"},
        dormant={"ensure": "Absent"},
        unknown={"partitions": 3, "replicationFactor": 2, "config": {"retention.bytes": MIB}},
    )
    words = ["plan", "topics.yaml", *SOURCES]
    assert run([*words, "--page", "page.html"]) == Exit.DONE
    text = " ".join(capsys.readouterr().out.split())
    assert "deletes 16 MiB in all replicas (8 MiB of data, 20 offsets)" in text
    assert "no write seen since" in text
    assert "is in use:" in text
    assert "billing (2 members, " in text
    assert "8 MiB stay in the old partitions; whether it is written is unknown" in text
    assert "retention.bytes deletes up to 6 MiB of 8 MiB" in text
    assert "8 MiB stay in the old partitions" in (folder / "page.html").read_text()
    assert run([*words, "--format", "markdown"]) == Exit.DONE
    assert "usage: " in capsys.readouterr().out
    assert run([*words, "--format", "json"]) == Exit.DONE
    topics = {topic["topic"]: topic for topic in json.loads(capsys.readouterr().out)["clusters"][0]["topics"]}
    assert topics["dormant"]["usage"][0].startswith("deletes 16 MiB")
    assert [refusal["reason"] for refusal in topics["used"]["refusals"]] == ["TopicInUse"]
    assert run([*words, "--allow-in-use", "used", "--format", "json"]) == Exit.DONE
    topics = {topic["topic"]: topic for topic in json.loads(capsys.readouterr().out)["clusters"][0]["topics"]}
    assert topics["used"]["changes"][0]["kind"] == "DeleteTopic"


def test_a_junit_report_is_written_beside_the_comment(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report has each topic of the plan, and without a plan the errors of the manifests."""
    declare(folder, used={"ensure": "Absent"}, dormant={"ensure": "Absent"})
    words = ["plan", "topics.yaml", *SOURCES, "--format", "markdown", "--junit", "plan.xml"]
    assert run(words) == Exit.DONE
    assert "### Plan: 1 to delete, 1 refused" in capsys.readouterr().out
    found = {case.name: case.outcome for case in read_junit((folder / "plan.xml").read_text())}
    assert found == {"plan of the cluster": "", "dormant": "", "used": "failure"}
    (folder / "topics.yaml").write_text("kind: Topic\n")
    assert run(words) == Exit.ERROR
    assert "### No plan: " in capsys.readouterr().out
    assert {case.outcome for case in read_junit((folder / "plan.xml").read_text())} == {"", "failure"}


def test_a_policy_can_ask_for_usage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes and days are numbers of a rule; unknown ones are -1."""
    declare(folder, dormant={"ensure": "Absent"}, unknown={"ensure": "Absent"})
    rule = {
        "name": "small",
        "subject": "Change",
        "expression": 'change.kind != "DeleteTopic" || topic.usage.written == "Used" || change.bytesLost > 9000000',
        "message": "large topics only",
    }
    (folder / "policy.yaml").write_text(document("Policy", "deletions", rules=[rule]))
    assert run(["plan", "topics.yaml", "policy.yaml", *SOURCES, "--format", "json"]) == Exit.DONE
    topics = json.loads(capsys.readouterr().out)["clusters"][0]["topics"]
    assert {topic["topic"]: [each["reason"] for each in topic["refusals"]] for topic in topics} == {
        "dormant": ["PolicyDenied"],
        "unknown": ["PolicyDenied"],
    }


def test_a_drift_report_finds_dormant_topics(folder: Path) -> None:
    """Declared and undeclared topics have a finding, also one that equals its manifest; the counts fit."""
    declare(folder, dormant={"partitions": 2, "replicationFactor": 2})
    words = ["drift", "topics.yaml", "--clusters", "cluster.yaml", "--snapshots", "prod.jsonl", "--out", "report"]
    assert run([*words, "-q"]) in (Exit.DONE, Exit.CHANGES)
    rows = [json.loads(line) for line in (folder / "report" / "findings.jsonl").read_text().splitlines()]
    (found,) = [row for row in rows if row["class"] == "dormant"]
    assert (found["topic"], found["severity"], found["planned"]) == ("dormant", "Medium", "Reported")
    assert "no write seen since" in found["actual"]
    summary = json.loads((folder / "report" / "summary.json").read_text())
    assert summary["topics"]["inSync"] == 0
