"""Comparison of one cluster with its specs: rows of its findings and counts of its topics.

``drift.report`` calls it for whole clusters, and ``drift.spark.worker`` for one topic at a time. All differences come
from ``plan_topic``; topics that the equality check has counted need no plan. The write block of a cluster, size limits,
policies and budgets are not applied: they decide what may be written, and a report shows what differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from topiarist.adapters.snapshots.codec import format_time
from topiarist.drift.equality import EqualTopics
from topiarist.drift.findings import DriftFinding, make_findings, stale_reassignment_finding, undeclared_topic_finding
from topiarist.drift.rows import FindingRow, make_row, unknown_finding, with_owner
from topiarist.drift.snapshots import ClusterInput
from topiarist.model.plan import Load, TakeOwnership, TopicPlan, compute_broker_load
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState
from topiarist.planning.builder import PlanContext
from topiarist.planning.planner import make_plan_context, plan_topic


@dataclass(slots=True)
class Comparison:
    """The result for one cluster: its findings in order of topic, class and field, and its counts.

    ``declared``, ``present``, ``in_sync``, ``missing_record`` and ``ignored`` are numbers of topics. Declared topics
    that are ``in_sync`` have no finding; for those with ``missing_record`` a plan would write the ownership record.
    Topics that are ``ignored`` exist, undeclared and without a finding. ``context`` is None if the cluster could not be
    compared. ``specs`` were compared by plans; ``broker_load`` is the load by broker id.
    """

    cluster_input: ClusterInput
    declared: int
    rows: list[FindingRow] = field(default_factory=list)
    present: int = 0
    in_sync: int = 0
    missing_record: int = 0
    ignored: int = 0
    context: PlanContext | None = None
    specs: Sequence[TopicSpec] = ()
    broker_load: Mapping[int, Load] = field(default_factory=dict)

    @property
    def compared(self) -> int:
        """Return the number of declared topics that were compared."""
        return self.declared if self.context else 0


def compare_cluster(
    cluster_input: ClusterInput, cluster: ClusterSpec, specs: Sequence[TopicSpec], options: RunOptions, as_of: str
) -> Comparison:
    """Return the comparison of one cluster; ``as_of`` is the time of the finding if the cluster was not read."""
    if cluster_input.state is None or cluster_input.taken_at is None:
        comparison = Comparison(cluster_input, len(specs))
        comparison.rows = [make_row(cluster_input.cluster, "", unknown_finding("", cluster_input.problem), as_of)]
        return comparison
    equal_topics, remaining_specs = cluster_input.equal_topics, cluster_input.equal_topics.remaining_specs(specs)
    comparison = compare_topics(
        cluster_input,
        _make_context(cluster_input.state, equal_topics, cluster, options),
        remaining_specs,
        format_time(cluster_input.taken_at),
    )
    comparison.declared = len(specs)
    comparison.present += len(equal_topics.names)
    comparison.in_sync += len(equal_topics.names)
    comparison.missing_record += equal_topics.missing_record
    replica_lists = equal_topics.count_replica_lists() + Counter(
        chain.from_iterable(topic.replicas for topic in cluster_input.state.topics.values())
    )
    comparison.broker_load = compute_broker_load(replica_lists, [broker.id for broker in cluster_input.state.brokers])
    add_stale_reassignments(comparison, specs)
    return comparison


def add_stale_reassignments(comparison: Comparison, specs: Sequence[TopicSpec]) -> None:
    """Add a finding for each topic that a stale reassignment entry names, declared or not."""
    cluster_input = comparison.cluster_input
    if cluster_input.state is None or cluster_input.taken_at is None or not cluster_input.state.stale_reassignments:
        return
    stale, taken_at = cluster_input.state.stale_reassignments, format_time(cluster_input.taken_at)
    comparison.in_sync -= len((stale & {spec.topic for spec in specs}) - {made["topic"] for made in comparison.rows})
    comparison.rows.extend(
        make_row(cluster_input.cluster, topic, stale_reassignment_finding(), taken_at) for topic in stale
    )
    comparison.rows.sort(key=_row_sort_key)


def _row_sort_key(row: FindingRow) -> tuple[str, str, str]:
    return row["topic"], row["class"], row["field"]


def _make_context(
    state: ClusterState, equal_topics: EqualTopics, cluster: ClusterSpec, options: RunOptions
) -> PlanContext:
    """Return the plan context for the remaining topics; equal topics count only as holders of replicas.

    Names of equal topics need no collision check, because equal topics have specs and ``desired`` rejects specs with
    colliding names.
    """
    kept_replicas = (topic.replicas for name, topic in state.topics.items() if name not in state.pending_deletions)
    return make_plan_context(
        state, cluster, options, equal_topics.replica_holders().union(*chain.from_iterable(kept_replicas))
    )


def compare_topics(
    cluster_input: ClusterInput, context: PlanContext, specs: Sequence[TopicSpec], taken_at: str
) -> Comparison:
    """Return the comparison of topics of a readable cluster; state and ``specs`` may have only some topics."""
    comparison, state = Comparison(cluster_input, len(specs), context=context, specs=specs), context.state
    comparison.present = len(state.topics) + len(state.topic_errors)
    for topic, finding in [*_compare_specs(comparison, context, specs), *_check_undeclared(comparison, context, specs)]:
        row = make_row(cluster_input.cluster, topic, finding, taken_at)
        comparison.rows.append(with_owner(row, state.topics.get(topic), state.dangling_records.get(topic)))
    comparison.rows.sort(key=_row_sort_key)
    return comparison


def _compare_specs(
    comparison: Comparison, context: PlanContext, specs: Sequence[TopicSpec]
) -> Iterator[tuple[str, DriftFinding]]:
    is_incomplete = comparison.cluster_input.is_incomplete
    for spec in specs:
        if is_incomplete and not _is_in_state(spec.topic, context.state):
            yield (
                spec.topic,
                unknown_finding(spec.topic, "its row is not among those of the snapshot that could be read"),
            )
            continue
        plan = plan_topic(spec, context)
        findings = make_findings(plan) if plan.changes or plan.refusals or plan.notices else ()
        comparison.in_sync += not findings
        comparison.missing_record += _has_ownership_change(plan)
        for finding in findings:
            yield spec.topic, finding


def _is_in_state(topic: str, state: ClusterState) -> bool:
    """Return whether a state has any information about a topic, even if only an ownership record."""
    return (
        topic in state.topics
        or topic in state.topic_errors
        or topic in state.dangling_records
        or topic in state.pending_deletions
    )


def _has_ownership_change(plan: TopicPlan) -> bool:
    return any(isinstance(change, TakeOwnership) for change in plan.changes)


def _check_undeclared(
    comparison: Comparison, context: PlanContext, specs: Sequence[TopicSpec]
) -> Iterator[tuple[str, DriftFinding]]:
    """Yield the findings of undeclared topics, and count the topics without a finding as ignored."""
    state, declared = context.state, {spec.topic for spec in specs}
    for name in (*state.topics, *state.topic_errors):
        if name in declared:
            continue
        if finding := undeclared_topic_finding(name, state, context.cluster, context.options.owner):
            yield name, finding
        else:
            comparison.ignored += 1
