"""Merge of a ``Topic`` manifest and its ``Cluster`` into one ``TopicSpec``: applies overrides and defaults."""

from __future__ import annotations

from typing import Any

from topiarist.kafka.config_values import to_config_text
from topiarist.kafka.types import Replicas
from topiarist.model.moves import MoveKind
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec, layers, parse_replica_assignment, topic_name


def merge(manifest: Manifest, cluster: ClusterSpec) -> TopicSpec:
    """Return the spec of ``manifest`` on ``cluster``.

    Layers: the topic's profiles, its own spec, then each override that selects the cluster. The two forms of size
    (counts, or ``replicaAssignment``) replace each other as a whole; counts beside lists are redundant. A size that no
    layer, default or broker setting names is 0 in ``create_partitions`` and ``create_replication_factor``. ``rules``
    reports both.
    """
    partitions: int | None = None
    factor: int | None = None
    assignment: tuple[Replicas, ...] | None = None
    own: dict[str, str] = {}
    labels: dict[str, str] = {}
    fields: dict[str, Any] = {}
    for _, layer in layers(manifest, cluster):
        fields.update(layer)
        if "replicaAssignment" in layer:
            assignment = parse_replica_assignment(layer["replicaAssignment"])
            partitions = factor = None
        elif "partitions" in layer or "replicationFactor" in layer:
            assignment = None
            partitions = layer.get("partitions", partitions)
            factor = layer.get("replicationFactor", factor)
        if "config" in layer:
            own |= {key: to_config_text(key, value) for key, value in layer["config"].items()}
        if "labels" in layer:
            labels |= layer["labels"]
    if assignment:
        partitions, factor = len(assignment), len(assignment[0])
    moves = fields.get("moves", {})
    unwanted = fields.get("withoutConfig", ())
    defaults = {key: text for key, text in cluster.default_config.items() if key not in own and key not in unwanted}
    return TopicSpec(
        topic=topic_name(manifest),
        cluster=cluster,
        manifest=manifest,
        partitions=partitions,
        replication_factor=factor,
        create_partitions=partitions or cluster.default_partitions or cluster.broker_size("partitions") or 0,
        create_replication_factor=(
            factor or cluster.default_replication_factor or cluster.broker_size("replicationFactor") or 0
        ),
        assignment=assignment,
        config=defaults | own if defaults else own,
        inherited_keys=frozenset(defaults),
        ignored_fields=frozenset(fields.get("ignore", ())),
        excluded_default_keys=tuple(unwanted),
        remove_unmanaged=fields.get("unmanagedConfig") == "Remove",
        absent=fields.get("ensure") == "Absent",
        observe_only=fields.get("mode") == "Observe",
        allowed_moves=cluster.moves.allow.intersection(map(MoveKind, moves["allow"]))
        if "allow" in moves
        else cluster.moves.allow,
        spread_within_one=moves.get("spread") == "One",
        profile_labels=labels,
        co_partition_group=fields.get("coPartitionGroup", ""),
        keyed=fields.get("keyed", True),
    )
