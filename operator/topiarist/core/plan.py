"""The difference: what has to change on a cluster so that it is what its specs say, and what will not be changed.

``plan_topic`` decides about one topic, ``make_plan`` about all topics of a cluster. Both are pure: the same spec,
state and run give the same plan, to the byte. What was asked for and will not be done is a ``Finding`` with its
reason, never an exception; what can be done is still done. ::

    topic on the cluster?   record of ours?    difference?     result
    no                      no                 -               create
    no                      yes                -               refused (DeletedOutside) unless --recreate
    yes                     no, or stale       no              adopt
    yes                     no, or stale       yes             refused (NotAdopted) unless --adopt
    yes                     another owner's    -               refused (NotOwned) unless --take-ownership
    yes                     ours               no              nothing
    yes                     ours               yes             add partitions, update config

``creation`` has the topics that are not there, ``differences`` the fields of those that are, ``faults`` what is wrong
with them already; ``evolve`` says what the cluster would then hold; ``policy`` filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from topiarist.core import differences, faults, witness
from topiarist.core.change import AddPartitions, Adopt, CreateTopic, DeleteTopic, Finding, Plan, TopicPlan, UpdateConfig
from topiarist.core.creation import plan_missing
from topiarist.core.differences import record_after
from topiarist.core.draft import EVERY, LEAVE_TO_KAFKA, Context, Draft, Run
from topiarist.core.holding import hold
from topiarist.core.names import INTERNAL_TOPICS, unify
from topiarist.core.placing import Placing
from topiarist.core.requested import NAMED, explain
from topiarist.core.risk import of_deletion
from topiarist.core.room import within_room
from topiarist.core.rules import judging
from topiarist.core.spec import ClusterSpec, TopicSpec
from topiarist.core.state import ClusterState, TopicRecord, TopicState
from topiarist.core.waiting import sight, waits_for
from topiarist.errors import Reason

__all__ = ["EVERY", "Context", "Run", "context_of", "make_plan", "plan_topic"]


def make_plan(state: ClusterState, cluster: ClusterSpec, specs: Iterable[TopicSpec], run: Run) -> Plan:
    """The plan for one cluster; no two ``specs`` have one name, or names that collide (``desired`` sees to it)."""
    context = context_of(state, cluster, run)
    plans, unchanged, declared = [], 0, set()
    for spec in specs:
        declared.add(spec.topic)
        plan = plan_topic(spec, context)
        if plan.changes or plan.refusals:
            plans.append(plan)
        else:
            unchanged += 1
            if plan.notices:
                plans.append(plan)
    plans.sort(key=lambda plan: plan.topic)
    plans, warnings = within_room(plans, state.room)
    plans = behind_gate(plans, state)
    places = any(plan.new_replicas() for plan in plans)
    return Plan(
        cluster=cluster.name,
        cluster_id=state.cluster_id,
        location=state.location,
        owner=run.owner,
        brokers=state.brokers,
        topics=tuple(plans),
        unchanged=unchanged,
        orphans=_orphans(state, run, declared),
        warnings=(*state.warnings, *_doubts(state, cluster), *warnings, *_bypassed(plans)),
        load=context.placing.load() if places else {},
        gate=state.gate,
        judging=judging(cluster),
        release_at_least=state.release_at_least,
        controller=state.controller,
        controller_epoch=state.controller_epoch,
    )


def plan_topic(spec: TopicSpec, context: Context) -> TopicPlan:
    """What there is to do, to refuse and to say about one topic."""
    state, name = context.state, spec.topic
    draft = Draft(spec, context)
    if fault := state.faults.get(name):
        draft.refuse(
            Reason.ZNODE_UNREADABLE, f"{fault.where}: {fault.why}", instead="mend it; nothing is written until then"
        )
        return _finished(draft, None, None)
    topic = state.topics.get(name)
    record = state.record_of(name)
    if name in state.deleting:
        if spec.absent:
            draft.notice(Reason.DELETION_IN_PROGRESS, f"marked for deletion: {waits_for(sight(state, name))}")
        else:
            draft.refuse(Reason.DELETION_IN_PROGRESS, "is being deleted", instead="run again when it has gone")
    elif topic is None:
        plan_missing(draft, record)
    elif spec.absent:
        _plan_deletion(draft, topic)
    else:
        _plan_existing(draft, topic)
    return _finished(draft, topic, record)


def plan_without_specs(
    state: ClusterState, cluster: str, owner: str, topics: Iterable[TopicPlan], warnings: tuple[str, ...] = ()
) -> Plan:
    """Return the plan of a command that releases or nudges topics, with what the cluster's gate leaves of it."""
    return Plan(
        cluster=cluster,
        cluster_id=state.cluster_id,
        location=state.location,
        owner=owner,
        brokers=state.brokers,
        topics=tuple(behind_gate([*topics], state)),
        warnings=warnings,
        gate=state.gate,
        controller=state.controller,
        controller_epoch=state.controller_epoch,
    )


