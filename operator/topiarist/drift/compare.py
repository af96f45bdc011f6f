"""Comparison of one cluster with its specs: rows of its findings and counts of its topics.

``drift.report`` calls it for whole clusters, and ``drift.spark.worker`` for one topic at a time. All differences come
from ``plan_topic``; topics that the equality check has counted need no plan. The write block of a cluster, size limits,
policies and budgets are not applied: they decide what may be written, and a report shows what differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from topiarist.adapters.snapshots.codec import format_time
from topiarist.drift.findings import (
    DriftFinding,
    FindingRow,
    make_findings,
    make_row,
    undeclared_topic_finding,
    unknown_finding,
)
from topiarist.drift.in_flight import (
    find_cluster_findings,
    find_moving_findings,
    find_stuck_findings,
    find_throttle_findings,
    requested_targets,
)
from topiarist.drift.placement import PlacementChecker, find_checker, find_placement_findings
from topiarist.drift.snapshots import ClusterInput
from topiarist.model.plan import Load, TakeOwnership, compute_broker_load
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.planning.builder import PlanContext
from topiarist.planning.planner import make_plan_context, plan_topic


@dataclass(slots=True)
class TopicCounts:
    """Numbers of topics of one cluster, of a part of its topics, or of a fleet.

    ``declared`` topics are named by manifests; they are ``compared`` if their cluster could be read, and ``in_sync``
    without a finding. For those with ``missing_record`` a plan would write the ownership record. ``present`` topics
    exist on the cluster; those that are ``ignored`` are undeclared and without a finding.
    """

    declared: int = 0
    compared: int = 0
    present: int = 0
    in_sync: int = 0
    missing_record: int = 0
    ignored: int = 0

    def add(self, other: TopicCounts) -> None:
        """Add the counts of other topics."""
        self.declared += other.declared
        self.compared += other.compared
        self.present += other.present
        self.in_sync += other.in_sync
        self.missing_record += other.missing_record
        self.ignored += other.ignored


@dataclass(slots=True)
class Comparison:
    """The result for one cluster: its findings in order of topic, class and field, and its counts.

    ``context`` is None if the cluster could not be compared. ``specs`` were compared by plans; ``broker_load`` is the
    load by broker id.
    """

    cluster_input: ClusterInput
    counts: TopicCounts
    rows: list[FindingRow] = field(default_factory=list)
    context: PlanContext | None = None
    specs: Sequence[TopicSpec] = ()
    broker_load: Mapping[int, Load] = field(default_factory=dict)


def compare_cluster(
    cluster_input: ClusterInput, cluster: ClusterSpec, specs: Sequence[TopicSpec], options: RunOptions, as_of: str
) -> Comparison:
    """Return the comparison of one cluster; ``as_of`` is the time of the finding if the cluster was not read."""
    state, equal_topics = cluster_input.state, cluster_input.equal_topics
    if state is None or cluster_input.taken_at is None:
        rows = [make_row(cluster_input.cluster, "", unknown_finding("", cluster_input.problem), as_of)]
        return Comparison(cluster_input, TopicCounts(declared=len(specs)), rows)
    # Equal topics count as holders of replicas only. Their names need no collision check, because equal topics have
    # specs and ``desired`` rejects specs with colliding names.
    kept_replicas = (topic.replicas for name, topic in state.topics.items() if name not in state.pending_deletions)
    holders = equal_topics.replica_holders().union(*chain.from_iterable(kept_replicas))
    context = make_plan_context(state, cluster, options, holders)
    comparison = compare_topics(
        cluster_input, context, equal_topics.remaining_specs(specs), format_time(cluster_input.taken_at)
    )
    equal = len(equal_topics.names)
    comparison.counts.add(TopicCounts(equal, equal, equal, equal, equal_topics.missing_record))
    replica_lists = equal_topics.count_replica_lists()
    replica_lists.update(chain.from_iterable(topic.replicas for topic in state.topics.values()))
    comparison.broker_load = compute_broker_load(replica_lists, [broker.id for broker in state.brokers])
    complete_rows(comparison, specs)
    return comparison


def complete_rows(comparison: Comparison, specs: Sequence[TopicSpec]) -> None:
    """Add the rows about the cluster's reassignment request and the record of its last batch, and sort all rows.

    A stale entry is reported for the topic that it names, declared or not.
    """
    cluster_input, rows = comparison.cluster_input, comparison.rows
    if cluster_input.state and cluster_input.taken_at:
        taken_at = format_time(cluster_input.taken_at)
        if stale := cluster_input.state.stale_reassignments:
            comparison.counts.in_sync -= len((stale & {spec.topic for spec in specs}) - {row["topic"] for row in rows})
        findings = find_cluster_findings(cluster_input.state, cluster_input.taken_at)
        rows.extend(make_row(cluster_input.cluster, topic, finding, taken_at) for topic, finding in findings)
    rows.sort(key=lambda row: (row["topic"], row["class"], row["field"]))


def compare_topics(
    cluster_input: ClusterInput, context: PlanContext, specs: Sequence[TopicSpec], taken_at: str
) -> Comparison:
    """Return the comparison of topics of a readable cluster, its rows in no order.

    The state of ``context`` and ``specs`` may have only some topics.
    """
    state = context.state
    counts = TopicCounts(len(specs), len(specs), present=len(state.topics) + len(state.topic_errors))
    comparison = Comparison(cluster_input, counts, context=context, specs=specs)
    for name, finding in [*_compare_specs(comparison, context), *_check_undeclared(comparison, context)]:
        topic = state.topics.get(name)
        record = topic.valid_record if topic else state.dangling_records.get(name)
        owner = record.owner if record else None
        is_modified = topic is not None and topic.modified_externally
        comparison.rows.append(make_row(cluster_input.cluster, name, finding, taken_at, owner, is_modified))
    return comparison


def _compare_specs(comparison: Comparison, context: PlanContext) -> Iterator[tuple[str, DriftFinding]]:
    state = context.state
    known_names = (state.topics, state.topic_errors, state.dangling_records, state.pending_deletions)
    checker = find_checker(state.brokers, context.cluster)
    for spec in comparison.specs:
        if comparison.cluster_input.is_incomplete and not any(spec.topic in names for names in known_names):
            message = "its row is not among those of the snapshot that could be read"
            yield spec.topic, unknown_finding(spec.topic, message)
            continue
        plan = plan_topic(spec, context)
        actual = _find_actual(spec, comparison, context, checker)
        findings = make_findings(plan, actual) if actual or plan.changes or plan.refusals or plan.notices else ()
        comparison.counts.in_sync += not findings
        comparison.counts.missing_record += any(isinstance(change, TakeOwnership) for change in plan.changes)
        for finding in findings:
            yield spec.topic, finding


def _find_actual(
    spec: TopicSpec, comparison: Comparison, context: PlanContext, checker: PlacementChecker
) -> list[DriftFinding]:
    """Return the findings of a topic that do not depend on its plan; none for a topic that should not exist."""
    state, taken_at = context.state, comparison.cluster_input.taken_at
    topic = state.topics.get(spec.topic)
    if topic is None or taken_at is None or spec.absent or spec.topic in state.pending_deletions:
        return []
    return [
        *find_placement_findings(spec, topic, checker, requested_targets(spec.topic, state)),
        *find_moving_findings(topic, state, taken_at),
        *find_throttle_findings(spec, topic, state),
    ]


def _check_undeclared(comparison: Comparison, context: PlanContext) -> Iterator[tuple[str, DriftFinding]]:
    """Yield the findings of undeclared topics, and count the topics without a finding as ignored."""
    state, declared = context.state, {spec.topic for spec in comparison.specs}
    for name in (*state.topics, *state.topic_errors):
        if name in declared:
            continue
        topic, taken_at = state.topics.get(name), comparison.cluster_input.taken_at
        findings = [*filter(None, [undeclared_topic_finding(name, state, context.cluster, context.options.owner)])]
        if topic and taken_at and name not in state.pending_deletions:
            # A stuck entry blocks the moves of all topics, declared or not.
            findings.extend(find_stuck_findings(topic, state, taken_at))
        comparison.counts.ignored += not findings
        yield from ((name, finding) for finding in findings)
