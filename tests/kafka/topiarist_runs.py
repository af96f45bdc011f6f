"""What topiarist says of a real cluster, in few words; and Kafka's tools as each release wants to be called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from support.cli.runs import RunResult
from support.kafka.kafka_fixture import KafkaFixture
from topiarist.cli.main import run
from topiarist.errors import Exit


class PlannedTopic(NamedTuple):
    """What a plan shows of one topic: changes in a few words, refusals and notices by their reasons."""

    changes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


ADOPT_ONLY = PlannedTopic(("TakeOwnership",))

LEADER_THROTTLE, FOLLOWER_THROTTLE = ("leader.replication.throttled", "follower.replication.throttled")
"""What the configs of throttles begin with: of topics with ``.replicas``, of brokers with ``.rate`` behind it."""


def run_in_process(*words: str | Path) -> RunResult:
    """A run of topiarist within this process: what a process of its own does, without the time to start it."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run([*map(str, words)])
    return RunResult(code, out.getvalue(), err.getvalue())


def plan_topics(folder: Path, *words: str) -> dict[str, PlannedTopic]:
    """What a plan of the manifests in a folder shows, by topic; those of which there is nothing to say are left out."""
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
    """A change: each config as ``key before -> after``, everything else as its kind."""
    if change["kind"] != "UpdateConfig":
        return [change["kind"]]
    return [f"{item['key']} {item['before']} -> {item['after']}" for item in change["config"]]


def manifest_folder(bed: KafkaFixture) -> Path:
    """The folder of the manifests that were declared last."""
    return bed.folder / "manifests"


def snapshot_rows(bed: KafkaFixture) -> dict[str, dict[str, Any]]:
    """What topiarist reads of every topic, and of the cluster (by an empty name)."""
    said = run_in_process("snapshot", "--zookeeper", bed.kafka.connect)
    assert said.code == Exit.DONE, said
    found = [json.loads(line) for line in said.out.splitlines()]
    return {row.get("topic", ""): row for row in found if row["kind"] in ("cluster", "topic")}


def is_reassigning(bed: KafkaFixture, name: str) -> bool:
    """Whether a topic's node says that partitions are being moved."""
    node = json.loads(bed.kafka.client.get(f"/brokers/topics/{name}")[0])
    return bool(node["adding_replicas"] or node["removing_replicas"])


def run_tool(bed: KafkaFixture, name: str, *words: str, since: tuple[int, int] = (3, 0)) -> None:
    """Run one of Kafka's tools as the release has it: before ``since`` it writes to ZooKeeper by itself."""
    release = tuple(map(int, bed.kafka.version.split(".")))
    by_itself = ("--zookeeper", bed.kafka.connect)
    said = bed.kafka.tool(
        name, *(by_itself if release < since else ("--bootstrap-server", bed.kafka.bootstrap)), *words
    )
    assert said.code == 0, said
