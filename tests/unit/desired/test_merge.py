"""Merge of a topic's spec, its overrides and the cluster's defaults, with the origin of each value."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import cluster, manifest, spec
from topiarist.desired.shared_specs import merge
from topiarist.model.moves import MoveKind, MoveSettings
from topiarist.model.spec import ClusterSpec, ValueOrigin, find_origin, selects_cluster, topic_name

PROD = cluster("prod", labels={"env": "prod", "region": "eu"}, default_partitions=6, default_replication_factor=3)


@pytest.mark.parametrize(
    ("layer", "meant"),
    [
        ({}, False),
        ({"clusters": ["prod"]}, True),
        ({"clusters": ["test", "prod"]}, True),
        ({"clusters": ["test"]}, False),
        ({"clusters": []}, False),
        ({"clusterSelector": {"matchLabels": {"env": "prod"}}}, True),
        ({"clusterSelector": {"matchLabels": {"env": "prod", "region": "eu"}}}, True),
        ({"clusterSelector": {"matchLabels": {"env": "prod", "region": "us"}}}, False),
        ({"clusterSelector": {"matchLabels": {"team": "a"}}}, False),
        ({"clusterSelector": {"matchLabels": {}}}, False),
        ({"clusterSelector": {}}, False),
    ],
)
def test_which_clusters_are_meant(layer: dict[str, Any], meant: bool) -> None:
    """Clusters are selected by name or by all labels of a selector; an empty selector selects nothing."""
    assert selects_cluster(layer, PROD) is meant


def test_the_name_in_kafka() -> None:
    """The topic name is ``topicName``, else the name of the document."""
    assert topic_name(manifest("orders")) == "orders"
    assert topic_name(manifest("orders", topicName="Orders.v1")) == "Orders.v1"


# the fields of the topic, its overrides for prod in order
# -> desired partitions and factor, partitions and factor at creation, explicit lists
SIZES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], tuple[Any, ...]]] = {
    "nothing said": ({}, [], (None, None, 6, 3, None)),
    "counts": ({"partitions": 12, "replicationFactor": 2}, [], (12, 2, 12, 2, None)),
    "one of them": ({"partitions": 12}, [], (12, None, 12, 3, None)),
    "override": ({"partitions": 12, "replicationFactor": 2}, [{"partitions": 48}], (48, 2, 48, 2, None)),
    "later wins": ({"partitions": 12}, [{"partitions": 48}, {"partitions": 24}], (24, None, 24, 3, None)),
    "explicit": ({"replicaAssignment": [[1, 2], [2, 3]]}, [], (2, 2, 2, 2, ((1, 2), (2, 3)))),
    "explicit as text": ({"replicaAssignment": " 1:2, 2 : 03"}, [], (2, 2, 2, 2, ((1, 2), (2, 3)))),
    "explicit beside counts": (
        *({"replicaAssignment": [[1, 2], [2, 3]], "partitions": 2, "replicationFactor": 2}, []),
        (2, 2, 2, 2, ((1, 2), (2, 3))),
    ),
    "explicit replaces counts": (
        *({"partitions": 12, "replicationFactor": 3}, [{"replicaAssignment": [[1, 2]]}]),
        (1, 2, 1, 2, ((1, 2),)),
    ),
    "counts replace explicit": (
        {"replicaAssignment": [[1, 2], [2, 1]]},
        [{"partitions": 5}],
        (5, None, 5, 3, None),
    ),
    "back and forth": (
        {"partitions": 12, "replicationFactor": 2},
        [{"replicaAssignment": [[1]]}, {"partitions": 7}],
        (7, None, 7, 3, None),
    ),
    "explicit by explicit": ({"replicaAssignment": [[1, 2]]}, [{"replicaAssignment": [[3]]}], (1, 1, 1, 1, ((3,),))),
    "an override about something else": (
        *({"replicaAssignment": [[1, 2]]}, [{"config": {"retention.ms": 5}}]),
        (1, 2, 1, 2, ((1, 2),)),
    ),
}


@pytest.mark.parametrize("case", SIZES.values(), ids=SIZES.keys())
def test_sizes(case: tuple[dict[str, Any], list[dict[str, Any]], tuple[Any, ...]]) -> None:
    """A later form of size replaces an earlier form completely; defaults apply only at creation."""
    own, overrides, wanted = case
    found = merge(manifest("orders", **own, overrides=[{"clusters": ["prod"], **each} for each in overrides]), PROD)
    sizes = (found.partitions, found.replication_factor, found.create_partitions, found.create_replication_factor)
    assert (*sizes, found.assignment) == wanted


def test_a_size_that_nobody_names() -> None:
    """A missing size is 0, which ``rules`` reports; there is no built-in default."""
    found = merge(manifest("orders"), ClusterSpec("bare"))
    assert (found.create_partitions, found.create_replication_factor) == (0, 0)


def test_overrides_of_other_clusters_do_not_count() -> None:
    """Only overrides that select the cluster apply, by name or by label."""
    other = {"clusters": ["test"], "partitions": 1}
    label = {"clusterSelector": {"matchLabels": {"env": "prod"}}, "config": {"a": 1}}
    found = merge(manifest("orders", partitions=2, overrides=[other, label]), PROD)
    assert (found.partitions, dict(found.config)) == (2, {"a": "1"})


def test_config_is_merged_key_by_key() -> None:
    """Config is merged from defaults, topic and overrides; ``inherited_keys`` has the keys of the defaults only."""
    on = cluster("prod", default_config={"a": "default", "b": "default", "c": "default", "d": "default"})
    overrides = [{"clusters": ["prod"], "config": {"c": "override", "e": "override"}}]
    found = merge(manifest("orders", config={"b": "own", "c": "own"}, withoutConfig=["d"], overrides=overrides), on)
    assert found.config == {"a": "default", "b": "own", "c": "override", "e": "override"}
    assert found.inherited_keys == {"a"}


def test_own_config_is_stronger_than_without_config() -> None:
    """``withoutConfig`` removes defaults, never values of the topic itself."""
    on = cluster("prod", default_config={"a": "default"})
    found = merge(manifest("orders", config={"a": "own"}, withoutConfig=["a"]), on)
    assert (found.config, found.inherited_keys) == ({"a": "own"}, frozenset())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("compact", "compact"),
        (" 14 ", "14"),
        (True, "true"),
        (False, "false"),
        (9223372036854775807, "9223372036854775807"),
        (-1, "-1"),
        (Decimal("0.50"), "0.50"),
        (Decimal("0.001"), "0.001"),
        (Decimal("0.00000001"), "0.00000001"),
    ],
)
def test_values_become_kafkas_text(value: Any, text: str) -> None:
    """Values keep the digits of the file and are trimmed."""
    assert spec(config={"k": value}).config["k"] == text


def test_other_fields_are_replaced_whole() -> None:
    """``ignore`` and ``withoutConfig`` of a later layer replace earlier ones; missing fields have their defaults."""
    overrides = [{"clusters": ["prod"], "ignore": ["config.a"], "mode": "Observe", "unmanagedConfig": "Remove"}]
    found = merge(manifest("orders", ignore=["partitions"], ensure="Absent", overrides=overrides), PROD)
    assert (found.ignored_fields, found.observe_only, found.remove_unmanaged, found.absent) == (
        frozenset({"config.a"}),
        True,
        True,
        True,
    )
    plain = merge(manifest("orders"), PROD)
    assert (plain.ignored_fields, plain.observe_only, plain.remove_unmanaged, plain.absent) == (
        frozenset(),
        False,
        False,
        False,
    )


def test_merging_changes_no_input() -> None:
    """A merge changes neither manifest nor cluster, so that a second merge gives the same spec."""
    own: dict[str, Any] = {"config": {"a": 1}, "overrides": [{"clusters": ["prod"], "config": {"b": 2}}]}
    document = manifest("orders", **own)
    assert merge(document, PROD) == merge(document, PROD)
    assert document.spec["config"] == {"a": 1}


def test_where_a_value_was_written() -> None:
    """The origin of a value is the last override with it, else the spec, else the defaults, else the whole spec."""
    on = cluster("prod", default_partitions=6, default_config={"c": "1"})
    overrides = [{"clusters": ["prod"], "config": {"a": 2}}, {"clusters": ["test"], "config": {"b": 2}}]
    found = merge(manifest("orders", config={"a": 1, "b": 1}, overrides=overrides), on)
    assert find_origin(found, "config", "a").path == ("spec", "overrides", 0, "config", "a")
    assert find_origin(found, "config", "b").path == ("spec", "config", "b")
    assert find_origin(found, "config", "c") == ValueOrigin(on.source, ("spec", "defaults", "config", "c"))
    assert find_origin(found, "partitions") == ValueOrigin(on.source, ("spec", "defaults", "partitions"))
    assert find_origin(found, "replicationFactor") == ValueOrigin(found.manifest.source, ("spec",))
    assert find_origin(found) == ValueOrigin(found.manifest.source, ("metadata", "name"))


def test_a_place_is_found_by_its_origin() -> None:
    """An origin gives the location of its value; without a document it has no location."""
    found = spec(config={"a": 1})
    place = find_origin(found, "config", "a").locate()
    assert place is not None
    assert place.file == "orders.yaml"
    assert ValueOrigin(None, ("spec",)).locate() is None


def test_what_is_known_of_brokers() -> None:
    """Dynamic broker settings override the static ones of the manifest."""
    on = cluster("prod", broker_config={"a": "static", "b": "static"})
    assert on.config_rules.merge_dynamic_settings({"b": "dynamic"}) == {"a": "static", "b": "dynamic"}


def test_sizes_of_the_brokers() -> None:
    """Sizes of ``brokerConfig`` apply after the defaults, at creation only, and have their own origin."""
    brokers = {"num.partitions": "4", "default.replication.factor": "2"}
    on = ClusterSpec("prod", default_replication_factor=3, broker_config=brokers)
    found = merge(manifest("orders"), on)
    assert (found.partitions, found.replication_factor) == (None, None)
    assert (found.create_partitions, found.create_replication_factor) == (4, 3)
    assert find_origin(found, "partitions").path == ("spec", "brokerConfig", "num.partitions")
    assert find_origin(found, "replicationFactor").path == ("spec", "defaults", "replicationFactor")
    assert merge(manifest("orders", partitions=7), on).create_partitions == 7
    wrong = replace(on, broker_config={"num.partitions": "-3"})
    assert merge(manifest("orders"), wrong).create_partitions == 0


TYPES = cluster(
    "prod",
    default_partitions=6,
    default_replication_factor=3,
    default_config={"min.insync.replicas": "2"},
    profiles={
        "compacted": {
            "config": {"cleanup.policy": "compact", "segment.ms": "1d"},
            "labels": {"tier": "gold", "a": "b"},
        },
        "large": {"partitions": 48, "config": {"segment.ms": 60}},
        "small": {"partitions": 1, "replicationFactor": 1},
    },
)


@pytest.mark.parametrize(
    ("fields", "partitions", "factor", "config"),
    [
        ({"profiles": []}, None, None, {}),
        ({"profiles": ["large"]}, 48, None, {"segment.ms": "60"}),
        ({"profiles": ["compacted", "large"]}, 48, None, {"cleanup.policy": "compact", "segment.ms": "60"}),
        ({"profiles": ["large", "compacted"]}, 48, None, {"cleanup.policy": "compact", "segment.ms": "86400000"}),
        ({"profiles": ["large", "small"]}, 1, 1, {"segment.ms": "60"}),
        ({"profiles": ["large"], "partitions": 6, "config": {"segment.ms": "7"}}, 6, None, {"segment.ms": "7"}),
        (
            {"profiles": ["large"], "overrides": [{"clusters": ["prod"], "partitions": 9}]},
            9,
            None,
            {"segment.ms": "60"},
        ),
        ({"profiles": ["large"], "replicaAssignment": [[1, 2]]}, 1, 2, {"segment.ms": "60"}),
        ({"profiles": ["unknown", "small"]}, 1, 1, {}),
    ],
)
def test_profiles_come_before_the_topics_own_fields(
    fields: dict[str, Any], partitions: int | None, factor: int | None, config: dict[str, str]
) -> None:
    """A later profile wins over an earlier one, the topic's fields over profiles, and overrides over both."""
    found = merge(manifest("orders", **fields), TYPES)
    assert (found.partitions, found.replication_factor) == (partitions, factor)
    assert found.config == {"min.insync.replicas": "2", **config}
    assert found.inherited_keys == {"min.insync.replicas"}