def context_of(
    state: ClusterState,
    cluster: ClusterSpec,
    run: Run,
    holders: frozenset[int] | None = None,
    neighbours: Iterable[str] = (),
) -> Context:
    """What is the same for every topic of a plan, found once.

    Where ``state`` has only some topics of a cluster, ``holders`` are the brokers that hold replicas of any that stays,
    and ``neighbours`` the others by name with which one of them may collide.
    """
    placing = Placing(state, cluster, run.without_brokers, run.allow_unknown_brokers, holders)
    unified = unify(chain(state.topics, state.faults, neighbours))
    return Context(state, cluster, run, placing, cluster.settings(state.broker_defaults), unified)


def _finished(draft: Draft, topic: TopicState | None, record: TopicRecord | None) -> TopicPlan:
    """The plan from its draft; a record that would change is a change too, of the record only."""
    spec, owner = draft.spec, draft.context.run.owner
    after = record
    if draft.changes and isinstance(draft.changes[0], DeleteTopic):
        after = TopicRecord(owner, absent=True)
    elif draft.changes and isinstance(draft.changes[0], CreateTopic):
        after = record_after(owner, spec, draft.changes[0].config, len(draft.changes[0].replicas), None)
    elif topic is not None and _touchable(draft):
        config = differences.config_after(topic.config, draft.changes) if draft.changes else topic.config
        partitions = differences.partitions_after(len(topic.replicas), draft.changes)
        after = record_after(owner, spec, config, partitions, topic.valid_record)
        if not draft.changes and topic.valid_record == replace(after, applied=None):
            after = topic.valid_record  # one that knows no values yet gains them with the next write
        if not draft.changes and after != topic.valid_record:
            draft.changes.append(Adopt())
    return TopicPlan(
        topic=spec.topic,
        before=topic,
        record_before=record,
        record_after=after,
        changes=tuple(draft.changes),
        refusals=tuple(draft.refusals),
        notices=tuple(draft.notices),
        observed=spec.observe,
        spec=spec,
    )


_UNTOUCHABLE = frozenset({Reason.NOT_OWNED, Reason.NOT_ADOPTED, Reason.DELETION_IN_PROGRESS, Reason.DELETION_DISABLED})


def _touchable(draft: Draft) -> bool:
    return not draft.spec.absent and _UNTOUCHABLE.isdisjoint([refusal.reason for refusal in draft.refusals])


def _plan_existing(draft: Draft, topic: TopicState) -> None:
    run, record = draft.context.run, topic.valid_record
    _notice_stale(draft, topic)
    if record and record.owner != run.owner and not run.takes(topic.name):
        draft.refuse_foreign(record)
        return
    if record and topic.changed_outside:
        draft.notice(Reason.CHANGED_OUTSIDE, witness.changed_outside(record, topic.config), ("config",))
    differences.find(draft, topic)
    faults.find(draft, topic)
    differs = bool(draft.changes or draft.refusals)
    if record is None and differs and not draft.spec.observe and not run.adopts(topic.name):
        held, draft.changes = tuple(draft.changes), []
        draft.refuse(
            Reason.NOT_ADOPTED,
            "exists already, was not made by topiarist, and differs",
            instead=f"if it is meant: --adopt={topic.name}, or --adopt='*' for all",
            held=held,
        )


