"""Applies the plans of a run to its clusters, one after the other, and reports to a listener.

``cli.apply.execute`` and ``api`` call it with the plans of a mode (``modes``) or of a command. With
``settings.wait``, each cluster gets a throttle that the caller hands to ``wait.wait_for_controllers`` afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from topiarist.model.outcome import ReconcileReport
from topiarist.model.plan import Plan
from topiarist.ports import MoveOptions, WriteControl
from topiarist.reconcile import ApplyPlan, apply_plan
from topiarist.runs.listener import RunListener
from topiarist.runs.sessions import ClusterSessions
from topiarist.runs.settings import RunSettings
from topiarist.runs.wait import make_controller_wait
from topiarist.throttle import ControllerWait


class Applied(NamedTuple):
    """The reports of the plans, in their order, and the waits of the clusters by name; none without ``wait``."""

    reports: list[ReconcileReport]
    waits: dict[str, ControllerWait]


def moves_replicas(plan: Plan) -> bool:
    """Return whether applying the plan may wait for replicas that are copied."""
    return plan.batch is not None or any(topic.moves() for topic in plan.actionable_topics())


def apply_plans(
    sessions: ClusterSessions,
    plans: Sequence[Plan],
    settings: RunSettings,
    listener: RunListener,
    stop: Callable[[], bool],
    *,
    apply_one: ApplyPlan = apply_plan,
) -> Applied:
    """Apply each plan to the open session of its cluster; ``stop`` returns whether to send nothing more."""
    waits: dict[str, ControllerWait] = {}

    def apply_to_cluster(plan: Plan) -> ReconcileReport:
        cluster, on_outcome = sessions.clusters[plan.cluster], partial(listener.on_outcome, plan)
        if settings.wait:
            waits[plan.cluster] = make_controller_wait(
                cluster, settings, stop, partial(listener.on_late_outcome, plan), listener
            )
        report = apply_one(
            cluster,
            plan,
            stop=stop,
            on_outcome=on_outcome,
            control=WriteControl(waits.get(plan.cluster), sessions.guard_of(plan.cluster)),
            move_options=MoveOptions(
                sessions.specs[plan.cluster].moves,
                not settings.no_wait,
                on_progress=partial(listener.on_move_progress, plan),
            ),
        )
        listener.on_cluster_finished(plan)
        return report

    # Moves may take hours, so the clusters without moves are written first.
    by_cluster = {plan.cluster: apply_to_cluster(plan) for plan in sorted(plans, key=moves_replicas)}
    return Applied([by_cluster[plan.cluster] for plan in plans], waits)
