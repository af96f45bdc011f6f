"""Clusters that match their specs except for one difference for each topic, to detect a comparison that is too lax.

In a random cluster almost every topic has several differences, which hide a missed one.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec.structs import replace

from support.strategies import PlanInput
from topiarist.model.spec import TopicSpec
from topiarist.model.state import ClusterState, OwnershipRecord, ReadError, TopicState, WriteBlock

TopicChange = Callable[[TopicState], TopicState]


def _set_config(key: str, text: str | None) -> TopicChange:
    def change(topic: TopicState) -> TopicState:
        config = {name: value for name, value in topic.config.items() if name != key}
        return replace(topic, config=config if text is None else {**config, key: text})

    return change


def _change_record(**fields: Any) -> TopicChange:
    return lambda topic: replace(topic, record=replace(topic.record or OwnershipRecord("default"), **fields))


def _change_lists(change: Callable[[list[tuple[int, ...]]], list[tuple[int, ...]]]) -> TopicChange:
    def changed(topic: TopicState) -> TopicState:
        lists = tuple(change(list(topic.replicas)))
        return replace(topic, replicas=lists, partition_ids=range(len(lists)))

    return changed


CHANGES: tuple[TopicChange, ...] = (
    _set_config("retention.ms", "1"),
    _set_config("retention.ms", None),
    _set_config("flush.ms", "7"),
    _set_config("follower.replication.throttled.replicas", "*"),
    _set_config("min.insync.replicas", "3"),
    _set_config("min.insync.replicas", "+1"),
    _set_config("cleanup.policy", "compact , delete"),
    _change_record(owner="another"),
    _change_record(deleted=True),
    _change_record(config_keys=()),
    lambda topic: replace(topic, record=None, record_valid=False),
    lambda topic: replace(topic, record_valid=False),
    lambda topic: replace(topic, modified_externally=True),
    lambda topic: replace(topic, unknown_fields=("vendor",)),
    lambda topic: replace(topic, reassigning_partitions=(0,)),
    lambda topic: replace(topic, partition_ids=range(1, len(topic.replicas) + 1)),
    _change_lists(lambda lists: lists[:-1]),
    _change_lists(lambda lists: [*lists, lists[0]] if lists else [(1,)]),
    _change_lists(lambda lists: [(), *lists[1:]]),
    _change_lists(lambda lists: [lists[0][:1], *lists[1:]] if lists else []),
    _change_lists(lambda lists: [lists[0][::-1], *lists[1:]] if lists else []),
    _change_lists(lambda lists: [(9, *lists[0][1:]), *lists[1:]] if lists else []),
)
"""One thing that may be otherwise; 9 is a broker that is not registered."""


def make_near_equal(plan_input: PlanInput, seed: int) -> PlanInput:
    """Return the world with every topic equal to its spec, and then one difference in half of the topics.

    Topics with ``ensure: Absent`` exist as well.
    """
    random, cluster = Random(seed), replace(plan_input.cluster, default_config={})
    specs = tuple(replace(spec, observe_only=False) for spec in plan_input.specs)
    asked = {spec.topic: _matching_topic(spec) for spec in specs}
    bare = replace(
        plan_input.state,
        write_block=WriteBlock(),
        pending_deletions=frozenset(),
        reassigning_topics=frozenset(),
        topic_errors={},
        dangling_records={},
    )
    topics = {name: _maybe_change(random, topic) for name, topic in asked.items() if random.random() < 0.95}
    return PlanInput(_mark_some_topics(random, replace(bare, topics=topics)), cluster, specs, plan_input.run)


def _matching_topic(spec: TopicSpec) -> TopicState:
    """Return a topic that matches its spec, with the ownership record that its plan would write."""
    width = spec.replication_factor or 2
    lists = [tuple((first + step) % 4 + 1 for step in range(width)) for first in range(spec.create_partitions)]
    replicas = spec.assignment or tuple(lists)
    record = OwnershipRecord("default", tuple(sorted(spec.config)))
    return TopicState(spec.topic, "7", replicas, dict(spec.config), record=record, record_valid=True)


def _maybe_change(random: Random, topic: TopicState) -> TopicState:
    return random.choice(CHANGES)(topic) if random.random() < 0.5 else topic


def _mark_some_topics(random: Random, state: ClusterState) -> ClusterState:
    """Make some topics marked for deletion or unreadable."""
    names = sorted(state.topics)
    marked = frozenset(name for name in names if random.random() < 0.05)
    faulty = {name for name in names if random.random() < 0.05}
    return replace(
        state,
        pending_deletions=marked,
        topics={name: topic for name, topic in state.topics.items() if name not in faulty},
        topic_errors={name: ReadError(f"/brokers/topics/{name}", "is no JSON") for name in faulty},
    )
