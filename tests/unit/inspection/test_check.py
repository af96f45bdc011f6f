"""Checks of a cluster and of an upgrade: capabilities and advice, and values that stop brokers; text and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import CLUSTER_ID, PROD_CLUSTER, spec, state, topic
from topiarist.adapters.snapshots.codec import encode_state
from topiarist.errors import Reason, TopiaristError
from topiarist.inspection.check import (
    ClusterCheck,
    UpgradeEffect,
    UpgradeReport,
    check_state,
    check_upgrade,
    check_upgrade_of_specs,
)
from topiarist.kafka.config_rules import is_supported, kafka_default
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.types import LONG_MAX, Broker, ClusterMode, KafkaVersion, KnownConfig
from topiarist.model.access import KafkaAccess, ZooKeeperAccess
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import (
    APACHE_KAFKA,
    UNKNOWN,
    AllowedOperations,
    Capabilities,
    ClusterState,
    ReadError,
    Support,
)
from topiarist.output.list import encode_checks, encode_reports, format_checks
from topiarist.output.text.layout import TextLayout
from topiarist.schema import load

BY_BROKERS = replace(PROD_CLUSTER, kafka=KafkaAccess("b:9092"))
BY_ZOOKEEPER = replace(PROD_CLUSTER, zookeeper=ZooKeeperAccess("z:2181"))
NEW = ClusterSpec(name="", kafka=KafkaAccess("b:9092"))
NO_QUORUM = Support(False, "the brokers do not offer DescribeQuorum")
SERVICE = replace(
    APACHE_KAFKA, freshness=NO_QUORUM, replica_lists=UNKNOWN, moves=Support(False, "Alter is missing", lacks_right=True)
)
READ = state(topic(), mode=ClusterMode.KRAFT, bypasses_brokers=False, known_configs={}, capabilities=SERVICE)


def text(*checks: ClusterCheck) -> str:
    """Return the text of checks, on one line each paragraph of blanks."""
    return " ".join(format_checks(checks, TextLayout()).split())


def document(*checks: ClusterCheck) -> dict[str, Any]:
    """Return the valid document of checks."""
    made = json.loads(json.dumps(encode_checks(checks)))
    assert load.first_error("check", made) == ""
    return dict(made)


def test_each_capability_has_its_texts_and_its_place_in_the_schemas() -> None:
    """The table, the schema of this document and that of snapshots name exactly the capabilities, in their order."""
    (cluster,) = document(check_state(BY_BROKERS, READ))["clusters"]
    names = [each["name"] for each in cluster["capabilities"]]
    assert len(names) == len(Capabilities.__struct_fields__)
    assert load.load_schema("check")["definitions"]["capability"]["properties"]["name"]["enum"] == names
    row = load.load_schema("snapshot")["definitions"]["cluster"]["properties"]["capabilities"]
    assert row["items"]["properties"]["name"]["enum"] == names
    absent = Capabilities(**dict.fromkeys(Capabilities.__struct_fields__, Support(False, "no")))
    written = json.loads(next(encode_state(replace(READ, capabilities=absent), "a", "b")))
    assert [each["name"] for each in written["capabilities"]] == names


def test_what_works_and_what_does_not() -> None:
    """A missing capability has its reason and its effect, an unknown one says so."""
    (cluster,) = document(check_state(BY_BROKERS, READ))["clusters"]
    by_name = {each["name"]: each for each in cluster["capabilities"]}
    assert (by_name["freshness"]["given"], by_name["freshness"]["why"]) == (False, NO_QUORUM.why)
    assert by_name["freshness"]["effect"].startswith("a plan may")
    assert (by_name["moves"]["lacksRight"], by_name["moves"]["effect"]) == (True, "moves are refused")
    assert by_name["replicaLists"]["given"] is None
    assert by_name["topicIds"]["effect"] == ""


def test_the_ways() -> None:
    """Through ZooKeeper everything is given, and the text says what that way does not check."""
    checked = check_state(BY_ZOOKEEPER, state(topic()))
    said = text(checked)
    assert "through ZooKeeper, 6 brokers" in said
    assert "no policy, ACL or quota of the brokers is checked" in said
    assert {each.support.is_given for each in checked.findings} == {True}
    assert "quotas" not in {each.name for each in checked.findings}
    assert document(checked)["clusters"][0]["via"] == "ZooKeeper"


@pytest.mark.parametrize(
    ("spec", "found", "lines"),
    [
        (BY_BROKERS, READ, []),
        (NEW, READ, [f"clusterId: {CLUSTER_ID}"]),
        (NEW, replace(READ, known_configs=None), [f"clusterId: {CLUSTER_ID}", 'kafkaVersion: "3.3"']),
        (
            replace(BY_BROKERS, version=None),
            replace(READ, known_configs=None, min_version=(3, 6)),
            ['kafkaVersion: "3.6"'],
        ),
        (
            replace(BY_BROKERS, version=None),
            replace(READ, known_configs=None, mode=ClusterMode.ZOOKEEPER),
            ['kafkaVersion: "2.4"'],
        ),
        (replace(BY_ZOOKEEPER, version=None), state(topic()), ['kafkaVersion: "2.4"']),
        (BY_BROKERS, replace(READ, brokers=(Broker(1),)), ["kafka:", "records:", "replicationFactor: 1"]),
        (
            BY_BROKERS,
            replace(READ, capabilities=replace(SERVICE, replica_lists=NO_QUORUM, compaction=NO_QUORUM)),
            ["kafka:", "placement: Brokers", "records: None"],
        ),
    ],
)
def test_the_document_to_write(spec: ClusterSpec, found: ClusterState, lines: list[str]) -> None:
    """Only what is missing in the document is there, each value with its reason in a comment before it."""
    checked = check_state(spec, found)
    shown = format_checks([checked], TextLayout()).split("spec:\n")
    written = [line.strip() for line in shown[1].split("\n\n")[0].splitlines()] if len(shown) > 1 else []
    assert [line for line in written if not line.startswith("#") and line.endswith(tuple(lines or ["?"]))] == lines
    fields = [each["field"] for each in document(checked)["clusters"][0]["advice"]]
    assert len(fields) == sum(not line.endswith(":") for line in lines)


ALL = frozenset({"Create", "Read", "Write", "Delete", "Alter", "Describe", "DescribeConfigs", "AlterConfigs"})


def permissions(allowed: AllowedOperations) -> dict[tuple[str, str], bool | None]:
    """Return the rights of the check of a cluster behind brokers, by operation and resource."""
    checked = check_state(BY_BROKERS, READ, allowed)
    (cluster,) = document(checked)["clusters"]
    found = {(each["operation"], each["resource"]): each["given"] for each in cluster["permissions"]}
    assert len(found) == len(cluster["permissions"])
    return found


def test_permissions_are_those_that_brokers_say() -> None:
    """Each right has a row; a right on some topics alone names those without it; what is not said is not known."""
    topics = {
        "a": ALL,
        "b": ALL - {"Delete"},
        "__topiarist": ALL - {"Delete", "Write"},
        "__consumer_offsets": frozenset[str](),
    }
    allowed = AllowedOperations(ALL - {"Create", "Alter"}, topics, ())
    found = permissions(allowed)
    assert [key for key, given in found.items() if given is False] == [
        ("Delete", "Topic *"),
        ("Alter", "Cluster"),
        ("Write", "Topic __topiarist"),
        ("Describe", "Group *"),
    ]
    unknown = [("Create", "Cluster"), ("Write", "TransactionalId topiarist")]
    assert [key for key, given in found.items() if given is None] == unknown
    said = text(check_state(BY_BROKERS, READ, allowed))
    assert "permitted Alter on Topic *: adding partitions" in said
    assert "denied Delete on Topic *: deleting topics the user lacks it on 1 of 2 topics: b" in said
    assert "not known Write on TransactionalId topiarist: apply" in said
    silent = permissions(AllowedOperations(None, {"a": None}, None))
    assert {*silent.values()} == {None}
    assert silent.keys() == found.keys()
    whole = {*permissions(AllowedOperations(ALL, {"a": ALL, "__topiarist": ALL}, ALL)).items()}
    assert whole == {(key, None if key[1].startswith("Tr") else True) for key in found}
    assert permissions(AllowedOperations(ALL, {}, ALL))["Alter", "Topic *"] is None


def test_permissions_without_records_and_through_zookeeper() -> None:
    """A cluster without records needs no right on them, and ZooKeeper asks no broker."""
    access = KafkaAccess("b:9092", records=None)
    checked = check_state(replace(BY_BROKERS, kafka=access), READ, AllowedOperations(ALL, {}, ALL))
    assert {each.resource for each in checked.permissions} == {"Topic *", "Cluster", "Group *"}
    assert "no replicas are moved why: spec.kafka.records is None" in text(checked)
    assert check_state(BY_ZOOKEEPER, state(topic())).permissions == ()


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
    """Kafka 4.0 takes small segments, 3.9 has all names of 3.8, and newer names of an unknown version are dropped."""
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
        report = check_upgrade(newer, PROD_CLUSTER, target)
        assert [key for _, key, _ in brief(report)] == keys
        assert report.findings[0].message.startswith(f"Kafka 4.{target[1]} does not have it")


def test_no_upgrade_leads_to_an_older_version() -> None:
    """The error names both versions; that of the cluster is a remark if it is certain; an unknown one may be older."""
    declared = replace(PROD_CLUSTER, version=(4, 0))
    checks: list[Callable[[KafkaVersion], UpgradeReport]] = [
        lambda target: check_upgrade(kraft((4, 0), "3600000"), PROD_CLUSTER, target),
        lambda target: check_upgrade(OLD, declared, target),
        lambda target: check_upgrade_of_specs(declared, target, ()),
    ]
    for number, check in enumerate(checks):
        with pytest.raises(TopiaristError) as caught:
            check((3, 9))
        assert caught.value.reason is Reason.WRONG_USAGE
        assert "has Kafka 4.0 or later, found 3.9 as the version to upgrade to" in caught.value.message
        assert [check(target).is_current for target in ((4, 0), (4, 1))] == [number > 0, False]
    unknown = replace(PROD_CLUSTER, version=None)
    assert not check_upgrade(OLD, unknown, (2, 4)).is_current
    assert not check_upgrade_of_specs(unknown, (2, 4), ()).is_current


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
