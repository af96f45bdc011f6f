"""A whole plan against a whole cluster: which of its topics still stand as it saw them, which are done, which moved.

``evolve.standing`` says it of one topic; an adapter asks that directly before a write. Here it is said of all of them,
for a plan that was kept and may long be untrue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from topiarist.core.change import Finding, Plan, TopicPlan
from topiarist.core.evolve import AFTER, Now, Position, Standing, standing
from topiarist.core.holding import hold
from topiarist.core.names import unify
from topiarist.core.placing import Placing
from topiarist.core.spec import ClusterSpec
from topiarist.core.state import ClusterState


def standings(plan: Plan, state: ClusterState) -> Iterator[tuple[TopicPlan, Standing]]:
    """Each topic that ``plan`` touches, and where it stands."""
    basis, brokers = plan.basis(), {broker.id: broker for broker in state.brokers}
    unified = unify(chain(state.topics, state.faults))
    for topic in plan.to_do():
        if fault := state.faults.get(topic.topic):
            yield topic, Standing(Position.MOVED, f"{fault.where}: {fault.why}")
            continue
        found = state.topics.get(topic.topic)
        now = Now(
            topic=found,
            record=state.record_of(topic.topic),
            marked=topic.topic in state.deleting,
            reassigning=topic.topic in state.reassigning,
            brokers=brokers,
            broker_defaults=state.broker_defaults,
            release_at_least=state.release_at_least,
            unified=unified,
        )
        yield topic, standing(topic, basis, now)


class Looked(NamedTuple):
    """A plan that was kept, seen from a cluster now: what is left of it, and topics that are done already or moved.

    ``plan`` has the topics that are not done, with what a reader wants to know of the cluster as it is now; those that
    moved are in it too, and ``moved`` says what was expected and what is there.
    """

    plan: Plan
    done: tuple[TopicPlan, ...]
    moved: Mapping[str, str]

    def standing(self) -> Plan:
        """The plan without the topics that moved."""
        return replace(self.plan, topics=tuple(topic for topic in self.plan.topics if topic.topic not in self.moved))


def look(plan: Plan, state: ClusterState) -> Looked:
    """``plan``, which was made earlier, held against a cluster as it is now.

    A cluster that must not be written to holds back all that is left. No file makes more topics unchanged than there
    are: a budget may be a share of them.
    """
    found = {topic.topic: stands for topic, stands in standings(plan, state)}
    done = tuple(topic for topic in plan.topics if found.get(topic.topic) == AFTER)
    left = [topic for topic in plan.topics if found.get(topic.topic) != AFTER]
    if state.gate.reason:
        closed = Finding(state.gate.reason, state.gate.message)
        left = [hold(topic, topic.changes, closed) if topic.to_do else topic for topic in left]
    settled = {topic.topic for topic in plan.topics if topic.changes or topic.refusals}
    placing = Placing(state, ClusterSpec(), frozenset(), allow_unknown=True)
    fresh = replace(
        plan,
        topics=tuple(left),
        unchanged=min(plan.unchanged, len(state.topics.keys() - settled)) + len(done),
        brokers=state.brokers,
        gate=state.gate,
        warnings=plan.warnings if any(topic.to_do for topic in left) else (),
        load=placing.load() if any(topic.new_replicas() for topic in left) else {},
        controller=state.controller,
        controller_epoch=state.controller_epoch,
    )
    moved = {topic: stands.message for topic, stands in found.items() if stands.position is Position.MOVED}
    return Looked(fresh, done, {} if state.gate.reason else moved)
