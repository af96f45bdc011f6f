"""Summaries of topiarist's output for a real cluster, and Kafka's tools with the options of each release."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from support.cli.runs import RunResult, without_notice
from support.kafka.kafka_fixture import KafkaFixture
from topiarist.cli.main import run
from topiarist.errors import Exit


class PlannedTopic(NamedTuple):
    """The plan of one topic: short texts of changes, and the reasons of refusals and notices."""

    changes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


ADOPT_ONLY = PlannedTopic(("TakeOwnership",))

LEADER_THROTTLE = "leader.replication.throttled"
"""Prefixes of the throttle configs, followed by ``.replicas`` for topics and by ``.rate`` for brokers."""


def run_in_process(*words: str | Path) -> RunResult:
    """Run topiarist in this process, which saves the start of a new process."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run([*map(str, words)])
    return RunResult(code, out.getvalue(), without_notice(err.getvalue()))


def plan_topics(folder: Path, *words: str) -> dict[str, PlannedTopic]:
    """Return the plan of the manifests in a folder, by topic, without unchanged topics."""
    said = run_in_process("plan", folder, "--format", "json", *words)
    assert said.code == Exit.DONE, said
    (cluster,) = json.loads(said.out)["clusters"]
    return {
        topic["topic"]: PlannedTopic(
            tuple(word for change in topic["changes"] for word in change_texts(change)),
            tuple(refusal["reason"] for refusal in topic["refusals"]),
            tuple(notice["reason"] for notice in topic["notices"]),
        )
        for topic in cluster["topics"]
    }


def change_texts(change: Mapping[str, Any]) -> list[str]:
    """Return a change as text: each config as ``key before -> after``, every other change as its kind."""
    if change["kind"] != "UpdateConfig":
        return [change["kind"]]
    return [f"{item['key']} {item['before']} -> {item['after']}" for item in change["config"]]


def manifest_folder(bed: KafkaFixture) -> Path:
    """Return the folder of the declared manifests."""
    return bed.folder / "manifests"


def snapshot_rows(bed: KafkaFixture) -> dict[str, dict[str, Any]]:
    """Return the snapshot row of every topic, and of the cluster under an empty name."""
    said = run_in_process("snapshot", "--zookeeper", bed.kafka.connect)
    assert said.code == Exit.DONE, said
    found = [json.loads(line) for line in said.out.splitlines()]
    return {row.get("topic", ""): row for row in found if row["kind"] in ("cluster", "topic")}


def is_reassigning(bed: KafkaFixture, name: str) -> bool:
    """Return True if a topic's znode has a reassignment in progress."""
    node = json.loads(bed.kafka.client.get(f"/brokers/topics/{name}")[0])
    return bool(node["adding_replicas"] or node["removing_replicas"])


def run_tool(bed: KafkaFixture, name: str, *words: str, since: tuple[int, int] = (3, 0)) -> None:
    """Run one of Kafka's tools with the options of the release; before ``since`` the tool connects to ZooKeeper."""
    release = tuple(map(int, bed.kafka.version.split(".")))
    by_itself = ("--zookeeper", bed.kafka.connect)
    said = bed.kafka.tool(
        name, *(by_itself if release < since else ("--bootstrap-server", bed.kafka.bootstrap)), *words
    )
    assert said.code == 0, said
