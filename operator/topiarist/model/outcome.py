"""The outcome of a run: its results with their exit codes, and the progress of the controller.

``reconcile.py`` and the adapters build them; ``output``, the command line and the operator's status report them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.kafka.types import Replicas
from topiarist.model.plan import AddPartitions, CreateTopic, DeleteTopic, Nudge, Plan, TopicPlan
from topiarist.model.state import ClusterState, Freeze
from topiarist.text import format_count


class Result(str, Enum):
    """The result for one topic of a plan.

    After ``CONFLICT`` nothing was written. After ``DIFFERS`` something was, and the topic is not as the plan wants it.
    """

    DONE = "done"
    UNCHANGED = "unchanged"
    CONFLICT = "conflict"
    DIFFERS = "differs"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"
    PENDING = "pending"
    SKIPPED = "skipped"


_EXIT_CODES = {
    Result.DONE: Exit.DONE,
    Result.UNCHANGED: Exit.DONE,
    Result.SKIPPED: Exit.DONE,  # the error that prevented the write has its own exit code
    Result.CONFLICT: Exit.CONFLICT,
    Result.DIFFERS: Exit.CONFLICT,
    Result.REFUSED: Exit.REFUSED,
    Result.FAILED: Exit.ERROR,
    Result.UNKNOWN: Exit.ERROR,
    Result.PENDING: Exit.ERROR,
}


def worst_exit_code(codes: Collection[Exit]) -> Exit:
    """Return the exit code of a run: ``ERROR`` if any code is, else the highest; ``DONE`` if there are none."""
    return Exit.ERROR if Exit.ERROR in codes else max(codes, default=Exit.DONE)


class Outcome(NamedTuple):
    """The outcome for one topic; ``message`` explains the result (empty if there is no problem).

    ``topic_id`` is Kafka's id of the topic if the run waited for it: the controller assigns it after a creation.
    """

    topic: str
    result: Result
    reason: Reason | None = None
    message: str = ""
    topic_id: str | None = None


class FreezeResult(Struct, frozen=True):
    """The result of a freeze or unfreeze: done, unchanged, or refused because ``before`` is another user's freeze.

    ``before`` is None if the cluster was not frozen, or if the freeze could not be read.
    """

    result: Result
    before: Freeze | None


class ReconcileReport(Struct, frozen=True):
    """A filtered plan, one outcome for each actionable topic, and the error that ended the reconciliation early."""

    plan: Plan
    outcomes: tuple[Outcome, ...] = ()
    error: TopiaristError | None = None

    def outcomes_with(self, result: Result) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.result is result)

    @property
    def exit_code(self) -> Exit:
        """Return the exit code: failures first, then conflicts, then refusals; ``error`` counts as one of them."""
        codes = {
            refusal.reason.exit_code
            for topic in self.plan.topics
            if not topic.observe_only
            for refusal in topic.refusals
        }
        codes |= {_EXIT_CODES[outcome.result] for outcome in self.outcomes}
        if self.error:
            codes.add(self.error.reason.exit_code)
        return worst_exit_code(codes)


# Progress of Kafka's controller after topiarist has written a plan, as far as the cluster shows it.
#
# In ZooKeeper mode a deletion is a request: topiarist writes it, and the controller executes it in milliseconds, or in
# days while the broker of a replica is offline. A new partition is an entry of its topic until the controller
# initializes the partition, i.e. elects its first leader; that does not mean that a broker hosts the partition yet. A
# partition without a registered broker gets no leader, so topiarist does not wait for it. In KRaft mode a deleted topic
# is absent at once, and a new partition has a leader from the beginning.
#
# An adapter builds a ``TopicProgress`` for each topic and ``evaluate_progress`` compares it with the topic's plan. A
# run that waits polls until all topics are final; ``InFlightLimit`` in ``throttle.py`` tracks many topics.

DELETION_DISABLED_MESSAGE = (
    "the cluster kept the topic although its deletion was requested: the brokers have delete.topic.enable=false"
)

_MAX_SHOWN = 8


class TopicProgress(NamedTuple):
    """The state of one topic at one moment.

    ``identity`` is None if the topic does not exist; ``marked_for_deletion`` is true if there is a deletion request.
    The request is read no later than the topic: a topic that exists without a request had none when it was last read.
    ``missing_brokers`` hold a replica of the topic and are not registered.

    The remaining fields are set only if partitions were requested. ``replicas`` are all replica lists of the topic, by
    partition, and ``initialized`` are the requested partitions that the controller has initialized. ``record_stale`` is
    true if the ownership record belongs to an earlier topic of that name. ``read_error`` is the reason why the topic
    cannot be read. ``has_controller`` is false if the cluster has no controller. ``topic_id`` is Kafka's id of the
    topic, None until the controller assigns one.
    """

    identity: str | None
    marked_for_deletion: bool
    missing_brokers: tuple[int, ...] = ()
    reassigning: bool = False
    replicas: Mapping[int, Replicas] = {}
    initialized: frozenset[int] = frozenset()
    record_stale: bool = False
    read_error: str = ""
    has_controller: bool = True
    topic_id: str | None = None


class ProgressState(Struct, frozen=True):
    """The progress of the controller with one topic: a reason and message for pending work or a problem.

    ``final`` is true if there is nothing more to wait for.
    """

    final: bool
    reason: Reason | None = None
    message: str = ""


FINISHED = ProgressState(final=True)


def build_topic_progress(state: ClusterState, name: str) -> TopicProgress:
    """Build the progress of a topic, as far as a full ``ClusterState`` shows it."""
    topic, marked = state.topics.get(name), name in state.pending_deletions
    if topic is None:
        return TopicProgress(None, marked)
    registered = {broker.id for broker in state.brokers}
    missing = {broker for replicas in topic.replicas for broker in replicas} - registered
    reassigning = bool(topic.reassigning_partitions) or name in state.reassigning_topics
    return TopicProgress(topic.identity, marked, tuple(sorted(missing)), reassigning)


def needs_controller(plan: TopicPlan) -> bool:
    """Return whether the controller has work to do after the plan is applied."""
    return not plan.observe_only and (
        bool(partitions_to_initialize(plan)) or any(isinstance(change, DeleteTopic) for change in plan.changes)
    )


def is_deletion_pending(plan: TopicPlan) -> bool:
    """Return whether a deletion that began before the plan is still in progress."""
    return not plan.observe_only and any(notice.reason is Reason.DELETION_IN_PROGRESS for notice in plan.notices)


def partitions_to_initialize(plan: TopicPlan) -> Mapping[int, Replicas]:
    """Return the replica lists, by partition, that the controller must initialize after the plan is applied."""
    for change in plan.changes:
        if isinstance(change, CreateTopic):
            return dict(enumerate(change.replicas))
        if isinstance(change, AddPartitions):
            return dict(enumerate(change.replicas, change.before))
        if isinstance(change, Nudge) and plan.before:
            lists = dict(zip(plan.before.partition_ids, plan.before.replicas, strict=True))
            return {partition: lists[partition] for partition in change.partitions}
    return {}


def evaluate_progress(
    plan: TopicPlan, progress: TopicProgress, initialized_before: Collection[int] = ()
) -> ProgressState:
    """Return the controller's progress with a plan that is written.

    ``initialized_before`` are partitions that earlier polls found initialized. A topic that was changed after the write
    is final at once, since waiting cannot restore it. Partitions without a registered broker are not waited for.
    """
    new = partitions_to_initialize(plan)
    if not new:
        return _evaluate_deletion(plan, progress)
    if conflict := _find_conflict(plan, new, progress):
        return ProgressState(True, Reason.STATE_CONFLICT, conflict)
    left = [number for number in new if number not in progress.initialized and number not in initialized_before]
    alone = [number for number in left if set(progress.replicas[number]) <= set(progress.missing_brokers)]
    if len(left) > len(alone):
        leaderless = "" if progress.has_controller else "; the cluster has no controller"
        waiting = f"{len(left) - len(alone):,} of {format_count(len(new), 'new partition')}"
        return ProgressState(False, Reason.NOT_INITIALIZED, f"the controller has not initialized {waiting}{leaderless}")
    if not alone:
        return FINISHED
    brokers = sorted({broker for number in alone for broker in progress.replicas[number]})
    message = f"{_format_numbered('partition', alone)}: not waited for, since {_format_numbered('broker', brokers)}"
    return ProgressState(
        True, Reason.NOT_INITIALIZED, f"{message} {'is' if len(brokers) == 1 else 'are'} not registered"
    )


def has_uninitialized(progress: TopicProgress, partitions: Collection[int]) -> bool:
    """Return whether the controller must still initialize one of these partitions that has a registered broker."""
    left = [number for number in partitions if number in progress.replicas and number not in progress.initialized]
    return any(not set(progress.replicas[number]) <= set(progress.missing_brokers) for number in left)


def blocking_reason(progress: TopicProgress) -> str:
    """Return the visible reason why a topic with a deletion request still exists."""
    if progress.missing_brokers:
        verb = "is" if len(progress.missing_brokers) == 1 else "are"
        return f"{_format_numbered('broker', progress.missing_brokers)}, with replicas of it, {verb} not registered"
    if progress.reassigning:
        return "its replicas are being reassigned"
    return "the deletion is in progress"


def _evaluate_deletion(plan: TopicPlan, progress: TopicProgress) -> ProgressState:
    if progress.marked_for_deletion:
        return ProgressState(
            False, Reason.DELETION_IN_PROGRESS, f"still marked for deletion: {blocking_reason(progress)}"
        )
    # A topic that another client recreated since then is a different topic.
    if plan.before is None or progress.identity != plan.before.identity:
        return FINISHED
    return ProgressState(True, Reason.DELETION_DISABLED, DELETION_DISABLED_MESSAGE)


def _find_conflict(plan: TopicPlan, new: Mapping[int, Replicas], progress: TopicProgress) -> str:
    """Return why the written topic or its partitions no longer exist; empty if they exist.

    Changed replica lists are no conflict, since a reassignment may change them.
    """
    if progress.marked_for_deletion:
        return "it was written, and is marked for deletion now: another client requested the deletion"
    if progress.identity is None:
        return "it was written, and does not exist now: another client deleted it"
    stale = progress.record_stale and not any(isinstance(change, Nudge) for change in plan.changes)
    if stale or (plan.before is not None and progress.identity != plan.before.identity):
        return "it was written, then another client deleted and recreated it: it is a different topic now"
    if progress.read_error:
        return f"it was written, and cannot be read now: {progress.read_error}"
    if lost := [number for number in new if number not in progress.replicas]:
        what = f"{_format_numbered('partition', lost)} {'was' if len(lost) == 1 else 'were'} written, and then lost"
        return f"{what}: another client, or a newly elected controller, wrote an older list; run again"
    return ""


def _format_numbered(word: str, numbers: Sequence[int]) -> str:
    more = f", ... {len(numbers) - _MAX_SHOWN:,} more" if len(numbers) > _MAX_SHOWN else ""
    shown = ", ".join(map(str, numbers[:_MAX_SHOWN]))
    return f"{word if len(numbers) == 1 else word + 's'} {shown}{more}"
