"""One cluster against its specs: the rows of its findings, and how many topics there were.

By ``plan_topic`` and nothing else, but for topics that were settled before. A cluster's gate, its limits of size,
policies and budgets are left out: they say what may be written, and a report is about what differs.
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
    """What came of one cluster: its findings in order of topic, class and field, and what was counted.

    ``declared`` and ``present`` are numbers of topics; of the declared ones ``in_sync`` have no finding and of
    ``missing_record`` a plan would write our record; ``ignored`` are there, undeclared, and expected. ``context`` is
    None if the cluster could not be compared. ``specs`` are those that were compared by plans, ``load`` what brokers
    carry.
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
        """The declared topics that could be compared."""
        return self.declared if self.context else 0


def compare_cluster(
    cluster_input: ClusterInput, cluster: ClusterSpec, specs: Sequence[TopicSpec], options: RunOptions, as_of: str
) -> Comparison:
    """The findings of one cluster; ``as_of`` is the time of a finding about a cluster that nobody has read."""
    if cluster_input.state is None or cluster_input.taken_at is None:
        done = Comparison(cluster_input, len(specs))
        done.rows = [make_row(cluster_input.cluster, "", unknown_finding("", cluster_input.problem), as_of)]
        return done
    settled, left = cluster_input.equal_topics, cluster_input.equal_topics.remaining_specs(specs)
    done = compare_topics(
        cluster_input,
        _make_context(cluster_input.state, settled, cluster, options),
        left,
        format_time(cluster_input.taken_at),
    )
    done.declared = len(specs)
    done.present += len(settled.names)
    done.in_sync += len(settled.names)
    done.missing_record += settled.missing_record
    lists = settled.count_replica_lists() + Counter(
        chain.from_iterable(topic.replicas for topic in cluster_input.state.topics.values())
    )
    done.broker_load = compute_broker_load(lists, [broker.id for broker in cluster_input.state.brokers])
    add_stale_reassignments(done, specs)
    return done


def add_stale_reassignments(comparison: Comparison, specs: Sequence[TopicSpec]) -> None:
    """Add a finding for each topic that a stale entry of the reassignment request names, declared or not."""
    seen = comparison.cluster_input
    if seen.state is None or seen.taken_at is None or not seen.state.stale_reassignments:
        return
    stale, taken = seen.state.stale_reassignments, format_time(seen.taken_at)
    comparison.in_sync -= len((stale & {spec.topic for spec in specs}) - {made["topic"] for made in comparison.rows})
    comparison.rows.extend(make_row(seen.cluster, topic, stale_reassignment_finding(), taken) for topic in stale)
    comparison.rows.sort(key=_row_sort_key)


def _row_sort_key(row: FindingRow) -> tuple[str, str, str]:
    return row["topic"], row["class"], row["field"]


def _make_context(
    state: ClusterState, equal_topics: EqualTopics, cluster: ClusterSpec, options: RunOptions
) -> PlanContext:
    """What plans of the topics that are left rest on; the settled ones count among those that hold replicas.

    Names of theirs collide with no other spec's: they have specs themselves, and ``desired`` sees to it.
    """
    staying = (topic.replicas for name, topic in state.topics.items() if name not in state.pending_deletions)
    return make_plan_context(
        state, cluster, options, equal_topics.replica_holders().union(*chain.from_iterable(staying))
    )


def compare_topics(
    cluster_input: ClusterInput, context: PlanContext, specs: Sequence[TopicSpec], taken_at: str
) -> Comparison:
    """The findings of a cluster of which something is known; its state may have only some topics, and ``specs`` too."""
    done, state = Comparison(cluster_input, len(specs), context=context, specs=specs), context.state
    done.present = len(state.topics) + len(state.topic_errors)
    for topic, one in [*_compare_specs(done, context, specs), *_check_undeclared(done, context, specs)]:
        made = make_row(cluster_input.cluster, topic, one, taken_at)
        done.rows.append(with_owner(made, state.topics.get(topic), state.dangling_records.get(topic)))
    done.rows.sort(key=_row_sort_key)
    return done


def _compare_specs(
    comparison: Comparison, context: PlanContext, specs: Sequence[TopicSpec]
) -> Iterator[tuple[str, DriftFinding]]:
    gaps = comparison.cluster_input.is_incomplete
    for spec in specs:
        if gaps and not _is_in_state(spec.topic, context.state):
            yield (
                spec.topic,
                unknown_finding(spec.topic, "its row is not among those of the snapshot that could be read"),
            )
            continue
        plan = plan_topic(spec, context)
        found = make_findings(plan) if plan.changes or plan.refusals or plan.notices else ()
        comparison.in_sync += not found
        comparison.missing_record += _has_ownership_change(plan)
        for one in found:
            yield spec.topic, one


def _is_in_state(topic: str, state: ClusterState) -> bool:
    """Whether a state says anything of a topic, if only that it is not there any more."""
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
    """What is there and nobody asked for."""
    state, declared = context.state, {spec.topic for spec in specs}
    for name in (*state.topics, *state.topic_errors):
        if name in declared:
            continue
        if one := undeclared_topic_finding(name, state, context.cluster, context.options.owner):
            yield name, one
        else:
            comparison.ignored += 1
