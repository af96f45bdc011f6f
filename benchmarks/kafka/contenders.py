"""Who is compared, and what each is told: topiarist, and four ways in which people do the same without it.

All but Kafka's own command line tools are given all topics, and find out what differs; each as one process. Those take
one topic a process, so they get few topics, and their figures are per topic.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import topiarist_command
from support.cli.runs import document
from support.kafka.cluster import Cluster
from support.kafka.jars import NEWEST, fetch_jars
from support.kafka.processes import java_command
from support.kafka.programs import compile_programs
from support.kafka.tools import main_class

Topics = Mapping[str, Mapping[str, Any]]
"""Specs by name: partitions, replicationFactor, config."""

Commands = list[list[str]]


class Case(NamedTuple):
    """A job: what all topics are to be, and the names of those that are not so yet."""

    name: str
    desired: Topics
    changed: Sequence[str]


class Contender(NamedTuple):
    """``commands`` are the processes for a case, given a folder that ``lay_out`` has filled."""

    name: str
    commands: Callable[[Cluster, Path, Case], Commands]
    one_by_one: bool = False


def write_inputs(folder: Path, desired: Topics) -> None:
    """The same topics as manifests, one file each, and as the plain JSON that the short programs read."""
    (folder / "manifests").mkdir(exist_ok=True)
    for name, spec in desired.items():
        (folder / "manifests" / f"{name}.yaml").write_text(document("Topic", name, **spec))
    (folder / "wanted.json").write_text(json.dumps(desired))


def batch_command(kafka: Cluster, folder: Path) -> list[str]:
    """A Java program over Kafka's Admin client: ``Batch.java``, 90 lines."""
    command = java_command(
        fetch_jars(NEWEST), folder, ["Batch", kafka.bootstrap, str(folder / "wanted.json")], quiet=True
    )
    command[command.index("-cp") + 1] += f":{compile_programs()}"
    return command


def apply_command(kafka: Cluster, folder: Path, *words: str) -> list[str]:
    """topiarist on the manifests."""
    connection = ("--zookeeper", kafka.connect, "--kafka-version", kafka.version)
    return topiarist_command("apply", str(folder / "manifests"), *connection, "--yes", *words)


def _bare_command(kafka: Cluster, folder: Path) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("bare.py")), kafka.connect, str(folder / "wanted.json")]


def _script_commands(kafka: Cluster, folder: Path, case: Case) -> Commands:
    """``kafka-topics.sh`` and ``kafka-configs.sh``, by their main classes; to find nothing to do is to describe all."""
    topics, configs = main_class(NEWEST, "kafka-topics"), main_class(NEWEST, "kafka-configs")
    server = ("--bootstrap-server", kafka.bootstrap)
    if case.name == "nothing":
        return [java_command(fetch_jars(NEWEST), folder, [topics, *server, "--describe"], quiet=True)]
    found = []
    for name in case.changed:
        spec = case.desired[name]
        size = ("--topic", name, "--partitions", str(spec["partitions"]))
        settings = [f"{key}={value}" for key, value in spec["config"].items()]
        words = {
            "creates": [
                *(topics, *server, "--create", *size, "--replication-factor", str(spec["replicationFactor"])),
                *(word for setting in settings for word in ("--config", setting)),
            ],
            "growths": [topics, *server, "--alter", *size],
            "configs": [
                *(configs, *server, "--alter", "--entity-type", "topics", "--entity-name", name),
                *("--add-config", ",".join(settings)),
            ],
        }
        found.append(java_command(fetch_jars(NEWEST), folder, words[case.name], quiet=True))
    return found


ALL_CONTENDERS = (
    Contender("topiarist", lambda kafka, folder, _: [apply_command(kafka, folder)]),
    Contender("topiarist --wait", lambda kafka, folder, _: [apply_command(kafka, folder, "--wait")]),
    Contender("bare kazoo script", lambda kafka, folder, _: [_bare_command(kafka, folder)]),
    Contender("batched Admin client", lambda kafka, folder, _: [batch_command(kafka, folder)]),
    Contender("Kafka's command line tools", _script_commands, one_by_one=True),
)
"""In the order of the first round."""
