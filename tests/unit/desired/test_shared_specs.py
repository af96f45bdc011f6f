"""Shared specs of equal clusters: the result is the same as with separate specs for each cluster."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import DocumentSource, cluster, manifest
from support.examples import examples
from topiarist.desired import resolve as resolve_
from topiarist.desired import shared_specs
from topiarist.desired.resolve import Desired, resolve
from topiarist.desired.shared_specs import ClusterTopicSpecs, SpecGroup, SpecGrouper, merge
from topiarist.errors import Reason
from topiarist.model.access import DEFAULT_RECORDS_TOPIC, KafkaAccess, ZooKeeperAccess
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec

SIZE: dict[str, Any] = {"partitions": 2, "replicationFactor": 2}

PROD: dict[str, Any] = {"clusterSelector": {"matchLabels": {"env": "prod"}}}


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
    topics = [manifest(name, **PROD, **SIZE) for name in ("a", "b")]
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
    found = resolve([manifest("z", **PROD, **SIZE), *own, manifest("a", **PROD, **SIZE)], clusters)
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
    topics = [manifest("a", **PROD, **SIZE, overrides=[{"clusters": ["c1"], "partitions": 3}])]
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
    topics = [manifest(name, **PROD, **SIZE) for name in ("a", "mine", DEFAULT_RECORDS_TOPIC.name)]
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


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"clusters": ["c1"]}, [("c1",)]),
        ({"clusters": ["c1", "c0"]}, [("c0", "c1")]),
        ({"clusterSelector": {"matchLabels": {"own": "c1"}}}, [("c1",)]),
        ({"clusters": ["c0", "c1"], "overrides": [{"clusters": ["c1"], "partitions": 3}]}, [("c0",), ("c1",)]),
        ({**PROD, "overrides": [{"clusterSelector": {"matchLabels": {"own": "c0"}}}]}, [("c0",), ("c1",)]),
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
        patch.setattr(resolve_, "SpecGrouper", _SeparateGrouper)
        each = resolve(topics, clusters, only_cluster=only, require_cluster_documents=strict)
    assert _plain(shared) == _plain(each)
