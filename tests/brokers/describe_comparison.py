"""A comparison of ``topiarist describe``, in both output formats, with Kafka's Admin client.

The comparison computes under-replicated, offline and under-min-ISR partitions a second time from the Admin client's
answers, as ``kafka-topics.sh`` does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

from support.kafka.clients import Partition
from support.kafka.kafka_fixture import KafkaFixture
from topiarist.cli.main import run
from topiarist.kafka.config_values import canonical_text

ROW_PATTERN = re.compile(r" +(\d+) +(none|\d+) +\[([\d,]*)\] +\[([\d,]*)\]")
"""A line of the text output with an initialized partition: id, leader, replicas, ISR."""


@dataclass(frozen=True)
class DescribeResult:
    """The description of one topic at one moment: the cluster's JSON document, and the text if it was requested."""

    code: int
    document: Mapping[str, Any]
    text: str = ""

    @property
    def phase(self) -> str:
        """Return the phase of the topic."""
        return str(self.document["phase"])

    @property
    def waits_for(self) -> str:
        """Return the reason why the next phase is blocked."""
        return str(self.document["blockedBy"])

    @property
    def partition_states(self) -> tuple[Partition, ...]:
        """Return the initialized partitions in the form of the Admin client."""
        return tuple(
            Partition(one["partition"], one["state"]["leader"], tuple(one["replicas"]), tuple(one["state"]["isr"]))
            for one in self.document["partitions"]
            if one["state"]
        )

    @property
    def text_rows(self) -> tuple[Partition, ...]:
        """Return the initialized partitions of the text output."""
        return tuple(
            Partition(int(number), -1 if leader == "none" else int(leader), parse_ids(replicas), parse_ids(isr))
            for number, leader, replicas, isr in ROW_PATTERN.findall(self.text)
        )

    def partitions_with(self, *conditions: str) -> set[int]:
        """Return the partitions with any of these conditions."""
        return {
            one["partition"]
            for one in self.document["partitions"]
            if any(each["condition"] in conditions for each in one["conditions"])
        }


def parse_ids(text: str) -> tuple[int, ...]:
    """Return ``3,5`` as numbers."""
    return tuple(map(int, text.split(","))) if text else ()


def describe_topic(bed: KafkaFixture, topic: str) -> DescribeResult:
    """Describe a topic as a JSON document."""
    code, out = _run_describe("describe", topic, "--zookeeper", bed.kafka.connect, *_JSON)
    clusters = json.loads(out)["clusters"]
    return DescribeResult(code, clusters[0] if clusters else {"phase": "Unknown"})


_JSON = ("--format", "json")


def _run_describe(*words: str) -> tuple[int, str]:
    with redirect_stdout(StringIO()) as out:
        code = run(list(words))
    return code, out.getvalue()


def wait_for_agreement(bed: KafkaFixture, topic: str) -> DescribeResult:
    """Return the description in both formats, once it equals Kafka's.

    Brokers receive changes a little later than ZooKeeper.
    """
    found: list[DescribeResult] = []
    differ: list[str] = []

    def same() -> bool:
        _, text = _run_describe("describe", topic, "--zookeeper", bed.kafka.connect, "-v")
        found[:] = [replace(describe_topic(bed, topic), text=text)]
        differ[:] = differences(bed, topic, found[0])
        return not differ

    try:
        bed.kafka.wait(same, f"describe and Kafka to say the same of {topic}")
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), *differ, found[0].text])) from None
    return found[0]


def differences(bed: KafkaFixture, topic: str, described: DescribeResult) -> list[str]:
    """Return the differences between the description and Kafka, and between its text and its document."""
    pairs = {
        "text": (described.text_rows, described.partition_states),
        "words": ([words for words in _messages(described) if words not in _normalize_spaces(described.text)], []),
        **dict(_compare_with_kafka(bed, topic, described)),
    }
    return [f"{what}: found {ours}, wanted {theirs}" for what, (ours, theirs) in pairs.items() if ours != theirs]


def _messages(described: DescribeResult) -> Iterator[str]:
    yield described.document["message"]
    yield described.waits_for
    for one in described.document["partitions"]:
        yield from (each["message"] for each in one["conditions"])


def _normalize_spaces(text: str) -> str:
    return " ".join(text.split())


def _compare_with_kafka(
    bed: KafkaFixture, topic: str, described: DescribeResult
) -> Iterator[tuple[str, tuple[object, object]]]:
    """Yield the value of the description and Kafka's value, by subject."""
    kafka = bed.clients.describe([topic])[topic]
    assert kafka is not None, f"Kafka does not know {topic}"
    moving = {int(number): move for number, move in bed.clients.ongoing_reassignments().get(topic, {}).items()}
    yield "id", (described.document["topicId"], kafka.id)
    yield "partitions", (described.partition_states, kafka.partitions)
    yield (
        "not initialized",
        (
            described.partitions_with("NotInitialized"),
            {one["partition"] for one in described.document["partitions"]} - {one.id for one in kafka.partitions},
        ),
    )
    moves = {one["partition"]: [one["adding"], one["removing"]] for one in described.document["partitions"]}
    yield "moves", ({number: move for number, move in moves.items() if any(move)}, moving)
    yield "being reassigned", (described.partitions_with("Reassigning"), set(moving))
    configs = bed.clients.configs([topic])[topic]
    least = int(configs["min.insync.replicas"][0])
    for condition, which in _expected_conditions(kafka.partitions, moving, least).items():
        yield condition, (described.partitions_with(*condition.split(" or ")), which)
    values = {value["field"].removeprefix("config."): value for value in described.document["values"]}
    ours = {
        key: canonical_text(key, value["actual"])
        for key, value in values.items()
        if value["field"].startswith("config.") and value["actualSource"] == "Topic"
    }
    theirs = {key: value for key, (value, source) in configs.items() if source == "DYNAMIC_TOPIC_CONFIG"}
    yield "configs", (ours, theirs)


def _expected_conditions(
    partitions: tuple[Partition, ...], moving: Mapping[int, list[list[int]]], min_isr: int
) -> Mapping[str, set[int]]:
    """Return the partitions in each condition, computed as Kafka's own tools do."""
    added = {number: adding for number, (adding, _) in moving.items()}
    return {
        "Offline": {one.id for one in partitions if one.leader < 0},
        "UnderReplicated": {
            one.id for one in partitions if len(one.isr) < len(set(one.replicas) - set(added.get(one.id, ())))
        },
        "Offline or UnderMinIsr": {one.id for one in partitions if one.leader < 0 or len(one.isr) < min_isr},
        "NotPreferredLeader": {one.id for one in partitions if 0 <= one.leader != one.replicas[0]},
    }
