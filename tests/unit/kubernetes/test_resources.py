"""Custom resources as manifests."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from topiarist.desired.shared_specs import merge
from topiarist.kubernetes.resources import error_texts, format_path, manifest_annotations, parse_resource
from topiarist.model.spec import ClusterSpec


def body(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a Topic as the API server returns it."""
    return {
        "apiVersion": "topiarist.dev/v1",
        "kind": "Topic",
        "metadata": {
            "name": "orders",
            "namespace": "shop",
            "uid": "u1",
            "resourceVersion": "7",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"manager": "kubectl"}],
            **metadata,
        },
        "spec": spec,
    }


def test_a_body_is_the_manifest_that_a_file_would_be() -> None:
    """A resource body yields the same manifest as a file, with Kafka's text for every kind of scalar."""
    config = (
        '{"retention.ms": 604800000, "preallocate": true, "min.cleanable.dirty.ratio": 0.25, "cleanup.policy": "a"}'
    )
    found = parse_resource(
        body(
            {"partitions": 3, "replicationFactor": 2, "config": json.loads(config)},
            labels={"a": "b"},
            managedFields=[{"manager": "kubectl", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:status": {}}}],
        )
    )
    assert not found.errors
    assert (found.told_at, found.foreign_at) == ("", "")  # only of a KafkaTopic is it known who wrote last
    assert found.manifest is not None
    assert (found.key, found.manifest.labels) == (("shop", "orders"), {"a": "b"})
    assert found.manifest.spec["config"]["min.cleanable.dirty.ratio"] == Decimal("0.25")
    assert merge(found.manifest, ClusterSpec()).config == {
        "retention.ms": "604800000",
        "preallocate": "true",
        "min.cleanable.dirty.ratio": "0.25",
        "cleanup.policy": "a",
    }


@pytest.mark.parametrize(
    "value", ["9223372036854776000", "-9223372036854776000", "1e300", "9007199254740992.0", "0.1234567890123456"]
)
def test_numbers_that_may_have_lost_digits_are_refused(value: str) -> None:
    """topiarist refuses numbers that may have lost digits in JSON, and asks for quotes."""
    found = parse_resource(body({"partitions": 3, "config": {"flush.ms": json.loads(value)}}))
    assert found.manifest is None
    (words,) = error_texts(found)
    assert words.startswith("spec.config[flush.ms]: found the number ")
    assert words.endswith("put the value in quotes")


@pytest.mark.parametrize("value", ["9223372036854775807", "-9223372036854775808", "0.5", "1.0", "123456.789012345"])
def test_numbers_that_a_float_keeps_are_taken(value: str) -> None:
    """topiarist accepts all 64-bit integers and short fractions."""
    found = parse_resource(body({"partitions": 3, "config": {"flush.ms": json.loads(value)}}))
    assert found.manifest is not None
    assert str(found.manifest.spec["config"]["flush.ms"]) == value


def test_all_problems_are_said_with_their_places() -> None:
    """topiarist reports every error with its path, including errors in overrides."""
    found = parse_resource(
        body({"partitions": 0, "overrides": [{"clusters": ["a"], "config": {"flush.ms": 1e300}}], "x": 1})
    )
    places = [words.split(":")[0] for words in error_texts(found)]
    assert sorted(places) == ["spec.overrides[0].config[flush.ms]", "spec.partitions", "spec.x"]


def test_what_has_not_changed_is_not_read_again() -> None:
    """A new status, finalizer or resource version keeps the same manifest object."""
    first = parse_resource(body({"partitions": 3}, annotations={"topiarist.dev/paused": "true", "other": "x"}))
    again = parse_resource(
        {
            **body({"partitions": 3}, annotations={"topiarist.dev/paused": "true", "other": "x"}, finalizers=["f"]),
            "status": {"observedGeneration": 1},
        },
        first,
    )
    assert again.manifest is first.manifest
    assert (again.finalizers, again.status) == (("f",), {"observedGeneration": 1})
    assert again.manifest is not None
    assert manifest_annotations(again.manifest) == {"topiarist.dev/paused": "true", "other": "x"}
    assert (again.annotation("paused"), again.annotation("retain")) == ("true", "")


@pytest.mark.parametrize(
    "metadata", [{"generation": 2}, {"uid": "u2"}, {"labels": {"a": "c"}}, {"annotations": {"a": "c"}}]
)
def test_what_has_changed_is_read_again(metadata: dict[str, Any]) -> None:
    """A new generation, uid, label or annotation causes a new parse. Selectors and rules use labels and annotations,
    which no generation counts.
    """
    first = parse_resource(body({"partitions": 3}))
    again = parse_resource(body({"partitions": 3}, **metadata), first)
    assert again.manifest is not first.manifest


def test_a_spec_of_another_history_is_read_again() -> None:
    """After a restore of etcd another spec may have the generation of the last one, readable or not."""
    sizes: list[object] = []
    found = None
    for partitions in (3, 0, 4, 4):
        found = parse_resource(body({"partitions": partitions}), found)
        sizes.append(found.manifest and found.manifest.spec["partitions"])
        assert found.declared_spec == {"partitions": partitions}
        assert bool(found.errors) is (partitions == 0)
    assert sizes == [3, None, 4, 4]


def test_fields_that_the_api_server_leaves_out_are_empty() -> None:
    """It returns no empty maps and lists; a Topic without a spec has defaults alone."""
    plain = body({})
    found = parse_resource({name: plain[name] for name in ("apiVersion", "kind", "metadata")})
    assert (found.labels, found.source.annotations, found.finalizers, found.status) == ({}, {}, (), {})
    assert (found.errors, found.declared_spec) == ((), {})
    assert (found.topic_name, found.operator_class, found.serving_owner) == ("orders", "", "")
    assert not found.has_cluster_selection
    unreadable = parse_resource({**{name: plain[name] for name in ("apiVersion", "metadata")}, "kind": "Policy"})
    assert (unreadable.manifest, unreadable.declared_spec, unreadable.operator_class) == (None, {}, "")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "metadata.name"),
        (("spec", "partitions"), "spec.partitions"),
        (("spec", "overrides", 0, "config", "retention.ms"), "spec.overrides[0].config[retention.ms]"),
    ],
)
def test_a_location_is_the_path_of_a_field(path: tuple[str | int, ...], text: str) -> None:
    """A key with a dot is in brackets, and a problem of the whole resource is one of its name."""
    assert format_path(path) == text


