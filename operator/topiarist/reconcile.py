"""Reconciles one cluster: read it, plan, let the caller decide, apply, report.

The command line, the operator and the drift reports all call this module, so that "different" has one meaning and there
is one way to write. A reconciliation always looks at the whole cluster; the event that caused it does not matter. The
module calls ``planner`` and the ``Cluster`` port.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from topiarist import ports
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.model.plan import Issue, Plan, RunOptions, TopicPlan, withhold
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState
from topiarist.planning.builder import find_impossible, find_placed_by_brokers
from topiarist.planning.moves.gate import withhold_unhealthy_moves
from topiarist.planning.moves.topic import add_elections, find_candidates, has_moves, only_moves, without_moves
from topiarist.planning.planner import make_plan
from topiarist.text import format_count


def read_and_plan(
    cluster: ports.PartitionInspector, spec: ClusterSpec, topics: Sequence[TopicSpec], options: RunOptions
) -> Plan:
    """Read a cluster and return its plan; write nothing. Raises the errors of ``read_cluster`` and ``plan_cluster``."""
    return plan_cluster(cluster, read_cluster(cluster, spec.cluster_id), spec, topics, options)


def plan_cluster(
    cluster: ports.PartitionInspector,
    state: ClusterState,
    spec: ClusterSpec,
    topics: Sequence[TopicSpec],
    options: RunOptions,
) -> Plan:
    """Return the plan of a cluster that was read, without what the cluster is known to refuse; write nothing.

    A cluster that shows that it does not carry out replica lists is planned again, without them. Raises ``Incomplete``
    and what ``PartitionInspector`` raises.
    """
    plan = require_all_topics_planned(make_plan(state, spec, topics, options), topics)
    plan = _plan_elections(cluster, refuse_unhealthy_moves(cluster, plan, state), state, topics)
    plan = _withhold_all_topics(plan, find_impossible(state.capabilities, plan.actionable_topics()))
    if not plan.has_changes:
        return plan
    issues, capabilities = cluster.find_refusals(plan)
    if find_placed_by_brokers(spec, capabilities) != find_placed_by_brokers(spec, state.capabilities):
        return plan_cluster(cluster, replace(state, capabilities=capabilities), spec, topics, options)
    return _withhold_all_topics(replace(plan, capabilities=capabilities), issues)


def refuse_unhealthy_moves(cluster: ports.PartitionInspector, plan: Plan, state: ClusterState) -> Plan:
    """Return ``plan`` without moves of topics with a partition that is not healthy; read the states of those alone."""
    moved = [topic.before for topic in plan.actionable_topics() if topic.moves() and topic.before]
    if not moved:
        return plan
    settings = plan.config_rules.merge_dynamic_settings(state.broker_defaults)
    return withhold_unhealthy_moves(plan, cluster.inspect_all(moved), settings)


def _plan_elections(
    cluster: ports.PartitionInspector, plan: Plan, state: ClusterState, topics: Sequence[TopicSpec]
) -> Plan:
    """Return ``plan`` with the elections of preferred leaders; read the partition states of allowed topics alone."""
    candidates = find_candidates(plan, topics, state)
    if not candidates:
        return plan
    return add_elections(plan, topics, candidates, cluster.inspect_all(tuple(candidates.values())))


def withhold_vetoed_changes(cluster: ports.BrokerValidator, plan: Plan) -> Plan:
    """Return ``plan`` without the changes that the brokers refuse, each with their refusal; write nothing.

    Raises the errors of ``BrokerValidator.ask_brokers``.
    """
    return _withhold_all_topics(plan, cluster.ask_brokers(plan) if plan.has_changes else {})


def _withhold_all_topics(plan: Plan, vetoes: Mapping[str, Sequence[Issue]]) -> Plan:
    if not vetoes:
        return plan
    return replace(plan, topics=tuple(_withhold_all(topic, vetoes.get(topic.topic, ())) for topic in plan.topics))


def _withhold_all(topic: TopicPlan, vetoes: Sequence[Issue]) -> TopicPlan:
    for veto in vetoes:
        topic = withhold(topic, veto.withheld, veto)
    return topic


def read_cluster(cluster: ports.ReadableCluster, cluster_id: str) -> ClusterState:
    """Return the state of a cluster.

    Raises ``WrongCluster`` if its id is not ``cluster_id``; an empty ``cluster_id`` accepts every cluster.
    """
    state = cluster.read()
    require_cluster_id(cluster_id, state.cluster_id)
    return state


def require_cluster_id(expected: str, actual: str, source: str = "clusterId") -> None:
    """Raise ``WrongCluster`` if a cluster's id is not the expected one.

    An empty ``expected`` accepts every id. ``source`` names the origin of ``expected`` for the message.
    """
    # Two clusters may share addresses (a shared server, a rebuilt host); only the id tells them apart.
    if expected and expected != actual:
        raise TopiaristError(
            Reason.WRONG_CLUSTER,
            f"found cluster id {actual}, wanted {expected} ({source})",
            f"correct the address, or the {source}",
        )


def require_all_topics_planned(plan: Plan, topics: Sequence[TopicSpec]) -> Plan:
    """Return the plan if it covers each topic exactly once.

    A topic is covered if it has changes or refusals, or if it is unchanged. Raises ``Incomplete`` if a topic is missing
    or counts twice.
    """
    planned = [topic.topic for topic in plan.topics if topic.changes or topic.refusals]
    desired = {spec.topic for spec in topics}
    # A topic that a mistake of ours drops would look unchanged; the counts show it before anything is written.
    if len(planned) + plan.unchanged == len(topics) and len(desired.intersection(planned)) == len(planned):
        return plan
    found = format_count(len(planned) + plan.unchanged, "topic")
    raise TopiaristError(
        Reason.INCOMPLETE,
        f"found results for {found}, wanted one for each of {len(topics):,}",
        "this is a defect in topiarist, please report it",
    )


ApplyPlan = Callable[..., ReconcileReport]
"""Applies one plan; called as ``apply_plan`` is."""


def apply_plan(
    cluster: ports.Cluster,
    plan: Plan,
    *,
    stop: Callable[[], bool],
    on_outcome: Callable[[TopicPlan, Outcome], None] = lambda topic, outcome: None,
    control: ports.WriteControl = ports.NO_CONTROL,
    move_options: ports.MoveOptions = ports.NO_MOVE_OPTIONS,
) -> ReconcileReport:
    """Apply ``plan`` and nothing else, and return the report.

    ``stop`` returns whether to end the run. ``on_outcome`` gets the outcome of each topic, also of topics that were not
    sent. ``control`` limits the work in flight at the controller, and holds single topics back. Moves of existing
    replicas and elections of leaders follow all other changes, with ``move_options``; the outcome of a topic is known
    when its last partition is done.

    A topic that changed since it was planned is reported as a conflict, for the next reconciliation. If the run ends
    early, known outcomes are kept and the other topics are ``SKIPPED``, so every topic has an outcome.
    """
    unsent = {topic.topic: topic for topic in plan.actionable_topics()}
    moved = {name for name, topic in unsent.items() if has_moves(topic)}
    outcomes: list[Outcome] = []
    changed: dict[str, Outcome] = {}
    error = None

    def record(outcome: Outcome) -> None:
        outcomes.append(outcome)
        topic = unsent.pop(outcome.topic)
        if control.throttle:
            control.throttle.on_outcome(topic, outcome)
        on_outcome(topic, outcome)

    try:
        # Without topics ``apply`` is not called, so that a missing lock or controller is no error.
        first = without_moves(plan) if moved else plan
        for outcome in cluster.apply(first, stop, control) if first.has_changes else ():
            if outcome.topic in moved and outcome.result in (Result.DONE, Result.UNCHANGED):
                changed[outcome.topic] = outcome
            else:
                moved.discard(outcome.topic)
                record(outcome)
        if moved or (plan.batch and plan.batch.owner == plan.owner and not plan.write_block.reason):
            moves = only_moves(plan, moved)
            for outcome in cluster.move(moves, move_options, stop):
                record(_join_outcomes(changed.get(outcome.topic), outcome))
    except TopiaristError as raised:
        error = raised
        for name in tuple(unsent):
            # Changes that were made before the error are known, also of a topic that has moves left.
            topic, outcome = unsent.pop(name), _join_outcomes(changed.get(name), Outcome(name, Result.SKIPPED))
            outcomes.append(outcome)
            on_outcome(topic, outcome)
    return ReconcileReport(plan, tuple(outcomes), error)


def _join_outcomes(changed: Outcome | None, moved: Outcome) -> Outcome:
    """Return the outcome of a topic from those of its other changes and of its moves."""
    if changed is None or changed.result is not Result.DONE:
        return moved
    if moved.result is Result.UNCHANGED:
        return changed
    if moved.result is Result.SKIPPED:
        cause = f": {moved.message}" if moved.message else ""
        message = f"its other changes were made, and no replica or leader was moved{cause}; run again for that"
        return Outcome(moved.topic, Result.PENDING, Reason.MOVES_UNFINISHED, message)
    return moved
