"""Shared specs of equal clusters: the result is the same as with separate specs for each cluster."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from support import builders
from support.builders import DocumentSource, PositionedSource, cluster, manifest, spec
from support.examples import examples
from topiarist.desired import shared_specs
from topiarist.desired.resolve import Desired, resolve
from topiarist.desired.shared_specs import (
    ClusterTopicSpecs,
    SpecGroup,
    SpecGrouper,
    duplicate_document_errors,
    index_clusters,
    merge,
    topic_collision_errors,
)
from topiarist.errors import Diagnostic, FieldPath, Location, Reason
from topiarist.model.access import DEFAULT_RECORDS_TOPIC, KafkaAccess, Via, ZooKeeperAccess
from topiarist.model.moves import MoveKind, MoveSettings
from topiarist.model.spec import (
    Budgets,
    ClusterSpec,
    Manifest,
    TopicSpec,
    ValueOrigin,
    find_origin,
    selects_cluster,
    topic_name,
)

SIZE: dict[str, Any] = {"partitions": 2, "replicationFactor": 2}

IN_PROD: dict[str, Any] = {"clusterSelector": {"matchLabels": {"env": "prod"}}}


def fleet(count: int, **fields: Any) -> dict[str, ClusterSpec]:
    """Return clusters that differ in name, address, id and a label that no manifest uses."""
    names = [f"c{number}" for number in range(count)]
    return {
        name: replace(
            cluster(name, labels={"env": "prod", "own": name}, **fields),
            zookeeper=ZooKeeperAccess(f"{name}:2181"),
            cluster_id=f"ID-{name}",
        )
        for name in names
    }


def groups_of(topics: list[Manifest], clusters: dict[str, ClusterSpec]) -> list[tuple[tuple[str, ...], list[str]]]:
    """Return the clusters and the topics of each group, sorted."""
    specs = resolve(topics, clusters).specs.values()
    groups = {group for each in specs if isinstance(each, ClusterTopicSpecs) for group in each.groups}
    return sorted((group.clusters, [spec.topic for spec in group.specs]) for group in groups)


@pytest.fixture
def merged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the name of each manifest that is merged."""
    calls: list[str] = []

    def counted(found: Manifest, one: ClusterSpec) -> TopicSpec:
        calls.append(found.name)
        return merge(found, one)

    monkeypatch.setattr(shared_specs, "merge", counted)
    return calls


def test_what_a_manifest_comes_to_is_found_once_for_a_sort(merged: list[str]) -> None:
    """For fifty equal clusters each manifest is merged once, and the specs of each cluster name that cluster."""
    topics = [manifest(name, **IN_PROD, **SIZE) for name in ("a", "b")]
    clusters = fleet(50)
    found = resolve(topics, clusters)
    assert sorted(merged) == ["a", "b"]
    for name, one in clusters.items():
        specs = found.specs[name]
        assert isinstance(specs, ClusterTopicSpecs)
        assert [(spec.topic, spec.cluster) for spec in specs] == [("a", one), ("b", one)]
        assert specs[1].cluster is one
        assert [spec.cluster for spec in specs[:1]] == [one]


def test_a_topic_of_one_cluster_leaves_the_others_shared(merged: list[str]) -> None:
    """With one topic of its own per cluster each manifest is merged once, and clusters share all other specs."""
    clusters = fleet(50)
    own = [manifest(f"own-{name}", clusters=[name], **SIZE) for name in clusters]
    found = resolve([manifest("z", **IN_PROD, **SIZE), *own, manifest("a", **IN_PROD, **SIZE)], clusters)
    assert len(merged) == len(set(merged)) == 52
    groups = set[SpecGroup]()
    for name in clusters:
        specs = found.specs[name]
        assert isinstance(specs, ClusterTopicSpecs)
        assert [spec.topic for spec in specs] == ["a", f"own-{name}", "z"]
        assert [(group.is_exclusive, len(group.specs)) for group in specs.groups] == [(False, 2), (True, 1)]
        groups.update(specs.groups)
    assert len(groups) == 51
    assert [len(found.specs[name]) for name in clusters] == [3] * 50


def test_an_override_for_one_cluster_makes_no_manifest_of_its_own() -> None:
    """A cluster with an override has specs of its own, but other clusters have the same topic."""
    topics = [manifest("a", **IN_PROD, **SIZE, overrides=[{"clusters": ["c1"], "partitions": 3}])]
    found = resolve(topics, fleet(3)).specs["c1"]
    assert isinstance(found, ClusterTopicSpecs)
    assert [(group.clusters, group.is_exclusive) for group in found.groups] == [(("c1",), False)]


