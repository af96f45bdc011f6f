"""The comparison of one joined row in a Python worker of Spark: a row and a spec in, findings out.

``drift.spark.job`` calls it. It uses the same ``compare_topics`` as a whole cluster, over a state with at most one
topic; the ``ClusterContext`` has everything else that the plan of the topic needs.

A spec travels as a row of plain values: the fields that ``plan_topic`` reads. It has no cluster document, which is the
same for all topics of a cluster, and no manifest content, because findings name the difference and not its source line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from topiarist.adapters.snapshots.codec import decode_state, parse_time
from topiarist.drift.compare import TopicCounts, compare_topics
from topiarist.drift.cross_cluster import TopicVariant, make_variant
from topiarist.drift.findings import FindingRow
from topiarist.drift.snapshots import ClusterInput
from topiarist.errors import FieldPath, Location
from topiarist.model.moves import MoveKind
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec
from topiarist.planning.planner import make_plan_context


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """The data that all topics of a cluster share: its document without secrets, and its cluster row.

    ``unregistered_holders`` are brokers that hold replicas and are not registered. ``colliding_topics`` maps declared
    topics to topics with colliding metric names.
    """

    cluster: ClusterSpec
    cluster_row: FindingRow
    unregistered_holders: frozenset[int] = frozenset()
    colliding_topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class RowResult(NamedTuple):
    """The result of one joined row: its findings, and its contribution to the counts of the cluster.

    ``declared_topic`` is the topic of its spec, empty without a spec; ``variant`` is that topic for the comparison
    across clusters.
    """

    cluster: str
    rows: list[FindingRow]
    counts: TopicCounts
    declared_topic: str = ""
    variant: TopicVariant | None = None


def compare_rows(
    pairs: Iterable[Sequence[str]], contexts: Mapping[str, ClusterContext], options: RunOptions
) -> Iterator[RowResult]:
    """Yield the results of joined rows.

    Each row is the name of a cluster and JSON with ``d``, its spec, and ``a``, its actual row; either may be null.
    """
    for cluster, text in pairs:
        pair, shared = json.loads(text), contexts[cluster]
        state = decode_state(shared.cluster_row, [pair["a"]] if pair["a"] else [])
        specs = [spec_from_row(pair["d"], shared.cluster)] if pair["d"] else []
        declared_topic = specs[0].topic if specs else ""
        colliding = shared.colliding_topics.get(declared_topic, ())
        context = make_plan_context(state, shared.cluster, options, shared.unregistered_holders, colliding)
        taken_at = shared.cluster_row["takenAt"]
        comparison = compare_topics(ClusterInput(cluster, parse_time(taken_at), state), context, specs, taken_at)
        variant = make_variant(specs[0], state.topics.get(declared_topic)) if specs else None
        yield RowResult(cluster, comparison.rows, comparison.counts, declared_topic, variant)


class _NoSource:
    """The manifest source of specs that were built from rows."""

    def locate(self, path: FieldPath = ()) -> Location:
        """Return an empty location."""
        return Location("")


def spec_to_row(spec: TopicSpec) -> dict[str, Any]:
    """Return a spec as a row of plain values."""
    manifest = spec.manifest
    return {
        "topic": spec.topic,
        "namespace": manifest.namespace,
        "manifest": manifest.name,
        "partitions": spec.partitions,
        "replicationFactor": spec.replication_factor,
        "createPartitions": spec.create_partitions,
        "createReplicationFactor": spec.create_replication_factor,
        "assignment": None if spec.assignment is None else [list(replicas) for replicas in spec.assignment],
        "config": dict(spec.config),
        "inherited": sorted(spec.inherited_keys),
        "ignore": sorted(spec.ignored_fields),
        "without": list(spec.excluded_default_keys),
        "removeUnmanaged": spec.remove_unmanaged,
        "absent": spec.absent,
        "observe": spec.observe_only,
        "moves": sorted(kind.value for kind in spec.allowed_moves),
        "spreadWithinOne": spec.spread_within_one,
    }


def spec_from_row(row: Mapping[str, Any], cluster: ClusterSpec) -> TopicSpec:
    """Return the spec of a row, on its cluster."""
    lists = row["assignment"]
    return TopicSpec(
        topic=row["topic"],
        cluster=cluster,
        manifest=Manifest("Topic", row["manifest"], row["namespace"], {}, {}, _NoSource()),
        partitions=row["partitions"],
        replication_factor=row["replicationFactor"],
        create_partitions=row["createPartitions"],
        create_replication_factor=row["createReplicationFactor"],
        assignment=None if lists is None else tuple(tuple(replicas) for replicas in lists),
        config=row["config"],
        inherited_keys=frozenset(row["inherited"]),
        ignored_fields=frozenset(row["ignore"]),
        excluded_default_keys=tuple(row["without"]),
        remove_unmanaged=row["removeUnmanaged"],
        absent=row["absent"],
        observe_only=row["observe"],
        allowed_moves=frozenset(map(MoveKind, row["moves"])),
        spread_within_one=row["spreadWithinOne"],
    )
