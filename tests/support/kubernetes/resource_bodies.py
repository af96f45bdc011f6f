"""Custom resources in the form of the API server: a test names only the relevant fields."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from topiarist.kubernetes.resources import Resource, parse_resource

_UIDS = count(1)


def body(kind: str, name: str, spec: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return the body of a resource; a later body is younger, unless ``creationTimestamp`` differs."""
    number = next(_UIDS)
    return {
        "apiVersion": "topiarist.dev/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{number:06}",
            "resourceVersion": str(number),
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"manager": "kubectl"}],
            **metadata,
        },
        "spec": spec,
    }


def topic(name: str, *, status: Mapping[str, Any] | None = None, meta: Mapping[str, Any] = {}, **spec: Any) -> Resource:
    """Return a Topic in the namespace ``shop``, by default with three partitions and three replicas."""
    sized = {"partitions": 3, "replicationFactor": 3, **spec}
    return parse_resource({**body("Topic", name, sized, **meta), "status": status or {}})


def kafka_topic(
    name: str,
    *,
    status: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] = {},
    writes: Mapping[str, str] = {},
    **spec: Any,
) -> Resource:
    """Return a KafkaTopic of the cluster ``prod``, by default with three partitions and three replicas.

    ``writes`` maps field managers to the times when they wrote the status.
    """
    owned: dict[str, Any] = {"f:conditions": {}}
    fields = [
        {"manager": manager, "subresource": "status", "time": time, "fieldsV1": {"f:status": owned}}
        for manager, time in writes.items()
    ]
    metadata = {"labels": {"strimzi.io/cluster": "prod"}, "managedFields": fields, **meta}
    made = body("KafkaTopic", name, {"partitions": 3, "replicas": 3, **spec}, **metadata)
    return parse_resource({**made, "apiVersion": "kafka.strimzi.io/v1", "status": status or {}})


def cluster(name: str = "prod", *, meta: Mapping[str, Any] = {}, **spec: Any) -> Resource:
    """Return a Cluster in the namespace ``shop``."""
    where = {"zookeeper": {"connect": "zk:2181"}, "kafkaVersion": "3.9"}
    return parse_resource(body("Cluster", name, {**where, **spec}, **meta))


def policy(name: str = "sizes", *rules: Mapping[str, Any], meta: Mapping[str, Any] = {}, **spec: Any) -> Resource:
    """Return a Policy in the namespace ``shop``.

    Missing fields of a rule get defaults, if necessary a condition that always holds.
    """
    some = rules or ({"expression": "true"},)
    whole = [{"name": f"r{number}", "message": "No.", **rule} for number, rule in enumerate(some)]
    return parse_resource(body("Policy", name, {"rules": whole, **spec}, **meta))


def updated_body(previous: Resource, *, status: Mapping[str, Any] | None = None, **metadata: Any) -> Resource:
    """Return a later version of the same resource, as the API server returns it with an unchanged spec."""
    made = body_of(previous, **metadata)
    return parse_resource({**made, "status": previous.status if status is None else status}, previous)


def body_of(resource: Resource, **metadata: Any) -> dict[str, Any]:
    """Return the body of a resource as the API server returns it, with a new resource version and no status."""
    assert resource.manifest is not None
    plain = {
        "namespace": resource.namespace,
        "uid": resource.uid,
        "generation": resource.generation,
        "creationTimestamp": resource.created,
        "labels": dict(resource.labels),
        "annotations": dict(resource.source.annotations),
        "finalizers": list(resource.finalizers),
    }
    if resource.deleting:
        plain["deletionTimestamp"] = "2026-02-01T00:00:00Z"
    return body(resource.kind, resource.name, resource.manifest.spec, **{**plain, **metadata})
