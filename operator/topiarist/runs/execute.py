"""Applies the plans of a run to its clusters, one after the other, and waits for their controllers.

``cli.execute`` and ``api`` call it with the plans of a mode (``modes``) or of a command. With ``settings.wait``, each
cluster gets a throttle that the caller hands to ``wait_for_controllers`` afterwards. A listener gets the outcomes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain
from typing import NamedTuple

from topiarist.model.outcome import Outcome, ReconcileReport
from topiarist.model.plan import Plan, TopicPlan
from topiarist.ports import MoveOptions, ProgressSource, WriteControl
from topiarist.reconcile import ApplyPlan, apply_plan
from topiarist.runs.sessions import ClusterSessions
from topiarist.runs.settings import SILENT, RunListener, RunSettings
from topiarist.text import format_count
from topiarist.throttle import ControllerWait, ProgressDeadline

# The wait of ``apply --wait``: throttle writes, then poll until the controllers are done.
#
# ``throttle`` defines how many replicas may be in flight and how to interpret each poll; this module has the clock, the
# sleeping and the messages. While a cluster is written to, its ``ControllerWait`` is the throttle
# of that run, under the run's lock. Afterwards nothing is written and no lock is held. The wait fails after
# ``--wait-timeout`` seconds without progress, however much is left to do. Ctrl-C ends the waiting, not the controller's
# work.

ShowProgress = Callable[[int], AbstractContextManager[Callable[[], None]]]
"""A function that shows how many topics are done, of a number that it gets."""


@contextmanager
def _show_nothing(_total: int) -> Iterator[Callable[[], None]]:
    yield lambda: None


def make_controller_wait(
    cluster: ProgressSource,
    settings: RunSettings,
    stop: Callable[[], bool],
    on_outcome: Callable[[TopicPlan, Outcome], None],
    listener: RunListener = SILENT,
) -> ControllerWait:
    """Return the throttle of one cluster's run, limited by the settings.

    ``listener`` gets a message once when the throttle holds the run back.
    """

    def held() -> None:
        most = format_count(settings.max_inflight_replicas, "replica")
        listener.on_pause(
            f"throttled: the controller has to initialize earlier partitions first, {most} per broker at a time"
        )

    return ControllerWait(
        cluster,
        stop,
        max_replicas=settings.max_inflight_replicas,
        timeout=settings.wait_timeout,
        on_update=on_outcome,
        on_throttled=held,
    )


def wait_for_controllers(
    controller_waits: Mapping[str, ControllerWait],
    reports: Sequence[ReconcileReport],
    settings: RunSettings,
    stop: Callable[[], bool],
    listener: RunListener = SILENT,
    show_progress: ShowProgress = _show_nothing,
) -> list[ReconcileReport]:
    """Wait for the controllers and return the updated reports of the run.

    ``show_progress`` gets the number of topics that are waited for, and gives a function that is called for each one.
    Returns when the controllers are done, when there is no progress for ``wait_timeout`` seconds, or when ``stop``
    returns True.
    """
    waits = [controller_waits[report.plan.cluster] for report in reports]
    for watch, report in zip(waits, reports, strict=True):
        watch.add_report(report)
    pending = [is_growth for watch in waits for is_growth in watch.remaining.values()]
    if pending:
        counts = (("initialize", sum(pending)), ("delete", len(pending) - sum(pending)))
        work = " and ".join(f"{verb} {format_count(count, 'topic')}" for verb, count in counts if count)
        listener.on_message(
            f"waiting for the controller to {work}, at most {settings.wait_timeout:g} s without progress"
        )
    deadline = ProgressDeadline(settings.wait_timeout, stop)
    with show_progress(len(pending)) as step:
        while not stop():
            since = time.monotonic()
            polls = [watch.poll() for watch in waits]
            deadline.record_poll(progress=any(result.progress for result in polls), since=since)
            for _ in chain.from_iterable(result.finished for result in polls):
                step()
            if not any(watch.remaining for watch in waits) or deadline.is_expired:
                break
            deadline.wait()
    stopped = stop()
    if stopped and (remaining_count := sum(len(watch.remaining) for watch in waits)):
        text = f"no longer waiting for {format_count(remaining_count, 'topic')}: the controller continues"
        listener.on_message(text, important=True)
    else:
        finished = ((True, "initialized by the controller"), (False, "deleted"))
        counted = [(sum(watch.count_finished(grown=grown) for watch in waits), verb) for grown, verb in finished]
        if text := ", ".join(f"{format_count(count, 'topic')} {verb}" for count, verb in counted if count):
            listener.on_message(text)
    return [watch.update_report(report, stopped=stopped) for watch, report in zip(waits, reports, strict=True)]


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