def test_labels_of_profiles_do_not_replace_those_of_the_document() -> None:
    """The document's own labels win, and a topic without profiles shares the labels of its document."""
    plain = manifest("orders")._replace(labels={"tier": "silver"})
    assert merge(plain, TYPES).labels is plain.labels
    found = merge(plain._replace(spec={"profiles": ["compacted"]}), TYPES)
    assert found.labels == {"tier": "silver", "a": "b"}


def test_the_origin_of_a_profiles_value_is_in_the_cluster() -> None:
    """The origin names the last profile with the value, and the topic itself where it has the value too."""
    found = merge(manifest("orders", profiles=["compacted", "large"], config={"flush.ms": 1}), TYPES)
    assert find_origin(found, "config", "segment.ms").path == ("spec", "profiles", "large", "config", "segment.ms")
    assert find_origin(found, "config", "cleanup.policy").path[2] == "compacted"
    assert find_origin(found, "partitions") == ValueOrigin(TYPES.source, ("spec", "profiles", "large", "partitions"))
    assert find_origin(found, "config", "flush.ms").source is found.manifest.source


def test_a_topic_may_narrow_the_moves_of_its_cluster() -> None:
    """A topic allows no kind of move that its cluster does not, and may ask for one of its spread."""
    on = cluster("prod", moves=MoveSettings(frozenset({MoveKind.DRAIN, MoveKind.SPREAD})))
    cases: list[tuple[dict[str, Any], frozenset[MoveKind], bool]] = [
        ({}, on.moves.allow, False),
        ({"moves": {"allow": []}}, frozenset(), False),
        ({"moves": {"allow": ["Drain", "Factor"]}}, frozenset({MoveKind.DRAIN}), False),
        ({"moves": {"spread": "One"}}, on.moves.allow, True),
    ]
    for fields, allowed, within_one in cases:
        found = merge(manifest("orders", **fields), on)
        assert (found.allowed_moves, found.spread_within_one) == (allowed, within_one), fields
