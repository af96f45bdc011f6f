"""What holds for every plan: it is a fixpoint, deterministic, local, and never harms what stands."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from topiarist.core import configs
from topiarist.core.change import AddPartitions, CreateTopic, DeleteTopic, Plan, UpdateConfig
from topiarist.core.differences import THROTTLES
from topiarist.core.evolve import AFTER, BEFORE, evolve, standing
from topiarist.core.plan import make_plan
from topiarist.core.state import TopicState
from unit.builders import now
from unit.strategies import World, worlds

T = TypeVar("T")

many = settings(max_examples=400)


def _refusals(plan: Plan) -> set[tuple[str, str]]:
    return {(topic.topic, refusal.reason) for topic in plan.topics for refusal in topic.refusals}


def _deletes(plan: Plan) -> bool:
    return any(isinstance(change, DeleteTopic) for topic in plan.to_do() for change in topic.changes)


@many
@given(worlds())
def test_after_a_plan_nothing_is_left_to_do(world: World) -> None:
    """Plan, evolve, plan again: no change is left, and exactly the same is refused.

    A deletion may make room for what was refused (a name, the replicas of a lost broker): then the run after it does
    the rest, and the next has nothing to do. A topic made on a broker that nobody knows (by flag) makes that broker one
    that is missing, which later runs refuse to place around.
    """
    plan = world.plan()
    later = world._replace(state=evolve(world.state, plan.topics))
    if _deletes(plan):
        plan = later.plan()
        later = later._replace(state=evolve(later.state, plan.topics))
    after = later.plan()
    assert list(after.to_do()) == []
    assert _refusals(after) == _refusals(plan) or world.run.allow_unknown_brokers


def _shuffled(mapping: Mapping[str, T], order: random.Random) -> dict[str, T]:
    keys = list(mapping)
    order.shuffle(keys)
    return {key: mapping[key] for key in keys}


@many
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_input_means_nothing(world: World, order: random.Random) -> None:
    """Specs, topics, records and config maps in any order give the same plan."""
    topics: dict[str, TopicState] = {}
    for name, topic in _shuffled(world.state.topics, order).items():
        topics[name] = replace(topic, config=_shuffled(topic.config, order))
    state = replace(world.state, topics=topics, records=_shuffled(world.state.records, order))
    specs = [replace(spec, config=_shuffled(spec.config, order)) for spec in world.specs]
    order.shuffle(specs)
    other = make_plan(state, world.cluster, specs, world.run)
    assert repr(_bare(other)) == repr(_bare(world.plan()))


def _bare(plan: Plan) -> Plan:
    """The plan without what it was made from, whose order is its own."""
    return replace(plan, topics=tuple(replace(topic, spec=None, before=None) for topic in plan.topics))


@many
@given(worlds())
def test_only_what_is_planned_changes(world: World) -> None:
    """A topic or record that the plan does not touch is the very same afterwards."""
    plan = world.plan()
    after = evolve(world.state, plan.topics)
    touched = {topic.topic for topic in plan.to_do()}
    for before, now_there in ((world.state.topics, after.topics), (world.state.records, after.records)):
        assert {name: value for name, value in before.items() if name not in touched} == {
            name: value for name, value in now_there.items() if name not in touched
        }


@many
@given(worlds())
def test_existing_partitions_stay(world: World) -> None:
    """No topic but a deleted one loses a partition, none sees a replica list changed or its identity replaced."""
    plan = world.plan()
    after = evolve(world.state, plan.topics)
    deleted = {t.topic for t in plan.to_do() if any(isinstance(change, DeleteTopic) for change in t.changes)}
    for name, before in world.state.topics.items():
        if name not in deleted:
            later = after.topics[name]
            assert later.replicas[: len(before.replicas)] == before.replicas
            assert list(later.partition_ids)[: len(before.replicas)] == list(before.partition_ids)
            assert (later.identity, later.topic_id) == (before.identity, before.topic_id)


@many
@given(worlds())
def test_new_replicas_are_placed_where_they_may(world: World) -> None:
    """No broker twice in a partition; only registered brokers, none left out, unless explicit and allowed."""
    registered = {broker.id for broker in world.state.brokers}
    excluded = world.cluster.exclude_brokers | world.run.without_brokers
    for topic in world.plan().to_do():
        for change in topic.changes:
            if not isinstance(change, CreateTopic | AddPartitions):
                continue
            explicit = topic.spec is not None and topic.spec.assignment is not None
            free = explicit and world.run.allow_unknown_brokers and isinstance(change, CreateTopic)
            for replicas in change.replicas:
                assert len(set(replicas)) == len(replicas) > 0
                assert not set(replicas) & excluded
                assert free or set(replicas) <= registered


@many
@given(worlds())
def test_growth_only_adds_to_sound_topics(world: World) -> None:
    """Growth is planned only for whole, quiet topics without foreign fields, by lists as wide as partition 0."""
    for topic in world.plan().to_do():
        for change in topic.changes:
            if isinstance(change, AddPartitions):
                before = topic.before
                assert before is not None
                assert before.whole
                assert not before.reassigning
                assert not before.unknown_fields
                assert topic.topic not in world.state.reassigning | world.state.deleting
                assert (change.before, change.model) == (len(before.replicas), before.replicas[0])
                assert {len(replicas) for replicas in change.replicas} == {len(before.replicas[0])}


@many
@given(worlds())
def test_config_is_changed_three_ways_only(world: World) -> None:
    """A key is set because the spec names it; removed because we set it, or none unmanaged are wanted; else kept.

    What we never set is removed only if the release knows it.
    """
    release = world.cluster.release or world.state.release_at_least
    for topic in world.plan().to_do():
        for change in topic.changes:
            if not isinstance(change, UpdateConfig):
                continue
            wanted, before = topic.spec, topic.before
            assert wanted is not None
            assert before is not None
            ours = before.valid_record.config if before.valid_record else ()
            for item in change.items:
                assert item.before == before.config.get(item.key)
                assert f"config.{item.key}" not in wanted.ignore
                if item.after is None:
                    assert item.key not in wanted.config
                    assert item.key in ours or (wanted.remove_unmanaged and configs.known(item.key, release))
                    assert item.key not in THROTTLES
                else:
                    assert item.after == wanted.config[item.key]


@many
@given(worlds())
def test_topics_of_others_are_never_touched(world: World) -> None:
    """Without --take-ownership nothing of another owner changes, and even with it nothing of theirs is deleted."""
    for topic in world.plan().to_do():
        record = topic.before.valid_record if topic.before else topic.record_before
        if record and record.owner != world.run.owner:
            assert world.run.take_ownership
            assert not any(isinstance(change, DeleteTopic) for change in topic.changes)


@many
@given(worlds())
def test_unadopted_topics_are_only_adopted(world: World) -> None:
    """A topic without a record that counts is changed only if the run was told to adopt it, and never deleted."""
    for topic in world.plan().to_do():
        if topic.before and topic.before.valid_record is None:
            assert not any(isinstance(change, DeleteTopic) for change in topic.changes)
            assert world.run.adopts(topic.topic) or [type(change).__name__ for change in topic.changes] == ["Adopt"]


@many
@given(worlds())
def test_a_plan_knows_before_from_after(world: World) -> None:
    """Seen from the state it was made from a topic stands before, seen from the evolved state after its changes."""
    plan = world.plan()
    after = evolve(world.state, plan.topics)
    for topic in plan.to_do():
        assert standing(topic, plan.basis(), now(world.state, topic.topic)) == BEFORE
        assert standing(topic, plan.basis(), now(after, topic.topic)) == AFTER


@many
@given(worlds())
def test_the_record_holds_what_was_planned(world: World) -> None:
    """After the plan our record counts, is the planned one, and names only keys that are set, or held back."""
    plan = world.plan()
    after = evolve(world.state, plan.topics)
    for topic in plan.to_do():
        later = after.topics.get(topic.topic)
        if later is None:
            assert after.records[topic.topic] == topic.record_after
            continue
        assert later.valid_record == topic.record_after
        assert later.valid_record is not None
        assert later.valid_record.owner == world.run.owner
        asked = topic.spec.config.keys() if topic.spec else set()
        assert set(later.valid_record.config) <= later.config.keys() | asked


@many
@given(worlds())
def test_a_closed_gate_lets_nothing_through(world: World) -> None:
    """Where the cluster must not be written to there is nothing to do, and every change that was found is held."""
    if world.state.gate.reason:
        assert not world.plan().pending
        opened = world._replace(state=replace(world.state, gate=type(world.state.gate)())).plan()
        held = {topic.topic for topic in world.plan().topics if any(refusal.held for refusal in topic.refusals)}
        assert {topic.topic for topic in opened.to_do()} <= held
