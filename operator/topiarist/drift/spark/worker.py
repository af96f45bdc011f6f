"""One topic at a time, as a Python worker of Spark sees it: a joined row in, the rows of its findings out.

The same ``compared`` as for a whole cluster, over a state with one topic; what else of its cluster the topic's plan
rests on comes with the ``Frame``. No Spark in here: what runs on a worker can be tested without one.
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
    """What all topics of a cluster share: its document, without what a worker must not have, and its own row.

    ``holders`` are brokers that hold replicas and are not registered; ``neighbours`` topics by the declared ones with
    which their names collide.
    """

    cluster: ClusterSpec
    cluster_row: FindingRow
    unregistered_holders: frozenset[int] = frozenset()
    colliding_topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class RowResult(NamedTuple):
    """What came of one joined row: its findings, and what it adds to the cluster's counts.

    ``declared`` is the topic of its spec, empty without one; ``seen`` that topic as other clusters are compared with.
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
    """The findings of joined rows, each the cluster's name and JSON with ``d``, its spec, and ``a``, what is there."""
    for cluster, text in pairs:
        yield compare_row(cluster, json.loads(text), contexts[cluster], options)


def compare_row(
    cluster: str, pair: Mapping[str, Any], cluster_context: ClusterContext, options: RunOptions
) -> RowResult:
    """The findings of one joined row; either side may be missing."""
    desired, actual = pair["d"], pair["a"]
    state = decode_state(cluster_context.cluster_row, [actual] if actual else [])
    specs = [spec_from_row(desired, cluster_context.cluster)] if desired else []
    declared = specs[0].topic if specs else ""
    context = make_plan_context(
        state,
        cluster_context.cluster,
        options,
        cluster_context.unregistered_holders,
        cluster_context.colliding_topics.get(declared, ()),
    )
    taken = cluster_context.cluster_row["takenAt"]
    done = compare_topics(ClusterInput(cluster, parse_time(taken), state), context, specs, taken)
    seen = make_variant(specs[0], state.topics.get(declared)) if specs else None
    return RowResult(cluster, done.rows, done.in_sync, done.missing_record, done.ignored, declared, seen)
