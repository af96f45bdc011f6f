"""Nudging topics that the controller has overlooked: the plan that sets their nodes again, as they are.

The controller reads the nodes of all new topics at once, and loses all of them where one cannot be decoded. It knows
their names from then on and watches their nodes: a set of the same data makes it take the partitions over that have no
state. No record, config or assignment changes, so anybody's topic may be nudged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from topiarist.core.change import Change, Finding, Nudge, Plan, TopicPlan
from topiarist.core.inspection import Inspection
from topiarist.core.names import name_problem
from topiarist.core.plan import plan_without_specs
from topiarist.core.requested import NAMED
from topiarist.core.sizes import some
from topiarist.core.state import ClusterState
from topiarist.errors import Reason


class Nudging(NamedTuple):
    """The plan for one cluster, the topics that need no nudge, and the names that it has no topic of."""

    plan: Plan
    well: Sequence[str]
    absent: Sequence[str]


def checked(words: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct topic names, sorted. Raises ``ValueError`` for a word that is no topic name."""
    names = tuple(sorted(set(words)))
    if problems := [problem for name in names if (problem := name_problem(name))]:
        raise ValueError("; ".join(problems))
    return names


def plan_nudge(state: ClusterState, cluster: str, found: Mapping[str, Inspection | None], owner: str) -> Nudging:
    """Plan to nudge the topics of ``found``, of which the controller has left partitions without a state.

    ``found`` has what the controller has made of each topic; ``owner`` is that of the run.
    """
    there = [name for name in found if name in state.topics or name in state.faults]
    topics = [_topic(state, name, found[name]) for name in there]
    needed = [topic for topic in topics if not topic.silent]
    plan = plan_without_specs(state, cluster, owner, needed, state.warnings)
    return Nudging(
        plan, [topic.topic for topic in topics if topic.silent], [name for name in found if name not in there]
    )


def _topic(state: ClusterState, name: str, found: Inspection | None) -> TopicPlan:
    """Plan one topic; a plan without content means that the controller has taken all its partitions over."""
    topic = state.topics.get(name)
    record = topic.record if topic else None
    decided = _decide(state, name, found)
    changes = (decided,) if isinstance(decided, Nudge) else ()
    refusals = (decided,) if isinstance(decided, Finding) else ()
    return TopicPlan(name, topic, record, record, changes=changes, refusals=refusals)


def _decide(state: ClusterState, name: str, found: Inspection | None) -> Change | Finding | None:
    if fault := state.faults.get(name):
        instead = "correct the node: the controller looks at it when it is set"
        return Finding(Reason.ZNODE_UNREADABLE, f"{fault.where}: {fault.why}", instead=instead)
    topic, registered = state.topics[name], {broker.id for broker in state.brokers}
    if name in state.deleting:
        return Finding(Reason.DELETION_IN_PROGRESS, "is being deleted", instead="run again when it is gone")
    if found is None or not found.known or found.faults:
        message = "the states of its partitions cannot be read: whether it needs a nudge is not known"
        return Finding(Reason.ZNODE_UNREADABLE, message, instead=f"topiarist describe {name} says which, and why")
    replicas = dict(zip(topic.partition_ids, topic.replicas, strict=True))
    missing = tuple(partition for partition in replicas if partition not in found.states)
    if not missing:
        return None
    if topic.reassigning or name in state.reassigning:
        message = NAMED if name in state.reassigning else "its replicas are being reassigned"
        return Finding(Reason.REASSIGNMENT_IN_PROGRESS, message, instead="run again when that is done")
    waiting = tuple(partition for partition in missing if registered.isdisjoint(replicas[partition]))
    if waiting == missing:
        message = f"no broker of partition {some(waiting)} is registered: the controller waits for one"
        return Finding(Reason.BROKERS_MISSING, message, instead="start one of them; no nudge is needed then")
    return Nudge(tuple(partition for partition in missing if partition not in waiting))
