"""A merged spec as a ``Topic`` document, as ``topiarist render`` shows it.

Plain values only; ``adapters.manifests.dump`` writes them as YAML. The documents can be applied: together with their
cluster they mean the same as the originals, except that sizes from the cluster's defaults, and all values of profiles,
are now set in the topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topiarist.model.spec import TopicSpec, find_origin
from topiarist.schema.load import API_VERSION

FROM_DEFAULTS = "topiarist.dev/from-defaults"
"""Annotation that lists the fields with a value from the cluster's defaults."""

FROM_PROFILES = "topiarist.dev/from-profiles"
"""Annotation that lists the fields with a value from the topic's profiles."""

FROM_BROKER_CONFIG = "topiarist.dev/from-broker-config"
"""Annotation that lists the sizes with a value from the cluster's ``brokerConfig``."""


def render_document(spec: TopicSpec) -> dict[str, Any]:
    """Return the ``Topic`` document of one topic on one cluster.

    Keys are sorted; fields at the default of the format are left out.
    """
    manifest = spec.manifest
    metadata = {
        "name": manifest.name,
        "namespace": manifest.namespace,
        "labels": dict(sorted(spec.labels.items())),
        "annotations": _build_annotations(spec),
    }
    fields = {
        "topicName": spec.topic,
        "coPartitionGroup": spec.co_partition_group,
        "clusters": [spec.cluster.name] if spec.cluster.name else [],
        "config": dict(sorted(spec.config.items())),
        "withoutConfig": sorted(spec.cluster.default_config.keys() - spec.config.keys()),
        "ignore": sorted(spec.ignored_fields),
        "unmanagedConfig": "Remove" if spec.remove_unmanaged else "",
        "ensure": "Absent" if spec.absent else "",
        "mode": "Observe" if spec.observe_only else "",
        "deletionPolicy": manifest.spec.get("deletionPolicy", ""),
        **({} if spec.keyed else {"keyed": False}),
        **_size_fields(spec),
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "Topic",
        "metadata": _drop_empty(metadata),
        "spec": _drop_empty(fields),
    }


def _size_fields(spec: TopicSpec) -> dict[str, Any]:
    if spec.assignment is not None:
        return {"replicaAssignment": [list(replicas) for replicas in spec.assignment]}
    return {"partitions": spec.create_partitions, "replicationFactor": spec.create_replication_factor}


def _build_annotations(spec: TopicSpec) -> dict[str, str]:
    inherited = [f"config.{key}" for key in sorted(spec.inherited_keys)]
    sizes = (("partitions", spec.partitions), ("replicationFactor", spec.replication_factor))
    brokers: list[str] = []
    for name, own in sizes if spec.assignment is None else ():
        if own is None and _size_fields(spec)[name]:
            from_brokers = find_origin(spec, name).path[:2] == ("spec", "brokerConfig")
            (brokers if from_brokers else inherited).append(name)
    profiled = _list_profiled_fields(spec) if spec.manifest.spec.get("profiles") else []
    found = {FROM_DEFAULTS: inherited, FROM_PROFILES: profiled, FROM_BROKER_CONFIG: brokers}
    return {annotation: ", ".join(names) for annotation, names in found.items() if names}


def _list_profiled_fields(spec: TopicSpec) -> list[str]:
    paths: list[tuple[str, ...]] = [("config", key) for key in sorted(spec.config.keys() - spec.inherited_keys)]
    own_sizes = {"partitions": spec.partitions, "replicationFactor": spec.replication_factor}
    paths += [(name,) for name, own in own_sizes.items() if own is not None and spec.assignment is None]
    fields = [".".join(path) for path in paths if find_origin(spec, *path).path[:2] == ("spec", "profiles")]
    return fields + [f"labels.{key}" for key in sorted(spec.labels.keys() - spec.manifest.labels.keys())]


def _drop_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not empty, sorted by name; False is a value."""
    return {name: value for name, value in sorted(fields.items()) if value is False or value not in ("", 0, [], {}, ())}
