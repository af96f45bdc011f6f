"""What Kafka's controller still has to do once our writes are done, as far as that can be seen from outside.

A deletion is a mark: we set it, the controller carries it out, in milliseconds or, while a replica's broker is away, in
days. A new partition is a line in its topic's znode until the controller gives it a state: then it has taken the
partition over, which does not say that a broker hosts it yet. A partition none of whose brokers is registered gets no
state, so nobody waits for it. An adapter gives ``Sight``s, ``stage`` says what each means for the plan of its topic;
whoever waits does so until all stages are final. ``backlog`` keeps the account of many topics.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from topiarist.errors import Reason
from topiarist.kafka.types import Replicas
from topiarist.model.plan import AddPartitions, CreateTopic, DeleteTopic, Nudge, TopicPlan
from topiarist.model.state import ClusterState
from topiarist.text import format_count

DELETION_DISABLED_MESSAGE = "the mark has gone and the topic is still there: the brokers have delete.topic.enable=false"
"""What it means if the controller threw a mark away."""

_MAX_SHOWN = 8


class TopicProgress(NamedTuple):
    """One topic as it is at a moment: its identity (None: no topic), and whether it is marked for deletion.

    ``missing`` are the brokers with a replica of it that are not registered. The mark is no younger than the topic: a
    topic that is there without a mark had none when it was last seen.

    Only where partitions were asked about: ``replicas`` are all that the topic has, by partition, ``taken`` those asked
    about that the controller has taken over; ``stale`` says that our record belongs to an earlier topic of that name,
    ``fault`` why the topic cannot be read, ``led`` whether the cluster has a controller. ``topic_id`` is Kafka's id of
    the topic, None as long as the controller has given it none.
    """

    identity: int | None
    marked_for_deletion: bool
    missing_brokers: tuple[int, ...] = ()
    reassigning: bool = False
    replicas: Mapping[int, Replicas] = {}
    initialized: frozenset[int] = frozenset()
    record_stale: bool = False
    read_error: str = ""
    has_controller: bool = True
    topic_id: str | None = None


class ProgressState(NamedTuple):
    """How far the controller is: ``final`` if nothing more is waited for, with a reason if not all is well."""

    final: bool
    reason: Reason | None = None
    message: str = ""


FINISHED = ProgressState(final=True)


def build_topic_progress(state: ClusterState, name: str, partitions: Collection[int] = ()) -> TopicProgress:
    """A topic of a cluster that has been read as a whole, and whose controller is never behind."""
    topic, marked, registered = (
        state.topics.get(name),
        name in state.pending_deletions,
        {broker.id for broker in state.brokers},
    )
    if topic is None:
        return TopicProgress(None, marked)
    missing = {broker for replicas in topic.replicas for broker in replicas} - registered
    found = TopicProgress(
        topic.identity,
        marked,
        tuple(sorted(missing)),
        bool(topic.reassigning_partitions) or name in state.reassigning_topics,
    )
    if not partitions:
        return found
    replicas = dict(zip(topic.partition_ids, topic.replicas, strict=True))
    return found._replace(
        replicas=replicas,
        initialized=frozenset(each for each in partitions if registered.intersection(replicas.get(each, ()))),
        record_stale=topic.record is not None and not topic.record_valid,
        has_controller=state.controller is not None,
        topic_id=topic.topic_id,
    )


def needs_controller(plan: TopicPlan) -> bool:
    """Whether there is something to wait for once the plan is done."""
    return not plan.observe_only and (
        bool(partitions_to_initialize(plan)) or any(isinstance(change, DeleteTopic) for change in plan.changes)
    )


def is_deletion_pending(plan: TopicPlan) -> bool:
    """Whether there is something to wait for although the plan has nothing to do: a deletion that began before it."""
    return not plan.observe_only and any(notice.reason is Reason.DELETION_IN_PROGRESS for notice in plan.notices)


def partitions_to_initialize(plan: TopicPlan) -> Mapping[int, Replicas]:
    """The partitions, by number, that the controller has to take over once the plan is done."""
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
    """How far the controller is with what the plan wanted of its topic, once that is written.

    ``initialized_before`` are partitions that earlier looks have shown as taken over. A topic that is no longer what
    was written is final at once: no patience brings it back.
    """
    new = partitions_to_initialize(plan)
    if not new:
        return _evaluate_deletion(plan, progress)
    if moved := _find_conflict(plan, new, progress):
        return ProgressState(True, Reason.STATE_CONFLICT, moved)
    left = [number for number in new if number not in progress.initialized and number not in initialized_before]
    alone = [number for number in left if set(progress.replicas[number]) <= set(progress.missing_brokers)]
    if len(left) > len(alone):
        leaderless = "" if progress.has_controller else "; the cluster has no controller"
        waiting = f"{len(left) - len(alone):,} of {format_count(len(new), 'new partition')}"
        return ProgressState(False, Reason.NOT_INITIALIZED, f"the controller has not taken over {waiting}{leaderless}")
    if not alone:
        return FINISHED
    brokers = sorted({broker for number in alone for broker in progress.replicas[number]})
    message = f"{_format_numbered('partition', alone)}: not waited for, since {_format_numbered('broker', brokers)}"
    return ProgressState(
        True, Reason.NOT_INITIALIZED, f"{message} {'is' if len(brokers) == 1 else 'are'} not registered"
    )


def has_uninitialized(progress: TopicProgress, partitions: Collection[int]) -> bool:
    """Whether the controller still has to take over some of these partitions, as far as a broker of theirs is there."""
    left = [number for number in partitions if number in progress.replicas and number not in progress.initialized]
    return any(not set(progress.replicas[number]) <= set(progress.missing_brokers) for number in left)


def blocking_reason(progress: TopicProgress) -> str:
    """What keeps a topic that is marked for deletion, as far as that can be seen."""
    if progress.missing_brokers:
        verb = "is" if len(progress.missing_brokers) == 1 else "are"
        return f"{_format_numbered('broker', progress.missing_brokers)}, with replicas of it, {verb} not registered"
    if progress.reassigning:
        return "its replicas are being reassigned"
    return "the controller is at it"


def _evaluate_deletion(plan: TopicPlan, progress: TopicProgress) -> ProgressState:
    """How far a deletion is; a topic that others have made again since is another topic."""
    if progress.marked_for_deletion:
        return ProgressState(
            False, Reason.DELETION_IN_PROGRESS, f"still marked for deletion: {blocking_reason(progress)}"
        )
    if plan.before is None or progress.identity != plan.before.identity:
        return FINISHED
    return ProgressState(True, Reason.DELETION_DISABLED, DELETION_DISABLED_MESSAGE)


def _find_conflict(plan: TopicPlan, new: Mapping[int, Replicas], progress: TopicProgress) -> str:
    """Why what was written is no longer there; empty if it is. Other replicas count as there: they may be moved."""
    if progress.marked_for_deletion:
        return "it was written, and is marked for deletion now: somebody else wants it gone"
    if progress.identity is None:
        return "it was written, and is gone now: somebody else has deleted it"
    stale = progress.record_stale and not any(isinstance(change, Nudge) for change in plan.changes)
    if stale or (plan.before is not None and progress.identity != plan.before.identity):
        return "it was written, then deleted and made again by somebody else: it is another topic now"
    if progress.read_error:
        return f"it was written, and cannot be read now: {progress.read_error}"
    if lost := [number for number in new if number not in progress.replicas]:
        what = f"{_format_numbered('partition', lost)} {'was' if len(lost) == 1 else 'were'} written, and lost again"
        return f"{what}: somebody else, or a controller that took over meanwhile, wrote an older list; run again"
    return ""


def _format_numbered(word: str, numbers: Sequence[int]) -> str:
    return f"{word if len(numbers) == 1 else word + 's'} {_shorten_list(numbers)}"


def _shorten_list(numbers: Sequence[int]) -> str:
    more = f", ... {len(numbers) - _MAX_SHOWN:,} more" if len(numbers) > _MAX_SHOWN else ""
    return ", ".join(map(str, numbers[:_MAX_SHOWN])) + more
