"""Export of a cluster: exported topics and values, their form, and omissions with their reasons."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import CLUSTER_ID, PositionedSource, cluster, replica_lists, spec, state, topic
from topiarist.desired.export import (
    ExportResult,
    assign_document_names,
    build_cluster_document,
    build_entities,
    derive_cluster_name,
    entity_key,
    export_cluster,
    render_document,
    to_owner_reference,
)
from topiarist.desired.shared_specs import merge
from topiarist.errors import Reason
from topiarist.kafka.config_values import Scalar, to_config_text, to_scalar
from topiarist.kafka.types import Replicas
from topiarist.model.access import KafkaAccess, ZooKeeperAccess
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec
from topiarist.model.state import ClusterState, OwnershipRecord, ReadError, TopicState, WriteBlock
from topiarist.output.list import format_summary
from topiarist.output.text.layout import TextLayout
from topiarist.schema import check

NEW = ClusterSpec(name="prod", zookeeper=ZooKeeperAccess("zk1:2181/kafka"), version=(3, 9))
"""A cluster without a document."""

ORDERS = {"topicName": "orders", "clusters": ["prod"]}
"""The fields of every document of the topic orders."""


def foreign(
    name: str = "orders", replicas: tuple[Replicas, ...] = replica_lists("12", "23", "34"), **fields: Any
) -> TopicState:
    """Return a topic without an ownership record."""
    return topic(name, replicas, **({"record": None} | fields))


def exported(*topics: TopicState, on: ClusterSpec = NEW, **fields: Any) -> ExportResult:
    """Return the export of a cluster with these topics."""
    return export_cluster(state(*topics, **fields), on, "default")


def spec_of(found: ExportResult, name: str) -> Any:
    """Return the spec in the document of a topic."""
    folder = "topics/" if "cluster.yaml" in found.files else ""
    return found.files[f"{folder}prod.{name}.yaml"]["spec"]


def config_of(config: Mapping[str, str], on: ClusterSpec = NEW) -> Any:
    """Return the config in the document of a topic with these overrides."""
    return spec_of(exported(foreign(config=config), on=on), "orders").get("config", {})


def test_a_topic_says_its_own_size() -> None:
    """A topic has its own size also if it equals the defaults, because defaults apply only at creation."""
    found = exported(foreign("orders"), foreign("users"))
    assert found.files["cluster.yaml"]["spec"]["defaults"] == {"partitions": 3, "replicationFactor": 2}
    assert spec_of(found, "orders") == {**ORDERS, "partitions": 3, "replicationFactor": 2}


def test_no_size_of_one_becomes_a_default() -> None:
    """Kafka's own default of 1 is no choice: a new topic must then name its size."""
    found = exported(foreign("orders", replica_lists("1")), foreign("users", replica_lists("2")))
    assert "defaults" not in found.files["cluster.yaml"]["spec"]
    assert spec_of(found, "orders") == {**ORDERS, "partitions": 1, "replicationFactor": 1}
    for lists, defaults in (
        (replica_lists("12"), {"replicationFactor": 2}),
        (replica_lists("1", "2"), {"partitions": 2}),
    ):
        assert exported(foreign("orders", lists)).files["cluster.yaml"]["spec"]["defaults"] == defaults


@pytest.mark.parametrize(
    ("access", "name"),
    [
        (KafkaAccess("kafka-prod-1.example.com:9092,kafka-prod-2.example.com:9092"), "prod"),
        (KafkaAccess("kafka1.prod.example.com:9092"), "prod"),
        (KafkaAccess("b-1.orders.c2.kafka.eu-west-1.amazonaws.com:9098"), "orders"),
        (KafkaAccess("my-cluster-kafka-bootstrap.shop.svc:9092"), "my"),
        (KafkaAccess("pkc-4nym6.us-east-1.aws.confluent.cloud:9092"), "pkc-4nym6"),
        (KafkaAccess("localhost:9092"), "kafka"),
        (KafkaAccess("10.1.2.3:9092"), "kafka"),
        (KafkaAccess("[::1]:9092"), "kafka"),
        (ZooKeeperAccess("zk1:2181,zk2:2181/kafka-eu"), "eu"),
        (ZooKeeperAccess("zk1.Shop_EU:2181/kafka"), "shop-eu"),
        (ZooKeeperAccess("zk1:2181"), "kafka"),
        (ZooKeeperAccess("zk.shop,zk.office"), "shop"),
        (None, "kafka"),
    ],
)
def test_a_name_is_derived_from_an_address(access: KafkaAccess | ZooKeeperAccess | None, name: str) -> None:
    """The words that tell a cluster from others are its name, and a document may have it."""
    assert derive_cluster_name(access) == name
    assert check.check(build_cluster_document(ClusterSpec(name=name, kafka=KafkaAccess("b1:9092")))) == []


