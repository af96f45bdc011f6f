"""``apply --wait``: hold back while the controllers are behind, then look until they have finished, or time is up.

``throttle`` says how much may be ahead and what each look means; here are the clock, the sleeping, and what a
person is told. While a cluster is written to, its ``Watch`` is the ``Pace`` of that run, under its lock; afterwards
nothing is written and no lock is held. Time is up when nothing has moved on for ``--wait-timeout`` seconds: that does
not depend on how much there is to do. Ctrl-C ends the waiting, not the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from topiarist.cli import terminal
from topiarist.cli.settings import Settings
from topiarist.model.outcome import Outcome, ReconcileReport
from topiarist.model.plan import TopicPlan
from topiarist.ports import ProgressSource
from topiarist.text import format_count
from topiarist.throttle import ControllerWait, ProgressDeadline


def make_controller_wait(
    cluster: ProgressSource,
    settings: Settings,
    stop: Callable[[], bool],
    on_outcome: Callable[[TopicPlan, Outcome], None],
) -> ControllerWait:
    """Return the pace of one cluster's run, which the run's settings bound; says once that it is held back."""

    def held() -> None:
        if settings.verbosity >= 0:
            most = format_count(settings.wait_ahead, "replica")
            terminal.log_over_progress(
                f"held back until the controller has taken over what was sent: {most} per broker at a time"
            )

    return ControllerWait(
        cluster,
        stop,
        max_replicas=settings.wait_ahead,
        timeout=settings.wait_timeout,
        on_update=on_outcome,
        on_throttled=held,
    )


def wait_for_controllers(
    controller_waits: Mapping[str, ControllerWait],
    reports: Sequence[ReconcileReport],
    settings: Settings,
    stop: Callable[[], bool],
) -> list[ReconcileReport]:
    """The reports of a run, once all that its controllers have to do is done, or nothing moves any more."""
    found = [controller_waits[report.plan.cluster] for report in reports]
    for watch, report in zip(found, reports, strict=True):
        watch.add_report(report)
    left = [brought for watch in found for brought in watch.remaining.values()]
    if left and settings.verbosity >= 0:
        terminal.log(
            f"waiting for the controller to {_describe_work(left)}, "
            f"at most {settings.wait_timeout:g} s without progress"
        )
    patience = ProgressDeadline(settings.wait_timeout, stop)
    with terminal.ProgressBar(len(left), settings) as progress:
        while not stop():
            since = time.monotonic()
            looks = [watch.poll() for watch in found]
            patience.record_poll(progress=any(seen.progress for seen in looks), since=since)
            for _ in chain.from_iterable(seen.finished for seen in looks):
                progress.step()
            if not any(watch.remaining for watch in found) or patience.is_expired:
                break
            patience.wait()
    stopped = stop()
    if stopped and (more := sum(len(watch.remaining) for watch in found)):
        terminal.log(f"no longer waiting for {format_count(more, 'topic')}: the controller goes on by itself")
    elif (words := _describe_finished(found)) and settings.verbosity >= 0:
        terminal.log(words)
    return [watch.update_report(report, stopped=stopped) for watch, report in zip(found, reports, strict=True)]


def _describe_work(growth_flags: Sequence[bool]) -> str:
    """What a controller has to do: ``take over 2 topics and delete 1 topic``; for each topic, whether it is grown."""
    grown = sum(growth_flags)
    words = (("take over", grown), ("delete", len(growth_flags) - grown))
    return " and ".join(f"{verb} {format_count(number, 'topic')}" for verb, number in words if number)


def _describe_finished(controller_waits: Sequence[ControllerWait]) -> str:
    """``2 topics taken over by the controller, 1 topic gone``; empty if there is none."""
    words = ((True, "taken over by the controller"), (False, "gone"))
    numbers = [(sum(watch.count_finished(grown=grown) for watch in controller_waits), verb) for grown, verb in words]
    return ", ".join(f"{format_count(number, 'topic')} {verb}" for number, verb in numbers if number)
