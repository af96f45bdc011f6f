"""What ``topiarist describe`` says of a topic, held against what Kafka's Admin client says of it, in both forms.

What is under-replicated, without leader or under min ISR is worked out here a second time, from the Admin client's
answers, as ``kafka-topics.sh`` does it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

from support.kafka.bed import Bed
from support.kafka.clients import Partition
from topiarist.cli.main import run
from topiarist.core.configs import canonical_text

ROW = re.compile(r" +(\d+) +(none|\d+) +\[([\d,]*)\] +\[([\d,]*)\]")
"""A line of the text with a partition that the controller has taken over: id, leader, replicas, ISR."""


@dataclass(frozen=True)
class Look:
    """One topic at a moment: ``said`` is its cluster in the document, ``text`` the text, if that was looked at."""

    code: int
    said: Mapping[str, Any]
    text: str = ""

    @property
    def phase(self) -> str:
        """Where it is in its life."""
        return str(self.said["phase"])

    @property
    def waits(self) -> str:
        """What its next phase waits for."""
        return str(self.said["waitsFor"])

    @property
    def states(self) -> tuple[Partition, ...]:
        """The partitions that the controller has taken over, in the form of the Admin client."""
        return tuple(
            Partition(one["partition"], one["state"]["leader"], tuple(one["replicas"]), tuple(one["state"]["isr"]))
            for one in self.said["partitions"]
            if one["state"]
        )

    @property
    def rows(self) -> tuple[Partition, ...]:
        """The same, out of the text."""
        return tuple(
            Partition(int(number), -1 if leader == "none" else int(leader), ids(replicas), ids(isr))
            for number, leader, replicas, isr in ROW.findall(self.text)
        )

    def having(self, *conditions: str) -> set[int]:
        """The partitions that are in one of these conditions."""
        return {
            one["partition"]
            for one in self.said["partitions"]
            if any(each["condition"] in conditions for each in one["conditions"])
        }


def ids(text: str) -> tuple[int, ...]:
    """``3,5`` as numbers."""
    return tuple(map(int, text.split(","))) if text else ()


def look(bed: Bed, topic: str) -> Look:
    """Describe a topic, as a document."""
    code, out = _run("describe", topic, "--zookeeper", bed.kafka.connect, *_JSON)
    clusters = json.loads(out)["clusters"]
    return Look(code, clusters[0] if clusters else {"phase": "Unknown"})


_JSON = ("--format", "json")


def _run(*words: str) -> tuple[int, str]:
    with redirect_stdout(StringIO()) as out:
        code = run(list(words))
    return code, out.getvalue()


def agreed(bed: Bed, topic: str) -> Look:
    """What describe says, in both forms, once Kafka says the same: brokers hear of changes a little after ZooKeeper."""
    found: list[Look] = []
    differ: list[str] = []

    def same() -> bool:
        _, text = _run("describe", topic, "--zookeeper", bed.kafka.connect, "-v")
        found[:] = [replace(look(bed, topic), text=text)]
        differ[:] = differences(bed, topic, found[0])
        return not differ

    try:
        bed.kafka.wait(same, f"describe and Kafka to say the same of {topic}")
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), *differ, found[0].text])) from None
    return found[0]


def differences(bed: Bed, topic: str, seen: Look) -> list[str]:
    """What describe says otherwise than Kafka, or otherwise in its text than in its document."""
    pairs = {
        "text": (seen.rows, seen.states),
        "words": ([words for words in _words(seen) if words not in _flat(seen.text)], []),
        **dict(_compared(bed, topic, seen)),
    }
    return [f"{what}: found {ours}, wanted {theirs}" for what, (ours, theirs) in pairs.items() if ours != theirs]


def _words(seen: Look) -> Iterator[str]:
    yield seen.said["message"]
    yield seen.waits
    for one in seen.said["partitions"]:
        yield from (each["message"] for each in one["conditions"])


def _flat(text: str) -> str:
    return " ".join(text.split())


def _compared(bed: Bed, topic: str, seen: Look) -> Iterator[tuple[str, tuple[object, object]]]:
    """What describe says, and what Kafka says, by what it is about."""
    kafka = bed.clients.describe([topic])[topic]
    assert kafka is not None, f"Kafka does not know {topic}"
    moving = {int(number): move for number, move in bed.clients.moving().get(topic, {}).items()}
    yield "id", (seen.said["topicId"], kafka.id)
    yield "partitions", (seen.states, kafka.partitions)
    yield (
        "not taken over",
        (
            seen.having("NotTakenOver"),
            {one["partition"] for one in seen.said["partitions"]} - {one.id for one in kafka.partitions},
        ),
    )
    moves = {one["partition"]: [one["adding"], one["removing"]] for one in seen.said["partitions"]}
    yield "moves", ({number: move for number, move in moves.items() if any(move)}, moving)
    yield "being reassigned", (seen.having("Reassigning"), set(moving))
    configs = bed.clients.configs([topic])[topic]
    least = int(configs["min.insync.replicas"][0])
    for condition, which in _conditions(kafka.partitions, moving, least).items():
        yield condition, (seen.having(*condition.split(" or ")), which)
    values = {value["field"].removeprefix("config."): value for value in seen.said["values"]}
    ours = {
        key: canonical_text(key, value["held"])
        for key, value in values.items()
        if value["field"].startswith("config.") and value["heldBy"] == "Topic"
    }
    theirs = {key: value for key, (value, source) in configs.items() if source == "DYNAMIC_TOPIC_CONFIG"}
    yield "configs", (ours, theirs)


def _conditions(
    found: tuple[Partition, ...], moving: Mapping[int, list[list[int]]], least: int
) -> Mapping[str, set[int]]:
    """The partitions in each condition, as Kafka's own tools find them."""
    added = {number: adding for number, (adding, _) in moving.items()}
    return {
        "Offline": {one.id for one in found if one.leader < 0},
        "UnderReplicated": {
            one.id for one in found if len(one.isr) < len(set(one.replicas) - set(added.get(one.id, ())))
        },
        "Offline or UnderMinIsr": {one.id for one in found if one.leader < 0 or len(one.isr) < least},
        "NotPreferredLeader": {one.id for one in found if 0 <= one.leader != one.replicas[0]},
    }
