"""Comparison of one cluster with its specs: rows of its findings and counts of its topics.

``drift.task`` calls it for each cluster. All differences come from ``plan_topic``; topics that the equality check has
counted need no plan. The write block of a cluster, size limits, policies and budgets are not applied: they decide what
may be written, and a report shows what differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import asdict

from topiarist.adapters.snapshots.times import format_time
from topiarist.drift.checks.in_flight import (
    find_cluster_findings,
    find_moving_findings,
    find_stuck_findings,
    find_throttle_findings,
    requested_targets,
)
from topiarist.drift.checks.placement import PlacementChecker, find_checker, find_placement_findings
from topiarist.drift.checks.usage import find_usage_findings
from topiarist.drift.findings.finding import (
    DriftClass,
    DriftFinding,
    FindingRow,
    make_findings,
    undeclared_topic_finding,
)
from topiarist.drift.findings.rows import make_row, sort_key
from topiarist.drift.snapshots import ClusterInput
from topiarist.model.plan import Load, TakeOwnership, compute_broker_load
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.planning.builder import PlanContext
from topiarist.planning.planner import make_plan_context, plan_topic


class TopicCounts(Struct):
    """Numbers of topics of one cluster or of a fleet.

    ``declared`` topics are named by manifests; they are ``compared`` if their cluster could be read, and ``in_sync``
    without a finding. For those with ``missing_record`` a plan would write the ownership record. ``present`` topics
    exist on the cluster; those that are ``ignored`` are undeclared and without a finding. Declared topics are
    ``not_judged`` if an incomplete snapshot may lack their rows.
    """

    declared: int = 0
    compared: int = 0
    present: int = 0
    in_sync: int = 0
    missing_record: int = 0
    ignored: int = 0
    not_judged: int = 0

    def add(self, other: TopicCounts) -> None:
        """Add the counts of other topics."""
        for name, number in asdict(other).items():
            setattr(self, name, getattr(self, name) + number)


class Comparison(Struct):
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
        rows = [
            make_row(cluster_input.cluster, "", DriftFinding(DriftClass.UNKNOWN, message=cluster_input.problem), as_of)
        ]
        return Comparison(cluster_input, TopicCounts(declared=len(specs)), rows)
    # Equal topics count as holders of replicas only. Their names need no collision check, because equal topics have
    # specs and ``desired`` rejects specs with colliding names.
    kept_replicas = (topic.replicas for name, topic in state.topics.items() if name not in state.pending_deletions)
    holders = equal_topics.replica_holders().union(*chain.from_iterable(kept_replicas))
    context = make_plan_context(state, cluster, options, holders)
    remaining = equal_topics.remaining_specs(specs)
    counts = TopicCounts(len(remaining), len(remaining), present=len(state.topics) + len(state.topic_errors))
    comparison = Comparison(cluster_input, counts, context=context, specs=remaining)
    taken_at = format_time(cluster_input.taken_at)
    for name, finding in [*_compare_specs(comparison, context), *_check_undeclared(comparison, context)]:
        topic = state.topics.get(name)
        record = topic.valid_record if topic else state.dangling_records.get(name)
        owner = record.owner if record else None
        is_modified = topic is not None and topic.modified_externally
        comparison.rows.append(make_row(cluster_input.cluster, name, finding, taken_at, owner, is_modified))
    equal = len(equal_topics.names)
    counts.add(TopicCounts(equal, equal, equal, equal, equal_topics.missing_record))
    replica_lists = equal_topics.count_replica_lists()
    replica_lists.update(chain.from_iterable(topic.replicas for topic in state.topics.values()))
    comparison.broker_load = compute_broker_load(replica_lists, [broker.id for broker in state.brokers])
    if stale := state.stale_reassignments:
        # A stale entry is reported for the topic that it names, declared or not.
        judged = stale & {spec.topic for spec in specs if not cluster_input.may_lack(spec.topic)}
        counts.in_sync -= len(judged - {row["topic"] for row in comparison.rows})
    _add_usage_findings(comparison, cluster, specs, taken_at)
    findings = find_cluster_findings(state, cluster_input.taken_at)
    comparison.rows.extend(make_row(cluster_input.cluster, topic, finding, taken_at) for topic, finding in findings)
    comparison.rows.sort(key=sort_key)
    return comparison


def _add_usage_findings(
    comparison: Comparison, cluster: ClusterSpec, specs: Sequence[TopicSpec], taken_at: str
) -> None:
    """Add the findings about usage, also of topics that equal their specs."""
    state = comparison.cluster_input.state
    if state is None or not state.usage:
        return
    declared = {spec.topic: spec for spec in specs}
    without_finding = state.usage.keys() - {row["topic"] for row in comparison.rows}
    for name, finding in find_usage_findings(state, cluster, declared):
        if name in without_finding:
            without_finding.discard(name)
            comparison.counts.in_sync -= name in declared
            comparison.counts.ignored -= name not in declared
        topic = state.topics.get(name)
        record = topic.valid_record if topic else None
        owner = record.owner if record else None
        comparison.rows.append(make_row(comparison.cluster_input.cluster, name, finding, taken_at, owner))


def _compare_specs(comparison: Comparison, context: PlanContext) -> Iterator[tuple[str, DriftFinding]]:
    state = context.state
    checker = find_checker(state.brokers, context.cluster)
    for spec in comparison.specs:
        if comparison.cluster_input.may_lack(spec.topic):
            comparison.counts.not_judged += 1
            comparison.counts.compared -= 1
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
