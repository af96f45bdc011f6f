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

from topiarist.core.change import AddPartitions, CreateTopic, DeleteTopic, Nudge, TopicPlan
from topiarist.core.state import ClusterState, Replicas
from topiarist.core.units import count
from topiarist.errors import Reason

DISABLED = "the mark has gone and the topic is still there: the brokers have delete.topic.enable=false"
"""What it means if the controller threw a mark away."""

_SHOWN = 8


class Sight(NamedTuple):
    """One topic as it is at a moment: its identity (None: no topic), and whether it is marked for deletion.

    ``missing`` are the brokers with a replica of it that are not registered. The mark is no younger than the topic: a
    topic that is there without a mark had none when it was last seen.

    Only where partitions were asked about: ``replicas`` are all that the topic has, by partition, ``taken`` those asked
    about that the controller has taken over; ``stale`` says that our record belongs to an earlier topic of that name,
    ``fault`` why the topic cannot be read, ``led`` whether the cluster has a controller. ``topic_id`` is Kafka's id of
    the topic, None as long as the controller has given it none.
    """

    identity: int | None
    marked: bool
    missing: tuple[int, ...] = ()
    reassigning: bool = False
    replicas: Mapping[int, Replicas] = {}
    taken: frozenset[int] = frozenset()
    stale: bool = False
    fault: str = ""
    led: bool = True
    topic_id: str | None = None


class Stage(NamedTuple):
    """How far the controller is: ``final`` if nothing more is waited for, with a reason if not all is well."""

    final: bool
    reason: Reason | None = None
    message: str = ""


FINISHED = Stage(final=True)


def sight(state: ClusterState, name: str, partitions: Collection[int] = ()) -> Sight:
    """A topic of a cluster that has been read as a whole, and whose controller is never behind."""
    topic, marked, registered = state.topics.get(name), name in state.deleting, {broker.id for broker in state.brokers}
    if topic is None:
        return Sight(None, marked)
    missing = {broker for replicas in topic.replicas for broker in replicas} - registered
    found = Sight(topic.identity, marked, tuple(sorted(missing)), bool(topic.reassigning) or name in state.reassigning)
    if not partitions:
        return found
    replicas = dict(zip(topic.partition_ids, topic.replicas, strict=True))
    return found._replace(
        replicas=replicas,
        taken=frozenset(each for each in partitions if registered.intersection(replicas.get(each, ()))),
        stale=topic.record is not None and not topic.record_valid,
        led=state.controller is not None,
        topic_id=topic.topic_id,
    )


def awaited(plan: TopicPlan) -> bool:
    """Whether there is something to wait for once the plan is done."""
    return not plan.observed and (bool(brings(plan)) or any(isinstance(change, DeleteTopic) for change in plan.changes))


def under_way(plan: TopicPlan) -> bool:
    """Whether there is something to wait for although the plan has nothing to do: a deletion that began before it."""
    return not plan.observed and any(notice.reason is Reason.DELETION_IN_PROGRESS for notice in plan.notices)


def brings(plan: TopicPlan) -> Mapping[int, Replicas]:
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


def stage(plan: TopicPlan, now: Sight, seen: Collection[int] = ()) -> Stage:
    """How far the controller is with what the plan wanted of its topic, once that is written.

    ``seen`` are partitions that earlier looks have shown as taken over. A topic that is no longer what was written is
    final at once: no patience brings it back.
    """
    new = brings(plan)
    if not new:
        return _deletion(plan, now)
    if moved := _moved(plan, new, now):
        return Stage(True, Reason.STATE_CONFLICT, moved)
    left = [number for number in new if number not in now.taken and number not in seen]
    alone = [number for number in left if set(now.replicas[number]) <= set(now.missing)]
    if len(left) > len(alone):
        leaderless = "" if now.led else "; the cluster has no controller"
        waiting = f"{len(left) - len(alone):,} of {count(len(new), 'new partition')}"
        return Stage(False, Reason.NOT_TAKEN_OVER, f"the controller has not taken over {waiting}{leaderless}")
    if not alone:
        return FINISHED
    brokers = sorted({broker for number in alone for broker in now.replicas[number]})
    message = f"{_numbered('partition', alone)}: not waited for, since {_numbered('broker', brokers)}"
    return Stage(True, Reason.NOT_TAKEN_OVER, f"{message} {'is' if len(brokers) == 1 else 'are'} not registered")


def behind(now: Sight, partitions: Collection[int]) -> bool:
    """Whether the controller still has to take over some of these partitions, as far as a broker of theirs is there."""
    left = [number for number in partitions if number in now.replicas and number not in now.taken]
    return any(not set(now.replicas[number]) <= set(now.missing) for number in left)


def waits_for(now: Sight) -> str:
    """What keeps a topic that is marked for deletion, as far as that can be seen."""
    if now.missing:
        verb = "is" if len(now.missing) == 1 else "are"
        return f"{_numbered('broker', now.missing)}, with replicas of it, {verb} not registered"
    if now.reassigning:
        return "its replicas are being reassigned"
    return "the controller is at it"


def _deletion(plan: TopicPlan, now: Sight) -> Stage:
    """How far a deletion is; a topic that others have made again since is another topic."""
    if now.marked:
        return Stage(False, Reason.DELETION_IN_PROGRESS, f"still marked for deletion: {waits_for(now)}")
    if plan.before is None or now.identity != plan.before.identity:
        return FINISHED
    return Stage(True, Reason.DELETION_DISABLED, DISABLED)


def _moved(plan: TopicPlan, new: Mapping[int, Replicas], now: Sight) -> str:
    """Why what was written is no longer there; empty if it is. Other replicas count as there: they may be moved."""
    if now.marked:
        return "it was written, and is marked for deletion now: somebody else wants it gone"
    if now.identity is None:
        return "it was written, and is gone now: somebody else has deleted it"
    stale = now.stale and not any(isinstance(change, Nudge) for change in plan.changes)
    if stale or (plan.before is not None and now.identity != plan.before.identity):
        return "it was written, then deleted and made again by somebody else: it is another topic now"
    if now.fault:
        return f"it was written, and cannot be read now: {now.fault}"
    if lost := [number for number in new if number not in now.replicas]:
        what = f"{_numbered('partition', lost)} {'was' if len(lost) == 1 else 'were'} written, and lost again"
        return f"{what}: somebody else, or a controller that took over meanwhile, wrote an older list; run again"
    return ""


def _numbered(word: str, numbers: Sequence[int]) -> str:
    return f"{word if len(numbers) == 1 else word + 's'} {_listed(numbers)}"


def _listed(numbers: Sequence[int]) -> str:
    more = f", ... {len(numbers) - _SHOWN:,} more" if len(numbers) > _SHOWN else ""
    return ", ".join(map(str, numbers[:_SHOWN])) + more