def test_the_cluster_says_where_it_is_and_what_it_is() -> None:
    """The exported Cluster has address, id and release only; a cluster with a document gets no new one."""
    document = exported().files["cluster.yaml"]
    assert document["metadata"] == {"name": "prod"}
    assert document["spec"] == {
        "zookeeper": {"connect": "zk1:2181/kafka"},
        "clusterId": CLUSTER_ID,
        "kafkaVersion": "3.9",
    }
    assert list(exported(foreign(), on=cluster("prod")).files) == ["prod.orders.yaml"]


def test_a_cluster_is_exported_as_it_was_reached() -> None:
    """Through brokers the Cluster has ``spec.kafka``; its release is known there, and the summary asks for none."""
    on = ClusterSpec(name="prod", kafka=KafkaAccess("b1:9092,b2:9092"))
    found = exported(foreign(), on=on)
    document, sizes = found.files["cluster.yaml"], {"partitions": 3, "replicationFactor": 2}
    assert document["spec"] == {
        "kafka": {"bootstrapServers": "b1:9092,b2:9092"},
        "clusterId": CLUSTER_ID,
        "defaults": sizes,
    }
    assert check.check(document) == []
    summaries = [
        format_summary(found, read, each, folder="out", layout=TextLayout(width=80))
        for each, read in (
            (on, state(foreign(), bypasses_brokers=False)),
            (replace(NEW, version=None), state(foreign())),
        )
    ]
    assert ["set kafkaVersion" in summary for summary in summaries] == [False, True]


@pytest.mark.parametrize("identity", ["7sYkR0b2QIu1nT4mXc9pAw", "", "no id", "é", "x" * 255, "x" * 256, "\n"])
def test_an_id_that_no_manifest_takes_is_left_out(identity: str) -> None:
    """A cluster id that the schema rejects is omitted, so that the folder is valid; every other id is exported."""
    document = export_cluster(ClusterState(identity, ()), NEW, "default").files["cluster.yaml"]
    assert check.check(document) == []
    with_id = {**document, "spec": {**document["spec"], "clusterId": identity}}
    assert ("clusterId" in document["spec"]) == (check.check(with_id) == [])


@pytest.mark.parametrize("on", [NEW, cluster("prod")])
def test_topics_name_their_cluster(on: ClusterSpec) -> None:
    """Topics name their cluster with and without a Cluster document.

    The folder may be combined with that of another cluster.
    """
    assert spec_of(exported(foreign(), on=on), "orders")["clusters"] == ["prod"]


def test_an_unnamed_cluster_is_no_part_of_a_document() -> None:
    """The document of a topic then has the topic's own name, and names it only once."""
    found = exported(foreign(), on=replace(NEW, name=""))
    assert "topicName" not in found.files["topics/orders.yaml"]["spec"]


def test_two_exports_have_no_document_in_common() -> None:
    """Exports of two clusters with the same topics have no common document name."""
    found = [exported(foreign("orders"), foreign("users"), on=replace(NEW, name=name)) for name in ("eu", "us")]
    names = [{body["metadata"]["name"] for body in each.files.values()} for each in found]
    assert names[0] == {"eu", "eu.orders", "eu.users"}
    assert not names[0] & names[1]


def test_what_nearly_all_topics_share_is_said_once() -> None:
    """A value that nine of ten topics share becomes a default. Topics without it get ``withoutConfig``, topics with
    another value keep their own.
    """
    shared = {"min.insync.replicas": "2"}
    topics = [foreign(f"t{number}", config=shared | {"retention.ms": "5"}) for number in range(18)]
    own, without = foreign("own", config={"min.insync.replicas": "1"}), foreign("without")
    found = exported(*topics, own, without)
    assert found.files["cluster.yaml"]["spec"]["defaults"]["config"] == {"min.insync.replicas": 2, "retention.ms": 5}
    assert "config" not in spec_of(found, "t0")
    assert spec_of(found, "own")["config"] == {"min.insync.replicas": 1}
    assert spec_of(found, "own")["withoutConfig"] == ["retention.ms"]
    assert spec_of(found, "without")["withoutConfig"] == ["min.insync.replicas", "retention.ms"]


