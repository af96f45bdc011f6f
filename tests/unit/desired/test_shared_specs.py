"""Shared specs of equal clusters: the result is the same as with separate specs for each cluster."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.builders import DocumentSource, cluster, manifest
from topiarist.desired import resolve as resolve_
from topiarist.desired.merge import merge
from topiarist.desired.resolve import Desired, resolve
from topiarist.desired.shared_specs import ClusterTopicSpecs, group_clusters
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec

SIZE: dict[str, Any] = {"partitions": 2, "replicationFactor": 2}


def fleet(count: int, **fields: Any) -> dict[str, ClusterSpec]:
    """Return clusters that differ in name, address, id and a label that no manifest uses."""
    names = [f"c{number}" for number in range(count)]
    return {
        name: replace(
            cluster(name, labels={"env": "prod", "own": name}, **fields),
            connect=f"{name}:2181",
            cluster_id=f"ID-{name}",
        )
        for name in names
    }


def test_what_a_manifest_comes_to_is_found_once_for_a_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    """For fifty equal clusters each manifest is merged once, and the specs of each cluster name that cluster."""
    calls = []

    def counted(found: Manifest, one: ClusterSpec) -> TopicSpec:
        calls.append(found.name)
        return merge(found, one)

    monkeypatch.setattr(resolve_, "merge", counted)
    topics = [manifest(name, clusterSelector={"matchLabels": {"env": "prod"}}, **SIZE) for name in ("a", "b")]
    clusters = fleet(50)
    found = resolve(topics, clusters)
    assert sorted(calls) == ["a", "b"]
    for name, one in clusters.items():
        specs = found.specs[name]
        assert isinstance(specs, ClusterTopicSpecs)
        assert [(spec.topic, spec.cluster) for spec in specs] == [("a", one), ("b", one)]
        assert specs[1].cluster is one
        assert [spec.cluster for spec in specs[:1]] == [one]


DIFFERENT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "label": ({"labels": {"env": "test", "own": "c1"}}, {}),
    "partitions": ({"default_partitions": 9}, {}),
    "factor": ({"default_replication_factor": 3}, {}),
    "config": ({"default_config": {"retention.ms": "5"}}, {}),
    "order of config": ({"default_config": {"b": "1", "a": "1"}}, {"default_config": {"a": "1", "b": "1"}}),
    "release": ({"version": (2, 8)}, {}),
    "vendors": ({"allow_unknown_configs": ("x.*",)}, {}),
    "brokers": ({"broker_config": {"log.retention.ms": "5"}}, {}),
    "protected": ({"protected": ("x",)}, {}),
    "document": ({"source": DocumentSource("c.yaml", {})}, {"source": None}),
}


@pytest.mark.parametrize("case", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_what_makes_two_sorts(case: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Clusters that differ in any field that specs or rules use are in separate groups."""
    topics = [manifest("a", clusterSelector={"matchLabels": {"env": "prod"}}, **SIZE)]
    two = fleet(2)
    assert group_clusters(two, topics) == {"c0": ["c0", "c1"]}
    changed = {"c0": replace(two["c0"], **case[1]), "c1": replace(two["c1"], **case[0])}
    assert group_clusters(changed, topics) == {"c0": ["c0"], "c1": ["c1"]}


@pytest.mark.parametrize(
    "fields", [{"clusters": ["c1"]}, {"clusters": ["c0", "c1"], "overrides": [{"clusters": ["c1"], "partitions": 3}]}]
)
def test_a_name_makes_a_sort(fields: dict[str, Any]) -> None:
    """A cluster that a manifest or an override names is in its own group."""
    assert group_clusters(fleet(2), [manifest("a", **{**SIZE, **fields})]) == {"c0": ["c0"], "c1": ["c1"]}


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


def _plain(found: Desired) -> Any:
    """Return the comparable parts of a result."""
    specs = {name: list(specs) for name, specs in found.specs.items()}
    numbers = (found.validated_count, found.skipped_count)
    return specs, found.clusters, found.errors, found.warnings, numbers


@settings(max_examples=300)
@given(seed=st.integers(0, 1 << 40), strict=st.booleans())
@example(seed=16277, strict=False)  # two manifests of one name, each with a warning
def test_it_is_as_if_each_had_been_asked(seed: int, strict: bool) -> None:
    """Specs, errors and warnings of shared specs equal those of separate specs, with messages and locations."""
    topics, clusters, only = _random(seed)
    shared = resolve(topics, clusters, only_cluster=only, require_cluster_documents=strict)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolve_, "group_clusters", lambda known, _: {name: [name] for name in known})
        each = resolve(topics, clusters, only_cluster=only, require_cluster_documents=strict)
    assert _plain(shared) == _plain(each)
