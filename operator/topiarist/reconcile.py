"""One pass over one cluster: read it, plan, let somebody decide, apply, report. The port that an adapter has to fill.

The command line, the operator and the drift job all go through here, so there is one meaning of "different" and one way
to write. Level, not edge: a pass looks at everything; whatever caused it is only a reason to look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.model.plan import Plan, TopicPlan
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState
from topiarist.planning.planner import make_plan
from topiarist.ports import Cluster, Throttle


@dataclass(frozen=True, slots=True)
class ApplyHooks:
    """What a run under way asks and tells. ``stop`` says whether to end it.

    ``tell`` hears of each outcome as the cluster gives it, ``settled`` of the outcome of each topic, with the topic's
    plan, also of topics that were not sent. ``pace`` holds back what has to be digested.
    """

    stop: Callable[[], bool] = field(default=lambda: False)
    on_outcome: Callable[[Outcome], None] = field(default=lambda outcome: None)
    on_final_outcome: Callable[[TopicPlan, Outcome], None] = field(default=lambda topic, outcome: None)
    throttle: Throttle | None = None


def read_and_plan(cluster: Cluster, spec: ClusterSpec, topics: Sequence[TopicSpec], options: RunOptions) -> Plan:
    """Read a cluster and plan; writes nothing. Raises what ``read`` and ``complete`` raise."""
    return require_all_topics_planned(make_plan(read_cluster(cluster, spec.cluster_id), spec, topics, options), topics)


def read_cluster(cluster: Cluster, cluster_id: str, source: str = "clusterId") -> ClusterState:
    """What a cluster holds. Raises ``WrongCluster`` if its id is not the one that ``source`` gives, if any."""
    state = cluster.read()
    require_cluster_id(cluster_id, state.cluster_id, source)
    return state


def require_cluster_id(expected: str, actual: str, source: str = "clusterId") -> None:
    """Raise ``WrongCluster`` if a cluster's id is not the one that ``source`` gives, if any."""
    if expected and expected != actual:
        raise TopiaristError(
            Reason.WRONG_CLUSTER,
            f"found cluster id {actual}, wanted {expected} ({source})",
            f"go to the cluster that is meant, or mend the {source} if this is the one",
        )


def require_all_topics_planned(plan: Plan, topics: Sequence[TopicSpec]) -> Plan:
    """The plan, if it settles each of the topics that it was made for: something to do, a refusal, or nothing to do.

    Raises ``Incomplete`` if one has been lost, or counts twice.
    """
    settled = [topic.topic for topic in plan.topics if topic.changes or topic.refusals]
    known = {spec.topic for spec in topics}
    if len(settled) + plan.unchanged == len(topics) and len(known.intersection(settled)) == len(settled):
        return plan
    raise TopiaristError(
        Reason.INCOMPLETE,
        f"found results for {len(settled) + plan.unchanged:,} topics, wanted one for each of {len(topics):,}",
        "this is a mistake in topiarist: please report it",
    )


def apply_plan(cluster: Cluster, hooks: ApplyHooks, plan: Plan) -> ReconcileReport:
    """Apply ``plan`` and nothing else: a topic that is not as it was planned from is reported, for the next pass.

    Outcomes known so far are kept if the run ends before its time; every topic has one in any case.
    """
    outcomes: list[Outcome] = []
    topics = {topic.topic: topic for topic in plan.actionable_topics()}
    error = None
    try:
        for outcome in cluster.apply(plan, hooks.stop, hooks.throttle) if topics else ():
            outcomes.append(outcome)
            hooks.on_outcome(outcome)
            if hooks.throttle:
                hooks.throttle.on_outcome(topics[outcome.topic], outcome)
            hooks.on_final_outcome(topics[outcome.topic], outcome)
    except TopiaristError as raised:
        error = raised
        known = {outcome.topic for outcome in outcomes}
        for unsent in [Outcome(name, Result.SKIPPED) for name in topics if name not in known]:
            outcomes.append(unsent)
            hooks.on_final_outcome(topics[unsent.topic], unsent)
    return ReconcileReport(plan, tuple(outcomes), error)