def test_the_name_of_the_records_topic_makes_two_sorts_for_that_topic_only(merged: list[str]) -> None:
    """Clusters with different names of the topic of records share all specs but those of these names."""
    names = ("mine", "mine", "yours")
    records = [KafkaAccess("b:9092", records=DEFAULT_RECORDS_TOPIC._replace(name=name)) for name in names]
    clusters = {
        name: replace(one, zookeeper=None, kafka=access)
        for (name, one), access in zip(fleet(3).items(), records, strict=True)
    }
    topics = [manifest(name, **IN_PROD, **SIZE) for name in ("a", "mine", DEFAULT_RECORDS_TOPIC.name)]
    everywhere = sorted(["a", DEFAULT_RECORDS_TOPIC.name])
    assert groups_of(topics, clusters) == [
        (("c0", "c1"), ["mine"]),
        (("c0", "c1", "c2"), everywhere),
        (("c2",), ["mine"]),
    ]
    assert sorted(merged) == sorted([*everywhere, "mine", "mine"])


def test_collisions_across_three_groups_are_all_found() -> None:
    """Topics collide on each cluster that has two of them, whichever groups these are in."""
    topics = [
        manifest("first", topicName="a.b", clusters=["c0", "c1"], **SIZE),
        manifest("second", topicName="a_b", clusters=["c2", "c3"], **SIZE),
        manifest("third", topicName="a.b", clusters=["c1", "c3", "c4"], **SIZE),
    ]
    errors = resolve(topics, fleet(5)).errors
    assert {error.reason for error in errors} == {Reason.NAME_COLLISION.value}
    assert [error.message.split(" at ")[0] for error in errors] == [
        "a_b: collides on cluster c3 with a.b",
        "a.b: also declared on cluster c1",
    ]


DIFFERENT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "partitions": ({"default_partitions": 9}, {}),
    "factor": ({"default_replication_factor": 3}, {}),
    "config": ({"default_config": {"retention.ms": "5"}}, {}),
    "order of config": ({"default_config": {"b": "1", "a": "1"}}, {"default_config": {"a": "1", "b": "1"}}),
    "release": ({"version": (2, 8)}, {}),
    "vendors": ({"allow_unknown_configs": ("x.*",)}, {}),
    "profiles": ({"profiles": {"large": {"partitions": 9}}}, {"profiles": {"large": {"partitions": 8}}}),
    "brokers": ({"broker_config": {"log.retention.ms": "5"}}, {}),
    "protected": ({"protected": ("x",)}, {}),
    "way": ({"zookeeper": None, "kafka": KafkaAccess("b1:9092")}, {}),
    "document": ({"source": DocumentSource("c.yaml", {})}, {"source": None}),
}