@pytest.mark.parametrize(("sharing", "others"), [(2, 0), (8, 1), (9, 2)])
def test_what_few_topics_share_stays_with_them(sharing: int, others: int) -> None:
    """A value of fewer than three topics, or of fewer than nine of ten, stays in the topics."""
    topics = [foreign(f"t{number}", config={"flush.ms": "5"}) for number in range(sharing)]
    found = exported(*topics, *(foreign(f"other{number}") for number in range(others)))
    assert "config" not in found.files["cluster.yaml"]["spec"]["defaults"]
    assert spec_of(found, "t0")["config"] == {"flush.ms": 5}


def test_the_defaults_of_a_document_are_not_repeated() -> None:
    """A value that equals a default is omitted, and a default that a topic lacks is in ``withoutConfig``."""
    given = cluster("prod", default_config={"min.cleanable.dirty.ratio": "0.50", "flush.ms": "5", "segment.ms": "7"})
    found = exported(foreign(config={"min.cleanable.dirty.ratio": ".5", "flush.ms": "6"}), on=given)
    assert spec_of(found, "orders")["config"] == {"flush.ms": 6}
    assert spec_of(found, "orders")["withoutConfig"] == ["segment.ms"]


def test_times_and_sizes_have_units_on_request() -> None:
    """``--units`` writes a unit where a number is a multiple of it, in topics and in defaults."""
    config = {
        "retention.ms": "604800000",
        "segment.bytes": "1073741824",
        "max.message.bytes": "1000",
        "retention.bytes": "-1",
    }
    wanted = {"retention.ms": "7d", "segment.bytes": "1GiB", "max.message.bytes": 1000, "retention.bytes": -1}
    bare = build_cluster_document(replace(NEW, default_config={"retention.ms": "604800000"}))
    assert bare["spec"]["defaults"] == {"config": {"retention.ms": 604800000}}
    for on in (NEW, cluster("prod")):
        topics = state(*(foreign(f"t{number}", config=config) for number in range(3)), foreign(config=config))
        found = export_cluster(topics, on, "default", use_units=True)
        spec = found.files["cluster.yaml"]["spec"]["defaults"] if on is NEW else spec_of(found, "orders")
        assert spec["config"] == wanted


VALUES = {
    "number": ("retention.ms", "604800000", 604_800_000),
    "largest number": ("flush.ms", "9223372036854775807", 9_223_372_036_854_775_807),
    "zeros before": ("retention.ms", "0086400000", 86_400_000),
    "truth": ("preallocate", "TRUE", True),
    "words": ("cleanup.policy", " delete ,\tcompact ", "delete,compact"),
    "fraction": ("min.cleanable.dirty.ratio", "0.50", Decimal("0.50")),
    "bare fraction": ("min.cleanable.dirty.ratio", ".5", Decimal("0.5")),
    "suffix": ("min.cleanable.dirty.ratio", "0.5f", Decimal("0.5")),
    "small fraction": ("min.cleanable.dirty.ratio", "0.0001", Decimal("0.0001")),
    "more digits than a float has": (
        "min.cleanable.dirty.ratio",
        "0.12345678901234567890",
        Decimal("0.12345678901234568"),
    ),
    "version": ("message.format.version", "2.8", "2.8"),
    "vendor's truth": ("confluent.x", "true", True),
    "vendor's number": ("confluent.x", "12", 12),
    "vendor's fraction": ("confluent.x", "1.50", "1.50"),
    "vendor's large number": ("confluent.x", "9223372036854775808", "9223372036854775808"),
}


@pytest.mark.parametrize(("key", "stored", "written"), VALUES.values(), ids=VALUES)
def test_values_are_written_as_they_read_best(key: str, stored: str, written: object) -> None:
    """Numbers and booleans are written as such, and as text if a YAML or JSON reader would change the value."""
    found = config_of({key: stored}, cluster("prod", version=(3, 9), allow_unknown_configs=("confluent.*",)))[key]
    assert repr(found) == repr(written)


