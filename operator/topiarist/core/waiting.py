"""What Kafka's controller still has to do once our writes are done, as far as that can be seen from outside.

A deletion is a mark: we set it, the controller carries it out, in milliseconds or, while a replica's broker is away, in
days. An adapter gives ``Sight``s, ``stage`` says what each means for the plan of its topic; whoever waits does so until
all stages are final.
"""

from __future__ import annotations

from typing import NamedTuple

from topiarist.core.change import DeleteTopic, TopicPlan
from topiarist.core.state import ClusterState
from topiarist.errors import Reason

DISABLED = "the mark has gone and the topic is still there: the brokers have delete.topic.enable=false"
"""What it means if the controller threw a mark away."""


class Sight(NamedTuple):
    """One topic as it is at a moment: its identity (None: no topic), and whether it is marked for deletion.

    ``missing`` are the brokers with a replica of it that are not registered. The mark is no younger than the topic: a
    topic that is there without a mark had none when it was last seen.
    """

    identity: int | None
    marked: bool
    missing: tuple[int, ...] = ()
    reassigning: bool = False


class Stage(NamedTuple):
    """How far the controller is: ``final`` if it will do nothing more, with a reason if not all is well."""

    final: bool
    reason: Reason | None = None
    message: str = ""


FINISHED = Stage(final=True)


def sight(state: ClusterState, name: str) -> Sight:
    """A topic of a cluster that has been read as a whole."""
    topic, marked = state.topics.get(name), name in state.deleting
    if topic is None:
        return Sight(None, marked)
    missing = {broker for replicas in topic.replicas for broker in replicas} - {broker.id for broker in state.brokers}
    return Sight(topic.identity, marked, tuple(sorted(missing)), bool(topic.reassigning) or name in state.reassigning)


def awaited(plan: TopicPlan) -> bool:
    """Whether there is something to wait for: a deletion that the plan asks for, or one that was under way before."""
    under_way = any(notice.reason is Reason.DELETION_IN_PROGRESS for notice in plan.notices)
    return not plan.observed and (under_way or any(isinstance(change, DeleteTopic) for change in plan.changes))


def stage(plan: TopicPlan, now: Sight) -> Stage:
    """How far the deletion of the topic of ``plan`` is; one that others have made again since is another topic."""
    if now.marked:
        return Stage(False, Reason.DELETION_IN_PROGRESS, f"still marked for deletion: {waits_for(now)}")
    if plan.before is None or now.identity != plan.before.identity:
        return FINISHED
    return Stage(True, Reason.DELETION_DISABLED, DISABLED)


def waits_for(now: Sight) -> str:
    """What keeps a topic that is marked for deletion, as far as that can be seen."""
    if now.missing:
        one = len(now.missing) == 1
        ids = ", ".join(map(str, now.missing))
        return f"{'broker' if one else 'brokers'} {ids}, with replicas of it, {'is' if one else 'are'} not registered"
    if now.reassigning:
        return "its replicas are being reassigned"
    return "the controller is at it"
