"""Custom resources as the API server gives them: a test names only what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from topiarist.kubernetes.resources import Resource, resource

_UIDS = count(1)


def body(kind: str, name: str, spec: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    """A body; the later one is the younger one, unless ``creationTimestamp`` says otherwise."""
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
    """A Topic in the namespace ``shop``; of three partitions and replicas if nothing else is said."""
    sized = {"partitions": 3, "replicationFactor": 3, **spec}
    return resource({**body("Topic", name, sized, **meta), "status": status or {}})


def cluster(name: str = "prod", *, meta: Mapping[str, Any] = {}, **spec: Any) -> Resource:
    """A Cluster in the namespace ``shop``."""
    where = {"zookeeper": {"connect": "zk:2181"}, "kafkaVersion": "3.9"}
    return resource(body("Cluster", name, {**where, **spec}, **meta))


def policy(name: str = "sizes", *rules: Mapping[str, Any], meta: Mapping[str, Any] = {}, **spec: Any) -> Resource:
    """A Policy in the namespace ``shop``; what a rule does not say is filled in, one that is always kept if need be."""
    some = rules or ({"expression": "true"},)
    whole = [{"name": f"r{number}", "message": "No.", **rule} for number, rule in enumerate(some)]
    return resource(body("Policy", name, {"rules": whole, **spec}, **meta))


def again(of: Resource, *, status: Mapping[str, Any] | None = None, **metadata: Any) -> Resource:
    """The same resource as the API server would give it later: its spec as it was."""
    assert of.manifest is not None
    plain = {
        "namespace": of.namespace,
        "uid": of.uid,
        "generation": of.generation,
        "creationTimestamp": of.created,
        "labels": dict(of.labels),
        "annotations": dict(of.source.annotations),
        "finalizers": list(of.finalizers),
    }
    if of.deleting:
        plain["deletionTimestamp"] = "2026-02-01T00:00:00Z"
    made = body(of.kind, of.name, of.manifest.spec, **{**plain, **metadata})
    return resource({**made, "status": of.status if status is None else status}, of)