def _notice_stale(draft: Draft, topic: TopicState) -> None:
    if topic.record and not topic.record_valid:
        draft.notice(Reason.STALE_RECORD, "our record belongs to an earlier topic of this name: it counts as none")


def _plan_deletion(draft: Draft, topic: TopicState) -> None:
    """``ensure: Absent`` on a topic that is there; only a record from before this run counts, none is taken over."""
    record, path = topic.valid_record, ("ensure",)
    _notice_stale(draft, topic)
    if topic.name in INTERNAL_TOPICS:
        instead = LEAVE_TO_KAFKA
        draft.refuse(Reason.INTERNAL_TOPIC, "Kafka's own topic is not deleted", path, instead=instead)
    elif draft.context.protects(topic.name):
        message = "belongs to other software: it is not deleted"
        draft.refuse(Reason.PROTECTED_TOPIC, message, path, instead="Cluster.spec.protected lists the names")
    elif record is None:
        message = "was not made or adopted by topiarist before this run: it is not deleted"
        draft.refuse(Reason.NOT_ADOPTED, message, path, instead="adopt it first (ensure: Present), then ask again")
    elif record.owner != draft.context.run.owner:
        message = f"belongs to owner {record.owner}, this run is {draft.context.run.owner}: it is not deleted"
        instead = f"leave it to its owner, or take it over first (ensure: Present and --take-ownership={topic.name})"
        draft.refuse(Reason.NOT_OWNED, message, path, instead=instead)
    elif record.absent:
        message = "we marked it for deletion, the mark has gone and the topic is still there"
        instead = (
            "the brokers have delete.topic.enable=false. Leave the topic (ensure: Present, or release it); or turn"
        )
        instead += " that on, say ensure: Present once, and then Absent again"
        draft.refuse(Reason.DELETION_DISABLED, message, path, instead=instead)
    elif topic.name in draft.context.state.reassigning:
        message = f"{NAMED}: its entry would stay, and move a topic of this name that is made later"
        instead = "run again when the reassignment is done"
        if topic.name in draft.context.state.stale_requests:
            message, instead = explain(there=True)
        draft.refuse(Reason.REASSIGNMENT_IN_PROGRESS, message, path, instead=instead)
    else:
        partitions, replicas = len(topic.replicas), sum(map(len, topic.replicas))
        draft.changes.append(DeleteTopic(partitions, replicas, of_deletion(partitions, replicas)))


def behind_gate(plans: list[TopicPlan], state: ClusterState) -> list[TopicPlan]:
    """The plans, or nothing but refusals where the cluster must not be written to at all."""
    if state.gate.reason is None:
        return plans
    finding = Finding(state.gate.reason, state.gate.message)
    return [hold(plan, plan.changes, finding) if plan.to_do else plan for plan in plans]


def _orphans(state: ClusterState, run: Run, declared: set[str]) -> tuple[str, ...]:
    """Topics that a record says are this owner's and that no manifest of the run names."""
    return tuple(
        sorted(
            name
            for name, topic in state.topics.items()
            if (record := topic.valid_record) and record.owner == run.owner and name not in declared
            if name not in state.deleting
        )
    )


def _doubts(state: ClusterState, cluster: ClusterSpec) -> Iterable[str]:
    """What a person should know about the cluster before trusting a plan."""
    if cluster.cluster_id == "" and cluster.source is not None:
        yield f"no clusterId guards this cluster; add to spec: clusterId: {state.cluster_id}"
    if cluster.release is not None and cluster.release < state.release_at_least:
        seen = ".".join(map(str, state.release_at_least))
        yield f"kafkaVersion is {'.'.join(map(str, cluster.release))}, but the cluster shows signs of {seen} or later"


def _bypassed(plans: Sequence[TopicPlan]) -> Iterable[str]:
    """Writing to ZooKeeper goes past the guards of Kafka's own interface: whoever reviews should know."""
    changes = chain.from_iterable(plan.changes for plan in plans if plan.to_do)
    if any(isinstance(change, CreateTopic | AddPartitions | UpdateConfig) for change in changes):
        yield "written to ZooKeeper directly: the brokers' topic and config policies, ACLs and quotas are not asked"