@pytest.mark.parametrize(
    "text", ["1.50", "-0.0", "0", "-7", "true", "True", "1e3", "9223372036854775808", "+1", "01", ""]
)
def test_a_scalar_is_its_text(text: str) -> None:
    """Converting a text to a scalar and back gives the same text."""
    assert to_config_text("cleanup.policy", to_scalar(text)) == text


def test_fractions_that_a_float_changes_stay_text() -> None:
    """Fractions that a float changes stay text, and so does negative zero, which some readers change to zero."""
    kept: list[Scalar] = [to_scalar(text) for text in ("0.12345678901234567890", "-0.0", "0.1")]
    assert kept == ["0.12345678901234567890", "-0.0", Decimal("0.1")]


LEFT_OUT = {
    "internal": (foreign("__consumer_offsets"), "internal topic of Kafka"),
    "records": (foreign("__topiarist"), "internal topic of topiarist"),
    "other software": (foreign("app-changelog"), "of other software (Cluster.spec.protected lists the names)"),
    "others": (topic(record=OwnershipRecord("shop")), "belongs to owner shop, this run is default"),
    "tombstone": (
        topic(record=OwnershipRecord("default", deleted=True)),
        "deleted by topiarist, but the brokers have delete.topic.enable=false",
    ),
    "no name": (foreign("a b"), 'found " " in topic name "a b", wanted only a-z, A-Z, 0-9, ".", "_" and "-"'),
    "no partitions": (foreign(replicas=()), "it has no partitions"),
    "no replicas": (foreign(replicas=((), ())), "no partition has replicas"),
    "moving": (
        foreign(reassigning_partitions=(0, 1, 2)),
        "every partition is being reassigned: export again when that is done",
    ),
    "ours and unfit": (
        topic("orders", replica_lists("12"), "retention.ms", config={"retention.ms": "abc"}),
        'retention.ms: found "abc", wanted a whole number from -1 to 9223372036854775807; '
        "topiarist set it, and a manifest without it would remove it",
    ),
}


