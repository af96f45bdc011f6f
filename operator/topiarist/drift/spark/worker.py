"""The comparison of one joined row in a Python worker of Spark: a row and a spec in, findings out.

``drift.spark.job`` calls it. It uses the same ``compare_topics`` as a whole cluster, over a state with at most one
topic; the ``ClusterContext`` has everything else that the plan of the topic needs. This module does not import PySpark,
so that it can be tested without Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from topiarist.adapters.snapshots.codec import decode_state, parse_time
from topiarist.drift.compare import compare_topics
from topiarist.drift.cross_cluster import TopicVariant, make_variant
from topiarist.drift.rows import FindingRow
from topiarist.drift.snapshots import ClusterInput
from topiarist.drift.spark.specs import spec_from_row
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec
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
    in_sync: int = 0
    missing_record: int = 0
    ignored: int = 0
    declared_topic: str = ""
    variant: TopicVariant | None = None


def compare_rows(
    pairs: Iterable[tuple[str, str]], contexts: Mapping[str, ClusterContext], options: RunOptions
) -> Iterator[RowResult]:
    """Yield the results of joined rows.

    Each row is the name of a cluster and JSON with ``d``, its spec, and ``a``, its actual row.
    """
    for cluster, text in pairs:
        yield compare_row(cluster, json.loads(text), contexts[cluster], options)


def compare_row(
    cluster: str, pair: Mapping[str, Any], cluster_context: ClusterContext, options: RunOptions
) -> RowResult:
    """Return the result of one joined row; either side may be missing."""
    desired, actual = pair["d"], pair["a"]
    state = decode_state(cluster_context.cluster_row, [actual] if actual else [])
    specs = [spec_from_row(desired, cluster_context.cluster)] if desired else []
    declared_topic = specs[0].topic if specs else ""
    context = make_plan_context(
        state,
        cluster_context.cluster,
        options,
        cluster_context.unregistered_holders,
        cluster_context.colliding_topics.get(declared_topic, ()),
    )
    taken_at = cluster_context.cluster_row["takenAt"]
    comparison = compare_topics(ClusterInput(cluster, parse_time(taken_at), state), context, specs, taken_at)
    variant = make_variant(specs[0], state.topics.get(declared_topic)) if specs else None
    return RowResult(
        cluster,
        comparison.rows,
        comparison.in_sync,
        comparison.missing_record,
        comparison.ignored,
        declared_topic,
        variant,
    )