@pytest.mark.parametrize("case", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_what_makes_two_sorts(case: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Clusters that differ in any field that specs or rules use are in separate groups."""
    topics = [manifest("a", clusterSelector={"matchLabels": {"env": "prod"}}, **SIZE)]
    two = fleet(2)
    assert groups_of(topics, two) == [(("c0", "c1"), ["a"])]
    changed = {"c0": replace(two["c0"], **case[1]), "c1": replace(two["c1"], **case[0])}
    assert groups_of(topics, changed) == [(("c0",), ["a"]), (("c1",), ["a"])]


@pytest.mark.parametrize("fields", [{"via": Via.ZOOKEEPER}, {"budgets": Budgets(topics=1)}])
def test_what_no_spec_depends_on_makes_no_sort(fields: dict[str, Any]) -> None:
    """The choice of the way counts only if another way is used."""
    two = fleet(2)
    two["c1"] = replace(two["c1"], **fields)
    topics = [manifest("a", clusterSelector={"matchLabels": {"env": "prod"}}, **SIZE)]
    assert groups_of(topics, two) == [(("c0", "c1"), ["a"])]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"clusters": ["c1"]}, [("c1",)]),
        ({"clusters": ["c1", "c0"]}, [("c0", "c1")]),
        ({"clusterSelector": {"matchLabels": {"own": "c1"}}}, [("c1",)]),
        ({"clusters": ["c0", "c1"], "overrides": [{"clusters": ["c1"], "partitions": 3}]}, [("c0",), ("c1",)]),
        ({**IN_PROD, "overrides": [{"clusterSelector": {"matchLabels": {"own": "c0"}}}]}, [("c0",), ("c1",)]),
    ],
)
def test_a_name_makes_a_sort(fields: dict[str, Any], expected: list[tuple[str, ...]]) -> None:
    """Clusters are in separate groups if an override names or selects only one of them."""
    assert [names for names, _ in groups_of([manifest("a", **{**SIZE, **fields})], fleet(2))] == expected


def _random(seed: int) -> tuple[list[Manifest], dict[str, ClusterSpec], str | None]:
    """Return random manifests, some invalid, for several groups of clusters, and sometimes one selected cluster."""
    random = Random(seed)
    names = [f"c{number}" for number in range(random.randint(1, 7))]
    sorts: list[dict[str, Any]] = [
        {"default_partitions": 2, "default_replication_factor": 2},
        {"default_config": {"retention.ms": "5", "min.insync.replicas": "2"}, "version": (2, 8)},
        {"default_config": {"no.such.config": "1"}},
        {},
    ]
    clusters = {
        name: replace(
            cluster(name, labels={"env": random.choice("ab"), "own": name}),
            **random.choice(sorts),
            source=random.choice((None, DocumentSource(f"{name}.yaml", {"metadata": {"name": name}}))),
        )
        for name in names
    }

    def chosen() -> dict[str, Any]:
        some = random.sample([*names, "nowhere"], random.randint(1, len(names)))
        return random.choice(({"clusters": some}, {"clusterSelector": {"matchLabels": {"env": random.choice("ab")}}}))

    def fields() -> dict[str, Any]:
        found = random.choice((SIZE, SIZE, {"replicaAssignment": [[1, 2]]}, {}))
        config = random.choice(({}, {"retention.ms": 7}, {"retention.ms": "x"}, {"message.format.version": "2.8"}))
        return {**found, "config": config, "withoutConfig": random.choice(([], ["retention.ms"], ["flush.ms"]))}

    topics = [
        manifest(
            random.choice(("a", "b.c", "b_c", "d")),
            **fields(),
            **(chosen() if random.random() < 0.9 else {}),
            overrides=[{**chosen(), "partitions": 5} for _ in range(random.randint(0, 2))],
        )
        for _ in range(random.randint(0, 5))
    ]
    return topics, clusters, random.choice((None, None, random.choice(names)))


class _SeparateGrouper(SpecGrouper):
    """A grouper that shares nothing: every manifest is merged and validated for each cluster by itself."""

    def _find_groups(self, manifest: Manifest, names: tuple[str, ...]) -> list[SpecGroup]:
        return [self._group((name,), is_exclusive=len(names) == 1) for name in names]


def _plain(found: Desired) -> Any:
    """Return the comparable parts of a result; a topic that is declared twice has its specs in no order."""
    specs = {
        name: sorted(specs, key=lambda spec: (spec.topic, id(spec.manifest))) for name, specs in found.specs.items()
    }
    for name, ordered in specs.items():
        assert [spec.topic for spec in found.specs[name]] == [spec.topic for spec in ordered]
    numbers = (found.validated_count, found.skipped_count)
    return specs, found.clusters, found.errors, found.warnings, numbers


@examples(300)
@given(seed=st.integers(0, 1 << 40), strict=st.booleans())
@example(seed=16277, strict=False)  # two manifests of one name, each with a warning
def test_it_is_as_if_each_had_been_asked(seed: int, strict: bool) -> None:
    """Specs, errors and warnings of shared specs equal those of separate specs, with messages and locations."""
    topics, clusters, only = _random(seed)
    shared = resolve(topics, clusters, only_cluster=only, require_cluster_documents=strict)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_specs, "SpecGrouper", _SeparateGrouper)
        each = resolve(topics, clusters, only_cluster=only, require_cluster_documents=strict)
    assert _plain(shared) == _plain(each)


# Merge of a topic's spec, its overrides and the cluster's defaults, with the origin of each value.

LABELLED_PROD = cluster(
    "prod", labels={"env": "prod", "region": "eu"}, default_partitions=6, default_replication_factor=3
)


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
    assert selects_cluster(layer, LABELLED_PROD) is meant


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
    found = merge(
        manifest("orders", **own, overrides=[{"clusters": ["prod"], **each} for each in overrides]), LABELLED_PROD
    )
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
    found = merge(manifest("orders", partitions=2, overrides=[other, label]), LABELLED_PROD)
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
        (" \t compact , delete \n", "compact , delete"),  # as Java trims
        ("\u00a0x", "\u00a0x"),
        ("", ""),
        (True, "true"),
        (False, "false"),
        (9223372036854775807, "9223372036854775807"),
        (-1, "-1"),
        (Decimal("0.50"), "0.50"),
        (Decimal("0.001"), "0.001"),
        (Decimal("1E-8"), "0.00000001"),
    ],
)
def test_values_become_kafkas_text(value: Any, text: str) -> None:
    """Values keep the digits of the file and are trimmed."""
    assert spec(config={"k": value}).config["k"] == text


def test_other_fields_are_replaced_whole() -> None:
    """``ignore`` and ``withoutConfig`` of a later layer replace earlier ones; missing fields have their defaults."""
    overrides = [{"clusters": ["prod"], "ignore": ["config.a"], "mode": "Observe", "unmanagedConfig": "Remove"}]
    found = merge(manifest("orders", ignore=["partitions"], ensure="Absent", overrides=overrides), LABELLED_PROD)
    assert (found.ignored_fields, found.observe_only, found.remove_unmanaged, found.absent) == (
        frozenset({"config.a"}),
        True,
        True,
        True,
    )
    plain = merge(manifest("orders"), LABELLED_PROD)
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
    assert merge(document, LABELLED_PROD) == merge(document, LABELLED_PROD)
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
    assert place.file == "topics/orders.yaml"
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


# Duplicate documents and topics that collide: one error for each, with both places and what to do.

NAMES: dict[FieldPath, tuple[int, int]] = {("metadata", "name"): (3, 5), ("spec", "topicName"): (6, 7)}
PROD_ALONE = ClusterSpec("prod")


def declared(name: str, on: ClusterSpec = PROD_ALONE, **fields: str) -> TopicSpec:
    """Return the spec of a document; its names have a line of their own."""
    return builders.spec(name, on, positions=NAMES, **fields)


def test_a_second_document_of_a_name_is_an_error_at_its_name() -> None:
    """The later document has the error, and the earlier one is named with its place; a third one has its own."""
    first = declared("a").manifest
    others = [first._replace(source=PositionedSource(file, NAMES)) for file in ("b.yaml", "c.yaml")]
    assert duplicate_document_errors([first, *others]) == [
        Diagnostic(
            Location(file, 3, 5),
            "Topic a: another Topic has the same name, at topics/a.yaml:3:5",
            "rename one of them, or remove it",
            Reason.NAME_COLLISION.value,
        )
        for file in ("b.yaml", "c.yaml")
    ]
    assert duplicate_document_errors([first, first._replace(namespace="x"), first._replace(name="b")]) == []


def test_a_second_cluster_of_a_name_is_an_error_at_its_name() -> None:
    """The first Cluster is used."""
    one, two = (ClusterSpec("prod", source=PositionedSource(file, NAMES)) for file in ("a.yaml", "b.yaml"))
    found, (error,) = index_clusters([one, two])
    assert found["prod"] is one
    assert error == Diagnostic(
        Location("b.yaml", 3, 5),
        "Cluster prod: another Cluster has the same name, at a.yaml:3:5",
        "rename one of them, or remove it",
        Reason.NAME_COLLISION.value,
    )


@pytest.mark.parametrize(("on", "words"), [(PROD_ALONE, "on cluster prod"), (ClusterSpec(), "on the cluster")])
def test_two_topics_collide_where_their_names_stand(on: ClusterSpec, words: str) -> None:
    """One topic of two documents, and two topics with one metric name, are an error at the name of the later one."""
    first, again, other = declared("a.b", on), declared("x", on, topicName="a.b"), declared("a_b", on)
    assert topic_collision_errors([first, again, other]) == [
        Diagnostic(
            Location("topics/x.yaml", 6, 7),
            f"a.b: also declared {words} at topics/a.b.yaml:3:5",
            "keep one of the two documents",
            Reason.NAME_COLLISION.value,
        ),
        Diagnostic(
            Location("topics/a_b.yaml", 3, 5),
            f"a_b: collides {words} with a.b at topics/a.b.yaml:3:5",
            "rename one: Kafka does not distinguish . and _ in metric names, and refuses the second topic",
            Reason.NAME_COLLISION.value,
        ),
    ]
    assert topic_collision_errors([first, first, declared("a-b", on)]) == []