def test_what_is_being_deleted_says_so() -> None:
    """A resource with a deletion timestamp is marked as deleting."""
    assert not parse_resource(body({"partitions": 3})).deleting
    assert parse_resource(body({"partitions": 3}, deletionTimestamp="2026-01-02T00:00:00Z")).deleting


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ({"file": "/var/run/secrets/kubernetes.io/serviceaccount/token"}, "file"),
        ({"env": "TOPIARIST_PASSWORD"}, "env"),
        ({}, "nothing in it"),
    ],
)
def test_a_cluster_that_an_older_definition_let_through_is_refused(reference: dict[str, str], found: str) -> None:
    """topiarist refuses a reference that an older definition accepted, and names the replacement. A new definition
    prunes such a reference to an empty object.
    """
    zookeeper = {"connect": "zk:2181", "sasl": {"username": "kafka", "password": reference}}
    taken = parse_resource({**body({"zookeeper": zookeeper}), "kind": "Cluster"})
    assert taken.manifest is None
    assert [*error_texts(taken)] == [
        f"spec.zookeeper.sasl.password: found {found}, wanted secretKeyRef: in a custom "
        "resource a reference names a key of a Secret, and no file, variable or command"
    ]


def test_a_topic_was_applied_where_its_annotation_says() -> None:
    """The annotation names the clusters; a status with parts of clusters does not count."""
    plain = body({"partitions": 3})
    forged = {**plain, "status": {"clusters": [{"name": "c", "generation": 1}]}}
    assert parse_resource(forged).applied_clusters == []
    noted = {**plain["metadata"], "annotations": {"topiarist.dev/applied-to": "a,b"}}
    assert parse_resource({**forged, "metadata": noted}).applied_clusters == ["a", "b"]
