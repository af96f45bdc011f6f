"""Rules between fields: errors before any connection, each with its location."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import DocumentSource, cluster, manifest, spec
from topiarist.desired.parse import cluster_errors, cluster_warnings, spec_errors, spec_warnings
from topiarist.desired.resolve import resolve
from topiarist.desired.shared_specs import merge
from topiarist.errors import Reason
from topiarist.kafka.config_rules import is_min_isr_above
from topiarist.kafka.types import INTERNAL_TOPICS, KafkaVersion
from topiarist.model.access import KafkaAccess, RecordsTopic, ZooKeeperAccess
from topiarist.model.spec import ClusterSpec, TopicSpec, ValueOrigin, find_origin
from topiarist.planning.builder import config_hint

BARE = ClusterSpec()
OLD = ClusterSpec("old", version=(2, 8))
VENDOR = ClusterSpec("vendor", allow_unknown_configs=("confluent.*",))


def said(wanted: TopicSpec, *, known: bool = True) -> list[str]:
    """Return the messages of all errors."""
    return [diagnostic.message for diagnostic in spec_errors(wanted, cluster_document_known=known)]


def test_a_good_topic() -> None:
    """A valid topic has no errors."""
    good: dict[str, Any] = {
        "config": {"retention.ms": 5, "min.insync.replicas": 2},
        "partitions": 3,
        "replicationFactor": 2,
    }
    assert said(spec(on=BARE, **good)) == []


def test_counts_beside_lists_that_agree() -> None:
    """Counts that agree with explicit replica lists are no error, as list or text, in the topic or an override."""
    lists: dict[str, Any] = {"replicaAssignment": [[1, 2], [2, 3]], "partitions": 2, "replicationFactor": 2}
    assert said(spec(on=BARE, **lists)) == []
    text = {"clusters": ["bare"], "replicaAssignment": "1:2,2:3", "partitions": 2}
    assert said(spec(on=BARE, partitions=1, replicationFactor=1, overrides=[text])) == []


# fields, cluster -> the start of the error message
WRONG: dict[str, tuple[dict[str, Any], ClusterSpec, str]] = {
    "name": ({"topicName": "a/b"}, BARE, 'found "/" in topic name'),
    "long name": ({"topicName": "a" * 250}, BARE, "found a topic name of 250 characters"),
    "dots": ({"topicName": ".."}, BARE, 'found topic name ".."'),
    "unknown key": ({"config": {"retentoin.ms": 1}}, BARE, "retentoin.ms: Kafka has no such topic config"),
    "vendor's key": ({"config": {"confluent.tier": 1}}, BARE, "confluent.tier: Kafka has no such topic config"),
    "too new": (
        *({"config": {"local.retention.ms": 1}}, OLD),
        "local.retention.ms: Kafka knows it since 3.0, but kafkaVersion is 2.8",
    ),
    "no number": ({"config": {"retention.ms": "1_000"}}, BARE, "retention.ms: found"),
    "out of bounds": ({"config": {"retention.ms": -2}}, BARE, "retention.ms: found -2, wanted -1 or more"),
    "stricter than Kafka": (
        {"config": {"min.cleanable.dirty.ratio": "0.5f"}},
        BARE,
        "min.cleanable.dirty.ratio: found",
    ),
    "remote storage that nobody has spoken of": (
        *({"config": {"remote.storage.enable": True}}, ClusterSpec("prod")),
        "remote.storage.enable is true, and brokers without remote storage would not start again",
    ),
    "contradiction": (
        *({"config": {"min.compaction.lag.ms": 9, "max.compaction.lag.ms": 5}}, BARE),
        "min.compaction.lag.ms is 9, more than max.compaction.lag.ms, which is 5",
    ),
    "min.insync.replicas": (
        *({"partitions": 1, "replicationFactor": 2, "config": {"min.insync.replicas": 3}}, OLD),
        "min.insync.replicas: found 3, but orders has replication factor 2",
    ),
    "min.insync.replicas, explicit": (
        *({"replicaAssignment": [[1, 2]], "config": {"min.insync.replicas": 3}}, OLD),
        "min.insync.replicas: found 3, but orders has replication factor 2",
    ),
    "unequal lists": (
        *({"replicaAssignment": [[1, 2], [3]]}, BARE),
        "replicaAssignment: found different numbers of replicas",
    ),
    "unequal lists beside the factor of the first": (
        *({"replicaAssignment": [[1, 2], [3]], "replicationFactor": 2}, BARE),
        "replicaAssignment: found different numbers of replicas",
    ),
    "a broker twice": ({"replicaAssignment": [[1, 1]]}, BARE, "replicaAssignment: found broker 1 twice"),
    "a broker twice in text": (
        *({"replicaAssignment": "1:2,3:3"}, BARE),
        "replicaAssignment: partition 1: found broker 3 twice, wanted each broker once",
    ),
    "unequal lists in text": (
        *({"replicaAssignment": "1:2,3"}, BARE),
        "replicaAssignment: found different numbers of replicas (1 in partition 1, 2 in partition 0)",
    ),
    "a large id in text": (
        *({"replicaAssignment": "1,2147483648"}, BARE),
        "replicaAssignment: partition 1: found broker id 2147483648, wanted at most 2147483647",
    ),
    "a broker twice in an override": (
        *({"overrides": [{"clusters": ["old"], "replicaAssignment": [[1, 1]]}]}, OLD),
        "replicaAssignment: found broker 1 twice",
    ),
    "other partitions": (
        *({"replicaAssignment": [[1, 2], [2, 3]], "partitions": 3}, BARE),
        "partitions: found 3, but replicaAssignment at topics/orders.yaml:6:3 has 2",
    ),
    "another factor": (
        *({"replicaAssignment": "1:2,2:3", "partitions": 2, "replicationFactor": 3}, BARE),
        "replicationFactor: found 3, but replicaAssignment at topics/orders.yaml:6:3 has 2",
    ),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_what_is_complained_about(case: tuple[dict[str, Any], ClusterSpec, str]) -> None:
    """Each mistake gives one error in the file of the topic, with the value found first."""
    fields, on, message = case
    found = list(spec_errors(spec(on=on, **fields)))
    assert [diagnostic.message[: len(message)] for diagnostic in found] == [message]
    assert found[0].location.file == "topics/orders.yaml"


def test_all_errors_at_once() -> None:
    """Each invalid value has its own error."""
    wrong = spec(
        on=BARE, topicName="a b", config={"retention.ms": "x", "nothing": 1, "segment.ms": "y"}, ensure="Present"
    )
    assert len(said(wrong)) == 5


def test_a_key_is_shown_as_what_it_is() -> None:
    """Control characters of a key are escaped, so that the key can neither reverse the message nor start a new line."""
    odd = "retention\u202e.ms\nall is well"
    found = said(spec("t", config={odd: 1, f"b{odd}": 2}, ignore=[f"config.{odd}"], withoutConfig=[odd]))
    faults = BARE.config_rules.find_errors({odd: "1"}, ((3, 9),), {})
    assert len(found) == 4
    for message in (*found, *(fault.message for fault in faults)):
        assert message.isprintable()
        assert "retention\\u202e.ms\\nall is well: " in message


def test_places_point_at_the_value() -> None:
    """The location of an error is the override with the value, or the Cluster document for a default."""
    on = cluster("prod", default_config={"retention.ms": "x"})
    overrides = [{"clusters": ["prod"], "config": {"segment.ms": "y"}}]
    wanted = merge(manifest("orders", partitions=1, replicationFactor=1, overrides=overrides), on)
    assert [str(diagnostic.location).split(":")[0] for diagnostic in spec_errors(wanted)] == [
        "prod.yaml",
        "topics/orders.yaml",
    ]
    bare = merge(
        manifest("orders", partitions=1, replicationFactor=1), ClusterSpec(default_config={"retention.ms": "x"})
    )
    assert [diagnostic.location.file for diagnostic in spec_errors(bare)] == ["the cluster's defaults"]


@pytest.mark.parametrize(
    ("config", "key", "reason"),
    [
        ({"retention.ms": "x"}, "retention.ms", Reason.CONFIG_INVALID),
        ({"no.such.key": "x"}, "no.such.key", Reason.CONFIG_INVALID),
        ({"max.compaction.lag.ms": 5, "min.compaction.lag.ms": 9}, "min.compaction.lag.ms", Reason.CONFIG_INVALID),
        ({"min.insync.replicas": 3}, "min.insync.replicas", Reason.INVALID_MANIFEST),
    ],
)
def test_an_error_in_a_config_is_at_its_key(config: dict[str, Any], key: str, reason: Reason) -> None:
    """Values, unknown keys and contradictions have one reason; what does not fit the topic is another error."""
    wanted = spec(on=OLD, partitions=1, replicationFactor=2, config=config)
    (error,) = spec_errors(wanted)
    assert (error.location, error.reason) == (wanted.manifest.source.locate(("spec", "config", key)), reason.value)


@pytest.mark.parametrize(("key", "text"), [("message.format.version", "2.8"), ("segment.bytes", 1000)])
def test_a_warning_about_a_config_is_at_its_key(key: str, text: object) -> None:
    """A deprecated key and a segment that is too small are warnings at the value."""
    wanted = spec(on=BARE, partitions=1, replicationFactor=1, config={"retention.ms": 5, key: text})
    assert [each.location for each in spec_warnings(wanted)] == [wanted.manifest.source.locate(("spec", "config", key))]


@pytest.mark.parametrize(
    ("name", "mode", "owner"),
    [
        *((name, "Enforce", "Kafka") for name in sorted(INTERNAL_TOPICS)),
        *((name, "Enforce", "topiarist") for name in ("__topiarist", "team-records")),
        ("__consumer_offsets", "Observe", ""),
        ("__other", "Enforce", ""),
    ],
)
def test_a_manifest_of_an_internal_topic_is_a_warning(name: str, mode: str, owner: str) -> None:
    """No plan creates, changes or deletes it, so validation already warns at the name; ``Observe`` is no mistake."""
    on = replace(BARE, kafka=KafkaAccess("k:9092", records=RecordsTopic("team-records")))
    found = [*spec_warnings(spec(on=on, partitions=1, replicationFactor=1, topicName=name, mode=mode))]
    assert [(each.message, each.hint) for each in found] == (
        [
            (
                f"{name}: {owner}'s own topic, which apply neither creates, changes nor deletes",
                f"leave it to {owner}: remove it from the manifests",
            )
        ]
        if owner
        else []
    )


def test_errors_of_a_cluster_are_at_their_values() -> None:
    """Defaults, profiles and settings of the brokers have their own lines in the document."""
    wrong = {"retention.ms": "x", "no.such.key": "x"}
    settings = {"num.partitions": "0", "auto.create.topics.enable": "1"}
    body = {"spec": {"defaults": {"config": wrong}, "profiles": {"big": {"config": wrong}}, "brokerConfig": settings}}
    source = DocumentSource("prod.yaml", body)
    on = ClusterSpec(
        "prod", source=source, default_config=wrong, profiles={"big": {"config": wrong}}, broker_config=settings
    )
    paths = [
        *(("spec", "defaults", "config", key) for key in wrong),
        *(("spec", "profiles", "big", "config", key) for key in wrong),
        *(("spec", "brokerConfig", name) for name in settings),
    ]
    assert [error.location for error in cluster_errors(on)] == [source.locate(path) for path in paths]
    allowed = replace(on, broker_config={"auto.create.topics.enable": "true"})
    (warning,) = cluster_warnings(allowed)
    assert warning.location == source.locate(paths[-1])


def test_a_bad_name_is_shown_where_it_stands() -> None:
    """The location of an invalid name is ``topicName``, or the name of the document if that is the topic name."""
    for fields, path in (({"topicName": "a/b"}, ("spec", "topicName")), ({}, ("metadata", "name"))):
        wanted = spec("no/name" if not fields else "orders", on=BARE, **fields)
        assert [diagnostic.location for diagnostic in spec_errors(wanted)] == [wanted.manifest.source.locate(path)]


def test_brokers_settings_count_from_the_release_on_that_counts_them() -> None:
    """Broker settings count from the release that uses them.

    Before 3.6 brokers compare the compaction lags only with Kafka's defaults.
    """
    static = {"log.cleaner.max.compaction.lag.ms": "5"}
    for release, number in ((None, 1), ((3, 6), 1), ((2, 8), 0)):
        on = ClusterSpec("prod", version=release, broker_config=static)
        assert len(said(spec(on=on, config={"min.compaction.lag.ms": 9}))) == number


@pytest.mark.parametrize(
    ("access", "version", "wrong"),
    [
        ({"zookeeper": ZooKeeperAccess("zk:2181")}, (4, 0), True),
        ({"zookeeper": ZooKeeperAccess("zk:2181")}, (3, 9), False),
        ({"zookeeper": ZooKeeperAccess("zk:2181")}, None, False),
        ({"kafka": KafkaAccess("b:9092")}, (4, 0), False),
        ({}, (4, 0), False),
    ],
)
def test_zookeeper_mode_ends_with_a_release(access: dict[str, Any], version: KafkaVersion | None, wrong: bool) -> None:
    """A cluster that is reached through ZooKeeper cannot have a release without ZooKeeper."""
    on = cluster("prod", version=version, **access)
    found = [*cluster_errors(on)]
    assert [each.message for each in found] == [
        "kafkaVersion: found 4.0, but ZooKeeper mode ends with Kafka 3.9"
    ] * wrong
    assert on.source
    assert all(each.location == on.source.locate(("spec", "kafkaVersion")) for each in found)


def test_the_brokers_sizes_have_to_be_sizes() -> None:
    """Each invalid broker setting has its own error, and none of its values is used as a size."""
    wrong = {"num.partitions": "0", "default.replication.factor": "40000", "auto.create.topics.enable": "1"}
    on = cluster("prod", broker_config=wrong)
    assert [diagnostic.message for diagnostic in cluster_errors(on)] == [
        'num.partitions: found "0", wanted a whole number from 1 to 2147483647',
        'default.replication.factor: found "40000", wanted a whole number from 1 to 32767',
        'auto.create.topics.enable: found "1", wanted true or false',
    ]
    good = {"num.partitions": " 4 ", "default.replication.factor": "3", "auto.create.topics.enable": "False"}
    least = {"num.partitions": "1", "default.replication.factor": "1"}
    most = {"num.partitions": "2147483647", "default.replication.factor": "32767"}
    for settings in (good, least, most):
        assert list(cluster_errors(cluster("prod", broker_config=settings))) == []


@pytest.mark.parametrize(("value", "warned"), [("true", True), (" TRUE ", True), ("false", False), (None, False)])
def test_automatic_creation_is_a_warning(value: str | None, warned: bool) -> None:
    """Automatic topic creation gives a warning only if ``brokerConfig`` enables it."""
    on = cluster("prod", broker_config={} if value is None else {"auto.create.topics.enable": value})
    assert bool([*cluster_warnings(on)]) is warned
    desired = resolve([], {"prod": on})
    assert [warning.message[:33] for warning in desired.warnings] == ["auto.create.topics.enable is true"] * warned


def test_did_you_mean() -> None:
    """The error for an unknown key suggests a similar key, or explains how to allow the key."""
    assert BARE.config_rules.config_problem("retentoin.ms", "1") == (
        "retentoin.ms: Kafka has no such topic config",
        "did you mean retention.ms?",
    )
    problem = BARE.config_rules.config_problem("zzz", "1")
    assert problem is not None
    assert "allowUnknownConfigs" in problem[1]
    assert VENDOR.config_rules.config_problem("confluent.tier", "anything") is None


def test_unknown_keys_in_lists() -> None:
    """An unknown key in a list is an error at its item, unless it is a default of the cluster."""
    on = cluster("prod", default_config={"my.own": "1"}, allow_unknown_configs=("confluent.*",))
    wanted = spec(
        on=on,
        ignore=["partitions", "config.retention.ms", "config.confluent.x", "config.retentionms"],
        withoutConfig=["my.own", "flush.ms", "confluent.x", "segmentms"],
    )
    found = list(spec_errors(wanted))
    assert [diagnostic.message for diagnostic in found] == [
        "config.retentionms: Kafka has no such topic config",
        "segmentms: Kafka has no such topic config",
    ]
    assert [diagnostic.hint for diagnostic in found] == [
        "did you mean config.retention.ms?",
        "did you mean segment.ms?",
    ]
    places = [wanted.manifest.source.locate(("spec", *path)) for path in (("ignore", 3), ("withoutConfig", 3))]
    assert [diagnostic.location for diagnostic in found] == places
    assert list(spec_errors(wanted, cluster_document_known=False)) == []


def test_a_remedy_for_each_kind_of_fault() -> None:
    """The hint differs for unknown keys, keys of the manifest, and keys that only the cluster has."""
    config = {"x.y": "1", "retention.ms": "a", "segment.ms": "b"}
    faults = BARE.config_rules.find_errors(config, ((3, 9),), {})
    assert [fault.key for fault in faults] == ["retention.ms", "segment.ms", "x.y"]
    assert config_hint(faults, {"retention.ms"}) == (
        'if the brokers know x.y, set allowUnknownConfigs: ["x.y"] in the Cluster; '
        "if not, delete the unknown configs with kafka-configs; "
        "change retention.ms in the manifest; add segment.ms to the manifest, with a valid value"
    )


def test_what_a_missing_document_could_make_right() -> None:
    """Without the Cluster document only invalid values and contradictions are errors.

    Sizes, unknown keys and broker settings are not checked.
    """
    config = {"my.own": 1, "retention.ms": "x", "remote.storage.enable": True}
    wanted = spec(on=ClusterSpec("absent"), ensure="Present", config=config)
    assert [message.split(":")[0] for message in said(wanted, known=False)] == ["retention.ms"]
    assert len(said(wanted)) == 4


def test_absent_topics_need_no_size() -> None:
    """A topic with ``ensure: Absent`` needs no size."""
    assert said(spec(on=BARE, ensure="Absent")) == []


@pytest.mark.parametrize("version", [None, (3, 7), (4, 4)])
def test_min_insync_replicas_where_brokers_cap_it(version: KafkaVersion | None) -> None:
    """Since 3.7 more than the replicas counts as all of them; without a declared version it is a warning.

    The plan decides then, by the version of the brokers.
    """
    wanted = spec(on=ClusterSpec("new", version=version), replicationFactor=1, config={"min.insync.replicas": 2})
    assert said(replace(wanted, create_partitions=1)) == []
    found = [*spec_warnings(wanted)]
    assert len(found) == (version is None)
    for each in found:
        assert each.message == "min.insync.replicas: found 2, but orders has replication factor 1"
        assert each.hint.startswith("before Kafka 3.7 every write with acks=all fails if min.insync.replicas is larger")
        assert each.location == wanted.manifest.source.locate(("spec", "config", "min.insync.replicas"))
    enough = spec(on=ClusterSpec("new", version=version), replicationFactor=2, config={"min.insync.replicas": 2})
    assert [*spec_warnings(enough)] == []


def test_the_default_of_another_topic_does_not_suit_this_one() -> None:
    """An inherited ``min.insync.replicas`` is an error at the topic, with the way to leave the default out."""
    on = cluster("prod", version=(2, 8), default_config={"min.insync.replicas": "3"})
    for fields, place in (
        ({"partitions": 1, "replicationFactor": 2}, "replicationFactor"),
        ({"replicaAssignment": [[1, 2]]}, "replicaAssignment"),
    ):
        wanted = merge(manifest("orders", **fields), on)
        (error,) = spec_errors(wanted)
        assert error.location == wanted.manifest.source.locate(("spec", place))
        assert error.message.startswith("min.insync.replicas: found 3 in the cluster's defaults, but orders has")
        assert error.hint.endswith("add withoutConfig: [min.insync.replicas]")
    own = spec(on=OLD, partitions=1, replicationFactor=2, config={"min.insync.replicas": 3})
    (error,) = spec_errors(own)
    assert error.location == own.manifest.source.locate(("spec", "config", "min.insync.replicas"))
    assert error.hint == "every write with acks=all fails if min.insync.replicas is larger than the number of replicas"


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"coPartitionGroup": "join", "partitions": None}, "coPartitionGroup", "orders: found no partitions, and"),
        (
            {"keyed": False, "partitions": 1, "config": {"cleanup.policy": "compact,delete"}},
            "keyed",
            'orders: found keyed: false, and cleanup.policy "compact,delete"',
        ),
        ({"keyed": False, "partitions": 1, "config": {"cleanup.policy": "delete"}}, "", ""),
        ({"keyed": True, "partitions": 1, "config": {"cleanup.policy": "compact"}}, "", ""),
        ({"keyed": False, "partitions": 1, "coPartitionGroup": "join"}, "", ""),
    ],
)
def test_keys_and_partitions(fields: dict[str, Any], field: str, words: str) -> None:
    """A group of topics that are joined needs a number of partitions, and compaction needs messages with keys."""
    on = ClusterSpec("prod", default_partitions=3, default_replication_factor=1)
    wanted = spec(on=on, **fields)
    found = [*spec_errors(wanted)]
    assert len(found) == bool(words)
    for error in found:
        assert error.message.startswith(words)
        assert error.location == wanted.manifest.source.locate(("spec", field))
        assert error.hint


def test_an_inherited_factor_is_the_plans_business() -> None:
    """``min.insync.replicas`` is compared only with a factor of the topic itself.

    An existing topic may have another factor than the default.
    """
    on = ClusterSpec("prod", default_partitions=1, default_replication_factor=2)
    assert said(spec(on=on, ensure="Present", config={"min.insync.replicas": 3})) == []


def test_deprecated_names_are_a_warning() -> None:
    """A deprecated key gives a warning from the release that deprecates it."""
    wanted: dict[str, Any] = {"config": {"message.format.version": "2.8", "retention.ms": 5}}
    found = list(spec_warnings(spec(on=BARE, **wanted)))
    assert [diagnostic.message.split(":")[0] for diagnostic in found] == ["message.format.version"]
    assert list(spec_warnings(spec(on=OLD, **wanted))) == []


@pytest.mark.parametrize(
    ("text", "width", "above"),
    [(None, 1, False), ("2", 2, False), ("3", 2, True), (" 3 ", 2, True), ("x", 0, False), ("1", 0, True)],
)
def test_min_insync_replicas(text: str | None, width: int, above: bool) -> None:
    """``min.insync.replicas`` must not exceed the replicas; a text that is no number is not compared."""
    assert is_min_isr_above({} if text is None else {"min.insync.replicas": text}, width) is above


@given(st.dictionaries(st.text(max_size=8) | st.sampled_from(["retention.ms", "cleanup.policy"]), st.text(max_size=8)))
def test_faults_of_any_map(config: dict[str, str]) -> None:
    """Any config map gives a sorted list of errors without duplicates, for any order of keys."""
    found = VENDOR.config_rules.find_errors(config, ((3, 9), (2, 4)), {})
    assert list(found) == sorted(set(found))
    assert list(found) == list(VENDOR.config_rules.find_errors(dict(reversed(config.items())), ((3, 9), (2, 4)), {}))


def test_an_invalid_value_of_a_profile_is_an_error_of_the_cluster() -> None:
    """The error is at the profile, once, whether topics use the profile or not."""
    on = cluster("prod", profiles={"large": {"partitions": 3, "replicationFactor": 3, "config": {"retention.ms": "x"}}})
    errors = [*cluster_errors(on), *spec_errors(merge(manifest("orders", profiles=["large"]), on))]
    assert len(errors) == 2
    (error,) = set(errors)
    place = ValueOrigin(on.source, ("spec", "profiles", "large", "config", "retention.ms"))
    assert error.location == place.locate()


@pytest.mark.parametrize(
    ("on", "message", "hint"),
    [
        (
            ClusterSpec("prod", profiles={"small": {}, "large": {}}),
            "orders: Cluster prod has no profile zzz",
            "its profiles are: large, small; add zzz to its spec.profiles, or leave it out here",
        ),
        (
            ClusterSpec("prod"),
            "orders: Cluster prod has no profile zzz",
            "it has no profiles; add zzz to its spec.profiles, or leave it out here",
        ),
        (
            ClusterSpec(),
            "orders: the unnamed cluster of an address option has no profile zzz",
            "it has no profiles; add zzz to its spec.profiles, or leave it out here",
        ),
        (ClusterSpec("prod", profiles={"zz": {}}), "orders: Cluster prod has no profile zzz", "did you mean zz?"),
    ],
)
def test_an_unknown_profile_is_an_error_at_its_name(on: ClusterSpec, message: str, hint: str) -> None:
    """The error has the profiles that the cluster has, or the similar one."""
    wanted = spec(on=on, partitions=1, replicationFactor=1, profiles=["zzz"])
    (error,) = spec_errors(wanted)
    assert (error.message, error.hint) == (message, hint)
    assert error.location == wanted.manifest.source.locate(("spec", "profiles", 0))
    assert [*spec_errors(wanted, cluster_document_known=False)] == []


@pytest.mark.parametrize(
    ("fields", "names", "settings"),
    [
        ({"partitions": None}, "partitions", "num.partitions"),
        ({"replicationFactor": None}, "replicationFactor", "default.replication.factor"),
        (
            {"ensure": "Present"},
            "partitions and replicationFactor",
            "num.partitions and default.replication.factor",
        ),
    ],
)
def test_a_missing_size_can_be_given_in_three_places(fields: dict[str, Any], names: str, settings: str) -> None:
    """The error stands at the topic, and its hint names the fields and the settings of the brokers."""
    wanted = spec(on=BARE, **fields)
    (error,) = spec_errors(wanted)
    assert error.location == find_origin(wanted).locate()
    assert error.message == f"orders: found no {names}, and its cluster sets no default"
    assert error.hint == (
        f"the brokers' own defaults are not used: set {names} here or in spec.defaults of the Cluster, "
        f"or give the brokers' values in its brokerConfig ({settings})"
    )