@pytest.mark.parametrize(("found", "why"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_topics_that_no_manifest_of_ours_describes(found: TopicState, why: str) -> None:
    """An omitted topic has no document and is listed with its reason."""
    result = exported(found)
    assert list(result.files) == ["cluster.yaml"]
    assert result.omitted == ((found.name, why),)


def test_topics_that_cannot_be_described_now() -> None:
    """Unreadable topics and topics marked for deletion are listed, and the others are exported."""
    fault = ReadError("/brokers/topics/odd", "is no JSON")
    found = exported(
        foreign("old"), foreign("orders"), pending_deletions=frozenset({"old"}), topic_errors={"odd": fault}
    )
    assert found.omitted == (("odd", "/brokers/topics/odd: is no JSON"), ("old", "marked for deletion"))
    assert found.topic_count == 1


def test_of_two_names_that_collide_the_first_is_written() -> None:
    """Of two colliding names one is exported, and the choice does not depend on the order of reading."""
    (left,) = exported(foreign("a_b"), foreign("a.b"), foreign("a-b")).omitted
    assert left.topic == "a_b"
    assert "collides with a.b" in left.message


def test_records_that_count_for_nothing() -> None:
    """A stale ownership record of any owner is ignored, and the topic is exported (F33)."""
    stale = topic(record=OwnershipRecord("shop", ("retention.ms",)), record_valid=False, config={"retention.ms": "abc"})
    found = exported(stale)
    assert found.topic_count == 1
    assert [why for _, why in found.unmanaged] == [
        'retention.ms: found "abc", wanted a whole number from -1 to 9223372036854775807'
    ]


def test_the_owner_gets_its_own_topics() -> None:
    """Each owner can export its own topics, also those with protected names."""
    topics = [topic(name, record=OwnershipRecord("shop")) for name in ("orders", "connect-offsets")]
    assert export_cluster(state(*topics), NEW, "shop").topic_count == 2


UNFIT = {
    "unknown": ({"confluent.x": "1"}, "confluent.x: Kafka has no such topic config"),
    "too new": ({"remote.log.copy.disable": "false"}, "Kafka knows it since 3.9, but kafkaVersion is 2.8"),
    "not a value": ({"flush.ms": "soon"}, 'flush.ms: found "soon", wanted a whole number'),
    "not for manifests": ({"min.cleanable.dirty.ratio": "NaN"}, 'found "NaN", wanted a plain decimal number'),
    "at odds": (
        {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "5"},
        "min.compaction.lag.ms is 9, more than max.compaction.lag.ms, which is 5",
    ),
    "too many in sync": ({"min.insync.replicas": "3"}, "min.insync.replicas: found 3, with 2 replicas"),
}


@pytest.mark.parametrize(("config", "why"), UNFIT.values(), ids=UNFIT)
def test_values_that_no_manifest_may_hold(config: dict[str, str], why: str) -> None:
    """Invalid values are listed and stay unmanaged on the cluster; the topic and its other values are exported."""
    on = ClusterSpec(name="prod", zookeeper=ZooKeeperAccess("zk1"), version=(2, 8))
    found = exported(foreign(config=config | {"segment.ms": "5"}), on=on)
    (left,) = found.unmanaged
    assert why in left.message
    assert spec_of(found, "orders")["config"]["segment.ms"] == 5
    assert len(spec_of(found, "orders")["config"]) == len(config)


def test_of_values_that_contradict_each_other_few_are_left_out() -> None:
    """A value that is at odds with nothing any more is exported."""
    found = exported(foreign(config={"remote.storage.enable": "true", "cleanup.policy": "compact"}))
    assert [message.split(" is ")[0] for _, message in found.unmanaged] == ["remote.storage.enable"]
    assert spec_of(found, "orders")["config"] == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(("text", "fits"), [("a\nb", False), ("v" * 65_536, True), ("v" * 65_537, False)])
def test_a_vendors_value_that_no_manifest_takes_is_left_out(text: str, fits: bool) -> None:
    """An unprintable or very long value of a vendor's key is omitted, although the Cluster allows the key."""
    on = cluster("prod", allow_unknown_configs=("confluent.*",))
    found = exported(foreign(config={"confluent.x": text}), on=on)
    message = "confluent.x: its value is too long, or has characters that do not print"
    assert found.unmanaged == (() if fits else (("orders", message),))


def test_throttles_are_not_even_mentioned() -> None:
    """Throttles are neither exported nor listed, because they belong to a reassignment and end with it."""
    found = exported(foreign(config={"leader.replication.throttled.replicas": "*"}))
    assert (found.unmanaged, spec_of(found, "orders")) == ((), {**ORDERS, "partitions": 3, "replicationFactor": 2})


def test_uneven_partitions_are_described_by_most_of_them() -> None:
    """A topic with mixed replication is exported with the most frequent factor, and ``ignore`` has that field.

    The summary reports the difference.
    """
    seen = foreign(replicas=replica_lists("12", "123", "234"))
    found = exported(seen)
    assert spec_of(found, "orders") == {
        **ORDERS,
        "partitions": 3,
        "replicationFactor": 3,
        "ignore": ["replicationFactor"],
    }
    why = "partitions have different numbers of replicas: 2 in partition 0, and 3 in the 2 others"
    assert found.mixed_replication == (("orders", f"{why}; its manifest has 3 and ignores replicationFactor"),)
    text = format_summary(found, state(seen), NEW, folder="out", layout=TextLayout())
    assert text.startswith("  mixed            orders: partitions have different numbers of replicas: 2 in")


def test_partitions_that_move_do_not_count() -> None:
    """Reassigned partitions do not count for the factor, because their lists contain old and new replicas."""
    found = exported(foreign(replicas=replica_lists("1234", "12"), reassigning_partitions=(0,)))
    assert spec_of(found, "orders") == {**ORDERS, "partitions": 2, "replicationFactor": 2}


def test_partitions_with_a_hole_are_counted() -> None:
    """With missing partition ids the export has the number of partitions, which the plan compares."""
    assert spec_of(exported(foreign(partition_ids=(0, 1, 7))), "orders")["partitions"] == 3


def test_names_of_documents_are_dns_names() -> None:
    """Document names are the nearest DNS names. If two topics need the same name, the topic with exactly that name
    keeps it.
    """
    names = assign_document_names(["Shop.Orders_v2", "orders", "ORDERS", "_a", "-.-", "x" * 249, "X" * 249], "eu")
    assert names["Shop.Orders_v2"] == "eu.shop.orders-v2"
    assert names["orders"] == "eu.orders"
    assert names["ORDERS"] == "eu.orders-d0d6ef"
    assert (names["_a"], names["-.-"]) == ("eu.a", "eu.topic")
    assert names["x" * 249].startswith("eu." + "x" * 240 + "-")
    assert names["X" * 249] == "eu." + "x" * 240 + "-053340"


def test_topic_name_is_given() -> None:
    """A document has ``topicName``, because its own name includes the cluster."""
    found = exported(foreign("Shop.Orders"), foreign("orders"))
    assert spec_of(found, "shop.orders")["topicName"] == "Shop.Orders"
    assert spec_of(found, "orders")["topicName"] == "orders"


def test_the_summary_names_everything_that_is_missing() -> None:
    """The summary has each reason once, the most frequent first.

    It warns of a write block and of an undeclared release.
    """
    on = ClusterSpec(name="prod", zookeeper=ZooKeeperAccess("zk1"))
    many = [foreign(f"connect-{number:02}") for number in range(30)]
    odd = [foreign(f"t{number:02}", config={"flush.ms": f"x{number}"}) for number in range(30)]
    seen = state(
        *many,
        *odd,
        write_block=WriteBlock(Reason.KRAFT_CONTROLLER, "a KRaft controller is in charge"),
        warnings=("odd\x1b",),
    )
    found = export_cluster(seen, on, "default")
    text = format_summary(found, seen, on, folder="out", layout=TextLayout(width=80))
    assert "  left out         30 topics: of other software" in text
    assert "connect-10, ... 19 more" in text
    assert "  unmanaged        11 more (-v shows them)" in text
    assert "  warning          a KRaft controller is in charge; nothing is written to it" in text
    assert "  warning          odd\\x1b" in text
    assert "set kafkaVersion in out/cluster.yaml" in text
    assert text.endswith("\nExported: 30 topics of cluster prod to out, 30 left out.")
    assert max(map(len, text.splitlines())) <= 80
    whole = format_summary(found, seen, on, folder="out", layout=TextLayout(width=80, verbose=True))
    assert "connect-29" in whole
    assert "t29: flush.ms" in whole


def test_the_summary_of_a_tidy_cluster_is_one_line() -> None:
    """Without omissions and warnings the summary is one line."""
    text = format_summary(exported(foreign()), state(foreign()), NEW, folder="out", layout=TextLayout())
    assert text == "Exported: 1 topic of cluster prod to out."


def test_a_value_of_a_key_that_kafka_knows_may_be_long() -> None:
    """Only the value of an unknown key has a limit, because nothing else says what it may be."""
    digits = f"0.5{'0' * 70_000}"
    on = replace(NEW, allow_unknown_configs=("own.*",))
    config = {"min.cleanable.dirty.ratio": digits, "own.key": "v" * 65_536, "own.long": "v" * 65_537}
    found = exported(foreign(config=config), on=on)
    assert config_of(config, on=on).keys() == {"min.cleanable.dirty.ratio", "own.key"}
    assert [item.message.partition(":")[0] for item in found.unmanaged] == ["own.long"]


def test_a_value_that_only_one_mode_refuses_is_exported_from_the_other() -> None:
    """Remote storage that no setting declares is left out of a cluster with ZooKeeper only: KRaft refuses it itself."""
    config = {"remote.storage.enable": "true"}
    through_brokers = ClusterSpec("prod", kafka=KafkaAccess("b1:9092"), version=(3, 9))
    for on, exported_config in ((NEW, {}), (through_brokers, {"remote.storage.enable": True})):
        assert config_of(config, on=on) == exported_config


# Merged specs as documents.

EU = ClusterSpec(
    name="prod-eu",
    default_partitions=6,
    default_replication_factor=3,
    default_config={"min.insync.replicas": "2", "flush.ms": "1000"},
)


def test_a_document_shows_what_defaults_and_overrides_make_of_a_topic() -> None:
    """Sizes and config are merged, keys are sorted, and an annotation lists the values from the cluster's defaults."""
    found = spec(
        "orders",
        EU,
        replicationFactor=2,
        topicName="orders.v1",
        config={"retention.ms": 604800000},
        withoutConfig=["flush.ms"],
        overrides=[{"clusters": ["prod-eu"], "partitions": 48}],
    )
    assert render_document(found) == {
        "apiVersion": "topiarist.dev/v1",
        "kind": "Topic",
        "metadata": {"annotations": {"topiarist.dev/from-defaults": "config.min.insync.replicas"}, "name": "orders"},
        "spec": {
            "clusters": ["prod-eu"],
            "config": {"min.insync.replicas": "2", "retention.ms": "604800000"},
            "partitions": 48,
            "replicationFactor": 2,
            "topicName": "orders.v1",
            "withoutConfig": ["flush.ms"],
        },
    }


def test_sizes_from_defaults_are_shown_and_named() -> None:
    """A topic without a size shows the default size of the cluster, and the annotation lists it."""
    found = render_document(merge(Manifest("Topic", "a", "", {}, {}, PositionedSource("a.yaml")), EU))
    assert found["spec"]["partitions"] == 6
    assert found["spec"]["replicationFactor"] == 3
    assert found["metadata"]["annotations"]["topiarist.dev/from-defaults"] == (
        "config.flush.ms, config.min.insync.replicas, partitions, replicationFactor"
    )


def test_explicit_replica_lists_stand_in_place_of_sizes() -> None:
    """A topic with explicit replica lists shows the lists and no counts."""
    found = merge(
        Manifest("Topic", "a", "ns", {"team": "x"}, {"replicaAssignment": [[1, 2], [2, 3]]}, PositionedSource("a")),
        ClusterSpec(),
    )
    assert render_document(found)["spec"] == {"replicaAssignment": [[1, 2], [2, 3]], "topicName": "a"}
    assert render_document(found)["metadata"] == {"labels": {"team": "x"}, "name": "a", "namespace": "ns"}


def test_settings_other_than_the_formats_defaults_are_kept() -> None:
    """Settings of a topic other than size and config are shown; those with default values are omitted."""
    found = render_document(
        spec(
            "a",
            ensure="Absent",
            mode="Observe",
            unmanagedConfig="Remove",
            deletionPolicy="Delete",
            ignore=["partitions", "config.flush.ms"],
        )
    )["spec"]
    assert found["ensure"] == "Absent"
    assert found["mode"] == "Observe"
    assert found["unmanagedConfig"] == "Remove"
    assert found["deletionPolicy"] == "Delete"
    assert found["ignore"] == ["config.flush.ms", "partitions"]
    assert render_document(spec("a", keyed=False))["spec"]["keyed"] is False
    assert set(render_document(spec("a", ClusterSpec()))["spec"]) == {"partitions", "replicationFactor", "topicName"}


def test_values_of_profiles_are_named() -> None:
    """An annotation lists the sizes, configs and labels that a profile gives, and not those of the topic itself."""
    on = replace(
        EU,
        profiles={
            "large": {
                "partitions": 48,
                "config": {"segment.ms": "60", "retention.ms": "9"},
                "labels": {"tier": "gold", "team": "x"},
            }
        },
    )
    fields = {"profiles": ["large"], "replicationFactor": 2, "config": {"retention.ms": 5}, "coPartitionGroup": "join"}
    found = render_document(merge(Manifest("Topic", "a", "", {"team": "y"}, fields, PositionedSource("a.yaml")), on))
    assert found["metadata"] == {
        "name": "a",
        "labels": {"team": "y", "tier": "gold"},
        "annotations": {
            "topiarist.dev/from-defaults": "config.flush.ms, config.min.insync.replicas",
            "topiarist.dev/from-profiles": "config.segment.ms, partitions, labels.tier",
        },
    }
    assert (found["spec"]["partitions"], found["spec"]["replicationFactor"]) == (48, 2)
    assert found["spec"]["coPartitionGroup"] == "join"


def test_sizes_of_the_brokers_are_named() -> None:
    """A size that only ``brokerConfig`` gives has an annotation of its own."""
    on = ClusterSpec("prod", default_replication_factor=3, broker_config={"num.partitions": "4"})
    found = render_document(merge(Manifest("Topic", "a", "", {}, {}, PositionedSource("a.yaml")), on))
    assert (found["spec"]["partitions"], found["spec"]["replicationFactor"]) == (4, 3)
    assert found["metadata"]["annotations"] == {
        "topiarist.dev/from-broker-config": "partitions",
        "topiarist.dev/from-defaults": "replicationFactor",
    }


def test_the_lists_of_a_profile_stand_for_its_sizes() -> None:
    """With explicit lists the document has no sizes, so that no annotation names them."""
    on = replace(EU, default_config={}, profiles={"fixed": {"replicaAssignment": [[1], [2]], "partitions": 2}})
    made = render_document(merge(Manifest("Topic", "a", "", {}, {"profiles": ["fixed"]}, PositionedSource("a")), on))
    assert made["spec"] == {"clusters": ["prod-eu"], "replicaAssignment": [[1], [2]], "topicName": "a"}
    assert made["metadata"] == {"name": "a"}


def again(found: TopicSpec) -> TopicSpec:
    """Return the spec that the rendered document of a spec gives on the same cluster."""
    made = render_document(found)
    metadata = made["metadata"]
    labels, namespace = metadata.get("labels", {}), metadata.get("namespace", "")
    return merge(
        Manifest("Topic", metadata["name"], namespace, labels, made["spec"], PositionedSource("again.yaml")),
        found.cluster,
    )


@pytest.mark.parametrize(
    "found",
    [
        spec("a", EU, config={"retention.ms": -1}, withoutConfig=["flush.ms"]),
        spec("b", EU, ignore=["partitions"], mode="Observe", unmanagedConfig="Remove", topicName="b.v1"),
        spec("c", EU, ensure="Absent", partitions=3, replicationFactor=2),
        spec("e", EU, keyed=False),
        merge(Manifest("Topic", "d", "", {}, {"replicaAssignment": [[1, 2], [2, 3]]}, PositionedSource("d.yaml")), EU),
    ],
    ids=lambda found: found.topic,
)
def test_a_document_means_what_its_spec_means(found: TopicSpec) -> None:
    """A rendered document gives the same spec on its cluster; only the origins of the values differ."""
    other = again(found)
    assert replace(other, manifest=found.manifest, inherited_keys=found.inherited_keys) == found


def test_a_topic_is_a_resource_of_backstage() -> None:
    """The entity has owner, system, description and labels; annotations have the exact names of topic and cluster."""
    labels = {"team": "shop", "app.kubernetes.io/part-of": "checkout"}
    wanted = replace(spec("Orders_v1", ClusterSpec("prod-eu")), profile_labels=labels)
    bare = spec("orders", ClusterSpec())
    owners = {entity_key(wanted): "shop", entity_key(bare): "user:jane"}
    about = {"Orders_v1": "Orders as they are placed"}
    assert build_entities([wanted, bare], owners, lambda each: about.get(each.topic, "")) == [
        {
            "apiVersion": "backstage.io/v1alpha1",
            "kind": "Resource",
            "metadata": {
                "name": "prod-eu-orders-v1",
                "title": "Orders_v1 on prod-eu",
                "description": "Orders as they are placed",
                "labels": {"app.kubernetes.io/part-of": "checkout", "team": "shop"},
                "annotations": {"topiarist.dev/cluster": "prod-eu", "topiarist.dev/topic": "Orders_v1"},
            },
            "spec": {"type": "kafka-topic", "owner": "shop", "system": "checkout"},
        },
        {
            "apiVersion": "backstage.io/v1alpha1",
            "kind": "Resource",
            "metadata": {"name": "orders", "title": "orders", "annotations": {"topiarist.dev/topic": "orders"}},
            "spec": {"type": "kafka-topic", "owner": "user:jane"},
        },
    ]


@pytest.mark.parametrize(
    ("team", "owner"),
    [("shop", "shop"), ("@acme/shop", "shop"), ("@acme/a/shop, @acme/b", "shop"), ("@jane, @acme/b", "user:jane")],
)
def test_an_owner_is_an_entity_of_backstage(team: str, owner: str) -> None:
    """A label value and a team are a group, an account is a user; the first owner of a file counts."""
    assert to_owner_reference(team) == owner


@pytest.mark.parametrize(
    "team",
    ["", "shop@example.com", "shop@example.com/a", "@shop@example.com/a", "@@maintainers", "@@maintainers, @acme/shop"],
)
def test_an_owner_without_an_entity_is_an_error(team: str) -> None:
    """No team, an address and a role of GitLab name no entity."""
    with pytest.raises(ValueError, match=r"found (no|the) owner"):
        to_owner_reference(team)
