"""Properties of every plan: idempotent, deterministic, limited to its topics, and harmless to existing partitions."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import current_topic
from support.examples import examples
from support.memory_cluster import simulate
from support.strategies import PlanInput, plan_inputs
from topiarist.kafka import config_rules
from topiarist.kafka.config_table import THROTTLE_CONFIGS
from topiarist.kafka.types import UNPLACED, are_unplaced
from topiarist.model.plan import AddPartitions, CreateTopic, DeleteTopic, Plan, UpdateConfig
from topiarist.model.state import TopicState
from topiarist.planning.planner import make_plan
from topiarist.planning.preconditions import ALREADY_APPLIED, APPLICABLE, check_preconditions

T = TypeVar("T")

many = examples(400)


def _refusals(plan: Plan) -> set[tuple[str, str]]:
    return {(topic.topic, refusal.reason) for topic in plan.topics for refusal in topic.refusals}


def _deletes(plan: Plan) -> bool:
    return any(isinstance(change, DeleteTopic) for topic in plan.actionable_topics() for change in topic.changes)


@many
@given(plan_inputs())
def test_after_a_plan_nothing_is_left_to_do(world: PlanInput) -> None:
    """A second plan on the evolved state has no changes and the same refusals.

    A deletion may enable refused changes (a name, the replicas of an offline broker), and other changes wait for moves:
    then later runs make them, and the run after these has no changes. A topic created on an unknown broker (by flag)
    makes that broker an offline broker, and later runs refuse placements that leave it out.
    """
    plan = world.plan()
    later = world._replace(state=simulate(world.state, plan.topics))
    if _deletes(plan):
        plan = later.plan()
        later = later._replace(state=simulate(later.state, plan.topics))
    for _ in range(3 if world.cluster.moves.allow else 0):  # growth waits for moves, and is spread after it
        plan = later.plan()
        later = later._replace(state=simulate(later.state, plan.topics))
    after = later.plan()
    assert list(after.actionable_topics()) == []
    assert _refusals(after) == _refusals(plan) or world.run.allow_unknown_brokers


def _shuffled(mapping: Mapping[str, T], order: random.Random) -> dict[str, T]:
    keys = list(mapping)
    order.shuffle(keys)
    return {key: mapping[key] for key in keys}


@many
@given(plan_inputs(), st.randoms(use_true_random=False))
def test_the_order_of_input_means_nothing(world: PlanInput, order: random.Random) -> None:
    """Specs, topics, records and config maps in any order yield the same plan."""
    topics: dict[str, TopicState] = {}
    for name, topic in _shuffled(world.state.topics, order).items():
        topics[name] = replace(topic, config=_shuffled(topic.config, order))
    state = replace(world.state, topics=topics, dangling_records=_shuffled(world.state.dangling_records, order))
    specs = [replace(spec, config=_shuffled(spec.config, order)) for spec in world.specs]
    order.shuffle(specs)
    other = make_plan(state, world.cluster, specs, world.run)
    assert repr(_bare(other)) == repr(_bare(world.plan()))


def _bare(plan: Plan) -> Plan:
    """Return the plan without its inputs, which keep their own order."""
    return replace(plan, topics=tuple(replace(topic, spec=None, before=None) for topic in plan.topics))


@many
@given(plan_inputs())
def test_only_what_is_planned_changes(world: PlanInput) -> None:
    """Topics and records that the plan does not change are the identical objects in the evolved state."""
    plan = world.plan()
    after = simulate(world.state, plan.topics)
    touched = {topic.topic for topic in plan.actionable_topics()}
    for before, now_there in (
        (world.state.topics, after.topics),
        (world.state.dangling_records, after.dangling_records),
    ):
        assert {name: value for name, value in before.items() if name not in touched} == {
            name: value for name, value in now_there.items() if name not in touched
        }


@many
@given(plan_inputs())
def test_existing_partitions_stay(world: PlanInput) -> None:
    """Only a deleted topic loses partitions, and only moves change its replica lists."""
    plan = world.plan()
    after = simulate(world.state, plan.topics)
    deleted = {
        t.topic for t in plan.actionable_topics() if any(isinstance(change, DeleteTopic) for change in t.changes)
    }
    moves_by_topic = {
        t.topic: {move.partition: move.after for move in t.moves()} for t in plan.actionable_topics() if t.moves()
    }
    for name, before in world.state.topics.items():
        if name not in deleted:
            later, moved = after.topics[name], moves_by_topic.get(name, {})
            expected = [moved.get(at, old) for at, old in zip(before.partition_ids, before.replicas, strict=True)]
            assert list(later.replicas[: len(before.replicas)]) == expected
            assert list(later.partition_ids)[: len(before.replicas)] == list(before.partition_ids)
            assert (later.identity, later.topic_id) == (before.identity, before.topic_id)


@many
@given(plan_inputs())
def test_new_replicas_are_placed_where_they_may(world: PlanInput) -> None:
    """No partition has a broker twice; only registered, not excluded brokers are used, unless explicit and allowed.

    Through brokers, the cluster may choose all of them.
    """
    registered = {broker.id for broker in world.state.brokers}
    excluded = world.cluster.exclude_brokers | world.run.without_brokers
    for topic in world.plan().actionable_topics():
        for change in topic.changes:
            if not isinstance(change, CreateTopic | AddPartitions):
                continue
            explicit = topic.spec is not None and topic.spec.assignment is not None
            free = explicit and world.run.allow_unknown_brokers and isinstance(change, CreateTopic)
            if are_unplaced(change.replicas):
                assert not world.state.bypasses_brokers
                continue
            for replicas in change.replicas:
                assert len(set(replicas)) == len(replicas) > 0
                assert not set(replicas) & excluded
                assert free or set(replicas) <= registered


@many
@given(plan_inputs())
def test_growth_only_adds_to_sound_topics(world: PlanInput) -> None:
    """Growth is planned only for complete topics without reassignment and unknown fields, as wide as partition 0."""
    for topic in world.plan().actionable_topics():
        for change in topic.changes:
            if isinstance(change, AddPartitions):
                before = topic.before
                assert before is not None
                assert before.has_contiguous_partitions
                assert not before.reassigning_partitions
                assert not before.unknown_fields
                assert topic.topic not in world.state.reassigning_topics | world.state.pending_deletions
                has_lists = world.state.capabilities.growth_lists.is_given
                first = before.replicas[0] if has_lists else (UNPLACED,) * len(before.replicas[0])
                assert (change.before, change.first_replicas) == (len(before.replicas), first)
                assert {len(replicas) for replicas in change.replicas} == {len(before.replicas[0])}


@many
@given(plan_inputs())
def test_config_is_changed_three_ways_only(world: PlanInput) -> None:
    """A key is set because the spec has it; removed if managed, or if unmanaged keys are to be removed; else kept.

    An unmanaged key is removed only if the release has it.
    """
    release = world.cluster.version or world.state.min_version
    for topic in world.plan().actionable_topics():
        for change in topic.changes:
            if not isinstance(change, UpdateConfig):
                continue
            wanted, before = topic.spec, topic.before
            assert wanted is not None
            assert before is not None
            ours = before.valid_record.config_keys if before.valid_record else ()
            for item in change.items:
                assert item.before == before.config.get(item.key)
                assert f"config.{item.key}" not in wanted.ignored_fields
                if item.after is None:
                    assert item.key not in wanted.config
                    assert item.key in ours or (
                        wanted.remove_unmanaged and config_rules.is_supported(item.key, release)
                    )
                    assert item.key not in THROTTLE_CONFIGS
                else:
                    assert item.after == wanted.config[item.key]


@many
@given(plan_inputs())
def test_topics_of_others_are_never_touched(world: PlanInput) -> None:
    """Topics of another owner change only with ``--take-ownership``, and are not deleted even with it."""
    for topic in world.plan().actionable_topics():
        record = topic.before.valid_record if topic.before else topic.record_before
        if record and record.owner != world.run.owner:
            assert world.run.take_ownership
            assert not any(isinstance(change, DeleteTopic) for change in topic.changes)


@many
@given(plan_inputs())
def test_unadopted_topics_are_only_adopted(world: PlanInput) -> None:
    """A topic without a valid record is changed only if the run may adopt it, and is never deleted."""
    for topic in world.plan().actionable_topics():
        if topic.before and topic.before.valid_record is None:
            assert not any(isinstance(change, DeleteTopic) for change in topic.changes)
            assert world.run.may_adopt(topic.topic) or [type(change).__name__ for change in topic.changes] == [
                "TakeOwnership"
            ]


@many
@given(plan_inputs())
def test_a_plan_knows_before_from_after(world: PlanInput) -> None:
    """A topic matches the plan's preconditions in the original state, and the plan's result in the evolved state."""
    plan = world.plan()
    after = simulate(world.state, plan.topics)
    for topic in plan.actionable_topics():
        assert check_preconditions(topic, plan.assumptions(), current_topic(world.state, topic.topic)) == APPLICABLE
        assert check_preconditions(topic, plan.assumptions(), current_topic(after, topic.topic)) == ALREADY_APPLIED


@many
@given(plan_inputs())
def test_the_record_holds_what_was_planned(world: PlanInput) -> None:
    """After the plan, the record is valid, equals the planned one, and lists only keys that are set or withheld."""
    plan = world.plan()
    after = simulate(world.state, plan.topics)
    for topic in plan.actionable_topics():
        later = after.topics.get(topic.topic)
        if later is None:
            assert after.dangling_records[topic.topic] == topic.record_after
            continue
        assert later.valid_record == topic.record_after
        assert later.valid_record is not None
        assert later.valid_record.owner == world.run.owner
        asked = topic.spec.config.keys() if topic.spec else set()
        assert set(later.valid_record.config_keys) <= later.config.keys() | asked


@many
@given(plan_inputs())
def test_a_closed_gate_lets_nothing_through(world: PlanInput) -> None:
    """With a write block, the plan has no changes to apply, and every change is withheld."""
    if world.state.write_block.reason:
        assert not world.plan().has_changes
        opened = world._replace(state=replace(world.state, write_block=type(world.state.write_block)())).plan()
        held = {topic.topic for topic in world.plan().topics if any(refusal.withheld for refusal in topic.refusals)}
        assert {topic.topic for topic in opened.actionable_topics()} <= held
