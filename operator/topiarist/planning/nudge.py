"""Plans to nudge topics that the controller has missed: their entries are written again, unchanged.

A controller in ZooKeeper mode reads the entries of all new topics at once, and misses all of them if one cannot be
decoded. After that it knows their names and watches their entries. A write of the same data makes the controller
initialize the partitions without a state. No record, config or assignment changes, so topics of every owner may be
nudged. ``cli.commands.apply`` calls this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from topiarist.errors import Reason
from topiarist.kafka.types import topic_name_problem
from topiarist.model.plan import Change, Issue, Nudge, Plan, TopicPlan
from topiarist.model.state import ClusterState, TopicInspection
from topiarist.planning.existing_problems import NAMED_BY_REQUEST
from topiarist.planning.planner import HINT_AFTER_DELETION, plan_without_specs, unreadable_issue
from topiarist.text import shorten_list


class NudgePlan(NamedTuple):
    """The plan to nudge topics of one cluster.

    ``initialized`` has the topics that need no nudge, ``not_found`` the names that the cluster does not have.
    """

    plan: Plan
    initialized: Sequence[str]
    not_found: Sequence[str]


def parse_topic_names(raw_names: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct topic names, sorted.

    Raises ``ValueError`` if a name is not a valid topic name.
    """
    names = tuple(sorted(set(raw_names)))
    if problems := [problem for name in names if (problem := topic_name_problem(name))]:
        raise ValueError("; ".join(problems))
    return names


def plan_nudge(
    state: ClusterState, cluster: str, inspections: Mapping[str, TopicInspection | None], owner: str
) -> NudgePlan:
    """Return the plan to nudge the topics of ``inspections``.

    A topic is nudged if it has partitions without a state. ``inspections`` has the partition states of each topic;
    ``owner`` is that of the run.
    """
    existing = [name for name in inspections if name in state.topics or name in state.topic_errors]
    topics = [_plan_topic(state, name, inspections[name]) for name in existing]
    needed = [topic for topic in topics if not topic.is_empty]
    plan = plan_without_specs(state, cluster, owner, needed, state.warnings)
    return NudgePlan(
        plan,
        [topic.topic for topic in topics if topic.is_empty],
        [name for name in inspections if name not in existing],
    )


def _plan_topic(state: ClusterState, name: str, inspection: TopicInspection | None) -> TopicPlan:
    """Return the plan of one topic; empty if all its partitions are initialized."""
    topic = state.topics.get(name)
    record = topic.record if topic else None
    decided = _decide_nudge(state, name, inspection)
    changes = (decided,) if isinstance(decided, Nudge) else ()
    refusals = (decided,) if isinstance(decided, Issue) else ()
    return TopicPlan(name, topic, record, record, changes=changes, refusals=refusals)


def _decide_nudge(state: ClusterState, name: str, inspection: TopicInspection | None) -> Change | Issue | None:
    if read_error := state.topic_errors.get(name):
        hint = "repair it; the controller reads it when it is written, so no nudge is needed"
        return unreadable_issue(read_error)._replace(hint=hint)
    topic, registered = state.topics[name], {broker.id for broker in state.brokers}
    if name in state.pending_deletions:
        return Issue(Reason.DELETION_IN_PROGRESS, "is marked for deletion", hint=HINT_AFTER_DELETION)
    if inspection is None or not inspection.states_readable or inspection.partition_errors:
        message = "its partition states cannot be read, so it is unknown whether the topic needs a nudge"
        return Issue(Reason.TOPIC_UNREADABLE, message, hint=f"run topiarist describe {name} for what cannot be read")
    replicas = dict(zip(topic.partition_ids, topic.replicas, strict=True))
    missing = tuple(partition for partition in replicas if partition not in inspection.states)
    if not missing:
        return None
    if topic.reassigning_partitions or name in state.reassigning_topics:
        message = NAMED_BY_REQUEST if name in state.reassigning_topics else "its replicas are being reassigned"
        return Issue(Reason.REASSIGNMENT_IN_PROGRESS, message, hint="run again when the reassignment is done")
    if not state.bypasses_brokers:
        message = f"the controller has not initialized partition {shorten_list(missing)}"
        hint = "wait for the controller: through the brokers no client can make it read a topic again"
        return Issue(Reason.NOT_INITIALIZED, message, hint=hint)
    # The controller initializes a partition only if one of its brokers is registered, nudge or not.
    waiting = tuple(partition for partition in missing if registered.isdisjoint(replicas[partition]))
    if waiting == missing:
        message = f"no broker of partition {shorten_list(waiting)} is registered, and the controller waits for one"
        return Issue(Reason.BROKERS_MISSING, message, hint="start one of these brokers; then no nudge is needed")
    return Nudge(tuple(partition for partition in missing if partition not in waiting))
