"""The check before an upgrade: values that stop brokers, dropped names, defaults that change; text and JSON."""

from __future__ import annotations

import json

from msgspec.structs import replace

from support.builders import PROD_CLUSTER, spec, state, topic
from topiarist.inspection.check import UpgradeEffect, UpgradeReport, check_upgrade, check_upgrade_of_specs
from topiarist.kafka.config_rules import is_supported, kafka_default
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.types import LONG_MAX, ClusterMode, KafkaVersion, KnownConfig
from topiarist.model.state import ClusterState, ReadError
from topiarist.output.list import encode_reports
from topiarist.schema import load

AFTER = "message.timestamp.after.max.ms"
STOPS, DROPPED, DEFAULT = UpgradeEffect

OLD = state(
    topic("small", config={"segment.bytes": "1000", AFTER: "5"}),
    topic("old", config={"message.format.version": "2.8", "message.timestamp.difference.max.ms": "9", AFTER: "5"}),
    topic("stamped", config={"message.timestamp.type": "LogAppendTime"}),
    topic("plain"),
)
"""A cluster in ZooKeeper mode with a topic for each effect."""


def brief(report: UpgradeReport) -> list[tuple[UpgradeEffect, str, list[tuple[str, str | None]]]]:
    """Return the effects with their topics and values."""
    return [
        (finding.effect, finding.key, [(item.topic, item.value) for item in finding.topics])
        for finding in report.findings
    ]


def test_each_effect_is_found_the_worst_first() -> None:
    """Overrides that stop brokers come first, then dropped ones, then defaults; other topics are not named."""
    report = check_upgrade(OLD, PROD_CLUSTER, (4, 4))
    assert brief(report) == [
        (STOPS, "segment.bytes", [("small", "1000")]),
        (DROPPED, "message.format.version", [("old", "2.8")]),
        (DROPPED, "message.timestamp.difference.max.ms", [("old", "9")]),
        (DEFAULT, AFTER, [("plain", None)]),
    ]
    assert report.stops_brokers
    assert report.findings[0].message.endswith("wanted 1048576 or more")
    assert report.findings[2].hint.startswith("use message.timestamp.before.max.ms and ")
    assert (report.findings[3].before, report.findings[3].after) == (str(LONG_MAX), "3600000")


def test_the_target_decides() -> None:
    """Kafka 4.0 takes small segments, 3.9 has all names of 3.8, and a downgrade drops newer names."""
    assert [(effect, key) for effect, key, _ in brief(check_upgrade(OLD, PROD_CLUSTER, (4, 0)))] == [
        (DROPPED, "message.format.version"),
        (DROPPED, "message.timestamp.difference.max.ms"),
        (DEFAULT, AFTER),
    ]
    assert brief(check_upgrade(OLD, PROD_CLUSTER, (3, 9))) == []
    newer = state(topic(config={"remote.copy.lag.ms": "5", "max.decompressed.message.bytes": "5", AFTER: "1"}))
    assert brief(check_upgrade(newer, PROD_CLUSTER, (4, 4))) == []
    for target, keys in (
        ((4, 3), ["max.decompressed.message.bytes", "remote.copy.lag.ms"]),
        ((4, 2), ["remote.copy.lag.ms"]),
    ):
        report = check_upgrade(newer, replace(PROD_CLUSTER, version=(4, 4)), target)
        assert [key for _, key, _ in brief(report)] == keys
        assert report.findings[0].message.startswith(f"Kafka 4.{target[1]} does not have it")


def test_defaults_that_the_brokers_set_do_not_change() -> None:
    """A setting of the brokers stays; with KRaft a default other than Kafka's own must come from the brokers."""
    server = "log.message.timestamp.after.max.ms"
    assert brief(check_upgrade(state(topic()), replace(PROD_CLUSTER, broker_config={server: "7"}), (4, 4))) == []
    assert brief(check_upgrade(state(topic(), broker_defaults={server: "7"}), PROD_CLUSTER, (4, 4))) == []
    assert brief(check_upgrade(kraft((3, 9), str(LONG_MAX)), PROD_CLUSTER, (4, 4))) == [
        (DEFAULT, AFTER, [("orders", None)])
    ]
    assert brief(check_upgrade(kraft((3, 9), "7"), PROD_CLUSTER, (4, 4))) == []
    assert brief(check_upgrade(kraft((4, 0), "3600000"), PROD_CLUSTER, (4, 4))) == []


def kraft(version: KafkaVersion, after: str) -> ClusterState:
    """Return a cluster in KRaft mode with one topic, and with brokers of a version and this default."""
    known = {
        name: KnownConfig("", after if name == AFTER else kafka_default(name, version))
        for name in TOPIC_CONFIGS
        if is_supported(name, version)
    }
    return state(topic(), mode=ClusterMode.KRAFT, known_configs=known, min_version=version)


def test_manifests_are_checked_beside_the_cluster_and_alone() -> None:
    """A value that the cluster has too is named once, with its location; others are marked as of the manifest only."""
    small = spec("small", config={"segment.bytes": 1000, AFTER: 5})
    new = spec("new", config={"segment.bytes": 2000, AFTER: 5})
    gone = spec("gone", ensure="Absent")
    (stops,) = (
        found
        for found in check_upgrade(OLD, PROD_CLUSTER, (4, 4), [small, new, gone]).findings
        if found.effect is STOPS
    )
    assert [(item.topic, item.value, item.in_manifest_only) for item in stops.topics] == [
        ("new", "2000", True),
        ("small", "1000", False),
    ]
    assert all(item.location is not None for item in stops.topics)
    changed = spec("small", config={"segment.bytes": 5, AFTER: 5})
    (stops,) = (
        found for found in check_upgrade(OLD, PROD_CLUSTER, (4, 4), [changed]).findings if found.effect is STOPS
    )
    assert [(item.value, item.in_manifest_only) for item in stops.topics] == [("1000", False), ("5", True)]
    report = check_upgrade_of_specs(PROD_CLUSTER, (4, 4), [small, spec("plain"), gone])
    assert (report.cluster_id, report.topic_count) == (None, 2)
    assert brief(report) == [(STOPS, "segment.bytes", [("small", "1000")]), (DEFAULT, AFTER, [("plain", None)])]
    assert not report.findings[0].topics[0].in_manifest_only


def test_the_document_is_of_the_schema() -> None:
    """The JSON document has the findings of each cluster and what could not be read, and fits the schema."""
    odd = state(topic_errors={"odd": ReadError("/x", "no JSON")})
    reports = [check_upgrade(each, PROD_CLUSTER, (4, 4)) for each in (OLD, odd, state())]
    made = json.loads(json.dumps(encode_reports(reports, (4, 4))))
    assert load.first_error("upgrade-check", made) == ""
    assert [finding["effect"] for finding in made["clusters"][0]["findings"]] == [
        *("stopsBrokers", "dropped", "dropped", "defaultChanges")
    ]
    assert made["clusters"][1]["unreadable"] == [{"topic": "odd", "path": "/x", "message": "no JSON"}]
    enum = load.load_schema("upgrade-check")["definitions"]["finding"]["properties"]["effect"]["enum"]
    assert enum == [effect.value for effect in UpgradeEffect]
