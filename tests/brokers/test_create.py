"""Topics that topiarist creates, compared with the plan through real brokers and Kafka's own tools."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from brokers.config_samples import non_default_value
from support.kafka.clients import Topic
from support.kafka.kafka_fixture import KafkaFixture
from topiarist.errors import Exit
from topiarist.kafka.config_rules import is_supported
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.config_values import canonical_text
from topiarist.kafka.types import KafkaVersion

SIZES = ((1, 1), (1, 3), (2, 2), (3, 3), (7, 1), (12, 3), (31, 2), (100, 3))
"""Partitions and replicas."""

LEGACY_ID = (2, 8)
"""The first release with a controller that gives every topic an id."""


def release_of(bed: KafkaFixture) -> KafkaVersion:
    """Return the release in the form of the config table."""
    major, minor = bed.kafka.version.split(".")
    return int(major), int(minor)


def every_config(release: KafkaVersion) -> dict[str, str]:
    """Return every topic config that a release supports, each with a value that is not Kafka's default."""
    return {
        name: non_default_value(definition, release)
        for name, definition in TOPIC_CONFIGS.items()
        if is_supported(name, release)
    }


def created(bed: KafkaFixture, topics: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Plan and apply; return the planned ``replicas`` and ``config`` of each topic."""
    bed.declare(topics)
    changes = bed.plan()
    assert changes.keys() == topics.keys()
    bed.apply_plan()
    return {name: only["after"] for name, (only,) in changes.items()}


def check(bed: KafkaFixture, planned: Mapping[str, Mapping[str, Any]]) -> dict[str, Topic]:
    """Compare the brokers and Kafka's own tool with the plan, and send messages to all partitions."""
    found = bed.describe_in_sync(planned)
    replicas = {name: tuple(map(tuple, topic["replicas"])) for name, topic in planned.items()}
    assert {name: topic.replicas for name, topic in found.items()} == replicas
    assert {name: [one.id for one in topic.partitions] for name, topic in found.items()} == {
        name: list(range(len(lists))) for name, lists in replicas.items()
    }
    configs = {
        name: {key: canonical_text(key, text) for key, text in topic["config"].items()}
        for name, topic in planned.items()
    }
    assert bed.clients.overrides(planned) == configs
    has_id = release_of(bed) >= LEGACY_ID
    assert {name: topic.id is not None for name, topic in found.items()} == dict.fromkeys(planned, has_id)
    bed.write_messages(replicas, "first")
    assert bed.read_messages(replicas) == {name: [["first"]] * len(lists) for name, lists in replicas.items()}
    shown = describe(bed)
    for name, lists in replicas.items():
        assert shown[name][0] == lists
        assert configs[name].items() <= shown[name][1].items()
    return found


def describe(bed: KafkaFixture) -> dict[str, tuple[tuple[tuple[int, ...], ...], dict[str, str]]]:
    """Return replica lists and configs of all topics, as ``kafka-topics.sh --describe`` prints them."""
    said = bed.kafka.tool("kafka-topics", "--bootstrap-server", bed.kafka.bootstrap, "--describe")
    assert said.code == 0, said
    replicas: dict[str, list[tuple[int, ...]]] = {}
    configs: dict[str, dict[str, str]] = {}
    for line in said.out.splitlines():
        fields = dict(field.split(": ", 1) for field in line.strip().split("\t") if ": " in field)
        if "Partition" in fields:
            assert int(fields["Partition"]) == len(replicas.setdefault(fields["Topic"], []))
            replicas[fields["Topic"]].append(tuple(map(int, fields["Replicas"].split(","))))
        else:
            # A value may contain commas: a comma ends a value only if a key and an equals sign follow.
            items = re.split(r",(?=[a-z0-9.]+=)", fields.get("Configs", ""))
            configs[fields["Topic"]] = dict(item.split("=", 1) for item in items if item)
    return {name: (tuple(lists), configs[name]) for name, lists in replicas.items()}


@pytest.mark.core
@pytest.mark.parametrize("layout", ["racked", "bare"])
def test_what_was_planned_is_what_kafka_shows(layout: str, racked: KafkaFixture, bare: KafkaFixture) -> None:
    """Kafka shows created topics as planned, with 1 to 100 partitions, explicit replica lists and every config.

    They carry messages, and a second plan is empty.
    """
    bed = racked if layout == "racked" else bare
    brokers = sorted(bed.kafka.racks)
    lists = [[brokers[2], brokers[0]], [brokers[0], brokers[1]], [brokers[2], brokers[1]], [brokers[1], brokers[0]]]
    topics: dict[str, dict[str, Any]] = {
        f"made.{partitions}-by-{replicas}": {"partitions": partitions, "replicationFactor": replicas}
        for partitions, replicas in SIZES
    }
    topics["Made_explicitly"] = {"replicaAssignment": lists, "config": {"cleanup.policy": "compact , delete"}}
    config = every_config(release_of(bed))
    topics["made-with-every-config"] = {"partitions": 3, "replicationFactor": 2, "config": config}
    planned = created(bed, topics)
    assert planned["Made_explicitly"]["replicas"] == lists
    assert planned["made-with-every-config"]["config"] == config
    check(bed, planned)
    assert bed.run("plan", "--exit-code").code == Exit.DONE


def test_a_topic_gets_the_id_that_the_controller_keeps(racked: KafkaFixture) -> None:
    """The id of a topic that topiarist created stays the same after a change of the controller, which reads it from
    ZooKeeper.
    """
    planned = created(racked, {"kept-id": {"partitions": 2, "replicationFactor": 3}})
    before = check(racked, planned)["kept-id"].id
    controller = racked.kafka.controller()
    racked.kafka.restart(controller)
    assert racked.describe_in_sync(["kept-id"])["kept-id"].id == before
    racked.write_messages({"kept-id": [0, 1]}, "second")
    assert racked.read_messages({"kept-id": [0, 1]}) == {"kept-id": [["first", "second"]] * 2}
