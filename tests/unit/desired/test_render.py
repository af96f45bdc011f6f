"""Merged specs as documents."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.states import PositionedSource, spec
from topiarist.desired.export import render_document
from topiarist.desired.shared_specs import merge
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec

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
    assert set(render_document(spec("a"))["spec"]) == {"partitions", "replicationFactor", "topicName"}


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
        spec("c", EU, ensure="Absent"),
        spec("e", EU, keyed=False),
        merge(Manifest("Topic", "d", "", {}, {"replicaAssignment": [[1, 2], [2, 3]]}, PositionedSource("d.yaml")), EU),
    ],
    ids=lambda found: found.topic,
)
def test_a_document_means_what_its_spec_means(found: TopicSpec) -> None:
    """A rendered document gives the same spec on its cluster; only the origins of the values differ."""
    other = again(found)
    assert replace(other, manifest=found.manifest, inherited_keys=found.inherited_keys) == found
