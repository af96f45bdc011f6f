"""The compared programs and their command lines: topiarist, and four ways to do the same without it.

Each program but Kafka's command line tools gets all topics in one process and finds the differences itself. The command
line tools need one process per topic, so they get few topics, and their figures are per topic.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import topiarist_command
from benchmarks.engine.planning import floor_command
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
    """A job: the specs of all topics, and the names of the topics that differ from them."""

    name: str
    desired: Topics
    changed: Sequence[str]


class Contender(NamedTuple):
    """A program; ``commands`` returns its processes for a case, given a folder with the files of ``write_inputs``."""

    name: str
    commands: Callable[[Cluster, Path, Case], Commands]
    one_by_one: bool = False


def write_inputs(folder: Path, desired: Topics) -> None:
    """Write the topics as manifests, one file each, and as the JSON that the other programs read."""
    (folder / "manifests").mkdir(exist_ok=True)
    for name, spec in desired.items():
        (folder / "manifests" / f"{name}.yaml").write_text(document("Topic", name, **spec))
    (folder / "wanted.json").write_text(json.dumps(desired))


def batch_command(bootstrap: str, folder: Path, *words: str) -> list[str]:
    """Return the command of ``Batch.java``, a short program over Kafka's Admin client."""
    main = ["Batch", bootstrap, str(folder / "wanted.json"), *words]
    return java_command(fetch_jars(NEWEST), folder, main, quiet=True, classes=[compile_programs()])


def apply_command(kafka: Cluster, folder: Path, *words: str) -> list[str]:
    """Return the command of topiarist."""
    connection = ("--zookeeper", kafka.connect, "--kafka-version", kafka.version)
    return topiarist_command("apply", str(folder / "manifests"), *connection, "--yes", *words)


def _bare_command(kafka: Cluster, folder: Path) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("bare.py")), kafka.connect, str(folder / "wanted.json")]


def _floor_commands(kafka: Cluster, folder: Path, case: Case) -> Commands:
    """Return the command that does the least work of a plan without changes, or of creations; else the script."""
    if case.name == "nothing":
        return [floor_command(folder / "manifests", kafka.connect)]
    if case.name == "creates":
        return [[sys.executable, "-m", "benchmarks.kafka.bare_checked", *_bare_command(kafka, folder)[2:]]]
    return [_bare_command(kafka, folder)]


def tool_commands(bootstrap: str, folder: Path, case: Case) -> Commands:
    """Return commands of ``kafka-topics`` and ``kafka-configs``, by main class; ``nothing`` is a describe."""
    topics, configs = main_class(NEWEST, "kafka-topics"), main_class(NEWEST, "kafka-configs")
    server = ("--bootstrap-server", bootstrap)
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


TOPIARIST = Contender("topiarist", lambda kafka, folder, _: [apply_command(kafka, folder)])
BARE_SCRIPT = Contender("bare kazoo script", lambda kafka, folder, _: [_bare_command(kafka, folder)])
FLOOR = Contender("floor", _floor_commands)

ALL_CONTENDERS = (
    TOPIARIST,
    Contender("topiarist --wait", lambda kafka, folder, _: [apply_command(kafka, folder, "--wait")]),
    BARE_SCRIPT,
    Contender("batched Admin client", lambda kafka, folder, _: [batch_command(kafka.bootstrap, folder)]),
    Contender(
        "Kafka's command line tools",
        lambda kafka, folder, case: tool_commands(kafka.bootstrap, folder, case),
        one_by_one=True,
    ),
)
"""In the order of the first round."""
