"""Every command of the command line on a real cluster in KRaft mode, as a reviewer sees its output."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from brokers.topiarist_runs import run_in_process
from support.cli.github_action import run_action
from support.cli.runs import RunResult, document, run_process, start_topiarist
from support.kafka.kraft import CONTROLLER
from support.kafka.kraft_fixture import KraftFixture
from support.soak import SOAK
from topiarist.errors import Exit

SPARK_LIMIT_S = 400.0
"""Seconds for a report by Spark, which starts a JVM beside those of the brokers."""

MANY = 300
"""Topics of an apply that is ended: with pacing they take much longer than a freeze."""

SIZE: Mapping[str, Any] = {"partitions": 2, "replicationFactor": 3}


class Desk(KraftFixture):
    """A folder with manifests of one cluster, and the commands that are run over it."""

    @property
    def cluster(self) -> Path:
        """The file with the Cluster document."""
        return self.folder / "cluster.yaml"

    @property
    def topics(self) -> Path:
        """The folder with the Topic documents."""
        return self.folder / "topics"

    def declare_cluster(self, **spec: Any) -> None:
        """Write the Cluster document."""
        self.cluster.write_text(document("Cluster", "prod", kafka={"bootstrapServers": self.kafka.bootstrap}, **spec))

    def declare(self, name: str, **spec: Any) -> None:
        """Write a Topic document."""
        (self.topics / f"{name}.yaml").write_text(document("Topic", name, **{**SIZE, **spec}))

    def run(self, command: str, *words: str | Path, code: int = Exit.DONE) -> RunResult:
        """Run a command over the manifests; no output may have the words of the other way to a cluster."""
        return self.run_over(command, self.topics, "--clusters", self.cluster, *words, code=code)

    def run_over(self, *words: str | Path, code: int = Exit.DONE) -> RunResult:
        """Run a command with these arguments only."""
        said = run_in_process(*words)
        assert said.code == code, said
        check_words(said)
        return said

    def plan_json(self, *words: str | Path) -> Any:
        """Return the plan of the manifests."""
        (plan,) = json.loads(self.run("plan", "--format", "json", *words).out)["clusters"]
        return plan

    def list_topics(self, prefix: str) -> set[str]:
        """Return the names of the topics with a prefix, as topiarist lists them without manifests."""
        (found,) = json.loads(self.run_over("list", "--clusters", self.cluster, "--format", "json").out)["clusters"]
        return {each["topic"] for each in found["topics"] if each["topic"].startswith(prefix)}


def test_remote_storage_without_tiered_storage_is_refused_in_the_plan(desk: Desk) -> None:
    """The brokers have no tiered storage, and the plan says so before an apply does."""
    desk.declare("tiered", config={"remote.storage.enable": True})
    said = " ".join(desk.run("plan", "--exit-code", code=Exit.REFUSED).out.split())
    assert "the brokers have remote.log.storage.system.enable=false" in said
    assert "ConfigInvalid" in said


def check_words(said: RunResult) -> None:
    """Assert that the output has no word of ZooKeeper: a reviewer of a KRaft cluster does not know them."""
    text = f"{said.out}{said.err}".lower()
    assert "zookeeper" not in text, said
    assert "znode" not in text, said


@pytest.fixture
def desk(kraft: KraftFixture) -> Desk:
    """Return a folder with a Cluster document and without topics."""
    found = Desk(kraft.kafka, kraft.clients, kraft.folder)
    found.topics.mkdir()
    found.declare_cluster(clusterId=kraft.kafka.cluster_id)
    return found


def test_a_plan_is_shown_saved_reviewed_and_applied(desk: Desk) -> None:
    """Each form of the plan has the change; the saved and the reviewed plan are applied and reported."""
    desk.declare("first", config={"retention.ms": 604800000, "min.insync.replicas": 2})
    said = desk.run("validate")
    assert "1 topic valid" in said.err
    saved, report = desk.folder / "plan.json", desk.folder / "report.jsonl"
    text = desk.run("plan", "--out", saved, "--exit-code", code=Exit.CHANGES).out
    assert f"3 brokers in 3 racks,\n       controller {CONTROLLER}, epoch" in text
    assert re.search(r"\+ first +create 2 partitions x 3 replicas", text)
    assert "#### `first`: create 2 partitions x 3 replicas" in desk.run("plan", "--format", "markdown").out
    assert "::warning" not in desk.run("plan", "--format", "github").out
    desk.run_over("apply", "--plan", saved, "--clusters", desk.cluster, "--yes", "--wait", "--report", report)
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert [row["row"] for row in rows] == ["header", "topic", "summary"]
    made = desk.wait_for_topic("first")
    assert (rows[1]["result"], rows[1]["topicId"]) == ("done", made.id)
    assert made.replicas == tuple(tuple(each) for each in rows[1]["changes"][0]["after"]["replicas"])
    assert "No changes: 1 topic matches" in desk.run("plan", "--exit-code").out
    again = desk.run_over("apply", "--plan", saved, "--clusters", desk.cluster, "--yes")
    assert "1 unchanged" in again.err + again.out

    desk.declare("first", partitions=4, config={"retention.ms": 86400000, "min.insync.replicas": 2})
    desk.declare("second")
    reviewed = desk.folder / "reviewed.json"
    shown = desk.run("plan", "--cluster", "prod", "--out", reviewed, "--format", "github").out
    assert "retention.ms 604800000 -> 86400000: messages older than 1 day will be deleted" in shown
    desk.declare("second", partitions=3)
    said = desk.run("apply", "--reviewed", reviewed, "--yes", "--allow-risk", "DataLoss=first", code=Exit.CONFLICT)
    assert "NotReviewed" in said.out
    assert len(desk.wait_for_topic("first", lambda topic: len(topic.replicas) == 4).replicas) == 4
    assert desk.clients.describe(["second"])["second"] is None
    desk.kafka.wait(lambda: desk.clients.overrides(["first"])["first"]["retention.ms"] == "86400000", "the config")
    desk.topics.joinpath("second.yaml").unlink()
    desk.topics.joinpath("first.yaml").write_text(document("Topic", "first", ensure="Absent"))
    desk.run("apply", "--yes", "--wait", "--allow-risk", "DataLoss=first")
    desk.kafka.wait(lambda: desk.clients.describe(["first"])["first"] is None, "the deletion")
    assert desk.run("plan", "--exit-code").code == Exit.DONE


def test_describe_and_list_show_what_the_brokers_have(desk: Desk) -> None:
    """Leaders and in-sync replicas are those of Kafka's own client; a value that is not set is the brokers' own."""
    desk.declare("shown", config={"flush.ms": 1000, "max.message.bytes": 2000000})
    desk.run("apply", "--yes", "--wait")
    topic = desk.wait_for_topic("shown", lambda topic: topic.is_in_sync)
    desk.clients.alter({"shown": {"max.message.bytes": None}})
    desk.kafka.wait(lambda: "max.message.bytes" not in desk.clients.overrides(["shown"])["shown"], "the change")
    kept = desk.clients.configs(["shown"])["shown"]["max.message.bytes"][0]
    text = desk.run_over("describe", "shown", desk.topics, "--clusters", desk.cluster).out
    for words in ("2 x 3 replicas: all healthy", f"topic id     {topic.id}", "is not set now"):
        assert words in text
    found = json.loads(
        desk.run_over("describe", "shown", desk.topics, "--clusters", desk.cluster, "--format", "json").out
    )["clusters"][0]
    assert {
        number: (each["state"]["leader"], tuple(each["replicas"]), set(each["state"]["isr"]))
        for number, each in enumerate(found["partitions"])
    } == {each.id: (each.leader, each.replicas, set(each.isr)) for each in topic.partitions}
    value = next(each for each in found["values"] if each["field"] == "config.max.message.bytes")
    assert (value["actual"], value["actualSource"], value["desired"]) == (kept, "Brokers", "2000000")
    listed = desk.run("list", "--format", "json").out
    states = {each["topic"]: each["states"] for each in json.loads(listed)["clusters"][0]["topics"]}
    assert states["shown"] == ["Well"]
    assert "shown " in desk.run("list").out
    desk.run("apply", "--yes")


def test_an_export_and_a_snapshot_plan_as_the_cluster_does(desk: Desk) -> None:
    """The exported manifests plan nothing; a snapshot gives the plan of the cluster, to the byte."""
    desk.declare("exported", config={"cleanup.policy": "compact", "segment.ms": 86400000})
    desk.run("apply", "--yes")
    folder, taken = desk.folder / "export", desk.folder / "snapshots"
    desk.run_over("export", "--bootstrap-servers", desk.kafka.bootstrap, "--cluster", "prod", "--out", folder)
    assert f"bootstrapServers: {desk.kafka.bootstrap}" in (folder / "cluster.yaml").read_text()
    assert "cleanup.policy: compact" in (folder / "topics" / "prod.exported.yaml").read_text()
    assert "No changes" in desk.run_over("plan", folder, "--exit-code").out
    desk.declare("exported", partitions=5, config={"cleanup.policy": "compact", "segment.ms": 90000000})
    desk.declare("wanted")
    desk.run_over("snapshot", "--clusters", desk.cluster, "--out", taken)
    assert desk.plan_json("--snapshot", taken) == desk.plan_json()
    assert [each["topic"] for each in desk.plan_json()["topics"]] == ["exported", "wanted"]


BY_SPARK = (("spark", ("--live",)),) if SOAK else ()
"""Spark reads a cluster by the same session as one process, and takes minutes beside brokers: make soak."""


def test_drift_is_found_live_and_in_snapshots_by_every_engine(desk: Desk) -> None:
    """The same two findings by each engine, from the brokers and from a snapshot."""
    desk.declare("drifting", config={"flush.ms": 1000})
    desk.run("apply", "--yes")
    desk.clients.alter({"drifting": {"flush.ms": "2000"}})
    desk.kafka.wait(lambda: desk.clients.overrides(["drifting"])["drifting"] == {"flush.ms": "2000"}, "the change")
    desk.declare("missing")
    taken = desk.folder / "snapshots"
    desk.run_over("snapshot", "--clusters", desk.cluster, "--out", taken)
    found = {}
    for engine, words in (("python", ("--live",)), ("python", ("--snapshots", taken)), *BY_SPARK):
        out = desk.folder / f"{engine}-{len(words)}"
        said = run_process(
            *("drift", desk.topics, "--clusters", desk.cluster, *words, "--engine", engine, "--out", out),
            timeout=SPARK_LIMIT_S,
        )
        assert said.code == Exit.DONE, said
        check_words(said)
        rows = [json.loads(line) for line in (out / "findings.jsonl").read_text().splitlines()]
        found[out.name] = [(row["topic"], row["class"]) for row in rows if "topic" in row]
        assert "zookeeper" not in (out / "summary.md").read_text().lower()
    assert len(set(map(tuple, found.values()))) == 1, found
    assert {("drifting", "config"), ("missing", "missing")} <= set(found["python-1"])
    desk.topics.joinpath("missing.yaml").unlink()
    desk.run("apply", "--yes")


def test_a_freeze_ends_a_running_apply(desk: Desk) -> None:
    """The apply in progress stops at its next request; while the cluster is frozen nothing is written."""
    for number in range(MANY):
        desk.declare(f"frozen-{number:03}", partitions=1, replicationFactor=1)
    address = ("--clusters", desk.cluster)
    paced = ("--wait", "--max-inflight-replicas", "1")
    running = start_topiarist("apply", desk.topics, *address, "--yes", *paced)
    desk.wait_for_topic("frozen-000")
    desk.run_over("freeze", *address, "--reason", "maintenance")
    try:
        out, err = running.communicate(timeout=120)
        assert running.returncode in (Exit.ERROR, Exit.REFUSED), (out, err)  # an error if a request was under way
        assert "the cluster is frozen by" in err, (out, err)
        made = desk.list_topics("frozen-")
        assert 0 < len(made) < MANY
        assert "write block: Frozen" in desk.run("plan").out
        desk.run("apply", "--yes", code=Exit.REFUSED)
        assert desk.list_topics("frozen-") == made
    finally:
        desk.run_over("unfreeze", *address)
    for number in range(MANY):
        if number >= len(made) + 3:
            desk.topics.joinpath(f"frozen-{number:03}.yaml").unlink()
    desk.run("apply", "--yes", "--wait")
    assert len(desk.list_topics("frozen-")) == len(made) + 3
    assert desk.run("plan", "--exit-code").code == Exit.DONE


def test_a_topic_is_released_and_taken_again(desk: Desk) -> None:
    """The record is removed and the topic stays; the next plan adopts it. A nudge has nothing to do."""
    desk.declare("released")
    desk.run("apply", "--yes", "--wait")
    before = desk.wait_for_topic("released").id
    assert "no nudge is needed" in desk.run_over("nudge", "released", "--clusters", desk.cluster, "--yes").err
    desk.run_over("unmanage", "released", "--clusters", desk.cluster, "--yes")
    assert desk.wait_for_topic("released").id == before
    (released,) = desk.plan_json()["topics"]
    assert [change["kind"] for change in released["changes"]] == ["TakeOwnership"]
    desk.run("apply", "--yes")


def test_moves_are_carried_out_shown_and_reverted(desk: Desk) -> None:
    """A lower replication factor is applied with its report; the plan of the way back is applied too."""
    desk.declare("moved")
    desk.run("apply", "--yes", "--wait")
    first = desk.wait_for_topic("moved")
    desk.declare_cluster(moves={"allow": ["Factor"], "throttle": "Unlimited"})
    desk.declare("moved", replicationFactor=2)
    report, back = desk.folder / "report.jsonl", desk.folder / "back.json"
    assert "factor 3 -> 2, 2 partitions" in desk.run("plan").out
    desk.run("apply", "--yes", "--report", report)
    shorter = tuple(each[:2] for each in first.replicas)
    desk.wait_for_topic("moved", lambda topic: topic.replicas == shorter)
    assert "Nothing moves." in desk.run_over("moves", "--clusters", desk.cluster).out
    shown = json.loads(desk.run_over("moves", "--clusters", desk.cluster, "--format", "json").out)
    assert shown["clusters"][0]["partitions"] == []
    assert "nothing to clear" in desk.run_over("moves", "clear", "--clusters", desk.cluster, "--yes").out
    desk.run_over("moves", "revert", report, "--clusters", desk.cluster, "--out", back)
    desk.run_over("apply", "--plan", back, "--clusters", desk.cluster, "--yes")
    desk.wait_for_topic("moved", lambda topic: topic.is_in_sync and topic.replicas == first.replicas)


def test_upgrade_check_finds_what_the_newest_release_changes(desk: Desk, kraft_release: str) -> None:
    """Nothing from Kafka 4 on; before that the default that moves, for the topics that inherit it."""
    desk.declare("checked")
    desk.run("apply", "--yes")
    said = desk.run("upgrade-check", "--to", "4.4")
    wanted = "nothing found" if kraft_release >= "4" else "another default: message.timestamp.after.max.ms"
    assert wanted in said.out


def test_apache_kafka_has_every_capability(desk: Desk) -> None:
    """Nothing is missing on brokers of Apache Kafka; only replica lists, and compaction at first, need a try."""
    found = []
    for _ in range(2):
        said = desk.run_over("check", desk.cluster, "--format", "json")
        (cluster,) = json.loads(said.out)["clusters"]
        assert (cluster["error"], cluster["writeBlock"], cluster["mode"]) == (None, None, "KRaft")
        assert {each["given"] for each in cluster["capabilities"]} == {True, None}
        found.append({each["name"] for each in cluster["capabilities"] if each["given"] is None})
        desk.declare("checked-first")
        desk.run("apply", "--yes")
    assert found[0] - {"compaction"} == found[1] == {"replicaLists", "growthLists"}


def test_the_action_plans_and_applies_through_the_brokers(desk: Desk) -> None:
    """The scripts of the GitHub action take the address of the brokers, and apply the reviewed plan."""
    desk.declare("acted")
    output = desk.folder / "out"
    variables = {"PLATFORM": str(desk.cluster), "BOOTSTRAP_SERVERS": desk.kafka.bootstrap}
    desk.cluster.write_text(document("Cluster", "prod", kafka={"bootstrapServers": "127.0.0.1:1"}))
    log, ended = run_action(desk.folder, "plan", **variables)
    assert "exit-code=0" in ended, log
    assert "#### `acted`: create 2 partitions x 3 replicas" in (output / "plan.md").read_text()
    log, ended = run_action(desk.folder, "apply", REVIEWED="true", **variables)
    assert "exit-code=0" in ended, log
    assert "acted" in (output / "outcome.md").read_text()
    desk.wait_for_topic("acted")
